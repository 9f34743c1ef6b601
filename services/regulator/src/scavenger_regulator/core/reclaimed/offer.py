"""What a node offers of its reserved but idle capacity, as two extended resources in its status. Pure.

    offered = level x allocatable - regular use - requests of Guaranteed scavenger pods
    regular use = max(percentile of the recent past + deviation, use now), scavenger pods excluded

(docs/designs/0005). The figure grows by a bounded step for each new sample and only by more than the hysteresis, and
falls at once, though what a node shows never falls below what is placed there. It never changes because something was
not measured: a node without a figure keeps what it offers and, when it has been silent for too long, offers what is
placed there already: nothing new comes and no job has to go. While the whole cluster is Blind not even that is written:
then no job is admitted anywhere.

Units: cores and bytes in what is measured, whole millicores and MiB in what is offered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from scavenger_regulator.core.load import Fresh, Trust, believed, pod_use
from scavenger_regulator.core.metrics.metric import RESOURCES
from scavenger_regulator.core.reclaimed.profile import Profile, Profiles
from scavenger_regulator.core.snapshot import (
    RECLAIMED_UNIT,
    Figure,
    Measurement,
    NodeFacts,
    PodFacts,
    RecentTermination,
    Snapshot,
)


@dataclass(frozen=True, slots=True)
class OfferRules:
    """What an administrator may set.

    percentile: of the recent past, in percent. step: most that an offer grows for a sample; hysteresis: least that it
    changes by, except to nothing; both in percent of allocatable. min_samples: before a node offers anything.
    half_life: after so many seconds a sample counts half; on two days of the PlanetLab trace anything from one hour to
    half a day gives the same harvest (bench/regulator/bench_harvest.py), and an hour forgets within five the pods that
    went elsewhere. silent_after: a node without a figure for so many seconds gets nothing new.
    """

    enabled: bool = False
    percentile: float = 95.0
    step: float = 5.0
    hysteresis: float = 2.0
    min_samples: int = 5
    half_life: float = 3600.0
    silent_after: float = 90.0


@dataclass(frozen=True, slots=True)
class Span:
    """An amount known to lie between two bounds, in cores or bytes."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Use:
    """What the regular pods of a node use now. at: when the sample was taken. exact: the bounds are the same, for
    every resource."""

    at: datetime
    spans: Mapping[str, Span]
    scavenged: Mapping[str, float]
    """Measured use of the scavenger pods on reclaimed capacity, in cores and bytes."""

    @property
    def exact(self) -> bool:
        """Whether it is known and not only bounded."""
        return all(span.low == span.high for span in self.spans.values())


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node should offer.

    amounts: by resource, in millicores and MiB, as its status is to show them: never less than what is placed there,
    because a kubelet that restarts checks again for every pod whether it fits, and ends those that do not. crowded: the
    millicores it really has to offer, where that is less than what is placed. idle: what is under the level and not
    used by regular pods nor set aside for Guaranteed jobs, in cores and bytes; None where it is not known.
    """

    node: str
    amounts: Mapping[str, int]
    idle: Mapping[str, float] | None
    silent: bool = False
    crowded: int | None = None


# --- one figure ---------------------------------------------------------------------------------------------


def units(resource: str, amount: float) -> int:
    """Cores or bytes as whole millicores or MiB, rounded down; 0 for what is no amount."""
    return max(0, math.floor(amount / RECLAIMED_UNIT[resource] + 1e-9)) if math.isfinite(amount) else 0


def target(room: float, level: float, usual: float, use: float, guaranteed: float) -> float:
    """What a node of this size could give, in cores or bytes, between 0 and `room`. level: percent."""
    if not all(math.isfinite(value) for value in (room, level, usual, use, guaranteed)):
        return 0.0
    level = min(100.0, max(0.0, level))
    return min(max(0.0, room), max(0.0, room * level / 100 - max(usual, use) - guaranteed))


def next_figure(published: int, most: int, least: int, room: int, rules: OfferRules, *, grows: bool) -> int:
    """The next figure of an offer, in its units, between 0 and `room`.

    published: what the node shows. most, least: what it could give in the best and in the worst case; they are the
    same where the use is exactly known. grows: whether it may.
    """
    held = min(max(0, published), max(0, room))
    most, least = min(most, room), min(least, room)
    hysteresis = rules.hysteresis / 100 * room
    if most <= 0:
        return 0
    if held > most and held - most >= hysteresis:
        return most
    if grows and least > held and least - held >= hysteresis:
        return min(least, held + max(1, math.floor(rules.step / 100 * room)))
    return held


# --- one node -----------------------------------------------------------------------------------------------


def ordinary_use(
    node: NodeFacts,
    pods: Iterable[PodFacts],
    recent_terminations: Iterable[RecentTermination],
    measurement: Measurement,
    now: datetime,
    trust: Trust,
) -> Use | None:
    """What the pods of others use on the node; None where it has no figure that can be believed.

    A scavenger pod without a figure uses nothing where it started after the sample, else something between nothing and
    its requests. What has gone since the sample began is somewhere in it.
    """
    if any(not node.allocatable.get(r, 0.0) > 0 for r in RESOURCES):
        return None
    fresh = Fresh(now, trust)
    figures = believed(node, measurement.nodes.get(node.name), fresh)
    if figures is None:
        return None
    at = min(figures[r].at for r in RESOURCES)
    known, unsure = dict.fromkeys(RESOURCES, 0.0), dict.fromkeys(RESOURCES, 0.0)
    harvested = dict.fromkeys(RESOURCES, 0.0)
    for pod in pods:
        use = pod_use(pod, measurement, fresh)
        for resource in RESOURCES:
            if use is None:
                unsure[resource] += _unmeasured(pod, resource, figures[resource])
                continue
            known[resource] += use[resource]
            harvested[resource] += use[resource] if pod.reclaimed else 0.0
    for gone in recent_terminations:
        for resource in RESOURCES:
            if gone.at > figures[resource].at - timedelta(seconds=figures[resource].window):
                unsure[resource] += gone.use.get(resource, 0.0)
    spans = {}
    for resource in RESOURCES:
        high = max(0.0, figures[resource].value - known[resource])
        spans[resource] = Span(max(0.0, high - unsure[resource]), high)
    return Use(at, spans, harvested)


def _unmeasured(pod: PodFacts, resource: str, figure: Figure) -> float:
    """The most that a pod without a figure may have in the figure of its node."""
    if pod.running_since is None or pod.running_since >= figure.at:
        return 0.0
    return pod.requests.get(resource, 0.0)


def plan_offer(
    node: NodeFacts,
    use: Use | None,
    pods: Iterable[PodFacts],
    levels: Mapping[str, float],
    profiles: Mapping[str, Profile],
    rules: OfferRules,
    *,
    grows: bool,
    silent: bool,
) -> Offer:
    """What a node offers next. levels: admission threshold by resource, in percent. grows: whether it may. silent: it
    has had no figure for too long."""
    pods = list(pods)
    amounts: dict[str, int] = {}
    actual: dict[str, int] = {}
    idle: dict[str, float] = {}
    for resource in RESOURCES:
        room = node.allocatable.get(resource, 0.0)
        guaranteed = sum(pod.requests.get(resource, 0.0) for pod in pods if not pod.reclaimed)
        held = min(max(0, node.offered.get(resource, 0)), units(resource, room))
        profile = profiles.get(resource)
        if use is None:
            amounts[resource] = min(held, _placed(pods, resource)) if silent else held
            continue
        span = use.spans[resource]
        learned = profile is not None and round(profile.samples) >= rules.min_samples
        usual = profile.usual(rules.percentile) if profile else 0.0
        best = target(room, levels[resource], usual if learned else 0.0, span.low, guaranteed)
        worst = target(room, levels[resource], usual, span.high, guaranteed)
        actual[resource] = next_figure(
            held, units(resource, best), units(resource, worst), units(resource, room), rules, grows=grows and learned
        )
        amounts[resource] = min(units(resource, room), max(actual[resource], _placed(pods, resource)))
        idle[resource] = target(room, levels[resource], 0.0, span.high, guaranteed)
    crowded = actual["cpu"] if actual and actual["cpu"] < _placed(pods, "cpu") else None
    return Offer(node.name, amounts, idle if use is not None else None, silent and use is None, crowded)


def _placed(pods: Iterable[PodFacts], resource: str) -> int:
    """What is placed by an offer already, in its units; rounded up as the pods' own requests are."""
    return sum(
        math.ceil(pod.requests.get(resource, 0.0) / RECLAIMED_UNIT[resource] - 1e-9) for pod in pods if pod.reclaimed
    )


# --- all nodes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LastSample:
    """When the last believable sample of a node was taken. new: seen in this period for the first time."""

    at: datetime
    new: bool = True


def ordinary_uses(snapshot: Snapshot, trust: Trust) -> dict[str, Use]:
    """Node → what its regular pods use, of the nodes that have a figure that can be believed."""
    pods, recent_terminations = snapshot.pods_by_node, snapshot.recent_terminations_by_node
    found = {}
    for name, node in snapshot.nodes.items():
        use = ordinary_use(
            node, pods.get(name, ()), recent_terminations.get(name, ()), snapshot.measurement, snapshot.now, trust
        )
        if use is not None:
            found[name] = use
    return found


def latest_samples(
    last_samples: Mapping[str, LastSample], snapshot: Snapshot, found: Mapping[str, Use]
) -> dict[str, LastSample]:
    """The last sample of each node; a node that never had one counts from now on."""
    latest = {}
    for name in snapshot.nodes:
        last, use = last_samples.get(name), found.get(name)
        if use is not None:
            latest[name] = LastSample(use.at, new=last is None or use.at != last.at)
        else:
            latest[name] = LastSample(snapshot.now if last is None else last.at, new=False)
    return latest


def learn_profiles(profiles: Profiles, snapshot: Snapshot, found: Mapping[str, Use]) -> None:
    """Take what the regular pods used into the profiles, where it is exactly known; forget nodes that are gone."""
    profiles.keep(snapshot.nodes)
    for name, use in found.items():
        if use.exact:
            for resource in RESOURCES:
                room = snapshot.nodes[name].allocatable[resource]
                profiles.add(name, resource, use.at, use.spans[resource].low, room)


def plan_offers(
    snapshot: Snapshot,
    found: Mapping[str, Use],
    last_samples: Mapping[str, LastSample],
    levels: Mapping[str, Mapping[str, float]],
    profiles: Profiles,
    rules: OfferRules,
) -> dict[str, Offer]:
    """What every node offers next, by its name. levels: admission thresholds in force, by node and resource, in
    percent; empty while the cluster is Blind."""
    pods = snapshot.pods_by_node
    planned = {}
    for name, node in snapshot.nodes.items():
        blind = name not in levels
        last = last_samples[name]
        planned[name] = plan_offer(
            node,
            None if blind else found.get(name),
            pods.get(name, ()),
            levels.get(name, {}),
            profiles.nodes.get(name, {}),
            rules,
            grows=node.counts and not node.pressed and last.new,
            silent=not blind and (snapshot.now - last.at).total_seconds() > rules.silent_after,
        )
    return planned


def to_write(nodes: Mapping[str, NodeFacts], planned: Iterable[Offer]) -> list[Offer]:
    """The offers that the nodes do not show yet."""
    return [one for one in planned if not _shows(nodes[one.node], one)]


def _shows(node: NodeFacts, planned: Offer) -> bool:
    """A node that has never offered anything need not be told that it offers nothing."""
    if not node.offered:
        return not any(planned.amounts.values())
    return node.copied and node.offered == planned.amounts
