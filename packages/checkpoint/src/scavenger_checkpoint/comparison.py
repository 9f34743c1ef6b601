"""Whether two runs of a program came to the same result."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MOST: Final = 10
"""Differences that are told of one file."""


@dataclass(frozen=True)
class Result:
    """A file that a program leaves when it has finished."""

    path: str
    """Within the folder that the program works in."""
    is_json: bool = False
    """Compared value by value, not byte by byte."""
    tolerance: float = 0.0
    """JSON only: relative difference at which two numbers still count as equal."""
    ignored: frozenset[str] = frozenset()
    """JSON only: keys that are not compared, on all levels."""


def differences(result: Result, expected: Path, found: Path) -> list[str]:
    """What differs between the folders of two runs, a line each; empty when the results are equal."""
    contents = []
    for folder, whose in ((expected, "the uninterrupted run"), (found, "the interrupted run")):
        try:
            contents.append((folder / result.path).read_bytes())
        except OSError as error:
            return [f"{whose} left no {result.path} that can be read ({error.strerror})"]
    if not result.is_json:
        return _bytes(*contents)
    try:
        values = [json.loads(content) for content in contents]
    except ValueError as error:
        return [f"it is not JSON: {error}"]
    told = list(_values("", values[0], values[1], result))
    more = len(told) - _MOST
    return told[:_MOST] + ([f"and {more} more"] if more > 0 else [])


def _bytes(expected: bytes, found: bytes) -> list[str]:
    if expected == found:
        return []
    same = next((n for n, (a, b) in enumerate(zip(expected, found)) if a != b), min(len(expected), len(found)))
    return [f"{len(found)} bytes instead of {len(expected)}, the same up to byte {same}"]


def _values(path: str, expected: object, found: object, result: Result) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(found, dict):
        yield from _mappings(path, expected, found, result)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (one, other) in enumerate(zip(expected, found)):
            yield from _values(f"{path}[{number}]", one, other, result)
    elif not _equal(expected, found, result.tolerance):
        yield f"{path or 'the value'}: {_short(found)} instead of {_short(expected)}"


def _mappings(path: str, expected: dict[str, object], found: dict[str, object], result: Result) -> Iterator[str]:
    for key in sorted(_keys(expected, result.ignored) | _keys(found, result.ignored)):
        inner = f"{path}.{key}" if path else key
        if key not in found:
            yield f"{inner}: missing"
        elif key not in expected:
            yield f"{inner}: was not there in the uninterrupted run"
        else:
            yield from _values(inner, expected[key], found[key], result)


def _keys(mapping: Collection[str], ignored: frozenset[str]) -> set[str]:
    return set(mapping) - ignored


def _equal(expected: object, found: object, tolerance: float) -> bool:
    if _is_number(expected) and _is_number(found):
        return math.isclose(expected, found, rel_tol=tolerance)  # type: ignore[arg-type]
    return type(expected) is type(found) and expected == found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
