"""Runs that were ended from outside: the interruption is counted, and the job is queued again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scavenger_api.job import Phase
from scavenger_api.reasons import InterruptionReason, WaitReason
from scavenger_domain import interruptions
from scavenger_domain.nodes import cordoned
from scavenger_domain.pod_ends import Removal
from scavenger_domain.taints import blocking, tolerates
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle.accounting import cores, rests_until, short_run
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.verdict import Removed

_OVER_ITS_REQUEST: Final = "has larger consumption of ephemeral-storage"
"""The kubelet says so of a container when the node runs out of storage (eviction/helpers.go, containerMessageFmt)."""


def interrupt(draft: Draft, found: Removed) -> None:
    """The run was ended from outside: count it, and queue the job again."""
    at = min(found.at, draft.seen.now)
    before, last = draft.status, draft.run is None or all(pod.ended for pod in draft.run.pods)
    rules = draft.rules
    had_turn = rules.turns and not short_run(before, draft.seen.job.spec, at, rules.trusted_interval)
    spent = draft.settle(at, kept=False)
    draft.set(**_place(draft, found.removal, had_turn=had_turn))
    draft.count_interruption(at)
    short = draft.count_short(found.removal.cause)
    draft.leave_run(WaitReason.QUEUED, keep_place=rules.least_served)
    at_most = not last and spent.lost > 0  # its pods may save more before they have ended
    removal = found.removal
    message = interruptions.tell(removal.cause, removal.pod, removal.detail, spent.lost, at_most=at_most)
    draft.enter(Phase.INTERRUPTED, WaitReason.QUEUED, f"{message}; queued to start again")
    if (until := rests_until(draft.status)) is not None:
        draft.enter(Phase.INTERRUPTED, WaitReason.BACKING_OFF, f"{message}; {short}: not started before {until:%X} UTC")
    draft.cause = found.removal.cause
    draft.interrupted = found.removal.cause.value
    draft.note(interruptions.EVENT_REASON, message)


def _place(draft: Draft, removal: Removal, *, had_turn: bool) -> dict[str, Any]:
    """Whether the interruption gives a place in the queue, as the status says it.

    At most one for each reclaim period that the job has computed, and only in the queue in which it was earned: no job
    may reach the head of a queue by interruptions that cost nothing (docs/designs/0011-tenancy.md). A job that has
    had its turn gives up all places (docs/designs/0025-who-passes-whom.md).
    """
    status, queue = draft.status, draft.seen.job.spec.queue
    if had_turn:
        return {"own_interrupted_count": status.interrupted_count + 1, "earned_queue": queue}
    elsewhere = status.earned_queue not in (None, queue)
    own = status.interrupted_count if elsewhere else status.own_interrupted_count
    computed, since = status.useful_cpu_seconds + status.lost_cpu_seconds, status.earned_cpu_seconds
    worth = cores(draft.seen.job.spec) * draft.rules.reclaim_period.total_seconds()
    if not by_others(draft, removal) or (since is not None and computed - since < worth):
        return {"own_interrupted_count": own + 1, "earned_queue": queue}
    return {"own_interrupted_count": own, "earned_queue": queue, "earned_cpu_seconds": computed}


def by_others(draft: Draft, removal: Removal) -> bool:
    """Whether it is certain that not the job's own user did it: such interruptions give a place in the queue.

    Users who may edit jobs may delete and evict their pods as well. What others do leaves a trace that users cannot
    make: the reason of a condition, the regulator's note, or, where a drain deletes and evicts, a node that takes no
    new pods (docs/designs/0011-tenancy.md).
    """
    if removal.cause in (InterruptionReason.JOB_DELETED, InterruptionReason.MAX_RUNNING):
        return False
    if removal.cause is InterruptionReason.KUBELET_EVICTED:
        return _OVER_ITS_REQUEST not in removal.detail
    found = next((pod for pod in draft.seen.pods if removal.pod and pod.metadata.name == removal.pod), None)
    if removal.cause is InterruptionReason.PREEMPTED:
        return found is None or not draft.known.wanted_by_own(found.spec.node_name)
    if removal.cause not in (InterruptionReason.DELETED, InterruptionReason.EVICTED):
        return True
    return found is not None and _leaving_its_node(found, draft.seen.nodes)


def _leaving_its_node(pod: kinds.Pod, nodes: Mapping[str, kinds.Node | None]) -> bool:
    """Whether the node is cordoned, going or gone, or has a taint that the pod does not tolerate."""
    node = nodes.get(pod.spec.node_name)
    if node is None or cordoned(node):
        return True
    return any(not tolerates(pod.spec.tolerations, taint) for taint in blocking(node.spec.taints))
