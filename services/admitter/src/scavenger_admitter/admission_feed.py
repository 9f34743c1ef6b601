"""Between the reconcile of each job and the admission loop: what the one tells the other, and is told by it.

Where a job stands goes into the loop's view of the cluster: queued, starting with capacity held for it, running as a
possible victim, or terminating. What the loop has decided of a job goes into the job's record, for its next
reconcile to see.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from scavenger_api import names
from scavenger_api.job import Capacity, ConditionType, Phase, ScavengerJob
from scavenger_api.reasons import InterruptionReason, WaitReason
from scavenger_api.times import micros
from scavenger_domain.gang import PER_CPU_SECOND, job_of, places_left, unit
from scavenger_domain.soundness import CHECKS
from scavenger_kube.kinds import Pod
from scavenger_runtime.clock import Clock
from scavenger_runtime.logging import get_logger

from scavenger_admitter import metrics
from scavenger_admitter.attempt import Attempt, Response, Stage
from scavenger_admitter.core.admission.cycle.fair_share_preemption import FairSharePreemption
from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, Start
from scavenger_admitter.core.admission.cycle.starvation import Starved
from scavenger_admitter.core.admission.running import OVERDUE, Gang
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, Grant
from scavenger_admitter.core.admission.units import SECOND
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.observation import InterruptDecision, Outcome
from scavenger_admitter.core.lifecycle.start_failures import FAILED_BY_ITSELF, recalled
from scavenger_admitter.create_limiter import SLOW_SECONDS, CreateLimiter
from scavenger_admitter.facts import Rate, candidate, cause_of, run_of, running_job, running_task, told_with_tasks
from scavenger_admitter.informers import Informers
from scavenger_admitter.job_record import JobRecords
from scavenger_admitter.settings import AdmitterSettings
from scavenger_admitter.wakeups import Wakeups

log = get_logger(__name__)

INTERRUPTED_HERE = (InterruptionReason.QUEUE_RECLAIMED, InterruptionReason.STARVED)
"""Causes of interruptions that the admission loop decides on: the freed capacity is promised already."""

KEPT = (InterruptionReason.DELETED, InterruptionReason.JOB_DELETED)
"""Causes of interruptions after which the job keeps its capacity, as it was not freed for anything else. After all
others it was: for a regular pod, another queue, a node or a load that had to come down
(docs/designs/0007-under-pressure.md)."""

OF_NAMESPACE: Final = frozenset(
    {WaitReason.QUOTA_EXCEEDED, WaitReason.CREATION_REFUSED, WaitReason.INSTALLATION_INCOMPLETE}
)
"""Why starts fail that other jobs of the namespace meet as well."""

OVERLOOKED_SECONDS: Final = 60.0
"""A job that should be queued and is not is looked at again after so long at the most."""


class AdmissionFeed:
    """Keeps the admission loop's view of every job.

    Args:
        settings: of the admitter.
        clock: for `now`.
        state: the admission loop's view of the cluster.
        informers: what the API server shows.
        records: of all jobs.
        usage: CPU time that pods on reclaimed capacity used.
        limiter: who may create its Job.
        wakeups: for the admission loop and for jobs.
    """

    def __init__(
        self,
        *,
        settings: AdmitterSettings,
        clock: Clock,
        state: ClusterState,
        informers: Informers,
        records: JobRecords,
        usage: accounting.Usage,
        limiter: CreateLimiter,
        wakeups: Wakeups,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._state = state
        self._informers = informers
        self._records = records
        self._usage = usage
        self._limiter = limiter
        self._wakeups = wakeups
        self._last_number = 0

    # --- what the loop is told --------------------------------------------------------------------------------------

    def update(self, key: str, job: ScavengerJob, outcome: Outcome) -> None:
        """Tell the admission loop where the job stands."""
        self.judge(key, job, outcome)
        self._learn_shape(key, job)
        self._hold_capacity(key, job)
        self.update_running(job)
        attempt = self._records[key].attempt
        if outcome.candidate and not attempt.under_way and attempt.stage is not Stage.REFUSED:
            tasks = min(outcome.startable, attempt.most or outcome.startable)
            place, first = self._place(key, job, outcome), outcome.interrupted_waits
            not_before = attempt.starts_from(self._clock.monotonic())
            self._state.apply_candidate(self._candidate(job, not_before, tasks=tasks, interrupted=first, place=place))
            self._wakeups.admit()
        else:
            # Not while it is being started: what was observed may be older than that start, or its refusal.
            self._state.delete_candidate(key)

    def _hold_capacity(self, key: str, job: ScavengerJob) -> None:
        """Hold capacity for a start as long as it goes on. Tasks that were granted and are not bound hold theirs by
        their pods."""
        record, status, run = self._records[key], job.status, run_of(job)
        attempt, batch = record.attempt, self._informers.batch_of(job)
        active = status.phase is not None and status.phase.active
        if status.phase is Phase.STARTING and batch is not None and job.spec.array is None:
            if not attempt.holds_room(run):  # a start of another admitter's, or of this one before a restart
                found = Grant(run, self._shape(job), job.spec.parallelism)
                queue = batch.metadata.labels.get(names.LABEL_QUEUE, job.spec.queue)
                self._state.assumed_starts.assume(key, found, queue=queue)
            attempt.adopt(run)
            if len(self._informers.members(job)) >= job.spec.parallelism:
                self._state.refused.came_off(key)
        elif not attempt.under_way and not record.posted and not (active and attempt.holds_room(run)):
            self._release(key)

    def _place(self, key: str, job: ScavengerJob, outcome: Outcome) -> int:
        """Since when the next task of an array is queued, microseconds since the epoch; 0: as long as the array."""
        record, queued = self._records[key], job.status.queued_timestamp
        if self._settings.arrays_keep_place or outcome.place is None or queued is None:
            return record.exchanged_place(run_of(job))
        return max(micros(queued), record.place or micros(outcome.place), record.exchanged_place(run_of(job)))

    def _update_tasks(self, job: ScavengerJob) -> None:
        """Tell the admission loop which tasks run, as any of them may have to go: of those whose pods have changed."""
        record = self._records[job.key]
        changed: Iterable[Pod] = self._informers.arrays.changed(job.key)
        if record.told_as != (known := told_with_tasks(job)):
            record.told_as, changed = known, self._informers.pods.by_index("job", job.key)
        for pod in changed:
            if pod.metadata.uid in record.take:  # its capacity is spoken for
                continue
            task = running_task(job, pod)
            if task is not None and pod.metadata.deletion_timestamp is None:
                self._state.running.apply(task)
            else:
                self._state.running.delete(unit(pod))

    def judge(self, key: str, job: ScavengerJob, outcome: Outcome) -> None:
        """A status is written that says how a start has ended."""
        attempt = self._records[key].attempt
        attempt.lack = outcome.lack
        self._hear_of_nodes(job, outcome)
        # Tasks of one start may fail one after the other: the pause after it has begun by then.
        if outcome.start_failed and attempt.starts_from(self._clock.monotonic()) == 0:
            self._start_failed(key, job, outcome)
            attempt.pulls_on = outcome.pulls_on
        elif _came_off(attempt, outcome):
            attempt.failures, attempt.pulls_on, attempt.refused_by = 0, "", ()
            self._state.futile.came_off(key)
            self._state.refused.came_off(key)

    def _hear_of_nodes(self, job: ScavengerJob, outcome: Outcome) -> None:
        """Where the next start of a job does not go if it can, and what its pods say of their nodes."""
        attempt = self._records[job.key].attempt
        if outcome.unfit_node:
            attempt.avoid(outcome.unfit_node)
        if outcome.unfit_architecture:
            attempt.avoid_architecture(outcome.unfit_architecture)
        for by in outcome.refused_by:
            attempt.hear_refusal(by.node)
            if not by.blamed:
                continue
            asked, now = self._shape(job).requests, micros(self._clock.now())
            self._state.trust.refused(by.node, job.key, asked, by.said, now, admission=by.admission)
            metrics.NODE_REFUSALS.labels("admission" if by.admission else "runtime").inc()
            log.info("a node did not start a pod", node=by.node, job=job.key, said=by.said)

    def update_running(self, job: ScavengerJob) -> None:
        """Tell the admission loop what capacity may be taken back, and what has been."""
        if job.spec.array is not None:
            self._update_tasks(job)
            return
        key, record, run = job.key, self._records[job.key], run_of(job)
        running, phase = self._state.running, job.status.phase
        self._keep_room(job, run)
        if phase is Phase.INTERRUPTED and cause_of(job) in INTERRUPTED_HERE:
            at = max(job.status.interrupted_timestamps, default=self._clock.now())
            running.interrupt(key, micros(at), self._shape(job).counted, job.spec.parallelism)
        elif phase is not Phase.RUNNING:
            running.delete(key)
        elif run not in record.take:  # else its capacity is promised, although its status does not say so yet
            running.apply(running_job(job, self._informers.members(job), self._rate(job)))

    def _keep_room(self, job: ScavengerJob, run: str) -> None:
        """Keep the capacity of a run for the next one where it was not ended in favor of other pods. It is kept until
        the next run is granted or has failed, and for no longer than pods may take to stop."""
        attempt, status = self._records[job.key].attempt, job.status
        interrupted = status.phase is Phase.INTERRUPTED and cause_of(job) in KEPT and not attempt.failures
        if not interrupted or attempt.holds_room(run) or not status.interrupted_timestamps:
            self._state.kept_room.release(job.key)
            return
        grace = min(job.spec.grace_seconds, self._settings.max_termination_grace_period_seconds)
        self._state.kept_room.keep(
            job.key,
            queue=job.spec.queue,
            shape=self._shape(job),
            parallelism=job.spec.parallelism,
            since=micros(max(status.interrupted_timestamps)),
            lasts=grace * SECOND + OVERDUE,
        )

    def withdraw(self, key: str) -> None:
        """The admission loop sees the job no more: neither queued, nor starting, nor running."""
        self._state.forget_job(key)
        self._release(key)

    def forget(self, key: str) -> None:
        """The job is gone, or another one has its name: this process knows nothing of it any more."""
        self.withdraw(key)
        self._records.forget(key)

    def recall(self, job: ScavengerJob) -> None:
        """A job is seen for the first time by this process: how its last starts ended is read off its status."""
        settings, attempt = self._settings, self._records[job.key].attempt
        found = recalled(job.status, settings.start_backoff, settings.start_backoff_max)
        if found is not None:
            attempt.failures, delay = found[0], (found[1] - self._clock.now()).total_seconds()
            attempt.back_off(self._clock, min(settings.start_backoff_max, max(0.0, delay)))
            self._bar(job)

    def _learn_shape(self, key: str, job: ScavengerJob) -> None:
        """The pods of a run show what the API server has added to what was written; one look a run is enough."""
        record, run = self._records[key], run_of(job)
        if record.learnt_of == run or job.status.phase not in (Phase.STARTING, Phase.RUNNING):
            return
        for pod in self._informers.members(job)[:1]:
            record.learnt_of = run
            self._state.learn_shape(candidate(job, 0), pod)

    def learn_shape(self, job: ScavengerJob, pod: Pod) -> None:
        """A pod of this job would be as this one."""
        self._state.learn_shape(candidate(job, 0), pod)
        self._wakeups.admit()

    def _candidate(self, job: ScavengerJob, not_before: int, **of_array: Any) -> Candidate:
        return candidate(job, not_before, volumes=self._records[job.key].volumes, **of_array)

    def _shape(self, job: ScavengerJob) -> Shape:
        return self._state.as_created(self._candidate(job, 0)).shape

    def _rate(self, job: ScavengerJob) -> Rate | None:
        """How fast a job on reclaimed capacity has been computing since a moment: core-seconds per second."""
        if job.spec.capacity is Capacity.GUARANTEED:
            return None
        now, taken = self._clock.now(), accounting.taken(job.spec, self._informers.members(job), self._usage)
        return lambda since: taken.core_seconds(since, now) / (now - since).total_seconds() if now > since else None

    def _start_failed(self, key: str, job: ScavengerJob, outcome: Outcome) -> None:
        first, most = self._settings.start_backoff, self._settings.start_backoff_max
        self._records[key].attempt.failed(self._clock, first, most, late=outcome.retry_late)
        self._bar(job)
        self._release(key)
        metrics.FAILED_STARTS.labels(self._informers.queue_label(job), _known(_why_not(job))).inc()

    def _bar(self, job: ScavengerJob) -> None:
        """No job is interrupted for a job whose start failed by no fault of others. Where other jobs of its namespace
        would fail as well, those like it wait for one that is tried."""
        why, now = _why_not(job), micros(self._clock.now())
        if why in FAILED_BY_ITSELF:  # after an interruption from outside, others are asked again
            self._state.futile.failed(job.key, now)
        if (reason := WaitReason.of(why)) in OF_NAMESPACE:
            self._state.futile.failed(job.metadata.namespace, now)
            self._state.refused.refused(candidate(job, 0), reason, now)

    def _release(self, key: str) -> None:
        """Nothing is held for a start of that job any more, beyond the pods that exist."""
        if self._records[key].attempt.stage is not Stage.REFUSED:
            self._records[key].attempt.reset()
            self._state.refused.ended(key)
        self._state.assumed_starts.forget(key)
        self._limiter.release(key)

    # --- what no other part does ---

    async def requeue_overlooked(self) -> None:
        """Until cancelled: grants behind creates that hang are taken back, and jobs that were overlooked reconciled."""
        looked = self._clock.monotonic()
        while True:
            await self._clock.sleep(SLOW_SECONDS / 2)
            self._limiter.skip_hanging()
            self.revoke_hanging()
            if self._limiter.hanging():
                self._wakeups.admit()  # for how long they have is what jobs are told
            if self._clock.monotonic() - looked >= OVERLOOKED_SECONDS:
                looked = self._clock.monotonic()
                for key in list(self._overlooked()):
                    self._wakeups.reconcile(key)

    def _overlooked(self) -> Iterator[str]:
        """Jobs that cannot be read, of which no handler is told. And queued jobs that no admission cycle sees and that
        have no start under way. Most of them have a reason. A reconcile finds it again, or queues a job again that a
        bug of the admitter has taken out."""
        yield from self._informers.jobs.unreadable
        for job in self._informers.jobs.items():
            phase = job.status.phase
            if phase is None or phase.queued:
                attempt = self._records[job.key].attempt
                if not attempt.under_way and self._state.candidate(job.key) is None:
                    yield job.key

    # --- how starts go on -------------------------------------------------------------------------------------------

    def sync_attempt(self, key: str, job: ScavengerJob) -> None:
        """Bring what is known of the start of a job up to date, before it is observed."""
        if not self._records[key].attempt.sync(run_of(job), job.spec.queue, self._clock.monotonic()):
            self._release(key)
            self._wakeups.admit()

    def revoke(self, key: str, seconds: float = 0.0) -> None:
        """A grant is not used: its capacity is free, and the job may be granted again after so many seconds. To be
        queued again it has to be reconciled."""
        attempt = self._records[key].attempt
        if attempt.stage is not Stage.GRANTED:
            return
        if seconds:
            attempt.back_off(self._clock, seconds)
        self._release(key)
        self._wakeups.admit()

    def on_response(self, key: str, response: Response) -> None:
        """The API server has answered to a start, or has not in time."""
        record = self._records[key]
        record.attempt.on_response(response, self._informers.batch.get(key), self._clock.monotonic())
        if response.tasks and response.made:
            # The clock of the replica that gave the last places may be ahead of this one, as may this one's own before.
            last = micros(self._records.last_queue_position) + 1
            record.place = max(micros(self._clock.now()), last)
        if not response.complete:
            self._state.assumed_starts.forget(key)
            self._limiter.release(key)
            self._wakeups.admit()
        # Of a Job that is to be shown, or is, its own event says so; and nothing follows before its pods say more.
        shown = record.attempt.stage is Stage.SEEN and record.gang.complete
        if record.attempt.stage is not Stage.POSTED and not shown:
            self._wakeups.reconcile(key)

    def revoke_hanging(self) -> None:
        """Grants that wait behind creates that hang are not used: their capacity is for other jobs meanwhile. The jobs
        wait for admission again at once, and have their turn in their order. A reconcile that is under way has seen the
        grant, and withdraws the candidate when it ends: each job is reconciled once more."""
        taken = self._limiter.queued_behind_hanging()
        for key in taken:
            start = self._records[key].attempt.start
            self.revoke(key)
            if start is not None:
                self._state.apply_candidate(start.candidate)
            self._wakeups.reconcile(key)
        if taken:
            namespaces = sorted({key.partition("/")[0] for key in taken})
            log.warning("grants taken back, as creates of Jobs hang", jobs=len(taken), namespaces=namespaces)

    # --- what the loop has planned ----------------------------------------------------------------------------------

    def apply(self, plan: AdmissionPlan) -> None:
        """Have done what a cycle has planned, as far as it still holds."""
        now = micros(self._clock.now())
        self._state.turns = plan.turns
        self._state.held.promised(plan.promised, now)
        for preemption in plan.preemptions:
            self._state.futile.room_made(preemption.waiting, now)
            self._preempt(preemption)
        for starved in plan.starvation.interrupt if plan.starvation is not None else ():
            self._interrupt_starved(starved)
        groups, granted = self._state.groups(start.candidate for start in plan.starts), set[str]()
        for start in plan.starts:
            chosen, waits = start.candidate, self._state.candidate(start.key)
            # Of an array, how many tasks wait changes all the time, and no more start than wait then.
            same = waits is not None and replace(waits, tasks=chosen.tasks) == chosen
            if same and self._limiter.has_capacity(chosen.namespace) and (may := self._as_test(start, now)) is not None:
                self._grant(may)
                granted.add(start.key)
            elif same:
                self._wakeups.admit()
        for group in groups:
            self._exchange(group, granted)
        if CHECKS.on:
            self._assert_sound()

    def _as_test(self, start: Start, now: int) -> Start | None:
        """What of a start may be granted: of a node that is to be tested, one start is the test, and of an array one
        task by itself. None where nothing is left; the next cycle finds other nodes."""
        trust, chosen = self._state.trust, start.candidate
        if not trust:
            return start
        closed = trust.closed(now)
        shut = closed.everyone.union(closed.to(chosen.namespace, chosen.shape.requests))
        if not shut.isdisjoint(start.nodes) and not chosen.tasks:
            return None
        nodes = tuple(node for node in start.nodes if node not in shut)
        tests = closed.tested.intersection(nodes)
        if tests and chosen.tasks:
            others = tuple(node for node in nodes if node not in tests)
            nodes, shut = (others, shut | tests) if others else (nodes[:1], shut)
        trust.sent(nodes, now)
        return replace(start, nodes=nodes, target=start.target.without(shut)) if nodes else None

    def _exchange(self, group: Sequence[Candidate], granted: Collection[str]) -> None:
        """Places change hands where jobs of a group start before others of it that came earlier. This process remembers
        that. A later one begins with the places that statuses name."""
        keeps = self._settings.arrays_keep_place
        starts = {at for at, one in enumerate(group) if one.key in granted and not (one.tasks and keeps)}
        places = {group[own].key: group[at].queued_at for own, at in places_left(group, lambda one: one.rank, starts)}
        for key, place in places.items():
            if (job := self._informers.job(key)) is not None:
                self._records[key].exchanged = (run_of(job), place)
        self._state.move(places)

    def _assert_sound(self) -> None:
        """Raise AssertionError where a grant holds capacity that no start will use: its job is not in the limiter."""
        for key in self._state.assumed_starts.runs:
            attempt = self._records[key].attempt
            waits = attempt.stage in (Stage.GRANTED, Stage.POSTING)
            assert not waits or self._limiter.has(key), f"grants: {key} holds capacity and is not in the limiter"

    def _grant(self, start: Start) -> None:
        """Start a queued job. Its capacity is taken at once: the next cycle must not find it free."""
        key, chosen = start.key, start.candidate
        job, now = self._informers.job(key), self._clock.monotonic()
        self._state.delete_candidate(key)
        if job is None:
            return
        number = self._next_number() if chosen.tasks else 0
        grant = Grant(run_of(job), chosen.shape, len(start.nodes), start.nodes, number)
        self._records[key].attempt.grant(grant.run, start, now, number)
        self._state.kept_room.release(key)
        self._state.refused.granted(chosen)
        self._state.assumed_starts.assume(key, grant, queue=chosen.queue)
        self._limiter.enqueue(key, chosen.own_order)

    def _next_number(self) -> int:
        """The number of a grant: of this moment, and of no grant of this process before, wherever the clock is set."""
        self._last_number = max(micros(self._clock.now()), self._last_number + 1)
        return self._last_number

    def _preempt(self, preemption: FairSharePreemption) -> None:
        """Interrupt a running job. Its reconcile does so: the status first, then its pods. If this process dies before,
        the next one decides again."""
        job = self._running(preemption.gang)
        if job is None:
            return
        detail = f"queue {preemption.queue} has less than it deserves"
        self._interrupt(job, preemption.gang, InterruptDecision(InterruptionReason.QUEUE_RECLAIMED, detail))
        metrics.RECLAIMS.labels(self._informers.queue_label(job), preemption.queue).inc()
        log.info(
            "reclaiming",
            job=job.key,
            queue=job.spec.queue,
            receiver=preemption.queue,
            waiting=preemption.waiting,
            cpu_seconds_at_risk=round(preemption.risk / PER_CPU_SECOND, 1),
        )

    def _interrupt_starved(self, starved: Starved) -> None:
        """A running job gets too little CPU where it is, and goes in the same way."""
        job = self._running(starved.gang)
        if job is None:
            return
        self._interrupt(job, starved.gang, InterruptDecision(InterruptionReason.STARVED, starved.detail))
        log.info("interrupting, as it is starved", job=job.key, queue=job.spec.queue, why=starved.detail)

    def _running(self, gang: Gang) -> ScavengerJob | None:
        """The job of a gang, if that very run of it goes on: the plan may be older than what has happened since."""
        job = self._informers.job(job_of(gang.job.key))
        if job is not None and gang.job.life:  # a task
            pod = self._informers.pods.get(gang.job.pod)
            return job if pod is not None and pod.metadata.uid == gang.job.life else None
        if job is None or job.metadata.uid != gang.job.uid or job.status.phase is not Phase.RUNNING:
            return None
        start = accounting.run_start(job.status)
        return job if start is not None and micros(start) == gang.job.started else None

    def _interrupt(self, job: ScavengerJob, gang: Gang, decision: InterruptDecision) -> None:
        self._state.running.interrupt(gang.job.key, micros(self._clock.now()), gang.counted, len(gang.nodes))
        self._records[job.key].take[gang.job.life or run_of(job)] = decision
        self._wakeups.reconcile(job.key)


def _came_off(attempt: Attempt, outcome: Outcome) -> bool:
    """Whether a start came off after those that failed. Tasks of earlier starts run on meanwhile."""
    if outcome.last_start is None:
        return outcome.figures.waited_seconds is not None
    return attempt.failures > 0 and micros(outcome.last_start) >= attempt.not_before


def _why_not(job: ScavengerJob) -> str:
    """The reason of the condition Admitted."""
    admitted = job.status.condition(ConditionType.ADMITTED)
    return admitted.reason if admitted is not None else ""


def _known(reason: str) -> str:
    """A reason for a label: one of `scavenger_api`, or none where another writer wrote the condition."""
    return WaitReason.of(reason) or InterruptionReason.of(reason) or ""
