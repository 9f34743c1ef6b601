"""Between the reconcile of each job and the admission loop: what the one tells the other, and is told by it.

Where a job stands goes into the loop's view of the cluster: in line, starting with room held for it, running as one
that may have to go, or on its way out. What the loop has decided of a job goes into the job's record, for its next
reconcile to see.
"""

from __future__ import annotations

from collections.abc import Callable

from scavenger_api.job import Capacity, Phase, ScavengerJob
from scavenger_api.reasons import InterruptionReason
from scavenger_api.times import micros
from scavenger_runtime import Clock
from scavenger_runtime.logging import get_logger

from scavenger_admitter import metrics
from scavenger_admitter.core.admission.fair_share_preemption import FairSharePreemption
from scavenger_admitter.core.admission.running import PER_CPU_SECOND, Gang
from scavenger_admitter.core.admission.starvation import Starved
from scavenger_admitter.core.admission.state import ClusterState
from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.observation import InterruptDecision, Outcome
from scavenger_admitter.core.lifecycle.start_failures import Refusal
from scavenger_admitter.facts import Rate, candidate, cause_of, run_of, running_job, shape_of
from scavenger_admitter.informers import Informers
from scavenger_admitter.job_record import CreatedJob, JobRecords
from scavenger_admitter.settings import AdmitterSettings

log = get_logger(__name__)

INTERRUPTED_HERE = (InterruptionReason.QUEUE_RECLAIMED, InterruptionReason.STARVED)
"""Causes of interruptions that the admission loop decides on: the room that comes free is spoken for."""


class AdmissionFeed:
    """Keeps the admission loop's view of every job.

    Args:
        settings: of the admitter.
        clock: for `now`.
        state: the admission loop's view of the cluster.
        informers: what the API server shows.
        records: of all jobs.
        usage: CPU time that pods on reclaimed capacity used.
        is_creating: whether the Job of a job is being created at this moment.
        wake: has the admission loop look again.
        enqueue: has a job reconciled.
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
        is_creating: Callable[[str], bool],
        wake: Callable[[], None],
        enqueue: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._state = state
        self._informers = informers
        self._records = records
        self._usage = usage
        self._is_creating = is_creating
        self._wake = wake
        self._enqueue = enqueue

    # --- what the loop is told --------------------------------------------------------------------------------------

    def update(self, key: str, job: ScavengerJob, outcome: Outcome) -> None:
        """Tell the admission loop where the job stands."""
        record, status = self._records[key], job.status
        if outcome.start_failed:
            self._start_failed(key, job)
        if outcome.figures.waited_seconds is not None:
            record.failures = 0
        if status.phase is Phase.STARTING and self._informers.batch.get(key) is not None:
            self._assume(key, job)
        elif not self._holds_room(key, job):
            record.assumed_run = ""
            self._state.assumed_starts.forget(key)
        self.update_running(job)
        if outcome.candidate and self._may_start(key, job):
            self._state.apply_candidate(candidate(job, record.not_before))
            self._wake()
        else:
            self._state.delete_candidate(key)

    def update_running(self, job: ScavengerJob) -> None:
        """Tell the admission loop what room may be taken back, and what has been."""
        key, record, run = job.key, self._records[job.key], run_of(job)
        if record.decision is not None and record.decision[0] != run:
            record.decision = None
        running, phase = self._state.running, job.status.phase
        if phase is Phase.INTERRUPTED and cause_of(job) in INTERRUPTED_HERE:
            at = max(job.status.interrupted_timestamps, default=self._clock.now())
            running.interrupt(key, micros(at), shape_of(job).counted, job.spec.parallelism)
        elif phase is not Phase.RUNNING:
            running.delete(key)
        elif record.decision is None:  # else its room is spoken for, although its status does not say so yet
            running.apply(running_job(job, self._rate(job)))

    def forget(self, key: str) -> None:
        """The job is gone, or another one has its name."""
        self._state.delete_candidate(key)
        self._state.running.delete(key)
        self._state.assumed_starts.forget(key)

    def is_starting(self, key: str, run: str) -> bool:
        """Whether the Job of this run was created, or may have been, and is not seen yet; its room is given up once
        it is not looked out for any more."""
        record = self._records[key]
        if record.created is None or record.is_starting(run, self._clock.monotonic()):
            return record.created is not None
        record.created = None
        self._state.assumed_starts.forget(key)
        return False

    def _rate(self, job: ScavengerJob) -> Rate | None:
        """How fast a job on reclaimed capacity has been computing since a moment: core-seconds per second."""
        if job.spec.capacity is Capacity.GUARANTEED:
            return None
        now, used = self._clock.now(), accounting.cpu_time(job.spec, self._informers.members(job), self._usage)
        return lambda since: used(since, now) / (now - since).total_seconds() if now > since else None

    def _start_under_way(self, key: str) -> bool:
        return self._is_creating(key) or self._records[key].created is not None

    def _may_start(self, key: str, job: ScavengerJob) -> bool:
        """Whether a job in line may be chosen; not while it is being started from this very place: what was observed
        may be older than that start, or its refusal."""
        return not self._start_under_way(key) and self._records[key].refusal_of(run_of(job)) is None

    def _holds_room(self, key: str, job: ScavengerJob) -> bool:
        """Whether the room of a start may still be needed, for this run of the job."""
        if self._start_under_way(key):
            return True
        active = job.status.phase is not None and job.status.phase.active
        return active and self._records[key].assumed_run in ("", run_of(job))

    def _assume(self, key: str, job: ScavengerJob) -> None:
        """Hold the room of a start that another admitter, or this one before a restart, has under way."""
        record, run = self._records[key], run_of(job)
        if record.assumed_run != run:
            record.assumed_run = run
            self._state.assumed_starts.assume(key, run, shape_of(job), job.spec.parallelism, queue=job.spec.queue)

    def _start_failed(self, key: str, job: ScavengerJob) -> None:
        settings = self._settings
        self._records[key].start_failed(self._clock.now(), settings.start_backoff, settings.start_backoff_max)
        self._state.assumed_starts.forget(key)
        admitted = next((c for c in job.status.conditions if c.type == "Admitted"), None)
        metrics.FAILED_STARTS.labels(job.spec.queue, admitted.reason if admitted else "").inc()

    # --- what the loop reports --------------------------------------------------------------------------------------

    def on_started(self, key: str, run: str) -> None:
        """The Job of this run was created, or was there already, or may have been created."""
        record = self._records[key]
        record.assumed_run = run
        if self._informers.batch.get(key) is None:
            record.created = CreatedJob(run, self._clock.monotonic())
        self._enqueue(key)

    def on_refused(self, key: str, run: str, refusal: Refusal) -> None:
        """The API server did not take the Job of this run."""
        self._records[key].refusal = (run, refusal)
        self._enqueue(key)

    def on_preempted(self, preemption: FairSharePreemption) -> None:
        """A running job is to go. It is interrupted by its reconcile: the status first, then its pods, and should this
        process die before, the next one decides anew."""
        job = self._informers.job(preemption.key)
        if job is None or job.metadata.uid != preemption.gang.job.uid:
            return
        detail = f"queue {preemption.queue} has less than it deserves"
        self._interrupt(job, preemption.gang, InterruptDecision(InterruptionReason.QUEUE_RECLAIMED, detail))
        metrics.RECLAIMS.labels(job.spec.queue, preemption.queue).inc()
        log.info(
            "reclaiming",
            job=job.key,
            queue=job.spec.queue,
            receiver=preemption.queue,
            waiting=preemption.waiting,
            cpu_seconds_at_risk=round(preemption.risk / PER_CPU_SECOND, 1),
        )

    def on_starved(self, starved: Starved) -> None:
        """A running job gets too little CPU where it is, and goes in the same way."""
        job = self._informers.job(starved.key)
        if job is None or job.metadata.uid != starved.gang.job.uid:
            return
        self._interrupt(job, starved.gang, InterruptDecision(InterruptionReason.STARVED, starved.detail))
        log.info("interrupting, as it is starved", job=job.key, queue=job.spec.queue, why=starved.detail)

    def _interrupt(self, job: ScavengerJob, gang: Gang, decision: InterruptDecision) -> None:
        self._state.running.interrupt(job.key, micros(self._clock.now()), gang.counted, len(gang.nodes))
        self._records[job.key].decision = (run_of(job), decision)
        self._enqueue(job.key)
