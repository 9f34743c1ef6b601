"""Projections of the core kinds that the components read: only the fields that a decision needs.

A Kubernetes pod has some two hundred fields and a decision here reads twenty of them. msgspec skips the rest
while it scans the JSON, so a list of thousands of pods costs milliseconds and megabytes instead of seconds
and hundreds of megabytes. The structs are frozen (an informer's cache is shared by all of the process)
and outside the garbage collector's view (they hold no cycles).

Names follow Kubernetes; `rename="camel"` maps `deletion_timestamp` to `deletionTimestamp`. Timestamps stay
RFC 3339 strings, as most are never looked at; `scavenger_api.times` reads them.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeVar, runtime_checkable

import msgspec
from scavenger_api.evictions import PREEMPTED_BY_SCHEDULER
from scavenger_api.names import ANNOTATION_DEFAULT_CONTAINER, LABEL_KIND, MAIN_CONTAINER


class Struct(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Base of all projections: immutable, camelCase on the wire, unknown fields skipped."""


class OwnerReference(Struct, frozen=True, gc=False, rename="camel"):
    """metadata.ownerReferences[]."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(Struct, frozen=True, gc=False, rename="camel"):
    """metadata, without managedFields (more than half the bytes of a typical object)."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`, or the bare name of a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if any."""
        return next((owner for owner in self.owner_references if owner.controller), None)


@runtime_checkable
class Object(Protocol):
    """What an informer needs of whatever it stores."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""
        ...


class Condition(Struct, frozen=True, gc=False, rename="camel"):
    """status.conditions[] of pods, nodes, jobs."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


# --- pods -----------------------------------------------------------------------------------------


class Resources(Struct, frozen=True, gc=False, rename="camel"):
    """Container resources: quantities as written (`500m`, `2Gi`). The API allows numbers as well as
    strings.
    """

    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class Container(Struct, frozen=True, gc=False, rename="camel"):
    """A container or init container of a pod spec."""

    name: str = ""
    image: str = ""
    resources: Resources = Resources()
    restart_policy: str | None = None


class Toleration(Struct, frozen=True, gc=False, rename="camel"):
    """A pod's toleration; `operator` empty means Equal, `effect` empty means all effects."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PodSpec(Struct, frozen=True, gc=False, rename="camel"):
    """What placement, class, accounting and the verdict on a run read of a pod spec."""

    node_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, str | int | float] = {}
    resources: Resources = Resources()
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    scheduler_name: str = ""
    termination_grace_period_seconds: int | None = None
    restart_policy: str = ""


class Running(Struct, frozen=True, gc=False, rename="camel"):
    """containerStatuses[].state.running."""

    started_at: str | None = None


class Waiting(Struct, frozen=True, gc=False, rename="camel"):
    """containerStatuses[].state.waiting."""

    reason: str = ""
    message: str = ""


class Terminated(Struct, frozen=True, gc=False, rename="camel"):
    """containerStatuses[].state.terminated."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(Struct, frozen=True, gc=False, rename="camel"):
    """Exactly one of the three is set; none means waiting."""

    running: Running | None = None
    waiting: Waiting | None = None
    terminated: Terminated | None = None


class Resizable(Struct, frozen=True, gc=False, rename="camel"):
    """Quantities of what can be resized while a pod runs, as written; None where they are not."""

    cpu: str | int | float | None = None
    memory: str | int | float | None = None


class ActualResources(Struct, frozen=True, gc=False, rename="camel"):
    """resources in the status of a container or a pod: what it has, and not what it is to have."""

    requests: Resizable = Resizable()


class ContainerStatus(Struct, frozen=True, gc=False, rename="camel"):
    """status.containerStatuses[]."""

    name: str = ""
    state: ContainerState = ContainerState()
    ready: bool = False
    restart_count: int = 0
    last_state: ContainerState = ContainerState()
    resources: ActualResources | None = None
    allocated_resources: Resizable = Resizable()


class PodStatus(Struct, frozen=True, gc=False, rename="camel"):
    """status of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    nominated_node_name: str = ""
    observed_generation: int = 0
    start_time: str | None = None
    qos_class: str = ""
    resources: ActualResources | None = None
    allocated_resources: Resizable = Resizable()


class Pod(Struct, frozen=True, gc=False, rename="camel"):
    """core/v1 Pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def ended(self) -> bool:
        """In a terminal phase: its containers will never run again and it occupies no node."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def program(self) -> str:
        """Of a pod of a ScavengerJob, the name of the container that does the work."""
        return self.metadata.annotations.get(ANNOTATION_DEFAULT_CONTAINER, MAIN_CONTAINER)

    @property
    def succeeded(self) -> bool:
        """Of a pod of a ScavengerJob, whether it has ended and its program with 0. The phase is Failed as well where a
        container that admission added failed beside it."""
        status, program = self.status, self.program
        several = len(status.container_statuses) > 1 and LABEL_KIND not in self.metadata.labels
        if status.phase == "Failed" and not status.reason and several:
            ended = [one.state.terminated for one in status.container_statuses if one.name == program]
            return any(one is not None and one.exit_code == 0 for one in ended)
        return status.phase == "Succeeded"

    @property
    def leaving(self) -> bool:
        """Told to go, and still on its node."""
        return bool(self.metadata.deletion_timestamp and self.spec.node_name) and not self.ended

    @property
    def preempted(self) -> bool:
        """A scheduler preempted the pod, and has promised its capacity to another pod."""
        return true_because(self.status.conditions, "DisruptionTarget", PREEMPTED_BY_SCHEDULER)


# --- nodes ----------------------------------------------------------------------------------------


class Taint(Struct, frozen=True, gc=False, rename="camel"):
    """spec.taints[] of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True, gc=False, rename="camel"):
    """spec of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(Condition, frozen=True, gc=False, rename="camel"):
    """status.conditions[] of a node: with the time of the report, by the clock of the node."""

    last_heartbeat_time: str | None = None


class NodeSystemInfo(Struct, frozen=True, gc=False, rename="camel"):
    """status.nodeInfo of a node."""

    boot_id: str = msgspec.field(default="", name="bootID")


class NodeStatus(Struct, frozen=True, gc=False, rename="camel"):
    """status of a node."""

    allocatable: dict[str, str | int | float] = {}
    capacity: dict[str, str | int | float] = {}
    conditions: tuple[NodeCondition, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()


class Node(Struct, frozen=True, gc=False, rename="camel"):
    """core/v1 Node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        """The kubelet reports Ready; a node whose kubelet fell silent is Unknown, so not ready."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


# --- jobs, configmaps, events, leases -------------------------------------------------------------


class JobSpec(Struct, frozen=True, gc=False, rename="camel"):
    """spec of a batch/v1 Job."""

    parallelism: int | None = None
    completions: int | None = None
    suspend: bool = False
    managed_by: str = ""


ENDS_OF_A_JOB: Final = ("SuccessCriteriaMet", "FailureTarget", "Complete", "Failed")
"""Conditions by which a batch/v1 Job has ended, or is about to. All others say something else."""


class JobStatus(Struct, frozen=True, gc=False, rename="camel"):
    """status of a batch/v1 Job."""

    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    conditions: tuple[Condition, ...] = ()
    start_time: str | None = None
    completion_time: str | None = None


class Job(Struct, frozen=True, gc=False, rename="camel"):
    """batch/v1 Job."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class ConfigMap(Struct, frozen=True, gc=False, rename="camel"):
    """core/v1 ConfigMap."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


class ObjectReference(Struct, frozen=True, gc=False, rename="camel"):
    """involvedObject of an event."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Event(Struct, frozen=True, gc=False, rename="camel"):
    """core/v1 Event, as far as a diagnosis needs it."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    last_timestamp: str | None = None
    event_time: str | None = None


_Condition = TypeVar("_Condition", bound=Condition)


def condition(conditions: tuple[_Condition, ...], kind: str) -> _Condition | None:
    """The condition of that type, or None."""
    return next((c for c in conditions if c.type == kind), None)


def true_because(conditions: tuple[Condition, ...], kind: str, reason: str) -> bool:
    """Whether the condition of that type is True, and for this reason."""
    found = condition(conditions, kind)
    return found is not None and found.status == "True" and found.reason == reason
