"""A list of objects on standard output: filtered, in the form of -o, once or with every change."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec
from scavenger_kube.blocking import Client
from scavenger_kube.errors import Invalid
from scavenger_kube.resources import Params

from scavenger_cli.exits import CliError
from scavenger_cli.forms import Format, print_objects
from scavenger_cli.objects import decode_items, plain, raw_items, with_raws
from scavenger_cli.output import colourful, columns, note, say

T = TypeVar("T")
SELECTABLE: Final = ("metadata.name", "metadata.namespace", "spec.queue", "status.phase")
"""What --field-selector can name, by the definition of ScavengerJob."""


@dataclass(frozen=True)
class Collection(Generic[T]):
    """What is listed, and how a table shows it.

    path, params: where it is in the API. kind: what a row needs of an object. word: for -o name. header, row: of the
    table. key: its order. wanted: which objects; None for all. headers: whether the table begins with its header.
    empty: what is said when there are none. remark: a line on standard error with a table; empty for none.
    """

    path: str
    params: Params
    kind: type[T]
    word: str
    header: Sequence[str]
    row: Callable[[T], Sequence[str]]
    key: Callable[[T], Any]
    wanted: Callable[[T], bool] | None
    headers: bool
    empty: str
    remark: Callable[[], str] = str


def print_collection(client: Client, collection: Collection[T], form: Format) -> None:
    """List it. Raises CliError for a selector of no use, ApiError."""
    with _explained(collection.params):
        body = client.get(collection.path, collection.params)
    if not form.table:
        print_objects(_wanted(body, collection), form, collection.word, single=False)
        return
    wanted = collection.wanted
    kept = sorted(
        (item for item in decode_items(body, collection.kind) if wanted is None or wanted(item)), key=collection.key
    )
    if not kept:
        note(collection.empty)
        return
    _remark(collection)
    rows = map(collection.row, kept)
    lines = columns(collection.header, rows, colour=colourful(), headers=collection.headers)
    sys.stdout.write("\n".join(lines) + "\n")


def _remark(collection: Collection[T]) -> None:
    if text := collection.remark():
        note(text)


def _wanted(body: bytes, collection: Collection[T]) -> Iterator[dict[str, Any]]:
    wanted = collection.wanted
    if wanted is None:
        return raw_items(body)
    return (plain(raw) for item, raw in with_raws(body, collection.kind) if wanted(item))


@contextlib.contextmanager
def _explained(params: Params) -> Iterator[None]:
    """A refusal of a selector, with what can be selected. Raises CliError."""
    try:
        yield
    except Invalid as error:
        given = " ".join(f"{name} {value}" for name, value in params.items() if value)
        remedy = f"fields of a ScavengerJob that can be selected are {', '.join(SELECTABLE)}"
        raise CliError(f"the API server refuses {given}: {error.message}", remedy) from error


def follow_collection(client: Client, collection: Collection[T], form: Format) -> None:
    """List it, and then print every object that changes, deleted ones as they were; until Ctrl-C.

    Raises CliError and ApiError as `print_collection` does; what breaks after the list is waited out.
    """
    from scavenger_cli.follow import Follower

    printer = _Printer(collection, form)
    with _explained(collection.params):
        for change in Follower(client, collection.path, collection.kind, collection.params).changes():
            if change.obj is not None and change.raw is not None:
                if collection.wanted is None or collection.wanted(change.obj):
                    printer.take(change.obj, change.raw)
            elif change.type == "SYNCED":
                printer.listed()


class _Printer(Generic[T]):
    """Prints objects one by one; those of the first list together, as only then it is known how wide columns are."""

    def __init__(self, collection: Collection[T], form: Format) -> None:
        self._collection = collection
        self._form = form
        self._first: list[T] | None = []
        self._widths = [0] * len(collection.header)
        self._documents = 0

    def take(self, obj: T, raw: msgspec.Raw) -> None:
        """Print an object, or keep it for the table of the first list."""
        if not self._form.table:
            self._object(raw)
        elif self._first is None:
            self._rows([self._collection.row(obj)], headers=False)
        else:
            self._first.append(obj)

    def listed(self) -> None:
        """The list is whole: print its table; from now on come changes."""
        if self._form.table and self._first is not None:
            first = sorted(self._first, key=self._collection.key)
            if first:
                _remark(self._collection)
            self._rows([self._collection.row(obj) for obj in first], headers=self._collection.headers)
        self._first = None

    def _object(self, raw: msgspec.Raw) -> None:
        if self._form is Format.YAML and self._documents:
            say("---")
        self._documents += 1
        print_objects([plain(raw)], self._form, self._collection.word, single=True)
        sys.stdout.flush()

    def _rows(self, rows: Sequence[Sequence[str]], *, headers: bool) -> None:
        colour = colourful()
        for line in columns(self._collection.header, rows, colour=colour, headers=headers, widths=self._widths):
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
