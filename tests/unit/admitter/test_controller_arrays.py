"""Arrays, by the admitter as a whole: docs/designs/0023-arrays.md."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_kube.resources import JOBS, PODS

from .harness import NS, Harness, empty_harness
from .test_managed_jobs import pods_stop

pytestmark = pytest.mark.slow


def sets(c: Harness, name: str = "sweep") -> dict[str, Any]:
    found: dict[str, Any] = c.status(name).get("array") or {}
    return found


def alive(c: Harness, name: str = "sweep") -> list[str]:
    return sorted(p["metadata"]["name"] for p in c.pods(name) if p["status"].get("phase") == "Running")


def tasks_ever(c: Harness) -> list[str]:
    """The name of each pod there has ever been."""
    return sorted(name for _, _, name in c._ever("pods"))


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


async def test_an_interrupted_task_starts_again_and_the_others_run_on() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("sweep", array={"tasks": 3})
        await c.until(lambda: len(alive(c)) == 3 and c.phase("sweep") == "Running")
        await c.pass_time(5)
        (victim,) = [pod for pod in c.pods("sweep") if pod["metadata"]["name"] == "sweep-1"]
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
        (bad,) = [pod for pod in c.pods("sweep") if pod["metadata"]["name"] == "sweep-1"]
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
        (bad,) = [pod for pod in c.pods("sweep") if pod["metadata"]["name"] == "sweep-1"]
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
        c.api.put(PODS, {"metadata": {"name": "sweep-1", "namespace": NS}, "spec": {}, "status": {"phase": "Running"}})
        c.admitter()
        c.submit("sweep", array={"tasks": 3})
        await c.until(lambda: len(alive(c)) == 2)
        c.succeed("sweep")
        await c.until(lambda: "pod sweep-1" in c.status("sweep").get("message", ""), limit=200)
        assert sets(c)["completedIndexes"] == "0,2"


async def test_deleted_while_it_runs() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("sweep", array={"tasks": 3})
        await c.until(lambda: len(alive(c)) == 3 and c.phase("sweep") == "Running")
        await c.user().delete(SCAVENGERJOBS, NS, "sweep")
        await c.until(lambda: not c.held())
