"""The way to the API server: kubernetes_asyncio's configuration and credentials, aiohttp's connections, our
own rules.

The generated client of kubernetes_asyncio has no timeouts by default, so a half-open connection hangs for
ever, hands out raw responses without looking at their status, and builds models that cost a hundred times
what a decision reads. Here:

- every request has a connect and a read timeout, and dead peers are found by TCP keepalive;
- every answer of 400 and up is raised as one of `errors`;
- bodies are bytes in both directions: what they are decoded into is the caller's choice.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from scavenger_runtime import metrics
from scavenger_runtime.errors import ApiError, NotFound, TooManyRequests, Unauthorized, Unavailable, error_for
from scavenger_runtime.logging import get_logger
from scavenger_runtime.resources import PODS, Resource, encode

Params = Mapping[str, str | int | bool | None]

JSON = "application/json"
APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"

CONNECT_TIMEOUT = 5.0
"""Seconds for name resolution, TCP and TLS together."""

REQUEST_TIMEOUT = 30.0
"""Seconds for a whole request, unless the caller says otherwise."""

MAX_CONCURRENCY = 64
"""Requests under way at once (streams not counted). The API server's own fairness does the rest: no
client-side QPS.
"""

MAX_RETRIES = 5
"""How often a request refused with 429 and Retry-After is sent again before the refusal is raised."""

MAX_RETRY_AFTER = 10.0
"""Seconds waited at most for a Retry-After inside one request; a longer one is the caller's to wait for."""

READ_BUFFER = 256 * 1024
"""Bytes buffered per connection: bounds how many watch events are handled before the event loop gets its
turn.
"""

REQUESTS = metrics.counter("api_requests", "Requests sent to the API server, by outcome.", ["method", "code"])
SECONDS = metrics.histogram("api_request_seconds", "Duration of requests to the API server.", ["method"])

log = get_logger(__name__)


class Credentials:
    """An authorization header that never changes; None for none (client certificates are in the TLS
    context).
    """

    def __init__(self, authorization: str | None = None) -> None:
        self._authorization = authorization

    async def authorization(self) -> str | None:
        """The value of the Authorization header for the next request."""
        return self._authorization

    async def renew(self) -> bool:
        """Load them anew after the server has refused them; False where there is nothing to load."""
        return False


class ApiClient:
    """Requests to one API server. `connect` reads the configuration; the constructor takes a plain URL
    (tests).

    server: base URL. ssl_context: None for plain HTTP. max_concurrency: requests under way at once.
    connect_timeout, request_timeout: seconds. Use it as an async context manager, or `close()` it.
    """

    def __init__(
        self,
        server: str,
        *,
        credentials: Credentials | None = None,
        ssl_context: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
        proxy: str | None = None,
        user_agent: str = "scavenger",
        max_concurrency: int = MAX_CONCURRENCY,
        connect_timeout: float = CONNECT_TIMEOUT,
        request_timeout: float = REQUEST_TIMEOUT,
    ) -> None:
        self.server = server.rstrip("/")
        self.request_timeout = request_timeout
        self._credentials = credentials or Credentials()
        self._connect_timeout = connect_timeout
        self._places = asyncio.Semaphore(max_concurrency)
        self._options: dict[str, Any] = {
            "server_hostname": server_hostname,
            "proxy": proxy or _proxy_from_environment(self.server),
        }
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # bounded by `_places`; watches are not to take the connections of requests
                ssl=ssl_context if ssl_context is not None else True,
                socket_factory=_socket_with_keepalive,
            ),
            headers={"User-Agent": user_agent, "Accept": JSON},
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER,
            auto_decompress=True,
            # aiohttp would read the environment, and ~/.netrc, in a thread of its own for every single request.
            trust_env=False,
        )

    @classmethod
    async def connect(
        cls,
        *,
        kubeconfig: str | None = None,
        context: str | None = None,
        user_agent: str = "scavenger",
        **options: Any,
    ) -> Self:
        """A client from a kubeconfig or, without one, $KUBECONFIG, the service account of the pod, or
        ~/.kube/config.

        Sends nothing yet. options: as for the constructor. Raises ValueError where no usable configuration is
        found.
        """
        from scavenger_runtime import _kubeconfig  # loads kubernetes_asyncio: 2 s and 95 MB

        found = await _kubeconfig.load(kubeconfig, context)
        return cls(
            found.server,
            credentials=found,
            ssl_context=found.ssl_context(),
            server_hostname=found.server_hostname,
            proxy=found.proxy,
            user_agent=user_agent,
            **options,
        )

    async def close(self) -> None:
        """Close all connections; running requests end with Unavailable."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- requests ---------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Any = None,
        content_type: str | None = None,
        timeout: float | None = None,
        urgent: bool = False,
    ) -> bytes:
        """Send one request and return the body of its answer.

        body: bytes, or anything `resources.encode` takes. timeout: seconds for the whole request. urgent: do
        not wait for a place among `max_concurrency` (lease renewals must not queue behind a thousand
        patches). A 429 with a short Retry-After is waited for and sent again. Raises ApiError.
        """
        if urgent:
            return await self._request(method, path, params, body, content_type, timeout)
        async with self._places:
            return await self._request(method, path, params, body, content_type, timeout)

    async def get(self, resource: Resource[Any], namespace: str | None, name: str) -> bytes:
        """Read an object. Raises NotFound, ApiError."""
        return await self.request("GET", resource.path(namespace, name))

    async def create(self, resource: Resource[Any], namespace: str | None, obj: Any) -> bytes:
        """Create an object. Raises AlreadyExists, Invalid, ApiError."""
        return await self.request("POST", resource.path(namespace), body=obj)

    async def replace(
        self,
        resource: Resource[Any],
        namespace: str | None,
        name: str,
        obj: Any,
        *,
        subresource: str | None = None,
    ) -> bytes:
        """Overwrite an object; with a resourceVersion in it, only that version. Raises Conflict, NotFound,
        ApiError.
        """
        return await self.request("PUT", resource.path(namespace, name, subresource), body=obj)

    async def apply(
        self,
        resource: Resource[Any],
        namespace: str | None,
        name: str,
        obj: Any,
        *,
        field_manager: str,
        force: bool = True,
        subresource: str | None = None,
    ) -> bytes:
        """Server-side apply: own exactly the fields in `obj`, which must name its apiVersion and kind.

        force: take fields over from other managers; without it a disputed field raises Conflict.
        """
        params: Params = {"fieldManager": field_manager, "force": force}
        path = resource.path(namespace, name, subresource)
        return await self.request("PATCH", path, params=params, body=obj, content_type=APPLY_PATCH)

    async def merge_patch(
        self,
        resource: Resource[Any],
        namespace: str | None,
        name: str,
        patch: Any,
        *,
        subresource: str | None = None,
    ) -> bytes:
        """RFC 7386: maps are merged, lists replaced, null removes. Raises NotFound, Conflict, ApiError."""
        return await self._patch(MERGE_PATCH, resource, namespace, name, patch, subresource)

    async def strategic_patch(
        self,
        resource: Resource[Any],
        namespace: str | None,
        name: str,
        patch: Any,
        *,
        subresource: str | None = None,
    ) -> bytes:
        """Strategic merge: lists of the core kinds are merged by their keys. Not for custom resources
        (Invalid).
        """
        return await self._patch(STRATEGIC_PATCH, resource, namespace, name, patch, subresource)

    async def json_patch(
        self,
        resource: Resource[Any],
        namespace: str | None,
        name: str,
        patch: Any,
        *,
        subresource: str | None = None,
    ) -> bytes:
        """RFC 6902: a list of operations; a `test` that does not hold raises Invalid."""
        return await self._patch(JSON_PATCH, resource, namespace, name, patch, subresource)

    async def delete(
        self,
        resource: Resource[Any],
        namespace: str | None,
        name: str,
        *,
        propagation: str = "Background",
        grace_period: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> bool:
        """Ask for an object to be deleted; False where it was already gone, which is success as well.

        propagation is always sent: batch/v1 Jobs orphan their pods without. grace_period: seconds. uid,
        resource_version: delete only that incarnation or version; another one raises Conflict.
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
            "gracePeriodSeconds": grace_period,
            "preconditions": {k: v for k, v in preconditions.items() if v is not None} or None,
        }
        body = {k: v for k, v in body.items() if v is not None}
        try:
            await self.request("DELETE", resource.path(namespace, name), body=body)
        except NotFound:
            return False
        return True

    async def evict(self, namespace: str, pod: str, *, grace_period: int | None = None, uid: str | None = None) -> bool:
        """Ask for a pod to be evicted, which a disruption budget may refuse; False where it was already gone.

        Raises TooManyRequests with "DisruptionBudget" among its `causes()` where a budget covers the pod, and
        Conflict where the pod is another one than `uid`.
        """
        options: dict[str, Any] = {}
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": options,
        }
        try:
            await self.request("POST", PODS.path(namespace, pod, "eviction"), body=body)
        except NotFound:
            return False
        return True

    async def stream(
        self, path: str, *, params: Params | None = None, read_timeout: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a long answer (a watch, a log) as they arrive, without their newline.

        read_timeout: seconds of silence after which the connection counts as dead. Ends when the server ends
        the answer in good order. Raises Unavailable where the connection breaks or falls silent, and ApiError
        for a refusal.
        """
        timeout = aiohttp.ClientTimeout(sock_connect=self._connect_timeout, sock_read=read_timeout)
        with _as_unavailable(path):
            async with self._send("GET", path, params, None, None, timeout) as response:
                rest = b""
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if line:
                            yield line
                if rest:
                    yield rest

    # --- inside -----------------------------------------------------------------------------------

    async def _patch(
        self,
        content_type: str,
        resource: Resource[Any],
        namespace: str | None,
        name: str,
        patch: Any,
        subresource: str | None,
    ) -> bytes:
        path = resource.path(namespace, name, subresource)
        return await self.request("PATCH", path, body=patch, content_type=content_type)

    async def _request(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: Any,
        content_type: str | None,
        timeout: float | None,
    ) -> bytes:
        total = timeout if timeout is not None else self.request_timeout
        limits = aiohttp.ClientTimeout(total=total, sock_connect=min(self._connect_timeout, total), sock_read=total)
        data = None if body is None else encode(body)
        for attempt in range(MAX_RETRIES + 1):
            try:
                with _as_unavailable(path), SECONDS.labels(method).time():
                    async with self._send(method, path, params, data, content_type, limits) as response:
                        return await response.read()
            except TooManyRequests as refusal:
                wait = _retry_after(refusal)
                if wait is None or attempt == MAX_RETRIES:
                    raise
                await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    @contextlib.asynccontextmanager
    async def _send(
        self,
        method: str,
        path: str,
        params: Params | None,
        data: bytes | None,
        content_type: str | None,
        timeout: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer whose status is good. Credentials that the server refuses are renewed once."""
        query = _query(params)
        for last in (False, True):
            headers = await self._headers(content_type if data is not None else None)
            async with self._session.request(
                method,
                self.server + path,
                params=query,
                data=data,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                **self._options,
            ) as response:
                REQUESTS.labels(method, str(response.status)).inc()
                if response.status < 300:
                    yield response
                    return
                error = await _error_of(response)
            if last or not isinstance(error, Unauthorized) or not await self._credentials.renew():
                raise error

    async def _headers(self, content_type: str | None) -> dict[str, str]:
        headers = {"Content-Type": content_type or JSON}
        authorization = await self._credentials.authorization()
        if authorization is not None:
            headers["Authorization"] = authorization
        return headers


def _proxy_from_environment(server: str) -> str | None:
    """What HTTPS_PROXY, HTTP_PROXY and NO_PROXY say about a server."""
    url = urlsplit(server)
    if url.hostname is None or proxy_bypass(url.hostname):
        return None
    found: str | None = getproxies().get(url.scheme)
    return found


def _query(params: Params | None) -> dict[str, str]:
    """As the API wants it: true and false in lower case, nothing for None."""
    given = {} if params is None else params
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in given.items() if v is not None}


async def _error_of(response: aiohttp.ClientResponse) -> ApiError:
    body = await response.read()
    try:
        retry_after = float(response.headers.get("Retry-After", ""))
    except ValueError:  # absent, or a date, which the API server does not send
        retry_after = None
    return error_for(response.status, body, retry_after=retry_after)


def _retry_after(refusal: TooManyRequests) -> float | None:
    """Seconds to wait before the same request is sent again; None where it should not be.

    A budget that forbids an eviction sends 429 too, but waiting for it inside a request helps nobody.
    """
    if refusal.retry_after is None or refusal.retry_after > MAX_RETRY_AFTER:
        return None
    return None if "DisruptionBudget" in refusal.causes() else refusal.retry_after


@contextlib.contextmanager
def _as_unavailable(path: str) -> Iterator[None]:
    """Whatever aiohttp or the operating system says about the connection is Unavailable to everybody else."""
    try:
        yield
    except (TimeoutError, aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
        reason = "Timeout" if isinstance(error, TimeoutError) else type(error).__name__
        REQUESTS.labels("any", reason).inc()
        raise Unavailable(0, reason, f"{path}: {error or reason}") from error


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
