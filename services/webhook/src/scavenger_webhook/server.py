"""The server of reviews: uvicorn over TLS, with a protocol that receives large requests cheaply."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

from fastapi import FastAPI
from scavenger_runtime.http_server import BoundedProtocol, HttpServer

KEEP_ALIVE_SECONDS: Final = 120
"""Longer than the API server keeps an idle connection (90 s), so that it is never the server who hangs up just as the
next request is sent.
"""

GRACE_SECONDS: Final = 10
"""For reviews that are under way when told to stop."""

PER_PEER: Final = 1024
"""Connections of one address: an API server has one for each request that it asks about at the same time."""

READ_BYTES: Final = 64 * 2**10
"""So much of a request is taken from TLS at a time."""

_RECEIVED: Final = memoryview(bytearray(READ_BYTES))
"""What has just been read. One for all connections: it is parsed before anything else is read."""


class _Protocol(BoundedProtocol, asyncio.BufferedProtocol):
    """HTTP from a buffer that is there. Otherwise asyncio takes 256 KiB from the system for each TLS record of 16 KiB
    (`SSLProtocol._do_read__copied`), which is half of what receiving a large request costs."""

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return _RECEIVED

    def buffer_updated(self, nbytes: int) -> None:
        """So many of them are there."""
        self.data_received(_RECEIVED[:nbytes])  # type: ignore[arg-type]  # the parser takes any buffer


class TlsServer(HttpServer):
    """Serves an application until cancelled. The context may get another certificate at any time."""

    def __init__(self, app: FastAPI, context: ssl.SSLContext, *, address: str, port: int) -> None:
        super().__init__(
            app,
            address=address,
            port=port,
            tls=context,
            grace=GRACE_SECONDS,
            per_peer=PER_PEER,
            http=_Protocol,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
