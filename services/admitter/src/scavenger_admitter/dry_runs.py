"""When the API server may be asked by a dry run what admission adds to the pods of a job.

A policy or a mesh adds tolerations, node selectors and containers. Pods of the last run show them. Before the first pod
of a kind they are not known, and a job may wait for ever for a node that its pod could go to.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, TypeAlias

from scavenger_api.reasons import WaitReason
from scavenger_runtime.clock import Clock

from scavenger_admitter.namespace_turns import NamespaceTurns

Kind: TypeAlias = tuple[str, Hashable]
"""A namespace, and what tells its kinds of pods apart."""

ASKED_FOR: Final = frozenset({WaitReason.TAINT_NOT_TOLERATED, WaitReason.NO_SELECTOR_MATCH, WaitReason.NO_PLACE})
"""Reasons that what admission adds may end. It makes no pod smaller, so others are not among them."""

APART_SECONDS: Final = 1.0
"""Between two questions."""

AGAIN_SECONDS: Final = 600.0
"""Between two questions about pods of one kind: policies change."""

KINDS: Final = 4096
"""Kinds that are remembered; those that were asked about first are forgotten first."""


class DryRuns:
    """Gives each kind its turn, one a second; namespaces take turns.

    Args:
        clock: for the turns.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns = NamespaceTurns(clock, APART_SECONDS)
        self._again: dict[Kind, float] = {}
        """When those that were asked about may be asked about again, on the monotonic clock."""

    def left(self, kind: Kind) -> float:
        """Seconds until the question may be asked; zero or less when it may be now."""
        left = self._again.get(kind, 0.0) - self._clock.monotonic()
        return left if left > 0 else self._turns.left(kind[0], kind)

    def asked(self, kind: Kind) -> None:
        """The question is being asked."""
        self._turns.take(kind[0], kind)
        self._again.pop(kind, None)
        self._again[kind] = self._clock.monotonic() + AGAIN_SECONDS
        if len(self._again) > KINDS:
            del self._again[next(iter(self._again))]
