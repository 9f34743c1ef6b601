"""What the page shows of one moment: the rows of its tables. Times are RFC 3339, shares percent, CPU time seconds.

Nothing in it changes by itself as time passes, ages are reckoned where they are shown: otherwise every picture would
differ from the one before.
"""

from __future__ import annotations

import msgspec


class Row(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Base of what is shown: immutable, camelCase on the wire."""


class ResourceRow(Row, frozen=True, gc=False, rename="camel"):
    """Load of a resource against its levels, in percent; None for what is not known. regular: the part of the load that
    is not of scavenger jobs."""

    load: float | None = None
    lower: float | None = None
    admission: float | None = None
    upper: float | None = None
    mean: float | None = None
    stdev: float | None = None
    regular: float | None = None


class LevelsRow(Row, frozen=True, gc=False, rename="camel"):
    """The levels. visibility: as of `LevelsView`, or Past. says: what they come to, for a person. above: resources at
    or above their eviction threshold; None where the load is not known."""

    visibility: str
    state: str = ""
    observed_at: str | None = None
    period_seconds: float = 0.0
    preemptible_percentage: float | None = None
    message: str = ""
    resources: dict[str, ResourceRow] = {}
    above: list[str] | None = None
    says: str = ""


class AdmissionRow(Row, frozen=True, gc=False, rename="camel"):
    """Whether anything new may start. admits: None where that is not known. says: why, or why not."""

    admits: bool | None
    says: str


class PoolRow(Row, frozen=True, gc=False, rename="camel"):
    """A pool of nodes with levels of its own. nodes: how many it has; None where that is not known."""

    name: str
    nodes: int | None
    levels: LevelsRow
    admission: AdmissionRow


class ServiceRow(Row, frozen=True, gc=False, rename="camel"):
    """A component. answers: None where it is not installed. silent_since: its leader, when last heard of."""

    name: str
    answers: bool | None
    says: str
    ready: int = 0
    replicas: int = 0
    silent_since: str | None = None


class ShareRow(Row, frozen=True, gc=False, rename="camel"):
    """One resource of a node. load: percent of allocatable, used where that is measured, else requested."""

    allocatable: int = 0
    ordinary: int = 0
    scavenger: int = 0
    reclaimed: int = 0
    used: int | None = None
    load: float | None = None


class NodeRow(Row, frozen=True, gc=False, rename="camel"):
    """A node. note: why nothing new starts there. jobs: keys of the ScavengerJobs with a pod there. zone, pool: empty
    where no label says so. levels: the pool by whose levels jobs start there; empty where there is one pool."""

    name: str
    note: str
    cpu: ShareRow
    memory: ShareRow
    pods: int = 0
    jobs: list[str] = []
    zone: str = ""
    pool: str = ""
    levels: str = ""


class QueueRow(Row, frozen=True, gc=False, rename="camel"):
    """A queue. over: resources of which it has more than its share; None where that is not known. line: the first
    queued jobs, by key; in_line: how many there are."""

    name: str
    state: str
    weight: int | None
    jobs: dict[str, int]
    allocated: dict[str, int] | None
    deserved: dict[str, int] | None
    over: list[str] | None
    line: list[str]
    in_line: int


class ArrayRow(Row, frozen=True, gc=False, rename="camel"):
    """The tasks of an array. cells: as of `ArrayFacts`. shown: index and node of the first tasks that have a pod; pods:
    how many do. Indexes of `shown` are those that users gave, of `cells` the place among `indexes`, where there are."""

    tasks: int
    completed: int
    failed: int
    running: int
    cells: str
    pods: int = 0
    shown: list[tuple[int, str]] = []
    indexes: str = ""


class JobRow(Row, frozen=True, gc=False, rename="camel"):
    """A job. since: when it came into its phase. rank: what queued jobs of a queue are sorted by, None for others; no
    place, as that of thousands changes with each start. why: one word, and in says a sentence. useful, lost, at_risk:
    CPU-seconds, None where not known. cpu, memory: of all its pods. runs: as of `scavenger_board.core.runs`.
    checkpointed: the last checkpoint that it reported; safe_until: since when its work counts as unsaved; both Unix
    seconds, and of the run that is under way. Of an array, pods are those that there are, and safe_until is the mean of
    its tasks."""

    key: str
    queue: str
    phase: str
    since: str | None = None
    rank: tuple[int, int, str] | None = None
    why: str = ""
    says: str = ""
    interrupted: int = 0
    useful: float | None = None
    lost: float | None = None
    at_risk: float | None = None
    preemption_class: str = ""
    cpu: int = 0
    memory: int = 0
    pods: int = 1
    nodes: list[str] = []
    reclaimed: bool = False
    runs: list[tuple[int, int | None, str]] = []
    checkpointed: int | None = None
    safe_until: int | None = None
    array: ArrayRow | None = None


class EntryRow(Row, frozen=True, gc=False, rename="camel"):
    """An entry of the timeline. kind: `left` (a job) or `levels` (the regulator's state). cause: why, with means: what
    the word stands for. whom: for whom it had to leave, None where nothing says so. lost: CPU-seconds, None where
    nothing says so; at_most: no more than these. source: `event` or `status`."""

    id: str
    at: str
    kind: str
    job: str = ""
    queue: str = ""
    cause: str = ""
    means: str = ""
    whom: str | None = None
    pod: str = ""
    lost: float | None = None
    at_most: bool = False
    says: str = ""
    source: str = "event"


class FindingRow(Row, frozen=True, gc=False, rename="camel"):
    """A problem of the cluster. remedy: what helps."""

    name: str
    text: str
    remedy: str


class AboutRow(Row, frozen=True, gc=False, rename="camel"):
    """What board this is. cluster, docs: the name of the cluster and the URL of the docs, empty where not set."""

    version: str = ""
    cluster: str = ""
    docs: str = ""


class Picture(Row, frozen=True, gc=False, rename="camel"):
    """All of it. time: of which moment. past: whether that is over. waiting_pods: regular pods without a node, None
    where not known. unknown: what of that moment is not known any more, in sentences. findings: problems of now,
    none of a moment that is over. meanings: what the words stand for that jobs wait by. pools: all of them, the default
    pool first, whose levels are `levels`; none where there is one pool."""

    time: str
    past: bool
    levels: LevelsRow
    admission: AdmissionRow
    services: list[ServiceRow]
    nodes: list[NodeRow]
    queues: list[QueueRow]
    jobs: list[JobRow]
    timeline: list[EntryRow]
    waiting_pods: int | None = None
    unknown: list[str] = []
    findings: list[FindingRow] = []
    meanings: dict[str, str] = {}
    about: AboutRow = AboutRow()
    pools: list[PoolRow] = []
