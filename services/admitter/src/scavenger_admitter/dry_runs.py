"""When the API server may be asked by a dry run what admission adds to the pods of a job.

A policy or a mesh adds tolerations, node selectors and containers. Pods of the last run show them; before the first pod
of a kind nobody has seen any, and a job may wait for ever for a node that its pod could go to.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from scavenger_api.reasons import WaitReason
from scavenger_runtime.clock import Clock

ASKED_FOR: Final = frozenset({WaitReason.TAINT_NOT_TOLERATED, WaitReason.NO_SELECTOR_MATCH, WaitReason.NO_PLACE})
"""Reasons that what admission adds may end. It makes no pod smaller, so others are not among them."""

APART_SECONDS: Final = 1.0
"""Between two questions."""

AGAIN_SECONDS: Final = 600.0
"""Between two questions about pods of one kind: policies change."""

KINDS: Final = 4096
"""Kinds that are remembered; those that were asked about first are forgotten first."""


class DryRuns:
    """Gives each kind its turn, one a second.

    Args:
        clock: for the turns.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next = 0.0
        self._due: dict[Hashable, float] = {}

    def left(self, kind: Hashable) -> float:
        """Seconds until the question may be asked; zero or less when it may be now."""
        now = self._clock.monotonic()
        due = self._due.get(kind)
        if due is None:
            due = max(now, self._next)
            self._next = due + APART_SECONDS
            self._note(kind, due)
        return due - now

    def asked(self, kind: Hashable) -> None:
        """The question is being asked."""
        self._note(kind, self._clock.monotonic() + AGAIN_SECONDS)

    def _note(self, kind: Hashable, due: float) -> None:
        self._due.pop(kind, None)
        self._due[kind] = due
        if len(self._due) > KINDS:
            del self._due[next(iter(self._due))]
