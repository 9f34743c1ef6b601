"""ScavengerJobs of the API to the facts that decisions see. Pure: no clock, no client."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec
from scavenger_api.quantity import QuantityError, amounts
from scavenger_api.states import ConditionType, Phase
from scavenger_api.times import EPOCH, parse_time
from scavenger_kube.errors import Invalid
from scavenger_kube.kinds import Condition, ObjectMeta, Resources, Struct, condition
from scavenger_kube.resources import Resource, scavenger_jobs

from scavenger_tuner.core.endings import JobFacts
from scavenger_tuner.core.objects import LABEL_CONFIGURATION
from scavenger_tuner.core.rules import Reason


class Spec(Struct, frozen=True, gc=False, rename="camel"):
    """spec: what it has."""

    parallelism: int = 1
    resources: Resources = Resources()


class Status(Struct, frozen=True, gc=False, rename="camel"):
    """status: where the job is, and what it has cost."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    message: str = ""
    interrupted_count: int = 0
    running_timestamps: tuple[str, ...] = ()
    priority_start_over_timestamp: str | None = None
    last_checkpoint_timestamp: str | None = None
    useful: float = msgspec.field(default=0.0, name="usefulCPUSeconds")
    lost: float = msgspec.field(default=0.0, name="lostCPUSeconds")


class Job(Struct, frozen=True, gc=False, rename="camel"):
    """A ScavengerJob, as far as a tuner looks at it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Spec = Spec()
    status: Status = Status()


SCAVENGER_JOBS: Final[Resource[Job]] = scavenger_jobs(Job)

PERSISTENT_VOLUME_CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, Job)
"""Only ever created."""


def configuration_of(job: Job) -> str:
    """The number of the configuration that it is an attempt at; empty where it does not say."""
    return job.metadata.labels.get(LABEL_CONFIGURATION, "")


def finished(job: Job) -> bool:
    """Whether it is at its end, one way or the other."""
    return job.status.phase in (Phase.COMPLETED, Phase.FAILED)


def job_facts(job: Job, now: datetime) -> JobFacts:
    """What an ending is decided on."""
    status = job.status
    return JobFacts(
        phase=status.phase,
        created=parse_time(job.metadata.creation_timestamp) or now,
        admitted=_reason_against(status, ConditionType.ADMITTED),
        succeeded=_reason_against(status, ConditionType.SUCCEEDED),
        message=status.message,
        ran=_ran(job, now),
        interruptions=status.interrupted_count,
        useful=status.useful,
        lost=status.lost,
    )


def _reason_against(status: Status, kind: ConditionType) -> str:
    found = condition(status.conditions, kind)
    return found.reason if found is not None and found.status == "False" else ""


def _ran(job: Job, now: datetime) -> float:
    """Seconds it has run: what the status counts as useful or lost, and what has passed since then in a run under way.

    The admitter counts core-seconds up to the last checkpoint or start-over of a run, whichever is later, as soon as
    there is one, and the rest at the end of the run.
    """
    status, cores = job.status, _cores(job)
    counted = (status.useful + status.lost) / cores if cores else 0.0
    if status.phase != Phase.RUNNING or not status.running_timestamps:
        return counted
    start = parse_time(status.running_timestamps[-1]) or now
    stamps = (parse_time(status.priority_start_over_timestamp), parse_time(status.last_checkpoint_timestamp))
    since = max(start, *(stamp or EPOCH for stamp in stamps))
    return counted + max(0.0, (now - since).total_seconds())


def _cores(job: Job) -> float:
    given = job.spec.resources
    try:
        return job.spec.parallelism * amounts({**given.limits, **given.requests}).get("cpu", 0) / 1000
    except QuantityError:
        return 0.0


def why_refused(refusal: Invalid) -> Reason:
    """Why a job was refused at its creation: for what it asks for, as of a queue with a smaller quota, or for what a
    smaller one would be refused as well."""
    causes = refusal.details.get("causes")
    fields = [str(cause.get("field", "")) for cause in causes or () if isinstance(cause, dict)]
    of_resources = bool(fields) and all(field.startswith("spec.resources") for field in fields)
    return Reason.TOO_LARGE if of_resources else Reason.INVALID
