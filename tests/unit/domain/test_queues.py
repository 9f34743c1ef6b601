"""In which state a queue is, and whether jobs are admitted from it."""

from __future__ import annotations

import pytest
from scavenger_api.reasons import WaitReason
from scavenger_api.states import QueueState
from scavenger_domain.queues import queue_state, why_closed


@pytest.mark.parametrize(
    ("deleting", "closed", "state"),
    [
        (False, False, QueueState.OPEN),
        (False, True, QueueState.CLOSED),
        (True, False, QueueState.RELEASING),
        (True, True, QueueState.RELEASING),
    ],
)
def test_state(deleting: bool, closed: bool, state: QueueState) -> None:
    assert queue_state(deleting=deleting, closed=closed) is state


def test_only_an_open_queue_admits() -> None:
    assert {state: why_closed(state) for state in (None, *QueueState)} == {
        None: WaitReason.QUEUE_MISSING,
        QueueState.OPEN: None,
        QueueState.CLOSED: WaitReason.QUEUE_CLOSED,
        QueueState.RELEASING: WaitReason.QUEUE_RELEASING,
    }
    assert {state: why_closed(state, selected=False) for state in QueueState} == {
        QueueState.OPEN: WaitReason.NAMESPACE_NOT_SELECTED,
        QueueState.CLOSED: WaitReason.QUEUE_CLOSED,
        QueueState.RELEASING: WaitReason.QUEUE_RELEASING,
    }
