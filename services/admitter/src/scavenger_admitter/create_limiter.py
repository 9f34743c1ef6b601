"""Limits how many Jobs are created at once, in the order of the queue, so that no namespace delays the others.

A create waits for the admission webhooks and policies of its namespace, for up to half a minute, and occupies a
worker of the reconcile loop. Without a limit one namespace could occupy all workers. Jobs with a grant are queued by
namespace, and are called when a slot is free. Until then a reconcile does not create their Job, so no job passes
those before it.

Hundreds of jobs may have a grant while the API server takes ten creates a second. The queue position decides which
job is called, not the time of the grant. Otherwise a job that was interrupted just now would wait for all of them.

Jobs pass a create that takes longer than others. So that these are few, only a window of starts is granted in a
namespace, counted from the oldest create without an answer. After two seconds no job waits for that create any more.
"""

from __future__ import annotations

from typing import Final, TypeVar

from scavenger_domain.gang import Place
from scavenger_runtime.clock import Clock
from scavenger_runtime.logging import get_logger

from scavenger_admitter.wakeups import Wakeups

SLOW_SECONDS: Final = 2.0
"""A create that takes longer hangs, as far as others are concerned."""

log = get_logger(__name__)

Value = TypeVar("Value")

_NOT_BEGUN: Final = float("inf")


class CreateLimiter:
    """The line of starts of each namespace, and the slots of those called.

    Args:
        clock: to tell which creates hang.
        wakeups: for a job whose turn it is, and for the admission loop where a slot comes free or a create hangs.
        each: most creates at once in one namespace.
        most: most creates at once in all of them that do not hang; fewer than there are workers.
        window: most grants in one namespace from one on that is not answered, itself included, unless its create hangs.
    """

    def __init__(
        self,
        clock: Clock,
        wakeups: Wakeups,
        *,
        each: int,
        most: int,
        window: int,
    ) -> None:
        self._clock = clock
        self._wakeups = wakeups
        self._each = min(each, most)  # or creates of one namespace could never be all there may be
        self._most = most
        self._window = window
        # By namespace. Those queued with their places; those called with the time at which their create began, on the
        # monotonic clock.
        self._line: dict[str, dict[str, Place]] = {}
        self._called: dict[str, dict[str, float]] = {}
        # By namespace. Those that others wait for with the number of their grant, the oldest first.
        self._awaited: dict[str, dict[str, int]] = {}
        self._grants = dict[str, int]()
        self._slots = 0
        self._hung = set[str]()
        """Those called that have no slot any more, as their creates hang."""

    def enqueue(self, key: str, place: Place) -> None:
        """`namespace/name` has a grant. It is called when it may create its Job, which may be at once.

        place: in the queue; of two jobs of a namespace the lesser is called first.
        """
        namespace = namespace_of(key)
        if key not in self._called.get(namespace, ()):
            self._line.setdefault(namespace, {})[key] = place
        if key not in (numbers := self._awaited.setdefault(namespace, {})):
            numbers[key] = self._grants[namespace] = self._grants.get(namespace, 0) + 1
        self._call_next()

    def has(self, key: str) -> bool:
        """Whether the job is in the limiter's queue, or was called and has not finished."""
        return self.may_create(key) or key in self._line.get(namespace_of(key), ())

    def may_create(self, key: str) -> bool:
        """Whether the job may create its Job now."""
        return key in self._called.get(namespace_of(key), ())

    def start(self, key: str) -> None:
        """The create of one that was called begins, or goes on; of any other one nothing is known here."""
        if self.may_create(key):
            self._called[namespace_of(key)][key] = self._clock.monotonic()

    def release(self, key: str) -> None:
        """The create is through, or there is nothing to create any more."""
        namespace = namespace_of(key)
        _drop(self._line, namespace, key)
        self._await_no_more(key)
        if _drop(self._called, namespace, key):
            self._slots -= key not in self._hung
            self._hung.discard(key)
            self._wakeups.admit()  # creates may have hung in its namespace until now
            self._call_next()

    def in_flight(self) -> int:
        """How many starts were granted and are not answered; those that hang, and those behind them, do not count."""
        slow, hanging = self._clock.monotonic() - SLOW_SECONDS, self.hanging()
        called = sum(begun > slow for busy in self._called.values() for begun in busy.values())
        return called + sum(len(line) for namespace, line in self._line.items() if namespace not in hanging)

    def hanging(self) -> dict[str, float]:
        """The namespaces in which all creates there may be hang, and for how many seconds: nothing more is to be begun
        there."""
        now = self._clock.monotonic()
        waited = {ns: now - max(busy.values()) for ns, busy in self._called.items() if len(busy) >= self._each}
        return {namespace: seconds for namespace, seconds in waited.items() if seconds >= SLOW_SECONDS}

    def skip_hanging(self) -> None:
        """Creates that have taken too long by now give their slots to others, who wait for them no more."""
        now = self._clock.monotonic()
        hung = [
            key
            for busy in self._called.values()
            for key, begun in busy.items()
            if now - begun >= SLOW_SECONDS and key not in self._hung
        ]
        for key in hung:
            self._hung.add(key)
            self._slots -= 1
            if self._await_no_more(key):
                log.info("start hangs", job=key)
        if hung:
            self._wakeups.admit()
            self._call_next()

    def has_capacity(self, namespace: str) -> bool:
        """Whether another job of a namespace may be granted its start."""
        return namespace not in self.hanging() and not self._is_full(namespace)

    def saturated_namespaces(self) -> dict[str, float]:
        """The namespaces of which no job may be granted a start, and for how many seconds all creates have hung there.
        That is 0 where they do not, but as many have their grants as may."""
        hanging = self.hanging()
        return {namespace: 0.0 for namespace in self._awaited if self._is_full(namespace)} | hanging

    def _is_full(self, namespace: str) -> bool:
        numbers = self._awaited.get(namespace)
        return numbers is not None and self._grants[namespace] - next(iter(numbers.values())) >= self._window - 1

    def _await_no_more(self, key: str) -> bool:
        namespace = namespace_of(key)
        if not _drop(self._awaited, namespace, key):
            return False
        if namespace not in self._awaited:
            del self._grants[namespace]
        return True

    def queued_behind_hanging(self) -> list[str]:
        """The jobs that wait in such namespaces."""
        return [key for namespace in self.hanging() for key in self._line.get(namespace, ())]

    def _call_next(self) -> None:
        """Give out the slots there are, to one namespace after the other."""
        waiting = True
        while waiting and self._slots < self._most:
            waiting = False
            for namespace in list(self._line):
                if self._slots < self._most and len(self._called.get(namespace, ())) < self._each:
                    key = min(self._line[namespace], key=self._line[namespace].__getitem__)
                    _drop(self._line, namespace, key)
                    self._called.setdefault(namespace, {})[key] = _NOT_BEGUN
                    self._slots += 1
                    waiting = True
                    self._wakeups.reconcile(key)


def _drop(groups: dict[str, dict[str, Value]], group: str, key: str) -> bool:
    """Take a key out of its group, and the group where it was the last; whether it was there."""
    members = groups.get(group)
    if members is None or key not in members:
        return False
    del members[key]
    if not members:
        del groups[group]
    return True


def namespace_of(key: str) -> str:
    """The namespace of `namespace/name`."""
    return key.partition("/")[0]
