"""An interruption as it is told: the sentence in Event and status, and what it was made of, read again from it.

The admitter tells it, the board reads it. Events last an hour and have no fields of their own for cause and cost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from scavenger_api.reasons import InterruptionReason

EVENT_REASON: Final = "Interrupted"
"""Reason of the Event on a ScavengerJob that has this sentence."""

PREEMPTED_BY: Final = "PreemptedBy"
"""Reason of the scheduler plugin's Event on a victim; `related` is the pod that the victim made capacity for
(services/scheduler/pkg/preemption/events.go)."""

PREEMPTED: Final = "Preempted"
"""The same of kube-scheduler (pkg/scheduler/framework/preemption/executor.go)."""

TELL_WHOM: Final = (PREEMPTED_BY, PREEMPTED)
"""Reasons of the Events on a victim."""

CLOCKS: Final = timedelta(seconds=5)
"""By which an Event may be earlier than the moment in the status that it is about. It may be much later: an admitter
that was down tells of what happened meanwhile, and Events wait for their turn to be written. So it is about the last
moment before it."""

ROOM_MADE: Final = timedelta(minutes=10)
"""At most from a victim's Event to the interruption: a grace period lies between them."""

PHRASES: Final = {
    InterruptionReason.PREEMPTED: "was preempted",
    InterruptionReason.EVICTED: "was evicted",
    InterruptionReason.ABOVE_UPPER_LEVEL: "was evicted, as the load had reached the eviction threshold",
    InterruptionReason.YIELD_AT_CHECKPOINT: "yielded at its checkpoint, as no new job fits any more",
    InterruptionReason.NODE_MEMORY: "was evicted, as its node was about to run out of memory",
    InterruptionReason.KUBELET_EVICTED: "was evicted by its node",
    InterruptionReason.NODE_OUT_OF_MEMORY: "was killed for memory on a node that was short of it",
    InterruptionReason.NODE_DRAINED: "was removed because of a taint on its node",
    InterruptionReason.NODE_LOST: "was lost with its node",
    InterruptionReason.NODE_SHUTDOWN: "was stopped by the shutdown of its node",
    InterruptionReason.QUEUE_RECLAIMED: "was taken back",
    InterruptionReason.STARVED: "was starved",
    InterruptionReason.MAX_RUNNING: "was stopped by the maxRunning of its array",
    InterruptionReason.DELETED: "was deleted",
    InterruptionReason.JOB_DELETED: "lost its Job, which was deleted",
}
"""What happened to a pod, to follow `pod x`."""

WITHOUT_A_POD: Final[Mapping[InterruptionReason, str]] = {
    InterruptionReason.JOB_DELETED: "its Job was deleted",
    InterruptionReason.QUEUE_RECLAIMED: "its capacity was taken back",
    InterruptionReason.STARVED: "it was starved",
}
"""What happened to a run, where no single pod is to be named."""

_GONE: Final = "one of its pods is gone"
_SENTENCE: Final = re.compile(r"interrupted: (.*); (at most )?([0-9]+) CPU-seconds lost", re.DOTALL)
_DETAIL: Final = r"(?: \((?P<detail>.*)\))?"


@dataclass(frozen=True, slots=True)
class Interruption:
    """What is told of an interruption.

    cause: None where it is not known. pod: the one that is named, or empty. detail: in words, for whom or by which
    figures. lost: CPU-seconds; at_most: the pods may save more before they have ended.
    """

    cause: InterruptionReason | None
    pod: str = ""
    detail: str = ""
    lost: float = 0.0
    at_most: bool = False


def phrase(cause: InterruptionReason, pod: str, detail: str) -> str:
    """What happened, and to which pod, in words."""
    who = f"pod {pod} {PHRASES[cause]}" if pod else WITHOUT_A_POD.get(cause, _GONE)
    return f"{who} ({detail})" if detail else who


def tell(cause: InterruptionReason, pod: str, detail: str, lost: float, *, at_most: bool) -> str:
    """The sentence. lost: CPU-seconds."""
    return f"interrupted: {phrase(cause, pod, detail)}; {'at most ' if at_most else ''}{lost:.0f} CPU-seconds lost"


def read(sentence: str) -> Interruption | None:
    """What a sentence of `tell` says; None for any other, such as one that was cut off."""
    found = _SENTENCE.fullmatch(sentence)
    if found is None:
        return None
    what, bound, lost = found.groups()
    for cause, pattern in _PATTERNS:
        if (match := pattern.fullmatch(what)) is not None:
            groups = match.groupdict()
            return Interruption(cause, groups.get("pod") or "", groups["detail"] or "", float(lost), bound is not None)
    return None


def tells_of(told: datetime, at: datetime, after: datetime | None) -> bool:
    """Whether an Event is about the interruption at a moment.

    Args:
        told: when the Event was written.
        at: the moment, as the status has it.
        after: that of the next interruption of the job.
    """
    return told >= at - CLOCKS and (after is None or told < after - CLOCKS)


def take_preemptor(victims: list[tuple[datetime, str]], at: datetime) -> str | None:
    """The pod that a pod was preempted for at a moment; None where no Event says so. An Event answers once, as a later
    pod may have the same name: it is taken out, and so are older ones.

    Args:
        victims: when Events on that pod were written, and which pod each names.
        at: of the interruption.
    """
    near = [one for one in victims if abs(one[0] - at) <= ROOM_MADE]
    nearest = min(near, key=lambda one: abs(one[0] - at), default=None)
    if nearest is None:
        return None
    victims[:] = [one for one in victims if one[0] > nearest[0]]
    return nearest[1]


def _patterns() -> list[tuple[InterruptionReason | None, re.Pattern[str]]]:
    made: list[tuple[InterruptionReason | None, str]] = []
    made += [(cause, rf"pod (?P<pod>\S+) {re.escape(words)}") for cause, words in PHRASES.items()]
    made += [(cause, re.escape(words)) for cause, words in WITHOUT_A_POD.items()]
    made.append((None, re.escape(_GONE)))
    return [(cause, re.compile(words + _DETAIL, re.DOTALL)) for cause, words in made]


_PATTERNS: Final = _patterns()
