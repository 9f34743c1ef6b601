"""How much is in a body, found out before it is parsed: a few bytes of JSON become a hundred as Python objects."""

from __future__ import annotations

import re
from typing import Final

_STRINGS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)

_NOT_LOOKED_AT: Final = 2


def surely_more_values(commas: int, most: int) -> bool:
    """Whether so many commas are too many for `most` values wherever they stand: not even the patience to look for
    strings is left then, nor for the rest of the body."""
    return commas >= _NOT_LOOKED_AT * most


def has_more_values(body: bytes | bytearray, most: int, commas: int | None = None) -> bool:
    """Whether a JSON text has more than `most` values beside each other, in all lists and objects together: one more
    than commas outside of strings. How deep they stand in each other, the parser limits.

    commas: how many are in the body, where they were counted.
    """
    commas = body.count(b",") if commas is None else commas
    if commas < most or surely_more_values(commas, most):
        return commas >= most
    return commas - sum(string[0].count(b",") for string in _STRINGS.finditer(body)) >= most
