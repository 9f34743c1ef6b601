"""What the end of a container may be counted as, and what a status may say of it: the table, row by row."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_api.times import format_time
from scavenger_kube.resources import JOBS, PODS
from scavenger_testing import FakeApi, pod_dict, running, scavengerjob_dict, terminated
from scavenger_testing.clock import START, VirtualClock

from tests.simulation.system import kubelet
from tests.simulation.system.ledger import By, Ledger, Way

NS = "lab"
PLACE = "2026-01-05T08:00:00.000000Z"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Case:
    """A job of one pod, which runs from the first second on.

    Args:
        alone: whether no service has a reason to interrupt it.
        spec: of the job, beside the usual.
    """

    def __init__(self, *, alone: bool = False, **spec: Any) -> None:
        self.api = FakeApi(VirtualClock(), listens=False)
        self.ledger = Ledger(self.api.store, alone=alone)
        job = scavengerjob_dict("j", namespace=NS, uid="sj", **spec)
        self.api.put(SCAVENGERJOBS, {**job, "status": {"phase": "Running", "queuedTimestamp": PLACE}})
        owner = [{"uid": "sj", "controller": True}]
        meta = {"name": "j", "namespace": NS, "uid": "job", "ownerReferences": owner}
        self.api.put(JOBS, {"metadata": {**meta, "annotations": {names.ANNOTATION_RUN: PLACE}}, "spec": {}})
        pod = pod_dict("p", namespace=NS, uid="pod", node="n1", created=format_time(at(0)))
        pod["metadata"] |= {"labels": {names.LABEL_JOB: "j"}, "ownerReferences": [{"uid": "job", "controller": True}]}
        pod["status"] = {"phase": "Running", "containerStatuses": [running(started=format_time(at(1)))]}
        self.api.put(PODS, pod)
        self.ledger.read(at(1))

    @property
    def job(self) -> Any:
        return self.api.get(SCAVENGERJOBS, NS, "j")

    @property
    def pod(self) -> Any:
        return self.api.get(PODS, NS, "p")

    def ends(self, seconds: float, code: int | None, *, killed: bool = False) -> None:
        """By itself with a code, or as it was told."""
        self.ledger.end(self.pod, at(seconds), code, killed=killed)
        state = terminated(code or 0, finished=format_time(at(seconds)))
        state["state"]["terminated"]["startedAt"] = format_time(at(1))
        self.api.edit(PODS, NS, "p", lambda pod: pod["status"].update(containerStatuses=[state]))
        self.ledger.read(at(seconds))

    def told(self, seconds: float, by: By | None, *, evicted: bool = False) -> None:
        """To go: by somebody, or by services, with the mark of an eviction or without."""
        if by is not None:
            self.ledger.order(self.pod, at(seconds), by)
        if evicted:
            mark = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
            self.api.edit(PODS, NS, "p", lambda pod: pod["status"].update(conditions=mark))
        stamp = format_time(at(seconds))
        self.api.edit(PODS, NS, "p", lambda pod: pod["metadata"].update(deletionTimestamp=stamp))
        self.ledger.read(at(seconds))

    def suspends(self, seconds: float) -> None:
        """Its user does."""
        self.api.edit(SCAVENGERJOBS, NS, "j", lambda job: job["spec"].update(suspend=True))
        self.ledger.read(at(seconds))

    @property
    def ways(self) -> set[Way]:
        (life,) = self.ledger.truths["sj"].lives
        assert self.ledger.ways_of_run("sj", "job", 1) == self.ledger.ways(life)
        return self.ledger.ways(life)

    def judge(self, until: float = 0.0, **status: Any) -> None:
        judged = {**self.job, "status": {**self.job["status"], **status}}
        self.ledger.judge(judged, at(until))
        self.ledger.judge_books(judged, at(100), at(100))
        self.ledger.judge_starts(judged)


def test_what_is_certain() -> None:
    assert Case().ways == {Way.NOTHING}
    for code, way in ((0, Way.COMPLETED), (3, Way.FAILED)):
        ended = Case()
        ended.ends(50, code)
        assert ended.ways == {way}
        ended.told(60, By.OTHERS)
        assert ended.ways == {way}, "it had ended long before"
    for by in (By.OTHERS, By.MACHINE):
        taken = Case()
        taken.told(50, by)
        taken.ends(55, None)
        assert taken.ways == {Way.INTERRUPTED}


def test_what_is_not_certain() -> None:
    same = Case()
    same.ends(50, 3)
    same.told(51, By.OTHERS)
    assert same.ways == {Way.FAILED, Way.INTERRUPTED}
    silent = Case()
    silent.ends(50, 0)
    silent.ledger.silent.append(("n1", at(100)))
    assert silent.ways == {Way.COMPLETED, Way.INTERRUPTED}
    uninstalled = Case()
    uninstalled.ends(50, 0)
    uninstalled.ledger.uninstalled.append(at(300))
    assert uninstalled.ways == {Way.COMPLETED}
    uninstalled.ledger.away.append((at(60), at(290)))
    assert uninstalled.ways == {Way.COMPLETED}, "its node has shown life all the same"
    for alone, ways in ((False, {Way.INTERRUPTED, Way.NOTHING}), (True, {Way.NOTHING})):
        stopped = Case(alone=alone)
        stopped.told(50, None)
        stopped.ends(55, None)
        assert stopped.ways == ways


def test_a_saved_state_is_no_failure() -> None:
    cases: tuple[tuple[dict[str, Any], bool, set[Way]], ...] = (
        ({"checkpointExitCode": 85}, False, {Way.NOTHING}),
        ({"checkpointExitCode": 85}, True, {Way.FAILED}),
        ({}, False, {Way.FAILED}),
    )
    for spec, killed, ways in cases:
        left = Case(**spec)
        left.ends(50, 85, killed=killed)
        assert left.ways == ways
        assert left.ledger.failures("sj") == (Way.FAILED in ways)
        left.judge(200.0, retries=int(Way.FAILED in ways))
    saved = Case(checkpointExitCode=85)
    saved.ends(50, 85)
    with pytest.raises(AssertionError, match="failed more often than it ran"):
        saved.judge(retries=1)


def test_only_the_program_counts() -> None:
    case = Case()
    beside = {**terminated(3, finished=format_time(at(20))), "name": "beside"}
    statuses = [beside, *case.pod["status"]["containerStatuses"]]
    containers = [{"name": "beside"}, *case.pod["spec"]["containers"]]
    case.api.edit(PODS, NS, "p", lambda pod: pod["spec"].update(containers=containers))
    case.api.edit(PODS, NS, "p", lambda pod: pod["status"].update(containerStatuses=statuses))
    case.ledger.read(at(20))
    assert case.ways == {Way.NOTHING}
    case.judge(200.0)


def test_what_never_started() -> None:
    for code, ways in ((128, {Way.FAILED, Way.NOTHING}), (None, {Way.NOTHING})):
        case = Case()
        pod = case.pod
        pod["metadata"] |= {"name": "q", "uid": "other"}
        pod["status"] = {"phase": "Failed", "containerStatuses": kubelet.not_started(pod, "no such file")}
        case.ledger.end(pod, at(5), code, killed=True) if code else case.ledger.order(pod, at(5), By.MACHINE)
        case.api.put(PODS, pod)
        case.ledger.read(at(5))
        life = next(one for one in case.ledger.truths["sj"].lives if one.uid == "other")
        assert life.began is None
        assert case.ledger.ways(life) == ways


@pytest.mark.parametrize(
    ("last", "told", "ways"),
    [
        (60, 55, {Way.FAILED, Way.INTERRUPTED}),
        (60, 70, {Way.FAILED}),
        (90, 55, {Way.FAILED}),
        (None, 55, {Way.FAILED}),
    ],
)
def test_a_deletion_before_the_last_container_ended_may_have_ended_the_program(
    last: int | None, told: int, ways: set[Way]
) -> None:
    """Within a grace period, as its kubelet says of the end of the pod alone of which deletions it knew."""
    case = Case()
    case.api.edit(PODS, NS, "p", lambda pod: pod["spec"].update(terminationGracePeriodSeconds=30))
    case.ends(50, 3)
    case.told(told, By.OTHERS)
    if last is not None:
        beside = {**terminated(0, finished=format_time(at(last))), "name": "beside"}
        case.api.edit(PODS, NS, "p", lambda pod: pod["status"]["containerStatuses"].append(beside))
        case.api.edit(PODS, NS, "p", lambda pod: pod["spec"]["containers"].append({"name": "beside"}))
        case.ledger.read(at(last))
    assert case.ways == ways


def test_a_member_whose_job_was_told_before_counts_as_told_when_it_was_told_itself() -> None:
    case = Case()
    second = {**case.pod, "metadata": {**case.pod["metadata"], "name": "q", "uid": "second"}}
    case.api.put(PODS, second)
    case.ledger.order(second, at(20), stays=True)
    case.ledger.read(at(20))
    case.ledger.end(case.pod, at(50), 3)
    stamp = {"deletionTimestamp": format_time(at(51))}
    case.api.edit(PODS, NS, "q", lambda pod: pod["metadata"].update(stamp))
    case.api.edit(PODS, NS, "p", lambda pod: pod["metadata"].update(stamp))
    case.ledger.read(at(51))
    assert Way.FAILED in case.ledger.ways_of_run("sj", "job", 2)


def test_a_pod_that_stays_computes_until_it_is_told_itself() -> None:
    case = Case()
    case.ledger.order(case.pod, at(20), stays=True)
    assert case.ways == {Way.INTERRUPTED, Way.NOTHING}
    (life,) = case.ledger.truths["sj"].lives
    assert life.until(at(90)) == at(90)
    case.told(40, None)
    assert life.until(at(90)) == at(40)
    assert case.ways == {Way.INTERRUPTED}
    fails = Case()
    fails.ledger.order(fails.pod, at(20), stays=True)
    fails.ends(50, 3)
    assert fails.ways == {Way.FAILED, Way.INTERRUPTED}


@pytest.mark.parametrize(
    ("evicted", "suspended", "least", "most"),
    [(40, None, 1, 1), (40, 50, 1, 1), (None, 30, 0, 0), (None, 60, 0, 1)],
)
def test_evictions_and_suspensions_of_arrays(evicted: int | None, suspended: int | None, least: int, most: int) -> None:
    case = Case(array={"tasks": 2})
    if suspended is not None and suspended < 40:
        case.suspends(suspended)
    case.told(40, By.OTHERS if evicted else None, evicted=evicted is not None)
    if suspended is not None and suspended > 40:
        case.suspends(suspended)
    case.ends(55, None)
    for count in range(3):
        if least <= count <= most:
            case.judge(200.0, interruptedCount=count)
        else:
            with pytest.raises(AssertionError, match="interrupted"):
                case.judge(200.0, interruptedCount=count)


def test_what_is_used_is_not_bounded() -> None:
    case = Case(capacity="Reclaimed")
    case.judge(usefulCPUSeconds=1_000.0)


@pytest.mark.parametrize(
    ("ends", "status", "says"),
    [
        (3, {"interruptedCount": 1}, "interrupted more often than it ran, 1 times of 0"),
        (3, {"phase": "Completed"}, "no run was left alone to its end"),
        (0, {"phase": "Failed"}, "a job is Failed"),
        (3, {"retries": 2}, "failed more often than it ran, 2 times of 1"),
        (3, {}, "failed 1 times, of which 0 are counted"),
        (None, {}, "interrupted 1 times, of which 0 are counted"),
        (3, {"retries": 1, "lostCPUSeconds": 60.0}, "60.0 core-seconds are booked of 5"),
    ],
)
def test_what_a_status_may_not_say(ends: int | None, status: dict[str, Any], says: str) -> None:
    case = Case()
    if ends is None:
        case.told(50, By.OTHERS)
    case.ends(50, ends)
    with pytest.raises(AssertionError, match=says):
        case.judge(60.0, **status)


def test_what_a_status_may_say() -> None:
    case = Case()
    case.judge(60.0)
    case.ends(50, 3)
    case.judge(40.0)  # it was not to be seen by then
    case.judge(60.0, retries=1, usefulCPUSeconds=20.0, lostCPUSeconds=30.0)


def test_the_width_of_arrays() -> None:
    case = Case(array={"tasks": 2, "maxRunning": 1})

    def judge(seconds: float, *, free: float = -100.0) -> None:
        case.ledger.judge_array(case.job, at(seconds), at(free))

    pod = case.pod
    case.api.put(PODS, {**pod, "metadata": {**pod["metadata"], "name": "q", "uid": "second"}})
    case.ledger.read(at(5))
    judge(5, free=4)
    with pytest.raises(AssertionError, match="2 tasks run at a time, of 1"):
        judge(5)
    case.told(6, By.OTHERS)
    with pytest.raises(AssertionError, match="2 tasks run at a time, of 1"):
        judge(400)
    case.ledger.silent.append(("n1", at(10)))
    judge(400)


def test_a_start_that_cannot_succeed_fails_no_array_that_computes() -> None:
    said = [{"type": "Succeeded", "status": "False", "reason": "NotFound"}]
    for told in (False, True):
        case = Case(array={"tasks": 2})
        if told:
            case.told(90, By.SERVICES)
        case.api.edit(SCAVENGERJOBS, NS, "j", lambda job: job["status"].update(phase="Failed", conditions=said))
        case.ledger.read(at(100))
        if told:
            case.ledger.judge_array(case.job, at(100), at(0))
        else:
            with pytest.raises(AssertionError, match="an array fails that computes"):
                case.ledger.judge_array(case.job, at(100), at(0))


def test_storms() -> None:
    case = Case()
    for number in range(5):
        pod = case.pod
        meta = {**pod["metadata"], "name": f"p{number}", "uid": f"pod-{number}"}
        case.api.put(PODS, {**pod, "metadata": meta})
    case.ledger.read(at(5))
    with pytest.raises(AssertionError, match="6 pods for 0 ends, more than 4"):
        case.judge()


def test_what_is_booked_of_an_end_that_services_cannot_have_seen() -> None:
    case = Case()
    case.ends(50, 0)
    job = {**case.job, "status": {**case.job["status"], "usefulCPUSeconds": 90.0}}
    case.ledger.judge_books(job, at(100), at(40))
    with pytest.raises(AssertionError, match=r"90.0 core-seconds are booked"):
        case.ledger.judge_books(job, at(100), at(60))
