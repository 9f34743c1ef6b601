"""What a scope carries over survives the process."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from scavenger_api.levels import LevelsState, PublishedLevels
from scavenger_regulator.core.levels import WaterLevels
from scavenger_regulator.core.plan import regulate
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.snapshot import CLUSTER
from scavenger_regulator.core.state import ScopeState, dump_states, load_states, states_from_published

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
    )
    assert load_states(dump_states({CLUSTER: state, "node-1": ScopeState()}), NOW, 300) == {
        CLUSTER: state,
        "node-1": ScopeState(),
    }
    assert load_states(dump_states({CLUSTER: state}), ago(1000), 300)[CLUSTER].cooldown_until == ago(700)


@given(
    st.text(max_size=20)
    | st.sampled_from(['{"":{"levels":{"cpu":[1,2]},"evicting":[[1]],"cooldownUntil":5}}', "[]", "null"])
)
def test_garbage_is_no_state(text: str) -> None:
    for state in load_states(text, NOW, 300).values():
        assert state == ScopeState()


def test_state_from_what_is_published() -> None:
    evicting = regulate(snapshot(cpu=9), {}, Rules()).published
    state = states_from_published(evicting, NOW, 300)[CLUSTER]
    assert (state.closed, state.evicting, state.cooldown_until) == (True, frozenset(), ago(-300))
    assert state.levels["cpu"] == WaterLevels(70, 80, 85)
    assert (
        states_from_published(None, NOW, 300)
        == states_from_published(PublishedLevels(LevelsState.BLIND), NOW, 300)
        == {}
    )
    assert not states_from_published(regulate(snapshot(), {}, Rules()).published, NOW, 300)[CLUSTER].closed
