"""Ports that idle, slow and many connections do not close to others.

A client that reaches a port can hold as many connections as the process has files. So a peer has so many at most,
headers come in time, and the limit of files is the highest that the process may have.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from scavenger_runtime import metrics

PER_PEER: Final = 64
"""Connections of one address at a time, to a port for probes and metrics."""

SECONDS: Final = 30.0
"""A connection to such a port is for one request, and for so long."""

HANDSHAKE_SECONDS: Final = 10.0
"""For a TLS handshake."""

REFUSED = metrics.counter("connections_refused", "Connections that were closed: their peer had too many.", [])


def raise_file_limit() -> None:
    """Let the process open as many files as it may; most systems let it open 1,024 unless it asks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Peers:
    """How many connections each address has. most: of one address."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    def enter(self, transport: asyncio.Transport) -> str | None:
        """Count a new connection: the address to `leave` with, as a transport over TLS does not know it any more when
        it has ended. None, and it is being closed, where its peer has too many."""
        peer = _address(transport)
        if self._open[peer] >= self._most:
            REFUSED.inc()
            transport.abort()
            return None
        self._open[peer] += 1
        return peer

    def leave(self, peer: str) -> None:
        """A connection that was counted has ended."""
        self._open[peer] -= 1
        if not self._open[peer]:
            del self._open[peer]


def _address(transport: asyncio.Transport) -> str:
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) else ""


class Door(asyncio.Protocol):
    """Stands before the protocol of a server: lets so many in, and each for so long.

    Args:
        inner: makes the protocol behind it.
        peers: of the port.
    """

    def __init__(self, inner: Callable[[], Any], peers: Peers) -> None:
        self._make = inner
        self._peers = peers
        self._inner: Any = None
        self._peer: str | None = None
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection, which may be one too many."""
        self._peer = self._peers.enter(transport)
        if self._peer is None:
            return
        self._inner = self._make()
        self._end = asyncio.get_running_loop().call_later(SECONDS, transport.abort)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        if self._peer is None:
            return
        if self._end is not None:
            self._end.cancel()
        self._peers.leave(self._peer)
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A part of a request."""
        if self._inner is not None:
            self._inner.data_received(data)

    def eof_received(self) -> None:
        """The peer says no more."""
        if self._inner is not None:
            self._inner.eof_received()

    def pause_writing(self) -> None:
        """The peer reads too slowly."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._inner.resume_writing()
