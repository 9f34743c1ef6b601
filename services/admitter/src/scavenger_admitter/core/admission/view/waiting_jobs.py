"""The queued jobs, kept sorted queue by queue."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace

from scavenger_domain.gang import Place, Rank, by_priority

from scavenger_admitter.core.admission.snapshot import Candidate


class WaitingJobs:
    """One line per queue, also for queues that do not exist: by `Candidate.order`, and then by priority."""

    def __init__(self) -> None:
        self._waiting: dict[str, Candidate] = {}
        self._lines: dict[str, list[Candidate]] = {}
        self._views: dict[str, tuple[Candidate, ...]] = {}
        self._prioritized = Counter[str]()
        """Jobs with a priority other than 0, by queue: lines without one are not put in order again."""

    def apply(self, candidate: Candidate) -> None:
        """A job waits, or what it waits with has changed."""
        old = self._waiting.get(candidate.key)
        if old == candidate:
            return
        if old is not None:
            self._leave(old)
        self._waiting[candidate.key] = candidate
        insort(self._lines.setdefault(candidate.queue, []), candidate, key=_order)
        self._prioritized[candidate.queue] += candidate.priority != 0
        self._views.pop(candidate.queue, None)

    def change(self, change: Callable[[Candidate], Candidate]) -> None:
        """Change what jobs wait with, for all that is not their place. Thousands may at once, so no line is sorted."""
        for queue, line in self._lines.items():
            changed = [change(one) for one in line]
            if any(new is not old for new, old in zip(changed, line, strict=True)):
                self._lines[queue] = changed
                self._waiting.update((one.key, one) for one in changed)
                self._views.pop(queue, None)

    def delete(self, key: str) -> None:
        """A job waits no longer."""
        old = self._waiting.pop(key, None)
        if old is not None:
            self._leave(old)

    def get(self, key: str) -> Candidate | None:
        """A job that waits; None for one that does not."""
        return self._waiting.get(key)

    def keys(self) -> Set[str]:
        """The jobs that wait."""
        return self._waiting.keys()

    def lines(self) -> dict[str, tuple[Candidate, ...]]:
        """The jobs of each queue that has some, in order; only orders that have changed are built again."""
        for queue, line in self._lines.items():
            if queue not in self._views:
                self._views[queue] = tuple(by_priority(line, _rank) if self._prioritized[queue] else line)
        return {queue: self._views[queue] for queue in self._lines}

    def groups(self, starts: Iterable[Candidate]) -> list[list[Candidate]]:
        """The jobs that may have exchanged places by their priorities with these, which wait: in each list those of one
        namespace in a queue that were interrupted as often, sorted without priorities."""
        wanted = {_group(one) for one in starts if self._prioritized[one.queue]}
        found: dict[_Group, list[Candidate]] = {}
        for queue in {group[0] for group in wanted}:
            for one in self._lines.get(queue, ()):
                if (group := _group(one)) in wanted:
                    found.setdefault(group, []).append(one)
        return list(found.values())

    def move(self, places: Mapping[str, int]) -> None:
        """Give jobs other places. Thousands may move at once, so each line is sorted once.

        Args:
            places: microseconds since the epoch, by job. Jobs that do not wait are left out.
        """
        moved = [replace(one, queued_at=place) for key, place in places.items() if (one := self._waiting.get(key))]
        self._waiting.update((one.key, one) for one in moved)
        for queue in {one.queue for one in moved}:
            self._lines[queue] = sorted((self._waiting[one.key] for one in self._lines[queue]), key=_order)
            self._views.pop(queue, None)

    def _leave(self, candidate: Candidate) -> None:
        line = self._lines[candidate.queue]
        del line[bisect_left(line, candidate.order, key=_order)]
        self._views.pop(candidate.queue, None)
        self._prioritized[candidate.queue] -= candidate.priority != 0
        if not line:
            del self._lines[candidate.queue], self._prioritized[candidate.queue]


_Group = tuple[str, str, int]


def _group(candidate: Candidate) -> _Group:
    return candidate.queue, candidate.namespace, candidate.interrupted_count


def _order(candidate: Candidate) -> Place:
    return candidate.order


def _rank(candidate: Candidate) -> Rank:
    return candidate.rank
