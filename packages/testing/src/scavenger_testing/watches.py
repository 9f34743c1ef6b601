"""The open watches of the API server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Set
from typing import Literal

import orjson

from scavenger_testing.answers import Answer, Cut, Request
from scavenger_testing.store import Collection, Entry, Store, matches


class _Watcher:
    """One open watch: what to send next."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[bytes | Literal["close", "drop"]] = asyncio.Queue()
        self.lag = 0.0
        """Seconds that it is behind."""


class Watches:
    """All that are open. store: whose history they show."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watchers: dict[_Watcher, Collection] = {}  # in the order in which they came
        self._told = 0
        self._held: set[str] = set()
        self._lag: Callable[[], float] = float

    def __len__(self) -> int:
        return len(self._watchers)

    @property
    def behind(self) -> bool:
        """Whether any is held back, or lags."""
        return bool(self._held) or any(watcher.lag for watcher in self._watchers)

    def notify(self) -> None:
        """Have the watches of what was written since the last time look for it."""
        written = {entry.kind.plural for entry in self._store.history[self._told :]}
        self._told = len(self._store.history)
        self._wake(written)

    def _wake(self, plurals: Set[str]) -> None:
        for watcher, where in self._watchers.items():
            if where.plural in plurals:
                watcher.lines.put_nowait(b"")

    def hold(self, plural: str) -> None:
        """Send nothing of this kind from now on, bookmarks neither, over open and new connections alike."""
        self._held.add(plural)

    def release(self, plural: str) -> None:
        """Send what has been held back of this kind."""
        self._held.discard(plural)
        self._wake({plural})

    def lag(self, seconds: Callable[[], float]) -> None:
        """Have each watch be behind by as much as this says, those that are open and those that come."""
        self._lag = seconds
        for watcher in self._watchers:
            watcher.lag = seconds()

    def send(self, line: bytes | Literal["close", "drop"]) -> None:
        """Send bytes to every watch as they are; "close" ends it in good order, "drop" cuts its connection."""
        for watcher in self._watchers:
            watcher.lines.put_nowait(line)

    def serve(self, request: Request, where: Collection) -> Answer:
        """Answer a request for a watch. Raises Refusal (410) for a version that is too old."""
        version = int(request.query.get("resourceVersion") or self._store.version)
        self._store.check(version)
        return Answer(lines=self._lines(request, where, version))

    async def _lines(self, request: Request, where: Collection, version: int) -> AsyncGenerator[bytes, None]:
        """What a watch sends until it ends: writes as they come, and whatever the test puts in between."""
        selectors = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
        watcher = _Watcher()
        watcher.lag = self._lag()
        self._watchers[watcher] = where
        seconds = float(request.query.get("timeoutSeconds") or 3600)
        ending = asyncio.get_running_loop().call_later(seconds, watcher.lines.put_nowait, "close")
        try:
            while True:
                if where.plural not in self._held:
                    for entry in self._store.since(where, version):
                        line = _event(entry, *selectors)
                        if line is not None:
                            yield line
                    version = max(version, self._store.version)
                line_or_end = await watcher.lines.get()
                if watcher.lag:
                    await asyncio.sleep(watcher.lag)
                if line_or_end == "close":
                    return
                if line_or_end == "drop":
                    raise Cut
                if line_or_end and where.plural not in self._held:
                    yield line_or_end
        finally:
            ending.cancel()
            del self._watchers[watcher]


def _event(entry: Entry, label_selector: str, field_selector: str) -> bytes | None:
    """A write as a watch with these selectors sees it: an object that no longer matches is deleted to that watch."""
    was = entry.old is not None and matches(entry.old, label_selector, field_selector)
    now = entry.new is not None and matches(entry.new, label_selector, field_selector)
    if not was and not now:
        return None
    if now:
        return orjson.dumps({"type": "MODIFIED" if was else "ADDED", "object": entry.new}) + b"\n"
    assert entry.old is not None
    last = entry.old
    if entry.new is not None:  # it left the selection: its old state, with the version of the write
        version = entry.new["metadata"]["resourceVersion"]
        last = {**last, "metadata": {**last["metadata"], "resourceVersion": version}}
    return orjson.dumps({"type": "DELETED", "object": last}) + b"\n"
