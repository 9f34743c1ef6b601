"""What jobs really use of what they request: figures over all their runs, and the one reader and writer of them.

The status of a job has them as `status.usage`, the ledger of an adopted Job as a flat table. They come from the metrics
API, which has one figure every 15 seconds or slower: a peak of memory between two figures is missing. So the maximum of
memory is coarse, and a recommendation needs a margin (docs/designs/0034-what-jobs-use.md).

Amounts are those of one pod: millicores of cpu, bytes of memory, thousandths of a device. Devices are extended
resources, such as `nvidia.com/gpu`, of which a metric is set. A part of one cannot be requested, so nothing is
recommended of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from scavenger_api.quantity import QuantityError, amount, format_amount

RESOURCES: Final[tuple[str, ...]] = ("cpu", "memory")
"""What is measured everywhere."""
LEAST_SECONDS: Final = 300.0
"""Pod-seconds. What was measured for less time says nothing."""
MOST_GAP: Final = 300.0
"""Seconds. Of a longer gap between two samples no more is taken as measured."""
COARSE: Final = "memory is sampled every 15 s or slower, so shorter peaks are missing"
"""Said wherever the maximum of memory is shown."""

_MEBI: Final = 2**20
_FACTOR: Final = 1.25
_BUCKETS: Final = 64
"""The last one has what is above 1,200 cores, or 1.2 TiB."""
_SEEDED: Final = (("p50", 0.51), ("p95", 0.445), ("max", 0.045))
"""What a histogram has of earlier figures: shares of their weight that give the same p50 and p95 again."""


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """What one pod of a job uses of one resource.

    Attributes:
        requested: what it requests.
        p50: what it used half of the time.
        p95: what it did not exceed in 95 % of the time.
        max: the most that was seen.
        typical: the median over the runs of the most that was seen in each.
    """

    requested: int
    p50: int
    p95: int
    max: int
    typical: int


@dataclass(frozen=True, slots=True)
class JobUsage:
    """What the pods of a job use.

    Attributes:
        pod_seconds: for how long that was measured, summed over the pods.
        runs: how many runs were measured, of an array how many of its tasks.
        resources: by name, cpu and memory first.
    """

    pod_seconds: int
    runs: int
    resources: Mapping[str, ResourceUsage]

    @property
    def devices(self) -> dict[str, ResourceUsage]:
        """The part that is of devices."""
        return {name: one for name, one in self.resources.items() if name not in RESOURCES}


_PARTS: Final = tuple(one.name for one in fields(ResourceUsage))


def _counted_as(resource: str) -> str:
    """The resource in whose unit the amounts of one are."""
    return resource if resource in RESOURCES else "cpu"


def _words(resource: str, one: ResourceUsage) -> dict[str, str]:
    return {part: format_amount(_counted_as(resource), getattr(one, part)) for part in _PARTS}


def _read(resource: str, words: Mapping[str, Any]) -> ResourceUsage:
    return ResourceUsage(**{part: amount(_counted_as(resource), words[part]) for part in _PARTS})


def usage_in_words(usage: JobUsage) -> dict[str, Any]:
    """As `status.usage` has it: quantities."""
    found = {name: _words(name, one) for name, one in usage.resources.items() if name in RESOURCES}
    devices = {name: _words(name, one) for name, one in usage.devices.items()}
    return {"podSeconds": usage.pod_seconds, "runs": usage.runs, **found} | ({"devices": devices} if devices else {})


def read_usage(words: Mapping[str, Any] | None) -> JobUsage | None:
    """What `status.usage` says; None where there is none, or where it cannot be parsed."""
    if not words:
        return None
    try:
        told = {name: words[name] for name in RESOURCES if words.get(name)} | dict(words.get("devices") or {})
        resources = {name: _read(name, one) for name, one in told.items()}
        return JobUsage(int(words["podSeconds"]), int(words["runs"]), resources)
    except (KeyError, TypeError, ValueError, QuantityError):
        return None


def usage_in_table(usage: JobUsage | None) -> dict[str, float]:
    """As a ledger has it: `cpu.p95` and the like, amounts as numbers. Empty without figures."""
    if usage is None:
        return {}
    table: dict[str, float] = {"podSeconds": usage.pod_seconds, "runs": usage.runs}
    for resource, one in usage.resources.items():
        table |= {f"{resource}.{part}": getattr(one, part) for part in _PARTS}
    return table


def usage_of_table(table: Mapping[str, float]) -> JobUsage | None:
    """What a ledger says; None where it says nothing."""
    try:
        devices = sorted(key.removesuffix(".max") for key in table if key.endswith(".max"))
        names = [name for name in dict.fromkeys([*RESOURCES, *devices]) if f"{name}.max" in table]
        resources = {name: ResourceUsage(**{part: round(table[f"{name}.{part}"]) for part in _PARTS}) for name in names}
        return JobUsage(round(table["podSeconds"]), round(table["runs"]), resources)
    except (KeyError, ValueError, OverflowError):
        return None


class Histogram:
    """Weights by amount, in 64 buckets whose bounds grow by a quarter. A percentile is exact to 12 %, the maximum is
    exact. Only buckets with a weight take memory: a program that does one thing has few.

    Args:
        first: the upper bound of the first bucket.
    """

    __slots__ = ("_first", "_weights", "max")

    def __init__(self, first: float) -> None:
        self._first = first
        self._weights: dict[int, float] = {}
        self.max = 0.0
        """The largest amount."""

    def add(self, value: float, weight: float) -> None:
        """Count an amount with a weight above 0."""
        bucket = self._bucket(value)
        self._weights[bucket] = self._weights.get(bucket, 0.0) + weight
        self.max = max(self.max, value)

    def quantile(self, share: float) -> float:
        """The amount that holds at least this share (0 to 1) of the weight; 0 without any."""
        left = share * sum(self._weights.values())
        for bucket in sorted(self._weights):
            left -= self._weights[bucket]
            if left <= 0:
                return min(self.max, self._first * math.pow(_FACTOR, bucket - 0.5))
        return self.max

    def with_more(self, values: Iterable[float]) -> Self:
        """A copy in which these count as well, each with a weight of 1."""
        found = type(self)(self._first)
        found.max, found._weights = self.max, dict(self._weights)
        for value in values:
            found.add(value, 1.0)
        return found

    def _bucket(self, value: float) -> int:
        if value <= self._first:
            return 0
        return min(_BUCKETS - 1, math.ceil(math.log(value / self._first, _FACTOR)))


@dataclass(slots=True)
class _Run:
    """The most that was seen in a run, by resource, and when it was seen last."""

    most: dict[str, float]
    at: float


class UsageBook:
    """Adds up what the pods of one job use. Nothing of it is kept for each pod but for the most of each run that goes
    on.

    Args:
        known: what the status says, where another process has measured before. It counts with its weight. A task that
            runs as processes change counts as two.
    """

    __slots__ = ("_ended", "_peaks", "_requested", "_running", "_seconds", "_time", "_usage")

    def __init__(self, known: JobUsage | None = None) -> None:
        self._seconds = 0.0
        self._ended = 0
        self._requested: dict[str, int] = {}
        self._time: dict[str, Histogram] = {}
        self._peaks: dict[str, Histogram] = {}
        self._running: dict[str, _Run] = {}
        self._usage: JobUsage | None = None
        """The figures, until there are new ones: a job is looked at more often than it is measured."""
        if known is not None:
            self._begin_with(known)

    def _begin_with(self, known: JobUsage) -> None:
        self._seconds, self._ended = float(known.pod_seconds), known.runs
        for name, one in known.resources.items():
            self._requested[name] = one.requested
            for part, share in _SEEDED:
                _of(self._time, name).add(getattr(one, part), share * max(1.0, self._seconds))
            _of(self._peaks, name).add(one.typical, max(1, known.runs))

    def add(self, run: str, used: Mapping[str, float], requested: Mapping[str, int], seconds: float, at: float) -> None:
        """Take a sample of one pod in.

        Args:
            run: the run that the pod is of, of an array the life of the task.
            used: amounts, as an average over the sample's time.
            requested: amounts, of devices in thousandths as well.
            seconds: that the sample stands for.
            at: when it was taken, in seconds since the epoch.
        """
        self._usage = None
        found = self._running.setdefault(run, _Run({}, at))
        found.at = max(found.at, at)
        self._seconds += seconds
        for name, value in used.items():
            self._requested[name] = requested.get(name, 0)
            _of(self._time, name).add(value, seconds)
            found.most[name] = max(found.most.get(name, 0.0), value)

    def end_before(self, at: float) -> None:
        """Runs without a sample since then are over."""
        for run in [run for run, seen in self._running.items() if seen.at < at]:
            self._usage = None
            self._ended += 1
            for name, most in self._running.pop(run).most.items():
                _of(self._peaks, name).add(most, 1.0)

    @property
    def last(self) -> float:
        """When the last sample was taken, in seconds since the epoch; 0 where no run goes on."""
        return max((run.at for run in self._running.values()), default=0.0)

    @property
    def usage(self) -> JobUsage | None:
        """The figures; None where too little was measured."""
        if self._seconds < LEAST_SECONDS:
            return None
        if self._usage is None:
            found = {name: self._of(name) for name in sorted(self._requested, key=_in_order)}
            self._usage = JobUsage(round(self._seconds), self._ended + len(self._running), found)
        return self._usage

    def _of(self, name: str) -> ResourceUsage:
        time, peaks = self._time[name], _of(self._peaks, name)
        peaks = peaks.with_more(run.most[name] for run in self._running.values() if name in run.most)
        return ResourceUsage(
            self._requested[name],
            _whole(name, time.quantile(0.5)),
            _whole(name, time.quantile(0.95)),
            _whole(name, time.max),
            _whole(name, peaks.quantile(0.5)),
        )


def _of(histograms: dict[str, Histogram], resource: str) -> Histogram:
    """The histogram of a resource. Its first bucket ends at a mebibyte of memory, or a thousandth of others."""
    found = histograms.get(resource)
    if found is None:
        found = histograms[resource] = Histogram(float(_MEBI) if resource == "memory" else 1.0)
    return found


def _in_order(resource: str) -> tuple[bool, str]:
    """Sorts cpu and memory first."""
    return resource not in RESOURCES, resource


def _whole(resource: str, value: float) -> int:
    """Rounded up to what a quantity says in few digits: thousandths, mebibytes."""
    return math.ceil(value / _MEBI) * _MEBI if resource == "memory" else math.ceil(value)
