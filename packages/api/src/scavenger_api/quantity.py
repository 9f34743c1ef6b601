"""Resource quantities, read as Kubernetes reads them (apimachinery/pkg/api/resource).

`500m` is half, `1k` a thousand, `1Ki` 1,024, `1e3` a thousand; a suffix is decimal (n u m, none, k M G T P
E), binary (Ki Mi Gi Ti Pi Ei) or an exponent. Amounts are exact integers here: CPU in thousandths of a core,
everything else in whole units (bytes, devices), rounded up as the scheduler does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_UP, Context, Decimal
from functools import lru_cache
from typing import Final

_PATTERN: Final = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))((?:[eE][+-]?[0-9]+)|(?:[KMGTPE]i)|[numkMGTPE])?", re.ASCII
)
_SCALE: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
MAX_UNITS: Final = 2**63 - 1
"""Kubernetes caps what it cannot hold in an int64; so do we."""

_FINEST: Final = Decimal("1e-9")
"""Kubernetes keeps nothing finer: a quantity is rounded to it, away from zero (ParseQuantity)."""

_EXACT: Final = Context(prec=512)
"""More digits than any quantity has that is computed with: the usual 28 would round some down."""

_SPACE: Final = " "
"""Around a quantity, which Quantity.UnmarshalJSON leaves out. It sees JSON as it is written: a line break is none."""


MAX_DIGITS: Final = 128
"""Kubernetes reads numbers of any length; none that is meant has more than two dozen."""

_LOOKED_AT: Final = 4 * MAX_DIGITS
"""Characters: of a longer text no more is looked at, as it is none that is meant."""

_SHOWN: Final = 80
"""Characters of it in a message."""


class QuantityError(ValueError):
    """Not a Kubernetes quantity."""


def parse_quantity(text: str | int | float) -> Decimal:
    """The value of a quantity, to the billionth.

    Raises:
        QuantityError: when the text is not a quantity; the message shows it and what would be right.
    """
    whole = str(text).strip(_SPACE)
    match = _PATTERN.fullmatch(whole[:_LOOKED_AT])
    if match is None:
        raise QuantityError(
            f"{_quoted(whole)} is not a quantity: write a number with an optional suffix, as 500m, 2 or 4Gi"
        )
    number, suffix = match.group(1), match.group(2) or ""
    if len(number) > MAX_DIGITS:
        raise QuantityError(f"{whole[:20]!r}… has more than {MAX_DIGITS} digits")
    if suffix in _SCALE:
        return _kept(_EXACT.multiply(Decimal(number), _SCALE[suffix]))
    exponent = int(suffix[1:])
    if abs(exponent) > 64 or len(whole) > _LOOKED_AT:
        raise QuantityError(f"{_quoted(whole)} has an exponent outside -64..64")
    return _kept(_EXACT.scaleb(Decimal(number), exponent))


def _kept(value: Decimal) -> Decimal:
    """What Kubernetes keeps of it."""
    return value if value == value.to_integral_value() else value.quantize(_FINEST, ROUND_UP, _EXACT)


def _quoted(text: str) -> str:
    """As a message shows it: who sends a megabyte does not get it back."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}…"


def _ceil(value: Decimal) -> int:
    return max(-MAX_UNITS, min(MAX_UNITS, int(value.to_integral_value(ROUND_CEILING, _EXACT))))


@lru_cache(maxsize=8192)
def millis(text: str | int | float) -> int:
    """Thousandths, rounded up: millicores of a CPU quantity. Raises QuantityError."""
    return _ceil(_EXACT.scaleb(parse_quantity(text), 3))


@lru_cache(maxsize=8192)
def units(text: str | int | float) -> int:
    """Whole units, rounded up: bytes of memory, number of devices. Raises QuantityError."""
    return _ceil(parse_quantity(text))


def amount(resource: str, text: str | int | float) -> int:
    """The integer this project counts a resource in: millicores for `cpu`, whole units for all others."""
    return millis(text) if resource == "cpu" else units(text)


def amounts(quantities: Mapping[str, str | int | float]) -> dict[str, int]:
    """`amount` of every entry. Raises QuantityError."""
    return {name: amount(name, text) for name, text in quantities.items()}


def readable_amounts(quantities: Mapping[str, str | int | float]) -> dict[str, int]:
    """`amount` of every entry that is a quantity: for what is only shown. The others are left out."""
    found = {}
    for name, text in quantities.items():
        try:
            found[name] = amount(name, text)
        except QuantityError:
            continue
    return found


TAINT_EFFECT: Final = "NoSchedule"
"""Of the taint that sets nodes with a device apart."""


def resources_with_taints(requested: Iterable[str]) -> frozenset[str]:
    """Of these resources the extended ones: nodes that have them may carry a taint of that name."""
    return frozenset(name for name in requested if "/" in name and "kubernetes.io/" not in name)


def format_amount(resource: str, value: int) -> str:
    """An amount as a person would write it: `1500m`, `2`, `512Mi`."""
    if resource == "cpu":
        return str(value // 1000) if value % 1000 == 0 else f"{value}m"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return _format_bytes(value)
    return str(value)


def _format_bytes(value: int) -> str:
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        scale = int(_SCALE[suffix])
        if value and value % scale == 0:
            return f"{value // scale}{suffix}"
    for suffix in ("Gi", "Mi", "Ki"):  # not whole: rounded for reading, never used to compute
        scale = int(_SCALE[suffix])
        if abs(value) >= 10 * scale:
            return f"{value / scale:.1f}{suffix}"
    return str(value)
