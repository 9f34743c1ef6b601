"""A list of objects on standard output: filtered, sorted, in the form of -o, once or with every change."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec
from scavenger_kube.blocking import Client
from scavenger_kube.errors import Invalid
from scavenger_kube.resources import Params

from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.forms import Format, Output, print_objects
from scavenger_cli.objects import decode_items, plain, raw_items, raws
from scavenger_cli.output import colourful, columns, note, say

T = TypeVar("T")
SELECTABLE: Final = ("metadata.name", "metadata.namespace", "spec.queue", "status.phase")
"""What --field-selector can name, by the definition of ScavengerJob."""


@dataclass(frozen=True)
class Collection(Generic[T]):
    """What is listed, and how a table shows it.

    path, params: where it is in the API. kind: what a row needs of an object. word: for -o name. header, row: of the
    table. key: its order, unless another is asked for. wanted: which objects; None for all.
    empty: what is said when there are none.
    """

    path: str
    params: Params
    kind: type[T]
    word: str
    header: Sequence[str]
    row: Callable[[T], Sequence[str]]
    key: Callable[[T], Any]
    wanted: Callable[[T], bool] | None
    empty: str


def print_collection(client: Client, collection: Collection[T], output: Output, sort_by: str | None) -> None:
    """List it. Raises CliError for a selector or a path of no use, ApiError."""
    with _explained(collection.params):
        body = client.get(collection.path, collection.params)
    if not output.table and collection.wanted is None and sort_by is None:
        _print(raw_items(body), output, collection.word)
        return
    items, bodies = decode_items(body, collection.kind), raws(body)
    kept = [i for i, item in enumerate(items) if collection.wanted is None or collection.wanted(item)]
    if sort_by is not None:
        kept = _sorted(kept, bodies, sort_by)
    if not output.table:
        _print((plain(bodies[i]) for i in kept), output, collection.word)
        return
    if not kept:
        note(collection.empty)
        return
    if sort_by is None:
        kept.sort(key=lambda i: collection.key(items[i]))
    rows = [collection.row(items[i]) for i in kept]
    lines = columns(collection.header, rows, colour=colourful(), headers=output.headers)
    sys.stdout.write("\n".join(lines) + "\n")


@contextlib.contextmanager
def _explained(params: Params) -> Iterator[None]:
    """A refusal of a selector, with what can be selected. Raises CliError."""
    try:
        yield
    except Invalid as error:
        given = " ".join(f"{name} {value}" for name, value in params.items() if value)
        remedy = f"fields of a ScavengerJob that can be selected are {', '.join(SELECTABLE)}"
        raise CliError(f"the API server refuses {given}: {error.message}", remedy) from error


def _print(items: Iterable[dict[str, Any]], output: Output, word: str) -> None:
    print_objects(items, output, word, single=False)


def _sorted(kept: Sequence[int], bodies: Sequence[msgspec.Raw], path: str) -> list[int]:
    from scavenger_cli.jsonpath import TemplateError
    from scavenger_cli.sorting import order

    try:
        return [kept[place] for place in order([msgspec.json.decode(bodies[i]) for i in kept], path)]
    except TemplateError as error:
        raise CliError(f"--sort-by: {error}", code=ExitCode.USAGE) from error


def follow_collection(client: Client, collection: Collection[T], output: Output, sort_by: str | None) -> None:
    """List it, and then print every object that changes, deleted ones as they were; until Ctrl-C.

    Raises CliError and ApiError as `print_collection` does; what breaks after the list is waited out.
    """
    from scavenger_cli.follow import Follower

    if sort_by is not None:
        note("--sort-by has no effect with --watch: changes come in the order of time")
    printer = _Printer(collection, output)
    with _explained(collection.params):
        for change in Follower(client, collection.path, collection.kind, collection.params).changes():
            if change.obj is not None and change.raw is not None:
                if collection.wanted is None or collection.wanted(change.obj):
                    printer.take(change.obj, change.raw)
            elif change.type == "SYNCED":
                printer.listed()


class _Printer(Generic[T]):
    """Prints objects one by one; those of the first list together, as only then it is known how wide columns are."""

    def __init__(self, collection: Collection[T], output: Output) -> None:
        self._collection = collection
        self._output = output
        self._first: list[T] | None = []
        self._widths = [0] * len(collection.header)
        self._documents = 0

    def take(self, obj: T, raw: msgspec.Raw) -> None:
        """Print an object, or keep it for the table of the first list."""
        if not self._output.table:
            self._object(raw)
        elif self._first is None:
            self._rows([self._collection.row(obj)], headers=False)
        else:
            self._first.append(obj)

    def listed(self) -> None:
        """The list is whole: print its table; from now on come changes."""
        if self._output.table and self._first is not None:
            first = sorted(self._first, key=self._collection.key)
            self._rows([self._collection.row(obj) for obj in first], headers=self._output.headers)
        self._first = None

    def _object(self, raw: msgspec.Raw) -> None:
        if self._output.form is Format.YAML and self._documents:
            say("---")
        self._documents += 1
        headers = self._output.headers and self._documents == 1
        output = Output(self._output.form, self._output.template, self._output.columns, headers)
        print_objects([plain(raw)], output, self._collection.word, single=True)
        sys.stdout.flush()

    def _rows(self, rows: Sequence[Sequence[str]], *, headers: bool) -> None:
        colour = colourful()
        for line in columns(self._collection.header, rows, colour=colour, headers=headers, widths=self._widths):
            say(line)
        sys.stdout.flush()
