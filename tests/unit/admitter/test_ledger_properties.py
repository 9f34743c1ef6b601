"""useful + lost = given, in the lives of jobs and gangs that say all kinds of things about their checkpoints.

What was given is counted here from what the status says of runs (`runningTimestamps`, `endedTimestamp`), and of the run
in progress only what is judged so far. It is the most for a gang: a member that ends before the others holds nothing
from then on. The world is that of test_lifecycle_properties: an admitter that dies at any
moment, a Job controller, and kubelets. Its members annotate, write termination messages that are true, old, garbage or
of times to come, and end with the job's own code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_admitter.core.lifecycle import accounting
from scavenger_api.job import Phase, ScavengerJobStatus

from tests.unit.effort import examples

from . import builders as b
from .test_lifecycle_properties import KINDS, Member, World, step

CORES = 2
CODE = 85

Saying: TypeAlias = Callable[[float], str]
"""A termination message, written at that moment."""

SAYINGS: Final[tuple[Saying, ...]] = (
    lambda now: "",
    lambda now: f"checkpoint={b.stamp(now)}",
    lambda now: f"said before\ncheckpoint={b.stamp(now - 1)}\n",
    lambda now: f"checkpoint={b.stamp(now - 40)}",
    lambda now: f"checkpoint={b.stamp(now + 5000)}",
    lambda now: f"checkpoint={b.stamp(-5000)}",
    lambda now: "checkpoint=" + "\N{PILE OF POO}" * 1000,
)


@dataclass
class Ledger(World):
    given: float = 0.0
    """Core-seconds of all runs that are over."""
    least: float = 0.0
    """The same, each member until it ended."""

    def judge(self, before: ScavengerJobStatus, after: ScavengerJobStatus) -> None:
        useful, lost = after.useful_cpu_seconds, after.lost_cpu_seconds
        assert math.isfinite(useful + lost)
        assert useful >= before.useful_cpu_seconds
        assert lost >= 0
        # One write may record the start of a run and its end. The next run is another write, and another look.
        if after.ended_timestamp is not None and self._over(before, after):
            began, end = after.running_timestamps[-1], after.ended_timestamp
            self.given += self._cores() * (end - began).total_seconds()
            self.least += CORES * sum(self._computed(member, began, end) for member in self.members)
        start = accounting.run_start(after)
        judged = 0.0 if start is None else (accounting.recorded_reference(after, start) - start).total_seconds()
        self.agree(after, self.given + self._cores() * judged)

    def agree(self, status: ScavengerJobStatus, given: float) -> None:
        """Hold what is booked to what was given: all of it, or of a gang no more. Raises AssertionError."""
        booked = status.useful_cpu_seconds + status.lost_cpu_seconds
        assert self.least - 1e-6 <= booked <= given + 1e-6
        assert self.size > 1 or booked == pytest.approx(given, abs=1e-6)

    @staticmethod
    def _computed(member: Member, start: datetime, end: datetime) -> float:
        """Seconds of a run in which one of its members computed; the API has whole ones."""
        if member.started is None or b.at(member.started) > end:
            return 0.0
        until = end if member.ended is None else min(end, b.at(math.floor(member.ended)))
        return max(0.0, (until - start).total_seconds())

    @staticmethod
    def _over(before: ScavengerJobStatus, after: ScavengerJobStatus) -> bool:
        """Whether a run ended in this write."""
        return before.ended_timestamp is None or len(after.running_timestamps) > len(before.running_timestamps)

    def _cores(self) -> int:
        return CORES * self.size


Event: TypeAlias = tuple[str, int, int, float, Saying]
"""What happens, to which member, with which exit code, after how many seconds, and what those say that end by it."""


def events(*kinds: str) -> st.SearchStrategy[Event]:
    """One event of these kinds."""
    return st.tuples(
        st.sampled_from(kinds),
        st.integers(0, 2),
        st.sampled_from([0, 1, CODE, CODE, 143]),
        st.sampled_from([0.0, 0.25, 1.0, 2.0, 7.5, 31.0, 100.0, 2000.0]),
        st.sampled_from(SAYINGS),
    )


def sure(kind: str) -> st.SearchStrategy[Event]:
    """An event a minute later, by when a job that keeps its place may start again."""
    return st.just((kind, 0, 0, 61.0, SAYINGS[0]))


LOOKS = ("no", "before", "between")
RUN = st.tuples(
    *(sure("admit"), sure("start all"), sure("no")),
    st.lists(events("annotate", *LOOKS, "silence", "recover"), max_size=4),
    events("delete", "preempt", "delete job", "orphan", "end", "end", "suspend"),
    st.lists(events("annotate", "stop", "stop", *LOOKS, *KINDS), max_size=6),
    *(sure("recover all"), sure("no"), sure("stop"), sure("no"), sure("resume"), sure("no")),
)
"""A run that starts, is watched, ends in some way, and is looked at while its pods end."""
LIVES = st.lists(RUN, min_size=1, max_size=5)


def flat(life: Iterable[Iterable[Event | list[Event]]]) -> Iterator[Event]:
    """All events of a life."""
    for run in life:
        for part in run:
            yield from part if isinstance(part, list) else (part,)


def happen(world: Ledger, kind: str, which: int, code: int) -> None:
    """One thing that happens, in one of the words of this world or of the other."""
    if kind == "annotate":
        return
    if kind == "stop":
        for member in world.members:
            if member.asked is not None and member.started is not None and member.ended is None:
                member.ended, member.code = world.now, code
    elif kind == "recover all":
        world.silent.clear()
    elif kind == "resume":
        spec = world.job.spec.model_copy(update={"suspend": False})
        world.job = world.job.model_copy(update={"spec": spec})
    else:
        step(world, kind, which, code)


def live(size: int, life: Iterable[Iterable[Event | list[Event]]], *, coded: bool) -> Ledger:
    """A world after all that; `coded`: the job has a checkpointExitCode."""
    spec = b.gang(size, checkpointExitCode=CODE) if coded else b.gang(size)
    world = Ledger(b.job(spec=spec), size)
    world.reconcile("no")
    for kind, which, code, wait, saying in flat(life):
        world.now += wait
        if kind == "annotate" and world.members:
            world.members[which % len(world.members)].checkpoint = saying(world.now).rpartition("=")[2]
        before = {member.uid for member in world.members if member.ended is not None}
        happen(world, kind, which, code)
        for member in world.members:
            if member.ended is not None and member.uid not in before:
                member.message = saying(world.now)
        world.control()
    return world


def stop(world: Ledger, saying: Saying) -> None:
    """Suspend it, and let every pod end and say something."""
    spec = world.job.spec.model_copy(update={"suspend": True})
    world.job = world.job.model_copy(update={"spec": spec})
    world.silent.clear()
    for _ in range(4):
        world.now += 10
        world.reconcile("no")
        for member in world.members:
            if member.asked is not None and member.started is not None and member.ended is None:
                member.ended, member.code, member.message = world.now, 143, saying(world.now)
        world.control()


@pytest.mark.timeout(300)  # lives are long, and the machine may be busy
@settings(max_examples=examples(80))
@given(size=st.integers(1, 3), life=LIVES, coded=st.booleans(), last=st.sampled_from(SAYINGS))
def test_useful_and_lost_are_what_was_given(
    size: int, life: list[tuple[Event | list[Event], ...]], coded: bool, last: Saying
) -> None:
    world = live(size, life, coded=coded)
    stop(world, last)
    status = world.job.status
    world.agree(status, world.given)
    assert not any(member.held for member in world.members)
    assert (status.phase or Phase.WAITING).finished or status.phase is Phase.SUSPENDED


@given(
    size=st.integers(1, 3),
    ran=st.integers(1, 4000),
    said=st.lists(st.integers(-10, 4100), min_size=3, max_size=3),
    took=st.lists(st.integers(0, 30), min_size=3, max_size=3),
    looks=st.lists(st.integers(0, 40), max_size=4),
)
def test_what_is_lost_is_the_time_since_the_oldest_checkpoint(
    size: int, ran: int, said: list[int], took: list[int], looks: list[int]
) -> None:
    """Every member reports one, in its own life or not, and ends in its own time; whoever looks whenever in between."""
    start, interval = 10, 1800
    asked = start + ran
    job = b.job(Phase.RUNNING, running=[start], spec=b.gang(size))
    for look in [0, *sorted(looks), 41]:
        now, pods = asked + look, []
        for i in range(size):
            ended = asked + took[i] if took[i] <= look else None
            pods.append(b.pod(i, deleted=asked, ended=ended, message=f"checkpoint={b.stamp(said[i])}"))
        job = b.written(job, b.decide(b.seen(job, now, b.batch(), *pods)).status)
        total = job.status.useful_cpu_seconds + job.status.lost_cpu_seconds
        assert total == CORES * size * ran
    true = [at if start <= at <= asked + took[i] else None for i, at in enumerate(said[:size])]
    known = [at for at in true if at is not None]
    gang = min(known) if len(known) == size else true[0] if len(known) == 1 and true[0] is not None else start
    safe = max(min(gang, asked), start + ran // interval * interval)
    assert job.status.lost_cpu_seconds == CORES * size * (asked - safe)
