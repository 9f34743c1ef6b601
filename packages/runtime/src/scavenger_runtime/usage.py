"""CPU time that pods really used, added up from the rates that a source reports: the metrics API, or Prometheus.

A source knows only now: cores, as an average over the last window. What a pod used between two moments is the
sum of rate times window, and without measurements (before the first figure, a gap, a restart of the service) the mean
rate of what was seen stands in. So a figure is exact where it was watched and an estimate elsewhere, and there is one
for every span of a pod's life as soon as there is a single sample.

Units: times in seconds since the epoch, rates in cores, CPU time in core-seconds.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from scavenger_api import names
from scavenger_api.quantity import QuantityError, parse_quantity
from scavenger_api.times import micros, parse_time
from scavenger_domain.gang import MICROSECONDS
from scavenger_domain.unit import WHOLE_SECOND, of_life
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError
from scavenger_kube.metrics_api import POD_METRICS, ContainerMetrics, PodMetrics, decode_pod_metrics, window_seconds

from scavenger_runtime.logging import get_logger
from scavenger_runtime.threads import in_turns

MAX_POINTS: Final = 64
"""Points kept of each pod; when there are more, every other one is dropped: long runs are known less finely."""
SMALLEST_WINDOW: Final = 1.0
AT_A_TIME: Final = 500
"""Figures that are read between two turns of the event loop: ten milliseconds."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Sample:
    """What a pod used.

    Attributes:
        pod: what tells it apart from others, its earlier lives among them.
        cores: on average over the window.
        at: the end of the window, in seconds since the epoch.
        window: seconds.
        memory: bytes; None where that is not said.
        devices: how many of each extended resource, a part of one as a fraction; of those of which a metric is set.
        uid: of the pod; empty where that is not said.
    """

    pod: str
    cores: float
    at: float
    window: float
    memory: float | None = None
    devices: Mapping[str, float] = field(default_factory=dict)
    uid: str = ""

    def is_of(self, life: Life, now: datetime) -> bool:
        """Whether it is of this life of its pod. The metrics API knows pods by their names alone."""
        if self.uid:
            return self.uid == life.uid
        begins = round((self.at - self.window + WHOLE_SECOND) * MICROSECONDS)
        return of_life(life.created, begins, micros(now))


@dataclass(slots=True)
class _Curve:
    """Core-seconds seen so far, at moments of growing time. Both begin when the first window began."""

    times: list[float] = field(default_factory=list)
    totals: list[float] = field(default_factory=list)

    def add(self, sample: Sample) -> None:
        began = sample.at - max(SMALLEST_WINDOW, sample.window)
        if not self.times:
            self.times.append(began)
            self.totals.append(0.0)
        elif sample.at <= self.times[-1]:
            return  # polled twice
        # Up to the last sample the CPU time is known; a gap between the two counts at the newer rate.
        used = sample.cores * (sample.at - self.times[-1])
        self.times.append(sample.at)
        self.totals.append(self.totals[-1] + used)
        if len(self.times) > MAX_POINTS:
            del self.times[1:-1:2], self.totals[1:-1:2]

    def until(self, at: float) -> float:
        """Core-seconds seen up to `at`, which lies between the first and the last moment."""
        i = bisect_right(self.times, at)
        if i >= len(self.times):
            return self.totals[-1]
        earlier, later = self.times[i - 1], self.times[i]
        share = (at - earlier) / (later - earlier)
        return self.totals[i - 1] + share * (self.totals[i] - self.totals[i - 1])


class UsageMeter:
    """Adds up what pods use. Pods are known by their UIDs: a task of an array runs again under the name of its pod."""

    def __init__(self) -> None:
        self._curves: dict[str, _Curve] = {}

    def observe(self, sample: Sample) -> None:
        """Take a sample in; what is no number, negative, or no newer than the last is left out."""
        if math.isfinite(sample.cores) and sample.cores >= 0 and math.isfinite(sample.at):
            self._curves.setdefault(sample.pod, _Curve()).add(sample)

    def keep(self, pods: Collection[str]) -> None:
        """Forget all other pods."""
        for gone in self._curves.keys() - set(pods):
            del self._curves[gone]

    def cpu_seconds(self, pod: str, since: float, until: float) -> float | None:
        """Core-seconds from `since` to `until`; None for a pod never seen. Outside of what was seen, at its mean rate
        (of the part of the span that was seen, else of all)."""
        curve = self._curves.get(pod)
        if curve is None:
            return None
        if until <= since:
            return 0.0
        first, last = curve.times[0], curve.times[-1]
        begin, end = min(max(since, first), last), min(max(until, first), last)
        if end > begin:
            seen, span = curve.until(end) - curve.until(begin), end - begin
            return seen * (until - since) / span
        return curve.totals[-1] / (last - first) * (until - since)

    def watched(self, pod: str, since: float, until: float) -> float:
        """Which share (0 to 1) of the span from `since` to `until` lies between the first and the last sample."""
        curve = self._curves.get(pod)
        if curve is None or until <= since:
            return 0.0
        return max(0.0, min(until, curve.times[-1]) - max(since, curve.times[0])) / (until - since)


# --- polling ---


class Life(NamedTuple):
    """Which pod it is that has a name now. created: when it got the name, microseconds since the epoch."""

    uid: str
    created: int


class UsageError(Exception):
    """A source of figures cannot be asked, or its answer says nothing; the message says why."""


class UsageSource(Protocol):
    """Who knows what pods use."""

    @property
    def name(self) -> str:
        """As in logs."""

    async def measure(self) -> list[Sample]:
        """What all scavenger pods use now, known by `namespace/name`; those it cannot say are missing. Raises
        UsageError."""


class PodUsage:
    """A meter of the scavenger pods that the caller wants measured, fed from one source. Without answers the old
    figures stand, and it is logged once.

    Args:
        source: to ask.
    """

    def __init__(self, source: UsageSource) -> None:
        self.meter = UsageMeter()
        self._source = source
        self._failing = False

    async def poll(self, pods: Mapping[str, Life], now: datetime) -> bool | None:
        """Take one set of figures in, of these pods, by `namespace/name`, and no others.

        The metrics API knows pods by their names alone. A figure that is of an earlier life of a pod is left out.

        Returns:
            Whether the source answered; None when it was not asked, as there is nothing to measure.
        """
        if not pods:
            self.meter.keep(())
            return None
        samples = await self.ask()
        self.feed(pods, samples or (), now)
        return samples is not None

    async def ask(self, *, needed: bool = True) -> list[Sample] | None:
        """What all scavenger pods use now; None where the source does not answer.

        Args:
            needed: jobs on reclaimed capacity are among them. Otherwise a missing answer does not matter, and is not
                logged.
        """
        try:
            samples = await self._source.measure()
        except UsageError as error:
            if needed and not self._failing:
                log.warning(
                    f"CPU time on reclaimed capacity is estimated: no metrics from {self._source.name}",
                    error=str(error),
                )
            self._failing = self._failing or needed
            return None
        if self._failing:
            log.info("CPU time on reclaimed capacity is measured again")
        self._failing = False
        return samples

    def feed(self, pods: Mapping[str, Life], samples: Iterable[Sample], now: datetime) -> None:
        """Take an answer in, as `poll` does."""
        self.meter.keep({life.uid for life in pods.values()})
        for sample in samples:
            life = pods.get(sample.pod)
            if life is not None and sample.is_of(life, now):
                self.meter.observe(replace(sample, pod=life.uid))


class MetricsApiUsage:
    """Asks the metrics API, by the API server.

    Args:
        client: to ask with.
        timeout: seconds until a question counts as failed.
    """

    name: Final = "the metrics API"

    def __init__(self, client: ApiClient, timeout: float) -> None:
        self._client = client
        self._timeout = timeout

    async def measure(self) -> list[Sample]:
        """As `UsageSource`. CPU and memory only."""
        params = {"labelSelector": names.LABEL_JOB}
        try:
            body = await self._client.request("GET", POD_METRICS, params=params, timeout=self._timeout)
            found = (_sample(item) async for item in in_turns(decode_pod_metrics(body), AT_A_TIME))
            return [sample async for sample in found if sample is not None]
        except (ApiError, ValueError) as error:
            raise UsageError(str(error)) from error


def _sample(item: PodMetrics) -> Sample | None:
    at, cores = parse_time(item.timestamp), _sum(item.containers, "cpu")
    if at is None or cores is None:
        return None
    return Sample(item.key, cores, at.timestamp(), window_seconds(item.window), _sum(item.containers, "memory"))


def _sum(containers: Iterable[ContainerMetrics], resource: str) -> float | None:
    """The sum over the containers; None when one of them has no figure."""
    total = 0.0
    for container in containers:
        try:
            total += float(parse_quantity(container.usage.get(resource, "")))
        except QuantityError:
            return None
    return total
