"""What `make soak` calls wrong, and what not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from scavenger_api import names
from scavenger_api.job import ScavengerJob
from scavenger_kube.kinds import Job, Pod
from scavenger_testing import job_dict, pod_dict, running, scavengerjob_dict, terminated

from bench.services.judge import BROKEN_SECONDS, UNANSWERED_SECONDS, Judge, overtaken, slope, unexplained
from bench.services.soak import MB_AN_HOUR, Use
from bench.services.soak import _grown as judge_memory

FIRST, SECOND = "2026-01-05T08:00:01.000000Z", "2026-01-05T08:10:01.000000Z"
"""Places in line."""


class Scene:
    """A job, a gang of two or an array, as the API shows it to a judge."""

    def __init__(self, **spec: Any) -> None:
        self.judge = Judge()
        self.now, self._version = 0.0, 0
        self.owner = scavengerjob_dict("a", uid="sj", **spec)
        self._last: ScavengerJob | None = None
        self.batches: dict[str, dict[str, Any]] = {}
        self.says("Waiting")

    @property
    def wrong(self) -> str:
        return "; ".join(self.judge.wrong)

    @property
    def version(self) -> str:
        """Of the next write."""
        self._version += 1
        return str(self._version)

    def says(self, phase: str, interrupted: int = 0, place: str = FIRST) -> None:
        status = {"phase": phase, "interruptedCount": interrupted, "queuedTimestamp": place}
        meta = {**self.owner["metadata"], "resourceVersion": self.version}
        new = ScavengerJob.model_validate({**self.owner, "metadata": meta, "status": status})
        self.judge.job(self._last, new, self.now)
        self._last = new

    def starts(self, run: str, place: str = FIRST) -> None:
        self.batches[run] = job_dict("a", uid=run, owner=self.owner, annotations={names.ANNOTATION_RUN: place})
        self.judge.batch(msgspec.convert(self.batches[run], Job), self.now)

    def pod(self, uid: str, run: str, phase: str = "Running", task: str = "", *, told: bool = False) -> Pod:
        labels: Mapping[str, str] = {names.LABEL_JOB: "a", **({names.LABEL_TASK: task} if task else {})}
        state = {"Running": [running()], "Succeeded": [terminated()], "Failed": [terminated(137)]}.get(phase, [])
        shown = pod_dict(
            uid,
            uid=uid,
            node="n1",
            phase=phase,
            container_statuses=state,
            labels=labels,
            owner=self.batches[run],
            deleted=FIRST if told else None,
            resource_version=self.version,
        )
        found = msgspec.convert(shown, Pod)
        self.judge.pod(found, self.now, gone=False)
        return found

    def runs(self, run: str, ends: str, place: str = FIRST) -> None:
        """Two pods run together, and end."""
        self.starts(run, place)
        for phase in ("Running", ends):
            for uid in ("1", "2"):
                self.pod(f"{run}-{uid}", run, phase)

    def settles(self, *, broke: bool = False) -> None:
        """All that was written has been seen, or, where the watch of pods broke, may be listed."""
        self.judge.follow(self._version, self.now, broke=broke)
        self.judge.settle()


def gang() -> Scene:
    return Scene(parallelism=2)


def test_a_gang_that_is_interrupted_once_and_then_ends_well_is_right() -> None:
    scene = gang()
    scene.runs("r1", "Failed")
    scene.says("Running")
    scene.says("Interrupted", 1, SECOND)
    scene.runs("r2", "Succeeded", SECOND)
    scene.says("Completed", 1, SECOND)
    scene.settles()

    assert not scene.wrong
    assert scene.judge.seen["completed, by their pods"] == 1
    assert scene.judge.seen["counts compared with pods"] == 1


def test_a_job_is_completed_only_by_a_run_that_ended_well() -> None:
    scene = gang()
    scene.runs("r1", "Failed")
    scene.pod("r1-1", "r1", "Succeeded")
    scene.says("Completed")
    scene.settles()

    assert "no run of it ended well" in scene.wrong
    history = next(iter(scene.judge.wrong.values()))
    assert any("pod r1-2" in line and "Failed" in line for line in history)


def test_an_interruption_of_a_run_that_was_recorded_has_to_be_counted() -> None:
    scene = gang()
    scene.runs("r1", "Failed")
    scene.says("Running")
    scene.runs("r2", "Succeeded", SECOND)
    scene.says("Completed", 0, SECOND)
    scene.settles()

    assert "was interrupted 1 times, and counted 0" in scene.wrong


def test_an_interruption_is_counted_once() -> None:
    scene = gang()
    scene.runs("r1", "Failed")
    scene.says("Running")
    scene.says("Interrupted", 2, SECOND)
    scene.runs("r2", "Succeeded", SECOND)
    scene.says("Completed", 2, SECOND)
    scene.settles()

    assert "counted 2 interruptions of 2 runs" in scene.wrong


def test_what_nobody_could_see_is_no_proof() -> None:
    scene = gang()
    scene.says("Completed", 3)
    scene.settles(broke=True)

    assert not scene.wrong
    assert scene.judge.seen["completed out of sight"] == 1


def test_an_end_that_nobody_could_see_is_no_interruption() -> None:
    scene = gang()
    scene.runs("r1", "Running")
    scene.says("Running")
    scene.says("Completed")
    scene.settles(broke=True)

    assert not scene.wrong


def test_a_job_is_judged_once_its_pods_have_been_seen() -> None:
    scene = gang()
    scene.says("Completed")
    scene.judge.settle()
    assert not scene.wrong, "the watch of pods is behind"

    scene.runs("r1", "Succeeded")
    scene.settles()
    assert scene.judge.seen["completed, by their pods"] == 1


def test_what_was_seen_after_a_break_is_proof_again() -> None:
    scene = gang()
    scene.judge.follow(0, scene.now, broke=True)
    scene.runs("r1", "Failed")
    scene.says("Completed")
    scene.settles()

    assert "no run of it ended well" in scene.wrong


def test_each_task_of_an_array_has_to_end_well() -> None:
    scene = Scene(array={"tasks": 2})
    scene.starts("r1")
    scene.pod("p0", "r1", "Succeeded", task="0")
    scene.says("Completed")
    scene.settles()

    assert "no run of it ended well" in scene.wrong


def test_an_array_counts_no_more_interruptions_than_pods_ran_in_vain() -> None:
    scene = Scene(array={"tasks": 2})
    scene.starts("r1")
    for uid, task, phase in (("p0", "0", "Failed"), ("q0", "0", "Succeeded"), ("p1", "1", "Succeeded")):
        scene.pod(uid, "r1", phase, task=task)
    scene.says("Completed", 1)
    scene.settles()
    assert not scene.wrong

    scene = Scene(array={"tasks": 1})
    scene.starts("r1")
    scene.pod("p0", "r1", "Succeeded", task="0")
    scene.says("Completed", 1)
    scene.settles()
    assert "counted 1 interruptions of 1 runs" in scene.wrong


def test_two_lives_are_wrong_once_a_list_shows_both() -> None:
    scene = gang()
    scene.starts("r1")
    scene.starts("r2", SECOND)
    pods = [scene.pod("1", "r1"), scene.pod("2", "r2")]

    assert scene.judge.doubts(scene.now) == {"default/a"}
    assert not scene.wrong
    scene.judge.confirm("default/a", pods[1:], scene.now)
    assert not scene.wrong
    scene.judge.confirm("default/a", pods, scene.now)
    assert "lives twice: ['r1', 'r2']" in scene.wrong


def test_pods_of_one_gang_and_of_two_tasks_live_once() -> None:
    scene = Scene(array={"tasks": 2})
    scene.starts("r1")
    scene.pod("p0", "r1", task="0")
    scene.pod("p1", "r1", task="1")
    assert not scene.judge.doubts(scene.now)

    scene = gang()
    scene.starts("r1")
    scene.pod("1", "r1")
    scene.pod("2", "r1")
    assert not scene.judge.doubts(scene.now)


def test_a_gang_that_has_lost_a_pod_has_to_go_whole() -> None:
    scene = gang()
    scene.runs("r1", "Running")
    scene.pod("r1-1", "r1", "Failed")
    left = scene.pod("r1-2", "r1")
    scene.now = BROKEN_SECONDS + 1

    assert scene.judge.doubts(scene.now) == {"default/a"}
    scene.judge.confirm("default/a", [left], scene.now)
    assert "has lost a pod of r1" in scene.wrong


def test_a_gang_whose_pods_are_told_to_go_or_have_ended_well_is_whole() -> None:
    scene = gang()
    scene.runs("r1", "Running")
    scene.pod("r1-1", "r1", "Failed")
    scene.pod("r1-2", "r1", told=True)
    scene.now = BROKEN_SECONDS + 1
    assert not scene.judge.doubts(scene.now)

    scene = gang()
    scene.runs("r1", "Running")
    scene.pod("r1-1", "r1", "Succeeded")
    scene.now = BROKEN_SECONDS + 1
    assert not scene.judge.doubts(scene.now)


@pytest.mark.parametrize(
    ("phases", "words"),
    [
        ((("Failed", 0),), "is Failed"),
        ((("Completed", 0), ("Waiting", 0)), "was Completed and is Waiting"),
        ((("Interrupted", 2), ("Interrupted", 1)), "takes interruptions back"),
    ],
)
def test_what_a_status_may_never_say(phases: tuple[tuple[str, int], ...], words: str) -> None:
    scene = gang()
    for phase, interrupted in phases:
        scene.says(phase, interrupted)
    assert words in scene.wrong


def test_who_came_first_starts_first() -> None:
    def starts(*seconds: tuple[str, int, int]) -> list[tuple[datetime, datetime, str]]:
        zero = datetime(2026, 1, 5, 8)
        return [(zero + timedelta(seconds=at), zero + timedelta(seconds=begun), job) for job, at, begun in seconds]

    assert not list(overtaken(starts(("a", 0, 100), ("b", 20, 50), ("c", 40, 100))))
    assert [job for job, _ in overtaken(starts(("a", 0, 111), ("b", 20, 50), ("c", 40, 200)))] == ["a"]
    assert not list(overtaken(starts(("a", 0, 111), ("b", 9, 50)))), "they came at about the same time"


@pytest.mark.parametrize(("after", "compared"), [(UNANSWERED_SECONDS - 1, 0), (UNANSWERED_SECONDS + 1, 1)])
def test_a_start_that_may_have_had_no_answer_is_not_compared_with_others(after: float, compared: int) -> None:
    scene = gang()
    scene.judge.follow(0, scene.now, broke=True)
    scene.now += after
    scene.starts("r1")
    scene.judge.judge_order()

    assert scene.judge.seen["starts compared with their line"] == compared


def life(since: float, amount: float, an_hour: float, minutes: float = 9.0) -> list[tuple[float, float]]:
    """Samples of ten moments."""
    hours = [step / 9 * minutes / 60 for step in range(10)]
    return [(since + at, amount + an_hour * at) for at in hours]


def test_growth_is_told_within_lives() -> None:
    assert slope([life(0, 100, 60)]) == pytest.approx(60)
    assert slope([life(0, 200, 0), life(1, 100, 0)]) == 0, "a new process holds less: nothing is given back"
    assert slope([life(0, 100, 60), life(1, 100, 60), []]) == pytest.approx(60)
    assert math.isnan(slope([[(0.0, 100.0)]]))


def test_growth_is_told_of_a_life_that_lasts() -> None:
    assert math.isnan(slope([life(0, 100, 600, minutes=2.9), life(1, 100, 600, minutes=2.9)]))
    assert slope([life(0, 100, 600, minutes=2.9), life(1, 100, 60, minutes=3.1)]) == pytest.approx(60)


class Grown(Use):
    """What is said to have grown."""

    def __init__(self, grew: float) -> None:
        self.grew = grew

    def memory(self) -> Iterator[tuple[str, str, float]]:
        yield "service/admitter", "90 MiB at first", self.grew
        yield "component/etcd", "90 MiB at first", 1000.0


@pytest.mark.parametrize(
    ("grew", "wrong", "verdict"), [(math.nan, 0, False), (MB_AN_HOUR - 1, 0, True), (MB_AN_HOUR + 1, 1, True)]
)
def test_a_run_that_is_too_short_says_nothing_of_memory(
    grew: float, wrong: int, capsys: pytest.CaptureFixture[str], *, verdict: bool
) -> None:
    assert len(judge_memory(Grown(grew))) == wrong
    assert ("no verdict about memory" in capsys.readouterr().out) is not verdict


def test_what_caches_hold_is_no_growth_and_what_they_held_is_not_given_back() -> None:
    seen = [(0.0, 100.0, 1000), (1.0, 110.0, 2000), (2.0, 111.0, 500), (3.0, 115.0, 2400)]
    assert list(unexplained(seen, 0.01)) == [(0.0, 90.0), (1.0, 90.0), (2.0, 91.0), (3.0, 91.0)]
