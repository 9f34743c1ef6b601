"""A budget of requests per second for what a service writes, given out by urgency.

While ordinary pods wait for room, or victims are leaving, scheduler and kubelets need the API server: the budget is
small then, and what can wait does. The rest of the time it is generous.

A bucket of tokens, one for each request. Whoever finds it empty waits in the lane of its urgency. A token goes to the
most urgent lane, first come, first served, but each `SHARE`-th one to whoever has waited longest of all: with n before
it, a write has its turn after (n + 1) * `SHARE` tokens, however much that is more urgent comes later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import IntEnum
from typing import Final

from scavenger_runtime import metrics
from scavenger_runtime.clock import Clock

SHARE: Final = 8
"""One of so many tokens goes to whoever has waited longest."""

BURST_SECONDS: Final = 0.5
"""A bucket holds what comes in that time, and at most that much is owed."""

PRESSURE_SECONDS: Final = 30.0
"""A pod that waits or leaves for longer than this is not about to be helped: it does not hold writes back any more."""

LEAST_SLEEP: Final = 0.01
"""Tokens that come faster than this are given out together."""

ONE: Final = 1 - 1e-6
"""A token, as far as a sum of rounded figures can tell."""

WAITING = metrics.gauge("writes_waiting", "Writes that wait for their turn.", ["urgency"])
WAITED = metrics.histogram(
    "write_wait_seconds", "How long writes waited for their turn.", ["urgency"], buckets=metrics.LATENCY_BUCKETS
)
RATE = metrics.gauge("write_rate", "Requests per second that may be written now.")


class Urgency(IntEnum):
    """What a write is for; the higher goes first."""

    EXPLAIN = 0
    """It tells somebody something: messages, Events, figures."""
    START = 1
    """It lets a job start, or says that it has."""
    COUNT = 2
    """It records how a job has ended, and lets go of its pods."""
    CANCEL = 3
    """It makes room: the rest of a gang that has lost a member."""


class Pressure:
    """The pods for which the API server is needed now: ordinary ones that wait for room, and victims that leave.

    Each counts for a limited time: one that can never be placed must not slow everything down for ever. Times are
    seconds on the monotonic clock.
    """

    def __init__(self, hold: float = PRESSURE_SECONDS) -> None:
        self._hold = hold
        self._since: dict[str, float] = {}

    def saw(self, pod: str, *, presses: bool, now: float) -> None:
        """A pod was seen, and whether it waits for room or leaves; False as well where it is gone."""
        if presses:
            self._since.setdefault(pod, now)
        else:
            self._since.pop(pod, None)

    def __contains__(self, pod: str) -> bool:
        """Whether that pod was last seen to wait or to leave."""
        return pod in self._since

    def is_on(self, now: float) -> bool:
        """Whether any such pod is there that has not been so for long."""
        # In the order in which they appeared: of the last one the most time is left.
        newest = next(reversed(self._since.values()), None)
        return newest is not None and now - newest < self._hold


class WriteBudget:
    """Has writes wait for their turn.

    rate: requests per second, more than 0. pressed_rate: the same while there is pressure, and no more than `rate`.
    pressure: says when that is. Use it from one event loop.
    """

    def __init__(self, clock: Clock, *, rate: float, pressed_rate: float, pressure: Pressure | None = None) -> None:
        self.pressure: Final = pressure or Pressure()
        self._clock = clock
        self._rates = (rate, min(rate, pressed_rate))
        self._tokens = _burst(rate)
        self._at = clock.monotonic()
        self._lanes: dict[Urgency, deque[tuple[int, asyncio.Future[None]]]] = {u: deque() for u in reversed(Urgency)}
        self._arrivals = 0
        self._given = 0
        self._giving: asyncio.Task[None] | None = None
        for urgency in Urgency:
            WAITING.labels(urgency.name.lower()).set(0)

    def saw(self, pod: str, *, presses: bool) -> None:
        """A pod was seen, and whether it waits for room or leaves; see `Pressure.saw`."""
        if presses == (pod in self.pressure):
            return
        self._refill()  # what has come so far, has come at the rate of that time
        self.pressure.saw(pod, presses=presses, now=self._clock.monotonic())
        self._refill()

    @property
    def rate(self) -> float:
        """Requests per second that may be written now."""
        return self._rates[self.pressure.is_on(self._clock.monotonic())]

    def affordable(self, seconds: float) -> int:
        """How many requests there are tokens for in so many seconds, at the rate of now; at least 1."""
        self._refill()
        return max(1, int(self._tokens + self.rate * seconds))

    def try_take(self, urgency: Urgency) -> bool:
        """Take a token now, where there is one that nobody waits for."""
        self._refill()
        if self._tokens < ONE or self._first() is not None:
            return False
        self._tokens -= 1
        WAITED.labels(urgency.name.lower()).observe(0)
        return True

    async def take(self, urgency: Urgency) -> None:
        """Return when it is the caller's turn to send one request."""
        if self.try_take(urgency):
            return
        label = urgency.name.lower()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        began = self._clock.monotonic()
        self._arrivals += 1
        self._lanes[urgency].append((self._arrivals, turn))
        self._give()
        with WAITING.labels(label).track_inprogress():
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # it had its turn, and will not use it
                    self.give_back()
                raise
        WAITED.labels(label).observe(self._clock.monotonic() - began)

    def spend(self, requests: int) -> None:
        """Account for requests that do not wait, as they belong to one that has had its turn. Others wait for longer
        then, but no longer than `BURST_SECONDS`, however many they were."""
        self._refill()
        self._tokens = max(self._tokens - requests, -_burst(self.rate))

    def give_back(self) -> None:
        """A turn is not needed after all."""
        self._tokens += 1
        self._give()

    def _refill(self) -> None:
        now, rate = self._clock.monotonic(), self.rate
        self._tokens = min(_burst(rate), self._tokens + (now - self._at) * rate)
        self._at = now
        RATE.set(rate)

    def _first(self) -> asyncio.Future[None] | None:
        """Whose turn it is next; None where nobody waits."""
        heads: list[tuple[int, Urgency]] = []
        for urgency, lane in self._lanes.items():
            while lane and lane[0][1].done():  # given up
                lane.popleft()
            if lane:
                heads.append((lane[0][0], urgency))
        if not heads:
            return None
        _, urgency = min(heads) if self._given % SHARE == SHARE - 1 else heads[0]
        return self._lanes[urgency][0][1]

    def _give(self) -> None:
        """Give out the tokens there are, and have the rest given out as they come. Each wakes one waiter."""
        self._refill()
        while self._tokens >= ONE and (turn := self._first()) is not None:
            self._tokens -= 1
            self._given += 1
            turn.set_result(None)
        if self._giving is None and self._first() is not None:
            self._giving = asyncio.get_running_loop().create_task(self._give_later(), name="write-budget")

    async def _give_later(self) -> None:
        await self._clock.sleep(max(LEAST_SLEEP, (1 - self._tokens) / self.rate))
        self._giving = None
        self._give()


def _burst(rate: float) -> float:
    return max(1.0, rate * BURST_SECONDS)
