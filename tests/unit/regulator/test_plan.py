from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from scavenger_api.levels import LevelsState, LevelsView, PublishedLevels, Visibility
from scavenger_regulator.core.history import Figures
from scavenger_regulator.core.levels import WaterLevels
from scavenger_regulator.core.metrics.metric import RESOURCES
from scavenger_regulator.core.plan import Decision, regulate
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.scope import Wait
from scavenger_regulator.core.snapshot import CLUSTER, Gang, Measurement, RecentTermination, Snapshot
from scavenger_regulator.core.state import ScopeState
from scavenger_regulator.core.throttle import ThrottleRules

from .builders import GIB, NOW, ago, figures, gang, measured, node, pod, snapshot

RULES = Rules(yield_at_checkpoint=False, cpu_samples=1)


def decide(taken: Snapshot, state: ScopeState | None = None, rules: Rules = RULES) -> Decision:
    return regulate(taken, {CLUSTER: state} if state else {}, rules)


def victims(decision: Decision) -> list[str]:
    return [v.candidate.gang.key.removeprefix("lab/") for v in decision.victims]


# --- what is published ---


def percentages(loads: Iterable[float], rules: Rules = RULES) -> list[float]:
    """What is published from period to period for loads of CPU in percent."""
    found, states = [], dict[str, ScopeState]()
    for load in loads:
        decision = regulate(snapshot(cpu=load / 10), states, rules)
        states = decision.states
        percentage = decision.published.preemptible_percentage
        assert percentage is not None
        found.append(percentage)
    return found


def test_a_load_that_trembles_has_one_percentage() -> None:
    """At 80.5 % a point of load is a third of the share: 19 % to 35 % without a floor."""
    rules = replace(RULES, floor=0.0)
    trembling = percentages([80.5, *(80.5 + step for step in (1.0, -1.0, 0.4, -0.7) * 20)], rules)
    assert trembling == pytest.approx([trembling[0]] * 81)


def test_a_load_that_moves_is_followed_a_point_behind() -> None:
    rules = replace(RULES, floor=0.0)
    straight = dict(zip(range(70, 86), (percentages([float(load)], rules)[0] for load in range(70, 86)), strict=True))
    rising = percentages([float(load) for load in range(72, 85)], rules)
    assert rising[1:] == [pytest.approx(straight[load - 1]) for load in range(73, 85)]
    assert percentages([72.0, 85.0], rules) == [pytest.approx(straight[72]), 100.0], "but not when somebody has to go"
    assert percentages([84.0, 72.0], rules)[-1] == pytest.approx(straight[73])


def test_cpu_that_gives_way_makes_nobody_preemptible() -> None:
    """Five jobs on reclaimed capacity fill the node, as they are meant to: 4.5 of 9.5 cores in use are firm."""
    gangs = [gang(f"r{i}", pod_reclaimed=True) for i in range(5)]
    published = decide(snapshot(gangs, cpu=9.5)).published
    assert (published.state, published.preemptible_percentage) == (LevelsState.FILLING, 33)
    assert (published.load("cpu"), published.resources["cpu"].gives_way) == (95.0, 50.0)


@pytest.mark.parametrize(
    ("cpu", "memory", "state", "percentage", "admit"),
    [
        (0, 0, "Filling", 33, True),
        (6.9, 10, "Filling", 33, True),
        (7, 10, "Speculative", 33, True),
        (1, 84, "Speculative", pytest.approx(73.56, abs=0.01), True),  # the worst resource governs
        (8.5, 10, "Evicting", 100, False),
        (10, 100, "Evicting", 100, False),
        (10.9, 10, "Evicting", 100, False),  # above allocatable, but within what the node has: full
    ],
)
def test_states(cpu: float, memory: float, state: str, percentage: float, admit: bool) -> None:
    published = decide(snapshot(cpu=cpu, memory=memory * GIB)).published
    assert (published.state, published.preemptible_percentage, published.admit) == (state, percentage, admit)
    assert published.observed_at == ago(10)
    assert PublishedLevels.parse(published.to_data()).state == state
    assert LevelsView.of(published.to_data(), NOW).visibility is Visibility.FRESH


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"measurement": Measurement(failed="connection refused")}, "connection refused"),
        ({"measurement": Measurement()}, "no plausible figure"),
        ({"age": 91}, "no older than 60 s"),
        ({"age": -91}, "no older than 60 s"),
        ({"cpu": float("nan")}, "only 0 of 1 nodes"),
        ({"cpu": float("inf")}, "only 0 of 1 nodes"),
        ({"cpu": -1}, "only 0 of 1 nodes"),
        ({"cpu": 5000}, "only 0 of 1 nodes"),  # millicores taken for cores, say
        ({"nodes": {}}, "no node counts"),
        ({"nodes": {"node-1": node(counts=False)}}, "no node counts"),
        ({"nodes": {"node-1": node(cores=0)}}, "no node counts"),
        ({"nodes": {"node-1": node(), "node-2": node("node-2")}}, "only 1 of 2 nodes"),
        ({"measurement": Measurement({"node-1": figures(cpu=5)})}, "only 0 of 1 nodes"),
    ],
)
def test_blind(facts: dict[str, Any], says: str) -> None:
    taken = snapshot([gang("job")], **facts)
    decision = decide(taken, ScopeState(evicting=frozenset({"cpu"}), closed=True))
    assert (decision.published.state, decision.published.admit, decision.victims) == (LevelsState.BLIND, False, ())
    assert says in decision.published.message
    assert decision.states[CLUSTER].evicting == {"cpu"}, "what it was at is not forgotten"
    assert LevelsView.of(decision.published.to_data(), NOW).visibility is Visibility.BLIND


def test_a_few_nodes_without_figures_are_left_out_on_both_sides() -> None:
    nodes = {f"node-{i}": node(f"node-{i}") for i in range(10)}
    measurement = Measurement({name: figures(6, 50 * GIB) for name in list(nodes)[:9]})
    published = decide(snapshot(nodes=nodes, measurement=measurement)).published
    assert published.load("cpu") == 60


def test_only_nodes_that_count_count() -> None:
    nodes = {"node-1": node(), "cordoned": node("cordoned", counts=False)}
    measurement = Measurement({name: figures(5 if name == "node-1" else 9, 50 * GIB) for name in nodes})
    assert decide(snapshot(nodes=nodes, measurement=measurement)).published.load("cpu") == 50


def test_levels_come_from_history_when_there_is_enough_a_step_at_a_time() -> None:
    few = {CLUSTER: {"cpu": Figures(40, 10, 59), "memory": Figures(40, 0, 59)}}
    published = decide(snapshot(history=few)).published
    assert (published.lower("cpu"), published.admission("cpu"), published.upper("cpu")) == (70, 80, 85)
    assert (published.mean("cpu"), published.stdev("cpu")) == (40, 10)

    enough = {CLUSTER: {"cpu": Figures(40, 15, 60), "memory": Figures(40, 0, 60)}}
    published = decide(snapshot(history=enough)).published
    assert (published.lower("cpu"), published.lower("memory")) == (65, 80)
    upper = published.upper("memory")
    assert upper is not None
    assert published.admission("memory") == pytest.approx(upper - 5)
    before = ScopeState(levels={"cpu": WaterLevels(70, 80, 85), "memory": WaterLevels(70, 80, 85)})
    published = decide(snapshot(history=enough), before).published
    assert (published.lower("cpu"), published.upper("cpu"), published.lower("memory")) == (69, 84, 71)


# --- victims ---


def crowd(count: int = 6, **facts: Any) -> list[Gang]:
    return [gang(f"job-{i}", started=100 * (i + 1), **facts) for i in range(count)]


def labelled() -> ScopeState:
    """Evicting for so long that whoever may become preemptible is."""
    return ScopeState(evicting=frozenset({"cpu"}), evicting_since=ago(60), closed=True)


def test_the_least_at_risk_go() -> None:
    decision = decide(snapshot(crowd(), cpu=9))
    assert victims(decision) == ["job-0", "job-1"]  # 90 % - 2 · 10 = 70 %


def test_gangs_go_whole_and_count_whole() -> None:
    gangs = [gang("single", started=500), gang("double", started=200, pods=2)]
    assert victims(decide(snapshot(gangs, cpu=9))) == ["double"]


def test_between_the_levels_nobody_goes_unless_it_was_evicting() -> None:
    taken = snapshot(crowd(), cpu=8)
    assert victims(decide(taken)) == []
    assert victims(decide(taken, ScopeState(evicting=frozenset({"cpu"})))) == ["job-0"]


def test_a_state_of_long_ago_evicts_nobody_between_the_levels() -> None:
    """Be it read from where it was saved, or kept while there were no metrics."""
    state = ScopeState(evicting=frozenset({"cpu"}), closed=True, yielding=frozenset({"cpu"}), yielded_at=ago(7e5))
    for old in (replace(state, read_at=ago(7e5)), replace(state, read_at=ago(901))):
        decision = decide(snapshot(crowd(checkpoint=ago(5)), cpu=8.1), old, Rules())
        assert (victims(decision), decision.published.state, decision.published.admit) == ([], "Speculative", False)
    assert victims(decide(snapshot(crowd(), cpu=8), replace(state, read_at=ago(899)))) == ["job-0"]


def test_only_the_resource_that_is_too_high_is_brought_down() -> None:
    gangs = [gang(f"job-{i}", started=100 * (i + 1)) for i in range(6)]
    taken = snapshot(
        gangs,
        cpu=8.4,
        memory=90 * GIB,
        measurement=measured({"node-1": figures(8.4, 90 * GIB)}, gangs, memory=10 * GIB),
    )
    assert victims(decide(taken)) == ["job-0", "job-1"]  # 84 % of CPU is under upper


def test_one_pod_that_is_not_preemptible_protects_its_gang() -> None:
    mixed = gang("mixed", started=1)
    mixed = replace(mixed, pods=(*mixed.pods, pod("other", preemptible=False)))
    assert victims(decide(snapshot([mixed, *crowd()], cpu=9), labelled())) == ["job-0", "job-1"]


def test_those_about_to_be_preemptible_are_awaited_for_a_period() -> None:
    """At 90 % all are by the percentage that is published with this decision, and nobody can know it yet."""
    cheap = [gang(f"cheap-{i}", started=10 + i, pod_preemptible=False) for i in range(2)]
    decision = decide(snapshot([*cheap, *crowd()], cpu=9))
    assert (victims(decision), decision.published.preemptible_percentage) == ([], 100)
    assert "to become preemptible" in decision.published.message
    again = decide(snapshot([*cheap, *crowd()], cpu=9), labelled())
    assert victims(again) == ["job-0", "job-1"], "whoever is protected all the same"


def test_what_is_preemptible_of_the_best_plan_goes_at_once() -> None:
    gangs = [gang("cheap", started=10, pod_preemptible=False), *crowd()]
    decision = decide(snapshot(gangs, cpu=9))
    assert victims(decision) == ["job-0"]
    assert decision.states[CLUSTER].awaited == {"uid-cheap"}


def test_nobody_is_awaited_where_the_percentage_makes_nobody_preemptible() -> None:
    gangs = [gang("cheap", started=10, pod_preemptible=False), *crowd()]
    assert victims(decide(snapshot(gangs, cpu=8), ScopeState(evicting=frozenset({"cpu"})))) == ["job-0"]


@pytest.mark.parametrize(
    ("deletion_deadline", "expected"),
    [
        (ago(-20), ["job-0"]),  # its use is pending release
        (ago(50), ["job-0"]),  # a little late
        (ago(61), ["job-0", "job-1"]),  # stuck: neither counted nor asked again
    ],
)
def test_what_is_leaving(deletion_deadline: datetime, expected: list[str]) -> None:
    gone = gang("leaving", started=1, pod_deletion_deadline=deletion_deadline)
    assert victims(decide(snapshot([gone, *crowd()], cpu=9))) == expected


def test_of_a_gang_with_one_leaving_all_is_pending_release() -> None:
    partly = gang("partly", started=1)
    partly = replace(partly, pods=(*partly.pods, pod("partly-1", deletion_deadline=ago(-20))))
    assert victims(decide(snapshot([partly, *crowd()], cpu=9))) == []


@pytest.mark.parametrize(("at", "expected"), [(ago(24), ["job-0"]), (ago(26), ["job-0", "job-1"])])
def test_what_went_after_the_sample_began_is_still_in_it(at: datetime, expected: list[str]) -> None:
    gone = RecentTermination("node-1", {"cpu": 1.0, "memory": GIB}, at)
    assert victims(decide(snapshot(crowd(), cpu=9, recent_terminations=(gone,)))) == expected


@pytest.mark.parametrize(
    ("at", "cores", "gib"),
    [
        (ago(5), 4, 4),  # after the sample was taken: all of it is in there
        (ago(10), 4, 0),  # at that moment: in the average over the 15 s before, not in the memory
        (ago(16), 2.4, 0),  # 9 of the 15 s
        (ago(25), 0, 0),
    ],
)
def test_what_has_gone_since_is_no_ordinary_load(at: datetime, cores: float, gib: float) -> None:
    gone = RecentTermination("node-1", {"cpu": 4.0, "memory": 4 * GIB}, at)
    elsewhere = RecentTermination("node-9", {"cpu": 4.0, "memory": 4 * GIB}, at)
    decision = decide(snapshot(cpu=9, recent_terminations=(gone, elsewhere)))
    reading = decision.scopes[CLUSTER].reading
    assert reading is not None
    assert reading.ordinary == pytest.approx({"cpu": 90 - 10 * cores, "memory": 50 - gib})


def test_a_process_waits_for_measurements_that_began_after_it() -> None:
    decision = decide(snapshot(crowd(), cpu=9, started=ago(20)))
    assert (victims(decision), decision.scopes[CLUSTER].wait) == ([], Wait.STARTED)
    assert decision.published.state == "Evicting"


def test_pods_elsewhere_are_no_candidates() -> None:
    assert victims(decide(snapshot([gang("far", on="node-9"), *crowd()], cpu=9))) == ["job-0", "job-1"]


def test_a_job_its_user_has_given_up_costs_nothing() -> None:
    gangs = [*crowd(), gang("suspended", started=1700, stopping=True)]
    assert victims(decide(snapshot(gangs, cpu=8.5)))[0] == "suspended"


# --- CPU that gives way by itself ---


def test_a_burst_interrupts_nobody_on_reclaimed_capacity() -> None:
    """10 of 10 cores in use, 3 of them by jobs that the kernel takes them from: load 100 %, firm load 70 %."""
    gangs = [gang(f"r{i}", pod_reclaimed=True) for i in range(3)]
    decision = decide(snapshot(gangs, cpu=10), rules=replace(RULES, yield_at_checkpoint=True))
    assert (victims(decision), decision.published.state, decision.published.admit) == ([], "Speculative", True)
    assert decision.published.resources["cpu"].load == 100, "what is published is what is in use"


def test_cpu_on_reclaimed_capacity_closes_neither_the_cluster_nor_a_node() -> None:
    """8 of 10 cores in use, 3 of them give way: whoever has a guarantee finds 30 points under the admission level."""
    gangs = [gang(f"r{i}", pod_reclaimed=True) for i in range(3)]
    published = decide(snapshot(gangs, cpu=8), rules=replace(RULES, per_node=True)).published
    assert (published.admit, published.closed_nodes) == (True, frozenset())
    cpu, memory = published.resources["cpu"], published.resources["memory"]
    assert (cpu.load, round(cpu.gives_way, 6), memory.gives_way) == (80, 30, 0)
    assert PublishedLevels.parse(published.to_data()).resources["cpu"].gives_way == 30


def test_who_has_a_guarantee_goes_when_the_firm_load_is_too_high() -> None:
    gangs = [gang("cheap", 1, pod_reclaimed=True), gang("a", 300), gang("b", 600), gang("c", 900)]
    assert victims(decide(snapshot(gangs, cpu=10))) == ["a", "b"], "9 firm cores come down to 7"


@pytest.mark.parametrize(("reclaimed", "evicting"), [(True, set()), (False, {"cpu"})])
def test_what_left_reclaimed_capacity_is_not_taken_for_load(reclaimed: bool, evicting: set[str]) -> None:
    """Its CPU is still in the average of the last seconds."""
    gone = RecentTermination("node-1", {"cpu": 4.0, "memory": GIB}, ago(20), reclaimed)
    assert decide(snapshot(cpu=10, recent_terminations=(gone,))).states[CLUSTER].evicting == evicting


def test_nobody_goes_because_a_reclaimed_pod_has_no_figure() -> None:
    gangs = [gang("unseen", pod_reclaimed=True, pod_requests={"cpu": 3.0, "memory": GIB}), gang("a", 300)]
    measurement = measured({"node-1": figures(10, GIB)}, gangs, without=["unseen"])
    assert victims(decide(snapshot(gangs, measurement=measurement))) == []


def test_memory_on_reclaimed_capacity_is_firm() -> None:
    gangs = [gang("r", 1, pod_reclaimed=True), gang("a", 300)]
    measurement = measured({"node-1": figures(1, 90 * GIB)}, gangs, memory=20 * GIB)
    assert victims(decide(snapshot(gangs, measurement=measurement))) == ["r"]


# --- levels from a history ---


def test_levels_that_follow_the_history_go_on_while_half_of_the_samples_are_left() -> None:
    """A window of half an hour holds 59 samples in one period and 60 in the next; 60 are needed to begin."""
    state, learned = ScopeState(), []
    for samples in (59, 60, 59, 30, 29, 59, 60):
        history = {CLUSTER: {r: Figures(40.0, 15.0, samples) for r in RESOURCES}}
        scope = decide(snapshot(history=history), state, replace(RULES, step=0)).scopes[CLUSTER]
        state = scope.next_state
        learned.append(scope.levels["cpu"].lower == 65)
    assert learned == [False, True, True, True, False, False, True]


# --- a CPU that is all in use ---


def test_the_gap_is_not_cut_off_at_what_can_be_allocated() -> None:
    """Nodes have more than they allocate: 10.9 of 11 cores are in use, 10 can be allocated: 39 points too much."""
    gangs = [gang(f"job-{i}", 100 * (i + 1)) for i in range(9)]
    big = replace(node(), capacity={"cpu": 11.0, "memory": 100 * GIB})
    decision = decide(snapshot(gangs, cpu=10.9, nodes={"node-1": big}))
    assert len(victims(decision)) == 4
    assert decision.published.load("cpu") == 100


# --- ramping ---


@pytest.mark.parametrize(
    ("started", "points"),
    [
        (24, 0),  # since the averaging began: whoever reads the load counts them whole
        (26, 8),
        (320, 8),
        (326, 0),
        (900, 0),
    ],
)
def test_pods_in_their_first_minutes_count_with_what_they_asked_for(started: float, points: float) -> None:
    """Two pods of a core that use 0.6 and 1.5: four points of ten cores, and none. And one on reclaimed capacity: only
    its memory, of which it uses half."""
    gangs = [gang("less", started), gang("more", started), gang("reclaimed", started, pod_reclaimed=True)]
    half = {"cpu": 0.2, "memory": GIB / 2}
    pods = {"lab/less-0": (0.6, GIB), "lab/more-0": (1.5, GIB), "lab/reclaimed-0": tuple(half.values())}
    measurement = Measurement({"node-1": figures(4, 10 * GIB)}, {k: figures(*use) for k, use in pods.items()})
    published = decide(snapshot(gangs, measurement=measurement)).published
    assert published.resources["cpu"].ramping == pytest.approx(points / 2)
    assert published.resources["memory"].ramping == pytest.approx(points / 16)
    assert published.load("cpu") == 40


def test_how_much_of_their_requests_scavenger_pods_use_is_published() -> None:
    """Two of a core and a GiB use 0.1 and 0.3. Who has just started, runs on reclaimed capacity or is not measured says
    nothing of the CPU of others."""
    gangs = [gang(name, 900) for name in ("a", "b", "unmeasured")]
    gangs += [gang("young", 60), gang("reclaimed", 900, pod_reclaimed=True)]
    uses = {"a": (0.1, GIB), "b": (0.3, GIB), "young": (1.0, 0.0), "reclaimed": (1.0, GIB / 4)}
    pods = {f"lab/{name}-0": figures(*use) for name, use in uses.items()}
    taken = snapshot(gangs, measurement=Measurement({"node-1": figures(5, 10 * GIB)}, pods))
    resources = decide(taken).published.resources
    assert resources["cpu"].used_of_requests == pytest.approx(20)
    assert resources["memory"].used_of_requests == pytest.approx(75)
    assert decide(snapshot()).published.resources["cpu"].used_of_requests is None, "nobody runs"


def test_a_node_is_closed_where_pods_in_their_first_minutes_will_fill_it() -> None:
    gangs = [gang(f"job-{i}", 60) for i in range(4)]
    taken = snapshot(gangs, measurement=measured({"node-1": figures(5, GIB)}, gangs, cpu=0.1))
    assert decide(taken, rules=replace(RULES, per_node=True)).published.closed_nodes == {"node-1"}
    old = [gang(f"job-{i}", 600) for i in range(4)]
    assert not decide(replace(taken, gangs=tuple(old)), rules=replace(RULES, per_node=True)).published.closed_nodes


# --- per node ---


def test_a_level_per_node() -> None:
    nodes = {"big": node("big", 80), "small": node("small", 10)}
    gangs = [gang("on-big", 1, on="big"), gang("on-small", 900, on="small"), gang("also", 1000, on="small")]
    use = {"big": figures(20, GIB), "small": figures(9, GIB)}
    taken = snapshot(gangs, nodes=nodes, measurement=measured(use, gangs, memory=0))
    assert victims(decide(taken)) == []  # the cluster as a whole is at 32 %
    decision = decide(taken, rules=replace(RULES, per_node=True))
    assert victims(decision) == ["on-small", "also"]
    assert decision.published.state is LevelsState.FILLING
    assert decision.published.closed_nodes == {"small"}
    assert decision.published.admit


def test_what_nodes_have_left_is_published() -> None:
    nodes = {
        "big": node("big", 80),
        "small": node("small", 10),
        "full": node("full", 10),
        "silent": node("silent", 10, GIB),
    }
    young = [gang("young", 100, on="small", pod_requests={"cpu": 1.0, "memory": GIB})]
    use = {"big": figures(20.01, GIB), "small": figures(4, 50 * GIB), "full": figures(8, GIB)}
    taken = snapshot(young, nodes=nodes, measurement=measured(use, young, cpu=0.5, memory=GIB))
    assert not decide(taken).published.headroom
    found = decide(taken, rules=replace(RULES, per_node=True)).published
    # The levels are 70, 80 and 85. Half of the young pod's core is not used yet, and kept for it.
    assert found.headroom == {"big": (549, 790), "small": (350, 300)}
    assert found.closed_nodes == {"full", "silent"}


def test_what_nodes_free_counts_for_the_cluster() -> None:
    nodes = {"a": node("a"), "b": node("b")}
    gangs = [gang(f"{n}-{i}", 100 * (i + 1), on=n) for n in nodes for i in range(4)]
    use = {n: figures(9, GIB) for n in nodes}
    taken = snapshot(gangs, nodes=nodes, measurement=measured(use, gangs, memory=0))
    assert victims(decide(taken, rules=replace(RULES, per_node=True))) == ["a-0", "a-1", "b-0", "b-1"]


class Watched(tuple[Gang, ...]):
    """Gangs that count how often somebody went through all of them."""

    looks = 0

    def __iter__(self) -> Iterator[Gang]:
        Watched.looks += 1
        return super().__iter__()


@pytest.mark.parametrize("cpu", [5, 9])
def test_a_node_looks_at_its_own_gangs_only(cpu: float) -> None:
    """All nodes at all gangs took 28 s of CPU time at a thousand nodes with ten gangs each."""
    looks = []
    for count in (2, 40):
        nodes = {f"n{i}": node(f"n{i}") for i in range(count)}
        gangs = Watched(gang(f"{name}-{i}", 100 * (i + 1), on=name) for name in nodes for i in range(4))
        taken = snapshot(nodes=nodes, measurement=measured({n: figures(cpu, GIB) for n in nodes}, gangs, memory=0))
        Watched.looks = 0
        decision = decide(replace(taken, gangs=gangs), rules=replace(RULES, per_node=True))
        assert len(victims(decision)) == (2 * count if cpu == 9 else 0)
        looks.append(Watched.looks)
    assert looks[0] == looks[1]


def test_levels_in_force_are_the_node_s_own_then_the_cluster_s_and_none_while_blind() -> None:
    seen = snapshot(cpu=5)
    own = regulate(
        seen, {"node-1": ScopeState(levels={r: WaterLevels(10, 20, 30) for r in RESOURCES})}, Rules(per_node=True)
    )
    assert own.levels_on("node-1")["cpu"] == WaterLevels(11, 21, 31), "a step toward the initial ones"
    assert own.levels_on("node-2") == own.scopes[CLUSTER].levels
    alone = regulate(seen, {}, Rules())
    assert alone.levels_on("node-1") == alone.scopes[CLUSTER].levels
    assert regulate(snapshot(age=600), {}, Rules()).levels_on("node-1") == {}


# --- throttling ---


def test_who_is_evicted_is_not_throttled_as_well() -> None:
    jobs = (gang("stays", pod_resizable={"main": 1.0}), gang("yields", pod_resizable={"main": 1.0}, checkpoint=ago(10)))
    throttle = ThrottleRules(enabled=True, share=0.9)  # not enough
    rules = Rules(initial=WaterLevels(lower=70, admission=75, upper=85), throttle=throttle)
    decision = decide(snapshot(jobs, cpu=8.4), rules=rules)
    assert victims(decision) == ["yields"]
    assert [one.gang.key for one in decision.resizes] == ["lab/stays"]
