"""Scavenger pods that measurements may not know yet."""

from __future__ import annotations

from typing import Final

from scavenger_admitter.core.admission.placement.headroom import takes
from scavenger_admitter.core.admission.sums import add
from scavenger_admitter.core.admission.units import SECOND
from scavenger_admitter.core.admission.view.object_facts import PodFacts

KEPT_SECONDS: Final = 120
"""By which the figures of the next period may be older than the present ones."""


class RecentStarts:
    """Bound scavenger pods that have not started, or not long ago; to say what figures do not know of them."""

    def __init__(self) -> None:
        self._pods: dict[str, PodFacts] = {}

    def add(self, pod: PodFacts) -> None:
        """A pod is bound, or what is known of it has changed."""
        self._pods[pod.key] = pod

    def remove(self, pod: PodFacts) -> None:
        """It is gone, or has ended."""
        self._pods.pop(pod.key, None)

    def by_node(self, observed_at: int) -> dict[str, dict[str, int]]:
        """Per node what those take that started in the second of `observed_at` (microseconds) or later. Those that
        started long before are forgotten."""
        second = observed_at // SECOND
        found: dict[str, dict[str, int]] = {}
        old = []
        for key, pod in self._pods.items():
            if pod.started >= second:
                add(found.setdefault(pod.node, {}), takes(pod.requests))
            elif pod.started < second - KEPT_SECONDS:
                old.append(key)
        for key in old:
            del self._pods[key]
        return found
