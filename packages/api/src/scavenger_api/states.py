"""The states of ScavengerJobs and ScavengerQueues; without pydantic, as the command line reads them."""

from __future__ import annotations

from enum import StrEnum


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
        """Queued for admission."""
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
    STALLED = "Stalled"


class Capacity(StrEnum):
    """Which capacity a job runs on: not requested, or requested by others and idle."""

    GUARANTEED = "Guaranteed"
    RECLAIMED = "Reclaimed"


class QueueState(StrEnum):
    """Whether a queue takes and starts jobs."""

    OPEN = "Open"
    CLOSED = "Closed"
    RELEASING = "Releasing"


def earned_count(interrupted: int, own: int, earned_queue: str | None, queue: str) -> int:
    """The interruptions of a job that count where jobs are put in order: those that gave it a place in this queue.

    Args:
        interrupted: `interruptedCount` of its status.
        own: `ownInterruptedCount`.
        earned_queue: `earnedQueue`; None where nothing says in which queue they were earned.
        queue: the job is in.
    """
    return max(0, interrupted - own) if earned_queue in (None, queue) else 0


def precedence(earned: int, served: int | None) -> int:
    """How far a job goes before others of its queue; more goes first.

    Its status says by which rule its place was given: by its interruptions, or by the CPU time that it has had.

    Args:
        earned: as `earned_count` says.
        served: `servedLevel` of its status; None where its interruptions count.
    """
    return earned if served is None else -served
