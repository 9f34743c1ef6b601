"""What counts as lost on /metrics, which takes nothing back."""

from __future__ import annotations

from collections.abc import Mapping

from scavenger_admitter import metrics


class Losses:
    """What the statuses of a job say is lost, until it is certain: what a program saves as it ends is known only when
    it has ended, a grace period later. Kept in this process alone; what was not certain when it ended is on no metric.
    """

    def __init__(self) -> None:
        self._queue = ""
        self._open: dict[str, float] = {}

    def book(self, queue: str, lost: Mapping[str, float]) -> None:
        """So much was lost in that queue: core-seconds of `cpu`, seconds of devices. With less than 0 so much was saved
        after all."""
        if any(lost.values()):
            self._queue = queue
            self._open = {name: self._open.get(name, 0.0) + lost.get(name, 0.0) for name in {**self._open, **lost}}

    def close(self) -> None:
        """What was booked is certain, or the job is gone."""
        for name, amount in self._open.items():
            if amount > 0:
                cpu, queue = name == "cpu", self._queue
                lost = metrics.LOST_CPU_SECONDS.labels(queue) if cpu else metrics.LOST_SECONDS.labels(queue, name)
                lost.inc(amount)
        self._open = {}
