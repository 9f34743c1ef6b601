"""The load rule: may the cluster take more at all?

Three ways to know the load of a resource:
  1. *requests*: no levels are published, or there are no metrics and the regulator's load is that of requests. Load is
     what is requested on the nodes that count at this moment, plus starts under way. What has left since the regulator
     looked is free capacity at once.
  2. *published*: the regulator measured the load. Scavenger pods that started since the averaging of that began,
     and starts under way, come on top with their requests, because the measurement does not fully know them. So does
     what those have asked for that started minutes before, and do not use yet: the regulator says how much that is.
  3. *shut*: the measurement is missing, stale or nonsense, or the regulator says no. Nothing starts.

Percentages are turned into whole millionths (ppm) on the way in and the rule compares integers, so that equal
situations are decided equally.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from scavenger_api.levels import LevelsView, Visibility, ppm
from scavenger_api.names import (
    FALLBACK_ADMISSION_PERCENT,
    LEVELS_CONFIGMAP,
    LEVELS_RESOURCES,
    STALE_AFTER_PERIODS,
)
from scavenger_api.reasons import WaitReason
from scavenger_api.times import micros

from scavenger_admitter.core.waits import Wait

PPM: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Level:
    """What the regulator publishes of one resource, in percent of allocatable.

    Attributes:
        load: measured use.
        admission: new jobs start only below this.
        gives_way: part of the load that is CPU on reclaimed capacity; it keeps no job from starting.
        ramping: beyond the load, what pods in their first minutes have asked for and do not use yet.
        used: of what the other scavenger pods have asked for, how much they use; None where that is not known.
        kept: what jobs leave free on the largest nodes for regular pods that may come.
    """

    load: float
    admission: float
    gives_way: float = 0.0
    ramping: float = 0.0
    used: float | None = None
    kept: float = 0.0


@dataclass(frozen=True, slots=True)
class LoadRule:
    """How the load is known in this cycle. Make it with `of`, or with `fixed`, `published` or `blind`.

    Attributes:
        admission_ppm: level per resource below which jobs start, in millionths of allocatable.
        load_ppm: measured load per resource, in millionths, with what is ramping; None: the load is what is requested.
        gives_way_ppm: part of it that keeps no job from starting.
        used_ppm: of what scavenger pods past their first minutes have asked for, what they use, where that is known.
        kept_ppm: what jobs leave free on the largest nodes for regular pods that may come, where that is anything.
        observed_at: pods started since then, microseconds since the epoch, are not fully in what is published: the time
            of the oldest sample, or when its averaging began; None where nothing is.
        measured_at: pods started after that, microseconds since the epoch, are not in the measured load at all: the
            time of the oldest sample; None with `load_ppm`. The same as `observed_at` where samples are of a moment.
        counted_with_candidate: whether the load is counted with the job that asks, or without it.
        closed_nodes: nodes at or above a level of their own; no new job starts there.
        crowded_nodes: millicores of reclaimed CPU that nodes really have to offer where more than that is placed.
        headroom: thousandths of CPU and memory left up to the levels that nodes have of their own, by node.
        shut: why nothing starts in the default pool, if so.
        pools: the same of the pools with levels of their own, by name; all else is of the default pool.
    """

    admission_ppm: tuple[tuple[str, int], ...] = ()
    load_ppm: tuple[tuple[str, int], ...] | None = None
    gives_way_ppm: tuple[tuple[str, int], ...] = ()
    used_ppm: tuple[tuple[str, int], ...] = ()
    kept_ppm: tuple[tuple[str, int], ...] = ()
    observed_at: int | None = None
    measured_at: int | None = None
    counted_with_candidate: bool = True
    closed_nodes: frozenset[str] = frozenset()
    crowded_nodes: Mapping[str, int] = field(default_factory=dict)
    headroom: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    shut: Wait | None = None
    pools: Mapping[str, LoadRule] = field(default_factory=dict)

    @property
    def nothing_starts(self) -> Wait | None:
        """Why nothing starts in any pool, if so: what the default pool says."""
        return None if any(pool.shut is None for pool in self.pools.values()) else self.shut

    @property
    def shut_pools(self) -> dict[str, Wait]:
        """Why nothing starts in a pool, by name; the default pool has none."""
        of_each = {"": self.shut, **{name: pool.shut for name, pool in self.pools.items()}}
        return {name: shut for name, shut in of_each.items() if shut is not None}

    @property
    def kept(self) -> dict[str, dict[str, int]]:
        """`kept_ppm` by pool, the default pool with no name; empty where no pool keeps anything."""
        of_each = {"": dict(self.kept_ppm), **{name: dict(pool.kept_ppm) for name, pool in self.pools.items()}}
        return of_each if any(of_each.values()) else {}

    @property
    def open(self) -> LoadRule:
        """The rule of the default pool; where that is shut, of the first pool that is not."""
        return next((rule for rule in (self, *self.pools.values()) if rule.shut is None), self)

    @property
    def measured_since(self) -> int | None:
        """What has gone since then is in the measured load, microseconds since the epoch; None: the load is what is
        requested, and that is known at every moment."""
        return None if self.load_ppm is None else self.observed_at

    @classmethod
    def fixed(
        cls,
        percent: float = FALLBACK_ADMISSION_PERCENT,
        *,
        resources: Iterable[str] = LEVELS_RESOURCES,
        counted_with_candidate: bool = True,
    ) -> LoadRule:
        """Without a regulator: one level, in percent, on what is requested."""
        level = ppm(percent)
        if level is None or level > PPM:
            return cls.blind(f"the configured admission threshold {percent} is not a percentage")
        return cls(
            admission_ppm=tuple((name, level) for name in sorted(resources)),
            counted_with_candidate=counted_with_candidate,
        )

    @classmethod
    def published(
        cls,
        levels: Mapping[str, Level],
        *,
        observed_at: int | None,
        now: int,
        period_seconds: float,
        stale_after: float = 0.0,
        unseen_since: int | None = None,
        admit: bool = True,
        state: str = "",
        closed_nodes: frozenset[str] = frozenset(),
        crowded_nodes: Mapping[str, int] | None = None,
        headroom: Mapping[str, tuple[int, int]] | None = None,
        on_requests: bool = False,
        counted_with_candidate: bool = True,
    ) -> LoadRule:
        """The levels a regulator publishes; `blind` where they cannot be relied on.

        Args:
            levels: load and admission threshold per resource, percent.
            observed_at: time of the oldest sample used, microseconds since the epoch.
            now: microseconds since the epoch.
            period_seconds: how often the regulator publishes.
            stale_after: seconds that make the levels stale; 0 is three periods.
            unseen_since: when the averaging of that sample began, where it is an average; microseconds since the epoch.
            admit: the regulator's own word.
            state: the regulator's state; in `Blind` nothing starts.
            closed_nodes: see the class.
            crowded_nodes: see the class.
            headroom: see the class.
            on_requests: there are no metrics: its load is that of requests, as they were when it looked.
            counted_with_candidate: see the class.
        """
        lasts = stale_after or STALE_AFTER_PERIODS * period_seconds
        why = _unreliable(levels, observed_at, now, lasts, state)
        if why is not None or observed_at is None:
            return cls.blind(why or "")
        if not admit:
            return cls(shut=Wait(WaitReason.ADMIT_FALSE, "the regulator admits no new jobs for now (admit is false)"))
        found = cls(
            admission_ppm=tuple((name, ppm(levels[name].admission) or 0) for name in sorted(levels)),
            # A regulator whose clock runs ahead would hide the pods started since; they must be counted.
            observed_at=min(observed_at, now, *(() if unseen_since is None else (unseen_since,))),
            closed_nodes=closed_nodes,
            crowded_nodes=crowded_nodes or {},
            headroom=headroom or {},
            kept_ppm=tuple((name, kept) for name in sorted(levels) if (kept := ppm(levels[name].kept))),
            counted_with_candidate=counted_with_candidate,
        )
        if on_requests:
            return found
        return replace(
            found,
            load_ppm=tuple((name, ppm(levels[name].load + levels[name].ramping) or 0) for name in sorted(levels)),
            gives_way_ppm=tuple((name, ppm(levels[name].gives_way) or 0) for name in sorted(levels)),
            used_ppm=tuple((name, used) for name in sorted(levels) if (used := _used(levels[name])) is not None),
            measured_at=min(observed_at, now),
        )

    @classmethod
    def of(
        cls,
        view: LevelsView,
        now: int,
        *,
        fallback_percent: float = FALLBACK_ADMISSION_PERCENT,
        counted_with_candidate: bool = True,
    ) -> LoadRule:
        """The rule at `now` (microseconds since the epoch) from what the regulator publishes, or from its absence."""
        if view.visibility is Visibility.ABSENT:
            return cls.fixed(fallback_percent, counted_with_candidate=counted_with_candidate)
        rule = cls._of_pool(view, now, counted_with_candidate=counted_with_candidate)
        if not view.pools:
            return rule
        pools = {
            name: cls._of_pool(pool, now, counted_with_candidate=counted_with_candidate)
            for name, pool in view.pools.items()
        }
        return replace(
            rule,
            pools=pools,
            # Of single nodes they are true whatever the default pool is at, and nodes of others are among them.
            closed_nodes=view.closed_nodes,
            crowded_nodes=view.crowded_nodes,
            headroom=view.headroom,
        )

    @classmethod
    def _of_pool(cls, view: LevelsView, now: int, *, counted_with_candidate: bool) -> LoadRule:
        if view.visibility is not Visibility.FRESH or view.levels is None or view.observed_at is None:
            return cls.blind(view.reason)
        levels = {
            resource: Level(
                load,
                admission,
                gives_way=view.gives_way(resource),
                ramping=view.ramping(resource),
                used=view.used_of_requests(resource),
                kept=view.kept(resource),
            )
            for resource in LEVELS_RESOURCES
            if (load := view.load(resource)) is not None and (admission := view.admission(resource)) is not None
        }
        return cls.published(
            levels,
            observed_at=micros(view.observed_at),
            unseen_since=micros(view.unseen_since or view.observed_at),
            now=now,
            period_seconds=view.levels.period_seconds,
            stale_after=view.levels.stale_after,
            admit=view.admit,
            state=view.levels.state,
            closed_nodes=view.closed_nodes,
            crowded_nodes=view.crowded_nodes,
            headroom=view.headroom,
            on_requests=view.on_requests,
            counted_with_candidate=counted_with_candidate,
        )

    @classmethod
    def blind(cls, why: str) -> LoadRule:
        """Nothing starts, because the load is not known."""
        return cls(shut=Wait(WaitReason.BLIND, f"the load of the cluster is not known, so nothing starts: {why}"))


def _unreliable(levels: Mapping[str, Level], observed_at: int | None, now: int, lasts: float, state: str) -> str | None:
    if state == "Blind":
        return "the regulator has no fresh measurement (state is Blind)"
    if observed_at is None or not math.isfinite(lasts) or lasts <= 0:
        return f"{LEVELS_CONFIGMAP} does not say when it was measured"
    # Either way round: a measurement from the far future would never grow stale.
    if abs(now - observed_at) > lasts * 1_000_000:
        return f"the levels in {LEVELS_CONFIGMAP} are older than {lasts:.0f} s"
    for name in sorted({*LEVELS_RESOURCES, *levels}):
        level = levels.get(name)
        admission = ppm(level.admission) if level else None
        load = ppm(level.load + level.ramping) if level else None
        if load is None or admission is None or admission > PPM:
            return f"the published levels of {name} are no percentages"
    return None


def _used(level: Level) -> int | None:
    used = None if level.used is None else ppm(level.used)
    return None if used is None else min(PPM, used)


@dataclass(frozen=True, slots=True)
class LoadLimit:
    """Load of one resource over the nodes that count, and the level it must stay under.

    Attributes:
        resource: its name.
        allocatable: sum over the nodes that count (millicores, bytes, units).
        requested: what counts with its requests: all of it without measurements, else what those do not know
            yet.
        load_ppm: measured load in millionths of allocatable; 0 without measurements.
        admission_ppm: level in millionths of allocatable.
        gives_way_ppm: part of the measured load that is used but not in the way of a job that starts.
        pool: whose nodes these are; empty for the default pool.
    """

    resource: str
    allocatable: int
    requested: int
    load_ppm: int
    admission_ppm: int
    gives_way_ppm: int = 0
    pool: str = ""

    @property
    def firm_ppm(self) -> int:
        """The measured load without what gives way."""
        return max(0, self.load_ppm - self.gives_way_ppm)

    def under(self, extra: int = 0) -> bool:
        """Whether the load with `extra` requested on top is strictly below the level (of nothing, never)."""
        taken = self.firm_ppm * self.allocatable + (self.requested + extra) * PPM
        return taken < self.admission_ppm * self.allocatable

    def most(self, each: int, count: int) -> int:
        """How many of `count` equal pods that count as `each` leave the load strictly below the level."""
        left = (self.admission_ppm - self.firm_ppm) * self.allocatable - self.requested * PPM
        return count if each <= 0 < left else max(0, min(count, (left - 1) // (each * PPM))) if each > 0 else 0

    def ppm(self, extra: int = 0) -> int:
        """The load with `extra` on top, in millionths, rounded down; for people, decisions use `under`."""
        if not self.allocatable:
            return PPM
        return self.firm_ppm + (self.requested + extra) * PPM // self.allocatable

    def plus(self, extra: int) -> LoadLimit:
        """The limit after `extra` has been given away."""
        return replace(self, requested=self.requested + extra)
