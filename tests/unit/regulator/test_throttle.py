"""Which containers are shrunk, and which get their CPU back."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_api.levels import LevelsState
from scavenger_regulator.core.throttle import ThrottleRules, plan_resizes

from .builders import ago, gang

THROTTLE = ThrottleRules(enabled=True, share=0.4)


@pytest.mark.parametrize(
    ("state", "cores", "facts", "to"),
    [
        ("Speculative", 1.0, {}, [0.4]),
        ("Speculative", 0.4, {}, []),
        ("Speculative", 1.0, {"pod_preemptible": False}, []),
        ("Speculative", 0.4, {"pod_preemptible": False}, [1.0]),
        ("Filling", 0.4, {}, [1.0]),
        ("Filling", 1.0, {}, []),
        ("Evicting", 1.0, {}, []),
        ("Blind", 0.4, {}, []),
        ("Speculative", 1.0, {"on": "node-9"}, []),
        ("Speculative", 1.0, {"pod_refused_resize": True}, []),
        ("Speculative", 1.0, {"pod_deletion_deadline": ago(-5)}, []),
        ("Speculative", 1.0, {"running": False}, []),
    ],
)
def test_throttle(state: str, cores: float, facts: dict[str, Any], to: list[float]) -> None:
    job = gang("job", pod_resizable={"main": cores}, **facts)
    found = plan_resizes(LevelsState(state), [job], {"node-9"}, THROTTLE)
    assert [(r.container, r.cores) for r in found] == [("main", c) for c in to]
    assert plan_resizes(LevelsState(state), [job], (), ThrottleRules()) == ()


def test_a_pod_on_reclaimed_capacity_has_nothing_to_throttle() -> None:
    job = gang("job", pod_resizable={"main": 1.0}, pod_reclaimed=True)
    assert plan_resizes(LevelsState.SPECULATIVE, [job], (), THROTTLE) == ()
