"""Follow objects as they change: a list, then a watch, for ever: what the informer is to the components."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec
from scavenger_kube.blocking import Client
from scavenger_kube.decoders import decoder_of
from scavenger_kube.errors import Forbidden, Gone, NotFound, TooManyRequests, Unavailable, error_for_status
from scavenger_kube.resources import Params

from scavenger_cli.objects import readable_item, with_raws
from scavenger_cli.sources import Source

WATCH_SECONDS: Final = 300
SILENCE_SECONDS: Final = WATCH_SECONDS + 30.0
RETRY_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Delays before a watch that broke, or brought nothing, is taken up again; the last one for every further time."""

_RANDOM: Final = random.Random()
"""Of this module alone: it is asked by threads, and what is drawn elsewhere must not depend on them."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One step. type: ADDED, MODIFIED, DELETED; SYNCED after every full list, without an object.

    raw: the object as it came; None where it is gone since the last list.
    """

    type: str
    obj: T | None = None
    raw: msgspec.Raw | None = None


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Listed(msgspec.Struct):
    metadata: _ListMeta


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    uid: str = ""


class _Head(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class Deadline:
    """A moment after which waiting ends. seconds: None for never."""

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = None if seconds is None else clock() + seconds

    def left(self) -> float | None:
        """Seconds left, not below zero; None for ever."""
        return None if self._end is None else max(0.0, self._end - self._clock())

    @property
    def over(self) -> bool:
        """Whether it has passed."""
        left = self.left()
        return left is not None and left <= 0


class Follower(Generic[T]):
    """The objects of one collection, as they are and as they change.

    params: fieldSelector and labelSelector. sleep: waits between attempts. spread: a number from 0 to 1, by which of
    many that lost the same server each waits its own time, half of the delay at least.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        kind: type[T],
        params: Params | None = None,
        *,
        deadline: Deadline | None = None,
        sleep: Callable[[float], Any] = time.sleep,
        spread: Callable[[], float] = _RANDOM.random,
    ) -> None:
        self._client = client
        self._path = path
        self._kind = kind
        self._params = dict(params or {})
        self._deadline = deadline or Deadline(None)
        self._sleep = sleep
        self._spread = spread
        self._failures = 0
        self._known: dict[str, T] = {}

    def changes(self) -> Iterator[Change[T]]:
        """Every change, across broken connections and expired versions; ends when the deadline has passed.

        A first list that fails is the user's to know: raises ApiError. Later failures are waited out, as an API server
        that is being restarted must not end a log that is being followed.
        """
        version, listed = "", False
        while not self._deadline.over:
            try:
                if not version:
                    version, found = self._list()
                    yield from found
                    yield Change("SYNCED")
                    listed = True
                news = False
                for newer, change in self._watch(version):
                    version, news = newer, True
                    self._failures = 0
                    if change is not None:
                        yield change
                if not news:  # a server that closes quiet watches at once must not be asked without end
                    self._back_off()
            except Gone:
                version = ""
                if self._failures:
                    self._back_off()
                self._failures = max(1, self._failures)
            except (Unavailable, TooManyRequests) as error:
                if not listed:
                    raise
                self._back_off(error.retry_after or 0.0)

    def _back_off(self, least: float = 0.0) -> None:
        """Wait before the next attempt, longer each time that nothing came of the last one; least: in seconds."""
        delay = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)]
        self._failures += 1
        delay = max(least, delay * (1 + self._spread()) / 2)
        left = self._deadline.left()
        self._sleep(delay if left is None else min(delay, left))

    def _list(self) -> tuple[str, list[Change[T]]]:
        body = self._client.get(self._path, self._params)
        found = with_raws(body, self._kind)
        now = {_uid(item): item for item, _ in found}
        gone = [Change("DELETED", old) for uid, old in self._known.items() if uid not in now]
        fresh = [Change("MODIFIED" if _uid(item) in self._known else "ADDED", item, raw) for item, raw in found]
        self._known = now
        return decoder_of(_Listed).decode(body).metadata.resource_version, [*gone, *fresh]

    def _watch(self, version: str) -> Iterator[tuple[str, Change[T] | None]]:
        left = self._deadline.left()
        seconds = WATCH_SECONDS if left is None else max(1, min(WATCH_SECONDS, int(left) + 1))
        params = {
            **self._params,
            "watch": True,
            "allowWatchBookmarks": True,
            "resourceVersion": version,
            "timeoutSeconds": seconds,
        }
        for line in self._client.stream(self._path, params, silence=min(SILENCE_SECONDS, seconds + 30.0)):
            event = decoder_of(_Event).decode(line)
            if event.type == "ERROR":
                raise error_for_status(msgspec.json.decode(event.object))
            head = decoder_of(_Head).decode(event.object).metadata
            yield head.resource_version or version, self._change(event, head.uid)
            if self._deadline.over:
                return

    def _change(self, event: _Event, uid: str) -> Change[T] | None:
        if event.type == "BOOKMARK":
            return None
        obj = readable_item(event.object, self._kind)
        if obj is None:
            return None
        if event.type == "DELETED":
            self._known.pop(uid, None)
        else:
            self._known[uid] = obj
        return Change(event.type, obj, event.object)


def follow(client: Client, sources: Sequence[Source[T]], deadline: Deadline | None = None) -> Iterator[Change[T]]:
    """The changes of several collections, as they come: all that they have at first, then SYNCED once. Each has a
    thread of its own, as each is a connection.

    Raises:
        ApiError: a first list failed.
    """
    followers = [Follower(client, one.path, one.kind, one.params, deadline=deadline) for one in sources]
    if len(followers) == 1:
        yield from followers[0].changes()
        return
    changes: queue.SimpleQueue[Change[T] | BaseException | None] = queue.SimpleQueue()
    listed = threading.Event()
    for follower, source in zip(followers, sources, strict=True):
        threading.Thread(target=_put, args=(follower, source, changes, listed), daemon=True).start()
    unlisted, going = len(followers), len(followers)
    while going:
        change = changes.get()
        if isinstance(change, BaseException):
            raise change
        if change is None:
            going -= 1
        elif change.type != "SYNCED":
            yield change
        elif (unlisted := unlisted - 1) == 0:
            yield change
            listed.set()


def _put(
    follower: Follower[T],
    source: Source[T],
    into: queue.SimpleQueue[Change[T] | BaseException | None],
    all_listed: threading.Event,
) -> None:
    listed = False
    try:
        for change in follower.changes():
            again = change.type == "SYNCED" and listed
            if not again and (change.obj is None or source.selects is None or source.selects(change.obj)):
                into.put(change)
            if change.type == "SYNCED":
                listed = True
                all_listed.wait()  # no watch starts before it is known what there is
    except BaseException as error:
        if listed or not source.optional or not isinstance(error, Forbidden | NotFound):
            into.put(error)
            return
        into.put(Change("SYNCED"))
    into.put(None)


def _uid(item: Any) -> str:
    return str(item.metadata.uid)
