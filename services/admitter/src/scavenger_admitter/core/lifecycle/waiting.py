"""Queued jobs, and jobs that are suspended: a place in the queue, what holds a job back, whether it may be started."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from scavenger_api import names
from scavenger_api.job import Phase, ScavengerJobSpec
from scavenger_api.reasons import NEVER, FailureReason, WaitReason
from scavenger_api.rules.array import array_problems
from scavenger_api.rules.bounds import bound_problems
from scavenger_api.rules.problem import Problem
from scavenger_api.rules.references import count_problems
from scavenger_api.rules.size import size_problem
from scavenger_api.rules.snapshot import snapshot_problems
from scavenger_api.rules.template import start_problems
from scavenger_domain.pod_ends import moment
from scavenger_domain.pod_security import breaches
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle import accounting, after, finished, leftover_pods
from scavenger_admitter.core.lifecycle.actions import Action, CreateJob, DeleteJob
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.leftover_pods import LEFTOVER_PATIENCE, LeftoverPod
from scavenger_admitter.core.lifecycle.observation import Seen
from scavenger_admitter.core.waits import Wait

_SKEW: Final = timedelta(minutes=1)
"""By so much the clock that gave a place in the queue may be behind the API server's."""

_MANY_DIGITS: Final = 20
"""A count of so many is none, and of thousands `int` raises an error."""


def enter_line(draft: Draft) -> None:
    """A job without a status, or without its place in the queue, gets one."""
    status, batch = draft.status, draft.own_job
    _restore(draft, batch)
    if status.served_level is not None and not draft.rules.least_served and not draft.phase.finished:
        draft.set(served_level=None)  # else it would wait behind all that come
    if status.phase is not None and (status.queued_timestamp is not None or status.phase.finished):
        return
    if draft.status.queued_timestamp is None:
        draft.set(queued_timestamp=accounting.requeued(draft.status, draft.observed.end_of_line))
    if status.phase is None:
        draft.enter(Phase.WAITING, WaitReason.QUEUED, "queued for admission")


def _restore(draft: Draft, batch: kinds.Job | None) -> None:
    """The place in the queue from a live Job, where the status was wiped or edited by hand.

    A Job of another run is only ever left over while the job is queued (or suspended, or finished): every
    commit that leaves Starting or Running behind also moves the place in the queue.

    Any user who may create Jobs could have made this one, so what it says is taken as far as it is possible: no place
    in the queue from before the ScavengerJob was there, and no more interruptions than seconds since.
    """
    if batch is None or draft.lasts or batch.metadata.deletion_timestamp is not None:
        return
    queued = moment(batch.metadata.annotations.get(names.ANNOTATION_RUN))
    wiped = draft.status.phase is None or draft.status.queued_timestamp is None or draft.status.phase.active
    if queued is None or not wiped or queued == draft.status.queued_timestamp:
        return
    created = draft.seen.job.metadata.creation_timestamp
    if created is None or queued < created - _SKEW:
        return
    draft.set(queued_timestamp=queued)
    restarts = batch.metadata.annotations.get(names.ANNOTATION_RESTARTS, "")
    if draft.status.phase is None and restarts.isdecimal() and len(restarts) < _MANY_DIGITS:
        seconds = int((draft.seen.now - created).total_seconds())
        draft.set(interrupted_count=max(draft.status.interrupted_count, min(int(restarts), seconds)))


def suspend(draft: Draft) -> None:
    """`spec.suspend` is honoured, or lifted."""
    wanted, phase = draft.seen.job.spec.suspend, draft.phase
    if phase.finished or wanted == (phase is Phase.SUSPENDED) or draft.only_verdict_waits:
        return
    draft.interrupted = None
    if not wanted:
        draft.leave_run(WaitReason.QUEUED)
        draft.enter(Phase.WAITING, WaitReason.QUEUED, "queued for admission")
        return
    draft.settle(min(draft.seen.now, draft.stood_still or draft.seen.now), kept=False)
    draft.leave_run(WaitReason.SUSPENDED)
    draft.enter(Phase.SUSPENDED, WaitReason.SUSPENDED, "suspended")


def clear_leftovers(draft: Draft) -> None:
    """What earlier runs left is cleared away."""
    if draft.phase.finished:
        return
    batch, uid = None if draft.lasts else draft.own_job, None
    if batch is not None and batch.metadata.deletion_timestamp is None:
        uid = batch.metadata.uid
        if draft.run is None:
            draft.actions.append(DeleteJob(uid, "its run is over"))
    left = [pod for pod in draft.left_over if pod.metadata.uid not in draft.awaited]
    draft.actions += leftover_pods.clear(left, draft.seen.nodes, job_uid=uid, alone=draft.lasts)


def _problems(spec: ScavengerJobSpec) -> Iterator[Problem]:
    """What is looked at even where no webhook has refused it."""
    yield from start_problems(spec)
    yield from array_problems(spec)
    yield from count_problems(spec)
    yield from snapshot_problems(spec)


def why_never(draft: Draft) -> str:
    """What is wrong with the spec, so that the job never starts; empty when nothing is. Of a spec that is too large too
    little is known: its job waits, and says so."""
    seen, spec = draft.seen, draft.seen.job.spec
    if too_large(seen):
        return ""
    problems = [f"{one.field}: {one.message}" for one in _problems(spec)]
    if spec.snapshot is not None and not draft.rules.snapshots:
        problems.append("spec.snapshot: there are no snapshots on this cluster; leave it out, or ask an administrator")
    return "; ".join(problems)


def too_large(seen: Seen) -> str | None:
    """What is wrong with the size of the spec; None when nothing is. Small specs of the most pods are not too large."""
    return size_problem(seen.spec_bytes, seen.job.spec.parallelism) if seen.spec_bytes is not None else None


class Stand(NamedTuple):
    """How a job stands in its queue."""

    units: int
    """So many of its tasks may start; of another job 1, if it may."""
    held_by: Wait | None
    """What keeps it from starting, whatever admission decides."""
    says: str
    """What its status says where nothing does."""
    written: bool = True
    """Whether the status may be written now."""


def line_up(draft: Draft, stand: Stand | None, start: Callable[[CreateJob, int], Action]) -> None:
    """A queued job is started where that was granted, may stand for admission, or says what holds it back.

    Args:
        draft: its next status.
        stand: how it stands; None where nothing of it waits.
        start: what starts, for a Job to be created and so many tasks.
    """
    if stand is None:
        return
    if stand.written and (problems := why_never(draft)):
        finished.declare_failed(draft, draft.seen.now, FailureReason.INVALID, problems)
        return
    queued, granted, of = draft.status.queued_timestamp, draft.granted.units, draft.seen.namespace
    granted = granted if queued == draft.seen.job.status.queued_timestamp else 0
    draft.candidate = stand.units > 0 and not granted
    if stand.units > 0 and granted and queued is not None:
        job = CreateJob(accounting.run_id(queued), 0, of.level, token=of.token, user=of.user)
        draft.actions.append(start(job, min(stand.units, granted)))
    if not stand.written or not draft.phase.queued:
        return
    if stand.held_by is not None:
        hold(draft, stand.held_by)
        return
    release(draft, stand.says)
    fresh = draft.start_failed or draft.cause is not None  # why it is queued again is worth reading first
    if draft.granted.wait is not None and not fresh:
        draft.explained = True
        hold(draft, draft.granted.wait)


def release(draft: Draft, message: str) -> None:
    """What held a job back does so no longer. message: what its status says in place of that."""
    if draft.reason in _STUCK:
        draft.reason = WaitReason.QUEUED
        draft.set(message=message)


def hold(draft: Draft, wait: Wait) -> None:
    """The status says why the job waits. Where no waiting helps, it says so first, and an Event once."""
    message = wait.message
    found = draft.seen.references
    if found.volumes and wait.reason in _PLACES:
        message = f"{message}; {found.volumes}"
    if found.missing:
        message = f"{found.missing}: the job fails when its turn comes, unless that is created before. {message}"
    if wait.reason in NEVER:
        message = f"cannot start as things are: {message}"
        if wait.reason != draft.reason:
            draft.note("CannotStart", f"{wait.reason}: {wait.message}", warning=True)
    draft.enter(draft.phase, wait.reason, message)


def shares_nothing(draft: Draft) -> bool:
    """Whether two runs of the job can harm each other by no volume and by no name of a peer."""
    spec = draft.seen.job.spec
    return not spec.keeps_state and spec.parallelism == 1


def rest(draft: Draft) -> float:
    """Seconds until a job whose last runs made no progress may start again: no more than it rests at most, as the clock
    may have been set back since it ran."""
    until = accounting.rests_until(draft.status)
    left = (until - draft.seen.now).total_seconds() if until is not None else 0.0
    return min(left, accounting.MOST_PAUSE.total_seconds())


_PLACES: Final = frozenset(
    {
        WaitReason.NO_SELECTOR_MATCH,
        WaitReason.TAINT_NOT_TOLERATED,
        WaitReason.LARGER_THAN_ANY_NODE,
        WaitReason.LARGER_THAN_CLUSTER,
        WaitReason.NO_PLACE,
        WaitReason.NO_HEADROOM,
    }
)
"""Why a job waits that would wait less if its claims could be used on more nodes."""

_STUCK: Final = (
    *(WaitReason.HELD_BACK, WaitReason.POD_SECURITY, WaitReason.SPEC_TOO_LARGE, WaitReason.BEYOND_MAXIMA),
    *(WaitReason.DEPENDENCY, WaitReason.DEPENDENCY_NEVER_SATISFIED),
)


def stuck(draft: Draft, left: Sequence[LeftoverPod]) -> Wait | None:
    """What keeps a job from starting until a user or an administrator acts, or another job has ended."""
    batch = draft.seen.batch
    if batch is not None and draft.own_job is None:
        return Wait(WaitReason.HELD_BACK, _foreign(batch))
    if overdue := next((pod.message for pod in left if pod.overdue), ""):
        return Wait(WaitReason.HELD_BACK, overdue)
    if problem := too_large(draft.seen):
        return Wait(WaitReason.SPEC_TOO_LARGE, f"it may not start: spec: {problem}")
    return None if draft.known.start.posted else _forbidden(draft) or after.wait_for_others(draft)


MAX_TOLD: Final = 3
"""So many problems of a spec stand in its status: its user chooses how many there are."""


def _forbidden(draft: Draft) -> Wait | None:
    """What the job asks for and may not have: in any namespace, or in its own."""
    spec = draft.seen.job.spec
    beyond = [f"{one.field}: {one.message}" for one in bound_problems(spec, draft.rules.bounds)]
    breached = [str(one) for one in breaches(spec, draft.seen.namespace.level)] if not spec.as_written else []
    for reason, found in ((WaitReason.BEYOND_MAXIMA, beyond), (WaitReason.POD_SECURITY, breached)):
        if found:
            more = [f"and {len(found) - MAX_TOLD} more"] if len(found) > MAX_TOLD else []
            return Wait(reason, f"{'; '.join([*found[:MAX_TOLD], *more])}. A spec cannot change: create the job again")
    return None


def job_held(draft: Draft) -> Wait | None:
    """The Job of the last run stays because of finalizers: not ours, as the admitter sets none on Jobs."""
    batch, seen = draft.own_job, draft.seen
    asked = moment(batch.metadata.deletion_timestamp) if batch is not None else None
    if batch is None or asked is None or not batch.metadata.finalizers:
        return None
    left = (asked + LEFTOVER_PATIENCE - seen.now).total_seconds()
    if left > 0:
        draft.wakeups.append(left)
        return None
    name, holders = batch.metadata.name, ", ".join(batch.metadata.finalizers)
    return Wait(
        WaitReason.HELD_BACK,
        f"held back by Job {name} of the last run, which the finalizer {holders} keeps: "
        "the job starts again when the owner of the finalizer removes it from the Job",
    )


def _foreign(batch: kinds.Job) -> str:
    return (
        f"held back by Job {batch.metadata.name}, which has the name of this job and does not belong to it: "
        "delete that Job, or create this job under another name"
    )
