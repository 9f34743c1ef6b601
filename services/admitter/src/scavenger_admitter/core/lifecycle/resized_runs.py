"""Runs with recommended requests: they are written before a start, and given up when one was too small."""

from __future__ import annotations

from typing import Final

from scavenger_api.events import RECOMMENDED
from scavenger_domain.pod_ends import Exit

from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.recommended import in_words, own_requests

KILLED: Final = "OOMKilled"
"""The reason of a container that the kernel has killed for its memory (pkg/kubelet/kuberuntime)."""

SOON_SECONDS: Final = 0.05
"""The job is looked at again after so long, with the requests that are written."""


def renew(draft: Draft) -> bool:
    """Whether the status says for the first time what the pods of the next start request. Nothing of an earlier run is
    left by then, so that each run is booked by what its pods requested."""
    if draft.left_over or draft.unsettled:
        return False
    found = draft.known.next_requests()
    if found == draft.status.recommended:
        return False
    draft.set(recommended=found)
    draft.note(RECOMMENDED, in_words(found, own_requests(draft.seen.job)))
    draft.wakeups.append(SOON_SECONDS)
    return True


def too_small(draft: Draft, ended: Exit) -> bool:
    """Whether a container was killed for memory of which its pod requested less than the job asks for. The job has its
    own requests from the next start on. That is forgiven once: while a pod of an earlier run stays, which a finalizer
    of its user may hold, the next run still has what was recommended."""
    found = draft.status.recommended
    if found is None or found.memory is None or found.killed_for_memory or ended.reason != KILLED:
        return False
    draft.set(recommended=found.model_copy(update={"killed_for_memory": True}))
    return True
