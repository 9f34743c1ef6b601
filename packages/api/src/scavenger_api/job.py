"""ScavengerJob: a low-priority, checkpointing, possibly multi-pod batch job."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import ConfigDict, Field

from scavenger_api import names
from scavenger_api.after import MAX_AFTER, AfterJob, FollowedJob, after_rules
from scavenger_api.array import ArraySpec, ArrayStatus, array_rules
from scavenger_api.duration import DURATION_PATTERN, DurationError, parse_duration
from scavenger_api.failure_policy import PodFailurePolicy
from scavenger_api.model import (
    Condition,
    DnsLabel,
    DnsSubdomain,
    MicroTimestamp,
    Model,
    ObjectMeta,
    Seconds,
    Timestamp,
    cel,
    list_map,
    validations,
)
from scavenger_api.names import MAX_GRACE_SECONDS
from scavenger_api.pod_sums import template_requests
from scavenger_api.podspec import (
    EnvFromSource,
    EnvVar,
    LocalObjectReference,
    SecurityContext,
    Toleration,
    VolumeMount,
)
from scavenger_api.quantity import amounts
from scavenger_api.reclaimed import placed_by
from scavenger_api.removing import MAX_REMOVING
from scavenger_api.requirements import ResourceRequirements
from scavenger_api.snapshot import EXIT_CODE, SnapshotSpec, snapshot_rules
from scavenger_api.states import Capacity as Capacity
from scavenger_api.states import ConditionType as ConditionType
from scavenger_api.states import Phase as Phase
from scavenger_api.states import earned_count, precedence
from scavenger_api.task_numbers import TaskNumbers
from scavenger_api.template import (
    PodTemplate,
    TemplateContainer,
    TemplateToleration,
    bound,
    keeps_state,
    main_container,
    references,
)
from scavenger_api.usage import JobUsage, RecommendedRequests

MAX_ITEMS: Final = 64
MAX_PARALLELISM: Final = 10_000

MOUNTS: Final = ("persistentVolumeClaims", "configMaps", "secrets")
_MERGED_BY_MOUNT_PATH: Final[dict[str, Any]] = list_map("mountPath")


def _mount_path_in(one: str, other: str) -> str:
    return f"(has(self.{other}) && self.{other}.exists(o, o.mountPath == {one}.mountPath))"


def _no_shared_mount_path() -> str:
    """CEL: no mountPath is in two of the three lists; inside one list the map key sees to it."""
    pvcs, config_maps, secrets = MOUNTS
    return (
        f"(!has(self.{pvcs}) || !self.{pvcs}.exists(m, "
        f"{_mount_path_in('m', config_maps)} || {_mount_path_in('m', secrets)})) && "
        f"(!has(self.{config_maps}) || !self.{config_maps}.exists(m, {_mount_path_in('m', secrets)}))"
    )


_TO_LIMIT: Final = "quantity(string(self.resources.requests[k])).compareTo(quantity(string(self.resources.limits[k])))"
_TO_ZERO: Final = "quantity(string(self.resources.requests[k])).compareTo(quantity('0'))"
_AT_MOST_ITS_LIMIT: Final = (
    f"((k in ['cpu', 'memory', 'ephemeral-storage'] && {_TO_ZERO} > 0 && {_TO_LIMIT} <= 0) || {_TO_LIMIT} == 0)"
)
"""CEL: what the API server wants of a container, and more than nothing: a job is planned by its requests."""
_NOTHING_SET_ASIDE: Final = f"((k in ['cpu', 'memory'] && {_TO_ZERO} == 0) || {_TO_LIMIT} == 0)"
"""CEL: requests of jobs on reclaimed capacity."""


def _bounded(field: str, texts: str) -> dict[str, str]:
    """CEL: the texts of a list, as numbers, are together no longer than a spec may be. The webhook counts bytes of the
    whole spec."""
    return cel(
        f"!has(self.{field}) || self.{field}{texts}.sum() <= {names.MAX_SPEC_BYTES}",
        f"more than the {names.MAX_SPEC_BYTES} characters that a spec may have; put large values into a "
        "ConfigMap or Secret",
        field_path=f".{field}",
    )


def _on_both_sides(whose: str, holds: str) -> str:
    """CEL: a condition on each resource `k` that has a request and a limit, for jobs of one capacity."""
    return (
        f"self.capacity != '{whose}' || !has(self.resources) || !has(self.resources.requests) || "
        "!has(self.resources.limits) || "
        f"self.resources.requests.all(k, !(k in self.resources.limits) || {holds})"
    )


IN_TEMPLATE: Final = {
    "image": "spec.containers[0].image",
    "imagePullPolicy": "spec.containers[0].imagePullPolicy",
    "imagePullSecrets": "spec.imagePullSecrets",
    "command": "spec.containers[0].command",
    "args": "spec.containers[0].args",
    "env": "spec.containers[0].env",
    "envFrom": "spec.containers[0].envFrom",
    "serviceAccountName": "spec.serviceAccountName",
    "nodeSelector": "spec.nodeSelector",
    "tolerations": "spec.tolerations",
    "resources": "spec.containers[0].resources",
    "persistentVolumeClaims": "spec.volumes",
    "configMaps": "spec.volumes",
    "secrets": "spec.volumes",
    "runAsUser": "spec.securityContext.runAsUser",
    "runAsGroup": "spec.securityContext.runAsGroup",
    "fsGroup": "spec.securityContext.fsGroup",
    "securityContext": "spec.containers[0].securityContext",
}
"""The fields that are short for what a pod template says, and where it says it."""

MIXED: Final = "a template has its place for it; move"


def _not_mixed() -> dict[str, str]:
    """CEL: a job has a template or the fields that are short for one."""
    moves = " + ".join(
        f"(has(self.{field}) ? ' spec.{field} to spec.template.{place}' : '')" for field, place in IN_TEMPLATE.items()
    )
    return cel(
        "!has(self.template) || !(" + " || ".join(f"has(self.{field})" for field in IN_TEMPLATE) + ")",
        f"{MIXED} what stands beside it into it",
        field_path=".template",
        words=f"'{MIXED}' + {moves}",
    )


Word = Annotated[str, Field(max_length=131072)]
"""Of a command: Linux takes no longer one (MAX_ARG_STRLEN)."""

Id = Annotated[int, Field(ge=0, le=2**31 - 1, json_schema_extra={"format": "int64"})]


class ScavengerJobSpec(Model):
    """What to run, with how much, and how often it writes a checkpoint."""

    MUTABLE: ClassVar[frozenset[str]] = frozenset(
        {"suspend", "ttlSecondsAfterFinished", "queue", "priority", "resourcesFrom"}
    )
    """Fields that may change after creation (`queue` only while no pod exists)."""
    FIXED_PARTS: ClassVar[dict[str, tuple[str, ...]]] = {"array": ("tasks", "indexes", "failFast")}
    """Fields of which only these parts, and that they are there, stay as they were."""
    as_written: ClassVar[bool] = False
    """Whether its pods are as its user wrote them, and only Pod Security of its namespace bounds what they may."""

    queue: DnsLabel = names.DEFAULT_QUEUE
    """The ScavengerQueue of the job. May change while no pod of the job exists."""
    priority: Annotated[int, Field(ge=-10, le=10, json_schema_extra={"format": "int32"})] = 0
    """Among the jobs of its namespace in its queue, the highest goes first. It moves no job of another namespace, and
    has nothing to do with PriorityClasses. May change at any time."""
    template: PodTemplate | None = None
    """A pod template, as of a Job, in place of all fields that are short for one, from image to securityContext. The
    admitter sets restartPolicy, priorityClassName, schedulerName, hostname and subdomain."""
    main_container: DnsLabel | None = None
    """With template: the container that is the program, which ends, logs and reports checkpoints; by default the first
    one."""
    image: Annotated[str | None, Field(min_length=1, max_length=1024, pattern=r"^[!-~]+$")] = None
    """The container image. Mandatory without template."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the kubelet pulls the image; by default Always for the tag latest, IfNotPresent for others."""
    image_pull_secrets: Annotated[
        tuple[LocalObjectReference, ...] | None, Field(max_length=16, json_schema_extra=list_map("name"))
    ] = None
    """Secrets of the namespace with the registry's credentials."""
    command: Annotated[tuple[Word, ...] | None, Field(max_length=1024)] = None
    """The program, instead of the image's entrypoint. It is process 1 and must handle SIGTERM itself."""
    args: Annotated[tuple[Word, ...] | None, Field(max_length=1024)] = None
    """The program's arguments, instead of the image's."""
    env: Annotated[tuple[EnvVar, ...] | None, Field(max_length=256, json_schema_extra=list_map("name"))] = None
    """Environment variables. The admitter adds SCAVENGER_INDEX, SCAVENGER_PARALLELISM, SCAVENGER_PEERS,
    SCAVENGER_RESTARTS and SCAVENGER_CHECKPOINT_INTERVAL."""
    env_from: Annotated[tuple[EnvFromSource, ...] | None, Field(max_length=MAX_ITEMS)] = None
    """Whole ConfigMaps and Secrets as environment variables."""
    service_account_name: DnsSubdomain | None = None
    """The service account the pods run as; by default the namespace's. The pods get its token only where the annotation
    scavenger.dev/service-accounts of the namespace names it."""
    node_selector: Annotated[
        dict[str, Annotated[str, Field(max_length=63)]] | None,
        Field(max_length=MAX_ITEMS, json_schema_extra={"x-kubernetes-map-type": "atomic"}),
    ] = None
    """Labels a node must have."""
    tolerations: Annotated[tuple[Toleration, ...] | None, Field(max_length=MAX_ITEMS)] = None
    """Taints of nodes that the pods tolerate, beside those named as an extended resource that they ask for."""
    resources: ResourceRequirements | None = None
    """What each pod gets. Mandatory without template, and so are its cpu and memory."""
    resources_from: Literal["Recommended"] | None = None
    """Recommended: from the next start on, the pods request as much as was measured and a margin, and never more than
    resources says. A container that is killed for memory then is no failure, and the job has its own requests again."""
    parallelism: Annotated[int, Field(ge=1, le=MAX_PARALLELISM, json_schema_extra={"format": "int32"})] = 1
    """Pods in the gang, with the same resources each; all run or none."""
    array: ArraySpec | None = None
    """Makes the job an array of independent tasks: each starts, is interrupted and is counted alone."""
    snapshot: SnapshotSpec | None = None
    """Saves the state of the program from outside, for a program that writes no checkpoints. An administrator allows it
    (settings.snapshotImage of the admitter)."""
    persistent_volume_claims: Annotated[
        tuple[VolumeMount, ...] | None, Field(max_length=MAX_ITEMS, json_schema_extra=_MERGED_BY_MOUNT_PATH)
    ] = None
    """PersistentVolumeClaims to mount: where the checkpoints go."""
    config_maps: Annotated[
        tuple[VolumeMount, ...] | None, Field(max_length=MAX_ITEMS, json_schema_extra=_MERGED_BY_MOUNT_PATH)
    ] = None
    """ConfigMaps to mount, one file per key."""
    secrets: Annotated[
        tuple[VolumeMount, ...] | None, Field(max_length=MAX_ITEMS, json_schema_extra=_MERGED_BY_MOUNT_PATH)
    ] = None
    """Secrets to mount, one file per key."""
    run_as_user: Id | None = None
    """User id of the processes; by default the image's."""
    run_as_group: Id | None = None
    """Group id of the processes; by default the image's."""
    fs_group: Id | None = None
    """Group id that owns the mounted volumes."""
    security_context: SecurityContext | None = None
    """What the processes may do. By default, pods pass PodSecurity `restricted`."""
    interruption_after: Annotated[
        str,
        Field(
            max_length=32,
            pattern=DURATION_PATTERN,
            json_schema_extra=validations(
                cel(
                    "self.matches('^[1-7]d$') || (!self.endsWith('d') && duration(self) >= duration('1s') && "
                    "duration(self) <= duration('168h'))",
                    "write a duration from 1s to 7d, as 90s, 30m or 2h",
                )
            ),
        ),
    ] = names.DEFAULT_INTERRUPTION_AFTER
    """The application writes a checkpoint at least this often, from 1s to 7d."""
    termination_grace_period_seconds: Annotated[
        int, Field(ge=0, le=MAX_GRACE_SECONDS, json_schema_extra={"format": "int64"})
    ] = names.DEFAULT_TERMINATION_GRACE_PERIOD_SECONDS
    """Seconds between SIGTERM and SIGKILL. A regular pod may have to wait this long."""
    checkpoint_exit_code: Annotated[int | None, Field(ge=1, le=255, json_schema_extra={"format": "int32"})] = None
    """A container that ends with this code has saved its state and is not done. The job is queued again at its old
    place, and continues from that state. HTCondor's convention is 85."""
    progress_deadline_intervals: Annotated[int | None, Field(ge=1, le=1000, json_schema_extra={"format": "int32"})] = (
        None
    )
    """Makes the job Failed, of an array the task, when its running pods have reported no checkpoint for so many times
    interruptionAfter; by default never. Only for programs that report checkpoints while they run."""
    backoff_limit: Annotated[int | None, Field(ge=0, le=2**31 - 1, json_schema_extra={"format": "int32"})] = None
    """So often the job starts again, from its last checkpoint, when a container fails by itself; by default never.
    Interruptions do not count."""
    pod_failure_policy: PodFailurePolicy | None = None
    """Which failures of a container are final or do not count for backoffLimit, as in a Job."""
    active_deadline_seconds: Annotated[int | None, Field(ge=1, le=2**31 - 1, json_schema_extra={"format": "int64"})] = (
        None
    )
    """Makes the job Failed when its runs have taken so many seconds together; by default never. Time in the queue does
    not count. Of an array it is the time in which at least one task runs."""
    suspend: bool = False
    """Takes the job off the cluster, or keeps it off, until set to false. May change at any time."""
    after: Annotated[tuple[AfterJob, ...] | None, Field(max_length=MAX_AFTER, json_schema_extra=list_map("job"))] = None
    """Other jobs of the namespace that have to end first. The place in the queue is that of their end."""
    ttl_seconds_after_finished: Annotated[
        int | None, Field(ge=0, le=2**31 - 1, json_schema_extra={"format": "int32"})
    ] = None
    """Deletes the job and all it owns this many seconds after it completed or failed. May change any time."""
    capacity: Capacity = Capacity.GUARANTEED
    """Guaranteed runs on capacity that no pod has requested; Reclaimed on what others requested and do not use."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "has(self.template) || has(self.image)",
                "it is mandatory: name a container image, or write a pod template as spec.template",
                field_path=".image",
                reason="FieldValueRequired",
            ),
            cel(
                "has(self.template) || has(self.resources)",
                "they are mandatory: write resources.requests with cpu and memory",
                field_path=".resources",
                reason="FieldValueRequired",
            ),
            _not_mixed(),
            cel(
                "!has(self.resourcesFrom) || (has(self.resources) && !has(self.array) && "
                "self.capacity == 'Guaranteed')",
                "only jobs with resources get other requests; leave it out of arrays, of jobs with a template, and of "
                "jobs on reclaimed capacity",
                field_path=".resourcesFrom",
            ),
            cel(
                "!has(self.mainContainer) || has(self.template)",
                "a job without template has one container; leave it out",
                field_path=".mainContainer",
            ),
            cel(
                _no_shared_mount_path(),
                "mountPath: two mounts share a path; give each of persistentVolumeClaims, configMaps and "
                "secrets a mountPath of its own",
            ),
            cel(
                _on_both_sides("Guaranteed", _AT_MOST_ITS_LIMIT),
                "a request is more than 0 and at most its limit; requests and limits of devices and huge pages must be "
                "equal: give one side only, the other is filled in",
                field_path=".resources",
            ),
            cel(
                _on_both_sides("Reclaimed", _NOTHING_SET_ASIDE),
                "capacity: Reclaimed sets nothing aside: leave cpu and memory out of requests, write 0, or the same "
                "as in limits",
                field_path=".resources",
            ),
            cel(
                "!has(self.securityContext) || !has(self.securityContext.runAsNonRoot) || "
                "!self.securityContext.runAsNonRoot || !has(self.runAsUser) || self.runAsUser != 0",
                "0 is root, and securityContext.runAsNonRoot is true; write another id, such as 65532",
                field_path=".runAsUser",
            ),
            *array_rules(),
            *snapshot_rules(),
            _bounded("command", ".map(x, size(x))"),
            _bounded("args", ".map(x, size(x))"),
            _bounded("env", ".filter(x, has(x.value)).map(x, size(x.value))"),
        )
    )

    @cached_property
    def requests(self) -> Mapping[str, int]:
        """What one pod asks for: millicores of cpu, bytes of memory, whole units of others.

        Raises:
            QuantityError: when one of them is not a quantity, which the API server refuses.
        """
        if self.template is not None:
            return template_requests(self.template.spec)
        return amounts(self.resources.effective()) if self.resources is not None else {}

    @cached_property
    def devices(self) -> Mapping[str, int]:
        """The extended resources that the whole gang asks for, as many as a status names, and how many of each."""
        asked = sorted(name for name in self.requests if "/" in name)[: names.MAX_DEVICES]
        return {name: self.requests[name] * self.parallelism for name in asked}

    @cached_property
    def placed_by(self) -> Mapping[str, int]:
        """What one pod is placed by: its requests, or the extended resources in their place (`capacity: Reclaimed`)."""
        if self.capacity is Capacity.GUARANTEED:
            return self.requests
        if self.template is not None:
            return template_requests(self.template.spec, placed_by)
        return placed_by(self.requests)

    @property
    def written_template(self) -> dict[str, Any] | None:
        """The pod template as JSON values, as it was written but for nulls; None without one. Not to be changed."""
        return self.template.written if self.template is not None else None

    @property
    def program(self) -> TemplateContainer | None:
        """The container of the template that is the program; None without a template."""
        return main_container(self.template.spec, self.main_container) if self.template is not None else None

    @property
    def task_numbers(self) -> TaskNumbers | None:
        """The indexes of its tasks as users know them; None where the job is no array."""
        return self.array.numbers if self.array is not None else None

    @cached_property
    def main_image(self) -> str:
        """The image of the program."""
        return (self.image or "") if self.program is None else self.program.image

    @cached_property
    def main_name(self) -> str:
        """The name of the container that is the program."""
        return names.MAIN_CONTAINER if self.program is None else self.program.name

    @property
    def selected_nodes(self) -> Mapping[str, str]:
        """Labels that a node must have."""
        return (self.template.spec.node_selector if self.template is not None else self.node_selector) or {}

    @property
    def tolerated(self) -> tuple[Toleration | TemplateToleration, ...]:
        """The taints that the pods tolerate by the job's own word."""
        return (self.template.spec.tolerations if self.template is not None else self.tolerations) or ()

    @property
    def account(self) -> str | None:
        """The service account that the job names."""
        if self.template is not None:
            return self.template.spec.service_account_name or self.template.spec.service_account or None
        return self.service_account_name

    @property
    def grace_seconds(self) -> int:
        """Seconds between SIGTERM and SIGKILL, as the job wants them."""
        own = self.template.spec.termination_grace_period_seconds if self.template is not None else None
        return own if own is not None else self.termination_grace_period_seconds

    @property
    def affinity(self) -> Mapping[str, Any]:
        """Which nodes and neighbours the pods want."""
        return self.template.spec.affinity if self.template is not None else {}

    @property
    def keeps_state(self) -> bool:
        """Whether two runs of the job could harm each other by a volume."""
        if self.template is not None:
            return keeps_state(self.template.spec)
        return bool(self.persistent_volume_claims)

    @property
    def bound(self) -> bool:
        """Whether the scheduler alone knows to which nodes the pods may go: volumes are bound to a zone or a node, and
        pods to their neighbours."""
        return self.keeps_state or (self.template is not None and bound(self.template.spec))

    def references(self, kind: str) -> frozenset[str]:
        """Names of the objects of a kind (`configmap`, `secret`, `persistentvolumeclaim`) that the pods need."""
        if self.template is not None:
            return references(self.template.spec, kind)
        sources = [source for variable in self.env or () if (source := variable.value_from)]
        if kind == "persistentvolumeclaim":
            return frozenset(mount.name for mount in self.persistent_volume_claims or ())
        if kind == "configmap":
            keys = {key.name for source in sources if (key := source.config_map_key_ref) and not key.optional}
            keys |= {ref.name for whole in self.env_from or () if (ref := whole.config_map_ref) and not ref.optional}
            return frozenset(keys | {mount.name for mount in self.config_maps or ()})
        if kind == "secret":
            keys = {key.name for source in sources if (key := source.secret_key_ref) and not key.optional}
            keys |= {ref.name for whole in self.env_from or () if (ref := whole.secret_ref) and not ref.optional}
            return frozenset(keys | {mount.name for mount in self.secrets or ()})
        return frozenset()

    @cached_property
    def checkpoint_interval(self) -> timedelta:
        """The time in which a checkpoint or a snapshot is due. Where no webhook has refused a longer or an impossible
        time between snapshots, `interruptionAfter` bounds it."""
        most = parse_duration(self.interruption_after)
        with contextlib.suppress(DurationError):
            return min(most, parse_duration((self.snapshot and self.snapshot.every) or self.interruption_after))
        return most

    def of_run(self, _annotations: Mapping[str, str]) -> Self:
        """The spec as it held when a run started. What may change of that of a ScavengerJob promises nothing.

        Args:
            _annotations: of a pod of the run.
        """
        return self

    @property
    def has_command(self) -> bool:
        """Whether the job says what to run, and does not leave it to the image."""
        return bool(self.command if self.program is None else (self.program.model_extra or {}).get("command"))

    @property
    def snapshot_path(self) -> str | None:
        """Where the program has the volume of its snapshots; None where it has not, or may not write to it."""
        if self.snapshot is None:
            return None
        if self.program is not None:
            written = self.program.model_extra or {}
            mounts = [mount for mount in written.get("volumeMounts") or () if isinstance(mount, dict)]
            found = [m for m in mounts if m.get("name") == self.snapshot.volume and not m.get("readOnly")]
            return str(found[0].get("mountPath", "")) or None if found else None
        claims = self.persistent_volume_claims or ()
        return next((one.mount_path for one in claims if one.name == self.snapshot.volume and not one.read_only), None)

    @property
    def saved_exit_code(self) -> int | None:
        """With which the program ends when it has saved its state and is not done."""
        return self.checkpoint_exit_code or (EXIT_CODE if self.snapshot is not None else None)


class Preemption(Model):
    """What the prioritizer decided about the running pods, as their labels say it. Without a class, a running job is
    preemptible."""

    class_: Annotated[Literal["preemptible", "non-preemptible"] | None, Field(alias="class")] = None
    """non-preemptible: other jobs go first. preemptible: among those that go first when a regular pod needs the
    capacity."""
    running_priority: Annotated[Seconds | None, Field(ge=0)] = None
    """CPU-seconds that would be lost if the job went now."""


DeviceSeconds = Annotated[Seconds, Field(ge=0)]


class ScavengerJobStatus(Model):
    """What became of the job so far. Written by the admitter."""

    phase: Phase | None = None
    conditions: Annotated[
        tuple[Condition, ...],
        Field(max_length=16, json_schema_extra=list_map("type")),
    ] = ()
    """Why the job is where it is: Admitted, Succeeded, and those of Running, Interrupted and Stalled that hold."""
    interrupted_count: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    """How often the job was interrupted."""
    own_interrupted_count: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    """How many of the interruptions do not improve the place in the queue. The job's own user may have caused them, or
    the job had not computed for a reclaim period since the last one that did."""
    earned_queue: Annotated[str | None, Field(max_length=253)] = None
    """The queue in which the other interruptions improve the place of the job."""
    earned_cpu_seconds: Annotated[Seconds | None, Field(ge=0, alias="earnedCPUSeconds")] = None
    """Useful and lost CPU time, in core-seconds, when an interruption last improved the place in the queue."""
    served_level: Annotated[int | None, Field(ge=0, json_schema_extra={"format": "int32"})] = None
    """The number of binary digits of usefulCPUSeconds, of an array per task, with interruptedFirst: least-served. Jobs
    with a lower number go first, and interruptions do not improve the place in the queue."""
    queued_timestamp: MicroTimestamp | None = None
    """The place in the queue. Every interruption and every failed start moves it to now. A run that ends with
    checkpointExitCode keeps it, but for a microsecond, and so does an interruption that sets servedLevel."""
    running_timestamps: Annotated[tuple[Timestamp, ...], Field(max_length=names.MAX_RECENT_TIMESTAMPS)] = ()
    """The last 20 times when all pods of the gang were running. Of an array: when its first and its last task started.
    The next task has its place in the queue from then on."""
    interrupted_timestamps: Annotated[tuple[Timestamp, ...], Field(max_length=names.MAX_RECENT_TIMESTAMPS)] = ()
    """The last 20 times when the gang was interrupted."""
    starts: Annotated[int | None, Field(ge=1, json_schema_extra={"format": "int32"})] = None
    """How often all pods of the gang have been running: its first start, and a start after each run that ended."""
    ended_timestamp: Timestamp | None = None
    """When the last run ended, however it did; nothing while one is running."""
    finished_timestamp: Timestamp | None = None
    """When the job completed or failed."""
    short_runs: Annotated[int | None, Field(ge=1, json_schema_extra={"format": "int32"})] = None
    """Runs in a row that ended within a minute of their start, by an interruption, checkpointExitCode or a failure that
    backoffLimit or podFailurePolicy allows. From the second on, the pause before the next start grows."""
    retries: Annotated[int | None, Field(ge=1, json_schema_extra={"format": "int32"})] = None
    """How often the job has started again because a container failed by itself."""
    ignored_failures: Annotated[int | None, Field(ge=1, json_schema_extra={"format": "int32"})] = None
    """How often the job has started again after a failure that podFailurePolicy ignores."""
    active_seconds: Annotated[int | None, Field(ge=0, json_schema_extra={"format": "int64"})] = None
    """How long its runs that are over have taken together, where it has activeDeadlineSeconds. Of an array: in how much
    time at least one task ran."""
    priority_start_over_timestamp: Timestamp | None = None
    """The last moment at which a checkpoint was due; unsaved work counts from here."""
    last_checkpoint_timestamp: Timestamp | None = None
    """The last checkpoint the application reported."""
    useful_cpu_seconds: Annotated[Seconds, Field(ge=0, alias="usefulCPUSeconds")] = 0.0
    """CPU request times the time that was kept, in core-seconds; each request for its time, where pods were resized."""
    lost_cpu_seconds: Annotated[Seconds, Field(ge=0, alias="lostCPUSeconds")] = 0.0
    """CPU request times the time that was thrown away, in core-seconds, counted in the same way."""
    useful_seconds: Annotated[dict[str, DeviceSeconds] | None, Field(max_length=names.MAX_DEVICES)] = None
    """Devices requested times the time that was kept, in seconds, by extended resource such as `nvidia.com/gpu`."""
    lost_seconds: Annotated[dict[str, DeviceSeconds] | None, Field(max_length=names.MAX_DEVICES)] = None
    """Devices requested times the time that was thrown away, in seconds, by extended resource."""
    usage: JobUsage | None = None
    """What the pods use of what they request. It is written along with the rest of the status, so it may be old."""
    recommended: RecommendedRequests | None = None
    """What pods request from the next start on, by what was measured."""
    job_name: Annotated[str | None, Field(max_length=63)] = None
    """The batch/v1 Job of the run in progress, or of the last one once finished."""
    message: Annotated[str | None, Field(max_length=4096)] = None
    """Why the job is where it is, for people."""
    array: ArrayStatus | None = None
    """What became of the tasks of an array."""
    after: Annotated[tuple[FollowedJob, ...] | None, Field(max_length=MAX_AFTER, json_schema_extra=list_map("job"))] = (
        None
    )
    """What became of the jobs of spec.after that the admitter has seen. Kept when they are deleted."""
    removing: Annotated[tuple[Annotated[str, Field(max_length=64)], ...] | None, Field(max_length=MAX_REMOVING)] = None
    """Pods that the admitter deletes and has not counted yet: index, first digits of the UID, and why, such as
    `57-8c1d0e52:MaxRunning`. `*:PeerFailed` is all pods of the run."""
    preemption: Preemption | None = None
    """The class of a job and its unsaved work, while it runs. Without it a running job is preemptible."""

    def condition(self, kind: ConditionType) -> Condition | None:
        """The condition of that type, or None."""
        return next((c for c in self.conditions if c.type == kind), None)


class ScavengerJob(Model):
    """A low-priority batch job that runs on idle resources and leaves when a regular workload needs them.

    The application writes checkpoints and continues from the last one when it is started again.
    """

    api_version: str = names.API_VERSION
    kind: str = "ScavengerJob"
    metadata: ObjectMeta = ObjectMeta()
    spec: ScavengerJobSpec
    status: ScavengerJobStatus = ScavengerJobStatus()

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                f"self.metadata.name.size() <= {names.MAX_NAME_LENGTH}",
                f"metadata.name: at most {names.MAX_NAME_LENGTH} characters, so that pod names and label "
                "values fit; shorten it",
            ),
            cel(
                "!self.metadata.name.contains('.')",
                "metadata.name: no dots, as it becomes part of host names; use dashes",
            ),
            cel(
                "self.spec.queue == oldSelf.spec.queue || !has(self.status) || !has(self.status.jobName)",
                "can change only while no pod of the job exists; set suspend: true first, or wait",
                field_path=".spec.queue",
                reason="FieldValueForbidden",
            ),
            *after_rules(),
        )
    )

    @property
    def key(self) -> str:
        """`namespace/name` (`scavenger_api.job_keys`)."""
        return self.metadata.key

    @property
    def precedence(self) -> int:
        """How far it goes before others of its queue; more goes first."""
        status = self.status
        own = status.own_interrupted_count
        earned = earned_count(status.interrupted_count, own, status.earned_queue, self.spec.queue)
        return precedence(earned, status.served_level)

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
