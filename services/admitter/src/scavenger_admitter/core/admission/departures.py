"""Scavenger pods that have gone since the load was measured: the load still shows them, and no job holds their capacity
any more.

It is no matter how they went: by themselves, deleted, or taken back. Without them a job that ends would reduce by what
it held what all queues deserve, until the next measurement.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from scavenger_admitter.core.admission.shape import Requests, counted
from scavenger_admitter.core.admission.units import SECOND

KEPT: Final = 600 * SECOND
"""No measurement that is relied on is older."""


@dataclass(frozen=True, slots=True)
class DepartedPod:
    """A scavenger pod that has ended or is gone.

    Attributes:
        node: where it was; it counted for the load.
        requests: what it took of it.
        started: second since the epoch.
        created: second since the epoch.
    """

    node: str
    requests: Requests
    started: int
    created: int = 0

    @property
    def counted(self) -> Requests:
        """What its queue and the load are relieved of."""
        return counted(self.requests)


class Departures:
    """What has gone, and when."""

    def __init__(self) -> None:
        self._asked = False
        self._new: list[DepartedPod] = []
        self._gone: deque[tuple[int, DepartedPod]] = deque()

    def add(self, pod: DepartedPod) -> None:
        """A pod has ended or is gone. Before the first call of `since` nothing is kept: a standby may not be asked for
        weeks."""
        if self._asked:
            self._new.append(pod)

    def since(self, observed_at: int | None, now: int) -> tuple[DepartedPod, ...]:
        """What has gone since a measurement that knew it; empty without measurements. The moments are as exact as the
        calls are frequent: one in every cycle. Both in microseconds since the epoch."""
        self._asked = True
        if self._gone and self._gone[-1][0] > now:  # the clock was set back
            self._gone = deque((min(at, now), pod) for at, pod in self._gone)
        self._gone.extend((now, pod) for pod in self._new)
        self._new.clear()
        while self._gone and self._gone[0][0] < now - KEPT:
            self._gone.popleft()
        if observed_at is None:
            return ()
        second = observed_at // SECOND
        return tuple(pod for at, pod in self._gone if at >= observed_at and pod.started < second)

    def doubtful(self, observed_at: int, lag: int) -> Iterator[DepartedPod]:
        """What else has gone that a measurement may show: just before it, by no more than `lag`, or what began while it
        was taken. Both in microseconds."""
        second = observed_at // SECOND
        for at, pod in self._gone:
            if at >= observed_at - lag and (at < observed_at or pod.started >= second):
                yield pod
