"""Runs that were ended from outside: the interruption is counted, and the job is in line again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scavenger_api import names
from scavenger_api.job import Phase
from scavenger_api.reasons import InterruptionReason, WaitReason
from scavenger_domain.nodes import cordoned
from scavenger_domain.taints import blocking, tolerates
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle.accounting import second
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.pods import PHRASES, Removal
from scavenger_admitter.core.lifecycle.termination import Removed

_WITHOUT_A_POD: Final = {
    InterruptionReason.JOB_DELETED: "its Job was deleted",
    InterruptionReason.QUEUE_RECLAIMED: "its room was taken back",
    InterruptionReason.STARVED: "it was starved",
}
"""What happened to a run, where no single pod is to be named."""


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
    bound = "" if last or spent.lost <= 0 else "at most "  # its pods may save more before they have ended
    message = f"interrupted: {phrase(found.removal)}; {bound}{spent.lost:.0f} CPU-seconds lost"
    draft.enter(Phase.INTERRUPTED, WaitReason.QUEUED, f"{message}; in line to start again")
    draft.cause = found.removal.cause
    draft.interrupted = found.removal.cause.value
    draft.note("Interrupted", message)


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
    who = f"pod {removal.pod} {PHRASES[removal.cause]}" if removal.pod else ""
    if not who:
        who = _WITHOUT_A_POD.get(removal.cause, "one of its pods is gone")
    return f"{who} ({removal.detail})" if removal.detail else who
