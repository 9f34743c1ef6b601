"""--sort-by: objects in the order of what a path leads to, as kubectl sorts them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scavenger_api.quantity import QuantityError, parse_quantity

from scavenger_cli.jsonpath import TemplateError, parse_relaxed, shown


def order(items: Sequence[Any], path: str) -> list[int]:
    """The places of the items in their order by `path`; those without a value come first, equals stay as they are.

    Numbers and quantities go by their size, everything else by its text.

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
    return sorted(range(len(items)), key=lambda i: (values[i] is not None, shown(values[i])))


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
