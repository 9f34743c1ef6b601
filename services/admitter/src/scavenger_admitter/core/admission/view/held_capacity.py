"""Capacity that nodes show as free and that is held for a pod or a job: the one table of what holds it, and until when.

| holder | for whom | until |
|---|---|---|
| `pods`, not tried | a regular pod that no scheduler has looked at | it is bound, or a minute old |
| `pods`, tried | a regular pod that a node with free capacity may take | it is bound, or `PROMISE` has passed |
| `pods`, nominated | a regular pod, on its nominated node | the scheduler takes the nomination back |
| `starts` | pods of a start under way | they are bound, or the start has failed |
| `kept` | a job interrupted in favor of no other pod | its next start, or a minute after its grace period |
| the node (`domain/expected_pods.py`) | regular pods that may come in half an hour | the levels say something else |

What a cycle promises to a job within its share is stored nowhere (`cycle_usage.py`). docs/queues.md has the table too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from scavenger_admitter.core.admission.placement.inputs import PendingPod
from scavenger_admitter.core.admission.units import SECOND
from scavenger_admitter.core.admission.view.assumed_starts import AssumedStarts
from scavenger_admitter.core.admission.view.kept_room import KeptRoom
from scavenger_admitter.core.admission.view.object_facts import PodFacts

PROMISE: Final = 300 * SECOND
"""So long capacity is held for a pod that does not take it. A scheduler tries again within seconds."""

_ByJob = Mapping[str, Mapping[str, PodFacts]]


class HeldCapacity:
    """Everything that holds capacity.

    Args:
        pods: all scavenger pods by job and key; a live view of the owner's mapping.
        unbound: those of them that have no node yet and are to get one, in the same way.

    Attributes:
        starts: starts under way.
        kept: for interrupted jobs.
    """

    def __init__(self, pods: _ByJob, unbound: _ByJob) -> None:
        self.starts: Final = AssumedStarts(pods, unbound)
        self.kept: Final = KeptRoom(pods)
        self._pods: dict[str, PendingPod] = {}
        self._sorted: tuple[PendingPod, ...] | None = ()
        # Since when capacity has been held for a pod, with its creation: a name may be used again.
        self._since: dict[str, tuple[str, int]] = {}

    def add(self, pod: PendingPod) -> None:
        """A regular pod waits for a node."""
        self._pods[pod.key] = pod
        self._sorted = None

    def remove(self, key: str) -> None:
        """It does not any more, or something about it changes."""
        del self._pods[key]
        self._sorted = None

    def pods(self, now: int) -> tuple[PendingPod, ...]:
        """The regular pods that capacity is held for at `now` (microseconds), in the order they take it."""
        if self._sorted is None:
            self._sorted = tuple(sorted(self._pods.values(), key=_order))
        return tuple(pod for pod in self._sorted if self._holds(pod, now))

    def _holds(self, pod: PendingPod, now: int) -> bool:
        if pod.nominated:
            return True
        created, since = self._since.get(pod.key, ("", now))
        over = created == pod.created and now - since >= PROMISE
        return not over and not (pod.untried_until and now >= pod.untried_until)

    def promised(self, keys: Collection[str], now: int) -> None:
        """A cycle found free capacity for these regular pods, and for no others. A promise that has ended is not made
        again, as long as the pod waits; one for which there was none begins when there is some."""
        kept = {key: held for key, held in self._since.items() if key in self._pods and now - held[1] >= PROMISE}
        for key in keys:
            pod = self._pods.get(key)
            if pod is not None:
                known = self._since.get(key)
                # the clock may have been set back
                since = min(known[1], now) if known is not None and known[0] == pod.created else now
                kept[key] = (pod.created, since)
        self._since = kept


def _order(pod: PendingPod) -> tuple[bool, int, str, str]:
    return pod.order
