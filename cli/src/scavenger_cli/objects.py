"""What the commands read of the API's objects: projections, as scavenger_kube.kinds has them of the core kinds.

Of ScavengerJobs, what services read as well is in scavenger_kube.scavenger_kinds; here is what is only shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, TypeVar

import msgspec
from scavenger_api import names
from scavenger_api.duration import parse_duration
from scavenger_api.job_keys import job_key, parse_key
from scavenger_api.ledger import LedgerError
from scavenger_api.main_container import main_index, unequal
from scavenger_api.pod_sums import sides, template_requests
from scavenger_api.reclaimed import asked_for, placed_by
from scavenger_api.shared_settings import SharedSettings
from scavenger_api.states import Capacity, Phase, QueueState
from scavenger_api.task_numbers import TaskNumbers, numbers_of
from scavenger_api.times import micros, parse_time
from scavenger_api.weights import DEFAULT_WEIGHTS, Weights
from scavenger_domain import adopted, queues
from scavenger_domain.gang import PER_CPU_SECOND, Place, Rank, by_priority, line_order, moment
from scavenger_domain.pod_reading import read
from scavenger_domain.taints import TolerationLike
from scavenger_domain.unit import Unit, unit_of, units
from scavenger_kube.decoders import decoder_of
from scavenger_kube.kinds import Condition, ObjectMeta, Pod, PodSpec, Struct, Toleration
from scavenger_kube.scavenger_kinds import (
    PodTemplate,
    ScavengerJob,
    ScavengerJobSpec,
    ShownStatus,
    TemplateContainer,
    TemplateSpec,
)

from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.words import ordinal

PHASES: Final = tuple(Phase)
QUEUED: Final = tuple(phase for phase in Phase if phase.queued)
FINISHED: Final = tuple(phase for phase in Phase if phase.finished)


class AfterJob(Struct, frozen=True, gc=False, rename="camel"):
    """An entry of spec.after: another job."""

    job: str = ""
    when: str = "Completed"


class FollowedJob(Struct, frozen=True, gc=False, rename="camel"):
    """An entry of status.after: what became of that job."""

    job: str = ""
    ended: str = ""


class ShownContainer(TemplateContainer, frozen=True, gc=False, rename="camel"):
    """A container of a template, with what only commands read of it. The contract does not type it."""

    command: Any = None


class ShownTemplateSpec(TemplateSpec, frozen=True, gc=False, rename="camel"):
    """spec of a template, as far as it is shown."""

    containers: tuple[ShownContainer, ...] = ()


class ShownTemplate(PodTemplate, frozen=True, gc=False, rename="camel"):
    """A pod template, as far as it is shown."""

    spec: ShownTemplateSpec = ShownTemplateSpec()


class JobSpec(ScavengerJobSpec, frozen=True, gc=False, rename="camel"):
    """spec of a ScavengerJob, as far as it is shown or explained."""

    queue: str = names.DEFAULT_QUEUE
    main_container: str = ""
    image: str = ""
    command: tuple[str, ...] | None = None
    template: ShownTemplate | None = None
    checkpoint_exit_code: int | None = None
    after: tuple[AfterJob, ...] = ()
    node_selector: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    tolerations: tuple[Toleration, ...] = ()

    @property
    def reclaimed(self) -> bool:
        """Whether it runs on what others requested and do not use."""
        return self.capacity == Capacity.RECLAIMED

    @property
    def placed_by(self) -> dict[str, int]:
        """What the scheduler looks for on a node: with `capacity: Reclaimed` the resources of reclaimed capacity."""
        if not self.reclaimed:
            return self.requests
        return template_requests(self.template.spec, placed_by) if self.template else placed_by(self.requests)

    @property
    def main_image(self) -> str:
        """The image of the program."""
        main = self._main
        return self.image if main is None else main.image or ""

    @property
    def main_command(self) -> tuple[str, ...]:
        """What the program runs; empty where that is left to its image."""
        main = self._main
        written = self.command if main is None else main.command
        return tuple(map(str, written)) if isinstance(written, tuple | list) else ()

    @property
    def suffers(self) -> str:
        """What may happen to the program, as its requests differ from its limits; empty where they do not."""
        if self.reclaimed:
            return ""
        main, own = self._main, self.resources
        if main is not None:
            found = unequal(*sides(main.resources))
            return f"container {main.name}: {found}" if found else ""
        asked = asked_for(own.requests, own.limits)
        return unequal(asked, {**asked, **own.limits})

    @property
    def _main(self) -> ShownContainer | None:
        containers = self.template.spec.containers if self.template is not None else ()
        return containers[main_index([one.name for one in containers], self.main_container)] if containers else None

    @property
    def selected_nodes(self) -> Mapping[str, str]:
        """Labels that a node must have."""
        return self.node_selector if self.template is None else self.template.spec.node_selector or {}

    @property
    def tolerated(self) -> Sequence[TolerationLike]:
        """The taints that the pods tolerate by the job's own word."""
        return self.tolerations if self.template is None else self.template.spec.tolerations or ()

    @property
    def checkpoint_interval(self) -> timedelta:
        """The time in which a checkpoint or a snapshot is due."""
        return parse_duration(self.checkpoint_due)


class JobStatus(ShownStatus, frozen=True, gc=False, rename="camel"):
    """status of a ScavengerJob, with what only commands show."""

    after: tuple[FollowedJob, ...] = ()


class Job(ScavengerJob, frozen=True, gc=False, rename="camel"):
    """A ScavengerJob, or what is read as one (`AdoptedJob`)."""

    resource: ClassVar[str] = f"scavengerjob.{names.GROUP}"
    kind_of: ClassVar[str] = "ScavengerJob"
    adopted: ClassVar[bool] = False

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def told(self) -> str:
        """As kubectl names it where it has done something: `job.batch/NAME`."""
        return f"{self.resource}/{self.name}"

    @property
    def pods_selector(self) -> str:
        """By which exactly its pods are found."""
        return f"{names.LABEL_JOB}={self.name},{parse_key(self.key).selector}"

    @property
    def alone(self) -> bool:
        """Whether it has one task, so that users need not tell it from the job."""
        return self.adopted and len(self.numbers) == 1

    @property
    def name(self) -> str:
        """Its name inside its namespace."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.metadata.namespace

    @property
    def phase(self) -> str:
        """Its phase; empty as long as no admitter has seen the job."""
        return self.status.phase

    @property
    def started_at(self) -> datetime | None:
        """Since when all pods of the present run are running; None while it does not run."""
        times = self.runs
        return parse_time(times[-1]) if self.phase == Phase.RUNNING and times else None

    @property
    def runs(self) -> tuple[str, ...]:
        """When its last runs started; an array has one, which began with its first task."""
        times = self.status.running_timestamps
        return times[:1] if self.spec.array is not None else times

    @property
    def in_line_since(self) -> datetime | None:
        """Since when it has been queued; a job that ended with its checkpointExitCode has an older place in the
        queue."""
        return queues.in_line_since(parse_time(self.status.queued_timestamp), parse_time(self.status.ended_timestamp))

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type, or None."""
        return next((c for c in self.status.conditions if c.type == kind), None)

    def reason(self, kind: str) -> str:
        """The one-word reason of a condition; empty without it."""
        found = self.condition(kind)
        return found.reason if found else ""

    @property
    def preemption_class(self) -> str:
        """Whether regular pods take it first, while it runs. Its pods are born preemptible, and the prioritizer writes
        what differs from that."""
        return (self.status.preemption.class_ or names.PREEMPTIBLE) if self.has_risk else ""

    @property
    def has_risk(self) -> bool:
        """Whether it has a figure of what it would lose: an array has one for each task."""
        return self.phase == Phase.RUNNING and self.spec.array is None

    @property
    def pods(self) -> int:
        """The pods that it is for; of an array that runs, those that run."""
        return max(1, self.status.array.running) if self.spec.array is not None else self.spec.parallelism

    @property
    def numbers(self) -> TaskNumbers:
        """What users call the tasks of an array, in the order of their indexes; nothing for another job."""
        array = self.spec.array
        return array.numbers if array is not None else numbers_of(0, "")

    def task_name(self, index: int) -> str:
        """A task as commands take it: `sweep[57]`; the job itself where it is `alone`."""
        return self.name if self.alone else f"{self.name}[{self.numbers[index]}]"

    def place_of(self, number: int) -> int:
        """The index of the task that users call by this number. Raises CliError."""
        numbers = self.numbers
        if self.spec.array is None:
            raise CliError(f"{self.name} is no array", f"`kubectl sj why {self.name}` is about it as a whole")
        if (found := numbers.place(number)) is not None:
            return found
        known = self.spec.array.indexes or f"0 to {len(numbers) - 1}"
        raise CliError(f"{self.name} has no task {number}", f"its tasks are {known}", ExitCode.NOT_FOUND)

    @property
    def unit(self) -> Unit:
        """What is ranked and interrupted: of an array, what its tasks have in common."""
        return unit_of(self)

    def unsaved(self, now: datetime, weights: Weights = DEFAULT_WEIGHTS, pods: Iterable[Pod] = ()) -> float:
        """Core-seconds of work that are lost if the job goes now; an accelerator counts as so many cores. On reclaimed
        capacity it is at most what the prioritizer wrote, which alone knows the real use. pods: as far as they are
        known; those that were resized in place count with what they requested."""
        if not self.has_risk:
            return 0.0
        unit, written = self.unit, self.status.preemption.running_priority
        if unit.started is None:
            return written or 0.0
        if (resized := self._resized(pods, weights)) is not None:
            return resized.at_risk(micros(now), 0, unit.interval).cost / PER_CPU_SECOND
        found = self.core_seconds(unit.unsaved(micros(now)), weights) * self.spec.parallelism
        return min(found, written) if self.spec.reclaimed and written is not None else found

    def at_risk(self, now: datetime, shared: SharedSettings, pods: Iterable[Pod] = ()) -> float:
        """Core-seconds by which the job is ranked at this moment: what is unsaved, as far as its promise is trusted,
        and what a restart costs. By the rule of the prioritizer, and the settings that it reads as well. What the
        prioritizer wrote is minutes old. It stands for jobs on reclaimed capacity, whose real use it alone knows. pods:
        as for `unsaved`.
        """
        if not self.has_risk:
            return 0.0
        unit, written = self.unit, self.status.preemption.running_priority
        if unit.started is None or (self.spec.reclaimed and written is not None):
            return written or 0.0
        if (resized := self._resized(pods, shared.resource_weights)) is not None:
            return resized.at_risk(micros(now), shared.startup_cost, shared.trusted_interval).cost / PER_CPU_SECOND
        lost = unit.time_at_risk(micros(now), shared.startup_cost, shared.trusted_interval)
        return self.core_seconds(lost, shared.resource_weights) * self.spec.parallelism

    def _resized(self, pods: Iterable[Pod], weights: Weights) -> Unit | None:
        """The unit with its pods, where one of them was resized in place; of the others the spec says as much."""
        if self.spec.reclaimed or not any(names.ANNOTATION_REQUESTED_CPU in pod.metadata.annotations for pod in pods):
            return None
        return next(units(self.unit, [read(pod, weights) for pod in pods]))

    def core_seconds(self, time: int, weights: Weights = DEFAULT_WEIGHTS) -> float:
        """Core-seconds of one pod in some microseconds."""
        return time * weights.cost(self.requests) / PER_CPU_SECOND

    def safe_until(self, now: datetime) -> datetime | None:
        """Until when the present run's work is safe: last reported or assumed checkpoint or start, whichever is latest;
        None while it does not run."""
        unit = self.unit
        return None if unit.started is None else moment(unit.safe_until(micros(now)))


class AdoptedJob(Job, frozen=True, gc=False, rename="camel"):
    """A Job of batch/v1 that the admitter runs, in the words of a ScavengerJob (`scavenger_domain.adopted`)."""

    resource: ClassVar[str] = "job.batch"
    kind_of: ClassVar[str] = names.KIND_JOB
    adopted: ClassVar[bool] = True

    @property
    def key(self) -> str:
        """As its pods name it."""
        return job_key(self.namespace, self.name, names.KIND_JOB)


_KINDS: Final[Mapping[str, type[Job]]] = {
    **dict.fromkeys(("job", "jobs", "job.batch", "jobs.batch"), AdoptedJob),
    **dict.fromkeys(("sj", "scavengerjob", "scavengerjobs"), Job),
    **dict.fromkeys((f"scavengerjob.{names.GROUP}", f"scavengerjobs.{names.GROUP}"), Job),
}


def kind_and_name(text: str) -> tuple[type[Job] | None, str]:
    """`job/NAME` as what it names; no kind of a bare name. Raises CliError for another kind."""
    kind, slash, name = text.rpartition("/")
    if not slash:
        return None, text
    if kind.lower() not in _KINDS:
        remedy = f"write job/{name}, scavengerjob/{name} or {name}"
        raise CliError(f"{kind} is no kind of jobs", remedy, ExitCode.USAGE)
    return _KINDS[kind.lower()], name


def is_adopted(body: bytes | msgspec.Raw) -> bool:
    """Whether the admitter runs a Job."""
    return adopted.adopted(msgspec.json.decode(body))


def program_of(pod: Pod) -> str:
    """The name of the container that does the work."""
    default, containers = names.ANNOTATION_DEFAULT_CONTAINER, pod.spec.containers
    if names.LABEL_KIND in pod.metadata.labels and default not in pod.metadata.annotations and containers:
        return containers[main_index([one.name for one in containers], names.MAIN_CONTAINER)].name
    return pod.program


class Reference(Struct, frozen=True, gc=False, rename="camel"):
    """Another object of the namespace, by its name."""

    name: str = ""


class JobPodSpec(PodSpec, frozen=True, gc=False, rename="camel"):
    """spec of a pod of a job, with what only explanations look at."""

    image_pull_secrets: tuple[Reference, ...] = ()


class JobPod(Pod, frozen=True, gc=False, rename="camel"):
    """A pod of a job."""

    spec: JobPodSpec = JobPodSpec()


class LabelSelectorRequirement(Struct, frozen=True, gc=False, rename="camel"):
    """A condition on one label."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True, gc=False, rename="camel"):
    """metav1.LabelSelector."""

    match_labels: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NamespaceTurns(Struct, frozen=True, gc=False, rename="camel"):
    """spec.perNamespace of a ScavengerQueue."""

    weights: dict[str, int] = {}  # noqa: RUF012 - msgspec copies it


class QueueSpec(Struct, frozen=True, gc=False, rename="camel"):
    """spec of a ScavengerQueue."""

    weight: int = 1
    quota: dict[str, str | int | float] = {}  # noqa: RUF012 - msgspec copies it
    closed: bool = False
    namespace_selector: LabelSelector | None = None
    per_namespace: NamespaceTurns | None = None


class QueueCounts(Struct, frozen=True, gc=False, rename="camel"):
    """Jobs of the queue by phase."""

    waiting: int = 0
    starting: int = 0
    running: int = 0
    interrupted: int = 0
    suspended: int = 0
    completed: int = 0
    failed: int = 0
    unknown: int = 0


class QueueStatus(Struct, frozen=True, gc=False, rename="camel"):
    """status of a ScavengerQueue."""

    state: str = ""
    jobs: QueueCounts | None = None
    allocated: dict[str, str | int | float] = {}  # noqa: RUF012 - msgspec copies it
    deserved: dict[str, str | int | float] = {}  # noqa: RUF012 - msgspec copies it


class Queue(Struct, frozen=True, gc=False, rename="camel"):
    """A ScavengerQueue."""

    metadata: ObjectMeta = ObjectMeta()
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()

    @property
    def state(self) -> QueueState:
        """Open, Closed or Releasing. By the spec, which the status follows a second later: `open` is seen at once."""
        return queues.queue_state(deleting=self.metadata.deletion_timestamp is not None, closed=self.spec.closed)


class Named(Struct, frozen=True, gc=False, rename="camel"):
    """Any object, as far as it has a name."""

    metadata: ObjectMeta = ObjectMeta()


T = TypeVar("T")

_LISTS: Final[dict[Any, type[Any]]] = {}


def decode(body: bytes | msgspec.Raw, kind: type[T]) -> T:
    """One object of the API. A pod template that no component can read is left out: no webhook has refused it, and the
    admitter does not start it. Raises msgspec.DecodeError, a ValueError; CliError for a Job of a later version."""
    if issubclass(kind, AdoptedJob):
        return _in_own_words(msgspec.json.decode(body, type=dict[str, Any]), kind)
    try:
        return decoder_of(kind).decode(body)
    except msgspec.ValidationError:
        found = msgspec.json.decode(body, type=dict[str, Any])
        spec = found.get("spec")
        if not isinstance(spec, dict) or spec.pop("template", None) is None:
            raise
        return msgspec.convert(found, kind)


def _in_own_words(found: dict[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(adopted.in_own_words(found), kind)
    except LedgerError as error:
        raise CliError(str(error), "use the kubectl sj of the version that runs in the cluster") from error


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


def _list_of(kind: type[T]) -> type[Any]:
    if kind not in _LISTS:
        items: Any = list[kind] | None  # type: ignore[valid-type]
        _LISTS[kind] = msgspec.defstruct("List", [("items", items, None)])
    return _LISTS[kind]


def decode_items(body: bytes, kind: type[T]) -> list[T]:
    """The items of a list. One that cannot be read hides no other: standard error says that it is left out. Of Jobs,
    those that are adopted."""
    if issubclass(kind, AdoptedJob):
        return [item for item, _ in with_raws(body, kind)]
    try:
        return decoder_of(_list_of(kind)).decode(body).items or []
    except msgspec.ValidationError:
        return [item for item, _ in with_raws(body, kind)]


def with_raws(body: bytes, kind: type[T]) -> list[tuple[T, msgspec.Raw]]:
    """The items of a list, as `decode_items`, each as it came beside it."""
    return [(item, raw) for raw in raws(body) if (item := readable_item(raw, kind)) is not None]


def readable_item(raw: msgspec.Raw, kind: type[T]) -> T | None:
    """An object of the API; None for a Job that is not adopted, and where it cannot be read, which standard error
    says."""
    try:
        if issubclass(kind, AdoptedJob):
            found = msgspec.json.decode(raw, type=dict[str, Any])
            return _in_own_words(found, kind) if adopted.adopted(found) else None
        return decode(raw, kind)
    except (msgspec.ValidationError, CliError) as error:
        from scavenger_cli.output import note  # what is read as it should be needs none of it

        try:
            name = decoder_of(Named).decode(raw).metadata.key
        except msgspec.ValidationError:
            name = "an object"
        note(f"{name} is left out, as it cannot be read: {getattr(error, 'message', error)}")
        return None


def raws(body: bytes) -> list[msgspec.Raw]:
    """The items of a list as they came; views of the body, no copies."""
    return decoder_of(_List).decode(body).items or []


def raw_items(body: bytes) -> Iterator[dict[str, Any]]:
    """The items of a list as they came, without managedFields (kubectl leaves them out as well); one at a time."""
    return map(plain, raws(body))


def plain(body: bytes | msgspec.Raw) -> dict[str, Any]:
    """An object as it came, without managedFields."""
    return without_managed_fields(msgspec.json.decode(body))


def without_managed_fields(obj: dict[str, Any]) -> dict[str, Any]:
    """The object without its managedFields."""
    obj.get("metadata", {}).pop("managedFields", None)
    return obj


def _line_order(job: Job) -> Place:
    status, array = job.status, job.spec.array is not None
    started = parse_time(status.running_timestamps[-1]) if status.running_timestamps else None
    queued = queues.place_in_queue(parse_time(status.queued_timestamp), started, array=array)
    return line_order(job.precedence, micros(queued) if queued is not None else None, job.metadata.uid)


def _rank(job: Job) -> Rank:
    return job.namespace, job.precedence, job.spec.priority, job.spec.array is not None


def takes_turns(job: Job, queues: Iterable[Queue]) -> bool:
    """Whether the namespaces of the job's queue take turns. queues: as far as they may be read."""
    return any(one.metadata.name == job.spec.queue and one.spec.per_namespace is not None for one in queues)


def place_in_line(job: Job, jobs: list[Job], queues: Iterable[Queue] = ()) -> tuple[int, int] | None:
    """The job's place among the queued jobs of its queue, and their number; None when it is not queued. Where
    namespaces take turns, they are those of its namespace. queues: as in `takes_turns`."""
    if job.phase not in QUEUED:
        return None
    line = [j for j in jobs if j.phase in QUEUED and j.spec.queue == job.spec.queue]
    if takes_turns(job, queues):
        line = [one for one in line if one.namespace == job.namespace]
    keys = [one.key for one in by_priority(sorted(line, key=_line_order), _rank)]
    return (keys.index(job.key) + 1, len(keys)) if job.key in keys else None


def position(job: Job, line: tuple[int, int] | None, queues: Iterable[Queue] = ()) -> str:
    """A place in the queue in words; empty where there is none."""
    if line is None:
        return ""
    of = f" of namespace {job.namespace}" if takes_turns(job, queues) else ""
    turns = ", where namespaces take turns" if of else ""
    had = ", as jobs that have had less CPU time go first" if job.status.served_level else ""
    return f"{ordinal(line[0])} of {line[1]}{of} in queue {job.spec.queue}{turns}{had}"
