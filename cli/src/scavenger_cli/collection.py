"""A list of objects on standard output: filtered, in the form of -o, once or with every change."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec
from scavenger_kube.blocking import Client
from scavenger_kube.errors import Forbidden, Invalid, NotFound
from scavenger_kube.resources import Params

from scavenger_cli.exits import CliError
from scavenger_cli.forms import Format, print_objects
from scavenger_cli.objects import decode_items, plain, raw_items, with_raws
from scavenger_cli.output import colourful, columns, note, say
from scavenger_cli.sources import NOT_LISTED, Source

T = TypeVar("T")
SELECTABLE: Final = ("metadata.name", "metadata.namespace", "spec.queue", "status.phase")
"""What --field-selector can name, by the definition of ScavengerJob."""


@dataclass(frozen=True)
class Collection(Generic[T]):
    """What is listed, and how a table shows it.

    sources: where it is in the API; a row needs `kind` of an object. word: for -o name. header, row: of the table. key:
    its order. wanted: which objects; None for all. headers: whether the table begins with its header. empty: what is
    said when there are none. remark: a line on standard error with a table; empty for none. without: columns that say
    nothing of these objects.
    """

    sources: Sequence[Source[T]]
    word: str
    header: Sequence[str]
    row: Callable[[T], Sequence[str]]
    key: Callable[[T], Any]
    wanted: Callable[[T], bool] | None
    headers: bool
    empty: str
    remark: Callable[[], str] = str
    without: Callable[[Sequence[T]], Container[str]] = lambda _: ()


def print_collection(client: Client, collection: Collection[T], form: Format) -> None:
    """List it. Raises CliError for a selector of no use, ApiError."""
    bodies = [(source, body) for source in collection.sources if (body := _body(client, source)) is not None]
    wanted = collection.wanted
    if not form.table:
        items = (item for source, body in bodies for item in _objects(source, body, wanted))
        print_objects(items, form, collection.word, single=False)
        return
    found = (item for source, body in bodies for item in decode_items(body, source.kind) if _selects(source, item))
    kept = sorted((item for item in found if wanted is None or wanted(item)), key=collection.key)
    if not kept:
        note(collection.empty)
        return
    _remark(collection)
    shown = Columns.of(collection, kept)
    rows = map(shown.row, kept)
    lines = columns(shown.header, rows, colour=colourful(), headers=collection.headers)
    sys.stdout.write("\n".join(lines) + "\n")


class Columns(Generic[T]):
    """The columns of a table that say something.

    Args:
        collection: whose they are.
        skipped: places of those that do not.
    """

    def __init__(self, collection: Collection[T], skipped: Container[int]) -> None:
        self._row = collection.row
        self._places = [place for place in range(len(collection.header)) if place not in skipped]
        self.header = [collection.header[place] for place in self._places]

    @classmethod
    def of(cls, collection: Collection[T], items: Sequence[T]) -> Columns[T]:
        """Those of a table of these objects."""
        without = collection.without(items)
        return cls(collection, {place for place, name in enumerate(collection.header) if name in without})

    def row(self, item: T) -> list[str]:
        """The cells of an object."""
        cells = self._row(item)
        return [cells[place] for place in self._places]


def _body(client: Client, source: Source[T]) -> bytes | None:
    """A list as it came; None where it may be left out, and cannot be had."""
    with _explained(source.params):
        try:
            return client.get(source.path, source.params)
        except (Forbidden, NotFound) as error:
            if not source.optional:
                raise
            if isinstance(error, Forbidden):
                note(NOT_LISTED)
            return None


def _selects(source: Source[T], item: T) -> bool:
    return source.selects is None or source.selects(item)


def _remark(collection: Collection[T]) -> None:
    if text := collection.remark():
        note(text)


def _objects(source: Source[T], body: bytes, wanted: Callable[[T], bool] | None) -> Iterator[dict[str, Any]]:
    if wanted is None and not source.head:
        return raw_items(body)
    found = with_raws(body, source.kind)
    chosen = (raw for item, raw in found if _selects(source, item) and (wanted is None or wanted(item)))
    return ({**source.head, **plain(raw)} for raw in chosen)


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
    from scavenger_cli.follow import follow

    printer = _Printer(collection, form)
    with _explained(collection.sources[0].params):
        for change in follow(client, collection.sources):
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
        self._columns = Columns(collection, ())
        self._widths: list[int] = []
        self._documents = 0

    def take(self, obj: T, raw: msgspec.Raw) -> None:
        """Print an object, or keep it for the table of the first list."""
        if not self._form.table:
            self._object(raw, type(obj))
        elif self._first is None:
            self._rows([obj], headers=False)
        else:
            self._first.append(obj)

    def listed(self) -> None:
        """The list is whole: print its table; from now on come changes."""
        if self._form.table and self._first is not None:
            first = sorted(self._first, key=self._collection.key)
            if first:
                _remark(self._collection)
            self._columns = Columns.of(self._collection, first)
            self._widths = [0] * len(self._columns.header)
            self._rows(first, headers=self._collection.headers)
        self._first = None

    def _object(self, raw: msgspec.Raw, kind: type[T]) -> None:
        if self._form is Format.YAML and self._documents:
            say("---")
        self._documents += 1
        found = plain(raw)  # of a built-in kind, only watches say which
        head = next((one.head for one in self._collection.sources if one.head and one.kind is kind), {})
        print_objects([{**head, **found}], self._form, self._collection.word, single=True)
        sys.stdout.flush()

    def _rows(self, items: Sequence[T], *, headers: bool) -> None:
        colour, rows = colourful(), list(map(self._columns.row, items))
        for line in columns(self._columns.header, rows, colour=colour, headers=headers, widths=self._widths):
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
