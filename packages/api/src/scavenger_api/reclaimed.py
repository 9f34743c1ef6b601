"""Reclaimed capacity: by which resources a pod is placed, and as what it counts.

A pod of a job with `capacity: Reclaimed` requests no cpu and no memory. It is placed by two extended resources that the
regulator publishes for each node: `scavenger.dev/reclaimed-cpu` in millicores and `scavenger.dev/reclaimed-memory` in
MiB. In queues, shares and quotas the same amounts count as cpu and memory.

Amounts are as in `scavenger_api.quantity`: millicores, bytes, whole units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from scavenger_api.names import RESOURCE_RECLAIMED_CPU, RESOURCE_RECLAIMED_MEMORY
from scavenger_api.quantity import QuantityError, units

MIB: Final = 1 << 20
RECLAIMED: Final = {"cpu": (RESOURCE_RECLAIMED_CPU, 1), "memory": (RESOURCE_RECLAIMED_MEMORY, MIB)}
"""Resource → the extended resource that stands for it, and how many of the one are a unit of the other."""
_COUNTED: Final = {extended: (resource, unit) for resource, (extended, unit) in RECLAIMED.items()}


def asked_for(
    requests: Mapping[str, str | int | float] | None, limits: Mapping[str, str | int | float] | None
) -> dict[str, str | int | float]:
    """What the two sides of `resources` ask for, as quantities: the request, or the limit where there is no request or
    it says 0 (capacity: Reclaimed). Never raises: what is not a quantity is left as it is where there is no limit.
    """
    asked = dict(limits or {})
    for name, text in (requests or {}).items():
        if name not in asked or _says_something(text):
            asked[name] = text
    return asked


def _says_something(text: str | int | float) -> bool:
    try:
        return units(text) != 0
    except QuantityError:
        return False


def placed_by(requests: Mapping[str, int]) -> dict[str, int]:
    """What the scheduler places a pod by that asks for these amounts on reclaimed capacity; rounded up to whole MiB."""
    placed: dict[str, int] = {}
    for resource, value in requests.items():
        extended, unit = RECLAIMED.get(resource, (resource, 1))
        placed[extended] = -(-value // unit)
    return placed


def taken_of_headroom(requests: Iterable[tuple[str, int]]) -> dict[str, int]:
    """What a pod takes of what its node has left up to a level of its own. CPU on reclaimed capacity gives way and
    takes nothing; resources that it does not ask for are missing.
    """
    asked = dict(requests)
    taken = {"cpu": asked.get("cpu"), "memory": counted_as(asked.items()).get("memory")}
    return {resource: amount for resource, amount in taken.items() if amount is not None}


def counted_as(amounts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """What amounts, by resource, count as where it does not matter how they are placed: a reclaimed CPU is a CPU."""
    counted: dict[str, int] = {}
    for name, value in amounts:
        resource, unit = _COUNTED.get(name, (name, 1))
        counted[resource] = counted.get(resource, 0) + value * unit
    return counted
