"""Why a job waits that its queue's share is about: what the queue has, and what it deserves, in words."""

from __future__ import annotations

from collections.abc import Callable

from scavenger_api.reasons import WaitReason

from scavenger_admitter.core.admission.shape import PODS
from scavenger_admitter.core.admission.shares import Shares, total
from scavenger_admitter.core.admission.snapshot import Candidate
from scavenger_admitter.core.admission.sums import add
from scavenger_admitter.core.waits import Wait, spell


def promised_room(shares: Shares, candidate: Candidate) -> Wait:
    """A job within its queue's share waits for pods that have been told to go."""
    has_and_deserves = _standing(shares, candidate, counted=True)
    return Wait(
        WaitReason.MAKING_ROOM,
        lambda: f"{has_and_deserves()}: this job starts when the pods that leave for it are gone",
        candidate.queue,
    )


def beyond_share(shares: Shares, candidate: Candidate, lack: Wait) -> Wait:
    """A job beyond its queue's share starts on capacity that no other job wants, and there is none."""
    has_and_deserves = _standing(shares, candidate)
    return Wait(
        WaitReason.QUEUE_SHARE,
        lambda: (
            f"{has_and_deserves()}: this job, which needs {spell(_asked(candidate).items())} in all, would be beyond"
            f" that and starts on what the other queues leave; {lack.message}"
        ),
        candidate.queue,
        lack.reason,
    )


def _standing(shares: Shares, candidate: Candidate, *, counted: bool = False) -> Callable[[], str]:
    """What its queue has at this moment and what it deserves, of what the job asks for; in words when called.
    `counted`: the job itself is already in what its queue has."""
    queue, held = candidate.queue, dict(shares.held(candidate.queue))
    if counted:
        add(held, candidate.shape.counted, -candidate.parallelism)

    def words() -> str:
        asked = _asked(candidate)
        deserved = {name: n for name, n in shares.deserved(queue).items() if name in asked}
        has, deserves = spell((name, held.get(name, 0)) for name in deserved), spell(deserved.items())
        slots = held.get(PODS, 0)
        if slots + asked[PODS] > deserved.get(PODS, slots + asked[PODS]):  # else they do not matter
            has, deserves = f"{has}, {slots} pods", f"{deserves}, {deserved[PODS]} pods"
        return f"queue {queue} has {has} and deserves {deserves}"

    return words


def _asked(candidate: Candidate) -> dict[str, int]:
    return total(candidate.shape.counted, candidate.parallelism)
