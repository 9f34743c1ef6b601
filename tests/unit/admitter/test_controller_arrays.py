"""Arrays, by the admitter as a whole: docs/designs/0023-arrays.md."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Any

import orjson
import pytest
from scavenger_admitter.attempt import Stage
from scavenger_admitter.core.admission.cycle.plan import Start
from scavenger_admitter.core.lifecycle.actions import CreateJob, StartTasks
from scavenger_admitter.core.lifecycle.books import many
from scavenger_admitter.facts import candidate, run_of
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names, pod_names
from scavenger_api.times import format_time, parse_time
from scavenger_kube.errors import AlreadyExists, Forbidden
from scavenger_kube.resources import JOBS, NODES, PODS

from .builders import confirmed
from .harness import NS, Harness, empty_harness
from .test_managed_jobs import pods_stop
from .test_queue_controller import queue

pytestmark = pytest.mark.slow


def sets(c: Harness, name: str = "sweep") -> dict[str, Any]:
    found: dict[str, Any] = c.status(name).get("array") or {}
    return found


def task_of(pod: dict[str, Any]) -> str:
    """The array and the index of a pod, which are its host name."""
    return str(pod["spec"]["hostname"])


def pod_of(c: Harness, index: int, name: str = "sweep") -> str:
    """The name of the pod of a task."""
    job = c.api.get(SCAVENGERJOBS, NS, name)
    assert job is not None
    suffix = pod_names.task_suffix(job["metadata"]["uid"], name, job["spec"]["array"]["tasks"])
    return pod_names.pod_name(name, index, suffix)


def alive(c: Harness, name: str = "sweep") -> list[str]:
    return sorted(task_of(pod) for pod in c.pods(name) if pod["status"].get("phase") == "Running")


def tasks_ever(c: Harness) -> list[str]:
    """The task of each pod there has ever been. No other controller makes pods of these names."""
    made = [name for _, _, name in c._ever("pods")]
    found = [(name, pod_names.parts_of(name, "sweep")) for name in made]
    assert all(parts is not None and parts.suffix for _, parts in found), made
    return sorted(f"sweep-{parts.index}" for _, parts in found if parts is not None)


async def test_all_tasks_run_and_complete() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("sweep", array={"tasks": 5})
        await c.until(lambda: len(alive(c)) == 5)
        assert alive(c) == [f"sweep-{index}" for index in range(5)]
        env = {one["name"]: one.get("value") for one in c.pods("sweep")[3]["spec"]["containers"][0]["env"]}
        assert (env[names.ENV_TASK], env[names.ENV_TASKS], env["JOB_COMPLETION_INDEX"]) == ("3", "5", "3")
        await c.until(lambda: c.phase("sweep") == "Running")
        c.succeed("sweep")
        await c.until(lambda: c.phase("sweep") == "Completed")
        assert sets(c)["completedIndexes"] == "0-4"
        await c.until(lambda: not c.held())
        assert tasks_ever(c) == [f"sweep-{index}" for index in range(5)]
        job = c.api.get(JOBS, NS, "sweep")
        assert job is not None
        assert job["status"]["completedIndexes"] == "0-4"
        assert {one["type"] for one in job["status"]["conditions"]} == {"SuccessCriteriaMet", "Complete"}


async def test_a_task_has_the_index_that_its_user_gave_it() -> None:
    """Names of pods, labels and the sets of the status count from 0 on."""
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("sweep", array={"indexes": "1-9:4,20"})
        await c.until(lambda: len(alive(c)) == 4)
        assert alive(c) == [f"sweep-{index}" for index in range(4)]
        pods = c.pods("sweep")
        env = [{one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]} for pod in pods]
        assert [one[names.ENV_TASK] for one in env] == ["1", "5", "9", "20"]
        assert {one[names.ENV_TASKS] for one in env} == {"4"}
        assert [pod["metadata"]["annotations"][names.ANNOTATION_INDEX] for pod in pods] == ["1", "5", "9", "20"]
        assert [pod["metadata"]["labels"][names.LABEL_TASK] for pod in pods] == ["0", "1", "2", "3"]
        await c.until(lambda: c.phase("sweep") == "Running")
        for pod, code in zip(pods, (0, 3, 3, 0), strict=True):
            c.end(pod, code)
        await c.until(lambda: c.phase("sweep") == "Failed")
        assert sets(c)["failedIndexes"] == "1,2"
        assert c.status("sweep")["message"] == "2 of 4 tasks failed: 5,9"


async def test_indexes_that_no_webhook_has_refused_fail_the_array() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("sweep", array={"indexes": "9-1"})
        await c.until(lambda: c.phase("sweep") == "Failed")
        assert "spec.array.indexes: '9-1': '9-1' ends before it begins" in c.status("sweep")["message"]
        assert not c.pods("sweep")


async def test_no_more_than_may_run_at_a_time() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("sweep", array={"tasks": 6, "maxRunning": 2})
        for _ in range(3):
            await c.until(lambda: len(alive(c)) == 2)
            c.succeed("sweep")
        await c.until(lambda: c.phase("sweep") == "Completed")
        assert sets(c)["completed"] == 6
        assert c.most_at_once("sweep") == 2


async def test_the_queue_of_an_array_cannot_change_from_before_it_has_pods() -> None:
    """The rule of the CRD reads `status.jobName`: where that comes late, some tasks are in one queue and some in
    another."""
    async with empty_harness() as c:
        c.node()
        c.admitter()
        named: list[str | None] = []
        c.admission = lambda body: named.append(c.status("sweep").get("jobName")) if body["kind"] == "Pod" else None
        c.submit("sweep", array={"tasks": 3, "maxRunning": 1})
        for _ in range(3):
            await c.until(lambda: len(alive(c)) == 1)
            await c.pass_time(3)
            c.succeed("sweep")
        await c.until(lambda: c.phase("sweep") == "Completed")
        assert named == ["sweep"] * 3


async def test_tasks_that_are_granted_while_their_queue_changes_are_in_the_new_one() -> None:
    async with empty_harness() as c:
        c.node()
        for name in ("a", "b"):
            queue(c, name)
        c.admitter()
        queues: list[str] = []

        def admission(body: dict[str, Any]) -> None:
            if body["kind"] == "Pod":
                queues.append(body["metadata"]["labels"][names.LABEL_QUEUE])
            elif body["kind"] == "Job":  # the last moment at which its user may move it, if not for jobName
                told = c.status("sweep").get("jobName")
                c.api.edit(SCAVENGERJOBS, NS, "sweep", lambda job: told or job["spec"].update(queue="b"))

        c.admission = admission
        c.submit("sweep", queue="a", array={"tasks": 3, "maxRunning": 2})
        await c.until(lambda: len(alive(c)) == 2)
        c.succeed("sweep")
        await c.until(lambda: len(alive(c)) == 1)
        c.succeed("sweep")
        await c.until(lambda: c.phase("sweep") == "Completed")
        assert len(set(queues)) == 1


def grants(c: Harness, name: str = "sweep") -> dict[str, int]:
    """The number of the grant that each pod carries; 0 for none."""
    return {
        pod["metadata"]["name"]: int(pod["metadata"]["annotations"].get(names.ANNOTATION_GRANT, 0))
        for pod in c.pods(name)
    }


async def test_pods_carry_the_number_of_their_grant_and_hold_its_capacity() -> None:
    """Three more tasks are granted while five have no node yet. The pods of a job carry no number: it has one grant."""
    async with empty_harness() as c:
        c.node()
        instance = c.admitter()
        c.kubelet = False
        c.submit("sweep", array={"tasks": 8, "maxRunning": 5})
        await c.until(lambda: len(c.pods("sweep")) == 5)
        await c.pass_time(3)
        c.api.hold_watches(PODS)
        c.api.edit(SCAVENGERJOBS, NS, "sweep", lambda job: job["spec"]["array"].update(maxRunning=8))
        await c.until(lambda: len(c.pods("sweep")) == 8)
        held = sorted((one.pod, one.count) for one in instance.admitter._state.assumed_starts.reservations())
        assert held == [("", 3), *((f"{NS}/{pod_of(c, index)}", 1) for index in range(5))]
        c.api.release_watches(PODS)
        first, *_, last = numbers = list(grants(c).values())
        assert numbers == [first] * 5 + [last] * 3
        assert 0 < first < last
        c.submit("alone")
        await c.until(lambda: bool(c.pods("alone")))
        assert set(grants(c, "alone").values()) == {0}


async def test_what_was_decided_for_a_grant_that_was_taken_back_starts_nothing_for_the_next_one() -> None:
    async with empty_harness() as c:
        c.node()
        admitter = c.admitter().admitter
        c.submit("sweep", array={"tasks": 2})
        await c.until(lambda: len(alive(c)) == 2)
        job = admitter._informers.job(f"{NS}/sweep")
        assert job is not None
        start, run = Start(candidate(job, 0), ("n1",)), run_of(job)
        admitter._records[job.key].attempt.grant(run, start, c.clock.monotonic(), number=200)
        late = StartTasks(CreateJob(run, 0), (0, 1), grant=100)
        await admitter._reconciler._starter.start(job, confirmed(late))
        assert admitter._records[job.key].attempt.stage is Stage.GRANTED
        assert c.api.count("POST", "/pods") == 2


async def test_a_task_knows_how_often_it_was_interrupted() -> None:
    """The others do not count for it, nor does a failure; and a successor of the admitter knows it as well."""

    def restarts(index: int) -> str:
        pod = next(one for one in c.pods("sweep") if one["metadata"]["labels"][names.LABEL_TASK] == str(index))
        env = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
        return str(env[names.ENV_RESTARTS])

    async with empty_harness() as c:
        c.node()
        first = c.admitter()
        c.submit("sweep", array={"tasks": 3}, backoffLimit=5)
        for times in range(1, 4):
            await c.until(lambda: len(alive(c)) == 3)
            c.delete_pod(next(pod for pod in c.pods("sweep") if pod["metadata"]["labels"][names.LABEL_TASK] == "1"))
            await c.until(lambda times=times: sets(c).get("interruptions") == f"1:{times}")  # type: ignore[misc]
        await first.kill()
        c.admitter()
        await c.until(lambda: len(alive(c)) == 3)
        c.end(next(pod for pod in c.pods("sweep") if pod["metadata"]["labels"][names.LABEL_TASK] == "2"), 3)
        await c.until(lambda: sets(c).get("retriesUsed") == "2:1")
        await c.until(lambda: len(alive(c)) == 3)
        assert [restarts(index) for index in range(3)] == ["0", "3", "0"]
        assert sets(c)["interruptions"] == "1:3"


async def test_an_interrupted_task_starts_again_and_the_others_run_on() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("sweep", array={"tasks": 3})
        await c.until(lambda: len(alive(c)) == 3 and c.phase("sweep") == "Running")
        await c.pass_time(5)
        (victim,) = [pod for pod in c.pods("sweep") if task_of(pod) == "sweep-1"]
        c.delete_pod(victim)
        await c.until(lambda: c.status("sweep").get("interruptedCount") == 1)
        await c.until(lambda: len(alive(c)) == 3)
        assert tasks_ever(c) == ["sweep-0", "sweep-1", "sweep-1", "sweep-2"]
        c.succeed("sweep")
        await c.until(lambda: c.phase("sweep") == "Completed")
        assert c.status("sweep")["interruptedCount"] == 1


async def test_another_admitter_goes_on_with_half_of_a_start() -> None:
    async with empty_harness() as c:
        c.node()
        first = c.admitter()
        pods_stop(c, 3, "hang")
        c.submit("sweep", array={"tasks": 8})
        await c.until(lambda: len(c.pods("sweep")) >= 2)
        await c.pass_time(3)
        await first.kill()
        c.api.heal()
        c.admitter()
        await c.until(lambda: len(alive(c)) == 8)
        c.succeed("sweep")
        await c.until(lambda: c.phase("sweep") == "Completed")
        assert tasks_ever(c) == [f"sweep-{index}" for index in range(8)]
        assert c.jobs_ever("sweep") == 1


async def test_a_task_that_failed_starts_again_where_it_may() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("sweep", array={"tasks": 2}, backoffLimit=1)
        await c.until(lambda: len(alive(c)) == 2)
        await c.pass_time(70)
        (bad,) = [pod for pod in c.pods("sweep") if task_of(pod) == "sweep-1"]
        c.end(bad, 1)
        await c.until(lambda: sets(c).get("retriesUsed") == "1:1")
        await c.until(lambda: len(alive(c)) == 2)
        c.succeed("sweep")
        await c.until(lambda: c.phase("sweep") == "Completed")


async def test_retry_of_tasks_that_failed() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("sweep", array={"tasks": 2})
        await c.until(lambda: len(alive(c)) == 2)
        (bad,) = [pod for pod in c.pods("sweep") if task_of(pod) == "sweep-1"]
        c.end(bad, 1)
        c.succeed("sweep")
        await c.until(lambda: c.phase("sweep") == "Failed")
        assert sets(c)["failedIndexes"] == "1"

        def again(body: dict[str, Any]) -> None:
            body["spec"]["array"]["retry"] = 1

        c.api.edit(SCAVENGERJOBS, NS, "sweep", again)
        await c.until(lambda: alive(c) == ["sweep-1"])
        c.succeed("sweep")
        await c.until(lambda: c.phase("sweep") == "Completed")
        assert sets(c)["completedIndexes"] == "0,1"


async def test_suspend_and_go_on() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("sweep", array={"tasks": 3})
        await c.until(lambda: len(alive(c)) == 3 and c.phase("sweep") == "Running")

        def suspended(value: bool) -> None:
            c.api.edit(SCAVENGERJOBS, NS, "sweep", lambda body: body["spec"].update(suspend=value))

        suspended(True)
        await c.until(lambda: c.phase("sweep") == "Suspended" and not c.pods("sweep"))
        await c.pass_time(20)
        assert not c.pods("sweep")
        suspended(False)
        await c.until(lambda: len(alive(c)) == 3)
        assert c.status("sweep")["interruptedCount"] == 0


async def test_a_pod_of_others_with_the_name_of_a_task_holds_only_that_back() -> None:
    async with empty_harness() as c:
        c.node()
        c.submit("sweep", array={"tasks": 3})
        name = pod_of(c, 1)
        c.api.put(PODS, {"metadata": {"name": name, "namespace": NS}, "spec": {}, "status": {"phase": "Running"}})
        c.admitter()
        await c.until(lambda: len(alive(c)) == 2)
        c.succeed("sweep")
        await c.until(lambda: f"pod {name}," in c.status("sweep").get("message", ""), limit=200)
        assert sets(c)["completedIndexes"] == "0,2"


async def test_a_statefulset_of_the_same_name_gets_its_pods() -> None:
    """The pods of completed tasks are kept for their logs, and an array runs for days."""
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("postgres", array={"tasks": 2, "maxRunning": 1})
        await c.until(lambda: len(alive(c, "postgres")) == 1)
        c.succeed("postgres")
        await c.until(lambda: alive(c, "postgres") == ["postgres-1"] and len(c.pods("postgres")) == 2)
        for ordinal in range(2):
            pod = {"metadata": {"name": f"postgres-{ordinal}", "namespace": NS}, "spec": {"containers": []}}
            await c.run_to_end(c.user().create(PODS, NS, pod))
        c.succeed("postgres")
        await c.until(lambda: c.phase("postgres") == "Completed")


def older_admitter(c: Harness) -> None:
    """Jobs are created as an older admitter created them: without a suffix for the names of pods."""

    def admission(body: dict[str, Any]) -> None:
        if body["kind"] == "Job":
            del body["spec"]["template"]["metadata"]["annotations"][names.ANNOTATION_POD_SUFFIX]

    c.admission = admission


def newer_admitter(c: Harness) -> None:
    """Jobs are created as they are now."""
    c.admission = lambda body: None


def pods_ever(c: Harness) -> list[str]:
    return sorted(name for _, _, name in c._ever("pods"))


async def test_the_tasks_of_a_job_from_before_an_upgrade_keep_their_names() -> None:
    """Two lives of a task never have two names, whatever a watch shows: the API server refuses the second."""
    async with empty_harness() as c:
        c.node()
        older_admitter(c)
        first = c.admitter()
        c.submit("sweep", array={"tasks": 4, "maxRunning": 2})
        await c.until(lambda: len(alive(c)) == 2)
        await first.kill()
        newer_admitter(c)
        c.admitter()
        await c.pass_time(5)
        (victim,) = [pod for pod in c.pods("sweep") if task_of(pod) == "sweep-0"]
        c.delete_pod(victim)
        await c.until(lambda: c.status("sweep").get("interruptedCount") == 1 and len(alive(c)) == 2)
        c.succeed("sweep")
        await c.until(lambda: alive(c) == ["sweep-2", "sweep-3"])
        c.succeed("sweep")
        await c.until(lambda: c.phase("sweep") == "Completed")
        assert pods_ever(c) == ["sweep-0", "sweep-0", "sweep-1", "sweep-2", "sweep-3"]


async def test_a_job_that_is_created_again_beside_pods_from_before_an_upgrade_names_its_own_as_they_are() -> None:
    """Somebody has deleted the Job, and its pods are still there."""
    async with empty_harness() as c:
        c.node()
        older_admitter(c)
        c.admitter()
        c.submit("sweep", array={"tasks": 3, "maxRunning": 2})
        await c.until(lambda: len(alive(c)) == 2)
        newer_admitter(c)
        c.kubelet = False  # it does not end what is deleted
        c.api.remove(JOBS, NS, "sweep")
        c.api.edit(SCAVENGERJOBS, NS, "sweep", lambda job: job["spec"]["array"].update(maxRunning=3))
        await c.until(lambda: len(c.pods("sweep")) == 3)
        c.kubelet = True
        await c.until(lambda: len(alive(c)) == 3)
        c.succeed("sweep")
        await c.until(lambda: c.phase("sweep") == "Completed")
        assert pods_ever(c) == ["sweep-0", "sweep-0", "sweep-1", "sweep-1", "sweep-2"]


async def test_all_lives_of_a_task_have_one_name_also_under_another_job() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("sweep", array={"tasks": 2})
        await c.until(lambda: len(alive(c)) == 2)
        job = c.api.get(JOBS, NS, "sweep")
        assert job is not None
        for pod in c.pods("sweep"):
            c.delete_pod(pod)
        c.api.remove(JOBS, NS, "sweep")
        await c.until(lambda: len(pods_ever(c)) == 4 and len(alive(c)) == 2)
        again = c.api.get(JOBS, NS, "sweep")
        assert again is not None
        assert again["metadata"]["uid"] != job["metadata"]["uid"]
        assert pods_ever(c) == sorted(2 * [pod_of(c, 0), pod_of(c, 1)])


async def test_a_pod_that_has_gone_meanwhile_holds_nothing_back() -> None:
    async with empty_harness() as c:
        c.node()
        there = {"sweep-1"}

        def admission(body: dict[str, Any]) -> None:
            if body["kind"] == "Pod" and task_of(body) in there:
                there.clear()
                said = f'pods "{body["metadata"]["name"]}" already exists'
                raise AlreadyExists(HTTPStatus.CONFLICT, "AlreadyExists", said)

        c.admission = admission
        c.admitter()
        c.submit("sweep", array={"tasks": 3})
        await c.until(lambda: len(alive(c)) == 3, limit=30)
        assert not there


async def test_an_answer_that_says_nothing_delays_an_array_by_seconds() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.api.fail(504, times=1, methods={"POST"}, path="/jobs", body=b"gateway timeout")
        c.submit("sweep", array={"tasks": 2})
        await c.until(lambda: len(alive(c)) == 2, limit=20)


def to_running(c: Harness) -> None:
    c.node()


def to_waiting(c: Harness) -> None:
    """There is no node."""


def to_starting(c: Harness) -> None:
    c.kubelet = False
    c.node()


def to_suspended(c: Harness) -> None:
    c.node()
    c.api.edit(SCAVENGERJOBS, NS, "sweep", lambda body: body["spec"].update(suspend=True))


def to_completed(c: Harness) -> None:
    c.node()
    tick = c.tick

    def ticked() -> None:
        tick()
        c.succeed("sweep")

    c.tick = ticked  # type: ignore[method-assign]


def to_failed(c: Harness) -> None:
    c.node()
    tick = c.tick

    def ticked() -> None:
        tick()
        for pod in c.pods("sweep"):
            if pod["status"].get("phase") == "Running":
                c.end(pod, 1)

    c.tick = ticked  # type: ignore[method-assign]


def to_interrupted(c: Harness) -> None:
    """All tasks run, and then their node goes away with them."""
    c.node()
    tick = c.tick

    def ticked() -> None:
        tick()
        if len(alive(c)) == 3 and c.phase("sweep") == "Running":
            c.api.edit(NODES, None, "n1", lambda body: body["spec"].update(unschedulable=True))
            for pod in c.pods("sweep"):
                c.delete_pod(pod)

    c.tick = ticked  # type: ignore[method-assign]


PHASES = [to_waiting, to_starting, to_running, to_interrupted, to_suspended, to_completed, to_failed]


@pytest.mark.parametrize("way", PHASES)
async def test_deleted_in_every_phase(way: Callable[[Harness], None]) -> None:
    phase = way.__name__.removeprefix("to_").capitalize()
    async with empty_harness() as c:
        c.admitter()
        c.submit("sweep", array={"tasks": 3})
        way(c)
        await c.until(lambda: c.phase("sweep") == phase)
        await c.pass_time(5)
        await c.user().delete(SCAVENGERJOBS, NS, "sweep")
        await c.until(lambda: not c.held())
        before = tasks_ever(c)
        await c.pass_time(20)
        assert tasks_ever(c) == before, "nothing starts any more"


@pytest.mark.parametrize("way", [to_starting, to_running, to_interrupted])
async def test_deleted_while_nobody_leads(way: Callable[[Harness], None]) -> None:
    async with empty_harness() as c:
        first = c.admitter()
        c.submit("sweep", array={"tasks": 3})
        way(c)
        await c.until(lambda: c.phase("sweep") == way.__name__.removeprefix("to_").capitalize())
        await first.kill()
        await c.user().delete(SCAVENGERJOBS, NS, "sweep")
        before = tasks_ever(c)
        c.admitter()
        await c.until(lambda: not c.held())
        await c.pass_time(20)
        assert not c.pods("sweep")
        assert tasks_ever(c) == before


@pytest.mark.parametrize("way", [to_waiting, to_starting, to_running, to_interrupted])
async def test_suspended_in_every_phase(way: Callable[[Harness], None]) -> None:
    phase = way.__name__.removeprefix("to_").capitalize()
    async with empty_harness() as c:
        c.admitter()
        c.submit("sweep", array={"tasks": 3})
        way(c)
        await c.until(lambda: c.phase("sweep") == phase)
        before = c.status("sweep").get("interruptedCount", 0)
        c.api.edit(SCAVENGERJOBS, NS, "sweep", lambda body: body["spec"].update(suspend=True))
        await c.until(lambda: c.phase("sweep") == "Suspended" and not c.pods("sweep"))
        assert c.status("sweep").get("interruptedCount", 0) == before


@pytest.mark.parametrize("way", PHASES)
async def test_another_admitter_takes_over_in_every_phase(way: Callable[[Harness], None]) -> None:
    phase = way.__name__.removeprefix("to_").capitalize()
    async with empty_harness() as c:
        first = c.admitter()
        c.submit("sweep", array={"tasks": 3})
        way(c)
        await c.until(lambda: c.phase("sweep") == phase)
        tasks, count = tasks_ever(c), c.status("sweep").get("interruptedCount", 0)
        await first.kill()
        c.admitter()
        await c.pass_time(30)
        assert c.phase("sweep") == phase
        assert (tasks_ever(c), c.status("sweep").get("interruptedCount", 0)) == (tasks, count)


# --- pods that are kept ---


@pytest.mark.parametrize("taken_over", [False, True])
async def test_large_pods_of_an_array_are_kept_by_their_bytes(
    taken_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process does not know how large the pods are that the first one created, and asks for one."""
    monkeypatch.setattr(many, "KEPT_BYTES", 2**21)
    async with empty_harness() as c:
        c.node()
        first = c.admitter()
        words = [{"name": f"V{number}", "value": "x" * 10_000} for number in range(20)]
        c.submit("sweep", array={"tasks": 24}, env=words)
        await c.until(lambda: len(alive(c)) == 24)
        if taken_over:
            await first.kill()
            c.admitter()
        c.succeed("sweep")
        await c.until(lambda: c.phase("sweep") == "Completed" and not c.held())
        await c.pass_time(10)
        size = sum(len(orjson.dumps(pod)) for pod in c.pods("sweep"))
        assert 1.5 * 2**20 < size < 2.1 * 2**20
        assert c.api.count("GET", "/pods/sweep-") == taken_over


# --- how many run ---


async def test_the_most_that_run_at_a_time_grows_and_shrinks() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("sweep", array={"tasks": 10, "maxRunning": 4})
        await c.until(lambda: len(alive(c)) == 4)

        def most(number: int) -> None:
            c.api.edit(SCAVENGERJOBS, NS, "sweep", lambda body: body["spec"]["array"].update(maxRunning=number))

        await c.pass_time(100)
        most(7)
        await c.until(lambda: len(alive(c)) == 7)
        await c.pass_time(100)
        for name, seconds in {"sweep-1": 90, "sweep-2": 5, "sweep-5": 10}.items():
            checkpoint(c, pod_of(c, int(name.removeprefix("sweep-"))), seconds)
        await c.pass_time(1)
        most(5)
        await c.until(lambda: len(alive(c)) == 5)
        await c.pass_time(30)
        left = {f"sweep-{index}" for index in range(7)}
        assert set(alive(c)) == left - {"sweep-2", "sweep-5"}, "those that saved their work last went"
        assert c.status("sweep")["interruptedCount"] == 2
        most(7)
        await c.until(lambda: set(alive(c)) == left)
        assert c.most_at_once("sweep") == 7


def checkpoint(c: Harness, pod: str, seconds: float) -> None:
    """A task reports that it saved its work so many seconds ago."""
    at = format_time(c.clock.now() - timedelta(seconds=seconds))
    c.api.edit(
        PODS, NS, pod, lambda body: body["metadata"]["annotations"].update({names.ANNOTATION_LAST_CHECKPOINT: at})
    )


async def test_a_quota_is_used_up_and_asked_for_less_and_less() -> None:
    async with empty_harness() as c:
        c.node()
        left = 5

        def admission(body: dict[str, Any]) -> None:
            nonlocal left
            if body["kind"] == "Pod":
                if not left:
                    said = f'pods "{body["metadata"]["name"]}" is forbidden: exceeded quota: small, limited: pods=5'
                    raise Forbidden(HTTPStatus.FORBIDDEN, "Forbidden", said)
                left -= 1

        c.admission = admission
        instance = c.admitter()
        c.submit("sweep", array={"tasks": 60})
        await c.until(lambda: len(alive(c)) == 5)
        attempt = instance.admitter._records[f"{NS}/sweep"].attempt
        asked: list[int] = []

        def ask() -> bool:
            if attempt.most is not None and asked[-1:] != [attempt.most]:
                asked.append(attempt.most)
            return attempt.most == 1

        await c.until(ask, limit=3000)
        assert asked == [30, 15, 7, 3, 1]
        assert len(alive(c)) == 5
        assert c.events("StartFailed")
        left = 100
        await c.until(lambda: len(alive(c)) == 60, limit=2000)
        c.succeed("sweep")
        await c.until(lambda: c.phase("sweep") == "Completed")
        assert tasks_ever(c) == sorted(f"sweep-{index}" for index in range(60)), "no task ran twice"


async def test_a_task_that_came_back_is_not_the_next_to_go_for_another_queue() -> None:
    async with empty_harness() as c:
        c.node(cpu="10.1")
        queue(c, "a")
        queue(c, "b")
        c.admitter(fallback_admission_percent=100)
        c.submit("sweep", queue="a", cpu="1", array={"tasks": 10}, interruptionAfter="1h")
        await c.until(lambda: len(alive(c)) == 10)
        await c.pass_time(300)
        (victim,) = [pod for pod in c.pods("sweep") if task_of(pod) == "sweep-4"]
        c.api.edit(NODES, None, "n1", lambda body: body["spec"].update(unschedulable=True))  # as a drain does
        c.delete_pod(victim)
        await c.until(lambda: sets(c)["interruptedIndexes"] == "4")
        c.api.edit(NODES, None, "n1", lambda body: body["spec"].update(unschedulable=False))
        await c.until(lambda: len(alive(c)) == 10)
        await c.pass_time(15)
        c.submit("other", queue="b", cpu="1")
        await c.until(lambda: c.phase("other") == "Running")
        assert len(alive(c)) == 9
        assert "sweep-4" in alive(c), "it had the least to lose"


# --- killed at random ---


@dataclass
class Life:
    """A pod of a task, as the history of the API server has it: moments in seconds, `saved` of its last checkpoint."""

    task: str
    started: float
    ended: float
    saved: float
    code: int

    @property
    def useful(self) -> float:
        """Seconds that were not computed in vain."""
        if self.code == 0:
            return self.ended - self.started
        return self.saved - self.started if self.started < self.saved <= self.ended else 0.0


def lives(c: Harness) -> list[Life]:
    """Of all pods there have ever been of which a container ran."""
    last = {}
    for entry in c.api.store.history:
        obj = entry.new or entry.old
        if entry.kind.plural == "pods" and obj is not None:
            last[obj["metadata"]["uid"]] = obj
    return [_life(pod) for pod in last.values() if pod["status"].get("containerStatuses")]


def _life(pod: dict[str, Any]) -> Life:
    meta, state = pod["metadata"], pod["status"]["containerStatuses"][0]["state"]["terminated"]
    asked = _seconds(meta.get("deletionTimestamp")) if state["exitCode"] else 0.0
    ended = _seconds(state["finishedAt"])
    saved = _seconds(meta.get("annotations", {}).get(names.ANNOTATION_LAST_CHECKPOINT))
    ended = min(asked, ended) if asked else ended
    return Life(meta["labels"][names.LABEL_TASK], _seconds(state["startedAt"]), ended, saved, state["exitCode"])


def _seconds(stamp: str | None) -> float:
    at = parse_time(stamp)
    return at.timestamp() if at is not None else 0.0


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
async def test_whatever_is_killed_each_task_is_done_once_and_the_books_are_true(seed: int) -> None:
    chosen = random.Random(seed)
    async with empty_harness() as c:
        c.node()
        admitter = c.admitter()
        c.submit("sweep", cpu="1", array={"tasks": 120, "maxRunning": 40}, interruptionAfter="2h")
        killed, restarts = 0, 0
        for _ in range(400):
            if c.phase("sweep") == "Completed":
                break
            await c.pass_time(chosen.uniform(0.1, 8))
            for pod in c.pods("sweep"):
                if pod["status"].get("phase") != "Running" or "deletionTimestamp" in pod["metadata"]:
                    continue
                match chosen.random():
                    case luck if luck < 0.05:
                        c.delete_pod(pod)
                        killed += 1
                    case luck if luck < 0.3:
                        checkpoint(c, pod["metadata"]["name"], 0)
                    case luck if luck < 0.5:
                        c.end(pod)
            if chosen.random() < 0.4:
                await admitter.kill()
                admitter = c.admitter()
                restarts += 1
        await c.until(lambda: c.phase("sweep") == "Completed" and not c.held())
        assert killed > 5
        assert restarts > 2
        ran = lives(c)
        assert Counter(one.task for one in ran if one.code == 0) == Counter(str(index) for index in range(120))
        status = c.status("sweep")
        assert sets(c)["completedIndexes"] == "0-119"
        assert status["interruptedCount"] == sum(one.code != 0 for one in ran) >= killed
        computed = sum(one.ended - one.started for one in ran)
        assert status["usefulCPUSeconds"] + status["lostCPUSeconds"] == pytest.approx(computed)
        assert status["usefulCPUSeconds"] == pytest.approx(sum(one.useful for one in ran))


# --- one object is one place ---


def waits(c: Harness, name: str) -> bool:
    return c.phase(name) == "Waiting"


@pytest.mark.parametrize("way", ["goes on", "is taken over", "is taken over without pods"])
async def test_what_came_before_the_last_start_goes_before_the_next_task(way: str) -> None:
    """Also where another admitter takes over: pods and status say when tasks started."""
    async with empty_harness() as c:
        c.node(cpu="10")
        first = c.admitter()
        c.submit("sweep", array={"tasks": 50}, cpu="6")
        await c.until(lambda: alive(c) == ["sweep-0"])
        for name in ("one", "two"):
            c.submit(name, cpu="6")
            await c.until(partial(waits, c, name))
        c.succeed("sweep")
        await c.until(lambda: alive(c) == ["sweep-1"])  # its place is older than that of the others
        await c.pass_time(15)
        c.submit("three", cpu="6")
        await c.until(partial(waits, c, "three"))
        c.succeed("sweep")
        await c.until(lambda: c.phase("one") == "Running")
        await c.until(lambda: sets(c).get("completed") == 2)
        if way != "goes on":
            await first.kill()
            if way == "is taken over without pods":
                for pod in c.pods("sweep"):
                    c.api.remove(PODS, NS, pod["metadata"]["name"])
            c.admitter()
            await c.pass_time(30)
        c.succeed("one")
        await c.until(lambda: c.phase("two") == "Running")
        c.succeed("two")
        await c.until(lambda: alive(c) == ["sweep-2"])  # sweep-1 started before three came
        c.succeed("sweep")
        await c.until(lambda: c.phase("three") == "Running")


async def test_the_wall_clock_is_set_back_and_places_of_tasks_are_later_all_the_same() -> None:
    async with empty_harness() as c:
        c.node(cpu="10")
        admitter = c.admitter(skew=250)
        c.submit("first", cpu="6")
        await c.until(lambda: c.phase("first") == "Running")
        c.submit("one", cpu="6")
        await c.until(partial(waits, c, "one"))
        admitter.clock.skew = timedelta()
        c.submit("sweep", array={"tasks": 9}, cpu="6")
        await c.pass_time(2)
        c.succeed("first")
        await c.until(lambda: c.phase("one") == "Running")
        c.succeed("one")
        await c.until(lambda: alive(c) == ["sweep-0"])
        c.submit("two", cpu="6")
        await c.pass_time(2)
        c.succeed("sweep")
        await c.until(lambda: alive(c) == ["sweep-1"])
        c.succeed("sweep")
        await c.until(lambda: c.phase("two") == "Running")


async def test_arrays_keep_their_place_where_that_is_set() -> None:
    async with empty_harness() as c:
        c.node(cpu="10")
        c.admitter(arrays_keep_place=True)
        c.submit("sweep", array={"tasks": 50}, cpu="6")
        await c.until(lambda: alive(c) == ["sweep-0"])
        c.submit("one", cpu="6")
        await c.until(lambda: c.phase("one") == "Waiting")
        for index in range(1, 4):
            c.succeed("sweep")
            await c.until(lambda index=index: alive(c) == [f"sweep-{index}"])  # type: ignore[misc]
        assert c.phase("one") == "Waiting"
