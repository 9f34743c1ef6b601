"""A Job of batch/v1 as the job that the lifecycle and admission know: its completions are the tasks of an array, or the
pods of a gang.

`scavenger_domain.adopted` reads what a Job says in its own words. The result is a `ScavengerJob` in every respect but
its key, so order, quota, shares, capacity and verdicts are those of any array or gang
(docs/designs/0032-adopted-jobs.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import msgspec
from pydantic import Field, model_validator
from scavenger_api import names
from scavenger_api.array import ArraySpec
from scavenger_api.indexes import MAX_TASKS
from scavenger_api.job import ScavengerJob, ScavengerJobSpec
from scavenger_api.job_keys import job_key
from scavenger_api.model import Model
from scavenger_api.promises import promised_exit_code, promised_interval
from scavenger_api.task_numbers import TaskNumbers
from scavenger_domain.adopted import Completions, read_job, set_in
from scavenger_kube import kinds

from scavenger_admitter.core.adopted.ledger import MAX_COUNTED


class SuccessRule(Model):
    """When a Job has succeeded though not all of its indexes completed (matchSuccessPolicy in
    pkg/controller/job/success_policy.go).

    Attributes:
        succeeded_indexes: which count; all where it names none.
        succeeded_count: how many of them are enough; all of those that it names where it says none.
    """

    succeeded_indexes: str | None = None
    succeeded_count: int | None = None

    def met(self, completed: int) -> bool:
        """Whether it holds. completed: a set of indexes."""
        if self.succeeded_indexes is None:
            return self.succeeded_count is not None and completed.bit_count() >= self.succeeded_count
        enough = self._named.bit_count() if self.succeeded_count is None else self.succeeded_count
        return self._named != 0 and (self._named & completed).bit_count() >= enough

    @cached_property
    def _named(self) -> int:
        return set_in(self.succeeded_indexes or "")


class JobTasks(ArraySpec):
    """The completions of a Job.

    Attributes:
        indexed: users know the indexes of its tasks.
        work_queue: the number of completions is not given: its pods know when all work is done.
        in_place: after so many starts of programs in the same pods the Job has failed; None where failed pods count.
        most_failures: with more failed pods the Job has failed, where each index has retries of its own; else None.
        most_failed: with more failed indexes the Job has failed; None where any number may.
        success_rules: by which it succeeds before all indexes have.
        unwritten: indexes of which only their pods know how often they failed: a set.
    """

    counted_at_once: ClassVar[int] = MAX_COUNTED

    written_tasks: Annotated[int | None, Field(alias="tasks", ge=0, le=MAX_TASKS)] = None
    max_running: Annotated[int | None, Field(ge=0)] = None
    indexed: bool = False
    work_queue: bool = False
    in_place: int | None = None
    most_failures: int | None = None
    most_failed: int | None = None
    success_rules: tuple[SuccessRule, ...] = ()
    unwritten: int = 0

    @property
    def own_retries(self) -> bool:
        """Each index has retries of its own."""
        return self.most_failures is not None

    @property
    def shares_retries(self) -> bool:
        """Unless each index has its own."""
        return not self.own_retries

    @property
    def rests_by_task(self) -> bool:
        """Where each index has retries of its own."""
        return self.own_retries

    @property
    def told_by_pods(self) -> int:
        """Those whose retries had no space in the ledger."""
        return self.unwritten

    @property
    def failure_limit(self) -> int | None:
        """backoffLimit, beside one of each index."""
        return self.most_failures

    @property
    def failed_limit(self) -> int | None:
        """maxFailedIndexes."""
        return self.most_failed

    def rule_met(self, completed: int, /) -> int | None:
        """The first rule of successPolicy that is met. No rule is before the first success."""
        met = (number for number, rule in enumerate(self.success_rules) if rule.met(completed))
        return next(met, None) if completed else None

    @property
    def restart_limit(self) -> int | None:
        """After so many starts in the same pods it has failed."""
        return self.in_place

    @property
    def starts_after_success(self) -> bool:
        """A work queue knows then that all its work is done, or in hand."""
        return not self.work_queue

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

    array: JobTasks | None = None

    @property
    def tasks(self) -> JobTasks:
        """The completions of a Job whose pods stand for themselves."""
        assert self.array is not None, "a gang has no tasks"
        return self.array

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
        asked: when an admitter first saw that it is to be released; None where it is not, or no admitter has seen it.
        late: seconds after its creation in which no admitter looked at it, as its ledger has them.
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
    def gang(self) -> bool:
        """Whether all its pods start, and are interrupted, together."""
        return self.spec.array is None

    @property
    def at_once(self) -> int:
        """So many of its pods may run at a time."""
        return self.spec.parallelism if self.gang else self.spec.tasks.at_once

    @property
    def ready(self) -> int:
        """So many of its pods are ready, as its status says."""
        return self.written.get("ready") or 0

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
    read = read_job(batch)
    return {
        "metadata": batch["metadata"],
        "spec": read.spec | ({"array": _tasks(read.tasks)} if read.tasks is not None else {}),
        "status": read.status,
        "batch": msgspec.convert(batch, kinds.Job, strict=False),
        "written": batch.get("status") or {},
        "asked": read.ledger.asked or None,
        "late": read.ledger.late,
    }


def _tasks(found: Completions) -> dict[str, Any]:
    return found.array | {
        "indexed": found.indexed,
        "workQueue": found.work_queue,
        "inPlace": found.in_place,
        "mostFailures": found.most_failures,
        "mostFailed": found.most_failed,
        "successRules": found.success_rules,
    }
