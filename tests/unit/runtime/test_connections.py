"""Ports that idle connections do not close to others, on sockets of the system, in clear and over TLS."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from scavenger_runtime import connections, http_server
from scavenger_runtime.connections import PER_PEER
from scavenger_runtime.http_server import HttpServer
from scavenger_runtime.probes import ProbeServer, answer_metrics, listen
from scavenger_testing.certificates import localhost_contexts

SERVING, TRUSTING = localhost_contexts()
Port = tuple[int, ssl.SSLContext | None]
"""What listens there, and what its clients connect with."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextlib.asynccontextmanager
async def probes() -> AsyncIterator[Port]:
    server = ProbeServer("127.0.0.1", 0)
    await server.start()
    try:
        yield server.port, None
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def metrics_over_tls() -> AsyncIterator[Port]:
    app = web.Application()
    app.router.add_get("/healthz", answer_metrics)
    server = await listen(app, "127.0.0.1", 0, SERVING)
    try:
        yield server.port, TRUSTING
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def asgi(*, over_tls: bool = False) -> AsyncIterator[Port]:
    serving, trusting = (SERVING, TRUSTING) if over_tls else (None, None)
    server = HttpServer(hello, address="127.0.0.1", port=0, tls=serving, grace=1, per_peer=PER_PEER)
    server.listen()

    async def at_once() -> None:
        return None

    task = asyncio.create_task(server.run(at_once))
    try:
        yield server.port, trusting
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


Serve = Callable[[], contextlib.AbstractAsyncContextManager[Port]]
all_ports = pytest.mark.parametrize("serve", [probes, metrics_over_tls, asgi, partial(asgi, over_tls=True)])


class Clients:
    """Connections to a port, closed with it."""

    def __init__(self, port: int, tls: ssl.SSLContext | None) -> None:
        self._port = port
        self._tls = tls
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, address: str = "127.0.0.1") -> Streams:
        name = None if self._tls is None else "localhost"
        streams = await asyncio.open_connection(
            "127.0.0.1", self._port, local_addr=(address, 0), ssl=self._tls, server_hostname=name
        )
        self._writers.append(streams[1])
        return streams

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)
        self._writers.clear()


@contextlib.asynccontextmanager
async def clients(serve: Serve) -> AsyncIterator[Clients]:
    async with serve() as port:
        made = Clients(*port)
        try:
            yield made
        finally:
            await made.close()


async def ended(streams: Streams) -> bool:
    """Whether the server closes the connection within half a second."""
    with contextlib.suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(0.5):
            return await streams[0].read(1) == b""
        return False
    return streams[0].at_eof() or streams[0].exception() is not None


async def answered(streams: Streams) -> bool:
    streams[1].write(GET)
    with contextlib.suppress(ConnectionError):
        return (await streams[0].read(15)).startswith(b"HTTP/1.1 200")
    return False


async def all_of(asked: list[Awaitable[bool]]) -> int:
    return sum(await asyncio.gather(*asked))


@all_ports
async def test_a_peer_has_so_many_connections_and_others_are_answered(serve: Serve) -> None:
    async with clients(serve) as c:
        many = [await c.connect() for _ in range(PER_PEER + 20)]
        assert await all_of([ended(one) for one in many]) == 20
        assert await answered(await c.connect("127.0.0.2"))
        await c.close()
        for _ in range(100):
            if await answered(await c.connect()):
                break
            await asyncio.sleep(0.02)
        else:
            pytest.fail("who has closed its connections is not let in again")


@all_ports
async def test_headers_that_do_not_come_end_a_connection(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SECONDS", 0.1)
    monkeypatch.setattr(http_server, "HEADER_SECONDS", 0.1)
    async with clients(serve) as c:
        idle, slow = await c.connect(), await c.connect()
        slow[1].write(GET[:20])
        assert await all_of([ended(idle), ended(slow)]) == 2
        assert await answered(await c.connect())


def test_the_limit_of_files_is_the_highest_that_there_is() -> None:
    code = "from scavenger_runtime.connections import raise_file_limit as r; import resource as s; r(); " + (
        "print(*s.getrlimit(s.RLIMIT_NOFILE))"
    )
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    shell = f"ulimit -Sn 256; exec {sys.executable} -c '{code}'"
    said = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
    assert said.stdout.split() == [str(hard), str(hard)]
