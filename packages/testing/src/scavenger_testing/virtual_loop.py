"""An event loop without sockets, threads and real time: one seed decides everything that happens on it.

Its clock stands still while any task can run, and then goes on to the next timer at once. What is for a thread is done
at once. There are no connections: clients of the API server in memory send their requests over a `Wire`.

Whatever a process begins, and what follows from that, belongs to it: what a paused process would do is done, in its
order, when it goes on. Time passes for it, and what it has sent before takes effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import itertools
import random
import uuid
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar
from unittest import mock

from scavenger_testing.clock import START, VirtualClock
from scavenger_testing.cycles import garbage_kept

T = TypeVar("T")

MOST_LATENCY: Final = 0.004
"""Seconds that a request, or a part of its answer, takes at most."""
MOST_ROUNDS: Final = 1_000
"""Of the loop at one moment. More is a task that does the same again and again, and never waits."""
THREAD_SECONDS: Final = 0.01
"""What is done in a thread takes so long."""


_PROCESS: contextvars.ContextVar[str] = contextvars.ContextVar("process", default="")
"""Whose callbacks these are; empty: of none."""


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop.

    source: of all chance. lost: what went wrong where no caller was told of it, such as a task that failed unseen.
    """

    def __init__(self, source: random.Random) -> None:
        super().__init__()
        self._now = 0.0
        self._rounds = 0
        """Since time has passed."""
        self._source = source
        self._due = deque[_Call]()
        self._timers: list[tuple[float, int, _Call]] = []
        self._numbers = itertools.count()
        self._paused: dict[str, list[_Call]] = {}
        self.lost: list[str] = []
        self.set_exception_handler(lambda _, said: self.lost.append(str(said)))

    def time(self) -> float:
        """Seconds since the start."""
        return self._now

    def latency(self) -> float:
        """Seconds that what is sent takes."""
        return self._source.uniform(0.0, MOST_LATENCY)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Do it now, and say what it came to a moment later."""
        future = self.create_future()
        try:
            tell, result = future.set_result, func(*args)
        except Exception as error:
            tell, result = future.set_exception, error
        self.call_later(THREAD_SECONDS, lambda: None if future.done() else tell(result))
        return future

    async def shutdown_default_executor(self) -> None:
        """There are no threads. A real one, as asyncio starts here, takes time that does not pass on this loop."""

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """As any loop does, unless the process is paused by then."""
        call = _Call(self, callback, args, contextvars.copy_context() if context is None else context)
        self._due.append(call)
        return call

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """As `call_soon`: there are no other threads."""
        return self.call_soon(callback, *args, context=context)

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """As any loop does, unless the process is paused by then."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """As any loop does, unless the process is paused by then. What is due at one time is done in its order."""
        call = _Call(self, callback, args, contextvars.copy_context() if context is None else context)
        heapq.heappush(self._timers, (when, next(self._numbers), call))
        return call

    def _run_once(self) -> None:
        """What asyncio's own loop does in a round: here no files are looked at, and time passes at once."""
        due, timers, paused = self._due, self._timers, self._paused
        while timers and timers[0][2].dropped:
            heapq.heappop(timers)
        if not due:
            if not timers:
                raise RuntimeError("no task on this loop can ever run again")
            if timers[0][0] > self._now:
                self._now, self._rounds = timers[0][0], 0
        self._rounds += 1
        if self._rounds > MOST_ROUNDS:
            self._rounds = 0
            raise TimeoutError(f"no task lets time pass: {MOST_ROUNDS} rounds at {self._now} s")
        while timers and timers[0][0] <= self._now:
            due.append(heapq.heappop(timers)[2])
        for _ in range(len(due)):
            call = due.popleft()
            if call.dropped:
                continue
            if paused and (waiting := paused.get(call.context.get(_PROCESS, ""))) is not None:
                waiting.append(call)
            else:
                call.run()

    # --- processes --------------------------------------------------------------------------------------------------

    def begin(self, process: str, work: Callable[[], T]) -> T:
        """What this returns, done as a process that can be paused."""
        context = contextvars.copy_context()
        context.run(_PROCESS.set, process)
        return context.run(work)

    def pause(self, process: str) -> None:
        """Nothing of it runs any more, until it goes on."""
        self._paused.setdefault(process, [])

    def go_on(self, process: str) -> None:
        """Have a process do what it would have done, but for what is not wanted any more."""
        self._due.extend(self._paused.pop(process, ()))


class _Call:
    """What is to be done: what asyncio calls a handle, with what it needs of one."""

    __slots__ = ("_args", "_callback", "_loop", "context", "dropped")

    def __init__(
        self, loop: VirtualLoop, callback: Callable[..., Any], args: tuple[Any, ...], context: contextvars.Context
    ) -> None:
        self._loop, self._callback, self._args, self.context = loop, callback, args, context
        self.dropped = False

    def run(self) -> None:
        """Do it. What it raises is for the loop's exception handler."""
        try:
            self.context.run(self._callback, *self._args)
        except Exception as error:
            self._loop.call_exception_handler({"message": f"raised in {self._callback!r}", "exception": error})

    def cancel(self) -> None:
        """It is not wanted any more."""
        self.dropped = True
        self._callback, self._args = _nothing, ()

    def cancelled(self) -> bool:
        """Whether it is not wanted any more."""
        return self.dropped


def _nothing() -> None:
    """Done in place of what was cancelled."""


class LoopClock(VirtualClock):
    """The clock of a VirtualLoop."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def now(self) -> datetime:
        """Wall time in UTC."""
        return START.astimezone(UTC) + timedelta(seconds=self._loop.time() + self.skew)

    def monotonic(self) -> float:
        """Seconds since the start."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Return once so much time has passed."""
        await asyncio.sleep(max(0.0, seconds))

    async def advance(self, seconds: float) -> None:
        """Let so much time pass."""
        await asyncio.sleep(seconds)


def run_virtually(seed: int, work: Callable[[LoopClock, random.Random], Coroutine[Any, Any, T]]) -> T:
    """The result of `work`, which gets a clock and a source of chance. Two runs with one seed differ in nothing, where
    PYTHONHASHSEED is the same."""
    source = random.Random(seed)
    # When cycles are collected depends on all that this interpreter has done before, and finalizers run then.
    with _seeded(source), garbage_kept():
        loop = VirtualLoop(random.Random(source.getrandbits(64)))
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(work(LoopClock(loop), source))


@contextlib.contextmanager
def _seeded(source: random.Random) -> Iterator[None]:
    """Whatever takes its chance from the system takes it from a source."""
    real, chance, ids = random.Random, random.Random(source.getrandbits(64)), random.Random(source.getrandbits(64))

    def made(*seed: Any) -> random.Random:
        return real(*(seed or (chance.getrandbits(64),)))

    def numbered() -> uuid.UUID:
        return uuid.UUID(int=ids.getrandbits(128), version=4)

    with (
        mock.patch("random.Random", made),
        mock.patch("random.randint", chance.randint),
        mock.patch("uuid.uuid4", numbered),
        mock.patch("scavenger_testing.builders._numbers", itertools.count(1)),
    ):
        yield
