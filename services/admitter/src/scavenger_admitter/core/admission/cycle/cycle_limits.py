"""The load of every limited resource of every pool during one cycle, and the threshold that it stays under.

Two views are kept, as of capacity (`cycle_usage.py`): *now*, and *soon*, once the pods that were told to go have left.
Both only rise within a cycle, but for what victims give back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scavenger_api.reasons import WaitReason

from scavenger_admitter.core.admission.load import LoadLimit
from scavenger_admitter.core.admission.snapshot import Candidate
from scavenger_admitter.core.waits import Wait, percent

ByPool = Mapping[str, int]
"""How many pods of a job come to each pool."""

Amounts = Mapping[tuple[str, str], int]
"""Amounts by pool and resource."""


class CycleLimits:
    """What the load rule leaves to give.

    Args:
        limits: of the snapshot, one for each limited resource of a pool.
        released: what the load still shows of pods that are terminating, or have left since.
        with_candidate: whether the load is counted with the job that asks.

    Attributes:
        soon: the load once these pods have left, promises included.
        falls: whether it is lower then.
    """

    def __init__(self, limits: Iterable[LoadLimit], released: Amounts, *, with_candidate: bool) -> None:
        self._now = list(limits)
        self.soon = self.without(released, self._now)
        self.falls = self.soon != self._now
        self._with_candidate = with_candidate
        self._by_pool: dict[str, list[LoadLimit]] = {}
        self._full: dict[str, Wait] = {}
        self._look()

    def without(self, amounts: Amounts, limits: Iterable[LoadLimit] | None = None) -> list[LoadLimit]:
        """The load when these amounts have left; of `soon`, where no other limits are given."""
        given = self.soon if limits is None else limits
        return [limit.plus(-amounts.get((limit.pool, limit.resource), 0)) for limit in given]

    def fits(self, candidate: Candidate, limits: Iterable[LoadLimit], pods: ByPool) -> bool:
        """Whether the load of the pools that a job comes to stays under its level; counted with or without the job, as
        configured."""
        return all(limit.under(self._extra(candidate, limit, pods)) for limit in limits if limit.pool in pods)

    def refusal(self, candidate: Candidate, pool: str = "") -> Wait | None:
        """Why the load of a pool keeps a job from starting there, if so."""
        if pool in self._full:
            return self._full[pool]
        count = candidate.parallelism if self._with_candidate else 0
        for limit in self._by_pool.get(pool, ()):
            extra = candidate.shape.counts(limit.resource) * count
            if not limit.under(extra):
                return _would_pass_level(limit, extra)
        return None

    def refusals(self, candidate: Candidate, pools: Iterable[str]) -> dict[str, Wait]:
        """The same of those of some pools of which it is so."""
        found = {}
        for pool in pools:
            wait = self.refusal(candidate, pool)
            if wait is not None:
                found[pool] = wait
        return found

    def most(self, candidate: Candidate, pool: str, limits: Iterable[LoadLimit] | None = None) -> int:
        """How many pods of a job still fit under the load limits of a pool: now and soon, or under the limits given."""
        count, given = candidate.parallelism, self._by_pool.get(pool, ()) if limits is None else limits
        for limit in given:
            if limit.pool == pool:
                each = candidate.shape.counts(limit.resource) if self._with_candidate else 0
                count = limit.most(each, count)
        return count

    def take(self, candidate: Candidate, pods: ByPool, *, starts: bool) -> None:
        """Count a job that starts now, or one that is promised to start when the terminating pods have left."""
        if starts:
            self._now = _with(self._now, candidate, pods)
        self.soon = _with(self.soon, candidate, pods)
        self._look()

    def ppm(self) -> tuple[tuple[str, int], ...]:
        """The load per limited resource, in millionths of allocatable; of other pools than the default pool by
        `resource/pool`."""
        return tuple((f"{one.resource}/{one.pool}" if one.pool else one.resource, one.ppm()) for one in self._now)

    def _extra(self, candidate: Candidate, limit: LoadLimit, pods: ByPool) -> int:
        return candidate.shape.counts(limit.resource) * pods.get(limit.pool, 0) if self._with_candidate else 0

    def _look(self) -> None:
        """Sort both views by pool, so that a job looks at the limits of the pools that it may run in and at no others.
        Note why no job can start in a pool any more, however small: the load is at its threshold without a new job."""
        self._by_pool, self._full = {}, {}
        for limit in (*self._now, *self.soon):
            self._by_pool.setdefault(limit.pool, []).append(limit)
            if limit.pool not in self._full and not limit.under():
                self._full[limit.pool] = _at_level(limit)


def _with(limits: list[LoadLimit], candidate: Candidate, pods: ByPool) -> list[LoadLimit]:
    counts = candidate.shape.counts
    return [
        limit.plus(counts(limit.resource) * pods[limit.pool]) if pods.get(limit.pool) else limit for limit in limits
    ]


def _of_pool(limit: LoadLimit) -> str:
    return f" of pool {limit.pool}" if limit.pool else ""


def _at_level(limit: LoadLimit) -> Wait:
    if limit.allocatable == 0:
        return Wait(
            WaitReason.ADMISSION_LEVEL,
            f"no node that counts (ready, not cordoned, not tainted) offers {limit.resource}{_of_pool(limit)}",
            limit.resource,
        )
    return Wait(
        WaitReason.ADMISSION_LEVEL,
        lambda: (
            f"{limit.resource} load{_of_pool(limit)} is {percent(limit.ppm())}; jobs start while it is under the"
            f" admission threshold of {percent(limit.admission_ppm)}"
        ),
        limit.resource,
    )


def _would_pass_level(limit: LoadLimit, extra: int) -> Wait:
    return Wait(
        WaitReason.ADMISSION_LEVEL,
        lambda: (
            f"{limit.resource} load{_of_pool(limit)} would be {percent(limit.ppm(extra))}; it has to stay under the"
            f" admission threshold of {percent(limit.admission_ppm)}"
        ),
        limit.resource,
    )
