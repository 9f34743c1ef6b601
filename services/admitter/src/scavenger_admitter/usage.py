"""What pods on reclaimed capacity use, polled from the metrics API. Decides nothing.

What was seen is kept in this process alone. Pods are known to it from when their job is known to run until they are
released, so that the figures of one that has ended are there until its ending is settled. Where there are no figures,
after a restart or without a metrics API, the limit times time stands in (`accounting.cpu_time`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from scavenger_api.job import ScavengerJob
from scavenger_domain.pod_reading import moment_of
from scavenger_kube.client import ApiClient
from scavenger_kube.kinds import Pod
from scavenger_runtime.clock import Clock
from scavenger_runtime.usage import Life, PodUsage

from scavenger_admitter.core.admission.cycle.starvation import MeasuredJob, PodUse
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.informers import Informers

TIMEOUT_SECONDS: Final = 10.0
WATCHED_SHARE: Final = 0.8
"""A pod is judged only when it was watched for at least this share of the time."""


class UsagePoller:
    """Asks how much CPU pods use, for as long as there are any to ask about.

    Args:
        client: to ask with.
        clock: for the rounds.
        informers: the running jobs on reclaimed capacity and their pods, and which pods are still to be settled.
        period: seconds between two rounds.
    """

    def __init__(self, client: ApiClient, clock: Clock, informers: Informers, *, period: float) -> None:
        self._clock = clock
        self._period = period
        self._informers = informers
        self._usage = PodUsage(client, TIMEOUT_SECONDS)
        self._known: dict[str, Life] = {}

    async def rounds(self) -> AsyncIterator[None]:
        """One round after the other without end; yields where there are new figures."""
        while True:
            if await self._round():
                yield
            await self._clock.sleep(self._period)

    async def _round(self) -> bool:
        """Ask once, unless there is nobody to ask about; whether there are new figures."""
        # `record_termination_messages` needs once more what a pod of a run that is over has used.
        ending = {name: life for name, life in self._known.items() if self._informers.is_held(name, life.uid)}
        known = ending | {
            pod.metadata.key: Life(pod.metadata.uid, moment_of(pod.metadata.creation_timestamp) or 0)
            for _, pods in self._informers.running_on_reclaimed()
            for pod in pods
        }
        answered = await self._usage.poll(known, self._clock.now())
        # Also when there is nobody to ask about any more, so that nobody goes by what was measured last.
        measured = bool(answered or (answered is None and self._known))
        self._known = known
        return measured

    def usage(self, pod: str, since: datetime, until: datetime) -> float | None:
        """Core-seconds of a pod, by its UID, between two moments; None when it was never seen."""
        return self._usage.meter.cpu_seconds(pod, since.timestamp(), until.timestamp())

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
