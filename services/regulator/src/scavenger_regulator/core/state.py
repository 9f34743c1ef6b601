"""What a scope carries from one period to the next, and its form as text: it must not be lost with the process.

The histories and the hysteresis live in one ConfigMap of the regulator's own. Where that is gone or garbage,
the published levels say most of it; what they cannot say is taken as what does less harm.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from scavenger_api.levels import LevelsState, PublishedLevels
from scavenger_api.times import format_micro_time, parse_time

from scavenger_regulator.core.levels import WaterLevels, ordered
from scavenger_regulator.core.snapshot import CLUSTER, POOL, of_pool

FORGET_AFTER: Final = timedelta(minutes=15)
"""A state is this old at most when it is gone on from. It is saved every ten minutes at the latest."""

OWN_TIMES: Final = (
    "evicting_since",
    "cooldown_until",
    "yielded_at",
    "waiting_since",
    "calm_since",
    "restored_at",
    "read_at",
)
"""What a state has by the regulator's own clock, and not by that of who measures."""

LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
"""When the load was last known, where a saved state does not say that."""

MAX_NAME: Final = 63
"""Characters of the name of a metric."""

MAX_BYTES: Final = 450_000
"""Half of what a ConfigMap of the regulator's holds; the other half is for histories. Some 3,000 nodes."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Evictions that were carried out and have not shown in the measurements yet.

    pods: UIDs. gone_at: when the last of them had gone, None before. until: then they count as stuck.
    """

    pods: frozenset[str]
    acted_at: datetime
    until: datetime
    gone_at: datetime | None = None

    def set_back(self, by: timedelta) -> Pending:
        """The same by a clock that was set back."""
        gone_at = None if self.gone_at is None else self.gone_at - by
        return Pending(self.pods, self.acted_at - by, self.until - by, gone_at)


@dataclass(frozen=True, slots=True)
class Saturation:
    """A CPU that is all in use hides how much of it is wanted; what shows when jobs go. Points of load.

    load: when the last plan was made, less what was leaving. freed: by its victims since. hidden: what has shown in
    this episode so far: others took what was freed, and it is all in use again.
    """

    load: float
    freed: float = 0.0
    hidden: float = 0.0

    def after(self, load: float) -> Saturation:
        """When the next plan is made: what the victims of the last one freed, and the load does not lack."""
        shown = min(self.freed, max(0.0, load - (self.load - self.freed)))
        return Saturation(load, hidden=self.hidden + shown)


@dataclass(frozen=True, slots=True)
class ScopeState:
    """What one scope carries from one period to the next.

    levels: as last published, by resource. evicting: resources whose load reached `upper` and has not come down to
    `lower` since. evicting_since: when the first of them did. awaited: UIDs of gangs that the last plan would take and
    that were not preemptible yet. closed: a job was evicted, and nothing is admitted until the cool-down is over
    and the load of the resources in closed_for, those that were evicted for, under `lower`, or calm for long.
    cooldown_until: end of the cool-down. calm_since: since when the load of all that is evicted or closed for has been
    under `admission`. exhausted: the last plan found nothing preemptible. yielding: resources whose load is well above
    `admission`, or was and is not back at it after a job has yielded. yielded_at: when a job last yielded in this
    episode. waiting_since: since when jobs with much unsaved work are waited for. saturation: while victims are planned
    for a CPU that is all in use. learned: resources whose levels follow their history. steady: the load that the
    percentage is drawn from, by resource. restored_at: when throttled jobs were last given CPU back. read_at: when the
    load was last known. high: samples in a row in which a metric was at `upper`, of those that are averages. high_at:
    when the last sample of each metric was taken. pool: of the default pool, its name; a name is all that tells it from
    others.
    """

    levels: Mapping[str, WaterLevels] = field(default_factory=dict)
    evicting: frozenset[str] = frozenset()
    evicting_since: datetime | None = None
    awaited: frozenset[str] = frozenset()
    closed: bool = False
    closed_for: frozenset[str] = frozenset()
    cooldown_until: datetime | None = None
    calm_since: datetime | None = None
    exhausted: bool = False
    yielding: frozenset[str] = frozenset()
    yielded_at: datetime | None = None
    waiting_since: datetime | None = None
    read_at: datetime | None = None
    saturation: Saturation | None = None
    learned: frozenset[str] = frozenset()
    pending: Pending | None = None
    restored_at: datetime | None = None
    steady: Mapping[str, float] = field(default_factory=dict)
    high: Mapping[str, int] = field(default_factory=dict)
    high_at: Mapping[str, datetime] = field(default_factory=dict)
    pool: str = ""

    def set_back(self, by: timedelta, now: datetime) -> ScopeState:
        """The same state by a clock that was set back to `now`: what was to end in a minute ends in a minute. The last
        sample is of another clock, which may have been set back with it."""
        known = {name: at for name in OWN_TIMES if (at := getattr(self, name)) is not None}
        times: dict[str, Any] = {name: max(at, LONG_AGO + by) - by for name, at in known.items()}
        high_at = {name: min(at, now) for name, at in self.high_at.items()}
        return replace(self, **times, pending=self.pending and self.pending.set_back(by), high_at=high_at)

    def at(self, now: datetime, period: float) -> ScopeState:
        """The state to go on from at `now`. period: seconds between two measurements.

        Where the load has not been known for a while, what went on then is over: no job may go for a load that was not
        measured since. What was closed stays so for a cool-down.
        """
        if self.read_at is None or now - self.read_at <= max(FORGET_AFTER, timedelta(seconds=3 * period)):
            return self
        return ScopeState(
            levels=self.levels,
            closed=self.closed,
            closed_for=self.closed_for,
            cooldown_until=self.cooldown_until,
            learned=self.learned,
            pool=self.pool,
        )


def dump_states(states: Mapping[str, ScopeState], limit: int = MAX_BYTES) -> str:
    """The scopes as one text of at most `limit` bytes. What is pending, awaited or was given back is left out: a new
    process waits for measurements that began after it did anyway. So is what a saturated CPU has shown, which only
    saves a round, and how long the load has been calm, which a new process waits for once more.

    The default pool's comes first, then those of other pools, then those of nodes on which something goes on. Others
    that no longer fit are left out: after a restart their levels are at once what their histories say.
    """
    parts: list[str] = []
    size = 2
    for scope in sorted(
        states, key=lambda scope: (not of_pool(scope), bool(scope) and not _goes_on(states[scope]), scope)
    ):
        part = f"{json.dumps(scope)}:{json.dumps(_dump(states[scope]), separators=(',', ':'))}"
        size += len(part) + 1
        if size > limit:
            break
        parts.append(part)
    return "{" + ",".join(parts) + "}"


def essence(states: Mapping[str, ScopeState]) -> dict[str, ScopeState]:
    """What must not be lost: everything but the levels, which drift by small steps, and the time."""
    return {scope: _essence(state) for scope, state in states.items() if _goes_on(state)}


def _essence(state: ScopeState) -> ScopeState:
    return replace(
        state,
        levels={},
        steady={},
        read_at=None,
        pending=None,
        awaited=frozenset(),
        saturation=None,
        calm_since=None,
        exhausted=False,
        learned=frozenset(),
        high={},
        high_at={},
    )


def _goes_on(state: ScopeState) -> bool:
    """Whether a scope is anywhere but at rest."""
    return bool(state.evicting or state.closed or state.yielding)


def load_states(text: str | None, now: datetime, cooldown: float) -> dict[str, ScopeState]:
    """What `dump_states` wrote, as far as it makes sense. Never raises."""
    try:
        parsed = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(parsed, dict):
        return {}
    return {scope: _load(dumped, now, cooldown) for scope, dumped in parsed.items() if isinstance(dumped, dict)}


def states_from_published(published: PublishedLevels | None, now: datetime, cooldown: float) -> dict[str, ScopeState]:
    """The states of pools as the published levels show them.

    Which resources were being brought down they do not say; those still above `upper` are, so rather too few
    are evicted than too many. Whatever was closed stays so until the published end of the cool-down, without one for a
    whole cool-down, and no longer: waiting for a resource that no job was evicted for may be for ever.
    """
    if published is None:
        return {}
    pools = {CLUSTER: published, **{POOL + name: one for name, one in published.pools.items()}}
    seen = {scope: one for scope, one in pools.items() if one.state is not LevelsState.BLIND}
    return {scope: _from_published(one, now, cooldown) for scope, one in seen.items()}


def _from_published(published: PublishedLevels, now: datetime, cooldown: float) -> ScopeState:
    levels = {r: WaterLevels(one.lower, one.admission, one.upper) for r, one in published.resources.items()}
    closed = not published.admit or published.state is LevelsState.EVICTING
    limit = now + timedelta(seconds=cooldown)
    return ScopeState(
        levels=levels,
        closed=closed,
        cooldown_until=min(published.until or limit, limit) if closed else None,
    )


def _dump(state: ScopeState) -> dict[str, Any]:
    said = {
        "levels": {r: [round(v, 4) for v in (w.lower, w.admission, w.upper)] for r, w in state.levels.items()},
        "evicting": sorted(state.evicting),
        "evictingSince": _time(state.evicting_since),
        "closed": state.closed,
        "closedFor": sorted(state.closed_for),
        "cooldownUntil": _time(state.cooldown_until),
        "yielding": sorted(state.yielding),
        "yieldedAt": _time(state.yielded_at),
        "waitingSince": _time(state.waiting_since),
        "readAt": _time(state.read_at),
        "learned": sorted(state.learned),
        "pool": state.pool,
    }
    return {name: value for name, value in said.items() if value}


def _load(dumped: Mapping[str, Any], now: datetime, cooldown: float) -> ScopeState:
    limit = now + timedelta(seconds=cooldown)
    until = _past(dumped.get("cooldownUntil"), limit)
    return ScopeState(
        levels={
            r: ordered(*(float(v) for v in triple))
            for r, triple in _mapping(dumped.get("levels")).items()
            if len(r) <= MAX_NAME and _triple(triple)
        },
        evicting=_names(dumped.get("evicting")),
        evicting_since=_past(dumped.get("evictingSince"), now),
        closed=dumped.get("closed") is True,
        closed_for=_names(dumped.get("closedFor")),
        cooldown_until=until,
        yielding=_names(dumped.get("yielding")),
        yielded_at=_past(dumped.get("yieldedAt"), now),
        waiting_since=_past(dumped.get("waitingSince"), now),
        # what does not say how old it is may be of any age
        read_at=_past(dumped.get("readAt"), now) or LONG_AGO,
        learned=_names(dumped.get("learned")),
        pool=name if isinstance(name := dumped.get("pool"), str) and len(name) <= MAX_NAME else "",
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _triple(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 3:
        return False
    return all(isinstance(v, int | float) and not isinstance(v, bool) and 0 <= v <= 100 for v in value)


def _names(value: Any) -> frozenset[str]:
    if not isinstance(value, list):
        return frozenset()
    return frozenset(v for v in value if isinstance(v, str) and len(v) <= MAX_NAME)


def _time(value: datetime | None) -> str | None:
    return format_micro_time(value) if value else None


def _past(value: Any, latest: datetime) -> datetime | None:
    """A time, brought back to `latest` where a wrong clock put it beyond."""
    parsed = parse_time(value) if isinstance(value, str) else None
    return min(parsed, latest) if parsed else None
