"""What the regulator decides on: nodes, gangs, and one measurement. Data, no decisions.

Units: CPU in cores, memory in bytes, load and levels in percent of what the counted nodes can allocate, unsaved CPU
time in core-seconds, moments as aware datetimes in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from scavenger_api.reclaimed import MIB
from scavenger_api.times import EPOCH, parse_time
from scavenger_domain.nodes import PLAIN_POOL
from scavenger_domain.sizes import Sizes
from scavenger_domain.unit import WHOLE_SECOND, of_life

from scavenger_regulator.core.history import Figures as History
from scavenger_regulator.core.levels import ThrottleLines, WaterLevels

CLUSTER: Final = ""
"""The scope of the default pool: all counted nodes that are in no pool with levels of its own. Other scopes are those
of pools, and the names of single nodes."""

POOL: Final = "pool/"
"""Before the name of a pool in its scope; no node has a slash in its name."""


def of_pool(scope: str) -> bool:
    """Whether a scope is a pool, the default pool or another, and not one node."""
    return not scope or scope.startswith(POOL)


RECLAIMED_UNIT: Final = {"cpu": 0.001, "memory": float(MIB)}
"""How many cores or bytes one unit of the extended resource is that stands for them."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value. at: when it was taken. window: seconds over which it is an average, before `at`."""

    value: float
    at: datetime
    window: float = 0.0


Figures = Mapping[str, Figure]
"""By resource: cpu in cores, memory in bytes; or by node."""


_NONE: Final[Figures] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AddedFigures:
    """What is known of one metric beside CPU and memory. nodes: what each uses of it. capacity: what each has of it."""

    nodes: Figures = field(default_factory=dict)
    capacity: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a source said, as it came: nothing has been checked.

    nodes: by node name. pods: of scavenger pods, by UID where the source knows it, else by `namespace/name`; also of
    metrics beside CPU and memory. total: of
    the whole cluster, from sources that know it only in one piece; nodes with figures of their own take precedence.
    failed: why there is nothing. source: its name, as it is published. added: metrics beside CPU and memory, by name.
    """

    nodes: Mapping[str, Figures] = field(default_factory=dict)
    pods: Mapping[str, Figures] = field(default_factory=dict)
    total: Figures = field(default_factory=dict)
    failed: str = ""
    source: str = ""
    added: Mapping[str, AddedFigures] = field(default_factory=dict)

    def of(self, pod: PodFacts) -> Figures:
        """The figures of a pod."""
        return self.pods.get(pod.uid) or self.pods.get(pod.key, _NONE)

    def by_life(self, pods: Iterable[PodFacts], now: datetime) -> Measurement:
        """The same with figures of these pods by UID, and none of an earlier pod that had the name of one."""
        known = {pod.uid: figures for pod in pods if (figures := self._of_life(pod, now))}
        return replace(self, pods=known)

    def _of_life(self, pod: PodFacts, now: datetime) -> Figures:
        own, named = self.pods.get(pod.uid), self.pods.get(pod.key)
        if not named:
            return own or _NONE
        created = parse_time(pod.birth) or EPOCH
        for figure in named.values():
            if not (0.0 <= figure.window <= _LONGEST and of_life(created, _begins(figure), now)):
                named = {name: one for name, one in named.items() if one is not figure}
        return {**named, **own} if own else named


_LONGEST: Final = 1e9
"""Seconds. Nothing has checked what a source says, and calendars have a beginning."""


def _begins(figure: Figure) -> datetime:
    """From when a figure is an average, as far as that is known in whole seconds."""
    try:
        return figure.at - timedelta(seconds=figure.window - WHOLE_SECOND)
    except OverflowError:
        return figure.at


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node. capacity, allocatable: by resource. counts: as in `scavenger_domain.nodes.counts`."""

    name: str
    allocatable: Mapping[str, float]
    capacity: Mapping[str, float]
    counts: bool
    offered: Mapping[str, int] = field(default_factory=dict)
    """Its reclaimed capacity as published, by resource, in millicores and MiB; empty where it has none."""
    copied: bool = True
    """What can be allocated of it is the same: a kubelet sees to that, a fake node does not."""
    pressed: bool = False
    """Under pressure: nothing new may start there."""
    created: datetime | None = None
    levels: Mapping[str, WaterLevels] = field(default_factory=dict)
    """By metric, levels above which its own are not to be."""
    lines: Mapping[str, ThrottleLines] = field(default_factory=dict)
    """By metric, from where to where jobs on it are throttled."""
    pool: str = PLAIN_POOL
    """As in `scavenger_domain.nodes.pool_of`."""
    kept_out: tuple[str, ...] = ()
    """As in `scavenger_domain.nodes.keeping_out`, of one that could take pods."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A scavenger pod that still occupies its node.

    deletion_deadline: when it should be gone, None while it is not being deleted: its own grace period after that was
    asked for, or sooner. running_since: from when figures show it, None until it runs. requests: by resource, in cores
    and bytes; of a pod on reclaimed capacity what it counts as. grace: seconds between SIGTERM and SIGKILL.
    """

    key: str
    uid: str
    node: str
    requests: Mapping[str, float]
    preemptible: bool
    running_since: datetime | None
    deletion_deadline: datetime | None = None
    checkpoint: datetime | None = None
    index: int | None = None
    """Which member of the gang it is."""
    grace: float = 30.0
    resizable: Mapping[str, float] = field(default_factory=dict)
    """The container of the job's program → its CPU request now, in cores; for throttling. Others are not the job's."""
    limit_above: float = 0.0
    """By so many cores the CPU limit of that container is above its request: its QoS class must not change."""
    refused_resize: bool = False
    """The kubelet has answered Infeasible."""
    reclaimed: bool = False
    """Placed by reclaimed capacity: nothing is set aside for it."""
    computes_with: Mapping[str, int] | None = None
    """Its requests while it runs, without the init phase and the overhead: millicores, bytes and units. None:
    `requests` has neither."""
    sizes: Sizes = ()
    """Where it was resized in place, the CPU that it has requested since when."""
    prolonged: bool = False
    """The client that deleted it asked for a longer grace period than its own, so that it may stay beyond the
    deadline."""
    started: datetime | None = None
    """When its main container started: unsaved work counts from there."""
    birth: str | None = None
    """When this life of it began, as it is written: an earlier figure by its name is of another one."""


@dataclass(frozen=True, slots=True)
class Gang:
    """A ScavengerJob with the pods of its present run; one pod is a gang as well.

    interval: seconds of `interruptionAfter`. cores: CPU request of one pod as the job asks for it. running:
    phase Running, so that there is work to lose or to keep.
    """

    key: str
    uid: str
    pods: tuple[PodFacts, ...]
    interval: float
    cores: float
    running: bool
    started: datetime | None = None
    start_over: datetime | None = None
    checkpoint: datetime | None = None
    interruptions: int = 0
    returned: bool = False
    """It was interrupted before, whatever caused that."""
    parallelism: int = 1
    """Members that the job asks for."""
    stopping: bool = False
    """Being deleted or suspended."""
    finished: tuple[PodFacts, ...] = ()
    """Members of the present run that have succeeded. They run again when the gang is interrupted."""
    created: datetime | None = None

    @property
    def preemptible(self) -> bool:
        """Whether all of its pods are that stay."""
        return all(pod.preemptible for pod in self.pods if pod.deletion_deadline is None)


@dataclass(frozen=True, slots=True)
class RecentTermination:
    """A scavenger pod that has gone: until the measurements begin after it, its use is in the load and must not be
    taken for load that a job still has to leave for. use: by resource, as last measured."""

    node: str
    use: Mapping[str, float]
    at: datetime
    reclaimed: bool = False


CpuTime = Callable[[str, datetime, datetime], float | None]
"""The CPU time that the pod of a UID really used between two moments, in core-seconds; None where that is not known."""


def unknown_cpu_time(uid: str, since: datetime, until: datetime) -> float | None:
    """The CPU time of pods that are not watched."""
    return None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything one decision looks at.

    started: when this process began to regulate; it does not know what was going on before. refused: UIDs of
    jobs whose eviction a budget refused a short while ago. failed: of those whose eviction failed again and again.
    """

    now: datetime
    started: datetime
    nodes: Mapping[str, NodeFacts]
    gangs: tuple[Gang, ...]
    measurement: Measurement
    recent_terminations: tuple[RecentTermination, ...] = ()
    refused: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    history: Mapping[str, Mapping[str, History]] = field(default_factory=dict)
    """Scope → resource → what is known of the regular load."""
    regular: Mapping[str, Mapping[str, float]] | None = None
    """What regular pods request, by node and resource, in cores and bytes; None where the regulator does not follow
    them."""
    rises: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Scope → resource → how much more they may request within half an hour, in cores and bytes."""
    cpu_time: CpuTime = unknown_cpu_time
    """Of pods on reclaimed capacity."""

    @property
    def pods_by_node(self) -> dict[str, list[PodFacts]]:
        """The scavenger pods, by the node they are on."""
        found: dict[str, list[PodFacts]] = {}
        for gang in self.gangs:
            for pod in gang.pods:
                found.setdefault(pod.node, []).append(pod)
        return found

    @property
    def gangs_by_node(self) -> dict[str, list[Gang]]:
        """The gangs with a pod on a node, by node; one with pods on several is there for each of them."""
        found: dict[str, list[Gang]] = {}
        for gang in self.gangs:
            for node in {pod.node for pod in gang.pods}:
                found.setdefault(node, []).append(gang)
        return found

    @property
    def recent_terminations_by_node(self) -> dict[str, list[RecentTermination]]:
        """The recent terminations, by the node they were from."""
        found: dict[str, list[RecentTermination]] = {}
        for one in self.recent_terminations:
            found.setdefault(one.node, []).append(one)
        return found
