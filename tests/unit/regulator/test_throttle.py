"""Whose CPU is taken away, and how much of it; and who gets it back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from scavenger_api.levels import LevelsState
from scavenger_regulator.core.eviction.plan import EvictionRules
from scavenger_regulator.core.levels import ThrottleLines, WaterLevels
from scavenger_regulator.core.plan import Decision, regulate
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.snapshot import CLUSTER, Gang, Measurement, Snapshot
from scavenger_regulator.core.state import ScopeState
from scavenger_regulator.core.throttle import (
    Line,
    Resize,
    ThrottlePlan,
    ThrottleRules,
    ThrottleSnapshot,
    plan_resizes,
)

from .builders import NOW, ago, figures, gang, measured, node

THROTTLE = ThrottleRules(enabled=True, share=0.4)


def job(name: str, cores: float = 1.0, **facts: Any) -> Gang:
    """A job of one core, of which it has `cores` at present."""
    return gang(name, pod_resizable={"main": cores}, **facts)


def plan(
    *gangs: Gang,
    over: float = 0.0,
    room: float = 0.0,
    use: float | Mapping[str, float] = 1.0,
    state: LevelsState = LevelsState.SPECULATIVE,
    infeasible: Iterable[str] = (),
    rules: ThrottleRules = THROTTLE,
) -> ThrottlePlan:
    """use: of each pod, or by job; of a job that is not in there nothing is known."""

    def of(pod: Any) -> float | None:
        return use if isinstance(use, float) else use.get(pod.key.partition("/")[2].rpartition("-")[0])

    line = Line("cpu", over, room, gangs, of)
    return plan_resizes(ThrottleSnapshot(state, [line], gangs, of, frozenset(infeasible)), rules)


def to(found: ThrottlePlan) -> dict[str, Any]:
    """Cores by pod."""
    return {one.pod.key.partition("/")[2]: pytest.approx(one.cores) for one in found.resizes}


def test_as_much_as_the_gap_asks_for_from_the_first_on() -> None:
    jobs = [job(name) for name in ("a", "b", "c", "d")]
    assert to(plan(*jobs, over=1.5)) == {"a-0": 0.4, "b-0": 0.4, "c-0": 0.7}
    assert plan(*jobs, over=1.5).freed["cpu"] == pytest.approx(1.5)
    assert to(plan(*jobs, over=9.0)) == {f"{name}-0": 0.4 for name in "abcd"}
    assert plan(*jobs, over=9.0).freed["cpu"] == pytest.approx(2.4), "who has his share keeps it"
    assert to(plan(*jobs)) == {}


def test_who_does_not_use_his_cpu_frees_none() -> None:
    """A limit above what is used is taken down to it on the way, and that frees nothing."""
    use = {"idle": 0.3, "half": 0.6, "full": 1.0}
    found = plan(job("idle"), job("half"), job("full"), job("unknown"), over=0.5, use=use)
    assert to(found) == {"half-0": 0.4, "full-0": 0.7}
    assert found.freed["cpu"] == pytest.approx(0.5)


def test_what_was_taken_a_moment_ago_counts_until_it_shows() -> None:
    jobs = [job("a", 0.4), job("b", 0.4), job("c")]
    assert to(plan(*jobs, over=1.0, use=1.0)) == {}, "1.2 cores are on their way out"
    assert to(plan(*jobs, over=1.5, use=1.0)) == {"c-0": 0.7}
    assert to(plan(*jobs, over=0.5, use={"a": 0.4, "b": 0.4, "c": 1.0})) == {"c-0": 0.5}


def test_all_of_a_gang_at_the_same_pace() -> None:
    many = job("gang", pods=4)
    assert to(plan(many, over=1.2)) == {f"gang-{index}": 0.7 for index in range(4)}


def test_little_is_not_worth_a_resize() -> None:
    assert to(plan(job("a"), job("b"), over=0.3, use={"a": 0.44, "b": 1.0})) == {"b-0": 0.7}


@pytest.mark.parametrize(
    "facts",
    [
        {"pod_preemptible": False},
        {"on": "node-9"},
        {"pod_refused_resize": True},
        {"pod_deletion_deadline": ago(-5)},
        {"pod_reclaimed": True},
        {"pod_running_since": None},
        {"running": False},
        {"stopping": True},
    ],
)
def test_whose_cpu_is_not_taken(facts: dict[str, Any]) -> None:
    assert to(plan(job("job", **facts), over=1.0, infeasible={"node-9"})) == {}


@pytest.mark.parametrize("state", [LevelsState.EVICTING, LevelsState.BLIND])
def test_nothing_is_done_while_evicting_or_blind(state: LevelsState) -> None:
    assert plan(job("a"), over=1.0, state=state) == ThrottlePlan()
    assert plan(job("a", 0.4), room=9.0, state=state) == ThrottlePlan()
    assert plan(job("a"), over=1.0, rules=ThrottleRules()) == ThrottlePlan()


def test_it_is_given_back_as_far_as_there_is_room_from_the_last_on() -> None:
    jobs = [job(name, 0.4) for name in ("a", "b", "c")]
    assert to(plan(*jobs, room=0.9)) == {"c-0": 1.0, "b-0": 0.7}
    assert to(plan(*jobs, room=5.0)) == {"c-0": 1.0, "b-0": 1.0, "a-0": 1.0}
    assert to(plan(*jobs, room=0.04)) == {}, "a resize for so little"
    assert to(plan(job("a", 0.97), room=0.04)) == {"a-0": 1.0}, "but it is all that is owed"
    assert to(plan(*jobs, room=5.0, over=0.1, use=0.4)) == {}
    assert to(plan(job("gang", 0.4, pods=4), room=1.2)) == {f"gang-{index}": 0.7 for index in range(4)}


def test_who_is_protected_has_all_of_it_back() -> None:
    protected = job("protected", 0.4, pod_preemptible=False)
    found = plan(job("a", 0.4), protected, room=0.9)
    assert to(found) == {"protected-0": 1.0, "a-0": 0.7}
    assert to(plan(job("a"), protected, over=0.6)) == {"protected-0": 1.0, "a-0": 0.4}


def test_no_more_than_so_many_in_a_period() -> None:
    rules = replace(THROTTLE, max_resizes=2)
    assert to(plan(*(job(name) for name in "abcd"), over=9.0, rules=rules)) == {"a-0": 0.4, "b-0": 0.4}
    assert len(plan(*(job(name, 0.4) for name in "abcd"), room=9.0, rules=rules).resizes) == 2


# --- in a period of the regulator: levels 70, 75, 85, so from 80 % on ---

RULES = Rules(
    initial=WaterLevels(70, 75, 85), min_samples=10**9, throttle=ThrottleRules(enabled=True), yield_at_checkpoint=False
)


def decide(
    gangs: Iterable[Gang], cpu: float, state: ScopeState | None = None, rules: Rules = RULES, **facts: Any
) -> Decision:
    """A node of ten cores, of which so many are in use."""
    there = tuple(gangs)
    measurement: Measurement = measured({"node-1": figures(cpu, 10.0)}, there, cpu=1.0)
    seen = Snapshot(NOW, ago(3600), {"node-1": node()}, there, measurement, **facts)
    return regulate(seen, {} if state is None else {CLUSTER: state}, rules)


def resized(decision: Decision) -> dict[str, Any]:
    return {one.gang.key: pytest.approx(one.cores) for one in decision.resizes}


def test_the_least_at_risk_are_throttled_first_and_nobody_is_close_to_the_admission_level() -> None:
    jobs = [job(f"job-{age}", started=age) for age in (1500, 300, 900)]
    assert resized(decide(jobs, 7.9)) == {}
    assert resized(decide(jobs, 8.25)) == {"lab/job-300": 0.5, "lab/job-900": 0.75}


def test_nobody_yields_where_it_is_enough() -> None:
    rules = replace(RULES, yield_at_checkpoint=True)
    saved = gang("saved", checkpoint=ago(10), pod_resizable={"main": 1.0})
    alone = decide([saved], 8.4, rules=rules)
    assert ([v.candidate.gang.key for v in alone.victims], resized(alone)) == (["lab/saved"], {})
    others = [job(f"job-{age}", started=age) for age in (1500, 900)]
    together = decide([saved, *others], 8.4, rules=rules)
    assert together.victims == ()
    assert resized(together) == {"lab/saved": 0.5, "lab/job-900": 0.6}


def test_what_is_owed_is_kept_from_others() -> None:
    jobs = [job(f"job-{age}", 0.5, started=age) for age in (1500, 900)]
    published = decide(jobs, 7.3).published
    assert published.resources["cpu"].ramping == pytest.approx(10.0)
    assert decide([job("a")], 7.3).published.resources["cpu"].ramping == 0


def test_the_same_room_is_not_given_back_twice() -> None:
    jobs = [job(f"job-{age}", 0.5, started=age) for age in (1500, 900)]
    first = decide(jobs, 7.0)
    assert resized(first) == {"lab/job-1500": 1.0}
    after = first.states[CLUSTER]
    assert after.restored_at == NOW
    assert resized(decide(jobs, 7.0, replace(after, restored_at=ago(50)))) == {}, "the measurement began 25 s ago"
    assert resized(decide(jobs, 7.0, replace(after, restored_at=ago(60)))) == {"lab/job-1500": 1.0}


@pytest.mark.parametrize("cpu", [5.0, 9.9])
def test_switched_off_it_gives_all_of_it_back(cpu: float) -> None:
    """Whatever the load, at most so many in a period, and also where the load is not known."""
    jobs = [job("a", 0.5), job("b", 0.4), job("c"), job("gone", 0.4, pod_deletion_deadline=ago(-10))]
    off = replace(RULES, throttle=ThrottleRules(), eviction=EvictionRules(max_victims=0))
    assert resized(decide(jobs, cpu, rules=off)) == {"lab/a": 1.0, "lab/b": 1.0}
    assert resized(decide(jobs, cpu, rules=replace(off, throttle=ThrottleRules(max_resizes=1)))) == {"lab/a": 1.0}
    blind = Snapshot(NOW, ago(3600), {"node-1": node()}, tuple(jobs), Measurement(failed="no metrics"))
    assert resized(regulate(blind, {}, off)) == {"lab/a": 1.0, "lab/b": 1.0}


def test_a_resize_says_which_way_it_goes() -> None:
    one = job("a", 0.5)
    assert not Resize(one, one.pods[0], "main", 0.7, 0.5).throttles
    assert Resize(one, one.pods[0], "main", 0.4, 0.5).throttles


# --- for loads of other metrics, and of nodes ---


def of(**use: float) -> Callable[[Any], float | None]:
    """By job, what each of its pods uses."""
    return lambda pod: use.get(pod.key.partition("/")[2].rpartition("-")[0])


def over_lines(*lines: Line, gangs: Iterable[Gang], cpu: float = 1.0) -> ThrottlePlan:
    there = list(gangs)
    return plan_resizes(ThrottleSnapshot(LevelsState.SPECULATIVE, lines, there, lambda _: cpu), THROTTLE)


def test_a_pod_sends_less_by_the_share_of_its_cpu_that_it_lacks() -> None:
    jobs = [job("quiet"), job("loud"), job("louder")]
    network = Line("network", 60.0, 0.0, jobs, of(loud=50.0, louder=100.0))
    found = over_lines(network, gangs=jobs)
    assert to(found) == {"loud-0": 0.4, "louder-0": 0.7}, "30 of the one, 30 of the other, and none that sends nothing"
    assert found.freed["network"] == pytest.approx(60.0)
    assert found.closed == {"network"}
    assert over_lines(replace(network, over=99.0), gangs=jobs).closed == frozenset()


def test_what_one_load_takes_counts_for_the_next() -> None:
    jobs = [job("a"), job("b")]
    cpu = Line("cpu", 0.9, 0.0, jobs, lambda _: 1.0)
    network = Line("network", 30.0, 0.0, jobs, of(a=0.0, b=50.0))
    assert to(over_lines(network, cpu, gangs=jobs)) == {"b-0": 0.4, "a-0": 0.7}
    assert to(over_lines(cpu, network, gangs=jobs)) == {"a-0": 0.4, "b-0": 0.4}


def test_where_nobody_knows_what_pods_use_all_are_slowed_down_and_all_get_it_back() -> None:
    jobs = [job("a"), job("b", pods=2)]
    power = Line("power", math.inf, 0.0, jobs, None)
    assert to(over_lines(power, gangs=jobs)) == {"a-0": 0.4, "b-0": 0.4, "b-1": 0.4}
    slow = [job("a", 0.4), job("b", 0.4)]
    cpu = Line("cpu", 0.0, 9.0, slow, lambda _: 0.4)
    assert to(over_lines(replace(power, over=0.0), cpu, gangs=slow)) == {}
    assert to(over_lines(replace(power, over=0.0, room=math.inf), cpu, gangs=slow)) == {"a-0": 1.0, "b-0": 1.0}


def test_cpu_is_given_back_as_far_as_every_load_leaves_room() -> None:
    """Each core given back to the job brings 50 of the network with it."""
    jobs = [job("a", 0.4)]
    cpu, network = Line("cpu", 0.0, 9.0, jobs, of(a=0.4)), Line("network", 0.0, 15.0, jobs, of(a=20.0))
    assert to(over_lines(network, cpu, gangs=jobs, cpu=0.4)) == {"a-0": 0.7}
    assert to(over_lines(replace(network, over=1.0), cpu, gangs=jobs, cpu=0.4)) == {}
    assert to(over_lines(replace(network, room=99.0), cpu, gangs=jobs, cpu=0.4)) == {"a-0": 1.0}


def test_a_node_s_load_is_about_the_jobs_there() -> None:
    jobs = [job("here"), job("there", on="node-2")]
    line = Line("cpu", 0.5, 0.0, jobs, lambda _: 1.0, "node-2")
    pool = Line("cpu", 0.0, 9.0, jobs, lambda _: 1.0)
    assert to(over_lines(pool, line, gangs=jobs)) == {"there-0": 0.5}
    slow = [job("here", 0.4), job("there", 0.4, on="node-2")]
    left = replace(line, over=0.0, room=0.0)
    assert to(over_lines(pool, left, gangs=slow, cpu=0.4)) == {"here-0": 1.0}, "the other node has no room"


LINES = {"cpu": ThrottleLines(throttle=60, restore=50)}
"""Of a node, far below the levels of its pool."""


def two_nodes(cpu: float, cores: float = 1.0, state: ScopeState | None = None) -> Decision:
    """Two nodes of ten cores, on each a job and so much load; node-2 has lines of its own."""
    there = tuple(job(name, cores, on=f"node-{name}") for name in ("1", "2"))
    nodes = {"node-1": node("node-1"), "node-2": node("node-2", lines=LINES)}
    taken = measured({name: figures(cpu, 10.0) for name in nodes}, there, cpu=cores)
    states = {} if state is None else {CLUSTER: state}
    return regulate(Snapshot(NOW, ago(3600), nodes, there, taken), states, replace(RULES, per_node=True))


def test_a_policy_says_from_where_to_where_jobs_on_its_nodes_are_slowed_down() -> None:
    assert resized(two_nodes(5.9)) == {}
    assert resized(two_nodes(6.5)) == {"lab/2": 0.5}, "1.5 cores too many, and half of the job at the most"
    assert resized(two_nodes(5.5, 0.5)) == {"lab/1": 1.0}, "between the lines there is nothing to give back"
    assert resized(two_nodes(4.8, 0.5)) == {"lab/1": 1.0, "lab/2": 0.7}
