"""uvicorn inside a service: its signals, its sockets and its TLS context are ours."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Generator
from typing import Final

import uvicorn
from fastapi import FastAPI

KEEP_ALIVE_SECONDS: Final = 120
"""Longer than the API server keeps an idle connection (90 s), so that it is never the server who hangs up just as the
next request is sent.
"""


class _Server(uvicorn.Server):
    """A server that its service stops, not a signal."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave them alone: `run_service` handles them."""
        yield


class TlsServer:
    """Serves an application until cancelled. The context may get another certificate at any time."""

    def __init__(self, app: FastAPI, context: ssl.SSLContext, *, address: str, port: int) -> None:
        self._address = address
        self._port = port
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            interface="asgi3",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=10,
            ssl_context_factory=lambda _config, _default: context,
        )
        self._server = _Server(config)
        self.port = port

    @property
    def serving(self) -> bool:
        """Whether requests are answered."""
        return self._server.started and not self._server.should_exit

    async def run(self, drain: float) -> None:
        """Serve until cancelled; then go on for `drain` seconds, as not every API server knows yet, finish what is
        under way, and end. Raises OSError where the address is taken.
        """
        listener = _listen(self._address, self._port)
        self.port = listener.getsockname()[1]
        serving = asyncio.create_task(self._server.serve(sockets=[listener]), name="uvicorn")
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            await asyncio.sleep(drain)
            raise
        finally:
            self._server.should_exit = True
            await serving


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    return socket.create_server((address, port), family=family, backlog=2048, dualstack_ipv6=both)
