"""Every Event that a part of ours writes: its reason, what it is about, who writes it, and what it says.

`kubectl describe` shows them below the object, `kubectl get events` with all others. The API server keeps them for an
hour, unless it is told otherwise. docs/events.md is generated from here, and a test holds the services to it.
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
            "The pods of the job request something else from the next start on, by what was measured.",
        ),
        ("CannotStart", _WARNING, "The job does not start before it, its queue or the cluster is changed."),
        ("Unreadable", _WARNING, "The admitter cannot read the job, and leaves it and its pods alone."),
        ("Interrupted", _NORMAL, "A run was ended from outside: by what, on which pod, and how much CPU time is lost."),
        (
            "Retrying",
            _WARNING,
            "A container failed by itself; the job starts again, as its backoffLimit or podFailurePolicy allows.",
        ),
        (
            SNAPSHOT_WARNING,
            _WARNING,
            "What `snap` said of the last run of a program: a snapshot that failed or was refused, and why.",
        ),
        (
            CHECKPOINT_UNREADABLE,
            _WARNING,
            "A program reports a checkpoint, and its time cannot be read: the checkpoint does not count.",
        ),
        ("TaskFailed", _WARNING, "A task of an array failed for good; the other tasks go on, unless failFast is set."),
        ("StartFailed", _WARNING, "A start failed; the job is queued again."),
        ("Failed", _WARNING, "The job has failed for good: exit code and pod, or what it names and is not there."),
        ("Reopened", _WARNING, "The status said that the job had finished, while all its pods ran; it goes on."),
    ),
    (names.ADMITTER, BATCH_JOB): (
        (NOT_ADOPTED, _NORMAL, "A Job of a namespace with `scavenger.dev/adopt: all` runs as a regular Job."),
    ),
    (names.ADMITTER, QUEUE): (
        ("Releasing", _NORMAL, "The queue is being deleted: its jobs go first, and then the queue."),
    ),
    (names.ADMITTER, NODE): (
        (NODE_SHUNNED, _WARNING, "The node has refused pods: no job starts there for a while, and then one tests it."),
        (NODE_TRUSTED, _NORMAL, "Pods start on the node again, or it is gone: jobs start there as before."),
    ),
    (names.REGULATOR, JOB): (
        (
            EvictionReason.ABOVE_UPPER,
            _NORMAL,
            "It is taken off its nodes, as the load has reached the eviction threshold.",
        ),
        (EvictionReason.YIELD, _NORMAL, "It has just written a checkpoint, and is taken off while that costs nothing."),
        (EvictionReason.NODE_MEMORY, _NORMAL, "It is taken off a node that is about to run out of memory."),
        ("BudgetOverridden", _WARNING, "A PodDisruptionBudget refused its eviction; its pod was deleted all the same."),
    ),
    (names.REGULATOR, LEVELS): (
        (LevelsState.FILLING, _NORMAL, "The load is below the low watermark: jobs start."),
        (LevelsState.SPECULATIVE, _NORMAL, "The load is between the levels: more and more jobs may be displaced."),
        (
            LevelsState.EVICTING,
            _NORMAL,
            "The load has reached the eviction threshold: jobs leave until it is at the low watermark.",
        ),
        (LevelsState.BLIND, _WARNING, "The load is not known: no job starts, and none is evicted."),
    ),
    (names.REGULATOR, NODE): (
        ("NodeMemoryShort", _WARNING, "The node is short of memory, and there is no job that the regulator may take."),
    ),
    (names.PRIORITIZER, LEVELS): (
        ("ClassesKept", _WARNING, "The levels are stale, or cannot be read: running jobs keep their classes."),
        ("ClassesFollow", _NORMAL, "The levels can be read again, and the classes follow them."),
    ),
    (names.SCHEDULER, POD): (
        (
            "PreemptedBy",
            _NORMAL,
            "The scheduler has freed capacity: for which pod, where, and the unsaved work of the job.",
        ),
    ),
}

EVENTS: Final = tuple(
    EventKind(by, about, str(reason), warning, meaning)
    for (by, about), kinds in _KINDS.items()
    for reason, warning, meaning in kinds
)
"""All of them."""
