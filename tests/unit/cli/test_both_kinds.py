"""Adopted Jobs in the commands: users see no difference but the kind."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from scavenger_api import names
from scavenger_api.checkpoints import COMPLETION_INDEX
from scavenger_api.ledger import Ledger
from scavenger_api.times import format_time
from scavenger_cli.exits import ExitCode
from scavenger_cli.facts import Facts
from scavenger_cli.objects import AdoptedJob, decode
from scavenger_cli.tasks import explain_job
from scavenger_domain.usage import JobUsage, ResourceUsage, usage_in_table
from scavenger_kube.kinds import Pod
from scavenger_testing import adopted_job_dict
from scavenger_testing.builders import pod_dict, scavengerjob_dict

from .conftest import Answer, Run, Server, event, listed, status

OWN = "/apis/scavenger.dev/v1alpha1/namespaces/lab/scavengerjobs"
JOBS = "/apis/batch/v1/namespaces/lab/jobs"
PODS = "/api/v1/namespaces/lab/pods"


def ago(**span: float) -> str:
    return format_time(datetime.now(UTC) - timedelta(**span))


def own(name: str = "a", phase: str = "Running") -> dict[str, Any]:
    return {
        **scavengerjob_dict(name, namespace="lab"),
        "status": {"phase": phase, "runningTimestamps": [ago(minutes=5)]},
    }


def batch(name: str = "a", phase: str = "Running", ledger: Ledger | None = None, **more: Any) -> dict[str, Any]:
    """An adopted Job. more: of its spec, or `status` over the one that it has."""
    written = more.pop("status", {})
    said = ledger or Ledger(runs=(ago(minutes=5),), interrupted=2, useful=7200, lost=95, say="returned after 41 s")
    noted = {"type": names.CONDITION_LEDGER, "status": "False", "reason": phase, "message": said.text}
    found = adopted_job_dict(name, namespace="lab", created=ago(hours=1), uid=f"u-{name}", **more)
    found["status"] = {
        "active": 1,
        "ready": 1,
        "conditions": [noted | {"lastTransitionTime": ago(minutes=5)}],
        **written,
    }
    return found


def pod(name: str = "a-xab12", of: str = "a", task: int = 0, **more: Any) -> dict[str, Any]:
    labels = {names.LABEL_JOB: of, names.LABEL_TASK: str(task), names.LABEL_KIND: names.KIND_JOB}
    owner = {"kind": "Job", "name": of, "uid": f"u-{of}", "controller": True}
    found = pod_dict(name, namespace="lab", labels=labels, **more)
    found["metadata"]["ownerReferences"] = [owner]
    found["spec"]["containers"][0]["name"] = "work"
    return found


def have(server: Server, *jobs: dict[str, Any]) -> None:
    """Jobs of both kinds, in lists and by name."""
    kinds: dict[str, list[dict[str, Any]]] = {OWN: [], JOBS: []}
    for job in jobs:
        path = JOBS if job["kind"] == "Job" else OWN
        kinds[path].append(job)
        server.on(f"{path}/{job['metadata']['name']}", Answer(body=job))
        server.on(f"{path}/{job['metadata']['name']}", Answer(body=job), method="PATCH")
        server.on(f"{path}/{job['metadata']['name']}", Answer(body={}), method="DELETE")
    for path, found in kinds.items():
        bare = [{key: value for key, value in one.items() if key not in ("kind", "apiVersion")} for one in found]
        server.on(path, listed(*(bare if path == JOBS else found)))
        server.on(path.replace("/namespaces/lab", ""), listed(*(bare if path == JOBS else found)))
    for path in ("/api/v1/nodes", "/api/v1/pods", PODS, "/apis/scavenger.dev/v1alpha1/scavengerqueues"):
        server.on(path, listed())


def regular(name: str) -> dict[str, Any]:
    job = batch(name)
    del job["spec"]["managedBy"]
    return job


def test_a_list_of_both_kinds_has_a_column_for_the_kind(server: Server, sj: Run) -> None:
    have(server, own("b"), batch("a"), regular("c"))
    code, out, _ = sj("list")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[0][:5] == ["NAME", "KIND", "QUEUE", "STATUS", "INTERRUPTED"]
    assert rows[1][:5] == ["a", "Job", "default", "Running", "2"]
    assert rows[2][:4] == ["b", "ScavengerJob", "default", "Running"]
    assert len(rows) == 3, "a Job that is not adopted is nobody's business here"
    assert server.asked(JOBS)[0].query["labelSelector"] == f"{names.LABEL_QUEUE},!{names.LABEL_JOB}"


@pytest.mark.parametrize("job", [own(), batch()])
def test_a_list_of_one_kind_does_not_say_which(server: Server, sj: Run, job: dict[str, Any]) -> None:
    have(server, job)
    assert sj("list")[1].split()[:3] == ["NAME", "QUEUE", "STATUS"]
    assert "KIND" in sj("list", "-o", "wide")[1]


def test_a_list_without_the_right_to_list_jobs(server: Server, sj: Run) -> None:
    have(server, own())
    server.on(JOBS, Answer(403, status(403, "Forbidden", "no")))
    code, out, err = sj("list")
    assert (code, out.splitlines()[1].split()[0]) == (0, "a")
    assert "You may not list Jobs" in err


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("--status", "running"), ["a"]),
        (("--status", "waiting"), ["w"]),
        (("--queue", "night"), ["n"]),
        (("--field-selector", "spec.queue=night"), ["n"]),
        (("--field-selector", "status.phase!=Running,metadata.namespace=lab"), ["w"]),
    ],
)
def test_what_is_selected(server: Server, sj: Run, words: tuple[str, ...], shown: list[str]) -> None:
    have(server, batch("a"), batch("w", "Waiting"), batch("n", queue="night"))
    code, out, _ = sj("list", "--no-headers", *words)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == shown or shown == ["a"]
    assert shown[0] in out


def test_objects_say_their_kind(server: Server, sj: Run) -> None:
    have(server, own("b"), batch("a"))
    assert sj("list", "-o", "name")[1] == "scavengerjob.scavenger.dev/b\njob.batch/a\n"
    items = yaml.safe_load(sj("list", "-o", "yaml")[1])["items"]
    assert [(one["apiVersion"], one["kind"]) for one in items] == [
        (names.API_VERSION, "ScavengerJob"),
        ("batch/v1", "Job"),
    ]


def test_get_shows_the_ledger(server: Server, sj: Run) -> None:
    have(server, batch("a"))
    code, out, _ = sj("get", "a")
    assert code == 0
    assert "2 times" in out
    assert "2.0 h useful, 95 s lost" in out
    assert "returned after 41 s" in out


@pytest.mark.parametrize(
    "verb", ["get", "why", "logs", "suspend", "cancel", "delete", "describe", "tasks", "retry", "wait"]
)
def test_one_name_of_two_kinds_needs_the_kind(server: Server, sj: Run, verb: str) -> None:
    have(server, own(), batch())
    code, _, err = sj(verb, "a")
    assert code == ExitCode.USAGE
    assert "a is a ScavengerJob and a Job" in err
    assert "job/a" in err
    assert "scavengerjob/a" in err
    assert not [one for one in server.requests if one.method != "GET"]


@pytest.mark.parametrize("name", ["job/a", "jobs/a", "job.batch/a", "jobs.batch/a"])
def test_a_name_with_its_kind(server: Server, sj: Run, name: str) -> None:
    have(server, own(), batch())
    assert sj("suspend", name)[:2] == (0, "job.batch/a suspended\n")
    assert server.asked(f"{JOBS}/a", "PATCH")[0].body == {"spec": {"suspend": True}}
    assert sj("suspend", "sj/a")[:2] == (0, "scavengerjob.scavenger.dev/a suspended\n")


def test_a_kind_that_is_none(server: Server, sj: Run) -> None:
    code, _, err = sj("get", "pod/a")
    assert code == ExitCode.USAGE
    assert "job/a" in err


def test_changes_are_made_to_the_job(server: Server, sj: Run) -> None:
    have(server, batch())
    assert sj("suspend", "a")[:2] == (0, "job.batch/a suspended\n")
    assert sj("cancel", "a")[:2] == (0, "job.batch/a cancelled\n")
    assert server.asked(f"{JOBS}/a", "DELETE")[0].body["preconditions"] == {"uid": "u-a"}
    assert sj("delete", "--all")[:2] == (0, "job.batch/a deleted\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("move", "a", "--queue", "night"), "stays in the queue"),
        (("move", "a", "--priority", "3"), "no priority"),
        (("retry", "a"), "does not start again"),
        (("resubmit", "a"), "its creator"),
    ],
)
def test_what_a_job_cannot_do_is_said(server: Server, sj: Run, words: tuple[str, ...], says: str) -> None:
    have(server, batch(phase="Running"))
    server.on("/apis/scavenger.dev/v1alpha1/scavengerqueues/night", Answer(body={"metadata": {"name": "night"}}))
    code, _, err = sj(*words)
    assert code == ExitCode.ERROR
    assert says in err
    assert not [one for one in server.requests if one.method != "GET"]


def test_a_regular_job_is_told_apart(server: Server, sj: Run) -> None:
    have(server, regular("a"))
    code, _, err = sj("get", "a")
    assert code == ExitCode.NOT_FOUND
    assert "a regular Job" in err
    assert names.LABEL_QUEUE in err


def test_why_of_a_job_with_one_task_is_about_the_job(server: Server, sj: Run) -> None:
    have(server, batch())
    began = {"name": "work", "state": {"running": {"startedAt": ago(minutes=5)}}}
    server.on(PODS, listed(pod(phase="Running", node="n1", container_statuses=[began])))
    code, out, _ = sj("why", "a")
    assert code == 0
    assert out.startswith("a has been running for 5m")
    assert server.asked(PODS)[0].query["labelSelector"] == "scavenger.dev/job=a,scavenger.dev/kind=Job"


def test_why_of_a_job_with_several_is_about_its_tasks(server: Server, sj: Run) -> None:
    have(server, batch(completions=4, parallelism=2, status={"succeeded": 1}))
    server.on(PODS, listed())
    assert "a runs 0 of 3 tasks that have not ended" in sj("why", "a")[1].replace("\n", " ")


def test_why_says_what_helps_a_job_with_a_failed_index() -> None:
    spec: dict[str, Any] = {"completions": 4, "parallelism": 1, "completionMode": "Indexed", "backoffLimitPerIndex": 0}
    job = decode(json.dumps(batch(**spec, status={"failedIndexes": "0", "failed": 1})).encode(), AdoptedJob)
    began = {"name": "work", "state": {"running": {"startedAt": ago(minutes=5)}}}
    alive = decode(json.dumps(pod(task=1, phase="Running", container_statuses=[began])).encode(), Pod)
    found = explain_job(Facts(job, datetime.now(UTC), pods=(alive,)))
    assert ("waiting", "2 tasks, as parallelism is 1") in [(one.label, one.text) for one in found.findings]
    raise_it, _, again = found.remedies
    assert raise_it == """raise it: kubectl patch job a --type merge -p '{"spec":{"parallelism":2}}' -n lab"""
    assert again == "when it is corrected, `kubectl sj delete a -n lab`, and create the Job again"


def test_recommend_reads_the_ledger(server: Server, sj: Run) -> None:
    """Its completions are tasks, which tell of each other. Nothing is recommended of devices."""
    found = {"cpu": ResourceUsage(1000, 200, 300, 300, 290), "nvidia.com/gpu": ResourceUsage(1000, 250, 300, 400, 300)}
    said = Ledger(usage=usage_in_table(JobUsage(5 * 3600, 12, found)))
    have(server, batch(completions=20, parallelism=20, completionMode="Indexed", ledger=said))
    code, out, _ = sj("recommend", "-o", "json")
    (told,) = json.loads(out)
    assert code == 0
    assert (told["kind"], told["recommended"], told["freedCores"]) == ("Job", {"cpu": "330m"}, 0.67 * told["pods"])
    assert told["usage"]["devices"]["nvidia.com/gpu"]["p50"] == "250m"
    pods = told["pods"]
    assert f"at least {0.75 * pods:.1f} of {pods} nvidia.com/gpu idle" in sj("recommend")[2]


def test_a_job_that_is_complete_by_its_success_policy(server: Server, sj: Run) -> None:
    spec: dict[str, Any] = {
        "completions": 4,
        "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "2"}]},
    }
    ends = [
        {"type": kind, "status": "True", "reason": "SuccessPolicy", "message": "Matched rules at index 0"}
        for kind in ("SuccessCriteriaMet", "Complete")
    ]
    have(server, batch(**spec, status={"completedIndexes": "2", "succeeded": 1, "conditions": ends}))
    server.on(PODS, listed())
    assert "1 of 4 tasks completed" in sj("tasks", "a")[2]
    assert "4: 1 completed" in " ".join(sj("why", "a")[1].split())
    assert "Completed" in sj("get", "a")[1]


def test_why_of_a_job_that_waits(server: Server, sj: Run) -> None:
    waits = Ledger(why="Quota", say="queue default is at its quota of cpu")
    have(server, batch("a", "Waiting", waits), own("b", "Waiting"))
    code, out, _ = sj("why", "a")
    assert code == 0
    assert "queue default is at its quota of cpu" in out
    assert "of 2 in queue default" in out, "both kinds are in one line"


def test_logs_ask_for_the_pods_of_this_kind(server: Server, sj: Run) -> None:
    have(server, batch())
    began = {"name": "work", "state": {"running": {"startedAt": ago(minutes=5)}}}
    server.on(PODS, listed(pod(container_statuses=[began], phase="Running")))
    server.on(f"{PODS}/a-xab12/log", Answer(lines=[b"2026-03-01T12:00:00.000000000Z hello"]))
    assert sj("logs", "a")[:2] == (0, "hello\n")


def test_wait_follows_the_kind_of_each_job(server: Server, sj: Run) -> None:
    have(server, own("b"), batch("a"))
    done = batch(
        "a", status={"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": ago(seconds=1)}]}
    )
    done.pop("kind")
    server.on(JOBS, Answer(lines=[event("MODIFIED", done, "11")]), watch=True)
    server.on(OWN, Answer(lines=[event("MODIFIED", own("b", "Completed"), "11")]), watch=True)
    code, out, err = sj("wait", "job/a", "b", "--timeout", "20s")
    assert (code, sorted(out.splitlines())) == (
        0,
        ["job.batch/a completed", "scavengerjob.scavenger.dev/b completed"],
    ), err


def test_history_has_the_last_interruption_of_a_job(server: Server, sj: Run) -> None:
    was = Ledger(interrupted=2, interrupted_at=ago(minutes=1), cause="Preempted")
    have(server, batch("a", "Interrupted", was))
    server.on("/api/v1/namespaces/lab/events", listed())
    _, out, said = sj("history", "a", "--no-headers")
    assert out.split()[2:4] == ["a", "Preempted"]
    assert "Not shown: 1 earlier interruption. An adopted Job keeps the time of its last one only." in said


def test_a_gang_is_shown_as_one_job_of_several_pods(server: Server, sj: Run) -> None:
    said = Ledger(place=ago(minutes=9), runs=(ago(minutes=5),), interrupted=2, useful=7200, lost=95, say="running")
    made = batch(completions=3, parallelism=3, completionMode="Indexed", ledger=said, status={"active": 3, "ready": 3})
    made["metadata"]["annotations"] = {names.ANNOTATION_GANG: "true"}
    have(server, made, own("b"))
    began = {"name": "work", "state": {"running": {"startedAt": ago(minutes=5)}}}
    pods = [pod(f"a-{index}-xab12", phase="Running", container_statuses=[began]) for index in range(3)]
    for index, one in enumerate(pods):
        del one["metadata"]["labels"][names.LABEL_TASK]
        one["metadata"]["labels"][COMPLETION_INDEX] = str(index)
    server.on(PODS, listed(*pods))
    code, out, _ = sj("list", "--no-headers", "-o", "wide")
    row = out.splitlines()[0].split()
    assert (code, row[:5], row[7:10]) == (0, ["a", "Job", "default", "Running", "2"], ["3", "3", "3Gi"])
    got = sj("get", "a")[1]
    assert "Asks for     3 x 1 cpu, 1Gi memory" in got
    assert "Tasks" not in got
    why = " ".join(sj("why", "a")[1].split())
    assert "a has been running for 5m" in why
    assert "unsaved work 15.0 min of CPU time" in why or "unsaved work 15.1 min" in why, "of all three"
    code, _, err = sj("tasks", "a")
    assert (code, "no array" in err) == (ExitCode.ERROR, True)


def test_tasks(server: Server, sj: Run) -> None:
    have(server, batch(completions=4, completionMode="Indexed", status={"completedIndexes": "0,2", "succeeded": 2}))
    server.on(PODS, listed(pod(task=1, phase="Pending")))
    code, out, err = sj("tasks", "a")
    assert (code, out.splitlines()[1].split()[:2]) == (0, ["1", "Starting"])
    assert "2 of 4 tasks completed" in err


def test_a_ledger_of_a_later_version_hides_no_other_job(server: Server, sj: Run) -> None:
    later = batch("z")
    later["status"]["conditions"][0]["message"] = '{"v":2}'
    have(server, later, batch("a"))
    code, out, err = sj("list", "--no-headers")
    assert (code, [line.split()[0] for line in out.splitlines()]) == (0, ["a"])
    assert "lab/z is left out" in err
    assert "version 2" in sj("get", "z")[2]
