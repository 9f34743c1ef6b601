"""What is known at one moment, as plain values. Amounts are millicores of cpu and bytes of memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from scavenger_api import names
from scavenger_api.states import Phase
from scavenger_domain.nodes import UNMARKED, Marks

Amounts = Mapping[str, int]

SERVICES: Final = (names.ADMITTER, names.REGULATOR, names.PRIORITIZER, names.WEBHOOK, names.SCHEDULER)
"""The components that may be installed, by the names of their charts."""

LEADERLESS: Final = frozenset({names.WEBHOOK})
"""Services of which every replica answers: there is no Lease to tell that one does."""


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """The tasks of an array, as its status says.

    Attributes:
        tasks: how many there are.
        completed: how many of them completed.
        failed: how many failed for good.
        running: how many run.
        cells: all tasks by index in up to `MOST_CELLS` cells of equally many, one letter each (`facts.cells`).
        indexes: those that a user gave, in place of 0 and on; none where they cannot be read.
        by_pods: which tasks run, only their pods say.
    """

    tasks: int
    completed: int
    failed: int
    running: int
    cells: str
    indexes: str = ""
    by_pods: bool = False


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A ScavengerJob.

    cpu, memory: of one pod. pods: in the gang. queued: its place in its queue, microseconds since the epoch. since:
    when it came to be queued.
    runs, interruptions: when its last runs began and were ended, oldest first, at most twenty of each. reason,
    message: why it is not admitted. cause: of its last interruption, while that is what it waits after. useful, lost:
    CPU-seconds. at_risk: CPU-seconds, None where not said. ended: when the last run ended. checkpoint: the last
    one that was reported, annotated: one that the job itself is annotated with, start_over: the last one that was due;
    interval: microseconds between two that are due.
    """

    key: str
    uid: str
    queue: str
    phase: str
    created: datetime | None
    finished: datetime | None = None
    deleting: bool = False
    suspended: bool = False
    reclaimed: bool = False
    cpu: int = 0
    memory: int = 0
    pods: int = 1
    queued: int | None = None
    since: datetime | None = None
    runs: tuple[datetime, ...] = ()
    interruptions: tuple[datetime, ...] = ()
    interrupted: int = 0
    earned: int = 0
    priority: int = 0
    reason: str = ""
    message: str = ""
    cause: str = ""
    useful: float = 0.0
    lost: float = 0.0
    preemption_class: str = ""
    at_risk: float | None = None
    ended: datetime | None = None
    checkpoint: datetime | None = None
    annotated: datetime | None = None
    start_over: datetime | None = None
    interval: int = 0
    array: ArrayFacts | None = None

    @property
    def in_line(self) -> bool:
        """Whether it waits for admission. A job that no admitter has seen has no phase, and waits as well."""
        return not self.phase or self.phase in (Phase.WAITING, Phase.INTERRUPTED)

    @property
    def active(self) -> bool:
        """Whether it has, or should have, pods."""
        return self.phase in (Phase.STARTING, Phase.RUNNING)


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod that has not ended. job: key of its ScavengerJob, empty for regular pods. requests: as the scheduler
    counts them, reclaimed capacity by its own names. service: the component that it is a replica of, with its image,
    and whether it is ready. waits: a regular pod without a node. task: of an array, its index; started,
    checkpoint: of that task, in microseconds since the epoch, None before it runs or reports one."""

    key: str
    node: str
    job: str = ""
    requests: Amounts = field(default_factory=dict)
    service: str = ""
    image: str = ""
    ready: bool = False
    waits: bool = False
    task: int | None = None
    started: int | None = None
    checkpoint: int | None = None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node. note: why nothing new starts there, or empty. offered: reclaimed capacity, as cpu and memory.
    zone, pool: as the labels of a cloud say, or empty. marks: by which the regulator tells pools apart."""

    name: str
    allocatable: Amounts
    offered: Amounts = field(default_factory=dict)
    note: str = ""
    zone: str = ""
    pool: str = ""
    marks: Marks = UNMARKED


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A ScavengerQueue. jobs: how many, by phase in lower case. turns: whether its namespaces take turns."""

    name: str
    state: str
    weight: int = 1
    jobs: Mapping[str, int] = field(default_factory=dict)
    allocated: Amounts = field(default_factory=dict)
    deserved: Amounts = field(default_factory=dict)
    turns: bool = False


@dataclass(frozen=True, slots=True)
class EventFacts:
    """An Event. at: of its last repetition. about, related: `Kind namespace/name`; uid: of what it is about."""

    key: str
    at: datetime
    about: str
    uid: str
    reason: str
    message: str
    related: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything at one moment.

    levels: data of the ConfigMap, None where there is none. leases: when the leader of each service last renewed.
    used: what nodes really use, or None. unfollowed: kinds that this process can no longer follow.
    budgets: namespaces with a budget of the prioritizer. foreign_budgets: namespaces with one of its name that is
    another owner's. held: keys of pods of jobs that have ended, are deleted, and have the admitter's finalizer.
    shunned: nodes on which no job starts as they have refused pods, and what each has said.
    """

    now: datetime
    jobs: Sequence[JobFacts] = ()
    pods: Sequence[PodFacts] = ()
    nodes: Sequence[NodeFacts] = ()
    queues: Sequence[QueueFacts] = ()
    events: Sequence[EventFacts] = ()
    levels: Mapping[str, str] | None = None
    leases: Mapping[str, datetime | None] = field(default_factory=dict)
    used: Mapping[str, Amounts] | None = None
    unfollowed: frozenset[str] = frozenset()
    budgets: Collection[str] = ()
    foreign_budgets: Collection[str] = ()
    held: Collection[str] = ()
    shunned: Mapping[str, str] = field(default_factory=dict)
