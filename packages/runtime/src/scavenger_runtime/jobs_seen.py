"""All jobs as one collection: ScavengerJobs, and the Jobs of users that the admitter has adopted, each by its key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from scavenger_api.job_keys import ADOPTED, OF_USERS, job_key, parse_key
from scavenger_api.names import KIND_JOB
from scavenger_kube.client import ApiClient
from scavenger_kube.decode import Malformed, Metadata
from scavenger_kube.resources import Resource, scavenger_jobs
from scavenger_kube.scavenger_kinds import AdoptedJob, ScavengerJob

from scavenger_runtime.cache import Change
from scavenger_runtime.clock import Clock
from scavenger_runtime.informer import Handler, Informer
from scavenger_runtime.kept_jobs import adopted_requests_alone, requests_alone

SCAVENGERJOBS: Final = scavenger_jobs(ScavengerJob)
ADOPTED_JOBS: Final = Resource("batch", "v1", "jobs", "Job", True, AdoptedJob)


class Keyed(Protocol):
    """A job in a cache."""

    @property
    def metadata(self) -> Metadata:
        """The object's metadata."""
        ...

    @property
    def key(self) -> str:
        """As its pods name it."""
        ...


J = TypeVar("J", bound=Keyed)


class JobsSeen(Generic[J]):
    """What informers show of jobs.

    Args:
        own: follows ScavengerJobs.
        adopted: follows Jobs of users (`OF_USERS`), read into a subclass of `J` that says whether one is `adopted`;
            None where no Jobs are adopted.
    """

    def __init__(self, own: Informer[J], adopted: Informer[Any] | None) -> None:
        self.own = own
        self.adopted = adopted

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """What has to run."""
        return (self.own,) if self.adopted is None else (self.own, self.adopted)

    def get(self, key: str) -> J | None:
        """The job of a key, or None."""
        if ADOPTED not in key:
            return self.own.get(key)
        namespace, name, _ = parse_key(key)
        found: Any = self.adopted.get(f"{namespace}/{name}") if self.adopted is not None else None
        return found if found is not None and found.adopted else None

    def keys(self) -> Sequence[str]:
        """All keys, at this moment."""
        return [*self.own.keys(), *(job.key for job in self._adopted())]

    def items(self) -> Sequence[J]:
        """All jobs, at this moment."""
        return [*self.own.items(), *self._adopted()]

    def by_index(self, name: str, value: str) -> Sequence[J]:
        """The jobs that an index names. Raises KeyError for an index that the informers do not have."""
        found = self.adopted.by_index(name, value) if self.adopted is not None else ()
        return [*self.own.by_index(name, value), *(job for job in found if job.adopted)]

    def __len__(self) -> int:
        return len(self.keys())

    @property
    def unreadable(self) -> Mapping[str, Malformed]:
        """The jobs that are there and cannot be read, by key."""
        if self.adopted is None or not self.adopted.unreadable:
            return self.own.unreadable
        return {**self.own.unreadable, **{_key_of(one): one for one in self.adopted.unreadable.values()}}

    def add_handler(self, handler: Handler[J]) -> None:
        """As that of an informer, for all jobs. The key of a change is that of its job."""
        self.own.add_handler(handler)
        if self.adopted is None:
            return

        def of_adopted(change: Change[Any]) -> None:
            if change.obj.adopted:
                handler(change)

        self.adopted.add_handler(of_adopted)

    def _adopted(self) -> Sequence[Any]:
        return [job for job in self.adopted.items() if job.adopted] if self.adopted is not None else []


def _key_of(unread: Malformed) -> str:
    namespace, name, _ = parse_key(unread.key)
    return job_key(namespace, name, KIND_JOB)


def jobs_to_rank(client: ApiClient, clock: Clock, *, adopt: bool) -> JobsSeen[ScavengerJob]:
    """What follows jobs for a service that ranks what runs: of each what `requests_alone` keeps.

    Args:
        client: to list and watch with.
        clock: of the informers.
        adopt: whether Jobs of users are followed.
    """
    own = Informer(client, SCAVENGERJOBS, clock=clock, transform=requests_alone)
    if not adopt:
        return JobsSeen(own, None)
    adopted = Informer(
        client,
        ADOPTED_JOBS,
        clock=clock,
        name="adopted-jobs",
        label_selector=OF_USERS,
        transform=adopted_requests_alone,
    )
    return JobsSeen(own, adopted)


def resource_of(job: ScavengerJob) -> Resource[Any]:
    """The resource that a job is an object of."""
    return ADOPTED_JOBS if isinstance(job, AdoptedJob) else SCAVENGERJOBS
