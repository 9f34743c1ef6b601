"""How much a pod should request, by what was measured. Pure; docs/designs/0034-what-jobs-use.md has the figures.

CPU: the most that was seen, and a tenth more, once a pod was measured for four hours. Memory: the most of three runs or
more, and a margin that shrinks with the number of runs. What others have used counts for a job only where they are
its kin, at least ten of their runs were measured, and these are alike: unlike ones tell nothing of the next.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from scavenger_domain.usage import RESOURCES, JobUsage

LEAST_SECONDS: Final = 4 * 3600
"""Of one pod."""
LEAST_RUNS: Final = 3
"""The maximum of memory is that of so many runs at least."""
LEAST_KIN: Final = 10
"""So many runs of kin, or tasks of an array, tell of the others."""
ALIKE: Final = 1.5
"""Runs are alike where none used more than this many times what the median of them did, each at its peak."""
CPU_MARGIN: Final = 1.1
MEMORY_MARGIN: Final = 1.3
MEMORY_DOUBT: Final = 2.0
"""This, divided by the number of runs, is added to the margin of memory: the maximum of few runs says little of the
next one, and how far these were apart says no more."""

_STEPS: Final[Mapping[str, int]] = {"cpu": 10, "memory": 2**20}
"""A recommendation is a multiple of this: ten millicores, a mebibyte."""


class Kin(NamedTuple):
    """What jobs have in common that may tell of each other.

    Attributes:
        namespace: of the jobs.
        image: of the program.
        command: that the job names; empty where it leaves it to the image.
        requests: of one pod, in a fixed order.
    """

    namespace: str
    image: str
    command: tuple[str, ...]
    requests: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, namespace: str, image: str, command: Iterable[str], requests: Mapping[str, int]) -> Kin:
        """As a job says."""
        return cls(namespace, image, tuple(command), tuple(sorted(requests.items())))


@dataclass(frozen=True, slots=True)
class Measured:
    """A job, as far as its figures matter here.

    Attributes:
        usage: of it; None where nothing is measured.
        pods: that run at the same time, at most.
        array: its runs are those of tasks.
    """

    usage: JobUsage | None
    pods: int = 1
    array: bool = False


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What one pod should request.

    Attributes:
        amounts: by resource; a resource of which too little is known is missing.
        by_kin: the resources for which other jobs were asked.
        lacks: by resource, what is missing for a recommendation.
    """

    amounts: Mapping[str, int]
    by_kin: frozenset[str]
    lacks: Mapping[str, str]

    def freed(self, resource: str, requested: int, pods: int) -> int:
        """How much less so many pods would request; 0 where it would be more, or nothing is recommended."""
        return max(0, requested - self.amounts.get(resource, requested)) * pods


class _Evidence(NamedTuple):
    """What several jobs have shown of one resource: their runs, the most of all, and the median of the most of each."""

    runs: int
    most: int
    typical: int


def recommend(job: Measured, kin: Collection[JobUsage], *, killed: bool = False) -> Recommendation:
    """What one pod of a job should request.

    Args:
        job: with its own figures.
        kin: figures of other jobs of its `Kin`.
        killed: a container of kin was killed for memory under a recommendation: kin tell nothing of memory.
    """
    amounts, by_kin, lacks = {}, set(), {}
    for resource in RESOURCES:
        own = _evidence([job.usage] if job.usage is not None else [], resource)
        lack = _lacks(job, own, resource)
        found = own if not lack else None
        if lack and kin and not (killed and resource == "memory"):
            others = _evidence([*kin, *([job.usage] if job.usage is not None else [])], resource)
            if others is not None and not _unlike(others):
                found = others
                by_kin.add(resource)
        if found is not None:
            step = _STEPS[resource]
            amounts[resource] = max(1, math.ceil(round(found.most * _margin(resource, found.runs) / step, 6))) * step
        else:
            lacks[resource] = lack
    return Recommendation(amounts, frozenset(by_kin), lacks)


def _margin(resource: str, runs: int) -> float:
    """Times the most that was seen in so many runs."""
    return CPU_MARGIN if resource == "cpu" else MEMORY_MARGIN + MEMORY_DOUBT / runs


def _evidence(usages: Collection[JobUsage], resource: str) -> _Evidence | None:
    """What was measured of one resource; None where nothing was."""
    found = [(one.resources[resource], max(1, one.runs)) for one in usages if resource in one.resources]
    if not found:
        return None
    by_peak = sorted((one.typical, runs) for one, runs in found)
    total = sum(runs for _, runs in by_peak)
    counts = accumulate(runs for _, runs in by_peak)
    typical = next(peak for (peak, _), count in zip(by_peak, counts, strict=True) if 2 * count >= total)
    return _Evidence(total, max(one.max for one, _ in found), typical)


def _lacks(job: Measured, own: _Evidence | None, resource: str) -> str:
    """Why a job's own figures say too little; empty where they are enough."""
    if own is None or job.usage is None:
        return "nothing is measured yet"
    if job.array:
        return _unlike(own)
    if resource == "memory":
        return f"{own.runs} of {LEAST_RUNS} runs measured" if own.runs < LEAST_RUNS else ""
    hours = job.usage.pod_seconds / max(1, job.pods) / 3600
    return f"{hours:.1f} of {LEAST_SECONDS // 3600} h measured" if hours * 3600 < LEAST_SECONDS else ""


def _unlike(found: _Evidence) -> str:
    """Why runs tell nothing of others; empty where they do."""
    if found.runs < LEAST_KIN:
        return f"{found.runs} of {LEAST_KIN} runs measured"
    if found.most > ALIKE * found.typical:
        return f"its runs differ: one used {found.most / max(1, found.typical):.1f} times what the median did"
    return ""
