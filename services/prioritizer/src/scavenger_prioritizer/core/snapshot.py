"""What the prioritizer decides on: the running gangs, the nodes on their way out, the published percentage.

Units throughout: times and spans in whole microseconds (times since the epoch), what a pod costs in thousandths of a
core (without accelerators its millicores), unsaved work in those times microseconds inside a decision and in whole
CPU-seconds (core-seconds) where it is written down. Integers, so that two jobs that are equal compare equal, and an
order computed twice is the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec
from scavenger_api.levels import LevelsView, Visibility
from scavenger_api.names import FALLBACK_PREEMPTIBLE_PERCENT
from scavenger_api.weights import DEFAULT_WEIGHTS, Weights
from scavenger_domain.gang import MICROSECONDS, START_OVER_WINDOW, STARTUP_COST, TRUSTED, task_unit
from scavenger_domain.sizes import Sizes


class Record(msgspec.Struct, frozen=True, gc=False):
    """Base of what there are ten thousand of: made in a fraction of a dataclass's time, and of no interest to the
    garbage collector, as it holds no cycles.
    """


class Source(StrEnum):
    """Where the preemptible percentage of a pass comes from."""

    PUBLISHED = "published"
    """The regulator's, fresh."""
    FALLBACK = "fallback"
    """There is no regulator here: no ConfigMap `scavenger-levels`."""
    KEPT = "kept"
    """The ConfigMap is stale, Blind or unreadable: every job keeps the class it has."""


@dataclass(frozen=True, slots=True)
class Share:
    """Which share of the running jobs is preemptible.

    percentage: 0 to 100; None keeps the classes as they are. reason: for people, why it is not a published one.
    """

    percentage: float | None
    source: Source
    reason: str = ""

    @classmethod
    def of(cls, view: LevelsView, fallback: float = FALLBACK_PREEMPTIBLE_PERCENT) -> Share:
        """The share that the levels, read at one moment, ask for; `fallback` percent where there are none."""
        if view.visibility is Visibility.ABSENT:
            return cls(fallback, Source.FALLBACK, view.reason)
        if view.visibility is Visibility.FRESH:
            return cls(view.preemptible_percentage, Source.PUBLISHED)
        return cls(None, Source.KEPT, view.reason)


class PodFacts(Record, frozen=True, gc=False):
    """A pod that carries the label of a job."""

    namespace: str
    name: str
    uid: str
    cost: int
    """Of its requests; on reclaimed capacity, of what was asked for of that."""
    job: str = ""
    """What its labels call its job (`scavenger_domain.gang.job_key_of`), without the namespace."""
    task: str = ""
    """Index of its task, from its label; empty but for pods of arrays."""
    run: str = ""
    """Name of the batch/v1 Job that controls it; empty without one."""
    node: str = ""
    """Empty until it is scheduled."""
    live: bool = True
    """Neither in a terminal phase nor being deleted."""
    terminating: bool = False
    """Being deleted before its containers ended: its gang is about to be interrupted."""
    finished: bool = False
    """It has succeeded. It runs again when its gang is interrupted."""
    computes: bool = False
    """Its main container runs."""
    told_to_go: int | None = None
    """When it was deleted, by the API server's clock."""
    preempted: bool = False
    """A scheduler deleted it, and gave its capacity to another pod."""
    birth: str | None = None
    """When this life of it began, as it is written."""
    started: int | None = None
    """When its main container started."""
    index: int | None = None
    """Its number in the gang."""
    checkpoint: int | None = None
    """Its annotation last-checkpoint, wherever that lies in time."""
    returned: bool = False
    """Of a task, others interrupted its last run."""
    interval: int | None = None
    """In which a checkpoint of this run is due, in microseconds; None where its job says that."""
    class_: str = ""
    """The label preemption-class as it is now."""
    written: int | None = None
    """The annotation running-priority as it is now, in CPU-seconds; None where absent or unreadable."""
    exempt: bool = False
    """Its label leaves it out of the budget."""
    requests: Mapping[str, int] = {}
    """On reclaimed capacity, what it costs beside the CPU that it uses; empty for all others."""
    past: Sizes = ()
    """What it has cost since when, where it was resized in place."""

    @property
    def unit(self) -> str:
        """What it is part of (`scavenger_domain.gang.unit`)."""
        return task_unit(f"{self.namespace}/{self.job}", self.task)


class JobFacts(Record, frozen=True, gc=False):
    """A job, or one task of it. All times are as recorded, and may lie in the future where clocks differ."""

    namespace: str
    name: str
    """What pods call it (`PodFacts.job`)."""
    uid: str
    phase: str
    interval: int
    """interruptionAfter, at least one microsecond."""
    run: str = ""
    """Name of the batch/v1 Job of the present run."""
    parallelism: int = 1
    """Pods in the gang."""
    reclaimed: bool = False
    """Runs on reclaimed capacity: its CPU time is what it really used, where that is measured."""
    created: int = 0
    started: int | None = None
    """The last of runningTimestamps."""
    start_over: int | None = None
    """priorityStartOverTimestamp."""
    checkpoints: tuple[int, ...] = ()
    """Checkpoints recorded on the job itself, wherever they lie in time."""
    ended: int | None = None
    """When the last run ended; None while one runs."""
    preempted: bool = False
    """It was interrupted by a scheduler, which gave its capacity to another pod, and has not started again."""
    interruptions: int = 0
    stopping: bool = False
    """Being deleted or suspended."""
    class_: str = ""
    """status.preemption.class as it is now."""
    task: str = ""
    """Index of the task; empty for a job without tasks. What its status says of a run is of no task."""

    @property
    def key(self) -> str:
        """Its unit (`scavenger_domain.gang.unit`)."""
        return task_unit(f"{self.namespace}/{self.name}", self.task)


class Gang(Record, frozen=True, gc=False):
    """A job with the pods of its present run, or a task with its pod. One pod is a gang as well."""

    job: JobFacts
    pods: tuple[PodFacts, ...]


class ShareOf(StrEnum):
    """What the preemptible percentage is a share of."""

    JOBS = "jobs"
    """Each running job counts as one."""
    REQUESTS = "requests"
    """Each counts with what it requests, by the weights of resources."""
    CAPPED_REQUESTS = "capped-requests"
    """The same, but none with more than the job in the middle: half of all requests are of jobs no larger."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What an administrator may set.

    startup_cost: microseconds added per core until the first checkpoint after a start. trusted: microseconds, the
    longest interval that is taken at its word. weights: of resources, in unsaved work. step: by how
    many CPU-seconds the running priority must have moved before it is written. ratio: and by which share of the smaller
    of the two values.
    budgets: whether non-preemptible pods have PodDisruptionBudgets.
    """

    startup_cost: int = STARTUP_COST
    trusted: int = TRUSTED
    weights: Weights = DEFAULT_WEIGHTS
    step: int = 60
    ratio: float = 1.0
    budgets: bool = True
    returning: int = 15 * MICROSECONDS
    """A job that left its capacity to no pod counts as running for so long: it comes back, and until then other pods
    may use that capacity at no cost."""
    pace: int = 60 * MICROSECONDS
    """The running priority of a job is written no more often than this, unless with a class."""
    window: int = START_OVER_WINDOW
    """A job is preemptible for so long after its checkpoint, reported or due, whatever its place."""
    hold: int = 60 * MICROSECONDS
    """A job that has lost its protection is not protected again sooner, however the percentage trembles."""
    share_of: ShareOf = ShareOf.JOBS
    budget_stay: int = 3600 * MICROSECONDS
    """A budget that selects nothing does no harm, and is deleted only after so long."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything one decision is made on.

    now: microseconds since the epoch. cordoned: names of nodes that take no new pods. budgets: namespaces in which the
    budget exists, and whether it says what it should; None where one of another owner has its name. used: pods on
    reclaimed capacity by UID, and the cost of what each really used on average since `gang_safe_until`; those not in it
    are not measured. written_at: jobs and tasks by unit, and when this process last wrote their running priority, as
    far as it remembers. exposed_at: the same, and when it last wrote that they are preemptible. idle_budgets:
    namespaces in which the budget selects nothing, and since when this process has seen that. lone: nodes without a
    regular pod, whose pods the budget leaves out; None while that is not known, and pods keep what they have.
    shares: of pools with levels of their own, by name; `share` is the default pool's. pool_of: nodes of these pools.
    """

    now: int
    share: Share
    gangs: Sequence[Gang]
    cordoned: frozenset[str] = frozenset()
    budgets: Mapping[str, bool | None] = field(default_factory=dict)
    rules: Rules = Rules()
    used: Mapping[str, int] = field(default_factory=dict)
    written_at: Mapping[str, int] = field(default_factory=dict)
    exposed_at: Mapping[str, int] = field(default_factory=dict)
    idle_budgets: Mapping[str, int] = field(default_factory=dict)
    lone: frozenset[str] | None = frozenset()
    shares: Mapping[str, Share] = field(default_factory=dict)
    pool_of: Mapping[str, str] = field(default_factory=dict)

    def pool(self, gang: Gang) -> str:
        """The pool whose share a gang counts in; empty for the default pool. Of a gang over several it is the one with
        the largest share: a pod that needs capacity there must not wait for the others."""
        if not self.pool_of:
            return ""
        pools = sorted({self.pool_of.get(pod.node, "") for pod in gang.pods if pod.node})
        return max(pools, key=lambda name: _known(self.share_of(name)), default="")

    def share_of(self, pool: str) -> Share:
        """The share of a pool: its own, else that of the default pool."""
        return self.shares.get(pool, self.share)

    @property
    def known(self) -> bool:
        """Whether the share of any pool is known."""
        return any(share.percentage is not None for share in (self.share, *self.shares.values()))


def _known(share: Share) -> float:
    return -1.0 if share.percentage is None else share.percentage
