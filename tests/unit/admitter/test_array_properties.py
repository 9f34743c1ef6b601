"""A small world with kubelets, a garbage collector and an admitter that dies at any moment, in which an array runs.

Whatever happens: each task is done once by its own account, an interruption is counted once, sums equal what the pods
did, no two pods of a task are there at once, and in the end no finalizer is left.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_admitter.core.lifecycle.actions import Action, DeleteJob, DeletePod, EndJob, ReleasePod, StartTasks
from scavenger_admitter.core.lifecycle.observation import Outcome
from scavenger_admitter.core.lifecycle.plan import plan_job
from scavenger_admitter.core.lifecycle.pods_seen import PodsSeen
from scavenger_api.indexes import all_of, indexes_of, parse_indexes
from scavenger_api.job import Phase, ScavengerJob
from scavenger_kube import kinds

from tests.unit.effort import examples

from . import builders as b
from .test_array import task

CPUS = 2
KILLED = 143


@dataclass
class Life:
    """A pod, as its node knows it."""

    index: int
    uid: str
    owner: str
    created: float
    node: str = ""
    started: float | None = None
    ended: float | None = None
    code: int = 0
    asked: float | None = None
    by_others: bool = False
    held: bool = True

    def pod(self) -> kinds.Pod:
        return task(
            self.index,
            uid=self.uid,
            owner=self.owner,
            created=self.created,
            node=self.node,
            started=self.started,
            ended=self.ended,
            code=self.code,
            exit_reason="Error" if self.code else "",
            deleted=self.asked,
            conditions=[b.disrupted("PreemptionByScheduler", self.asked)] if self.by_others and self.asked else [],
            held=self.held,
            # kubelets since 1.34 say that they knew of the deletion when they reported the end
            generations=(2, 2 if self.ended is not None and self.code == KILLED else 1) if self.asked else (1, 1),
        )

    @property
    def computed(self) -> float:
        """Seconds until it ended, or was asked to."""
        if self.started is None or self.ended is None:
            return 0.0
        return max(0.0, (self.ended if self.asked is None else min(self.asked, self.ended)) - self.started)

    @property
    def interrupted(self) -> bool:
        return self.started is not None and self.code == KILLED

    @property
    def runs(self) -> bool:
        return self.started is not None and self.ended is None


@dataclass
class World:
    job: ScavengerJob
    size: int
    now: float = 20.0
    batch: kinds.Job | None = None
    lives: dict[int, Life] = field(default_factory=dict)
    past: list[Life] = field(default_factory=list)
    last_write: float | None = None
    made: int = 0
    granted: int = 0
    shown: dict[str, kinds.Pod] = field(default_factory=dict)
    buckets: PodsSeen = field(default_factory=PodsSeen)

    # --- what others do

    def create_job(self) -> None:
        self.made += 1
        self.batch = b.batch(uid=f"job-{self.made}", created=self.now)

    def create(self, index: int) -> None:
        if index in self.lives or self.batch is None:  # AlreadyExists
            return
        self.made += 1
        self.lives[index] = Life(index, f"{self.made:08d}-0000", self.batch.metadata.uid, self.now)

    def ask(self, life: Life, *, by_others: bool = False) -> None:
        if life.asked is None:
            life.asked, life.by_others = self.now, by_others
        self._vanish(life)

    def _vanish(self, life: Life) -> None:
        gone = life.asked is not None and (life.ended is not None or not life.node)
        if gone and not life.held and self.lives.get(life.index) is life:
            del self.lives[life.index]
            self.past.append(life)

    def delete_job(self) -> None:
        if self.batch is None:
            return
        uid, self.batch = self.batch.metadata.uid, None
        for life in [one for one in self.lives.values() if one.owner == uid]:
            self.ask(life)

    def tick(self, seconds: float) -> None:
        """Time passes, and kubelets end what was asked to go."""
        self.now += seconds
        for life in list(self.lives.values()):
            if life.runs and life.asked is not None and self.now >= life.asked + 2:
                life.ended, life.code = life.asked + 2, KILLED
                self._vanish(life)

    def place(self, which: int) -> None:
        waits = [one for one in self.lives.values() if not one.node and one.asked is None]
        if waits:
            life = waits[which % len(waits)]
            life.node, life.started = "node-1", self.now

    def finish(self, which: int, code: int) -> None:
        runs = [one for one in self.lives.values() if one.runs and one.asked is None]
        if runs:
            life = runs[which % len(runs)]
            life.ended, life.code = self.now, code

    def remove(self, which: int, *, by_others: bool) -> None:
        there = list(self.lives.values())
        if there:
            self.ask(there[which % len(there)], by_others=by_others)

    # --- what the admitter does

    def look(self) -> Outcome:
        """What follows from all pods, which is what follows from them in buckets."""
        self._show()
        last = None if self.last_write is None else b.at(self.last_write)
        uid = self.batch.metadata.uid if self.batch is not None else ""
        read, untouched = self.buckets.view("ns/job", b.place(0), uid, ())
        seen = b.seen(
            self.job,
            self.now,
            self.batch,
            *read,
            *(untouched.pods if untouched is not None else ()),
            last_write=last,
            units=self.granted,
        )
        outcome = plan_job(seen)
        found = plan_job(b.with_(seen, pods=tuple(read), untouched=untouched))
        assert set(found.actions) == set(outcome.actions)
        assert replace(found, actions=outcome.actions) == outcome
        return outcome

    def _show(self) -> None:
        """An informer catches up."""
        pods = {pod.metadata.uid: pod for pod in (life.pod() for life in self.lives.values())}
        for uid in self.shown.keys() - pods.keys():
            self.buckets.apply(self.shown[uid], None)
        for uid, pod in pods.items():
            if self.shown.get(uid) != pod:
                self.buckets.apply(self.shown.get(uid), pod)
        self.shown = pods
        self.buckets.assert_sound("ns/job", pods.values(), {"node-1": b.node()})

    def step(self, dies: int | None = None) -> Outcome:
        """dies: before this one of its requests."""
        outcome = self.look()
        requests = [*([None] if outcome.changed else []), *outcome.actions]
        self.granted = 0
        for number, action in enumerate(requests):
            if dies is not None and number >= dies:
                self.last_write = None  # another process looks next
                break
            if action is None:
                self.job, self.last_write = b.written(self.job, outcome.status), self.now
            else:
                self.carry_out(action, half=dies is not None and number == dies - 1)
        return outcome

    def carry_out(self, action: Action, *, half: bool) -> None:
        by_uid = {life.uid: life for life in self.lives.values()}
        match action:
            case ReleasePod(uid=uid) if uid in by_uid:
                by_uid[uid].held = False
                self._vanish(by_uid[uid])
            case DeletePod(uid=uid) if uid in by_uid:
                self.ask(by_uid[uid])
            case DeleteJob():
                self.delete_job()
            case EndJob() if self.batch is not None:
                conditions = tuple(
                    kinds.Condition(kind, "True", "", "", b.stamp(self.now)) for kind in action.conditions
                )
                self.batch = kinds.Job(self.batch.metadata, self.batch.spec, kinds.JobStatus(conditions=conditions))
            case StartTasks(indexes=indexes):
                if self.batch is None:
                    self.create_job()
                for index in indexes[: len(indexes) // 2 if half else None]:
                    self.create(index)
            case _:
                pass

    def settle(self) -> None:
        """Let everything come to its end: all that starts completes."""
        for _ in range(40 + 4 * self.size):
            self.tick(3)
            self.granted = self.size
            outcome = self.step()
            for number in range(len(self.lives)):
                self.place(number)
            self.tick(3)
            for _ in range(len(self.lives)):
                self.finish(0, 0)
            if outcome.status.phase in (Phase.COMPLETED, Phase.FAILED) and not any(
                life.held for life in self.lives.values()
            ):
                return
        raise AssertionError(f"not over: {self.job.status}, {self.lives}")

    def check(self) -> None:
        """What holds when all is over."""
        status, array = self.job.status, self.job.status.array
        assert array is not None
        lives = [*self.past, *self.lives.values()]
        done = Counter(life.index for life in lives if life.ended is not None and life.code == 0)
        completed, failed = parse_indexes(array.completed_indexes), parse_indexes(array.failed_indexes)
        assert completed & failed == 0
        assert completed | failed == all_of(self.size)
        assert dict(done) == dict.fromkeys(indexes_of(completed), 1), "each completed task is done once"
        assert status.interrupted_count == sum(life.interrupted for life in lives)
        spent = status.useful_cpu_seconds + status.lost_cpu_seconds
        assert abs(spent - CPUS * sum(life.computed for life in lives)) < 1e-6
        assert not any(life.held for life in lives)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ("tick", "tick", "grant", "place", "place", "complete", "fail", "evict", "delete", "job", "look")
        ),
        st.integers(0, 12),
        st.none() | st.integers(0, 6),
    ),
    max_size=60,
)


@given(EVENTS, st.integers(1, 6), st.integers(0, 2), st.none() | st.integers(1, 3))
@settings(max_examples=examples(400))
def test_whatever_happens_each_task_is_done_once_and_the_books_are_true(
    events: list[tuple[str, int, int | None]], size: int, retries: int, most: int | None
) -> None:
    spec = {"array": {"tasks": size, **({"maxRunning": most} if most else {})}, "backoffLimit": retries}
    world = World(b.job(None, queued=0, spec=spec), size)
    world.job = b.written(world.job, world.job.status.model_copy(update={"queued_timestamp": b.at(0)}))
    for what, number, dies in events:
        match what:
            case "tick":
                world.tick(number)
            case "grant":
                world.granted = number
                world.step(dies)
            case "place":
                world.place(number)
            case "complete":
                world.finish(number, 0)
            case "fail":
                world.finish(number, 1)
            case "evict":
                world.remove(number, by_others=True)
            case "delete":
                world.remove(number, by_others=False)
            case "job":
                world.delete_job()
            case _:
                world.step(dies)
        running = [life for life in world.lives.values() if life.runs and life.asked is None]
        assert most is None or len(running) <= most
    world.settle()
    world.check()
