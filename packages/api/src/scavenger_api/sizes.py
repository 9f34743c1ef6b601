"""What the pods of a job request where its status recommends something: the one rule, for all that reads a spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scavenger_api.names import LEVELS_RESOURCES
from scavenger_api.reclaimed import asked_for

_Quantities = Mapping[str, str | int | float]


def recommended_amounts(recommended: Mapping[str, Any]) -> dict[str, str]:
    """What `status.recommended` has in the place of the job's own requests, as quantities by resource."""
    return {name: str(text) for name in LEVELS_RESOURCES if (text := recommended.get(name))}


def sized_requests(
    requests: _Quantities | None, limits: _Quantities | None, recommended: Mapping[str, Any]
) -> dict[str, str | int | float]:
    """What a pod requests, as quantities by resource.

    Args:
        requests: of `spec.resources`.
        limits: of `spec.resources`.
        recommended: `status.recommended`.
    """
    return asked_for(requests, limits) | recommended_amounts(recommended)
