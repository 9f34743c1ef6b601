"""An event loop without sockets, threads and real time: one seed decides everything that happens on it.

Its clock stands still while anybody can run, and then goes on to the next timer at once. What is for a thread is done
at once. There are no connections: clients of the API server in memory send their requests over a `Wire`.

Whatever a process begins, and what follows from that, belongs to it: what a paused process would do is done, in its
order, when it goes on. Time passes for it, and what it has sent before takes effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import random
import selectors
import uuid
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar
from unittest import mock

from scavenger_testing.clock import START, VirtualClock

T = TypeVar("T")

MOST_LATENCY: Final = 0.004
"""Seconds that a request, or a part of its answer, takes at most."""
THREAD_SECONDS: Final = 0.01
"""What is done in a thread takes so long."""


_PROCESS: contextvars.ContextVar[str] = contextvars.ContextVar("process", default="")
"""Whose callbacks these are; nobody's where it is empty."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop. `source`: of all chance."""

    def __init__(self, source: random.Random) -> None:
        self._now = 0.0
        self._source = source
        self._paused: dict[str, list[_Call]] = {}
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Seconds since the start."""
        return self._now

    def pass_time(self, seconds: float) -> None:
        """Move the clock."""
        self._now += seconds

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
        """Have a process do what it would have done."""
        for call in self._paused.pop(process, ()):
            self.call_soon(call.resume)

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """As any loop does, unless the process is paused by then."""
        context = contextvars.copy_context() if context is None else context  # an empty one is false
        if not context.get(_PROCESS, ""):
            return super().call_soon(callback, *args, context=context)
        call = _Call(self._paused, context, callback, args)
        call.handle = super().call_soon(call, context=context)
        return call.handle

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """As any loop does, unless the process is paused by then."""
        context = contextvars.copy_context() if context is None else context  # an empty one is false
        if not context.get(_PROCESS, ""):
            return super().call_at(when, callback, *args, context=context)
        call = _Call(self._paused, context, callback, args)
        call.handle = super().call_at(when, call, context=context)
        return call.handle


class _Call:
    """What a process is about to do."""

    __slots__ = ("_args", "_callback", "_context", "_paused", "handle")

    def __init__(
        self,
        paused: dict[str, list[_Call]],
        context: contextvars.Context,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
    ) -> None:
        self._paused, self._context, self._callback, self._args = paused, context, callback, args
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        if (waiting := self._paused.get(self._context[_PROCESS])) is not None:
            waiting.append(self)
        else:
            self._callback(*self._args)

    def resume(self) -> None:
        """Do it now, unless nobody wants it any more."""
        if self.handle is None or not self.handle.cancelled():
            self._context.run(self)


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
    with _seeded(source):
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


class _Selector(selectors.SelectSelector):
    """Waits for no file, and lets time pass instead."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("nobody on this loop can ever run again")
        self._loop.pass_time(max(0.0, timeout))
        return []
