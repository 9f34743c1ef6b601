"""Requests to the API server in memory without sockets: in place of the session with which a client sends its own.

A request that has been sent arrives, whatever becomes of its sender. What the server answers arrives in its order.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qsl

import aiohttp

from scavenger_testing.answers import Answer, Cut, Request

NOBODY: Final = contextvars.Context()
"""The server runs in no process, so it works while those of its clients are paused."""

Serve = Callable[[Request], Coroutine[Any, Any, Answer]]


class Wire:
    """A session whose requests are served on the loop on which they are sent.

    serve: what answers a request. latency: seconds that a request takes, and that each part of an answer does.
    """

    def __init__(self, serve: Serve, latency: Callable[[], float] = float) -> None:
        self.serve = serve
        self.latency = latency
        self.under_way: dict[Exchange, None] = {}
        self._closed = False

    def request(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str],
        data: bytes | None,
        headers: Sequence[tuple[str, str]],
        timeout: aiohttp.ClientTimeout,
        **_: Any,
    ) -> Exchange:
        """Send a request, as aiohttp's session does. Raises RuntimeError after the session was closed."""
        if self._closed:
            raise RuntimeError("Session is closed")
        path, *asked = ("/" + url.split("/", 3)[3]).split("?", 1)
        for query in asked:
            params = {**dict(parse_qsl(query, keep_blank_values=True)), **params}
        target = "?".join((path, "&".join(f"{key}={value}" for key, value in params.items()))) if params else path
        said = dict(headers)
        token, kind = said.get("Authorization", "").removeprefix("Bearer "), said["Content-Type"]
        return Exchange(self, Request(method, path, params, target, kind, token, data or b"", said["Accept"]), timeout)

    async def close(self) -> None:
        """Cut what is under way."""
        self._closed = True
        for exchange in list(self.under_way):
            exchange.cut()


class Exchange:
    """A request, and the answer to it as its sender sees it: entered once the answer begins, and left to be read."""

    connection = None
    """There is none to hang up."""

    def __init__(self, wire: Wire, request: Request, timeout: aiohttp.ClientTimeout) -> None:
        self._wire, self._request, self._timeout = wire, request, timeout
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._serving: asyncio.Task[None] | None = None
        self._answer: Answer | None = None
        self._lines = deque[bytes]()
        self._ended = False
        self._broken: Exception | None = None
        self._news: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        self._wire.under_way[self] = None
        self._later(self._arrive)
        total = self._timeout.total
        try:
            async with asyncio.timeout(self._timeout.sock_read if total is None else total):
                while self._answer is None:
                    await self._wait()
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    @property
    def status(self) -> int:
        """Of the answer."""
        return 200 if self._answer is None else self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        """Of the answer."""
        return {} if self._answer is None else self._answer.headers

    @property
    def content(self) -> Self:
        """What `iter_any` reads from."""
        return self

    async def read(self) -> bytes:
        """The body."""
        return b"" if self._answer is None else self._answer.body

    async def iter_any(self) -> AsyncGenerator[bytes, None]:
        """The body, or the lines of a watch as they come."""
        if self._answer is not None and self._answer.lines is None:
            yield self._answer.body
            return
        while self._lines or not self._ended:
            if not self._lines:
                async with asyncio.timeout(self._timeout.sock_read):
                    await self._wait()
            else:
                read = b"".join(self._lines)
                self._lines.clear()
                yield read

    def cut(self) -> None:
        """The sender sees no more of the answer."""
        self._fail(aiohttp.ServerDisconnectedError())

    # --- inside -------------------------------------------------------------------------------------

    def _later(self, what: Callable[..., None], *args: Any) -> None:
        """Do this when what is sent now arrives."""
        self._due = max(self._due + 1e-6, self._loop.time() + self._wire.latency())
        self._loop.call_at(self._due, what, *args, context=NOBODY)

    def _arrive(self) -> None:
        self._serving = self._loop.create_task(self._serve(), context=NOBODY)

    async def _serve(self) -> None:
        try:
            answer = await self._wire.serve(self._request)
            self._later(self._begin, answer)
            if answer.lines is not None:
                async with contextlib.aclosing(answer.lines) as lines:
                    async for line in lines:
                        self._later(self._take, line)
                self._later(self._end)
        except Cut:
            self._later(self.cut)
        except Exception as error:  # a mistake in the server is to be seen, and not taken for an answer of its
            self._later(self._fail, error)

    def _begin(self, answer: Answer) -> None:
        self._answer = answer
        if self not in self._wire.under_way and answer.lines is not None:
            self._hang_up()
        self._tell()

    def _take(self, line: bytes) -> None:
        self._lines.append(line)
        self._tell()

    def _end(self) -> None:
        self._ended = True
        self._tell()

    def _fail(self, error: Exception) -> None:
        self._broken = self._broken or error
        self._tell()
        self._leave()

    def _tell(self) -> None:
        """Wake the tasks that wait for more."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def _wait(self) -> None:
        """Until there is more. Raises what has become of the connection."""
        if self._broken is None:
            self._news = self._loop.create_future()
            await self._news
        if self._broken is not None:
            raise self._broken

    def _leave(self) -> None:
        """The sender hangs up: the server notices where it has more to send."""
        self._wire.under_way.pop(self, None)
        if self._answer is not None and self._answer.lines is not None and not self._ended:
            self._later(self._hang_up)

    def _hang_up(self) -> None:
        if self._serving is not None:
            self._serving.cancel()
