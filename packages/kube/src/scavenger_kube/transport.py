"""The connections of the asyncio client, by aiohttp, and how requests go over them with the credentials of the moment.

Every request has a connect and a read timeout, and dead peers are found by TCP keepalive; every answer of 400 and up
is raised as one of `errors`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import aiohttp
import aiohttp_socks

from scavenger_kube.endpoint import Endpoint
from scavenger_kube.errors import ApiError, Unauthorized, Unavailable, error_for
from scavenger_kube.resources import JSON, Params, query

READ_BUFFER = 256 * 1024
"""Bytes buffered per connection: bounds how many watch events are handled before the event loop gets its
turn.
"""

MIN_RENEWAL_SECONDS = 10.0
"""Credentials are loaded again at most this often: a server that refuses all must not start a thousand
plugins.
"""


class Observer:
    """Is told what a client does; this one makes nothing of it."""

    write_seconds = 0.0
    """How long a write takes at the moment, where that is measured."""

    def answered(self, method: str, status: int) -> None:
        """An answer has begun."""

    def failed(self, reason: str) -> None:
        """The connection broke or timed out."""

    def took(self, method: str, seconds: float) -> None:
        """A request has ended, one way or the other."""

    def cut(self) -> None:
        """An answer had something that no decoder takes (`nesting`)."""

    def renewed(self, error: Exception | None) -> None:
        """The credentials have changed, or could not be loaded again."""


class Session(Protocol):
    """What requests are sent with: a session of aiohttp, or what takes its place."""

    @property
    def request(self) -> Callable[..., AbstractAsyncContextManager[Any]]:
        """Sends one, as `aiohttp.ClientSession.request` does; entered with its answer."""

    async def close(self) -> None:
        """End everything."""


class Transport:
    """A session with one API server. endpoint: where requests go, with the credentials in use.

    load: gets the endpoint again when its credentials have expired or are refused; server and proxy stay. observer: is
    told of requests. connect_timeout: seconds for name resolution, TCP and TLS together. session: in place of one of
    aiohttp. Raises KubeconfigError for a proxy that cannot be spoken to.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        load: Callable[[], Awaitable[Endpoint]] | None,
        observer: Observer,
        user_agent: str,
        connect_timeout: float,
        session: Session | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.observer = observer
        self._load = load
        self._loaded = time.monotonic()
        self._loading = asyncio.Lock()
        self._connect_timeout = connect_timeout
        proxy = self.endpoint.route()
        through_socks = proxy is not None and proxy.startswith("socks")
        self._proxy = None if through_socks else proxy
        self._session: Session = session or _session(proxy if through_socks else None, user_agent)

    async def close(self) -> None:
        """Close all connections; running requests end with Unavailable."""
        await self._session.close()

    @contextlib.asynccontextmanager
    async def send(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        data: bytes | None = None,
        content_type: str | None = None,
        accept: str = JSON,
        total: float | None = None,
        read: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer whose status is good, to be read inside. Credentials that the server refuses are renewed once.

        total: seconds for all of it, None without limit. read: seconds of silence after which the connection counts as
        dead. Raises Unavailable where the connection breaks, is silent or takes too long, and ApiError for a refusal.
        """
        connect = self._connect_timeout if total is None else min(self._connect_timeout, total)
        timeout = aiohttp.ClientTimeout(total=total, sock_connect=connect, sock_read=read)
        with self._as_unavailable(path):
            for last in (False, True):
                if self.endpoint.expired():
                    await self._renew(self.endpoint)
                used = self.endpoint
                async with self._session.request(
                    method,
                    used.url(path),
                    params=query(params),
                    data=data,
                    headers=used.headers(
                        ("Accept", accept), ("Content-Type", (data is not None and content_type) or JSON)
                    ),
                    timeout=timeout,
                    allow_redirects=False,
                    ssl=used.ssl_context() or True,
                    server_hostname=used.server_name,
                    proxy=self._proxy,
                ) as response:
                    self.observer.answered(method, response.status)
                    if response.status < 300:
                        try:
                            yield response
                        finally:
                            _hang_up(response)
                        return
                    error = await _error_of(response)
                if last or not isinstance(error, Unauthorized) or not await self._renew(used):
                    try:
                        raise error
                    finally:
                        del error  # it knows this frame, which would keep it until all objects are looked through

    async def _renew(self, used: Endpoint) -> bool:
        """Load the credentials again; False where that was done a moment ago already, or fails.

        That covers all sources: a token file, a plugin, and whatever has been changed in the kubeconfig.
        """
        if self._load is None:
            return False
        async with self._loading:
            if self.endpoint is not used:
                return True
            if time.monotonic() - self._loaded < MIN_RENEWAL_SECONDS:
                return False
            self._loaded = time.monotonic()
            try:
                found = await self._load()
            except ValueError as error:
                self.observer.renewed(error)
                return False
            self.endpoint = dataclasses.replace(
                used,
                authorization=found.authorization,
                tls=found.tls,
                impersonation=found.impersonation,
                expires=found.expires,
            )
        if self.endpoint != used:
            self.observer.renewed(None)
        return True

    @contextlib.contextmanager
    def _as_unavailable(self, path: str) -> Iterator[None]:
        """Whatever aiohttp or the operating system says about the connection is Unavailable to all others."""
        try:
            yield
        except LOST as error:
            reason = "Timeout" if isinstance(error, TimeoutError) else type(error).__name__
            self.observer.failed(reason)
            raise Unavailable(0, reason, f"{path}: {error or reason}") from _without_frames(error)


SOCKS_ERRORS = (aiohttp_socks.ProxyError, aiohttp_socks.ProxyConnectionError, aiohttp_socks.ProxyTimeoutError)
LOST = (TimeoutError, aiohttp.ClientError, OSError, asyncio.IncompleteReadError, *SOCKS_ERRORS)


def _without_frames(error: BaseException) -> BaseException:
    """The same error. It no longer knows where it was raised, nor do its causes.

    A connection keeps the error it broke with, and the frames of that error know the connection. Both would stay until
    all objects are looked through: about 40 KiB for a watch over TLS.
    """
    one: BaseException | None = error
    while one is not None:
        one.__traceback__ = None
        one = one.__cause__ or one.__context__
    return error


def _session(socks: str | None, user_agent: str) -> aiohttp.ClientSession:
    """A session of aiohttp. socks: the URL of a SOCKS proxy that all goes through."""
    options: dict[str, Any] = {"limit": 0}  # bounded by the client; watches are not to take requests' connections
    if socks is not None:
        # As client-go: the proxy looks the name up.
        address = socks.replace("socks5h:", "socks5:", 1)
        connector: aiohttp.TCPConnector = aiohttp_socks.ProxyConnector.from_url(address, rdns=True, **options)
    else:
        connector = aiohttp.TCPConnector(socket_factory=_socket_with_keepalive, **options)
    return aiohttp.ClientSession(
        connector=connector,
        headers={"User-Agent": user_agent},
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=READ_BUFFER,
        auto_decompress=True,
        # aiohttp would read the environment, and ~/.netrc, in a thread of its own for every single request.
        trust_env=False,
    )


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """End the connection of an answer that was not read to its end. It is of no more use, and to take leave by TLS of a
    server that may not listen would outlive the session, which does not wait for it."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()


async def _error_of(response: aiohttp.ClientResponse) -> ApiError:
    body = await response.read()
    try:
        retry_after = float(response.headers.get("Retry-After", ""))
    except ValueError:  # absent, or a date, which the API server does not send
        retry_after = None
    return error_for(response.status, body, retry_after=retry_after)


def _socket_with_keepalive(address: Any) -> socket.socket:
    """A socket that notices within about 30 seconds that its peer is gone, even when nothing is being sent.

    A node that is switched off or a firewall that forgets a connection sends no FIN; without this, a watch
    would look healthy until its read timeout.
    """
    family, kind, protocol = address[0], address[1], address[2]
    sock = socket.socket(family, kind, protocol)
    if family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock
