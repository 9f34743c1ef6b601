"""Everything that the regulator writes: levels, evictions, resizes, offers, Events.

Each function is one kind of request; `Writer` makes those of a period, counts what became of them, and
records Events for the users.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeVar

from scavenger_api import names
from scavenger_api.evictions import EvictionNote, EvictionReason
from scavenger_api.levels import LevelsState, PublishedLevels
from scavenger_api.reclaimed import RECLAIMED
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from scavenger_kube.kinds import ConfigMap, Node
from scavenger_kube.resources import CONFIGMAPS, NODES, PODS
from scavenger_kube.scavenger_kinds import AdoptedJob, ScavengerJob
from scavenger_runtime.clock import Clock
from scavenger_runtime.configmaps import apply_configmap, read_configmap
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.jobs_seen import resource_of
from scavenger_runtime.logging import get_logger

from scavenger_regulator import metrics
from scavenger_regulator.core.publication import WARNING_MESSAGES, worth_publishing
from scavenger_regulator.core.reclaimed.node_memory import NodeMemoryPlan
from scavenger_regulator.core.reclaimed.offer import Offer
from scavenger_regulator.core.scope import Victim
from scavenger_regulator.core.snapshot import PodFacts
from scavenger_regulator.core.throttle import Resize
from scavenger_regulator.evictions import EvictionOutcome, evict_gang, shorten
from scavenger_regulator.settings import RegulatorSettings

LABELS: Final = {"app.kubernetes.io/managed-by": names.REGULATOR, "app.kubernetes.io/part-of": "scavenger-jobs"}
AT_ONCE: Final = 8
"""Gangs being evicted, and pods being resized, at the same time."""

ONE_BY_ONE: Final = 16
"""Up to so many victims are evicted one after the other; more of them some at a time, begun in order."""

NODE_MEMORY_SHORT: Final = "NodeMemoryShort"
"""Reason of the Event about a node where no job is left that may go."""

BUDGET_OVERRIDDEN: Final = "BudgetOverridden"
"""Reason of the Event about a job that a disruption budget did not keep."""

OVERRIDDEN: Final = (
    "A PodDisruptionBudget does not hold for preemptible scavenger pods: it refused the eviction, and the pods were "
    "deleted; preemption by the scheduler ignores budgets, too. What keeps work is a checkpoint"
)

T = TypeVar("T")

log = get_logger(__name__)


class ResizeOutcome(StrEnum):
    """What became of a resize."""

    DONE = "accepted"
    REFUSED = "refused"
    """This pod or this cluster cannot do it."""
    FAILED = "failed"


async def resize(client: ApiClient, wanted: Resize) -> ResizeOutcome:
    """Set a container's CPU, the limit as far above the request as before: the API server refuses what changes the QoS
    class of a pod. Never raises ApiError."""
    namespace, _, name = wanted.pod.key.partition("/")
    millicores = max(1, round(wanted.cores * 1000))
    cpu, limit = f"{millicores}m", f"{millicores + round(wanted.pod.limit_above * 1000)}m"
    container: dict[str, Any] = {
        "name": wanted.container,
        "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": limit}},
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


async def write_offer(client: ApiClient, node: str, amounts: Mapping[str, int] | None) -> OfferOutcome:
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
    slots = asyncio.Semaphore(at_once)

    async def one(call: Callable[[], Awaitable[T]]) -> T:
        async with slots:
            return await call()

    return await asyncio.gather(*(one(call) for call in work))


class Writer:
    """Makes the writes of a period. It remembers what it has published, and nothing else decides by it."""

    def __init__(self, client: ApiClient, settings: RegulatorSettings, clock: Clock, events: EventRecorder) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._events = events
        self._published: PublishedLevels | None = None
        self._configmap: ConfigMap | None = None
        self._short_nodes: set[str] = set()
        self._may_withdraw = True

    # --- levels -------------------------------------------------------------------------------------------

    async def read_published(self) -> PublishedLevels | None:
        """The levels as they stand there, None where there are none. Raises ApiError."""
        self._configmap = await read_configmap(self._client, self._settings.namespace, names.LEVELS_CONFIGMAP)
        self._published = PublishedLevels.parse(self._configmap.data) if self._configmap else None
        return self._published

    async def publish(self, new: PublishedLevels) -> bool:
        """Write the levels where that is due, or where another client changed or deleted them; False where it
        failed."""
        settings = self._settings
        due = worth_publishing(self._published, new, self._clock.now(), settings.period)
        if not due and await self._stands():
            return True
        try:
            self._configmap = await apply_configmap(
                self._client, settings.namespace, names.LEVELS_CONFIGMAP, new.to_data(), names.REGULATOR
            )
        except ApiError as error:
            log.warning("levels not published", error=str(error))
            return False
        old, self._published = self._published, new
        self._record_state("", old, new)
        for name, pool in new.pools.items():
            self._record_state(f"pool {name}: ", old.pools.get(name) if old is not None else None, pool)
        return True

    def _record_state(self, pool: str, old: PublishedLevels | None, new: PublishedLevels) -> None:
        """An Event where the state of a pool, or what is said of it, is another one."""
        if self._configmap is None or (old is not None and (old.state, old.message) == (new.state, new.message)):
            return
        text = f"{pool}{_loads(new)}; state {new.state.value}" + (f": {new.message}" if new.message else "")
        worrying = new.state is LevelsState.BLIND or new.message in WARNING_MESSAGES
        self._events.record(CONFIGMAPS, self._configmap, "Warning" if worrying else "Normal", new.state.value, text)

    async def _stands(self) -> bool:
        """Whether the ConfigMap holds what was last written; also where the API server does not say."""
        try:
            found = await read_configmap(self._client, self._settings.namespace, names.LEVELS_CONFIGMAP)
        except ApiError as error:
            log.info("published levels not read", error=str(error))
            return True
        return found is not None and self._configmap is not None and found.data == self._configmap.data

    # --- evictions ----------------------------------------------------------------------------------------

    async def evict(
        self, victims: Sequence[Victim], job_of: Callable[[str], ScavengerJob | None]
    ) -> list[EvictionOutcome]:
        """Evict in order; what became of each. job_of: the job of a unit, to tell its user."""
        at_once = 1 if len(victims) <= ONE_BY_ONE else AT_ONCE
        return await in_order([partial(self._evict, one, job_of) for one in victims], at_once)

    async def _evict(self, victim: Victim, job_of: Callable[[str], ScavengerJob | None]) -> EvictionOutcome:
        candidate, reason = victim.candidate, victim.reason
        outcome = EvictionOutcome.DRY_RUN
        if not self._settings.dry_run:
            outcome = await evict_gang(self._client, candidate.gang.pods, EvictionNote(reason, self._clock.now()))
        metrics.EVICTIONS.labels(reason.value, outcome.value).inc()
        log.info(
            "eviction",
            job=candidate.gang.key,
            reason=reason.value,
            outcome=outcome.value,
            scope=victim.scope or "cluster",
            cpu_seconds_lost=round(candidate.loss, 1),
            frees={r: round(points, 2) for r, points in candidate.frees.items()},
        )
        job = job_of(candidate.gang.key)
        told = job is not None and not isinstance(job, AdoptedJob)  # clients of Jobs read no Event but warnings
        if job is not None and told and (outcome.interrupted or outcome is EvictionOutcome.DRY_RUN):
            self._events.normal(resource_of(job), job, reason.value, _why(victim, outcome))
        if job is not None and outcome is EvictionOutcome.DELETED:
            self._events.warning(resource_of(job), job, BUDGET_OVERRIDDEN, OVERRIDDEN)
        return outcome

    async def shorten(self, pods: Sequence[PodFacts]) -> None:
        """Hold deletions to the grace periods of the pods: a client that asks for a longer one would keep pods waiting
        for capacity that does not come."""
        if self._settings.dry_run:
            return
        outcomes = await in_order([partial(shorten, self._client, one) for one in pods])
        for pod, done in zip(pods, outcomes, strict=True):
            if done:
                log.info("grace period shortened", pod=pod.key, seconds=pod.grace)

    def record_node_memory(self, plans: Sequence[NodeMemoryPlan], node_of: Callable[[str], Node | None]) -> set[str]:
        """Events about nodes that are short of memory and have not been before; their names."""
        short = {plan.node: plan for plan in plans if plan.short > 0}
        newly_short = short.keys() - self._short_nodes
        for name, plan in short.items():
            node = node_of(name)
            if name in newly_short and node is not None:
                self._events.warning(NODES, node, NODE_MEMORY_SHORT, _shortage(plan))
        self._short_nodes = set(short)
        return newly_short

    # --- resizes ------------------------------------------------------------------------------------------

    async def resize(self, wanted: Sequence[Resize]) -> None:
        """Throttle or give back."""
        if self._settings.dry_run:
            return
        outcomes = await in_order([partial(resize, self._client, one) for one in wanted])
        for one, outcome in zip(wanted, outcomes, strict=True):
            direction = "throttled" if one.throttles else "restored"
            if outcome is ResizeOutcome.DONE:
                log.info("resized", pod=one.pod.key, container=one.container, cores=one.cores, direction=direction)

    # --- offers -------------------------------------------------------------------------------------------

    async def offer(self, offers: Sequence[Offer]) -> None:
        """Show on each node what it offers."""
        if self._settings.dry_run or not offers:
            return  # a job that came by an offer could not be evicted before its node runs out of memory
        outcomes = await in_order([partial(write_offer, self._client, one.node, one.amounts) for one in offers])
        written = sum(outcome is OfferOutcome.WRITTEN for outcome in outcomes)
        log.debug("offers", written=written, failed=len(offers) - written)

    async def withdraw(self, nodes: Sequence[str]) -> None:
        """Take both resources off the nodes that show them, left from when this was on. Without the right to do so, say
        it once."""
        if not self._may_withdraw or self._settings.dry_run or not nodes:
            return
        for name in nodes:
            outcome = await write_offer(self._client, name, None)
            if outcome is OfferOutcome.FORBIDDEN:
                self._may_withdraw = False
                log.warning(
                    "nodes still offer reclaimed capacity, and nothing renews it: keep the chart's reclaimed.enabled "
                    "on, with settings.reclaimed off, until they no longer do",
                    nodes=len(nodes),
                )
                return
        log.info("offers withdrawn", nodes=len(nodes))


# --- the words of the Events ----------------------------------------------------------------------------------


def _loads(levels: PublishedLevels) -> str:
    shown = [f"{r} {one.load:.1f} % of {one.lower:.1f} to {one.upper:.1f} %" for r, one in levels.resources.items()]
    return "load " + ", ".join(shown) if shown else "load unknown"


def _why(victim: Victim, outcome: EvictionOutcome) -> str:
    why = {
        EvictionReason.ABOVE_UPPER: "the load reached the eviction threshold",
        EvictionReason.YIELD: "the load is at the admission threshold, and the job had just passed a checkpoint",
        EvictionReason.NODE_MEMORY: f"the memory of node {victim.scope} reaches its eviction threshold",
    }[victim.reason]
    did = "Would be evicted" if outcome is EvictionOutcome.DRY_RUN else "Evicted"
    return f"{did} because {why}; {victim.candidate.loss:.0f} CPU-seconds since the last checkpoint"


def _shortage(plan: NodeMemoryPlan) -> str:
    text = (
        f"memory at {plan.load:.1f} %, {plan.projected:.1f} % expected, eviction threshold {plan.upper:.1f} %, and "
        f"{plan.short:.1f} points more than jobs on reclaimed capacity could free"
    )
    return text + (f"; {plan.protected} of them are covered by a disruption budget" if plan.protected else "")
