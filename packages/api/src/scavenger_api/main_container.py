"""Of a pod with several containers: which is the program, and what its resources make it suffer. Without pydantic, as
the command line reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from scavenger_api.quantity import QuantityError, amounts

_SUFFERS: Final = {"cpu": "throttled to its request", "memory": "killed first when its node is short of memory"}

GOES_FIRST: Final = "above its request it is evicted before jobs that lose as much"


def main_index(containers: Sequence[str], wanted: str | None) -> int:
    """The place of the container that is the program: the one of this name, or the first.

    Args:
        containers: their names.
        wanted: `spec.mainContainer`.
    """
    return next((at for at, name in enumerate(containers) if name == wanted), 0)


def unequal(requests: Mapping[str, str | int | float], limits: Mapping[str, str | int | float]) -> str:
    """What may happen to a container whose requests differ from its limits, in words; empty where they do not.
    Requests are what is planned by, limits what may be used."""
    try:
        most = amounts(limits)
        planned = most | amounts(requests)
    except QuantityError:
        return ""
    more = [name for name in _SUFFERS if planned.get(name) != most.get(name)]
    suffers = ", and ".join(f"be {_SUFFERS[name]}" for name in more)
    if not more:
        return ""
    return f"{' and '.join(more)} requests differ from limits: it may {suffers}, and {GOES_FIRST}"
