"""What comes out of a run. Data; core-hours are of CPU requests times time, loads in percent of allocatable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class MomentKind(StrEnum):
    """What happened to a job."""

    STARTED = "started"
    """Its pods run."""
    COMPLETED = "completed"
    PREEMPTED = "preempted"
    """By the scheduler, for an ordinary pod."""
    EVICTED = "evicted"
    """By the regulator, as the load was above its upper level."""
    YIELDED = "yielded"
    """By the regulator, right after a checkpoint."""
    RECLAIMED = "reclaimed"
    """By the admitter, for the share of another queue."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened to a job. why: in words. lost: core-seconds thrown away by it."""

    at: float
    kind: MomentKind
    job: str
    cores: float
    why: str = ""
    lost: float = 0.0


@dataclass(frozen=True, slots=True)
class ResourcePoint:
    """One resource at one moment, in percent of allocatable. load, ordinary: really used, with and without jobs."""

    load: float
    ordinary: float
    lower: float
    admission: float
    upper: float


@dataclass(frozen=True, slots=True)
class PoolPoint:
    """What the regulator saw and said of one pool of nodes in a period."""

    cpu: ResourcePoint
    memory: ResourcePoint
    state: str
    admit: bool

    def above(self, *, ordinary: bool = False) -> bool:
        """Whether a load is at its upper level. ordinary: the load without jobs."""
        return any((one.ordinary if ordinary else one.load) >= one.upper for one in (self.cpu, self.memory))


@dataclass(frozen=True, slots=True)
class Point:
    """A period of the regulator: what it saw and said.

    percentage: preemptible, None while Blind. running, waiting: jobs. running_cores: requests of those that run. pools:
    of the pools of nodes with levels of their own, by name; all else but jobs is of the default pool.
    """

    at: float
    cpu: ResourcePoint
    memory: ResourcePoint
    percentage: float | None
    state: str
    admit: bool
    running: int
    waiting: int
    running_cores: float
    pools: Mapping[str, PoolPoint] = field(default_factory=dict)

    @property
    def of_pools(self) -> tuple[PoolPoint, ...]:
        """What was seen and said of each pool, of the default pool first."""
        return PoolPoint(self.cpu, self.memory, self.state, self.admit), *self.pools.values()


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What became of a job.

    started: when its pods first ran, None for never. finished: when it was done, None for not yet. waited: seconds in
    line, all together. longest_wait: in one piece. useful, lost: core-seconds, as the admitter counts them.
    """

    name: str
    queue: str
    pods: int
    cores: float
    work_seconds: float
    submitted: float
    started: float | None
    finished: float | None
    runs: int
    interruptions: int
    waited: float
    longest_wait: float
    useful: float
    lost: float

    @property
    def slowdown(self) -> float | None:
        """Time from submission to the end ÷ time it computes; None while it is not done."""
        if self.finished is None or self.work_seconds <= 0:
            return None
        return (self.finished - self.submitted) / self.work_seconds


@dataclass(frozen=True, slots=True)
class Totals:
    """The figures of a whole run.

    Attributes:
        utilisation: CPU really used by everybody, in percent of allocatable, on average.
        utilisation_without: the same without jobs.
        memory_utilisation: of memory.
        memory_utilisation_without: the same without jobs.
        harvested: core-hours that jobs held; useful + lost. What runs at the end counts as useful.
        useful: kept, as the admitter counts it.
        lost: thrown away, as the admitter counts it.
        progress: core-hours of work that is done and safe; useful without starts, checkpoints and restarts.
        periods: of the regulator.
        periods_above_upper: in which the real load was at or above the upper level of a resource.
        periods_above_upper_ordinary: in which the ordinary load alone was.
        nodes_above_upper: the same for the CPU of each node by itself: nodes, summed over the periods.
        full_nodes: nodes without idle CPU, summed over the periods, by their size, such as `8x32Gi`.
        nodes: of the cluster.
        evictions: jobs evicted as the load was above its upper level.
        yields: jobs interrupted right after a checkpoint.
        victims: jobs preempted by the scheduler.
        reclaims: jobs interrupted for the share of another queue.
        victims_minimum: the fewest jobs that would have made the same room, for victims and evictions together.
        delays: seconds that ordinary pods waited for a node, of those that found none at once; ascending.
        delayed_core_hours: their requests times that.
        unscheduled: ordinary pods that left, or were there at the end, without ever having found a node.
        ordinary_pods: that arrived.
        admit_flips: how often admission was opened or closed.
        completed: jobs.
        starved: jobs that waited longer in one piece than the settings allow.
        events: that were worked off.
    """

    utilisation: float = 0.0
    utilisation_without: float = 0.0
    memory_utilisation: float = 0.0
    memory_utilisation_without: float = 0.0
    harvested: float = 0.0
    useful: float = 0.0
    lost: float = 0.0
    progress: float = 0.0
    periods: int = 0
    periods_above_upper: int = 0
    periods_above_upper_ordinary: int = 0
    nodes_above_upper: int = 0
    full_nodes: Mapping[str, int] = field(default_factory=dict)
    nodes: int = 0
    evictions: int = 0
    yields: int = 0
    victims: int = 0
    reclaims: int = 0
    victims_minimum: int = 0
    delays: tuple[float, ...] = ()
    delayed_core_hours: float = 0.0
    unscheduled: int = 0
    ordinary_pods: int = 0
    admit_flips: int = 0
    completed: int = 0
    starved: int = 0
    events: int = 0


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run: of which scenario, how decided, and what came of it. jobs: in the scenario's order."""

    scenario: str
    policy: str
    seed: int
    totals: Totals
    points: tuple[Point, ...] = ()
    moments: tuple[Moment, ...] = ()
    jobs: tuple[JobOutcome, ...] = ()
