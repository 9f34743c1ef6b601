"""The Job of a run: what the Job controller would do for others. A Job that it has is left to it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from scavenger_api.job import Phase
from scavenger_api.removing import WHOLE_RUN, RemovalReason, entry
from scavenger_domain.pod_ends import ended_at, moment, over
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle import leftover_pods
from scavenger_admitter.core.lifecycle.accounting import second
from scavenger_admitter.core.lifecycle.actions import CreatePods, EndJob
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.leftover_pods import surely_ended
from scavenger_admitter.core.lifecycle.run import Run, is_managed

PEER_FAILED: Final = entry(WHOLE_RUN, RemovalReason.PEER_FAILED)

PODS_AGAIN_SECONDS = 1.0
"""Pods that could not be created for now are sent again after so long; after twice as long with each try in a row that
made none."""


def create_missing(draft: Draft, run: Run) -> None:
    """The pods that a start still lacks: its process ended, or the API server did not take them for now."""
    batch = run.batch
    if batch is None or draft.known.start.all_created or batch.spec.suspend:
        return
    if len(run.pods) >= run.parallelism or batch.metadata.deletion_timestamp is not None:
        return
    if draft.known.start.pods_wait > 0:
        draft.wakeups.append(draft.known.start.pods_wait)
        return
    draft.actions.append(CreatePods(batch.metadata.uid, run.life))
    draft.wakeups.append(PODS_AGAIN_SECONDS)  # they may be refused for now


def stop_members(draft: Draft, run: Run) -> None:
    """A member of the gang has failed: the others stop. The status says so before, so that a later look takes the
    deletions for what they are, and FailureTarget on the Job says so to clients. Members whose work is over stay until
    the status says how the run ended, whatever runs on beside it: once they are deleted, nothing proves that they ended
    by themselves."""
    if run.batch is not None and is_managed(run.batch):
        pods = [pod for pod in run.pods if not over(pod) and ended_at(pod) is None]
        if draft.lasts:  # its Job goes on, so the status alone says why they stop
            draft.set(removing=(PEER_FAILED,) if pods else draft.status.removing)
            draft.actions += leftover_pods.stop(pods, PEER_FAILED)
            return
        if pods and not _has(run.batch, "FailureTarget"):  # else an older admitter has begun, or an older CRD drops it
            draft.set(removing=(PEER_FAILED,))
        named = PEER_FAILED if PEER_FAILED in (draft.status.removing or ()) else ""
        _stop_members(draft, run.batch, pods, "PodFailed", "a pod of the gang has failed", intent=named)


def has_ended(batch: kinds.Job) -> bool:
    """Whether the Job says how it ended, or is about to fail."""
    return any(_has(batch, kind) for kind in ("Complete", "Failed", "FailureTarget"))


def end(
    draft: Draft,
    batch: kinds.Job,
    *,
    succeeded: int | None = None,
    size: int | None = None,
    completed_indexes: str = "",
) -> None:
    """A job that is over says so in the status of its Job, when no pod of it runs any more.

    Args:
        draft: of the job.
        batch: its Job.
        succeeded: how many pods have; None: as the pods that are there say.
        size: of all; None: those of the gang.
        completed_indexes: which have, where that is to be said.
    """
    if not is_managed(batch) or _has(batch, "Complete") or _has(batch, "Failed"):
        return
    seen, status = draft.seen, draft.status
    if draft.lasts:  # the status of such a job is that of the Job
        return
    pods = [pod for pod in seen.every_pod if (owner := pod.metadata.controller) and owner.uid == batch.metadata.uid]
    if any(not surely_ended(pod, seen.nodes) for pod in pods):
        if draft.phase is Phase.FAILED:
            _stop_members(draft, batch, pods, draft.reason, status.message or "")
        return
    completed, size = draft.phase is Phase.COMPLETED, seen.job.spec.parallelism if size is None else size
    done = sum(pod.succeeded for pod in pods) if succeeded is None else succeeded
    done = size if completed else done
    started = moment(batch.metadata.creation_timestamp) or seen.now
    finished = max(status.finished_timestamp or second(seen.now), started)
    draft.actions.append(
        EndJob(
            batch.metadata.uid,
            ("SuccessCriteriaMet", "Complete") if completed else ("FailureTarget", "Failed"),
            draft.reason,
            status.message or "",
            started=started,
            at=_since(batch, finished),
            finished=finished if completed else None,
            succeeded=done,
            failed=size - done,
            completed_indexes=completed_indexes,
        )
    )


def _stop_members(
    draft: Draft, batch: kinds.Job, pods: Sequence[kinds.Pod], reason: str, message: str, *, intent: str = ""
) -> None:
    if _has(batch, "FailureTarget"):
        draft.actions += leftover_pods.stop(pods, intent)
    elif any(not pod.ended for pod in pods):
        started, now = moment(batch.metadata.creation_timestamp) or draft.seen.now, second(draft.seen.now)
        draft.actions.append(EndJob(batch.metadata.uid, ("FailureTarget",), reason, message, started=started, at=now))


def _since(batch: kinds.Job, at: datetime) -> datetime:
    """When FailureTarget was written, or the end."""
    found = kinds.condition(batch.status.conditions, "FailureTarget")
    return (moment(found.last_transition_time) if found is not None else None) or at


def _has(batch: kinds.Job, kind: str) -> bool:
    found = kinds.condition(batch.status.conditions, kind)
    return found is not None and found.status == "True"
