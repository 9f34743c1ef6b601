"""A budget of requests per second for what a service writes, given out by urgency.

While regular pods wait for capacity, or victims are leaving, scheduler and kubelets need the API server. The budget is
small then, and what can wait does. The rest of the time it is generous.

A bucket of tokens, one for each request. A writer that finds it empty waits in the lane of its urgency. A token goes to
the most urgent lane, first come, first served, but each `SHARE`-th one to the writer that waited longest: with n before
it, a write has its turn after (n + 1) * `SHARE` tokens, however much that is more urgent comes later. What frees
capacity (`Urgency.CANCEL`) has no lane: it never waits, and its tokens are owed.

The rate is what any API server bears. One that answers writes at once bears more: while writes wait and are answered
within `QUICK_SECONDS`, the rate grows by a quarter a second, up to `MOST_TIMES` as much. Writes that take longer than
`SLOW_SECONDS`, or a refusal (429), halve it, down to what was set.

What only tells users something (`Urgency.EXPLAIN`) takes its pace from the API server as well: after one of these
the next comes when a write would have been answered `EXPLAIN_SHARE` times. Where an answer takes 5 ms that is 50 a
second; where hundreds of starts keep the API server so busy that it takes 200 ms, it is one, and they have it to
themselves.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final

from scavenger_runtime import metrics
from scavenger_runtime.clock import Clock

SHARE: Final = 8
"""One of so many tokens goes to the writer that has waited longest."""

BURST_SECONDS: Final = 0.5
"""A bucket holds what comes in that time, and at most that much is owed."""

PRESSURE_SECONDS: Final = 30.0
"""A pod that waits or leaves for longer than this is not about to be helped: it does not hold writes back any more."""

NAMESPACE_SECONDS: Final = 300.0
"""The pods of one namespace hold writes back for so long in an hour: a pod that is made again every 25 s never ends."""

MINUTE: Final = 60.0
HOUR: Final = 3600.0

EXPLAIN_SHARE: Final = 4.0
"""From one explanation to the next, in times that a write takes: they keep one connection busy for a quarter of the
time."""

MOST_TIMES: Final = 4.0
"""Where the API server is quick, there are so many times as many writes as the rate says, at the most."""

QUICK_SECONDS: Final = 0.01
SLOW_SECONDS: Final = 0.03
"""A write that is answered so quickly, and one that is not."""

GROWTH: Final = 1.25
"""By how much the rate grows in a second."""

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
    """It tells users something: messages, Events, figures."""
    START = 1
    """It lets a job start, or says that it has."""
    COUNT = 2
    """It records how a job has ended, and lets go of its pods."""
    CANCEL = 3
    """It frees capacity, which pressure waits for: the rest of a gang that has lost a member. It does not wait, and the
    others wait for as many requests longer."""


class Pressure:
    """The pods for which the API server is needed now: regular pods that wait for capacity, and victims that leave.

    Each counts for a limited time: one that can never be placed must not slow everything down for ever. All pods of a
    namespace together count for a limited time of each hour, as their owner may make them again and again. Times are
    seconds on the monotonic clock.

    Args:
        hold: how long one pod counts.
        share: how long the pods of one namespace count in an hour.
    """

    def __init__(self, hold: float = PRESSURE_SECONDS, share: float = NAMESPACE_SECONDS) -> None:
        self._hold = hold
        self._share = share
        self._since: dict[str, dict[str, float]] = {}
        """Of each namespace the pods that press, in the order in which they appeared, and since when."""
        self._on: dict[str, tuple[float, float]] = {}
        """Namespaces that press: from when on that is yet to be accounted for, and until when they do."""
        self._spent: dict[str, dict[float, float]] = {}
        """How long each namespace has pressed, by the minute's end; who has pressed last is last."""

    def observe(self, pod: str, *, pressure: bool, now: float) -> None:
        """A pod `namespace/name` was seen, and whether it waits for capacity or leaves; False as well where it is
        gone."""
        if pressure == (pod in self):
            return
        namespace = _namespace(pod)
        pods = self._since.setdefault(namespace, {})
        if pressure:
            pods[pod] = now
        else:
            del pods[pod]
        self._account(namespace, now)
        if not pods:
            del self._since[namespace]
            return
        # In the order in which they appeared: of the last one the most time is left.
        until = min(next(reversed(pods.values())) + self._hold, now + self._share - self._spent_by(namespace, now))
        if until > now:
            self._on[namespace] = now, until

    def __contains__(self, pod: str) -> bool:
        """Whether that pod was last seen to wait or to leave."""
        return pod in self._since.get(_namespace(pod), ())

    def is_on(self, now: float) -> bool:
        """Whether any such pod is there that has not been so for long."""
        while self._on:
            namespace, (_, until) = next(iter(self._on.items()))
            if until > now:
                return True
            self._account(namespace, now)
        return False

    def _account(self, namespace: str, now: float) -> None:
        """The namespace presses no longer, as far as is known; that it has is remembered for an hour."""
        since, until = self._on.pop(namespace, (now, now))
        ended = min(now, until)
        if ended <= since:
            return
        spent = self._spent[namespace] = self._spent.pop(namespace, {})
        minute = (ended // MINUTE + 1) * MINUTE
        spent[minute] = spent.get(minute, 0.0) + ended - since
        while self._spent and max(next(iter(self._spent.values())), default=0.0) <= now - HOUR:
            del self._spent[next(iter(self._spent))]

    def _spent_by(self, namespace: str, now: float) -> float:
        """How long the namespace has pressed in the last hour."""
        spent = self._spent.get(namespace, {})
        for minute in [minute for minute in spent if minute <= now - HOUR]:
            del spent[minute]
        return sum(spent.values())


def _namespace(pod: str) -> str:
    return pod.partition("/")[0]


class WriteBudget:
    """Has writes wait for their turn.

    rate: requests per second, more than 0. pressed_rate: the same while there is pressure, and no more than `rate`.
    pressure: says when that is. latency: seconds that a write takes at the moment. Use it from one event loop.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        rate: float,
        pressed_rate: float,
        pressure: Pressure | None = None,
        latency: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.pressure: Final = pressure or Pressure()
        self._clock = clock
        self._latency = latency
        self._rates = (rate, min(rate, pressed_rate))
        self._tokens = _burst(rate)
        self._at = clock.monotonic()
        self._lanes: dict[Urgency, deque[tuple[int, asyncio.Future[None]]]] = {
            u: deque() for u in reversed(Urgency) if u is not Urgency.CANCEL
        }
        self._arrivals = 0
        self._given = 0
        self._giving: tuple[float, asyncio.Task[None]] | None = None
        """When the tokens that have come until then are given out, and the task that sees to it."""
        self._times = 1.0
        """So many times the rate is borne at the moment."""
        self._tried_at = self._at
        self._explain_at = self._at
        """The next explanation is not before this, on the monotonic clock."""
        for urgency in Urgency:
            WAITING.labels(urgency.name.lower()).set(0)

    def observe(self, pod: str, *, pressure: bool) -> None:
        """A pod was seen, and whether it waits for capacity or leaves; see `Pressure.observe`."""
        if pressure == (pod in self.pressure):
            return
        self._refill()  # what has come so far, has come at the rate of that time
        self.pressure.observe(pod, pressure=pressure, now=self._clock.monotonic())
        self._refill()

    @property
    def rate(self) -> float:
        """Requests per second that may be written now."""
        pressed = self.pressure.is_on(self._clock.monotonic())
        return self._rates[pressed] * (1.0 if pressed else self._times)

    def _try_rate(self) -> None:
        """Writes wait: see once a second whether the API server bears more of them, and at once whether it does not."""
        now, seconds = self._clock.monotonic(), self._latency()
        quick = 0.0 < seconds <= QUICK_SECONDS  # 0 where it was not measured
        if now - self._tried_at < 1.0 or not (quick or seconds > SLOW_SECONDS):
            return
        self._tried_at = now
        self._times = min(MOST_TIMES, self._times * GROWTH) if quick else max(1.0, self._times / 2)

    def affordable(self, seconds: float) -> int:
        """How many requests there are tokens for in so many seconds, at the rate of now; at least 1."""
        self._refill()
        return max(1, int(self._tokens + self.rate * seconds))

    def try_take(self, urgency: Urgency) -> bool:
        """Take a token now, where there is one that no writer waits for, or where it cannot wait for one."""
        if urgency is Urgency.CANCEL:
            self.spend(1)
        elif self._has_token(urgency):
            self._spend_turn(urgency)
        else:
            return False
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
        self._tokens = min(_burst(min(rate, self._rates[0])), self._tokens + (now - self._at) * rate)
        self._at = now
        RATE.set(rate)

    def _has_token(self, urgency: Urgency) -> bool:
        self._refill()
        free = self._tokens >= ONE and self._first() is None
        return free and (urgency is not Urgency.EXPLAIN or self._may_explain())

    def _may_explain(self) -> bool:
        return self._clock.monotonic() >= self._explain_at

    def _spend_turn(self, urgency: Urgency) -> None:
        self._tokens -= 1
        if urgency is Urgency.EXPLAIN:
            self._explain_at = self._clock.monotonic() + EXPLAIN_SHARE * self._latency()

    def _heads(self) -> Iterator[tuple[int, Urgency]]:
        """Of each lane with writers that wait, the most urgent first: when the first one came."""
        for urgency, lane in self._lanes.items():
            while lane and lane[0][1].done():  # given up
                lane.popleft()
            if lane:
                yield lane[0][0], urgency

    def _first(self) -> Urgency | None:
        """The lane whose turn it is next; None where no writer waits that may write now."""
        heads = [head for head in self._heads() if head[1] is not Urgency.EXPLAIN or self._may_explain()]
        if not heads:
            return None
        return (min(heads) if self._given % SHARE == SHARE - 1 else heads[0])[1]

    def _give(self) -> None:
        """Give out the tokens there are, and have the rest given out as they come. Each wakes one waiter."""
        self._refill()
        self._try_rate()
        while self._tokens >= ONE and (urgency := self._first()) is not None:
            self._spend_turn(urgency)
            self._given += 1
            self._lanes[urgency][0][1].set_result(None)
        waiting = [urgency for _, urgency in self._heads()]
        if waiting:
            self._give_at(self._next_turn(only_explanations=waiting == [Urgency.EXPLAIN]))

    def _next_turn(self, *, only_explanations: bool) -> float:
        now = self._clock.monotonic()
        token = now + max(LEAST_SLEEP, (1 - self._tokens) / self.rate)
        return max(token, self._explain_at) if only_explanations else token

    def _give_at(self, at: float) -> None:
        """Look again then, unless that is done sooner."""
        if self._giving is not None:
            if self._giving[0] <= at:
                return
            self._giving[1].cancel()
        self._giving = at, asyncio.get_running_loop().create_task(self._give_later(at), name="write-budget")

    async def _give_later(self, at: float) -> None:
        await self._clock.sleep(at - self._clock.monotonic())
        self._giving = None
        self._give()


def _burst(rate: float) -> float:
    return max(1.0, rate * BURST_SECONDS)
