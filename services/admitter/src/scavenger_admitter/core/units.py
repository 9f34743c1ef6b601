"""What is ranked and interrupted (`scavenger_domain.unit`), of the models that the admitter has: a run, a task."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from scavenger_api.job import Capacity, ScavengerJob, ScavengerJobStatus
from scavenger_api.times import micros
from scavenger_domain.gang import at_risk, cpu_seconds, run_name
from scavenger_domain.pod_reading import PodReading, read
from scavenger_domain.unit import Unit, task_of
from scavenger_kube.kinds import Pod


class _Array(NamedTuple):
    """As `scavenger_domain.unit.Promise`."""

    uid: str
    run: str
    interval: int
    reclaimed: bool
    created: int
    stopping: bool


class _Run(NamedTuple):
    """The run in progress of a job, as `scavenger_domain.gang.Job`."""

    interval: int
    parallelism: int
    reclaimed: bool
    created: int
    started: int | None
    start_over: int | None
    checkpoints: tuple[int, ...]


def run_at_risk(
    job: ScavengerJob,
    status: ScavengerJobStatus,
    members: Sequence[PodReading],
    now: int,
    startup_cost: int,
    trusted: int,
) -> int:
    """CPU-seconds that a job would have to compute again if it went now (`scavenger_domain.gang.at_risk`).

    Args:
        job: what runs, on capacity of its own.
        status: what is known of its run.
        members: the pods of the run.
        now: microseconds since the epoch.
        startup_cost: what a restart costs each core, microseconds.
        trusted: the longest interval that is taken at its word, microseconds.
    """
    spec, created = job.spec, job.metadata.creation_timestamp
    run = _Run(
        interval=max(1, spec.checkpoint_interval // timedelta(microseconds=1)),
        parallelism=spec.parallelism,
        reclaimed=spec.capacity is Capacity.RECLAIMED,
        created=micros(created) if created is not None else 0,
        started=micros(status.running_timestamps[-1]) if status.running_timestamps else None,
        start_over=_micros(status.priority_start_over_timestamp),
        checkpoints=() if (at := _micros(status.last_checkpoint_timestamp)) is None else (at,),
    )
    return cpu_seconds(at_risk(run, members, now, startup_cost, trusted).cost)


def _micros(at: datetime | None) -> int | None:
    return None if at is None else micros(at)


def unit_of_task(job: ScavengerJob, pod: Pod) -> Unit:
    """The unit of a pod of an array."""
    spec, meta, seen = job.spec, job.metadata, read(pod)
    array = _Array(
        uid=meta.uid,
        run=run_name(job.status.job_name or "", meta.name),
        interval=max(1, spec.checkpoint_interval // timedelta(microseconds=1)),
        reclaimed=spec.capacity is Capacity.RECLAIMED,
        created=micros(meta.creation_timestamp) if meta.creation_timestamp is not None else 0,
        stopping=spec.suspend or meta.deletion_timestamp is not None,
    )
    return task_of(array, seen, (seen,))
