"""What the pods of a job should request, by what it and its kin have used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from scavenger_api.job import ScavengerJob
from scavenger_api.usage import RecommendedRequests
from scavenger_domain.recommendation import Measured, recommend
from scavenger_domain.usage import JobUsage

from scavenger_admitter.core.recommended import (
    asks_for_it,
    kin_of,
    next_requests,
    own_requests,
    tells_of_others,
    usage_in,
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
        usage, name = self._used(job) or usage_in(job.status), kin_of(job) if tells_of_others(job.spec) else None
        kin = [
            told
            for one in islice(self._others("kin", name, job), MOST_KIN)
            if (told := usage_in(one.status)) is not None
        ]
        killed = any(self._others("killed-kin", name, job))
        found = recommend(Measured(usage, job.spec.parallelism), kin, killed=killed)
        return next_requests(job.status.recommended, found, own_requests(job), self._least)

    def _others(self, index: str, name: str | None, job: ScavengerJob) -> Iterator[ScavengerJob]:
        """The other jobs of an index; none where a job has no name to be found by."""
        found = self._informers.jobs.by_index(index, name) if name is not None else ()
        return (one for one in found if one.key != job.key)
