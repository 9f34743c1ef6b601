"""A small API server in memory, for tests of everything that speaks to one.

It does what the components rely on and nothing else. That is CRUD with resource versions and conflicts, lists in pages,
watches with bookmarks and 410, the four patches, the status subresource, finalizers, evictions against budgets. And it
fails on command. The contract tests run the same cases against it and against a real server; where they differ, this
one is wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import orjson
from aiohttp import web
from scavenger_kube.client import ApiClient
from scavenger_kube.resources import METADATA, Resource
from scavenger_runtime.clock import Clock, SystemClock

from scavenger_testing import patches
from scavenger_testing.answers import Answer, Cut, Request, json_answer, refused
from scavenger_testing.faults import WRITES, Fault, Faults
from scavenger_testing.reviews import Reviews
from scavenger_testing.store import Collection, Entry, Object, Refusal, Store, matches
from scavenger_testing.virtual_loop import VirtualLoop
from scavenger_testing.watches import Watches
from scavenger_testing.wire import Wire


class FakeApi:
    """`async with FakeApi() as api:` serves on a free port of 127.0.0.1; `api.client()` speaks to it.

    listens: False to do without a socket. Only clients with a session of `api.session()` reach it then.
    api.store: what it holds. api.requests: what it received. api.faults: what is to go wrong. api.latency: seconds
    added to every answer. api.tokens: the bearer tokens it takes; None for all. api.reviews: whom it knows
    when it is asked for a token or a right.
    """

    def __init__(self, clock: Clock | None = None, *, listens: bool = True) -> None:
        self._clock = clock or SystemClock()
        self._listens = listens
        self.store = Store(lambda: self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"))
        self.requests: list[Request] = []
        self.latency = 0.0
        self.tokens: set[str] | None = None
        self.faults = Faults()
        self.reviews = Reviews()
        self._watches = Watches(self.store)
        self._pages: dict[str, tuple[int, list[Object]]] = {}
        self._runner: web.AppRunner | None = None
        self._clients: list[ApiClient] = []
        self.url = "http://in-memory"

    async def __aenter__(self) -> Self:
        if not self._listens:
            return self
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.faults.release()
        for client in self._clients:
            await client.close()
        self.close_watches()
        if self._runner is not None:
            await self._runner.cleanup()

    def write_kubeconfig(self, folder: Path) -> Path:
        """A kubeconfig for processes of their own that are to work with this server; returns its path."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "fake", "user": {}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
        }
        path = folder / "kubeconfig"
        path.write_bytes(orjson.dumps(content))
        return path

    def client(self, **options: Any) -> ApiClient:
        """A client of this server, closed with it. options: as for ApiClient."""
        client = ApiClient(self.url, session=self.session(), **options)
        self._clients.append(client)
        return client

    def session(self) -> Wire | None:
        """What a client sends requests with: a session of its own where this server does not listen."""
        if self._listens:
            return None
        loop = asyncio.get_running_loop()
        return Wire(self.answer, loop.latency if isinstance(loop, VirtualLoop) else float)

    # --- set-up and inspection ----------------------------------------------------------------------

    def put(self, resource: Resource[Any], obj: Object) -> Object:
        """Store an object as it is, status included, and show it to watches."""
        stored = self.store.seed(_collection(resource, obj["metadata"].get("namespace", "")), obj)
        self._watches.notify()
        return patches.copied(stored)

    def get(self, resource: Resource[Any], namespace: str | None, name: str) -> Object | None:
        """An object as it is stored, or None."""
        try:
            return patches.copied(self.store.get(_collection(resource, namespace or ""), name))
        except Refusal:
            return None

    def list(self, resource: Resource[Any], namespace: str | None = None) -> list[Object]:
        """All objects of a kind."""
        return patches.copied(self.store.list(_collection(resource, namespace or "")))

    def stored(self, resource: Resource[Any], namespace: str | None = None) -> Sequence[Object]:
        """All objects of a kind, the stored ones themselves: to be read and never changed, but without a copy of each,
        for what looks at all of them at every moment of a test."""
        return self.store.list(_collection(resource, namespace or ""))

    def edit(self, resource: Resource[Any], namespace: str | None, name: str, edit: Callable[[Object], None]) -> Object:
        """Change a stored object in place, anything of it, as some other component would; its generation follows."""
        stored = self.store.edit(_collection(resource, namespace or ""), name, edit)
        self._watches.notify()
        return patches.copied(stored)

    def remove(self, resource: Resource[Any], namespace: str | None, name: str) -> None:
        """Delete an object, finalizers or not."""
        where = _collection(resource, namespace or "")
        obj = patches.copied(self.store.get(where, name))
        obj["metadata"].pop("finalizers", None)
        self.store.seed(where, obj)
        self.store.delete(where, name, {"gracePeriodSeconds": 0, "propagationPolicy": "Orphan"})
        self._watches.notify()

    def delete(self, resource: Resource[Any], namespace: str | None, name: str, *, grace: int | None = None) -> None:
        """Delete an object as a client does: what has finalizers is marked. grace: seconds, for pods."""
        self.store.delete(_collection(resource, namespace or ""), name, {"gracePeriodSeconds": grace})
        self._watches.notify()

    def written(self, resource: Resource[Any]) -> Sequence[Entry]:
        """All writes to a kind, the first one first."""
        return self.store.since(_collection(resource, ""), 0)

    def count(self, method: str, path: str = "", *, watch: bool | None = None) -> int:
        """How many requests of a method, and with `path` in theirs, were received."""
        return sum(
            1
            for seen in self.requests
            if seen.method == method and path in seen.path and (watch is None or ("watch" in seen.query) is watch)
        )

    # --- trouble ------------------------------------------------------------------------------------

    def fail(
        self,
        status: int,
        *,
        times: int = 1,
        methods: frozenset[str] | set[str] = WRITES,
        path: str = "",
        reason: str = "",
        retry_after: float | None = None,
        body: bytes | None = None,
    ) -> None:
        """Refuse the next requests with that status. body: in place of a metav1.Status."""
        self.faults.add(Fault("fail", times, frozenset(methods), path, status, reason, retry_after, body=body))

    def drop(
        self,
        *,
        times: int = 1,
        methods: frozenset[str] | set[str] = WRITES,
        path: str = "",
        after_write: bool = False,
    ) -> None:
        """Cut the connection of the next requests instead of an answer; after_write: once they have taken
        effect.
        """
        action: Literal["drop", "drop_after"] = "drop_after" if after_write else "drop"
        self.faults.add(Fault(action, times, frozenset(methods), path))

    def hang(self, *, times: int = 1, methods: frozenset[str] | set[str] = WRITES, path: str = "") -> None:
        """Never answer the next requests."""
        self.faults.add(Fault("hang", times, frozenset(methods), path))

    def delay(
        self,
        seconds: float,
        *,
        times: int = 1,
        methods: frozenset[str] | set[str] = WRITES,
        path: str = "",
    ) -> None:
        """Handle the next requests that much later."""
        self.faults.add(Fault("delay", times, frozenset(methods), path, seconds=seconds))

    def heal(self) -> None:
        """Forget all faults that are still to come, and let go of what hangs."""
        self.faults.heal()

    def compact(self) -> None:
        """Forget all history and all continue tokens: watches and pages from before get 410."""
        self.store.compact()
        self._pages.clear()

    def bookmark(self) -> None:
        """Send a bookmark to every watch."""
        obj = {"metadata": {"resourceVersion": str(self.store.version)}}
        self.send_line(orjson.dumps({"type": "BOOKMARK", "object": obj}) + b"\n")

    def send_line(self, line: bytes) -> None:
        """Send bytes to every watch as they are."""
        self._watches.send(line)

    def expire_watches(self) -> None:
        """End every watch with an ERROR event of 410."""
        status = Refusal(410, "Expired", "too old resource version").status()
        self.compact()
        self.send_line(orjson.dumps({"type": "ERROR", "object": status}) + b"\n")
        self.close_watches()

    def close_watches(self) -> None:
        """End every watch in good order."""
        self._watches.send("close")

    def drop_watches(self) -> None:
        """Cut the connection of every watch."""
        self._watches.send("drop")

    def hold_watches(self, *resources: Resource[Any]) -> None:
        """Have the watches of these kinds fall behind: they stay open and bring nothing. Lists are not affected."""
        for resource in resources:
            self._watches.hold(resource.plural)

    def release_watches(self, *resources: Resource[Any]) -> None:
        """Have the watches of these kinds bring what they held back."""
        for resource in resources:
            self._watches.release(resource.plural)

    def lag_watches(self, seconds: Callable[[], float]) -> None:
        """Have each watch be behind by as much as this says: those that are open, and those that come."""
        self._watches.lag(seconds)

    @property
    def hampered(self) -> bool:
        """Whether watches are behind, or requests are still to fail."""
        return self._watches.behind or any(fault.times > 0 for fault in self.faults)

    @property
    def watches(self) -> int:
        """How many watches are open."""
        return len(self._watches)

    # --- HTTP ---------------------------------------------------------------------------------------

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        query, body = dict(request.query), await request.read()
        kind, accept = request.content_type, request.headers.get("Accept", "")
        received = Request(request.method, request.path, query, request.path_qs, kind, token, body, accept)
        try:
            answer = await self.answer(received)
            if answer.lines is not None:
                return await _send_lines(request, answer.lines)
        except Cut:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=500)  # no client is there to read it
        kind = "application/json"
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers, content_type=kind)

    # --- requests -----------------------------------------------------------------------------------

    async def answer(self, request: Request) -> Answer:
        """Answer a request. Raises Cut."""
        self.requests.append(request)
        if self.latency:
            await asyncio.sleep(self.latency)
        if self.tokens is not None and request.token not in self.tokens:
            return refused(Refusal(401, "Unauthorized", "Unauthorized"))
        fault = self.faults.take(request)
        if fault is not None:
            early = await self.faults.befall(fault)
            if early is not None:
                return early
        version = self.store.version
        try:
            answer = self._route(request)
        except Refusal as refusal:
            answer = refused(refusal)
        if self.store.version != version:
            self._watches.notify()
        if fault is not None and fault.action == "drop_after":
            raise Cut
        return answer

    def _route(self, request: Request) -> Answer:
        if request.path == "/version":
            return json_answer({"major": "1", "minor": "37", "gitVersion": "v1.37.1-fake"})
        where, name, subresource = _parse(request.path)
        if request.method == "GET" and not name:
            return self._watches.serve(request, where) if "watch" in request.query else self._list(request, where)
        if request.method == "GET":
            return _object_answer(request, self.store.get(where, name))
        body = orjson.loads(request.body or b"{}")
        if request.method == "POST":
            if "dryRun" in request.query:
                return _object_answer(request, body, status=201)
            return self._post(request, where, name, subresource, body)
        if request.method == "PUT":
            return _object_answer(request, self.store.change(where, name, subresource, lambda _old: body))
        if request.method == "PATCH":
            return self._patch(request, where, name, subresource, body)
        if request.method == "DELETE":
            return _object_answer(request, self.store.delete(where, name, body))
        raise Refusal(405, "MethodNotAllowed", request.method)

    def _post(self, request: Request, where: Collection, name: str, subresource: str, body: Any) -> Answer:
        if subresource == "eviction":
            return json_answer(self._evict(where, name, body.get("deleteOptions") or {}), status=201)
        if name:
            raise Refusal(405, "MethodNotAllowed", "POST to an object")
        if (review := self.reviews.answer(where.plural, body)) is not None:
            return json_answer(review, status=201)
        return _object_answer(request, self.store.create(where, body), status=201)

    def _evict(self, where: Collection, name: str, options: Mapping[str, Any]) -> Object:
        """Refuse what a budget with an integer minAvailable covers and is not being deleted yet, but for an unready pod
        where the budget's status says that it is met. Of two budgets say 500, in an answer that says 201, as the real
        one does."""
        pod = self.store.get(where, name)
        covering = [] if "deletionTimestamp" in pod["metadata"] else _budgets_over(self.store, where, pod)
        if len(covering) > 1:
            message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "message": message}
        for budget, covered in covering:
            wanted = int(budget["spec"].get("minAvailable", 0))
            if covered <= wanted and not (_unready(pod) and _met(budget)):
                needs = f"The disruption budget {budget['metadata']['name']} needs {wanted} healthy pods"
                cause = {"reason": "DisruptionBudget", "message": f"{needs} and has {covered} currently"}
                message = "Cannot evict pod as it would violate the pod's disruption budget."
                raise Refusal(429, "TooManyRequests", message, {"causes": [cause]})
        self.store.delete(where, name, options)
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def _patch(self, request: Request, where: Collection, name: str, subresource: str, body: Any) -> Answer:
        if request.content_type == "application/apply-patch+yaml":
            manager = request.query.get("fieldManager", "")
            if not manager:
                raise Refusal(422, "Invalid", "fieldManager: Required value: is required for apply patch")
            force = request.query.get("force") == "true"
            return _object_answer(request, self.store.apply(where, name, subresource, body, manager, force))
        if request.content_type == "application/strategic-merge-patch+json" and _is_custom(where):
            raise Refusal(415, "UnsupportedMediaType", "strategic merge patch of a custom resource")
        make = {
            "application/merge-patch+json": patches.merge,
            "application/strategic-merge-patch+json": patches.strategic,
            "application/json-patch+json": patches.json_patch,
        }[request.content_type]
        try:
            return _object_answer(request, self.store.change(where, name, subresource, lambda old: make(old, body)))
        except patches.PatchError as error:
            raise Refusal(422, "Invalid", str(error)) from error

    def _list(self, request: Request, where: Collection) -> Answer:
        query = request.query
        token = query.get("continue")
        if token is not None:
            if token not in self._pages:
                raise Refusal(410, "Expired", "The provided continue parameter is too old")
            version, items = self._pages[token]
        else:
            selectors = query.get("labelSelector", ""), query.get("fieldSelector", "")
            version, items = self.store.version, [o for o in self.store.list(where) if matches(o, *selectors)]
        limit = int(query.get("limit") or 0) or len(items)
        meta: dict[str, Any] = {"resourceVersion": str(version)}
        if len(items) > limit:
            meta |= {"continue": uuid.uuid4().hex, "remainingItemCount": len(items) - limit}
            self._pages[meta["continue"]] = (version, items[limit:])
        return json_answer({"kind": "List", "apiVersion": where.api_version, "metadata": meta, "items": items[:limit]})


def _budgets_over(store: Store, where: Collection, pod: Object) -> list[tuple[Object, int]]:
    """The budgets that select the pod, each with how many pods it selects that are not being deleted."""
    found = []
    for budget in store.list(Collection("policy/v1", "poddisruptionbudgets", where.namespace)):
        selector = ",".join(f"{k}={v}" for k, v in budget["spec"]["selector"].get("matchLabels", {}).items())
        if matches(pod, selector, ""):
            staying = (one for one in store.list(where) if "deletionTimestamp" not in one["metadata"])
            found.append((budget, sum(matches(one, selector, "") for one in staying)))
    return found


def _unready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(found["type"] == "Ready" and found["status"] == "False" for found in conditions)


def _met(budget: Object) -> bool:
    """By the last count of the disruption controller, of whichever generation."""
    status = budget.get("status", {})
    return int(status.get("currentHealthy", 0)) >= int(status.get("desiredHealthy", 0)) > 0


def _object_answer(request: Request, found: Object, status: int = 200) -> Answer:
    """An object, or a Status; of an object the metadata alone where no more is accepted."""
    if request.accept == METADATA and found.get("kind") != "Status":
        found = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": found["metadata"]}
    return json_answer(found, status=status)


@functools.lru_cache(maxsize=4096)
def _parse(path: str) -> tuple[Collection, str, str]:
    """Collection, name and subresource of a URL path. Raises Refusal."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        api_version, rest = parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        api_version, rest = f"{parts[1]}/{parts[2]}", parts[3:]
    else:
        raise Refusal(404, "NotFound", "the server could not find the requested resource")
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = [*rest, "", ""][:3]
    return Collection(api_version, plural, namespace), name, subresource


async def _send_lines(request: web.Request, lines: AsyncGenerator[bytes, None]) -> web.StreamResponse:
    """Send a watch until it ends, or the client is gone. Raises Cut."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    async with contextlib.aclosing(lines):
        await response.prepare(request)
        with contextlib.suppress(ConnectionResetError):
            async for line in lines:
                await response.write(line)
            await response.write_eof()
    return response


def _is_custom(where: Collection) -> bool:
    group = where.api_version.rpartition("/")[0]
    return "." in group and not group.endswith(".k8s.io")


def _collection(resource: Resource[Any], namespace: str) -> Collection:
    return Collection(resource.api_version, resource.plural, namespace if resource.namespaced else "")
