"""What a scope carries over survives the process."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_api.levels import LevelsState, PublishedLevels
from scavenger_regulator.core.levels import WaterLevels
from scavenger_regulator.core.plan import regulate
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.snapshot import CLUSTER
from scavenger_regulator.core.state import Pending, ScopeState, dump_states, essence, load_states, states_from_published

from .builders import NOW, ago, snapshot


def test_state_survives() -> None:
    state = ScopeState(
        levels={"cpu": WaterLevels(61.5, 70, 80)},
        evicting=frozenset({"cpu"}),
        closed=True,
        closed_for=frozenset({"cpu"}),
        cooldown_until=ago(-100),
        yielding=frozenset({"memory"}),
        yielded_at=ago(5),
        waiting_since=ago(60),
        read_at=ago(30),
    )
    fresh = ScopeState(read_at=ago(30))
    assert load_states(dump_states({CLUSTER: state, "node-1": fresh}), NOW, 300) == {CLUSTER: state, "node-1": fresh}
    assert load_states(dump_states({CLUSTER: state}), ago(1000), 300)[CLUSTER].cooldown_until == ago(700)


@pytest.mark.parametrize("read_at", [ago(7 * 86_400), ago(901), None])
def test_what_went_on_a_while_ago_is_over(read_at: datetime | None) -> None:
    """Nobody has seen since whether the load came down; only what was closed stays so, for the cool-down."""
    levels = {"cpu": WaterLevels(61.5, 70, 80)}
    state = ScopeState(
        levels=levels,
        evicting=frozenset({"cpu"}),
        evicting_since=ago(8 * 86_400),
        closed=True,
        closed_for=frozenset({"cpu"}),
        yielding=frozenset({"cpu"}),
        yielded_at=ago(8 * 86_400),
        waiting_since=ago(8 * 86_400),
        read_at=read_at,
    )
    left = ScopeState(levels=levels, closed=True, closed_for=frozenset({"cpu"}))
    assert load_states(dump_states({CLUSTER: state}), NOW, 300)[CLUSTER].at(NOW, 30) == left
    assert (replace(state, read_at=ago(901)).at(NOW, 400).evicting) == {"cpu"}, "within three periods"
    assert essence({CLUSTER: state}) == essence({CLUSTER: replace(state, read_at=NOW)}), "the time alone is no change"


def test_where_the_clock_is_set_back_no_more_time_is_left_than_before() -> None:
    pending = Pending(frozenset({"uid"}), ago(60), ago(-40), ago(20))
    ahead = ScopeState(
        evicting_since=ago(90),
        cooldown_until=ago(-100),
        yielded_at=ago(5),
        read_at=NOW,
        pending=pending,
        high_at={"cpu": ago(10)},
    )
    assert ahead.set_back(timedelta(hours=1), ago(3600)) == ScopeState(
        evicting_since=ago(90 + 3600),
        cooldown_until=ago(3600 - 100),
        yielded_at=ago(5 + 3600),
        read_at=ago(3600),
        pending=Pending(frozenset({"uid"}), ago(60 + 3600), ago(3600 - 40), ago(20 + 3600)),
        high_at={"cpu": ago(3600)},
    )


def test_a_clock_is_set_back_after_a_state_that_does_not_say_when_it_was_read() -> None:
    restored = load_states(dump_states({CLUSTER: ScopeState()}), NOW, 300)[CLUSTER]
    assert restored.set_back(timedelta(hours=1), ago(3600)).read_at == restored.read_at, "as long ago as can be"


def test_what_goes_on_is_kept_where_not_all_has_room() -> None:
    rest = ScopeState(levels={r: WaterLevels(61.2345, 70.2345, 80.2345) for r in ("cpu", "memory")}, read_at=ago(30))
    evicting = replace(rest, evicting=frozenset({"cpu"}), evicting_since=ago(60), closed=True)
    states = {f"ip-10-0-{i}.eu-west-1.compute.internal": rest for i in range(5000)}
    states |= {"zone-z": evicting, CLUSTER: rest}
    text = dump_states(states)
    assert len(text) <= 450_000, "of five thousand nodes it was 1.4 MB, which no ConfigMap holds"
    kept = load_states(text, NOW, 300)
    assert (kept[CLUSTER], kept["zone-z"]) == (rest, evicting)
    assert 2000 < len(kept) < 5000
    assert list(load_states(dump_states(states, 300), NOW, 300)) == [CLUSTER]
    assert list(essence(states)) == ["zone-z"]


@given(
    st.text(max_size=20)
    | st.sampled_from(['{"":{"levels":{"cpu":[1,2]},"evicting":[[1]],"cooldownUntil":5}}', "[]", "null"])
)
def test_garbage_is_no_state(text: str) -> None:
    for state in load_states(text, NOW, 300).values():
        assert state.at(NOW, 30) == ScopeState()


def test_state_from_what_is_published() -> None:
    evicting = regulate(snapshot(cpu=9), {}, Rules(cpu_samples=1)).published
    state = states_from_published(evicting, NOW, 300)[CLUSTER]
    assert (state.closed, state.evicting, state.cooldown_until) == (True, frozenset(), ago(-300))
    assert state.levels["cpu"] == WaterLevels(70, 80, 85)
    assert (
        states_from_published(None, NOW, 300)
        == states_from_published(PublishedLevels(LevelsState.BLIND), NOW, 300)
        == {}
    )
    assert not states_from_published(regulate(snapshot(), {}, Rules()).published, NOW, 300)[CLUSTER].closed
