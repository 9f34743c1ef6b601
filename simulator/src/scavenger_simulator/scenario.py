"""What a simulation starts from: nodes, ordinary pods, and jobs that would like to scavenge. Data, no decisions.

Units: CPU in millicores, memory in bytes, times in seconds on the scenario's own clock, spans in seconds.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

FOREVER = math.inf
"""When a pod leaves that stays."""

ANY_POOL = "*"
"""The pool of jobs that may run on all nodes."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node, with what it can allocate to pods. pool: of nodes with a device and its taint; empty for all others."""

    name: str
    cpu_milli: int
    memory_bytes: int
    pool: str = ""


@dataclass(frozen=True, slots=True)
class UsageTrace:
    """What a pod really uses: a step function, one value for each period from `start` on.

    Before `start` the first value holds, after the last period the last one. Pods may share a trace, and traces their
    arrays: ten thousand pods of a day by five minutes take 35 MB as array('I') and array('Q').
    """

    start: float
    period_seconds: float
    cpu_milli: Sequence[int]
    memory_bytes: Sequence[int]

    def __post_init__(self) -> None:
        if not self.period_seconds > 0:
            raise ValueError("the period of a usage trace must be more than nothing")
        if not self.cpu_milli or len(self.cpu_milli) != len(self.memory_bytes):
            raise ValueError("a usage trace needs values, and as many of memory as of CPU")

    def index(self, at: float) -> int:
        """Which of the values holds at a moment."""
        return min(max(math.floor((at - self.start) / self.period_seconds), 0), len(self.cpu_milli) - 1)

    def at(self, at: float) -> tuple[int, int]:
        """Millicores and bytes used at a moment."""
        i = self.index(at)
        return self.cpu_milli[i], self.memory_bytes[i]

    def next_change(self, at: float) -> float:
        """The first moment after `at` at which another value begins to hold, equal or not; infinite after the last."""
        i = self.index(at)
        if i + 1 >= len(self.cpu_milli):
            return math.inf
        return self.start + (i + 1) * self.period_seconds


def steady(cpu_milli: int, memory_bytes: int) -> UsageTrace:
    """The same use all the time."""
    return UsageTrace(0.0, math.inf, array("I", [cpu_milli]), array("Q", [memory_bytes]))


@dataclass(frozen=True, slots=True)
class OrdinaryPod:
    """A pod that is no scavenger's.

    arrives: when it is created. leaves: when it is deleted or ends, whether it has found a node by then or not.
    priority: of its PriorityClass. interactive: annotated so, and may displace non-preemptible jobs. pool: of the nodes
    that it runs on.
    """

    name: str
    arrives: float
    leaves: float
    cpu_request_milli: int
    memory_request_bytes: int
    usage: UsageTrace
    priority: int = 0
    interactive: bool = False
    pool: str = ""


@dataclass(frozen=True, slots=True)
class RampUp:
    """After each start, a job uses only `fraction` (0 to 1) of its CPU for so many seconds."""

    seconds: float = 0.0
    fraction: float = 1.0


@dataclass(frozen=True, slots=True)
class ScavengerDemand:
    """A ScavengerJob, and how the program in it behaves.

    submitted: when it is created. pods: in the gang. cpu_milli, memory_bytes: requests of each pod. work_seconds: for
    how long all of its pods must compute until it is done. interruption_after: as the job states it. checkpoint_every:
    the program writes a checkpoint so often and reports it; None: it writes one every `interruption_after`, and reports
    none. checkpoint_cost: seconds for which it does not compute while it writes one. grace_seconds: from the order to
    end until it has ended. restart_seconds: after an interruption, until it computes again. usage: the share of its
    request that a pod really uses of CPU, and of memory. array: of a task, the name of its array. pool: of the nodes
    that it runs on; ANY_POOL for all.
    """

    name: str
    queue: str
    submitted: float
    pods: int
    cpu_milli: int
    memory_bytes: int
    work_seconds: float
    interruption_after: float = 1800.0
    checkpoint_every: float | None = None
    checkpoint_cost: float = 0.0
    ramp_up: RampUp = field(default_factory=RampUp)
    grace_seconds: float = 30.0
    restart_seconds: float = 0.0
    usage: tuple[float, float] = (1.0, 1.0)
    array: str = ""
    pool: str = ""

    @property
    def cores(self) -> float:
        """CPU request of the whole gang, in cores."""
        return self.pods * self.cpu_milli / 1000


@dataclass(frozen=True, slots=True)
class Scenario:
    """A stretch of a cluster's past, from `start` to `end`.

    ordinary, jobs: in any order. queues: name to weight; a queue `default` of weight 1 is always there. seed: what a
    synthetic scenario was made with. origin: where it comes from, for people. past: ordinary pods that had left before
    `start`. They are not played, but the regulator has seen them: where capacity is kept by the hour of the day, it has
    learned from them. Only a cluster of one pool of nodes has a past.
    """

    name: str
    nodes: tuple[NodeSpec, ...]
    ordinary: tuple[OrdinaryPod, ...]
    jobs: tuple[ScavengerDemand, ...]
    queues: Mapping[str, int] = field(default_factory=dict)
    start: float = 0.0
    end: float = 86_400.0
    seed: int = 0
    origin: str = ""
    past: tuple[OrdinaryPod, ...] = ()
