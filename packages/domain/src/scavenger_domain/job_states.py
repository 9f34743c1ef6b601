"""The conditions of a job: a function of its phase, so that the two never contradict each other."""

from __future__ import annotations

from typing import Final, NamedTuple

from scavenger_api.reasons import StateReason
from scavenger_api.states import ConditionType, Phase


class State(NamedTuple):
    """One condition's status and reason, and its message; None leaves that as it is while the status holds."""

    status: str
    reason: str
    message: str | None = None


_TRUE: Final = "True"
_FALSE: Final = "False"
_UNKNOWN: Final = "Unknown"
UNFINISHED: Final = State(_UNKNOWN, StateReason.UNFINISHED)
"""Succeeded is Unknown, or absent, until the end, so that a wait for either outcome does not end early."""
_ABSENT_UNLESS_TRUE: Final = (ConditionType.RUNNING, ConditionType.INTERRUPTED, ConditionType.STALLED)
"""Being False says nothing of these that the phase does not, and every write costs the API server its size. The first
condition that is False says why a job waits or has failed: the column REASON of kubectl."""


def states(
    phase: Phase, reason: str, message: str | None, *, interrupted: str | None, stalled: str | None
) -> dict[ConditionType, State]:
    """Status and reason of every condition (`scavenger_api.reasons`).

    `reason`: one word on why the job is in this phase; `message`: the same in a sentence, None to leave it as it was
    written. Together they are what Admitted says of a job that waits. `interrupted`: the cause of the last interruption
    while the job has not started again since, in whatever phase it is in on its way there. `stalled`: since when it
    runs without a checkpoint, in words.
    """
    started = phase.active or phase.finished
    admitted = State(_TRUE, StateReason.STARTED, "") if started else State(_FALSE, reason, message)
    running = phase is Phase.RUNNING
    succeeded = {
        Phase.COMPLETED: State(_TRUE, StateReason.COMPLETED),
        Phase.FAILED: State(_FALSE, reason),
    }.get(phase, UNFINISHED)
    waiting_again = interrupted is not None and phase in (Phase.INTERRUPTED, Phase.STARTING)
    return {
        ConditionType.ADMITTED: admitted,
        ConditionType.RUNNING: State(_TRUE, StateReason.RUNNING) if running else State(_FALSE, phase.value),
        ConditionType.INTERRUPTED: State(_TRUE, interrupted or "") if waiting_again else State(_FALSE, phase.value),
        ConditionType.SUCCEEDED: succeeded,
        ConditionType.STALLED: (
            State(_FALSE, phase.value, "") if stalled is None else State(_TRUE, StateReason.NO_CHECKPOINT, stalled)
        ),
    }


def worth_saying(kind: ConditionType, state: State, *, known: bool) -> bool:
    """Whether a condition is written.

    Args:
        kind: of the condition.
        state: what it says.
        known: whether it is written already.
    """
    return (known or state is not UNFINISHED) and not (kind in _ABSENT_UNLESS_TRUE and state.status == _FALSE)
