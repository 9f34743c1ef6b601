"""TLS over a real socket: certificates that change under it, and what is no HTTP."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from scavenger_runtime import tls
from scavenger_runtime.clock import SystemClock
from scavenger_testing.certificates import localhost_contexts, new_authority, new_client
from scavenger_webhook.app import MUTATE_PODS, Limits, create_app
from scavenger_webhook.certificate_issuer import new_serving
from scavenger_webhook.core.certificates import CertificateRules, KeyPair
from scavenger_webhook.server import TlsServer

from .builders import facts, pod, raw
from .waiting import running, until

RULES = CertificateRules(("localhost",))


async def test_only_those_with_a_certificate_of_the_client_authority_may_ask(tmp_path: Path) -> None:
    now = SystemClock().now()
    clients, other = new_authority(now), new_authority(now)
    (tmp_path / "ca.crt").write_bytes(clients.certificate)

    async def ask(trust: str, shown: KeyPair | None) -> int:
        client = ssl.create_default_context(cadata=trust)
        if shown is not None:
            tls.load(client, shown.certificate, shown.key)
        async with aiohttp.ClientSession() as session:
            url = f"https://localhost:{server.port}{MUTATE_PODS}"
            async with session.post(url, json=raw("pods", pod(priority=0)), ssl=client) as answer:
                return answer.status

    async with served(require=str(tmp_path / "ca.crt")) as (server, trusted):
        trust = ssl.DER_cert_to_PEM_cert(trusted.get_ca_certs(binary_form=True)[0])
        assert await ask(trust, new_client(clients, now)) == 200
        for shown in (None, new_client(other, now)):
            with pytest.raises(aiohttp.ClientError):
                await ask(trust, shown)
    with pytest.raises(ValueError, match=r"no certificate authority in .*absent"):
        tls.require_client(tls.server_context(), str(tmp_path / "absent"))


@asynccontextmanager
async def served(limits: Limits | None = None, require: str = "") -> AsyncIterator[tuple[TlsServer, ssl.SSLContext]]:
    """A server that answers, and what its clients trust."""
    context, client = localhost_contexts()
    if require:
        tls.require_client(context, require)

    async def known(_request: Any) -> Any:
        return facts()

    server = TlsServer(create_app(known, limits or Limits()), context, address="127.0.0.1", port=0)
    async with running(server.run(lambda: asyncio.sleep(0))):
        await until("serving", lambda: server.serving)
        yield server, client
        await asyncio.sleep(0.05)  # TLS connections take leave of each other


async def test_a_connection_outlives_a_new_certificate_and_new_ones_meet_it() -> None:
    now = SystemClock().now()
    authority = new_authority(now)
    first, second = (new_serving(authority, now, RULES) for _ in range(2))
    context = tls.server_context()
    tls.load(context, first.certificate, first.key)

    async def known(_request: Any) -> Any:
        return facts()

    server = TlsServer(create_app(known), context, address="127.0.0.1", port=0)
    client = ssl.create_default_context(cadata=authority.certificate.decode())

    async def ask(session: aiohttp.ClientSession) -> None:
        url = f"https://localhost:{server.port}{MUTATE_PODS}"
        async with session.post(url, json=raw("pods", pod(priority=0)), ssl=client) as answer:
            assert (await answer.json())["response"]["allowed"]

    async with running(server.run(lambda: asyncio.sleep(0))):
        await until("serving", lambda: server.serving)
        async with aiohttp.ClientSession() as old, aiohttp.ClientSession() as new:
            await ask(old)
            kept = [id(c) for c in _connections(old)]
            tls.load(context, second.certificate, second.key)
            await ask(old)
            assert [id(c) for c in _connections(old)] == kept, "not dropped"
            await ask(new)
            serials = [_serial(connection) for connection in (*_connections(old), *_connections(new))]
            assert serials == [first.x509.serial_number, second.x509.serial_number]
        await asyncio.sleep(0.05)  # TLS connections take leave of each other
    assert not server.serving


async def test_the_body_of_an_answer_does_not_wait_until_its_head_is_acknowledged() -> None:
    async with served() as (server, client):
        _, writer = await asyncio.open_connection("localhost", server.port, ssl=client)
        connections = server._server.server_state.connections
        await until("connected", lambda: len(connections) == 1)
        (accepted,) = [connection.transport.get_extra_info("socket") for connection in connections]
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()
        await writer.wait_closed()


async def test_large_requests_on_several_connections_keep_apart() -> None:
    """What is read meets in one buffer."""

    async def kept_apart(session: aiohttp.ClientSession, name: str) -> bool:
        url = f"https://localhost:{server.port}{MUTATE_PODS}"
        found: list[tuple[str, bool]] = []
        for number in range(3):
            sent = raw("pods", pod(priority=0) | {"metadata": {"annotations": {"a": name * 2**19}}})
            sent["request"]["uid"] = f"{name}-{number}"
            async with session.post(url, json=sent, ssl=client) as answer:
                response = (await answer.json())["response"]
            found.append((response["uid"], response["allowed"]))
        return found == [(f"{name}-{number}", True) for number in range(3)]

    async with served(Limits(body_timeout=60)) as (server, client), aiohttp.ClientSession() as session:
        assert await asyncio.gather(*(kept_apart(session, name) for name in "abcd")) == [True] * 4


NO_HTTP = [
    b"rubbish\r\n\r\n",
    b"POST /mutate/pods HTTP/9.9\r\n\r\n",
    b"POST /mutate/pods HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /mutate/pods HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /mutate/pods HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
    b"POST /mutate/pods HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n",
]


async def test_what_is_no_http_is_turned_away_soon() -> None:
    async def first_line(sent: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("localhost", server.port, ssl=client)
        writer.write(sent)
        async with asyncio.timeout(50):
            line = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return line

    async with served(Limits(body_timeout=0.1)) as (server, client):
        lines = await asyncio.gather(*(first_line(sent) for sent in NO_HTTP))
    assert [line for line in lines if line and not line.split()[1].startswith(b"4")] == []


def _connections(session: aiohttp.ClientSession) -> list[Any]:
    assert session.connector is not None
    return [entry[0] for entries in session.connector._conns.values() for entry in entries]


def _serial(connection: Any) -> int:
    found = connection.transport.get_extra_info("ssl_object").getpeercert()
    return int(found["serialNumber"], 16)
