"""A Job of batch/v1 as the job that the lifecycle and admission know: its completions are the tasks of an array.

What a Job says in its own words is read here and nowhere else. The result is a `ScavengerJob` in every respect but its
key, so order, quota, shares, capacity and verdicts are those of any array (docs/designs/0032-adopted-jobs.md).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Final, Self

import msgspec
from pydantic import Field, model_validator
from scavenger_api import names
from scavenger_api.array import ArraySpec
from scavenger_api.indexes import MAX_TASKS, IndexesError, all_of, parse_indexes
from scavenger_api.job import Phase, ScavengerJob, ScavengerJobSpec, ScavengerJobStatus
from scavenger_api.job_keys import job_key
from scavenger_api.pod_names import number_of
from scavenger_api.promises import promised_exit_code, promised_interval
from scavenger_api.task_numbers import TaskNumbers
from scavenger_api.times import format_micro_time, parse_time
from scavenger_kube import kinds

from scavenger_admitter.core.adopted.ledger import (
    MAX_COUNTED,
    VERSION,
    Ledger,
    active_since,
    fields_of,
    read_ledger,
)
from scavenger_admitter.core.lifecycle import conditions
from scavenger_admitter.core.lifecycle.books.tasks import Tasks

BACKOFF_LIMIT: Final = 6
"""Of a Job that names none (pkg/apis/batch/v1/defaults.go)."""
INDEXED: Final = "Indexed"


class JobTasks(ArraySpec):
    """The completions of a Job.

    Attributes:
        indexed: users know the indexes of its tasks.
        work_queue: nobody says how many completions there are: its pods know when all work is done.
        in_place: after so many starts of programs in the same pods the Job has failed; None where failed pods count.
    """

    shares_retries: ClassVar[bool] = True
    counted_at_once: ClassVar[int] = MAX_COUNTED

    written_tasks: Annotated[int | None, Field(alias="tasks", ge=0, le=MAX_TASKS)] = None
    max_running: Annotated[int | None, Field(ge=0)] = None
    indexed: bool = False
    work_queue: bool = False
    in_place: int | None = None

    @property
    def restart_limit(self) -> int | None:
        """After so many starts in the same pods it has failed."""
        return self.in_place

    @property
    def numbers(self) -> TaskNumbers:
        """What users call the tasks."""
        return TaskNumbers([range(self.written_tasks or 0)])

    @property
    def at_once(self) -> int:
        """So many tasks may run at a time; 0 where the Job has parallelism 0."""
        return self.tasks if self.max_running is None else min(self.max_running, self.tasks)


class JobSpec(ScavengerJobSpec):
    """What a Job says, in the words of a ScavengerJob."""

    as_written: ClassVar[bool] = True

    array: JobTasks

    def of_run(self, annotations: Mapping[str, str]) -> Self:
        """The spec with the promises of a run, which stand on its pod. The Job may promise something else by now.

        Args:
            annotations: of a pod of the run.
        """
        after, code = promised_interval(annotations), promised_exit_code(annotations)
        if after is None or (after, code) == (self.interruption_after, self.checkpoint_exit_code):
            return self
        then = self.model_copy(update={"interruption_after": after, "checkpoint_exit_code": code})
        then.__dict__.pop("checkpoint_interval", None)  # was worked out from the other promise
        return then


class AdoptedJob(ScavengerJob):
    """A Job of batch/v1 whose pods the admitter creates.

    Attributes:
        batch: the Job, as other parts of the lifecycle read one.
        written: its status, as the API server has it.
        asked: when an admitter first saw that it is to be released; None where it is not, or nobody has seen it.
        late: seconds after its creation in which nobody looked at it, as its ledger has them.
    """

    api_version: str = "batch/v1"
    kind: str = names.KIND_JOB
    spec: JobSpec
    batch: Any = None
    written: dict[str, Any] = Field(default_factory=dict)
    asked: datetime | None = None
    late: int = 0

    @model_validator(mode="before")
    @classmethod
    def _of_batch(cls, given: Any) -> Any:
        """Read a Job. Raises LedgerError where its ledger is of another version."""
        return work_of_job(given)

    @property
    def key(self) -> str:
        """As its pods name it (`scavenger_api.job_keys`)."""
        return job_key(self.metadata.namespace, self.metadata.name, names.KIND_JOB)

    @property
    def adopted(self) -> bool:
        """Whether it is the admitter's. Any Job may have the label of a queue."""
        return bool(self.batch.spec.managed_by == names.MANAGED_BY_ADOPTER)

    @property
    def released(self) -> bool:
        """Whether it is to become a regular Job: nothing of it starts any more."""
        return bool(self.batch.metadata.annotations.get(names.ANNOTATION_RELEASE) == names.RELEASE_REQUESTED)


def work_of_job(batch: Mapping[str, Any]) -> dict[str, Any]:
    """A Job as the fields of an `AdoptedJob`.

    Args:
        batch: the Job, as the API server has it.

    Raises:
        LedgerError: its ledger is of another version.
    """
    meta, spec = batch["metadata"], batch.get("spec") or {}
    written = batch.get("status") or {}
    ledger = _ledger_of(written)
    tasks = _tasks_of(spec, ledger.width)
    return {
        "metadata": meta,
        "spec": {
            "queue": (meta.get("labels") or {}).get(names.LABEL_QUEUE, names.DEFAULT_QUEUE),
            "template": {"metadata": spec["template"].get("metadata"), "spec": spec["template"]["spec"]},
            "array": tasks,
            "backoffLimit": spec.get("backoffLimit", BACKOFF_LIMIT),
            "podFailurePolicy": spec.get("podFailurePolicy"),
            "activeDeadlineSeconds": spec.get("activeDeadlineSeconds"),
            "suspend": bool(spec.get("suspend")),
            **_promises(meta.get("annotations") or {}),
        },
        "status": status_of_job(meta, written, tasks),
        "batch": msgspec.convert(batch, kinds.Job, strict=False),
        "written": written,
        "asked": ledger.asked or None,
        "late": ledger.late,
    }


def _ledger_of(written: Mapping[str, Any]) -> Ledger:
    """The ledger of a status. Raises LedgerError for one of another version."""
    noted = next((one for one in written.get("conditions") or () if one["type"] == names.CONDITION_LEDGER), None)
    return read_ledger(noted["message"]) if noted is not None else Ledger(VERSION)


def _tasks_of(spec: Mapping[str, Any], width: int) -> JobTasks:
    """The completions of a Job. One that says how many pods it wants and not how many completions is a work queue, with
    as many workers as pods, and with one that waits where it wants none for now. After its first success, it is left
    as it is (manageJob in pkg/controller/job/job_controller.go).

    Args:
        spec: of the Job.
        width: workers of a work queue when one had succeeded first; 0 before that.
    """
    completions, workers = spec.get("completions"), spec.get("parallelism", 1)
    if completions is None and width:
        workers = width
    policy = spec["template"]["spec"].get("restartPolicy")
    return JobTasks(
        written_tasks=min(MAX_TASKS, max(1, workers) if completions is None else completions),
        max_running=workers,
        fail_fast=True,
        indexed=spec.get("completionMode") == INDEXED,
        work_queue=completions is None,
        in_place=max(1, spec.get("backoffLimit", BACKOFF_LIMIT)) if policy == "OnFailure" else None,
    )


def _promises(annotations: Mapping[str, str]) -> dict[str, Any]:
    """What the annotations of a Job promise. One that cannot be read says nothing: the webhook refuses it."""
    found: dict[str, Any] = {}
    after = promised_interval(annotations)
    if after is not None:
        found["interruptionAfter"] = after
    code = promised_exit_code(annotations)
    if code is not None:
        found["checkpointExitCode"] = code
    return found


def queued_at(meta: Mapping[str, Any]) -> datetime | None:
    """The place of a Job in the queue: when it was created, which is known to the second. Within a second the UID
    decides, so that every process finds the same place and nobody has to write it."""
    created = parse_time(meta.get("creationTimestamp"))
    if created is None:
        return None
    return created + timedelta(microseconds=number_of(meta.get("uid", "")) % 1_000_000)


def status_of_job(meta: Mapping[str, Any], written: Mapping[str, Any], array: JobTasks) -> dict[str, Any]:
    """The status of a Job as the fields of a `ScavengerJobStatus`.

    Args:
        meta: metadata of the Job.
        written: its status.
        array: its tasks.

    Raises:
        LedgerError: its ledger is of another version.
    """
    queued = queued_at(meta)
    place = {"queuedTimestamp": format_micro_time(queued) if queued is not None else None, "jobName": meta["name"]}
    stated = {one["type"]: one for one in written.get("conditions") or ()}
    noted = stated.get(names.CONDITION_LEDGER)
    ledger = _ledger_of(written)
    phase, end = _phase(stated, noted)
    if phase is None:
        return place
    status, tasks = ScavengerJobStatus.model_validate({**fields_of(ledger, phase), **place}), array.tasks
    found = Tasks(
        tasks,
        completed=all_of(tasks) if phase is Phase.COMPLETED else _completed(written, array, ledger),
        failed=_indexes(ledger.failed) & all_of(tasks),
        interrupted=_indexes(ledger.indexes) & all_of(tasks),
        counted=frozenset(ledger.counted.split(",")) if ledger.counted else frozenset(),
        active_since=active_since(ledger),
    )
    since = parse_time((end or noted or {}).get("lastTransitionTime")) or queued
    retries = max(0, (written.get("failed") or 0) - found.failed.bit_count())
    changes: dict[str, Any] = {
        "array": found.status(0),
        "retries": retries or None,
    }
    if since is not None:
        wanted = conditions.states(
            phase, ledger.why or "Queued", status.message, interrupted=ledger.cause or None, stalled=None
        )
        changes["conditions"] = conditions.written((), wanted, generation=meta.get("generation") or 0, now=since)
    if end is not None:
        changes["finished_timestamp"] = parse_time(written.get("completionTime")) or since
        changes["message"] = ledger.say or end.get("message")
    return status.model_copy(update=changes).to_dict()


def _phase(
    stated: Mapping[str, Mapping[str, Any]], noted: Mapping[str, Any] | None
) -> tuple[Phase | None, Mapping[str, Any] | None]:
    """The phase, and the condition that says that the Job is over, or about to be."""
    for kind, phase in (("Complete", Phase.COMPLETED), ("SuccessCriteriaMet", Phase.COMPLETED)):
        if stated.get(kind, {}).get("status") == "True":
            return phase, stated[kind]
    for kind in ("Failed", "FailureTarget"):
        if stated.get(kind, {}).get("status") == "True":
            return Phase.FAILED, stated[kind]
    if noted is None:
        return None, None
    if noted["reason"] == names.LEDGER_RELEASING and stated.get("Suspended", {}).get("status") == "True":
        return Phase.SUSPENDED, None
    return next((one for one in Phase if one.value == noted["reason"] and not one.finished), Phase.WAITING), None


def _completed(written: Mapping[str, Any], array: JobTasks, ledger: Ledger) -> int:
    """The tasks that completed: a set. Where clients see no indexes, those of tasks mean nothing beyond their pods, and
    the lowest count as done."""
    if array.indexed:
        return _indexes(written.get("completedIndexes") or "") & all_of(array.tasks)
    if array.work_queue:
        return _indexes(ledger.done) & all_of(array.tasks)
    return all_of(min(array.tasks, written.get("succeeded") or 0))


def _indexes(text: str) -> int:
    with contextlib.suppress(IndexesError):
        return parse_indexes(text)
    return 0
