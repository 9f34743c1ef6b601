"""One resource of a node: what is reserved, really used, offered and taken again, and free. It is shown; nothing is
decided by it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Account:
    """One resource of a node: millicores of cpu, bytes of memory.

    reserved: requests of regular pods and Guaranteed jobs. used: measured, or None. offered: reclaimed
    capacity that the regulator publishes. taken: by jobs with `capacity: Reclaimed`; may be more than is offered now.
    """

    allocatable: int
    reserved: int
    used: int | None
    offered: int
    taken: int

    @property
    def free(self) -> int:
        """What may still be requested."""
        return max(0, self.allocatable - self.reserved)

    @property
    def load(self) -> float:
        """The fraction of allocatable that is used, or reserved without measurements."""
        taken = self.reserved if self.used is None else self.used
        return taken / self.allocatable if self.allocatable else 0.0
