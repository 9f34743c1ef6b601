"""Memory cannot give way: which jobs have to go before a node runs out of it. Pure.

A pod on reclaimed capacity uses memory that others have requested. When they come to use it, the kubelet would evict,
or the kernel kill, in their own order and without regard to what is lost. So memory is freed earlier, node by node:
when the memory in use, or what it will be in two periods if it goes on growing, reaches the node's eviction threshold.
Then jobs on reclaimed capacity go until it is under the threshold by the hysteresis, those that lose the least CPU time
first. Each counts with the memory that it was measured to use there. A job that turns out not to be needed is spared.

Jobs with a guarantee are not victims here: what they use was set aside for them. Units: points of the node's
allocatable memory unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from scavenger_regulator.core.eviction.candidates import candidates, leaving, pending_release
from scavenger_regulator.core.eviction.choice import least_lossy
from scavenger_regulator.core.eviction.plan import CLOSED, Candidate
from scavenger_regulator.core.load import Fresh, Reading, Trust, believed, read_load
from scavenger_regulator.core.rules import NodeMemoryRules
from scavenger_regulator.core.snapshot import Gang, NodeFacts, RecentTermination, Snapshot

MEMORY: Final = "memory"
KEPT: Final = 3
"""Samples of a node: two intervals. Growth in only one of them is a jump, not a trend."""


@dataclass(frozen=True, slots=True)
class Trend:
    """The last samples of a node's memory: when, and bytes in use; oldest first."""

    samples: tuple[tuple[datetime, float], ...] = ()

    def add(self, at: datetime, used: float) -> Trend:
        """With one more sample; one that is no newer than the last changes nothing, but after a clock was set back it
        begins again."""
        if self.samples and at == self.samples[-1][0]:
            return self
        kept = self.samples if self.samples and at > self.samples[-1][0] else ()
        return Trend((*kept, (at, used))[-KEPT:])

    @property
    def growth(self) -> float:
        """Bytes per second by which it has been growing, the least of the last intervals; never negative."""
        pairs = list(zip(self.samples, self.samples[1:], strict=False))
        if len(pairs) < KEPT - 1:
            return 0.0
        rates = [(used - before) / (at - since).total_seconds() for (since, before), (at, used) in pairs]
        return max(0.0, min(rates))


@dataclass(frozen=True, slots=True)
class NodeMemoryPlan:
    """The victims on one node. load: percent now; projected: with the growth that is going on, without what is leaving.
    short: points that stay too many, as no job is left that may go. protected: jobs there that a disruption budget
    covers. postponed: the limit on victims leaves some for the next period."""

    node: str
    load: float
    projected: float
    upper: float
    victims: tuple[Candidate, ...] = ()
    short: float = 0.0
    protected: int = 0
    postponed: bool = False


def update_trends(trends: Mapping[str, Trend], snapshot: Snapshot, trust: Trust) -> dict[str, Trend]:
    """The trends with the present measurement, of the nodes that exist; where a node has no figure that can be
    believed, what is known of it stays."""
    followed, fresh = {}, Fresh(snapshot.now, trust)
    for name, node in snapshot.nodes.items():
        trend = trends.get(name, Trend())
        measurable = node.allocatable.get("cpu", 0.0) > 0 and node.allocatable.get(MEMORY, 0.0) > 0
        figures = believed(node, snapshot.measurement.nodes.get(name), fresh) if measurable else None
        if figures is not None:
            trend = trend.add(figures[MEMORY].at, figures[MEMORY].value)
        followed[name] = trend
    return followed


def plan_node_memory(
    snapshot: Snapshot,
    uppers: Mapping[str, float],
    trends: Mapping[str, Trend],
    rules: NodeMemoryRules,
    taken: Collection[str] = (),
) -> tuple[NodeMemoryPlan, ...]:
    """The nodes that are, or are about to be, above their eviction threshold of memory, and the victims there.

    uppers: node → percent; nodes without one are left alone. taken: UIDs of gangs that are evicted now for other
        reasons.
    """
    gone, plans, left = set(taken), [], rules.max_victims
    recent_terminations = snapshot.recent_terminations_by_node
    for name, gangs in sorted(_with_reclaimed(snapshot).items()):
        if name not in uppers or name not in snapshot.nodes:
            continue
        reading = _reading(snapshot, snapshot.nodes[name], gangs, rules.trust)
        if reading is None or reading.since < snapshot.started:
            continue  # what the predecessor of this process evicted may still be in the figure
        plan = _plan(
            snapshot,
            reading,
            gangs,
            recent_terminations.get(name, []),
            uppers[name],
            trends.get(name, Trend()),
            rules,
            gone,
            left,
        )
        if plan is not None:
            plans.append(plan)
            gone.update(victim.gang.uid for victim in plan.victims)
            left -= len(plan.victims)
    return tuple(plans)


def _with_reclaimed(snapshot: Snapshot) -> dict[str, list[Gang]]:
    """The gangs with a pod there, by node, of the nodes that have a pod on reclaimed capacity."""
    found: dict[str, list[Gang]] = {}
    there: set[str] = set()
    for gang in snapshot.gangs:
        for node in {pod.node for pod in gang.pods}:
            found.setdefault(node, []).append(gang)
        there.update(pod.node for pod in gang.pods if pod.reclaimed and pod.deletion_deadline is None)
    return {node: gangs for node, gangs in found.items() if node in there}


def _reading(snapshot: Snapshot, node: NodeFacts, gangs: Iterable[Gang], trust: Trust) -> Reading | None:
    """Its load, whether or not anything new may be placed there."""
    whole = replace(node, counts=True)
    reading = read_load(node.name, [whole], gangs, snapshot.measurement, snapshot.now, trust)
    return reading if isinstance(reading, Reading) else None


def _plan(
    snapshot: Snapshot,
    reading: Reading,
    gangs: list[Gang],
    recent_terminations: Iterable[RecentTermination],
    upper: float,
    trend: Trend,
    rules: NodeMemoryRules,
    taken: Collection[str],
    limit: int,
) -> NodeMemoryPlan | None:
    trust = rules.trust
    going = pending_release(gangs, recent_terminations, reading, snapshot, trust, taken=taken)[MEMORY]
    growth = reading.percent(MEMORY, trend.growth * rules.ahead)
    projected = reading.load[MEMORY] + growth - going
    if projected < upper:
        return None
    here = [gang for gang in gangs if _on_reclaimed_capacity(gang, reading.scope)]
    known = candidates(here, reading, snapshot, trust, risk=rules.risk, taken=taken)
    gap = projected - max(0.0, upper - rules.hysteresis)
    willing = [candidate for candidate in known if candidate.preemptible]
    overshoot_cost = rules.risk.startup_cost * reading.room["cpu"] / 100
    victims = least_lossy(willing, {MEMORY: gap}, len(willing), overshoot_cost)
    short = gap - sum(victim.frees[MEMORY] for victim in victims)
    return NodeMemoryPlan(
        node=reading.scope,
        load=reading.load[MEMORY],
        projected=projected,
        upper=upper,
        victims=victims[: max(0, limit)],
        short=short if short > CLOSED else 0.0,
        protected=len(known) - len(willing) + _refused(here, snapshot),
        postponed=len(victims) > max(0, limit),
    )


def _on_reclaimed_capacity(gang: Gang, node: str) -> bool:
    """Whether a pod of the gang is on reclaimed capacity of that node."""
    return any(pod.reclaimed and pod.node == node for pod in gang.pods)


def _refused(gangs: Iterable[Gang], snapshot: Snapshot) -> int:
    """How many of them still run whose eviction was refused a short while ago."""
    return sum(gang.uid in snapshot.refused and not leaving(gang, snapshot.now) for gang in gangs)
