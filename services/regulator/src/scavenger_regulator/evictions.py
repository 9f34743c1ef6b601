"""The requests by which pods are made to leave: evicted, deleted where a disruption budget forbids that, or hurried."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec
from scavenger_api import names
from scavenger_api.evictions import ANNOTATION_EVICTION_REASON, EvictionNote
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, Conflict, NotFound, by_budget
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import PODS
from scavenger_runtime.logging import get_logger

from scavenger_regulator.core.snapshot import PodFacts

LOOKS: Final = 3
"""How often a pod that changes between the look and the delete is looked at."""

SCAVENGER_CLASSES: Final = (names.PRIORITY_CLASS_PREEMPTIBLE, names.PRIORITY_CLASS_NON_PREEMPTIBLE)

log = get_logger(__name__)

_pod = msgspec.json.Decoder(Pod)


class EvictionOutcome(StrEnum):
    """What became of the eviction of a gang."""

    EVICTED = "evicted"
    DELETED = "deleted"
    """A disruption budget refused it, and the pods, being preemptible, were deleted."""
    REFUSED = "refused"
    """A disruption budget covers it, and it is not preemptible."""
    GONE = "gone"
    """There was nothing left to evict."""
    FAILED = "failed"
    DRY_RUN = "dry-run"

    @property
    def interrupted(self) -> bool:
        """Whether the gang is on its way out because of it."""
        return self in (EvictionOutcome.EVICTED, EvictionOutcome.DELETED)


async def evict_gang(client: ApiClient, pods: Sequence[PodFacts], note: EvictionNote) -> EvictionOutcome:
    """Evict the pods of a gang, the reason noted on each just before.

    One pod gone is a gang interrupted, so whether the first could be evicted decides: where it is refused, the others
    are left alone; where it is not, what happens to the others changes nothing. Never raises ApiError.
    """
    outcome = EvictionOutcome.GONE
    for pod in pods:
        if pod.deletion_deadline is not None:
            continue
        result = await _evict(client, pod, note)
        if not outcome.interrupted or result is EvictionOutcome.DELETED:
            outcome = result
        if outcome in (EvictionOutcome.REFUSED, EvictionOutcome.FAILED):
            return outcome
    return outcome


async def _evict(client: ApiClient, pod: PodFacts, note: EvictionNote) -> EvictionOutcome:
    """One pod: this very one (its UID), not a later pod of the same name."""
    namespace, _, name = pod.key.partition("/")
    annotations = {ANNOTATION_EVICTION_REASON: str(note)}
    try:
        await client.merge_patch(PODS, namespace, name, {"metadata": {"uid": pod.uid, "annotations": annotations}})
        evicted = await client.evict(namespace, name, uid=pod.uid)
    except (NotFound, Conflict):
        return EvictionOutcome.GONE
    except ApiError as error:
        # a server that sheds load says 429 as well: not evicted, and no budget's doing
        if by_budget(error):
            log.info("eviction refused", pod=pod.key, causes=sorted(error.causes()), error=str(error))
            return await _delete(client, pod)
        log.warning("eviction failed", pod=pod.key, error=str(error))
        return EvictionOutcome.FAILED
    return EvictionOutcome.EVICTED if evicted else EvictionOutcome.GONE


async def _delete(client: ApiClient, pod: PodFacts) -> EvictionOutcome:
    """Delete a pod whose eviction a budget refused, if it is preemptible at this very moment.

    The prioritizer's own budgets select what is not, so another owner's budget kept a preemptible pod. The scheduler's
    preemption asks no budget either, where no other victim is left; otherwise a user who adds one would have others go
    instead. The resource version makes sure that the class is still the one that was looked at.
    """
    namespace, _, name = pod.key.partition("/")
    try:
        for _ in range(LOOKS):
            found = _pod.decode(await client.get(PODS, namespace, name))
            if found.metadata.uid != pod.uid or found.metadata.deletion_timestamp is not None:
                return EvictionOutcome.GONE
            if not _preemptible(found):
                return EvictionOutcome.REFUSED
            version = found.metadata.resource_version
            try:
                deleted = await client.delete(PODS, namespace, name, uid=pod.uid, resource_version=version)
            except Conflict:
                continue
            return EvictionOutcome.DELETED if deleted else EvictionOutcome.GONE
    except NotFound:
        return EvictionOutcome.GONE
    except ApiError as error:
        log.warning("deletion failed", pod=pod.key, error=str(error))
    return EvictionOutcome.FAILED


def _preemptible(pod: Pod) -> bool:
    """By label and PriorityClass; the regulator does not delete a pod that lacks either."""
    labels = pod.metadata.labels
    return (
        names.LABEL_JOB in labels
        and labels.get(names.LABEL_PREEMPTION_CLASS) == names.PREEMPTIBLE
        and pod.spec.priority_class_name in SCAVENGER_CLASSES
    )


async def shorten(client: ApiClient, pod: PodFacts) -> bool:
    """Give a pod that is being deleted its own grace period instead of the longer one that was asked for; False where
    that failed. To evict a pod that is on its way out is to delete it again, past all budgets. Never raises ApiError.
    """
    namespace, _, name = pod.key.partition("/")
    try:
        await client.evict(namespace, name, uid=pod.uid, grace_period=int(pod.grace))
    except (NotFound, Conflict):
        return True
    except ApiError as error:
        log.warning("grace period not shortened", pod=pod.key, error=str(error))
        return False
    return True
