"""What a measured load shows of scavenger pods: by how much it falls when they go.

A pod that has asked for a core and uses a tenth of it brings the load down by a tenth of a core. Taken for a core, it
goes for a job that then does not fit, and the next one after it. What each pod uses the regulator knows; it publishes
how much of their requests all of them use, and every pod is taken for the average.

Where nothing is measured the load is what is requested, and falls by that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from scavenger_api.levels_text import RAMP_UP_SECONDS

from scavenger_admitter.core.admission.load import PPM, LoadRule
from scavenger_admitter.core.admission.placement.headroom import takes
from scavenger_admitter.core.admission.shape import Requests, counted
from scavenger_admitter.core.admission.units import SECOND


@dataclass(frozen=True, slots=True)
class Shown:
    """How pods stand in the load.

    Attributes:
        unseen_from: second since the epoch; pods that started then or later are not fully in the figures, and count
            with their requests beside them. 0 where nothing is measured: all do.
        used_ppm: of what the others have asked for, what they use, by resource, in millionths; what is missing: all.
    """

    unseen_from: int = 0
    used_ppm: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def under(cls, rule: LoadRule) -> Self:
        """What is shown of pods where the load is known in this way."""
        since = rule.measured_since
        return cls() if since is None else cls(since // SECOND, dict(rule.used_ppm))

    def of(self, requests: Requests, started: int) -> dict[str, int]:
        """By how much the load falls when a pod goes, by resource. started: second since the epoch.

        In its first minutes a pod counts with its requests. CPU on reclaimed capacity is in no measured load, as it
        gives way.
        """
        return dict(counted(requests)) if started >= self.unseen_from else self.on_node(requests, started)

    def on_node(self, requests: Requests, started: int) -> dict[str, int]:
        """By how much the use of its node falls, as its headroom is reckoned; see `of`."""
        if started > self.unseen_from - RAMP_UP_SECONDS:
            return dict(takes(requests))
        return {name: self.part(name, amount) for name, amount in takes(requests)}

    def part(self, resource: str, amount: int) -> int:
        """What is used of an amount that pods past their first minutes have asked for."""
        return amount * self.used_ppm.get(resource, PPM) // PPM


BY_REQUESTS: Final = Shown()
"""Nothing is measured."""
