"""What is known of one ScavengerJob, its Job and its pods, turned into its next status and what follows from it.

`plan_lifecycle` is a function of its argument and nothing else. The reconciler writes `Outcome.status` first, with
optimistic locking, and carries out `Outcome.actions` only when that succeeded: the status write is the commit. A
process that dies in between loses nothing and counts nothing twice, because a Job is recognised by the place in line
it was started from, and every commit that ends a run moves that place (docs/designs/0001-run-identity.md). Actions are
repeated for as long as what they are about is still there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, assert_never

from scavenger_api import names
from scavenger_api.job import ConditionType, Phase, ScavengerJob, ScavengerJobStatus
from scavenger_api.reasons import FailureReason, InterruptionReason, StateReason, WaitReason
from scavenger_api.removing import WHOLE_RUN, RemovalReason, reasons_of
from scavenger_domain.pod_ends import deleting, moment, started_at
from scavenger_domain.soundness import CHECKS
from scavenger_kube.kinds import Job, Pod

from scavenger_admitter.core.lifecycle import (
    accounting,
    checkpointed,
    conditions,
    finished,
    interrupted,
    leftover_pods,
    managed,
    running,
    start_failures,
    starting,
    waiting,
)
from scavenger_admitter.core.lifecycle.actions import DeleteJob, StartTasks
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.judge import decide, judge
from scavenger_admitter.core.lifecycle.observation import Figures, Observation, Outcome
from scavenger_admitter.core.lifecycle.run import Run
from scavenger_admitter.core.lifecycle.soundness import assert_sound
from scavenger_admitter.core.lifecycle.verdict import (
    Checkpointed,
    Completed,
    Failed,
    Hangs,
    Removed,
    Runs,
    StartFailed,
    Starts,
    Undecided,
    Verdict,
)

ORPHANS: Final = "orphan"
"""Finalizer of an object whose dependents stay when it goes (k8s.io/apimachinery, FinalizerOrphanDependents)."""


def plan_lifecycle(observed: Observation) -> Outcome:
    """The next status of the job and what follows from it. Pure; raises nothing for what the schema lets in.

    The steps, in this order:
    1. a job without a status, or without its place in line, gets one (from its live Job, if there is one);
    2. the run in progress is found: its Job by the place in line it was started from, its pods by that Job;
    3. a finished job whose pods run after all runs (somebody edited the status);
    4. a run that nobody noted yet is adopted;
    5. a run in progress starts, fails to, runs on, or ends;
    6. suspend is honoured, or lifted;
    7. what the pods of the last run said as they ended is heard, and what earlier runs left is cleared away;
    8. a job in line is started where admission has granted that, may stand for admission, or says what holds it back;
    9. a finished job lets go of its pods, and goes itself when its time is over;
    10. conditions and jobName follow from all this.
    """
    draft = draft_of(observed)
    if draft.seen.job.metadata.deletion_timestamp is not None:
        delete(draft)
        return outcome_of(draft)
    waiting.enter_line(draft)
    _find_run(draft)
    finished.reopen(draft)
    starting.adopt(draft)
    _progress(draft)
    waiting.suspend(draft)
    checkpointed.record_termination_messages(draft)
    waiting.clear_leftovers(draft)
    waiting.line_up(draft)
    finished.finish(draft)
    if draft.status.removing and not draft.phase.active:
        draft.set(removing=None)  # the run has ended, and was judged
    summarise(draft)
    return outcome_of(draft)


def draft_of(observed: Observation) -> Draft:
    """The status as observed, to be changed."""
    status = observed.seen.job.status
    lack = start_failures.still_lacks(observed.known.start.lack, observed.seen.every_pod)
    return Draft(observed, status, _reason(status), _interrupted(status), lack=lack)


def delete(draft: Draft) -> None:
    """A ScavengerJob that is being deleted takes its Job along, and lets go of its pods."""
    batch = draft.own_job
    if batch is not None and batch.metadata.deletion_timestamp is None:
        draft.actions.append(DeleteJob(batch.metadata.uid, "the ScavengerJob is being deleted"))
    elif batch is not None and ORPHANS not in batch.metadata.finalizers:
        draft.actions += leftover_pods.stop(draft.seen.every_pod)  # somebody's finalizer holds the Job
    draft.actions += leftover_pods.release(pod for pod in draft.seen.every_pod if pod.ended or deleting(pod))


def _find_run(draft: Draft) -> None:
    """The run in progress: the Job of this place in line with its pods, or such pods alone."""
    queued = draft.status.queued_timestamp
    if queued is None:
        return
    place, batch = accounting.run_id(queued), draft.own_job
    if batch is not None and batch.metadata.annotations.get(names.ANNOTATION_RUN) == place:
        uid = batch.metadata.uid
        pods = [pod for pod in draft.seen.pods if (owner := pod.metadata.controller) and owner.uid == uid]
        draft.run = _run(draft, batch, pods)
        return
    # Its Job is gone, or was never noted: pods of this place in line say that there was one.
    mine = [pod for pod in draft.seen.pods if pod.metadata.annotations.get(names.ANNOTATION_RUN) == place]
    pods = [pod for pod in mine if not _is_older(pod, draft.seen.job)]
    if pods or draft.phase.active or draft.known.start.shown:
        draft.run = _run(draft, None, pods)


def _run(draft: Draft, batch: Job | None, pods: Sequence[Pod]) -> Run:
    """The run in progress with its Job, as far as that exists, and its pods."""
    spec, start = draft.seen.job.spec, accounting.run_start(draft.status)
    counted = accounting.recorded_reference(draft.status, start) if start is not None else draft.status.queued_timestamp
    seen = draft.known.last_seen
    return Run(
        batch,
        tuple(pods),
        spec.parallelism,
        start is not None or _began(draft, batch, pods),
        draft.place,
        spec.saved_exit_code,
        intents=_intents(draft, pods),
        # Who looks again after a long time knows no more than that it ran when the status was written.
        last_seen=max(seen, counted) if seen is not None and counted is not None else seen or counted,
    )


def _began(draft: Draft, batch: Job | None, pods: Sequence[Pod]) -> bool:
    """Whether a gang that has no start on record has run together: every pod has, or had, a started container."""
    if batch is None and not pods:
        return draft.phase is Phase.RUNNING
    return len(pods) >= draft.seen.job.spec.parallelism and all(started_at(pod) is not None for pod in pods)


def _intents(draft: Draft, pods: Iterable[Pod]) -> Mapping[str, RemovalReason]:
    """Why the admitter deletes the pods of the run in progress."""
    whole = reasons_of(draft.status.removing or ()).get(WHOLE_RUN)
    return {} if whole is None else {pod.metadata.uid: whole for pod in pods}


def _is_older(pod: Pod, job: ScavengerJob) -> bool:
    """Whether the pod was there before the job. It belongs to an earlier job of that name then: replicas whose clocks
    are set back may give two jobs one place in line, and only the API server's clock tells them apart."""
    made, created = moment(pod.metadata.creation_timestamp), job.metadata.creation_timestamp
    return made is not None and created is not None and made < created


def _progress(draft: Draft) -> None:
    """A run in progress starts, fails to, runs on, or ends."""
    run, refused = draft.run, draft.known.start.refused
    if refused is not None and (draft.phase.queued if run is None else refused.of_pod and not run.began):
        starting.fail_start(draft, start_failures.refusal_problem(refused, draft.seen.job.spec))
    elif run is not None and draft.phase.active:
        verdict = judge(run, draft.observed, draft.lack)
        if run.began:
            running.record_start(draft, run)
            verdict = decide(run, draft.observed, verdict, accounting.run_start(draft.status))
        _record(draft, run, verdict)


def _record(draft: Draft, run: Run, verdict: Verdict) -> None:
    """What the verdict means for a job."""
    match verdict:
        case StartFailed():
            starting.fail_start(draft, verdict.problem)
        case Removed() | Checkpointed() if not run.began:
            starting.fail_start(draft, starting.ended_early(verdict))
        case Starts():
            starting.go_on(draft, run, verdict)
        case Runs():
            running.go_on(draft, run, verdict)
        case Hangs():
            running.fail(draft, verdict)
        case Undecided():
            draft.wait_for_verdict(verdict)
            managed.stop_members(draft, run)
        case Removed():
            interrupted.interrupt(draft, verdict)
        case Checkpointed():
            checkpointed.go_back(draft, verdict)
        case Completed() | Failed():
            finished.end(draft, verdict)
        case _:
            assert_never(verdict)


def summarise(draft: Draft) -> None:
    """Conditions and jobName follow from the rest."""
    seen, status = draft.seen, draft.status
    if draft.phase.active:
        draft.set(job_name=seen.job.metadata.name)
    elif not draft.phase.finished and not any(isinstance(action, StartTasks) for action in draft.actions):
        draft.set(job_name=None)
    # A sentence alone is worth no write: it goes with the one that status.message needs.
    message = (draft.status.message or "") if draft.status != seen.job.status else None
    wanted = conditions.states(draft.phase, draft.reason, message, interrupted=draft.interrupted, stalled=draft.stalled)
    generation = seen.job.metadata.generation
    draft.set(conditions=conditions.written(status.conditions, wanted, generation=generation, now=seen.now))


def _reason(status: ScavengerJobStatus) -> str:
    """The reason that the conditions carry for the phase."""
    if status.phase is Phase.COMPLETED:
        return StateReason.COMPLETED
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


def _quiet_until(draft: Draft) -> datetime | None:
    """Until when nobody misses this status.

    A job that starts at once goes from no status, or from its place in line, to Running in one write. What a status
    left out would say follows from the Job again at every look, in this process or in the next.
    """
    before, phase, batch = draft.seen.job.status.phase, draft.phase, draft.own_job
    news = draft.events or draft.status.removing != draft.seen.job.status.removing or _names_job_of_tasks(draft)
    if news or draft.status == draft.seen.job.status:
        return None
    since = None
    if before is None and (phase is Phase.STARTING or (phase is Phase.WAITING and _in_line(draft))):
        since = draft.status.queued_timestamp
    elif before is not None and before.queued and phase is Phase.STARTING and batch is not None:
        since = moment(batch.metadata.creation_timestamp)
    return since + draft.rules.quiet_for if since is not None else None


def _names_job_of_tasks(draft: Draft) -> bool:
    """Whether the status says for the first time that tasks may have pods. It is written before they have: the queue of
    the array cannot change from then on, and each pod names the queue that the array is in."""
    starts = any(isinstance(action, StartTasks) for action in draft.actions)
    return starts and draft.seen.job.status.job_name is None and draft.status.job_name is not None


def _in_line(draft: Draft) -> bool:
    """Whether all that is said of the job is that it waits, and for what."""
    return draft.explained or draft.reason == WaitReason.QUEUED


def outcome_of(
    draft: Draft,
    *,
    counted: int = 0,
    interruptions: tuple[InterruptionReason, ...] = (),
    startable: int = 0,
    interrupted_waits: bool = False,
    last_start: datetime | None = None,
    place: datetime | None = None,
) -> Outcome:
    """What the draft has come to.

    Args:
        draft: the next status.
        counted: pods of tasks that it counts.
        interruptions: causes of those of tasks.
        startable: tasks that may start now.
        interrupted_waits: whether others interrupted one of them.
        last_start: when the container of a task started last.
        place: in the queue, of the next task.
    """
    before = draft.seen.job.status
    verdict = draft.phase if draft.phase.finished and draft.phase is not before.phase else None
    known = before.condition(ConditionType.STALLED)
    stalled = draft.stalled is not None and (known is None or known.status != "True")
    outcome = Outcome(
        status=draft.status,
        changed=draft.status != before,
        quiet_until=_quiet_until(draft) if not counted else None,
        actions=tuple(dict.fromkeys(draft.actions)),
        events=tuple(draft.events),
        candidate=draft.candidate,
        start_failed=draft.start_failed,
        retry_late=draft.retry_late,
        pulls_on=draft.pulls_on,
        unfit_node=draft.unfit_node,
        unfit_architecture=draft.unfit_architecture,
        refused_by=draft.refused_by,
        lack=None if draft.phase.finished or draft.phase is Phase.SUSPENDED else draft.lack,
        requeue_after=max(0.0, min(draft.wakeups)) if draft.wakeups else None,
        unsettled=draft.unsettled,
        counted=counted,
        interruptions=interruptions,
        startable=startable,
        interrupted_waits=interrupted_waits,
        last_start=last_start,
        place=place,
        unproven=tuple(draft.unproven),
        figures=Figures(
            draft.cause, draft.short_run, stalled, verdict, draft.waited, draft.spent.useful, draft.spent.lost
        ),
    )
    if CHECKS.on:
        assert_sound(outcome, draft.observed)
    return outcome
