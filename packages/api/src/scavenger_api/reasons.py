"""Every word that appears as the reason of a condition of a ScavengerJob, once, with what it means.

A reason is for programs and for looking up (docs/reasons.md); the message beside it has the figures. `__doc__` of
each member is its meaning, as the documentation shows it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self

from scavenger_api.names import REASON_RUNNING


class Reason(StrEnum):
    """Base of the lists below: a word in CamelCase, and what it means."""

    _value_: str

    def __new__(cls, word: str, meaning: str) -> Self:
        """A member: `word` is its value, `meaning` its docstring."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.__doc__ = meaning
        return member

    @classmethod
    def of(cls, word: str) -> Self | None:
        """The member with that value; None for a word of another list, or of another version."""
        return next((member for member in cls if member == word), None)


class WaitReason(Reason):
    """Why a job waits: reasons of the condition Admitted while it is False.

    A start that was undone from outside before the job ran has an `InterruptionReason` there.
    """

    # queued
    QUEUED = "Queued", "It is queued, and no admission cycle has said more than that yet."
    NEXT_CYCLE = "NextCycle", "As many jobs as may start at once are starting; its turn is next."
    STARTING = "Starting", "Its start is under way."
    SUSPENDED = "Suspended", "It is not queued, by spec.suspend."
    DEPENDENCY = "Dependency", "A job of its spec.after does not exist yet, or has not ended."
    CHECKPOINTED = (
        "Checkpointed",
        "It ended with its checkpointExitCode: its state is saved, and it continues from there.",
    )
    RETRYING = (
        "Retrying",
        "A container failed by itself, and its backoffLimit or podFailurePolicy allows another run from its last "
        "checkpoint.",
    )
    # what is left of its last run or start
    PODS_REMAIN = "PodsRemain", "A pod of its last run is still there; no second run begins beside it."
    HELD_BACK = (
        "HeldBack",
        "A pod or the Job of its last run should have gone long ago, or a Job that is not its own has its name.",
    )
    BACKING_OFF = (
        "BackingOff",
        "Its last start failed, or its last runs were short; the next start waits, longer each time.",
    )
    UNSCHEDULABLE = "Unschedulable", "Its last start failed: the scheduler found no node for a pod."
    REFUSED = "Refused", "Its last start failed: the kubelet of a node did not admit a pod."
    START_ERROR = "StartError", "Its last start failed: the container runtime could not start a container."
    START_TIMEOUT = (
        "StartTimeout",
        "Its last start failed: it took longer than startTimeout allows.",
    )
    REFERENCE_MISSING = (
        "ReferenceMissing",
        "Its last start failed: a claim, ConfigMap, Secret or service account is missing.",
    )
    QUOTA_EXCEEDED = "QuotaExceeded", "Its last start failed: a ResourceQuota of its namespace is used up."
    CREATION_REFUSED = "CreationRefused", "Its last start failed: the API server refused its Job or its pods."
    CREATION_FAILED = (
        "CreationFailed",
        "Its last start failed: the API server did not create its Job, for trouble of its own.",
    )
    NAME_TAKEN = "NameTaken", "Its last start failed: a Service or a Secret that is not its own has the name it needs."
    CREATION_UNANSWERED = (
        "CreationUnanswered",
        "The API server, or an admission webhook, does not answer the creation of Jobs in its namespace.",
    )
    INSTALLATION_INCOMPLETE = (
        "InstallationIncomplete",
        "Its last start failed: the PriorityClasses of scavenger jobs are not installed, or the API server drops "
        "spec.managedBy of Jobs.",
    )
    # it will not start before the job or the cluster is changed
    DEPENDENCY_NEVER_SATISFIED = (
        "DependencyNeverSatisfied",
        "A job of its spec.after failed, was deleted before its end was seen, or waits for this job.",
    )
    SPEC_TOO_LARGE = "SpecTooLarge", "Its spec is larger than 256 KiB as JSON, or its pods together than 256 MiB."
    BEYOND_MAXIMA = "BeyondMaxima", "It asks for more than an administrator allows any job."
    POD_SECURITY = "PodSecurity", "It asks for what scavenger jobs of its namespace may not have."
    NO_NODE = "NoNode", "The cluster has no node."
    NO_SELECTOR_MATCH = "NoSelectorMatch", "No node has the labels of spec.nodeSelector."
    TAINT_NOT_TOLERATED = "TaintNotTolerated", "Every node it may run on has a taint that it does not tolerate."
    LARGER_THAN_ANY_NODE = "LargerThanAnyNode", "One of its pods would not fit the largest node if that were empty."
    LARGER_THAN_CLUSTER = "LargerThanCluster", "Its pods together would not fit all nodes if those were empty."
    # its queue
    QUEUE_MISSING = "QueueMissing", "The queue it names does not exist."
    QUEUE_CLOSED = "QueueClosed", "Its queue is closed."
    QUEUE_RELEASING = "QueueReleasing", "Its queue is being deleted, and its jobs with it."
    NAMESPACE_NOT_SELECTED = "NamespaceNotSelected", "Its queue is not for jobs of its namespace."
    LARGER_THAN_QUOTA = "LargerThanQuota", "It asks for more than the whole quota of its queue."
    QUEUE_QUOTA = "QueueQuota", "With it, its queue would use more than its quota."
    QUEUE_SHARE = "QueueShare", "With it, its queue would use more than its share, and others leave too little."
    MAKING_ROOM = "MakingRoom", "Pods are leaving whose capacity it will have."
    # the load
    BLIND = "Blind", "The load of the cluster is not known: the published levels are stale, unreadable or Blind."
    ADMIT_FALSE = "AdmitFalse", "The regulator lets no job start while it evicts, and in the cool-down after that."
    ADMISSION_LEVEL = "AdmissionLevel", "With it, the load would reach the admission threshold."
    # capacity
    NO_PLACE = "NoPlace", "It does not fit now; a gang starts as a whole."
    TURN_KEPT = "TurnKept", "It has waited for long, and the capacity that it will have is kept from all others."
    NO_HEADROOM = (
        "NoHeadroom",
        "By requests it fits on nodes, but each of these is too near to its own admission threshold.",
    )
    NOTHING_RECLAIMED = "NothingReclaimed", "It has capacity: Reclaimed, and no regulator publishes reclaimed capacity."


NEVER: Final = frozenset(
    {
        WaitReason.DEPENDENCY_NEVER_SATISFIED,
        WaitReason.SPEC_TOO_LARGE,
        WaitReason.BEYOND_MAXIMA,
        WaitReason.POD_SECURITY,
        WaitReason.NO_NODE,
        WaitReason.NO_SELECTOR_MATCH,
        WaitReason.TAINT_NOT_TOLERATED,
        WaitReason.LARGER_THAN_ANY_NODE,
        WaitReason.LARGER_THAN_CLUSTER,
        WaitReason.LARGER_THAN_QUOTA,
        WaitReason.QUEUE_MISSING,
        WaitReason.QUEUE_CLOSED,
        WaitReason.NAMESPACE_NOT_SELECTED,
    }
)
"""A job with one of these does not start until a user changes the job, its queue or the cluster."""


class InterruptionReason(Reason):
    """Who or what took a running job off its nodes: reasons of the condition Interrupted while it is True.

    Closed: it is a label of metrics, too.
    """

    PREEMPTED = "Preempted", "The scheduler gave its capacity to a regular pod."
    EVICTED = "Evicted", "A user or a program evicted a pod of it through the API."
    ABOVE_UPPER_LEVEL = (
        "AboveUpperLevel",
        "The load had reached the eviction threshold, and this job had the least unsaved work.",
    )
    YIELD_AT_CHECKPOINT = (
        "YieldAtCheckpoint",
        "It had just written a checkpoint, so it lost nothing, and others were waiting for the capacity.",
    )
    NODE_MEMORY = (
        "NodeMemory",
        "Its node was short of memory, and the regulator evicted it before the kubelet had to choose.",
    )
    KUBELET_EVICTED = "KubeletEvicted", "Its node ran short of a resource, and the kubelet ended it."
    NODE_OUT_OF_MEMORY = (
        "NodeOutOfMemory",
        "A container of it was killed for memory on a node that was short of memory.",
    )
    NODE_DRAINED = "NodeDrained", "Its node had a taint that ends pods, or that announces its own end."
    NODE_LOST = "NodeLost", "Its node was lost."
    NODE_SHUTDOWN = "NodeShutdown", "Its node was shut down."
    QUEUE_RECLAIMED = "QueueReclaimed", "Another queue was under its share and took its capacity back."
    STARVED = "Starved", "On reclaimed capacity it got too little CPU for too long, on a node that was crowded."
    MAX_RUNNING = "MaxRunning", "More tasks of the array ran than its maxRunning allows."
    DELETED = "Deleted", "A user or a program deleted a pod of it."
    JOB_DELETED = "JobDeleted", "A user or a program deleted its Job."


class FailureReason(Reason):
    """Why a job will never start again: reasons of the condition Succeeded while it is False."""

    FAILED = (
        "Failed",
        "A container ended by itself with an exit code other than 0, or a pod was over its own limit of storage.",
    )
    TASKS_FAILED = "TasksFailed", "All tasks of the array have ended, and some of them failed."
    POD_FAILURE_POLICY = "PodFailurePolicy", "A rule of its podFailurePolicy with the action FailJob matched."
    NOT_FOUND = "NotFound", "A claim, ConfigMap or Secret that it names does not exist."
    INVALID_REFERENCE = "InvalidReference", "It names a key that is not there, or a claim whose volume is gone."
    INVALID_IMAGE_NAME = "InvalidImageName", "What spec.image says is not the name of an image."
    RUNS_AS_ROOT = "RunsAsRoot", "It may not run as root, and its image has no other user, or one without a number."
    INVALID = "Invalid", "The API server does not accept the Job that its spec describes."
    DEADLINE_EXCEEDED = "DeadlineExceeded", "Its runs took as long as its activeDeadlineSeconds allow."
    NO_PROGRESS = "NoProgress", "It reported no checkpoint for as long as its progressDeadlineIntervals allow."


class StateReason(Reason):
    """Where a job is, in conditions that are not about why: the phases stand there, too."""

    STARTED = "Started", "Admitted is True: its Job has been created."
    RUNNING = REASON_RUNNING, "Running is True: all its pods run."
    COMPLETED = "Completed", "Succeeded is True: all its pods ended with exit code 0."
    NO_CHECKPOINT = (
        "NoCheckpoint",
        "Stalled is True: it runs and reported checkpoints, and has reported none for three times interruptionAfter.",
    )
    UNFINISHED = "Unfinished", "Succeeded is Unknown: the job has not come to its end."


LISTS: Final[tuple[type[Reason], ...]] = (WaitReason, InterruptionReason, FailureReason, StateReason)
"""All of them."""
