"""How single values stand in the ConfigMap `scavenger-levels`: keys beyond the contract's, numbers, lists of nodes.

What they mean together is in `scavenger_api.levels`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

MESSAGE: Final = "message"
"""Beyond the contract's keys: why the state is what it is, for people. Nothing decides by it."""

UNTIL: Final = "until"
"""Beyond the contract's keys: when the cool-down after interruptions ends in which `admit` is false. Only written while
that time is known."""

SOURCE: Final = "source"
"""Beyond the contract's keys: where the load comes from, by the names of the regulator's `--source`."""

REQUESTS_SOURCE: Final = "requests"
"""Of SOURCE: no measurements, the load is what is requested. A reader that follows all pods knows it better than the
last period did."""

CLOSED_NODES: Final = "closedNodes"
"""Beyond the contract's keys: nodes at or above their own admission threshold, separated by blanks. Only written where
the regulator has thresholds per node. Start nothing new on them."""

CROWDED_NODES: Final = "crowdedNodes"
"""Beyond the contract's keys: `node=millicores`, separated by blanks: nodes with more reclaimed CPU placed than they
have to offer, and what that would be. Their status goes on showing what is placed, or a kubelet that restarts would
refuse the pods it has. Start nothing new on reclaimed capacity there."""

NODE_HEADROOM: Final = "nodeHeadroom"
"""Beyond the contract's keys: `node=CPU/MEMORY`, separated by blanks: thousandths of what a node can allocate that are
left up to its own admission threshold, rounded down. Only written where the regulator has a level per
node; of nodes in neither this list nor CLOSED_NODES nothing is known, and what their requests leave free is what they
have."""

AVERAGED_SINCE: Final = "averagedSince"
"""Beyond the contract's keys: when the averaging behind the oldest sample began. A pod that started after it is not, or
not fully, in the load yet: what is measured is an average over the last ten seconds or more."""

STALE_AFTER: Final = "staleAfterSeconds"
"""Beyond the contract's keys: seconds after `observedAt` from which the levels are stale. Without it, three periods.
The oldest figure that the regulator believes has to last until the next publication."""

GIVES_WAY: Final = "givesWay"
"""Beyond the contract's keys, per resource (`givesWay.cpu`): the points of `load` that are CPU on reclaimed capacity.
The kernel gives it to others as soon as they want it, so it keeps no job from starting. Written where there is any."""

RAMPING: Final = "ramping"
"""Beyond the contract's keys, per resource (`ramping.cpu`): points beside `load` in which no new job may start. They
are what scavenger pods in their first minutes requested and do not use yet, and the CPU that throttled jobs get
back."""

RAMP_UP_SECONDS: Final = 300
"""So long after its start a scavenger pod is in its first minutes: it counts with what it asks for, use and RAMPING."""

USED_OF_REQUESTS: Final = "usedOfRequests"
"""Beyond the contract's keys, per resource (`usedOfRequests.cpu`): percent of what scavenger pods past their first
minutes have asked for that they use, CPU on reclaimed capacity aside. When such a pod goes, the load falls by so much
of its requests. Written where there is any."""

KEPT: Final = "kept"
"""Beyond the contract's keys, per resource (`kept.cpu`): percent of what the nodes can allocate that jobs leave free on
the largest of them, as regular pods may request so much more within half an hour. Written where there is any."""

POOL: Final = "pool."
"""Beyond the contract's keys: before the keys of a pool of nodes with levels of its own (`pool.NAME.state`), which are
those of the cluster once more. The keys without it are those of the default pool, and of all nodes of no such pool."""

DEFAULT_POOL: Final = "default"
"""What the default pool is called in metrics and messages, where a name is needed."""

POOL_IGNORES: Final = "poolIgnores"
"""Beyond the contract's keys: keys of taints and names of devices that tell no pools apart, separated by blanks; only
written where the regulator has such a setting. Who finds the pool of a node for people reads them here."""

MOST_POOLS: Final = 16
"""Pools with levels of their own, the default pool aside."""

MOST_DIGITS: Final = 12
"""Of the millicores of a node; Python makes no number of more than a few thousand."""


class GarbageError(ValueError):
    """What stands in the ConfigMap says nothing."""


def number(value: float) -> str:
    """To two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def read_number(data: Mapping[str, str], key: str, *, low: float = 0.0, high: float = 100.0) -> float:
    """A number that has to be there. Raises GarbageError where it is not, or not within `low` to `high`."""
    text = data.get(key)
    if text is None:
        raise GarbageError(f"{key} is missing")
    try:
        value = float(text)
    except (TypeError, ValueError):
        raise GarbageError(f"{key} is {text!r}, not a number") from None
    if not low <= value <= high:  # NaN compares false
        raise GarbageError(f"{key} is {text!r}, not within {low:g} to {high:g}")
    return value


def read_optional(data: Mapping[str, str], key: str) -> float | None:
    """A percentage that may be missing. Raises GarbageError for what is none."""
    return read_number(data, key) if key in data else None


def read_crowded(data: Mapping[str, str]) -> dict[str, int]:
    """Millicores by node; what cannot be read is left out."""
    pairs = (entry.rpartition("=") for entry in data.get(CROWDED_NODES, "").split())
    return {node: int(cpu) for node, _, cpu in pairs if node and _is_whole(cpu, MOST_DIGITS)}


def write_headroom(headroom: Mapping[str, tuple[int, int]]) -> str:
    """The value of NODE_HEADROOM."""
    return " ".join(headroom_entry(node, left) for node, left in sorted(headroom.items()))


def headroom_entry(node: str, left: tuple[int, int]) -> str:
    """What NODE_HEADROOM says of one node. left: thousandths of its CPU and memory."""
    return f"{node}={left[0]}/{left[1]}"


@lru_cache(maxsize=2)  # thousands of nodes, read in each admission cycle, and written once a period at the most
def read_headroom(text: str) -> Mapping[str, tuple[int, int]]:
    """Thousandths of CPU and memory by node; what cannot be read is left out."""
    found = {}
    for entry in text.split():
        node, _, left = entry.rpartition("=")
        cpu, _, memory = left.partition("/")
        if node and _is_whole(cpu, 4) and _is_whole(memory, 4):
            found[node] = (int(cpu), int(memory))
    return MappingProxyType(found)


def _is_whole(text: str, digits: int) -> bool:
    """Whether it is a whole number, 0 or more, of so many digits at most."""
    return text.isascii() and text.isdigit() and len(text) <= digits
