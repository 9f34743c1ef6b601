"""The tasks of an array as its status has them: sets of indexes, each a Python integer (`scavenger_api.indexes`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from scavenger_api.array import ArrayStatus
from scavenger_api.indexes import (
    MAX_COUNT,
    all_of,
    format_counts,
    format_indexes,
    indexes_of,
    lowest,
    parse_counts,
    parse_indexes,
)
from scavenger_api.removing import pod_mark
from scavenger_kube import kinds


@dataclass(slots=True)
class Tasks:
    """What is known of the tasks.

    Attributes:
        size: how many tasks there are.
        completed: tasks that completed.
        failed: tasks that failed for good.
        interrupted: tasks that others interrupted and that have not ended since.
        retries: restarts after failures, by index.
        interruptions: how often each task was interrupted, as the status has it. Read only where one is added: most
            looks add none.
        interrupted_now: the tasks that were interrupted since, once for each time.
        retry: `spec.array.retry`, as far as it was acted on.
        counted: pods (`mark`) that are in all of this and may still have their finalizer.
        active_since: since when tasks run without a break, where that time is limited; None while none runs.
    """

    size: int
    completed: int = 0
    failed: int = 0
    interrupted: int = 0
    retries: dict[int, int] = field(default_factory=dict)
    interruptions: str = ""
    interrupted_now: list[int] = field(default_factory=list)
    retry: int = 0
    counted: frozenset[str] = frozenset()
    active_since: datetime | None = None

    @classmethod
    def of(cls, size: int, status: ArrayStatus | None) -> Self:
        """As the status says."""
        if status is None:
            return cls(size)
        return cls(
            size,
            parse_indexes(status.completed_indexes),
            parse_indexes(status.failed_indexes),
            parse_indexes(status.interrupted_indexes),
            parse_counts(status.retries_used),
            interruptions=status.interruptions or "",
            retry=status.retry,
            counted=frozenset(status.counted),
            active_since=status.active_since,
        )

    def status(self, running: int) -> ArrayStatus:
        """As the status is to say it. running: the tasks whose container runs."""
        return ArrayStatus(
            progress=f"{self.completed.bit_count()}/{self.size}",
            completed=self.completed.bit_count(),
            failed=self.failed.bit_count(),
            running=running.bit_count(),
            completed_indexes=format_indexes(self.completed),
            failed_indexes=format_indexes(self.failed),
            running_indexes=format_indexes(running),
            interrupted_indexes=format_indexes(self.interrupted),
            retries_used=format_counts(self.retries),
            interruptions=self._all_interruptions() or None,
            retry=self.retry,
            counted=tuple(sorted(self.counted)),
            active_since=self.active_since,
        )

    def _all_interruptions(self) -> str:
        if not self.interrupted_now:
            return self.interruptions
        counts = parse_counts(self.interruptions)
        for index in self.interrupted_now:
            counts[index] = min(MAX_COUNT, counts.get(index, 0) + 1)
        return format_counts(counts)

    @property
    def over(self) -> int:
        """Tasks that do not start again."""
        return self.completed | self.failed

    @property
    def all_over(self) -> bool:
        """Whether no task starts again."""
        return self.over == all_of(self.size)

    def waiting(self, taken: int) -> int:
        """The tasks that may start. taken: those that cannot, as there is a pod of their name."""
        return all_of(self.size) & ~(self.over | taken)

    def next(self, most: int, taken: int) -> tuple[int, ...]:
        """The tasks that start first: interrupted ones, and then by index. taken: as in `waiting`."""
        waiting = self.waiting(taken)
        first = lowest(waiting & self.interrupted, most)
        rest = lowest(waiting & ~self.interrupted, most - first.bit_count())
        return (*indexes_of(first), *indexes_of(rest))

    def end(self, index: int, *, completed: bool = False, failed: bool = False, interrupted: bool = False) -> None:
        """A run of a task has ended."""
        bit = 1 << index
        self.interrupted &= ~bit
        if completed:
            self.completed |= bit
        elif failed:
            self.failed |= bit
        elif interrupted:
            self.interrupted |= bit

    def forget_failures(self) -> None:
        """Tasks that failed wait again, with all their retries."""
        self.retries = {index: count for index, count in self.retries.items() if not self.failed >> index & 1}
        self.failed = 0


def mark(index: int, pod: kinds.Pod) -> str:
    """How `counted` names a pod."""
    return pod_mark(index, pod.metadata.uid)
