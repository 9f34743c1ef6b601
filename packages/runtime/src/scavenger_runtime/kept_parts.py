"""What is kept of the parts of an object that have no bound of their own: labels, annotations, finalizers and owners of
any object, and the texts of an Event. Tenants write up to 1.5 MB of them, and services follow all tenants. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from msgspec.structs import replace
from scavenger_api.names import GROUP
from scavenger_kube.kinds import Event, ObjectMeta, ObjectReference

MOST: Final = 16 * 1024
"""Characters of labels, and of annotations, that are kept of an object; of finalizers and owners too."""

MOST_TEXT: Final = 4096
"""Characters of a text of an Event that are kept. The API server bounds none of them."""

_OWN: Final = f"{GROUP}/"

T = TypeVar("T")
E = TypeVar("E", bound=Event)


def bounded(obj: T) -> T:
    """The object as it is, where all of its metadata is short.

    Of longer ones what services read stays: their own keys first, and then short ones before long ones.
    """
    meta = getattr(obj, "metadata", None)
    if not isinstance(meta, ObjectMeta):  # a model, of which `transform` keeps a part
        return obj
    changes: dict[str, Any] = {}
    if _length(meta.labels) > MOST:
        changes["labels"] = _part_of(meta.labels)
    if _length(meta.annotations) > MOST:
        changes["annotations"] = _part_of(meta.annotations)
    if sum(map(len, meta.finalizers)) > MOST:
        kept = _part_of(dict.fromkeys(meta.finalizers, ""))
        changes["finalizers"] = tuple(one for one in meta.finalizers if one in kept)
    if len(meta.owner_references) > 1 and sum(len(one.name) + len(one.uid) for one in meta.owner_references) > MOST:
        changes["owner_references"] = tuple(one for one in meta.owner_references if one.controller)
    return replace(obj, metadata=replace(meta, **changes)) if changes else obj  # type: ignore[type-var]


def short_event(event: E, _known: E | None = None) -> E:
    """What is kept of an Event: what it says, of whom and when."""
    meta = event.metadata
    kept = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        creation_timestamp=meta.creation_timestamp,
    )
    related = getattr(event, "related", None)
    changes = {} if related is None else {"related": _short_reference(related)}
    return replace(
        event,
        metadata=kept,
        involved_object=_short_reference(event.involved_object),
        type=event.type[:MOST_TEXT],
        reason=event.reason[:MOST_TEXT],
        message=event.message[:MOST_TEXT],
        **changes,
    )


def _short_reference(about: ObjectReference) -> ObjectReference:
    if len(about.kind) + len(about.namespace) + len(about.name) + len(about.uid) <= MOST_TEXT:
        return about
    return ObjectReference()  # no object has such a name


def _length(entries: Mapping[str, str]) -> int:
    return sum(map(len, entries)) + sum(map(len, entries.values()))


def _part_of(entries: Mapping[str, str]) -> dict[str, str]:
    left, kept = MOST, {}
    for key, value in _by_use(entries.items()):
        if len(key) + len(value) <= left:
            kept[key] = value
            left -= len(key) + len(value)
    return kept


def _by_use(entries: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted(entries, key=lambda entry: (not entry[0].startswith(_OWN), len(entry[0]) + len(entry[1]), entry[0]))
