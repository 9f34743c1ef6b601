"""Pictures for pages that follow: one made for all of them, and each sent what differs from the one it has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from scavenger_api.times import format_time
from scavenger_runtime.clock import Clock, changed_or_after
from scavenger_runtime.logging import get_logger

from scavenger_board.core.delta import delta
from scavenger_board.core.picture import Picture

ALIVE_SECONDS: Final = 10.0
"""A page that has heard nothing for three times as long is told so by itself."""

log = get_logger(__name__)


class TooManyListeners(Exception):  # noqa: N818 - what it is
    """As many pages follow as may."""


class Hub:
    """make: a picture of now. period, check: seconds between two at least and at most. limit: of listeners.

    A picture is made when something has changed, or `check` seconds have gone by, and only while a page is open.
    """

    def __init__(
        self, make: Callable[[], Awaitable[Picture]], clock: Clock, *, period: float, check: float, limit: int
    ) -> None:
        self._make = make
        self._clock = clock
        self._period = period
        self._check = check
        self._limit = limit
        self._news = asyncio.Event()
        self._watched = asyncio.Event()
        self._listeners: set[asyncio.Event] = set()
        self._newest: Picture | None = None
        self._made_at = -1e9
        self._making = asyncio.Lock()
        self._closed = False

    def changed(self) -> None:
        """What pictures are made of has changed."""
        self._news.set()

    def close(self) -> None:
        """Have every listener end."""
        self._closed = True
        for event in self._listeners:
            event.set()

    async def run(self) -> None:
        """Make pictures until cancelled."""
        while True:
            await self._watched.wait()
            await changed_or_after(self._news, self._clock, self._check)
            await self._renew()
            await self._clock.sleep(self._period)

    async def current(self) -> Picture:
        """The newest picture, built again where it is older than `period`."""
        await self._renew(self._period)
        assert self._newest is not None
        return self._newest

    async def _renew(self, older: float = 0.0) -> None:
        """Make the picture that pages get, where the newest is as old as `older` seconds: of two who ask at once, the
        second gets what was made for the first. A picture that cannot be made leaves the one before: it is tried
        again."""
        async with self._making:
            if self._newest is not None and self._clock.monotonic() - self._made_at < older:
                return
            self._news.clear()  # what comes while it is made is news
            picture = await self._make()
            self._made_at = self._clock.monotonic()
            news = delta(self._newest, picture) is not None
            self._newest = picture
            if news:
                for event in self._listeners:
                    event.set()

    @contextmanager
    def place(self) -> Iterator[asyncio.Event]:
        """A place among the listeners. Raises TooManyListeners."""
        if len(self._listeners) >= self._limit:
            raise TooManyListeners
        news = asyncio.Event()
        self._listeners.add(news)
        self._watched.set()
        try:
            yield news
        finally:
            self._listeners.discard(news)
            if not self._listeners:
                self._watched.clear()

    async def messages(self, news: asyncio.Event) -> AsyncGenerator[bytes, None]:
        """Server-sent events for a listener: the picture, then what changes. Who is slow to read gets what differs
        between what they have and the newest, and nothing of what was in between."""
        had = await self.current()
        yield message("picture", {"whole": had})
        while not self._closed:
            if not await changed_or_after(news, self._clock, ALIVE_SECONDS):
                yield message("alive", {"time": format_time(self._clock.now())})
                continue
            news.clear()
            newest = self._newest
            if newest is not None and (change := delta(had, newest)) is not None:
                had = newest
                yield message("picture", change)


def message(kind: str, data: Any) -> bytes:
    """A server-sent event; JSON has no line breaks of its own."""
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"
