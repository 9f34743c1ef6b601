"""What one pod says about itself: when it started, how it ended, and whether another client ended it.

The field names of upstream that decide here are in `docs/designs/0002-what-is-an-interruption.md`, with their sources.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from scavenger_api import names
from scavenger_api.checkpoints import completion_index
from scavenger_api.evictions import (
    EVICTED_BY_API,
    PREEMPTED_BY_SCHEDULER,
    EvictionReason,
    deletion_reason,
    eviction_reason,
)
from scavenger_api.reasons import InterruptionReason
from scavenger_api.removing import RemovalReason
from scavenger_api.times import seen_time

from scavenger_domain import checkpoints
from scavenger_domain.pod_reading import (
    LOST_CONTAINER,
    ContainerLike,
    MetadataLike,
    SpecLike,
    StatusLike,
    TerminatedLike,
)
from scavenger_domain.pod_reading import START_ERRORS as START_ERRORS
from scavenger_domain.pod_reading import PodLike as ReadPodLike
from scavenger_domain.pod_reading import main_status as main_status
from scavenger_domain.pod_reading import over as over
from scavenger_domain.pod_reading import started_at as started_at


class _Metadata(MetadataLike, Protocol):
    @property
    def generation(self) -> int: ...
    @property
    def finalizers(self) -> Sequence[str]: ...


class _Spec(SpecLike, Protocol):
    @property
    def restart_policy(self) -> str: ...
    @property
    def termination_grace_period_seconds(self) -> int | None: ...


class _Condition(Protocol):
    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def last_transition_time(self) -> str | None: ...


class _LastState(Protocol):
    @property
    def terminated(self) -> TerminatedLike | None: ...


class _Container(ContainerLike, Protocol):
    @property
    def restart_count(self) -> int: ...
    @property
    def last_state(self) -> _LastState: ...


class _Status(StatusLike, Protocol):
    @property
    def container_statuses(self) -> Sequence[_Container]: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def conditions(self) -> Sequence[_Condition]: ...
    @property
    def observed_generation(self) -> int: ...


class PodLike(ReadPodLike, Protocol):
    """A pod of a ScavengerJob, as far as its end is looked at: any projection of core/v1 Pod."""

    @property
    def metadata(self) -> _Metadata:
        """Whose it is, and who deletes it."""
        ...

    @property
    def spec(self) -> _Spec:
        """How long it may take to end."""
        ...

    @property
    def status(self) -> _Status:
        """How its containers are, and who disrupts it."""
        ...


# What runc says when the job, not the node, is at fault: the command is not in the image or is no program.
_USER_START_ERROR: Final = re.compile(
    r"executable file not found|no such file or directory|permission denied|is a directory|(?i:exec format error)"
)
# What containerd says of a runtime that ended, or is not there, before it wrote what is wrong. The words go on with a
# file or a program that is missing on the node. Commands stand in quotes.
_NO_RUNTIME: Final = re.compile(r'[^"]*unable to retrieve OCI runtime error')
# Reasons of the DisruptionTarget condition: k8s.io/api core/v1 types.go (PodReason*), registry/core/pod/storage/
# eviction.go, controller/tainteviction/taint_eviction.go, controller/podgc/gc_controller.go.
_BY_DISRUPTION: Final = {
    PREEMPTED_BY_SCHEDULER: InterruptionReason.PREEMPTED,
    EVICTED_BY_API: InterruptionReason.EVICTED,
    "DeletionByTaintManager": InterruptionReason.NODE_DRAINED,
    "DeletionByPodGC": InterruptionReason.NODE_LOST,
}
_BY_NOTE: Final = {
    EvictionReason.ABOVE_UPPER: InterruptionReason.ABOVE_UPPER_LEVEL,
    EvictionReason.YIELD: InterruptionReason.YIELD_AT_CHECKPOINT,
    EvictionReason.NODE_MEMORY: InterruptionReason.NODE_MEMORY,
}
_BY_KUBELET: Final = "TerminationByKubelet"
EVICTED: Final = "Evicted"
"""`status.reason` of a pod that its kubelet has evicted."""
# status.reason of a pod the kubelet ended: eviction/helpers.go, nodeshutdown/nodeshutdown_manager.go,
# preemption/preemption.go; "Shutdown" is written by kubelets before 1.22, NodeLost by old node controllers.
_BY_POD_REASON: Final = {
    EVICTED: InterruptionReason.KUBELET_EVICTED,
    "Terminated": InterruptionReason.NODE_SHUTDOWN,
    "NodeShutdown": InterruptionReason.NODE_SHUTDOWN,
    "Shutdown": InterruptionReason.NODE_SHUTDOWN,
    "Preempting": InterruptionReason.PREEMPTED,
    "NodeLost": InterruptionReason.NODE_LOST,
}
# What the kubelet says of a pod over its own limits (eviction/helpers.go *MessageFmt). For these it sets no
# DisruptionTarget condition (eviction_manager.go localStorageEviction), as it does for node pressure.
_OWN_LIMIT: Final = re.compile(
    r"^(?:Usage of EmptyDir volume .* exceeds the limit |Pod ephemeral local storage usage exceeds the total limit of "
    r"|Container \S+ exceeded its local ephemeral storage limit )"
)
_BY_ADMITTER: Final = {
    RemovalReason.NODE_LEAVING: InterruptionReason.NODE_DRAINED,
    RemovalReason.QUEUE_RECLAIMED: InterruptionReason.QUEUE_RECLAIMED,
    RemovalReason.STARVED: InterruptionReason.STARVED,
    RemovalReason.MAX_RUNNING: InterruptionReason.MAX_RUNNING,
}
FINAL_DELETE_SLACK: Final = timedelta(seconds=5)
"""Kubelets before 1.34: from the end of the containers to the kubelet's final DELETE (`_asked_in_time`)."""

PROVEN_WITHIN: Final = timedelta(minutes=2)
"""A success is waited for no longer. A kubelet renews the Lease of its node every 10 s, and a node counts as not ready
after 50 s."""
BY_KUBELETS: Final = frozenset({"Ready", "ContainersReady", "Initialized", "PodReadyToStartContainers"})
"""Conditions of a pod that its kubelet writes."""
NEVER_SEEN: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Before everything that was ever reported."""
_KILLED: Final = 137
"""128 + SIGKILL."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A pod was taken away from outside."""

    at: datetime
    """When: the request, as far as it is still written anywhere; until here the pod computed."""
    earliest: datetime
    """The earliest moment it may have been asked for; orders it against what happened to other members."""
    cause: InterruptionReason
    pod: str
    disruption: bool
    """A DisruptionTarget condition proves it: none is written for a consequence of a failure."""
    detail: str = ""
    own: RemovalReason | None = None
    """Why the admitter itself deleted the pod; None where another client did."""


@dataclass(frozen=True, slots=True)
class Exit:
    """A container ended with a non-zero code by itself."""

    at: datetime
    pod: str
    container: str
    code: int
    reason: str
    message: str
    main: bool = True
    """It is the container that does the work."""
    init: bool = False
    """It is an init container."""


def _condition(conditions: Sequence[_Condition], kind: str) -> _Condition | None:
    return next((one for one in conditions if one.type == kind), None)


def moment(text: str | None) -> datetime | None:
    """A timestamp of the API or of a user's program; None when it says none, or the epoch."""
    return seen_time(text)


def index(pod: PodLike) -> int | None:
    """The pod's completion index, or None when it has none."""
    return completion_index(pod.metadata.annotations, pod.metadata.labels)


def held(pod: PodLike) -> bool:
    """Our finalizer is on it."""
    return names.FINALIZER in pod.metadata.finalizers


def deleting(pod: PodLike) -> bool:
    """A client asked for its deletion."""
    return pod.metadata.deletion_timestamp is not None


def failed_unreported(pod: PodLike) -> bool:
    """Whether all containers were seen to end, the main one with a failure, and the phase is not written yet."""
    main = main_status(pod)
    ended = main.state.terminated if main is not None and ended_at(pod) is not None else None
    failed = ended is not None and ended.exit_code != 0 and not pod.ended and not over(pod)
    return failed and not starts_again(pod)


def starts_again(pod: PodLike) -> bool:
    """Whether its kubelet starts programs that fail again in the same pod: that of an adopted Job which says so. Pods
    of ScavengerJobs may not."""
    return pod.spec.restart_policy == "OnFailure" and names.LABEL_KIND in pod.metadata.labels


def restarts(pod: PodLike) -> int:
    """How often programs of a pod that has not ended have failed and were started again. A machine that has just lost
    them is no failure of theirs."""
    if pod.ended or not starts_again(pod):
        return 0
    return sum(one.restart_count - _was_lost(one.last_state.terminated) for one in pod.status.container_statuses)


def _was_lost(ended: TerminatedLike | None) -> bool:
    return ended is not None and ended.reason in LOST_CONTAINER


def restarted(pod: PodLike) -> bool:
    """Whether its kubelet has started main again in the same pod, as where the machine has lost its containers.

    How main ended before is how the run ended, whatever becomes of it now.
    """
    return _life_before(pod) is not None


def _life_before(pod: PodLike) -> _LastState | None:
    """How main ended before it was started again; None for one that was started once."""
    statuses = pod.status.container_statuses
    mine = (one for one in statuses if len(statuses) == 1 or one.name == pod.program)
    found = next((one.last_state for one in mine if one.restart_count), None)
    return None if found is None or starts_again(pod) else found


def first_started_at(pod: PodLike) -> datetime | None:
    """When its work started, in the first life of its main container."""
    before = _life_before(pod)
    if before is None:
        return started_at(pod)
    said = before.terminated.started_at if before.terminated is not None else None
    return moment(said) or moment(pod.status.start_time) or started_at(pod)


def _lost_before(pod: PodLike) -> Removal | None:
    """Where main was started again, and what is known of its first end says that its machine was lost.

    A kubelet starts no container again in a pod that says `Never`, so that alone proves it. Under the policy of
    a client that changed the pod, an exit code that was seen is the program's own.
    """
    before = _life_before(pod)
    if before is None:
        return None
    ended = before.terminated
    seen = ended is not None and ended.reason not in LOST_CONTAINER and moment(ended.finished_at) is not None
    if pod.spec.restart_policy != "Never" and seen and ended is not None and ended.exit_code:
        return None
    at = (moment(ended.finished_at) if ended is not None else None) or started_at(pod) or last_report(pod)
    earliest = min(at, first_started_at(pod) or at)
    said = "its container was started again in the same pod"
    return Removal(at, earliest, InterruptionReason.NODE_LOST, pod.metadata.name, False, said)


def goes_on(pod: PodLike) -> bool:
    """Whether nothing has happened to it that may end it, as is so of nearly all pods of a large gang."""
    main = main_status(pod)
    works = not pod.ended and (main is None or main.state.terminated is None)
    works = works and not restarted(pod)
    return works and not deleting(pod) and _condition(pod.status.conditions, "DisruptionTarget") is None


def succeeded(pod: PodLike) -> bool:
    """Whether its work came to its end, as far as exit codes tell. A container beside main fails nothing, but in a pod
    of an adopted Job."""
    main = main_status(pod)
    if _evicted(pod) or restarted(pod):
        return False
    if names.LABEL_KIND in pod.metadata.labels:
        return pod.status.phase == "Succeeded"
    if main is None or main.state.terminated is None or main.state.terminated.reason in LOST_CONTAINER:
        return pod.status.phase == "Succeeded"
    alone = len(pod.status.container_statuses) == 1
    return over(pod) and main.state.terminated.exit_code == 0 and not (alone and pod.status.phase == "Failed")


def ended_at(pod: PodLike) -> datetime | None:
    """When its work ended, by the clock of its node; None while it goes on, or when the end was not seen."""
    status = main_status(pod)
    if status is None or status.state.terminated is None or status.state.terminated.reason in LOST_CONTAINER:
        return None
    return moment(status.state.terminated.finished_at)


def last_report(pod: PodLike) -> datetime:
    """The last moment that the kubelet of the pod reported; its creation where the kubelet reported none. What the pod
    did later is not known."""
    status = pod.status
    states = (one.state for one in status.container_statuses)
    stamps = [
        stamp
        for state in states
        for stamp in (
            state.running.started_at if state.running is not None else None,
            state.terminated.started_at if state.terminated is not None else None,
            state.terminated.finished_at if state.terminated is not None else None,
        )
    ]
    stamps += [one.last_transition_time for one in status.conditions if one.type in BY_KUBELETS]
    said = max((at for one in (*stamps, status.start_time) if (at := moment(one)) is not None), default=None)
    return said or moment(pod.metadata.creation_timestamp) or NEVER_SEEN


def _first_report(pod: PodLike) -> datetime:
    """Since when its end may have come unseen."""
    return started_at(pod) or moment(pod.status.start_time) or last_report(pod)


def last_words(pod: PodLike, checkpoint_exit_code: int | None) -> datetime | None:
    """The checkpoint that its container reported by its termination message, or by its exit code; None when none."""
    status, finished = main_status(pod), ended_at(pod)
    terminated = status.state.terminated if status is not None else None
    if terminated is None or finished is None or terminated.reason in START_ERRORS:
        return None  # of a container that never ran, the message is the runtime's
    saved = checkpoints.saved_its_state(terminated.exit_code, terminated.reason, checkpoint_exit_code)
    return checkpoints.checkpoint_at_end(terminated.message, saved=saved, started=started_at(pod), finished=finished)


def deletion_requested(pod: PodLike) -> datetime | None:
    """When its deletion was asked for: deletionTimestamp lies a grace period later than that."""
    stamp = moment(pod.metadata.deletion_timestamp)
    if stamp is None:
        return None
    return stamp - timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0)


def start_error(pod: PodLike) -> str | None:
    """What the runtime said when it could not start the container; None when that is not what happened."""
    status = main_status(pod)
    terminated = status.state.terminated if status else None
    if terminated is None or terminated.reason not in START_ERRORS:
        return None
    return terminated.message or terminated.reason


def own_exit(pod: PodLike) -> Exit | None:
    """How the pod failed, when its work is over because of the exit code of a container; None otherwise.

    Says nothing about why the container ended: see `removal`. A container that the runtime could not start counts only
    when the runtime's words blame the image or the command: a node's runtime in trouble is not the job's fault.
    """
    before = _life_before(pod)
    if before is not None:
        last = before.terminated
        if last is None or _lost_before(pod) is not None:
            return None
        at = moment(last.finished_at) or last_report(pod)
        return Exit(at, pod.metadata.name, pod.program, last.exit_code, last.reason, last.message)
    if not over(pod) or succeeded(pod):
        return None
    main = main_status(pod)
    if _over_own_limit(pod):
        last = main.state.terminated if main is not None else None
        code, said = last.exit_code if last is not None else _KILLED, pod.status.message.strip()
        return Exit(ended_at(pod) or last_report(pod), pod.metadata.name, pod.program, code, EVICTED, said)
    if main is not None and main.state.terminated is not None and main.state.terminated.reason in LOST_CONTAINER:
        return None  # a container beside it that failed long before has not ended the work
    for status in sorted(pod.status.container_statuses, key=lambda s: s is not main):
        terminated = status.state.terminated
        if terminated is None or terminated.exit_code == 0 or terminated.reason in LOST_CONTAINER:
            continue
        if terminated.reason in START_ERRORS and not blames_the_job(terminated.message):
            continue
        at = moment(terminated.finished_at) or last_report(pod)
        code, said = terminated.exit_code, terminated.message
        return Exit(at, pod.metadata.name, status.name, code, terminated.reason, said, status is main)
    return None


def blames_the_job(said: str) -> bool:
    """Whether a runtime that could not start a container says that its image or its command is wrong."""
    return _USER_START_ERROR.search(said) is not None and _NO_RUNTIME.match(said) is None


def removal(pod: PodLike, intent: RemovalReason | None = None) -> Removal | None:
    """Whether the pod was taken away, by whom and when; None when its end is its own.

    The first that holds decides: a container beside main ended so late that no removal ended main; a disruption that
    was not after the admitter's own deletion; a deletion, which is the admitter's where it has an intent, and another
    client's where it has none; what the kubelet says (docs/designs/0002-what-is-an-interruption.md).

    Args:
        pod: of a run.
        intent: why the admitter has committed the deletion of this pod; None where it has not. An intent alone proves
            nothing: the pod may end, or others may end it, before the admitter deletes it.
    """
    if restarted(pod):
        return _lost_before(pod)
    if _outlived(pod, FINAL_DELETE_SLACK):
        return _unexplained(pod)
    own = intent if deleting(pod) and intent is not RemovalReason.DELETED else None
    disrupted = _disrupted(pod, own=own is not None)
    return disrupted or _deleted(pod, own) or _ended_by_kubelet(pod) or _unexplained(pod)


def _disrupted(pod: PodLike, *, own: bool = False) -> Removal | None:
    """own: the admitter has deleted the pod as well. What disrupts it after that is no cause."""
    found = _condition(pod.status.conditions, "DisruptionTarget")
    if found is None or found.status != "True":
        return None
    stamp, end = moment(found.last_transition_time) or last_report(pod), ended_at(pod)
    asked = deletion_requested(pod) if own and found.reason != _BY_KUBELET else None
    if asked is not None and stamp > asked:
        return None
    if found.reason == _BY_KUBELET:
        # The kubelet writes the time when the containers were gone (status_manager.go mergePodStatus), not
        # when it began to end them.
        cause = _BY_POD_REASON.get(pod.status.reason, InterruptionReason.KUBELET_EVICTED)
        earliest = _before_end(pod, end) if end else stamp
    elif _asked_in_time(pod, stamp, end, timedelta(0)):
        cause, earliest = _by_disruption(pod, found, stamp), stamp
    else:
        return None  # a taint manager or an eviction marks pods that have already ended, too
    at = min(stamp, end) if end else stamp
    return Removal(at, min(earliest, at), cause, pod.metadata.name, True, found.message)


def _by_disruption(pod: PodLike, found: _Condition, at: datetime) -> InterruptionReason:
    """The cause by the condition, or more exactly by what the regulator noted on the pod before it evicted it."""
    noted = eviction_reason(pod.metadata.annotations, found.reason, at)
    if noted is not None:
        return _BY_NOTE[noted]
    return _BY_DISRUPTION.get(found.reason, InterruptionReason.DELETED)


def _deleted(pod: PodLike, own: RemovalReason | None = None) -> Removal | None:
    """own: why the admitter deleted it."""
    requested, end = deletion_requested(pod), ended_at(pod)
    if requested is None:
        return None
    if not (_asked_in_time(pod, requested, end, FINAL_DELETE_SLACK) if own is None else _told(pod, requested, end)):
        return None
    at, earliest = (requested, requested) if end is None or requested <= end else (end, _before_end(pod, end))
    # with grace period 0 the moment may have moved to the end: see _asked_in_time
    asked = _before_end(pod, end) if end is not None and not pod.metadata.deletion_grace_period_seconds else earliest
    if own is not None:
        cause = _BY_ADMITTER.get(own, InterruptionReason.DELETED)
        return Removal(at, earliest, cause, pod.metadata.name, False, own=own)
    noted = deletion_reason(pod.metadata.annotations, asked, requested)
    cause = _BY_POD_REASON.get(pod.status.reason, _BY_NOTE[noted] if noted else InterruptionReason.DELETED)
    return Removal(at, earliest, cause, pod.metadata.name, False, pod.status.message)


def _ended_by_kubelet(pod: PodLike) -> Removal | None:
    # Containers that fail by themselves leave status.reason empty; what ends or refuses a pod names itself there.
    status = pod.status
    named = bool(status.reason) and (status.phase == "Failed" or _evicted(pod))
    if not named or _over_own_limit(pod):
        return None
    end = ended_at(pod)
    cause = _BY_POD_REASON.get(pod.status.reason, InterruptionReason.KUBELET_EVICTED)
    earliest = _before_end(pod, end) if end else _first_report(pod)
    return Removal(
        end or last_report(pod), earliest, cause, pod.metadata.name, False, pod.status.message or pod.status.reason
    )


def _evicted(pod: PodLike) -> bool:
    """Whether its kubelet has evicted it, and that ended main. The phase is Succeeded where its containers ended with
    0."""
    return pod.ended and pod.status.reason == EVICTED and not _outlived(pod, FINAL_DELETE_SLACK)


def _over_own_limit(pod: PodLike) -> bool:
    """Whether the kubelet ended it because it used more local storage than it may; the node is not short of it."""
    status = pod.status
    evicted = _evicted(pod) and _OWN_LIMIT.match(status.message)
    condition = _condition(status.conditions, "DisruptionTarget")
    disrupted = condition is not None and condition.status == "True"
    return bool(evicted) and not disrupted and not _outlived(pod, timedelta(0))


def _unexplained(pod: PodLike) -> Removal | None:
    if not over(pod) or succeeded(pod) or own_exit(pod) is not None:
        return None
    # It may have ended at any moment since its start: before what others ended by, which may be a consequence.
    at, first, said = last_report(pod), _first_report(pod), start_error(pod) or "its end was not seen"
    return Removal(at, first, InterruptionReason.NODE_LOST, pod.metadata.name, False, said)


def _outlived(pod: PodLike, slack: timedelta) -> bool:
    """Whether a container beside main ended so much later that what ended it cannot have ended main."""
    end = ended_at(pod)
    if end is None or not pod.ended:
        return False
    grace = timedelta(seconds=pod.spec.termination_grace_period_seconds or 0)
    last = _last_end(pod)
    return last is not None and last > end + grace + slack


def _last_end(pod: PodLike) -> datetime | None:
    """When the last of its containers ended, of those that were seen to."""
    terminated = (status.state.terminated for status in pod.status.container_statuses)
    return max((at for one in terminated if one is not None and (at := moment(one.finished_at))), default=None)


def _before_end(pod: PodLike, end: datetime) -> datetime:
    """The earliest moment at which a removal that ended at `end` was asked for: one grace period before."""
    return end - timedelta(seconds=pod.spec.termination_grace_period_seconds or 0)


def _asked_in_time(pod: PodLike, requested: datetime, end: datetime | None, slack: timedelta) -> bool:
    """Whether a removal was asked for before the containers ended. When in doubt, yes: see design 0002.

    The moment of the request does not always survive. When the containers of a deleted pod have ended, its kubelet
    sends a final DELETE with grace period 0, and where a finalizer holds the pod the API server then moves
    deletionTimestamp to *that* moment (apiserver/pkg/registry/rest/delete.go BeforeDelete, "Prevent shortening the
    grace period moving deletionTimestamp into the past"). It looks as if the pod had ended first and had been deleted
    then. What tells them apart is the generation: a deletion raises metadata.generation, and the kubelet writes into
    status.observedGeneration which one it knew when it reported the end (1.34 and later). Of older kubelets a request
    within `slack` after the end of the last container is taken for their final DELETE.
    """
    if end is None:
        return True
    if (knew := _knew(pod)) is not None:
        return knew
    return requested <= (max(end, _last_end(pod) or end) + slack if slack and _final(pod) else end)


def _told(pod: PodLike, requested: datetime, end: datetime | None) -> bool:
    """Whether a deletion of the admitter's ended the pod. That its kubelet knew of it when the pod ended does not prove
    that: main may have ended before, and its end may have been reported with that of the containers beside it."""
    if end is None:
        return True
    return _knew(pod) is not False and (_final(pod) or requested <= end)


def _knew(pod: PodLike) -> bool | None:
    """Whether the kubelet of a pod that has ended knew of the deletion then; None where it does not say (1.33)."""
    knew, generation = pod.status.observed_generation, pod.metadata.generation
    return knew >= generation if pod.ended and deleting(pod) and knew and generation else None


def _final(pod: PodLike) -> bool:
    """Whether the kubelet has sent its last DELETE, so that the moment of the first one is lost."""
    return pod.metadata.deletion_grace_period_seconds == 0 and pod.spec.termination_grace_period_seconds != 0
