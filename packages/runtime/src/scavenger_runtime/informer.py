"""A cache of one kind of object that follows the API server and never stops quietly.

List in pages, then watch from the version of the list. The watch ends sooner or later, in good order (the server closes
it after `timeoutSeconds`), with an error, or by falling silent; it is then started again where it left off. Bookmarks
are the sign of life while nothing happens. A server sends none of what it keeps no watch cache for, which are Events by
default (kubernetes#120348): until there was one, watches are so short that their end in good order is the sign.

When the place to resume from is no longer known to the server (410), the informer lists everything again. It works out
from the difference what changed meanwhile, deletions included. Failures are waited for with a jittered, growing
backoff, for as long as it takes; but a cache that has not been able to follow for `STALE_AFTER` seconds is no longer
`healthy()`, and its process should end.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from scavenger_kube.client import ApiClient
from scavenger_kube.decode import (
    Cacheable,
    DecodeError,
    Decoder,
    Event,
    Known,
    Malformed,
    ModelDecoder,
    StructDecoder,
    decoder_for,
)
from scavenger_kube.errors import ApiError, Gone, Unavailable, error_for_status
from scavenger_kube.resources import Params, Resource

from scavenger_runtime import metrics
from scavenger_runtime.backoff import Backoff
from scavenger_runtime.cache import (
    Cache,
    Change,
    IndexFunction,
    by_label,
    by_namespace,
    by_node,
    by_owner_uid,
)
from scavenger_runtime.clock import Clock, SystemClock
from scavenger_runtime.kept_parts import bounded
from scavenger_runtime.logging import get_logger
from scavenger_runtime.paging import PAGE_SIZE, PagedList

__all__ = [
    "Change",
    "Decoder",
    "Informer",
    "ModelDecoder",
    "StructDecoder",
    "by_label",
    "by_namespace",
    "by_node",
    "by_owner_uid",
]

WATCH_SECONDS = (300, 600)
"""Between these a watch ends in good order; drawn at random, so that a fleet does not reconnect in step."""

WATCH_READ_TIMEOUT = 150.0
"""Seconds of silence after which a watch counts as dead: a server that sends bookmarks sends one every minute."""

STALE_AFTER = 300.0
"""Seconds without any sign of following after which the cache is not healthy."""

RESUMABLE_SECONDS = 240.0
"""What was heard last may be so old when a watch resumes from there: the API server has etcd forget what is older than
five minutes."""

QUICK_WATCH = 1.0
"""A watch that ends in good order within that many seconds, with nothing said, is followed by a wait."""

LIST_AFTER_FAILURES = 4
"""Failures in a row to resume a watch, after which the place to resume from is given up and everything is listed
again."""

OBJECTS = metrics.gauge("informer_objects", "Objects in the cache.", ["informer"])
WATCH_ERRORS = metrics.counter("informer_watch_errors", "Lists and watches that failed.", ["informer", "reason"])
MALFORMED = metrics.counter("informer_malformed_objects", "Objects that could not be decoded.", ["informer"])
UNREADABLE = metrics.gauge("informer_unreadable_objects", "Objects that are there and cannot be read.", ["informer"])
HANDLER_ERRORS = metrics.counter("informer_handler_errors", "Handlers that raised.", ["informer"])
AGE = metrics.gauge("informer_last_event_age_seconds", "Time since the cache was last known to follow.", ["informer"])

log = get_logger(__name__)

T = TypeVar("T", bound=Cacheable)

Handler = Callable[[Change[T]], None]


class Informer(Generic[T]):
    """A cache of the objects of one resource, kept up to date by `run()`.

    Args:
        namespace: only that one.
        label_selector, field_selector: as in kubectl.
        name: in logs, metrics and probes, by default the plural; needed where there are two informers of one kind.
        indices: functions naming the values under which `by_index` finds an object.
        transform: what is kept of an object, with its metadata's key, uid and resourceVersion, from the object and what
            is kept of the version before, if there was one; what it raises makes an object malformed.
        known: finds a version of an object, by its key, that is newer than what is kept, such as one that this process
            has written.
        backoff: between tries after a failure.
    """

    def __init__(
        self,
        client: ApiClient,
        resource: Resource[T],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        name: str | None = None,
        indices: Mapping[str, IndexFunction[T]] | None = None,
        transform: Callable[[T, T | None], T] | None = None,
        known: Known[T] | None = None,
        clock: Clock | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self.resource = resource
        self.name = name or resource.plural
        self.label_selector = label_selector
        self._client = client
        self._path = resource.path(namespace)
        self._selectors: Params = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._transform = transform
        self._cache = Cache(indices or {})
        self._written = known
        self._decoder = decoder_for(resource.type, self._known)
        self._unreadable: dict[str, Malformed] = {}
        self._handlers: list[Handler[T]] = []
        self._clock = clock or SystemClock()
        self._backoff = backoff or Backoff(0.5, 10.0)
        self._version = ""  # to watch from; empty when everything has to be listed
        self._bookmarked = False  # since the last failure
        self._list_due = False
        self._watching: asyncio.Timeout | None = None
        self._heard_at = self._clock.monotonic()
        self._synced = asyncio.Event()
        self._followed_at = self._clock.monotonic()
        self._log = log.bind(informer=self.name)
        AGE.labels(self.name).set_function(lambda: self.age)

    # --- reading ------------------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """The first list is in the cache and has been shown to all handlers."""
        return self._synced.is_set()

    @property
    def age(self) -> float:
        """Seconds since the cache last followed: a list, an event, a bookmark, a watch that ended in good order."""
        return self._clock.monotonic() - self._followed_at

    @property
    def version(self) -> str:
        """The resourceVersion up to which the cache has followed; empty while everything has to be listed."""
        return self._version

    def healthy(self) -> bool:
        """Whether the cache could follow within the last `STALE_AFTER` seconds. Belongs in the liveness probe."""
        return self.age <= STALE_AFTER

    @property
    def unreadable(self) -> Mapping[str, Malformed]:
        """The objects that are there and cannot be read, by key; `get` shows their last readable state, if any."""
        return self._unreadable

    def list_again(self) -> None:
        """Give up the watch and list everything, as a watch may stay open and bring nothing. Returns at once."""
        self._list_due = True
        if self._watching is not None and not self._watching.expired():
            self._watching.reschedule(asyncio.get_running_loop().time())

    async def wait_synced(self) -> None:
        """Return once `synced`; `run` must be running."""
        await self._synced.wait()

    def __len__(self) -> int:
        return len(self._cache)

    def get(self, key: str) -> T | None:
        """The object with that key (`namespace/name` or `name`), or None."""
        return self._cache.get(key)

    def keys(self) -> Sequence[str]:
        """All keys, at this moment."""
        return self._cache.keys()

    def items(self) -> Sequence[T]:
        """All objects, at this moment."""
        return self._cache.items()

    def by_index(self, name: str, value: str) -> Sequence[T]:
        """The objects whose index function named `value`. Raises KeyError for an index that does not exist."""
        return self._cache.by_index(name, value)

    def add_handler(self, handler: Handler[T]) -> None:
        """Have `handler` called with every change, after it is in the cache.

        It is called synchronously and must not do I/O; what it raises is logged and counted and stops nothing. Objects
        already in the cache are shown to it at once, as initial additions.
        """
        self._handlers.append(handler)
        for obj in self._cache.items():
            self._call(handler, Change("added", None, obj, initial=True))

    # --- following ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow until cancelled."""
        self._follow()
        while True:
            try:
                while self._list_due or not self._version:
                    self._list_due = False
                    await self._list()
                await self._watch_until_told()
            except Exception as error:
                await self._recover(error)

    async def _watch_until_told(self) -> None:
        """Watch until the server ends it in good order, or `list_again` does."""
        try:
            async with asyncio.timeout(None) as self._watching:
                await self._watch()
        except TimeoutError:
            if not self._list_due:
                raise
        finally:
            self._watching = None

    async def _recover(self, error: Exception) -> None:
        """Decide where to go on, and when."""
        reason = error.reason if isinstance(error, ApiError) and error.reason else type(error).__name__
        WATCH_ERRORS.labels(self.name, reason).inc()
        expected = isinstance(error, ApiError | DecodeError)
        self._bookmarked = False
        wait = self._backoff.next()
        resumable = expected and not isinstance(error, Gone) and self._backoff.failures < LIST_AFTER_FAILURES
        if not resumable:
            self._version = ""
        if isinstance(error, Gone) and self._backoff.failures == 1:
            wait = 0.0  # the usual case: away for longer than the server remembers
        self._log.warning("cannot follow", reason=reason, error=str(error), wait=round(wait, 2), exc_info=not expected)
        await self._clock.sleep(wait)

    def _follow(self) -> None:
        self._followed_at = self._clock.monotonic()

    async def _list(self) -> None:
        """Read everything and work out what changed since the last time.

        Without a resourceVersion, hence a consistent read (from the server's cache since 1.31, from etcd before): a
        list "not older than" what is known would be cheaper on old servers, but after a restart nothing is known, and a
        cache that goes back in time makes a controller start a job a second time. resourceVersionMatch is not allowed
        without a version. Pages after the first are bound to its version by the continue token; when the server has
        forgotten that one (410), a huge list is read again in one piece.
        """
        try:
            pages = await self._pages(PAGE_SIZE)
        except Gone:
            pages = await self._pages(None)
        self._replace(*pages)
        self._follow()
        if not self._synced.is_set():
            self._synced.set()
            self._log.info("synced", objects=len(self._cache), version=self._version)

    async def _pages(self, limit: int | None) -> tuple[dict[str, T], dict[str, Malformed], str]:
        """All objects by key, those that are there but malformed, and the version of the list."""
        found: dict[str, T] = {}
        unreadable: dict[str, Malformed] = {}
        token: str | None = None
        pages = PagedList(self._client, self._path, self._selectors, limit)
        while True:
            page = self._decoder.page(await pages.page(token))
            for obj in page.items:
                self._collect(obj, found, unreadable)
            for malformed in page.malformed:
                self._report(malformed, unreadable)
            token = page.continue_token
            if not token:
                return found, unreadable, page.resource_version

    def _collect(self, obj: T, found: dict[str, T], unreadable: dict[str, Malformed]) -> None:
        """Keep an object of a page. It is transformed at once: a list is never held in full size."""
        key, same = obj.metadata.key, self._cache.same(obj)
        kept = same if same is self._cache.get(key) else self._kept(obj, unreadable)
        if kept is not None:
            found[key] = kept

    def _known(self, key: str) -> T | None:
        """The newest version of an object that is decoded."""
        written = self._written(key) if self._written is not None else None
        return written if written is not None else self._cache.get(key)

    def _kept(self, obj: T, unreadable: dict[str, Malformed]) -> T | None:
        """What is kept of an object; None, and it is unreadable, when the transform cannot take it."""
        if self._transform is None:
            return bounded(obj)
        try:
            return bounded(self._transform(obj, self._cache.get(obj.metadata.key)))
        except Exception as error:
            meta = obj.metadata
            self._report(Malformed(meta.key, meta.resource_version, f"transform: {error!r}"), unreadable)
            return None

    def _replace(self, found: dict[str, T], unreadable: dict[str, Malformed], version: str) -> None:
        """Make the cache what the list says. An object that is there but unreadable keeps its last readable
        state: to report it as deleted would be a lie with consequences."""
        initial = not self._synced.is_set()
        for key in set(self._cache.keys()) - found.keys() - unreadable.keys():
            self._notify(self._cache.remove(key))
        self._unreadable = dict(unreadable)
        for obj in found.values():
            self._notify(self._put(obj, initial=initial))
        self._version, self._heard_at = version, self._clock.monotonic()
        self._measure()

    async def _watch(self) -> None:
        """Follow from the known version until the server ends the watch in good order."""
        seconds = random.randint(*self._watch_seconds())
        started = self._clock.monotonic()
        events = 0
        params: dict[str, Any] = {
            **self._selectors,
            "watch": True,
            "allowWatchBookmarks": True,
            "timeoutSeconds": seconds,
            "resourceVersion": self._version,
        }
        lines = self._client.stream(self._path, params=params, read_timeout=WATCH_READ_TIMEOUT, raw=True)
        async with contextlib.aclosing(lines):  # also when an event ends it: the connection is not to wait for the GC
            async for line in lines:
                self._apply(self._decoder.event(line, self._client.readable))
                events += 1
        if events == 0:
            self._doubt(self._clock.monotonic() - started)
        self._backoff.reset()
        self._follow()

    def _watch_seconds(self) -> tuple[int, int]:
        """Between how many seconds a watch is to end: surely before silence would, where no bookmarks come."""
        if self._bookmarked:
            return WATCH_SECONDS
        return max(1, int(0.4 * WATCH_READ_TIMEOUT)), max(1, int(0.8 * WATCH_READ_TIMEOUT))

    def _doubt(self, lasted: float) -> None:
        """A watch without a single event or bookmark proves little.

        Ended at once, it is a server (or a proxy) that turns watches away: wait, or this becomes a busy loop. After
        minutes with nothing heard, the version to resume from may be forgotten, or never have existed, as after a
        restore of etcd: list again.
        """
        if lasted < QUICK_WATCH:
            raise Unavailable(0, "EmptyWatch", f"the watch ended after {lasted:.2f} s with nothing said")
        if self._clock.monotonic() - self._heard_at >= RESUMABLE_SECONDS:
            self._version = ""

    def _apply(self, event: Event[T]) -> None:
        if event.type == "ERROR":
            raise error_for_status(event.status)
        if event.malformed is not None:
            self._report(event.malformed, self._unreadable)
            if event.type == "DELETED":
                self._remove(event.malformed.key)
        elif event.obj is not None:
            if event.type == "DELETED":
                self._remove(event.obj.metadata.key, event.obj)
            else:
                kept = self._kept(event.obj, self._unreadable)
                if kept is not None:
                    self._notify(self._put(kept))
        self._measure()
        if event.type == "BOOKMARK":
            self._bookmarked = True
        if event.resource_version:
            self._version, self._heard_at = event.resource_version, self._clock.monotonic()
        self._backoff.reset()
        self._follow()

    def _put(self, obj: T, *, initial: bool = False) -> Iterable[Change[T]]:
        """Store what is kept of an object; one that an index function cannot take is left out like a malformed one."""
        key = obj.metadata.key
        try:
            changes = self._cache.put(obj, initial=initial)
        except Exception as error:
            self._report(Malformed(key, obj.metadata.resource_version, f"index: {error!r}"), self._unreadable)
            return ()
        self._unreadable.pop(key, None)
        return changes

    def _remove(self, key: str, last: T | None = None) -> None:
        self._unreadable.pop(key, None)
        self._notify(self._cache.remove(key, last))

    def _measure(self) -> None:
        OBJECTS.labels(self.name).set(len(self._cache))
        UNREADABLE.labels(self.name).set(len(self._unreadable))

    def _notify(self, changes: Iterable[Change[T]]) -> None:
        for change in changes:
            for handler in self._handlers:
                self._call(handler, change)

    def _call(self, handler: Handler[T], change: Change[T]) -> None:
        try:
            handler(change)
        except Exception:
            HANDLER_ERRORS.labels(self.name).inc()
            self._log.exception("a handler failed", key=change.key, change=change.kind)

    def _report(self, malformed: Malformed, unreadable: dict[str, Malformed]) -> None:
        unreadable[malformed.key] = malformed
        MALFORMED.labels(self.name).inc()
        self._log.error("object left out: it cannot be read", key=malformed.key, error=malformed.error)
