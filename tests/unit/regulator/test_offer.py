"""What a node offers: the rules as tables, and as properties over any course of events."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_regulator.core.load import Reading, Trust, read_load
from scavenger_regulator.core.reclaimed.node_memory import update_trends
from scavenger_regulator.core.reclaimed.offer import (
    LastSample,
    Offer,
    OfferRules,
    Span,
    Use,
    latest_samples,
    learn_profiles,
    next_figure,
    ordinary_use,
    ordinary_uses,
    plan_offers,
    target,
    to_write,
    units,
)
from scavenger_regulator.core.reclaimed.profile import Profile, Profiles
from scavenger_regulator.core.snapshot import Figure, Gang, Measurement, NodeFacts, RecentTermination, Snapshot

from tests.unit.regulator.builders import GIB, NOW, ago, figures, gang, measured, node, pod, snapshot

RULES = OfferRules(enabled=True)
TRUST = Trust()
LEVELS = {"cpu": 80.0, "memory": 80.0}
ANYTHING = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 0.0])


# --- one figure ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "amount", "expected"),
    [
        ("cpu", 1.5, 1500),
        ("cpu", 0.0019, 1),
        ("memory", 3 * 2.0**20, 3),
        ("memory", 3 * 2.0**20 - 1, 2),
        ("cpu", -1.0, 0),
        ("cpu", math.nan, 0),
        ("memory", math.inf, 0),
    ],
)
def test_units_are_whole(resource: str, amount: float, expected: int) -> None:
    assert units(resource, amount) == expected


@pytest.mark.parametrize(
    ("room", "level", "usual", "use", "guaranteed", "expected"),
    [
        (10, 80, 2, 1, 0, 6),
        (10, 80, 1, 3, 0, 5),  # the use now is more than the usual
        (10, 80, 2, 1, 4, 2),
        (10, 80, 9, 1, 0, 0),
        (10, 150, 0, 0, 0, 10),
        (10, -5, 0, 0, 0, 0),
        (10, 80, math.nan, 1, 0, 0),
        (math.inf, 80, 1, 1, 0, 0),
    ],
)
def test_target(room: float, level: float, usual: float, use: float, guaranteed: float, expected: float) -> None:
    assert target(room, level, usual, use, guaranteed) == pytest.approx(expected)


@given(st.tuples(ANYTHING, ANYTHING, ANYTHING, ANYTHING, ANYTHING))
def test_a_target_lies_within_the_node(given_: tuple[float, float, float, float, float]) -> None:
    found = target(*given_)
    assert 0 <= found <= max(0.0, given_[0] if math.isfinite(given_[0]) else 0.0)


@pytest.mark.parametrize(
    ("published", "most", "least", "grows", "expected"),
    [
        (0, 600, 600, True, 50),  # a step of 5 %
        (570, 600, 600, True, 600),
        (585, 600, 600, True, 585),  # within the hysteresis of 2 %
        (615, 600, 600, True, 615),
        (0, 600, 600, False, 0),
        (900, 600, 600, False, 600),  # falls at once, allowed to grow or not
        (900, 600, 600, True, 600),
        (15, 0, 0, True, 0),  # nothing is nothing, however little it was
        (500, 700, 300, True, 500),  # not exactly known: neither is certain
        (800, 700, 300, True, 700),
        (200, 700, 300, True, 250),
        (5000, 900, 900, True, 900),  # the node has shrunk
        (-7, 600, 600, False, 0),
    ],
)
def test_next_figure(published: int, most: int, least: int, grows: bool, expected: int) -> None:
    assert next_figure(published, most, least, 1000, RULES, grows=grows) == expected


AMOUNT = st.integers(-(10**6), 10**6)


@given(published=AMOUNT, a=AMOUNT, b=AMOUNT, room=st.integers(0, 10**6), grows=st.booleans())
def test_the_rules_of_a_figure(published: int, a: int, b: int, room: int, grows: bool) -> None:
    most, least = max(a, b), min(a, b)
    found = next_figure(published, most, least, room, RULES, grows=grows)
    held = min(max(0, published), room)
    assert 0 <= found <= room
    assert found <= held + max(1, room * RULES.step / 100), "at most a step"
    assert grows or found <= held
    assert found <= max(0, most) + RULES.hysteresis / 100 * room, "what is certainly too much is gone at once"
    if found != held and found != 0:
        assert abs(found - held) >= min(RULES.hysteresis / 100 * room, max(1, room * RULES.step / 100 - 1))
    assert next_figure(found, most, least, room, RULES, grows=False) == found, "nothing is written twice"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_a_flapping_load_is_not_followed_up(load: list[float]) -> None:
    """It goes up slowly and down at once, so it ends near the least that it could have been of late."""
    published = 0
    for use in load:
        most = math.floor(1000 * (1 - use))
        published = next_figure(published, most, most, 1000, RULES, grows=True)
        assert published <= most + 20
    assert published <= 50 * len(load)


# --- the ordinary use of a node -----------------------------------------------------------------------------


def reclaimed(name: str, started: float = 600, **facts: Any) -> Gang:
    return gang(name, started, pod_reclaimed=True, **facts)


def use_of(made: Snapshot) -> Use | None:
    return ordinary_uses(made, TRUST).get("node-1")


def test_scavenger_pods_are_taken_off() -> None:
    found = use_of(snapshot([gang("a"), reclaimed("b")], cpu=5, memory=50 * GIB))
    assert found is not None
    assert found.spans == {"cpu": Span(3, 3), "memory": Span(48 * GIB, 48 * GIB)}
    assert found.scavenged == {"cpu": 1, "memory": GIB}
    assert found.exact


def without_figure(*gangs: Gang) -> Snapshot:
    return snapshot(gangs, measurement=Measurement({"node-1": figures(5, 50 * GIB)}))


def test_a_pod_that_started_after_the_sample_is_not_in_it() -> None:
    found = use_of(without_figure(reclaimed("young", started=5)))
    assert found is not None
    assert found.spans["cpu"] == Span(5, 5)


def test_a_pod_without_a_figure_uses_something_between_nothing_and_its_requests() -> None:
    found = use_of(without_figure(reclaimed("old")))
    assert found is not None
    assert found.spans == {"cpu": Span(4, 5), "memory": Span(49 * GIB, 50 * GIB)}
    assert not found.exact


def test_what_has_gone_since_the_sample_began_is_somewhere_in_it() -> None:
    gone = RecentTermination("node-1", {"cpu": 2.0, "memory": GIB}, ago(20))
    found = use_of(snapshot(recent_terminations=[gone, replace(gone, at=ago(100)), replace(gone, node="node-2")]))
    assert found is not None
    assert found.spans["cpu"] == Span(3, 5)


def test_more_than_is_there_cannot_be_taken_off() -> None:
    found = use_of(snapshot([gang(f"g{i}") for i in range(9)], cpu=5))
    assert found is not None
    assert found.spans["cpu"] == Span(0, 0)


@pytest.mark.parametrize(
    "measurement",
    [
        Measurement(),
        Measurement({"node-1": figures(5, 50 * GIB, age=91)}),
        Measurement({"node-1": figures(5, 50 * GIB, age=-91)}),
        Measurement({"node-1": figures(5)}),
        Measurement({"node-1": figures(math.nan, 50 * GIB)}),
        Measurement({"node-1": figures(-1, 50 * GIB)}),
        Measurement({"node-1": figures(500, 50 * GIB)}),
    ],
)
def test_what_cannot_be_believed_is_no_use_of_nothing(measurement: Measurement) -> None:
    assert ordinary_use(node(), [], [], measurement, NOW, TRUST) is None


def test_a_node_that_says_more_than_it_has_is_full_for_all_who_read_it() -> None:
    """Load, offers and the memory of nodes read one figure: 115 and 130 % are 110."""
    measurement = Measurement({"node-1": figures(11.5, 130 * GIB)})
    seen = snapshot([], measurement=measurement)
    reading = read_load("node-1", [node()], [], measurement, NOW, TRUST)
    assert isinstance(reading, Reading)
    assert reading.beyond["cpu"] == pytest.approx(110)
    use = ordinary_use(node(), [], [], measurement, NOW, TRUST)
    assert use is not None
    assert use.spans["cpu"].high == pytest.approx(11)
    assert update_trends({}, seen, TRUST)["node-1"].samples[-1][1] == pytest.approx(110 * GIB)


@pytest.mark.parametrize("room", [{}, {"cpu": 10.0}, {"cpu": 0.0, "memory": GIB}, {"cpu": math.nan, "memory": GIB}])
def test_a_node_that_can_allocate_nothing_has_no_use(room: Mapping[str, float]) -> None:
    assert ordinary_use(node(allocatable=room), [], [], Measurement({"node-1": figures(0, 0)}), NOW, TRUST) is None


# --- one node over several periods --------------------------------------------------------------------------


class World:
    """One node of 10 cores and 100 GiB, whose offer is taken up at once as a pod on reclaimed capacity would."""

    def __init__(self, *gangs: Gang, rules: OfferRules = RULES, **facts: Any) -> None:
        self.gangs = gangs
        self.rules = rules
        self.profiles = Profiles(rules.half_life)
        self.last_samples: dict[str, LastSample] = {}
        self.node = node(**facts)
        self.now = NOW
        self.levels: Mapping[str, Mapping[str, float]] = {"node-1": LEVELS}
        self.planned: Offer

    def period(self, cpu: float | None = 2.0, *, late: float = 10.0, wait: float = 30) -> int:
        """What is offered of CPU after a period in which so many cores are used by ordinary pods; None: no figure."""
        self.now += timedelta(seconds=wait)
        at = self.now - timedelta(seconds=late)
        nodes = {} if cpu is None else {"node-1": {"cpu": Figure(cpu, at, 15), "memory": Figure(10 * GIB, at)}}
        pods = {p.key: {"cpu": Figure(0, at), "memory": Figure(0, at)} for g in self.gangs for p in g.pods}
        seen = snapshot(self.gangs, now=self.now, nodes={"node-1": self.node}, measurement=Measurement(nodes, pods))
        found = ordinary_uses(seen, TRUST)
        self.last_samples = latest_samples(self.last_samples, seen, found)
        learn_profiles(self.profiles, seen, found)
        self.planned = plan_offers(seen, found, self.last_samples, self.levels, self.profiles, self.rules)["node-1"]
        self.node = replace(self.node, offered=dict(self.planned.amounts))
        return self.planned.amounts["cpu"]

    def settled(self) -> int:
        """After an hour of the same."""
        return [self.period() for _ in range(120)][-1]


def test_a_node_that_joins_warms_up_and_then_grows_by_steps() -> None:
    w = World()
    assert [w.period() for _ in range(8)] == [0, 0, 0, 0, 500, 1000, 1500, 2000]
    settled = w.settled()
    assert 5600 <= settled <= 6000
    assert w.planned.amounts["memory"] == pytest.approx(70 * 1024, abs=3 * 1024)


def test_a_burst_takes_effect_at_once_and_is_remembered() -> None:
    w = World()
    w.settled()
    assert w.period(7.0) == 1000
    assert w.period(9.0) == 0
    after = [w.period(2.0) for _ in range(40)]
    assert after[0] <= 500
    assert after[-1] < 5000


def test_guaranteed_jobs_have_set_aside_what_they_request() -> None:
    free, taken = World(), World(gang("a", pods=2), reclaimed("b"))
    assert taken.settled() == pytest.approx(free.settled() - 2000, abs=250)


def test_a_node_without_a_figure_keeps_its_offer_and_after_three_periods_gets_nothing_new() -> None:
    w = World(reclaimed("a", pods=2))
    settled = w.settled()
    assert [w.period(None) for _ in range(4)] == [settled, settled, 2000, 2000]
    assert w.planned.silent
    assert w.planned.amounts["memory"] == 2 * 1024
    assert [w.period() for _ in range(2)] == [2500, 3000]


def test_nobody_there_and_silent_is_nothing() -> None:
    w = World()
    w.settled()
    assert [w.period(None) for _ in range(4)][-1] == 0


def test_a_node_never_heard_of_since_the_start_has_three_periods_too() -> None:
    w = World(offered={"cpu": 3000, "memory": 100})
    assert [w.period(None) for _ in range(5)] == [3000, 3000, 3000, 3000, 0]


def test_while_the_cluster_is_blind_nothing_changes() -> None:
    w = World()
    settled = w.settled()
    w.levels = {}
    assert [w.period(None) for _ in range(10)] == [settled] * 10
    assert [w.period(0.0) for _ in range(3)] == [settled] * 3
    assert not w.planned.silent


def test_the_same_sample_looked_at_twice_is_one_step() -> None:
    w = World()
    for _ in range(5):
        w.period()
    before = w.period()
    assert w.period(late=40) == before
    assert w.period() == before + 500


@pytest.mark.parametrize("facts", [{"counts": False}])
def test_a_node_that_takes_nobody_stops_growing_but_falls(facts: dict[str, Any]) -> None:
    w = World()
    for _ in range(8):
        w.period()
    w.node = replace(w.node, **facts)
    held = w.node.offered["cpu"]
    assert [w.period() for _ in range(5)] == [held] * 5
    assert w.period(7.0) <= 1000


def test_a_lost_history_takes_nothing_away() -> None:
    w = World()
    settled = w.settled()
    w.profiles = Profiles(w.rules.half_life)
    assert [w.period() for _ in range(4)] == [settled] * 4


def test_a_pod_without_a_figure_neither_lets_it_grow_nor_fall() -> None:
    w = World(reclaimed("a"))
    w.settled()
    held = w.node.offered["cpu"]
    w.node = replace(w.node, offered={**w.node.offered, "cpu": held - 200})
    seen = snapshot(
        w.gangs, now=w.now, nodes={"node-1": w.node}, measurement=Measurement({"node-1": figures(2.5, 10 * GIB)})
    )
    moment = replace(seen, now=NOW)
    planned = plan_offers(
        moment, ordinary_uses(moment, TRUST), {"node-1": LastSample(NOW)}, {"node-1": LEVELS}, w.profiles, w.rules
    )
    assert planned["node-1"].amounts["cpu"] == held - 200


def test_a_node_shows_what_is_placed_there_and_says_that_it_is_crowded() -> None:
    """A kubelet that restarts ends what does not fit in what its node shows."""
    w = World(reclaimed("a"))
    w.settled()
    assert w.planned.crowded is None
    assert w.period(9.5) == 1000
    assert w.planned.crowded == 0
    assert w.period(None) == 1000, "nothing is known"
    assert w.planned.crowded is None


def test_a_node_that_shrinks_offers_no_more_than_it_has() -> None:
    w = World()
    w.settled()
    w.node = replace(w.node, allocatable={"cpu": 4.0, "memory": 20 * GIB})
    assert w.period() <= 0.8 * 4000 - 2000 + 80
    w.levels = {}
    w.node = replace(w.node, allocatable={"cpu": 0.5, "memory": 20 * GIB}, offered={"cpu": 1200, "memory": 1})
    assert w.period(None) == 500


def test_a_clock_set_back_does_not_stop_it() -> None:
    w = World()
    for _ in range(10):
        w.period()
    held = w.node.offered["cpu"]
    assert w.period(wait=-600) >= held
    assert w.period(7.0) == 1000


@given(
    steps=st.lists(
        st.tuples(
            st.floats(-1, 12) | st.sampled_from([None, math.nan, math.inf]),
            st.sampled_from([10.0, 15.0, 45.0, 100.0, -20.0]),
            st.sampled_from([30.0, 30.0, 31.0, 300.0, -40.0]),
            st.booleans(),
            st.sampled_from([10.0, 10.0, 6.0, 20.0]),
        ),
        max_size=40,
    )
)
def test_whatever_happens(
    steps: list[tuple[float | None, float, float, bool, float]],
) -> None:
    w = World(reclaimed("a"), gang("g"), rules=replace(RULES, min_samples=2))
    for cpu, late, wait, counts, cores in steps:
        room = {"cpu": cores, "memory": 100 * GIB}
        w.node = replace(w.node, counts=counts, allocatable=room, capacity=room)
        before = w.node.offered.get("cpu", 0)
        offered = w.period(cpu, late=late, wait=wait)
        assert isinstance(offered, int)
        assert 0 <= offered <= cores * 1000
        placed = 1000  # shown however little there is to offer: see test_a_node_shows_what_is_placed
        assert offered <= max(placed, before + 0.05 * cores * 1000)
        assert counts or offered <= max(placed, before)
        fresh = cpu is not None and 0 <= cpu <= 5 * cores and abs(late) <= TRUST.max_age
        if fresh:
            assert offered <= max(placed, 800 * cores - 1000 * min(cpu or 0, 1.1 * cores)) + 0.02 * 1000 * cores
        elif not w.planned.silent:
            assert offered == min(before, round(cores * 1000)), "nothing changes for want of a figure"
        else:
            assert offered in (min(before, 1000), min(before, round(cores * 1000)))


# --- what is learned and written ----------------------------------------------------------------------------


def test_only_what_is_exactly_known_is_learned_and_who_left_is_forgotten() -> None:
    profiles = Profiles(3600, {"gone": {"cpu": Profile(3600)}})
    unsure = without_figure(reclaimed("old"))
    learn_profiles(profiles, unsure, ordinary_uses(unsure, TRUST))
    assert profiles.nodes == {}
    sure = snapshot([reclaimed("old")])
    learn_profiles(profiles, sure, ordinary_uses(sure, TRUST))
    learned = profiles.get("node-1", "cpu")
    assert learned is not None
    assert learned.percentile(100) == pytest.approx(4, abs=0.3)


@pytest.mark.parametrize(
    ("offered", "copied", "amounts", "written"),
    [
        ({}, True, {"cpu": 0, "memory": 0}, False),
        ({}, True, {"cpu": 1, "memory": 0}, True),
        ({"cpu": 1, "memory": 2}, True, {"cpu": 1, "memory": 2}, False),
        ({"cpu": 1, "memory": 2}, False, {"cpu": 1, "memory": 2}, True),
        ({"cpu": 1, "memory": 2}, True, {"cpu": 1, "memory": 3}, True),
        ({"cpu": 1}, True, {"cpu": 1, "memory": 0}, True),
        ({"cpu": 1, "memory": 2}, True, {"cpu": 0, "memory": 0}, True),
    ],
)
def test_what_the_node_shows_is_not_written(
    offered: dict[str, int], copied: bool, amounts: dict[str, int], written: bool
) -> None:
    planned = Offer("node-1", amounts, None)
    found = to_write({"node-1": node(offered=offered, copied=copied)}, [planned])
    assert found == ([planned] if written else [])


def test_nodes_are_independent() -> None:
    nodes: dict[str, NodeFacts] = {name: node(name) for name in ("a", "b")}
    seen = replace(
        snapshot([], nodes=nodes),
        measurement=measured({"a": figures(2, GIB), "b": figures(7, GIB)}),
        gangs=(Gang("lab/g", "g", (pod("g", node="b"),), 1800, 1.0, running=True),),
    )
    profiles = Profiles(3600)
    found = ordinary_uses(seen, TRUST)
    learn_profiles(profiles, seen, found)
    rules = replace(RULES, min_samples=1, step=100.0)
    planned = plan_offers(seen, found, latest_samples({}, seen, found), dict.fromkeys(nodes, LEVELS), profiles, rules)
    assert planned["a"].amounts["cpu"] == pytest.approx(6000, abs=250)
    assert planned["b"].amounts["cpu"] == 0
    assert planned["b"].idle == {"cpu": 0.0, "memory": pytest.approx(78 * GIB)}
