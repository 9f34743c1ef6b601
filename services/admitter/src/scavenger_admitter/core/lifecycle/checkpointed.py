"""Runs that saved their state as they ended: on their own, by `checkpointExitCode`, or when they were told to stop.

An end is settled at once, as if nothing had been saved since the last checkpoint that is known. What the pods say in
their last words is heard when all of them have ended, as a gang's checkpoint is as old as that of its oldest member,
and moves what was saved from lost to useful. Until then pods that have said something are kept: by our finalizer, so
that an admitter that is down meanwhile hears it, too (docs/designs/0015-a-ledger-that-is-true.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from scavenger_api import names
from scavenger_api.job import Phase
from scavenger_api.reasons import WaitReason
from scavenger_domain.pod_ends import last_words, moment, started_at, succeeded
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.leftover_pods import surely_ended
from scavenger_admitter.core.lifecycle.verdict import Checkpointed


def go_back(draft: Draft, found: Checkpointed) -> None:
    """The run has saved its state and is not done: the job is queued again, at its old place."""
    message = f"pod {found.exit.pod} saved its state and ended with code {found.exit.code}; queued to continue"
    keep_place(draft, min(found.at, draft.seen.now), WaitReason.CHECKPOINTED, message)


def keep_place(draft: Draft, at: datetime, reason: WaitReason, message: str) -> None:
    """The run ended by itself, at `at`, and another one goes on from its last checkpoint: the job is queued at its old
    place."""
    ran = accounting.run_start(draft.status) is not None
    draft.settle(at, kept=False)
    short = draft.count_short(reason) if ran else ""
    # Of a gang that failed before it ran together the next start is delayed as after any that failed.
    draft.start_failed = not ran
    draft.leave_run(reason, keep_place=True)
    draft.interrupted = None
    until = accounting.rests_until(draft.status)
    if short and until is not None:
        message += f"; {short}: not started before {until:%X} UTC"
    draft.enter(Phase.WAITING, reason, message)


def record_termination_messages(draft: Draft) -> None:
    """What was settled as lost and had been saved becomes useful, once all pods of the last run have ended."""
    status, seen = draft.status, draft.seen
    if draft.run is not None or draft.phase.active or draft.phase.finished:
        return
    members = _last_run(draft)
    if not all(surely_ended(pod, seen.nodes) for pod in members):
        draft.unsettled = True
        draft.awaited = frozenset(pod.metadata.uid for pod in members if pod.ended and _said(draft, pod))
        return
    checkpoint = accounting.newer_checkpoint(status, members, seen.job.spec, seen.now) if members else None
    if checkpoint is None:
        return
    taken = accounting.taken(seen.job.spec, members, seen.usage)
    saved = accounting.saved_after_all(status, seen.job.spec, checkpoint, taken)
    if saved is not None:
        draft.set(last_checkpoint_timestamp=checkpoint)
        draft.spend(saved)


def _last_run(draft: Draft) -> Sequence[kinds.Pod]:
    """The pods of the last run on record, as far as they are still there. Starts since then that failed have later
    places in the queue, and their containers began later, if at all."""
    ended = draft.status.ended_timestamp
    if ended is None:
        return ()
    pods = [pod for pod in draft.left_over if (start := started_at(pod)) is not None and start <= ended]
    places = {pod.metadata.uid: moment(pod.metadata.annotations.get(names.ANNOTATION_RUN)) for pod in pods}
    last = max((place for place in places.values() if place is not None), default=None)
    return [pod for pod in pods if last is not None and places[pod.metadata.uid] == last]


def _said(draft: Draft, pod: kinds.Pod) -> bool:
    """Whether a pod that has ended has anything to say about what was saved."""
    convention = draft.seen.job.spec.saved_exit_code
    if names.ANNOTATION_LAST_CHECKPOINT in pod.metadata.annotations or last_words(pod, convention) is not None:
        return True
    return convention is not None and succeeded(pod)
