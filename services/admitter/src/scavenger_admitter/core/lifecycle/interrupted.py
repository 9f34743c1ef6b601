"""Runs that were ended from outside: the interruption is counted, and the job is in line again."""

from __future__ import annotations

from collections.abc import Mapping

from scavenger_api import names
from scavenger_api.job import Phase
from scavenger_api.reasons import InterruptionReason, WaitReason
from scavenger_domain import interruptions
from scavenger_domain.nodes import cordoned
from scavenger_domain.taints import blocking, tolerates
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle.accounting import second
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.pods import Removal
from scavenger_admitter.core.lifecycle.termination import Removed


def interrupt(draft: Draft, found: Removed) -> None:
    """The run was ended from outside: count it, and put the job in line again."""
    at = min(found.at, draft.seen.now)
    before, last = draft.status, draft.run is None or all(pod.ended for pod in draft.run.pods)
    spent = draft.settle(at, kept=False)
    draft.spend(spent)
    draft.set(
        interrupted_count=before.interrupted_count + 1,
        own_interrupted_count=before.own_interrupted_count + (not _by_others(draft, found.removal)),
        interrupted_timestamps=(*before.interrupted_timestamps, second(at))[-names.MAX_RECENT_TIMESTAMPS :],
    )
    draft.leave_run(WaitReason.QUEUED)
    at_most = not last and spent.lost > 0  # its pods may save more before they have ended
    removal = found.removal
    message = interruptions.tell(removal.cause, removal.pod, removal.detail, spent.lost, at_most=at_most)
    draft.enter(Phase.INTERRUPTED, WaitReason.QUEUED, f"{message}; in line to start again")
    draft.cause = found.removal.cause
    draft.interrupted = found.removal.cause.value
    draft.note(interruptions.EVENT_REASON, message)


def _by_others(draft: Draft, removal: Removal) -> bool:
    """Whether it is certain that not the job's own user did it: such interruptions give a place in line.

    Whoever may edit jobs may delete and evict their pods as well. What others do leaves a trace that users cannot make:
    the reason of a condition, the regulator's note, or, where a drain deletes and evicts, a node that takes no new pods
    (docs/designs/0011-tenancy.md).
    """
    if removal.cause is InterruptionReason.JOB_DELETED:
        return False
    if removal.cause not in (InterruptionReason.DELETED, InterruptionReason.EVICTED):
        return True
    found = next((pod for pod in draft.seen.pods if removal.pod and pod.metadata.name == removal.pod), None)
    return found is not None and _leaving_its_node(found, draft.seen.nodes)


def _leaving_its_node(pod: kinds.Pod, nodes: Mapping[str, kinds.Node | None]) -> bool:
    """Whether the node is cordoned, going or gone, or has a taint that the pod does not tolerate."""
    node = nodes.get(pod.spec.node_name)
    if node is None or cordoned(node):
        return True
    return any(not tolerates(pod.spec.tolerations, taint) for taint in blocking(node.spec.taints))


def phrase(removal: Removal) -> str:
    """What happened, and to which pod, in words."""
    return interruptions.phrase(removal.cause, removal.pod, removal.detail)
