"""What counts as lost on /metrics, which takes nothing back."""

from __future__ import annotations

from scavenger_admitter import metrics


class Losses:
    """CPU time that statuses say is lost, until it is certain: what a program saves as it ends is known only when it
    has ended, a grace period later. Kept in this process alone; what was not certain when it ended is on no metric."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, float]] = {}

    def book(self, key: str, queue: str, lost: float) -> None:
        """So many core-seconds of a job of that queue were lost; with less than 0 so many were saved after all."""
        if lost:
            self._open[key] = queue, self._open.get(key, (queue, 0.0))[1] + lost

    def close(self, key: str) -> None:
        """What was booked of that job is certain, or it is gone."""
        queue, lost = self._open.pop(key, ("", 0.0))
        if lost > 0:
            metrics.LOST_CPU_SECONDS.labels(queue).inc(lost)
