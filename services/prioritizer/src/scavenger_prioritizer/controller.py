"""The shell around `plan_classes`: looks at the caches, plans, writes.

One pass at a time, every `period` seconds and soon after something changed on which a class depends. A pass
is a function of what is, so it does not matter what interrupted the one before, or whether that was another
process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

from scavenger_api import names
from scavenger_api.levels import LevelsView
from scavenger_api.times import micros
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, Conflict, NotFound, TooManyRequests, Unauthorized, Unavailable
from scavenger_kube.kinds import Node, Pod
from scavenger_kube.resources import CONFIGMAPS, NODES, PODDISRUPTIONBUDGETS, PODS, PodDisruptionBudget
from scavenger_runtime.clock import Clock
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.informer import Change, Informer
from scavenger_runtime.logging import get_logger
from scavenger_runtime.queue import PriorityQueue
from scavenger_runtime.reconcile import ReconcileLoop, Result
from scavenger_runtime.service import ServiceContext

from scavenger_prioritizer import metrics
from scavenger_prioritizer.core.plan import ClassPlan, PodWrite, StatusWrite, plan_classes
from scavenger_prioritizer.core.snapshot import JobFacts, PodFacts, Share, Snapshot, Source
from scavenger_prioritizer.facts import (
    BUDGET_NAME,
    BUDGET_SPEC,
    SCAVENGERJOBS,
    JobView,
    Known,
    budget_is_right,
    gangs,
    is_cordoned,
    job_facts,
    job_signature,
    pod_facts,
    pod_signature,
)
from scavenger_prioritizer.settings import PrioritizerSettings
from scavenger_prioritizer.usage import ReclaimedUsage

PASS: Final = "classes"
"""The one key of the loop."""

RETRY_SECONDS: Final = (1.0, 30.0)
"""Wait after a pass that failed: at first, and at most."""

METRICS_TIMEOUT: Final = 10.0
"""Seconds after which a question to the metrics API counts as failed."""

BUDGET_LABELS: Final = {
    "app.kubernetes.io/managed-by": names.PRIORITIZER,
    "app.kubernetes.io/part-of": "scavenger-jobs",
}

Write = Callable[[], Awaitable[object]]
T = TypeVar("T", JobView, Pod, Node, PodDisruptionBudget)

log = get_logger(__name__)


async def main(context: ServiceContext[PrioritizerSettings]) -> None:
    """The service: caches in every replica, passes in the one that leads."""
    prioritizer = Prioritizer(context.client, context.settings, context.clock, context.events)
    for informer in prioritizer.informers:
        context.add_informer(informer)
    await context.lead(prioritizer.run)


class Prioritizer:
    """Holds the caches and carries plans out. `run` works until cancelled, once the informers are synced."""

    def __init__(self, client: ApiClient, settings: PrioritizerSettings, clock: Clock, events: EventRecorder) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._events = events
        self._rules = settings.rules()
        self._source: Source | None = None
        self._changes: dict[str, str] = {}
        self._known_jobs: Known[JobView, JobFacts] = Known(job_facts)
        self._known_pods: Known[Pod, PodFacts] = Known(pod_facts)
        self.usage = ReclaimedUsage(
            client, clock, period=settings.usage_period, timeout=min(METRICS_TIMEOUT, settings.usage_period)
        )
        self.jobs = Informer(client, SCAVENGERJOBS, clock=clock)
        self.pods = Informer(client, PODS, label_selector=names.LABEL_JOB, clock=clock)
        self.nodes = Informer(client, NODES, clock=clock)
        self.levels = Informer(
            client,
            CONFIGMAPS,
            namespace=settings.namespace,
            field_selector=f"metadata.name={names.LEVELS_CONFIGMAP}",
            clock=clock,
        )
        self.budgets = Informer(
            client, PODDISRUPTIONBUDGETS, field_selector=f"metadata.name={BUDGET_NAME}", clock=clock
        )
        base, most = RETRY_SECONDS
        self._loop = ReconcileLoop(
            PASS,
            self._pass,
            workers=1,
            queue=PriorityQueue(clock=clock, base_delay=base, max_delay=most),
            clock=clock,
        )
        self._watch_for_news()

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """The caches a pass looks at."""
        return (self.jobs, self.pods, self.nodes, self.levels, self.budgets)

    async def run(self) -> None:
        """Pass after pass until cancelled; one under way is finished first."""
        self.snapshot()  # Now it is known what there is to measure: the first classes are not to follow from estimates.
        await self.usage.look()
        measuring = asyncio.create_task(self.usage.run(), name="usage")
        try:
            self._loop.add(PASS)
            await self._loop.run()
        finally:
            measuring.cancel()
            await asyncio.gather(measuring, return_exceptions=True)

    # --- when to look ---

    def _watch_for_news(self) -> None:
        self.jobs.add_handler(self._on_change(job_signature))
        self.pods.add_handler(self._on_change(pod_signature))
        self.nodes.add_handler(self._on_change(self._cordoned))
        self.budgets.add_handler(self._on_change(budget_is_right))
        self.levels.add_handler(lambda change: self.look_again())

    def look_again(self) -> None:
        """Have a pass begin within `debounce` seconds."""
        self._loop.add(PASS, after=self._settings.debounce)

    def _on_change(self, signature: Callable[[T], Hashable]) -> Callable[[Change[T]], None]:
        """A handler that asks for a pass when what a class depends on has changed, and not when we wrote."""

        def handle(change: Change[T]) -> None:
            if change.old is None or change.new is None or signature(change.old) != signature(change.new):
                self.look_again()

        return handle

    def _cordoned(self, node: Node) -> bool:
        return is_cordoned(node, self._settings.drain_taints)

    # --- one pass ---

    def snapshot(self) -> Snapshot:
        """What the caches hold at this moment."""
        now = self._clock.now()
        configmap = self.levels.get(f"{self._settings.namespace}/{names.LEVELS_CONFIGMAP}")
        view = LevelsView.of(None if configmap is None else configmap.data, now)
        jobs = self._known_jobs.refresh(self.jobs.items())
        pods = self._known_pods.refresh(self.pods.items())
        found = gangs(jobs, pods)
        return Snapshot(
            now=micros(now),
            share=Share.of(view, self._settings.fallback_preemptible_percent),
            gangs=found,
            cordoned=frozenset(n.metadata.name for n in self.nodes.items() if self._cordoned(n)),
            budgets={b.metadata.namespace: budget_is_right(b) for b in self.budgets.items()},
            rules=self._rules,
            used=self.usage.rates(found, micros(now)),
        )

    async def _pass(self, key: str) -> Result:
        try:
            with metrics.PASS_SECONDS.time():
                pending = await self.carry_out(self.decide())
        except ApiError:
            metrics.PASSES.labels("failed").inc()
            raise
        metrics.PASSES.labels("done").inc()
        return Result(requeue_after=self._settings.debounce if pending else self._settings.period)

    def decide(self) -> ClassPlan:
        """Look, plan, and say what was decided."""
        with metrics.DECISION_SECONDS.time():
            plan = plan_classes(self.snapshot())
        metrics.show(plan)
        self._tell_source(plan.share)
        self._tell_changes(plan)
        return plan

    def _tell_changes(self, plan: ClassPlan) -> None:
        """One line for every job that changes class, once, though it may take several passes to write it."""
        told, self._changes = self._changes, {v.gang.job.uid: v.class_ for v in plan.changes}
        for place, verdict in enumerate(plan.verdicts, start=1):
            uid = verdict.gang.job.uid
            if uid not in self._changes or told.get(uid) == verdict.class_:
                continue
            metrics.CHANGES.labels(verdict.class_).inc()
            log.info(
                "class changed",
                job=f"{verdict.gang.job.namespace}/{verdict.gang.job.name}",
                to=verdict.class_,
                running_priority=verdict.priority,
                place=place,
                jobs=len(plan.verdicts),
                percentage=plan.share.percentage,
                cordoned=verdict.cordoned,
            )

    def _tell_source(self, share: Share) -> None:
        """Say so when the classes begin, or cease, to follow the regulator; not at the first pass when they
        do."""
        before, self._source = self._source, share.source
        if before is share.source:
            return
        log.info("percentage", source=share.source.value, percentage=share.percentage, reason=share.reason)
        configmap = self.levels.get(f"{self._settings.namespace}/{names.LEVELS_CONFIGMAP}")
        if configmap is None:
            return
        if share.source is Source.KEPT:
            text = f"Running jobs keep their preemption classes: {share.reason}"
            self._events.warning(CONFIGMAPS, configmap, "ClassesKept", text)
        elif before is Source.KEPT:
            text = "The preemption classes of running jobs follow the levels again"
            self._events.normal(CONFIGMAPS, configmap, "ClassesFollow", text)

    # --- writing ---

    async def carry_out(self, plan: ClassPlan) -> int:
        """Write what the plan says, in its order and at most `max_writes`; returns how many writes are left
        over.

        Raises the ApiError that shows that the API server cannot be written to at all at the moment.
        """
        left = self._settings.max_writes
        for kind, writes in self._writes(plan):
            await self._all(kind, list(islice(writes, left)))
            left -= min(left, len(writes))
        pending = max(0, plan.writes - self._settings.max_writes)
        metrics.PENDING.set(pending)
        if plan.writes:
            log.info(
                "classes written",
                protected=len(plan.protect),
                unprotected=len(plan.unprotect),
                refreshed=len(plan.refresh),
                statuses=len(plan.statuses),
                budgets=len(plan.budgets_needed) + len(plan.budgets_surplus),
                pending=pending,
            )
        return pending

    def _writes(self, plan: ClassPlan) -> Sequence[tuple[str, Sequence[Write]]]:
        """Protection comes before its loss: between two jobs that swap, neither is bare."""
        return (
            ("budget", [partial(self._apply_budget, n) for n in plan.budgets_needed]),
            ("protect", [partial(self._write_pod, w) for w in plan.protect]),
            ("unprotect", [partial(self._write_pod, w) for w in plan.unprotect]),
            ("refresh", [partial(self._write_pod, w) for w in plan.refresh]),
            ("status", [partial(self._write_status, w) for w in plan.statuses]),
            ("budget-removal", [partial(self._remove_budget, n) for n in plan.budgets_surplus]),
        )

    async def _all(self, kind: str, writes: Sequence[Write]) -> None:
        """All writes of one kind, some at a time. The first sign that the API server is not there ends
        them."""
        queue = iter(writes)

        async def work() -> None:
            for write in queue:
                metrics.WRITES.labels(kind, await _outcome(kind, write)).inc()

        width = min(len(writes), self._settings.concurrent_writes)
        workers = [asyncio.ensure_future(work()) for _ in range(width)]
        try:
            await asyncio.gather(*workers)
        except ApiError:
            metrics.WRITES.labels(kind, "failed").inc()
            raise
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _write_pod(self, write: PodWrite) -> None:
        """Label and annotation in one patch. The UID keeps it from a later pod of the same name."""
        pod, metadata = write.pod, dict[str, Any](uid=write.pod.uid)
        if write.class_ is not None:
            metadata["labels"] = {names.LABEL_PREEMPTION_CLASS: write.class_}
        if write.priority is not None:
            metadata["annotations"] = {names.ANNOTATION_RUNNING_PRIORITY: str(write.priority)}
        await self._client.strategic_patch(PODS, pod.namespace, pod.name, {"metadata": metadata})
        self._known_pods.note(pod, class_=write.class_, written=write.priority)

    async def _write_status(self, write: StatusWrite) -> None:
        """No UID here: the API server ignores metadata sent to a status. A class that lands on a later job of the same
        name is taken off by the next pass, as that job does not run yet."""
        job = write.job
        if write.class_ is None:
            patch = {"status": {"preemption": None}}
            with suppress(NotFound):
                await self._client.merge_patch(SCAVENGERJOBS, job.namespace, job.name, patch, subresource="status")
        else:
            await self._apply_status(write.job, write.class_, write.priority)
        self._known_jobs.note(job, class_=write.class_ or "", written=write.priority)

    async def _apply_status(self, job: JobFacts, class_: str, priority: int) -> None:
        """Server-side apply of the one field that is ours; the admitter's fields keep their manager."""
        body = {
            "apiVersion": SCAVENGERJOBS.api_version,
            "kind": SCAVENGERJOBS.kind,
            "metadata": {"namespace": job.namespace, "name": job.name},
            "status": {"preemption": {"class": class_, "runningPriority": priority}},
        }
        await self._client.apply(
            SCAVENGERJOBS,
            job.namespace,
            job.name,
            body,
            field_manager=names.PRIORITIZER,
            subresource="status",
        )

    async def _apply_budget(self, namespace: str) -> None:
        body = {
            "apiVersion": PODDISRUPTIONBUDGETS.api_version,
            "kind": PODDISRUPTIONBUDGETS.kind,
            "metadata": {"namespace": namespace, "name": BUDGET_NAME, "labels": BUDGET_LABELS},
            "spec": BUDGET_SPEC,
        }
        await self._client.apply(PODDISRUPTIONBUDGETS, namespace, BUDGET_NAME, body, field_manager=names.PRIORITIZER)

    async def _remove_budget(self, namespace: str) -> None:
        await self._client.delete(PODDISRUPTIONBUDGETS, namespace, BUDGET_NAME)


async def _outcome(kind: str, write: Write) -> str:
    """Carry one write out and say what became of it.

    An object that is gone or has changed is looked at again in the next pass, one that is refused as well,
    in case what refuses it is gone by then. Raises Unavailable, Unauthorized and TooManyRequests: all other
    writes would meet the same.
    """
    try:
        await write()
    except NotFound:
        return "gone"
    except Conflict:
        return "conflict"
    except (Unavailable, Unauthorized, TooManyRequests):
        raise
    except ApiError as error:
        log.warning("write refused", kind=kind, status=error.status, reason=error.reason, error=str(error))
        return "refused"
    return "written"
