"""Where jobs of both kinds are listed: ScavengerJobs, and the Jobs that the admitter has adopted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from scavenger_api import names
from scavenger_api.job_keys import OF_USERS
from scavenger_kube.resources import Params

from scavenger_cli import paths
from scavenger_cli.objects import AdoptedJob, Job

T = TypeVar("T")

NOT_LISTED: Final = "You may not list Jobs: adopted ones are left out."
_TERM: Final = re.compile(r"(spec\.queue|status\.phase)(==|!=|=)(.*)")
"""What can be selected of ScavengerJobs and not of Jobs."""


@dataclass(frozen=True)
class Source(Generic[T]):
    """Objects of one kind.

    Attributes:
        path: where they are in the API.
        params: selectors.
        kind: what is read of each.
        optional: where they may not be listed, others are shown all the same.
        head: apiVersion and kind, where items of a list do not have them.
        selects: which of them; None for all.
    """

    path: str
    params: Params
    kind: type[T]
    optional: bool = False
    head: Mapping[str, Any] = field(default_factory=dict)
    selects: Callable[[T], bool] | None = None


def job_sources(namespace: str | None, selector: str | None = None, fields: str | None = None) -> list[Source[Job]]:
    """The jobs of a namespace, of both kinds.

    Args:
        namespace: None for all.
        selector: by labels.
        fields: a field selector of ScavengerJobs.
    """
    own: Source[Job] = Source(paths.jobs(namespace), {"labelSelector": selector, "fieldSelector": fields}, Job)
    asked, selects = _of_jobs(fields)
    labels = f"{OF_USERS},{selector}" if selector else OF_USERS
    head = {"apiVersion": "batch/v1", "kind": names.KIND_JOB}
    params = {"labelSelector": labels, "fieldSelector": asked}
    path = paths.jobs(namespace, AdoptedJob)
    return [own, Source(path, params, AdoptedJob, optional=True, head=head, selects=selects)]


def of_job(job: type[Job], namespace: str, name: str | None = None) -> Source[Job]:
    """The jobs of one kind.

    Args:
        job: the kind.
        namespace: of the jobs.
        name: of the only one that is asked for.
    """
    return Source(paths.jobs(namespace, job), {"fieldSelector": f"metadata.name={name}"} if name else {}, job)


def _of_jobs(fields: str | None) -> tuple[str | None, Callable[[Job], bool] | None]:
    """A field selector as the API server takes it of Jobs, and the rest of it."""
    asked, terms = [], []
    for term in (fields or "").split(","):
        if found := _TERM.fullmatch(term.strip()):
            terms.append((found[1], found[2] != "!=", found[3]))
        elif term.strip():
            asked.append(term.strip())

    def selects(job: Job) -> bool:
        has: Mapping[str, str] = {"spec.queue": job.spec.queue, "status.phase": job.phase}
        return all((has[name] == value) is wanted for name, wanted, value in terms)

    return ",".join(asked) or None, selects if terms else None


def both_kinds(jobs: Sequence[Job]) -> bool:
    """Whether some of these are adopted, and others are not."""
    return len({job.adopted for job in jobs}) > 1
