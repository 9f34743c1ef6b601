"""ScavengerJob: a low-priority, checkpointing, possibly multi-pod batch job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field

from scavenger_api import names
from scavenger_api.duration import parse_duration
from scavenger_api.model import (
    Condition,
    DnsLabel,
    DnsSubdomain,
    MicroTimestamp,
    Model,
    ObjectMeta,
    Quantity,
    Seconds,
    Timestamp,
    cel,
    validations,
)
from scavenger_api.quantity import amounts

MAX_ITEMS: Final = 64
MAX_PARALLELISM: Final = 10_000
MAX_GRACE_SECONDS: Final = 3600


class Phase(StrEnum):
    """Where a ScavengerJob is in its life."""

    WAITING = "Waiting"
    STARTING = "Starting"
    RUNNING = "Running"
    INTERRUPTED = "Interrupted"
    SUSPENDED = "Suspended"
    COMPLETED = "Completed"
    FAILED = "Failed"

    @property
    def finished(self) -> bool:
        """Completed or Failed: nothing will ever start again."""
        return self in (Phase.COMPLETED, Phase.FAILED)

    @property
    def queued(self) -> bool:
        """In line for admission."""
        return self in (Phase.WAITING, Phase.INTERRUPTED)

    @property
    def active(self) -> bool:
        """Has, or should have, a Job in the cluster."""
        return self in (Phase.STARTING, Phase.RUNNING)


class ConditionType(StrEnum):
    """The conditions of a ScavengerJob."""

    ADMITTED = "Admitted"
    RUNNING = "Running"
    INTERRUPTED = "Interrupted"
    SUCCEEDED = "Succeeded"


class Capacity(StrEnum):
    """Which room a job runs on: requested by nobody, or requested by others and idle."""

    GUARANTEED = "Guaranteed"
    RECLAIMED = "Reclaimed"


# --- parts of the spec, as core/v1 has them -------------------------------------------------------------------------


class LocalObjectReference(Model):
    """A named object in the job's namespace."""

    name: DnsSubdomain


class KeySelector(Model):
    """A key of a ConfigMap or Secret."""

    name: DnsSubdomain
    key: Annotated[str, Field(min_length=1, max_length=253)]
    optional: bool | None = None


class ObjectFieldSelector(Model):
    """A field of the pod."""

    api_version: str | None = None
    field_path: Annotated[str, Field(min_length=1, max_length=253)]


class ResourceFieldSelector(Model):
    """A resource of the container."""

    container_name: str | None = None
    resource: Annotated[str, Field(min_length=1, max_length=253)]
    divisor: Quantity | None = None


class EnvVarSource(Model):
    """Where the value of a variable comes from."""

    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "[has(self.fieldRef), has(self.resourceFieldRef), has(self.configMapKeyRef), has(self.secretKeyRef)]"
                ".filter(x, x).size() == 1",
                "valueFrom: name exactly one of fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef",
            )
        )
    )


class EnvVar(Model):
    """An environment variable of the container."""

    name: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")]
    value: Annotated[str | None, Field(max_length=131072)] = None
    value_from: EnvVarSource | None = None

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "!(has(self.value) && self.value != '' && has(self.valueFrom))",
                "env: a variable has a value or a valueFrom, not both; remove one of them",
            ),
            cel(
                f"!(self.name in {list(names.RESERVED_ENV)!r})",
                "env: the names " + ", ".join(names.RESERVED_ENV) + " are set by the admitter; choose another name",
                field_path=".name",
            ),
        )
    )


class EnvFromReference(Model):
    """All keys of a ConfigMap or Secret."""

    name: DnsSubdomain
    optional: bool | None = None


class EnvFromSource(Model):
    """A whole ConfigMap or Secret as environment variables."""

    prefix: Annotated[str | None, Field(max_length=253)] = None
    config_map_ref: EnvFromReference | None = None
    secret_ref: EnvFromReference | None = None

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "has(self.configMapRef) != has(self.secretRef)",
                "envFrom: each entry names exactly one of configMapRef and secretRef",
            )
        )
    )


class Toleration(Model):
    """A taint that the pods tolerate."""

    key: Annotated[str | None, Field(max_length=316)] = None
    operator: Literal["Exists", "Equal"] | None = None
    value: Annotated[str | None, Field(max_length=63)] = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
                "tolerations: an empty key needs operator: Exists, which then tolerates every taint",
            ),
            cel(
                "!(has(self.operator) && self.operator == 'Exists' && has(self.value) && self.value != '')",
                "tolerations: operator: Exists takes no value; remove value, or use operator: Equal",
            ),
            cel(
                "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
                "tolerations: tolerationSeconds needs effect: NoExecute",
            ),
        )
    )


MountPath = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^/[^:]*$")]


class VolumeMount(Model):
    """A PersistentVolumeClaim, ConfigMap or Secret of the namespace, mounted into every pod."""

    name: DnsSubdomain
    mount_path: MountPath
    """Absolute path in the container, without a colon, different for every mount of the job."""
    sub_path: Annotated[str | None, Field(min_length=1, max_length=1024)] = None
    """A path inside the volume, relative and without `..`."""
    read_only: bool | None = None

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "!has(self.subPath) || (!self.subPath.startsWith('/') && !self.subPath.split('/').exists(p, p == '..'))",
                "subPath: write a relative path without '..'",
                field_path=".subPath",
            )
        )
    )


ResourceMap = Annotated[dict[str, Quantity], Field(max_length=16)]


def _names_resource(resource: str) -> str:
    return (
        f"(has(self.requests) && '{resource}' in self.requests) || (has(self.limits) && '{resource}' in self.limits)"
    )


class ResourceRequirements(Model):
    """What each pod gets. Requests equal limits: one side given fills in the other."""

    requests: ResourceMap | None = None
    limits: ResourceMap | None = None

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(_names_resource("cpu"), "resources: cpu is mandatory; add it to resources.requests, as cpu: 500m"),
            cel(_names_resource("memory"), "resources: memory is mandatory; add it to resources.requests, as memory: 1Gi"),
            cel(
                "!has(self.requests) || !has(self.limits) || self.requests.all(k, !(k in self.limits) || "
                "quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) == 0)",
                "resources: requests and limits must be equal; give one side only, the other is filled in",
            ),
            cel(
                "(!has(self.requests) || self.requests.all(k, quantity(string(self.requests[k])).sign() > 0)) && "
                "(!has(self.limits) || self.limits.all(k, quantity(string(self.limits[k])).sign() > 0))",
                "resources: every quantity must be greater than zero; remove the resource or raise it",
            ),
            cel(
                "(!has(self.requests) || self.requests.all(k, !k.startsWith('scavenger.dev/'))) && "
                "(!has(self.limits) || self.limits.all(k, !k.startsWith('scavenger.dev/')))",
                "resources: scavenger.dev/* resources are set by the admitter; use capacity: Reclaimed",
            ),
        )
    )

    def effective(self) -> dict[str, str]:
        """Requests with limits filled in (they are equal where both are given)."""
        return {**(self.limits or {}), **(self.requests or {})}


def _total_mounts() -> str:
    lists = ("persistentVolumeClaims", "configMaps", "secrets")
    return " + ".join(f"(has(self.{name}) ? self.{name}.map(m, m.mountPath) : [])" for name in lists)


class ScavengerJobSpec(Model):
    """What to run, with how much, and how often it writes a checkpoint."""

    MUTABLE: ClassVar[frozenset[str]] = frozenset({"suspend", "ttlSecondsAfterFinished", "queue"})
    """Fields that may change after creation (`queue` only while no pod exists)."""

    queue: DnsLabel = names.DEFAULT_QUEUE
    """The ScavengerQueue this job stands in line in. May change while no pod of the job exists."""
    image: Annotated[str, Field(min_length=1, max_length=1024)]
    """The container image."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    image_pull_secrets: Annotated[tuple[LocalObjectReference, ...] | None, Field(max_length=16)] = None
    command: Annotated[tuple[str, ...] | None, Field(max_length=1024)] = None
    args: Annotated[tuple[str, ...] | None, Field(max_length=1024)] = None
    env: Annotated[
        tuple[EnvVar, ...] | None,
        Field(
            max_length=256,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = None
    env_from: Annotated[tuple[EnvFromSource, ...] | None, Field(max_length=MAX_ITEMS)] = None
    service_account_name: DnsSubdomain | None = None
    node_selector: Annotated[dict[str, str] | None, Field(max_length=MAX_ITEMS)] = None
    tolerations: Annotated[tuple[Toleration, ...] | None, Field(max_length=MAX_ITEMS)] = None
    resources: ResourceRequirements
    parallelism: Annotated[int, Field(ge=1, le=MAX_PARALLELISM, json_schema_extra={"format": "int32"})] = 1
    """Pods in the gang, with the same resources each; all run or none."""
    persistent_volume_claims: Annotated[tuple[VolumeMount, ...] | None, Field(max_length=MAX_ITEMS)] = None
    config_maps: Annotated[tuple[VolumeMount, ...] | None, Field(max_length=MAX_ITEMS)] = None
    secrets: Annotated[tuple[VolumeMount, ...] | None, Field(max_length=MAX_ITEMS)] = None
    run_as_user: Annotated[int | None, Field(ge=0, le=2**31 - 1, json_schema_extra={"format": "int64"})] = None
    run_as_group: Annotated[int | None, Field(ge=0, le=2**31 - 1, json_schema_extra={"format": "int64"})] = None
    fs_group: Annotated[int | None, Field(ge=0, le=2**31 - 1, json_schema_extra={"format": "int64"})] = None
    interruption_after: Annotated[
        str,
        Field(
            max_length=32,
            pattern=r"^([0-9]+d|([0-9]+(\.[0-9]+)?(h|m|s|ms))+)$",
            json_schema_extra=validations(
                cel(
                    "self.matches('^[1-7]d$') || (!self.endsWith('d') && duration(self) >= duration('1s') && "
                    "duration(self) <= duration('168h'))",
                    "interruptionAfter: write a duration from 1s to 7d, as 90s, 30m or 2h",
                )
            ),
        ),
    ] = names.DEFAULT_INTERRUPTION_AFTER
    """The application writes a checkpoint at least this often, from 1s to 7d."""
    termination_grace_period_seconds: Annotated[
        int, Field(ge=0, le=MAX_GRACE_SECONDS, json_schema_extra={"format": "int64"})
    ] = names.DEFAULT_TERMINATION_GRACE_PERIOD_SECONDS
    """Seconds between SIGTERM and SIGKILL. An ordinary pod may have to wait this long."""
    suspend: bool = False
    """Takes the job off the cluster, or keeps it off, until set to false."""
    ttl_seconds_after_finished: Annotated[int | None, Field(ge=0, json_schema_extra={"format": "int32"})] = None
    """Deletes the job and all it owns this many seconds after it completed or failed."""
    capacity: Capacity = Capacity.GUARANTEED
    """Guaranteed runs on room nobody has requested; Reclaimed on what others requested and do not use."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                f"({_total_mounts()}).all(p, ({_total_mounts()}).filter(q, q == p).size() == 1)",
                "mountPath: two mounts share a path; give each of persistentVolumeClaims, configMaps and secrets a "
                "mountPath of its own",
            )
        )
    )

    @cached_property
    def requests(self) -> Mapping[str, int]:
        """What one pod asks for: millicores of cpu, bytes of memory, whole units of others. Raises QuantityError."""
        return amounts(self.resources.effective())

    @cached_property
    def checkpoint_interval(self) -> timedelta:
        """`interruptionAfter` as a duration. Raises DurationError."""
        return parse_duration(self.interruption_after)


class Preemption(Model):
    """What the prioritizer decided about the running pods."""

    class_: Annotated[Literal["preemptible", "non-preemptible"] | None, Field(alias="class")] = None
    running_priority: Annotated[Seconds | None, Field(ge=0)] = None
    """CPU-seconds that would be lost if the job went now."""


class ScavengerJobStatus(Model):
    """What became of the job so far. Written by the admitter, `preemption` by the prioritizer."""

    phase: Phase | None = None
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=16, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
        ),
    ] = ()
    interrupted_count: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    queued_timestamp: MicroTimestamp | None = None
    """The place in line; moves to now with every interruption and every start that did not come off."""
    running_timestamps: Annotated[tuple[Timestamp, ...], Field(max_length=names.MAX_RECENT_TIMESTAMPS)] = ()
    """The last 20 times when all pods of the gang were running."""
    interrupted_timestamps: Annotated[tuple[Timestamp, ...], Field(max_length=names.MAX_RECENT_TIMESTAMPS)] = ()
    """The last 20 times when the gang was interrupted."""
    finished_timestamp: Timestamp | None = None
    priority_start_over_timestamp: Timestamp | None = None
    """The last moment at which a checkpoint was due; CPU time at risk counts from here."""
    last_checkpoint_timestamp: Timestamp | None = None
    """The last checkpoint the application reported."""
    useful_cpu_seconds: Annotated[Seconds, Field(ge=0, alias="usefulCPUSeconds")] = 0.0
    """CPU request times the time that was kept, in core-seconds."""
    lost_cpu_seconds: Annotated[Seconds, Field(ge=0, alias="lostCPUSeconds")] = 0.0
    """CPU request times the time that was thrown away, in core-seconds."""
    job_name: Annotated[str | None, Field(max_length=63)] = None
    """The batch/v1 Job of the run in progress, or of the last one once finished."""
    message: Annotated[str | None, Field(max_length=4096)] = None
    """Why the job is where it is, for people."""
    preemption: Preemption | None = None

    def condition(self, kind: ConditionType) -> Condition | None:
        """The condition of that type, or None."""
        return next((c for c in self.conditions if c.type == kind), None)


class ScavengerJob(Model):
    """A low-priority batch job that runs on idle resources and leaves when an ordinary workload needs them."""

    api_version: str = names.API_VERSION
    kind: str = "ScavengerJob"
    metadata: ObjectMeta = ObjectMeta()
    spec: ScavengerJobSpec
    status: ScavengerJobStatus = ScavengerJobStatus()

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                f"self.metadata.name.size() <= {names.MAX_NAME_LENGTH}",
                f"metadata.name: at most {names.MAX_NAME_LENGTH} characters, so that pod names and label values fit; shorten it",
            ),
            cel(
                "!self.metadata.name.contains('.')",
                "metadata.name: no dots, as it becomes part of host names; use dashes",
            ),
            cel(
                "self.spec.queue == oldSelf.spec.queue || !has(self.status) || !has(self.status.jobName)",
                "spec.queue: can change only while no pod of the job exists; set suspend: true first, or wait",
            ),
        )
    )

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return self.metadata.key

    def owner_reference(self) -> dict[str, Any]:
        """The ownerReferences entry for what belongs to this job."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.metadata.name,
            "uid": self.metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
