"""The published levels: the ConfigMap `scavenger-levels`, read and written in one place.

The regulator writes it, the admitter, the prioritizer and kubectl-sj read it. A reader must be safe whatever
stands in it, as users with the right to edit a ConfigMap can write nonsense into this one. So
`PublishedLevels.parse` never raises: what cannot be understood is Blind, with the reason in words, and Blind
means "change nothing".

Most readers want `LevelsView`. It adds what depends on the moment of reading (stale or not) and on whether the
ConfigMap is there (components are installed one by one).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from scavenger_api import names
from scavenger_api.levels_text import (
    AVERAGED_SINCE,
    CLOSED_NODES,
    CROWDED_NODES,
    DEFAULT_POOL,
    GIVES_WAY,
    KEPT,
    MESSAGE,
    MOST_POOLS,
    NODE_HEADROOM,
    POOL,
    POOL_IGNORES,
    RAMPING,
    REQUESTS_SOURCE,
    SOURCE,
    STALE_AFTER,
    UNTIL,
    USED_OF_REQUESTS,
    GarbageError,
    number,
    read_crowded,
    read_headroom,
    read_number,
    read_optional,
    write_headroom,
)
from scavenger_api.times import format_time, parse_time

MAX_PERIOD_SECONDS: Final = 86_400.0
ORDER_TOLERANCE: Final = 0.01
"""Percentage points by which rounding may put two levels out of order."""


class LevelsState(StrEnum):
    """What the regulator is doing."""

    FILLING = "Filling"
    """Load under `lower`: jobs fill idle capacity."""
    SPECULATIVE = "Speculative"
    """Load between `lower` and `upper`: the preemptible percentage rises along the curve."""
    EVICTING = "Evicting"
    """Load has reached `upper` and has not come down to `lower` yet."""
    BLIND = "Blind"
    """No fresh measurement: nothing is evicted and nothing new is admitted."""


@dataclass(frozen=True, slots=True)
class ResourceLevels:
    """Load of a resource, its statistics and the three levels, in percent of what the counted nodes can allocate.

    mean, stdev: of the regular load over the window, None before there is history. gives_way, ramping: see above.
    used_of_requests: percent, see USED_OF_REQUESTS; None where no use is known. kept: see KEPT.
    """

    load: float
    lower: float
    admission: float
    upper: float
    mean: float | None = None
    stdev: float | None = None
    gives_way: float = 0.0
    ramping: float = 0.0
    used_of_requests: float | None = None
    kept: float = 0.0


@dataclass(frozen=True, slots=True)
class PublishedLevels:
    """The content of `scavenger-levels`.

    preemptible_percentage, reserve: percent. period_seconds: how often the regulator measures. observed_at:
    the oldest sample used; None only when Blind. averaged_since: when its averaging began; None where samples are of a
    moment. crowded_nodes: millicores by node, see CROWDED_NODES. headroom: thousandths of CPU and memory by node, see
    NODE_HEADROOM. message: why it is Blind, or what the regulator is at. source: see SOURCE; "" where not said.
    until: see UNTIL. stale_after_seconds: see STALE_AFTER; 0 where three periods are meant. pools: the same of pools
    with levels of their own, by name; the rest is of the default pool, see POOL. pool_ignores: see POOL_IGNORES.
    """

    state: LevelsState
    preemptible_percentage: float | None = None
    admit: bool = False
    reserve: float | None = None
    observed_at: datetime | None = None
    period_seconds: float = 0.0
    resources: Mapping[str, ResourceLevels] = field(default_factory=lambda: MappingProxyType({}))
    closed_nodes: frozenset[str] = frozenset()
    crowded_nodes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    message: str = ""
    averaged_since: datetime | None = None
    headroom: Mapping[str, tuple[int, int]] = field(default_factory=lambda: MappingProxyType({}))
    source: str = ""
    until: datetime | None = None
    stale_after_seconds: float = 0.0
    pools: Mapping[str, PublishedLevels] = field(default_factory=lambda: MappingProxyType({}))
    pool_ignores: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, data: Mapping[str, str]) -> PublishedLevels:
        """What the ConfigMap says; Blind with a message when it says nothing sensible. Never raises.

        Each pool is judged by itself. Where nothing sensible is said of the default pool, no pool is believed.
        """
        try:
            found = _parse(data)
        except GarbageError as garbage:
            return cls(LevelsState.BLIND, message=f"{names.LEVELS_CONFIGMAP} is unreadable: {garbage}")
        pools = _read_pools(data)
        if not pools:
            return found
        ignored = frozenset(data.get(POOL_IGNORES, "").split())
        return replace(found, pools=MappingProxyType(pools), pool_ignores=ignored)

    def to_data(self) -> dict[str, str]:
        """The `data` of the ConfigMap: percentages to two decimals, times to the second (rounded down)."""
        data = {
            names.LEVELS_STATE: self.state.value,
            names.LEVELS_ADMIT: "true" if self.admit else "false",
            names.LEVELS_PERIOD_SECONDS: number(self.period_seconds),
        }
        if self.preemptible_percentage is not None:
            data[names.LEVELS_PREEMPTIBLE_PERCENTAGE] = number(self.preemptible_percentage)
        if self.reserve is not None:
            data[names.LEVELS_RESERVE] = number(self.reserve)
        if self.observed_at is not None:
            data[names.LEVELS_OBSERVED_AT] = format_time(self.observed_at)
        times = {AVERAGED_SINCE: self.averaged_since, UNTIL: self.until}
        data |= {key: format_time(at) for key, at in times.items() if at is not None}
        if self.stale_after_seconds:
            data[STALE_AFTER] = number(self.stale_after_seconds)
        for resource, levels in self.resources.items():
            for name in names.LEVELS_PER_RESOURCE:
                value: float | None = getattr(levels, name)
                if value is not None:
                    data[f"{name}.{resource}"] = number(value)
            amounts = {GIVES_WAY: levels.gives_way, RAMPING: levels.ramping, KEPT: levels.kept}
            points = {name: number(amount) for name, amount in amounts.items()}
            data |= {f"{name}.{resource}": shown for name, shown in points.items() if shown != "0"}
            if levels.used_of_requests is not None:
                data[f"{USED_OF_REQUESTS}.{resource}"] = number(levels.used_of_requests)
        lists = {
            CLOSED_NODES: " ".join(sorted(self.closed_nodes)),
            POOL_IGNORES: " ".join(sorted(self.pool_ignores)),
            CROWDED_NODES: " ".join(f"{node}={cpu}" for node, cpu in sorted(self.crowded_nodes.items())),
            NODE_HEADROOM: write_headroom(self.headroom),
            MESSAGE: self.message,
            SOURCE: self.source,
        }
        data |= {key: text for key, text in lists.items() if text}
        for name, pool in self.pools.items():
            data |= {f"{POOL}{name}.{key}": text for key, text in pool.to_data().items()}
        return data

    def stale(self, now: datetime) -> bool:
        """Whether `observedAt` is further from `now` than `stale_after`; true where there is none.

        Further in either direction: a regulator whose clock runs far ahead could otherwise be dead for as
        long before it was noticed. A future time within the tolerance is normal clock skew and counts as
        fresh.
        """
        if self.observed_at is None:
            return True
        return abs(now - self.observed_at) > timedelta(seconds=self.stale_after)

    @property
    def stale_after(self) -> float:
        """Seconds after `observed_at` from which no reader relies on the levels."""
        return self.stale_after_seconds or names.STALE_AFTER_PERIODS * self.period_seconds

    # Plain access per resource, in percent; None where the resource is not published.

    def load(self, resource: str) -> float | None:
        """Use divided by allocatable."""
        levels = self.resources.get(resource)
        return levels.load if levels else None

    def mean(self, resource: str) -> float | None:
        """Mean of the regular load over the window."""
        levels = self.resources.get(resource)
        return levels.mean if levels else None

    def stdev(self, resource: str) -> float | None:
        """Standard deviation of the regular load over the window."""
        levels = self.resources.get(resource)
        return levels.stdev if levels else None

    def lower(self, resource: str) -> float | None:
        """Where filling ends and eviction stops."""
        levels = self.resources.get(resource)
        return levels.lower if levels else None

    def upper(self, resource: str) -> float | None:
        """Where eviction begins."""
        levels = self.resources.get(resource)
        return levels.upper if levels else None

    def admission(self, resource: str) -> float | None:
        """Below it new jobs may start."""
        levels = self.resources.get(resource)
        return levels.admission if levels else None


class Visibility(StrEnum):
    """What a reader of the levels is looking at."""

    ABSENT = "Absent"
    """No ConfigMap: no regulator here, work with the fixed levels."""
    FRESH = "Fresh"
    """Act on it."""
    STALE = "Stale"
    """The regulator is silent: start nothing new, keep the last classes."""
    BLIND = "Blind"
    """The regulator says that it sees nothing, or the content is garbage: the same."""


@dataclass(frozen=True, slots=True)
class LevelsView:
    """The levels at one moment, as the admitter and the prioritizer obey them.

    reason: in words, why `visibility` is not Fresh. pools: the same of the pools with levels of their own, by name.
    """

    visibility: Visibility
    levels: PublishedLevels | None = None
    reason: str = ""
    pools: Mapping[str, LevelsView] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, data: Mapping[str, str] | None, now: datetime) -> LevelsView:
        """The view of a ConfigMap's `data`, None where the ConfigMap does not exist. Never raises."""
        if data is None:
            return cls(Visibility.ABSENT, reason=f"there is no {names.LEVELS_CONFIGMAP}: fixed levels")
        levels = PublishedLevels.parse(data)
        view = cls._at(levels, now)
        return replace(view, pools={n: cls._at(one, now) for n, one in levels.pools.items()}) if levels.pools else view

    @classmethod
    def _at(cls, levels: PublishedLevels, now: datetime) -> LevelsView:
        if levels.state is LevelsState.BLIND:
            return cls(Visibility.BLIND, levels, levels.message or "the regulator has no fresh measurement")
        if levels.stale(now):
            age = (now - levels.observed_at).total_seconds() if levels.observed_at else math.inf
            return cls(
                Visibility.STALE,
                levels,
                f"the levels were observed {age:.0f} s ago, stale after {levels.stale_after:.0f} s",
            )
        return cls(Visibility.FRESH, levels)

    def of_pool(self, name: str) -> LevelsView:
        """The levels of a pool (`scavenger_domain.nodes.pool_of`): its own, else those of the default pool."""
        return self.pools.get(name, self)

    @property
    def pool_ignores(self) -> frozenset[str]:
        """What tells no pools of nodes apart, as the regulator is set (`scavenger_domain.nodes.pool_of`)."""
        return self.levels.pool_ignores if self.levels is not None else frozenset()

    @property
    def unmeasured(self) -> str:
        """Why nothing new starts for want of a fresh measurement, without its age; "" where that is not so."""
        if self.visibility is Visibility.BLIND:
            return self.reason
        if self.visibility is not Visibility.STALE or self.levels is None:
            return ""
        seen = format_time(self.levels.observed_at) if self.levels.observed_at is not None else "no moment"
        return f"the levels were observed at {seen}, and no newer ones were published"

    @property
    def unmeasured_pools(self) -> dict[str, str]:
        """The same of the pools of which it is so, by name; the default pool has none where it is the only one."""
        of_each = {DEFAULT_POOL if self.pools else "": self, **self.pools}
        return {name: reason for name, view in of_each.items() if (reason := view.unmeasured)}

    @property
    def admit(self) -> bool:
        """Whether any new job may start (below the admission threshold)."""
        if self.visibility is Visibility.ABSENT:
            return True
        return self.visibility is Visibility.FRESH and self.levels is not None and self.levels.admit

    @property
    def cooldown_until(self) -> datetime | None:
        """When the cool-down ends in which nothing may start; None where there is none, or its end is not known."""
        if self.visibility is not Visibility.FRESH or self.levels is None or self.levels.admit:
            return None
        return self.levels.until

    @property
    def closed(self) -> str:
        """Why fresh levels let nothing start, to follow a colon; "" where they do, or where it is not said."""
        if self.visibility is not Visibility.FRESH or self.levels is None or self.levels.admit:
            return ""
        if self.cooldown_until is not None:
            return f"cool-down after interruptions until {format_time(self.cooldown_until)}"
        if self.levels.state is LevelsState.EVICTING:
            return self.levels.message or "jobs are being evicted until the load has come down"
        return self.levels.message

    @property
    def on_requests(self) -> bool:
        """Whether the admission threshold applies to requests as they are now, because real use is not measured."""
        if self.visibility is Visibility.ABSENT:
            return True
        return self.visibility is Visibility.FRESH and self.levels is not None and self.levels.source == REQUESTS_SOURCE

    @property
    def observed_at(self) -> datetime | None:
        """When the load was measured; None without fresh levels."""
        return self.levels.observed_at if self.visibility is Visibility.FRESH and self.levels else None

    @property
    def unseen_since(self) -> datetime | None:
        """Scavenger pods started after this moment are not, or not fully, in the load; None without fresh levels."""
        if self.observed_at is None or self.levels is None or self.levels.averaged_since is None:
            return self.observed_at
        return min(self.observed_at, self.levels.averaged_since)

    @property
    def preemptible_percentage(self) -> float | None:
        """Percent of the running jobs to be preemptible; None: keep the classes as they are."""
        if self.visibility is Visibility.ABSENT:
            return names.FALLBACK_PREEMPTIBLE_PERCENT
        return self.levels.preemptible_percentage if self.visibility is Visibility.FRESH and self.levels else None

    @property
    def closed_nodes(self) -> frozenset[str]:
        """Nodes at or above a level of their own; start nothing new there."""
        return self.levels.closed_nodes if self._names_nodes and self.levels else frozenset()

    @property
    def crowded_nodes(self) -> Mapping[str, int]:
        """Millicores of reclaimed CPU that nodes really have to offer where more than that is placed, by node."""
        return self.levels.crowded_nodes if self._names_nodes and self.levels else {}

    @property
    def headroom(self) -> Mapping[str, tuple[int, int]]:
        """Thousandths of CPU and memory left up to the levels that nodes have of their own, by node."""
        return self.levels.headroom if self._names_nodes and self.levels else {}

    @property
    def _names_nodes(self) -> bool:
        """Whether what is said of single nodes holds: in any pool, as jobs may start there."""
        return any(view.visibility is Visibility.FRESH for view in (self, *self.pools.values()))

    def load(self, resource: str) -> float | None:
        """Percent in use; None where nothing fresh is known (or the resource is not measured)."""
        return self.levels.load(resource) if self.visibility is Visibility.FRESH and self.levels else None

    def gives_way(self, resource: str) -> float:
        """Points of `load` that are in the way of no start, as they give way by themselves."""
        return self._figures(resource).gives_way

    def ramping(self, resource: str) -> float:
        """Points beside `load` that are spoken for."""
        return self._figures(resource).ramping

    def used_of_requests(self, resource: str) -> float | None:
        """Percent of what scavenger pods have asked for that they use; None where that is not known."""
        return self._figures(resource).used_of_requests

    def kept(self, resource: str) -> float:
        """Percent of what the nodes can allocate that jobs leave free on the largest of them."""
        return self._figures(resource).kept

    def _figures(self, resource: str) -> ResourceLevels:
        found = self.levels.resources.get(resource) if self.visibility is Visibility.FRESH and self.levels else None
        return found or ResourceLevels(0.0, 0.0, 0.0, 0.0)

    def admission(self, resource: str) -> float | None:
        """The admission threshold in percent. None: no threshold for this resource, or no job may start (`admit`)."""
        if self.visibility is Visibility.ABSENT:
            return names.FALLBACK_ADMISSION_PERCENT if resource in names.LEVELS_RESOURCES else None
        return self.levels.admission(resource) if self.visibility is Visibility.FRESH and self.levels else None


# --- reading ------------------------------------------------------------------------------------------------


def ppm(percent: float) -> int | None:
    """Percent as whole millionths; None for what is no percentage (NaN, infinite, negative)."""
    return round(percent * 10_000) if math.isfinite(percent) and percent >= 0 else None


def _read_resource(data: Mapping[str, str], resource: str) -> ResourceLevels | None:
    if not any(f"{name}.{resource}" in data for name in names.LEVELS_PER_RESOURCE):
        return None
    levels = ResourceLevels(
        load=read_number(data, f"load.{resource}"),
        lower=read_number(data, f"lower.{resource}"),
        admission=read_number(data, f"admission.{resource}"),
        upper=read_number(data, f"upper.{resource}"),
        mean=read_optional(data, f"mean.{resource}"),
        stdev=read_optional(data, f"stdev.{resource}"),
        gives_way=read_optional(data, f"{GIVES_WAY}.{resource}") or 0.0,
        ramping=read_optional(data, f"{RAMPING}.{resource}") or 0.0,
        used_of_requests=read_optional(data, f"{USED_OF_REQUESTS}.{resource}"),
        kept=read_optional(data, f"{KEPT}.{resource}") or 0.0,
    )
    if levels.lower > levels.admission + ORDER_TOLERANCE or levels.admission > levels.upper + ORDER_TOLERANCE:
        raise GarbageError(
            f"the levels of {resource} are out of order: lower {levels.lower:g}, "
            f"admission {levels.admission:g}, upper {levels.upper:g}"
        )
    return levels


def _read_added(data: Mapping[str, str]) -> dict[str, ResourceLevels]:
    """Of metrics beside CPU and memory, which are shown and decide nothing here; what is none is left out."""
    found = {}
    for resource in sorted(key.removeprefix("load.") for key in data if key.startswith("load.")):
        with suppress(GarbageError):
            if resource not in names.LEVELS_RESOURCES and (levels := _read_resource(data, resource)) is not None:
                found[resource] = levels
    return found


def _read_state(data: Mapping[str, str]) -> LevelsState:
    text = data.get(names.LEVELS_STATE)
    try:
        return LevelsState(text or "")
    except ValueError:
        raise GarbageError(f"{names.LEVELS_STATE} is {text!r}, not one of {', '.join(LevelsState)}") from None


def _read_admit(data: Mapping[str, str]) -> bool:
    text = data.get(names.LEVELS_ADMIT)
    if text not in ("true", "false"):
        raise GarbageError(f"{names.LEVELS_ADMIT} is {text!r}, not true or false")
    return text == "true"


def _read_time(data: Mapping[str, str]) -> datetime:
    text = data.get(names.LEVELS_OBSERVED_AT)
    observed_at = parse_time(text)
    if observed_at is None:
        raise GarbageError(f"{names.LEVELS_OBSERVED_AT} is {text!r}, not an RFC 3339 time")
    return observed_at


def _parse(data: Mapping[str, str]) -> PublishedLevels:
    state = _read_state(data)
    if state is LevelsState.BLIND:  # the regulator saying so itself: nothing else has to be there
        return PublishedLevels(
            state,
            message=data.get(MESSAGE, ""),
            observed_at=_optional_time(data),
            closed_nodes=frozenset(data.get(CLOSED_NODES, "").split()),
            crowded_nodes=MappingProxyType(read_crowded(data)),
            headroom=read_headroom(data.get(NODE_HEADROOM, "")),
        )
    resources = {
        resource: levels
        for resource in names.LEVELS_RESOURCES
        if (levels := _read_resource(data, resource)) is not None
    }
    if not resources:
        raise GarbageError("no resource has levels")
    resources |= _read_added(data)
    period = read_number(data, names.LEVELS_PERIOD_SECONDS, high=MAX_PERIOD_SECONDS)
    if period <= 0:
        raise GarbageError(f"{names.LEVELS_PERIOD_SECONDS} is 0")
    return PublishedLevels(
        state=state,
        preemptible_percentage=read_number(data, names.LEVELS_PREEMPTIBLE_PERCENTAGE),
        admit=_read_admit(data),
        reserve=read_optional(data, names.LEVELS_RESERVE),
        observed_at=_read_time(data),
        period_seconds=period,
        stale_after_seconds=read_number(data, STALE_AFTER, high=MAX_PERIOD_SECONDS) if STALE_AFTER in data else 0.0,
        resources=MappingProxyType(resources),
        closed_nodes=frozenset(data.get(CLOSED_NODES, "").split()),
        crowded_nodes=MappingProxyType(read_crowded(data)),
        message=data.get(MESSAGE, ""),
        averaged_since=parse_time(data.get(AVERAGED_SINCE)),
        headroom=read_headroom(data.get(NODE_HEADROOM, "")),
        source=data.get(SOURCE, ""),
        until=parse_time(data.get(UNTIL)),
    )


def _read_pools(data: Mapping[str, str]) -> dict[str, PublishedLevels]:
    """The pools with levels of their own, MOST_POOLS at most; one that says nothing sensible is Blind."""
    found: dict[str, dict[str, str]] = {}
    for key, text in data.items():
        if key.startswith(POOL):
            name, _, rest = key.removeprefix(POOL).partition(".")
            found.setdefault(name, {})[rest] = text
    return {name: _read_pool(name, found[name]) for name in sorted(found)[:MOST_POOLS]}


def _read_pool(name: str, data: Mapping[str, str]) -> PublishedLevels:
    try:
        return _parse(data)
    except GarbageError as garbage:
        return PublishedLevels(
            LevelsState.BLIND, message=f"{POOL}{name} in {names.LEVELS_CONFIGMAP} is unreadable: {garbage}"
        )


def _optional_time(data: Mapping[str, str]) -> datetime | None:
    return parse_time(data.get(names.LEVELS_OBSERVED_AT))
