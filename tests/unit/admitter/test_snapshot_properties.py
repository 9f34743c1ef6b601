"""Whatever happens in whatever order: the sums kept are the sums counted anew."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_admitter.load import Level, LoadRule
from scavenger_admitter.shape import Shape
from scavenger_admitter.snapshot import Candidate, ClusterState, QueueView, Snapshot
from scavenger_api.names import ANNOTATION_RUN, LABEL_JOB, LABEL_QUEUE
from scavenger_runtime.kinds import (
    Condition,
    Container,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Resources,
    Taint,
)

NOW = 1_800_000_000_000_000
NAMES = ("a", "b", "c", "d")
NODES = ("n1", "n2", "n3")


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    job = draw(st.sampled_from(("", "", "j1", "j2")))
    labels = {LABEL_JOB: job, LABEL_QUEUE: draw(st.sampled_from(("default", "q")))} if job else {}
    node = draw(st.sampled_from(("", *NODES)))
    gated = (Condition(type="PodScheduled", status="False", reason="SchedulingGated"),)
    return Pod(
        metadata=ObjectMeta(
            name=draw(st.sampled_from(NAMES)),
            namespace="ns",
            uid=draw(st.sampled_from(("1", "2"))),
            labels=labels,
            annotations={ANNOTATION_RUN: draw(st.sampled_from(("r1", "r2")))} if job else {},
            deletion_timestamp=draw(st.sampled_from((None, None, "2027-01-15T08:00:00Z"))),
        ),
        spec=PodSpec(
            node_name=node,
            containers=(
                Container(resources=Resources(requests={"cpu": draw(st.sampled_from(("1", "250m", "0")))})),
            ),
        ),
        status=PodStatus(
            phase=draw(st.sampled_from(("Pending", "Running", "Running", "Succeeded", "Failed", "Unknown"))),
            start_time=draw(st.sampled_from((None, "2027-01-15T08:00:00Z", "2027-01-15T07:59:00Z"))),
            nominated_node_name=draw(st.sampled_from(("", "n1"))),
            conditions=draw(st.sampled_from(((), (), gated))),
        ),
    )


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    taint = Taint(key=draw(st.sampled_from(("x", "fine"))), effect="NoSchedule")
    return Node(
        metadata=ObjectMeta(name=draw(st.sampled_from(NODES))),
        spec=NodeSpec(
            unschedulable=draw(st.booleans()),
            taints=draw(st.sampled_from(((), (), (taint,)))),
        ),
        status=NodeStatus(
            allocatable={"cpu": draw(st.sampled_from(("4", "8"))), "pods": "10"},
            conditions=(Condition(type="Ready", status=draw(st.sampled_from(("True", "True", "Unknown")))),),
        ),
    )


@st.composite
def candidates(draw: st.DrawFn) -> Candidate:
    name = draw(st.sampled_from(("j1", "j2", "j3")))
    return Candidate(
        key=f"ns/{name}",
        uid=name,
        queue=draw(st.sampled_from(("default", "q", "missing"))),
        shape=Shape.of({"cpu": 1000}),
        interrupted_count=draw(st.integers(0, 2)),
        queued_at=draw(st.integers(0, 3)),
    )


@dataclass(frozen=True)
class Gone:
    pod: str = ""
    node: str = ""
    candidate: str = ""


Event = Pod | Node | Candidate | Gone


def events() -> st.SearchStrategy[list[Event]]:
    gone: st.SearchStrategy[Event] = st.one_of(
        st.sampled_from(NAMES).map(lambda name: Gone(pod=f"ns/{name}")),
        st.sampled_from(NODES).map(lambda name: Gone(node=name)),
        st.sampled_from(("j1", "j2", "j3")).map(lambda name: Gone(candidate=f"ns/{name}")),
    )
    return st.lists(st.one_of(pods(), pods(), nodes(), candidates(), gone), max_size=40)


@dataclass
class World:
    """What exists now: the plain truth to compare with."""

    pods: dict[str, Pod] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    candidates: dict[str, Candidate] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        match event:
            case Pod():
                self.pods[event.metadata.key] = event
            case Node():
                self.nodes[event.metadata.name] = event
            case Candidate():
                self.candidates[event.key] = event
            case Gone():
                self.pods.pop(event.pod, None)
                self.nodes.pop(event.node, None)
                self.candidates.pop(event.candidate, None)

    def rebuilt(self) -> ClusterState:
        state = fresh()
        left: list[Event] = [*self.candidates.values(), *self.pods.values(), *self.nodes.values()]
        for event in left:
            apply(state, event)
        return state


def fresh() -> ClusterState:
    state = ClusterState(tolerated_taints=["fine"])
    state.apply_queue(QueueView("q", weight=2))
    return state


def apply(state: ClusterState, event: Event) -> None:
    match event:
        case Pod():
            state.apply_pod(event)
        case Node():
            state.apply_node(event)
        case Candidate():
            state.apply_candidate(event)
        case Gone():
            state.delete_pod(event.pod)
            state.delete_node(event.node)
            state.delete_candidate(event.candidate)


def both(state: ClusterState) -> tuple[Snapshot, Snapshot]:
    level = Level(load=10, admission=90)
    rule = LoadRule.published(
        {"cpu": level, "memory": level}, observed_at=NOW - 30_000_000, now=NOW, period_seconds=60
    )
    return state.snapshot(now=NOW, rule=LoadRule.fixed()), state.snapshot(now=NOW, rule=rule)


@settings(max_examples=300, deadline=None)
@given(events(), st.integers(1, 7))
def test_sums_kept_are_sums_counted_anew(happened: list[Event], every: int) -> None:
    state, world = fresh(), World()
    for number, event in enumerate(happened):
        apply(state, event)
        world.apply(event)
        if number % every == 0:
            both(state)  # taking a snapshot in between must not matter
    assert both(state) == both(world.rebuilt())


@settings(max_examples=200, deadline=None)
@given(events())
def test_nothing_is_left_when_all_is_gone(happened: list[Event]) -> None:
    state = fresh()
    state.assume("ns/j1", "r1", Shape.of({"cpu": 1000}), 2)
    for event in happened:
        apply(state, event)
    for name in NAMES:
        state.delete_pod(f"ns/{name}")
    for name in NODES:
        state.delete_node(name)
    for name in ("j1", "j2", "j3"):
        state.delete_candidate(f"ns/{name}")
    state.forget("ns/j1")
    assert both(state) == both(fresh())


@settings(max_examples=200, deadline=None)
@given(events(), st.integers(1, 3))
def test_a_start_holds_room_for_exactly_the_pods_still_to_come(
    happened: list[Event], parallelism: int
) -> None:
    """Held: parallelism less the pods of the run ever seen bound, ended or deleted; over when none are."""
    state, known = fresh(), dict[str, Pod]()
    shape = Shape.of({"cpu": 7000})
    state.assume("ns/j1", "r1", shape, parallelism, nodes=["n1"] * parallelism)
    done: set[str] = set()

    def settle(pod: Pod | None) -> None:
        if pod and (pod.metadata.labels.get(LABEL_JOB), pod.metadata.annotations.get(ANNOTATION_RUN)) == (
            "j1",
            "r1",
        ):
            done.add(pod.metadata.uid)

    for event in happened:
        apply(state, event)
        if isinstance(event, Pod):
            before = known.get(event.metadata.key)
            known[event.metadata.key] = event
            if before is not None and before.metadata.uid != event.metadata.uid:
                settle(before)
            if event.spec.node_name or event.ended:
                settle(event)
        elif isinstance(event, Gone):
            settle(known.pop(event.pod, None))
        if len(done) >= parallelism:
            break
    held = [r for r in both(state)[0].reservations if r.shape == shape]
    assert sum(r.count for r in held) == max(0, parallelism - len(done))
    assert all(len(r.nodes) <= r.count for r in held)
