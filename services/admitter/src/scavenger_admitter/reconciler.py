"""One job at a time: what is known of it, what follows, the status write, and only then everything else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Final

import msgspec
from scavenger_api import names
from scavenger_api.job import Phase, ScavengerJob, ScavengerJobStatus
from scavenger_api.quantity import QuantityError
from scavenger_domain.pod_ends import goes_on, started_at
from scavenger_kube.client import ApiClient
from scavenger_kube.decode import Malformed
from scavenger_kube.errors import ApiError, Conflict, NotFound
from scavenger_kube.kinds import Pod
from scavenger_runtime.background import BackgroundTasks
from scavenger_runtime.clock import Clock
from scavenger_runtime.logging import get_logger
from scavenger_runtime.reconcile import Result
from scavenger_runtime.write_budget import Urgency

from scavenger_admitter import metrics
from scavenger_admitter.admission_feed import AdmissionFeed
from scavenger_admitter.admission_loop import AdmissionLoop
from scavenger_admitter.attempt import Stage
from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.actions import (
    Cleanup,
    CreateJob,
    CreatePods,
    ReleasePod,
    StartTasks,
)
from scavenger_admitter.core.lifecycle.books.many import kept_pods
from scavenger_admitter.core.lifecycle.confirmed import Confirmed, cleanups
from scavenger_admitter.core.lifecycle.leftover_pods import clear_orphans
from scavenger_admitter.core.lifecycle.observation import Outcome, Seen
from scavenger_admitter.core.snapshots import warnings_of
from scavenger_admitter.core.volume_topology import VolumeTopology
from scavenger_admitter.create_limiter import SLOW_SECONDS
from scavenger_admitter.dry_runs import ASKED_FOR, DryRuns
from scavenger_admitter.facts import candidate, newer, run_of
from scavenger_admitter.freshness import decide, exists
from scavenger_admitter.informers import Informers
from scavenger_admitter.job_record import JobRecord, JobRecords
from scavenger_admitter.lookups import Look, Lookups
from scavenger_admitter.namespace_turns import NamespaceTurns
from scavenger_admitter.observer import Observer
from scavenger_admitter.references import refers
from scavenger_admitter.settings import AdmitterSettings
from scavenger_admitter.starter import BEHIND_SECONDS, Starter
from scavenger_admitter.success_evidence import SuccessEvidence
from scavenger_admitter.volume_topologies import VolumeTopologies
from scavenger_admitter.wakeups import Wakeups
from scavenger_admitter.write_turns import WriteTurns, can_wait, urgency_of
from scavenger_admitter.writer import Writer

UNREADABLE_SECONDS: Final = 60.0
"""A ScavengerJob that exists and is not shown is looked for again so often, as long as there are pods of it."""

CLOCK_TICK: Final = 0.001
"""Seconds."""

DUE_SECONDS: Final = 1.0
"""A job is looked at again after so long where something was due, and is not done yet."""

EXPLAINED_LATER: Final = 60.0
"""A job whose status waits for its turn to explain something is looked at again so often."""

LARGEST_POD: Final = 1536 * 1024
"""Bytes. etcd takes no larger object."""

LOOK_SECONDS: Final = 60.0
"""A job that waits for so long is told what its pods need and is not there."""

LOOK_AGAIN_SECONDS: Final = 600.0
"""And is told again, of what is there by then, so often."""

LOOKS_AT_ONCE: Final = 4
"""Jobs that wait are told of so many at the same time: a claim whose API server hangs holds up no others."""

LOOK_APART_SECONDS: Final = 0.05
"""Jobs that wait are told of so many objects: one in so long, for all of them together. Namespaces take turns."""

log = get_logger(__name__)


class Reconciler:
    """Brings one ScavengerJob after the other to where it should be.

    Args:
        client: to ask where informers may be behind.
        settings: of the admitter.
        clock: for `now`.
        informers: what the API server shows.
        records: of all jobs.
        writer: for everything that is written.
        feed: told where each job stands.
        admission: says why jobs wait.
        observer: looks at jobs.
        starter: creates what was granted.
        turns: which jobs may write now.
        wakeups: for a job of which there is news that its own write has hidden.
        topologies: where the volumes of claims can be used.
        lookups: how often objects may be asked for.
        evidence: told which successes are to be proven.
    """

    def __init__(
        self,
        *,
        client: ApiClient,
        settings: AdmitterSettings,
        clock: Clock,
        informers: Informers,
        records: JobRecords,
        writer: Writer,
        feed: AdmissionFeed,
        admission: AdmissionLoop,
        observer: Observer,
        starter: Starter,
        turns: WriteTurns,
        wakeups: Wakeups,
        topologies: VolumeTopologies,
        lookups: Lookups,
        evidence: SuccessEvidence,
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._informers = informers
        self._records = records
        self._writer = writer
        self._feed = feed
        self._admission = admission
        self._observer = observer
        self._starter = starter
        self._turns = turns
        self._wakeups = wakeups
        self._topologies = topologies
        self._lookups = lookups
        self._evidence = evidence
        self._told_of_crd = False
        self._dry_runs = DryRuns(clock)
        self._looks = NamespaceTurns(clock, LOOK_APART_SECONDS)
        self._beside: BackgroundTasks[str] = BackgroundTasks(concurrency=LOOKS_AT_ONCE, on_done=wakeups.reconcile)
        """What is asked for jobs that wait, by key: as many as `MAX_REFERENCES` requests each, one after the other."""

    async def close(self) -> None:
        """Ask nothing more beside the reconciles."""
        await self._beside.close()

    async def reconcile(self, key: str) -> Result | None:
        """Bring the job to where it should be, as far as that can be done now.

        Raises:
            Conflict: there is a newer version of it.
            NotFound: it, or what was to be changed, is gone.
            ApiError: the API server refuses, or does not answer.
        """
        unread = self._informers.jobs.unreadable.get(key)
        if unread is None and self._begins(key) and not self._turns.ready(key, Urgency.START):
            return None  # it is looked at when it has its turn: what would be planned now could not be written
        try:
            return await (self._reconcile(key) if unread is None else self._bar(key, unread))
        except Conflict:
            raise
        except ApiError:
            # A job whose status cannot be written, or that cannot be looked at, holds no capacity meanwhile.
            self._feed.revoke(key, SLOW_SECONDS)
            raise

    async def _reconcile(self, key: str) -> Result | None:
        job = self._informers.job(key)
        if job is None:
            self._evidence.forget(key)
            self._beside.discard(key)
            return await self._clear_orphans(key)
        self._look_for_references(key, job)
        self._hear(key, job)
        await self._check_nodes_of_grant(key, job)
        await self._measure_pods(key, job)
        observed = self._observer.observe(key, job)
        seen = observed.seen
        decided = await decide(self._client, observed, self._records[key].heard)
        if decided is None:
            log.info("waiting for a newer version of the ScavengerJob", job=key)
            self._feed.revoke(key)
            return Result(requeue_after=BEHIND_SECONDS)
        outcome = decided.value
        self._evidence.ask(key, outcome.unproven)
        left_out = _left(outcome.quiet_until, seen.now)
        create = next((one for one in outcome.actions if isinstance(one, CreateJob | StartTasks)), None)
        clears = self._clears(key, decided, job.status if left_out is not None else outcome.status)
        may_create = create is not None and self._starter.may_start(key)
        lacking = any(isinstance(action, CreatePods) for action in outcome.actions)
        pods = self._starter.pods_sent(job, create if may_create else None, lacking=lacking)
        requests = (outcome.changed and left_out is None) + len(clears.value) + may_create + pods
        if not self._turns.take(key, urgency_of(job, outcome), requests):
            if clears.value or lacking or may_create or not can_wait(job, outcome):
                return None  # it is looked at again when it has its turn
            left_out = EXPLAINED_LATER  # when it has its turn; until then it goes on as if it had been said
        if left_out is not None:
            clears = self._clears(key, decided, job.status)
            job = job.model_copy(update={"status": outcome.status})
        elif outcome.changed:
            job = await self._commit(job, decided)
            clears = self._clears(key, decided, self._as_named(outcome, job))
        if not outcome.unsettled:
            self._records[key].losses.close()
        if observed.granted.units and create is None:  # what it was granted for is not so any more
            log.info("grant taken back", job=key, phase=job.status.phase, message=job.status.message)
            self._feed.revoke(key)
        self._feed.update(key, job, outcome)
        if may_create or lacking:
            await self._starter.create(job, observed, decided)
        asks_in = await self._ask_what_is_added(job, seen)
        await self._writer.carry_out(key, clears)
        self._tell_snapshot_warnings(job, seen.pods, clears.value)
        self._tell_unreadable_checkpoint(job, seen.pods)
        self._records[key].done.update(clears.value)
        # As the next look sees the job, which does not have a status that was left out. Another record by now where the
        # job went meanwhile and another one has its name.
        look = self._looks_in(key, job if left_out is None else seen.job)
        return _soonest(left_out, outcome.requeue_after, look, asks_in, *self._records[key].attempt.waits(self._clock))

    def _begins(self, key: str) -> bool:
        """Whether all that follows from a look is that the job starts, or that it runs."""
        job = self._informers.job(key)
        if job is None:
            return False
        status, meta = job.status, job.metadata
        begins = status.phase is None or status.phase.queued or status.phase is Phase.STARTING
        if not begins or job.spec.suspend or meta.deletion_timestamp is not None or self._records[key].take:
            return False
        pods = self._informers.pods.by_index("job", key)
        if not pods:
            return self._starter.may_start(key)
        run = run_of(job)
        running = sum(pod.metadata.annotations.get(names.ANNOTATION_RUN) == run and goes_on(pod) for pod in pods)
        return running == len(pods) == job.spec.parallelism and all(started_at(pod) is not None for pod in pods)

    def _tell_snapshot_warnings(self, job: ScavengerJob, pods: Iterable[Pod], cleared: Iterable[Cleanup]) -> None:
        """The kubelet has reported the termination message of a pod by the time it is released, which is once."""
        if job.spec.snapshot is None:
            return
        released = {action.uid for action in cleared if isinstance(action, ReleasePod)}
        if warnings := warnings_of(pod for pod in pods if pod.metadata.uid in released):
            self._writer.warn_of_snapshots(job, warnings)

    def _tell_unreadable_checkpoint(self, job: ScavengerJob, pods: Iterable[Pod]) -> None:
        """A program whose checkpoint times cannot be parsed loses all that it has computed: its user is told once a
        run."""
        record, run = self._records[job.key], run_of(job)
        if record.unreadable_of != run and (said := accounting.unreadable_checkpoint(pods)):
            record.unreadable_of = run
            self._writer.warn_of_checkpoint(job, said)

    async def _measure_pods(self, key: str, job: ScavengerJob) -> None:
        """How large the pods of an array are, of which another process has created those that there are."""
        record = self._records[key]
        if job.spec.array is None or record.pod_bytes:
            return
        ended = [pod.metadata.name for pod in self._informers.pods.by_index("job", key) if pod.ended]
        if len(ended) > kept_pods(LARGEST_POD):
            record.pod_bytes = await self._writer.pod_bytes(job.metadata.namespace, ended[-1])

    async def _bar(self, key: str, unread: Malformed) -> None:
        """Of a version that cannot be read no more is decided than that its status and an Event say so."""
        self._feed.withdraw(key)
        record = self._records[key]
        if record.barred != unread.resource_version and self._turns.take(key, Urgency.EXPLAIN, 2):
            record.barred = unread.resource_version
            await self._writer.tell_unreadable(key, unread.error)

    def _look_for_references(self, key: str, job: ScavengerJob) -> None:
        """Find out what a queued job needs and is not there, before its turn comes. The API server is asked beside the
        reconciles, and the job is looked at again when that is known."""
        self._beside.result(key)  # raises what the last one has raised
        if (left := self._looks_in(key, job)) is not None and left <= 0:
            record = self._records[key]
            record.looked = self._clock.monotonic()
            look = self._writer.look(job)
            self._looks.take(job.metadata.namespace, key, len(look.chosen))
            self._beside.submit(key, partial(self._ask_for_references, record, job, look))

    async def _ask_for_references(self, record: JobRecord, job: ScavengerJob, look: Look) -> None:
        try:
            record.volumes = await self._look_at_claims(job, look)
            record.missing = await self._writer.missing(job, look)
        except ApiError as error:
            log.info("references not looked for", job=job.key, error=str(error))
        finally:
            self._lookups.waiting.asked(job.key, look.requests)

    async def _look_at_claims(self, job: ScavengerJob, look: Look | None = None) -> VolumeTopology:
        claims = job.spec.references("persistentvolumeclaim")
        return await self._topologies.of(job.metadata.namespace, claims, look)

    async def _check_nodes_of_grant(self, key: str, job: ScavengerJob) -> None:
        """A start on nodes that cannot use the volumes of the job is taken back: the next cycle knows better."""
        record = self._records[key]
        attempt = record.attempt
        if attempt.stage is not Stage.GRANTED or attempt.start is None:
            return
        if refers(job.spec) and (left := self._lookups.starts.left(job.metadata.namespace)) > 0:
            log.info("grant taken back, as its namespace has looked for many objects", job=key)
            self._feed.revoke(key, max(1.0, left))
            return
        start = attempt.start
        record.volumes = found = await self._look_at_claims(job)
        if attempt.start is not start or found.required == start.candidate.volumes:
            return
        nodes = [node.metadata for name in {*start.nodes} if (node := self._informers.nodes.get(name)) is not None]
        if not all(found.holds(node.name, node.labels) for node in nodes):
            log.info("grant taken back, as its volumes are elsewhere", job=key, volumes=found.message)
            self._feed.revoke(key)

    def _looks_in(self, key: str, job: ScavengerJob) -> float | None:
        """Seconds until the admitter looks for what a queued job needs; None where nothing is needed, or it is not
        queued."""
        status, record = job.status, self._records[key]
        if not (status.phase and status.phase.queued and status.queued_timestamp) or not refers(job.spec):
            return None
        if record.looked is not None:
            left = LOOK_AGAIN_SECONDS - (self._clock.monotonic() - record.looked)
        else:
            left = LOOK_SECONDS - (self._clock.now() - status.queued_timestamp).total_seconds()
        # A timer may wake a moment early, by less than the clock can tell.
        return left if left > CLOCK_TICK else self._looks.left(job.metadata.namespace, key)

    async def _ask_what_is_added(self, job: ScavengerJob, seen: Seen) -> float | None:
        """A job that finds no node may find one with what admission adds to its pods: the API server is asked by a dry
        run. Returns in how many seconds it may be asked; None where it need not be."""
        wait, queued = self._admission.held.get(job.key), job.status.queued_timestamp
        if wait is None or wait.reason not in ASKED_FOR or queued is None or not self._settings.dry_runs:
            return None
        kind = (job.metadata.namespace, candidate(job, 0).kind)
        if (left := self._dry_runs.left(kind)) > 0:
            return left
        self._dry_runs.asked(kind)
        run, of = accounting.run_id(queued), seen.namespace
        action = CreateJob(run, job.status.interrupted_count, of.level, token=of.token, user=of.user)
        try:
            self._feed.learn_shape(job, await self._writer.pod_as_created(job, action))
        except (ApiError, QuantityError, msgspec.MsgspecError) as error:
            log.info("what admission adds to its pods is not known", job=job.key, error=str(error))
        return self._dry_runs.left(kind)

    def _clears(
        self, key: str, decided: Confirmed[Outcome], written: ScavengerJobStatus
    ) -> Confirmed[tuple[Cleanup, ...]]:
        done = self._records[key].done
        done.intersection_update(decided.value.actions)
        return cleanups(decided, done, written)

    def _as_named(self, outcome: Outcome, written: ScavengerJob) -> ScavengerJobStatus:
        """The status by which pods may be deleted. An older CRD drops the names of pods: they are deleted without, and
        their ends are recorded as deletions by another client."""
        if not outcome.status.removing or written.status.removing:
            return written.status
        if not self._told_of_crd:
            self._told_of_crd = True
            log.warning("the CRD is older than the admitter and drops status.removing: upgrade scavenger-crds")
        return written.status.model_copy(update={"removing": outcome.status.removing})

    async def _clear_orphans(self, key: str) -> Result | None:
        """Pods whose ScavengerJob is not shown go once the API server has said that it does not exist."""
        self._feed.forget(key)  # it may have gone while its status was being written
        actions = clear_orphans([*self._informers.pods.by_index("job", key), *self._informers.said(key)])
        if not self._turns.take(key, Urgency.COUNT, len(actions)):
            return None
        if actions and await exists(self._client, key):
            log.warning("the ScavengerJob of these pods cannot be read; they are left alone", job=key)
            return Result(requeue_after=UNREADABLE_SECONDS)
        await self._writer.carry_out(key, actions)
        return None

    def _hear(self, key: str, job: ScavengerJob) -> None:
        """What this version of the job shows of writes whose answers were lost, and of its start."""
        if (made := self._records[key].took_effect(job)) is not None:
            before, outcome = made
            self._tell(before, job, outcome)
            self._feed.judge(key, job, outcome)
        self._feed.sync_attempt(key, job)

    async def _commit(self, job: ScavengerJob, decided: Confirmed[Outcome]) -> ScavengerJob:
        """Write the status, then count and say what is new."""
        record, outcome = self._records[job.key], decided.value
        try:
            with record.writing():
                written = await self._writer.write_status(job, decided)
        except ApiError as error:
            if not isinstance(error, Conflict | NotFound):  # it may have been written all the same
                record.unanswered = [one for one in record.unanswered if not newer(job, one[0])]
                record.unanswered.append((job, outcome))
            if record.overlooked:
                self._wakeups.reconcile(job.key)
            raise
        self._records[job.key].wrote(written, self._clock.now())
        if record.overlooked:
            self._wakeups.reconcile(job.key)
        self._tell(job, written, outcome)
        return written

    def _tell(self, job: ScavengerJob, written: ScavengerJob, outcome: Outcome) -> None:
        """Count and say what is new in a status that is written."""
        queue = self._informers.queue_label(written)
        _count(queue, job, outcome)
        for name, more in _grown(job.status.useful_seconds, written.status.useful_seconds).items():
            metrics.USEFUL_SECONDS.labels(queue, name).inc(max(0.0, more))
        self._writer.record(written, outcome.events)
        if job.status.phase is not written.status.phase:
            _log_phase(job, written)
        devices = _grown(job.status.lost_seconds, written.status.lost_seconds)
        self._records[job.key].losses.book(queue, {"cpu": outcome.figures.lost, **devices})


def _left(until: datetime | None, now: datetime) -> float | None:
    """Seconds until then; None when that is not in the future."""
    return (until - now).total_seconds() if until is not None and until > now else None


def _soonest(*waits: float | None) -> Result:
    """Look again after the shortest of these waits; None: not by time alone. What was due at this look and is left
    waits for a watch, and another look at once would come to the same."""
    wait = min((wait for wait in waits if wait is not None), default=None)
    return Result(requeue_after=wait if wait is None or wait > 0 else DUE_SECONDS)


def _count(queue: str, before: ScavengerJob, outcome: Outcome) -> None:
    """The figures of a step on /metrics."""
    figures = outcome.figures
    if figures.waited_seconds is not None:
        created, queued = before.metadata.creation_timestamp, outcome.status.queued_timestamp
        first = not before.status.running_timestamps
        earlier = (queued - created).total_seconds() if first and created is not None and queued is not None else 0.0
        waited = figures.waited_seconds + max(0.0, earlier)
        metrics.WAIT_SECONDS.labels(queue, "First" if first else "Restart").observe(waited)
    if figures.interruption is not None:
        metrics.INTERRUPTIONS.labels(queue, figures.interruption.value).inc()
    for cause in outcome.interruptions:
        metrics.INTERRUPTIONS.labels(queue, cause.value).inc()
    if figures.short_run is not None:
        metrics.SHORT_RUNS.labels(queue, figures.short_run).inc()
    if figures.stalled:
        metrics.STALLED.labels(queue).inc()
    if figures.finished is not None:
        metrics.FINISHED.labels(queue, figures.finished.value).inc()
    metrics.USEFUL_CPU_SECONDS.labels(queue).inc(max(0.0, figures.useful))


def _grown(before: Mapping[str, float] | None, after: Mapping[str, float] | None) -> dict[str, float]:
    """By how much the figures of each device have grown."""
    return {name: value - (before or {}).get(name, 0.0) for name, value in (after or {}).items()}


def _log_phase(before: ScavengerJob, after: ScavengerJob) -> None:
    log.info(
        "phase",
        job=after.key,
        queue=after.spec.queue,
        old=before.status.phase,
        new=after.status.phase,
        message=after.status.message,
        interrupted=after.status.interrupted_count,
        useful_cpu_seconds=round(after.status.useful_cpu_seconds, 1),
        lost_cpu_seconds=round(after.status.lost_cpu_seconds, 1),
    )
