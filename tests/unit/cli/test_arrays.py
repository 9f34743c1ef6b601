"""The commands for tasks of an array."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from scavenger_api import names
from scavenger_api.shared_settings import SharedSettings
from scavenger_api.times import format_time
from scavenger_cli.details import cpu_account
from scavenger_cli.exits import ExitCode
from scavenger_cli.facts import Cause, Explanation, Facts
from scavenger_cli.lists import job_header, job_row
from scavenger_cli.tasks import explain_array, explain_task
from scavenger_kube.kinds import Pod
from scavenger_testing.builders import condition, pod_dict, running, scavengerjob_dict, terminated

from . import cases
from .cases import ago
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
    pod["metadata"].setdefault("annotations", {})["batch.kubernetes.io/job-completion-index"] = str(index)
    return pod


def test_tasks(server: Server, sj: Run) -> None:
    body = sweep(completed=3, failed=1, completedIndexes="0-2", failedIndexes="5", retriesUsed="4:2")
    server.on(JOB, Answer(body=body))
    ended = task(5, phase="Failed", container_statuses=[terminated(1)])
    began = {"name": "main", "state": {"running": {"startedAt": format_time(datetime.now(UTC))}}}
    runs = task(4, phase="Running", node="n1", container_statuses=[began])
    server.on(PODS, listed(runs, task(7, phase="Pending"), ended))
    code, out, err = sj("tasks", "sweep")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["TASK", "STATUS", "NODE", "AGE", "RETRIES", "UNSAVED", "LAST-CHECKPOINT"]
    assert [row[:3] for row in rows[1:]] == [["4", "Running", "n1"], ["7", "Starting", "<none>"]]
    assert rows[1][4] == "2"
    assert 0 <= int(rows[1][5]) < 50, "seconds since the start"
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


def test_a_list_has_what_all_tasks_take_and_no_figure_of_one() -> None:
    status = {"array": {"progress": "40/100", "completed": 40, "running": 30}, "runningTimestamps": [ago(9000)]}
    job = cases.job("sweep", phase="Running", status=status, array={"tasks": 100}, cpu="2", memory="1Gi")
    header, cells = job_header(wide=True, namespaces=False), job_row(job, cases.NOW, wide=True, namespaces=False)
    row = dict(zip(header, cells, strict=True))
    assert (row["PODS"], row["TASKS"], row["CPU"], row["MEMORY"]) == ("30", "40/100", "60", "30Gi")
    assert (row["UNSAVED"], row["CLASS"]) == ("", "")
    assert "unsaved" not in cpu_account(job, cases.NOW)
    waiting = cases.job("sweep", array={"tasks": 100}, cpu="2")
    assert waiting.pods == 1, "what its next task asks for"


# --- why ---


def array_facts(
    *pods: dict[str, Any], phase: str = "Running", array: dict[str, Any] | None = None, **status: Any
) -> Facts:
    """An array of ten tasks of 2 cores each, unless told otherwise; `status` is its `status.array`."""
    more: dict[str, Any] = {"message": status.pop("message", ""), "conditions": status.pop("conditions", [])}
    subject = cases.job("sweep", phase=phase, status={"array": status, **more}, array=array or {"tasks": 10}, cpu="2")
    return cases.facts(subject, pods=[msgspec.convert(pod, Pod) for pod in pods], line=None)


def shown(found: Explanation) -> dict[str, str]:
    return {finding.label: finding.text for finding in found.findings}


def busy(index: int, seconds: float, **more: Any) -> dict[str, Any]:
    """A task that has been running for so long."""
    state = {"name": "main", "state": {"running": {"startedAt": ago(seconds)}}}
    return task(index, phase="Running", node="n1", container_statuses=[state], **more)


def test_why_of_an_array_that_runs_as_many_as_it_may() -> None:
    status: dict[str, Any] = {"completed": 3, "completedIndexes": "0-2", "running": 2, "runningIndexes": "3,4"}
    found = explain_array(array_facts(busy(3, 100), busy(4, 40), array={"tasks": 10, "maxRunning": 2}, **status))
    assert (found.cause, found.headline) == (Cause.RUNNING, "sweep runs 2 of 7 tasks that have not ended")
    figures = shown(found)
    assert figures["tasks"] == "10: 3 completed, 2 running, 5 waiting"
    assert figures["waiting"] == "5 tasks, as maxRunning is 2"
    assert figures["unsaved work"].startswith(f"{2 * (100 + 40) / 60:.1f} min of CPU time")
    restarts = 2 * 60  # what a restart costs each of them
    assert figures["priority"].startswith(f"{2 * (100 + 40 + restarts) / 60:.1f} min of CPU time, with what a restart")
    assert '"maxRunning":4' in found.remedies[0]


def test_tasks_are_ranked_by_the_settings_of_all_components() -> None:
    facts = array_facts(busy(3, 100), running=1, runningIndexes="3")
    found = explain_array(replace(facts, shared=SharedSettings(startup_cost_seconds=600)))
    assert shown(found)["priority"].startswith(f"{2 * 700 / 60:.1f} min of CPU time, with what a restart")


def test_why_of_an_array_that_waits_for_capacity() -> None:
    figures = shown(explain_array(array_facts(busy(0, 100), running=1, runningIndexes="0")))
    assert figures["waiting"] == "9 tasks, for capacity"
    assert "cpu load" in figures
    assert figures["capacity now"] == "for 12 such pods on 3 nodes it may use"


def test_why_of_an_array_some_of_whose_tasks_failed() -> None:
    status: dict[str, Any] = {"completed": 4, "failed": 6, "completedIndexes": "0-3", "failedIndexes": "4-9"}
    found = explain_array(array_facts(phase="Failed", message="6 of 10 tasks failed: 4-9", **status))
    assert (found.cause, found.headline) == (Cause.TASKS_FAILED, "sweep failed: 6 of 10 tasks failed: 4-9")
    assert found.remedies[0].endswith("kubectl sj logs 'sweep[4]' -n default")
    assert found.remedies[1].endswith("kubectl sj retry sweep -n default")
    assert "submit it again" not in " ".join(found.remedies)


def test_why_of_an_array_in_line_is_as_of_a_job_with_its_progress() -> None:
    wait = [condition("Admitted", "False", "NoPlace", "needs 2 cpu; the largest free place is 1 cpu")]
    found = explain_array(array_facts(phase="Interrupted", conditions=wait, completed=1, completedIndexes="0"))
    assert found.cause == "NoPlace"
    assert shown(found)["tasks"] == "10: 1 completed, 9 waiting"


def test_why_of_a_task_that_runs() -> None:
    notes = {names.ANNOTATION_LAST_CHECKPOINT: ago(30), names.ANNOTATION_INTERRUPTED: "true"}
    pod = busy(7, 100, annotations=notes)
    found = explain_task(array_facts(busy(3, 500), pod, running=2, runningIndexes="3,7", retriesUsed="7:2"), 7)
    assert (found.cause, found.headline) == (Cause.RUNNING, "sweep[7] has been running for 100s")
    figures = shown(found)
    assert figures["node"] == "n1"
    assert figures["runs"] == "started again 2 times, as its program failed; the last run was interrupted"
    assert figures["unsaved work"].startswith("60 s of CPU time"), "two cores since its checkpoint"
    assert "priority" not in figures, "no restart is to be paid for after the first checkpoint"


def test_why_of_a_task_that_waits() -> None:
    status: dict[str, Any] = {
        "completedIndexes": "0,1",
        "completed": 2,
        "interruptedIndexes": "8,9",
        "running": 1,
        "runningIndexes": "3",
    }
    facts = array_facts(busy(3, 100), array={"tasks": 10, "maxRunning": 1}, **status)
    found = explain_task(facts, 6)
    assert (found.cause, found.headline) == (
        Cause.TASK_WAITS,
        "sweep[6] waits: sweep runs 1 of 8 tasks that have not ended",
    )
    assert shown(found)["its turn"] == "after 5 tasks of sweep", "2, 4 and 5, and those that were interrupted"
    assert shown(found)["waiting"] == "7 tasks, as maxRunning is 1"
    interrupted = explain_task(facts, 8)
    assert interrupted.headline.startswith("sweep[8] was interrupted, and waits")
    assert shown(interrupted)["its turn"] == "next"
    assert shown(explain_task(facts, 9))["its turn"] == "after 1 task of sweep"


@pytest.mark.parametrize("phase", ["Waiting", "Interrupted", "Suspended"])
def test_why_of_a_task_of_an_array_that_does_not_run(phase: str) -> None:
    reason = "Suspended" if phase == "Suspended" else "NoPlace"
    wait = [condition("Admitted", "False", reason, "so it is")]
    found = explain_task(array_facts(phase=phase, conditions=wait), 3)
    assert found.cause == reason
    assert found.headline.startswith("sweep[3] waits: sweep ")
    assert shown(found)["its turn"] == "after 3 tasks of sweep"


def test_why_of_a_task_that_starts_or_stops() -> None:
    blocked = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    pods = (
        task(1, phase="Pending", conditions=[blocked], created=ago(20)),
        task(2, phase="Pending", node="n2", created=ago(20)),
        busy(3, 90, deleted=ago(4)),
    )
    facts = array_facts(*pods)
    first, second, third = (explain_task(facts, index) for index in (1, 2, 3))
    assert first.headline == "sweep[1] waits for the scheduler, since 20s"
    assert shown(first)["pod sweep-1"] == "0/3 nodes are available"
    assert second.headline == "sweep[2] is starting on node n2, since 20s"
    assert (first.cause, second.cause, third.cause) == (Cause.STARTING, Cause.STARTING, Cause.DELETING)
    assert "told to stop, 4s ago" in third.headline


def test_why_of_a_task_that_has_ended() -> None:
    ended = {"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": ago(9)}}}
    failed = task(5, phase="Failed", node="n1", container_statuses=[ended])
    done = {"name": "main", "state": {"terminated": {"exitCode": 0, "finishedAt": ago(70)}}}
    pods = (failed, task(6, phase="Succeeded", container_statuses=[done]))
    facts = array_facts(*pods, failed=2, failedIndexes="2,5", completed=1, completedIndexes="0")
    found = explain_task(facts, 5)
    assert (found.cause, found.headline) == (Cause.FAILED_BY_EXIT, "sweep[5] failed with exit code 137 9s ago")
    assert shown(found)["exit code 137"] == "it used more memory than it asked for"
    assert "'sweep[5]'" in found.remedies[0]
    assert "retry" in found.remedies[1]
    assert explain_task(facts, 6).headline == "sweep[6] completed 70s ago", "before the admitter counts it"
    assert explain_task(facts, 0).headline == "sweep[0] completed"
    assert explain_task(facts, 2).remedies == found.remedies[1:], "what it said went with its pod"
    over = array_facts(phase="Failed", failed=1, failedIndexes="0", message="failFast")
    not_run = explain_task(over, 4)
    assert (not_run.cause, not_run.headline) == (Cause.NOT_RUN, "sweep[4] did not end, and its array is Failed")


def test_why_of_a_task_on_the_command_line(server: Server, sj: Run) -> None:
    body = sweep(completed=1, completedIndexes="0")
    server.on(JOB, Answer(body=body))
    for path in ("/api/v1/nodes", "/api/v1/pods", PODS, "/apis/scavenger.dev/v1alpha1/scavengerqueues"):
        server.on(path, listed())
    server.on("/api/v1/namespaces/scavenger-system/configmaps/scavenger-levels", Answer(404))
    code, out, _ = sj("why", "sweep[0]")
    assert (code, out.splitlines()[0]) == (0, "sweep[0] completed.")
    assert sj("why", "sweep[3]", "-o", "json")[0] == 0
    assert sj("why", "sweep[10]")[0] == ExitCode.NOT_FOUND
    server.on(JOB, Answer(body=scavengerjob_dict("sweep", namespace="lab")))
    assert sj("why", "sweep[0]")[2].startswith("error: sweep is no array")


# --- indexes that users gave ---


def test_people_see_the_indexes_that_they_gave(server: Server, sj: Run) -> None:
    sets = {"completedIndexes": "0", "failedIndexes": "2", "retriesUsed": "1:2"}
    server.on(JOB, Answer(body=sweep({"indexes": "1-9:4,20"}, completed=1, failed=1, **sets)))
    server.on(PODS, listed(task(1, phase="Running", node="n1", container_statuses=[running()])))
    server.on(f"{PODS}/sweep-1/log", Answer(lines=[b"2026-01-05T12:00:00.000000000Z step 12"]))
    code, out, err = sj("tasks", "sweep")
    assert code == 0
    assert out.splitlines()[1].split()[:2] == ["5", "Running"]
    assert out.splitlines()[1].split()[4] == "2", "retries are those of the same task"
    assert err.splitlines() == ["Completed: 1", "Failed: 9", "1 of 4 tasks completed, 1 failed."]
    assert sj("logs", "sweep[5]")[:2] == (0, "step 12\n")
    assert sj("logs", "sweep[3]")[2] == "error: sweep has no task 3\n  its tasks are 1-9:4,20\n"


def test_why_names_tasks_as_users_do() -> None:
    facts = array_facts(busy(1, 500), array={"indexes": "1-9:4,20"}, running=1, runningIndexes="1", failedIndexes="2")
    found = explain_task(facts, facts.job.place_of(5))
    assert found.headline.startswith("sweep[5] has been running")
    failed = explain_task(facts, facts.job.place_of(9))
    assert failed.headline.startswith("sweep[9] failed")
    assert (
        "9" in shown(explain_array(array_facts(array={"indexes": "1-9:4,20"}, failed=1, failedIndexes="2")))["failed"]
    )
