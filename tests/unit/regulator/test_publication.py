"""When the levels are written."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from scavenger_api.levels import LevelsState, PublishedLevels
from scavenger_regulator.core.plan import regulate
from scavenger_regulator.core.publication import MAX_HEADROOM_BYTES, within_bounds, worth_publishing
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
    assert worth(later, 50)  # or it would be 90 s old the next time, and stale soon after
    assert not worth(old, 60), "to write the same time again refreshes nothing"
    assert worth(replace(old, admit=False))
    assert worth(replace(old, state=LevelsState.BLIND))
    assert worth(PublishedLevels(LevelsState.BLIND, message="no metrics"))


def test_headroom_is_written_when_it_fell_by_two_points_or_rose_by_five() -> None:
    old = replace(published(5), headroom={"a": (200, 300), "b": (100, 100)})

    def worth(**headroom: tuple[int, int]) -> bool:
        return worth_publishing(old, replace(old, headroom=headroom), NOW, Rules().period)

    assert not worth(a=(200, 300), b=(100, 100))
    assert not worth(a=(181, 349), b=(100, 100))
    assert worth(a=(180, 300), b=(100, 100))
    assert worth(a=(200, 350), b=(100, 100))
    assert worth(a=(200, 300)), "b is closed, or gone"
    assert worth(a=(200, 300), b=(100, 100), c=(0, 0))


def test_what_is_used_of_requests_is_written_when_it_moved_by_five_points() -> None:
    def levels(used: float | None) -> PublishedLevels:
        new = published(5)
        return replace(new, resources={r: replace(one, used_of_requests=used) for r, one in new.resources.items()})

    for before, after, worth in ((40, 44, False), (40, 45, True), (None, 40, True), (40, None, True)):
        assert worth_publishing(levels(before), levels(after), NOW, Rules().period) is worth


def test_headroom_of_five_thousand_nodes_fits_into_a_configmap() -> None:
    many = {f"{i:04}-{'x' * 55}": (i % 800, 800 - i % 300) for i in range(5000)}
    assert within_bounds(many) == many
    assert len(replace(published(5), headroom=many).to_data()["nodeHeadroom"]) < MAX_HEADROOM_BYTES
    longest = {f"{i:04}-{'x' * 248}": (i % 800, 800 - i % 300) for i in range(5000)}
    kept = within_bounds(longest)
    assert len(replace(published(5), headroom=kept).to_data()["nodeHeadroom"]) <= MAX_HEADROOM_BYTES
    left_out = [min(left) for node, left in longest.items() if node not in kept]
    assert 1000 < len(kept) < 2000
    assert max(min(left) for left in kept.values()) <= min(left_out), "those with the most are left out"
