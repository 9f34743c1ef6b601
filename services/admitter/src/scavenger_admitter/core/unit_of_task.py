"""A task of an array as a unit (`scavenger_domain.unit`): what is ranked and interrupted."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from scavenger_api.job import Capacity, ScavengerJob
from scavenger_api.times import micros
from scavenger_domain.gang import run_name
from scavenger_domain.pod_reading import read
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
