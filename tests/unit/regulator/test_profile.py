"""A node's history: what it says, how it forgets, and that it is small and survives."""

from __future__ import annotations

import base64
import json
import math
import statistics
import zlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_regulator.core.reclaimed.profile import BUCKETS, Profile, Profiles
from scavenger_regulator.store import MAX_BYTES

from tests.unit.regulator.builders import GIB, NOW, ago

ROOM = 10.0
BUCKET = ROOM / BUCKETS
DAY = 86_400.0


def filled(*uses: float, half_life: float = 1e9, every: float = 30, room: float = ROOM) -> Profile:
    """One sample after the other, the last one now."""
    profile = Profile(half_life)
    for number, use in enumerate(uses):
        assert profile.add(ago((len(uses) - 1 - number) * every), use, room)
    return profile


@given(
    uses=st.lists(st.floats(0, ROOM, allow_nan=False), min_size=1, max_size=60),
    percent=st.floats(0, 100, allow_nan=False),
)
def test_a_percentile_is_right_to_a_bucket(uses: list[float], percent: float) -> None:
    found, rank = filled(*uses).percentile(percent), percent / 100 * len(uses)
    # Between two samples either is right: what came first has lost a trace of its weight.
    ranks = {max(1, math.ceil(rank - 1e-6)), min(len(uses), math.floor(rank + 1e-6) + 1)}
    assert any(found == pytest.approx(sorted(uses)[one - 1], abs=BUCKET * 1.001) for one in ranks)


@given(uses=st.lists(st.floats(0, ROOM, allow_nan=False), min_size=1, max_size=60))
def test_the_deviation_is_right_to_a_bucket(uses: list[float]) -> None:
    assert filled(*uses).stdev == pytest.approx(statistics.pstdev(uses), abs=BUCKET)


def test_without_a_sample_nothing_is_expected() -> None:
    profile = Profile(3600)
    assert (profile.percentile(95), profile.stdev, profile.usual(95), profile.samples) == (0, 0, 0, 0)


def test_what_is_usual_is_never_more_than_the_node() -> None:
    assert filled(*[0, 10] * 20).usual(99) == ROOM
    assert filled(*[12.0] * 20).percentile(95) == pytest.approx(ROOM, abs=BUCKET)


def test_half_is_forgotten_after_the_half_life() -> None:
    profile = filled(*[8.0] * 100, half_life=3600, every=1e-3)
    before = profile.samples
    assert profile.add(NOW + timedelta(hours=1), 1.0, ROOM)
    assert profile.samples == pytest.approx(before / 2 + 1)
    for hour in range(2, 10):
        profile.add(NOW + timedelta(hours=hour), 1.0, ROOM)
    assert profile.percentile(95) == pytest.approx(8, abs=BUCKET), "still 5 % of what is remembered"
    for hour in range(10, 12):
        profile.add(NOW + timedelta(hours=hour), 1.0, ROOM)
    assert profile.percentile(95) == pytest.approx(1, abs=BUCKET)


def test_a_node_that_was_not_watched_for_days_is_learned_anew() -> None:
    profile = filled(*[1.0] * 100, half_life=3600)
    assert profile.samples > 50
    profile.add(NOW + timedelta(days=3), 1.0, ROOM)
    assert profile.samples < 1.001


@pytest.mark.parametrize("use", [math.nan, math.inf, -math.inf, -1.0])
def test_what_is_no_amount_is_left_out(use: float) -> None:
    profile = filled(1.0)
    assert not profile.add(NOW + timedelta(seconds=30), use, ROOM)
    assert profile.samples == 1
    for room in (0.0, -1.0, math.nan, math.inf):
        assert not profile.add(NOW + timedelta(seconds=30), 1.0, room)


def test_the_same_sample_counts_once_and_a_clock_set_back_does_not_stop_it_for_ever() -> None:
    profile = filled(1.0, half_life=3600)
    assert not profile.add(NOW, 9.0, ROOM)
    assert not profile.add(ago(60), 9.0, ROOM)
    assert profile.add(ago(2 * 3600), 2.0, ROOM)
    assert profile.samples == pytest.approx(2)


def test_a_node_that_grows_keeps_what_its_pods_used() -> None:
    profile = filled(*[4.0] * 50)
    profile.add(NOW + timedelta(seconds=30), 4.0, 2 * ROOM)
    assert profile.room == 2 * ROOM
    assert profile.percentile(50) == pytest.approx(4, abs=2 * 2 * BUCKET)
    profile.add(NOW + timedelta(seconds=60), 4.0, 5.0)
    assert profile.percentile(50) == pytest.approx(4, abs=2 * 2 * BUCKET)


# --- kept across restarts -----------------------------------------------------------------------------------


@given(uses=st.lists(st.floats(0, ROOM, allow_nan=False), min_size=1, max_size=100))
def test_what_is_kept_says_nearly_the_same(uses: list[float]) -> None:
    profiles = Profiles(3600.0, {"n1": {"cpu": filled(*uses, half_life=3600)}})
    kept = Profiles.load(profiles.dump(MAX_BYTES), 3600, ["n1"], NOW).get("n1", "cpu")
    before = profiles.get("n1", "cpu")
    assert kept is not None
    assert before is not None
    assert kept.samples == pytest.approx(before.samples, abs=0.01)
    assert kept.stdev == pytest.approx(before.stdev, abs=BUCKET)
    # A byte is right to half a 255th of the fullest bucket, so that a percentile may be another by a few parts in 255.
    near = [before.percentile(percent) for percent in (75, 100)]
    assert near[0] - 2 * BUCKET <= kept.percentile(90) <= near[1] + 2 * BUCKET


def test_five_thousand_nodes_fit_into_one_configmap() -> None:
    profiles = Profiles(3600.0)
    for number in range(5000):
        for resource, room in (("cpu", 64.0), ("memory", 256 * GIB)):
            weights = [(number * 7919 + i * i * 104_729) % 997 / 10 for i in range(BUCKETS)]
            profile = Profile(3600.0, room, weights, NOW.timestamp())
            profiles.nodes.setdefault(f"ip-10-0-{number // 250}-{number % 250}.example.internal", {})[resource] = (
                profile
            )
    text = profiles.dump(MAX_BYTES)
    assert len(text) <= MAX_BYTES
    assert len(Profiles.load(text, 3600, list(profiles.nodes), NOW).nodes) == 5000


def test_where_not_all_fit_some_are_learned_anew() -> None:
    profiles = Profiles(3600.0, {f"n{i}": {"cpu": filled(i % 10, 9 - i % 7)} for i in range(200)})
    limit = len(profiles.dump(MAX_BYTES)) // 2
    text = profiles.dump(limit)
    assert len(text) <= limit
    kept = Profiles.load(text, 3600, list(profiles.nodes), NOW)
    assert 0 < len(kept.nodes) < 200
    assert profiles.dump(10) == ""


def test_nodes_that_are_gone_are_not_taken_up() -> None:
    profiles = Profiles(3600.0, {name: {"cpu": filled(1.0)} for name in ("here", "gone")})
    kept = Profiles.load(profiles.dump(MAX_BYTES), 3600, ["here", "new"], NOW)
    assert set(kept.nodes) == {"here"}
    profiles.keep(["here"])
    assert set(profiles.nodes) == {"here"}


def packed(value: object) -> str:
    return base64.b64encode(zlib.compress(json.dumps(value).encode())).decode()


GOOD = [0, 10.0, 3.0, base64.b64encode(bytes([255] * BUCKETS)).decode()]
BAD: list[object] = [
    None,
    [],
    {},
    7,
    [0, 10.0, 3.0, "x"],
    [0, 10.0, 3.0, ""],
    [0, math.nan, 3.0, GOOD[3]],
    [0, 0, 3.0, GOOD[3]],
    [0, 10.0, math.inf, GOOD[3]],
    [0, 10.0, -1, GOOD[3]],
    [4e9, 10.0, 3.0, GOOD[3]],
    [math.nan, 10.0, 3.0, GOOD[3]],
]


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "!",
        "AAAA",
        packed([]),
        packed({"version": 0, "nodes": {"n1": {"cpu": GOOD}}}),
        packed({"version": 1, "nodes": []}),
        packed({"version": 1, "nodes": {"n1": []}}),
        *(packed({"version": 1, "nodes": {"n1": {"cpu": values}}}) for values in BAD),
    ],
)
def test_garbage_is_no_history(text: str | None) -> None:
    profile = Profiles.load(text, 3600, ["n1"], NOW).get("n1", "cpu")
    assert profile is None or profile.samples == 0


def test_what_is_well_formed_is_taken_up() -> None:
    profile = Profiles.load(packed({"version": 1, "nodes": {"n1": {"cpu": GOOD}}}), 3600, ["n1"], NOW).get("n1", "cpu")
    assert profile is not None
    assert profile.samples == pytest.approx(3)
