"""The end of a wait, for who is stopped for a while."""

from __future__ import annotations

import pytest
from scavenger_cluster.errors import WaitTimeoutError
from scavenger_cluster.waiting import wait_for


def test_what_came_true_while_the_last_look_took_its_time_is_seen() -> None:
    """A busy machine stops us in the middle of a look: then the deadline is over, and what was waited for is there."""
    now, looks = [0.0], []

    def condition() -> bool:
        looks.append(now[0])
        now[0] += 100
        return len(looks) > 1

    def sleep(seconds: float) -> None:
        now[0] += seconds

    assert wait_for("it", condition, timeout=10, interval=1, clock=lambda: now[0], sleep=sleep)
    assert looks == [0.0, 101.0]


def test_the_last_look_is_after_the_deadline() -> None:
    now, looks = [0.0], []

    def condition() -> bool:
        looks.append(now[0])
        return False

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with pytest.raises(WaitTimeoutError, match="the moon after 3 s"):
        wait_for("the moon", condition, timeout=3, interval=2, clock=lambda: now[0], sleep=sleep)
    assert looks == [0.0, 2.0, 4.0]
