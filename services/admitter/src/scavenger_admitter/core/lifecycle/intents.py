"""Why the admitter deletes pods of tasks: what the status says of it, and what of it stands in which write.

An entry of `status.removing` stands from the write before the DELETE to the one that counts the pod. While an array is
suspended or over, its phase says why all its pods are deleted, so entries name only the exceptions. These are pods that
another client had deleted before, and, when the array goes on, those that still stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from scavenger_api.job import Phase, ScavengerJobStatus
from scavenger_api.removing import MAX_REMOVING, RemovalReason, entry, reasons_of

from scavenger_admitter.core.lifecycle.actions import DeletePod

UNCOUNTED: Final = (
    RemovalReason.START_FAILED,
    RemovalReason.SUPERSEDED,
    RemovalReason.SUSPENDED,
    RemovalReason.FINISHED,
)
"""Reasons after which nothing is counted, and only the time is booked."""


def of_phase(phase: Phase | None) -> RemovalReason | None:
    """Why an array in this phase deletes all its pods; None where it does not."""
    if phase is Phase.SUSPENDED:
        return RemovalReason.SUSPENDED
    return RemovalReason.FINISHED if phase is not None and phase.finished else None


def committed(action: DeletePod, written: ScavengerJobStatus) -> bool:
    """Whether the status, as it is written, says why the pod is deleted."""
    by_phase = of_phase(written.phase)
    return (
        not action.intent
        or action.intent in (written.removing or ())
        or (by_phase is not None and action.intent == by_phase.value)
    )


class Intents:
    """`status.removing` of an array, to be changed. A pod is named as `counted` names it.

    Args:
        written: the status as observed.
    """

    def __init__(self, written: ScavengerJobStatus) -> None:
        self._written = frozenset(written.removing or ())
        self._entries = {one.partition(":")[0]: one for one in written.removing or ()}
        self._reasons = reasons_of(written.removing or ())
        self._by_phase = of_phase(written.phase)

    def __bool__(self) -> bool:
        """Whether it names any pod: nearly never, and asked of each pod of an array."""
        return bool(self._entries)

    def of(self, pod: str) -> RemovalReason | None:
        """Why the admitter has committed the deletion of a pod."""
        return self._reasons.get(pod, self._by_phase)

    def of_task(self, index: int) -> RemovalReason | None:
        """The same of a task whose pod is not known any more."""
        mine = (reason for pod, reason in self._reasons.items() if pod.partition("-")[0] == str(index))
        return next(mine, self._by_phase)

    def named(self, pod: str) -> str:
        """The entry of a pod; empty where it has none, or one that says that others have deleted it. What another
        version has committed is deleted as well."""
        return "" if self._reasons.get(pod) is RemovalReason.DELETED else self._entries.get(pod, "")

    def add(self, pod: str, reason: RemovalReason) -> str:
        """Name a pod that has no name: a reason never changes. Returns its entry; empty where there is no space."""
        if pod not in self._entries and not self.full:
            self._entries[pod], self._reasons[pod] = entry(pod, reason), reason
        return self.named(pod)

    def drop(self, pods: Iterable[str]) -> None:
        """Name these pods no longer: they are counted."""
        for pod in pods:
            self._entries.pop(pod, None)

    def keep(self, there: Callable[[str], bool]) -> None:
        """Name no pods but those that are there."""
        self._entries = {pod: one for pod, one in self._entries.items() if there(pod)}

    @property
    def full(self) -> bool:
        """Whether it has no space for another pod."""
        return len(self._entries) >= MAX_REMOVING

    @property
    def entries(self) -> tuple[str, ...] | None:
        """As the status is to have them."""
        return tuple(self._entries.values()) or None

    @property
    def added(self) -> bool:
        """Whether pods are named that the written status does not name."""
        return not self._written.issuperset(self._entries.values())
