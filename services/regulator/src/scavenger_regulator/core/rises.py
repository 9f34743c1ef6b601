"""How much more regular pods request within half an hour, by the hour of the day, over a week. Pure.

A quarter of an hour is a bucket. Its rise is the largest one of the sum of requests from a moment in it to a later one
before the end of the next bucket. What is kept free is the 90th percentile of the rises that began in the coming hour
on the days of the last week: four of each day, 28 of a week.

Requests are sampled, as everything else, once in a period. A pod that came and went between two samples is not seen.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

VERSION: Final = 1
BUCKET: Final = 900.0
"""Seconds."""
A_DAY: Final = 96
"""Buckets."""
DAYS: Final = 7
AN_HOUR: Final = 4
"""Buckets."""
SHARE: Final = 0.9
"""Of the rises, which is the percentile."""
UNITS: Final = {"cpu": 0.001, "memory": float(1 << 20)}
"""Rises are stored as whole numbers of millicores and MiB."""
MOST: Final = 10**12
"""Of these units, and bucket numbers: larger ones are those of no cluster, and of no clock."""


@dataclass(slots=True)
class Rises:
    """The rises of one resource in one pool, in cores or bytes by bucket."""

    _rises: dict[int, float] = field(default_factory=dict)
    """By the number of the bucket since the epoch."""
    _lowest: dict[int, float] = field(default_factory=dict)
    """The least that was requested in the newest bucket, and in the one before."""

    def add(self, at: datetime, requested: float) -> None:
        """Regular pods request so many cores or bytes at a moment. What is older than the newest bucket is no news."""
        number = int(at.timestamp() // BUCKET)
        newest = max(self._lowest, default=number)
        if number < newest and newest - number <= A_DAY * DAYS:
            return
        if number != newest or not self._lowest:
            self._lowest = {known: low for known, low in self._lowest.items() if known == number - 1}
            self._lowest[number] = requested
            self.forget(at)
        self._lowest[number] = min(requested, self._lowest[number])
        for bucket, low in self._lowest.items():
            self._rises[bucket] = max(self._rises.get(bucket, 0.0), requested - low)

    def forget(self, now: datetime) -> None:
        """Drop what is older than a week, and what lies in a future that a corrected clock took back."""
        newest = int(now.timestamp() // BUCKET)
        for number in [n for n in self._rises if not newest - A_DAY * DAYS <= n <= newest]:
            del self._rises[number]
        self._lowest = {number: low for number, low in self._lowest.items() if number <= newest}

    def likely(self, now: datetime) -> float:
        """So much more may be requested within half an hour, in cores or bytes; 0 before a day is known."""
        first = int(now.timestamp() // BUCKET)
        numbers = [first - A_DAY * day + quarter for day in range(1, DAYS + 1) for quarter in range(AN_HOUR)]
        known = sorted(self._rises[number] for number in numbers if number in self._rises)
        return known[math.ceil(SHARE * len(known)) - 1] if known else 0.0

    def __bool__(self) -> bool:
        return bool(self._rises)

    def dump(self, unit: float) -> dict[str, Any]:
        """As JSON values: the first bucket, and the rise of each from there on, in units; None where it was not
        observed."""
        if not self._rises:
            return {}
        first, last = min(self._rises), max(self._rises)
        rises = [round(self._rises[n] / unit) if n in self._rises else None for n in range(first, last + 1)]
        return {"first": first, "rises": rises}

    @classmethod
    def load(cls, dumped: Any, unit: float, now: datetime) -> Rises:
        """What `dump` wrote, as far as it makes sense and is of the last week; else empty. Never raises."""
        found = cls()
        try:
            first, rises = int(dumped["first"]), list(dumped["rises"][: A_DAY * DAYS + 1])
        except (KeyError, TypeError, ValueError, OverflowError):
            return found
        if abs(first) > MOST:
            return found
        whole = {number: rise for number, rise in enumerate(rises, first) if type(rise) is int and 0 <= rise <= MOST}
        found._rises = {number: rise * unit for number, rise in whole.items()}
        found.forget(now)
        return found


RisesByScope = dict[str, dict[str, Rises]]
"""By scope of a pool (`scavenger_regulator.core.snapshot`) and resource."""


def learn_requests(rises: RisesByScope, requested: Mapping[str, Mapping[str, float]], now: datetime) -> None:
    """Take in what regular pods request now. requested: cores and bytes by scope."""
    for scope, amounts in requested.items():
        known = rises.setdefault(scope, {resource: Rises() for resource in UNITS})
        for resource, amount in amounts.items():
            known[resource].add(now, amount)


def keep_only(rises: RisesByScope, scopes: Collection[str], most: int, now: datetime) -> None:
    """Drop pools that are gone and of which nothing is known of the last week, and more than `most` of the others that
    are gone."""
    gone = sorted(rises.keys() - set(scopes))
    for scope in gone:
        for one in rises[scope].values():
            one.forget(now)
    empty = {scope for scope in gone if not any(rises[scope].values())}
    for scope in (*empty, *[scope for scope in gone if scope not in empty][most:]):
        del rises[scope]


def set_back(rises: RisesByScope, now: datetime) -> None:
    """The clock was set back to `now`: what it said before lies in the future."""
    for known in rises.values():
        for one in known.values():
            one.forget(now)


def likely(rises: RisesByScope, now: datetime) -> dict[str, dict[str, float]]:
    """How much more regular pods may request within half an hour, in cores and bytes by scope."""
    return {scope: {resource: one.likely(now) for resource, one in known.items()} for scope, known in rises.items()}


def dump_rises(rises: RisesByScope, limit: int) -> str:
    """All of them as one text of at most `limit` bytes. Pools that do not fit are learned once more after a restart."""
    parts: list[str] = []
    size = len(f'{{"version":{VERSION},"scopes":{{}}}}')
    for scope, known in sorted(rises.items()):
        one = {resource: known[resource].dump(unit) for resource, unit in UNITS.items()}
        part = f"{json.dumps(scope)}:{json.dumps(one, separators=(',', ':'))}"
        if size + len(part.encode()) + 1 <= limit:
            parts.append(part)
            size += len(part.encode()) + 1
    return f'{{"version":{VERSION},"scopes":{{{",".join(parts)}}}}}'


def load_rises(text: str | None, now: datetime) -> RisesByScope:
    """What `dump_rises` wrote; empty for garbage. Never raises."""
    try:
        parsed = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    found = parsed.get("scopes") if isinstance(parsed, dict) and parsed.get("version") == VERSION else None
    if not isinstance(found, dict):
        return {}
    return {
        scope: {resource: Rises.load(one.get(resource), unit, now) for resource, unit in UNITS.items()}
        for scope, one in found.items()
        if isinstance(one, dict)
    }
