"""Tells other controllers what regular pods would lose, in namespaces where an administrator has switched it on.

Figures are written by server-side apply without force. So a figure that a user or another controller has set stays
theirs: the API server refuses the write, and this process does not ask again for an hour.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from scavenger_api import names
from scavenger_api.times import micros
from scavenger_api.weights import Weights
from scavenger_domain.gang import MICROSECONDS
from scavenger_domain.pod_reading import interval_of, read
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError
from scavenger_kube.kinds import Condition, ObjectMeta, Pod, Struct, condition
from scavenger_kube.resources import NAMESPACES, PODS, Resource
from scavenger_runtime.clock import Clock
from scavenger_runtime.informer import Informer
from scavenger_runtime.logging import get_logger
from scavenger_runtime.shared_settings import FollowedSettings
from scavenger_runtime.write_budget import Urgency, WriteBudget

from scavenger_prioritizer import metrics
from scavenger_prioritizer.core.costs import CostRules, CostSnapshot, CostWrite, Queued, Reporter, plan_costs
from scavenger_prioritizer.neighbours import regular_pods_on_nodes
from scavenger_prioritizer.settings import PrioritizerSettings
from scavenger_prioritizer.writer import outcome_of

MINUTE: Final = 60 * MICROSECONDS
FOREIGN: Final = 60 * MINUTE
"""For how long a figure of another manager is left alone before it is tried once more."""

log = get_logger(__name__)


class WorkloadStatus(Struct, frozen=True, gc=False, rename="camel"):
    """status of a Workload."""

    conditions: tuple[Condition, ...] = ()


class Workload(Struct, frozen=True, gc=False, rename="camel"):
    """kueue.x-k8s.io Workload, as far as it tells whose it is and whether it runs."""

    metadata: ObjectMeta = ObjectMeta()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def admitted(self) -> bool:
        """Whether Kueue lets its pods run."""
        return self._is("Admitted") and not self._is("Evicted")

    def _is(self, kind: str) -> bool:
        found = condition(self.status.conditions, kind)
        return found is not None and found.status == "True"


WORKLOADS: Final = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload", True, Workload)


def reporting_alone(pod: Pod, before: Pod | None) -> Pod:
    """What is kept of a regular pod: all that decides of those that report, and of others that they are there."""
    if names.ANNOTATION_LAST_CHECKPOINT in pod.metadata.annotations:
        return pod
    meta = pod.metadata
    return Pod(ObjectMeta(meta.name, meta.namespace, meta.uid, meta.resource_version))


class DisruptionCosts:
    """Follows regular pods, and Workloads of Kueue where these have figures, and writes the figures.

    Args:
        client: to follow and write with.
        settings: what is switched on, and how much may be written.
        shared: settings of all components.
        clock: of the informers, and for the time between two looks.
        budget: of all writes of the process.
    """

    def __init__(
        self,
        client: ApiClient,
        settings: PrioritizerSettings,
        shared: FollowedSettings,
        clock: Clock,
        budget: WriteBudget,
    ) -> None:
        self._client = client
        self._settings = settings
        self._shared = shared
        self._clock = clock
        self._budget = budget
        self._written_at: dict[str, int] = {}
        self._zeroed: set[str] = set()
        self._foreign: dict[str, int] = {}
        self._writes: deque[int] = deque()
        self.namespaces = Informer(
            client, NAMESPACES, label_selector=f"{names.LABEL_COSTS}={names.COSTS_ENABLED}", name="costs", clock=clock
        )
        self.pods = regular_pods_on_nodes(client, PODS, "reporting-pods", clock, reporting_alone)
        self.workloads = Informer(client, WORKLOADS, clock=clock) if settings.kueue_priority_boost else None

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """What has to run."""
        both = (self.namespaces, self.pods)
        return both if self.workloads is None else (*both, self.workloads)

    async def run(self) -> None:
        """Look every `period` seconds until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self.informers:
                group.create_task(informer.run())
            for informer in (self.namespaces, self.pods):  # and not for Kueue, which need not be there
                await informer.wait_synced()
            while True:
                await self.look()
                await self._clock.sleep(self._settings.period)

    async def look(self) -> int:
        """Write what has changed, and return how many writes were made. A server that is not there is asked again at
        the next look."""
        now = micros(self._clock.now())
        self._forget(now)
        writes = plan_costs(self.snapshot(now))
        for made, write in enumerate(writes):
            await self._budget.take(Urgency.EXPLAIN)
            try:
                await self._write(write, now)
            except ApiError:
                metrics.WRITES.labels("cost", "failed").inc()
                return made
        return len(writes)

    def snapshot(self, now: int) -> CostSnapshot:
        """What the caches hold. now: microseconds."""
        shared = self._shared.current
        rules = CostRules(
            interval=interval_of(names.DEFAULT_INTERRUPTION_AFTER),
            startup_cost=shared.startup_cost,
            trusted=shared.trusted_interval,
            weights=shared.resource_weights,
            of_pods=self._settings.pod_deletion_cost,
        )
        found = [_reporter(pod, rules.weights) for pod in self.pods.items() if pod.metadata.annotations]
        workloads = [] if self.workloads is None else [_queued(one) for one in self.workloads.items()]
        return CostSnapshot(
            now=now,
            pods=[one for one in found if one is not None],
            workloads=workloads,
            namespaces=frozenset(one.metadata.name for one in self.namespaces.items()),
            rules=rules,
            written_at=self._written_at,
            zeroed=self._zeroed,
            foreign=frozenset(self._foreign),
            allowance=self._settings.cost_writes - len(self._writes),
        )

    async def _write(self, write: CostWrite, now: int) -> None:
        """Raises ApiError where the API server cannot be written to at all at the moment."""
        of = write.of
        resource: Resource[Any] = WORKLOADS if isinstance(of, Queued) else PODS
        key = names.ANNOTATION_PRIORITY_BOOST if isinstance(of, Queued) else names.ANNOTATION_DELETION_COST
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            # The UID keeps it from a later object of the same name, and from creating one.
            "metadata": {
                "namespace": of.namespace,
                "name": of.name,
                "uid": of.uid,
                "annotations": {key: str(write.step)},
            },
        }

        async def apply() -> None:
            await self._client.apply(
                resource, of.namespace, of.name, body, field_manager=names.PRIORITIZER, force=False
            )

        outcome = await outcome_of("cost", apply)
        metrics.WRITES.labels("cost", outcome).inc()
        self._written_at[of.uid] = now
        (self._zeroed.discard if write.step else self._zeroed.add)(of.uid)
        self._writes.append(now)
        if outcome == "conflict":
            self._foreign[of.uid] = now
            log.info("left a figure of another manager alone", kind=resource.kind, object=f"{of.namespace}/{of.name}")

    def _forget(self, now: int) -> None:
        """What is too long ago to matter. A clock that was set back forgets all."""
        self._written_at = {uid: at for uid, at in self._written_at.items() if at <= now < at + 2 * MINUTE}
        self._zeroed &= self._written_at.keys()
        self._foreign = {uid: at for uid, at in self._foreign.items() if at <= now < at + FOREIGN}
        while self._writes and not self._writes[0] <= now < self._writes[0] + MINUTE:
            self._writes.popleft()


def _reporter(pod: Pod, weights: Weights) -> Reporter | None:
    meta, seen = pod.metadata, read(pod, weights)
    if not seen.live or names.ANNOTATION_LAST_CHECKPOINT not in meta.annotations:
        return None
    return Reporter(
        namespace=meta.namespace,
        name=meta.name,
        uid=seen.uid,
        job=meta.controller.uid if meta.controller is not None else "",
        cost=seen.cost,
        started=seen.started if seen.computes else None,
        checkpoint=seen.checkpoint,
        written=meta.annotations.get(names.ANNOTATION_DELETION_COST, ""),
    )


def _queued(one: Workload) -> Queued:
    meta = one.metadata
    return Queued(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        job=meta.labels.get(names.LABEL_KUEUE_JOB, ""),
        admitted=one.admitted,
        written=meta.annotations.get(names.ANNOTATION_PRIORITY_BOOST, ""),
    )
