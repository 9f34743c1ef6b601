"""Informers, the handlers of their events, and the passes that have classes decided and written. Decides nothing.

One pass at a time, every `period` seconds and soon after something changed on which a class depends. A pass is a
function of what is, so it does not matter what interrupted the one before, or whether that was another process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from scavenger_api import names
from scavenger_api.levels import LevelsView
from scavenger_api.times import micros
from scavenger_api.weights import Weights
from scavenger_domain.gang import MICROSECONDS
from scavenger_domain.nodes import pool_of
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError
from scavenger_kube.kinds import Node, Pod
from scavenger_kube.resources import NODES, PODDISRUPTIONBUDGETS, PODS, PodDisruptionBudget
from scavenger_kube.scavenger_kinds import ScavengerJob
from scavenger_runtime.clock import Clock
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.informer import Change, Informer
from scavenger_runtime.jobs_seen import jobs_to_rank
from scavenger_runtime.logging import get_logger
from scavenger_runtime.queue import PriorityQueue
from scavenger_runtime.reconcile import ReconcileLoop, Result
from scavenger_runtime.service import ServiceContext
from scavenger_runtime.shared_settings import FollowedSettings, configmap_informer
from scavenger_runtime.stale_marks import stale_finalizers
from scavenger_runtime.threads import in_thread
from scavenger_runtime.write_budget import WriteBudget

from scavenger_prioritizer import metrics
from scavenger_prioritizer.core.plan import ClassPlan, plan_classes
from scavenger_prioritizer.core.snapshot import Gang, JobFacts, PodFacts, Share, Snapshot, Source
from scavenger_prioritizer.disruption_costs import DisruptionCosts
from scavenger_prioritizer.facts import (
    FactsCache,
    budget_is_right,
    gangs,
    is_cordoned,
    job_facts,
    job_signature,
    pod_facts,
    pod_signature,
)
from scavenger_prioritizer.neighbours import Neighbours
from scavenger_prioritizer.settings import PrioritizerSettings
from scavenger_prioritizer.usage import ReclaimedUsage
from scavenger_prioritizer.writer import PlanWriter

PASS: Final = "classes"
"""The one key of the loop."""

RETRY_SECONDS: Final = (1.0, 30.0)
"""Wait after a pass that failed: at first, and at most."""

METRICS_TIMEOUT: Final = 10.0
"""Seconds after which a question to the metrics API counts as failed."""

T = TypeVar("T", ScavengerJob, Pod, Node, PodDisruptionBudget)

log = get_logger(__name__)


async def main(context: ServiceContext[PrioritizerSettings]) -> None:
    """The service: caches in every replica, passes in the one that leads."""
    prioritizer = Prioritizer(context.client, context.settings, context.clock, context.events)
    for informer in prioritizer.informers:
        context.add_informer(informer)
    stale = stale_finalizers(
        context.client, context.clock, context.settings.namespace, prioritizer.pods.items, by=names.PRIORITIZER
    )
    await context.lead(prioritizer.run, stale.run)


class Prioritizer:
    """Holds the caches and runs the passes. `run` works until cancelled, once the informers are synced."""

    def __init__(self, client: ApiClient, settings: PrioritizerSettings, clock: Clock, events: EventRecorder) -> None:
        self._settings = settings
        self._clock = clock
        self._source: Source | None = None
        self._changes: dict[str, str] = {}
        self.job_facts: FactsCache[ScavengerJob, JobFacts] = FactsCache(job_facts)
        self.shared = FollowedSettings(client, settings, clock)
        self._weights = self.shared.current.resource_weights
        self.pod_facts: FactsCache[Pod, PodFacts] = FactsCache(partial(pod_facts, weights=self._weights))
        self._budget = WriteBudget(
            clock,
            rate=settings.write_rate,
            pressed_rate=settings.pressed_write_rate,
            latency=lambda: client.observer.write_seconds,
        )
        self.writer = PlanWriter(
            client,
            events,
            self.pod_facts,
            budget=self._budget,
            clock=clock,
            max_writes=settings.max_writes,
            concurrent_writes=settings.concurrent_writes,
        )
        self.usage = ReclaimedUsage(
            client,
            clock,
            period=settings.usage_period,
            timeout=min(METRICS_TIMEOUT, settings.usage_period),
        )
        self.jobs = jobs_to_rank(client, clock, adopt=settings.adopt)
        self.pods = Informer(client, PODS, label_selector=names.LABEL_JOB, clock=clock)
        self.nodes = Informer(client, NODES, clock=clock)
        self.levels = configmap_informer(client, settings.namespace, names.LEVELS_CONFIGMAP, clock)
        self.budgets = Informer(
            client, PODDISRUPTIONBUDGETS, field_selector=f"metadata.name={names.DISRUPTION_BUDGET}", clock=clock
        )
        keep = {"auto": None, "always": True, "never": False}[settings.keep_scale_down]
        self.neighbours = Neighbours(
            client,
            clock,
            wanted=keep if settings.budgets else False,
            after=round(settings.lone_after * MICROSECONDS),
            came=self.request_pass,
        )
        told = settings.pod_deletion_cost or settings.kueue_priority_boost
        self.costs = DisruptionCosts(client, settings, self.shared, clock, self._budget) if told else None
        base, most = RETRY_SECONDS
        self._loop = ReconcileLoop(
            PASS,
            self._pass,
            workers=1,
            queue=PriorityQueue(clock=clock, base_delay=base, max_delay=most),
            clock=clock,
        )
        self._add_handlers()

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """The caches that snapshots are made of."""
        return (*self.jobs.informers, self.pods, self.nodes, self.levels, self.shared.informer, self.budgets)

    async def run(self) -> None:
        """Pass after pass until cancelled; one under way is finished first."""
        await self.snapshot()  # what there is to measure: the first classes are not to follow from estimates
        await self.usage.poll()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.usage.run())
            group.create_task(self.neighbours.run())
            if self.costs is not None:
                group.create_task(self.costs.run())
            self._loop.add(PASS)
            await self._loop.run()

    # --- events ---

    def _add_handlers(self) -> None:
        self.jobs.add_handler(self._on_change(job_signature))
        self.pods.add_handler(self._on_change(pod_signature))
        self.pods.add_handler(self._on_leaving)
        self.nodes.add_handler(self._on_change(self._cordoned))
        self.nodes.add_handler(self._on_node)
        self.budgets.add_handler(self._on_change(budget_is_right))
        self.budgets.add_handler(_warn_of_foreign_budget)
        self.levels.add_handler(lambda change: self.request_pass())
        self.shared.on_change(self.request_pass)

    def request_pass(self) -> None:
        """Have a pass begin within `debounce` seconds."""
        self._loop.add(PASS, after=self._settings.debounce)

    def _on_change(self, signature: Callable[[T], Hashable]) -> Callable[[Change[T]], None]:
        """A handler that asks for a pass when what a class depends on has changed, and not when we wrote."""

        def handle(change: Change[T]) -> None:
            if change.old is None or change.new is None or signature(change.old) != signature(change.new):
                self.request_pass()

        return handle

    def _on_leaving(self, change: Change[Pod]) -> None:
        self._budget.observe(change.key, pressure=change.new is not None and change.new.leaving)

    def _on_node(self, change: Change[Node]) -> None:
        if change.new is not None:
            self.neighbours.saw(change.new)

    def _cordoned(self, node: Node) -> bool:
        return is_cordoned(node, self._settings.drain_taints)

    # --- one pass ---

    async def _pass(self, key: str) -> Result:
        try:
            with metrics.PASS_SECONDS.time():
                plan = await self.decide()
                pending = await self.writer.carry_out(plan, self._outdated)
        except ApiError:
            metrics.PASSES.labels("failed").inc()
            raise
        metrics.PASSES.labels("done").inc()
        return Result(requeue_after=self._settings.debounce if pending else self._until(plan.due))

    def _until(self, due: int | None) -> float:
        """Seconds until the next pass when nothing happens: a job that starts over is not waited for."""
        if due is None:
            return self._settings.period
        seconds = (due - micros(self._clock.now())) / MICROSECONDS
        return min(self._settings.period, max(self._settings.debounce, seconds))

    def _outdated(self) -> bool:
        """Whether the next pass is due: one that explains something for seconds keeps no pod waiting for capacity."""
        return self._loop.queue.is_due(PASS)

    async def snapshot(self) -> Snapshot:
        """What the caches hold at this moment.

        What takes long at ten thousand jobs is done in threads, here and below: the Lease is renewed meanwhile.
        """
        now, rules = self._clock.now(), self._settings.rules(self.shared.current)
        configmap = self.levels.get(f"{self._settings.namespace}/{names.LEVELS_CONFIGMAP}")
        view = LevelsView.of(None if configmap is None else configmap.data, now)
        found = await in_thread(self._gangs, self.jobs.items(), self.pods.items(), rules.weights)
        return Snapshot(
            now=micros(now),
            share=Share.of(view, self._settings.fallback_preemptible_percent),
            shares={name: Share.of(pool) for name, pool in view.pools.items()},
            pool_of=self._pools(view),
            gangs=found,
            cordoned=frozenset(n.metadata.name for n in self.nodes.items() if self._cordoned(n)),
            budgets={b.metadata.namespace: budget_is_right(b) for b in self.budgets.items()},
            rules=rules,
            used=self.usage.rates(found, micros(now), rules.weights),
            written_at=self.writer.written_at,
            exposed_at=self.writer.exposed_at,
            idle_budgets=self.writer.idle_budgets,
            lone=self._lone(found, micros(now)),
        )

    def _pools(self, view: LevelsView) -> dict[str, str]:
        """The nodes of pools with levels of their own."""
        if not view.pools:
            return {}
        of_each = ((node.metadata.name, pool_of(node, self._settings.pool_ignores)) for node in self.nodes.items())
        return {name: pool for name, pool in of_each if pool in view.pools}

    def _lone(self, found: Sequence[Gang], now: int) -> frozenset[str] | None:
        known = {pod.node for gang in found for pod in gang.pods if pod.exempt and pod.live}
        return self.neighbours.lone([node.metadata.name for node in self.nodes.items()], known, now)

    def _gangs(self, jobs: Sequence[ScavengerJob], pods: Sequence[Pod], weights: Weights) -> list[Gang]:
        if weights != self._weights:
            self._weights = weights
            self.pod_facts.describe_with(partial(pod_facts, weights=weights))
        return gangs(self.job_facts.refresh(jobs), self.pod_facts.refresh(pods))

    async def decide(self) -> ClassPlan:
        """Have the classes decided on a snapshot of now, and record the decision in metrics, log and Events."""
        plan = await in_thread(self._judge, await self.snapshot())
        self._record_source(plan.share)
        return plan

    def _judge(self, snapshot: Snapshot) -> ClassPlan:
        plan = plan_classes(snapshot)
        metrics.show(plan)
        self._record_changes(plan)
        return plan

    def _record_changes(self, plan: ClassPlan) -> None:
        """One line for every job that changes class, once, though it may take several passes to write it."""
        recorded, self._changes = self._changes, {v.gang.job.uid: v.class_ for v in plan.changes}
        for position, verdict in enumerate(plan.verdicts, start=1):
            uid = verdict.gang.job.uid
            if uid not in self._changes or recorded.get(uid) == verdict.class_:
                continue
            log.info(
                "class changed",
                job=verdict.gang.job.key,
                to=verdict.class_,
                running_priority=verdict.priority,
                position=position,
                jobs=len(plan.verdicts),
                percentage=plan.share.percentage,
                cordoned=verdict.cordoned,
            )

    def _record_source(self, share: Share) -> None:
        """Classes begin, or cease, to follow the regulator. When they do from the first pass on, that is no Event."""
        before, self._source = self._source, share.source
        if before is share.source:
            return
        log.info("percentage", source=share.source.value, percentage=share.percentage, reason=share.reason)
        configmap = self.levels.get(f"{self._settings.namespace}/{names.LEVELS_CONFIGMAP}")
        if configmap is None:
            return
        if share.source is Source.KEPT:
            self.writer.record_kept(configmap, share.reason)
        elif before is Source.KEPT:
            self.writer.record_followed(configmap)


def _warn_of_foreign_budget(change: Change[PodDisruptionBudget]) -> None:
    """Once it is there: jobs of its namespace have none that protects them."""
    new, old = change.new, change.old
    if new is not None and not new.ours and (old is None or old.ours):
        log.warning("left a budget of another owner alone", namespace=new.metadata.namespace, name=new.metadata.name)
