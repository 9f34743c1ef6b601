"""Runs that ended by themselves, and jobs that are over: the verdict, and the end of the ScavengerJob in its time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from scavenger_api.job import Phase, ScavengerJobSpec
from scavenger_api.reasons import FailureReason, StateReason, WaitReason
from scavenger_api.snapshot import UNTOUCHED_CODE
from scavenger_domain.checkpoints import without_checkpoint
from scavenger_domain.pod_ends import Exit, deleting, over, restarted, started_at
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle import (
    architectures,
    checkpointed,
    failure_policy,
    leftover_pods,
    managed,
    resized_runs,
)
from scavenger_admitter.core.lifecycle.accounting import second
from scavenger_admitter.core.lifecycle.actions import DeleteJob, DeleteScavengerJob
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.failure_policy import Follows, Judged
from scavenger_admitter.core.lifecycle.run import Run
from scavenger_admitter.core.lifecycle.verdict import Completed, Failed

ELSEWHERE: Final = "on another node where one has capacity"


def end(draft: Draft, found: Completed | Failed) -> None:
    """The run ended by itself: the job is over, unless it failed and may try again."""
    at = min(found.at, draft.seen.now)
    if isinstance(found, Failed):
        _failed_by_exit(draft, found, at)
        return
    draft.settle(at, kept=True)
    draft.set(finished_timestamp=second(at))
    draft.enter(Phase.COMPLETED, StateReason.COMPLETED, "completed")


def _failed_by_exit(draft: Draft, found: Failed, at: datetime) -> None:
    message = words_of(found.exit)
    if resized_runs.too_small(draft, found.exit):
        _try_again(draft, at, message, "its request was recommended; queued to continue with that of the job")
        return
    limit, retries = draft.seen.job.spec.backoff_limit or 0, draft.status.retries or 0
    judged = consequence(draft, draft.run.pods if draft.run is not None else (), found.exit, retries)
    match judged.follows:
        case Follows.OTHER_ARCHITECTURE:
            said = f"node {judged.node} is {draft.unfit_architecture}; queued to start on another architecture"
            _try_again(draft, at, message, said)
        case Follows.FAIL_JOB | Follows.FAIL if judged.rule is not None:
            fail(draft, at, FailureReason.POD_FAILURE_POLICY, f"{message}; {judged.said} makes it final")
        case Follows.FREE:
            _try_again(draft, at, message, f"{judged.said} does not count it; queued to continue")
        case Follows.ELSEWHERE:
            _try_again(draft, at, message, f"its snapshots are as they were; queued to continue, {ELSEWHERE}")
        case Follows.RETRY:
            draft.set(retries=retries + 1)
            _try_again(draft, at, message, f"queued for retry {retries + 1} of {limit}")
        case _:
            fail(draft, at, FailureReason.FAILED, f"{message}; all {limit} retries are used" if limit else message)


def consequence(draft: Draft, pods: Sequence[kinds.Pod], ended: Exit, used: int) -> Judged:
    """What follows from the failure of a job, or of a task. What the next start has to know is noted, and a failure
    that a rule does not count.

    Args:
        draft: of the job.
        pods: of the run.
        ended: how a container failed.
        used: retries of the job, or of the task, that are used up.
    """
    spec = draft.seen.job.spec
    pod = next((pod for pod in pods if pod.metadata.name == ended.pod), None)
    untouched = pod is not None and snapshots_untouched(spec, ended)
    unfit = architectures.unfit(draft.observed, pod, ended) if pod is not None else ""
    judged = failure_policy.judge(spec, pod, used, unfit=unfit, untouched=untouched)
    if judged.follows is Follows.OTHER_ARCHITECTURE:
        draft.unfit_architecture = unfit
    elif judged.follows is Follows.ELSEWHERE:
        draft.unfit_node = judged.node
    elif judged.follows is Follows.FREE:
        draft.set(ignored_failures=(draft.status.ignored_failures or 0) + 1)
    return judged


def _try_again(draft: Draft, at: datetime, message: str, follows: str) -> None:
    checkpointed.keep_place(draft, at, WaitReason.RETRYING, f"{message}; {follows}")
    draft.note("Retrying", message, warning=True)


def snapshots_untouched(spec: ScavengerJobSpec, ended: Exit) -> bool:
    """Whether `snap` says that this node or volume is at fault, and not the program: that counts as no failure."""
    return spec.snapshot is not None and ended.main and ended.code == UNTOUCHED_CODE


def words_of(ended: Exit) -> str:
    """How a container failed, in words."""
    said = without_checkpoint(ended.message)
    words = [word for word in (ended.reason if ended.reason != "Error" else "", said) if word]
    kind = "init container" if ended.init else "container"
    message = f"{kind} {ended.container} of pod {ended.pod} exited with code {ended.code}"
    return f"{message} ({': '.join(words)})" if words else message


def fail(draft: Draft, at: datetime, reason: str, message: str) -> None:
    """The job has failed, at `at`; `reason`: one word for the conditions."""
    draft.settle(at, kept=False)
    declare_failed(draft, at, reason, message)


def declare_failed(draft: Draft, at: datetime, reason: str, message: str) -> None:
    """Say of a job whose time is booked, or of an array, that it has failed."""
    draft.set(finished_timestamp=second(at))
    draft.enter(Phase.FAILED, reason, message)
    draft.note("Failed", message, warning=True)


def reopen(draft: Draft) -> None:
    """A finished job whose pods run after all runs: a user edited the status."""
    run = draft.run
    if run is None or not draft.phase.finished or not _all_running(run):
        return
    if draft.reason in (FailureReason.NO_PROGRESS, FailureReason.DEADLINE_EXCEEDED):
        return  # its pods ran when it failed, and are on their way out
    draft.set(finished_timestamp=None, ended_timestamp=None)
    draft.enter(Phase.STARTING, StateReason.STARTED, "running: the job had been declared finished while its pods ran")
    draft.note("Reopened", "the status said finished while all pods were running", warning=True)


def _all_running(run: Run) -> bool:
    if run.batch is None or run.batch.metadata.deletion_timestamp is not None or len(run.pods) < run.parallelism:
        return False
    ended = any(c.status == "True" and c.type in kinds.ENDS_OF_A_JOB for c in run.batch.status.conditions)
    running = (
        p.status.phase == "Running" and started_at(p) and not (over(p) or deleting(p) or restarted(p)) for p in run.pods
    )
    return not ended and all(running)


def finish(draft: Draft) -> None:
    """A finished job lets go of its pods."""
    seen = draft.seen
    if draft.status.finished_timestamp is None:
        draft.set(finished_timestamp=second(seen.now))
    draft.actions += leftover_pods.release(seen.pods)
    batch = draft.own_job
    if draft.lasts:
        draft.actions += leftover_pods.stop(seen.pods)
    elif batch is not None and batch.metadata.deletion_timestamp is not None:
        draft.actions += leftover_pods.stop(seen.pods)  # another client's finalizer holds the Job
    elif batch is not None and any(over(pod) and not pod.ended and not deleting(pod) for pod in seen.pods):
        draft.actions.append(DeleteJob(batch.metadata.uid, "the job is over and other containers of its pods run on"))
    elif batch is not None and draft.phase is Phase.FAILED and _never_ends(batch, seen.pods):
        draft.actions.append(DeleteJob(batch.metadata.uid, "the job failed before it ran"))
    elif batch is not None:
        managed.end(draft, batch)


def expire(draft: Draft) -> None:
    """A finished job goes itself when its time is over."""
    seen = draft.seen
    ttl, finished = seen.job.spec.ttl_seconds_after_finished, draft.status.finished_timestamp
    if ttl is None or finished is None:
        return
    left = (finished - seen.now).total_seconds() + ttl
    if left <= 0:
        draft.actions.append(DeleteScavengerJob(seen.job.metadata.uid))
    else:
        draft.wakeups.append(left)


def _never_ends(batch: kinds.Job, pods: Iterable[kinds.Pod]) -> bool:
    """A Job whose pods wait for what is missing: the Job controller sees no failure in that, nor in members of a gang
    that have succeeded meanwhile."""
    failed = any(c.type in ("FailureTarget", "Failed") and c.status == "True" for c in batch.status.conditions)
    return not failed and not any(pod.status.phase == "Failed" for pod in pods)
