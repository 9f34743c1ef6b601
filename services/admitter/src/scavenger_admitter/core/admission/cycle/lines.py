"""Turns: whose line is looked at next, of queues and of the namespaces within one, and where arrays stand in a line."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import chain
from operator import length_hint
from typing import Protocol, Self

from scavenger_admitter.core.admission.shares import Rank, Shares
from scavenger_admitter.core.admission.snapshot import Candidate, QueueView


class _Line(Protocol):
    """Jobs in an order.

    Attributes:
        rest: those that are left. A job that is taken from it is not seen again, unless it is put back.
    """

    @property
    def rest(self) -> Iterator[Candidate]: ...

    def left(self) -> int:
        """0 where no job is left."""

    def put_back(self, candidate: Candidate) -> None:
        """An array that was taken last has more tasks to start."""


class Lines:
    """Lines that take turns: the most under-served that still has jobs goes next.

    Args:
        rank: of a line, by its name; the least goes next. Only that of the line that had the last turn changes.
        lines: by name.
    """

    def __init__(self, rank: Callable[[str], Rank], lines: Mapping[str, _Line]) -> None:
        self._rank = rank
        self._lines = lines
        self._turns = [rank(name) for name in lines]
        heapify(self._turns)
        self._last = ""

    @classmethod
    def of(
        cls,
        shares: Shares,
        queues: Mapping[str, QueueView],
        lines: Mapping[str, Iterable[Candidate]],
        *,
        arrays_keep_place: bool = False,
    ) -> Self:
        """The lines of queues. In queues that say so, those of their namespaces take turns by the same rule.

        Args:
            shares: of the cycle.
            queues: by name.
            lines: of these queues, in order.
            arrays_keep_place: see `OneLine`.
        """
        line_of = partial(OneLine, arrays_keep_place=arrays_keep_place)
        found: dict[str, _Line] = {}
        for name, line in lines.items():
            if queues[name].namespace_weights is None:
                found[name] = line_of(line)
            else:
                inner = {namespace: line_of(some) for namespace, some in _by_namespace(line).items()}
                found[name] = Lines(partial(shares.rank, name), inner)
        return cls(shares.rank, found)

    def next(self) -> Iterator[Candidate] | None:
        """The line whose turn it is; None when all have been gone through."""
        if self._last:
            heappush(self._turns, self._rank(self._last))
            self._last = ""
        while self._turns:
            name = heappop(self._turns)[-1]
            if self._lines[name].left():
                self._last = name
                return self._lines[name].rest
        return None

    @property
    def rest(self) -> Iterator[Candidate]:
        """All jobs that are left, those of the line whose turn it is first."""
        return chain.from_iterable(iter(self.next, None))

    def left(self) -> int:
        """0 where no job is left. Only the line that had the last turn may have come to its end."""
        return len(self._turns) + (self._lines[self._last].left() if self._last else 0)

    def put_back(self, candidate: Candidate) -> None:
        """An array has more tasks to start, and its line has just had its turn."""
        self._lines[self._last].put_back(candidate)


class OneLine:
    """A line in which one object is one place.

    A task of an array that starts uses up the place of its array. The next one stands where a job would that comes now:
    behind all that were interrupted as often. Jobs of its namespace that have a lower priority wait behind it, as in
    `scavenger_domain.gang.by_priority`.

    Args:
        line: the jobs in order.
        arrays_keep_place: an array stands where it stood instead, as all of its tasks did before this rule.
    """

    def __init__(self, line: Iterable[Candidate], *, arrays_keep_place: bool = False) -> None:
        # Thousands are gone through in a cycle: the iterator of a list does it without a call for each, and sees what
        # is put into the list behind it.
        self._line = list(line)
        self._places = iter(self._line)
        self._arrays_keep_place = arrays_keep_place
        self._rest: Iterator[Candidate] = self._places
        self._lowest: int | None = None
        self._above: dict[_Group, list[int]] = {}
        self._put_back: set[str] = set()
        self._behind: dict[_Group, list[tuple[int, int, Candidate]]] = {}
        self._waiting = 0

    @property
    def rest(self) -> Iterator[Candidate]:
        """Those that are left, in order."""
        return self._rest

    def left(self) -> int:
        """How many are left."""
        return length_hint(self._places) + self._waiting  # the first is exact for the iterator of a list

    def put_back(self, candidate: Candidate) -> None:
        """The array that was taken last has more tasks to start."""
        at = len(self._line) - length_hint(self._places)
        if self._arrays_keep_place:
            self._line.insert(at, candidate)
            return
        put_behind(self._line, candidate, at)
        if self._lowest is None:
            self._lowest = min(one.priority for one in self._line)
        if candidate.priority > self._lowest:
            if self._rest is self._places:
                self._rest = self._by_priority()
            self._put_back.add(candidate.key)
            insort(self._above.setdefault(_group(candidate), []), candidate.priority)

    def _by_priority(self) -> Iterator[Candidate]:
        """The rest, in which jobs wait behind arrays of their namespace that were put back with a higher priority."""
        for candidate in self._places:
            group = _group(candidate)
            if (above := self._above.get(group)) and candidate.priority < above[-1]:
                self._waiting += 1
                heappush(self._behind.setdefault(group, []), (-candidate.priority, self._waiting, candidate))
                continue
            yield self._take(candidate, group)
            behind = self._behind.get(group)
            while behind and not ((above := self._above[group]) and -behind[0][0] < above[-1]):
                self._waiting -= 1
                yield self._take(heappop(behind)[-1], group)

    def _take(self, candidate: Candidate, group: _Group) -> Candidate:
        """An array that is taken holds no job back any more, unless it is put back once more."""
        if candidate.key in self._put_back:
            self._put_back.remove(candidate.key)
            above = self._above[group]
            del above[bisect_left(above, candidate.priority)]
        return candidate


def put_behind(line: list[Candidate], candidate: Candidate, at: int = 0) -> None:
    """Put an array where a job would stand that comes now: behind all that were interrupted as often.

    Args:
        line: in order.
        candidate: the array; not in the line.
        at: the first of the line that may be behind it.
    """
    line.insert(bisect_right(line, -candidate.interrupted_count, at, key=_section), candidate)


_Group = tuple[str, int]
"""Jobs of one namespace that were interrupted as often: those that priorities order."""


def _group(candidate: Candidate) -> _Group:
    return candidate.namespace, candidate.interrupted_count


def _section(candidate: Candidate) -> int:
    return -candidate.interrupted_count


def _by_namespace(line: Iterable[Candidate]) -> dict[str, list[Candidate]]:
    found: dict[str, list[Candidate]] = {}
    for candidate in line:
        found.setdefault(candidate.namespace, []).append(candidate)
    return found
