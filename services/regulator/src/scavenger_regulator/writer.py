"""What the regulator writes: levels, memory, evictions, resizes. Each function is one kind of request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec
from scavenger_api import names
from scavenger_api.evictions import ANNOTATION_EVICTION_REASON, EvictionNote
from scavenger_api.levels import PublishedLevels
from scavenger_api.reclaimed import RECLAIMED
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, TooManyRequests
from scavenger_kube.kinds import ConfigMap
from scavenger_kube.resources import CONFIGMAPS, NODES, PODS
from scavenger_runtime.logging import get_logger

from scavenger_regulator.core.snapshot import PodFacts
from scavenger_regulator.core.throttle import Resize

STATE_CONFIGMAP: Final = "scavenger-regulator-state"
PROFILES_CONFIGMAP: Final = "scavenger-regulator-profiles"
LABELS: Final = {"app.kubernetes.io/managed-by": names.REGULATOR, "app.kubernetes.io/part-of": "scavenger-jobs"}
AT_ONCE: Final = 8
"""Gangs being evicted, and pods being resized, at the same time."""

T = TypeVar("T")

log = get_logger(__name__)

_configmap = msgspec.json.Decoder(ConfigMap)


class EvictionOutcome(StrEnum):
    """What became of the eviction of a gang."""

    EVICTED = "evicted"
    REFUSED = "refused"
    """A disruption budget covers it."""
    GONE = "gone"
    """There was nothing left to evict."""
    FAILED = "failed"
    DRY_RUN = "dry-run"


async def read_configmap(client: ApiClient, namespace: str, name: str) -> ConfigMap | None:
    """The ConfigMap, None where it does not exist. Raises ApiError."""
    try:
        return _configmap.decode(await client.get(CONFIGMAPS, namespace, name))
    except NotFound:
        return None


async def apply_configmap(client: ApiClient, namespace: str, name: str, data: Mapping[str, str]) -> ConfigMap:
    """Own exactly these keys by server-side apply; keys written before and not given now go. Raises ApiError."""
    body = {
        "apiVersion": CONFIGMAPS.api_version,
        "kind": CONFIGMAPS.kind,
        "metadata": {"namespace": namespace, "name": name, "labels": LABELS},
        "data": data,
    }
    answer = await client.apply(CONFIGMAPS, namespace, name, body, field_manager=names.REGULATOR)
    return _configmap.decode(answer)


async def publish(client: ApiClient, namespace: str, levels: PublishedLevels) -> ConfigMap:
    """Write the levels. Raises ApiError."""
    return await apply_configmap(client, namespace, names.LEVELS_CONFIGMAP, levels.to_data())


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
        if outcome is not EvictionOutcome.EVICTED:
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
    except TooManyRequests as refusal:
        # by a budget, or because the server sheds load: not evicted either way
        log.info("eviction refused", pod=pod.key, causes=sorted(refusal.causes()), error=str(refusal))
        return EvictionOutcome.REFUSED if "DisruptionBudget" in refusal.causes() else EvictionOutcome.FAILED
    except ApiError as error:
        log.warning("eviction failed", pod=pod.key, error=str(error))
        return EvictionOutcome.FAILED
    return EvictionOutcome.EVICTED if evicted else EvictionOutcome.GONE


class ResizeOutcome(StrEnum):
    """What became of a resize."""

    DONE = "accepted"
    REFUSED = "refused"
    """This pod or this cluster cannot do it."""
    FAILED = "failed"


async def resize(client: ApiClient, wanted: Resize) -> ResizeOutcome:
    """Set a container's CPU, request and limit together (a Guaranteed pod stays one). Never raises ApiError."""
    namespace, _, name = wanted.pod.key.partition("/")
    cpu = f"{max(1, round(wanted.cores * 1000))}m"
    container: dict[str, Any] = {
        "name": wanted.container,
        "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}},
    }
    body = {"metadata": {"uid": wanted.pod.uid}, "spec": {"containers": [container]}}
    try:
        await client.strategic_patch(PODS, namespace, name, body, subresource="resize")
    except (NotFound, Conflict):
        return ResizeOutcome.FAILED
    except Invalid as error:
        log.info("resize refused", pod=wanted.pod.key, cpu=cpu, error=str(error))
        return ResizeOutcome.REFUSED
    except ApiError as error:
        log.warning("resize failed", pod=wanted.pod.key, cpu=cpu, error=str(error))
        return ResizeOutcome.FAILED
    return ResizeOutcome.DONE


class OfferOutcome(StrEnum):
    """What became of a write of what a node offers."""

    WRITTEN = "written"
    GONE = "gone"
    """There is no such node any more."""
    FORBIDDEN = "forbidden"
    """The role or the policy that belongs to the feature is missing."""
    FAILED = "failed"


async def offer(client: ApiClient, node: str, amounts: Mapping[str, int] | None) -> OfferOutcome:
    """Show in a node's status what it offers, in millicores and MiB; None takes both resources away.

    A kubelet copies the capacity to what can be allocated with its next heartbeat; so that the scheduler need not wait
    for it, and for nodes without a kubelet, both are written. Never raises ApiError.
    """
    shown = {
        extended: None if amounts is None else str(amounts.get(resource, 0))
        for resource, (extended, _) in RECLAIMED.items()
    }
    try:
        await client.merge_patch(
            NODES, None, node, {"status": {"capacity": shown, "allocatable": shown}}, subresource="status"
        )
    except NotFound:
        return OfferOutcome.GONE
    except Forbidden as error:
        log.warning("offer forbidden", node=node, error=str(error))
        return OfferOutcome.FORBIDDEN
    except ApiError as error:
        # a conflict included: the next period looks again
        log.info("offer not written", node=node, error=str(error))
        return OfferOutcome.FAILED
    return OfferOutcome.WRITTEN


async def in_order(work: Sequence[Callable[[], Awaitable[T]]], at_once: int = AT_ONCE) -> list[T]:
    """Begin each in its turn, some at the same time; the results in order."""
    places = asyncio.Semaphore(at_once)

    async def one(call: Callable[[], Awaitable[T]]) -> T:
        async with places:
            return await call()

    return await asyncio.gather(*(one(call) for call in work))
