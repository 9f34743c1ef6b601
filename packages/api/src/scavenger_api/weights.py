"""What the resources of a pod count as, in one figure: what it costs per second, in cores.

A unit of a resource (a core, a GiB, a device) is worth so many cores. Of a pod the dominant resource counts, not the
sum: eight GPUs with 80 cores beside them are eight GPUs, as no other pod has a use for those cores. On the GPU pods of
openb (docs/preemption-classes.md) that loses 0.2 % more GPU time than to rank by GPU time alone, the sum 3.8 % more.

Amounts are as in `scavenger_api.quantity`: millicores, bytes, whole units.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from scavenger_api.names import DEFAULT_RESOURCE_WEIGHTS

_GIB: Final = 1 << 30
_MOST: Final = 1e6
_MANY: Final = 64
_LONGEST: Final = 8192
"""Characters of a list of weights."""

BLANKS: Final = " \t\r\n"
"""What may stand around a value: no other character counts as blank in Python and in Go."""

_AMOUNT: Final = re.compile(r"\+?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MOST_DIGITS: Final = 40
_MOST_KNOWN: Final = 1024
_SLICES: Final = re.compile(r"mig-(?:([1-7])c\.)?([1-7])g\.", re.ASCII)
_OF_ALL: Final = 7
"""Slices of a whole GPU. Those with fewer have names of their own in the table."""


class WeightsError(ValueError):
    """Not a list of weights."""


def _thousandths(weights: Mapping[str, float]) -> tuple[tuple[str, int], ...]:
    return tuple((name, round(1000 * weight)) for name, weight in weights.items())


@dataclass(frozen=True)
class Weights:
    """How many cores a unit of a resource is worth.

    Attributes:
        thousandths: of a core, by resource: per core, per GiB of what is measured in bytes, per unit of all else. A
            name that ends with `*` stands for all that begin so, but for amounts of memory; the longest one counts.
    """

    thousandths: tuple[tuple[str, int], ...] = _thousandths(DEFAULT_RESOURCE_WEIGHTS)
    _known: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def of(self, resource: str) -> int:
        """What a unit of a resource is worth, in thousandths of a core."""
        known = self._known.get(resource)
        if known is None:
            known = self._found(resource)
            if len(self._known) < _MOST_KNOWN:
                self._known[resource] = known
        return known

    def _found(self, resource: str) -> int:
        """By its own name; a slice of a GPU (MIG) by its part of the whole; else by how the name begins."""
        table = dict(self.thousandths)
        if resource in table:
            return table[resource]
        begins = [name for name in table if name.endswith("*") and resource.startswith(name[:-1])]
        domain, _, name = resource.partition("/")
        longest = max(begins, key=len, default="")
        slices = _SLICES.match(name)
        if slices is not None and longest.removeprefix(f"{domain}/") in ("", "*"):
            return (2 * self.of(f"{domain}/gpu") * int(slices[1] or slices[2]) + _OF_ALL) // (2 * _OF_ALL)
        return table[longest] if longest and "mem" not in name else 0

    def cost(self, requests: Mapping[str, int]) -> int:
        """What a pod with these requests costs, in thousandths of a core: the dominant resource decides."""
        found = 0
        for name, amount in requests.items():
            if amount and (weight := self.of(name)):
                found = max(found, amount * weight // _unit(name))
        return found

    def cost_using(self, millicores: int, requests: Mapping[str, int]) -> int:
        """The same of a pod that uses so much CPU, whatever it requests of that."""
        return self.cost({**requests, "cpu": millicores})

    def text(self) -> str:
        """As `parse_weights` reads it, without those that have their defaults."""
        usual = dict(DEFAULT_WEIGHTS.thousandths)
        own = (f"{name}={weight / 1000:g}" for name, weight in self.thousandths if weight != usual.get(name))
        return ",".join(own)


def _unit(resource: str) -> int:
    """How much of a resource is a unit of it. Of CPU amounts are in thousandths."""
    if resource == "cpu":
        return 1000
    return _GIB if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-") else 1


def read_amount(text: str) -> float | None:
    """A number of 0 or more, in decimal digits; None for all else, such as `inf`, `1_000` and `0x10`."""
    text = text.strip(BLANKS)
    return float(text) if len(text) <= _MOST_DIGITS and _AMOUNT.fullmatch(text) else None


def parse_weights(text: str) -> dict[str, float]:
    """Weights from `cpu=1,nvidia.com/gpu=16`; those that are not named have their defaults.

    Raises:
        WeightsError: when it says what is wrong, and what would be right.
    """
    if len(text) > _LONGEST:
        raise WeightsError(f"more than {_LONGEST} characters")
    weights: dict[str, float] = dict(DEFAULT_RESOURCE_WEIGHTS)
    for part in filter(None, (part.strip(BLANKS) for part in text.split(","))):
        name, _, number = part.partition("=")
        name, weight = name.strip(BLANKS), read_amount(number)
        if not name or weight is None or weight > _MOST:
            raise WeightsError(f"{part[:80]!r} is no weight: write RESOURCE=NUMBER from 0 to 1000000, as in cpu=1")
        weights[name] = weight
    if len(weights) > _MANY:
        raise WeightsError(f"more than {_MANY} resources")
    return weights


def weights_of(text: str) -> Weights:
    """The weights that a setting says. Raises WeightsError."""
    return Weights(_thousandths(parse_weights(text)))


DEFAULT_WEIGHTS: Final = Weights()
