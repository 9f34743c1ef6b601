"""Metrics that an administrator adds: what may be said of them, and what is done about them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError
from scavenger_api.levels import LevelsState, PublishedLevels
from scavenger_api.shared_settings import SharedSettings
from scavenger_regulator.core.history import DEFAULT_WINDOW, History
from scavenger_regulator.core.learning import learn, learned
from scavenger_regulator.core.levels import ThrottleLines, WaterLevels
from scavenger_regulator.core.metrics.added import MOST, parse_added
from scavenger_regulator.core.metrics.fields import FieldError
from scavenger_regulator.core.metrics.metric import Action, Metric
from scavenger_regulator.core.plan import Decision, regulate
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.snapshot import CLUSTER, AddedFigures, Figure, Gang, Measurement, Snapshot
from scavenger_regulator.core.state import ScopeState, dump_states, load_states
from scavenger_regulator.core.throttle import ThrottleRules
from scavenger_regulator.settings import RegulatorSettings
from scavenger_regulator.sources.added import AddedSource, joined
from scavenger_regulator.sources.prometheus import PrometheusSource, Queries
from scavenger_runtime.prometheus import PrometheusClient, Vector

from .builders import GIB, NOW, ago, figures, gang, measured, node, snapshot

LEVELS = WaterLevels(50.0, 60.0, 80.0)
NETWORK = Metric("network", 3, evict=Action.QUANTIFIED, levels=LEVELS)
PARSED = {"name": "network", "node": "n", "capacity": "c"}
OWN_LEVELS = {"lower": 50, "admission": 60, "upper": 80}
LINES = {"throttle": 75, "restore": 65}


# --- what may be said ---


def test_nothing_is_added_by_default() -> None:
    assert parse_added("") == ()
    assert RegulatorSettings().rules(SharedSettings()).metrics == ()


def test_what_is_said_of_a_metric() -> None:
    said = {**PARSED, "pod": "p", "priority": 7, "sortable": False, "averaged": True, "levels": OWN_LEVELS}
    (one,) = parse_added(json.dumps([said]))
    assert (one.node, one.capacity, one.pod) == ("n", "c", "p")
    assert one.metric == Metric("network", 7, sortable=False, averaged=True, levels=LEVELS)


def test_without_figures_of_pods_nobody_is_evicted_unless_that_is_said() -> None:
    default, chosen = (
        parse_added(json.dumps([{**PARSED, "levels": OWN_LEVELS, **more}]))[0].metric
        for more in ({}, {"evict": "unquantified"})
    )
    assert (default.evict, default.sortable) == (Action.NEVER, False)
    assert chosen.evict is Action.UNQUANTIFIED


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"name": "network"}', "not a list of objects"),
        ("[3]", "not a list of objects"),
    ],
)
def test_what_is_no_list(text: str, says: str) -> None:
    with pytest.raises(FieldError, match=says):
        parse_added(text)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "cpu"}, r"\[0\].name: 'cpu' cannot be; write up to 30 of a-z"),
        ({"name": "Net work"}, r"\[0\].name"),
        ({"name": None}, r"\[0\].name: it is missing"),
        ({"node": " "}, r"\[0\].node"),
        ({"capacity": 3}, r"\[0\].capacity: 3 is no text"),
        ({"weight": 1}, r"\[0\].weight: there is no such field; there are name, priority"),
        ({"priority": 11}, r"\[0\].priority: 11 cannot be; write a whole number from 0 to 10"),
        ({"priority": True}, r"\[0\].priority"),
        ({"sortable": "yes"}, r"\[0\].sortable: 'yes' is neither true nor false"),
        ({"evict": "maybe"}, r"\[0\].evict: 'maybe' is unknown; write one of never, quantified, unquantified"),
        ({"throttle": "quantified"}, r"\[0\].throttle: quantified needs to know what pods use; write `pod`"),
        ({"throttle": "slow"}, r"\[0\].throttle: 'slow' is unknown; write one of never, quantified, unquantified"),
        ({"levels": {**OWN_LEVELS, **LINES}}, r"\[0\].levels: .* and throttle is never; write how: `throttle`"),
        ({"levels": {**OWN_LEVELS, "throttle": 70}}, r"\[0\].levels: .* has one of throttle, restore; write both"),
        ({"levels": {**OWN_LEVELS, "throttle": 60, "restore": 65}}, r"\[0\].levels: .* restore <= throttle <= upper"),
        ({"evict": "quantified"}, r"\[0\].evict: quantified needs to know what pods use; write `pod`"),
        ({"levels": None}, r"\[0\].levels: they are missing, as `pod` is; write lower, admission and upper"),
        ({"levels": [50, 60, 80]}, r"\[0\].levels: .* are none"),
        ({"levels": {**OWN_LEVELS, "upper": "80"}}, r"\[0\].levels: .* are no percentages"),
        ({"levels": {**OWN_LEVELS, "upper": 55}}, r"\[0\].levels: .* are out of order"),
    ],
)
def test_what_cannot_be_said(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(FieldError, match=says):
        parse_added(json.dumps([{**PARSED, "levels": OWN_LEVELS, **changes}]))


def test_names_are_told_apart_and_metrics_are_few() -> None:
    with pytest.raises(FieldError, match="two have the name 'network'"):
        parse_added(json.dumps(2 * [{**PARSED, "levels": OWN_LEVELS}]))
    with pytest.raises(FieldError, match=f"{MOST + 1} are more than {MOST}"):
        parse_added(json.dumps((MOST + 1) * [PARSED]))


def test_prometheus_measures_them() -> None:
    text = json.dumps([{**PARSED, "levels": OWN_LEVELS}])
    with pytest.raises(ValidationError, match="--added-metrics needs --prometheus-url"):
        RegulatorSettings(added_metrics=text)
    with pytest.raises(ValidationError, match=r"\[0\].levels"):
        RegulatorSettings(added_metrics=json.dumps([PARSED]), prometheus_url="http://p")
    (metric,) = RegulatorSettings(added_metrics=text, prometheus_url="http://p").rules(SharedSettings()).metrics
    assert metric.levels == LEVELS


# --- what is done ---


def with_network(
    gangs: tuple[Gang, ...],
    used: float | None,
    of_pods: Mapping[str, float] | None = None,
    *,
    age: float = 10,
    late: float = 0,
    **facts: Any,
) -> Snapshot:
    """A node that can send 100, of which so much is used; of_pods: by the name of their gang. late: by so many seconds
    the figures of that are older than those of CPU and memory."""
    taken = snapshot(gangs, age=age, **facts)
    pods = {key: dict(one) for key, one in taken.measurement.pods.items()}
    for one in gangs:
        for pod in one.pods:
            if (use := (of_pods or {}).get(one.uid.removeprefix("uid-"))) is not None:
                pods[pod.key]["network"] = Figure(use, ago(age + late))
    nodes = {} if used is None else {"node-1": Figure(used, ago(age + late))}
    added = {"network": AddedFigures(nodes, {"node-1": 100.0})}
    return replace(taken, measurement=replace(taken.measurement, pods=pods, added=added))


def decide(taken: Snapshot, metric: Metric = NETWORK, state: ScopeState | None = None, **rules: Any) -> Decision:
    known = {"metrics": (metric,), "cpu_samples": 1, "yield_at_checkpoint": False, **rules}
    return regulate(taken, {CLUSTER: state} if state else {}, Rules(**known))


def victims(decision: Decision) -> list[str]:
    return [v.candidate.gang.key.removeprefix("lab/") for v in decision.victims]


THROTTLED = replace(NETWORK, throttle=Action.QUANTIFIED, lines=ThrottleLines(75.0, 65.0))


def slowed(decision: Decision) -> dict[str, Any]:
    return {one.gang.key.removeprefix("lab/"): pytest.approx(one.cores) for one in decision.resizes}


@pytest.mark.parametrize(
    ("used", "metric", "expected"),
    [
        (74.0, THROTTLED, {}),
        (76.0, THROTTLED, {"loud": 0.725}),  # 11 points down to 65, of a job that sends 40
        (76.0, replace(THROTTLED, throttle=Action.UNQUANTIFIED), {"loud": 0.5, "quiet": 0.5}),
        (76.0, replace(THROTTLED, throttle=Action.NEVER), {}),
        (76.0, replace(THROTTLED, lines=None), {"loud": 0.6}),  # down to `admission`
        (69.0, replace(THROTTLED, lines=None), {}),  # half way from `admission` to `upper` is 70
    ],
)
def test_jobs_are_slowed_down_for_it(used: float, metric: Metric, expected: dict[str, float]) -> None:
    jobs = tuple(gang(name, pod_resizable={"main": 1.0}) for name in ("loud", "quiet"))
    taken = with_network(jobs, used, {"loud": 40.0, "quiet": 0.0})
    assert slowed(decide(taken, metric, throttle=ThrottleRules(enabled=True))) == expected


def test_they_get_it_back_under_its_line_and_nobody_else_starts_in_between() -> None:
    """The job sends 20 with half of its CPU: 20 more would come, and up to the line there are 5, then 30."""
    jobs = (gang("loud", pod_resizable={"main": 0.5}),)
    metric, on = replace(THROTTLED, levels=WaterLevels(20, 70, 80)), ThrottleRules(enabled=True)
    taken = snapshot(jobs)
    of_job = replace(taken.measurement, pods={pod.key: figures(0.5, 0.0) for one in jobs for pod in one.pods})
    for used, expected in ((60.0, {"loud": 0.625}), (35.0, {"loud": 1.0}), (70.0, {})):
        seen = with_network(jobs, used, {"loud": 20.0}, measurement=of_job)
        assert slowed(decide(seen, metric, throttle=on)) == expected
    short = decide(with_network(jobs, 55.0, {"loud": 20.0}, measurement=of_job), metric, throttle=on)
    reading = short.scopes[CLUSTER].reading
    assert reading is not None
    assert reading.ramping["network"] == pytest.approx(20.0)
    assert not short.published.admit
    assert decide(with_network(jobs, 45.0, {"loud": 20.0}, measurement=of_job), metric, throttle=on).published.admit


def test_nobody_yields_for_it_where_slowing_down_is_enough() -> None:
    saved = gang("saved", checkpoint=ago(5), pod_resizable={"main": 1.0})
    taken = with_network((saved,), 72.0, {"saved": 40.0})
    assert victims(decide(taken, NETWORK, yield_at_checkpoint=True, yield_from=0.5)) == []
    small = with_network((saved,), 72.0, {"saved": 12.0})
    assert victims(decide(small, NETWORK, yield_at_checkpoint=True)) == ["saved"]
    metric = replace(NETWORK, throttle=Action.QUANTIFIED)
    taken = with_network((saved,), 70.0, {"saved": 11.0})
    assert victims(decide(taken, metric, yield_at_checkpoint=True)) == ["saved"]
    on = ThrottleRules(enabled=True, share=0.01)
    assert victims(decide(taken, metric, yield_at_checkpoint=True, throttle=on)) == []


def test_victims_are_ordered_by_a_figure_of_its_own() -> None:
    """Of jobs that send alike, the one whose own figure is largest goes first; those without one last."""
    jobs = tuple(gang(name, started) for name, started in (("a", 900), ("b", 600), ("c", 300)))
    taken = with_network(jobs, 85.0, dict.fromkeys("abc", 40.0))
    assert victims(decide(taken)) == ["c"], "who loses least"
    pods = {key: dict(one) for key, one in taken.measurement.pods.items()}
    pods["lab/a-0"]["sort/network"] = Figure(1.0, ago(10))
    pods["lab/b-0"]["sort/network"] = Figure(7.0, ago(10))
    seen = replace(taken, measurement=replace(taken.measurement, pods=pods))
    assert victims(decide(seen, replace(NETWORK, sort=True))) == ["b"]
    assert victims(decide(seen, replace(NETWORK, sort=True, evict=Action.UNQUANTIFIED))) == ["b", "a", "c"]


def test_the_own_order_is_asked_of_prometheus() -> None:
    (one,) = parse_added(json.dumps([{**PARSED, "pod": "p", "sort": " age "}]))
    assert (one.sort, one.metric.sort) == ("age", True)
    order: Vector = [({"namespace": "lab", "pod": "a-0"}, 4.0)]
    found = joined(measured({}), {one: [[], [], [], order]}, TAKEN, QUERIES)
    assert found.pods["lab/a-0"]["sort/network"].value == 4.0


@pytest.mark.parametrize(
    ("used", "state", "admit", "share"),
    [
        (40.0, LevelsState.FILLING, True, 33.0),
        (55.0, LevelsState.SPECULATIVE, True, 33.0),
        (65.0, LevelsState.SPECULATIVE, False, 33.0),
        (79.0, LevelsState.SPECULATIVE, False, 85.8),
        (80.0, LevelsState.EVICTING, False, 100.0),
    ],
)
def test_the_worst_metric_governs(used: float, state: LevelsState, admit: bool, share: float) -> None:
    published = decide(with_network((), used)).published
    assert (published.state, published.admit) == (state, admit)
    assert published.preemptible_percentage == pytest.approx(share, abs=0.1)
    assert published.resources["network"].load == used
    assert published.resources["network"].upper == 80.0


def test_victims_close_the_gap_by_what_each_uses_of_it() -> None:
    """40 points above `lower`: two of the three that send much, with the least at risk, and nobody else."""
    gangs = tuple(gang(name, started) for name, started in (("quiet", 60), ("a", 600), ("b", 700), ("c", 800)))
    used = {"quiet": 0.1, "a": 20.0, "b": 20.0, "c": 20.0}
    decision = decide(with_network(gangs, 90.0, used))
    assert victims(decision) == ["a", "b"]
    assert decision.scopes[CLUSTER].plan is not None
    assert decision.scopes[CLUSTER].plan.acting == ("network",)


@pytest.mark.parametrize(
    ("evict", "expected"), [(Action.NEVER, []), (Action.QUANTIFIED, []), (Action.UNQUANTIFIED, ["young", "old"])]
)
def test_without_figures_of_pods_nobody_goes_or_all_where_that_is_said(evict: Action, expected: list[str]) -> None:
    gangs = (gang("old", 900), gang("young", 60), gang("kept", 30, pod_preemptible=False))
    assert victims(decide(with_network(gangs, 90.0), replace(NETWORK, evict=evict))) == expected


def test_a_metric_that_evicts_nobody_still_closes() -> None:
    decision = decide(with_network((gang("a"),), 95.0), replace(NETWORK, evict=Action.NEVER))
    assert (decision.published.state, decision.published.admit) == (LevelsState.SPECULATIVE, False)


def test_the_highest_priority_decides_how() -> None:
    """CPU is too high, too: where it is more urgent it is acted on by what pods use."""
    gangs = tuple(gang(name, started) for name, started in (("a", 60), ("b", 120), ("c", 180)))
    both = with_network(gangs, 90.0, cpu=9.0)
    blunt = replace(NETWORK, evict=Action.UNQUANTIFIED)
    assert victims(decide(both, replace(blunt, priority=9))) == ["a", "b", "c"]
    assert victims(decide(both, replace(blunt, priority=1))) == ["a", "b"]


@pytest.mark.parametrize(
    "missing",
    [
        with_network((gang("a"),), None),
        with_network((gang("a"),), 95.0, late=3600),
        with_network((gang("a"),), 2000.0),
        with_network((gang("a"),), float("nan")),
        snapshot((gang("a"),)),
    ],
    ids=["not measured", "too old", "in another unit", "no number", "never heard of"],
)
def test_a_metric_without_figures_changes_nothing(missing: Snapshot) -> None:
    went_on = ScopeState(evicting=frozenset({"network"}), closed=True, closed_for=frozenset({"network"}), read_at=NOW)
    decision = decide(missing, state=replace(went_on, cooldown_until=ago(1)))
    assert decision.published.state == LevelsState.FILLING
    assert decision.published.admit
    assert set(decision.published.resources) == {"cpu", "memory"}
    assert decision.victims == ()


def test_a_capacity_that_is_none() -> None:
    taken = with_network((), 90.0)
    for capacity in (0.0, -1.0, 1e300):
        added = {"network": AddedFigures(taken.measurement.added["network"].nodes, {"node-1": capacity})}
        decision = decide(replace(taken, measurement=replace(taken.measurement, added=added)))
        assert "network" not in decision.published.resources


def test_enough_nodes_have_to_be_measured() -> None:
    nodes = {f"node-{i}": node(f"node-{i}") for i in range(10)}
    base = measured({name: figures(5, 50 * GIB) for name in nodes})
    for count, known in ((7, False), (8, True)):
        some = {f"node-{i}": Figure(40.0, ago(10)) for i in range(count)}
        added = {"network": AddedFigures(some, dict.fromkeys(nodes, 100.0))}
        decision = decide(snapshot(nodes=nodes, measurement=replace(base, added=added)))
        assert ("network" in decision.published.resources) is known


def test_only_nodes_that_have_some_of_it_have_to_be_measured() -> None:
    """Memory of GPUs, which two nodes of ten have: it never had a load, and nothing said so."""
    nodes = {f"node-{i}": node(f"node-{i}") for i in range(10)}
    base = measured({name: figures(5, 50 * GIB) for name in nodes})
    for count, load in ((2, 90.0), (1, None)):
        added = {
            "network": AddedFigures(
                {f"node-{i}": Figure(90.0, ago(10)) for i in range(count)}, {"node-0": 100.0, "node-1": 100.0}
            )
        }
        published = decide(snapshot(nodes=nodes, measurement=replace(base, added=added))).published
        assert (published.resources["network"].load if "network" in published.resources else None) == load
        assert ("too few nodes have a figure of network" in published.message) == (load is None)


def test_a_sample_that_is_seen_in_two_periods_is_one() -> None:
    """CPU and memory are measured in between, the metric is not."""
    gangs, averaged = (gang("a"),), replace(NETWORK, averaged=True)
    first = decide(with_network(gangs, 90.0, {"a": 50.0}, age=10), averaged, cpu_samples=2)
    same = with_network(gangs, 90.0, {"a": 50.0}, age=5, late=5)
    again = decide(same, averaged, first.scopes[CLUSTER].next_state, cpu_samples=2)
    assert victims(again) == []
    newer = with_network(gangs, 90.0, {"a": 50.0}, age=1)
    assert victims(decide(newer, averaged, again.scopes[CLUSTER].next_state, cpu_samples=2)) == ["a"]


def test_a_burst_of_an_average_evicts_nobody_for_one_sample() -> None:
    gangs, averaged = (gang("a"),), replace(NETWORK, averaged=True)
    first = decide(with_network(gangs, 90.0, {"a": 50.0}), averaged, cpu_samples=2)
    assert victims(first) == []
    later = with_network(gangs, 90.0, {"a": 50.0}, age=1)
    assert victims(decide(later, averaged, first.scopes[CLUSTER].next_state, cpu_samples=2)) == ["a"]


def test_levels_are_learnt_from_what_scavenger_pods_do_not_use() -> None:
    gangs, learnt = (gang("a"),), replace(NETWORK, levels=None)
    histories: dict[str, dict[str, History]] = {}
    for second in range(59, -1, -1):
        taken = with_network(gangs, (30.0, 50.0)[second % 2], {"a": 10.0}, age=second)
        learn(histories, decide(taken, learnt).scopes, DEFAULT_WINDOW)
    found = learned(histories)
    assert found[CLUSTER]["network"].mean == pytest.approx(30.0)
    assert found[CLUSTER]["network"].stdev == pytest.approx(10.0)
    decision = decide(replace(with_network(gangs, 40.0, {"a": 10.0}), history=found), learnt, step=0.0)
    assert decision.published.resources["network"].lower == pytest.approx(100 - (20 + 10))


def test_what_is_not_known_of_pods_is_not_learnt() -> None:
    histories: dict[str, dict[str, History]] = {}
    learn(histories, decide(with_network((gang("a"),), 30.0)).scopes, DEFAULT_WINDOW)
    assert "network" not in histories[CLUSTER]
    assert "cpu" in histories[CLUSTER]


def test_what_goes_on_for_a_metric_outlives_the_process() -> None:
    state = decide(with_network((), 90.0)).states
    kept = load_states(dump_states(state), NOW, 300)
    assert kept[CLUSTER].evicting == {"network"}
    assert kept[CLUSTER].levels["network"] == LEVELS


def test_readers_see_its_load_and_levels() -> None:
    data = decide(with_network((), 55.0)).published.to_data()
    read = PublishedLevels.parse(data)
    assert read.resources["network"].load == 55.0
    assert PublishedLevels.parse({**data, "load.network": "much"}).resources.keys() == {"cpu", "memory"}


# --- where it comes from ---

QUERIES = Queries({}, {}, window=60.0)
TAKEN: Vector = [({"node": "n1"}, NOW.timestamp())]
(ADDED,) = parse_added(json.dumps([{**PARSED, "pod": "p", "averaged": True}]))


def test_answers_become_figures() -> None:
    use: Vector = [({"node": "n1"}, 30.0), ({"node": "elsewhere"}, 1.0), ({}, 1.0)]
    room: Vector = [({"node": "n1"}, 100.0)]
    of_pods: Vector = [({"namespace": "lab", "pod": "a"}, 5.0)]
    found = joined(measured({}), {ADDED: [use, room, of_pods, []]}, TAKEN, QUERIES)
    assert found.added["network"] == AddedFigures({"n1": Figure(30.0, NOW, 60.0)}, {"n1": 100.0})
    assert found.pods["lab/a"] == {"network": Figure(5.0, NOW, 60.0)}


class _Main:
    """A source that knows CPU and memory."""

    name = "metrics-api"

    async def measure(self) -> Measurement:
        return measured({"n1": figures(1, GIB)})

    async def history(self) -> None:
        return None

    async def close(self) -> None:
        pass


async def test_a_prometheus_that_is_not_there_leaves_cpu_and_memory_measured() -> None:
    prometheus = PrometheusSource(PrometheusClient("http://127.0.0.1:1", timeout=5), QUERIES)
    source = AddedSource(_Main(), prometheus, [ADDED], QUERIES)
    try:
        found = await source.measure()
    finally:
        await source.close()
    assert found.nodes == {"n1": figures(1, GIB)}
    assert found.added == {}
