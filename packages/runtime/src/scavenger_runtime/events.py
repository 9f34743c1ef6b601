"""Kubernetes Events: what `kubectl describe` shows a person about an object.

Fire and forget: recording never waits, never fails, and never floods. Repetitions of an event become a count on the one
that is there; every object has a budget of writes; when the API server is slow, what piles up is bounded and the rest
is dropped and counted.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from scavenger_domain.plain_text import plain
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, NotFound
from scavenger_kube.resources import EVENTS, Resource

from scavenger_runtime import metrics
from scavenger_runtime.clock import Clock, SystemClock
from scavenger_runtime.logging import get_logger

WINDOW_SECONDS = 600.0
"""Repetitions within that time after the last one are counted on the same event, as in client-go."""

CAPACITY = 1000
"""Different events waiting to be written, at most."""

REMEMBERED = 4096
"""Written events that are remembered for counting, and objects whose budget is, at most."""

BURST = 25
"""Events written about one object before its budget is used up, as in client-go."""

HANGS_SECONDS = 2.0
"""A write that takes longer hangs."""

REFILL_SECONDS = 300.0
"""Until one more may be written about that object, as in client-go."""

MESSAGE_BYTES = 1024
"""The API server refuses longer messages."""

RECORDED = metrics.counter("events", "Events by what became of them.", ["outcome"])

log = get_logger(__name__)


class _Meta(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class Described(Protocol):
    """Anything with metadata that an event can be about."""

    @property
    def metadata(self) -> _Meta:
        """The object's metadata."""
        ...


@dataclass(frozen=True, slots=True)
class _Key:
    """Events that are the same but for their count."""

    uid: str
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class _Sent:
    namespace: str
    name: str
    count: int
    first: datetime
    last_seen: float  # monotonic


@dataclass(slots=True)
class _Pending:
    reference: dict[str, str]
    count: int
    first: datetime
    last: datetime


@dataclass(slots=True)
class _Budget:
    tokens: float
    at: float


class EventRecorder:
    """Writes core/v1 Events in the background, once `run()` runs.

    component: who reports, as in `kubectl describe`. instance: which replica of it. cluster_namespace: where
    events about cluster-scoped objects go.
    """

    def __init__(
        self,
        client: ApiClient,
        component: str,
        *,
        instance: str = "",
        cluster_namespace: str = "default",
        clock: Clock | None = None,
        capacity: int = CAPACITY,
        window: float = WINDOW_SECONDS,
    ) -> None:
        self._client = client
        self._component = component
        self._instance = instance or component
        self._cluster_namespace = cluster_namespace
        self._clock = clock or SystemClock()
        self._capacity = capacity
        self._window = window
        self._pending: OrderedDict[_Key, _Pending] = OrderedDict()
        self._sent: OrderedDict[_Key, _Sent] = OrderedDict()
        self._budgets: OrderedDict[str, _Budget] = OrderedDict()
        self._hanging = set[str]()
        self._arrived = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.pace: Callable[[], Awaitable[None]] | None = None
        """Awaited before each write."""

    def normal(self, resource: Resource[Any], obj: Described, reason: str, message: str) -> None:
        """Something that is as it should be. reason: one word in CamelCase; message: a sentence for a person."""
        self.record(resource, obj, "Normal", reason, message)

    def warning(self, resource: Resource[Any], obj: Described, reason: str, message: str) -> None:
        """Something a person may have to look into."""
        self.record(resource, obj, "Warning", reason, message)

    def record(self, resource: Resource[Any], obj: Described, type: str, reason: str, message: str) -> None:
        """Have an event written about `obj`; returns at once, raises nothing. type: Normal or Warning."""
        meta = obj.metadata
        key = _Key(meta.uid or f"{meta.namespace}/{meta.name}", type, reason, _shortened(plain(message)))
        now = self._clock.now()
        waiting = self._pending.get(key)
        if waiting is not None:
            waiting.count += 1
            waiting.last = now
            return
        if len(self._pending) >= self._capacity or not self._affordable(key.uid):
            RECORDED.labels("dropped").inc()
            return
        self._pending[key] = _Pending(_reference(resource, meta), 1, now, now)
        self._idle.clear()
        self._arrived.set()

    async def run(self) -> None:
        """Write what is recorded, until cancelled. A write that hangs, as webhooks of its namespace do, keeps only that
        namespace waiting."""
        async with asyncio.TaskGroup() as writes:
            while True:
                await self._arrived.wait()
                self._arrived.clear()
                while (key := next((key for key in self._pending if not self._hangs(key)), None)) is not None:
                    if self.pace is not None:
                        await self.pace()
                    pending = self._pending.pop(key)
                    write = writes.create_task(self._write_one(key, pending))
                    await self._see_to(write, pending.reference.get("namespace", ""))
                if not self._pending and not self._hanging:
                    self._idle.set()

    def _hangs(self, key: _Key) -> bool:
        return self._pending[key].reference.get("namespace", "") in self._hanging

    async def _see_to(self, write: asyncio.Task[None], namespace: str) -> None:
        """Return when a write is done, or hangs."""
        timer = asyncio.ensure_future(self._clock.sleep(HANGS_SECONDS))
        await asyncio.wait({write, timer}, return_when=asyncio.FIRST_COMPLETED)
        timer.cancel()
        if not write.done():
            self._hanging.add(namespace)
            write.add_done_callback(lambda _: self._answered(namespace))

    def _answered(self, namespace: str) -> None:
        self._hanging.discard(namespace)
        self._arrived.set()

    async def flush(self) -> None:
        """Return when everything recorded so far is written or given up; `run` must be running."""
        await self._idle.wait()

    # --- writing ------------------------------------------------------------------------------------

    async def _write_one(self, key: _Key, pending: _Pending) -> None:
        try:
            RECORDED.labels(await self._write(key, pending)).inc()
        except ApiError as error:
            RECORDED.labels("failed").inc()
            log.warning("event not written", reason=key.reason, error=str(error))
        except Exception:
            RECORDED.labels("failed").inc()
            log.exception("event not written", reason=key.reason)

    async def _write(self, key: _Key, pending: _Pending) -> str:
        sent = self._sent.pop(key, None)
        if sent is not None and self._clock.monotonic() - sent.last_seen <= self._window:
            try:
                await self._count(key, sent, pending)
            except NotFound:
                pass  # expired meanwhile (an hour by default): write it again
            else:
                return "counted"
        await self._create(key, pending)
        return "created"

    async def _count(self, key: _Key, sent: _Sent, pending: _Pending) -> None:
        count = sent.count + pending.count
        patch = {"count": count, "lastTimestamp": _time(pending.last)}
        await self._client.merge_patch(EVENTS, sent.namespace, sent.name, patch)
        self._remember(key, _Sent(sent.namespace, sent.name, count, sent.first, self._clock.monotonic()))

    async def _create(self, key: _Key, pending: _Pending) -> None:
        reference = pending.reference
        namespace = reference.get("namespace") or self._cluster_namespace
        name = f"{reference['name'][:200]}.{uuid.uuid4().hex[:16]}"
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": reference,
            "type": key.type,
            "reason": key.reason,
            "message": key.message,
            "count": pending.count,
            "firstTimestamp": _time(pending.first),
            "lastTimestamp": _time(pending.last),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }
        await self._client.create(EVENTS, namespace, event)
        self._remember(key, _Sent(namespace, name, pending.count, pending.first, self._clock.monotonic()))

    def _remember(self, key: _Key, sent: _Sent) -> None:
        self._sent[key] = sent
        while len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)

    def _affordable(self, uid: str) -> bool:
        """Take one from the object's budget: BURST at once, one more every REFILL_SECONDS."""
        now = self._clock.monotonic()
        budget = self._budgets.pop(uid, None) or _Budget(BURST, now)
        budget.tokens = min(BURST, budget.tokens + (now - budget.at) / REFILL_SECONDS)
        budget.at = now
        self._budgets[uid] = budget
        while len(self._budgets) > REMEMBERED:
            self._budgets.popitem(last=False)
        if budget.tokens < 1.0:
            return False
        budget.tokens -= 1.0
        return True


def _reference(resource: Resource[Any], meta: _Meta) -> dict[str, str]:
    reference = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }
    return {key: value for key, value in reference.items() if value}


def _shortened(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= MESSAGE_BYTES:
        return message
    return encoded[: MESSAGE_BYTES - 3].decode(errors="ignore") + "..."


def _time(time: datetime) -> str:
    """As metav1.Time is written: whole seconds in UTC."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
