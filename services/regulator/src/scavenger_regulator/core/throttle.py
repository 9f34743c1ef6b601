"""Throttle before evict: slow jobs down by as much as the load is too high, before anybody has to go. Pure.

Where the load is well above the admission level, the CPU of preemptible jobs is shrunk by in-place resize: first of
those that would be evicted first, of each to a share of what it asked for at the least, and of no more of them than the
gap needs. As room comes free under the admission level they get it back, those first that would be evicted last. The
same room is not given back twice: what was given back last has to be in the measurements first. What a job is still
owed counts as load to those who let jobs in.

Only of jobs, and only of CPU: a process does not give up memory because its limit fell. Pods on reclaimed capacity are
left alone: they request nothing that could be given to others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from scavenger_api.levels import LevelsState

from scavenger_regulator.core.snapshot import Gang, PodFacts

MIN_CORES: Final = 0.01
"""What a pod keeps, whatever its share is."""
LEAST: Final = 0.001
"""Cores: less is no resize."""
WORTH_A_STEP: Final = 0.05
"""Of what a job asked for: less is not taken away, and given back only where it is all that is owed."""

Use = Callable[[PodFacts], float | None]
"""The cores that a pod uses as measured; None where that is not known."""

_Resizable = tuple[Gang, list[PodFacts]]
"""A gang, and its pods whose CPU can be changed."""


@dataclass(frozen=True, slots=True)
class ThrottleRules:
    """enabled: off by default. share: of its CPU that a throttled pod keeps, 0..1. max_resizes: per
    period."""

    enabled: bool = False
    share: float = 0.5
    max_resizes: int = 100


@dataclass(frozen=True, slots=True)
class Resize:
    """Set requests and limits of a container's CPU to `cores`. before: what they are, in cores."""

    gang: Gang
    pod: PodFacts
    container: str
    cores: float
    before: float

    @property
    def throttles(self) -> bool:
        """Whether it takes CPU away."""
        return self.cores < self.before


@dataclass(frozen=True, slots=True)
class ThrottlePlan:
    """resizes: what to do now. freed: cores that go out of the load by what is taken away, now or a moment ago."""

    resizes: tuple[Resize, ...] = ()
    freed: float = 0.0

    @property
    def gives_back(self) -> bool:
        """Whether somebody gets CPU back."""
        return any(not resize.throttles for resize in self.resizes)


NOTHING: Final = ThrottlePlan()


@dataclass(frozen=True, slots=True)
class ThrottleSnapshot:
    """What one plan is made from.

    state: of the cluster. over: cores by which the load has to come down, 0 unless it is well above the admission
    level. room: cores that may be given back. gangs: that stay, in the order in which they would be evicted. use: of
    their pods. infeasible_nodes: that answered Infeasible, and are left alone.
    """

    state: LevelsState
    over: float
    room: float
    gangs: Sequence[Gang]
    use: Use
    infeasible_nodes: Collection[str] = field(default_factory=frozenset)


def throttled(gangs: Iterable[Gang]) -> list[Gang]:
    """Those of them that have less than they asked for."""
    return [gang for gang in gangs if owed(gang) >= LEAST]


def owed(gang: Gang) -> float:
    """Cores that a job asked for and does not have. Those that cannot be given back count for nothing."""
    return sum(gang.cores - _limit(pod) for pod in gang.pods if _resizable(gang, pod) and _limit(pod) < gang.cores)


def restored(gangs: Iterable[Gang]) -> list[Resize]:
    """All that jobs were throttled by, given back at once: where throttling is switched off, nobody else ever would."""
    return [one for gang in gangs for one in _given_back(gang, [p for p in gang.pods if _resizable(gang, p)], 1.0)]


def plan_resizes(snapshot: ThrottleSnapshot, rules: ThrottleRules) -> ThrottlePlan:
    """Whose CPU to shrink, or to give back, at most `max_resizes`.

    Everybody is left alone while Evicting (victims leave anyway) or Blind. A job that has become non-preemptible gets
    all of its CPU back in any of the other states.
    """
    if not rules.enabled or snapshot.state in (LevelsState.EVICTING, LevelsState.BLIND):
        return NOTHING
    resizes: list[Resize] = []
    protected: list[_Resizable] = []
    others: list[_Resizable] = []
    for gang in snapshot.gangs:
        pods = [pod for pod in gang.pods if _resizable(gang, pod) and pod.node not in snapshot.infeasible_nodes]
        if gang.running and not gang.stopping and pods:
            (others if all(pod.preemptible for pod in gang.pods) else protected).append((gang, pods))
    for gang, pods in protected:
        resizes += _given_back(gang, pods, 1.0)
    room = snapshot.room - sum(one.cores - one.before for one in resizes)
    # Use above the limit is from before it was taken away.
    freed = sum(max(0.0, (snapshot.use(pod) or 0.0) - _limit(pod)) for _, pods in others for pod in pods)
    if snapshot.over > 0:
        taken, more = _take(others, snapshot.over - freed, snapshot.use, rules)
        return ThrottlePlan((*resizes, *taken)[: rules.max_resizes], freed + more)
    resizes += _give_back(others, room)
    return ThrottlePlan(tuple(resizes[: rules.max_resizes]), freed)


def _take(gangs: Iterable[_Resizable], over: float, use: Use, rules: ThrottleRules) -> tuple[list[Resize], float]:
    """As much as has to come free, of the first that have it; and how much that is, in cores."""
    found: list[Resize] = []
    freed = 0.0
    for gang, pods in gangs:
        if freed >= over - LEAST or len(found) >= rules.max_resizes:
            break
        kept = max(MIN_CORES, gang.cores * rules.share)
        # What is used, and not what is allowed: to take what nobody uses frees nothing.
        used = {pod.key: cores for pod in pods if (cores := use(pod)) is not None}
        if len(used) < len(pods):
            continue
        frees = {pod.key: max(0.0, min(used[pod.key], _limit(pod)) - kept) for pod in pods}
        whole = sum(frees.values())
        if whole < max(LEAST, WORTH_A_STEP * gang.cores * len(pods)):
            continue
        part = min(1.0, (over - freed) / whole)  # of each pod alike: the slowest sets the pace of a gang
        for pod in pods:
            cores = min(used[pod.key], _limit(pod)) - part * frees[pod.key]
            if frees[pod.key] > 0 and _limit(pod) - cores >= LEAST:
                found += _resizes(gang, pod, cores)
        freed += part * whole
    return found, freed


def _give_back(gangs: Sequence[_Resizable], room: float) -> list[Resize]:
    """What there is room for, to those first that would be evicted last."""
    found: list[Resize] = []
    for gang, pods in reversed(gangs):
        missing = sum(max(0.0, gang.cores - _limit(pod)) for pod in pods)
        if missing < LEAST:
            continue
        given = min(missing, room)
        if given < min(missing, WORTH_A_STEP * gang.cores * len(pods)):
            break  # whoever is next would get it again and again
        found += _given_back(gang, pods, given / missing)
        room -= given
    return found


def _given_back(gang: Gang, pods: Iterable[PodFacts], part: float) -> Iterator[Resize]:
    """To each of these pods a part of what it lacks, 0..1."""
    for pod in pods:
        missing = gang.cores - _limit(pod)
        if missing >= LEAST:
            yield from _resizes(gang, pod, _limit(pod) + part * missing)


def _resizes(gang: Gang, pod: PodFacts, cores: float) -> Iterator[Resize]:
    for container, before in pod.resizable.items():
        yield Resize(gang, pod, container, cores, before)


def _resizable(gang: Gang, pod: PodFacts) -> bool:
    if pod.deletion_deadline is not None or pod.running_since is None or pod.refused_resize or pod.reclaimed:
        return False
    return gang.cores > 0 and bool(pod.resizable)


def _limit(pod: PodFacts) -> float:
    return sum(pod.resizable.values())
