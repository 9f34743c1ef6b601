"""Jobs with `resourcesFrom: Recommended`: their requests are those of `status.recommended`, for all that reads a spec.

The status is written before a start, when nothing of an earlier run is left. So a run has one size, books and admission
read it where they read any other, and what the job itself asks for is kept beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from pydantic import Field
from scavenger_api.job import ScavengerJob, ScavengerJobSpec, ScavengerJobStatus
from scavenger_api.quantity import amounts, format_amount
from scavenger_api.requirements import ResourceRequirements
from scavenger_api.sizes import sized_requests
from scavenger_api.usage import RecommendedRequests
from scavenger_domain.recommendation import Kin, Recommendation
from scavenger_domain.usage import JobUsage, read_usage

NO_WORDS: Final = ("",)
"""What is kept of the command of a large spec: that there is one."""

J = TypeVar("J", bound=ScavengerJob)

LESS_WORTH_A_WRITE: Final = 0.1
"""A recommendation takes the place of another one that is larger by more than this share."""
MORE_WORTH_A_WRITE: Final = 0.05
"""And of one that is smaller by more than this. A program that uses all that it gets is given a tenth more with each
start: its limit may be its request, and nothing above that is measured."""


class SizedJob(ScavengerJob):
    """A job with the requests that its pods have.

    Attributes:
        own: what the job itself asks for, where its pods have other requests.
    """

    own: ResourceRequirements | None = Field(default=None, exclude=True)


def sized(job: J) -> J:
    """A job with the requests that its status says. Its spec may have been sized by an earlier one."""
    job = as_asked(job)
    found, own = job.status.recommended, job.spec.resources
    if found is None or own is None or not found.amounts:
        return job
    asked = {name: str(text) for name, text in sized_requests(own.requests, own.limits, found.amounts).items()}
    return _with(job, own.model_copy(update={"requests": asked}), own)


def as_asked(job: J) -> J:
    """A job with the requests that it asks for."""
    own = job.own if isinstance(job, SizedJob) else None
    return job if own is None else _with(job, own, None)


def _with(job: J, resources: ResourceRequirements, own: ResourceRequirements | None) -> J:
    spec = job.spec.model_copy(update={"resources": resources})
    for name in ("requests", "placed_by"):  # were worked out from the others
        spec.__dict__.pop(name, None)
    return job.model_copy(update={"spec": spec, "own": own})


def own_requests(job: ScavengerJob) -> dict[str, int]:
    """What a job itself asks for, for each pod."""
    own = job.own if isinstance(job, SizedJob) else None
    return dict(job.spec.requests) if own is None else amounts(own.effective())


def usage_in(status: ScavengerJobStatus) -> JobUsage | None:
    """What a status says of the use of its job; None where it says nothing, or what cannot be read."""
    return read_usage(status.usage.to_dict() if status.usage is not None else None)


def asks_for_it(spec: ScavengerJobSpec) -> bool:
    """Whether the pods of a job request what is recommended."""
    return spec.resources_from is not None


def was_killed(job: ScavengerJob) -> bool:
    """Whether a container of it was killed for memory of which a recommendation gave it less than it asks for."""
    found = job.status.recommended
    return found is not None and bool(found.killed_for_memory)


def tells_of_others(spec: ScavengerJobSpec) -> bool:
    """Whether the pods of a job are described by its own fields, and by all of them: of a large spec a part is kept."""
    return spec.template is None and spec.command != NO_WORDS


def kin_of(job: ScavengerJob) -> str:
    """A short name, in this process, of the jobs that may tell of each other (`scavenger_domain.recommendation.Kin`).
    The namespace is part of it, so that no job has that of another namespace."""
    spec = job.spec
    kin = Kin.of(job.metadata.namespace, spec.main_image, spec.command or (), own_requests(job))
    return f"{kin.namespace}/{hash(kin)}"


def next_requests(
    known: RecommendedRequests | None, found: Recommendation, own: Mapping[str, int], least: float
) -> RecommendedRequests | None:
    """What pods request from the next start on.

    Args:
        known: what they request so far; None where nothing is recommended.
        found: what is recommended.
        own: what the job itself asks for.
        least: the share of that below which no recommendation goes.
    """
    if known is not None and known.killed_for_memory:
        return RecommendedRequests(killed_for_memory=True)
    wanted = {
        name: min(own[name], max(amount, round(own[name] * least)))
        for name, amount in found.amounts.items()
        if name in own
    }
    before = {**own} | amounts(known.amounts if known is not None else {})
    if all(_stays(before[name], wanted.get(name, own[name]), own[name]) for name in ("cpu", "memory")):
        return known
    less = {name: format_amount(name, amount) for name, amount in wanted.items() if amount < own[name]}
    return RecommendedRequests.model_validate(less) if less else None


def _stays(known: int, wanted: int, own: int) -> bool:
    """Whether a request is close enough to what is recommended. One above what a job now asks for never is."""
    return known <= own and (1 - LESS_WORTH_A_WRITE) * known <= wanted <= (1 + MORE_WORTH_A_WRITE) * known


def in_words(found: RecommendedRequests | None, own: Mapping[str, int]) -> str:
    """What pods request from now on, in a sentence."""
    parts = [f"{text} {name} in place of {format_amount(name, own[name])}" for name, text in _amounts(found).items()]
    return f"pods request {' and '.join(parts)}" if parts else "pods have the requests of the job itself"


def _amounts(found: RecommendedRequests | None) -> Mapping[str, str]:
    return found.amounts if found is not None else {}
