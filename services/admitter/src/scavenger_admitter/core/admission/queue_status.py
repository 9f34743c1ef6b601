"""The status of a ScavengerQueue: a function of what is known now, so that it is right after any restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scavenger_api.job import Phase
from scavenger_api.queue import QueueCounts, ScavengerQueue, ScavengerQueueStatus
from scavenger_api.states import QueueState
from scavenger_domain.queues import queue_state

from scavenger_admitter.core.admission.placement.node_index import rough
from scavenger_admitter.core.admission.shape import PODS
from scavenger_admitter.core.admission.shares import QueueShare

SHOWN: Final = ("cpu", "memory")
"""Resources that are shown even where there is nothing of them."""

_BINARY: Final = (("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))
_MIB: Final = 1 << 20


def state_of(queue: ScavengerQueue) -> QueueState:
    """Open, Closed or Releasing (`scavenger_domain.queues`)."""
    return queue_state(deleting=queue.metadata.deletion_timestamp is not None, closed=queue.spec.closed)


def queue_status(
    queue: ScavengerQueue, phases: Mapping[Phase | None, int], share: QueueShare, *, unknown: int = 0
) -> ScavengerQueueStatus:
    """What the status is to be.

    Args:
        queue: with the status it has; what it deserved last stays while the load is not known.
        phases: how many of its jobs are in each phase; None for those that the admitter has not looked at yet, which
            wait.
        share: what it has and deserves, in millicores, bytes and units.
        unknown: how many of its jobs cannot be read now, and are in none of these phases.
    """
    deserved = queue.status.deserved if share.deserved is None else _quantities(share.deserved, rounded=True)
    return ScavengerQueueStatus(
        state=state_of(queue),
        jobs=_counts(phases, unknown),
        allocated=_quantities(share.allocated),
        deserved=deserved,
    )


def _counts(phases: Mapping[Phase | None, int], unknown: int) -> QueueCounts:
    return QueueCounts(
        waiting=phases.get(Phase.WAITING, 0) + phases.get(None, 0),
        starting=phases.get(Phase.STARTING, 0),
        running=phases.get(Phase.RUNNING, 0),
        interrupted=phases.get(Phase.INTERRUPTED, 0),
        suspended=phases.get(Phase.SUSPENDED, 0),
        completed=phases.get(Phase.COMPLETED, 0),
        failed=phases.get(Phase.FAILED, 0),
        unknown=unknown,
    )


def _quantities(amounts: Mapping[str, int], *, rounded: bool = False) -> dict[str, str]:
    names = sorted({*amounts, *SHOWN})
    return {name: quantity(name, amounts.get(name, 0), rounded=rounded) for name in names}


def quantity(resource: str, value: int, *, rounded: bool = False) -> str:
    """An amount as a Kubernetes quantity, exactly: `1500m`, `2Gi`, `3`.

    `rounded`: memory down to whole Mi, pods to their leading bits. A share of all there is has no meaning to the byte,
    and would be written again whenever any pod comes or goes.
    """
    if resource == PODS and rounded:
        return str(rough(value))
    if resource == "cpu":
        return str(value // 1000) if value % 1000 == 0 else f"{value}m"
    if resource == "memory" and rounded:
        value = value // _MIB * _MIB
    if resource == "memory" or resource.startswith(("ephemeral-storage", "hugepages-")):
        for suffix, bits in _BINARY:
            if value and value % (1 << bits) == 0:
                return f"{value >> bits}{suffix}"
    return str(value)
