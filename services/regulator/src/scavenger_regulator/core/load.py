"""How full the cluster is: from a measurement, checked for age, coverage and plausibility, to percent.

Only the nodes that count are looked at: Ready, not cordoned, without a NoSchedule or NoExecute taint outside
the configured list. What cannot be believed is treated as not measured, never as zero: a metric that drops to
nothing must not look like room, nor one that cannot be like a flood.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from scavenger_regulator.core.snapshot import (
    CLUSTER,
    RESOURCES,
    Figure,
    Gang,
    Measurement,
    NodeFacts,
    PodFacts,
    RecentTermination,
)

PLAUSIBLE = 1.1
"""A node that uses more than this times its capacity has a wrong figure, not a high one. (More than
*allocatable* is possible: that is what the rest is reserved for.)"""


RAMP_UP = timedelta(seconds=300)
"""So long a scavenger pod counts with its request where it uses less: a program that reads its input first, or loads a
model, uses its cores a minute or two later, and by then somebody else would have been let into them."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The load of one scope.

    load: percent, 0 to 100, per resource. firm: the same without the CPU of pods on reclaimed capacity, which the
    kernel gives to others as soon as they want it: nobody has to go for it. ordinary: the same without scavenger pods;
    None where too many of those have no figure. ramping: points that scavenger pods in their first minutes have asked
    for and do not use yet; without those that started since `since`, which whoever reads the load adds anyway. room:
    allocatable of the measured nodes, in cores and bytes. observed_at: the oldest sample used. since: when the oldest
    sample's averaging began; what happened before is fully in the figures.
    """

    scope: str
    load: Mapping[str, float]
    firm: Mapping[str, float]
    ordinary: Mapping[str, float] | None
    ramping: Mapping[str, float]
    room: Mapping[str, float]
    nodes: frozenset[str]
    observed_at: datetime
    since: datetime

    def percent(self, resource: str, amount: float) -> float:
        """An amount (cores, bytes) as points of load."""
        return 100.0 * amount / self.room[resource]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """There is no load to speak of; why, in words."""

    reason: str


@dataclass(frozen=True, slots=True)
class Trust:
    """When a measurement is believed.

    max_age: seconds; also how far in the future a sample may lie. coverage: smallest share (0..1) of the counted nodes'
    allocatable that must have figures. pod_coverage: smallest share of the scavenger pods that must have figures for
    the *ordinary* load to be known.
    """

    max_age: float = 90.0
    coverage: float = 0.8
    pod_coverage: float = 0.95


def read_load(
    scope: str,
    nodes: Iterable[NodeFacts],
    gangs: Iterable[Gang],
    measurement: Measurement,
    now: datetime,
    trust: Trust,
    recent_terminations: Iterable[RecentTermination] = (),
) -> Reading | Unreadable:
    """The load of the given nodes, or why it is not known. recent_terminations: scavenger pods that have gone."""
    if measurement.failed:
        return Unreadable(measurement.failed)
    counted = [node for node in nodes if node.counts]
    for resource in RESOURCES:
        counted = [node for node in counted if node.allocatable.get(resource, 0.0) > 0]
    if not counted:
        return Unreadable("no node counts: none is Ready, schedulable and free of taints")
    if scope == CLUSTER and not measurement.nodes:
        measured, use = counted, _total(counted, measurement.total, now, trust)
    else:
        measured = [node for node in counted if believable(node, measurement.nodes.get(node.name), now, trust)]
        use = _sum(measured, measurement)
    missing = _uncovered(counted, measured, trust)
    if missing:
        return Unreadable(missing)
    if use is None:
        return Unreadable(f"the source has no plausible figure for the cluster no older than {trust.max_age:.0f} s")
    pods = [pod for gang in gangs for pod in gang.pods]
    return _reading(scope, measured, use, pods, recent_terminations, measurement, now, trust)


def fresh(figure: Figure, now: datetime, trust: Trust) -> bool:
    """Whether the sample is no older than `max_age`, and not further in the future either; and a number."""
    # NaN compares false. Asked for each figure of each pod in each period.
    return 0.0 <= figure.value < math.inf and abs((now - figure.at).total_seconds()) <= trust.max_age


def believable(node: NodeFacts, figures: Mapping[str, Figure] | None, now: datetime, trust: Trust) -> bool:
    """Whether a node that can allocate something has fresh and possible figures of every resource."""
    if not figures:
        return False
    for resource in RESOURCES:
        figure = figures.get(resource)
        if figure is None or not fresh(figure, now, trust):
            return False
        if figure.value > PLAUSIBLE * max(node.capacity.get(resource, 0.0), node.allocatable[resource]):
            return False
    return True


def _sum(measured: list[NodeFacts], measurement: Measurement) -> dict[str, list[Figure]] | None:
    if not measured:
        return None
    return {r: [measurement.nodes[node.name][r] for node in measured] for r in RESOURCES}


def _total(
    counted: list[NodeFacts], total: Mapping[str, Figure], now: datetime, trust: Trust
) -> dict[str, list[Figure]] | None:
    whole = NodeFacts(
        CLUSTER,
        {r: sum(node.allocatable[r] for node in counted) for r in RESOURCES},
        {r: sum(node.capacity.get(r, node.allocatable[r]) for node in counted) for r in RESOURCES},
        counts=True,
    )
    return {r: [total[r]] for r in RESOURCES} if believable(whole, total, now, trust) else None


def _uncovered(counted: list[NodeFacts], measured: list[NodeFacts], trust: Trust) -> str:
    if len(measured) == len(counted):
        return ""
    for resource in RESOURCES:
        whole = sum(node.allocatable[resource] for node in counted)
        share = sum(node.allocatable[resource] for node in measured) / whole
        if share < trust.coverage:
            return (
                f"only {len(measured)} of {len(counted)} nodes ({share:.0%} of their {resource}) have a figure "
                f"no older than {trust.max_age:.0f} s"
            )
    return ""


def _reading(
    scope: str,
    measured: list[NodeFacts],
    use: Mapping[str, list[Figure]],
    pods: list[PodFacts],
    recent_terminations: Iterable[RecentTermination],
    measurement: Measurement,
    now: datetime,
    trust: Trust,
) -> Reading:
    names = frozenset(node.name for node in measured)
    room = {r: sum(node.allocatable[r] for node in measured) for r in RESOURCES}
    used = {r: sum(figure.value for figure in use[r]) for r in RESOURCES}
    figures = [figure for r in RESOURCES for figure in use[r]]
    observed_at = min(figure.at for figure in figures)
    running = [pod for pod in pods if pod.node in names and pod.running_since is not None]
    scavenged = scavenger_use(running, measurement, observed_at, now, trust)
    ordinary = None
    terminations = [gone for gone in recent_terminations if gone.node in names]
    if scavenged is not None:
        gone = terminated_use(terminations, measurement)
        ordinary = {r: _percent(max(0.0, used[r] - scavenged[r] - gone[r]), room[r]) for r in RESOURCES}
    since = min(figure.at - timedelta(seconds=figure.window) for figure in figures)
    gives_way = sum(_yielding_cores(pod, measurement, observed_at, now, trust) for pod in running if pod.reclaimed)
    gives_way += sum(gone.use.get("cpu", 0.0) for gone in terminations if gone.reclaimed and gone.at > since)
    firm = {**used, "cpu": max(0.0, used["cpu"] - gives_way)}
    ramping = ramping_use(running, measurement, since, now, trust)
    return Reading(
        scope=scope,
        load={r: _percent(used[r], room[r]) for r in RESOURCES},
        firm={r: _percent(firm[r], room[r]) for r in RESOURCES},
        ordinary=ordinary,
        ramping={r: _percent(ramping[r], room[r]) for r in RESOURCES},
        room=room,
        nodes=names,
        observed_at=observed_at,
        since=since,
    )


def scavenger_use(
    running: list[PodFacts], measurement: Measurement, observed_at: datetime, now: datetime, trust: Trust
) -> dict[str, float] | None:
    """Cores and bytes used by running scavenger pods; None where too many of them have no figure.

    A pod that has just started has no figure yet. Started after the load was observed, it is not in it;
    otherwise it counts with its requests, which are also its limits.
    """
    sums = dict.fromkeys(RESOURCES, 0.0)
    known = 0
    for pod in running:
        use = pod_use(pod, measurement, now, trust)
        if use is None and pod.running_since is not None and _young(pod.running_since, now, trust):
            use = dict.fromkeys(RESOURCES, 0.0) if pod.running_since >= observed_at else dict(pod.requests)
        if use is not None:
            known += 1
            for resource in RESOURCES:
                sums[resource] += use.get(resource, 0.0)
    return sums if known >= trust.pod_coverage * len(running) else None


def ramping_use(
    running: list[PodFacts], measurement: Measurement, since: datetime, now: datetime, trust: Trust
) -> dict[str, float]:
    """Cores and bytes that scavenger pods in their first minutes have asked for and do not use yet. A pod without a
    figure uses nothing that is known. CPU on reclaimed capacity is kept for nobody."""
    sums = dict.fromkeys(RESOURCES, 0.0)
    published = since.replace(microsecond=0)  # whoever reads it has whole seconds, and counts from there on
    for pod in running:
        if pod.running_since is None or not since - RAMP_UP < pod.running_since < published:
            continue
        use = pod_use(pod, measurement, now, trust) or {}
        for resource in RESOURCES:
            if not (pod.reclaimed and resource == "cpu"):
                sums[resource] += max(0.0, pod.requests.get(resource, 0.0) - use.get(resource, 0.0))
    return sums


def terminated_use(terminations: Iterable[RecentTermination], measurement: Measurement) -> dict[str, float]:
    """Cores and bytes in the figures of nodes that were used by scavenger pods which have gone since.

    Were they taken for ordinary, the regulator's own evictions would count as unrest of the ordinary load. Of CPU, an
    average over a window, it is the part of the window that the pod lived to see; of memory, as of one moment, all or
    nothing.
    """
    sums = dict.fromkeys(RESOURCES, 0.0)
    for gone in terminations:
        figures = measurement.nodes.get(gone.node, measurement.total)
        for resource in RESOURCES:
            figure = figures.get(resource)
            if figure is not None:
                sums[resource] += gone.use.get(resource, 0.0) * _share_lived(gone.at, resource, figure)
    return sums


def _share_lived(until: datetime, resource: str, figure: Figure) -> float:
    """How much of the time that a figure is about was before `until`, 0 to 1."""
    if until > figure.at:
        return 1.0
    if resource != "cpu" or figure.window <= 0:
        return 0.0
    return max(0.0, 1.0 - (figure.at - until).total_seconds() / figure.window)


def _yielding_cores(
    pod: PodFacts, measurement: Measurement, observed_at: datetime, now: datetime, trust: Trust
) -> float:
    """CPU in the load that gives way by itself, of a pod on reclaimed capacity. Where it is not measured, all that it
    may use: nobody is to go because a figure is missing."""
    use = pod_use(pod, measurement, now, trust)
    if use is not None:
        return use["cpu"]
    return 0.0 if pod.running_since is not None and pod.running_since >= observed_at else pod.requests.get("cpu", 0.0)


def pod_use(pod: PodFacts, measurement: Measurement, now: datetime, trust: Trust) -> dict[str, float] | None:
    """Cores and bytes that a pod uses; None where one of them has no fresh figure."""
    figures = measurement.pods.get(pod.key)
    if figures is None:
        return None
    use = {}
    for resource in RESOURCES:
        figure = figures.get(resource)
        if figure is None or not fresh(figure, now, trust):
            return None
        use[resource] = figure.value
    return use


def _young(since: datetime, now: datetime, trust: Trust) -> bool:
    return (now - since).total_seconds() <= trust.max_age


def _percent(used: float, room: float) -> float:
    """Use above what can be allocated is possible (system daemons); it is full, and levels end at 100."""
    return min(100.0, 100.0 * used / room)
