"""Whatever happens in whatever order: the sums kept are the sums counted anew."""

from __future__ import annotations

import pickle
import random
from dataclasses import dataclass, field, replace

from hypothesis import example, given, settings
from hypothesis import strategies as st
from scavenger_admitter.core.admission.load import Level, LoadRule
from scavenger_admitter.core.admission.running import OVERDUE, RunningJob
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, Grant, QueueView, Snapshot
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_api.names import ANNOTATION_GRANT, ANNOTATION_RUN, LABEL_JOB, LABEL_QUEUE, LABEL_TASK
from scavenger_kube.kinds import (
    Condition,
    Container,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Resources,
    Taint,
)

from tests.unit.effort import examples

NOW = 1_800_000_000_000_000
NAMES = ("a", "b", "c", "d")
NODES = ("n1", "n2", "n3")
JOBS = ("j1", "j2", "j3")


def a_pod(rng: random.Random) -> Pod:
    job = rng.choice(("", "j1", "j1", "j2"))
    gated = (Condition(type="PodScheduled", status="False", reason="SchedulingGated"),)
    started = rng.choice((None, "2027-01-15T08:00:00Z", "2027-01-15T07:59:00Z"))
    return Pod(
        metadata=ObjectMeta(
            name=rng.choice(NAMES),
            namespace="ns",
            uid=rng.choice(("1", "2", "3")),
            labels={LABEL_JOB: job, LABEL_QUEUE: rng.choice(("default", "q"))} if job else {},
            annotations={ANNOTATION_RUN: rng.choice(("r1", "r1", "r2"))} if job else {},
            deletion_timestamp=rng.choice((None, None, None, "2027-01-15T08:00:00Z")),
        ),
        spec=PodSpec(
            node_name=rng.choice(("", *NODES)),
            containers=(Container(resources=Resources(requests={"cpu": rng.choice(("1", "250m", "0"))})),),
        ),
        status=PodStatus(
            phase=rng.choice(("Pending", "Running", "Running", "Running", "Succeeded", "Failed", "Unknown")),
            start_time=started,
            nominated_node_name=rng.choice(("", "n1")),
            conditions=rng.choice(((), (), gated)),
        ),
    )


def a_node(rng: random.Random) -> Node:
    taint = Taint(key=rng.choice(("x", "fine")), effect="NoSchedule")
    return Node(
        metadata=ObjectMeta(name=rng.choice(NODES)),
        spec=NodeSpec(unschedulable=rng.random() < 0.2, taints=rng.choice(((), (), (taint,)))),
        status=NodeStatus(
            allocatable={"cpu": rng.choice(("4", "8")), "pods": "10"},
            conditions=(NodeCondition(type="Ready", status=rng.choice(("True", "True", "True", "Unknown"))),),
        ),
    )


def a_candidate(rng: random.Random) -> Candidate:
    name = rng.choice(JOBS)
    return Candidate(
        key=f"ns/{name}",
        uid=name,
        queue=rng.choice(("default", "q", "missing")),
        shape=Shape.of({"cpu": 1000}),
        interrupted_count=rng.randint(0, 2),
        queued_at=rng.randint(0, 3),
    )


def a_running_job(rng: random.Random) -> RunningJob:
    name = rng.choice(JOBS)
    return RunningJob(f"ns/{name}", name, rng.choice(("default", "q")), rng.choice((1, 1, 2)), rng.random() < 0.5)


@dataclass(frozen=True)
class TakenBack:
    """The room of a job, at a time."""

    job: str
    at: int


@dataclass(frozen=True)
class Gone:
    pod: str = ""
    node: str = ""
    candidate: str = ""
    run: str = ""


Event = Pod | Node | Candidate | RunningJob | TakenBack | Gone


def an_event(rng: random.Random) -> Event:
    match rng.randrange(13):
        case 0 | 1 | 2 | 3 | 4:
            return a_pod(rng)
        case 5 | 6:
            return a_node(rng)
        case 7:
            return a_candidate(rng)
        case 8:
            return Gone(pod=f"ns/{rng.choice(NAMES)}")
        case 9 | 10:
            return a_running_job(rng)
        case 11:
            return TakenBack(f"ns/{rng.choice(JOBS)}", NOW - rng.choice((0, 60_000_000)))
        case _:
            job = f"ns/{rng.choice(JOBS)}"
            return rng.choice((Gone(node=rng.choice(NODES)), Gone(candidate=job), Gone(run=job)))


def events() -> st.SearchStrategy[list[Event]]:
    """From a seed and a length: hypothesis' own choices are mostly short and alike."""

    def happened(seed: int, length: int) -> list[Event]:
        rng = random.Random(seed)
        return [an_event(rng) for _ in range(length)]

    return st.builds(happened, st.integers(0, 2**32), st.integers(0, 60))


@dataclass
class World:
    """What exists now: the plain truth to compare with."""

    pods: dict[str, Pod] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    candidates: dict[str, Candidate] = field(default_factory=dict)
    runs: dict[str, RunningJob | TakenBack] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        match event:
            case Pod():
                self.pods[event.metadata.key] = event
            case Node():
                self.nodes[event.metadata.name] = event
            case Candidate():
                self.candidates[event.key] = event
            case RunningJob():
                self.runs[event.key] = event
            case TakenBack():
                self.runs[event.job] = event
            case Gone():
                self.pods.pop(event.pod, None)
                self.nodes.pop(event.node, None)
                self.candidates.pop(event.candidate, None)
                self.runs.pop(event.run, None)

    def rebuilt(self) -> ClusterState:
        state = fresh()
        left: list[Event] = [*self.runs.values(), *self.candidates.values(), *self.pods.values(), *self.nodes.values()]
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
        case RunningJob():
            state.running.apply(event)
        case TakenBack():
            state.running.interrupt(event.job, event.at, Shape.of({"cpu": 1000}).requests, 2)
        case Gone():
            state.delete_pod(event.pod)
            state.delete_node(event.node)
            state.delete_candidate(event.candidate)
            state.running.delete(event.run)


def _finished(pod: Pod, job: str, runs: set[str | None]) -> bool:
    meta = pod.metadata
    of_run = meta.labels.get(LABEL_JOB) == job and meta.annotations.get(ANNOTATION_RUN) in runs
    return of_run and pod.status.phase == "Succeeded" and meta.deletion_timestamp is None


def both(state: ClusterState) -> tuple[Snapshot, Snapshot]:
    state.snapshot(now=NOW - 3600 * 1_000_000, rule=LoadRule.fixed())  # who has gone went long before the measurement
    level = Level(load=10, admission=90)
    rule = LoadRule.published({"cpu": level, "memory": level}, observed_at=NOW - 30_000_000, now=NOW, period_seconds=60)
    return in_order(state.snapshot(now=NOW, rule=LoadRule.fixed())), in_order(state.snapshot(now=NOW, rule=rule))


def in_order(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, gangs=tuple(sorted(snapshot.gangs, key=lambda gang: gang.job.key)))


A_POD_OF_A_DELETED_NODE: list[Event] = [
    Candidate(key="ns/j1", uid="j1", queue="q", shape=Shape.of({"cpu": 1000}), interrupted_count=1, queued_at=0),
    Node(metadata=ObjectMeta(name="n1"), status=NodeStatus(allocatable={"cpu": "4", "pods": "10"})),
    Pod(
        metadata=ObjectMeta(
            name="a", namespace="ns", uid="1", labels={LABEL_JOB: "j1"}, deletion_timestamp="2027-01-15T08:00:00Z"
        ),
        spec=PodSpec(node_name="n1"),
    ),
    Gone(node="n1"),
]


@example(A_POD_OF_A_DELETED_NODE, 1)
@given(events(), st.integers(1, 7))
def test_sums_kept_are_sums_counted_anew(happened: list[Event], every: int) -> None:
    state, world = fresh(), World()
    for number, event in enumerate(happened):
        apply(state, event)
        world.apply(event)
        if number % every == 0:
            both(state)  # taking a snapshot in between must not matter
    assert both(state) == both(world.rebuilt())


@settings(max_examples=examples(80))
@given(events(), events())
def test_a_snapshot_does_not_change_with_what_it_was_taken_from(before: list[Event], after: list[Event]) -> None:
    """It is planned in another thread while events go on."""
    state = fresh()
    state.assumed_starts.assume("ns/j1", Grant("r1", Shape.of({"cpu": 1000}), 2))
    state.kept_room.keep("ns/j3", queue="q", shape=Shape.of({"cpu": 1000}), parallelism=2, since=NOW, lasts=NOW)
    for event in before:
        apply(state, event)
    taken = both(state)
    copies = tuple(pickle.loads(pickle.dumps(snapshot)) for snapshot in taken)
    for event in after:
        apply(state, event)
    state.assumed_starts.forget("ns/j1")
    state.kept_room.release("ns/j3")
    state.delete_queue("q")
    both(state)
    assert taken == copies


@settings(max_examples=examples(80))
@given(events())
def test_nothing_is_left_when_all_is_gone(happened: list[Event]) -> None:
    state = fresh()
    state.assumed_starts.assume("ns/j1", Grant("r1", Shape.of({"cpu": 1000}), 2))
    for event in happened:
        apply(state, event)
    for name in NAMES:
        state.delete_pod(f"ns/{name}")
    for name in NODES:
        state.delete_node(name)
    for name in JOBS:
        state.delete_candidate(f"ns/{name}")
        state.running.delete(f"ns/{name}")
    state.assumed_starts.forget("ns/j1")
    assert both(state) == both(fresh())


@st.composite
def histories_of_grants(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """What happens to grants of one array: (what, number of the grant, pod of it)."""
    return draw(
        st.lists(
            st.tuples(
                st.sampled_from(("granted", "shown", "bound", "gone", "forgotten")),
                st.sampled_from((100, 200, 300)),
                st.integers(0, 2),
            ),
            max_size=30,
        )
    )


@settings(max_examples=examples(80))
@given(histories_of_grants())
def test_what_grants_hold_and_what_is_bound_is_what_was_granted(happened: list[tuple[str, int, int]]) -> None:
    """Each grant is of three pods. A pod whose grant is not assumed holds its own capacity while it is to be bound."""
    state, granted, known = fresh(), dict[int, set[str]](), dict[str, tuple[int, bool]]()
    used = set[int]()
    for what, number, index in happened:
        name = f"j1-{number + index}"
        new = number not in used
        used.add(number)
        if what == "granted" and new:
            state.assumed_starts.assume("ns/j1", Grant("r1", Shape.of({"cpu": 7000}), 3, number=number))
            granted[number] = set()
        elif what in ("shown", "bound") and not (what == "shown" and known.get(name, (0, False))[1]):
            known[name] = number, what == "bound"
            apply(state, _task(name, number, "n1" if what == "bound" else ""))
        elif what == "gone" and name in known:
            del known[name]
            state.delete_pod(f"ns/{name}")
            granted.get(number, set()).add(name)
        elif what == "forgotten":
            state.assumed_starts.forget("ns/j1")
            granted.clear()
        if what == "bound":
            granted.get(number, set()).add(name)
        granted = {number: done for number, done in granted.items() if len(done) < 3}
        alone = sum(not bound for number, bound in known.values() if number not in granted)
        held = sum(3 - len(done) for done in granted.values()) + alone
        assert sum(one.count for one in both(state)[0].reservations) == held


def _task(name: str, grant: int, node: str) -> Pod:
    labels = {LABEL_JOB: "j1", LABEL_TASK: name.removeprefix("j1-")}
    annotations = {ANNOTATION_RUN: "r1", ANNOTATION_GRANT: str(grant)}
    meta = ObjectMeta(name=name, namespace="ns", uid=name, labels=labels, annotations=annotations)
    return Pod(metadata=meta, spec=PodSpec(node_name=node))


@settings(max_examples=examples(80))
@given(events(), st.integers(1, 3))
def test_a_start_holds_room_for_exactly_the_pods_still_to_come(happened: list[Event], parallelism: int) -> None:
    """Held: parallelism less the pods of the run ever seen bound, ended or deleted; over when none are."""
    state, known = fresh(), dict[str, Pod]()
    shape = Shape.of({"cpu": 7000})
    state.assumed_starts.assume("ns/j1", Grant("r1", shape, parallelism, ("n1",) * parallelism))
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


@settings(max_examples=examples(80))
@given(events())
def test_what_is_leaving_and_what_may_be_asked_to(happened: list[Event]) -> None:
    """Terminating: bound pods told to go, or of a job whose room was taken. Gangs: all their pods bound, to stay, but
    for those that have finished."""
    state, world = fresh(), World()
    for event in happened:
        apply(state, event)
        world.apply(event)
    bound = [pod for pod in world.pods.values() if LABEL_JOB in pod.metadata.labels and not pod.ended]
    taken = {key for key, run in world.runs.items() if isinstance(run, TakenBack)}
    terminating = [
        pod.spec.node_name
        for pod in bound
        if pod.spec.node_name and (pod.metadata.deletion_timestamp or f"ns/{pod.metadata.labels[LABEL_JOB]}" in taken)
    ]
    seen = both(state)[0]
    assert sorted(pod.node for pod in seen.terminating) == sorted(terminating)
    for gang in seen.gangs:
        mine = [pod for pod in bound if pod.metadata.labels[LABEL_JOB] == gang.job.uid]
        assert sorted(gang.nodes) == sorted(pod.spec.node_name for pod in mine)
        runs = {pod.metadata.annotations.get(ANNOTATION_RUN) for pod in mine}
        finished = [pod for pod in world.pods.values() if _finished(pod, gang.job.uid, runs)]
        assert len(mine) <= gang.job.parallelism <= len(mine) + len(finished)
        assert not any(pod.metadata.deletion_timestamp for pod in mine)
    assert all(value > 0 for value in seen.scavenged.values())
    stuck = {pod.metadata.deletion_timestamp is not None for pod in bound if pod.spec.node_name} == {True}
    later = state.snapshot(now=NOW + OVERDUE + 1, rule=LoadRule.fixed())
    assert not (stuck and later.terminating), "who should be gone for long is not waited for"
