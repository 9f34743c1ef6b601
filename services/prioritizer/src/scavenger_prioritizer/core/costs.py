"""What other controllers are told of unsaved work: a pure function of one snapshot (docs/checkpoint-contract.md).

Regular pods that report checkpoints get `controller.kubernetes.io/pod-deletion-cost`, which the ReplicaSet controller
reads, and the Workloads of Kueue that they are part of get `kueue.x-k8s.io/priority-boost`. Both are steps that double,
so that a figure changes a few times between two checkpoints.

Units: moments and spans in whole microseconds, costs in thousandths of a core, unsaved work in CPU-seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from scavenger_api.weights import DEFAULT_WEIGHTS, Weights
from scavenger_domain.gang import MICROSECONDS, STARTUP_COST, TRUSTED, cpu_seconds, safe_until, time_at_risk

from scavenger_prioritizer.core.snapshot import Record

FIRST_STEP: Final = 60
"""CPU-seconds of unsaved work at which step 1 begins."""
MOST_STEP: Final = 20
"""No figure is higher: Kueue adds it to the priority of a Workload. Step 20 begins at 8,738 core-hours."""


class Reporter(Record, frozen=True, gc=False):
    """A regular pod that reports checkpoints.

    Attributes:
        job: UID of its controller; empty for none.
        cost: of its requests.
        started: when its main container started; None while it does not run.
        checkpoint: what it reports, wherever that lies in time.
        written: its annotation as it is; empty where it has none.
    """

    namespace: str
    name: str
    uid: str
    job: str
    cost: int
    started: int | None
    checkpoint: int | None
    written: str


class Queued(Record, frozen=True, gc=False):
    """A Workload of Kueue.

    Attributes:
        job: UID of the Job that it is of.
        admitted: whether its pods may run.
        written: its annotation as it is; empty where it has none.
    """

    namespace: str
    name: str
    uid: str
    job: str
    admitted: bool
    written: str


@dataclass(frozen=True, slots=True)
class CostRules:
    """What an administrator may set.

    Attributes:
        interval: in which a checkpoint is due. A regular pod promises none, so that no report gains more than this.
        startup_cost: of a restart, for each core.
        trusted: the longest interval that is taken at its word.
        weights: of resources.
        pace: an object is written no more often than this.
        of_pods: whether pods get a figure of their own, beside their Workloads.
    """

    interval: int
    startup_cost: int = STARTUP_COST
    trusted: int = TRUSTED
    weights: Weights = DEFAULT_WEIGHTS
    pace: int = 60 * MICROSECONDS
    of_pods: bool = True


@dataclass(frozen=True, slots=True)
class CostSnapshot:
    """What one decision is made on.

    Attributes:
        namespaces: in which an administrator has switched it on.
        written_at: objects by UID, and when this process last wrote to them, or was refused.
        foreign: UIDs of objects whose figure another manager has.
        allowance: most writes of this decision.
    """

    now: int
    pods: Sequence[Reporter]
    workloads: Sequence[Queued]
    namespaces: Collection[str]
    rules: CostRules
    written_at: Mapping[str, int] = field(default_factory=dict)
    foreign: Collection[str] = frozenset()
    allowance: int = 60


class CostWrite(Record, frozen=True, gc=False):
    """One annotation of one object."""

    of: Reporter | Queued
    step: int


def plan_costs(snapshot: CostSnapshot) -> list[CostWrite]:
    """The figures to write now, most pressing first, and no more than the allowance.

    1. Workloads that wait: with a boost they would go before others of their priority, and preempt these;
    2. then namespaces take turns, so that none uses up the allowance; in each the largest change goes first.
    """
    unsaved = {pod.uid: _unsaved(pod, snapshot) for pod in snapshot.pods if pod.namespace in snapshot.namespaces}
    of_jobs = Counter[tuple[str, str]]()
    for pod in snapshot.pods:
        if pod.job:
            of_jobs[pod.namespace, pod.job] += unsaved.get(pod.uid, 0)
    figures = snapshot.pods if snapshot.rules.of_pods else ()
    wanted = [CostWrite(pod, step_of(unsaved[pod.uid])) for pod in figures if pod.uid in unsaved]
    for one in snapshot.workloads:
        if one.namespace in snapshot.namespaces:
            wanted.append(CostWrite(one, step_of(of_jobs[one.namespace, one.job]) if one.admitted else 0))
    due = [write for write in wanted if _due(write, snapshot)]
    return _in_turn(due)[: max(0, snapshot.allowance)]


def step_of(unsaved: int) -> int:
    """0 below a CPU-minute, 1 from there on, and one more each time the unsaved work doubles.

    Args:
        unsaved: CPU-seconds, 0 or more.
    """
    return min(MOST_STEP, (unsaved // FIRST_STEP).bit_length())


def _unsaved(pod: Reporter, snapshot: CostSnapshot) -> int:
    """As of a scavenger job of one pod (`scavenger_domain.gang`)."""
    if pod.started is None:
        return 0
    rules, now = snapshot.rules, snapshot.now
    start = min(pod.started, now)
    since = safe_until(start, rules.interval, (pod.checkpoint,), now)
    return cpu_seconds(pod.cost * time_at_risk(start, since, now, rules.startup_cost, rules.interval, rules.trusted))


def _waits(write: CostWrite) -> bool:
    return isinstance(write.of, Queued) and not write.of.admitted


def _due(write: CostWrite, snapshot: CostSnapshot) -> bool:
    """Whether the figure is another one, may be changed, and was not written a moment ago."""
    if str(write.step) == (write.of.written or "0") or write.of.uid in snapshot.foreign:
        return False
    at = snapshot.written_at.get(write.of.uid)
    return _waits(write) or at is None or not at <= snapshot.now < at + snapshot.rules.pace


def _in_turn(writes: Iterable[CostWrite]) -> list[CostWrite]:
    turns = Counter[str]()
    places: list[tuple[bool, int, CostWrite]] = []
    for write in sorted(writes, key=lambda one: (-abs(one.step - _step(one.of.written)), one.of.uid)):
        turns[write.of.namespace] += 1
        places.append((not _waits(write), turns[write.of.namespace], write))
    places.sort(key=lambda place: place[:2])
    return [write for _, _, write in places]


def _step(text: str) -> int:
    """The figure of an annotation, which a user may have written: 0 for what is none of ours."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 2 else 0
