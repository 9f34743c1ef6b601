"""The ScavengerJob as informers and commands read it: what decisions depend on, without validation.

The pydantic models of scavenger_api say the same and validate it, which the API server has done already; reading
thousands of objects, or starting a command, should not pay for it again. What only one reader looks at is in a subclass
of its own. tests/unit/cli/test_objects.py holds the fields to those of the models.
"""

from __future__ import annotations

from typing import Any, Self

import msgspec
from msgspec.structs import replace
from scavenger_api import names
from scavenger_api.job_keys import job_key
from scavenger_api.ledger import Ledger, LedgerError, read_ledger
from scavenger_api.pod_sums import template_requests
from scavenger_api.promises import gang_size, promised_interval
from scavenger_api.quantity import QuantityError, readable_amounts
from scavenger_api.reclaimed import asked_for
from scavenger_api.sizes import recommended_amounts, sized_requests
from scavenger_api.states import Capacity, ConditionType, Phase, earned_count, precedence
from scavenger_api.task_numbers import TaskNumbers, numbers_of

from scavenger_kube.kinds import Condition, ObjectMeta, Resources, Struct, condition

# Of a template only fields that the contract types as well (`scavenger_api.template`): the API server types none of
# them, and one field of another type hides the whole job from its reader. Null stands for absent.


class TemplateResources(Struct, frozen=True, gc=False, rename="camel"):
    """resources of a container of a template, or of the whole pod."""

    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class TemplateContainer(Struct, frozen=True, gc=False, rename="camel"):
    """A container or init container of a template."""

    name: str = ""
    image: str | None = None
    resources: TemplateResources | None = None
    restart_policy: str | None = None


class TemplateToleration(Struct, frozen=True, gc=False, rename="camel"):
    """A toleration of a template."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class TemplateSpec(Struct, frozen=True, gc=False, rename="camel"):
    """spec of a template."""

    containers: tuple[TemplateContainer, ...] = ()
    init_containers: tuple[TemplateContainer, ...] | None = None
    overhead: dict[str, str | int | float] | None = None
    resources: TemplateResources | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[TemplateToleration, ...] | None = None


class PodTemplate(Struct, frozen=True, gc=False, rename="camel"):
    """spec.template: a core/v1 pod template."""

    spec: TemplateSpec = TemplateSpec()


class ArraySpec(Struct, frozen=True, gc=False, rename="camel"):
    """spec.array: independent tasks."""

    written_tasks: int = msgspec.field(default=0, name="tasks")
    indexes: str = ""
    max_running: int | None = None
    retry: int = 0

    @property
    def numbers(self) -> TaskNumbers:
        """What users call the tasks, in the order of their indexes; as of `scavenger_api.array.ArraySpec`."""
        return numbers_of(self.written_tasks, self.indexes)

    @property
    def tasks(self) -> int:
        """How many tasks the array has."""
        return len(self.numbers) if self.indexes else self.written_tasks


class SnapshotSpec(Struct, frozen=True, gc=False, rename="camel"):
    """spec.snapshot: how often one is taken."""

    every: str = ""


class ArrayStatus(Struct, frozen=True, gc=False, rename="camel"):
    """status.array: what became of the tasks; sets of indexes as `scavenger_api.indexes` has them."""

    progress: str = ""
    completed: int = 0
    failed: int = 0
    running: int = 0
    completed_indexes: str = ""
    failed_indexes: str = ""
    running_indexes: str = ""
    interrupted_indexes: str = ""
    retries_used: str = ""


class ScavengerJobSpec(Struct, frozen=True, gc=False, rename="camel"):
    """spec: how much of which capacity, and how much work may be lost."""

    queue: str = names.DEFAULT_QUEUE
    interruption_after: str = names.DEFAULT_INTERRUPTION_AFTER
    suspend: bool = False
    priority: int = 0
    parallelism: int = 1
    array: ArraySpec | None = None
    snapshot: SnapshotSpec | None = None
    capacity: str = Capacity.GUARANTEED
    resources: Resources = Resources()
    template: PodTemplate | None = None

    @property
    def checkpoint_due(self) -> str:
        """The time in which a checkpoint or a snapshot is due, as a duration."""
        return (self.snapshot and self.snapshot.every) or self.interruption_after

    @property
    def requests(self) -> dict[str, int]:
        """What one pod asks for, and counts as: millicores of cpu, bytes of memory, whole units of others. What cannot
        be read is left out: the admitter starts no such job."""
        if self.template is None:
            return readable_amounts(asked_for(self.resources.requests, self.resources.limits))
        try:
            return template_requests(self.template.spec)
        except QuantityError:
            return {}


class Preemption(Struct, frozen=True, gc=False, rename="camel"):
    """status.preemption: what the prioritizer decided; running_priority in core-seconds."""

    class_: str = msgspec.field(default="", name="class")
    running_priority: float | None = None


class ScavengerJobStatus(Struct, frozen=True, gc=False, rename="camel"):
    """status: where the job is, and what is safe of its run. Times as they are written."""

    phase: str = ""
    interrupted_count: int = 0
    own_interrupted_count: int = 0
    earned_queue: str | None = None
    served_level: int | None = None
    running_timestamps: tuple[str, ...] = ()
    ended_timestamp: str | None = None
    priority_start_over_timestamp: str | None = None
    last_checkpoint_timestamp: str | None = None
    job_name: str = ""
    conditions: tuple[Condition, ...] = ()
    preemption: Preemption = Preemption()
    recommended: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it


class ShownStatus(ScavengerJobStatus, frozen=True, gc=False, rename="camel"):
    """status, with what is shown to people. CPU time in core-seconds, of devices in seconds."""

    queued_timestamp: str | None = None
    retries: int | None = None
    ignored_failures: int | None = None
    interrupted_timestamps: tuple[str, ...] = ()
    finished_timestamp: str | None = None
    useful_cpu_seconds: float = msgspec.field(name="usefulCPUSeconds", default=0.0)
    lost_cpu_seconds: float = msgspec.field(name="lostCPUSeconds", default=0.0)
    useful_seconds: dict[str, float] = {}  # noqa: RUF012 - msgspec copies it
    lost_seconds: dict[str, float] = {}  # noqa: RUF012 - msgspec copies it
    usage: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it
    message: str = ""
    array: ArrayStatus = ArrayStatus()


class ScavengerJob(Struct, frozen=True, gc=False, rename="camel"):
    """A ScavengerJob."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScavengerJobSpec = ScavengerJobSpec()
    status: ScavengerJobStatus = ScavengerJobStatus()

    @property
    def key(self) -> str:
        """As its pods name it (`scavenger_api.job_keys`)."""
        return self.metadata.key

    @property
    def recommended(self) -> dict[str, str]:
        """What its pods request in the place of what it asks for."""
        return recommended_amounts(self.status.recommended)

    @property
    def sized(self) -> Self:
        """The job with what its pods request as its own requests, as admission looks at it."""
        if not self.recommended:
            return self
        own = self.spec.resources
        requests = sized_requests(own.requests, own.limits, self.status.recommended)
        return replace(self, spec=replace(self.spec, resources=replace(own, requests=requests)))

    @property
    def requests(self) -> dict[str, int]:
        """What one pod requests, as `ScavengerJobSpec.requests` says it, unless something else is recommended."""
        return self.sized.spec.requests

    @property
    def precedence(self) -> int:
        """How far it goes before others of its queue; more goes first. An array counts as interrupted once while an
        interrupted task of it waits."""
        status = self.status
        earned = int(status.phase == Phase.INTERRUPTED)
        if self.spec.array is None:
            own = status.own_interrupted_count
            earned = earned_count(status.interrupted_count, own, status.earned_queue, self.spec.queue)
        return precedence(earned, status.served_level)


class AdoptedSpec(ScavengerJobSpec, frozen=True, gc=False, rename="camel"):
    """spec of a batch/v1 Job."""

    managed_by: str = ""
    completions: int | None = None
    completion_mode: str | None = None


class AdoptedJob(ScavengerJob, frozen=True, gc=False, rename="camel"):
    """A batch/v1 Job of a user, as the job whose tasks are its completions. All that is known of a run stands on the
    pods of its tasks, and for a gang in the ledger.
    """

    spec: AdoptedSpec = AdoptedSpec()

    @property
    def key(self) -> str:
        """As its pods name it."""
        return job_key(self.metadata.namespace, self.metadata.name, names.KIND_JOB)

    @property
    def adopted(self) -> bool:
        """Whether it is the admitter's. Any Job may have the label of a queue."""
        return self.spec.managed_by == names.MANAGED_BY_ADOPTER


def in_own_words(job: AdoptedJob) -> AdoptedJob:
    """A Job as it was decoded, with what its labels and annotations say in the fields of a ScavengerJob.

    Args:
        job: as the API server has it.
    """
    meta, spec = job.metadata, job.spec
    after = promised_interval(meta.annotations)
    ledger = _ledger_of(job)
    place = ledger.place if ledger is not None else ""
    size = gang_size(meta.annotations, spec.completions, spec.completion_mode, place)
    told = AdoptedSpec(
        queue=meta.labels.get(names.LABEL_QUEUE, names.DEFAULT_QUEUE),
        interruption_after=names.DEFAULT_INTERRUPTION_AFTER if after is None else after,
        suspend=spec.suspend,
        parallelism=max(1, size),
        array=None if size else ArraySpec(),
        template=spec.template,
        managed_by=spec.managed_by,
    )
    return replace(job, spec=told, status=_status_of_gang(job, ledger) if size else job.status)


def _ledger_of(job: AdoptedJob) -> Ledger | None:
    """None where it is of another version."""
    noted = condition(job.status.conditions, names.CONDITION_LEDGER)
    try:
        return read_ledger(noted.message) if noted is not None else Ledger()
    except LedgerError:
        return None


def _status_of_gang(job: AdoptedJob, ledger: Ledger | None) -> ScavengerJobStatus:
    """What the ledger says of the run of a gang; nothing where it is of another version."""
    if ledger is None:
        return ScavengerJobStatus()
    noted = condition(job.status.conditions, names.CONDITION_LEDGER)
    caused = Condition(ConditionType.INTERRUPTED, "True", ledger.cause)
    return ScavengerJobStatus(
        phase=noted.reason if noted is not None else "",
        interrupted_count=ledger.interrupted,
        own_interrupted_count=ledger.own,
        served_level=ledger.served,
        running_timestamps=ledger.runs,
        ended_timestamp=ledger.ended_at or None,
        priority_start_over_timestamp=ledger.due or None,
        last_checkpoint_timestamp=ledger.checkpoint or None,
        job_name=job.metadata.name,
        conditions=(caused,) if ledger.cause else (),
    )
