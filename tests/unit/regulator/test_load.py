"""How full the cluster is: which nodes are looked at, and what is believed of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from scavenger_api.times import format_time
from scavenger_regulator.core.eviction.candidates import candidates
from scavenger_regulator.core.eviction.risk import RiskRules
from scavenger_regulator.core.load import Reading, Trust, Unreadable, read_load
from scavenger_regulator.core.snapshot import CLUSTER, Figure, Gang, Measurement, NodeFacts
from scavenger_regulator.facts import node_facts
from scavenger_regulator.measurements import Measurements
from scavenger_regulator.sources.requests import RequestsSource
from scavenger_testing import builders as objects
from scavenger_testing.clock import VirtualClock

from .builders import GIB, NOW, ago, figures, gang, measured, node, snapshot


def read(
    used: Mapping[str, Mapping[str, Figure]], *more: NodeFacts, trust: Trust | None = None, **facts: Any
) -> Reading | Unreadable:
    """The load of nodes of 10 cores and 100 GiB with these figures. facts: of the first of them."""
    nodes = [node(name, **(facts if name == "a" else {})) for name in used]
    return read_load(CLUSTER, [*nodes, *more], (), Measurement(nodes=used), NOW, trust or Trust())


def load(reading: Reading | Unreadable) -> tuple[float, float]:
    assert isinstance(reading, Reading), reading
    return round(reading.load["cpu"], 1), round(reading.load["memory"], 1)


@pytest.mark.parametrize("pressure", ["memory", "disk", "pid"])
def test_a_node_under_pressure_stays_in_the_load(pressure: str) -> None:
    """The kubelet taints it, and without it the cluster would look emptier than it is."""
    taint = {"key": f"node.kubernetes.io/{pressure}-pressure", "effect": "NoSchedule"}
    full = node_facts(objects.node("a", taints=[taint]), ())
    assert (full.counts, full.pressed) == (True, True)

    used = {name: figures(5.0, gib * GIB) for name, gib in (("a", 98), ("b", 80), ("c", 80))}
    assert load(read(used, pressed=True)) == (50.0, 86.0)


def test_nobody_starts_in_what_is_left_of_a_node_under_pressure() -> None:
    used = {name: figures(5.0, 80 * GIB) for name in ("a", "b")}
    reading = read(used, pressed=True)
    assert isinstance(reading, Reading)
    assert (reading.ramping["cpu"], reading.ramping["memory"]) == (25.0, 10.0)


def test_a_node_under_pressure_that_nobody_measures_counts_as_full() -> None:
    used = {name: figures(5.0, 80 * GIB) for name in ("a", "b", "c")}
    used["a"] = figures(5.0, 98 * GIB, age=3600)
    assert load(read(used, pressed=True)) == (66.7, 86.7)


def test_a_node_that_uses_more_than_it_has_is_full() -> None:
    """It disappeared, and with it the load."""
    assert load(read({"a": figures(11.5, 50 * GIB), "b": figures(5.0, 50 * GIB)})) == (80.0, 50.0)
    assert load(read({"a": figures(11.5, 50 * GIB)})) == (100.0, 50.0)


def test_a_figure_in_another_unit_is_none() -> None:
    used = {"a": figures(5.0, 50 * GIB * 1024), **{name: figures(5.0, 80 * GIB) for name in ("b", "c")}}
    assert load(read(used)) == (50.0, 80.0)
    assert isinstance(read({"a": figures(5000.0, 50 * GIB)}), Unreadable)


@pytest.mark.parametrize(("nodes", "readable"), [(1, False), (2, False), (3, True), (4, True), (10, True)])
def test_one_late_node_makes_no_cluster_blind_that_has_three(nodes: int, readable: bool) -> None:
    used = {f"n{number}": figures(5.0, 50 * GIB) for number in range(nodes)}
    used["n0"] = figures(9.0, 90 * GIB, age=91)
    assert isinstance(read(used), Reading) is readable
    assert isinstance(read(used, trust=Trust(coverage=1.0)), Unreadable), "where all of them are asked for"


def test_two_late_nodes_are_bounded_by_coverage() -> None:
    used = {f"n{number}": figures(5.0, 50 * GIB, age=10 if number > 1 else 91) for number in range(9)}
    assert isinstance(read(used), Unreadable)
    used["n9"] = figures(5.0, 50 * GIB)
    assert isinstance(read(used), Reading)


def test_a_node_that_joins_need_not_be_measured_yet() -> None:
    """An autoscaler answered the load; nobody can have measured its nodes."""
    used = {name: figures(9.0, 90 * GIB) for name in ("a", "b")}
    new = [node(name, created=ago(60)) for name in ("c", "d", "e")]
    assert load(read(used, *new)) == (90.0, 90.0)
    old = [node(name, created=ago(301)) for name in ("c", "d", "e")]
    assert isinstance(read(used, *old), Unreadable)
    assert isinstance(read({}, *new), Unreadable), "and where nobody is measured, nothing is known"


@pytest.mark.parametrize(("known", "ordinary"), [(9, 5.5), (8, 5.5), (5, 5.5), (4, None)])
def test_pods_without_a_figure_are_taken_for_like_the_others(known: int, ordinary: float | None) -> None:
    """Nine pods use half of a core each that they have asked for; one without a figure ended learning."""
    jobs = [gang(f"j{number}") for number in range(9)]
    use = measured({"node-1": figures(10.0, 50 * GIB)}, jobs[:known], cpu=0.5)
    reading = read_load(CLUSTER, [node(cores=20)], jobs, use, NOW, Trust())
    assert isinstance(reading, Reading)
    found = reading.ordinary
    assert (None if found is None else found["cpu"] * 0.2) == (ordinary and pytest.approx(ordinary))


def test_a_gang_frees_at_the_least_what_is_known_of_it() -> None:
    """Of a large gang some pod is always without a figure, and it could never go."""
    large = gang("large", pods=9)
    use = measured({"node-1": figures(10.0, 50 * GIB)}, [large])
    pods = {key: found for key, found in use.pods.items() if not key.endswith("-8")}
    seen = snapshot([large], measurement=replace(use, pods=pods))
    reading = read_load(CLUSTER, seen.nodes.values(), [large], seen.measurement, NOW, Trust())
    assert isinstance(reading, Reading)

    def frees(measurement: Measurement) -> Mapping[str, float]:
        now = replace(seen, measurement=measurement)
        (one,) = candidates([large], reading, now, Trust(), risk=RiskRules(), taken=())
        return one.frees

    assert frees(seen.measurement) == {"cpu": 80.0, "memory": 8.0}
    assert frees(replace(use, pods={})) == {}


# --- figures and lives ---


def joined(taken: Measurement, *gangs: Gang) -> Measurement:
    """The measurement as the regulator has it in a period."""
    return Measurements(RequestsSource(list, list, lambda: NOW), VirtualClock(NOW)).with_last_figures(taken, gangs)


def test_a_figure_of_the_last_life_of_a_task_is_no_use_of_this_one() -> None:
    """Ten cores, 5.1 of them in use, all by regular pods. A task that used four has ended, and runs again since ten
    seconds ago. Taken for its use, they would leave a regular load of 11 %."""
    again = gang("sweep", started=8, pod_birth=format_time(ago(10)))
    last = figures(4.0, 4 * GIB, age=20)
    taken = joined(Measurement({"node-1": figures(5.1, 10 * GIB, age=20)}, {"lab/sweep-0": last}), again)
    reading = read_load(CLUSTER, [node()], [again], taken, NOW, Trust())
    assert isinstance(reading, Reading)
    assert reading.ordinary is not None
    assert round(reading.ordinary["cpu"]) == 51
    own = figures(4.0, 4 * GIB, age=0, window=8)
    assert joined(Measurement({}, {"lab/sweep-0": own}), again).of(again.pods[0]) == own


def test_the_only_victim_frees_what_it_uses_in_this_life() -> None:
    """Its last life was idle, and the first figure of this one has not come. What another says of itself is nobody
    else's."""
    again = gang("sweep", started=40, pod_birth=format_time(ago(45)))
    idle = figures(0.0, 0.0, age=50)
    assert joined(Measurement({}, {"lab/sweep-0": idle}), again).of(again.pods[0]) == {}
    busy = figures(4.0, 4 * GIB, age=1, window=30)
    by_uid = Measurement({}, {"lab/sweep-0": idle, again.pods[0].uid: busy})
    assert joined(by_uid, again).of(again.pods[0]) == busy, "a source that knows its UID is believed"


def test_a_pod_that_leaves_keeps_each_figure_until_there_is_a_newer_one() -> None:
    """Its CPU drops out of the metrics first, while another metric still answers."""
    (leaves,) = (gang("a", pod_birth=format_time(ago(600)), pod_deletion_deadline=ago(-20)),)
    kept = Measurements(RequestsSource(list, list, lambda: NOW), VirtualClock(NOW))
    own, sent = figures(4.0, 4 * GIB, age=30), {"network": figures(cpu=7.0, age=5)["cpu"]}
    kept.with_last_figures(Measurement({}, {"lab/a-0": own}), [leaves])
    assert kept.with_last_figures(Measurement({}, {"lab/a-0": sent}), [leaves]).of(leaves.pods[0]) == {**own, **sent}


def test_the_last_figures_of_a_pod_that_leaves_are_not_those_of_its_next_life() -> None:
    first, second = (
        gang("sweep", pod_birth=format_time(ago(600)), pod_uid="first", pod_deletion_deadline=ago(-20)),
        gang("sweep", started=8, pod_birth=format_time(ago(10)), pod_uid="second", pod_deletion_deadline=ago(-20)),
    )
    kept = Measurements(RequestsSource(list, list, lambda: NOW), VirtualClock(NOW))
    own = figures(4.0, 4 * GIB, age=30)
    assert kept.with_last_figures(Measurement({}, {"lab/sweep-0": own}), [first]).of(first.pods[0]) == own
    assert kept.with_last_figures(Measurement(), [first]).of(first.pods[0]) == own
    assert kept.with_last_figures(Measurement(), [second]).of(second.pods[0]) == {}
