"""What counts as lost on /metrics, which takes nothing back."""

from __future__ import annotations

from collections.abc import Mapping

from scavenger_admitter import metrics


class Losses:
    """What statuses say is lost, until it is certain: what a program saves as it ends is known only when it
    has ended, a grace period later. Kept in this process alone; what was not certain when it ended is on no metric."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, dict[str, float]]] = {}

    def book(self, key: str, queue: str, lost: Mapping[str, float]) -> None:
        """So much of a job of that queue was lost: core-seconds of `cpu`, seconds of devices. With less than 0 so much
        was saved after all."""
        if any(lost.values()):
            before = self._open.get(key, (queue, {}))[1]
            self._open[key] = queue, {name: before.get(name, 0.0) + lost.get(name, 0.0) for name in {**before, **lost}}

    def close(self, key: str) -> None:
        """What was booked of that job is certain, or it is gone."""
        queue, lost = self._open.pop(key, ("", {}))
        for name, amount in lost.items():
            if amount > 0:
                cpu = name == "cpu"
                lost_ = metrics.LOST_CPU_SECONDS.labels(queue) if cpu else metrics.LOST_SECONDS.labels(queue, name)
                lost_.inc(amount)
