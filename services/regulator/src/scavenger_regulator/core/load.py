"""How full the cluster is: from a measurement, checked for age, coverage and plausibility, to percent.

Only the nodes that count are looked at (`scavenger_domain.nodes.counts`). What cannot be believed is treated as not
measured, never as zero: a metric that drops to nothing must not look like free capacity, nor one that cannot be like a
flood. A node that is known to be full counts as full: one that says more than it has, or is under pressure and says
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from scavenger_api.levels_text import RAMP_UP_SECONDS

from scavenger_regulator.core.metrics.metric import AVERAGED, HELD, RESOURCES
from scavenger_regulator.core.snapshot import (
    CLUSTER,
    Figure,
    Figures,
    Gang,
    Measurement,
    NodeFacts,
    PodFacts,
    RecentTermination,
    of_pool,
)

PLAUSIBLE = 1.1
"""The most that a node can use, in times its capacity: what is measured above it is cut off there. (More than
*allocatable* is possible: that is what the rest is reserved for.)"""


WRONG_UNIT = 5.0
"""A figure of more than this times the capacity of a node is no high one. Units differ by a thousand."""


MISSING_ONE = 0.6
"""One node may be without figures where the others have this share of the capacity. On three equal nodes, a third of it
is more than coverage allows. On two it is not known which half is the busy one."""


JOINS = timedelta(minutes=5)
"""So long a new node may be without figures: it cannot have been measured yet."""


RAMP_UP = timedelta(seconds=RAMP_UP_SECONDS)
"""So long a scavenger pod counts with its request where it uses less: a program that reads its input first, or loads a
model, uses its cores a minute or two later, and by then another job would have started on them."""


_MOST_SECONDS = 100 * 365 * 86_400.0
"""Calendars have a beginning."""


MOST_TAINTS = 3
"""Keys of taints that a message names."""


MAX_USE = 1e15
"""Cores or bytes. No node and no pod uses more, and sums of larger values overflow."""


SATURATED = 0.98
"""Of the CPU that nodes have. From there on use says nothing of how much is wanted."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The load of one scope.

    load: percent, 0 to 100, per resource. firm: the same without the CPU of pods on reclaimed capacity, which the
    kernel gives to others as soon as they want it: no job has to go for it. beyond: the same, and not cut off at 100,
    as nodes have more than they allocate: what jobs have to go for. saturated: the CPU is all in use, so more of it
    may be wanted. ordinary: the load without scavenger pods; None where too many of those have no figure. ramping:
    points that scavenger pods in their first minutes have asked for and do not use yet, and what is left of nodes under
    pressure; without pods that started since `since`, which readers of the load add anyway. used_of_requests:
    percent of what scavenger pods past their first minutes have asked for that they use; without CPU on reclaimed
    capacity, of the cluster only, and only where there are such pods. room: allocatable of the nodes, in cores and
    bytes. whole: the same with those that should have figures and have none. observed_at: the oldest sample used.
    sampled_at: by resource, the median of when nodes were measured: one that is late delays its own figure only.
    since: when the oldest sample's averaging began; what happened before is fully in the figures. shown: the same, of
    metrics beside CPU and memory as well.
    """

    scope: str
    load: Mapping[str, float]
    firm: Mapping[str, float]
    beyond: Mapping[str, float]
    saturated: bool
    ordinary: Mapping[str, float] | None
    ramping: Mapping[str, float]
    used_of_requests: Mapping[str, float]
    room: Mapping[str, float]
    whole: Mapping[str, float]
    nodes: frozenset[str]
    observed_at: datetime
    sampled_at: Mapping[str, datetime]
    since: datetime
    shown: datetime

    def percent(self, resource: str, amount: float) -> float:
        """An amount (cores, bytes) as points of load."""
        return 100.0 * amount / self.room[resource]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """There is no load to speak of; why, in words."""

    reason: str


_Running = tuple[PodFacts, datetime, Mapping[str, float] | None]
"""A scavenger pod that runs, since when, and what it uses (None: not known)."""


@dataclass(frozen=True, slots=True)
class Trust:
    """When a measurement is believed.

    max_age: seconds; also how far in the future a sample may lie. coverage: smallest share (0..1) of the counted nodes'
    allocatable that must have figures; below 1, one node may be missing (MISSING_ONE). pod_coverage: smallest
    share of the scavenger pods that must have figures for the *ordinary* load to be known.
    """

    max_age: float = 60.0
    coverage: float = 0.8
    pod_coverage: float = 0.5


class Fresh:
    """Which samples are believed at a moment: those no older than `max_age`, and not further in the future either.

    The two bounds are reckoned once, and not for each figure of each pod.
    """

    __slots__ = ("_newest", "_oldest", "now")

    def __init__(self, now: datetime, trust: Trust) -> None:
        age = timedelta(seconds=min(trust.max_age, _MOST_SECONDS))
        self.now = now
        self._oldest, self._newest = now - age, now + age

    def has(self, figure: Figure) -> bool:
        """Whether a figure is a number, and of a time that is believed."""
        if not (0.0 <= figure.value <= MAX_USE and 0.0 <= figure.window <= _MOST_SECONDS):  # NaN compares false
            return False
        return self._oldest <= figure.at <= self._newest

    def values(self, figures: Mapping[str, Figure] | None) -> dict[str, float] | None:
        """What is used of each resource; None where one of them has no figure that is believed. Asked once in a period
        for every scavenger pod in the cluster, so it does not ask `has`."""
        if figures is None:
            return None
        oldest, newest, found = self._oldest, self._newest, {}
        for resource in RESOURCES:
            figure = figures.get(resource)
            if figure is None or not (0.0 <= figure.value <= MAX_USE and oldest <= figure.at <= newest):
                return None
            if not 0.0 <= figure.window <= _MOST_SECONDS:
                return None
            found[resource] = figure.value
        return found

    def young(self, since: datetime) -> bool:
        """Whether what began then may have no figure yet."""
        return since >= self._oldest

    def joined(self, node: NodeFacts) -> bool:
        """Whether a node is so new that it may have no figures yet."""
        return node.created is not None and node.created > self.now - JOINS


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
    nodes = list(nodes)
    counted = [node for node in nodes if node.counts]
    for resource in RESOURCES:
        counted = [node for node in counted if node.allocatable.get(resource, 0.0) > 0]
    if not counted:
        return Unreadable(_none_counts(nodes))
    fresh = Fresh(now, trust)
    if scope == CLUSTER and not measurement.nodes:
        use = _total(counted, measurement.total, fresh)
        if use is None:
            return Unreadable(f"the source has no plausible figure for the cluster no older than {trust.max_age:.0f} s")
        return _reading(scope, counted, counted, use, gangs, recent_terminations, measurement, fresh, trust)
    figures = {node.name: believed(node, measurement.nodes.get(node.name), fresh) for node in counted}
    missing = _uncovered(counted, figures, fresh, trust)
    if missing:
        return Unreadable(missing)
    known = {node.name: found for node in counted if (found := figures[node.name] or _if_full(node, fresh))}
    use = {r: [found[r] for found in known.values()] for r in RESOURCES}
    nodes = [node for node in counted if node.name in known]
    whole = [node for node in counted if node.name in known or not fresh.joined(node)]
    return _reading(scope, nodes, whole, use, gangs, recent_terminations, measurement, fresh, trust)


def _none_counts(nodes: Iterable[NodeFacts]) -> str:
    """Why no node counts, with the taints that keep nodes out which could take pods."""
    said = "no node counts: none is Ready, schedulable and free of taints, or holds scavenger pods"
    keys = Counter(key for node in nodes for key in node.kept_out)
    if not keys:
        return said
    told = ", ".join(f"{key} ({number})" for key, number in keys.most_common(MOST_TAINTS))
    return f"{said}; taints that settings.toleratedTaints of scavenger-regulator and -admitter would count: {told}"


def believed(node: NodeFacts, figures: Mapping[str, Figure] | None, fresh: Fresh) -> Figures | None:
    """What a node that can allocate something uses, no more than it can; None where that is not measured, which takes
    a fresh and possible figure of every resource. For all who read what nodes use."""
    if not figures:
        return None
    found = {}
    for resource in RESOURCES:
        figure = figures.get(resource)
        capacity = max(node.capacity.get(resource, 0.0), node.allocatable[resource])
        if figure is None or not fresh.has(figure) or figure.value > WRONG_UNIT * capacity:
            return None
        most = PLAUSIBLE * capacity
        found[resource] = figure if figure.value <= most else replace(figure, value=most)
    return found


def _if_full(node: NodeFacts, fresh: Fresh) -> Figures | None:
    """What a node uses that is not measured: all that it can allocate where it is under pressure, else None, as that is
    not known."""
    return {r: Figure(node.allocatable[r], fresh.now) for r in RESOURCES} if node.pressed else None


def _room(nodes: list[NodeFacts]) -> dict[str, float]:
    """What they can allocate together."""
    return {r: sum([node.allocatable[r] for node in nodes]) for r in RESOURCES}


def _total(counted: list[NodeFacts], total: Mapping[str, Figure], fresh: Fresh) -> dict[str, list[Figure]] | None:
    capacity = {r: sum([node.capacity.get(r, node.allocatable[r]) for node in counted]) for r in RESOURCES}
    whole = NodeFacts(CLUSTER, _room(counted), capacity, counts=True)
    figures = believed(whole, total, fresh)
    return None if figures is None else {r: [figures[r]] for r in RESOURCES}


def _uncovered(counted: list[NodeFacts], figures: Mapping[str, Figures | None], fresh: Fresh, trust: Trust) -> str:
    """Why too few nodes have figures; empty where enough have. A new node is not expected to have any."""
    measured = [node for node in counted if figures[node.name]]
    expected = [node for node in counted if figures[node.name] or not fresh.joined(node)]
    if measured and len(measured) == len(expected):
        return ""
    one = len(expected) - len(measured) == 1 and trust.coverage < 1
    least = min(trust.coverage, MISSING_ONE) if one else trust.coverage
    for resource in RESOURCES:
        whole = sum(node.allocatable[resource] for node in expected or counted)
        share = sum(node.allocatable[resource] for node in measured) / whole
        if not measured or share < least:
            return (
                f"only {len(measured)} of {len(expected or counted)} nodes ({share:.0%} of their {resource}) have a "
                f"figure no older than {trust.max_age:.0f} s"
            )
    return ""


def _reading(
    scope: str,
    measured: list[NodeFacts],
    whole: list[NodeFacts],
    use: Mapping[str, list[Figure]],
    gangs: Iterable[Gang],
    recent_terminations: Iterable[RecentTermination],
    measurement: Measurement,
    fresh: Fresh,
    trust: Trust,
) -> Reading:
    names = frozenset([node.name for node in measured])
    room = _room(measured)
    used = {r: sum(figure.value for figure in use[r]) for r in RESOURCES}
    figures = [figure for r in RESOURCES for figure in use[r]]
    observed_at = min(figure.at for figure in figures)
    running = _running(gangs, names, measurement, fresh)
    scavenged = scavenger_use(running, observed_at, fresh, trust.pod_coverage)
    ordinary = None
    terminations = [gone for gone in recent_terminations if gone.node in names]
    if scavenged is not None:
        gone = terminated_use(terminations, measurement)
        ordinary = {r: _percent(max(0.0, used[r] - scavenged[r] - gone[r]), room[r]) for r in RESOURCES}
    since = min(figure.at - timedelta(seconds=figure.window) for figure in figures)
    gives_way = sum([_yielding_cores(one, observed_at) for one in running if one[0].reclaimed])
    gives_way += sum(gone.use.get("cpu", 0.0) for gone in terminations if gone.reclaimed and gone.at > since)
    firm = {**used, "cpu": max(0.0, used["cpu"] - gives_way)}
    ramping = ramping_use(running, since)
    left = _left_of_pressed(measured, use)
    return Reading(
        scope=scope,
        load={r: _percent(used[r], room[r]) for r in RESOURCES},
        firm={r: _percent(firm[r], room[r]) for r in RESOURCES},
        beyond={r: 100.0 * firm[r] / room[r] for r in RESOURCES},
        # What is of a moment is what was asked for (the source `requests`), and no CPU bounds that.
        saturated=since < observed_at and _saturated(firm["cpu"], room["cpu"], measured),
        ordinary=ordinary,
        ramping={r: _percent(ramping[r] + left[r], room[r]) for r in RESOURCES},
        used_of_requests=used_of_requests(running, since) if of_pool(scope) else {},
        room=room,
        whole=room if whole is measured else _room(whole),
        nodes=names,
        observed_at=observed_at,
        sampled_at={r: median_time(use[r]) for r in RESOURCES},
        since=since,
        shown=since,
    )


def _running(gangs: Iterable[Gang], names: frozenset[str], measurement: Measurement, fresh: Fresh) -> list[_Running]:
    """The scavenger pods that run on these nodes. Pods may share their figures, which are judged once then."""
    judged: dict[int, dict[str, float] | None] = {}
    found: list[_Running] = []
    by_uid, of = measurement.pods.get, measurement.of
    for gang in gangs:
        for pod in gang.pods:
            began = pod.running_since
            if began is None or pod.node not in names:
                continue
            figures = by_uid(pod.uid) or of(pod)
            known = id(figures)
            if known not in judged:
                judged[known] = fresh.values(figures)
            found.append((pod, began, judged[known]))
    return found


def median_time(figures: Iterable[Figure]) -> datetime:
    """When half of them had been taken; of an even number the earlier of the two in the middle."""
    times = sorted([figure.at for figure in figures])
    return times[(len(times) - 1) // 2]


def _left_of_pressed(measured: list[NodeFacts], use: Mapping[str, list[Figure]]) -> dict[str, float]:
    """Cores and bytes that nodes under pressure do not use, and that no job may use. Where only the load of all nodes
    together is known, they are not known."""
    left = dict.fromkeys(RESOURCES, 0.0)
    for number, node in [(number, node) for number, node in enumerate(measured) if node.pressed]:
        for resource in RESOURCES:
            if len(use[resource]) == len(measured):
                left[resource] += max(0.0, node.allocatable[resource] - use[resource][number].value)
    return left


def _saturated(used: float, allocatable: float, nodes: list[NodeFacts]) -> bool:
    """Whether nodes use all the cores they have. They have no fewer than they allocate."""
    if used < SATURATED * allocatable:
        return False
    return used >= SATURATED * sum([node.capacity.get("cpu", node.allocatable["cpu"]) for node in nodes])


def scavenger_use(
    running: list[_Running], observed_at: datetime, fresh: Fresh, coverage: float
) -> dict[str, float] | None:
    """Cores and bytes used by running scavenger pods; None where fewer than the share `coverage` have figures.

    A pod that has just started has no figure yet. Started after the load was observed, it is not in it;
    otherwise it counts with its requests, which are also its limits. Other pods without a figure use as much of their
    requests as those with figures do.
    """
    uses = [use for _, _, use in running if use is not None]
    measured = {r: sum([use[r] for use in uses], 0.0) for r in RESOURCES}
    sums = dict.fromkeys(RESOURCES, 0.0)
    missing: list[PodFacts] = []
    without = [(pod, began) for pod, began, use in running if use is None] if len(uses) < len(running) else []
    for pod, began in without:
        if not fresh.young(began):
            missing.append(pod)
        elif began < observed_at:
            _add(sums, pod.requests)
    if len(running) - len(missing) < coverage * len(running):
        return None
    asked = _requested(pod for pod, _, use in running if use is not None) if missing else {}
    for pod in missing:
        _add(sums, {r: pod.requests.get(r, 0.0) * (measured[r] / asked[r] if asked[r] else 1.0) for r in RESOURCES})
    return {r: sums[r] + measured[r] for r in RESOURCES}


def _requested(pods: Iterable[PodFacts]) -> dict[str, float]:
    """What these pods request together."""
    requests = [pod.requests for pod in pods]
    return {r: sum([one.get(r, 0.0) for one in requests], 0.0) for r in RESOURCES}


def _add(sums: dict[str, float], amounts: Mapping[str, float]) -> None:
    for resource in RESOURCES:
        sums[resource] += amounts.get(resource, 0.0)


def ramping_use(running: list[_Running], since: datetime) -> dict[str, float]:
    """Cores and bytes that scavenger pods in their first minutes have asked for and do not use yet. A pod without a
    figure uses nothing that is known. CPU on reclaimed capacity is not kept for any pod."""
    sums = dict.fromkeys(RESOURCES, 0.0)
    published = since.replace(microsecond=0)  # its readers have whole seconds, and count from there on
    earliest = since - RAMP_UP
    for pod, measured in [(pod, use) for pod, began, use in running if earliest < began < published]:
        use = measured or {}
        for resource in HELD if pod.reclaimed else RESOURCES:
            sums[resource] += max(0.0, pod.requests.get(resource, 0.0) - use.get(resource, 0.0))
    return sums


def used_of_requests(running: list[_Running], since: datetime) -> dict[str, float]:
    """Percent of what scavenger pods past their first minutes have asked for that they use, of those with figures.

    By so much of its requests the load falls when such a pod goes. Without CPU on reclaimed capacity, which no job goes
    for. Resources that no pod has requested are missing.
    """
    used, asked = dict.fromkeys(RESOURCES, 0.0), dict.fromkeys(RESOURCES, 0.0)
    latest = since - RAMP_UP
    old = [(pod.requests, use, pod.reclaimed) for pod, began, use in running if began <= latest and use is not None]
    some_reclaimed = any(reclaimed for _, _, reclaimed in old)
    for resource in RESOURCES:
        held = [one for one in old if not one[2]] if some_reclaimed and resource not in HELD else old
        used[resource] = sum([use[resource] for _, use, _ in held], 0.0)
        asked[resource] = sum([requests.get(resource, 0.0) for requests, _, _ in held], 0.0)
    return {r: _percent(used[r], asked[r]) for r in RESOURCES if asked[r] > 0}


def terminated_use(terminations: Iterable[RecentTermination], measurement: Measurement) -> dict[str, float]:
    """Cores and bytes in the figures of nodes that were used by scavenger pods which have gone since.

    Were they taken for regular, the regulator's own evictions would count as unrest of the regular load. Of CPU, an
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
    if resource not in AVERAGED or figure.window <= 0:
        return 0.0
    return max(0.0, 1.0 - (figure.at - until).total_seconds() / figure.window)


def _yielding_cores(running: _Running, observed_at: datetime) -> float:
    """CPU in the load that gives way by itself, of a pod on reclaimed capacity. Where it is not measured, all that it
    may use: no job may be evicted because a figure is missing."""
    pod, began, use = running
    if use is not None:
        return use["cpu"]
    return 0.0 if began >= observed_at else pod.requests.get("cpu", 0.0)


def pod_use(pod: PodFacts, measurement: Measurement, fresh: Fresh) -> dict[str, float] | None:
    """Cores and bytes that a pod uses; None where one of them has no fresh figure."""
    return fresh.values(measurement.of(pod))


def _percent(used: float, room: float) -> float:
    """Use above what can be allocated is possible (system daemons); it is full, and levels end at 100."""
    return min(100.0, 100.0 * used / room)
