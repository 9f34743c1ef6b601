"""Plain data as YAML, as kubectl writes it: keys sorted, lists not indented, strings bare where that is unmistakable.

PyYAML's emitter takes 10 s of CPU time for twenty thousand jobs; this one knows only what JSON can hold, and takes one
of twenty. Pure.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any, Final

_BARE: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*(?:[ :=,+()%][A-Za-z0-9_./-]+)*")
"""Strings that no reader of YAML takes for anything else, `_WORDS` apart. A colon or comma is never before a space."""
_WORDS: Final = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"))
_SAFE_BLOCK: Final = re.compile(r"[^\s\x00-\x1f\x7f-\x9f][^\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]*")
_UNPRINTABLE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_STEP: Final = "  "


def yaml_text(value: Any) -> str:
    """The YAML of anything that JSON can hold, with a newline at its end."""
    lines: list[str] = []
    if isinstance(value, dict) and value:
        _mapping(value, "", lines)
    elif isinstance(value, list) and value:
        _sequence(value, "", lines)
    else:
        lines.append(_scalar(value, ""))
    return "\n".join(lines) + "\n"


def list_item(value: dict[str, Any]) -> str:
    """An object as an item of a list that is not indented."""
    lines: list[str] = []
    _sequence([value], "", lines)
    return "\n".join(lines) + "\n"


def _mapping(value: dict[str, Any], pad: str, lines: list[str], head: str | None = None) -> None:
    """Append the lines of a mapping. head: what the first line begins with in the place of its padding."""
    for key in sorted(value):
        one = value[key]
        start = pad if head is None else head
        head = None
        if type(one) is str and "\n" not in one:
            lines.append(f"{start}{_string(key)}: {_string(one)}")
        elif type(one) is dict and one:
            lines.append(f"{start}{_string(key)}:")
            _mapping(one, pad + _STEP, lines)
        elif type(one) is list and one:
            lines.append(f"{start}{_string(key)}:")
            _sequence(one, pad, lines)
        else:
            lines.append(f"{start}{_string(key)}: {_scalar(one, pad + _STEP)}")


def _sequence(value: list[Any], pad: str, lines: list[str], head: str | None = None) -> None:
    for one in value:
        start = (pad if head is None else head) + "- "
        head = None
        if type(one) is dict and one:
            _mapping(one, pad + _STEP, lines, start)
        elif type(one) is list and one:
            _sequence(one, pad + _STEP, lines, start)
        else:
            lines.append(start + _scalar(one, pad + _STEP))


def _scalar(value: Any, pad: str) -> str:
    """A string, number, boolean, null or empty collection. pad: of the lines that a block adds."""
    if isinstance(value, str):
        return _block(value, pad) if "\n" in value else _string(value)
    if isinstance(value, float) and "." not in (text := repr(value)):
        return text.replace("e", ".0e")  # 1e+20 is a string to readers of YAML 1.1
    return json.dumps(value)


@functools.lru_cache(maxsize=1 << 16)
def _string(text: str) -> str:
    """A string of one line, bare or in quotes; remembered, as most of them come again with the next object."""
    if _BARE.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return _quoted(text)


def _quoted(text: str) -> str:
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def _block(text: str, pad: str) -> str:
    """Several lines as a block; in quotes where a block could not hold them as they are."""
    if not _SAFE_BLOCK.fullmatch(text):
        return _quoted(text)
    body = text.rstrip("\n")
    ends = len(text) - len(body)
    mark = {0: "|-", 1: "|"}.get(ends, "|+")
    lines = [pad + line if line else "" for line in [*body.split("\n"), *[""] * max(0, ends - 1)]]
    return "\n".join([mark, *lines])
