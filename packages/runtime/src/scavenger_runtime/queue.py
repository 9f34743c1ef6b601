"""The work queue of a controller: de-duplicated, with delays, backoff and priorities.

An item is in at most one of these places:

- *ready*: waiting to be handed out, in the lane of its priority, a plain first-in-first-out queue; only an
  item whose priority was raised while it was ready has an older claim than the end of its new lane, and goes
  to a heap instead;
- *delayed*: its wait is not over, in a heap ordered by when it will be;
- *parked*: ready, while as many items of its group are being processed as may; in a heap of its group;
- *being processed*; added again meanwhile, its request is kept aside until `done`.

Moving an item leaves its old place behind (removal from the middle is linear); such dead places are skipped when they
surface and swept out when they outnumber the living. So adding and taking are O(1) for what is ready at once, and
O(log n) for what is delayed or raised.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

from scavenger_runtime.clock import Clock, SystemClock

LOW_PRIORITY = -100
"""For items from the initial list and unchanged resyncs: they must not delay what has just happened."""

BASE_DELAY = 0.005
"""Seconds before the first rate-limited retry, as in client-go."""

MAX_DELAY = 60.0
"""Seconds at most between rate-limited retries. client-go waits up to 1000 s; but a drain, or the deletion of a
namespace, may wait for the retry."""

SWEEP_FROM = 64
"""Heaps smaller than this are never swept."""

K = TypeVar("K", bound=Hashable)


class ShutDown(Exception):  # noqa: N818 - the name is part of the interface, as is asyncio.QueueShutDown
    """The queue has been shut down; there will be no more items."""


class _Entry(Generic[K]):
    """A request for an item. `turn` identifies the one heap entry that speaks for it; any other is dead."""

    __slots__ = ("due", "item", "priority", "turn")

    def __init__(self, item: K, priority: int, due: float | None) -> None:
        self.item = item
        self.priority = priority
        self.due = due  # on the monotonic clock; None once ready
        self.turn = 0


class PriorityQueue(Generic[K]):
    """Hands out each item to one worker at a time, highest priority first, then in the order they became ready.

    clock: a Clock, or a bare monotonic callable (seconds). base_delay, max_delay: seconds of wait for the first
    rate-limited add of an item and at most; doubled with each one until `forget`. group, most: what an item belongs to,
    such as its namespace, and how many items of one group are processed at once; others are handed out before further
    ones of it. Not thread-safe: use it from one event loop.
    """

    def __init__(
        self,
        *,
        clock: Clock | Callable[[], float] | None = None,
        base_delay: float = BASE_DELAY,
        max_delay: float = MAX_DELAY,
        group: Callable[[K], Hashable] | None = None,
        most: int = 1,
    ) -> None:
        clock = clock or SystemClock()
        self._monotonic = clock.monotonic if isinstance(clock, Clock) else clock
        self._sleep = clock.sleep if isinstance(clock, Clock) else asyncio.sleep
        self._base_delay = base_delay
        self._max_delay = max_delay
        self._group = group
        self._most = most
        self._busy: dict[Hashable, int] = {}  # items being processed, by group
        self._parked: dict[Hashable, list[tuple[int, int, _Entry[K]]]] = {}  # heaps of (rank, turn, entry), by group
        self._waiting: dict[K, _Entry[K]] = {}
        self._again: dict[K, _Entry[K]] = {}
        self._processing: set[K] = set()
        self._lanes: dict[int, deque[tuple[int, _Entry[K]]]] = {}  # by rank (= -priority): (turn, entry)
        self._ranks: list[int] = []  # heap of the ranks that have a lane
        self._raised: list[tuple[int, int, _Entry[K]]] = []  # heap of (rank, turn, entry)
        self._raises = 0  # since the last sweep: each leaves a dead place behind
        self._delayed: list[tuple[float, int, _Entry[K]]] = []  # (due, turn, entry)
        self._delayed_count = 0
        self._retries: dict[K, int] = {}
        self._turn = 0
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.Task[None] | None = None
        self._timer_due = 0.0
        self._shut_down = False

    def __len__(self) -> int:
        """Items waiting, ready or not, those added again while being processed included."""
        return len(self._waiting) + len(self._again)

    @property
    def processing(self) -> int:
        """Items handed out and not yet done."""
        return len(self._processing)

    def add(self, item: K, *, after: float = 0.0, rate_limited: bool = False, priority: int = 0) -> None:
        """Ask for `item` to be handed out after `after` seconds.

        rate_limited: wait for the item's backoff, and longer the next time; with `after`, the longer of the
        two. An item that is already waiting keeps the lower wait and the higher priority. Ignored after
        `shutdown()`.
        """
        if self._shut_down:
            return
        if rate_limited:
            after = max(after, self._backoff(item))
        due = self._monotonic() + after if after > 0 else None
        if self._delayed:
            self._promote()
        if item in self._processing:
            self._add_again(item, due, priority)
            return
        entry = self._waiting.get(item)
        if entry is None:
            self._waiting[item] = entry = _Entry(item, priority, due)
            self._place(entry)
        else:
            self._merge(entry, due, priority)
        if self._getters:
            self._wake()

    async def get(self) -> tuple[K, int]:
        """The next ready item and its priority; waits for one. Raises ShutDown.

        The item is the caller's until it calls `done(item)`.
        """
        while not self._shut_down:
            entry = self._pop()
            if entry is not None:
                self._processing.add(entry.item)
                if self._group is not None:
                    group = self._group(entry.item)
                    self._busy[group] = self._busy.get(group, 0) + 1
                return entry.item, entry.priority
            await self._wait()
        raise ShutDown

    def done(self, item: K) -> None:
        """The caller of `get` has finished with `item`; if it was added meanwhile, it is ready (or waiting)
        again.
        """
        self._processing.discard(item)
        unparked = self._group is not None and self._unpark(self._group(item))
        entry = self._again.pop(item, None) if self._again else None
        if entry is not None:
            if self._delayed:
                self._promote()
            if entry.due is not None and entry.due <= self._monotonic():
                entry.due = None
            self._waiting[item] = entry
            self._place(entry)
        if self._getters and (unparked or entry is not None):
            self._wake()

    def forget(self, item: K) -> None:
        """The item is well again: its next rate-limited wait is the shortest. Does not take it off the queue."""
        self._retries.pop(item, None)

    def retries(self, item: K) -> int:
        """How often the item was added rate-limited since it was last forgotten."""
        return self._retries.get(item, 0)

    def is_due(self, item: K) -> bool:
        """Whether the wait of an item is over. One that is being processed is due when it was added again, and would be
        handed out once it is done."""
        entry = self._again.get(item) or self._waiting.get(item)
        return entry is not None and (entry.due is None or entry.due <= self._monotonic())

    def shutdown(self) -> None:
        """End the queue: every waiting and later `get` raises ShutDown, every later `add` is ignored."""
        self._shut_down = True
        self._cancel_timer()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)
        self._getters.clear()

    # --- places -----------------------------------------------------------------------------------

    def _backoff(self, item: K) -> float:
        retries = self._retries.get(item, 0)
        self._retries[item] = retries + 1
        # 2^64 times any base is past every sensible maximum, and more would overflow a float in the end
        return min(self._base_delay * 2.0 ** min(retries, 64), self._max_delay)

    def _add_again(self, item: K, due: float | None, priority: int) -> None:
        entry = self._again.get(item)
        if entry is None:
            self._again[item] = _Entry(item, priority, due)
            return
        entry.priority = max(entry.priority, priority)
        if due is None or (entry.due is not None and due < entry.due):
            entry.due = due

    def _merge(self, entry: _Entry[K], due: float | None, priority: int) -> None:
        """Lower wait, higher priority. A ready entry keeps its turn: its place among equals is when it became
        ready.
        """
        sooner = entry.due is not None and (due is None or due < entry.due)
        higher = priority > entry.priority
        entry.priority = max(entry.priority, priority)
        if sooner:
            self._delayed_count -= 1
            entry.due = due
            self._place(entry)
        elif higher and entry.due is None:
            heappush(self._raised, (-priority, entry.turn, entry))
            self._raises += 1
        else:
            return
        self._sweep()

    def _place(self, entry: _Entry[K]) -> None:
        self._turn += 1
        entry.turn = self._turn
        if entry.due is None:
            rank = -entry.priority
            lane = self._lanes.get(rank)
            if lane is None:
                lane = self._lanes[rank] = deque()
                heappush(self._ranks, rank)
            lane.append((entry.turn, entry))
        else:
            heappush(self._delayed, (entry.due, entry.turn, entry))
            self._delayed_count += 1

    def _promote(self) -> None:
        """Move what is due from delayed to ready, in the order in which the waits ended."""
        now = self._monotonic()
        delayed = self._delayed
        while delayed and delayed[0][0] <= now:
            _, turn, entry = heappop(delayed)
            if entry.turn == turn and entry.due is not None:
                self._delayed_count -= 1
                entry.due = None
                self._place(entry)

    def _pop(self) -> _Entry[K] | None:
        """Take the ready entry of the highest priority and, among those, of the earliest turn, whose group may have
        another one processed."""
        if self._delayed:
            self._promote()
        while (place := self._pop_place()) is not None:
            entry = place[2]
            if self._group is not None:
                group = self._group(entry.item)
                if self._busy.get(group, 0) >= self._most:
                    heappush(self._parked.setdefault(group, []), place)
                    continue
            entry.turn = 0
            del self._waiting[entry.item]
            return entry
        return None

    def _pop_place(self) -> tuple[int, int, _Entry[K]] | None:
        """Take the first place among the ready ones."""
        rank, turn, entry = self._first_in_lane()
        if self._raised:
            raised = self._first_raised()
            if raised is not None and (entry is None or raised[:2] < (rank, turn)):
                return heappop(self._raised)
        if entry is None:
            return None
        self._lanes[rank].popleft()
        return rank, turn, entry

    def _unpark(self, group: Hashable) -> bool:
        """An item of a group is done: the first one that waited for that is ready; whether there is one."""
        self._busy[group] -= 1
        if not self._busy[group]:
            del self._busy[group]
        parked = self._parked.get(group)
        while parked:
            place = heappop(parked)
            if not parked:
                del self._parked[group]
            if _alive(*place):
                heappush(self._raised, place)
                return True
        return False

    def _first_in_lane(self) -> tuple[int, int, _Entry[K] | None]:
        """Rank, turn and entry at the head of the first lane that has a living one; dead ones go on the way."""
        while self._ranks:
            rank = self._ranks[0]
            lane = self._lanes[rank]
            while lane:
                turn, entry = lane[0]
                if _alive(rank, turn, entry):
                    return rank, turn, entry
                lane.popleft()
            del self._lanes[heappop(self._ranks)]
        return 0, 0, None

    def _first_raised(self) -> tuple[int, int, _Entry[K]] | None:
        while self._raised:
            if _alive(*self._raised[0]):
                return self._raised[0]
            heappop(self._raised)
        return None

    def _sweep(self) -> None:
        """Drop dead places where they outnumber the living; as many operations have paid for it."""
        ready = len(self._waiting) - self._delayed_count
        if self._raises > SWEEP_FROM + 2 * ready:
            self._raises = 0
            self._raised = [raised for raised in self._raised if _alive(*raised)]
            heapify(self._raised)
            for rank, lane in self._lanes.items():
                self._lanes[rank] = deque(place for place in lane if _alive(rank, *place))
        if len(self._delayed) > SWEEP_FROM + 2 * self._delayed_count:
            self._delayed = [d for d in self._delayed if d[2].turn == d[1]]
            heapify(self._delayed)

    # --- waiting ----------------------------------------------------------------------------------

    async def _wait(self) -> None:
        """Until something may be ready. A getter cancelled after it was woken passes the word on."""
        getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        self._set_timer()
        try:
            await getter
        except asyncio.CancelledError:
            if getter in self._getters:
                self._getters.remove(getter)
            elif not getter.cancelled():
                self._wake()
            raise

    def _wake(self) -> None:
        """Wake as many getters as there are ready items, and have the timer set for the rest."""
        ready = len(self._waiting) - self._delayed_count
        while self._getters and ready > 0:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                ready -= 1
        if self._getters:
            self._set_timer()

    def _set_timer(self) -> None:
        """Have a task look when the next wait is over; only needed while a getter waits."""
        if not self._delayed:
            return
        due = self._delayed[0][0]
        if self._timer is not None and not self._timer.done() and self._timer_due <= due:
            return
        self._cancel_timer()
        self._timer_due = due
        self._timer = asyncio.get_running_loop().create_task(self._ring(due))

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _ring(self, due: float) -> None:
        await self._sleep(max(0.0, due - self._monotonic()))
        self._timer = None
        self._promote()
        self._wake()


def _alive(rank: int, turn: int, entry: _Entry[Any]) -> bool:
    """Whether a place among the ready ones still speaks for its entry."""
    return entry.turn == turn and entry.priority == -rank and entry.due is None
