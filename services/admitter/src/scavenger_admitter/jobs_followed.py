"""The jobs that the admitter runs, as informers show them, and what they are found by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from scavenger_api.job import ScavengerJob
from scavenger_api.job_keys import OF_USERS
from scavenger_kube.client import ApiClient
from scavenger_kube.kinds import Job
from scavenger_runtime.cache import IndexFunction, by_namespace
from scavenger_runtime.clock import Clock
from scavenger_runtime.informer import Informer
from scavenger_runtime.jobs_seen import JobsSeen

from scavenger_admitter.core.adopted.work import AdoptedJob
from scavenger_admitter.core.lifecycle.other_jobs import waits_for
from scavenger_admitter.core.recommended import kin_of, tells_of_others, was_killed
from scavenger_admitter.slim_jobs import slim, slim_adopted
from scavenger_admitter.writer import ADOPTED_JOBS, SCAVENGERJOBS


def _queue_of(job: ScavengerJob) -> tuple[str, ...]:
    return (job.spec.queue,)


def _after(job: ScavengerJob) -> tuple[str, ...]:
    """The jobs that it waits for."""
    return tuple(f"{job.metadata.namespace}/{one.job}" for one in waits_for(job))


def _kin(job: ScavengerJob) -> tuple[str, ...]:
    """What a job that was measured tells others by."""
    return (kin_of(job),) if job.status.usage is not None and tells_of_others(job.spec) else ()


def _killed(job: ScavengerJob) -> tuple[str, ...]:
    """What a job that was killed for memory tells others by. Often there are no figures of it yet."""
    return (kin_of(job),) if was_killed(job) and tells_of_others(job.spec) else ()


INDICES: Final[Mapping[str, IndexFunction[ScavengerJob]]] = {
    "queue": _queue_of,
    "namespace": by_namespace,
    "after": _after,
    "kin": _kin,
    "killed-kin": _killed,
}


def followed_jobs(
    client: ApiClient, clock: Clock, written: Callable[[str], ScavengerJob | None], *, adopt: bool
) -> JobsSeen[ScavengerJob]:
    """What follows jobs.

    Args:
        client: to list and watch with.
        clock: of the informers.
        written: the version of a job, by its key, that this process has written and that is not shown yet.
        adopt: whether Jobs of users are followed.
    """
    own = Informer(client, SCAVENGERJOBS, clock=clock, indices=INDICES, transform=slim, known=written)
    if not adopt:
        return JobsSeen(own, None)
    adopted: Informer[AdoptedJob] = Informer(
        client,
        ADOPTED_JOBS,
        clock=clock,
        name="adopted-jobs",
        label_selector=OF_USERS,
        indices=INDICES,
        transform=slim_adopted,
    )
    return JobsSeen(own, adopted)


def batch_job(job: ScavengerJob) -> Job | None:
    """The Job that an adopted Job is; None of others."""
    return job.batch if isinstance(job, AdoptedJob) else None
