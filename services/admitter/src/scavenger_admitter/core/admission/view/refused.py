"""Kinds of jobs whose starts a namespace refuses, for its quota or by a webhook: one job of a kind is tried at a time.

All jobs of such a kind ask the API server the same question, and each question costs several writes. So after
`TOLERATED` refusals in a row they wait for one that is tried, after a delay that doubles with each refusal. When a try
comes off, two are tried, and with each that comes off one more; after `OPEN` the kind is no longer known here.

Trouble of the API server is no refusal: it says nothing about the kind, and each job waits for its own next try.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from scavenger_api.reasons import WaitReason

from scavenger_admitter.core.admission.snapshot import Candidate
from scavenger_admitter.core.waits import Wait

TOLERATED: Final = 3
OPEN: Final = 32

KINDS: Final = 8
"""Kinds of one namespace that are tried apart from each other; all further ones are tried as one."""

Kind = tuple[str, int]
"""Namespace, and `Candidate.kind`."""


@dataclass(slots=True)
class _Refused:
    """Jobs that are tried together.

    Attributes:
        kinds: what they are.
        delay: from the last refusal to the next try, microseconds.
        until: no job is tried before that, microseconds.
        window: how many may be tried at once.
        refusals: in a row.
        trying: those that are tried now.
        tried: those that were refused; others come before them.
    """

    kinds: set[Kind]
    wait: Wait
    delay: int
    until: int = 0
    window: int = 1
    refusals: int = 0
    trying: set[str] = field(default_factory=set)
    tried: set[str] = field(default_factory=set)

    def left(self, waiting: list[Candidate], now: int) -> Iterator[str]:
        """Those that are not to be tried now."""
        self.until = min(self.until, now + self.delay)  # the clock may have been set back
        free = max(0, self.window - len(self.trying)) if now >= self.until else 0
        waiting.sort(key=lambda one: (one.not_before > now, one.key in self.tried, one.own_order))
        return (one.key for one in waiting[free:])


class RefusedStarts:
    """What is refused. A job is known by namespace/name. Times are microseconds.

    Args:
        first: delay after the last refusal that is tolerated.
        most: the longest delay.
    """

    def __init__(self, first: int, most: int) -> None:
        self._first = first
        self._most = most
        self._by_kind: dict[Kind, _Refused] = {}
        self._trying: dict[str, _Refused] = {}

    def __bool__(self) -> bool:
        """Whether time alone may let a job be tried."""
        return bool(self._by_kind)

    def refused(self, candidate: Candidate, reason: WaitReason, now: int) -> None:
        """The start of a job was refused for a reason that others of its kind meet as well."""
        kind = candidate.namespace, candidate.kind
        known = self._by_kind.get(kind)
        if known is None:
            known = self._by_kind[kind] = self._new(candidate.namespace, reason)
            known.kinds.add(kind)
        if candidate.key in known.trying:  # those granted before have asked the same question
            known.delay = min(self._most, 2 * known.delay)
        known.refusals, known.window = known.refusals + 1, 1
        known.until = now + known.delay
        known.tried.add(candidate.key)
        self.ended(candidate.key)

    def _new(self, namespace: str, reason: WaitReason) -> _Refused:
        there = {id(one): one for kind, one in self._by_kind.items() if kind[0] == namespace}
        if len(there) >= KINDS:
            return list(there.values())[-1]
        said = "jobs like this one were refused in its namespace, and are tried one at a time"
        return _Refused(set(), Wait(reason, said, namespace), self._first)

    def granted(self, candidate: Candidate) -> None:
        """A job is to be started."""
        known = self._by_kind.get((candidate.namespace, candidate.kind))
        if known is not None:
            known.trying.add(candidate.key)
            self._trying[candidate.key] = known

    def came_off(self, key: str) -> None:
        """All pods of a start were created."""
        known = self._trying.get(key)
        self.ended(key)
        if known is None:
            return
        known.delay, known.until, known.refusals = self._first, 0, max(TOLERATED, known.refusals)
        known.window += 1
        if known.window > OPEN:
            for kind in known.kinds:
                self._by_kind.pop(kind, None)

    def ended(self, key: str) -> None:
        """A job is not being started any more, whatever became of it."""
        known = self._trying.pop(key, None)
        if known is not None:
            known.trying.discard(key)

    def blocked(self, lines: Mapping[str, Iterable[Candidate]], held: Mapping[str, Wait], now: int) -> dict[str, Wait]:
        """Of the waiting jobs, without those that are held back anyway, those that wait for others of their kind to be
        tried."""
        groups: dict[int, tuple[_Refused, list[Candidate]]] = {}
        if not self._by_kind:
            return {}
        for line in lines.values():
            for candidate in line:
                known = self._by_kind.get((candidate.namespace, candidate.kind))
                if known is not None and known.refusals >= TOLERATED and candidate.key not in held:
                    groups.setdefault(id(known), (known, []))[1].append(candidate)
        found: dict[str, Wait] = {}
        for known, waiting in groups.values():
            found.update(dict.fromkeys(known.left(waiting, now), known.wait))
        for known in {id(one): one for one in self._by_kind.values()}.values():
            if id(known) not in groups and not known.trying and now - known.until > self._most:
                for kind in known.kinds:
                    del self._by_kind[kind]
        return found
