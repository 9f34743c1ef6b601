"""What scavenger pods use, polled while jobs run. Decides nothing.

Of pods on reclaimed capacity the CPU time of each is kept: their books and their lives depend on it. Pods are known to
it from when their job is known to run until they are released, so that the figures of one that has ended are there
until its ending is settled. Where there are no figures, after a restart or without a source, the limit times time
stands in (`accounting.taken`).

Of all jobs the figures of `status.usage` are kept, as histograms (`scavenger_domain.usage`). Another process goes on
with what the status says.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from scavenger_api import names
from scavenger_api.job import Capacity, ScavengerJob
from scavenger_domain.gang import task_index
from scavenger_domain.pod_reading import moment_of
from scavenger_domain.requests import computing_requests
from scavenger_domain.usage import MOST_GAP, JobUsage, UsageBook
from scavenger_kube.client import ApiClient
from scavenger_kube.kinds import Pod
from scavenger_runtime.clock import Clock
from scavenger_runtime.prometheus import PrometheusClient
from scavenger_runtime.prometheus_usage import DeviceUsage, PrometheusUsage, UsageQueries
from scavenger_runtime.threads import in_turns
from scavenger_runtime.usage import Life, MetricsApiUsage, PodUsage, Sample, UsageSource

from scavenger_admitter import metrics
from scavenger_admitter.core.admission.cycle.starvation import MeasuredJob, PodUse
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.recommended import usage_in
from scavenger_admitter.informers import Informers
from scavenger_admitter.settings import AdmitterSettings

TIMEOUT_SECONDS: Final = 10.0
WATCHED_SHARE: Final = 0.8
"""A pod is judged only when it was watched for at least this share of the time."""
SILENT_SECONDS: Final = 600.0
"""Without a metrics API it is asked again after so long, where no job on reclaimed capacity misses the figures."""
OVER_SECONDS: Final = 600.0
"""A run without a figure for so long is over, and a job without one is forgotten: its status has what was measured."""
AT_A_TIME: Final = 100
"""Samples between two turns of the event loop."""
BOOKS_AT_A_TIME: Final = 5000
"""Jobs, of which most have no run that is over: ten milliseconds."""


def usage_source(
    settings: AdmitterSettings, client: ApiClient, prometheus: PrometheusClient | None, informers: Informers
) -> UsageSource:
    """Who is asked for what pods use.

    Args:
        settings: of the admitter.
        client: for the metrics API.
        prometheus: where one is known.
        informers: the pods.
    """
    found: UsageSource = MetricsApiUsage(client, TIMEOUT_SECONDS)
    if prometheus is not None and settings.usage_source == "prometheus":
        queries = UsageQueries(
            cpu=settings.prometheus_pod_cpu,
            memory=settings.prometheus_pod_memory,
            taken=settings.prometheus_taken,
            window=settings.prometheus_window,
        )
        found = PrometheusUsage(prometheus, queries, informers.node_of)
    return DeviceUsage(found, prometheus, settings.devices) if prometheus is not None and settings.devices else found


class UsagePoller:
    """Asks what pods use, for as long as there are any to ask about.

    Args:
        source: to ask.
        clock: for the rounds.
        informers: the running jobs and their pods, and which pods are still to be settled.
        period: seconds between two rounds.
    """

    def __init__(self, source: UsageSource, clock: Clock, informers: Informers, *, period: float) -> None:
        self._clock = clock
        self._period = period
        self._informers = informers
        self._usage = PodUsage(source)
        self._known: dict[str, Life] = {}
        self._books = JobBooks(informers)
        self._silent_until = 0.0

    async def rounds(self) -> AsyncIterator[None]:
        """One round after the other without end; yields where there are new figures of reclaimed capacity."""
        while True:
            if await self._round():
                yield
            await self._clock.sleep(self._period)

    async def _round(self) -> bool:
        """Ask once, unless no pod needs it; whether there are new figures of reclaimed capacity."""
        # `record_termination_messages` needs once more what a pod of a run that is over has used.
        ending = {name: life for name, life in self._known.items() if self._informers.is_held(name, life.uid)}
        known = ending | {
            pod.metadata.key: _life(pod) for _, pods in self._informers.running_on_reclaimed() for pod in pods
        }
        samples = await self._ask(needed=bool(known))
        self._usage.feed(known, samples or (), self._clock.now())
        # Also when no pod needs it any more, so that no reader goes by what was measured last.
        measured = bool((known and samples is not None) or (not known and self._known))
        self._known = known
        await self._books.take(samples or (), self._clock.now())
        return measured

    async def _ask(self, *, needed: bool) -> Sequence[Sample] | None:
        """What pods use now; None where the source does not answer, or was not asked."""
        if not needed and (self._clock.monotonic() < self._silent_until or not self._informers.any_runs()):
            return None
        samples = await self._usage.ask(needed=needed)
        if samples is None:
            self._silent_until = self._clock.monotonic() + SILENT_SECONDS
        return samples

    def usage(self, pod: str, since: datetime, until: datetime) -> float | None:
        """Core-seconds of a pod on reclaimed capacity, by its UID, between two moments; None when it was never seen."""
        return self._usage.meter.cpu_seconds(pod, since.timestamp(), until.timestamp())

    def used(self, job: ScavengerJob) -> JobUsage | None:
        """What the pods of a job used over all its runs; None where this process has not measured enough."""
        return self._books.usage(job)

    def measured_jobs(self, shape: Callable[[ScavengerJob], Shape], after: float) -> Iterable[MeasuredJob]:
        """What the pods of each running job used over the last `after` seconds."""
        until = self._clock.now()
        since = until - timedelta(seconds=after)
        for job, pods in self._informers.running_on_reclaimed():
            alive = [pod for pod in pods if not pod.ended and pod.spec.node_name]
            uses = (PodUse(p.metadata.name, p.spec.node_name, self._mean(p, since, until)) for p in alive)
            yield MeasuredJob(job.key, shape(job), tuple(uses))

    def _mean(self, pod: Pod, since: datetime, until: datetime) -> int | None:
        """Millicores on average; None for a pod that was not watched for long enough."""
        begin, end = since.timestamp(), until.timestamp()
        used = self._usage.meter.cpu_seconds(pod.metadata.uid, begin, end)
        if used is None or self._usage.meter.watched(pod.metadata.uid, begin, end) < WATCHED_SHARE:
            return None
        return round(used * 1000 / (end - begin))


class _Seen(NamedTuple):
    """A pod as it was measured last.

    Attributes:
        at: when, in seconds since the epoch.
        pod: as it was shown then.
        requested: amounts.
    """

    at: float
    pod: Pod
    requested: Mapping[str, int]


class JobBooks:
    """The figures of all jobs whose pods are measured, and of each pod no more than when it was measured last.

    Args:
        informers: jobs and pods.
    """

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._books: dict[str, tuple[str, UsageBook]] = {}
        """By key, with the UID of the job."""
        self._last: dict[str, _Seen] = {}
        """How pods were measured last, by UID."""

    def usage(self, job: ScavengerJob) -> JobUsage | None:
        """The figures of a job. It has had no more runs than it has started: a run that goes on as admitters change is
        found twice."""
        uid, book = self._books.get(job.key, ("", None))
        usage = book.usage if book is not None and uid == job.metadata.uid else None
        return replace(usage, runs=min(usage.runs, job.status.starts or usage.runs)) if usage is not None else None

    async def take(self, samples: Sequence[Sample], now: datetime) -> None:
        """Take an answer of the metrics API in, and let the event loop turn meanwhile. What has ended is forgotten."""
        async for sample in in_turns(samples, AT_A_TIME):
            self._take(sample, now)
        over = now.timestamp() - OVER_SECONDS
        self._last = {uid: seen for uid, seen in self._last.items() if seen.at >= over}
        async for key, (_, book) in in_turns(list(self._books.items()), BOOKS_AT_A_TIME):
            book.end_before(over)
            if not book.last:
                del self._books[key]

    def _take(self, sample: Sample, now: datetime) -> None:
        pod = self._informers.pods.get(sample.pod)
        job = self._informers.runs(pod) if pod is not None else None
        if pod is None or job is None or pod.ended or not sample.is_of(_life(pod), now):
            return
        seconds, requested = self._seconds(pod, sample)
        if seconds <= 0:
            return
        devices = _devices(job, sample)
        used = {"cpu": sample.cores * 1000} | ({"memory": sample.memory} if sample.memory is not None else {})
        used |= {name: 1000 * count for name, (_, count) in devices.items()}
        asked = {**requested, **{name: 1000 * count for name, (count, _) in devices.items()}}
        self._book(job).add(_run_of(pod), used, asked, seconds, sample.at)
        if job.spec.capacity is Capacity.RECLAIMED:
            return
        queue, unused = self._informers.queue_label(job), max(0.0, requested.get("cpu", 0) / 1000 - sample.cores)
        metrics.UNUSED_CPU_SECONDS.labels(queue).inc(unused * seconds)
        for name, (requests, count) in devices.items():
            metrics.UNUSED_DEVICE_SECONDS.labels(queue, name).inc(max(0.0, requests - count) * seconds)

    def _seconds(self, pod: Pod, sample: Sample) -> tuple[float, Mapping[str, int]]:
        """For how long a sample stands, and what its pod requests: since the last one of the pod, of the first one its
        window."""
        last = self._last.get(pod.metadata.uid)
        requested = last.requested if last is not None and last.pod is pod else computing_requests(pod)
        self._last[pod.metadata.uid] = _Seen(max(sample.at, last.at if last is not None else sample.at), pod, requested)
        return sample.window if last is None else min(sample.at - last.at, MOST_GAP), requested

    def _book(self, job: ScavengerJob) -> UsageBook:
        """The book of a job, which begins with what its status says."""
        uid, book = self._books.get(job.key, ("", None))
        if book is None or uid != job.metadata.uid:
            book = UsageBook(usage_in(job.status))
            self._books[job.key] = job.metadata.uid, book
        return book


def _devices(job: ScavengerJob, sample: Sample) -> dict[str, tuple[int, float]]:
    """How many devices a pod requests, and how many it uses, of those that its job asks for."""
    names_ = (name for name in job.spec.devices if name in sample.devices) if sample.devices else ()
    return {name: (job.spec.requests[name], sample.devices[name]) for name in names_}


def _run_of(pod: Pod) -> str:
    """The run that a pod is of: the life of a task, or of a job that of the whole gang."""
    return pod.metadata.uid if task_index(pod) is not None else pod.metadata.annotations.get(names.ANNOTATION_RUN, "")


def _life(pod: Pod) -> Life:
    return Life(pod.metadata.uid, moment_of(pod.metadata.creation_timestamp) or 0)
