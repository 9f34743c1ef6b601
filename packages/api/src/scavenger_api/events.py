"""Every Event that a component writes: its reason, its object, its writer, and its message.

`kubectl describe` shows them below the object, `kubectl get events` with all others. The API server keeps them for an
hour, unless it is told otherwise. docs/events.md is generated from here, and a test checks the components against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from scavenger_api import names
from scavenger_api.evictions import EvictionReason
from scavenger_api.levels import LevelsState

JOB, BATCH_JOB, QUEUE, NODE, POD = "ScavengerJob", "Job", "ScavengerQueue", "Node", "Pod"
LEVELS: Final = f"ConfigMap {names.LEVELS_CONFIGMAP}"


@dataclass(frozen=True, slots=True)
class EventKind:
    """One kind of Event. by: the service. about: the object that it is written on. meaning: one sentence."""

    by: str
    about: str
    reason: str
    warning: bool
    meaning: str


_NORMAL, _WARNING = False, True
SNAPSHOT_WARNING: Final = "SnapshotWarning"
CHECKPOINT_UNREADABLE: Final = "CheckpointUnreadable"
NODE_SHUNNED: Final = "NodeShunned"
NODE_TRUSTED: Final = "NodeTrusted"
RECOMMENDED: Final = "Recommended"
NOT_ADOPTED: Final = "NotAdopted"

_KINDS: Final[Mapping[tuple[str, str], tuple[tuple[str, bool, str], ...]]] = {
    (names.ADMITTER, JOB): (
        (
            RECOMMENDED,
            _NORMAL,
            "From the next start on, the pods of the job request other amounts, which follow from measured use.",
        ),
        ("CannotStart", _WARNING, "The job cannot start unless it, its queue or the cluster changes."),
        ("Unreadable", _WARNING, "The admitter cannot read the job, and does not change it or its pods."),
        (
            "Interrupted",
            _NORMAL,
            "Something outside ended a run. The message has the cause, the pod and the lost CPU time.",
        ),
        (
            "Retrying",
            _WARNING,
            "A container failed by itself. The job starts again, as its backoffLimit or podFailurePolicy allows.",
        ),
        (
            SNAPSHOT_WARNING,
            _WARNING,
            "A snapshot failed or was refused. The message has the reason that `snap` gave.",
        ),
        (
            CHECKPOINT_UNREADABLE,
            _WARNING,
            "A program reported a checkpoint with a time that cannot be read. The checkpoint does not count.",
        ),
        (
            "TaskFailed",
            _WARNING,
            "A task of an array failed for good. The other tasks continue, unless failFast is set.",
        ),
        ("StartFailed", _WARNING, "A start failed. The job is queued again."),
        (
            "Failed",
            _WARNING,
            "The job failed for good. The message has the exit code and the pod, or the missing object.",
        ),
        ("Reopened", _WARNING, "The status said that the job had finished, but all its pods run. The job continues."),
    ),
    (names.ADMITTER, BATCH_JOB): (
        (NOT_ADOPTED, _NORMAL, "A Job of a namespace with `scavenger.dev/adopt: all` runs as a regular Job."),
    ),
    (names.ADMITTER, QUEUE): (("Releasing", _NORMAL, "The queue is being deleted, after all of its jobs."),),
    (names.ADMITTER, NODE): (
        (NODE_SHUNNED, _WARNING, "The node refused pods. No job starts there for a while, until one job tests it."),
        (
            NODE_TRUSTED,
            _NORMAL,
            "Pods start on the node again, or the node was deleted. Jobs may start there as before.",
        ),
    ),
    (names.REGULATOR, JOB): (
        (
            EvictionReason.ABOVE_UPPER,
            _NORMAL,
            "The regulator evicts the job, because the load reached the eviction threshold.",
        ),
        (
            EvictionReason.YIELD,
            _NORMAL,
            "The regulator evicts the job right after a checkpoint, when this costs no work.",
        ),
        (
            EvictionReason.NODE_MEMORY,
            _NORMAL,
            "The regulator evicts the job from a node that is about to run out of memory.",
        ),
        (
            "BudgetOverridden",
            _WARNING,
            "A PodDisruptionBudget refused the eviction of the job, so the regulator deleted its pod.",
        ),
    ),
    (names.REGULATOR, LEVELS): (
        (LevelsState.FILLING, _NORMAL, "The load is below the low watermark. Jobs start."),
        (
            LevelsState.SPECULATIVE,
            _NORMAL,
            "The load is between the levels. Regular pods may displace more and more jobs.",
        ),
        (
            LevelsState.EVICTING,
            _NORMAL,
            "The load reached the eviction threshold. Jobs leave until it is at the low watermark.",
        ),
        (LevelsState.BLIND, _WARNING, "The load is not known. No job starts, and none is evicted."),
    ),
    (names.REGULATOR, NODE): (
        ("NodeMemoryShort", _WARNING, "The node is short of memory, and has no job that the regulator may evict."),
    ),
    (names.PRIORITIZER, LEVELS): (
        ("ClassesKept", _WARNING, "The levels are stale or cannot be read. Running jobs keep their classes."),
        ("ClassesFollow", _NORMAL, "The levels can be read again, and classes follow them."),
    ),
    (names.SCHEDULER, POD): (
        (
            "PreemptedBy",
            _NORMAL,
            "The scheduler freed capacity. The message has the pod that gets it, the node, and the unsaved work of the "
            "job.",
        ),
    ),
}

EVENTS: Final = tuple(
    EventKind(by, about, str(reason), warning, meaning)
    for (by, about), kinds in _KINDS.items()
    for reason, warning, meaning in kinds
)
"""All of them."""
