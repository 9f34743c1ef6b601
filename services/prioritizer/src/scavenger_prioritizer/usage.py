"""What pods on reclaimed capacity really use: read from the metrics API while there are any, kept while they live.

The figures that the metrics API has are of now and of the last half minute; what a pod used since its last checkpoint
is added up from them (`scavenger_runtime.usage`). A prioritizer that has just begun to lead knows nothing of the time
before, and takes the mean of what it sees for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scavenger_api.weights import Weights
from scavenger_domain.gang import MICROSECONDS, gang_safe_until, run_start
from scavenger_domain.pod_reading import moment_of
from scavenger_kube.client import ApiClient
from scavenger_runtime.clock import Clock
from scavenger_runtime.usage import Life, MetricsApiUsage, PodUsage

from scavenger_prioritizer import metrics
from scavenger_prioritizer.core.plan import takes_part
from scavenger_prioritizer.core.snapshot import Gang, PodFacts


class ReclaimedUsage:
    """Measures the pods of gangs on reclaimed capacity that the last snapshot current.

    period: seconds between two questions. timeout: seconds until one counts as failed.
    """

    def __init__(self, client: ApiClient, clock: Clock, *, period: float, timeout: float) -> None:
        self._clock = clock
        self._period = period
        self._usage = PodUsage(MetricsApiUsage(client, timeout))
        self._pods: Mapping[str, Life] = {}

    def rates(self, gangs: Iterable[Gang], now: int, weights: Weights) -> dict[str, int]:
        """`Snapshot.used`: by UID, the cost of what each measured pod used on average since its work was last safe.

        now: microseconds since the epoch. weights: of resources. From here on these gangs are measured.
        """
        found: dict[str, int] = {}
        pods: dict[str, Life] = {}
        for gang in gangs:
            if gang.job.reclaimed and takes_part(gang):
                since = gang_safe_until(gang.job, gang.pods, run_start(gang.job, gang.pods, now), now)
                for pod in gang.pods:
                    if pod.live:
                        pods[f"{pod.namespace}/{pod.name}"] = Life(pod.uid, moment_of(pod.birth) or 0)
                        rate = self._rate(pod, since, now)
                        if rate is not None:
                            found[pod.uid] = weights.cost_using(rate, pod.requests)
        self._pods = pods
        metrics.MEASURED.set(len(found))
        return found

    def _rate(self, pod: PodFacts, since: int, now: int) -> int | None:
        if now <= since:
            return None  # no unsaved work yet but the start-up cost, and nothing to take a mean of
        used = self._usage.meter.cpu_seconds(pod.uid, since / MICROSECONDS, now / MICROSECONDS)
        return None if used is None else round(1000 * used * MICROSECONDS / (now - since))

    async def run(self) -> None:
        """Poll every `period` seconds until cancelled."""
        while True:
            await self._clock.sleep(self._period)
            await self.poll()

    async def poll(self) -> None:
        """Take one set of figures in, where there is anything to measure."""
        await self._usage.poll(self._pods, self._clock.now())
