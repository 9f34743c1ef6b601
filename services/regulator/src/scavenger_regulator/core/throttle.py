"""Throttle before evict: slow jobs down by as much as the load is too high, before a job has to go. Pure.

Where the load is well above the admission threshold, the CPU of preemptible jobs is shrunk by in-place resize: first of
those that would be evicted first, of each to a share of what it asked for at the least, and of no more of them than the
gap needs. As capacity comes free under the admission threshold they get it back, those first that would be evicted
last. The same capacity is not given back twice: what was given back last has to be in the measurements first. What a
job is still owed counts as load to the components that start jobs.

The load may be of CPU, or of an added metric: a process that computes less sends and writes less. A pod's use of it is
taken to follow its use of CPU. Each load has a `Line`, and so has each node with lines of its own; a job gets back only
what all lines over it leave.

Only of jobs, and only of CPU: a process does not give up memory because its limit fell. Pods on reclaimed capacity are
left alone: they request nothing that could be given to others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from scavenger_api.levels import LevelsState

from scavenger_regulator.core.snapshot import Gang, PodFacts

MIN_CORES: Final = 0.01
"""What a pod keeps, whatever its share is."""
_HAIR: Final = 1e-9

LEAST: Final = 0.001
"""Cores: less is no resize."""
WORTH_A_STEP: Final = 0.05
"""Of what a job asked for: less is not taken away, and given back only where it is all that is owed."""

Use = Callable[[PodFacts], float | None]
"""What a pod uses of a metric as measured, such as cores; None where that is not known."""

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
    """resizes: what to do now. freed: by metric, how much goes out of the load of the pool by what is taken away, now
    or a moment ago. closed: metrics for which that is enough."""

    resizes: tuple[Resize, ...] = ()
    freed: Mapping[str, float] = field(default_factory=dict)
    closed: frozenset[str] = frozenset()

    @property
    def gives_back(self) -> bool:
        """Whether a pod gets CPU back."""
        return any(not resize.throttles for resize in self.resizes)


NOTHING: Final = ThrottlePlan()


@dataclass(frozen=True, slots=True)
class Line:
    """A load that CPU is taken for, and under which it is given back.

    metric: its name. over: by how much the load has to come down, 0 unless it is well above the admission threshold.
    room: by how much it may rise. Both are in units of the metric. use: what a pod uses of it; None: not known, so both
    are either nothing or endless. gangs: that stay, in the order in which they would be evicted for it. node: of which
    it is the load; None: of the pool.
    """

    metric: str
    over: float
    room: float
    gangs: Sequence[Gang]
    use: Use | None
    node: str | None = None

    def falls(self, pod: PodFacts, cores: float, used: float) -> float:
        """By how much the load falls when a pod that uses `used` cores has so many fewer."""
        if self.node not in (None, pod.node):
            return 0.0
        if self.use is None:
            return cores
        return (self.use(pod) or 0.0) * cores / used if used > 0 else 0.0

    def enough(self, freed: float) -> bool:
        """Whether the load comes down far enough by so much. Sums of bytes are not exact."""
        return freed >= self.over * (1 - _HAIR) - LEAST


@dataclass(frozen=True, slots=True)
class ThrottleSnapshot:
    """What one plan is made from.

    state: of the pool. lines: the most urgent first. gangs: that stay, in the order in which they would be evicted for
    CPU. use: the cores that their pods use. infeasible_nodes: that answered Infeasible, and are left alone.
    """

    state: LevelsState
    lines: Sequence[Line]
    gangs: Sequence[Gang]
    use: Use
    infeasible_nodes: Collection[str] = field(default_factory=frozenset)


def throttled(gangs: Iterable[Gang]) -> list[Gang]:
    """Those of them that have less than they asked for."""
    return [gang for gang in gangs if owed(gang) >= LEAST]


def owed(gang: Gang) -> float:
    """Cores that a job asked for and does not have. Those that cannot be given back count for nothing."""
    return sum(gang.cores - _limit(pod) for pod in gang.pods if _resizable(gang, pod) and _limit(pod) < gang.cores)


def owed_of(line: Line, gangs: Iterable[Gang], use: Use) -> float:
    """By how much the load of a line rises when these gangs have all of their CPU back. use: of CPU."""
    pods = [(gang, pod) for gang in gangs for pod in gang.pods if _resizable(gang, pod)]
    return sum(line.falls(p, max(0.0, gang.cores - _limit(p)), min(use(p) or 0.0, _limit(p))) for gang, p in pods)


def restored(gangs: Iterable[Gang]) -> list[Resize]:
    """All that jobs were throttled by, given back at once: where throttling is switched off, no other component ever
    would."""
    pods = [(gang, pod) for gang in gangs for pod in gang.pods if pod.resizable]
    return [one for gang, pod in pods if _resizable(gang, pod) for one in _given_back(gang, [pod], 1.0)]


def plan_resizes(snapshot: ThrottleSnapshot, rules: ThrottleRules) -> ThrottlePlan:
    """Whose CPU to shrink, or to give back, at most `max_resizes`.

    All jobs are left alone while Evicting (victims leave anyway) or Blind. A job that has become non-preemptible gets
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
    back = {resize.pod.key: resize.cores - resize.before for resize in resizes}
    cuts = _Cuts(others, snapshot.use, rules)
    for line in snapshot.lines:
        cuts.close(line)
    resizes += cuts.resizes()
    rooms = [_room(line, protected, back, snapshot.use) for line in snapshot.lines]
    resizes += _give_back([one for one in others if not cuts.touch(one)], rooms, snapshot.use)
    return ThrottlePlan(tuple(resizes[: rules.max_resizes]), cuts.freed, frozenset(cuts.closed))


class _Cuts:
    """Whose CPU is taken away in a plan, line by line. What one line has taken counts for those after it."""

    def __init__(self, others: Iterable[_Resizable], use: Use, rules: ThrottleRules) -> None:
        self.freed: dict[str, float] = {}
        self.closed: set[str] = set()
        self._pods = {gang.uid: pods for gang, pods in others}
        self._gangs = {gang.uid: gang for gang, _ in others}
        self._use = use
        self._rules = rules
        self._kept: dict[str, float] = {}
        """Cores that pods keep, by key."""
        self._order: list[str] = []
        """UIDs of gangs that something is taken from."""

    def touch(self, one: _Resizable) -> bool:
        """Whether CPU is taken from it."""
        return one[0].uid in self._order

    def resizes(self) -> list[Resize]:
        """What is taken, from the first on."""
        found: list[Resize] = []
        for uid in self._order:
            for pod in self._pods[uid]:
                cores = self._kept.get(pod.key)
                if cores is not None and _limit(pod) - cores >= LEAST:
                    found += _resizes(self._gangs[uid], pod, cores)
        return found

    def close(self, line: Line) -> None:
        """Take as much as a line asks for, of the first that have it."""
        # Use above the limit is from before it was taken away.
        freed = sum(self._gone(line, pod) for pods in self._pods.values() for pod in pods)
        count = sum(len(self._pods[uid]) for uid in self._order)
        for gang in line.gangs if line.over > 0 else ():
            if line.enough(freed) or count >= self._rules.max_resizes:
                break
            taken = self._take(line, gang, line.over - freed)
            freed += taken
            count += len(self._pods.get(gang.uid, ())) if taken > 0 else 0
        if line.node is None:
            self.freed[line.metric] = freed
            if line.enough(freed):
                self.closed.add(line.metric)

    def _gone(self, line: Line, pod: PodFacts) -> float:
        used = self._use(pod) or 0.0
        return line.falls(pod, max(0.0, used - self._kept.get(pod.key, _limit(pod))), used)

    def _take(self, line: Line, gang: Gang, over: float) -> float:
        """Of one gang, of each pod alike, as the slowest sets the pace; by how much the load falls."""
        pods = self._pods.get(gang.uid, [])
        # What is used, and not what is allowed: to take what is not used frees nothing.
        used = {pod.key: cores for pod in pods if (cores := self._use(pod)) is not None}
        if not pods or len(used) < len(pods):
            return 0.0
        least = max(MIN_CORES, gang.cores * self._rules.share)
        reach = {pod.key: min(used[pod.key], self._kept.get(pod.key, _limit(pod))) for pod in pods}
        cuts = {key: max(0.0, cores - least) for key, cores in reach.items()}
        falls = sum(line.falls(pod, cuts[pod.key], used[pod.key]) for pod in pods)
        if falls <= 0 or sum(cuts.values()) < max(LEAST, WORTH_A_STEP * gang.cores * len(pods)):
            return 0.0
        part = min(1.0, over / falls)
        self._kept |= {key: reach[key] - part * cut for key, cut in cuts.items() if cut > 0}
        if gang.uid not in self._order:
            self._order.append(gang.uid)
        return part * falls


@dataclass(slots=True)
class _Room:
    """What a line leaves to be given back."""

    line: Line
    left: float


def _room(line: Line, protected: Iterable[_Resizable], back: Mapping[str, float], use: Use) -> _Room:
    """Without what protected jobs get back. Where CPU is taken for a line, there is none."""
    gone = sum(_rises(line, pod, back.get(pod.key, 0.0), use) for _, pods in protected for pod in pods)
    return _Room(line, 0.0 if line.over > 0 else max(0.0, line.room - gone))


def _rises(line: Line, pod: PodFacts, cores: float, use: Use) -> float:
    """By how much a load rises when a pod has so many cores more. Of CPU, by those: it may use them at once."""
    if line.metric == "cpu":
        return cores if line.node in (None, pod.node) else 0.0
    return line.falls(pod, cores, min(use(pod) or 0.0, _limit(pod)))


def _give_back(gangs: Sequence[_Resizable], rooms: Sequence[_Room], use: Use) -> list[Resize]:
    """What all lines leave free, given to those first that would be evicted last."""
    found: list[Resize] = []
    for gang, pods in reversed(gangs):
        missing = {pod.key: max(0.0, gang.cores - _limit(pod)) for pod in pods}
        whole = sum(missing.values())
        if whole < LEAST:
            continue
        needs = [(room, sum(_rises(room.line, pod, missing[pod.key], use) for pod in pods)) for room in rooms]
        narrow = [(room.left / need, room) for room, need in needs if need > 0]
        part, tightest = min(narrow, key=lambda one: one[0], default=(1.0, None))
        part = min(1.0, part)
        if part * whole < min(whole, WORTH_A_STEP * gang.cores * len(pods)):
            if tightest is not None:
                tightest.left = 0.0  # the next one would get it again and again
            continue
        found += _given_back(gang, pods, part)
        for room, need in needs:
            room.left -= part * need
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
