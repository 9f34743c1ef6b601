from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_api import names
from scavenger_api.evictions import (
    ANNOTATION_EVICTION_REASON,
    EVICTED_BY_API,
    EvictionNote,
    EvictionReason,
    eviction_reason,
    read_eviction_note,
)
from scavenger_api.levels import LevelsState, LevelsView, PublishedLevels, ResourceLevels, Visibility
from scavenger_api.levels_text import MOST_POOLS

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CPU = ResourceLevels(load=72.25, lower=70, admission=80, upper=85, mean=40.5, stdev=8.25)
LEVELS = PublishedLevels(
    state=LevelsState.SPECULATIVE,
    preemptible_percentage=41.5,
    admit=True,
    reserve=20,
    observed_at=NOW,
    period_seconds=30,
    resources={"cpu": CPU, "memory": replace(CPU, mean=None, stdev=None)},
)


def test_what_is_written_is_read_back() -> None:
    data = LEVELS.to_data()
    assert data["load.cpu"] == "72.25"
    assert data["observedAt"] == "2026-01-02T03:04:05Z"
    assert "mean.memory" not in data
    assert PublishedLevels.parse(data) == LEVELS


def test_pods_that_started_while_the_average_was_taken_are_not_fully_seen() -> None:
    began = NOW - timedelta(seconds=15)
    averaged = replace(LEVELS, averaged_since=began)
    assert PublishedLevels.parse(averaged.to_data()) == averaged
    assert LevelsView.of(averaged.to_data(), NOW).unseen_since == began
    assert LevelsView.of(LEVELS.to_data(), NOW).unseen_since == NOW, "of a moment"
    for nonsense in ("soon", "2027-01-01T00:00:00Z"):
        assert LevelsView.of({**averaged.to_data(), "averagedSince": nonsense}, NOW).unseen_since == NOW
    assert LevelsView.of(averaged.to_data(), NOW + timedelta(hours=1)).unseen_since is None, "stale"


def test_where_nobody_measures_the_load_is_that_of_requests() -> None:
    levels = replace(LEVELS, source="requests")
    assert levels.to_data()["source"] == "requests"
    assert PublishedLevels.parse(levels.to_data()) == levels
    assert LevelsView.of(levels.to_data(), NOW).on_requests
    assert not LevelsView.of(replace(LEVELS, source="metrics-api").to_data(), NOW).on_requests
    assert not LevelsView.of(levels.to_data(), NOW + timedelta(hours=1)).on_requests, "stale"


def test_what_gives_way_is_written_where_there_is_any() -> None:
    data = replace(LEVELS, resources={"cpu": replace(CPU, gives_way=12.5), "memory": CPU}).to_data()
    assert {key: value for key, value in data.items() if "givesWay" in key} == {"givesWay.cpu": "12.5"}
    view = LevelsView.of(data, NOW)
    assert (view.load("cpu"), view.gives_way("cpu"), view.gives_way("memory")) == (72.25, 12.5, 0.0)
    assert LevelsView.of(data, NOW + timedelta(hours=1)).gives_way("cpu") == 0.0, "stale"
    assert LevelsView.of({**data, "givesWay.cpu": "much"}, NOW).visibility is Visibility.BLIND


def test_what_is_ramping_is_written_where_there_is_any() -> None:
    levels = replace(LEVELS, resources={"cpu": replace(CPU, ramping=7.25), "memory": CPU})
    data = levels.to_data()
    assert {key: value for key, value in data.items() if "ramping" in key} == {"ramping.cpu": "7.25"}
    assert PublishedLevels.parse(data) == levels
    view = LevelsView.of(data, NOW)
    assert (view.load("cpu"), view.ramping("cpu"), view.ramping("memory")) == (72.25, 7.25, 0.0)
    assert LevelsView.of(data, NOW + timedelta(hours=1)).ramping("cpu") == 0.0, "stale"
    assert LevelsView.of({**data, "ramping.cpu": "-1"}, NOW).visibility is Visibility.BLIND


def test_what_is_kept_for_regular_pods_is_written_where_there_is_any() -> None:
    levels = replace(LEVELS, resources={"cpu": replace(CPU, kept=12.5), "memory": CPU})
    data = levels.to_data()
    assert {key: value for key, value in data.items() if "kept" in key} == {"kept.cpu": "12.5"}
    assert PublishedLevels.parse(data) == levels
    view = LevelsView.of(data, NOW)
    assert (view.kept("cpu"), view.kept("memory")) == (12.5, 0.0)
    assert LevelsView.of({**data, "kept.cpu": "101"}, NOW).visibility is Visibility.BLIND


def test_what_is_used_of_requests_is_written_where_that_is_known() -> None:
    levels = replace(LEVELS, resources={"cpu": replace(CPU, used_of_requests=0.0), "memory": CPU})
    data = levels.to_data()
    assert {key: value for key, value in data.items() if "usedOf" in key} == {"usedOfRequests.cpu": "0"}
    assert PublishedLevels.parse(data) == levels
    view = LevelsView.of(data, NOW)
    assert (view.used_of_requests("cpu"), view.used_of_requests("memory")) == (0.0, None)
    assert LevelsView.of(data, NOW + timedelta(hours=1)).used_of_requests("cpu") is None, "stale"
    assert LevelsView.of({**data, "usedOfRequests.cpu": "101"}, NOW).visibility is Visibility.BLIND


def test_the_end_of_a_cooldown_is_written_where_it_is_known() -> None:
    assert "until" not in LEVELS.to_data()
    levels = replace(LEVELS, admit=False, until=NOW + timedelta(minutes=3))
    assert PublishedLevels.parse(levels.to_data()) == levels
    view = LevelsView.of(levels.to_data(), NOW)
    assert view.cooldown_until == levels.until
    assert view.closed == f"cool-down after interruptions until {levels.to_data()['until']}"
    assert LevelsView.of(replace(levels, admit=True).to_data(), NOW).cooldown_until is None
    assert LevelsView.of(levels.to_data(), NOW + timedelta(hours=1)).closed == "", "stale"
    assert LevelsView.of({**levels.to_data(), "until": "later"}, NOW).cooldown_until is None


def test_every_key_of_the_contract_is_written() -> None:
    assert set(LEVELS.to_data()) >= {
        names.LEVELS_PREEMPTIBLE_PERCENTAGE,
        names.LEVELS_STATE,
        names.LEVELS_ADMIT,
        names.LEVELS_RESERVE,
        names.LEVELS_OBSERVED_AT,
        names.LEVELS_PERIOD_SECONDS,
        *(f"{name}.cpu" for name in names.LEVELS_PER_RESOURCE),
    }


def test_access_per_resource() -> None:
    assert [
        LEVELS.load("cpu"),
        LEVELS.mean("cpu"),
        LEVELS.stdev("cpu"),
        LEVELS.lower("cpu"),
        LEVELS.upper("cpu"),
        LEVELS.admission("cpu"),
    ] == [72.25, 40.5, 8.25, 70, 85, 80]
    assert LEVELS.load("nvidia.com/gpu") is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"load.cpu": "NaN"}, "load.cpu is 'NaN', not within 0 to 100"),
        ({"load.cpu": "inf"}, "not within"),
        ({"load.cpu": "-1"}, "not within"),
        ({"load.cpu": "100.1"}, "not within"),
        ({"load.cpu": "a lot"}, "not a number"),
        ({"load.cpu": None}, "load.cpu is missing"),
        ({"stdev.cpu": "NaN"}, "stdev.cpu"),
        ({"lower.cpu": "90"}, "out of order"),
        ({"admission.cpu": "86"}, "out of order"),
        ({"state": "Panicking"}, "not one of Filling, Speculative, Evicting, Blind"),
        ({"state": None}, "state is None"),
        ({"admit": "yes"}, "not true or false"),
        ({"observedAt": "yesterday"}, "not an RFC 3339 time"),
        ({"observedAt": "2026-01-02T03:04:05"}, "not an RFC 3339 time"),
        ({"periodSeconds": "0"}, "periodSeconds is 0"),
        ({"periodSeconds": "-30"}, "not within"),
        ({"preemptiblePercentage": "101"}, "not within"),
    ],
)
def test_garbage_is_blind_and_says_why(change: dict[str, str | None], says: str) -> None:
    data = {key: value for key, value in {**LEVELS.to_data(), **change}.items() if value is not None}
    parsed = PublishedLevels.parse(data)
    assert parsed.state is LevelsState.BLIND
    assert not parsed.admit
    assert says in parsed.message
    view = LevelsView.of(data, NOW)
    assert (view.visibility, view.admit, view.preemptible_percentage) == (Visibility.BLIND, False, None)
    assert view.admission("cpu") is None


@given(
    st.dictionaries(
        st.sampled_from([*LEVELS.to_data(), "other"]),
        st.one_of(st.text(max_size=8), st.floats().map(str), st.sampled_from(["true", "Filling", "Blind"])),
    )
)
def test_parsing_never_raises_and_what_it_accepts_is_sane(change: dict[str, str]) -> None:
    for data in (change, {**LEVELS.to_data(), **change}):
        parsed = PublishedLevels.parse(data)
        LevelsView.of(data, NOW)
        if parsed.state is LevelsState.BLIND:
            assert not parsed.admit
            continue
        assert parsed.observed_at is not None
        assert parsed.preemptible_percentage is not None
        assert parsed.resources
        for levels in parsed.resources.values():
            assert 0 <= levels.lower <= levels.admission + 0.01 <= levels.upper + 0.02 <= 100.02
            assert 0 <= levels.load <= 100


def test_stale_when_the_regulator_says_so() -> None:
    levels = replace(LEVELS, stale_after_seconds=116)
    data = levels.to_data()
    assert data["staleAfterSeconds"] == "116"
    assert LevelsView.of(data, NOW + timedelta(seconds=116)).visibility is Visibility.FRESH
    assert LevelsView.of(data, NOW + timedelta(seconds=117)).visibility is Visibility.STALE
    assert PublishedLevels.parse({**data, "staleAfterSeconds": "-1"}).state is LevelsState.BLIND


@pytest.mark.parametrize(
    ("age", "stale"),
    [
        (0, False),
        (90, False),
        (90.001, True),
        (3600, True),
        (-60, False),
        (-90, False),
        (-91, True),
        (-86400, True),
    ],
)
def test_stale_after_three_periods_either_way(age: float, stale: bool) -> None:
    now = NOW + timedelta(seconds=age)
    assert LEVELS.stale(now) is stale
    assert LevelsView.of(LEVELS.to_data(), now).visibility is (Visibility.STALE if stale else Visibility.FRESH)


def test_views() -> None:
    absent = LevelsView.of(None, NOW)
    assert (absent.admit, absent.on_requests) == (True, True)
    assert (absent.admission("cpu"), absent.admission("nvidia.com/gpu")) == (70, None)
    assert absent.preemptible_percentage == 33

    fresh = LevelsView.of(LEVELS.to_data(), NOW)
    assert (fresh.admit, fresh.on_requests, fresh.observed_at) == (True, False, NOW)
    assert (fresh.admission("cpu"), fresh.load("cpu"), fresh.preemptible_percentage) == (80, 72.25, 41.5)

    stale = LevelsView.of(LEVELS.to_data(), NOW + timedelta(hours=1))
    assert (stale.admit, stale.admission("cpu"), stale.preemptible_percentage) == (False, None, None)
    assert "3600 s ago" in stale.reason

    blind = LevelsView.of({"state": "Blind", "message": "no metrics"}, NOW)
    assert (blind.visibility, blind.admit, blind.reason) == (Visibility.BLIND, False, "no metrics")

    closed = LevelsView.of({**LEVELS.to_data(), "admit": "false"}, NOW)
    assert (closed.visibility, closed.admit) == (Visibility.FRESH, False)


def test_closed_nodes() -> None:
    levels = replace(LEVELS, closed_nodes=frozenset({"b", "a"}))
    assert levels.to_data()["closedNodes"] == "a b"
    assert LevelsView.of(levels.to_data(), NOW).closed_nodes == {"a", "b"}


def test_headroom_of_nodes() -> None:
    levels = replace(LEVELS, headroom={"b": (0, 1000), "a": (255, 30)})
    data = levels.to_data()
    assert data["nodeHeadroom"] == "a=255/30 b=0/1000"
    assert PublishedLevels.parse(data) == levels
    assert LevelsView.of(data, NOW).headroom == {"a": (255, 30), "b": (0, 1000)}
    assert LevelsView.of(data, NOW + timedelta(hours=1)).headroom == {}, "stale"
    assert "nodeHeadroom" not in LEVELS.to_data()
    assert LevelsView.of(LEVELS.to_data(), NOW).headroom == {}, "of a regulator that knows nothing of it"
    nonsense = "a=1 b=1/ c=/1 d=-1/1 e=1/1/1 f=1.5/2 =1/1 g h=99999/1 i=\u0661/1 j=1/1 k=" + "9" * 5000 + "/1"
    assert LevelsView.of({**data, "nodeHeadroom": nonsense}, NOW).headroom == {"j": (1, 1)}


def test_crowded_nodes() -> None:
    levels = replace(LEVELS, crowded_nodes={"b": 0, "a": 1500})
    data = levels.to_data()
    assert data["crowdedNodes"] == "a=1500 b=0"
    assert LevelsView.of(data, NOW).crowded_nodes == {"a": 1500, "b": 0}
    assert PublishedLevels.parse({**data, "crowdedNodes": "a=-1 =5 c d=x e=\u0663 f=2"}).crowded_nodes == {"f": 2}
    assert LevelsView.of(data, NOW + timedelta(hours=1)).crowded_nodes == {}
    endless = "a=" + "9" * 5000  # more digits than Python makes a number of
    assert PublishedLevels.parse({**data, "crowdedNodes": f"{endless} b=2"}).crowded_nodes == {"b": 2}


def test_eviction_note() -> None:
    note = EvictionNote(EvictionReason.YIELD, NOW)
    pod = {ANNOTATION_EVICTION_REASON: str(note)}
    assert read_eviction_note(pod) == note
    assert eviction_reason(pod, EVICTED_BY_API, NOW + timedelta(seconds=3)) is EvictionReason.YIELD
    # refused then, preempted by the scheduler or drained by a person later: not ours
    assert eviction_reason(pod, "PreemptionByScheduler", NOW) is None
    assert eviction_reason(pod, EVICTED_BY_API, NOW + timedelta(minutes=2)) is None
    assert eviction_reason(pod, EVICTED_BY_API, None) is None
    assert eviction_reason({}, EVICTED_BY_API, NOW) is None
    assert read_eviction_note({ANNOTATION_EVICTION_REASON: "Boredom 2026-01-02T03:04:05Z"}) is None
    assert read_eviction_note({ANNOTATION_EVICTION_REASON: "YieldAtCheckpoint"}) is None


# --- pools ---


def test_pools_are_written_and_read_beside_the_default_pool() -> None:
    published = replace(LEVELS, pools={"gpu-1": replace(LEVELS, admit=not LEVELS.admit, message="other")})
    data = published.to_data()
    assert PublishedLevels.parse(data) == published
    flat = {key: text for key, text in data.items() if not key.startswith("pool.")}
    assert flat == LEVELS.to_data(), "an older reader sees what it always saw"
    view = LevelsView.of(data, NOW)
    assert view.of_pool("gpu-1").admit != view.admit
    assert view.of_pool("other") is view


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"pool.a.state": "Filling"}, "no resource has levels"), ({"pool.a": "x"}, "state is None"), ({"pool.": ""}, "")],
)
def test_a_pool_that_says_nothing_sensible_is_blind_alone(wrong: dict[str, str], said: str) -> None:
    view = LevelsView.of({**LEVELS.to_data(), **wrong}, NOW)
    (pool,) = view.pools.values()
    assert pool.visibility is Visibility.BLIND
    assert said in pool.reason
    assert view.visibility is Visibility.FRESH
    assert len(view.unmeasured_pools) == 1


def test_no_pool_is_believed_of_a_configmap_that_says_nothing_sensible() -> None:
    data = replace(LEVELS, pools={"a": LEVELS}).to_data()
    assert not PublishedLevels.parse({**data, "state": "Mad"}).pools


def test_no_more_pools_are_read_than_are_written() -> None:
    data = LEVELS.to_data() | {f"pool.p{i:03}.state": "Blind" for i in range(100)}
    assert len(PublishedLevels.parse(data).pools) == MOST_POOLS
