"""--sort-by: objects in the order of what a path leads to, as kubectl sorts them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from scavenger_api.quantity import QuantityError, parse_quantity

from scavenger_cli.jsonpath import TemplateError, parse_relaxed, shown

_DIGITS: Final = re.compile(r"(\d+)")


def order(items: Sequence[Any], path: str) -> list[int]:
    """The places of the items in their order by `path`; those without a value come first, equals stay as they are.

    Numbers and quantities go by their size, everything else by its text, with numbers in it by their size too.

    Raises:
        TemplateError: for a path that cannot be read, or that leads to nothing in any of them.
    """
    expression = parse_relaxed(path)
    values = [next(iter(expression.find(item)), None) for item in items]
    if items and all(value is None for value in values):
        raise TemplateError(f"none of them has {path}")
    sizes = [_size(value) for value in values]
    if all(size is not None for size, value in zip(sizes, values, strict=True) if value is not None):
        return sorted(range(len(items)), key=lambda i: (values[i] is not None, sizes[i] or 0))
    return sorted(range(len(items)), key=lambda i: (values[i] is not None, _natural(shown(values[i]))))


def _size(value: Any) -> Any:
    """A number or a quantity as a number; None for what is none."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return value
    try:
        return parse_quantity(value) if isinstance(value, str) else None
    except QuantityError:
        return None


def _natural(text: str) -> list[tuple[str, int]]:
    """Text and numbers by turns, so that job-10 comes after job-9."""
    parts = _DIGITS.split(text)
    return [(word, int(number)) for word, number in zip(parts[::2], [*parts[1::2], "-1"], strict=True)]
