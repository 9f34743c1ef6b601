"""What is written to the API for one ScavengerJob: its status, its Events, and the actions that follow."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeVar

import msgspec
from scavenger_api.events import CHECKPOINT_UNREADABLE, SNAPSHOT_WARNING
from scavenger_api.indexes import parse_counts, parse_indexes
from scavenger_api.job import ScavengerJob, ScavengerJobStatus
from scavenger_api.job_keys import parse_key
from scavenger_api.names import JOB_LABELS, LABEL_JOB, MANAGED_BY
from scavenger_api.times import format_time
from scavenger_domain.plain_text import plain
from scavenger_kube.client import ApiClient
from scavenger_kube.decode import ModelDecoder
from scavenger_kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from scavenger_kube.kinds import ObjectMeta, Pod, Struct
from scavenger_kube.resources import JOBS, PODS, SECRETS, SERVICES, Item, Resource, scavenger_jobs
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.logging import get_logger
from scavenger_runtime.stale_marks import release

from scavenger_admitter.core.admission.placement.headroom import ANYWHERE, Target
from scavenger_admitter.core.adopted.pods import adopted_pod
from scavenger_admitter.core.adopted.work import AdoptedJob
from scavenger_admitter.core.lifecycle.actions import (
    Cleanup,
    CreateJob,
    CreatePods,
    DeleteJob,
    DeletePod,
    DeleteScavengerJob,
    DisownPod,
    EndJob,
    EventNote,
    OfPod,
    ReleasePod,
    StartTasks,
    UnlabelPod,
)
from scavenger_admitter.core.lifecycle.confirmed import Confirmed
from scavenger_admitter.core.lifecycle.observation import Outcome
from scavenger_admitter.core.lifecycle.start_failures import ABSENT, NAME_TAKEN, UNMANAGED
from scavenger_admitter.core.manifest import (
    job_manifest,
    of_qos_class,
    service_manifest,
    task_affinity,
    with_equal_limits,
)
from scavenger_admitter.core.pods_of_job import pod_of_task, pods_of_job
from scavenger_admitter.core.recommended import SizedJob, sized
from scavenger_admitter.core.snapshots import KEY_BYTES, key_manifest, key_name
from scavenger_admitter.facts import run_of
from scavenger_admitter.last_words import LastWordsSeen
from scavenger_admitter.lookups import Look
from scavenger_admitter.references import References
from scavenger_admitter.slim_jobs import size_of, slim

SCAVENGERJOBS: Final[Resource[ScavengerJob]] = scavenger_jobs(SizedJob)

ADOPTED_JOBS: Final = Resource("batch", "v1", "jobs", "Job", True, AdoptedJob)

_DECODERS: Final[dict[type[ScavengerJob], ModelDecoder[Any]]] = {
    kind: ModelDecoder(kind) for kind in (SizedJob, AdoptedJob)
}

STATUS_FIELDS: Final = tuple(
    field.serialization_alias or name for name, field in ScavengerJobStatus.model_fields.items()
)
"""Of a status. All of these are written each time, null where there is nothing to say, which removes."""
TRIES: Final = 3
"""How often a Job or a pod is sent where the answer is Conflict."""
OF_A_LIMIT_RANGE: Final = re.compile(r"maximum cpu usage per|cpu max limit to request ratio")
"""What its admission plugin says of a limit (plugin/pkg/admission/limitranger). A quota says something else."""
MAX_BOUNDED: Final = 1024
"""Jobs that are known to be bounded so; of one more, and of all before, one pod is refused again."""
PODS_AT_ONCE: Final = 16
"""Pods of one gang being created. The first is alone, and then twice as many each time: the rest of a gang is not sent
where its first pods are refused."""

T = TypeVar("T")

log = get_logger(__name__)


def merged(status: ScavengerJobStatus) -> dict[str, Any]:
    """What is written of a status by a merge patch, which keeps what is left out."""
    fields = status.to_dict()
    patch = {name: fields.get(name) for name in STATUS_FIELDS}
    if status.array is not None:
        patch["array"] = {"activeSince": None, "interruptions": None, **status.array.to_dict()}
    if status.preemption is not None:
        patch["preemption"] = {"runningPriority": None, **status.preemption.to_dict()}
    if status.recommended is not None:
        absent = {"cpu": None, "memory": None, "killedForMemory": None}
        patch["recommended"] = {**absent, **status.recommended.to_dict()}
    return patch


def resource_of(job: ScavengerJob) -> Resource[Any]:
    """The kind of a job in the API."""
    return ADOPTED_JOBS if isinstance(job, AdoptedJob) else SCAVENGERJOBS


class TaskAnswered(Protocol):
    """Called when the API server has answered about the pod of a task."""

    def __call__(self, index: int, pod: str, *, taken: bool, size: int) -> None:
        """index: of the task. pod: the name of its pod. taken: whether a pod of others has that name. size: of its own
        pod, bytes as JSON; 0 where the pod was there before."""


class _Told(Struct, frozen=True, gc=False, rename="camel"):
    """A ScavengerJob of which no more than this can be read."""

    metadata: ObjectMeta = ObjectMeta()
    status: dict[str, Any] = msgspec.field(default_factory=dict)


async def metadata_now(
    client: ApiClient, resource: Resource[Any], namespace: str | None, name: str
) -> ObjectMeta | None:
    """Metadata of an object as the API server has it now; None where there is none. Raises ApiError."""
    try:
        return msgspec.json.decode(await client.get(resource, namespace, name), type=Item).metadata
    except NotFound:
        return None


class NameTaken(ApiError):  # noqa: N818 - as AlreadyExists, which it is a case of
    """A Service that a gang cannot use has the name that the gang needs.

    Args:
        found: the Service.
        job: the job that needs its name.
    """

    def __init__(self, found: ObjectMeta, job: ScavengerJob) -> None:
        if not _is_of_the_name(found, job):
            said = (
                f"held back by Service {found.name}, which has the name that this job needs and does not belong to it: "
                "delete that Service, or create this job under another name"
            )
        elif found.finalizers:
            said = (
                f"held back by Service {found.name}, which is being deleted and which the finalizer "
                f"{', '.join(found.finalizers)} keeps: the owner of the finalizer must remove it from the Service"
            )
        else:
            said = f"held back by Service {found.name} of an earlier job, which is being deleted"
        super().__init__(HTTPStatus.CONFLICT, NAME_TAKEN, said)

    def __str__(self) -> str:
        return self.message


class KeyTaken(ApiError):  # noqa: N818 - as AlreadyExists, which it is a case of
    """There is a Secret of the name that the key of a job needs before the job has run."""

    def __init__(self, job: ScavengerJob) -> None:
        said = (
            f"held back by Secret {key_name(job)}, which has the name that the key of the snapshots of this job needs: "
            "that of an earlier job goes by itself; delete any other, or create this job under another name"
        )
        super().__init__(HTTPStatus.CONFLICT, NAME_TAKEN, said)

    def __str__(self) -> str:
        return self.message


class ReferenceAbsent(ApiError):  # noqa: N818 - as NotFound, which it is a case of
    """The API server does not have what the pods of a job need."""

    def __init__(self, absent: str) -> None:
        super().__init__(HTTPStatus.NOT_FOUND, ABSENT, absent)

    def __str__(self) -> str:
        return self.message


class Unmanaged(ApiError):  # noqa: N818 - as NameTaken
    """The API server has left a Job to the Job controller."""

    def __init__(self) -> None:
        said = "the API server drops spec.managedBy of Jobs: switch on its feature gate JobManagedBy"
        super().__init__(HTTPStatus.FORBIDDEN, UNMANAGED, said)

    def __str__(self) -> str:
        return self.message


def _is_usable(found: ObjectMeta, job: ScavengerJob) -> bool:
    """Whether the object belongs to this very ScavengerJob, and stays."""
    owned = any(owner.uid == job.metadata.uid for owner in found.owner_references)
    return owned and found.deletion_timestamp is None


def _is_of_the_name(found: ObjectMeta, job: ScavengerJob) -> bool:
    """Whether the object belongs to a ScavengerJob of this name, be it this one or one that is gone."""
    owner = found.controller
    return owner is not None and (owner.kind, owner.name) == (job.kind, job.metadata.name)


class Writer:
    """Writes for one job at a time; knows nothing of why.

    Args:
        client: to write with.
        events: for Events.
        max_grace_seconds: the administrator's bound of terminationGracePeriodSeconds.
        burstable: as in `job_manifest`.
        snapshot_image, allowed_annotations: as in `job_manifest`.
        references: looks for what jobs refer to.
        words: those of pods that have gone.
    """

    def __init__(
        self,
        client: ApiClient,
        events: EventRecorder,
        *,
        max_grace_seconds: int,
        burstable: bool = False,
        snapshot_image: str = "",
        allowed_annotations: Collection[str] = (),
        references: References | None = None,
        words: LastWordsSeen | None = None,
    ) -> None:
        self._client = client
        self._events = events
        self._max_grace_seconds = max_grace_seconds
        self._burstable = burstable
        self._bounded = set[tuple[str, str]]()
        self._snapshot_image = snapshot_image
        self._allowed_annotations = frozenset(allowed_annotations)
        self._references = references or References(client)
        self._words = words

    async def write_status(self, job: ScavengerJob, decided: Confirmed[Outcome]) -> ScavengerJob:
        """Commit a status decided on this very version of the job; returns the job as the API server has it then.

        A merge patch, which costs the API server less than a server-side apply (docs/designs/0007-under-pressure.md).
        No two objects ever have the same resourceVersion, so it cannot hit a later job of this name.

        Raises:
            Conflict: there is a newer version, or another job of this name.
            NotFound: it is gone.
            ApiError: the API server refuses.
        """
        meta = job.metadata
        said = decided.value.job_status
        whole = said if said is not None else merged(decided.value.status)
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": whole}
        resource = resource_of(job)
        body = await self._client.merge_patch(
            resource, meta.namespace, meta.name, patch, subresource="status", whole=True
        )
        found: ScavengerJob = _DECODERS[resource.type].next_version(body, job)
        return slim(found, job)

    async def tell_unreadable(self, key: str, error: str) -> None:
        """Say of a job that cannot be read what is wrong with it. Raises Conflict, NotFound, ApiError."""
        namespace, name, adopted = parse_key(key)
        resource = ADOPTED_JOBS if adopted else SCAVENGERJOBS
        found = msgspec.json.decode(await self._client.get(resource, namespace, name), type=_Told)
        message = plain(f"the admitter cannot read it, and leaves it alone: {error}")[:4096]
        if adopted:
            self._events.warning(ADOPTED_JOBS, found, "Unreadable", message[:1024])
            return
        if found.status.get("message") == message:
            return
        self._events.warning(SCAVENGERJOBS, found, "Unreadable", message)
        patch = {"metadata": {"resourceVersion": found.metadata.resource_version}, "status": {"message": message}}
        await self._client.merge_patch(SCAVENGERJOBS, namespace, name, patch, subresource="status")

    def record(self, job: ScavengerJob, notes: Iterable[EventNote]) -> None:
        """Say something in Events on the job."""
        for note in notes:
            if note.type == "Warning" or not job.spec.as_written:  # clients of Jobs read no others
                self._events.record(resource_of(job), job, note.type, note.reason, note.message)

    def warn_of_snapshots(self, job: ScavengerJob, warnings: str) -> None:
        """Say in an Event what `snap` warned of."""
        self._events.warning(resource_of(job), job, SNAPSHOT_WARNING, warnings[:1024])

    def warn_of_checkpoint(self, job: ScavengerJob, said: str) -> None:
        """Say in an Event that a program reports checkpoints in words that are no time.

        Args:
            job: of the program.
            said: its words, and where they stand.
        """
        what = f"{said}, which is no time that can be read: no checkpoint counts. Write it as date -u +%FT%TZ does"
        self._events.warning(resource_of(job), job, CHECKPOINT_UNREADABLE, what)

    async def create(
        self, job: ScavengerJob, confirmed: Confirmed[CreateJob], target: Target = ANYWHERE, *, again: bool = False
    ) -> dict[str, Any]:
        """Create the Job of a run, for these nodes. It has the name of the ScavengerJob, so the API server itself
        ensures that nothing is started twice, whichever process tries. That of a user is there, and the names of its
        pods ensure it. Returns the Job, as the API server has it.

        Args:
            job: the job.
            confirmed: that it starts.
            target: where its pods may go.
            again: the last start failed, after it may have stored the key of the snapshots.

        Raises:
            AlreadyExists: there is a Job of that name: of this run, of an earlier one, or another owner's.
            NameTaken: another owner's Service has the name that the gang needs.
            KeyTaken: a Secret has the name that the key of the snapshots needs.
            ReferenceAbsent: there is no such claim as its pods need, or another object that is looked for.
            Unmanaged: it is the Job controller's, and is to be deleted.
            ApiError: the API server refuses, or does not answer.
        """
        action = confirmed.value
        if not isinstance(job, AdoptedJob):
            return await self._create_job(job, action, target, again=again)
        found = await self._job_of_array(job, action, again=again)
        if run_of(AdoptedJob.model_validate(found)) != action.run:
            raise Conflict(HTTPStatus.CONFLICT, "Conflict", f"Job {job.metadata.name} has another place in the queue")
        if absent := await self.missing(job):
            raise ReferenceAbsent(absent)
        return found

    async def _create_job(self, job: ScavengerJob, action: CreateJob, target: Target, *, again: bool) -> dict[str, Any]:
        """Create the Job of a run, or of an array, and before it what its pods need."""
        job = await self._whole(job)
        if absent := await self.missing(job):
            raise ReferenceAbsent(absent)
        await self._see_to_service(job, action)
        await self._see_to_key(job, again=again)
        body = self._manifest(job, action, target)
        return _kept(msgspec.json.decode(await self._create(JOBS, job.metadata.namespace, body)))

    def _manifest(self, job: ScavengerJob, action: CreateJob, target: Target) -> dict[str, Any]:
        """The Job. Raises ApiError, as the API server would, where a field of the template has another type than in
        core/v1: the schema of ScavengerJobs leaves those to their users."""
        try:
            return job_manifest(
                job,
                restarts=action.restarts,
                run=action.run,
                max_grace_seconds=self._max_grace_seconds,
                level=action.level,
                token=action.token,
                user=action.user,
                target=target,
                plain_names=action.plain_names,
                burstable=self._burstable,
                snapshot_image=self._snapshot_image,
                allowed_annotations=self._allowed_annotations,
            )
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            if job.spec.template is None:
                raise
            said = f"spec.template is no pod template of core/v1: {error}"
            raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", said) from error

    async def pod_as_created(self, job: ScavengerJob, action: CreateJob) -> Pod:
        """The first pod of a run, or of an array, as the API server would have it, by a dry run: admission changes it,
        and nothing is stored. The Job that owns it does not exist yet, and the API server does not look for it. Raises
        ApiError."""
        pods = []
        if isinstance(job, AdoptedJob):
            batch = await self._job_of_array(job, action, again=False)
            pods = self._pods_of_gang(job, batch, action.run, {}) if job.gang else []
        else:
            batch = self._manifest(await self._whole(job), action, ANYWHERE)
            batch["metadata"]["uid"] = job.metadata.uid
            pods = pods_of_job(batch)  # the Job of an array is for none
        pod = pods[0] if pods else self._pods_of_tasks(job, batch, StartTasks(action, ()), ANYWHERE)(0)
        return msgspec.json.decode(await self._post_pod(job.metadata.namespace, pod, dry_run=True), type=Pod)

    def look(self, job: ScavengerJob) -> Look:
        """What a job that waits is to ask for now."""
        return self._references.look(job)

    async def missing(self, job: ScavengerJob, look: Look | None = None) -> str:
        """What the pods of a job need and the API server does not have; look: as in `References`."""
        return await self._references.missing(job.metadata.namespace, job.spec, look)

    async def pods_of_run(
        self, job: ScavengerJob, batch: dict[str, Any], run: str, target: Target | None, member: str
    ) -> list[dict[str, Any]]:
        """All pods of a job.

        Args:
            job: it.
            batch: its Job, as the API server has it. One of the admitter's own says where the pods may go.
            run: the place in the queue.
            target: where they may go; None where another process knows: then the others go where one may that is there.
            member: the name of that one; empty where there is none.

        Raises:
            ApiError: the API server does not answer.
        """
        if not isinstance(job, AdoptedJob):
            return pods_of_job(batch)
        if target is not None or not member:
            affinity = task_affinity(batch["spec"]["template"], target or ANYWHERE)
        else:
            found = msgspec.json.decode(await self._client.get(PODS, job.metadata.namespace, member))
            affinity = found["spec"].get("affinity") or {}
        return self._pods_of_gang(job, batch, run, affinity)

    def _pods_of_gang(
        self, job: AdoptedJob, batch: dict[str, Any], run: str, affinity: dict[str, Any]
    ) -> list[dict[str, Any]]:
        made = partial(
            adopted_pod,
            batch,
            run=run,
            queue=job.spec.queue,
            affinity=affinity,
            grace_seconds=min(job.spec.grace_seconds, self._max_grace_seconds),
            gang=True,
        )
        return [self._burst(job, made(index)) for index in range(job.spec.parallelism)]

    async def create_pods(
        self,
        pods: Sequence[dict[str, Any]],
        confirmed: Confirmed[CreateJob | CreatePods],
        made: set[str],
        answered: Callable[[], None],
    ) -> None:
        """Create all pods of a Job that are not there.

        Args:
            pods: of `pods_of_run`.
            confirmed: that they are to be created.
            made: names of those that the API server has; what it answers to have is added, and none of them is sent.
            answered: called whenever some are there.

        Raises:
            ApiError: the API server refuses one, or does not answer; those after it are not created.
        """
        for sent in _waves([pod for pod in pods if pod["metadata"]["name"] not in made]):
            await _all(self._create_pod(pod, made) for pod in sent)
            answered()

    async def _create_pod(self, pod: dict[str, Any], made: set[str]) -> None:
        with contextlib.suppress(AlreadyExists):  # another process, or an answer that was lost
            await self._post_pod(pod["metadata"]["namespace"], pod, whole=False)
        made.add(pod["metadata"]["name"])

    async def _post_pod(
        self, namespace: str, pod: dict[str, Any], *, dry_run: bool = False, whole: bool = True
    ) -> bytes:
        """Create a pod, with a CPU limit that equals its request where a LimitRange of the namespace wants that. Other
        pods of its job are sent that way at once."""
        equal = with_equal_limits(pod) if self._burstable else None
        job = (namespace, pod["metadata"]["labels"][LABEL_JOB])
        if equal is None or job in self._bounded:
            return await self._create(PODS, namespace, equal or pod, dry_run=dry_run, whole=whole)
        try:
            return await self._create(PODS, namespace, pod, dry_run=dry_run, whole=whole)
        except Forbidden as error:
            if not OF_A_LIMIT_RANGE.search(str(error)):
                raise
            created = await self._create(PODS, namespace, equal, dry_run=dry_run, whole=whole)
        if len(self._bounded) >= MAX_BOUNDED:
            self._bounded.clear()
        self._bounded.add(job)
        return created

    async def _create(
        self,
        resource: Resource[Any],
        namespace: str,
        body: dict[str, Any],
        *,
        dry_run: bool = False,
        whole: bool = True,
    ) -> bytes:
        for _ in range(TRIES - 1):
            # Others used up a quota of the namespace at the same moment, and it is counted again.
            with contextlib.suppress(Conflict):
                return await self._client.create(resource, namespace, body, dry_run=dry_run, whole=whole)
        return await self._client.create(resource, namespace, body, dry_run=dry_run, whole=whole)

    async def start_tasks(
        self,
        job: ScavengerJob,
        confirmed: Confirmed[StartTasks],
        target: Target,
        answered: TaskAnswered,
        *,
        again: bool = False,
    ) -> None:
        """Create the pods of tasks, and before them the Job of their array where there is none.

        Args:
            job: the array.
            confirmed: which tasks start.
            target: where their pods may go.
            answered: called for each task when its pod is there, or a pod of others that has its name.
            again: the last start failed, so what the tasks refer to may have gone since the Job was created.

        Raises:
            Conflict: the Job of that name is not of the array, or is being deleted.
            ReferenceAbsent: there is no such object as the tasks refer to.
            ApiError: as `create` and `create_pods`; or the Job cannot have tasks.
        """
        action = confirmed.value
        batch = await self._job_of_array(job, action.job, again=again)
        if again and (absent := await self.missing(job)):
            raise ReferenceAbsent(absent)
        made = self._pods_of_tasks(job, batch, action, target)
        for indexes in _waves(action.indexes):
            await _all(self._create_task(batch, index, made(index), answered) for index in indexes)

    def _pods_of_tasks(
        self, job: ScavengerJob, batch: dict[str, Any], action: StartTasks, target: Target
    ) -> Callable[[int], dict[str, Any]]:
        """How the pod of each task is made."""
        affinity, status = task_affinity(batch["spec"]["template"], target), job.status.array
        interrupted = parse_indexes(status.interrupted_indexes) if status is not None else 0
        restarts = parse_counts(status.interruptions or "") if status is not None else {}
        numbers, queue = job.spec.task_numbers, job.spec.queue
        failures = _failures_before(job)

        def of_user(index: int) -> dict[str, Any]:
            return self._burst(
                job,
                adopted_pod(
                    batch,
                    index,
                    run=action.job.run,
                    queue=queue,
                    affinity=affinity,
                    grace_seconds=min(job.spec.grace_seconds, self._max_grace_seconds),
                    interrupted=bool(interrupted >> index & 1),
                    failures=failures.get(index, 0) if failures is not None else None,
                    grant=action.grant,
                ),
            )

        def of_template(index: int) -> dict[str, Any]:
            return pod_of_task(
                batch,
                index,
                queue=queue,
                affinity=affinity,
                interrupted=bool(interrupted >> index & 1),
                restarts=restarts.get(index, 0),
                grant=action.grant,
                number=numbers[index] if numbers is not None else None,
            )

        return of_user if job.spec.as_written else of_template

    def _burst(self, job: ScavengerJob, pod: dict[str, Any]) -> dict[str, Any]:
        return {**pod, "spec": of_qos_class(pod["spec"], job.spec.requests, self._burstable)}

    async def _job_of_array(self, job: ScavengerJob, action: CreateJob, *, again: bool) -> dict[str, Any]:
        if isinstance(job, AdoptedJob):
            found = await self.batch_job(job.metadata.namespace, job.metadata.name)
            if found["metadata"]["uid"] != job.metadata.uid or found["metadata"].get("deletionTimestamp"):
                raise Conflict(HTTPStatus.CONFLICT, "Conflict", f"Job {job.metadata.name} is not this one")
            return found
        try:
            found = await self.batch_job(job.metadata.namespace, job.metadata.name)
        except NotFound:
            found = await self._create_job(job, action, ANYWHERE, again=again)
        else:
            if again:  # a client may have deleted it
                await self._see_to_key(job, again=True)
        owners = [owner["uid"] for owner in found["metadata"].get("ownerReferences", ())]
        if job.metadata.uid not in owners or found["metadata"].get("deletionTimestamp"):
            raise Conflict(HTTPStatus.CONFLICT, "Conflict", f"Job {job.metadata.name} is not of this array")
        return _kept(found)

    async def _create_task(
        self, batch: dict[str, Any], index: int, pod: dict[str, Any], answered: TaskAnswered
    ) -> None:
        meta, name, taken, size = batch["metadata"], pod["metadata"]["name"], False, 0
        for _ in range(TRIES):
            try:
                size = len(await self._post_pod(meta["namespace"], pod))
            except AlreadyExists:  # an answer that was lost, a former leader, or another owner's
                found = await metadata_now(self._client, PODS, meta["namespace"], name)
                if found is None:  # it has gone meanwhile
                    continue
                taken = found.controller is None or found.controller.uid != meta["uid"]
            break
        answered(index, name, taken=taken, size=size)

    async def batch_job(self, namespace: str, name: str) -> dict[str, Any]:
        """The Job of that name, as the API server has it. Raises NotFound, ApiError."""
        found: dict[str, Any] = msgspec.json.decode(await self._client.get(JOBS, namespace, name))
        return found

    async def pod_bytes(self, namespace: str, name: str) -> int:
        """How large a pod is as JSON; 0 where there is none. Raises ApiError."""
        try:
            return len(await self._client.get(PODS, namespace, name))
        except NotFound:
            return 0

    async def _whole(self, job: ScavengerJob) -> ScavengerJob:
        """The job with all of its spec, of which a part may be kept. Raises Conflict where it is another one by now, or
        in another queue than the one whose capacity it was granted."""
        if size_of(job) is None:
            return job
        resource = resource_of(job)
        body = await self._client.get(resource, job.metadata.namespace, job.metadata.name)
        found: ScavengerJob = sized(resource.type.model_validate_json(body))
        if (found.metadata.uid, found.spec.queue) != (job.metadata.uid, job.spec.queue):
            raise Conflict(HTTPStatus.CONFLICT, "Conflict", f"ScavengerJob {job.metadata.name} is not this one")
        return found

    async def _see_to_service(self, job: ScavengerJob, action: CreateJob) -> None:
        """The headless Service of a gang is there before its pods are. It stays as long as the ScavengerJob does,
        unless a client deletes it: a restart looks before it writes. That of a ScavengerJob that is gone is replaced,
        as the garbage collector would take it from under the gang. Raises NameTaken."""
        body, namespace = service_manifest(job), job.metadata.namespace
        if body is None:
            return
        if not action.restarts:
            with contextlib.suppress(AlreadyExists):
                await self._client.create(SERVICES, namespace, body)
                return
        found = await metadata_now(self._client, SERVICES, namespace, body["metadata"]["name"])
        if found is not None:
            if _is_usable(found, job):
                return
            if not _is_of_the_name(found, job):
                raise NameTaken(found, job)
            current = await metadata_now(self._client, SCAVENGERJOBS, namespace, job.metadata.name)
            if current is None or current.uid != job.metadata.uid:  # it may be ours that is gone
                raise Conflict(HTTPStatus.CONFLICT, "Conflict", f"ScavengerJob {job.metadata.name} is not this one")
            await self._client.delete(SERVICES, namespace, found.name, uid=found.uid)
        try:
            await self._client.create(SERVICES, namespace, body)
        except AlreadyExists:
            there = await metadata_now(self._client, SERVICES, namespace, body["metadata"]["name"])
            if there is not None and not _is_usable(there, job):
                raise NameTaken(there, job) from None

    async def _see_to_key(self, job: ScavengerJob, *, again: bool) -> None:
        """The Secret with the key of the snapshots is there before a pod mounts it, and stays as long as the
        ScavengerJob does. One that is there may be of this job, as an answer may have been lost: the pod finds out. Of
        a job that has not tried to start it cannot be, so the first start waits until that of an earlier job of this
        name has gone. Raises KeyTaken, ApiError."""
        if job.spec.snapshot is None:
            return
        body = key_manifest(job, secrets.token_bytes(KEY_BYTES))
        try:
            await self._create(SECRETS, job.metadata.namespace, body)
        except AlreadyExists:
            if not again and not job.status.running_timestamps:
                raise KeyTaken(job) from None

    async def carry_out(self, key: str, actions: Confirmed[tuple[Cleanup, ...]] | tuple[OfPod, ...]) -> None:
        """Carry out what follows from a committed status. All of it is attempted; the first failure is raised after,
        and the reconcile that comes then repeats what is still to be done."""
        await _all(
            self._action(key, action) for action in (actions.value if isinstance(actions, Confirmed) else actions)
        )

    async def _release(self, namespace: str, pod: str, uid: str) -> None:
        """A pod is counted: take our finalizer off, and take out its last words. Raises ApiError."""
        await release(self._client, namespace, pod, uid)
        if self._words is not None:
            await self._words.forget(uid)

    def _action(self, key: str, action: Cleanup) -> Awaitable[Any]:
        namespace, name, _ = parse_key(key)
        match action:
            case DeleteJob(uid=uid, reason=reason):
                log.info("deleting the Job", job=key, reason=reason)
                return self._client.delete(JOBS, namespace, name, uid=uid)
            case EndJob():
                patch = _end_of_job(action)
                return self._client.merge_patch(JOBS, namespace, name, patch, subresource="status")
            case DeletePod(name=pod, uid=uid):
                return self._client.delete(PODS, namespace, pod, uid=uid)
            case UnlabelPod(name=pod, uid=uid):
                patch = {"metadata": {"uid": uid, "labels": dict.fromkeys(JOB_LABELS)}}
                return self._client.merge_patch(PODS, namespace, pod, patch)
            case DisownPod(name=pod, uid=uid, version=version, labels=labels, finalizers=finalizers):
                meta = {"uid": uid, "resourceVersion": version, "labels": dict.fromkeys(labels)}
                patch = {"metadata": {**meta, "finalizers": list(finalizers)}}
                return self._client.merge_patch(PODS, namespace, pod, patch)
            case ReleasePod(name=pod, uid=uid):
                return self._release(namespace, pod, uid)
            case DeleteScavengerJob(uid=uid):
                log.info("deleting the ScavengerJob: its time after the end is over", job=key)
                return self._client.delete(SCAVENGERJOBS, namespace, name, uid=uid)


def _waves(things: Sequence[T]) -> Iterator[Sequence[T]]:
    """One thing, and then twice as many each time, up to `PODS_AT_ONCE`."""
    sent, size = 0, 1
    while sent < len(things):
        yield things[sent : sent + size]
        sent, size = sent + size, min(PODS_AT_ONCE, 2 * size)


def _failures_before(job: ScavengerJob) -> dict[int, int] | None:
    """How often tasks failed before, where their pods say so."""
    array, status = job.spec.array, job.status.array
    if array is None or not array.rests_by_task:
        return None
    return parse_counts(status.retries_used) if status is not None else {}


async def _all(work: Iterable[Awaitable[Any]]) -> None:
    """Wait for all of it, and raise the first failure after; what a newer version explains comes last."""
    results = await asyncio.gather(*work, return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    try:
        if failures:
            raise min(failures, key=lambda failure: isinstance(failure, NotFound | Conflict))
    finally:
        del results, failures  # they know this frame, which would keep them until all objects are looked through


def _kept(batch: dict[str, Any]) -> dict[str, Any]:
    """A Job of which the API server has kept the field managedBy. Raises Unmanaged."""
    if batch["spec"].get("managedBy") != MANAGED_BY:
        raise Unmanaged
    return batch


def _end_of_job(action: EndJob) -> dict[str, Any]:
    """A merge patch of the status of a Job, in one write all that the validation of batch/v1 wants of it."""
    since = format_time(action.at)
    common = {"status": "True", "reason": action.reason, "message": action.message}
    common |= {"lastProbeTime": since, "lastTransitionTime": since}
    status: dict[str, Any] = {
        "conditions": [{"type": kind, **common} for kind in action.conditions],
        "startTime": format_time(action.started),
    }
    if action.finished is not None:
        status["completionTime"] = format_time(action.finished)
    if action.succeeded or action.failed:
        status |= {"succeeded": action.succeeded, "failed": action.failed}
    if action.completed_indexes:
        status["completedIndexes"] = action.completed_indexes
    return {"metadata": {"uid": action.uid}, "status": status}
