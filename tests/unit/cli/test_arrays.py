"""The commands for tasks of an array."""

from __future__ import annotations

from typing import Any

from scavenger_api import names
from scavenger_testing.builders import pod_dict, running, scavengerjob_dict, terminated

from .conftest import Answer, Run, Server, listed

JOB = "/apis/scavenger.dev/v1alpha1/namespaces/lab/scavengerjobs/sweep"
PODS = "/api/v1/namespaces/lab/pods"


def sweep(array: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    found = scavengerjob_dict("sweep", namespace="lab")
    found["spec"]["array"] = array if array is not None else {"tasks": 10}
    return {**found, "status": {"phase": "Running", "array": status}}


def task(index: int, **more: Any) -> dict[str, Any]:
    labels = {names.LABEL_JOB: "sweep", names.LABEL_TASK: str(index)}
    pod = pod_dict(f"sweep-{index}", namespace="lab", labels=labels, **more)
    pod["metadata"]["annotations"] = {"batch.kubernetes.io/job-completion-index": str(index)}
    return pod


def test_tasks(server: Server, sj: Run) -> None:
    body = sweep(completed=3, failed=1, completedIndexes="0-2", failedIndexes="5")
    server.on(JOB, Answer(body=body))
    ended = task(5, phase="Failed", container_statuses=[terminated(1)])
    server.on(PODS, listed(task(4, phase="Running", node="n1"), ended))
    code, out, err = sj("tasks", "sweep")
    assert code == 0
    assert [line.split()[:3] for line in out.splitlines()] == [["TASK", "STATUS", "NODE"], ["4", "Running", "n1"]]
    assert err.splitlines() == ["Completed: 0-2", "Failed: 5", "3 of 10 tasks completed, 1 failed."]


def test_a_job_has_no_tasks(server: Server, sj: Run) -> None:
    server.on(JOB, Answer(body=scavengerjob_dict("sweep", namespace="lab")))
    assert sj("tasks", "sweep")[2].startswith("error: sweep is no array")


def test_retry(server: Server, sj: Run) -> None:
    server.on(JOB, Answer(body=sweep({"tasks": 10, "retry": 2}, failed=4)))
    server.on(JOB, Answer(body={}), method="PATCH")
    assert sj("retry", "sweep")[1] == "scavengerjob.scavenger.dev/sweep starts 4 tasks again\n"
    assert server.asked(JOB, "PATCH")[0].body == {"spec": {"array": {"retry": 3}}}


def test_retry_of_nothing(server: Server, sj: Run) -> None:
    server.on(JOB, Answer(body=sweep()))
    assert sj("retry", "sweep")[1] == "scavengerjob.scavenger.dev/sweep has no task that failed\n"


def test_logs_of_a_task(server: Server, sj: Run) -> None:
    server.on(JOB, Answer(body=sweep()))
    pods = [task(index, phase="Running", container_statuses=[running()]) for index in (4, 7)]
    server.on(PODS, listed(*pods))
    server.on(f"{PODS}/sweep-7/log", Answer(lines=[b"2026-01-05T12:00:00.000000000Z step 12"]))
    assert sj("logs", "sweep[7]")[:2] == (0, "step 12\n")
    assert sj("logs", "sweep[x]")[0] == 2
