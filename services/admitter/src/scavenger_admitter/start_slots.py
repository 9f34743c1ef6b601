"""Who may create its Job now: by places in line, and so that no namespace keeps the others waiting.

A create waits for the admission webhooks and policies of its namespace, for up to half a minute. Each has a worker of
the reconcile loop for so long; without a bound, one namespace would have all of them. Jobs with a grant are in line, by
namespace, and are called when there is a slot. Until then there is nothing to be done for them: a reconcile that an
event causes meanwhile does not create, so nobody passes those before it.

Hundreds may have a grant while the API server takes ten creates a second. A job that is granted late, as it was
interrupted just now or its first grant was not made use of, would stand behind them all; so the place in line says who
is called, not the time of the grant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from scavenger_runtime import Clock

SLOW_SECONDS: Final = 2.0
"""A create that takes longer hangs, as far as others are concerned."""

Value = TypeVar("Value")

_NOT_BEGUN: Final = float("inf")

Place = tuple[int, int, str, str]
"""A place in line; see `Candidate.order`."""


class StartSlots:
    """The line of starts of each namespace, and the slots of those called.

    Args:
        clock: to tell which creates hang.
        each: most creates at once in one namespace.
        most: most creates at once in all of them; fewer than there are workers.
        call: has a job reconciled whose turn it is.
        freed: told whenever a slot comes free: creates may have hung in its namespace until now.
    """

    def __init__(
        self, clock: Clock, *, each: int, most: int, call: Callable[[str], None], freed: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._each = min(each, most)  # or creates of one namespace could never be all there may be
        self._most = most
        self._call = call
        self._freed = freed
        # By namespace. Those in line with their places; those called with the time at which their create began, on the
        # monotonic clock.
        self._line: dict[str, dict[str, Place]] = {}
        self._called: dict[str, dict[str, float]] = {}
        self._slots = 0

    def join(self, key: str, place: Place) -> None:
        """`namespace/name` has a grant. It is called when it may create its Job, which may be at once.

        place: in line; of two jobs of a namespace the lesser is called first.
        """
        namespace = _namespace(key)
        if key not in self._called.get(namespace, ()):
            self._line.setdefault(namespace, {})[key] = place
        self._call_next()

    def is_called(self, key: str) -> bool:
        """Whether the job may create its Job now."""
        return key in self._called.get(_namespace(key), ())

    def begin(self, key: str) -> None:
        """The create of one that was called begins."""
        self._called[_namespace(key)][key] = self._clock.monotonic()

    def leave(self, key: str) -> None:
        """The create is through, or there is nothing to create any more."""
        namespace = _namespace(key)
        _drop(self._line, namespace, key)
        if _drop(self._called, namespace, key):
            self._slots -= 1
            self._freed()
            self._call_next()

    def under_way(self) -> int:
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

    def behind_hanging(self) -> list[str]:
        """Those in line in such namespaces."""
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
                    self._call(key)


def _drop(groups: dict[str, dict[str, Value]], group: str, key: str) -> bool:
    """Take a key out of its group, and the group where it was the last; whether it was there."""
    members = groups.get(group)
    if members is None or key not in members:
        return False
    del members[key]
    if not members:
        del groups[group]
    return True


def _namespace(key: str) -> str:
    return key.partition("/")[0]
