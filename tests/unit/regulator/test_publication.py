"""When the levels are written."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from scavenger_api.levels import LevelsState, PublishedLevels
from scavenger_regulator.core.plan import regulate
from scavenger_regulator.core.publication import worth_publishing
from scavenger_regulator.core.rules import Rules

from .builders import NOW, snapshot


def published(cpu: float) -> PublishedLevels:
    return regulate(snapshot(cpu=cpu), {}, Rules(yield_at_checkpoint=False)).published


def test_publishing_only_when_it_matters() -> None:
    old = published(5)
    now, period = NOW, Rules().period

    def worth(new: PublishedLevels, later: float = 0) -> bool:
        return worth_publishing(old, new, now + timedelta(seconds=later), period)

    later = replace(old, observed_at=NOW + timedelta(seconds=20))
    assert worth_publishing(None, old, now, period)
    assert not worth(old)
    assert not worth(published(5.04))
    assert worth(published(5.05))
    assert not worth(later, 30)
    assert worth(later, 40)  # or it would be 80 s old the next time, and stale soon after
    assert not worth(old, 60), "to write the same time again refreshes nothing"
    assert worth(replace(old, admit=False))
    assert worth(replace(old, state=LevelsState.BLIND))
    assert worth(PublishedLevels(LevelsState.BLIND, message="no metrics"))
