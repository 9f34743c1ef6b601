"""A small world with a Job controller, a garbage collector, kubelets and an admitter that dies at any moment.

Random events happen to a gang. Whatever they are: an interruption is counted once, CPU time is finite, never negative
and never taken back, what is observed twice changes nothing, no gang lives beside its earlier self, and in the end no
finalizer is left.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_admitter.core.lifecycle.actions import (
    Action,
    DeleteJob,
    DeletePod,
    DeleteScavengerJob,
    EndJob,
    ReleasePod,
)
from scavenger_admitter.core.lifecycle.leftover_pods import clear_orphans
from scavenger_admitter.core.lifecycle.observation import Outcome
from scavenger_admitter.core.lifecycle.plan import plan_job
from scavenger_api.job import Phase, ScavengerJob, ScavengerJobStatus
from scavenger_api.times import format_micro_time
from scavenger_kube import kinds

from tests.unit.effort import examples

from . import builders as b

Crash = Literal["before", "between", "no"]

GRACE = 30


@dataclass
class Member:
    """A pod as its node knows it; `pod` is what the API shows of it."""

    number: int
    queued: float
    owner: str
    uid: str
    node: str
    started: float | None = None
    ended: float | None = None
    code: int = 0
    asked: float | None = None
    grace: int = GRACE
    final: float | None = None
    disruption: str | None = None
    knew: bool = False
    held: bool = True
    orphaned: bool = False
    message: str = ""
    checkpoint: str | None = None

    @property
    def alive(self) -> bool:
        return self.ended is None and not (self.started is None and self.asked is not None)

    def pod(self) -> kinds.Pod:
        conditions = []
        if self.disruption is not None and self.asked is not None:
            conditions.append(b.disrupted(self.disruption, self.asked))
        generation = 1 if self.asked is None else 2
        return b.pod(
            self.number,
            queued=self.queued,
            owner=None if self.orphaned else self.owner,
            uid=self.uid,
            started=self.started,
            ended=self.ended,
            code=self.code,
            exit_reason="Error" if self.code else "",
            deleted=self.asked,
            grace=self.grace,
            final=self.final,
            conditions=conditions,
            node=self.node if self.started is not None else "",
            held=self.held,
            message=self.message,
            checkpoint=self.checkpoint,
            generations=(generation, generation if self.knew or self.asked is None else 1),
        )


@dataclass
class World:
    job: ScavengerJob
    size: int
    now: float = 0.0
    batch: kinds.Job | None = None
    members: list[Member] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)
    runs: int = 0
    counted: Counter[str] = field(default_factory=Counter)
    disturbed: set[str] = field(default_factory=set)
    """Places in line whose gang ran together and then lost a member, or the Job, before anything else ended it."""
    settled: dict[str, int] = field(default_factory=dict)
    """When the gang ended by itself, was suspended, or never ran together, before it was disturbed."""

    unclear: set[str] = field(default_factory=set)
    """Members ended by themselves beside silent nodes, or orphaned before anybody looked: both verdicts are fair."""

    # --- what the API server, the garbage collector and the kubelets do

    def current(self) -> list[Member]:
        uid = self.batch.metadata.uid if self.batch else None
        return [m for m in self.members if m.owner == uid]

    def place(self) -> str:
        queued = self.job.status.queued_timestamp
        return format_micro_time(queued) if queued else ""

    def together(self) -> bool:
        members = self.current()
        return len(members) == self.size and all(m.started is not None for m in members)

    def disturb(self) -> None:
        """A removal from outside, as the first thing that happens to a gang that has run together."""
        place = self.batch.metadata.annotations["scavenger.dev/run"] if self.batch else ""
        if place in self.settled and self.settled[place] == int(self.now):
            self.unclear.add(place)  # timestamps do not say which came first
        if place and place == self.place() and place not in self.settled:
            if self.together():
                self.disturbed.add(place)
            else:
                # The last member may still start before somebody looks; then it looks as if they had run together.
                self.settled[place] = int(self.now)
                self.unclear.add(place)

    def finish_undisturbed(self) -> None:
        place = self.batch.metadata.annotations["scavenger.dev/run"] if self.batch else ""
        if place and place not in self.disturbed:
            self.settled.setdefault(place, int(self.now))

    def doubt(self, node: str) -> None:
        """A node falls silent while a failure beside it is not judged: it may have been why. Orphans can fail too."""
        members = self.current() or [member for member in self.members if member.orphaned]
        if node in self.silent and any(m.ended is not None and m.code for m in members):
            self.unclear.update(
                format_micro_time(b.at(m.queued)) for m in members if m.node == node and m.ended is None
            )

    def ask(self, member: Member, *, disruption: str | None = None) -> None:
        if member.asked is not None:
            return
        member.asked, member.disruption = self.now, disruption
        member.knew = member.ended is None
        if member.started is None or member.ended is not None:
            member.grace, member.final = 0, self.now

    def drop_job(self, *, orphan: bool = False) -> None:
        for member in self.current():
            if orphan:
                member.orphaned = True
            else:
                self.ask(member)
        self.batch = None

    def control(self) -> None:
        """The kubelets' final DELETE, and the objects that may go."""
        for member in self.members:
            if member.asked is not None and member.ended is not None and member.final is None:
                member.grace, member.final = 0, self.now
        self.members = [m for m in self.members if m.held or m.asked is None or m.alive]

    # --- the admitter

    def seen(self) -> Outcome:
        nodes = {name: b.node(name, ready=name not in self.silent) for name in ("n0", "n1", "n2")}
        pods = [member.pod() for member in self.members]
        return b.decide(b.seen(self.job, self.now, self.batch, *pods, nodes=nodes))

    def reconcile(self, crash: Crash) -> Outcome:
        outcome = self.seen()
        if crash == "before":
            return outcome
        before, after = self.job.status, outcome.status
        grown = after.interrupted_count - before.interrupted_count
        assert grown in (0, 1)
        assert (grown == 1) == (outcome.figures.interruption is not None)
        if grown:
            place = self.place() or format_micro_time(b.at(0))
            self.counted[place] += 1
            assert place in self.disturbed | self.unclear, "counted what was no interruption"
        self.judge(before, after)
        if after.phase is Phase.SUSPENDED and before.phase is not Phase.SUSPENDED:
            self.finish_undisturbed()
        if after.queued_timestamp != before.queued_timestamp and not grown:
            self.finish_undisturbed()
        lost = after.phase is not None and after.phase.finished and self.place() in self.disturbed
        assert not lost, "an interruption was taken for the end"
        self.job = b.written(self.job, after)
        if crash == "no":
            self.act(outcome.actions)
        return outcome

    def judge(self, before: ScavengerJobStatus, after: ScavengerJobStatus) -> None:
        """CPU time is finite, never negative, and never taken back: nobody here says that more had been saved."""
        for old, new in (
            (before.useful_cpu_seconds, after.useful_cpu_seconds),
            (before.lost_cpu_seconds, after.lost_cpu_seconds),
        ):
            assert math.isfinite(new)
            assert new >= old >= 0

    def act(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, DeleteJob) and self.batch and self.batch.metadata.uid == action.uid:
                self.drop_job()
            for member in self.members:
                if isinstance(action, DeletePod) and member.uid == action.uid:
                    self.ask(member)
                if isinstance(action, ReleasePod) and member.uid == action.uid:
                    member.held = False
            assert not isinstance(action, DeleteScavengerJob)
            if isinstance(action, EndJob) and self.batch and self.batch.metadata.uid == action.uid:
                found = tuple(b.condition(kind, "True", self.now) for kind in action.conditions)
                self.batch = msgspec.structs.replace(self.batch, status=kinds.JobStatus(conditions=found))
            assert isinstance(action, DeleteJob | DeletePod | EndJob | ReleasePod)
        self.control()

    def admit(self) -> None:
        outcome = self.reconcile("no")
        if not outcome.candidate or self.batch is not None:
            return
        alive = [m.uid for m in self.members if m.alive]
        assert not alive, "a second life beside the first"
        queued = self.job.status.queued_timestamp
        assert queued is not None
        self.runs += 1
        uid, place = f"run-{self.runs}", (queued - b.BASE).total_seconds()
        self.batch = b.batch(place, uid=uid, created=self.now)
        self.members += [Member(i, place, uid, f"{uid}-{i}", f"n{i}") for i in range(self.size)]


def step(world: World, kind: str, which: int, code: int) -> None:
    """One thing that happens. `which`: to which member, `code`: how it ends."""
    members = world.current() or world.members
    if kind == "admit":
        world.admit()
    elif kind in get_args(Crash):
        world.reconcile(cast(Crash, kind))
    elif kind == "suspend":
        spec = world.job.spec.model_copy(update={"suspend": not world.job.spec.suspend})
        world.job = world.job.model_copy(update={"spec": spec})
    elif kind in ("silence", "recover"):
        name = f"n{which % 3}"
        (world.silent.add if kind == "silence" else world.silent.discard)(name)
        world.doubt(name)
    elif kind in ("delete job", "orphan"):
        world.disturb()
        world.drop_job(orphan=kind == "orphan")
    elif members:
        happen(world, kind, members[which % len(members)], code)
    world.control()


def happen(world: World, kind: str, member: Member, code: int) -> None:
    """One thing that happens to a member."""
    if kind in ("start", "start all") and world.batch is not None:
        for each in world.current() if kind == "start all" else [member]:
            if each.started is None and each.asked is None:
                each.started = world.now
    elif kind == "end":
        end(world, member, code)
    elif kind in ("delete", "preempt") and member.ended is None and member.asked is None:
        if member in world.current():
            world.disturb()
        world.ask(member, disruption="PreemptionByScheduler" if kind == "preempt" else None)


def end(world: World, member: Member, code: int) -> None:
    if member.started is None or member.ended is not None or member.node in world.silent:
        return
    member.ended, member.code = world.now, code
    if member.orphaned and member.asked is None:
        world.unclear.add(format_micro_time(b.at(member.queued)))
        world.disturbed -= world.unclear
    if member not in world.current() or member.asked is not None:
        return
    if code:
        # Peers on silent nodes may be why; whether they still are silent when somebody looks, is open.
        if any(m.node in world.silent and m.ended is None for m in world.current()):
            world.unclear.add(format_micro_time(b.at(member.queued)))
        world.finish_undisturbed()
    elif all(m.ended is not None and m.asked is None for m in world.current()):
        world.finish_undisturbed()


KINDS = (
    *("admit", "start", "start all", "start all", "end", "end", "delete", "preempt", "delete job", "orphan"),
    *("silence", "recover", "suspend", "before", "between", "no", "no"),
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(0, 2),
        st.sampled_from([0, 0, 1, 143]),
        st.sampled_from([0.0, 0.25, 1.0, 2.0, 7.5, 31.0, 2000.0]),
    ),
    min_size=5,
    max_size=60,
)


def live(size: int, events: list[tuple[str, int, int, float]]) -> World:
    world = World(b.job(spec=b.gang(size)), size)
    world.reconcile("no")
    for kind, which, code, wait in events:
        world.now += wait
        step(world, kind, which, code)
    return world


@settings(max_examples=examples(80))
@given(size=st.integers(1, 3), events=EVENTS)
def test_every_interruption_counts_once(size: int, events: list[tuple[str, int, int, float]]) -> None:
    world = live(size, events)
    for _ in range(3):
        world.now += 1
        world.reconcile("no")
    assert all(count == 1 for count in world.counted.values())
    assert world.disturbed <= set(world.counted) <= world.disturbed | world.unclear
    assert world.job.status.interrupted_count == len(world.counted)


@settings(max_examples=examples(80))
@given(size=st.integers(1, 3), events=EVENTS, gone=st.booleans())
def test_no_finalizer_is_left(size: int, events: list[tuple[str, int, int, float]], gone: bool) -> None:
    """Deleted with its owner, or finished: when the nodes answer and everything has ended, nothing is held."""
    world = live(size, events)
    world.silent.clear()
    spec = world.job.spec.model_copy(update={"suspend": True})
    world.job = world.job.model_copy(update={"spec": spec})
    for _ in range(6):
        world.now += 40
        if gone:
            if world.batch is not None:
                world.drop_job()
            world.act(clear_orphans([member.pod() for member in world.members]))
        else:
            world.reconcile("no")
        for member in world.members:
            if member.asked is not None and member.started is not None and member.ended is None:
                member.ended, member.code = world.now, 143
    assert not any(member.held for member in world.members)
    if not gone and not (world.job.status.phase or Phase.WAITING).finished:
        assert world.members == []
        assert world.job.status.job_name is None


SOME_TIMES = st.one_of(st.none(), st.floats(-1e6, 1e6, allow_nan=False))


@given(
    phase=st.sampled_from([None, *Phase]),
    queued=SOME_TIMES,
    running=st.lists(st.integers(-1000, 1000), max_size=3),
    start_over=SOME_TIMES,
    checkpoint=SOME_TIMES,
    started=SOME_TIMES,
    ended=SOME_TIMES,
    code=st.sampled_from([0, 1]),
    deleted=SOME_TIMES,
    place=st.integers(-1000, 1000).map(lambda t: t + 0.123457),  # no place that the job is given anew in this test
    now=st.floats(-1000, 1000, allow_nan=False),
    suspend=st.booleans(),
)
def test_any_clock_and_any_hand(
    phase: Phase | None,
    queued: float | None,
    running: list[int],
    start_over: float | None,
    checkpoint: float | None,
    started: float | None,
    ended: float | None,
    code: int,
    deleted: float | None,
    place: float,
    now: float,
    suspend: bool,
) -> None:
    """Timestamps from clocks that agree about nothing, in a status that somebody edited."""
    job = b.job(
        phase,
        queued=queued,
        running=running,
        spec={"suspend": suspend},
        priority_start_over_timestamp=None if start_over is None else b.at(start_over),
        last_checkpoint_timestamp=None if checkpoint is None else b.at(checkpoint),
    )
    job = b.written(job, job.status)
    pod = b.pod(queued=place, started=started, ended=ended, code=code, deleted=deleted)
    for batch in (b.batch(place), None):
        outcome = plan_job(b.seen(job, now, batch, pod))
        again = plan_job(b.seen(b.written(job, outcome.status), now, batch, pod))
        later = plan_job(b.seen(b.written(job, again.status), now, batch, pod))
        assert not later.changed
        for status in (outcome.status, again.status):
            assert math.isfinite(status.useful_cpu_seconds)
            assert math.isfinite(status.lost_cpu_seconds)
            assert status.useful_cpu_seconds >= 0
            assert status.lost_cpu_seconds >= 0
            assert status.interrupted_count <= 1


def test_a_node_that_falls_silent_after_a_failure_may_have_been_why() -> None:
    """Found by the properties: a member failed, and the node of the other one fell silent before anybody looked."""
    events = [("admit", 0, 0, 61.0), ("start all", 0, 0, 61.0), ("no", 0, 0, 61.0), ("end", 0, 1, 0.0)]
    world = live(2, [*events, ("silence", 1, 0, 0.0), ("no", 0, 0, 0.0)])
    assert world.job.status.phase is Phase.INTERRUPTED
    assert set(world.counted) == world.unclear
