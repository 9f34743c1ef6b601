"""What was observed of one ScavengerJob, its Job and its pods, turned into its next status and what follows
from it.

`observe` is a function of its argument and nothing else. The shell writes `Outcome.status` first, with
optimistic locking, and carries out `Outcome.actions` only when that succeeded: the status write is the
commit. A process that dies in between loses nothing and counts nothing twice, because a Job is recognised by
the place in line it was started from, and every commit that ends a run moves that place
(docs/designs/0001-run-identity.md). Actions are repeated for as long as what they are about is still there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from scavenger_api import names
from scavenger_api.job import ConditionType, Phase, ScavengerJob, ScavengerJobStatus
from scavenger_api.reasons import FailureReason, InterruptionReason, StateReason, WaitReason
from scavenger_api.times import format_micro_time, format_time
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle import accounting, conditions
from scavenger_admitter.core.lifecycle import leftover_pods as remains
from scavenger_admitter.core.lifecycle import start_failures as starts
from scavenger_admitter.core.lifecycle import termination as endings
from scavenger_admitter.core.lifecycle.accounting import Spent, second
from scavenger_admitter.core.lifecycle.actions import (
    Action,
    DeleteJob,
    DeletePod,
    DeleteScavengerJob,
    EventNote,
    ReleasePod,
)
from scavenger_admitter.core.lifecycle.leftover_pods import observe_orphans
from scavenger_admitter.core.lifecycle.pods import PHRASES, Removal, deleting, moment, started_at
from scavenger_admitter.core.lifecycle.start_failures import Diagnosis, Problem, Refused, diagnose
from scavenger_admitter.core.waits import Wait

__all__ = [
    "Action",
    "DeleteJob",
    "DeletePod",
    "DeleteScavengerJob",
    "Diagnosis",
    "EventNote",
    "Facts",
    "Observation",
    "ObserveSettings",
    "Outcome",
    "Problem",
    "Refused",
    "ReleasePod",
    "Taken",
    "diagnose",
    "observe",
    "observe_orphans",
]


@dataclass(frozen=True, slots=True)
class ObserveSettings:
    """How long to wait before drawing a conclusion."""

    start_timeout: timedelta = timedelta(minutes=10)
    """Created to running; image pulls included."""
    unschedulable_after: timedelta = timedelta(seconds=10)
    """The room a job was admitted for is gone when its pods are not placed within this."""
    creation_grace: timedelta = timedelta(seconds=3)
    """The Job controller's own attempts to create pods; only then is its FailedCreate an answer."""
    remnant_patience: timedelta = timedelta(seconds=15)
    """How long after its grace period a pod of an earlier run may still be there before `message` speaks of
    it."""
    final_delete_slack: timedelta = timedelta(seconds=5)
    """Kubelets before 1.34: from the end of the containers to the kubelet's final DELETE (`pods.removal`)."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A decision of this service itself to interrupt a running job."""

    cause: InterruptionReason
    detail: str
    """In words: for whom, or by which figures."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that is known of one job at one moment."""

    job: ScavengerJob
    batch: kinds.Job | None
    """The batch/v1 Job of the same name, whoever owns it."""
    pods: Sequence[kinds.Pod]
    """All pods of the namespace with our label for this name, those of earlier runs included."""
    nodes: Mapping[str, kinds.Node | None]
    """The nodes those pods are on; None for one that is known not to exist, missing when it is not known."""
    now: datetime
    diagnosis: Diagnosis | None = None
    wait: Wait | None = None
    """Why the last admission cycle did not choose the job; None when there is nothing new to say."""
    refused: Refused | None = None
    """What the API server said when the Job of this place in line was to be created."""
    taken: Taken | None = None
    """Why the room of this very run is taken from it; None when it is not."""
    usage: accounting.Usage | None = None
    """What is measured of the pods; counts for jobs on reclaimed capacity."""
    assumed_started: bool = False
    """The Job was created from this place in line; the informer has not shown it yet."""
    settings: ObserveSettings = ObserveSettings()


@dataclass(frozen=True, slots=True)
class Facts:
    """What metrics want to know of this step. Count them when the status write succeeded."""

    interruption: InterruptionReason | None = None
    finished: Phase | None = None
    waited_seconds: float | None = None
    """From the place in line to running, for the run that just began."""
    useful: float = 0.0
    """Core-seconds that became useful in this step."""
    lost: float = 0.0
    """Core-seconds that were thrown away in this step."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The next status, and what follows once it is written."""

    status: ScavengerJobStatus
    """Equal to the observed one when there is nothing to write. `preemption` is the prioritizer's and as
    observed."""
    changed: bool
    newcomer: bool = False
    """The first status of a job, and all there is to say is that it waits: nobody misses it if the job is started at
    once."""
    actions: tuple[Action, ...] = ()
    events: tuple[EventNote, ...] = ()
    candidate: bool = False
    """In line for admission, and nothing of an earlier run stands in the way."""
    start_failed: bool = False
    """A start did not come off: the shell lets the delay before the next one grow."""
    requeue_after: float | None = None
    """Seconds until time alone changes the outcome; None when only an event can."""
    facts: Facts = Facts()


@dataclass(slots=True)
class _Draft:
    """The one thing the steps change."""

    seen: Observation
    status: ScavengerJobStatus
    reason: str
    """One word on why the job is in its phase."""
    interrupted: str | None
    """The cause of the last interruption, until the job runs again."""
    run: endings.Run | None = None
    """The run in progress."""
    actions: list[Action] = field(default_factory=list)
    events: list[EventNote] = field(default_factory=list)
    wakeups: list[float] = field(default_factory=list)
    candidate: bool = False
    told: bool = False
    """It was told why it waits."""
    start_failed: bool = False
    cause: InterruptionReason | None = None
    waited: float | None = None
    spent: Spent = field(default_factory=Spent)

    @property
    def phase(self) -> Phase:
        return self.status.phase or Phase.WAITING

    @property
    def own_job(self) -> kinds.Job | None:
        """The Job, if it belongs to this very ScavengerJob."""
        batch = self.seen.batch
        owner = batch.metadata.controller if batch else None
        return batch if owner is not None and owner.uid == self.seen.job.metadata.uid else None

    def set(self, **changes: Any) -> None:
        self.status = self.status.model_copy(update=changes)

    def enter(self, phase: Phase, reason: str, message: str) -> None:
        self.reason = reason
        self.set(phase=phase, message=message[:4096])

    @property
    def cpu_time(self) -> accounting.CpuTime:
        """How the CPU time of the run in progress is counted."""
        pods = self.run.pods if self.run is not None else ()
        return accounting.cpu_time(self.seen.job.spec, pods, self.seen.usage)

    def settle(self, end: datetime, *, kept: bool) -> Spent:
        """What is left to be judged of the run in progress when it ends at `end`."""
        return accounting.settle(self.status, self.seen.job.spec, end, self.cpu_time, kept=kept)

    def spend(self, spent: Spent) -> None:
        self.spent = Spent(self.spent.useful + spent.useful, self.spent.lost + spent.lost)
        self.set(
            useful_cpu_seconds=self.status.useful_cpu_seconds + spent.useful,
            lost_cpu_seconds=self.status.lost_cpu_seconds + spent.lost,
        )

    def note(self, reason: str, message: str, *, warning: bool = False) -> None:
        self.events.append(EventNote("Warning" if warning else "Normal", reason, message[:1024]))


def observe(seen: Observation) -> Outcome:
    """The next status of the job and what follows from it. Pure; raises nothing for what the schema lets in.

    The steps, in this order:
    1. a job without a status, or without its place in line, gets one (from its live Job, if there is one);
    2. the run in progress is found: its Job by the place in line it was started from, its pods by that Job;
    3. a finished job whose pods run after all runs (somebody edited the status);
    4. a run that nobody noted yet is adopted;
    5. a run in progress starts, fails to, runs on, or ends;
    6. suspend is honoured, or lifted;
    7. what earlier runs left is cleared away;
    8. a job in line may stand for admission, or says what holds it back;
    9. a finished job lets go of its pods, and goes itself when its time is over;
    10. conditions and jobName follow from all this.
    """
    draft = _Draft(seen, seen.job.status, _reason(seen.job.status), _interrupted(seen.job.status))
    if seen.job.metadata.deletion_timestamp is not None:
        _leave(draft)
        return _outcome(draft)
    _enter(draft)
    _find_run(draft)
    _reopen(draft)
    _adopt(draft)
    _progress(draft)
    _suspend(draft)
    _clear(draft)
    _line_up(draft)
    _finish(draft)
    _summarise(draft)
    return _outcome(draft)


# --- 0. a ScavengerJob that is being deleted
# ------------------------------------------------------------------------


def _leave(draft: _Draft) -> None:
    batch = draft.own_job
    if batch is not None and batch.metadata.deletion_timestamp is None:
        draft.actions.append(DeleteJob(batch.metadata.uid, "the ScavengerJob is being deleted"))
    draft.actions += remains.release(pod for pod in draft.seen.pods if pod.ended or deleting(pod))


# --- 1. a place in line
# ---------------------------------------------------------------------------------------------


def _enter(draft: _Draft) -> None:
    status, batch = draft.status, draft.own_job
    _restore(draft, batch)
    if status.phase is not None and (status.queued_timestamp is not None or status.phase.finished):
        return
    if draft.status.queued_timestamp is None:
        draft.set(queued_timestamp=accounting.requeued(draft.status, draft.seen.now))
    if status.phase is None:
        draft.enter(Phase.WAITING, WaitReason.QUEUED, "in line for admission")


def _restore(draft: _Draft, batch: kinds.Job | None) -> None:
    """The place in line from a live Job, where the status was wiped or edited by hand.

    A Job of another run is only ever left over while the job is in line (or suspended, or finished): every
    commit that leaves Starting or Running behind also moves the place in line.
    """
    if batch is None or batch.metadata.deletion_timestamp is not None:
        return
    queued = moment(batch.metadata.annotations.get(names.ANNOTATION_RUN))
    wiped = draft.status.phase is None or draft.status.queued_timestamp is None or draft.status.phase.active
    if queued is None or not wiped or queued == draft.status.queued_timestamp:
        return
    draft.set(queued_timestamp=queued)
    restarts = batch.metadata.annotations.get(names.ANNOTATION_RESTARTS, "")
    if draft.status.phase is None and restarts.isdecimal():
        draft.set(interrupted_count=max(draft.status.interrupted_count, int(restarts)))


# --- 2. the run in progress
# -----------------------------------------------------------------------------------------


def _find_run(draft: _Draft) -> None:
    queued = draft.status.queued_timestamp
    if queued is None:
        return
    place, batch, parallelism = format_micro_time(queued), draft.own_job, draft.seen.job.spec.parallelism
    complete = accounting.run_start(draft.status) is not None
    if batch is not None and batch.metadata.annotations.get(names.ANNOTATION_RUN) == place:
        uid = batch.metadata.uid
        pods = [pod for pod in draft.seen.pods if (owner := pod.metadata.controller) and owner.uid == uid]
        draft.run = endings.Run(batch, tuple(pods), parallelism, complete)
        return
    # Its Job is gone, or was never noted: pods of this place in line say that there was one.
    pods = [pod for pod in draft.seen.pods if pod.metadata.annotations.get(names.ANNOTATION_RUN) == place]
    if pods or draft.phase.active:
        draft.run = endings.Run(None, tuple(pods), parallelism, complete)


def _over(draft: _Draft, reason: str) -> None:
    """The run is over: its Job goes, its pods are pods of an earlier run from here on, and the line starts
    anew."""
    draft.set(queued_timestamp=accounting.requeued(draft.status, draft.seen.now))
    draft.run = None
    draft.reason = reason
    draft.actions.clear()  # nobody needs a diagnosis of it any more
    draft.wakeups.clear()


# --- 3. and 4. what the status does not know yet
# --------------------------------------------------------------------


def _reopen(draft: _Draft) -> None:
    run = draft.run
    if run is None or not draft.phase.finished or not _in_full_swing(run):
        return
    draft.set(finished_timestamp=None)
    draft.enter(Phase.STARTING, StateReason.STARTED, "running: the job had been declared finished while its pods ran")
    draft.note("Reopened", "the status said finished while all pods were running", warning=True)


def _in_full_swing(run: endings.Run) -> bool:
    if run.batch is None or run.batch.metadata.deletion_timestamp is not None or len(run.pods) < run.parallelism:
        return False
    ended = any(c.status == "True" and c.type != "Suspended" for c in run.batch.status.conditions)
    return not ended and all(p.status.phase == "Running" and started_at(p) and not deleting(p) for p in run.pods)


def _adopt(draft: _Draft) -> None:
    if draft.run is not None and not draft.phase.active and not draft.phase.finished:
        draft.enter(Phase.STARTING, StateReason.STARTED, "starting")


# --- 5. a run in progress
# -------------------------------------------------------------------------------------------


def _progress(draft: _Draft) -> None:
    run, seen = draft.run, draft.seen
    if draft.phase.queued and seen.refused is not None and run is None:
        _start_failed(draft, starts.refusal_problem(seen.refused, seen.job.spec))
        return
    if run is None or not draft.phase.active:
        return
    if not _began(draft, run):
        _start(draft, run)
        return
    _record_start(draft, run)
    found = endings.ending(run, seen.nodes, seen.now, seen.settings.final_delete_slack)
    if found is None and seen.taken is not None:
        found = endings.Removed(Removal(seen.now, seen.now, seen.taken.cause, "", True, seen.taken.detail))
    if found is None:
        _run_on(draft, run)
    else:
        _end(draft, found)


def _began(draft: _Draft, run: endings.Run) -> bool:
    """Whether the gang has run together: it is on record, or every pod has, or had, a started container."""
    if run.complete:
        return True
    if run.batch is None and not run.pods:
        return draft.phase is Phase.RUNNING
    return len(run.pods) >= run.parallelism and all(started_at(pod) is not None for pod in run.pods)


def _start(draft: _Draft, run: endings.Run) -> None:
    seen, settings = draft.seen, draft.seen.settings
    limits = starts.StartLimits(settings.start_timeout, settings.unschedulable_after, settings.creation_grace)
    problem = starts.problem(run, seen.job.spec, seen.diagnosis, seen.now, limits)
    found = endings.ending(run, seen.nodes, seen.now, settings.final_delete_slack)
    if isinstance(found, endings.Failed | endings.Completed) and not (problem and problem.final):
        _end(draft, found)
    elif problem is not None:
        _start_failed(draft, problem)
    elif isinstance(found, endings.Removed):
        _start_failed(draft, Problem(f"{_phrase(found.removal)} before the job ran", False, found.removal.cause))
    else:
        _keep_starting(draft, run, limits)


def _keep_starting(draft: _Draft, run: endings.Run, limits: starts.StartLimits) -> None:
    seen = draft.seen
    if draft.phase is not Phase.STARTING:
        draft.enter(Phase.STARTING, StateReason.STARTED, "starting")
    if starts.unpullable(run):
        draft.set(message=f"starting: the image {seen.job.spec.image} could not be pulled so far")
    if (wait := starts.next_check(run, seen.diagnosis, seen.now, limits)) is not None:
        draft.wakeups.append(wait)


def _record_start(draft: _Draft, run: endings.Run) -> None:
    queued = draft.status.queued_timestamp
    if accounting.run_start(draft.status) is None and run.pods and queued is not None:
        start = max((at for pod in run.pods if (at := started_at(pod))), default=draft.seen.now)
        start = max(second(min(start, draft.seen.now)), second(queued))
        entries = (*draft.status.running_timestamps, start)[-names.MAX_RECENT_TIMESTAMPS :]
        draft.set(running_timestamps=entries, priority_start_over_timestamp=start)
        draft.waited = max(0.0, (start - queued).total_seconds())
    if draft.phase is not Phase.RUNNING and run.batch is not None:
        draft.enter(Phase.RUNNING, StateReason.STARTED, "running")
        draft.note("Running", f"all {run.parallelism} pods are running" if run.parallelism > 1 else "running")


def _run_on(draft: _Draft, run: endings.Run) -> None:
    before, spec, now = draft.status, draft.seen.job.spec, draft.seen.now
    start = accounting.run_start(before)
    if start is None:
        return
    draft.interrupted = None
    draft.set(priority_start_over_timestamp=_start_over(before, start, spec.checkpoint_interval, now))
    checkpoint, known = (
        accounting.reported_checkpoint(run.pods, run.parallelism, now),
        before.last_checkpoint_timestamp,
    )
    if checkpoint is not None and (known is None or known > now or checkpoint > known):
        draft.set(
            last_checkpoint_timestamp=checkpoint,
            message=f"running, last checkpoint {format_time(checkpoint)}",
        )
    draft.spend(accounting.advance(before, draft.status, start, draft.cpu_time))
    draft.wakeups.append(accounting.next_start_over(start, spec.checkpoint_interval, now))


def _start_over(status: ScavengerJobStatus, start: datetime, interval: timedelta, now: datetime) -> datetime:
    due, known = accounting.start_over(start, interval, now), status.priority_start_over_timestamp
    if known is None or known > now + interval:
        return due
    return max(due, known)  # our clock may have been set back: what was counted is not counted again


# --- how a run ends
# -------------------------------------------------------------------------------------------------


def _end(draft: _Draft, found: endings.Ending) -> None:
    at = min(found.at, draft.seen.now)
    if isinstance(found, endings.Completed):
        _completed(draft, at)
    elif isinstance(found, endings.Failed):
        _failed_by_exit(draft, found, at)
    else:
        _interrupt(draft, found, at)


def _completed(draft: _Draft, at: datetime) -> None:
    draft.spend(draft.settle(at, kept=True))
    draft.set(finished_timestamp=second(at))
    draft.enter(Phase.COMPLETED, StateReason.COMPLETED, "completed")
    draft.note("Completed", "all pods succeeded")


def _failed_by_exit(draft: _Draft, found: endings.Failed, at: datetime) -> None:
    ended = found.exit
    words = [word for word in (ended.reason if ended.reason != "Error" else "", ended.message.strip()) if word]
    message = f"container {ended.container} of pod {ended.pod} exited with code {ended.code}"
    _fail(draft, at, FailureReason.FAILED, f"{message} ({': '.join(words)})" if words else message)


def _fail(draft: _Draft, at: datetime, reason: str, message: str) -> None:
    draft.spend(draft.settle(at, kept=False))
    draft.set(finished_timestamp=second(at))
    draft.enter(Phase.FAILED, reason, message)
    draft.note("Failed", message, warning=True)


def _interrupt(draft: _Draft, found: endings.Removed, at: datetime) -> None:
    before = draft.status
    spent = draft.settle(at, kept=False)
    draft.spend(spent)
    draft.set(
        interrupted_count=before.interrupted_count + 1,
        interrupted_timestamps=(*before.interrupted_timestamps, second(at))[-names.MAX_RECENT_TIMESTAMPS :],
    )
    _over(draft, WaitReason.QUEUED)
    message = f"interrupted: {_phrase(found.removal)}; {spent.lost:.0f} CPU-seconds lost"
    draft.enter(Phase.INTERRUPTED, WaitReason.QUEUED, f"{message}; in line to start again")
    draft.cause = found.removal.cause
    draft.interrupted = found.removal.cause.value
    draft.note("Interrupted", message)


_WITHOUT_A_POD: Final = {
    InterruptionReason.JOB_DELETED: "its Job was deleted",
    InterruptionReason.RECLAIMED: "its room was taken back",
    InterruptionReason.STARVED: "it was starved",
}


def _phrase(removal: Removal) -> str:
    who = f"pod {removal.pod} {PHRASES[removal.cause]}" if removal.pod else ""
    if not who:
        who = _WITHOUT_A_POD.get(removal.cause, "one of its pods is gone")
    return f"{who} ({removal.detail})" if removal.detail else who


def _start_failed(draft: _Draft, problem: Problem) -> None:
    if problem.final:
        _fail(draft, draft.seen.now, problem.reason, problem.message)
        return
    phase = Phase.INTERRUPTED if draft.interrupted is not None else Phase.WAITING
    _over(draft, problem.reason)
    draft.enter(phase, problem.reason, f"the start did not come off: {problem.message}")
    draft.start_failed = True
    draft.note("StartFailed", problem.message, warning=True)


# --- 6. suspend
# -----------------------------------------------------------------------------------------------------


def _suspend(draft: _Draft) -> None:
    wanted, phase = draft.seen.job.spec.suspend, draft.phase
    if phase.finished or wanted == (phase is Phase.SUSPENDED):
        return
    draft.interrupted = None
    if not wanted:
        _over(draft, WaitReason.QUEUED)
        draft.enter(Phase.WAITING, WaitReason.QUEUED, "in line for admission")
        draft.note("Resumed", "in line again")
        return
    draft.spend(draft.settle(draft.seen.now, kept=False))
    _over(draft, WaitReason.SUSPENDED)
    draft.enter(Phase.SUSPENDED, WaitReason.SUSPENDED, "suspended")
    draft.note("Suspended", "taken off the cluster" if phase.active else "out of line")


# --- 7. what earlier runs left
# --------------------------------------------------------------------------------------


def _clear(draft: _Draft) -> None:
    if draft.phase.finished:
        return
    batch = draft.own_job
    if draft.run is None and batch is not None and batch.metadata.deletion_timestamp is None:
        draft.actions.append(DeleteJob(batch.metadata.uid, "its run is over"))
    uid = batch.metadata.uid if batch else None
    draft.actions += remains.clear(_left_over(draft), draft.seen.nodes, job_uid=uid)


def _left_over(draft: _Draft) -> list[kinds.Pod]:
    current = {pod.metadata.uid for pod in draft.run.pods} if draft.run else set()
    return [pod for pod in draft.seen.pods if pod.metadata.uid not in current]


# --- 8. in line
# -----------------------------------------------------------------------------------------------------


def _line_up(draft: _Draft) -> None:
    if not draft.phase.queued:
        return
    seen, batch = draft.seen, draft.seen.batch
    patience = seen.settings.remnant_patience
    remnants = remains.remnants(_left_over(draft), seen.nodes, seen.now, patience)
    draft.wakeups += [(r.until - seen.now).total_seconds() for r in remnants if r.until and r.until > seen.now]
    draft.candidate = not remnants and batch is None and not seen.assumed_started
    stuck = _foreign(batch) if batch is not None and draft.own_job is None else ""
    stuck = stuck or next((remnant.message for remnant in remnants if remnant.overdue), "")
    if stuck:
        draft.reason = WaitReason.HELD_BACK
        draft.set(message=stuck[:4096])
    elif draft.reason == WaitReason.HELD_BACK:
        draft.reason = WaitReason.QUEUED
        draft.set(message="in line for admission")
    fresh = draft.start_failed or draft.cause is not None  # why it is in line again is worth reading first
    if seen.wait is not None and not stuck and not fresh:
        draft.told = True
        draft.enter(draft.phase, seen.wait.reason, seen.wait.message)


def _in_line(draft: _Draft) -> bool:
    """Whether all that is said of the job is that it waits, and for what."""
    return draft.told or draft.reason == WaitReason.QUEUED


def _foreign(batch: kinds.Job) -> str:
    return (
        f"held back by Job {batch.metadata.name}, which has the name of this job and does not belong to it: "
        "delete that Job, or create this job under another name"
    )


# --- 9. the end
# -----------------------------------------------------------------------------------------------------


def _finish(draft: _Draft) -> None:
    if not draft.phase.finished:
        return
    seen = draft.seen
    if draft.status.finished_timestamp is None:
        draft.set(finished_timestamp=second(seen.now))
    draft.actions += remains.release(seen.pods)
    batch = draft.own_job
    if draft.phase is Phase.FAILED and batch is not None and _never_ends(batch, seen.pods):
        draft.actions.append(DeleteJob(batch.metadata.uid, "the job failed before it ran"))
    ttl, finished = seen.job.spec.ttl_seconds_after_finished, draft.status.finished_timestamp
    if ttl is None or finished is None:
        return
    left = (finished - seen.now).total_seconds() + ttl
    if left <= 0:
        draft.actions.append(DeleteScavengerJob(seen.job.metadata.uid))
    else:
        draft.wakeups.append(left)


def _never_ends(batch: kinds.Job, pods: Iterable[kinds.Pod]) -> bool:
    """A Job whose pods wait for what is missing: the Job controller sees no failure in that."""
    failed = any(c.type in ("FailureTarget", "Failed") and c.status == "True" for c in batch.status.conditions)
    return batch.metadata.deletion_timestamp is None and not failed and not any(pod.ended for pod in pods)


# --- 10. the summary
# ------------------------------------------------------------------------------------------------


def _summarise(draft: _Draft) -> None:
    seen, status = draft.seen, draft.status
    if draft.phase.active:
        draft.set(job_name=seen.job.metadata.name)
    elif not draft.phase.finished:
        left = draft.own_job is not None or remains.remnants(seen.pods, seen.nodes, seen.now, timedelta(0))
        draft.set(job_name=seen.job.metadata.name if left else None)
    # A sentence alone is worth no write: it goes with the one that status.message needs.
    message = (draft.status.message or "") if draft.status != seen.job.status else None
    wanted = conditions.states(draft.phase, draft.reason, message, interrupted=draft.interrupted)
    generation = seen.job.metadata.generation
    draft.set(conditions=conditions.written(status.conditions, wanted, generation=generation, now=seen.now))


def _reason(status: ScavengerJobStatus) -> str:
    """The reason that the conditions carry for the phase."""
    kind = ConditionType.SUCCEEDED if status.phase is Phase.FAILED else ConditionType.ADMITTED
    found = status.condition(kind)
    if found is not None and found.status == "False":
        return found.reason
    return FailureReason.FAILED if status.phase is Phase.FAILED else WaitReason.QUEUED


def _interrupted(status: ScavengerJobStatus) -> str | None:
    found = status.condition(ConditionType.INTERRUPTED)
    if found is not None and found.status == "True":
        return found.reason
    return Phase.INTERRUPTED.value if status.phase is Phase.INTERRUPTED else None


def _outcome(draft: _Draft) -> Outcome:
    before = draft.seen.job.status
    finished = draft.phase if draft.phase.finished and draft.phase is not before.phase else None
    return Outcome(
        status=draft.status,
        changed=draft.status != before,
        newcomer=before.phase is None and draft.phase is Phase.WAITING and _in_line(draft) and not draft.events,
        actions=tuple(dict.fromkeys(draft.actions)),
        events=tuple(draft.events),
        candidate=draft.candidate,
        start_failed=draft.start_failed,
        requeue_after=max(0.0, min(draft.wakeups)) if draft.wakeups else None,
        facts=Facts(draft.cause, finished, draft.waited, draft.spent.useful, draft.spent.lost),
    )
