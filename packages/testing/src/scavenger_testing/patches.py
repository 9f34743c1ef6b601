"""The four ways to patch, as far as the components use them. Pure functions of dicts; nothing given is changed.

Approximations: lists are merged by key only for the lists named in MERGE_KEYS, and server-side apply remembers whole
applied objects per manager instead of field sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import orjson

T = TypeVar("T")

MERGE_KEYS = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "ownerReferences": "uid",
}
"""Lists whose elements are told apart by a field."""

SETS = frozenset({"finalizers"})
"""Lists that are sets of plain values."""

DELETE_FROM = "$deleteFromPrimitiveList/"


class PatchError(ValueError):
    """The patch does not fit the object."""


def copied(value: T) -> T:
    """A copy of what is JSON all through, as objects of an API server are: copy.deepcopy takes ten times as long, and
    tests of whole services spent a fifth of their time there."""
    if isinstance(value, str | int | float | None):
        return value
    found: T = orjson.loads(orjson.dumps(value))
    return found


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return copied(patch)
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def strategic(target: Any, patch: Any, field: str = "") -> Any:
    """Strategic merge: maps are merged, keyed lists by their key, sets united; `$deleteFromPrimitiveList` and
    `$patch: delete` are understood."""
    if isinstance(patch, list):
        return _merge_lists(target if isinstance(target, list) else [], patch, field)
    if not isinstance(patch, Mapping):
        return copied(patch)
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if key.startswith(DELETE_FROM):
            name = key.removeprefix(DELETE_FROM)
            result[name] = [one for one in result.get(name, []) if one not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = strategic(result.get(key), value, key)
    return result


def _merge_lists(old: list[Any], new: list[Any], field: str) -> list[Any]:
    if field in SETS:
        return [*old, *(one for one in new if one not in old)]
    key = MERGE_KEYS.get(field)
    if key is None:
        return copied(new)
    merged = {one.get(key): one for one in old}
    for one in new:
        if one.get("$patch") == "delete":
            merged.pop(one.get(key), None)
        else:
            merged[one.get(key)] = strategic(merged.get(one.get(key)), one)
    return list(merged.values())


def json_patch(target: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """RFC 6902: add, remove, replace and test. Raises PatchError."""
    result = copied(target)
    for operation in operations:
        *parents, last = [_unescape(part) for part in str(operation["path"]).split("/")[1:]]
        place = result
        for part in parents:
            place = _step(place, part)
        _operate(place, last, operation)
    return result


def _unescape(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _step(place: Any, part: str) -> Any:
    try:
        return place[int(part)] if isinstance(place, list) else place[part]
    except (KeyError, IndexError, ValueError, TypeError):
        raise PatchError(f"no such path: {part}") from None


def _operate(place: Any, last: str, operation: Mapping[str, Any]) -> None:
    kind = operation["op"]
    if kind == "test":
        if _step(place, last) != operation["value"]:
            raise PatchError(f"test failed at {operation['path']}")
    elif kind == "remove":
        _step(place, last)
        del place[int(last) if isinstance(place, list) else last]
    elif kind in ("add", "replace"):
        _put(place, last, operation["value"], insert=kind == "add")
    else:
        raise PatchError(f"operation {kind} is not supported")


def _put(place: Any, last: str, value: Any, *, insert: bool) -> None:
    if not isinstance(place, list):
        if not insert:
            _step(place, last)
        place[last] = copied(value)
    elif last == "-":
        place.append(copied(value))
    elif insert:
        place.insert(int(last), copied(value))
    else:
        place[int(last)] = copied(value)


def apply(target: Any, applied: Any, before: Any) -> Any:
    """Server-side apply: what `applied` says, without what the same manager applied `before` and does no more."""
    result = copied(target)
    if before is not None:
        result = _remove_dropped(result, before, applied)
    return strategic(result, applied)


def _remove_dropped(target: Any, before: Any, now: Any) -> Any:
    if not isinstance(target, dict) or not isinstance(before, Mapping):
        return target
    now = now if isinstance(now, Mapping) else {}
    for key, value in before.items():
        if key not in now:
            target.pop(key, None)
        elif isinstance(value, Mapping):
            target[key] = _remove_dropped(target.get(key), value, now[key])
        elif isinstance(value, list) and key in target:
            target[key] = _without_dropped(target[key], value, now[key], key)
    return target


def _without_dropped(target: list[Any], before: list[Any], now: list[Any], field: str) -> list[Any]:
    key = MERGE_KEYS.get(field)
    if key is not None:
        kept = {one.get(key) for one in now}
        dropped = {one.get(key) for one in before} - kept
        return [one for one in target if one.get(key) not in dropped]
    if field in SETS:
        return [one for one in target if one not in before or one in now]
    return target


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value that is not a map, with its path; lists count as one value."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    else:
        yield path, value
