"""The controller: what informers show goes to those who decide, and their loops run while this process leads.

Two loops share one view of the cluster. The reconcile loop has the lifecycle say what became of each job, writes the
status with the resourceVersion it was decided on, and only then carries out what follows. The admission loop decides
who starts. Both run on the leader only; a standby keeps its informers and the view warm.
"""

from __future__ import annotations

import asyncio
from typing import Final

from scavenger_api import names
from scavenger_api.events import NOT_ADOPTED
from scavenger_api.job import ScavengerJob
from scavenger_api.job_keys import OF_USERS
from scavenger_api.queue import ScavengerQueue
from scavenger_api.times import micros
from scavenger_domain.gang import task_index
from scavenger_kube.kinds import ConfigMap, Event, Job, Node, Pod
from scavenger_kube.resources import JOBS, Namespace
from scavenger_runtime.cache import Change
from scavenger_runtime.logging import get_logger
from scavenger_runtime.prometheus import PrometheusClient
from scavenger_runtime.queue import LOW_PRIORITY, PriorityQueue
from scavenger_runtime.reconcile import ReconcileLoop, Result
from scavenger_runtime.service import ServiceContext
from scavenger_runtime.write_budget import Urgency, WriteBudget

from scavenger_admitter import metrics
from scavenger_admitter.admission_feed import AdmissionFeed
from scavenger_admitter.admission_loop import AdmissionLoop
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_admitter.core.adopted.unadopted import SAID, worth_telling
from scavenger_admitter.core.lifecycle.boots import reported_at
from scavenger_admitter.core.lifecycle.other_jobs import other_job
from scavenger_admitter.core.lifecycle.running import SHOWN_EVERY
from scavenger_admitter.create_limiter import SLOW_SECONDS, CreateLimiter, namespace_of
from scavenger_admitter.explain import Explanations
from scavenger_admitter.facts import (
    failed_by_itself,
    job_key,
    job_progress,
    loses_labels,
    marks,
    namespace_level,
    on_its_way,
    placing_facts,
    pod_progress,
    queue_view,
    rebooted,
    shape_of,
    signals_pressure,
    version,
    waited_seconds,
)
from scavenger_admitter.freshness import caught_up
from scavenger_admitter.informers import Informers
from scavenger_admitter.job_record import JobRecords
from scavenger_admitter.lookups import Lookups
from scavenger_admitter.node_keeper import NodeKeeper
from scavenger_admitter.observer import Observer
from scavenger_admitter.queue_controller import QueueController
from scavenger_admitter.recommendations import Recommendations
from scavenger_admitter.reconciler import Reconciler
from scavenger_admitter.references import References
from scavenger_admitter.resizes import Resizes
from scavenger_admitter.settings import AdmitterSettings
from scavenger_admitter.starter import Starter
from scavenger_admitter.success_evidence import SuccessEvidence
from scavenger_admitter.usage import TIMEOUT_SECONDS, UsagePoller, usage_source
from scavenger_admitter.volume_topologies import VolumeTopologies
from scavenger_admitter.wakeups import Wakeups
from scavenger_admitter.write_turns import WriteTurns
from scavenger_admitter.writer import Writer

REMIND_SECONDS: Final = 5.0

TOGETHER_SECONDS: Final = 0.5
"""A Job that appears, its pods that do, and that these are bound is looked at together: it says nothing but that the
start goes on, and in a moment the pods run."""

log = get_logger(__name__)


class Admitter:
    """All of the admitter but its decisions."""

    def __init__(self, context: ServiceContext[AdmitterSettings]) -> None:
        settings = context.settings
        self._settings = settings
        self._client = context.client
        self._clock = context.clock
        self._events = context.events
        self._state = ClusterState(
            tolerated_taints=settings.tolerated_taints,
            pool_ignores=settings.pool_ignores,
            start_backoff=(settings.start_backoff, settings.start_backoff_max),
            keep_scale_down={"auto": None, "always": True, "never": False}[settings.keep_scale_down],
        )
        self._budget = WriteBudget(
            self._clock,
            rate=settings.write_rate,
            pressed_rate=settings.pressed_write_rate,
            latency=lambda: self._client.observer.write_seconds,
        )
        self._wakeups = Wakeups()
        self._turns = WriteTurns(self._budget, self._wakeups)
        context.events.pace = lambda: self._budget.take(Urgency.EXPLAIN)
        self._records = JobRecords(self._clock)
        self._informers = Informers(context, self._records)
        self._explanations = Explanations(self._records, self._clock, settings.explain_after)
        self._prometheus = (
            PrometheusClient(
                settings.prometheus_url,
                timeout=TIMEOUT_SECONDS,
                token_file=settings.prometheus_token_file,
                ca_file=settings.prometheus_ca_file,
            )
            if settings.prometheus_url
            else None
        )
        source = usage_source(settings, self._client, self._prometheus, self._informers)
        self._usage = UsagePoller(source, self._clock, self._informers, period=settings.usage_period)
        self._limiter = CreateLimiter(
            self._clock,
            self._wakeups,
            each=settings.concurrent_starts,
            most=_share(settings.workers),
            window=settings.max_starts_per_cycle,
        )
        self._feed = AdmissionFeed(
            settings=settings,
            clock=self._clock,
            state=self._state,
            informers=self._informers,
            records=self._records,
            usage=self._usage.usage,
            limiter=self._limiter,
            wakeups=self._wakeups,
        )
        self._admission = AdmissionLoop(
            state=self._state,
            settings=settings,
            clock=self._clock,
            informers=self._informers,
            limiter=self._limiter,
            budget=self._budget,
            wakeups=self._wakeups,
        )
        lookups = Lookups(self._clock)
        writer = Writer(
            self._client,
            context.events,
            max_grace_seconds=settings.max_termination_grace_period_seconds,
            burstable=settings.qos_class == "Burstable",
            snapshot_image=settings.snapshot_image,
            allowed_annotations=settings.allowed_annotations,
            references=References(self._client, settings.checked_references, lookups),
            words=self._informers.words,
        )
        self._evidence = SuccessEvidence(
            self._client,
            self._clock,
            self._informers,
            after=settings.success_evidence_after,
            wake=self._wakeups.reconcile,
        )
        self._reconciler = Reconciler(
            client=self._client,
            settings=settings,
            clock=self._clock,
            informers=self._informers,
            records=self._records,
            writer=writer,
            feed=self._feed,
            admission=self._admission,
            observer=Observer(
                settings=settings,
                clock=self._clock,
                informers=self._informers,
                records=self._records,
                admission=self._admission,
                explanations=self._explanations,
                usage=self._usage.usage,
                used=self._usage.used,
                recommended=Recommendations(self._informers, self._usage.used, settings.recommended_least).of,
                evidence=self._evidence,
                renewed_before=lambda: context.elector.renewed_before if context.elector is not None else None,
            ),
            starter=Starter(
                client=self._client,
                clock=self._clock,
                informers=self._informers,
                records=self._records,
                writer=writer,
                feed=self._feed,
                limiter=self._limiter,
            ),
            evidence=self._evidence,
            turns=self._turns,
            wakeups=self._wakeups,
            lookups=lookups,
            topologies=VolumeTopologies(
                self._client, self._clock, lookups, allowed="persistentvolumeclaims" in settings.checked_references
            ),
        )
        self._queue_controller = QueueController(
            self._client, self._clock, context.events, self._informers, self._admission
        )
        self._resizes = Resizes(self._client, self._clock, self._budget, self._informers)
        self._nodes = NodeKeeper(
            self._client,
            self._clock,
            context.events,
            self._informers.nodes,
            self._state.trust,
            self._informers.reboots,
            settings.namespace,
        )
        self._first_pass: set[str] = set()
        self.first_pass_done: Final = asyncio.Event()
        """Every job that was there when this process began to lead has been looked at once."""
        self._listen()

    def _listen(self) -> None:
        informers = self._informers
        informers.jobs.add_handler(self._on_job)
        informers.queues.add_handler(self._on_queue)
        informers.namespaces.add_handler(self._on_namespace)
        informers.batch.add_handler(self._on_batch)
        informers.pods.add_handler(self._on_pod)
        informers.nodes.add_handler(self._on_node)
        informers.levels.add_handler(self._on_levels)
        informers.shared.on_change(self._wakeups.admit)
        for failures in informers.failures:
            failures.add_handler(self._on_failure)
        for said in informers.words.informers:
            said.add_handler(self._on_words)

    # --- leading ----------------------------------------------------------------------------------------------------

    async def lead(self) -> None:
        """Do the work, until cancelled. The informers are synced."""
        await self._nodes.restore()
        jobs = self._informers.jobs
        for informer in (jobs.own, self._informers.batch):
            await caught_up(self._client, informer, self._clock)
        if jobs.adopted is not None:
            await caught_up(self._client, jobs.adopted, self._clock, OF_USERS)
        # A pod that is not seen would not keep its job from a second life; those of others do no harm.
        await caught_up(self._client, self._informers.pods, self._clock, names.LABEL_JOB)
        # No namespace whose webhooks hang has all workers, nor any of them for long.
        queue = PriorityQueue(clock=self._clock, group=namespace_of, most=_share(self._settings.workers))
        workers = self._settings.workers
        loop = ReconcileLoop(
            "scavengerjobs", self._reconcile, workers=workers, queue=queue, clock=self._clock, patience=SLOW_SECONDS
        )
        self._wakeups.loop = loop
        self._first_pass = self._informers.jobs_with_held_pods().union(self._informers.jobs.keys())
        if not self._first_pass:
            self.first_pass_done.set()
        for key in sorted(self._first_pass, key=self._age):
            job = self._informers.jobs.get(key)
            self._records.assign_queue_position(key, job)
            if job is not None:
                self._feed.recall(job)
            loop.add(key, priority=LOW_PRIORITY)
        try:
            await self._run(loop)
        finally:
            await self._reconciler.close()
            if self._prometheus is not None:
                await self._prometheus.close()

    async def _run(self, loop: ReconcileLoop) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(loop.run())
            group.create_task(self._admit())
            group.create_task(self._explain())
            group.create_task(self._remind())
            group.create_task(self._feed.requeue_overlooked())
            group.create_task(self._queue_controller.run())
            group.create_task(self._measure())
            group.create_task(self._evidence.run())
            group.create_task(self._resizes.run())
            group.create_task(self._nodes.run())

    def _age(self, key: str) -> tuple[float, int, str]:
        """Sorts jobs by their creation; of those without a status the version tells who came first in a second."""
        job = self._informers.jobs.get(key)
        if job is None or job.metadata.creation_timestamp is None:
            return 0.0, 0, key
        return job.metadata.creation_timestamp.timestamp(), version(job.metadata.resource_version), key

    async def _reconcile(self, key: str) -> Result | None:
        try:
            return await self._reconciler.reconcile(key)
        finally:
            self._first_pass.discard(key)  # what it has yet to write, it writes in its turn
            if not self._first_pass:
                self.first_pass_done.set()

    async def _admit(self) -> None:
        # Admitting from a line that is only half known would let a newcomer pass those before it.
        await self.first_pass_done.wait()
        seen = self._informers
        log.info("admitting", jobs=len(seen.jobs), nodes=len(seen.nodes), pods=len(seen.pods))
        async for plan in self._admission.plans():
            self._feed.apply(plan)

    async def _explain(self) -> None:
        """Have jobs that wait told why, a bounded number at a time."""
        while True:
            await self._clock.sleep(max(1.0, self._settings.explain_after))
            for key in self._explanations.due(self._admission.held, self._informers.job):
                self._wakeups.reconcile(key, priority=LOW_PRIORITY)

    async def _remind(self) -> None:
        """Have the admission loop look again where time alone may help: no job is interrupted again and again."""
        while True:
            await self._clock.sleep(REMIND_SECONDS)
            if self._admission.unserved or self._state.kept_room.keys() or self._state.refused or self._state.trust:
                self._wakeups.admit()

    async def _measure(self) -> None:
        async for _ in self._usage.rounds():
            for job, _ in self._informers.running_on_reclaimed():
                self._feed.update_running(job)
            self._admission.record_usage(self._usage.measured_jobs(shape_of, self._settings.starved_after))

    # --- what informers show ----------------------------------------------------------------------------------------

    def _on_job(self, change: Change[ScavengerJob]) -> None:
        key, new = change.obj.key, change.new
        news = self._records[key].shows(new)
        if new is not None:
            self._records.observe_queue_position(new.status.queued_timestamp)
        if new is None or (change.old and change.old.metadata.uid != new.metadata.uid):
            self._feed.forget(key)
        if new is not None and self._wakeups.loop is not None:
            self._records.assign_queue_position(key, new)
        if new is not None and new.status.phase is not None:
            self._records[key].has_status()
        if news:
            self._wakeups.reconcile(key, priority=LOW_PRIORITY if change.initial else 0)
        self._tell_those_after(change)

    def _tell_those_after(self, change: Change[ScavengerJob]) -> None:
        """Jobs that wait for this one look at it when it appears, ends or goes. How it ended is kept for them where it
        goes at once."""
        old, new = (other_job(one) if one is not None else None for one in (change.old, change.new))
        if change.initial or old == new:
            return
        for job in self._informers.jobs.by_index("after", change.obj.key):
            if old is not None and old.ended and (new is None or new.uid != old.uid):
                self._records[job.key].ended_others.setdefault(old.name, old)
            self._wakeups.reconcile(job.key)

    def _on_queue(self, change: Change[ScavengerQueue]) -> None:
        if change.new is None:
            self._state.delete_queue(change.key)
        else:
            self._state.apply_queue(queue_view(change.new))
        self._wakeups.admit()

    def _on_namespace(self, change: Change[Namespace]) -> None:
        labels = None if change.new is None else change.new.metadata.labels
        if self._state.apply_namespace(change.key, labels):
            self._wakeups.admit()
        if namespace_level(change.old) is not namespace_level(change.new):
            for job in self._informers.jobs.by_index("namespace", change.key):
                self._wakeups.reconcile(job.key)

    def _on_batch(self, change: Change[Job]) -> None:
        self._records.started(change.key)
        self._tell_unadopted(change)
        if self._informers.jobs.get(change.key) is None:
            return
        self._records[change.key].attempt.observe(change.new)
        old, new = change.old, change.new
        if old is None:
            self._wakeups.reconcile(change.key, after=TOGETHER_SECONDS)
        elif new is None or job_progress(old) != job_progress(new):
            self._wakeups.reconcile(change.key)

    def _tell_unadopted(self, change: Change[Job]) -> None:
        """Say of a Job that it is a regular one, once: by the process that leads when the Job appears."""
        job, leads = change.new, self._wakeups.loop is not None
        if not self._settings.tell_unadopted or job is None or change.old is not None or change.initial or not leads:
            return
        namespace = self._informers.namespaces.get(job.metadata.namespace)
        if namespace is not None and worth_telling(job, namespace.metadata.labels, self._clock.now()):
            self._events.normal(JOBS, job, NOT_ADOPTED, SAID)

    def _on_pod(self, change: Change[Pod]) -> None:
        if change.new is None:
            self._state.delete_pod(change.key)
            self._note_gone(change.obj)
        else:
            self._state.apply_pod(change.new)
        if (
            self._wakeups.loop is not None
            and (waited := waited_seconds(change.old, change.new, self._clock.now())) is not None
        ):
            metrics.ORDINARY_WAIT_SECONDS.observe(waited)
        self._informers.waits.saw(change.key, change.new, self._clock.now())
        self._budget.observe(change.key, pressure=change.new is not None and self._presses(change.new))
        self._wakeups.admit()
        old, new = change.old, change.new
        self._resizes.saw(change)
        if old is not None and new is not None and pod_progress(old) == pod_progress(new):
            self._hear_marks(old, new)
            return
        # Of an array there are many, and its status is written once in a second.
        together = names.LABEL_TASK in change.obj.metadata.labels or (new is not None and on_its_way(new))
        after = TOGETHER_SECONDS if together and not loses_labels(old, new) else 0.0
        for key in job_key(change.obj):
            self._wakeups.reconcile(key, after=after)

    def _hear_marks(self, old: Pod, new: Pod) -> None:
        """Another class of a run, or another figure, counts at once, and nothing else follows from it. What its status
        says follows with the next write, or in one of its own."""
        if self._wakeups.loop is None or marks(old) == marks(new):
            return
        for key in job_key(new):
            if (job := self._informers.job(key)) is not None:
                self._feed.update_running(job)
                self._wakeups.reconcile(key, after=SHOWN_EVERY.total_seconds())

    def _note_gone(self, pod: Pod) -> None:
        """A pod is gone: until now it was there. That of a task goes when it is counted, and says nothing of others."""
        if task_index(pod) is not None and pod.ended:
            return
        for key in job_key(pod):
            if self._informers.jobs.get(key) is not None:
                self._records[key].pod_gone = self._clock.now()

    def _presses(self, pod: Pod) -> bool:
        """Whether the pod needs the API server more than our writes do. A pod that no node would take does not."""
        return signals_pressure(pod) and (bool(job_key(pod)) or self._state.may_be_placed(pod.metadata.key))

    def _on_node(self, change: Change[Node]) -> None:
        again = rebooted(change.old, change.new)
        if again and change.new is not None:
            self._informers.reboots[change.key] = reported_at(change.new) or self._clock.now()
        if (failure := failed_by_itself(change.old, change.new)) and self._informers.pods.by_index("node", change.key):
            self._state.trust.failed_by_itself(change.key, failure, micros(self._clock.now()))
        if change.new is None:
            self._informers.reboots.pop(change.key, None)
            self._state.delete_node(change.key)
        else:
            self._state.apply_node(change.new)
        if again or change.new is None or change.old is None or placing_facts(change.old) != placing_facts(change.new):
            self._wakeups.admit()
            for pod in self._informers.pods.by_index("node", change.key):
                for key in job_key(pod):
                    self._wakeups.reconcile(key)

    def _on_words(self, _: Change[ConfigMap]) -> None:
        for key in self._informers.words.jobs:
            self._wakeups.reconcile(key)

    def _on_levels(self, _: Change[ConfigMap]) -> None:
        self._wakeups.admit()

    def _on_failure(self, change: Change[Event]) -> None:
        about = change.obj.involved_object
        pod = self._informers.pods.get(f"{about.namespace}/{about.name}")
        for key in job_key(pod) if pod is not None else ():
            if self._informers.jobs.get(key) is not None:
                self._wakeups.reconcile(key)


def _share(workers: int) -> int:
    """How many of the workers one namespace, or creates that do not hang, may have."""
    return max(1, workers * 3 // 4)
