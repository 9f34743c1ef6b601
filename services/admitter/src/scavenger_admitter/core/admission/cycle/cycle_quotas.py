"""What the quotas of the queues leave during one cycle."""

from __future__ import annotations

from collections.abc import Mapping

from scavenger_api.quantity import format_amount
from scavenger_api.reasons import WaitReason

from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, QueueView
from scavenger_admitter.core.admission.sums import add
from scavenger_admitter.core.waits import Wait, spell


class CycleQuotas:
    """What queues with a quota use of it. It only rises, so what was refused once is refused for every equal job.

    Args:
        queues: of the snapshot.
    """

    def __init__(self, queues: Mapping[str, QueueView]) -> None:
        self._queues = queues
        self._used = {name: dict(queue.allocated) for name, queue in queues.items() if queue.quota}
        self._refused: dict[tuple[str, Shape, int], Wait] = {}

    def refusal(self, candidate: Candidate) -> Wait | None:
        """Why the quota of its queue keeps a job waiting, if so."""
        if candidate.queue not in self._used:
            return None
        key = (candidate.queue, candidate.shape, candidate.parallelism)
        wait = self._refused.get(key) or self._exceeded(candidate)
        if wait is not None:
            self._refused[key] = wait
        return wait

    def take(self, candidate: Candidate) -> None:
        """Count a job that starts, or is promised capacity."""
        if candidate.queue in self._used:
            add(self._used[candidate.queue], candidate.shape.counted, candidate.parallelism)

    def _exceeded(self, candidate: Candidate) -> Wait | None:
        queue, used = self._queues[candidate.queue], self._used[candidate.queue]
        for name, most in sorted(queue.quota.items()):
            extra = candidate.shape.counts(name) * candidate.parallelism
            if extra > most:
                return _larger_than_quota(queue.name, name, most, extra)
            if extra and used.get(name, 0) + extra > most:
                return _over_quota(queue.name, name, used.get(name, 0), most, extra)
        return None


def _larger_than_quota(queue: str, resource: str, most: int, extra: int) -> Wait:
    return Wait(
        WaitReason.LARGER_THAN_QUOTA,
        lambda: (
            f"needs {spell([(resource, extra)])}; the whole quota of queue {queue} is {format_amount(resource, most)}"
        ),
        queue,
        resource,
    )


def _over_quota(queue: str, resource: str, allocated: int, most: int, extra: int) -> Wait:
    return Wait(
        WaitReason.QUEUE_QUOTA,
        lambda: (
            f"needs {spell([(resource, extra)])}; queue {queue} has {format_amount(resource, allocated)} of"
            f" its quota of {format_amount(resource, most)} in use"
        ),
        queue,
        resource,
    )
