"""Arrays: many independent tasks of one program as one ScavengerJob (docs/designs/0023-arrays.md)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, ConfigDict, Field

from scavenger_api.indexes import (
    MAX_COUNT,
    MAX_COUNTS_LENGTH,
    MAX_SET_LENGTH,
    MAX_TASKS,
    parse_counts,
    parse_indexes,
)
from scavenger_api.model import Model, Timestamp, cel, validations
from scavenger_api.task_numbers import MAX_TEXT, NUMBERS_PATTERN, TaskNumbers, numbers_of

MAX_COUNTED: Final = 500
"""Pods that one write of the status counts."""

_COUNT: Final = {"json_schema_extra": {"format": "int32"}}


def _indexes(text: str) -> str:
    parse_indexes(text)
    return text


def _counts(text: str) -> str:
    parse_counts(text)
    return text


Indexes = Annotated[str, AfterValidator(_indexes), Field(max_length=MAX_SET_LENGTH)]
Counts = Annotated[str, AfterValidator(_counts), Field(max_length=MAX_COUNTS_LENGTH)]
Tasks = Annotated[int, Field(ge=0, le=MAX_TASKS, **_COUNT)]


class ArraySpec(Model):
    """How many tasks, and how many of them at a time."""

    counted_at_once: ClassVar[int] = MAX_COUNTED
    """Pods that one write of the status counts."""

    written_tasks: Annotated[int | None, Field(alias="tasks", ge=1, le=MAX_TASKS, **_COUNT)] = None
    """Tasks of the array. Each has an index, from 0 on, as SCAVENGER_TASK."""
    indexes: Annotated[str | None, Field(min_length=1, max_length=MAX_TEXT, pattern=NUMBERS_PATTERN)] = None
    """In place of tasks: the indexes that the tasks have as SCAVENGER_TASK, as Slurm writes them: 1-1000, 0-99:3 or
    1,5,9-12. They ascend,
    are at most 100000, and none is above 4000000. Pods, hosts and the sets of the status count the tasks from 0 on."""
    max_running: Annotated[int | None, Field(ge=1, le=MAX_TASKS, **_COUNT)] = None
    """At most so many tasks run at a time; by default as many as there is capacity for. May change at any time. A
    smaller number stops the tasks with the least unsaved work."""
    fail_fast: bool = False
    """The first task that fails makes the array Failed, and the others are stopped. By default they go on."""
    retry: Annotated[int, Field(ge=0, le=2**31 - 1, **_COUNT)] = 0
    """A larger number than before lets all tasks that failed start again. May change at any time."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel("has(self.tasks) != has(self.indexes)", "write tasks or indexes, one of both", field_path=".tasks"),
            cel(
                "self == oldSelf || self.retry >= oldSelf.retry",
                "it only grows: add 1 to start the tasks that failed again",
                field_path=".retry",
            ),
        )
    )

    @property
    def numbers(self) -> TaskNumbers:
        """What users call the tasks, in the order of their indexes."""
        return numbers_of(self.written_tasks or 0, self.indexes or "")

    @property
    def tasks(self) -> int:
        """How many tasks the array has."""
        return len(self.numbers)

    @property
    def shares_retries(self) -> bool:
        """Whether backoffLimit counts for all tasks together; else for each of them."""
        return False

    @property
    def rests_by_task(self) -> bool:
        """Whether a task that failed rests before it starts again, and no other one starts in its place; else all
        tasks rest."""
        return False

    @property
    def told_by_pods(self) -> int:
        """Tasks of which only their last pods know how often they failed, so these stay: a set."""
        return 0

    @property
    def failure_limit(self) -> int | None:
        """With more failures of its tasks together it has failed; None where each task alone has a limit."""
        return None

    @property
    def failed_limit(self) -> int | None:
        """With more failed tasks it has failed, and the others stop; None where they go on."""
        return None

    def rule_met(self, _completed: int, /) -> int | None:
        """The first rule by which enough tasks completed, though not all; None where none is met.

        Args:
            _completed: the set of tasks that did.
        """
        return None

    @property
    def restart_limit(self) -> int | None:
        """After so many starts of programs in the same pods it has failed; None where no pod starts any again."""
        return None

    @property
    def starts_after_success(self) -> bool:
        """Whether a task may start, or start again after a failure, when another one has succeeded."""
        return True

    @property
    def at_once(self) -> int:
        """So many tasks may run at a time, as far as the user says."""
        return self.max_running or self.tasks


class ArrayStatus(Model):
    """What became of the tasks. Sets of indexes are ranges such as `0-41,57`, or `bits:` and base64 where these would
    be longer than 16 KiB."""

    progress: Annotated[str, Field(max_length=32)] = ""
    """Tasks that completed, of all: `412/1000`."""
    completed: Tasks = 0
    """Tasks that completed."""
    failed: Tasks = 0
    """Tasks that failed, and start again only by spec.array.retry."""
    running: Tasks = 0
    """Tasks whose container runs, as of the last write."""
    completed_indexes: Indexes = ""
    """Which tasks completed."""
    failed_indexes: Indexes = ""
    """Which tasks failed."""
    running_indexes: Indexes = ""
    """Which tasks run, as of the last write."""
    interrupted_indexes: Indexes = ""
    """Tasks that others interrupted. They start before those that have not run."""
    retries_used: Counts = ""
    """How often each task started again because a container failed by itself, such as `7:1,40-42:2`."""
    interruptions: Counts | None = None
    """How often each task was interrupted, such as `7:1,40-42:2`; 15 stands for more. Its program has it as
    SCAVENGER_RESTARTS."""
    retry: Annotated[int, Field(ge=0, **_COUNT)] = 0
    """The spec.array.retry that was acted on."""
    active_since: Timestamp | None = None
    """Since when tasks run without a break, where the array has activeDeadlineSeconds. The time before is in
    status.activeSeconds."""
    counted: Annotated[tuple[Annotated[str, Field(max_length=32)], ...], Field(max_length=2 * MAX_COUNTED)] = ()
    """Pods that are counted here and may still have their finalizer: index and the first digits of the UID."""


def array_rules() -> list[dict[str, str]]:
    """CEL on the spec of a ScavengerJob: what an array cannot have, and what only an array can."""
    return [
        cel(
            "!has(self.array) || self.parallelism == 1",
            "an array has parallelism 1, as each task is a pod of its own; leave it out",
            field_path=".parallelism",
        ),
        cel(
            f"!has(self.array) || !has(self.backoffLimit) || self.backoffLimit <= {MAX_COUNT}",
            f"it counts for each task of an array, and is at most {MAX_COUNT} there",
            field_path=".backoffLimit",
        ),
        cel(
            "!has(self.array) || self.capacity == 'Guaranteed'",
            "an array cannot have capacity: Reclaimed; leave it out",
            field_path=".capacity",
        ),
        cel(
            "has(self.array) || !has(self.podFailurePolicy) || "
            "self.podFailurePolicy.rules.all(r, r.action != 'FailIndex')",
            "rules: only a task of an array fails alone; write FailJob in place of FailIndex",
            field_path=".podFailurePolicy",
        ),
    ]
