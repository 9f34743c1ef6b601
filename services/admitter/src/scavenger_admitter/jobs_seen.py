"""All jobs as one collection: ScavengerJobs, and the Jobs of users that the admitter has adopted, each by its key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from scavenger_api.job import ScavengerJob
from scavenger_api.job_keys import ADOPTED, job_key, parse_key
from scavenger_api.names import KIND_JOB, LABEL_JOB, LABEL_QUEUE
from scavenger_kube.client import ApiClient
from scavenger_kube.decode import Malformed
from scavenger_kube.kinds import Job
from scavenger_runtime.cache import Change, IndexFunction, by_namespace
from scavenger_runtime.clock import Clock
from scavenger_runtime.informer import Handler, Informer

from scavenger_admitter.core.adopted.work import AdoptedJob
from scavenger_admitter.core.lifecycle.other_jobs import waits_for
from scavenger_admitter.slim_jobs import slim
from scavenger_admitter.writer import ADOPTED_JOBS, SCAVENGERJOBS

OF_USERS: Final = f"{LABEL_QUEUE},!{LABEL_JOB}"
"""Jobs that name a queue and belong to no ScavengerJob."""


class JobsSeen:
    """What informers show of jobs.

    Args:
        client: to list and watch with.
        clock: of the informers.
        add: has an informer run.
        written: the version of a job, by its key, that this process has written and that is not shown yet.
        adopt: whether Jobs of users are followed.
    """

    def __init__(
        self,
        client: ApiClient,
        clock: Clock,
        add: Callable[[Informer[Any]], Informer[Any]],
        written: Callable[[str], ScavengerJob | None],
        *,
        adopt: bool,
    ) -> None:
        indices: Mapping[str, IndexFunction[ScavengerJob]] = {
            "queue": _queue_of,
            "namespace": by_namespace,
            "after": _after,
        }
        self.own = add(Informer(client, SCAVENGERJOBS, clock=clock, indices=indices, transform=slim, known=written))
        self.adopted: Informer[AdoptedJob] | None = None
        if adopt:
            self.adopted = Informer(
                client,
                ADOPTED_JOBS,
                clock=clock,
                name="adopted-jobs",
                label_selector=OF_USERS,
                indices=indices,
                transform=slim,
            )
            add(self.adopted)

    def get(self, key: str) -> ScavengerJob | None:
        """The job of a key, or None."""
        if ADOPTED not in key:
            return self.own.get(key)
        namespace, name, _ = parse_key(key)
        found = self.adopted.get(f"{namespace}/{name}") if self.adopted is not None else None
        return found if found is not None and found.adopted else None

    def batch(self, job: ScavengerJob) -> Job | None:
        """The Job that an adopted Job is; None of others."""
        return job.batch if isinstance(job, AdoptedJob) else None

    def keys(self) -> Sequence[str]:
        """All keys, at this moment."""
        return [*self.own.keys(), *(job.key for job in self._adopted())]

    def items(self) -> Sequence[ScavengerJob]:
        """All jobs, at this moment."""
        return [*self.own.items(), *self._adopted()]

    def by_index(self, name: str, value: str) -> Sequence[ScavengerJob]:
        """The jobs of a `queue` or a `namespace`, or that start `after` a job. Raises KeyError for another index."""
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

    def add_handler(self, handler: Handler[ScavengerJob]) -> None:
        """As that of an informer, for all jobs. The key of a change is that of its job."""
        self.own.add_handler(handler)
        if self.adopted is None:
            return

        def of_adopted(change: Change[AdoptedJob]) -> None:
            if change.obj.adopted:
                handler(Change(change.kind, change.old, change.new, change.initial))

        self.adopted.add_handler(of_adopted)

    def _adopted(self) -> Sequence[AdoptedJob]:
        return [job for job in self.adopted.items() if job.adopted] if self.adopted is not None else []


def _key_of(unread: Malformed) -> str:
    namespace, name, _ = parse_key(unread.key)
    return job_key(namespace, name, KIND_JOB)


def _queue_of(job: ScavengerJob) -> tuple[str, ...]:
    return (job.spec.queue,)


def _after(job: ScavengerJob) -> tuple[str, ...]:
    """The jobs that it waits for."""
    return tuple(f"{job.metadata.namespace}/{one.job}" for one in waits_for(job))
