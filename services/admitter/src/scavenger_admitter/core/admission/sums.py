"""Sums of amounts by resource, kept up to date change by change."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from scavenger_admitter.core.admission.shape import Requests
from scavenger_admitter.core.admission.units import SECOND


def add(sums: dict[str, int], requests: Iterable[tuple[str, int]], times: int = 1) -> None:
    """Add requests to sums in place; zeros vanish, so that sums do not remember what is gone."""
    for name, value in requests:
        total = sums.get(name, 0) + value * times
        if total:
            sums[name] = total
        else:
            sums.pop(name, None)


def sums_of(all_requests: Iterable[Requests]) -> dict[str, int]:
    """What several pods request together."""
    sums: dict[str, int] = {}
    for requests in all_requests:
        add(sums, requests)
    return sums


class SumsBySecond:
    """Requests of scavenger pods by the second in which something happened to them, to sum those since a time."""

    __slots__ = ("_seconds", "_sums")

    def __init__(self) -> None:
        self._seconds: list[int] = []
        self._sums: dict[int, dict[str, int]] = {}

    def add(self, second: int, requests: Requests, times: int) -> None:
        """Add the requests of a pod to which it happened in this second, or take them out."""
        sums = self._sums.get(second)
        if sums is None:
            sums = self._sums[second] = {}
            insort(self._seconds, second)
        add(sums, requests, times)
        if not sums:
            del self._sums[second]
            del self._seconds[bisect_left(self._seconds, second)]

    def since(self, moment: int) -> dict[str, int]:
        """Sums from the second of `moment` (microseconds) on: pod times have no finer resolution."""
        total: dict[str, int] = {}
        for second in self._seconds[bisect_left(self._seconds, moment // SECOND) :]:
            add(total, self._sums[second].items())
        return total
