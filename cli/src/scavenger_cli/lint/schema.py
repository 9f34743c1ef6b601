"""A manifest against a structural schema, as the API server holds it against one: shapes first, then rules. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from scavenger_api.rules.problem import Problem, shown

from scavenger_cli.lint.cel import CelError, found_in, holds
from scavenger_cli.lint.unknown import remedy_for
from scavenger_cli.patterns import meaning

Schema = Mapping[str, Any]

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_WORDS: Final = {
    "string": "a text; put it in quotes",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
}
_RANGES: Final = {"int32": 2**31, "int64": 2**63}


def with_defaults(schema: Schema, value: Any) -> Any:
    """The value as the API server would store it: what was left out has its default."""
    if isinstance(value, dict) and "properties" in schema:
        found = dict(value)
        for name, inner in schema["properties"].items():
            if found.get(name) is None and "default" in inner:
                found[name] = inner["default"]
            if name in found:
                found[name] = with_defaults(inner, found[name])
        return found
    if isinstance(value, list) and "items" in schema:
        return [with_defaults(schema["items"], one) for one in value]
    return value


def problems(schema: Schema, value: Any, field: str) -> Iterator[Problem]:
    """Everything wrong with a value. Its rules are asked only where its shape is right, and all that is in it."""
    found = [*_own_problems(schema, value, field)]
    if not found:
        found = [*_inner_problems(schema, value, field)]
    yield from found
    if not found:
        yield from _broken_rules(schema, value, field)


def _own_problems(schema: Schema, value: Any, field: str) -> Iterator[Problem]:
    wanted = schema.get("type", "")
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield Problem(field, f"{shown(str(value))} is neither a whole number nor a text; put it in quotes")
            return
    elif wanted and (not isinstance(value, _TYPES[wanted]) or (isinstance(value, bool) and wanted != "boolean")):
        yield Problem(field, f"{shown(str(value))} is not {_WORDS[wanted]}")
        return
    if "enum" in schema and value not in schema["enum"]:
        close = difflib.get_close_matches(str(value), schema["enum"], n=1)
        remedy = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(schema['enum'])}"
        yield Problem(field, f"{shown(str(value))} is not known; {remedy}")
    if isinstance(value, str):
        yield from _text_problems(schema, value, field)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_problems(schema, value, field)
    elif isinstance(value, list | dict):
        yield from _size_problems(schema, value, field)


def _text_problems(schema: Schema, value: str, field: str) -> Iterator[Problem]:
    if len(value) < schema.get("minLength", 0):
        yield Problem(field, "it must not be empty")
    elif len(value) > (most := schema.get("maxLength", len(value))):
        yield Problem(field, f"it has {len(value)} characters; at most {most}")
    elif (pattern := schema.get("pattern")) is not None and not found_in(pattern, value):
        yield Problem(field, f"{shown(value)} does not fit; write {meaning(pattern) or f'what matches {pattern}'}")


def _number_problems(schema: Schema, value: float, field: str) -> Iterator[Problem]:
    limit = _RANGES.get(schema.get("format", ""), 2**63)
    least, most = schema.get("minimum", -limit), schema.get("maximum", limit - 1)
    if not least <= value <= most:
        bounds = f"from {least} to {most}" if most != limit - 1 else f"of {least} or more"
        yield Problem(field, f"{value} is out of bounds; write a number {bounds}")


def _size_problems(schema: Schema, value: list[Any] | dict[str, Any], field: str) -> Iterator[Problem]:
    kind = "Items" if isinstance(value, list) else "Properties"
    if len(value) < (least := schema.get(f"min{kind}", 0)):
        yield Problem(field, f"it has {len(value)} entries; at least {least}")
    if len(value) > (most := schema.get(f"max{kind}", len(value))):
        yield Problem(field, f"it has {len(value)} entries; at most {most}")


def _inner_problems(schema: Schema, value: Any, field: str) -> Iterator[Problem]:
    if isinstance(value, list):
        for place, one in enumerate(value):
            yield from problems(schema.get("items", {}), one, f"{field}[{place}]")
        yield from _doubles(schema, value, field)
    elif isinstance(value, dict) and "properties" in schema:
        yield from _properties(schema, value, field)
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from problems(schema.get("additionalProperties", {}), one, f"{field}[{name}]")


def _properties(schema: Schema, value: dict[str, Any], field: str) -> Iterator[Problem]:
    known = schema["properties"]
    for name in schema.get("required", ()):
        if value.get(name) is None:
            yield Problem(f"{field}.{name}".lstrip("."), "it is mandatory; add it")
    for name, one in value.items():
        where = f"{field}.{name}".lstrip(".")
        if name not in known:
            of_spec = known.get("spec", {}).get("properties", {}) if not field else ()
            yield Problem(where, f"unknown field; {remedy_for(where, known, of_spec)}")
        elif one is not None or ("default" not in known[name] and name not in schema.get("required", ())):
            yield from problems(known[name], one, where)


def _doubles(schema: Schema, value: list[Any], field: str) -> Iterator[Problem]:
    keys = schema.get("x-kubernetes-list-map-keys")
    if not keys:
        return
    seen = set()
    for place, one in enumerate(value):
        if not isinstance(one, dict):
            continue  # which is a problem of its own
        key = tuple(str(one.get(name)) for name in keys)
        if key in seen:
            text = " ".join(f"{name} {part}" for name, part in zip(keys, key, strict=True))
            yield Problem(f"{field}[{place}]", f"there is an entry with {text} already; remove one of them")
        seen.add(key)


def _broken_rules(schema: Schema, value: Any, field: str) -> Iterator[Problem]:
    for one in schema.get("x-kubernetes-validations", ()):
        if "oldSelf" in one["rule"] and not one.get("optionalOldSelf"):
            continue  # of a change only
        try:
            broken = not holds(one["rule"], value)
        except CelError:
            broken = True  # as the API server, which takes no object whose rule cannot be evaluated
        if broken:
            yield Problem((field + one.get("fieldPath", "")).lstrip("."), one["message"])
