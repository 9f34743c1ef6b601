"""Wakes the reconcile loop and the admission loop. It is made first, so a part that learns something needs to know no
other part."""

from __future__ import annotations

import asyncio

from scavenger_runtime.reconcile import ReconcileLoop


class Wakeups:
    """Has jobs reconciled, and the admission loop run a cycle.

    Attributes:
        loop: reconciles jobs; None while this process does not lead, and then no job is reconciled.
        admission: set when something changed that may let a job start.
    """

    def __init__(self) -> None:
        self.loop: ReconcileLoop | None = None
        self.admission = asyncio.Event()

    def reconcile(self, key: str, *, after: float = 0.0, priority: int = 0) -> None:
        """Have the job `namespace/name` reconciled, after so many seconds."""
        if self.loop is not None:
            self.loop.add(key, after=after, priority=priority)

    def admit(self) -> None:
        """Have the admission loop run a cycle; coalesced."""
        self.admission.set()
