"""The shell around `offer` and `node_memory`: what nodes offer is learned, published, kept, and taken away again.

It remembers what a period needs of those before it; what is offered stands in the nodes' status and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from scavenger_api.evictions import EvictionReason
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError
from scavenger_kube.kinds import Node
from scavenger_kube.resources import NODES
from scavenger_runtime.clock import Clock
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.informer import Informer
from scavenger_runtime.logging import get_logger
from scavenger_runtime.usage import Sample, UsageMeter

from scavenger_regulator import metrics
from scavenger_regulator.core.plan import Decision, Victim
from scavenger_regulator.core.reclaimed.node_memory import NodeMemoryPlan, Trend, follow, plan_node_memory
from scavenger_regulator.core.reclaimed.offer import (
    LastSample,
    Offer,
    latest_samples,
    learn,
    plan_offers,
    to_write,
    uses,
)
from scavenger_regulator.core.reclaimed.profile import Profiles
from scavenger_regulator.core.snapshot import Snapshot
from scavenger_regulator.core.state import KEY_SOURCE, MAX_BYTES
from scavenger_regulator.facts import node_facts
from scavenger_regulator.settings import RegulatorSettings
from scavenger_regulator.writer import (
    PROFILES_CONFIGMAP,
    OfferOutcome,
    apply_configmap,
    in_order,
    offer,
    read_configmap,
)

KEY_PROFILES: Final = "profiles"
SAVE_EVERY: Final = timedelta(minutes=10)
"""So much of what was learned is lost at most when the process is killed."""

SHORT: Final = "NodeMemoryShort"
"""Reason of the Event about a node where nobody is left who may go."""

log = get_logger(__name__)


class ReclaimedCapacity:
    """What nodes offer, and the memory that it takes. Does nothing but withdraw old offers where it is off."""

    def __init__(
        self,
        client: ApiClient,
        settings: RegulatorSettings,
        clock: Clock,
        events: EventRecorder,
        nodes: Informer[Node],
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._events = events
        self._nodes = nodes
        self._rules = settings.offer_rules()
        self._memory_rules = settings.node_memory_rules()
        self._profiles = Profiles(self._rules.half_life)
        self._last_samples: dict[str, LastSample] = {}
        self._trends: dict[str, Trend] = {}
        self._meter = UsageMeter()
        self._short: set[str] = set()
        self._due: list[Offer] = []
        self._saved: datetime | None = None
        self._may_withdraw = True

    @property
    def enabled(self) -> bool:
        """Whether nodes offer anything."""
        return self._rules.enabled

    # --- CPU time -----------------------------------------------------------------------------------------

    def watch(self, snapshot: Snapshot) -> None:
        """Add up what pods on reclaimed capacity use."""
        if not self.enabled:
            return
        pods = [pod for gang in snapshot.gangs for pod in gang.pods if pod.reclaimed]
        for pod in pods:
            figure = snapshot.measurement.pods.get(pod.key, {}).get("cpu")
            if figure is not None:
                self._meter.observe(Sample(pod.uid, figure.value, figure.at.timestamp(), figure.window))
        self._meter.keep({pod.uid for pod in pods})

    def cpu_time(self, uid: str, since: datetime, until: datetime) -> float | None:
        """As `snapshot.CpuTime`."""
        return self._meter.cpu_seconds(uid, since.timestamp(), until.timestamp())

    # --- memory -------------------------------------------------------------------------------------------

    def memory_victims(self, snapshot: Snapshot, decision: Decision) -> tuple[Victim, ...]:
        """Who has to go so that no node runs out of memory, beside those of the decision."""
        if not self.enabled:
            return ()
        self._trends = follow(self._trends, snapshot, self._memory_rules.trust)
        taken = {victim.candidate.gang.uid for victim in decision.victims}
        uppers = {node: levels["memory"].upper for node in snapshot.nodes if (levels := decision.levels_on(node))}
        plans = plan_node_memory(snapshot, uppers, self._trends, self._memory_rules, taken)
        metrics.show_node_memory(plans)
        for plan in plans:
            self._record_memory(plan)
        self._short = {plan.node for plan in plans if plan.short > 0}
        return tuple(Victim(one, EvictionReason.NODE_MEMORY, plan.node) for plan in plans for one in plan.victims)

    def _record_memory(self, plan: NodeMemoryPlan) -> None:
        newly_short = plan.short > 0 and plan.node not in self._short
        say = log.info if plan.victims or newly_short else log.debug
        say(
            "node memory",
            node=plan.node,
            load=round(plan.load, 2),
            projected=round(plan.projected, 2),
            upper=round(plan.upper, 2),
            victims=len(plan.victims),
            short=round(plan.short, 2),
            kept=plan.kept,
        )
        node = self._nodes.get(plan.node)
        if newly_short and node is not None:
            text = (
                f"memory at {plan.load:.1f} %, {plan.projected:.1f} % expected, upper level {plan.upper:.1f} %, and "
                f"{plan.short:.1f} points more than jobs on reclaimed capacity could free"
            )
            covered = f"; {plan.kept} of them are covered by a disruption budget" if plan.kept else ""
            self._events.warning(NODES, node, SHORT, text + covered)

    # --- offers -------------------------------------------------------------------------------------------

    def plan(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """Learn from the measurement, and plan what each node offers; the decision with the nodes that are crowded."""
        if not self.enabled:
            return decision
        found = uses(snapshot, self._memory_rules.trust)
        self._last_samples = latest_samples(self._last_samples, snapshot, found)
        learn(self._profiles, snapshot, found)
        levels = {
            node: {resource: one.admission for resource, one in on_node.items()}
            for node in snapshot.nodes
            if (on_node := decision.levels_on(node))
        }
        planned = plan_offers(snapshot, found, self._last_samples, levels, self._profiles, self._rules)
        metrics.show_offers(planned.values(), found.values())
        self._due = to_write(snapshot.nodes, planned.values())
        crowded = {name: one.crowded for name, one in planned.items() if one.crowded is not None}
        return replace(decision, published=replace(decision.published, crowded_nodes=crowded))

    async def offer(self) -> None:
        """Show on each node what was planned."""
        if self.enabled:
            await self._write(self._due)
        else:
            await self._withdraw()

    async def _write(self, offers: Sequence[Offer]) -> None:
        if self._settings.dry_run:
            return  # whoever came by an offer could not be evicted before its node runs out of memory
        outcomes = await in_order([partial(offer, self._client, one.node, one.amounts) for one in offers])
        for outcome in outcomes:
            metrics.OFFERS.labels(outcome.value).inc()
        if offers:
            written = sum(outcome is OfferOutcome.WRITTEN for outcome in outcomes)
            log.debug("offers", written=written, failed=len(offers) - written)

    async def _withdraw(self) -> None:
        """Take both resources off the nodes that show them, left from when this was on. Without the right to do so, say
        it once."""
        if not self._may_withdraw or self._settings.dry_run:
            return
        facts = [node_facts(node, ()) for node in self._nodes.items()]
        shown = [node.name for node in facts if node.offered or not node.copied]
        for name in shown:
            outcome = await offer(self._client, name, None)
            metrics.OFFERS.labels(outcome.value).inc()
            if outcome is OfferOutcome.FORBIDDEN:
                self._may_withdraw = False
                log.warning(
                    "nodes still offer reclaimed capacity, and nothing renews it: keep the chart's reclaimed.enabled "
                    "on, with settings.reclaimed off, until they no longer do",
                    nodes=len(shown),
                )
                return
        if shown:
            log.info("offers withdrawn", nodes=len(shown))

    # --- what is kept -------------------------------------------------------------------------------------

    async def restore(self, source: str, now: datetime) -> None:
        """Take up what a predecessor learned in the same way of measuring. Raises ApiError."""
        if not self.enabled:
            return
        found = await read_configmap(self._client, self._settings.namespace, PROFILES_CONFIGMAP)
        data = found.data if found is not None and found.data.get(KEY_SOURCE) == source else {}
        names = [node.metadata.name for node in self._nodes.items()]
        self._profiles = Profiles.load(data.get(KEY_PROFILES), self._rules.half_life, names, now)
        self._last_samples, self._trends, self._saved = {}, {}, now
        log.info("profiles", nodes=len(self._profiles.nodes))

    async def save(self, source: str, now: datetime, *, due: bool = True) -> None:
        """Keep what was learned; due: only now and then. Raises ApiError."""
        if not self.enabled or (due and self._saved is not None and now - self._saved < SAVE_EVERY):
            return
        data = {KEY_PROFILES: self._profiles.dump(MAX_BYTES), KEY_SOURCE: source}
        try:
            await apply_configmap(self._client, self._settings.namespace, PROFILES_CONFIGMAP, data)
        except ApiError as error:
            metrics.SAVED.labels("failed").inc()
            log.warning("profiles not saved", error=str(error))
            raise
        metrics.SAVED.labels("written").inc()
        self._saved = now
