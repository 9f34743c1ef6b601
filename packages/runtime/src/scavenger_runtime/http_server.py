"""uvicorn inside a service: its signals and its sockets are ours.

Only services that serve more than probes and metrics depend on uvicorn, and import this.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from scavenger_runtime.connections import Peers
from scavenger_runtime.listening import listen

HEADER_SECONDS: Final = 20.0
"""From the start of a connection, or of a further request on it, to the end of its headers."""


class BoundedProtocol(HttpToolsProtocol):
    """HTTP of a peer that has so many connections at most and sends its headers in time. uvicorn closes what idles
    after an answer."""

    peers: Peers

    _late: asyncio.TimerHandle | None = None
    _peer: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection, which may be one too many."""
        self._peer = self.peers.enter(transport)
        super().connection_made(transport)
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        self._headers_came()
        if self._peer is not None:
            self.peers.leave(self._peer)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._await_headers()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its headers are there."""
        self._headers_came()
        super().on_headers_complete()

    def _await_headers(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _headers_came(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class HttpServer:
    """Serves an ASGI application until cancelled. port: 0 for a free one, and the one that was taken once it listens.
    tls: None in clear; it may get another certificate at any time. grace: seconds for what is under way when it ends.
    per_peer: connections of one address. http: the protocol. more: of `uvicorn.Config`."""

    def __init__(
        self,
        app: Any,
        *,
        address: str,
        port: int,
        tls: ssl.SSLContext | None,
        grace: int,
        per_peer: int,
        http: type[BoundedProtocol] = BoundedProtocol,
        **more: Any,
    ) -> None:
        self.port = port
        self._address = address
        self._listener: socket.socket | None = None
        config = uvicorn.Config(
            app,
            ws="none",
            lifespan="off",
            interface="asgi3",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=grace,
            http=type("_Http", (http,), {"peers": Peers(per_peer)}),
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
            **more,
        )
        self._server = _Server(config)

    @property
    def serving(self) -> bool:
        """Whether requests are answered."""
        return self._server.started and not self._server.should_exit

    def listen(self) -> socket.socket:
        """Take the port. Raises OSError where the address is taken."""
        self._listener = listen(self._address, self.port)
        self.port = self._listener.getsockname()[1]
        return self._listener

    async def run(self, stopping: Callable[[], Awaitable[None]]) -> None:
        """Serve until cancelled, then finish what is under way. stopping: what comes before that, while requests are
        still answered. Raises OSError where the address is taken."""
        listener = self._listener or self.listen()
        serving = asyncio.create_task(self._server.serve(sockets=[listener]), name="uvicorn")
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            await stopping()
            raise
        finally:
            self._server.should_exit = True
            await serving


class _Server(uvicorn.Server):
    """A server that its service stops, not a signal."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave them alone: `run_service` handles them."""
        yield
