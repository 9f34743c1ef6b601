"""The asyncio client: aiohttp's connections, with this project's rules.

The generated client of kubernetes_asyncio has no timeouts by default, so a half-open connection hangs for
ever, hands out raw responses without looking at their status, and builds models that cost a hundred times
what a decision reads. Here:

- every request has timeouts, and every answer of 400 and up is raised as one of `errors` (`transport`);
- bodies are bytes in both directions: what they are decoded into is the caller's choice. Of what was received, every
  decoder can read all (`nesting`).
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec
from scavenger_api.names import LABEL_EVICTION

from scavenger_kube import credentials
from scavenger_kube.endpoint import Endpoint, KubeconfigError
from scavenger_kube.errors import NotFound, TooLarge, TooManyRequests, Unavailable, error_for_status
from scavenger_kube.nesting import readable
from scavenger_kube.resources import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    METADATA,
    PODS,
    STRATEGIC_PATCH,
    Params,
    Resource,
    encode,
)
from scavenger_kube.transport import Observer, Session, Transport

CONNECT_TIMEOUT = 5.0
"""Seconds for name resolution, TCP and TLS together."""

REQUEST_TIMEOUT = 30.0
"""Seconds for a whole request, unless the caller says otherwise."""

MAX_CONCURRENCY = 64
"""Requests under way at once (streams not counted). How fast they follow each other is for the sender: for what
is written in bulk there is a budget (`scavenger_runtime.write_budget`).
"""

MAX_RETRIES = 5
"""How often a request refused with 429 and Retry-After is sent again before the refusal is raised."""

MAX_RETRY_AFTER = 10.0
"""Seconds waited at most for a Retry-After inside one request; a longer one is the caller's to wait for."""


class ApiClient:
    """Requests to one API server. `connect` reads the configuration; the constructor takes what it found, or a plain
    URL (tests).

    load: gets the endpoint again when its credentials have expired or are refused; server and proxy stay. observer: is
    told of requests. max_concurrency: requests under way at once. connect_timeout, request_timeout: seconds. session:
    what requests are sent with, in place of one of aiohttp. Use it as an async context manager, or `close()` it. Raises
    KubeconfigError for a proxy that cannot be spoken to.
    """

    def __init__(
        self,
        endpoint: Endpoint | str,
        *,
        load: Callable[[], Awaitable[Endpoint]] | None = None,
        observer: Observer | None = None,
        user_agent: str = "scavenger",
        max_concurrency: int = MAX_CONCURRENCY,
        connect_timeout: float = CONNECT_TIMEOUT,
        request_timeout: float = REQUEST_TIMEOUT,
        session: Session | None = None,
    ) -> None:
        self._transport = Transport(
            Endpoint(endpoint) if isinstance(endpoint, str) else endpoint,
            load=load,
            observer=observer or Observer(),
            user_agent=user_agent,
            connect_timeout=connect_timeout,
            session=session,
        )
        self.request_timeout = request_timeout
        self._may_write: Callable[[], bool] = lambda: True
        self._places = asyncio.Semaphore(max_concurrency)

    @classmethod
    async def connect(cls, *, kubeconfig: str | None = None, context: str | None = None, **options: Any) -> Self:
        """A client from a kubeconfig or, without one, $KUBECONFIG, the service account of the pod, or
        ~/.kube/config.

        Sends nothing yet. options: as for the constructor. Raises ValueError where no usable configuration is
        found.
        """
        load = functools.partial(credentials.load, kubeconfig, context)
        try:
            return cls(await load(), load=load, **options)
        except KubeconfigError as error:
            raise ValueError(f"no usable Kubernetes configuration: {error}") from error

    @property
    def endpoint(self) -> Endpoint:
        """Where requests go, with the credentials in use."""
        return self._transport.endpoint

    @property
    def observer(self) -> Observer:
        """Who is told of requests."""
        return self._transport.observer

    def fence(self, may_write: Callable[[], bool]) -> None:
        """Have this asked right before each write that is not urgent. One that may not be made is not sent."""
        self._may_write = may_write

    async def close(self) -> None:
        """Close all connections; running requests end with Unavailable."""
        await self._transport.close()

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
        at_most: int | None = None,
        accept: str = JSON,
    ) -> bytes:
        """Send one request and return the body of its answer.

        body: bytes, or anything `resources.encode` takes. timeout: seconds for the whole request. urgent: do
        not wait for a place among `max_concurrency` (lease renewals must not queue behind a thousand
        patches). at_most: bytes of the answer. accept: its media type. A 429 with a short Retry-After is waited for and
        sent again. Raises ApiError; TooLarge for a longer answer; Unavailable for what may not be written.
        """
        if urgent:
            return await self._request(method, path, params, body, content_type, timeout, at_most, accept)
        async with self._places:
            may = None if method == "GET" else self._may_write
            return await self._request(method, path, params, body, content_type, timeout, at_most, accept, may)

    async def get(self, resource: Resource[Any], namespace: str | None, name: str) -> bytes:
        """Read an object. Raises NotFound, ApiError."""
        return await self.request("GET", resource.path(namespace, name))

    async def get_metadata(self, resource: Resource[Any], namespace: str | None, name: str) -> bytes:
        """Read the metadata of an object: nothing else of it is sent. Raises NotFound, ApiError."""
        return await self.request("GET", resource.path(namespace, name), accept=METADATA)

    async def create(
        self,
        resource: Resource[Any],
        namespace: str | None,
        obj: Any,
        *,
        dry_run: bool = False,
        whole: bool = True,
    ) -> bytes:
        """Create an object, or be answered what would be created (dry_run).

        whole: be answered with the object, and not with its metadata alone. Raises AlreadyExists, Invalid, ApiError.
        """
        params = {"dryRun": "All"} if dry_run else None
        return await self.request(
            "POST", resource.path(namespace), params=params, body=obj, accept=JSON if whole else METADATA
        )

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
        whole: bool = False,
    ) -> bytes:
        """RFC 7386: maps are merged, lists replaced, null removes.

        whole: be answered with the object, and not with its metadata alone, as a sender of patches reads no more of
        the answer, and a pod template is most of an object. Raises NotFound, Conflict, ApiError.
        """
        return await self._patch(MERGE_PATCH, resource, namespace, name, patch, subresource, whole=whole)

    async def strategic_patch(
        self,
        resource: Resource[Any],
        namespace: str | None,
        name: str,
        patch: Any,
        *,
        subresource: str | None = None,
        whole: bool = False,
    ) -> bytes:
        """Strategic merge: lists of the core kinds are merged by their keys. Not for custom resources
        (Invalid). whole: as for merge_patch.
        """
        return await self._patch(STRATEGIC_PATCH, resource, namespace, name, patch, subresource, whole=whole)

    async def json_patch(
        self,
        resource: Resource[Any],
        namespace: str | None,
        name: str,
        patch: Any,
        *,
        subresource: str | None = None,
        whole: bool = False,
    ) -> bytes:
        """RFC 6902: a list of operations; a `test` that does not hold raises Invalid. whole: as for merge_patch."""
        return await self._patch(JSON_PATCH, resource, namespace, name, patch, subresource, whole=whole)

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
            await self.request("DELETE", resource.path(namespace, name), body=body, accept=METADATA)
        except NotFound:
            return False
        return True

    async def evict(self, namespace: str, pod: str, *, grace_period: int | None = None, uid: str | None = None) -> bool:
        """Ask for a pod to be evicted, which a disruption budget may refuse; False where it was already gone.

        Raises Conflict where the pod is another one than `uid`, and an ApiError of which `errors.by_budget` is true
        where a budget keeps the pod.
        """
        options: dict[str, Any] = {}
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace, "labels": {LABEL_EVICTION: "checked"}},
            "deleteOptions": options,
        }
        try:
            answer = await self.request("POST", PODS.path(namespace, pod, "eviction"), body=body)
        except NotFound:
            return False
        # Of a pod of two budgets it is answered with 201 and a Status that says Failure: the API server returns that as
        # the object that was created (registry/core/pod/storage/eviction.go).
        status = msgspec.json.decode(answer)
        if isinstance(status, dict) and status.get("status") == "Failure":
            raise error_for_status(status)
        return True

    async def stream(
        self, path: str, *, params: Params | None = None, read_timeout: float | None = None, raw: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a watch as they arrive, without their newline.

        raw: with what no decoder takes; the caller mends what it cannot decode. read_timeout: seconds of silence after
        which the connection counts as dead. Ends when the server ends the answer in good order. Raises Unavailable
        where the connection breaks or falls silent, and ApiError for a refusal.
        """
        async with self._transport.send("GET", path, params=params, read=read_timeout) as response:
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line:
                        yield line if raw else self.readable(line)
            if rest:
                yield rest if raw else self.readable(rest)

    # --- inside -----------------------------------------------------------------------------------

    def readable(self, body: bytes) -> bytes:
        """`nesting.readable`, and counted."""
        found = readable(body)
        if found is not body:
            self._transport.observer.cut()
        return found

    async def _patch(
        self,
        content_type: str,
        resource: Resource[Any],
        namespace: str | None,
        name: str,
        patch: Any,
        subresource: str | None,
        *,
        whole: bool,
    ) -> bytes:
        path, accept = resource.path(namespace, name, subresource), JSON if whole else METADATA
        return await self.request("PATCH", path, body=patch, content_type=content_type, accept=accept)

    async def _request(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: Any,
        content_type: str | None,
        timeout: float | None,
        at_most: int | None,
        accept: str,
        may: Callable[[], bool] | None = None,
    ) -> bytes:
        total = timeout if timeout is not None else self.request_timeout
        data = None if body is None else encode(body)
        for attempt in range(MAX_RETRIES + 1):
            if may is not None and not may():
                raise Unavailable(0, "NotLeading", f"{path}: not written, as this process leads no more")
            started = time.perf_counter()
            try:
                async with self._transport.send(
                    method,
                    path,
                    params=params,
                    data=data,
                    content_type=content_type,
                    accept=accept,
                    total=total,
                    read=total,
                ) as response:
                    return self.readable(await _read(response, at_most))
            except TooManyRequests as refusal:
                wait = _retry_after(refusal)
                if wait is None or attempt == MAX_RETRIES:
                    raise
                await asyncio.sleep(wait)
            finally:
                self._transport.observer.took(method, time.perf_counter() - started)
        raise AssertionError("unreachable")


async def _read(response: aiohttp.ClientResponse, at_most: int | None) -> bytes:
    """The body. Raises TooLarge."""
    if at_most is None:
        return await response.read()
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > at_most:
            raise TooLarge(message=f"the answer is longer than {at_most} bytes")
    return b"".join(chunks)


def _retry_after(refusal: TooManyRequests) -> float | None:
    """Seconds to wait before the same request is sent again; None where it should not be.

    A budget that forbids an eviction sends 429 too, but waiting for it inside a request does not help.
    """
    if refusal.retry_after is None or refusal.retry_after > MAX_RETRY_AFTER:
        return None
    return None if "DisruptionBudget" in refusal.causes() else refusal.retry_after
