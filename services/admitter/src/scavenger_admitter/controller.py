"""The shell: what informers show goes into decisions, what they decide goes to the API. Nothing is decided here.

Two loops share one view of the cluster. The reconcile loop has `observe` say what became of each job, writes the status
with the resourceVersion it was decided on, and only then carries out what follows. The admission loop decides who
starts. Both run on the leader only; a standby keeps its informers and the view warm.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from scavenger_api import names
from scavenger_api.job import Capacity, ConditionType, Phase, ScavengerJob
from scavenger_api.levels import LevelsView
from scavenger_api.quantity import amounts
from scavenger_api.queue import ScavengerQueue
from scavenger_api.reasons import InterruptionReason
from scavenger_api.times import micros
from scavenger_kube.errors import Conflict, NotFound
from scavenger_kube.kinds import ConfigMap, Event, Job, Node, Pod
from scavenger_kube.resources import CONFIGMAPS, EVENTS, JOBS, NODES, PODS, scavenger_jobs
from scavenger_runtime import LOW_PRIORITY, Informer, ReconcileLoop, Result, ServiceContext
from scavenger_runtime.cache import Change, by_node
from scavenger_runtime.logging import get_logger

from scavenger_admitter import metrics
from scavenger_admitter.admission_loop import Admission, Refusal, run_of
from scavenger_admitter.core.admission.fair_share_preemption import Reclaim
from scavenger_admitter.core.admission.queue_status import state_of
from scavenger_admitter.core.admission.running import PER_CPU_SECOND, Gang, RunningJob
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, ClusterState, QueueView
from scavenger_admitter.core.admission.starvation import Starved
from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.actions import (
    Action,
    DeleteJob,
    DeletePod,
    DeleteScavengerJob,
    ReleasePod,
)
from scavenger_admitter.core.lifecycle.lifecycle import (
    Diagnosis,
    Observation,
    ObserveSettings,
    Outcome,
    Taken,
    diagnose,
    observe,
    observe_orphans,
)
from scavenger_admitter.core.waits import Wait
from scavenger_admitter.explain import Explanations
from scavenger_admitter.freshness import caught_up, confirmed, doubtful, version
from scavenger_admitter.queue_controller import SCAVENGERQUEUES, Queues, queue_of
from scavenger_admitter.settings import AdmitterSettings
from scavenger_admitter.usage import Metering

SCAVENGERJOBS: Final = scavenger_jobs(ScavengerJob)

UNSEEN_START_SECONDS: Final = 10.0
"""A Job we created and the informer has not shown for this long is looked for again."""

LEAST_WAIT_SECONDS: Final = 0.01
"""Waits are sums of rounded figures: whoever is woken a hair too early must not be woken at once for ever."""

FIRST_STATUS_SECONDS: Final = 0.5
"""So long the first status of a newcomer may wait for the next admission cycle: most are started by it, and what would
have been two writes is one."""

REMIND_SECONDS: Final = 5.0

Rate: TypeAlias = Callable[[datetime], float | None]
"""Cores that a job used on average since a moment; None when that is now."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Created:
    """A Job that was created, or may have been, for a run; and when, on the monotonic clock."""

    run: str
    at: float


@dataclass(frozen=True, slots=True)
class _Newcomer:
    """A job that has no status yet: its place in line, kept here until the first status says so.

    A process that dies before then has promised nothing; where it had created the Job already, that Job has the place.
    """

    uid: str
    place: datetime
    until: float
    """When its status is written at the latest, on the monotonic clock."""


class Admitter:
    """All of the admitter but its decisions."""

    def __init__(self, context: ServiceContext[AdmitterSettings]) -> None:
        settings = context.settings
        self._settings = settings
        self._client = context.client
        self._clock = context.clock
        self._events = context.events
        self._observe_settings = ObserveSettings(
            start_timeout=timedelta(seconds=settings.start_timeout),
            unschedulable_after=timedelta(seconds=settings.unschedulable_after),
        )
        self._state = ClusterState(tolerated_taints=settings.tolerated_taints)
        self._loop: ReconcileLoop | None = None
        self._explanations = Explanations(self._clock, settings.explain_after)
        self._admission = Admission(
            client=self._client,
            state=self._state,
            settings=settings,
            clock=self._clock,
            levels=self._levels_view,
            job=self.job,
            started=self._on_started,
            refused=self._on_refused,
            reclaimed=self._on_reclaimed,
            starved=self._on_starved,
        )
        self._metering = Metering(
            client=self._client,
            clock=self._clock,
            period=settings.usage_period,
            running=self._running_reclaimed,
            measured=self._on_measured,
        )
        # What this process knows of a job beyond the API: lost with it, and nothing depends on that.
        self._written: dict[str, ScavengerJob] = {}
        self._newcomers: dict[str, _Newcomer] = {}
        self._last_place = datetime.min.replace(tzinfo=UTC)
        self._starting: dict[str, _Created] = {}
        self._runs: dict[str, str] = {}
        self._refusals: dict[str, tuple[str, Refusal]] = {}
        self._taken: dict[str, tuple[str, Taken]] = {}
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, int] = {}
        self._counted: Counter[tuple[str, str]] = Counter()
        self._first_pass: set[str] = set()
        self._first_pass_done = asyncio.Event()

        client, clock, add = self._client, self._clock, context.add_informer
        self._jobs = add(Informer(client, SCAVENGERJOBS, clock=clock, indices={"queue": queue_of}))
        self._queues = add(Informer(client, SCAVENGERQUEUES, clock=clock))
        self._batch = add(Informer(client, JOBS, clock=clock))
        self._pods = add(Informer(client, PODS, clock=clock, indices={"job": _job_key, "node": by_node}))
        self._nodes = add(Informer(client, NODES, clock=clock))
        # Why a start does not come off is said in Events alone: those of two reasons are followed, so that nobody has
        # to search through all of them. A Secret that is missing is told apart without a right to read Secrets.
        self._failures_told = [
            add(Informer(client, EVENTS, clock=clock, name=name, field_selector=told, indices={"uid": _about}))
            for name, told in (
                ("failed-mounts", "involvedObject.kind=Pod,reason=FailedMount"),
                ("failed-creates", "involvedObject.kind=Job,reason=FailedCreate"),
            )
        ]
        self._levels = add(
            Informer(
                client,
                CONFIGMAPS,
                namespace=settings.namespace,
                field_selector=f"metadata.name={names.LEVELS_CONFIGMAP}",
                name="levels",
                clock=clock,
            )
        )
        self._jobs.add_handler(self._on_job)
        self._queue_keeper = Queues(
            client=client,
            clock=clock,
            events=context.events,
            queues=self._queues,
            jobs=self._jobs,
            shares=lambda: self._admission.shares,
        )
        self._queues.add_handler(self._on_queue)
        self._batch.add_handler(self._on_batch)
        self._pods.add_handler(self._on_pod)
        self._nodes.add_handler(self._on_node)
        self._levels.add_handler(self._on_levels)
        for told in self._failures_told:
            told.add_handler(self._on_failure_told)

    async def lead(self) -> None:
        """Do the work, until cancelled. The informers are synced."""
        for informer in (self._jobs, self._batch):
            await caught_up(self._client, informer, self._clock)
        loop = ReconcileLoop("scavengerjobs", self._reconcile, workers=self._settings.workers, clock=self._clock)
        self._loop = loop
        held = {
            key for pod in self._pods.items() if names.FINALIZER in pod.metadata.finalizers for key in _job_key(pod)
        }
        self._first_pass = held.union(self._jobs.keys())
        if not self._first_pass:
            self._first_pass_done.set()
        for key in sorted(self._first_pass, key=self._age):
            self._welcome(key)
            loop.add(key, priority=LOW_PRIORITY)
        async with asyncio.TaskGroup() as group:
            group.create_task(loop.run())
            group.create_task(self._admit())
            group.create_task(self._explain())
            group.create_task(self._remind())
            group.create_task(self._queue_keeper.run())
            group.create_task(self._metering.run())

    async def _admit(self) -> None:
        # Admitting from a line that is only half known would let a newcomer pass those before it.
        await self._first_pass_done.wait()
        log.info("admitting", jobs=len(self._jobs), nodes=len(self._nodes), pods=len(self._pods))
        await self._admission.run()

    async def _explain(self) -> None:
        """Have jobs that wait told why, a bounded number at a time."""
        while True:
            await self._clock.sleep(max(1.0, self._settings.explain_after))
            for key in self._explanations.due(self._admission.held, self.job):
                self._enqueue(key, priority=LOW_PRIORITY)

    async def _remind(self) -> None:
        """Have the admission loop look again where time alone may help: nobody is interrupted again and again."""
        while True:
            await self._clock.sleep(REMIND_SECONDS)
            if self._admission.unserved:
                self._admission.wake()

    # --- newcomers --------------------------------------------------------------------------------------------------

    def _age(self, key: str) -> tuple[float, int, str]:
        """Sorts jobs by their creation; of those without a status the version tells who came first in a second."""
        meta = job.metadata if (job := self._jobs.get(key)) is not None else None
        if meta is None or meta.creation_timestamp is None:
            return 0.0, 0, key
        return meta.creation_timestamp.timestamp(), version(meta.resource_version), key

    def _welcome(self, key: str) -> None:
        """Give a job without a status its place in line; places are given in the order in which jobs are seen."""
        job = self._published(key)
        if job is None or job.status.phase is not None or key in self._newcomers:
            return
        self._last_place = max(self._clock.now(), self._last_place + timedelta(microseconds=1))
        until = self._clock.monotonic() + FIRST_STATUS_SECONDS
        self._newcomers[key] = _Newcomer(job.metadata.uid, self._last_place, until)

    def _with_place(self, key: str, job: ScavengerJob) -> ScavengerJob:
        newcomer = self._newcomers.get(key)
        if newcomer is None or job.status.phase is not None or newcomer.uid != job.metadata.uid:
            return job
        place = job.status.queued_timestamp or newcomer.place
        return job.model_copy(update={"status": job.status.model_copy(update={"queued_timestamp": place})})

    def _may_wait(self, key: str, outcome: Outcome) -> float | None:
        """For how many seconds a first status that says no more than `Waiting` may be left out; None: not at all."""
        newcomer = self._newcomers.get(key)
        if newcomer is None or not outcome.newcomer:
            return None
        left = newcomer.until - self._clock.monotonic()
        return left if left > 0 else None

    # --- what informers show ----------------------------------------------------------------------------------------

    def job(self, key: str) -> ScavengerJob | None:
        """The newest known version of a ScavengerJob; a newcomer has its place in line already."""
        job = self._published(key)
        return self._with_place(key, job) if job is not None else None

    def _published(self, key: str) -> ScavengerJob | None:
        """What the informer shows, or what we have just written."""
        seen, written = self._jobs.get(key), self._written.get(key)
        if seen is None or written is None or seen.metadata.uid != written.metadata.uid:
            return seen
        return written if _newer(written, seen) else seen

    def _enqueue(self, key: str, *, priority: int = 0) -> None:
        if self._loop is not None:
            self._loop.add(key, priority=priority)

    def _on_job(self, change: Change[ScavengerJob]) -> None:
        for job, step in ((change.old, -1), (change.new, +1)):
            if job is not None:
                self._count_phase(job, step)
        written = self._written.get(change.key)
        if written is not None and (change.new is None or not _newer(written, change.new)):
            del self._written[change.key]
        if change.new is None or (change.old and change.old.metadata.uid != change.new.metadata.uid):
            self._forget(change.key)
        if self._loop is not None:
            self._welcome(change.key)
        if change.new is not None and change.new.status.phase is not None:
            self._newcomers.pop(change.key, None)
        self._enqueue(change.key, priority=LOW_PRIORITY if change.initial else 0)

    def _count_phase(self, job: ScavengerJob, step: int) -> None:
        labels = (job.status.phase or Phase.WAITING, job.spec.queue)
        self._counted[labels] += step
        metrics.JOBS.labels(*labels).set(self._counted[labels])

    def _on_queue(self, change: Change[ScavengerQueue]) -> None:
        queue = change.new
        if queue is None:
            self._state.delete_queue(change.key)
        else:
            self._state.apply_queue(
                QueueView(
                    queue.metadata.name,
                    weight=queue.spec.weight,
                    quota=amounts(queue.spec.quota or {}),
                    state=state_of(queue),
                )
            )
        self._admission.wake()

    def _on_batch(self, change: Change[Job]) -> None:
        self._starting.pop(change.key, None)
        if self._jobs.get(change.key) is not None:
            self._enqueue(change.key)

    def _on_pod(self, change: Change[Pod]) -> None:
        if change.new is None:
            self._state.delete_pod(change.key)
        else:
            self._state.apply_pod(change.new)
        self._admission.wake()
        for key in _job_key(change.obj):
            self._enqueue(key)

    def _on_node(self, change: Change[Node]) -> None:
        if change.new is None:
            self._state.delete_node(change.key)
        else:
            self._state.apply_node(change.new)
        if change.new is None or change.old is None or _lifelines(change.old) != _lifelines(change.new):
            self._admission.wake()
            for pod in self._pods.by_index("node", change.key):
                for key in _job_key(pod):
                    self._enqueue(key)

    def _on_levels(self, _: Change[ConfigMap]) -> None:
        self._admission.wake()

    def _on_failure_told(self, change: Change[Event]) -> None:
        about = change.obj.involved_object
        pod = self._pods.get(f"{about.namespace}/{about.name}") if about.kind == "Pod" else None
        for key in _job_key(pod) if pod is not None else (f"{about.namespace}/{about.name}",):
            if self._jobs.get(key) is not None:
                self._enqueue(key)

    def _levels_view(self) -> LevelsView:
        published = self._levels.get(f"{self._settings.namespace}/{names.LEVELS_CONFIGMAP}")
        return LevelsView.of(published.data if published else None, self._clock.now())

    # --- one job ----------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: str) -> Result | None:
        try:
            job = self.job(key)
            if job is None:
                await self._carry_out(key, None, observe_orphans(self._pods.by_index("job", key)))
                return None
            seen = self._observation(key, job)
            outcome = observe(await confirmed(self._client, seen) if doubtful(seen) else seen)
            left_out = self._may_wait(key, outcome)
            if left_out is not None:
                job = job.model_copy(update={"status": outcome.status})
            elif outcome.changed:
                job = await self._write(job, outcome)
            self._line_up(key, job, outcome)
            await self._carry_out(key, job, outcome.actions)
            waits = [wait for wait in (left_out, outcome.requeue_after, *self._waits(key)) if wait is not None]
            return Result(requeue_after=min(waits, default=None))
        finally:
            self._passed(key)

    def _waits(self, key: str) -> Iterator[float]:
        """Seconds until time alone changes what the admission loop is to be told. Asked after every reconcile: the
        queue keeps the lower of two waits, so that a later one is lost when anything happens before it is over."""
        if key in self._starting:
            left = self._starting[key].at + UNSEEN_START_SECONDS - self._clock.monotonic()
            yield max(LEAST_WAIT_SECONDS, left)
        left = (self._not_before.get(key, 0) - micros(self._clock.now())) / 1e6
        if left > 0:
            yield max(LEAST_WAIT_SECONDS, left)

    def _passed(self, key: str) -> None:
        self._first_pass.discard(key)
        if not self._first_pass:
            self._first_pass_done.set()

    def _observation(self, key: str, job: ScavengerJob) -> Observation:
        batch, pods = self._batch.get(key), self._pods.by_index("job", key)
        run, refusal = self._refusals.get(key, ("", None))
        decided, taken = self._taken.get(key, ("", None))
        return Observation(
            job=job,
            batch=batch,
            pods=pods,
            nodes={pod.spec.node_name: self._nodes.get(pod.spec.node_name) for pod in pods if pod.spec.node_name},
            now=self._clock.now(),
            diagnosis=self._diagnosis(batch, pods) if job.status.phase is Phase.STARTING else None,
            wait=self._wait(key, job),
            refused=refusal if run == run_of(job) else None,
            taken=taken if decided == run_of(job) else None,
            usage=self._metering.usage,
            assumed_started=self._is_starting(key, run_of(job)),
            settings=self._observe_settings,
        )

    def _diagnosis(self, batch: Job | None, pods: Iterable[Pod]) -> Diagnosis:
        uids = [batch.metadata.uid] if batch is not None else []
        uids += [pod.metadata.uid for pod in pods]
        return diagnose(event for told in self._failures_told for uid in uids for event in told.by_index("uid", uid))

    def _wait(self, key: str, job: ScavengerJob) -> Wait | None:
        return self._explanations.tell(key, job, self._admission.held.get(key))

    def _is_starting(self, key: str, run: str) -> bool:
        """Whether the Job of this run was created, or may have been, and is not seen yet."""
        created = self._starting.get(key)
        if created is None:
            return False
        if created.run == run and self._clock.monotonic() - created.at < UNSEEN_START_SECONDS:
            return True
        del self._starting[key]
        self._state.forget(key)
        return False

    async def _write(self, job: ScavengerJob, outcome: Outcome) -> ScavengerJob:
        """Commit the status decided on this very version of the job. Raises Conflict when there is a newer one."""
        meta = job.metadata
        status = outcome.status.to_dict()
        status.pop("preemption", None)  # the prioritizer's
        body = await self._client.apply(
            SCAVENGERJOBS,
            meta.namespace,
            meta.name,
            {
                "apiVersion": names.API_VERSION,
                "kind": SCAVENGERJOBS.kind,
                "metadata": {
                    "name": meta.name,
                    "namespace": meta.namespace,
                    "uid": meta.uid,
                    "resourceVersion": meta.resource_version,
                },
                "status": status,
            },
            field_manager=names.ADMITTER,
            subresource="status",
        )
        written = ScavengerJob.model_validate_json(body)
        self._written[job.key] = written
        self._newcomers.pop(job.key, None)
        self._record(job, written, outcome)
        return written

    def _record(self, before: ScavengerJob, after: ScavengerJob, outcome: Outcome) -> None:
        queue, facts = after.spec.queue, outcome.facts
        if facts.waited_seconds is not None:
            metrics.WAIT_SECONDS.labels(queue).observe(facts.waited_seconds)
        if facts.interruption is not None:
            metrics.INTERRUPTIONS.labels(queue, facts.interruption.value).inc()
        if facts.finished is not None:
            metrics.FINISHED.labels(queue, facts.finished.value).inc()
        metrics.LOST_CPU_SECONDS.labels(queue).inc(max(0.0, facts.lost))
        metrics.USEFUL_CPU_SECONDS.labels(queue).inc(max(0.0, facts.useful))
        for note in outcome.events:
            self._events.record(SCAVENGERJOBS, after, note.type, note.reason, note.message)
        if before.status.phase is not after.status.phase:
            log.info(
                "phase",
                job=after.key,
                queue=queue,
                old=before.status.phase,
                new=after.status.phase,
                message=after.status.message,
                interrupted=after.status.interrupted_count,
                useful_cpu_seconds=round(after.status.useful_cpu_seconds, 1),
                lost_cpu_seconds=round(after.status.lost_cpu_seconds, 1),
            )

    def _line_up(self, key: str, job: ScavengerJob, outcome: Outcome) -> None:
        """Tell the admission loop where the job stands."""
        if outcome.start_failed:
            self._start_failed(key, job)
        status, batch = job.status, self._batch.get(key)
        if outcome.facts.waited_seconds is not None:
            self._failures.pop(key, None)
        if status.phase is Phase.STARTING and batch is not None:
            self._assume(key, job)
        elif not self._holds_room(key, job):
            self._runs.pop(key, None)
            self._state.forget(key)
        self._tell_running(key, job)
        if outcome.candidate and self._may_start(key, job):
            self._state.apply_candidate(_candidate(job, self._not_before.get(key, 0)))
            self._admission.wake()
        else:
            self._state.delete_candidate(key)

    def _tell_running(self, key: str, job: ScavengerJob) -> None:
        """Tell the admission loop what room may be taken back, and what has been."""
        decided, _ = self._taken.get(key, ("", None))
        if decided != run_of(job):
            self._taken.pop(key, None)
        running, phase = self._state.running, job.status.phase
        if phase is Phase.INTERRUPTED and _cause(job) in (InterruptionReason.RECLAIMED, InterruptionReason.STARVED):
            at = max(job.status.interrupted_timestamps, default=self._clock.now())
            running.reclaim(key, micros(at), _shape(job).counted, job.spec.parallelism)
        elif phase is not Phase.RUNNING:
            running.delete(key)
        elif key not in self._taken:  # else its room is spoken for, although its status does not say so yet
            running.apply(_running_job(job, self._rate(key, job)))

    def _rate(self, key: str, job: ScavengerJob) -> Rate | None:
        """How fast a job on reclaimed capacity has been computing since a moment: core-seconds per second."""
        if job.spec.capacity is Capacity.GUARANTEED:
            return None
        now, used = self._clock.now(), accounting.cpu_time(job.spec, self._members(key, job), self._metering.usage)
        return lambda since: used(since, now) / (now - since).total_seconds() if now > since else None

    def _may_start(self, key: str, job: ScavengerJob) -> bool:
        """Whether a job in line may be chosen; not while it is being started from this very place: what was observed
        may be older than that start, or its refusal."""
        refused, _ = self._refusals.get(key, ("", None))
        under_way = self._admission.is_creating(key) or key in self._starting
        return not under_way and refused != run_of(job)

    def _holds_room(self, key: str, job: ScavengerJob) -> bool:
        """Whether the room of a start may still be needed, for this run of the job."""
        if self._admission.is_creating(key) or key in self._starting:
            return True
        active = job.status.phase is not None and job.status.phase.active
        return active and self._runs.get(key) in (None, run_of(job))

    def _assume(self, key: str, job: ScavengerJob) -> None:
        """Hold the room of a start that another admitter, or this one before a restart, has under way."""
        run = run_of(job)
        if self._runs.get(key) != run:
            self._runs[key] = run
            self._state.assume(key, run, _shape(job), job.spec.parallelism, queue=job.spec.queue)

    def _start_failed(self, key: str, job: ScavengerJob) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        settings = self._settings
        delay = min(settings.start_backoff_max, settings.start_backoff * 2.0 ** min(failures - 1, 30))
        self._not_before[key] = micros(self._clock.now() + timedelta(seconds=delay))
        self._state.forget(key)
        admitted = next((c for c in job.status.conditions if c.type == "Admitted"), None)
        metrics.FAILED_STARTS.labels(job.spec.queue, admitted.reason if admitted else "").inc()

    def _forget(self, key: str) -> None:
        self._state.delete_candidate(key)
        self._state.running.delete(key)
        self._state.forget(key)
        self._explanations.forget(key)
        for known in (
            self._taken,
            self._newcomers,
            self._starting,
            self._runs,
            self._refusals,
            self._failures,
            self._not_before,
        ):
            known.pop(key, None)

    # --- what the admission loop reports ----------------------------------------------------------------------------

    def _on_started(self, key: str, run: str) -> None:
        self._runs[key] = run
        if self._batch.get(key) is None:
            self._starting[key] = _Created(run, self._clock.monotonic())
        self._enqueue(key)

    def _on_refused(self, key: str, run: str, refusal: Refusal) -> None:
        self._refusals[key] = (run, refusal)
        self._enqueue(key)

    def _on_reclaimed(self, reclaim: Reclaim) -> None:
        """A running job is to go. It is interrupted by its reconcile: the status first, then its pods, and should this
        process die before, the next one decides anew."""
        key, job = reclaim.key, self.job(reclaim.key)
        if job is None or job.metadata.uid != reclaim.gang.job.uid:
            return
        self._take(
            job, reclaim.gang, Taken(InterruptionReason.RECLAIMED, f"queue {reclaim.queue} has less than it deserves")
        )
        metrics.RECLAIMS.labels(job.spec.queue, reclaim.queue).inc()
        log.info(
            "reclaiming",
            job=key,
            queue=job.spec.queue,
            receiver=reclaim.queue,
            waiting=reclaim.waiting,
            cpu_seconds_at_risk=round(reclaim.risk / PER_CPU_SECOND, 1),
        )

    def _on_starved(self, starved: Starved) -> None:
        """A running job gets too little CPU where it is, and goes in the same way."""
        job = self.job(starved.key)
        if job is None or job.metadata.uid != starved.gang.job.uid:
            return
        self._take(job, starved.gang, Taken(InterruptionReason.STARVED, starved.detail))
        log.info("interrupting, as it is starved", job=job.key, queue=job.spec.queue, why=starved.detail)

    def _take(self, job: ScavengerJob, gang: Gang, taken: Taken) -> None:
        self._state.running.reclaim(job.key, micros(self._clock.now()), gang.counted, job.spec.parallelism)
        self._taken[job.key] = (run_of(job), taken)
        self._enqueue(job.key)

    # --- what is measured -------------------------------------------------------------------------------------------

    def _running_reclaimed(self) -> Iterator[tuple[ScavengerJob, list[Pod]]]:
        """The jobs on reclaimed capacity that are known to run, with their pods."""
        for seen in self._jobs.items():
            job = self.job(seen.key) if seen.spec.capacity is Capacity.RECLAIMED else None
            if job is not None and job.status.phase is Phase.RUNNING:
                yield job, self._members(job.key, job)

    def _members(self, key: str, job: ScavengerJob) -> list[Pod]:
        """The pods of the run in progress; those of an earlier one may still be there."""
        run = run_of(job)
        return [p for p in self._pods.by_index("job", key) if p.metadata.annotations.get(names.ANNOTATION_RUN) == run]

    def _on_measured(self) -> None:
        for job, _ in self._running_reclaimed():
            self._tell_running(job.key, job)
        self._admission.look_at(self._metering.watched(_shape, self._settings.starved_after))

    # --- actions ----------------------------------------------------------------------------------------------------

    async def _carry_out(self, key: str, job: ScavengerJob | None, actions: Iterable[Action]) -> None:
        """Carry out what follows from a committed status. All of it is attempted; the first failure is raised after,
        and the reconcile that comes then repeats what is still to be done."""
        work = [self._action(key, job, action) for action in actions]
        failures = [r for r in await asyncio.gather(*work, return_exceptions=True) if isinstance(r, BaseException)]
        for failure in failures:
            if not isinstance(failure, NotFound | Conflict):
                raise failure
        if failures:
            raise failures[0]

    def _action(self, key: str, job: ScavengerJob | None, action: Action) -> Awaitable[Any]:
        namespace, _, name = key.partition("/")
        match action:
            case DeleteJob(uid=uid, reason=reason):
                log.info("deleting the Job", job=key, reason=reason)
                return self._client.delete(JOBS, namespace, name, uid=uid)
            case DeletePod(name=pod, uid=uid):
                return self._client.delete(PODS, namespace, pod, uid=uid)
            case ReleasePod(name=pod, uid=uid):
                return release(self._client, namespace, pod, uid)
            case DeleteScavengerJob(uid=uid):
                log.info("deleting the ScavengerJob: its time after the end is over", job=key)
                return self._client.delete(SCAVENGERJOBS, namespace, name, uid=uid)


async def release(client: Any, namespace: str, pod: str, uid: str) -> None:
    """Take our finalizer off a pod, and only ours; a pod that is gone is released."""
    patch = {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [names.FINALIZER]}}
    with contextlib.suppress(NotFound):
        await client.strategic_patch(PODS, namespace, pod, patch)


def _job_key(pod: Pod) -> tuple[str, ...]:
    """`namespace/name` of the ScavengerJob a pod belongs to; nothing for an ordinary pod."""
    name = pod.metadata.labels.get(names.LABEL_JOB)
    return (f"{pod.metadata.namespace}/{name}",) if name else ()


def _about(event: Event) -> tuple[str, ...]:
    return (event.involved_object.uid,)


def _shape(job: ScavengerJob) -> Shape:
    return Shape.of(job.spec.placed_by, job.spec.node_selector, job.spec.tolerations or ())


def _candidate(job: ScavengerJob, not_before: int) -> Candidate:
    queued = job.status.queued_timestamp
    return Candidate(
        key=job.key,
        uid=job.metadata.uid,
        queue=job.spec.queue,
        shape=_shape(job),
        parallelism=job.spec.parallelism,
        interrupted_count=job.status.interrupted_count,
        queued_at=micros(queued) if queued else 0,
        not_before=not_before,
    )


def _running_job(job: ScavengerJob, rate: Rate | None) -> RunningJob:
    """`rate`: how fast it has been computing, where that is measured."""
    status, preemption = job.status, job.status.preemption
    start = accounting.run_start(status)
    since = accounting.recorded_reference(status, start) if start is not None else None
    cores = rate(since) if rate is not None and since is not None else None
    return RunningJob(
        key=job.key,
        uid=job.metadata.uid,
        queue=job.spec.queue,
        parallelism=job.spec.parallelism,
        preemptible=preemption is None or preemption.class_ != names.NON_PREEMPTIBLE,
        priority=preemption.running_priority if preemption is not None else None,
        since=micros(since) if since is not None else 0,
        started=micros(start) if start is not None else 0,
        interval=max(1, job.spec.checkpoint_interval // timedelta(microseconds=1)),
        interrupted_at=micros(max(status.interrupted_timestamps)) if status.interrupted_timestamps else 0,
        millicores=round(cores * 1000) if cores is not None else None,
    )


def _cause(job: ScavengerJob) -> str:
    """Why the job was interrupted last, until it runs again."""
    found = job.status.condition(ConditionType.INTERRUPTED)
    return found.reason if found is not None and found.status == "True" else ""


def _lifelines(node: Node) -> tuple[bool, object, object, object]:
    """What a decision about the pods of a node, or about new ones, depends on."""
    return node.ready, node.spec, node.status.allocatable, node.metadata.labels


def _newer(one: ScavengerJob, other: ScavengerJob) -> bool:
    """Whether `one` is the later version."""
    return version(one.metadata.resource_version) > version(other.metadata.resource_version)
