"""What the pods of a job should request, by what it and its kin have used."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from scavenger_api.job import ScavengerJob
from scavenger_api.usage import RecommendedRequests
from scavenger_domain.recommendation import Measured, recommend
from scavenger_domain.usage import JobUsage, read_usage

from scavenger_admitter.core.recommended import (
    asks_for_it,
    kin_of,
    next_requests,
    own_requests,
    tells_of_others,
    was_killed,
)
from scavenger_admitter.informers import Informers

MOST_KIN: Final = 50
"""So many other jobs are asked at most: each has figures of all its runs."""


class Recommendations:
    """Looks for recommendations.

    Args:
        informers: the other jobs.
        used: what was measured of a job since this process leads.
        least: the share of its own requests below which no recommendation goes.
    """

    def __init__(self, informers: Informers, used: Callable[[ScavengerJob], JobUsage | None], least: float) -> None:
        self._informers = informers
        self._used = used
        self._least = least

    def of(self, job: ScavengerJob) -> RecommendedRequests | None:
        """What the pods of a job request from its next start on; None where that is what it asks for."""
        if not asks_for_it(job.spec):
            return None
        usage, others = self._used(job) or _usage_of(job), list[ScavengerJob]()
        if tells_of_others(job.spec):
            alike = (one for one in self._informers.jobs.by_index("kin", kin_of(job)) if one.key != job.key)
            others = list(islice(alike, MOST_KIN))
        kin = [told for one in others if (told := _usage_of(one)) is not None]
        found = recommend(Measured(usage, job.spec.parallelism), kin, killed=any(map(was_killed, others)))
        return next_requests(job.status.recommended, found, own_requests(job), self._least)


def _usage_of(job: ScavengerJob) -> JobUsage | None:
    return read_usage(job.status.usage.to_dict()) if job.status.usage is not None else None
