"""Starvation: which jobs on reclaimed capacity get too little CPU where they are, and are interrupted. A pure step of a
cycle.

The kernel gives CPU to regular pods by itself, so a burst interrupts no job. A job is *starved* when one of
its pods used less than a share of its limit over the last while, and its node offered less reclaimed CPU all that time
than was placed there. Both are needed: a job that waits for its own input uses little as well, and moving it would help
no job. So what it used before its node was crowded says nothing.

A starved job is interrupted when

  1. its pods that lack CPU have a better place now, and the load allows for it; the other pods of a gang find theirs
     again. A place that is counted on for one job is not there for the next.
  2. Or when it has been starved for so long that a later time can only be better.

A job that was interrupted and has not started again yet has the first claim to the place it was interrupted for.

The job that has been starved longest goes first, then the one that got the smallest share of its limit, then by uid.
With each victim, less is placed on the nodes: the jobs left there may not be starved any more. While nothing may start,
no job is interrupted. It is not started again where it would be starved at once, since jobs are placed by what nodes
offer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from scavenger_api.names import RESOURCE_RECLAIMED_CPU
from scavenger_api.quantity import format_amount

from scavenger_admitter.core.admission.cycle.cycle_usage import CycleUsage
from scavenger_admitter.core.admission.running import Gang
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, Snapshot
from scavenger_admitter.core.admission.sums import add
from scavenger_admitter.core.admission.units import SECOND

MOST_AT_ONCE: Final = 3
"""Jobs interrupted by one cycle. What that changes shows in the measurements first."""


@dataclass(frozen=True, slots=True)
class StarvationRules:
    """When a job is starved, and how long that is borne.

    Attributes:
        share: of its limit, 0 to 1; a pod that used less is starved.
        after: microseconds over which its use is looked at.
        patience: multiples of `after` that a job is starved for before it goes without a better place.
    """

    share: float = 0.2
    after: int = 600 * SECOND
    patience: float = 6.0


@dataclass(frozen=True, slots=True)
class PodUse:
    """What one pod used over the last `StarvationRules.after`.

    Attributes:
        pod: its name.
        node: where it runs.
        millicores: on average; None when it was watched for too little of that time.
    """

    pod: str
    node: str
    millicores: int | None


@dataclass(frozen=True, slots=True)
class MeasuredJob:
    """A running job on reclaimed capacity, as measured.

    Attributes:
        key: namespace/name.
        shape: of each pod.
        pods: of its run.
    """

    key: str
    shape: Shape
    pods: tuple[PodUse, ...]


@dataclass(frozen=True, slots=True)
class Starved:
    """A starved job to interrupt.

    Attributes:
        gang: the job, and the capacity it has.
        candidate: as what it will wait.
        detail: the figures, in words.
    """

    gang: Gang
    candidate: Candidate
    detail: str

    @property
    def key(self) -> str:
        """namespace/name of the job that goes."""
        return self.gang.job.key


@dataclass(frozen=True, slots=True)
class StarvationPlan:
    """Who is starved, and who goes for it.

    Attributes:
        interrupt: the jobs to interrupt.
        since: every starved job, and since when, microseconds since the epoch; those that go included.
        crowded: nodes with more placed than they offer, and since when that has been seen.
    """

    interrupt: tuple[Starved, ...] = ()
    since: Mapping[str, int] = field(default_factory=dict)
    crowded: Mapping[str, int] = field(default_factory=dict)


def plan_starvation(
    snapshot: Snapshot,
    usage: CycleUsage,
    measured: Iterable[MeasuredJob],
    before: StarvationPlan,
    rules: StarvationRules,
    moving: Iterable[Candidate] = (),
) -> StarvationPlan:
    """Decide who goes because it gets too little CPU; see the top.

    Args:
        snapshot: of the cycle.
        usage: what the cycle has left to give; the places that are counted on are taken from it.
        measured: what the running jobs on reclaimed capacity used.
        before: the last plan; what it says of times is gone on from.
        rules: see there.
        moving: jobs that went before and have not started again.
    """
    for candidate in moving:
        usage.move(candidate, candidate.parallelism)
    nodes = _Nodes(snapshot)
    crowded = {name: before.crowded.get(name, snapshot.now) for name in nodes.crowded()}
    nodes.suffer({name for name, since in crowded.items() if snapshot.now - since >= rules.after})
    gangs = {gang.job.key: gang for gang in snapshot.gangs}
    running = [_MeasuredGang(gangs[job.key], job, rules) for job in measured if job.key in gangs]
    starved = [one for one in running if one.worst(nodes) is not None]
    since = {one.key: before.since.get(one.key, snapshot.now - rules.after) for one in starved}
    if snapshot.shut is not None:
        return StarvationPlan((), since, crowded)
    chosen: list[Starved] = []
    for one in sorted(starved, key=lambda one: (since[one.key], one.share, one.gang.job.uid)):
        if len(chosen) >= MOST_AT_ONCE:
            break
        found = _judge(one, nodes, usage, starved_for=snapshot.now - since[one.key], rules=rules)
        if found is not None:
            chosen.append(found)
            nodes.leave(one.gang)
    return StarvationPlan(tuple(chosen), since, crowded)


def _judge(
    one: _MeasuredGang, nodes: _Nodes, usage: CycleUsage, *, starved_for: int, rules: StarvationRules
) -> Starved | None:
    """Whether a starved job goes, and why."""
    worst = one.worst(nodes)
    if worst is None:  # others went, and what is left on the node suffices
        return None
    lacking = sum(count for name, count in one.gang.on.items() if nodes.excess(name) > 0)
    places = usage.move(one.candidate, lacking)
    if places is not None:
        outlook = f"there is capacity on node {places[0]}"
    elif starved_for >= rules.patience * rules.after:
        outlook = f"starved for {starved_for // SECOND} s, and there is no better place"
    else:
        return None
    return Starved(one.gang, one.candidate, f"{_figures(worst, one.limit, nodes, rules)}; {outlook}")


class _Nodes:
    """Reclaimed CPU per node, in millicores: what is offered, and what is placed there and stays."""

    def __init__(self, snapshot: Snapshot) -> None:
        terminating: dict[str, dict[str, int]] = {}
        for pod in snapshot.terminating:
            add(terminating.setdefault(pod.node, {}), pod.requests)
        self._offered: dict[str, int] = {}
        self._placed: dict[str, int] = {}
        self._for_long: Set[str] = frozenset()
        for name, node in snapshot.nodes.items():
            placed = node.used.get(RESOURCE_RECLAIMED_CPU, 0)
            if placed:
                self._offered[name] = node.allocatable.get(RESOURCE_RECLAIMED_CPU, 0)
                self._placed[name] = placed - terminating.get(name, {}).get(RESOURCE_RECLAIMED_CPU, 0)

    def offered(self, name: str) -> int:
        return self._offered.get(name, 0)

    def placed(self, name: str) -> int:
        return self._placed.get(name, 0)

    def excess(self, name: str) -> int:
        """What is placed on a node beyond what it offers; negative where it offers more. A node that is gone is not
        judged: its pods are lost in another way."""
        return self.placed(name) - self.offered(name)

    def crowded(self) -> list[str]:
        """The nodes with more placed than they offer."""
        return [name for name in self._placed if self.excess(name) > 0]

    def suffer(self, names: Set[str]) -> None:
        """These have been crowded for as long as the use of pods is looked at."""
        self._for_long = names

    def starves(self, name: str) -> bool:
        """Whether who used little on a node lacked CPU there, and still does."""
        return name in self._for_long and self.excess(name) > 0

    def leave(self, gang: Gang) -> None:
        """The pods of a job are to go."""
        for name, count in gang.on.items():
            if name in self._placed:
                self._placed[name] -= gang.request(RESOURCE_RECLAIMED_CPU) * count


class _MeasuredGang:
    """A running job, and those of its pods that used less than the share."""

    def __init__(self, gang: Gang, job: MeasuredJob, rules: StarvationRules) -> None:
        self.gang = gang
        self.key = gang.job.key
        self.limit = job.shape.counts("cpu")
        self.candidate = Candidate(self.key, gang.job.uid, gang.job.queue, job.shape, gang.job.parallelism)
        used = [(pod.millicores, pod) for pod in job.pods if pod.millicores is not None]
        few = [(value, pod) for value, pod in used if value < rules.share * self.limit]
        self._pods = [pod for _, pod in sorted(few, key=lambda one: (one[0], one[1].pod))]
        self.share = min((value for value, _ in few), default=0) / max(1, self.limit)

    def worst(self, nodes: _Nodes) -> PodUse | None:
        """The pod that got least where less is offered than placed, for long; None when the job is not starved."""
        return next((pod for pod in self._pods if nodes.starves(pod.node)), None)


def _figures(worst: PodUse, limit: int, nodes: _Nodes, rules: StarvationRules) -> str:
    used, asked = format_amount("cpu", worst.millicores or 0), format_amount("cpu", limit)
    offered, placed = format_amount("cpu", nodes.offered(worst.node)), format_amount("cpu", nodes.placed(worst.node))
    return (
        f"pod {worst.pod} used {used} of {asked} cpu over the last {rules.after // SECOND} s; node {worst.node} offers"
        f" {offered} cpu of reclaimed capacity and has {placed} cpu placed on it"
    )
