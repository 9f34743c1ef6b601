"""What nodes with a level of their own have left, and where a start may go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, plan_admissions
from scavenger_admitter.core.admission.load import PPM, Level, LoadRule
from scavenger_admitter.core.admission.placement.headroom import ANYWHERE, MOST_NAMED, Headroom, Target
from scavenger_admitter.core.admission.placement.inputs import NodeView, PendingPod
from scavenger_admitter.core.admission.running import Gang, RunningJob, TerminatingPod
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.shown import Shown
from scavenger_admitter.core.admission.snapshot import Candidate, QueueView, Reservation, Snapshot
from scavenger_admitter.core.admission.view.object_facts import NOT_STARTED, PodFacts
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_admitter.core.manifest import job_manifest, target_of
from scavenger_api import names
from scavenger_api.names import RESOURCE_RECLAIMED_CPU
from scavenger_api.reasons import WaitReason
from scavenger_api.reclaimed import placed_by
from scavenger_kube.kinds import Node
from scavenger_kube.resources import CONFIGMAPS, JOBS, PODS
from scavenger_testing.builders import configmap_dict, node_dict

from . import builders as b
from .harness import NS, empty_harness

GI = 1 << 30
SECOND = 1_000_000
NOW = 1_800_000_000 * SECOND
EACH = {"cpu": 1000, "memory": GI}


def node(name: str, cpu: int = 10, used: int = 0, **more: Any) -> NodeView:
    return NodeView(
        name,
        {"cpu": cpu * 1000, "memory": 100 * GI, "pods": 110},
        {"cpu": used * 1000, "pods": 1},
        **more,
    )


def shape(cpu: int = 1) -> Shape:
    return Shape.of({"cpu": cpu * 1000, "memory": GI})


def job(name: str = "job", cpu: int = 1, pods: int = 1) -> Candidate:
    return Candidate(name, name, "default", shape(cpu), pods)


def plan(nodes: list[NodeView], jobs: list[Candidate], left: Mapping[str, int], **more: Any) -> AdmissionPlan:
    """`left`: percent of the CPU of nodes up to their levels; of memory there is enough."""
    headroom = Headroom({name: (10 * points, 900) for name, points in left.items()}, more.pop("unseen", {}))
    queues = more.pop("queues", {"default": QueueView("default")})
    line = {"default": tuple(jobs)}
    seen = Snapshot(
        now=NOW, nodes={n.name: n for n in nodes}, candidates=line, queues=queues, headroom=headroom, **more
    )
    return plan_admissions(seen)


def places(found: AdmissionPlan) -> dict[str, tuple[str, ...]]:
    return {start.key: start.nodes for start in found.starts}


# --- how much ---


def test_a_job_gets_the_least_of_what_requests_leave_and_of_the_headroom() -> None:
    """By requests `busy` is the emptier one, and the scheduler's choice."""
    nodes = [node("busy"), node("idle", used=2)]
    found = plan(nodes, [job(f"j{i}", 2) for i in range(6)], {"busy": 30, "idle": 70})
    assert sorted(nodes for (nodes,) in places(found).values()) == ["busy", "idle", "idle", "idle"]
    assert found.held["j5"].reason is WaitReason.NO_HEADROOM
    assert "no node has that much left up to its own level (most: 1 cpu" in found.held["j5"].message
    assert found.held["j5"].message.endswith("on node busy)")
    full = plan([node("busy"), node("idle", used=9)], [job("j", 2)], {"busy": 10, "idle": 70})
    assert full.held["j"].reason is WaitReason.NO_HEADROOM, "by requests there is no room where there is headroom"


def test_whether_it_is_requests_or_headroom_that_is_missing() -> None:
    """On `busy` there is room by requests and no headroom, on `full` it is the other way round."""
    nodes, left = [node("busy"), node("full", used=9)], {"busy": 15, "full": 70}

    def why(waits: Candidate, left: Mapping[str, int], **more: Any) -> tuple[str, str]:
        held = plan(nodes, [waits], left, **more).held[waits.key]
        return held.reason, held.message

    reason, message = why(job(cpu=2), left)
    assert reason == WaitReason.NO_HEADROOM
    assert message.endswith("(most: 1500m cpu, 90Gi memory on node busy)")
    assert why(job(cpu=11), {"busy": 15})[0] == WaitReason.LARGER_THAN_ANY_NODE
    assert why(job(cpu=2, pods=11), {"busy": 90, "full": 0})[0] == WaitReason.LARGER_THAN_CLUSTER
    assert why(job(cpu=2, pods=5), {"busy": 50, "full": 0})[0] == WaitReason.NO_PLACE, (
        "there is a place for two of them"
    )
    reason, message = why(job(cpu=2), {"full": 70}, closed_nodes=frozenset({"busy"}))
    assert reason == WaitReason.NO_HEADROOM
    assert "most: 1 cpu" in message


def test_a_node_of_which_nothing_is_said_is_bounded_by_its_requests() -> None:
    assert places(plan([node("busy"), node("new")], [job(cpu=9)], {"busy": 30})) == {"job": ("new",)}


def test_memory_bounds_as_well() -> None:
    headroom = Headroom({"n": (900, 5)})
    seen = Snapshot(
        nodes={"n": node("n")},
        candidates={"default": (job(),)},
        queues={"default": QueueView("default")},
        headroom=headroom,
    )
    assert plan_admissions(seen).starts == (), "half a GiB is left"


def test_a_gang_starts_whole_or_not_at_all() -> None:
    nodes = [node("a"), node("b")]
    assert places(plan(nodes, [job(cpu=2, pods=3)], {"a": 45, "b": 25})) == {"job": ("a", "b", "a")}
    found = plan(nodes, [job(cpu=2, pods=4)], {"a": 45, "b": 25})
    assert found.starts == ()
    assert "there is capacity for 3 now" in found.held["job"].message


def test_what_the_figures_do_not_know_yet_comes_off() -> None:
    nodes = [node("a")]
    assert places(plan(nodes, [job(cpu=2)], {"a": 30})) == {"job": ("a",)}
    assert places(plan(nodes, [job(cpu=2)], {"a": 30}, unseen={"a": {"cpu": 2000}})) == {}
    under_way = (Reservation("other", shape(2), 1, ("a",)),)
    assert places(plan(nodes, [job(cpu=2)], {"a": 30}, reservations=under_way)) == {}, "not bound yet"


def test_ordinary_pods_do_not_ask_for_headroom_and_take_it() -> None:
    nodes = [node("a"), node("b", used=1)]
    pending = (PendingPod("p", shape(3)),)
    found = plan(nodes, [job("two", 2), job("one", 1)], {"a": 20, "b": 20}, pending=pending)
    assert places(found) == {"two": ("b",)}, "it goes to a, and leaves nothing there"


def test_what_is_leaving_is_promised_not_given() -> None:
    leaving = TerminatingPod("a", "default", shape(4).requests)
    found = plan([node("a", used=4)], [job(cpu=3)], {"a": 0}, terminating=(leaving,))
    assert (found.starts, found.unserved) == ((), True)
    assert not plan([node("a", used=4)], [job(cpu=5)], {"a": 0}, terminating=(leaving,)).unserved


def test_nobody_goes_for_room_that_could_not_be_used() -> None:
    """Fair-share preemption: the donor frees requests on a node whose use leaves nothing all the same."""
    gangs = tuple(Gang(RunningJob(f"g{i}", f"g{i}", "donor"), shape(2).requests, ("a",)) for i in range(5))
    more: dict[str, Any] = {
        "gangs": gangs,
        "capacity": {"cpu": 10_000, "memory": 100 * GI},
        "requested": {"cpu": 10_000, "memory": 5 * GI},
        "scavenged": {"cpu": 10_000, "memory": 5 * GI},
        "queues": {
            "default": QueueView("default"),
            "donor": QueueView("donor", allocated={"cpu": 10_000, "memory": 5 * GI}),
        },
    }
    used = [node("a", used=10)]
    assert plan(used, [job(cpu=2)], {}, **more).preemptions, "by requests alone"
    assert len(plan(used, [job(cpu=2)], {"a": 0}, **more).preemptions) == 1
    over = {"a": {"cpu": 8000}}
    assert len(plan(used, [job(cpu=2)], {"a": 0}, unseen=over, **more).preemptions) == 0


def test_a_victim_frees_of_the_headroom_what_it_uses() -> None:
    """Ten donors of a core on a node at its level. Where they use all of it one goes for a job of a core, where they
    use half of it two; where it is a tenth all ten would have to go, and their queue deserves five."""
    gangs = tuple(Gang(RunningJob(f"g{i}", f"g{i}", "donor", since=i), shape(1).requests, ("a",)) for i in range(10))
    held = {"cpu": 10_000, "memory": 10 * GI}
    more: dict[str, Any] = {
        "capacity": {"cpu": 20_000, "memory": 100 * GI},
        "requested": {"cpu": 20_000, "memory": 10 * GI},
        "scavenged": held,
        "queues": {"default": QueueView("default"), "donor": QueueView("donor", allocated=held)},
    }
    crowded = [node("a", cpu=20, used=10)]
    for used, goes in ((1.0, 1), (0.5, 2), (0.1, 0)):
        shown = Shown(NOW // SECOND, {"cpu": round(used * PPM)})
        found = plan(crowded, [job()], {"a": 0}, gangs=gangs, shown=shown, **more)
        assert len(found.preemptions) == goes, used
        assert (found.held["job"].reason is WaitReason.MAKING_ROOM) is (goes > 0)
    half = Shown(NOW // SECOND, {"cpu": PPM // 2})
    leaving = (TerminatingPod("a", "donor", shape(1).requests),) * 2
    later = plan(crowded, [job()], {"a": 0}, gangs=gangs[2:], shown=half, terminating=leaving, **more)
    assert (later.preemptions, later.unserved) == ((), True), "what is on its way out is enough"
    one = plan(crowded, [job()], {"a": 0}, gangs=gangs[1:], shown=half, terminating=leaving[:1], **more)
    assert len(one.preemptions) == 1, "half of what it takes"


# --- the state ---


def rule(left: Mapping[str, tuple[int, int]], observed: int = NOW, **more: Any) -> LoadRule:
    levels = {name: Level(load=10, admission=80) for name in ("cpu", "memory")}
    return LoadRule.published(levels, observed_at=observed, now=NOW, period_seconds=60, headroom=left, **more)


def bound(key: str, started: int, **more: Any) -> PodFacts:
    values: dict[str, Any] = {"node": "n1", "requests": shape(2).requests, "ended": False, "job": "ns/job"}
    return PodFacts(key, key, started=started, **{**values, **more})


def test_the_state_knows_who_started_since_the_figures() -> None:
    state = ClusterState()
    second = NOW // SECOND
    state.apply_pod_facts(bound("before", second - 1))
    state.apply_pod_facts(bound("since", second))
    state.apply_pod_facts(bound("starting", NOT_STARTED))
    state.apply_pod_facts(bound("long ago", second - 600))
    state.apply_pod_facts(bound("ordinary", second, job=""))
    state.apply_pod_facts(bound("ended", second, ended=True))
    published = rule({"n1": (300, 400)})

    def unseen(seen: LoadRule = published) -> Mapping[str, Mapping[str, int]]:
        return state.snapshot(now=NOW, rule=seen).headroom.unseen

    assert state.snapshot(now=NOW, rule=published).headroom.left == {"n1": (300, 400)}
    assert unseen() == {"n1": {"cpu": 4000, "memory": 2 * GI}}
    assert unseen(rule({})) == {}, "nobody asks"
    assert unseen(rule({"n1": (0, 0)}, NOW - SECOND)) == {"n1": {"cpu": 6000, "memory": 3 * GI}}, "older figures"
    state.apply_pod_facts(bound("starting", second - 1))
    state.delete_pod("since")
    assert unseen() == {}


@pytest.mark.parametrize("age", [900, 200], ids=["long ago", "in its first minutes"])
@pytest.mark.parametrize("left", [{"n1": (50, 900)}, {}], ids=["level of the node", "level of the cluster"])
def test_nobody_else_goes_until_the_figures_know_who_has_gone(left: Mapping[str, tuple[int, int]], age: int) -> None:
    """A victim has gone, the figures still show it, and the job that it went for waits for them: for the next figures,
    and not for another victim."""
    state, second = ClusterState(), NOW // SECOND
    state.apply_node(msgspec.convert(node_dict("n1", cpu="20", memory="100Gi"), Node))
    state.apply_queue(QueueView("donor"))
    for i in range(8):
        key, started = f"ns/d{i}", second - age - i
        state.apply_pod_facts(bound(key, started, job=key, queue="donor", run=key))
        state.running.apply(RunningJob(key, key, "donor", since=started * SECOND, started=started * SECOND))
    state.apply_candidate(Candidate("ns/waits", "waits", "default", shape(2)))
    load = 60 if left else 75
    levels = {"cpu": Level(load, admission=80, used=25), "memory": Level(load=10, admission=80)}
    seen = LoadRule.published(levels, observed_at=NOW, now=NOW, period_seconds=60, headroom=left)

    def planned() -> AdmissionPlan:
        return plan_admissions(state.snapshot(now=NOW, rule=seen))

    preempted = planned().preemptions
    assert preempted
    for one in preempted:
        state.running.interrupt(one.key, NOW, one.gang.counted, 1)
        state.delete_pod(one.key)
    after = planned()
    assert (after.preemptions, after.starts) == ((), ())
    assert after.held["ns/waits"].reason is WaitReason.MAKING_ROOM


def test_reclaimed_cpu_that_has_gone_is_no_room_under_the_level() -> None:
    """It was in no load that anybody is kept out by."""
    state, second = ClusterState(), NOW // SECOND
    state.apply_node(msgspec.convert(node_dict("n1", cpu="20", memory="100Gi"), Node))
    reclaimed = Shape.of(placed_by({"cpu": 8000, "memory": GI}))
    state.apply_pod_facts(bound("ns/r", second - 900, requests=reclaimed.requests))
    state.apply_candidate(Candidate("ns/waits", "waits", "default", shape(2)))
    levels = {"cpu": Level(load=75, admission=80), "memory": Level(load=10, admission=80)}
    seen = LoadRule.published(levels, observed_at=NOW, now=NOW, period_seconds=60)
    state.snapshot(now=NOW, rule=seen)
    state.delete_pod("ns/r")
    assert not plan_admissions(state.snapshot(now=NOW, rule=seen)).unserved, "nothing is promised for it"


def test_reclaimed_cpu_takes_no_headroom_and_asks_for_none() -> None:
    state, second = ClusterState(), NOW // SECOND
    reclaimed = Shape.of(placed_by({"cpu": 2000, "memory": GI}))
    state.apply_pod_facts(bound("pod", second, requests=reclaimed.requests))
    assert state.snapshot(now=NOW, rule=rule({"n1": (0, 0)})).headroom.unseen == {"n1": {"memory": GI}}
    offering = NodeView("n", {**dict(reclaimed.requests), "cpu": 8000, "memory": 8 * GI, "pods": 110})
    waits = Candidate("job", "job", "default", reclaimed)
    assert places(plan([offering], [waits], {"n": 0})) == {"job": ("n",)}, "it is bounded by what is offered"


# --- where to ---


def schedule(spec: Mapping[str, Any], free: Mapping[str, int], needs: int) -> str | None:
    """kube-scheduler, as far as it matters: of the nodes that the affinity allows and that show enough, the one with
    most left."""
    required = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")

    def holds(field: Mapping[str, Any], name: str) -> bool:
        assert field["key"] == "metadata.name"
        assert len(field["values"]) == 1, "the API server refuses more"
        return (name in field["values"]) is (field["operator"] == "In")

    def allows(name: str) -> bool:
        terms = required["nodeSelectorTerms"] if required else [{"matchFields": []}]
        assert terms, "the API server refuses none"
        return any(all(holds(field, name) for field in term["matchFields"]) for term in terms)

    fitting = [name for name, amount in free.items() if amount >= needs and allows(name)]
    return max(fitting, key=lambda name: (free[name], name), default=None)


def spec_of(target: Target, **spec: Any) -> dict[str, Any]:
    made = job_manifest(b.job(spec=spec), restarts=0, run="run", max_grace_seconds=30, target=target)
    found: dict[str, Any] = made["spec"]["template"]["spec"]
    return found


def test_without_levels_of_nodes_the_scheduler_chooses() -> None:
    (start,) = plan([node("a"), node("b")], [job()], {}).starts
    assert start.target == ANYWHERE
    assert "affinity" not in spec_of(start.target)


def test_a_start_goes_to_the_node_that_has_the_headroom() -> None:
    nodes = [node("busy"), node("idle", used=2)]
    (start,) = plan(nodes, [job(cpu=2)], {"busy": 10, "idle": 70}).starts
    free = {"busy": 10, "idle": 8}
    assert schedule(spec_of(ANYWHERE), free, 2) == "busy", "as it was"
    assert schedule(spec_of(start.target), free, 2) == "idle"


def test_a_starved_job_starts_elsewhere() -> None:
    """A crowded node goes on showing what is placed on it, so when a starved job has left, its place looks free; the
    regulator takes it away a period later. By then the job is back."""
    reclaimed = Shape.of(placed_by({"cpu": 2000}))

    def offering(name: str, offers: int, placed: int) -> Node:
        amounts = {RESOURCE_RECLAIMED_CPU: str(offers * 1000)}
        seen = node_dict(name, cpu="16", memory="64Gi")
        seen["status"]["allocatable"] |= amounts
        return msgspec.convert(seen, Node)

    state = ClusterState()
    for name, shown in (("crowded", 8), ("room", 4)):
        state.apply_node(offering(name, shown, 0))
    for name, count in (("crowded", 2), ("room", 1)):
        for i in range(count):
            state.apply_pod_facts(bound(f"{name}-{i}", 0, node=name, requests=reclaimed.requests))
    state.apply_candidate(Candidate("ns/starved", "starved", "default", reclaimed))
    seen = state.snapshot(now=NOW, rule=rule({}, crowded_nodes={"crowded": 3000}))
    (start,) = plan_admissions(seen).starts
    free = {"crowded": 4000, "room": 2000}
    assert start.nodes == ("room",)
    assert schedule(spec_of(ANYWHERE), free, 2000) == "crowded", "as it was"
    assert schedule(spec_of(start.target), free, 2000) == "room"
    assert schedule(spec_of(start.target), {"crowded": 4000, "room": 0}, 2000) is None
    guaranteed = Headroom(crowded=frozenset({"crowded"})).target(shape(), ("room",), frozenset())
    assert guaranteed == ANYWHERE, "crowded with others than these"


@pytest.mark.parametrize(
    ("granted", "closed", "expected"),
    [
        ((), (), Target()),
        (("b", "a", "b"), (), Target(("a", "b"))),
        (("a",), ("x",), Target(("a",), ("x",))),
        ([f"n{i}" for i in range(MOST_NAMED + 1)], ("x",), Target((), ("x",))),
        (("a",), [f"n{i}" for i in range(MOST_NAMED + 1)], Target(("a",), ())),
    ],
)
def test_which_nodes_are_named(granted: list[str], closed: list[str], expected: Target) -> None:
    assert Headroom({"a": (1, 1)}).target(shape(), granted, frozenset(closed)) == expected


def test_volumes_and_what_did_not_come_off_are_not_pinned() -> None:
    granted = Target(("a",), ("x",))
    claim = {"persistentVolumeClaims": [{"name": "data", "mountPath": "/data"}]}
    assert target_of(b.job(), granted, 0) == granted
    assert target_of(b.job(), granted, 1) == Target((), ("x",))
    assert target_of(b.job(spec=claim), granted, 0) == Target((), ("x",))
    free = {"a": 3, "b": 5, "x": 9}
    assert schedule(spec_of(granted), free, 2) == "a"
    assert schedule(spec_of(granted.unpinned()), free, 2) == "b", "not where there is no room"
    assert "affinity" not in spec_of(Target().unpinned())


# --- the whole way ---


async def test_the_job_is_bound_to_the_granted_node_until_that_does_not_come_off() -> None:
    async with empty_harness() as c:
        for name in ("busy", "full", "idle"):
            c.node(name, cpu="10", memory="100Gi")
        levels = {"load": 30, "lower": 70, "admission": 80, "upper": 85}
        data = {"state": "Filling", "admit": "true", "preemptiblePercentage": "33", "periodSeconds": "3600"}
        data |= {f"{kind}.{resource}": str(value) for resource in ("cpu", "memory") for kind, value in levels.items()}
        data |= {"observedAt": c.stamp(), "nodeHeadroom": "busy=100/900 idle=700/900", "closedNodes": "full"}
        c.api.put(CONFIGMAPS, configmap_dict(names.LEVELS_CONFIGMAP, data, namespace=names.SYSTEM_NAMESPACE))
        c.kubelet = False
        c.admitter(unschedulable_after=5)
        c.submit("job", cpu="2")

        def spec() -> dict[str, Any]:
            found: dict[str, Any] = c.api.list(JOBS)[0]["spec"]["template"]["spec"]
            return found

        await c.until(lambda: c.pods("job"))
        free = {"busy": 10, "full": 10, "idle": 9}
        assert schedule(spec(), free, 2) == "idle"
        (pod,) = c.pods("job")

        def nowhere(obj: dict[str, Any]) -> None:
            why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "somebody took it"}
            obj["status"] = {"phase": "Pending", "conditions": [{**why, "lastTransitionTime": c.stamp()}]}

        c.api.edit(PODS, NS, pod["metadata"]["name"], nowhere)
        await c.until(lambda: c.jobs_ever("job") == 2)
        assert schedule(spec(), free, 2) == "busy", "the scheduler may know better"
        assert schedule(spec(), {"full": 10}, 2) is None, "but there nothing is left"
