"""How much more regular pods request within half an hour, by the hour of the day."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from scavenger_regulator.core.plan import regulate
from scavenger_regulator.core.rises import (
    A_DAY,
    BUCKET,
    DAYS,
    Rises,
    RisesByScope,
    dump_rises,
    keep_only,
    learn_requests,
    likely,
    load_rises,
    set_back,
)
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.snapshot import CLUSTER, POOL

from tests.unit.regulator.builders import GIB, NOW, figures, measured, node, snapshot

QUARTER = timedelta(seconds=BUCKET)
A_WEEK = timedelta(days=DAYS)
GPU = f"{POOL}gpu"


def course(*requested: float, days: float = 1, every: timedelta = QUARTER / 3) -> Rises:
    """So much was requested, one value after the other from so many days before `NOW` on."""
    rises = Rises()
    for number, amount in enumerate(requested):
        rises.add(NOW - timedelta(days=days) + number * every, amount)
    return rises


@pytest.mark.parametrize(
    ("requested", "rise"),
    [
        ([10, 10, 10, 10], 0),
        ([10, 14, 10, 10], 4),
        ([14, 10, 10, 10], 0),
        ([10, 12, 11, 15], 5),  # over the end of the bucket
        ([10, 10, 10, 10, 10, 16], 6),  # the last moment of the half hour
        ([10, 9, 10, 10, 10, 10], 1),
    ],
    ids=["steady", "up and down", "down", "two buckets", "half an hour", "from the lowest"],
)
def test_the_rise_of_a_quarter_is_the_largest_to_the_end_of_the_next_one(requested: list[float], rise: float) -> None:
    assert course(*requested).likely(NOW) == rise


def test_it_is_of_the_coming_hour_of_each_day() -> None:
    rises = course(*[0] * 12, 7, *[7] * 12)  # an hour after NOW, yesterday
    found = [rises.likely(NOW + number * QUARTER) for number in range(-1, 6)]
    assert found == [0, 7, 7, 7, 7, 0, 0], "the last quarter before it reaches into the one after it"
    assert Rises().likely(NOW) == 0


def test_it_is_the_90th_percentile_of_a_week() -> None:
    rises = Rises()
    for day in range(DAYS, 0, -1):
        for quarter in range(4):
            at = NOW - timedelta(days=day) + quarter * QUARTER
            rises.add(at, 0)
            rises.add(at + QUARTER / 2, float(4 * (DAYS - day) + quarter))
            rises.add(at + QUARTER / 1.5, 0)
    assert rises.likely(NOW) == 26, "the third largest of 28, which reaches into the quarter before it"


def test_a_gap_is_no_rise_and_a_clock_that_is_set_back_none_either() -> None:
    rises = course(10, 10)
    rises.add(NOW - timedelta(hours=20), 50)
    assert max(rises._rises.values()) == 0
    before = dict(rises._rises)
    rises.add(NOW - timedelta(hours=22), 90)
    assert rises._rises == before
    rises.add(NOW - 3 * A_WEEK, 5)
    assert rises.likely(NOW - 3 * A_WEEK) == 0, "what lay in the future is forgotten"
    assert len(rises._rises) == 1


def test_after_a_clock_was_set_back_it_learns_at_once() -> None:
    """By days, and not only by weeks: its own clock had been wrong."""
    rises, now = course(10, 10), NOW - timedelta(days=3)
    set_back({CLUSTER: {"cpu": rises}}, now)
    rises.add(now, 20)
    rises.add(now + QUARTER / 2, 27)
    assert rises._rises[max(rises._rises)] == 7
    assert rises.likely(now + timedelta(days=1)) == 7


def test_a_week_is_kept_and_no_more_and_survives_a_restart() -> None:
    known: RisesByScope = {}
    for number in range(2 * A_DAY * DAYS):
        amounts = {"cpu": number % 7 / 2, "memory": (number % 5) * GIB}
        learn_requests(known, {CLUSTER: amounts, GPU: amounts}, NOW - 2 * A_WEEK + number * QUARTER)
    text = dump_rises(known, 100_000)
    assert len(text) < 4 * 672 * 8
    again = load_rises(text, NOW)
    assert likely(again, NOW) == likely(known, NOW)
    assert all(len(one._rises) <= A_DAY * DAYS + 1 for scope in again.values() for one in scope.values())
    assert likely(load_rises(text, NOW + 2 * A_WEEK), NOW + 2 * A_WEEK) == {
        scope: {"cpu": 0, "memory": 0} for scope in (CLUSTER, GPU)
    }
    assert load_rises(dump_rises(known, len(text) - 1), NOW).keys() == {CLUSTER}, "what fits"


NO_RISES: list[Any] = [
    None,
    [],
    {"first": 1e400, "rises": []},
    {"first": 10**30, "rises": [1]},
    {"first": 1, "rises": 5},
]


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "[]",
        "{",
        "[" * 100_000,
        '{"version":2,"scopes":{"":{}}}',
        '{"version":1,"scopes":[]}',
        *(json.dumps({"version": 1, "scopes": {"": {"cpu": one}}}) for one in NO_RISES),
        json.dumps(
            {"version": 1, "scopes": {"": {"cpu": {"first": 1_968_000, "rises": [-1, True, "a", 10**30, None]}}}}
        ),
    ],
)
def test_garbage_is_no_history(text: str | None) -> None:
    found = load_rises(text, NOW)
    assert all(one == 0 for scope in likely(found, NOW).values() for one in scope.values())


def test_a_pool_that_is_gone_is_forgotten_when_its_week_is_over() -> None:
    known: RisesByScope = {CLUSTER: {"cpu": course(1, 2)}, GPU: {"cpu": course(1, 2)}}
    keep_only(known, {CLUSTER}, 16, NOW)
    assert known.keys() == {CLUSTER, GPU}
    keep_only(known, {CLUSTER}, 0, NOW)
    assert known.keys() == {CLUSTER}
    known[GPU] = {"cpu": course(1, 2)}
    keep_only(known, {CLUSTER}, 16, NOW + 2 * A_WEEK)
    assert known.keys() == {CLUSTER}


@pytest.mark.parametrize(("kept_room", "cpu", "gpu"), [(True, 12.5, 100.0), (False, 0.0, 0.0)])
def test_what_is_kept_is_published_of_each_pool_in_percent_of_its_nodes(
    kept_room: bool, cpu: float, gpu: float
) -> None:
    nodes = {"a": node("a", cores=40.0), "b": node("b", cores=40.0), "g": node("g", pool="gpu")}
    uses = {name: figures(1.0, GIB) for name in nodes}
    seen = snapshot(
        nodes=nodes,
        measurement=measured(uses),
        regular={"a": {"cpu": 3.0, "memory": GIB}, "b": {"cpu": 4.0, "memory": GIB}, "gone": {"cpu": 9.0}},
        rises={CLUSTER: {"cpu": 10.0, "memory": 20 * GIB}, GPU: {"cpu": 50.0, "memory": 0.0}},
    )
    decision = regulate(seen, {}, Rules(kept_room=kept_room))
    published = decision.published
    assert published.resources["cpu"].kept == cpu
    assert published.resources["memory"].kept == (10.0 if kept_room else 0.0)
    assert published.pools["gpu"].resources["cpu"].kept == gpu
    assert decision.regular == {CLUSTER: {"cpu": 7.0, "memory": 2 * GIB}, GPU: {"cpu": 0, "memory": 0}}
