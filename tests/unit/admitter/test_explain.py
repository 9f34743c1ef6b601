"""Who is told why it waits, and how often: a message is a write."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from scavenger_admitter.core.waits import Wait
from scavenger_admitter.explain import AGAIN_SECONDS, PASSING, PER_PASS, Explanations
from scavenger_admitter.job_record import JobRecords
from scavenger_api.job import Phase, ScavengerJob
from scavenger_api.reasons import WaitReason
from scavenger_testing import VirtualClock, scavengerjob_dict
from scavenger_testing.clock import START

FULL = Wait(WaitReason.ADMISSION_LEVEL, "cpu load would be 72 %", "cpu")
NO_PLACE = Wait(WaitReason.NO_PLACE, "no node has room")


class Line:
    """Waiting jobs j0, j1, …, and what they have been told."""

    def __init__(self, count: int = 1, after: float = 5.0) -> None:
        self.clock = VirtualClock()
        self.records = JobRecords(self.clock)
        self.explanations = Explanations(self.records, self.clock, after)
        self.jobs = {f"ns/j{n}": _job(f"j{n}", Phase.WAITING) for n in range(count)}

    def hold(self, hold: Wait | None, keys: Iterable[str] = ()) -> list[str]:
        """One pass with everybody held for that reason; returns who is told something, and tells them."""
        held = {} if hold is None else dict.fromkeys(keys or self.jobs, hold)
        due = list(self.explanations.due(held, self.jobs.get))
        for key in due:
            self.explanations.tell(key, self.jobs[key], held[key])
        return due

    def message(self, hold: Wait | None, key: str = "ns/j0") -> str | None:
        """What the next reconcile of that job writes."""
        told = self.explanations.tell(key, self.jobs[key], hold)
        return told.message if told is not None else None

    def enter(self, phase: Phase, key: str = "ns/j0") -> None:
        self.jobs[key] = _job(key.removeprefix("ns/"), phase)


def _job(name: str, phase: Phase | None) -> ScavengerJob:
    status = {"queuedTimestamp": START.strftime("%Y-%m-%dT%H:%M:%S.000000Z")}
    return ScavengerJob.model_validate(scavengerjob_dict(name, namespace="ns", phase=phase, status=status))


def test_nobody_is_told_before_it_has_waited_for_a_while() -> None:
    line = Line(after=5.0)
    line.clock.jump(4.9)
    assert line.hold(FULL) == []
    assert line.message(FULL) is None
    line.clock.jump(0.2)
    assert line.hold(FULL) == ["ns/j0"]
    assert line.message(FULL) == "cpu load would be 72 %"


def test_the_first_status_of_a_job_says_why_it_waits() -> None:
    """One write instead of two, and no pass over the line has to come first."""
    line = Line(after=5.0)
    line.jobs["ns/j0"] = _job("j0", None)
    line.clock.jump(4.9)
    assert line.message(FULL) is None
    line.clock.jump(0.2)
    assert line.message(Wait(WaitReason.NEXT_CYCLE, "soon")) is None
    assert line.message(FULL) == FULL.message
    assert line.hold(FULL) == [], "it has been told"


def test_figures_that_change_are_no_news() -> None:
    line = Line()
    line.clock.jump(10)
    line.hold(FULL)
    line.clock.jump(1000)
    other_figure = Wait(WaitReason.ADMISSION_LEVEL, "cpu load would be 99 %", "cpu")
    assert line.hold(other_figure) == []
    assert line.message(other_figure) == "cpu load would be 72 %", "the same words, or every reconcile were a write"


def test_another_reason_is_told_but_not_more_often_than_once_a_minute() -> None:
    line = Line()
    line.clock.jump(10)
    line.hold(FULL)
    line.clock.jump(AGAIN_SECONDS - 1)
    assert line.hold(NO_PLACE) == []
    assert line.message(NO_PLACE) == FULL.message
    line.clock.jump(2)
    assert line.hold(NO_PLACE) == ["ns/j0"]
    assert line.message(NO_PLACE) == NO_PLACE.message


@pytest.mark.parametrize("reason", sorted(PASSING))
def test_what_passes_by_itself_is_not_told(reason: WaitReason) -> None:
    line = Line()
    line.clock.jump(100)
    assert line.hold(Wait(reason, "soon")) == []


def test_a_pass_is_bounded_and_the_front_of_the_line_comes_first() -> None:
    line = Line(count=2 * PER_PASS + 50)
    line.clock.jump(10)
    keys = list(line.jobs)
    assert line.hold(FULL) == keys[:PER_PASS]
    assert line.hold(FULL) == keys[PER_PASS : 2 * PER_PASS]
    assert line.hold(FULL) == keys[2 * PER_PASS :]
    assert line.hold(FULL) == []


def test_with_reasons_that_change_all_the_time_everybody_is_told_in_the_end() -> None:
    line = Line(count=500)
    line.clock.jump(10)
    told: set[str] = set()
    writes = 0
    for number in range(60):
        now = line.hold(FULL if number % 2 else NO_PLACE)
        told.update(now)
        writes += len(now)
        line.clock.jump(5)
    assert told == set(line.jobs)
    assert writes <= 500 * 5, "300 seconds: once a minute each"


def test_reasons_that_go_back_and_forth_at_the_front_leave_nobody_untold() -> None:
    line = Line(count=30 * PER_PASS)
    line.clock.jump(10)
    told: list[str] = []
    for number in range(30):  # a pass every five seconds tells twelve hundred in a minute
        told += line.hold(FULL if number % 2 else NO_PLACE)
        line.clock.jump(5)
    assert told == list(line.jobs), "everybody once, before anybody is told twice"
    line.clock.jump(AGAIN_SECONDS)
    last = {key: number for number, key in enumerate(told)}
    assert line.hold(Wait(WaitReason.QUEUE_QUOTA, "quota")) == sorted(last, key=last.__getitem__)[:PER_PASS]


@pytest.mark.parametrize("phase", [p for p in Phase if not p.queued])
def test_a_wait_that_is_over_leaves_no_words_for_the_next(phase: Phase) -> None:
    line = Line()
    line.clock.jump(10)
    line.hold(FULL)
    line.enter(phase)
    assert line.message(None) is None
    line.enter(Phase.INTERRUPTED)
    assert line.message(Wait(WaitReason.PODS_REMAIN, "its pod is still there")) is None, "it keeps `interrupted: …`"
    assert line.hold(FULL) == ["ns/j0"], "and is told anew"


def test_a_job_that_is_gone_is_forgotten() -> None:
    line = Line()
    line.clock.jump(10)
    line.hold(FULL)
    line.records.forget("ns/j0")
    assert line.message(FULL) is None
    assert line.hold(FULL) == ["ns/j0"]


def test_a_job_that_is_not_known_is_told_nothing() -> None:
    line = Line()
    line.clock.jump(10)
    assert line.hold(FULL, ["ns/other"]) == []
    line.jobs["ns/j0"] = line.jobs["ns/j0"].model_copy(update={"status": type(line.jobs["ns/j0"].status)()})
    assert line.hold(FULL) == [], "it has no place in line yet"
