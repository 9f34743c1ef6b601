"""What has become of an attempt: a pure function of its job, of what the job left in its folder, and of the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from scavenger_api.reasons import FailureReason, WaitReason
from scavenger_api.states import Phase

from scavenger_tuner.core.rules import Reason

TOO_LARGE: Final = frozenset(
    {WaitReason.LARGER_THAN_ANY_NODE, WaitReason.LARGER_THAN_CLUSTER, WaitReason.LARGER_THAN_QUOTA}
)
"""Why a job waits that no node, or not all of them together, could ever hold."""

NO_ROOM: Final = frozenset(
    {
        *TOO_LARGE,
        WaitReason.NO_PLACE,
        WaitReason.NO_HEADROOM,
        WaitReason.TURN_KEPT,
        WaitReason.ADMISSION_LEVEL,
        WaitReason.QUEUE_QUOTA,
        WaitReason.QUEUE_SHARE,
        WaitReason.UNSCHEDULABLE,
    }
)
"""Why a job waits that may start later, or earlier if it were smaller."""

NEVER: Final[Mapping[str, Reason]] = MappingProxyType(
    {
        FailureReason.NOT_FOUND: Reason.INVALID,
        FailureReason.INVALID_REFERENCE: Reason.INVALID,
        FailureReason.INVALID_IMAGE_NAME: Reason.INVALID,
        FailureReason.RUNS_AS_ROOT: Reason.INVALID,
        FailureReason.INVALID: Reason.INVALID,
    }
)
"""Failures of a job that a smaller one would share."""

OUT_OF_MEMORY_CODE: Final = "exited with code 137"
"""How the admitter says that the kernel has killed the program, which cannot say so itself."""

MESSAGE_LENGTH: Final = 500


class Model(BaseModel):
    """What a job wrote, which is checked before it is believed."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Figure(Model):
    """A measured value with its statistical error, both in that unit.

    error: None where there was too little to estimate it from.
    """

    value: float
    error: Annotated[float, Field(ge=0)] | None
    unit: Annotated[str, Field(max_length=32)]


class Result(Model):
    """result.json. ns_per_day: None where nothing was timed."""

    density: Figure
    diffusion: Figure
    ns_per_day: Annotated[float, Field(ge=0)] | None
    steps: Annotated[int, Field(ge=0)]
    recomputed_steps: Annotated[int, Field(ge=0)]
    ranks: Annotated[int, Field(ge=1)]
    threads: Annotated[int, Field(ge=1)]


class Complaint(Model):
    """failure.json."""

    reason: Annotated[str, Field(max_length=64)]
    message: str = ""


@dataclass(frozen=True, slots=True)
class Left:
    """What a job has left in its folder. unreadable: what is wrong with a file that is there."""

    result: Result | None = None
    complaint: Complaint | None = None
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A ScavengerJob as decisions see it.

    admitted: the reason of condition Admitted while it is False. succeeded: the reason of condition Succeeded. ran:
    seconds it has run so far, all its runs together. useful, lost: core-seconds.
    """

    phase: str
    created: datetime
    admitted: str = ""
    succeeded: str = ""
    message: str = ""
    ran: float = 0.0
    interruptions: int = 0
    useful: float = 0.0
    lost: float = 0.0


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: for how long a job may run in all, for how long one may wait that no node can hold, and for how long one
    that finds no room; 0: for ever."""

    wall_time: float
    too_large: float
    no_room: float = 0.0


@dataclass(frozen=True, slots=True)
class Create:
    """There is no job, and nothing it has left: it has to be created."""


@dataclass(frozen=True, slots=True)
class Follow:
    """It is not at its end."""


@dataclass(frozen=True, slots=True)
class Succeeded:
    """It has a result."""

    result: Result


@dataclass(frozen=True, slots=True)
class Failed:
    """It has none. cancel: the job would go on, and has to be deleted."""

    reason: Reason
    message: str
    cancel: bool = False


Ending: TypeAlias = Create | Follow | Succeeded | Failed


def ending(job: JobFacts | None, left: Left, now: datetime, patience: Patience) -> Ending:
    """What has become of an attempt. `left` counts only once the job is at its end, or gone: a file of a job that runs
    may be one that it is about to write anew."""
    if job is None:
        return _left_behind(left) or Create()
    if job.phase not in (Phase.COMPLETED, Phase.FAILED):
        return _overdue(job, now, patience) or Follow()
    found = _left_behind(left)
    if isinstance(found, Failed) or (found is not None and job.phase == Phase.COMPLETED):
        return found
    if job.phase == Phase.COMPLETED:
        return Failed(Reason.UNKNOWN, left.unreadable or "completed without a result")
    return Failed(_why(job), job.message[:MESSAGE_LENGTH] or "failed without a message")


def _left_behind(left: Left) -> Succeeded | Failed | None:
    """A result outweighs a complaint of an earlier run."""
    if left.result is not None:
        return Succeeded(left.result)
    if left.complaint is not None:
        return Failed(Reason.of(left.complaint.reason), left.complaint.message[:MESSAGE_LENGTH])
    return None


def _overdue(job: JobFacts, now: datetime, patience: Patience) -> Failed | None:
    if job.ran > patience.wall_time:
        message = f"ran for {job.ran:.0f} s, more than the {patience.wall_time:.0f} s that it may"
        return Failed(Reason.WALL_TIME, message, cancel=True)
    if job.phase in (Phase.STARTING, Phase.RUNNING):
        return None
    waited = (now - job.created).total_seconds()
    never = job.admitted in TOO_LARGE and waited >= patience.too_large
    # One that has run finds room again: smaller, it would begin anew.
    late = job.admitted in NO_ROOM and not job.ran and 0 < patience.no_room <= waited
    if never or late:
        return Failed(Reason.TOO_LARGE, job.message[:MESSAGE_LENGTH] or job.admitted, cancel=True)
    return None


def _why(job: JobFacts) -> Reason:
    if job.succeeded in NEVER:
        return NEVER[job.succeeded]
    return Reason.OUT_OF_MEMORY if "OOMKilled" in job.message or OUT_OF_MEMORY_CODE in job.message else Reason.UNKNOWN
