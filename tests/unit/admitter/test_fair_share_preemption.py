"""Which running jobs go when a queue under its share has a job waiting: one rule after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scavenger_admitter.core.admission.cycle import victim_search
from scavenger_admitter.core.admission.cycle.fair_share_preemption import PreemptionRules
from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, plan_admissions
from scavenger_admitter.core.admission.futile import FIRST, MOST, FutileStarts
from scavenger_admitter.core.admission.load import PPM, Level, LoadLimit, LoadRule
from scavenger_admitter.core.admission.placement.inputs import NodeView, PendingPod
from scavenger_admitter.core.admission.running import Gang, RunningJob, TerminatingPod
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.shown import Shown
from scavenger_admitter.core.admission.snapshot import Candidate, QueueView, Snapshot
from scavenger_admitter.core.admission.sums import add
from scavenger_admitter.core.admission.units import SECOND
from scavenger_api.names import RESOURCE_RECLAIMED_CPU
from scavenger_api.reasons import WaitReason
from scavenger_api.states import QueueState

NOW = 1_800_000_000 * SECOND
DAY = 86_400 * SECOND
RULES = PreemptionRules()
PODS = 110


def shape(cpu: int, selector: dict[str, str] | None = None) -> Shape:
    return Shape.of({"cpu": cpu * 1000}, selector)


def job(name: str, queue: str = "b", cpu: int = 1, pods: int = 1, **more: Any) -> Candidate:
    return Candidate(name, name, queue, more.pop("shape", shape(cpu)), pods, **more)


def gang(
    name: str, *nodes: str, queue: str = "a", cpu: int = 1, age: int = 100, fresh: bool = False, **more: Any
) -> Gang:
    """A job that runs on these nodes; its last checkpoint, or, if it is `fresh`, its start, was `age` seconds ago."""
    since, asked = NOW - age * SECOND, more.pop("shape", shape(cpu))
    started = since if fresh else since - SECOND
    running = RunningJob(name, name, queue, len(nodes), since=since, started=started, interval=DAY, **more)
    return Gang(running, asked.requests, nodes)


def seen(
    nodes: dict[str, int],
    gangs: list[Gang],
    jobs: list[Candidate],
    weights: dict[str, int] | None = None,
    level: int | None = None,
    terminating: tuple[TerminatingPod, ...] = (),
    **more: Any,
) -> Snapshot:
    """Nodes with their cores, all of it used by nobody but the gangs and what is terminating. `level`: in percent."""
    used: dict[str, dict[str, int]] = {name: {} for name in nodes}
    allocated: dict[str, dict[str, int]] = {name: {} for name in weights or {"a": 1, "b": 1}}
    for each in gangs:
        add(allocated[each.job.queue], each.takes.items())
        for node in each.nodes:
            add(used[node], each.requests)
    for pod in terminating:
        add(allocated[pod.queue], pod.requests)
        add(used[pod.node], pod.requests)
    cores = 1000 * sum(nodes.values())
    taken, slots = (sum(sums.get(resource, 0) for sums in used.values()) for resource in ("cpu", "pods"))
    lines: dict[str, list[Candidate]] = {}
    for each_job in jobs:
        lines.setdefault(each_job.queue, []).append(each_job)
    snapshot = Snapshot(
        now=NOW,
        nodes={
            name: NodeView(name, {"cpu": n * 1000, "pods": PODS}, used[name], labels={"node": name})
            for name, n in nodes.items()
        },
        candidates={queue: tuple(line) for queue, line in lines.items()},
        queues={
            name: QueueView(name, weight, allocated=allocated[name])
            for name, weight in (weights or {"a": 1, "b": 1}).items()
        },
        capacity={"cpu": cores, "pods": PODS * len(nodes)},
        requested={"cpu": taken, "pods": slots},
        scavenged={"cpu": taken, "pods": slots},
        gangs=tuple(gangs),
        terminating=terminating,
        limits=() if level is None else (LoadLimit("cpu", cores, taken, 0, level * PPM // 100),),
    )
    return replace(snapshot, **more)


def plan(snapshot: Snapshot, rules: PreemptionRules = RULES) -> AdmissionPlan:
    return plan_admissions(snapshot, rules=rules)


def victims(snapshot: Snapshot, rules: PreemptionRules = RULES) -> list[str]:
    return [preemption.key for preemption in plan(snapshot, rules).preemptions]


def four(**more: Any) -> list[Gang]:
    """Four one-core jobs of queue a on the four cores of node n, with more and more at risk."""
    return [gang(f"a{i}", "n", age=100 * i, **more) for i in range(1, 5)]


def test_of_protected_jobs_those_go_that_lose_least_however_many_they_are() -> None:
    two = [gang(name, "m", age=10, preemptible=False) for name in ("p1", "p2")]
    one = gang("big", "n", cpu=2, age=9000, preemptible=False)
    assert sorted(victims(seen({"m": 2, "n": 2}, [*two, one], [job("b", cpu=2)]))) == ["p1", "p2"]
    assert victims(
        seen({"m": 2, "n": 2}, [*two, replace(one, job=replace(one.job, preemptible=True))], [job("b", cpu=2)])
    ) == ["big"]


# --- who is left in peace ---


def test_who_came_back_is_left_in_peace_for_its_interval_where_that_is_promised() -> None:
    """Half an hour: three of them came back 10, 29 and 31 minutes ago, and the first run of the fourth is 12 minutes
    old. The period in which nobody is interrupted twice is over for all."""
    promise = replace(RULES, minimum_run=True)

    def ran(name: str, minutes: int, *, before: bool = True) -> Gang:
        found = gang(name, "n", age=minutes * 60, fresh=True)
        at = NOW - (minutes + 20) * 60 * SECOND if before else 0
        return replace(found, job=replace(found.job, interval=1800 * SECOND, interrupted_at=at))

    there = [ran("ten", 10), ran("twenty-nine", 29), ran("thirty-one", 31), ran("first", 12, before=False)]
    waiting = [job(f"b{i}") for i in range(2)]
    assert victims(seen({"n": 4}, there, waiting), promise) == ["thirty-one", "first"]
    assert victims(seen({"n": 4}, there, waiting)) == ["thirty-one", "ten"]
    assert victims(seen({"n": 4}, there[:2], waiting[:1]), promise) == [], "another queue is no ordinary pod"


# --- for whom nobody goes ---


def in_vain(futile: dict[str, bool], *jobs: str) -> list[str]:
    """For which of these waiting jobs others are interrupted."""
    waiting = [job(name) for name in jobs]
    return [p.waiting for p in plan(seen({"n": 4}, four(), waiting, futile=futile)).preemptions]


def test_nobody_is_interrupted_for_who_was_refused_since() -> None:
    assert in_vain({}, "x/1", "x/2", "y/1") == ["x/1", "x/2"]
    assert in_vain({"x/1": True}, "x/1", "x/2", "y/1") == ["x/2", "y/1"], "the job"
    assert in_vain({"x": True}, "x/1", "x/2", "y/1") == ["y/1"], "its namespace"
    assert in_vain({"x": False}, "x/1", "x/2", "y/1") == ["x/1", "y/1"], "one job is tried"
    assert in_vain({"x": False, "x/1": True}, "x/1", "x/2") == ["x/2"]


def test_how_long_a_job_is_barred() -> None:
    starts, minute = FutileStarts(), 60 * SECOND
    starts.room_made("x/1", 0)
    assert starts.barred(0) == {}, "nothing has failed"
    starts.failed("x/1", 0)
    starts.failed("x", 0)
    assert starts.barred(10 * minute - 1) == {"x/1": True, "x": True}
    assert starts.barred(10 * minute) == {"x/1": False, "x": False}
    starts.room_made("x/2", 10 * minute)
    assert starts.barred(10 * minute) == {"x/1": False, "x": True}
    assert starts.barred(30 * minute)["x"] is False
    starts.failed("x", 30 * minute)
    assert starts.barred(50 * minute - 1)["x"] is True
    starts.came_off("x/3")
    assert starts.barred(50 * minute) == {"x/1": False}
    starts.forget("x/1")
    assert starts.barred(50 * minute) == {}
    starts.failed("y", 0)
    assert starts.barred(FIRST + MOST + 1) == {}, "nobody asked for so long"


# --- the slots of pods ---


def test_a_queue_whose_small_pods_hold_every_slot_gives_some_back() -> None:
    """110 pods of a millicore each on a node of 8 CPUs."""
    tiny = Shape.of({"cpu": 1})
    gangs = [gang(f"a{i:03}", "n", age=1000 + i, shape=tiny) for i in range(PODS)]
    waiting = [job(f"b{i}") for i in range(7)]
    found = plan(seen({"n": 8}, gangs, waiting))
    assert (found.shares["a"].allocated, found.shares["a"].deserved) == (
        {"cpu": 110, "pods": 110},
        {"cpu": 4000, "pods": 55},
    )
    assert [p.key for p in found.preemptions] == ["a000", "a001", "a002", "a003"], "the CPU of b's share"


def test_a_queue_starts_no_more_pods_than_it_deserves_while_others_wait() -> None:
    found = plan(
        seen(
            {"n": 8},
            [gang("b", "n", queue="b", cpu=4)],
            [job(f"a{i}", "a", shape=Shape.of({"cpu": 1})) for i in range(60)],
        )
    )
    assert len(found.starts) == 60, "what nobody else wants is lent"
    full = [gang(f"b{i}", "n", queue="b", shape=Shape.of({"cpu": 1})) for i in range(54)]
    full += [gang(f"a{i}", "n", shape=Shape.of({"cpu": 1})) for i in range(56)]
    held = plan(seen({"n": 8}, full, [job("more", "a", shape=Shape.of({"cpu": 1}))])).held["more"]
    assert held.reason is WaitReason.QUEUE_SHARE
    assert held.message.startswith("queue a has 56m cpu, 56 pods and deserves 4 cpu, 55 pods")


# --- who goes first ---


def test_who_has_least_at_risk_goes_and_no_more_than_are_needed() -> None:
    found = plan(seen({"n": 4}, four(), [job("x"), job("y"), job("z")]))
    assert [(r.key, r.queue, r.waiting) for r in found.preemptions] == [("a1", "b", "x"), ("a2", "b", "y")]
    assert {key: hold.reason for key, hold in found.held.items()} == {
        "x": WaitReason.MAKING_ROOM,
        "y": WaitReason.MAKING_ROOM,
        "z": WaitReason.QUEUE_SHARE,
    }
    assert found.held["x"].message.startswith("queue b has 1 cpu and deserves 2 cpu")


@pytest.mark.parametrize(
    ("gangs", "first"),
    [
        pytest.param([gang("p", "n", age=900), gang("n", "n", age=1, preemptible=False)], "p", id="preemptible first"),
        pytest.param([gang("old", "n", age=50), gang("new", "n", age=40)], "new", id="least CPU time at risk"),
        pytest.param([gang("one", "n", age=50), gang("two", "n", age=40, cpu=2)], "one", id="CPU counts"),
        pytest.param([gang("big", "n", "n", age=50), gang("one", "n", age=60)], "one", id="the gang's, not the pod's"),
        pytest.param(
            [gang("fresh", "n", age=10, fresh=True), gang("saved", "n", age=60)], "saved", id="a restart costs"
        ),
        pytest.param(
            [gang("told", "n", age=999, priority=7.0), gang("guess", "n", age=8)], "told", id="as the prioritizer says"
        ),
        pytest.param([gang("v", "n", age=5), gang("u", "n", age=5)], "u", id="then by uid"),
    ],
)
def test_the_order_of_victims(gangs: list[Gang], first: str) -> None:
    rest = [
        gang(f"z{i}", "n", age=10**4) for i in range(6 - sum(len(g.nodes) * g.request("cpu") for g in gangs) // 1000)
    ]
    assert victims(seen({"n": 6}, gangs + rest, [job("x")], {"a": 1, "b": 2})) == [first]


def test_a_gang_goes_whole_and_its_other_room_is_used() -> None:
    """Rather one gang of two with little at risk than two jobs with much; the second waiting job takes what is left."""
    gangs = [gang("pair", "m", "n", age=10), gang("m1", "m", age=500), gang("n1", "n", age=600)]
    found = plan(seen({"m": 2, "n": 2}, gangs, [job("x"), job("y")]), replace(RULES, gangs=True))
    assert [r.key for r in found.preemptions] == ["pair"]
    assert {found.held["x"].reason, found.held["y"].reason} == {WaitReason.MAKING_ROOM}


# --- who is left alone ---


def test_gangs_are_left_alone_by_default() -> None:
    """As Volcano's gang plugin leaves alone jobs with `minAvailable` above 1."""
    gangs = [gang("pair", "m", "n", age=10), gang("m1", "m", age=500), gang("n1", "n", age=600)]
    waiting = [job("x"), job("y")]
    assert victims(seen({"m": 2, "n": 2}, gangs, waiting)) == ["m1", "n1"]


def test_no_queue_is_brought_below_its_share() -> None:
    gangs = [gang("a1", "n", "n", "n", "n")]
    assert victims(seen({"n": 4}, gangs, [job("x")])) == [], "the gang is all it has"
    assert victims(seen({"n": 6}, [*gangs, gang("a2", "n", age=9**5), gang("a3", "n", age=9**5)], [job("x")])) == ["a2"]


def test_a_queue_within_its_share_gives_nothing() -> None:
    gangs = [*(gang(f"a{i}", "n") for i in range(3)), gang("c1", "n", queue="c", age=1)]
    weights = {"a": 1, "b": 1, "c": 2}
    assert victims(seen({"n": 4}, gangs, [job("x")], weights)) == ["a0"]


@pytest.mark.parametrize(("ago", "expected"), [(599, "a2"), (600, "a1")])
def test_a_job_is_asked_once_a_period(ago: int, expected: str) -> None:
    gangs = [gang("a1", "n", age=1, interrupted_at=NOW - ago * SECOND), *(gang(f"a{i}", "n") for i in (2, 3, 4))]
    assert victims(seen({"n": 4}, gangs, [job("x")])) == [expected]


def test_nobody_goes_for_a_job_beyond_its_share() -> None:
    found = plan(seen({"n": 4}, four(), [job("x", cpu=3)]))
    assert found.preemptions == ()
    assert found.held["x"].reason is WaitReason.QUEUE_SHARE
    assert found.held["x"].message == (
        "queue b has 0 cpu and deserves 2 cpu: this job, which needs 3 cpu in all, would be beyond that and starts on"
        " what the other queues leave; needs 3 cpu; the largest free place is 0 cpu"
    )


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"queues": {"a": QueueView("a", allocated={"cpu": 4000})}}, id="no such queue"),
        pytest.param({"shut": LoadRule.blind("nobody measures").shut}, id="the load is not known"),
        pytest.param({"blocked": {"x": LoadRule.blind("pods remain").shut}}, id="its last pods remain"),
        pytest.param({"closed_nodes": frozenset({"n"})}, id="the node takes no new jobs"),
        pytest.param({"pending": (PendingPod("o", shape(2)), PendingPod("p", shape(2), "n"))}, id="ordinary pods"),
        pytest.param(
            {
                "queues": {
                    "a": QueueView("a", allocated={"cpu": 4000}),
                    "b": QueueView("b", state=QueueState.CLOSED),
                }
            },
            id="closed",
        ),
        pytest.param(
            {
                "queues": {
                    "a": QueueView("a", allocated={"cpu": 4000}),
                    "b": QueueView("b", quota={"cpu": 500}),
                }
            },
            id="its quota does not allow it",
        ),
    ],
)
def test_nobody_goes_where_nothing_is_gained(more: dict[str, Any]) -> None:
    assert victims(seen({"n": 4}, four(), [job("x")], **more)) == []


def test_nobody_goes_from_a_node_that_the_waiting_job_cannot_use() -> None:
    """The cheapest are on the wrong node."""
    gangs = [gang("m1", "m", age=1), gang("m2", "m", age=1), gang("n1", "n"), gang("n2", "n", age=200)]
    wants_n = job("x", shape=shape(1, {"node": "n"}))
    assert victims(seen({"m": 2, "n": 2}, gangs, [wants_n])) == ["n1"]


def test_a_gang_has_its_room_made_on_the_cheapest_nodes() -> None:
    """Two pods of two cores: one node is half free, on another small jobs are cheaper than the big ones elsewhere."""
    gangs = [
        gang("l1", "l", age=300),
        gang("m1", "m", age=10),
        gang("m2", "m", age=20),
        gang("m3", "m", age=900),
        gang("n1", "n", cpu=3, age=400),
    ]
    waiting = [job("x", cpu=2, pods=2)]
    found = plan(seen({"l": 3, "m": 3, "n": 3}, gangs, waiting, {"a": 2, "b": 5}))
    assert [r.key for r in found.preemptions] == ["m1", "m2"]


# --- room that is on its way ---


def test_room_that_is_leaving_is_promised_and_nobody_else_goes() -> None:
    terminating = (TerminatingPod("n", "a", shape(1).requests),)
    found = plan(seen({"n": 4}, four()[:3], [job("x"), job("a9", queue="a")], terminating=terminating))
    assert found.preemptions == ()
    assert found.starts == ()
    assert found.held["x"].reason is WaitReason.MAKING_ROOM


def test_promised_room_is_not_backfilled_when_the_first_of_several_has_left() -> None:
    """A gang of two waits; one victim is gone, the other still terminating: the core that is free is not for others."""
    terminating = (TerminatingPod("m", "a", shape(1).requests),)
    gangs = [gang("a1", "m", age=1), gang("a2", "n", age=1)]
    waiting = [job("x", pods=2), job("a9", queue="a", interrupted_count=5)]
    found = plan(seen({"m": 2, "n": 2}, gangs, waiting, terminating=terminating))
    assert found.starts == ()
    assert found.preemptions == ()
    assert found.held["x"].reason is WaitReason.MAKING_ROOM
    later = plan(seen({"m": 2, "n": 2}, gangs, waiting))
    assert [start.key for start in later.starts] == ["x"]


def test_what_is_beyond_a_promise_is_free() -> None:
    terminating = (TerminatingPod("n", "a", shape(1).requests),)
    found = plan(
        seen(
            {"n": 4, "m": 1},
            four()[:3],
            [job("x", shape=shape(1, {"node": "n"})), job("y", "a")],
            terminating=terminating,
        )
    )
    assert [start.key for start in found.starts] == ["y"], "backfill of a: nobody under its share has use for node m"


def test_capacity_of_a_promise_is_taken_once() -> None:
    """All pods have left, and only the measured load still shows them: eight cores are free, of which x gets five."""
    measured = LoadLimit("cpu", 8000, 0, 60 * PPM // 100, 90 * PPM // 100)
    waiting = [job("x", cpu=5), job("y", shape=Shape.of({"cpu": 300}))]
    found = plan(seen({"n": 8}, [], waiting, limits=(measured,), recently_terminated={"cpu": 3000}))
    assert found.held["x"].reason is WaitReason.MAKING_ROOM
    assert [start.key for start in found.starts] == ["y"]


# --- the load ---


def test_victims_make_up_for_the_load_where_there_is_room_but_no_more() -> None:
    """Six of eight cores are the level; they are taken."""
    gangs = [gang(f"a{i}", "n", age=10 + i) for i in range(5)]
    found = plan(seen({"n": 8}, gangs, [job("x", cpu=2)], level=75))
    assert [r.key for r in found.preemptions] == ["a0", "a1"]


def test_preemption_does_not_bring_the_load_down() -> None:
    """Ordinary pods took what was free, and more: whoever has to go for that, it is not asked for here."""
    gangs = [gang(f"a{i}", "n", age=10 + i) for i in range(5)]
    crowded = seen({"n": 8}, gangs, [job("x")], level=75)
    for requested, expected in ((6_000, ["a0", "a1"]), (8_000, [])):
        over = replace(crowded.limits[0], requested=requested)
        assert victims(replace(crowded, limits=(over,), requested={"cpu": requested})) == expected


def test_a_measured_load_that_still_shows_the_victims_asks_for_no_more() -> None:
    gangs = [gang(f"a{i}", "n") for i in range(5)]
    measured = LoadLimit("cpu", 8000, 0, 740_000, 750_000)
    waiting = [job("x"), job("a9", "a")]
    later = seen({"n": 8}, gangs, waiting, limits=(measured,), recently_terminated={"cpu": 1500})
    found = plan(later)
    assert found.preemptions == ()
    assert found.starts == ()
    assert found.held["x"].reason is WaitReason.MAKING_ROOM
    assert victims(replace(later, recently_terminated={})) == ["a0"]


def measured(gangs: list[Gang], jobs: list[Candidate], used: float, **more: Any) -> Snapshot:
    """Twenty cores, at their level of 80 % to the last millicore. The gangs use this share of what they asked for."""
    limit = LoadLimit("cpu", 20_000, 0, 799_999, 800_000)
    shown = Shown(NOW // SECOND - 20, {"cpu": round(used * PPM)})
    return seen({"n": 20}, gangs, jobs, **{"limits": (limit,), "shown": shown, **more})


def test_nobody_goes_where_the_measured_load_would_not_fall_far_enough() -> None:
    """Ten donors use a tenth of a core each. To make room for a core all ten would have to go, and their queue deserves
    five; one after the other they went, and nobody started."""
    donors = [gang(f"a{i}", "n", age=900 + i) for i in range(10)]
    assert victims(measured(donors, [job("x")], 0.1)) == []


def test_as_many_go_as_the_measured_load_takes() -> None:
    donors = [gang(f"a{i}", "n", age=900 + i) for i in range(10)]
    found = plan(measured(donors, [job("x")], 0.5))
    assert [one.key for one in found.preemptions] == ["a0", "a1"]
    assert found.held["x"].reason is WaitReason.MAKING_ROOM
    stopping = (TerminatingPod("n", "a", shape(1).requests),) * 2
    later = plan(measured(donors[2:], [job("x"), job("y", queue="a")], 0.5, terminating=stopping))
    assert (later.preemptions, later.starts) == ((), ()), "what is on its way out is enough, and is kept for x"
    gone = plan(measured(donors[2:], [job("x"), job("y", queue="a")], 0.5, recently_terminated={"cpu": 2000}))
    assert (gone.preemptions, gone.starts) == ((), ())
    halfway = plan(measured(donors[1:], [job("x")], 0.5, terminating=stopping[:1]))
    assert [one.key for one in halfway.preemptions] == ["a1"], "one of two is not enough"


def test_so_many_are_tried_for_the_load_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many jobs that use next to nothing none comes to anything; other ways to begin are not tried for that."""
    donors = [gang(f"a{i}", "n", age=900 + i) for i in range(10)]
    for most, expected in ((2, ["a0", "a1"]), (1, [])):
        monkeypatch.setattr(victim_search, "MAX_RELIEVING", most)
        assert victims(measured(donors, [job("x"), job("y", cpu=2)], 0.5)) == expected


def test_who_has_just_started_counts_with_requests_as_in_the_load() -> None:
    old = [gang(f"a{i}", "n", age=900 + i) for i in range(9)]
    for age in (5, 200):
        assert victims(measured([*old, gang("new", "n", age=age, cpu=1)], [job("x")], 0.1)) == ["new"]


def test_who_runs_on_reclaimed_capacity_brings_no_measured_load_down() -> None:
    """Its CPU gives way by itself, so it is in no load that anybody is kept out by."""
    small = Shape.of({RESOURCE_RECLAIMED_CPU: 1000})
    scavenging = [replace(gang(f"r{i}", "n", age=900), requests=small.requests) for i in range(5)]
    donors = [gang(f"a{i}", "n", age=1000) for i in range(5)]
    assert victims(measured([*scavenging, *donors], [job("x")], 1.0)) == ["a0"]


def test_what_a_pod_leaves_of_the_load_is_read_from_the_levels() -> None:
    levels = {r: Level(50.0, 80.0, used=12.5 if r == "cpu" else None) for r in ("cpu", "memory")}
    rule = LoadRule.published(levels, observed_at=NOW, now=NOW, period_seconds=30, unseen_since=NOW - 15 * SECOND)
    asked = Shape.of({"cpu": 2000, "memory": 8}).requests
    shown = Shown.under(rule)
    assert shown.of(asked, NOW // SECOND - 1000) == {"cpu": 250, "memory": 8}
    assert shown.of(asked, NOW // SECOND - 314) == {"cpu": 2000, "memory": 8}, "in its first minutes"
    assert shown.of(asked, NOW // SECOND)["cpu"] == 2000, "not in the figures yet"
    assert Shown.under(LoadRule.fixed()).of(asked, 0)["cpu"] == 2000


# --- backfill ---


def test_a_queue_alone_may_use_everything() -> None:
    found = plan(seen({"n": 4}, [], [job(f"a{i}", "a") for i in range(5)]))
    assert len(found.starts) == 4


def test_shares_come_first_and_what_is_left_is_lent_to_the_most_under_served() -> None:
    jobs = [job(f"a{i}", "a") for i in range(8)] + [job("b0"), *(job(f"c{i}", "c") for i in range(8))]
    found = plan(seen({"n": 10}, [], jobs, {"a": 1, "b": 2, "c": 2}))
    by_queue = [start.candidate.queue for start in found.starts]
    assert sorted(by_queue) == ["a"] * 3 + ["b"] + ["c"] * 6
    assert sorted(by_queue[:7]) == ["a"] * 2 + ["b"] + ["c"] * 4, "a and c are at their shares"


def test_a_smaller_job_behind_one_beyond_the_share_goes_first() -> None:
    found = plan(seen({"n": 4}, [], [job("big", "a", cpu=3), job("small", "a"), job("b0"), job("b1")]))
    assert sorted(start.key for start in found.starts) == ["b0", "b1", "small"]


def test_jobs_of_namespaces_that_a_queue_does_not_select_are_no_demand_of_it() -> None:
    """Else anybody could have what others run taken away, and the queue's own jobs would pay for it."""
    waiting = seen({"n": 4}, four(), [job("x")])
    [name] = waiting.candidates
    queues = {**waiting.queues, name: replace(waiting.queues[name], namespaces=frozenset({"elsewhere"}))}
    assert plan(waiting).preemptions != ()
    found = plan(replace(waiting, queues=queues))
    assert found.preemptions == ()
    assert found.shares["a"].deserved == {"cpu": 4000, "pods": PODS}


def test_a_queue_whose_jobs_can_never_start_has_no_demand() -> None:
    found = plan(seen({"n": 4}, four(), [job("x", cpu=99)]))
    assert found.preemptions == ()
    assert found.shares["a"].deserved == {"cpu": 4000, "pods": PODS}
