"""The load of every limited resource during one cycle, and the level that it stays under.

Two views are kept, as of room (`cycle_usage.py`): *now*, and *soon*, once the pods that were told to go have left. Both
only rise within a cycle, but for what victims give back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scavenger_api.reasons import WaitReason

from scavenger_admitter.core.admission.load import LoadLimit
from scavenger_admitter.core.admission.snapshot import Candidate
from scavenger_admitter.core.waits import Wait, percent


class CycleLimits:
    """What the load rule leaves to give.

    Args:
        limits: of the snapshot, one for each limited resource.
        released: what the load still shows of pods that are terminating, or have left since, by resource.
        with_candidate: whether the load is counted with the job that asks.

    Attributes:
        soon: the load once these pods have left, promises included.
        falls: whether it is lower then.
    """

    def __init__(self, limits: Iterable[LoadLimit], released: Mapping[str, int], *, with_candidate: bool) -> None:
        self._now = list(limits)
        self.soon = self.without(released, self._now)
        self.falls = self.soon != self._now
        self._with_candidate = with_candidate
        self._full = self._find_full()

    def without(self, amounts: Mapping[str, int], limits: Iterable[LoadLimit] | None = None) -> list[LoadLimit]:
        """The load when these amounts have left; of `soon`, where no other limits are given."""
        return [limit.plus(-amounts.get(limit.resource, 0)) for limit in (self.soon if limits is None else limits)]

    def fits(self, candidate: Candidate, limits: Iterable[LoadLimit]) -> bool:
        """Whether the load stays under its level with this job; counted with or without it, as configured."""
        return all(limit.under(self._extra(candidate, limit.resource)) for limit in limits)

    def refusal(self, candidate: Candidate) -> Wait | None:
        """Why the load keeps a job from starting, if so."""
        if self._full is not None:
            return self._full
        for limit in (*self._now, *self.soon):
            extra = self._extra(candidate, limit.resource)
            if not limit.under(extra):
                return _would_pass_level(limit, extra)
        return None

    def take(self, candidate: Candidate, *, starts: bool) -> None:
        """Count a job that starts now, or one that is promised to start when the terminating pods have left."""
        if starts:
            self._now = _with(self._now, candidate)
        self.soon = _with(self.soon, candidate)
        self._full = self._find_full()

    def ppm(self) -> tuple[tuple[str, int], ...]:
        """The load per limited resource, in millionths of allocatable."""
        return tuple((limit.resource, limit.ppm()) for limit in self._now)

    def _extra(self, candidate: Candidate, resource: str) -> int:
        return candidate.shape.counts(resource) * candidate.parallelism if self._with_candidate else 0

    def _find_full(self) -> Wait | None:
        """Why nobody can start any more, however small: the load is at its level without anybody new."""
        return next((_at_level(limit) for limit in (*self._now, *self.soon) if not limit.under()), None)


def _with(limits: list[LoadLimit], candidate: Candidate) -> list[LoadLimit]:
    return [limit.plus(candidate.shape.counts(limit.resource) * candidate.parallelism) for limit in limits]


def _at_level(limit: LoadLimit) -> Wait:
    if limit.allocatable == 0:
        return Wait(
            WaitReason.ADMISSION_LEVEL,
            f"no node that counts (ready, not cordoned, not tainted) offers {limit.resource}",
            limit.resource,
        )
    return Wait(
        WaitReason.ADMISSION_LEVEL,
        lambda: (
            f"{limit.resource} load is {percent(limit.ppm())}; jobs start while it is under the"
            f" admission level of {percent(limit.admission_ppm)}"
        ),
        limit.resource,
    )


def _would_pass_level(limit: LoadLimit, extra: int) -> Wait:
    return Wait(
        WaitReason.ADMISSION_LEVEL,
        lambda: (
            f"{limit.resource} load would be {percent(limit.ppm(extra))}; it has to stay under the"
            f" admission level of {percent(limit.admission_ppm)}"
        ),
        limit.resource,
    )
