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


class QueueState(StrEnum):
    """Whether a queue takes and starts jobs."""

    OPEN = "Open"
    CLOSED = "Closed"
    RELEASING = "Releasing"


def earned_count(interrupted: int, own: int) -> int:
    """The interruptions of a job that count where jobs are put in order: those that others caused.

    interrupted, own: `interruptedCount` and `ownInterruptedCount` of its status.
    """
    return max(0, interrupted - own)
