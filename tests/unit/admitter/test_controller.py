"""The controller against the API server in memory: a job's life, and every kind of trouble on the way."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from scavenger_admitter.core.manifest import job_manifest
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_api.job import ScavengerJob
from scavenger_kube.resources import JOBS, NODES, PODS, SERVICES
from scavenger_testing import job_dict, node_dict

from .harness import JOB_WATCHES, NS, Harness, Object, empty_harness, harness, running_job, runs

pytestmark = pytest.mark.slow

ALWAYS = 10**6
ANY = {"GET", "POST", "PUT", "PATCH", "DELETE"}
QUOTA = 'jobs.batch "a" is forbidden: exceeded quota: small, requested: count/jobs.batch=1, used: 3, limited: 3'


def status_body(code: int, reason: str, message: str) -> bytes:
    return orjson.dumps({"kind": "Status", "code": code, "reason": reason, "message": message})


def never_interrupted(c: Harness, name: str) -> bool:
    status = c.status(name)
    return status["interruptedCount"] == 0 and not status.get("interruptedTimestamps")


# --- without trouble ----------------------------------------------------------------------------------------------


async def test_a_gang_runs_and_completes() -> None:
    async with harness() as c:
        c.submit("a", parallelism=2)
        await runs(c, "a")
        assert c.api.get(SERVICES, NS, "sj-a") is not None
        await c.pass_time(20)
        c.succeed("a")
        await c.until(lambda: c.phase("a") == "Completed")
        await c.until(lambda: not c.held())
        status = c.status("a")
        assert status["usefulCPUSeconds"] == pytest.approx(40, abs=4)
        assert status["lostCPUSeconds"] == 0
        assert c.jobs_ever("a") == 1
        assert never_interrupted(c, "a")


async def test_a_member_that_is_deleted_takes_the_gang_with_it_and_it_runs_again() -> None:
    async with harness() as c:
        c.submit("a", parallelism=3)
        await runs(c, "a")
        await c.pass_time(10)
        c.delete_pod(c.pods("a")[1])
        await c.until(lambda: c.status("a")["interruptedCount"] == 1)
        await runs(c, "a")
        await c.pass_time(30)
        assert c.status("a")["interruptedCount"] == 1
        assert c.most_at_once("a") == 3
        assert c.jobs_ever("a") == 2
        assert len(c.held()) == 3, "only those that run"


async def test_deleting_the_scavengerjob_leaves_nothing() -> None:
    async with harness() as c:
        c.submit("a", parallelism=2)
        await runs(c, "a")
        await c.user().delete(SCAVENGERJOBS, NS, "a")
        await c.until(lambda: not c.pods("a"))
        assert c.api.list(JOBS) == []
        assert c.api.list(SERVICES) == []


# --- conflicts, crashes, lost answers --------------------------------------------------------------------------------


async def test_a_conflict_on_every_first_write() -> None:
    async with harness() as c:
        c.conflict_on_first_writes()
        for name in ("a", "b", "c"):
            c.submit(name, parallelism=2)
        for name in ("a", "b", "c"):
            await runs(c, name)
        c.delete_pod(c.pods("b")[0])
        await c.until(lambda: c.status("b")["interruptedCount"] == 1)
        await runs(c, "b")
        c.succeed("a")
        c.succeed("b")
        await c.until(lambda: (c.phase("a"), c.phase("b"), c.phase("c")) == ("Completed", "Completed", "Running"))
        await c.until(lambda: len(c.held()) == 2)
        assert [c.status(name)["interruptedCount"] for name in ("a", "b", "c")] == [0, 1, 0]
        assert [c.jobs_ever(name) for name in ("a", "b", "c")] == [1, 2, 1]
        assert all(c.most_at_once(name) == 2 for name in ("a", "b", "c"))


async def test_a_crash_between_the_commit_and_what_follows_from_it() -> None:
    async with empty_harness() as c:
        c.node()
        first = c.admitter()
        c.submit("a", parallelism=2)
        await runs(c, "a")
        await c.pass_time(10)
        c.api.fail(500, times=ALWAYS, methods={"DELETE"})
        c.api.fail(500, times=ALWAYS, methods={"PATCH"}, path="/pods/")
        c.delete_pod(c.pods("a")[0])
        await c.until(lambda: c.phase("a") == "Interrupted")
        await first.kill()
        c.api.heal()
        assert c.api.get(JOBS, NS, "a") is not None, "nothing of what follows has been done"
        assert len(c.held()) == 2
        lost = c.status("a")["lostCPUSeconds"]
        c.admitter()
        await runs(c, "a")
        await c.pass_time(20)
        status = c.status("a")
        assert (status["interruptedCount"], status["lostCPUSeconds"]) == (1, lost)
        assert len(status["interruptedTimestamps"]) == 1
        assert c.jobs_ever("a") == 2
        assert c.most_at_once("a") == 2


async def test_a_crash_after_the_job_was_created() -> None:
    async with empty_harness() as c:
        first = c.admitter()
        c.submit("a")
        await c.until(lambda: c.phase("a") == "Waiting")
        c.api.fail(500, times=ALWAYS, methods={"PATCH"}, path="/scavengerjobs/a/status")
        c.node()
        await c.until(lambda: c.api.get(JOBS, NS, "a") is not None)
        await first.kill()
        c.api.heal()
        assert c.phase("a") == "Waiting"
        c.admitter()
        await runs(c, "a")
        assert c.jobs_ever("a") == 1
        assert never_interrupted(c, "a")


async def test_a_pod_goes_within_a_minute_after_an_hour_in_which_the_status_could_not_be_written() -> None:
    async with running_job("a") as c:
        c.api.fail(500, times=ALWAYS, methods={"PATCH"}, path="/scavengerjobs/a/status")
        pod = c.pods("a")[0]
        c.delete_pod(pod)
        await c.pass_time(3600)
        assert c.api.get(PODS, NS, pod["metadata"]["name"]) is not None
        c.api.heal()
        await c.pass_time(60)
        assert c.api.get(PODS, NS, pod["metadata"]["name"]) is None


async def test_a_commit_whose_answer_is_lost_counts_once() -> None:
    async with running_job("a") as c:
        await c.pass_time(10)
        c.api.drop(methods={"PATCH"}, path="/scavengerjobs/a/status", after_write=True)
        c.delete_pod(c.pods("a")[0])
        await c.until(lambda: c.status("a")["interruptedCount"] == 1)
        await runs(c, "a")
        await c.pass_time(10)
        assert c.status("a")["interruptedCount"] == 1
        assert c.jobs_ever("a") == 2


async def test_a_create_whose_answer_is_lost_is_adopted_and_its_room_stays_taken() -> None:
    async with harness() as c:
        c.node(cpu="3")  # room for one of them: 70 % of 3 is 2.1
        c.kubelet = False
        c.api.drop(methods={"POST"}, path="/jobs", after_write=True)
        c.submit("a", cpu="2")
        await c.until(lambda: c.phase("a") == "Starting")
        c.submit("b", cpu="2")
        await c.pass_time(2)
        assert c.phases() == {"a": "Starting", "b": "Waiting"}
        c.kubelet = True
        await runs(c, "a")
        await c.pass_time(30)
        assert c.jobs_ever("a") == 1
        assert c.starts() == ["a"]


async def test_a_create_that_was_never_received_is_tried_again() -> None:
    async with harness() as c:
        c.api.drop(times=2, methods={"POST"}, path="/jobs")
        c.submit("a")
        await runs(c, "a")
        assert c.jobs_ever("a") == 1
        assert never_interrupted(c, "a")


async def test_a_create_that_was_not_answered_keeps_its_place_but_nobody_waits_for_it() -> None:
    async with empty_harness() as c:
        c.admitter(max_starts_per_cycle=1)
        for name in "abd":
            c.submit(name)
        await c.until(lambda: set(c.phases().values()) == {"Waiting"})
        place = c.status("a")["queuedTimestamp"]
        c.api.fail(503, methods={"POST"}, path="/jobs")
        c.node()
        await c.until(lambda: c.starts() == ["b", "d"], limit=3)
        took = await c.until(lambda: c.phase("a") == "Running")
        assert 7 <= took <= 13
        assert c.status("a")["queuedTimestamp"] == place
        assert c.starts() == ["b", "d", "a"]


# --- the watch, and the server ------------------------------------------------------------------------------------


async def test_a_watch_that_answers_410_in_the_middle() -> None:
    async with harness() as c:
        for name in ("a", "b", "c"):
            c.submit(name)
        for name in ("a", "b", "c"):
            await runs(c, name)
        c.api.fail(503, times=20, methods={"GET"}, path="watch=true")
        c.api.drop_watches()
        c.delete_pod(c.pods("a")[0])
        c.succeed("b")
        c.submit("d")
        c.tick()
        c.api.compact()
        await c.until(lambda: c.phase("d") == "Running" and c.status("a").get("interruptedCount") == 1, limit=200)
        await runs(c, "a")
        await c.until(lambda: c.phase("b") == "Completed")
        assert c.phase("c") == "Running"
        assert never_interrupted(c, "c")
        c.api.expire_watches()
        c.succeed("c")
        await c.until(lambda: c.phase("c") == "Completed")
        assert c.jobs_ever("c") == 1


@pytest.mark.parametrize("how", ["refuses", "hangs", "drops"])
async def test_the_api_server_is_away_for_a_while(how: str) -> None:
    async with harness() as c:
        for name in ("a", "b", "c"):
            c.submit(name)
        for name in ("a", "b", "c"):
            await runs(c, name)
        await c.pass_time(10)
        if how == "refuses":
            c.api.fail(503, times=ALWAYS, methods=ANY)
        elif how == "hangs":
            c.api.hang(times=ALWAYS, methods=ANY)
        else:
            c.api.drop(times=ALWAYS, methods=ANY)
        c.api.drop_watches()
        c.delete_pod(c.pods("a")[0])
        c.succeed("b")
        c.submit("d")
        await c.pass_time(30)
        assert c.phases() == {"a": "Running", "b": "Running", "c": "Running", "d": ""}
        c.api.heal()
        await c.until(lambda: c.phases() == dict.fromkeys("acd", "Running") | {"b": "Completed"}, limit=120)
        assert [c.status(name)["interruptedCount"] for name in "abcd"] == [1, 0, 0, 0]
        assert [c.jobs_ever(name) for name in "abcd"] == [2, 1, 1, 1]


async def test_nothing_starts_twice_while_the_watch_of_jobs_lags() -> None:
    async with empty_harness() as c:
        c.node()
        c.api.hang(times=ALWAYS, methods={"GET"}, path=JOB_WATCHES)
        c.admitter()
        c.submit("a")
        c.submit("b")
        await c.until(lambda: len(c.pods("a")) == 1)
        await c.pass_time(90)
        c.succeed("b")
        await c.pass_time(5)
        assert (c.jobs_ever("a"), c.jobs_ever("b")) == (1, 1)
        assert never_interrupted(c, "a")
        assert never_interrupted(c, "b")
        c.api.heal()
        await c.until(lambda: c.phases() == {"a": "Running", "b": "Completed"}, limit=120)
        assert (c.jobs_ever("a"), c.jobs_ever("b")) == (1, 1)
        assert never_interrupted(c, "a")


async def test_a_job_deleted_by_hand_is_an_interruption_though_absence_is_looked_at_twice() -> None:
    async with running_job("a") as c:
        await c.user().delete(JOBS, NS, "a", propagation="Orphan")
        await c.until(lambda: c.status("a")["interruptedCount"] == 1)
        await runs(c, "a")
        assert c.status("a")["interruptedCount"] == 1
        assert c.most_at_once("a") == 1


# --- the Job of a start is not taken ----------------------------------------------------------------------------------


async def test_an_object_that_cannot_be_read_stops_nobody() -> None:
    async with empty_harness() as c:
        c.node()
        c.submit("a")
        c.submit("odd", parallelism="many")
        c.admitter()
        await runs(c, "a", limit=90)


async def test_the_pods_of_a_job_that_cannot_be_read_run_on_and_their_room_counts() -> None:
    """An older admitter takes over, and a newer one has written what it cannot read."""
    async with empty_harness() as c:
        c.node(cpu="3.1")
        first = c.admitter(fallback_admission_percent=100)
        c.submit("a", parallelism=2)
        await runs(c, "a")
        await first.kill()
        c.api.edit(SCAVENGERJOBS, NS, "a", lambda job: job["spec"].__setitem__("parallelism", "many"))
        before = {pod["metadata"]["uid"] for pod in c.pods("a")}
        c.admitter(fallback_admission_percent=100)
        c.submit("b", parallelism=2)
        await c.pass_time(90)
        assert {pod["metadata"]["uid"] for pod in c.pods("a")} == before
        assert not any("deletionTimestamp" in pod["metadata"] for pod in c.pods("a"))
        assert len(c.held()) == 2
        assert c.phase("b") == "Waiting"
        c.api.edit(SCAVENGERJOBS, NS, "a", lambda job: job["spec"].__setitem__("parallelism", 2))
        c.succeed("a")
        await c.until(lambda: c.phase("a") == "Completed")
        assert c.status("a")["interruptedCount"] == 0
        await runs(c, "b")


async def test_a_job_that_cannot_be_read_and_is_deleted_leaves_nothing() -> None:
    async with empty_harness() as c:
        c.node()
        first = c.admitter()
        c.submit("a", parallelism=2)
        await runs(c, "a")
        await first.kill()
        c.api.edit(SCAVENGERJOBS, NS, "a", lambda job: job["spec"].__setitem__("parallelism", "many"))
        c.admitter()
        await c.pass_time(40)
        await c.user().delete(SCAVENGERJOBS, NS, "a")
        await c.until(lambda: not c.pods("a"))
        assert c.api.list(JOBS) == []


async def test_a_foreign_job_of_the_same_name_holds_the_job_back_and_nobody_else() -> None:
    async with empty_harness() as c:
        c.node(cpu="3")
        c.api.hang(times=ALWAYS, methods={"GET"}, path=JOB_WATCHES)
        admitter = c.admitter()
        await c.until(lambda: admitter.admitting)
        c.api.put(JOBS, job_dict("a", namespace=NS))
        c.submit("a", cpu="2")
        await c.until(lambda: c.api.count("POST", "/jobs") == 1)
        c.api.heal()
        await c.until(lambda: "does not belong to it" in c.status("a").get("message", ""), limit=30)
        c.submit("b", cpu="2")
        await runs(c, "b", limit=5)
        assert c.phase("a") == "Waiting"
        c.api.remove(JOBS, NS, "a")
        c.succeed("b")
        await runs(c, "a")
        assert c.jobs_ever("a") == 2, "the foreign one and, when that was gone, ours"


def service(owner: str | None, **meta: Any) -> Object:
    reference = {
        "apiVersion": "scavenger.dev/v1",
        "kind": "ScavengerJob",
        "name": "a",
        "uid": owner,
        "controller": True,
    }
    owners = {} if owner is None else {"ownerReferences": [reference]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "sj-a", "namespace": NS, **owners, **meta}}


async def test_a_job_that_another_controller_suspends_says_so_and_starts_once_that_has_stopped() -> None:
    async with harness() as c:
        labels = {"kueue.x-k8s.io/queue-name": "theirs"}

        def hold(body: Object) -> None:
            if body["kind"] == "Job":
                body["spec"]["suspend"] = True
                body["metadata"]["labels"].update(labels)

        c.admission = hold
        c.submit("a")
        await c.until(lambda: c.api.get(JOBS, NS, "a") is not None)
        c.admission = lambda body: None
        await c.until(lambda: "is suspended" in c.status("a").get("message", ""), limit=40)
        assert c.pods("a") == []
        message = c.status("a")["message"]
        assert c.phase("a") == "Waiting"
        assert "kueue.x-k8s.io/queue-name: theirs" in message
        assert "manageJobsWithoutQueueName" in message
        await c.until(lambda: c.phase("a") == "Running", limit=1200)


async def test_a_running_job_whose_job_another_controller_suspends_is_interrupted_and_queued() -> None:
    """As the Job controller ends the pods of Jobs that it has itself."""
    async with harness() as c:
        c.submit("a")
        await runs(c, "a")
        first = c.api.get(JOBS, NS, "a")
        assert first is not None
        c.api.edit(JOBS, NS, "a", lambda body: body["spec"].update(suspend=True))
        await c.until(lambda: c.status("a").get("interruptedCount") == 1)
        assert "suspended" in c.status("a")["message"]
        cause = next(one["reason"] for one in c.status("a")["conditions"] if one["type"] == "Interrupted")
        assert cause == "Deleted"
        await c.until(
            lambda: (job := c.api.get(JOBS, NS, "a")) is None or job["metadata"]["uid"] != first["metadata"]["uid"]
        )
        await runs(c, "a", limit=120)
        assert c.status("a")["interruptedCount"] == 1


@pytest.mark.parametrize("restarts", [0, 1])
async def test_the_service_of_a_job_that_is_gone_is_replaced(restarts: int) -> None:
    async with harness() as c:
        old = c.api.put(SERVICES, service("gone"))["metadata"]["uid"]
        c.submit("a", parallelism=2, status={"phase": "Interrupted", "interruptedCount": restarts} if restarts else {})
        await runs(c, "a")
        meta = c.api.list(SERVICES)[0]["metadata"]
        job = c.api.get(SCAVENGERJOBS, NS, "a")
        assert job is not None
        assert meta["uid"] != old
        assert meta["ownerReferences"][0]["uid"] == job["metadata"]["uid"]


@pytest.mark.parametrize(
    ("foreign", "says"),
    [
        (service(None), "does not belong to it: delete that Service"),
        (service("gone", finalizers=["example.com/mine"]), "finalizer example.com/mine"),
    ],
)
async def test_a_gang_does_not_start_with_a_service_that_is_not_its_own(foreign: Object, says: str) -> None:
    async with harness() as c:
        c.api.put(SERVICES, foreign)
        c.submit("a", parallelism=2)
        await c.until(lambda: says in c.status("a").get("message", ""))
        assert "Service sj-a" in c.status("a")["message"]
        assert next(one["reason"] for one in c.status("a")["conditions"] if one["type"] == "Admitted") == "NameTaken"
        assert c.jobs_ever("a") == 0
        c.api.remove(SERVICES, NS, "sj-a")
        await runs(c, "a", limit=120)


@pytest.mark.parametrize("end", ["suspend", "delete"])
async def test_a_finalizer_on_the_job_keeps_no_pod_running(end: str) -> None:
    """The garbage collector leaves the pods of a Job that still exists, however long somebody holds it."""
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("a", cpu="2")
        await runs(c, "a")
        c.api.edit(JOBS, NS, "a", lambda job: job["metadata"].update(finalizers=["example.com/mine"]))
        if end == "suspend":
            c.api.edit(SCAVENGERJOBS, NS, "a", lambda job: job["spec"].update(suspend=True))
        else:
            c.api.edit(SCAVENGERJOBS, NS, "a", lambda job: job["metadata"].update(finalizers=["example.com/mine"]))
            await c.user().delete(SCAVENGERJOBS, NS, "a")
        await c.until(lambda: not any(pod["status"]["phase"] == "Running" for pod in c.pods("a")), limit=60)
        assert c.api.get(JOBS, NS, "a") is not None, "held by somebody else"


async def test_a_job_that_waits_for_a_held_job_names_it_and_its_finalizer() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("a", cpu="2")
        await runs(c, "a")
        c.api.edit(JOBS, NS, "a", lambda job: job["metadata"].update(finalizers=["example.com/mine"]))
        await c.user().delete(JOBS, NS, "a")
        await c.until(lambda: "example.com/mine" in c.status("a").get("message", ""), limit=60)
        admitted = next(found for found in c.status("a")["conditions"] if found["type"] == "Admitted")
        assert admitted["reason"] == "HeldBack"
        c.api.edit(JOBS, NS, "a", lambda job: job["metadata"].update(finalizers=[]))
        c.api.remove(JOBS, NS, "a")
        await runs(c, "a")
        assert c.most_at_once("a") == 1


async def test_a_stale_job_of_an_earlier_run_goes_first() -> None:
    async with empty_harness() as c:
        c.node()
        c.api.hang(times=ALWAYS, methods={"GET"}, path=JOB_WATCHES)
        admitter = c.admitter()
        await c.until(lambda: admitter.admitting)
        c.submit("a")
        owner = c.api.get(SCAVENGERJOBS, NS, "a")
        stale = {names.ANNOTATION_RUN: "2020-01-01T00:00:00.000000Z"}
        c.api.put(JOBS, job_dict("a", namespace=NS, owner=owner, annotations=stale))
        await c.until(lambda: c.api.count("POST", "/jobs") == 1)
        await c.until(lambda: c.phase("a") == "Waiting")
        c.api.heal()
        await runs(c, "a")
        assert c.jobs_ever("a") == 2
        assert c.most_at_once("a") == 1
        assert never_interrupted(c, "a")


async def test_our_own_job_of_this_run_is_taken_over() -> None:
    async with empty_harness() as c:
        c.node()
        c.api.hang(times=ALWAYS, methods={"GET"}, path=JOB_WATCHES)
        admitter = c.admitter()
        await c.until(lambda: admitter.admitting)
        place = "2026-01-05T07:00:00.000000Z"
        c.submit("a", status={"phase": "Waiting", "queuedTimestamp": place})
        owner = c.api.get(SCAVENGERJOBS, NS, "a")
        # Another admitter, which also believes to lead, was faster.
        marks = {"labels": {names.LABEL_JOB: "a"}, "annotations": {names.ANNOTATION_RUN: place}}
        template = {"metadata": {**marks, "finalizers": [names.FINALIZER]}}
        run = {names.ANNOTATION_RUN: place}
        spec = {**template, "spec": {"containers": [{"name": "main"}], "restartPolicy": "Never"}}
        job = job_dict("a", namespace=NS, owner=owner, annotations=run, template=spec)
        job["spec"]["managedBy"] = names.MANAGED_BY
        c.api.put(JOBS, job)
        await c.until(lambda: c.api.count("POST", "/jobs") == 1)
        c.api.heal()
        await runs(c, "a")
        assert c.jobs_ever("a") == 1
        assert never_interrupted(c, "a")


async def test_a_job_that_is_not_valid_fails_at_once_with_the_words() -> None:
    async with harness() as c:
        words = 'Job.batch "a" is invalid: spec.template.spec.containers[0].image: Invalid value'
        c.api.fail(422, methods={"POST"}, path="/jobs", body=status_body(422, "Invalid", words))
        c.submit("a")
        await c.until(lambda: c.phase("a") == "Failed", limit=2)
        assert words in c.status("a")["message"]
        await c.pass_time(30)
        assert c.phase("a") == "Failed"
        assert c.jobs_ever("a") == 0


async def test_so_does_one_of_whose_template_no_pod_can_be_made() -> None:
    async with harness() as c:
        some = {"requests": {"cpu": "1", "memory": "1Gi"}}
        context = {"capabilities": "none"}
        container = {"name": "main", "image": "x", "resources": some, "securityContext": context}
        c.submit("a", image=None, resources=None, template={"spec": {"containers": [container]}})
        await c.until(lambda: c.phase("a") == "Failed", limit=5)
        assert "the Job is not valid: spec.template is no pod template" in c.status("a")["message"]
        assert c.jobs_ever("a") == 0


@pytest.mark.parametrize("more", [{}, {"array": {"tasks": 2}}], ids=["job", "array"])
async def test_a_start_that_a_bug_ends_is_tried_again(more: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    async with harness() as c:
        bugs = iter(("a",))

        def manifest(job: ScavengerJob, **words: Any) -> dict[str, Any]:
            if job.metadata.name == next(bugs, ""):
                raise ZeroDivisionError
            return job_manifest(job, **words)

        monkeypatch.setattr("scavenger_admitter.writer.job_manifest", manifest)
        c.submit("a", **more)
        await runs(c, "a", limit=60)
        assert not list(bugs)


async def test_a_quota_on_jobs_is_waited_for_with_a_growing_delay() -> None:
    async with harness() as c:
        c.api.fail(403, times=3, methods={"POST"}, path="/jobs", body=status_body(403, "Forbidden", QUOTA))
        c.submit("a")
        await c.until(lambda: "exceeded quota" in c.status("a").get("message", ""), limit=2)
        assert c.phase("a") == "Waiting"
        took = await runs(c, "a", limit=120)
        assert 5 + 10 + 20 <= took + 2 <= 50
        assert never_interrupted(c, "a")
        assert c.jobs_ever("a") == 1


async def test_a_start_that_failed_goes_to_the_end_of_the_line() -> None:
    async with harness() as c:
        c.node(cpu="3")
        c.api.fail(403, times=1, methods={"POST"}, path="/jobs", body=status_body(403, "Forbidden", QUOTA))
        c.submit("a", cpu="2")
        await c.until(lambda: "exceeded quota" in c.status("a").get("message", ""), limit=2)
        c.submit("b", cpu="2")
        await runs(c, "b", limit=2)
        assert c.phase("a") == "Waiting"
        c.succeed("b")
        await runs(c, "a", limit=20)
        assert c.starts() == ["b", "a"]


# --- diagnosis ----------------------------------------------------------------------------------------------------


NO_SECRET = 'MountVolume.SetUp failed for volume "secret-0" : secret "keys" not found'


async def mounting(c: Harness) -> Object:
    """The pod of a job that mounts a Secret, on its node and not yet started."""
    c.kubelet = False
    c.submit("a", secrets=[{"name": "keys", "mountPath": "/keys"}])
    await c.until(lambda: c.pods("a"))
    pod: Object = c.pods("a")[0]

    def stuck(obj: Object) -> None:
        obj["spec"]["nodeName"] = "n1"
        obj["status"] = {"phase": "Pending", "startTime": c.stamp()}

    c.api.edit(PODS, NS, pod["metadata"]["name"], stuck)
    return pod


async def test_a_start_whose_secret_events_say_is_missing_waits_for_two_minutes_and_is_tried_again() -> None:
    async with harness() as c:
        pod = await mounting(c)
        for _ in range(2):
            c.event(pod, "FailedMount", NO_SECRET)
        took = await c.until(lambda: c.phase("a") == "Waiting", limit=150)
        assert c.status("a")["message"] == 'the start failed: secret "keys" not found'
        assert 110 <= took <= 130
        c.kubelet = True
        await runs(c, "a", limit=60)
        assert never_interrupted(c, "a")


async def test_a_volume_that_cannot_be_attached_is_found_in_the_events_of_the_pod() -> None:
    async with harness(start_timeout=60) as c:
        pod = await mounting(c)
        c.event(pod, "FailedAttachVolume", "Multi-Attach error for volume pv-1")
        await c.until(lambda: c.phase("a") == "Waiting", limit=90)
        assert "Multi-Attach error for volume pv-1" in c.status("a")["message"]


@pytest.mark.parametrize("reason", ["FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"])
async def test_a_start_that_hangs_says_why_within_half_a_minute_of_the_second_time(reason: str) -> None:
    async with harness() as c:
        pod = await mounting(c)
        c.event(pod, reason, "no addresses left")
        await c.until(lambda: c.phase("a") == "Starting", limit=30)
        assert "no addresses left" not in c.status("a")["message"]
        c.event(pod, reason, "no addresses left")
        took = await c.until(lambda: "no addresses left" in c.status("a")["message"], limit=60)
        assert took <= 30
        assert c.status("a")["message"] == f"starting: {reason}: no addresses left"
        assert c.phase("a") == "Starting"


async def test_a_start_goes_back_to_the_node_that_has_most_of_the_image() -> None:
    async with harness(start_timeout=60) as c:
        pod = await mounting(c)

        def pull(obj: Object) -> None:
            obj["status"] |= {
                "conditions": [{"type": "PodReadyToStartContainers", "status": "True"}],
                "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}],
            }

        c.api.edit(PODS, NS, pod["metadata"]["name"], pull)
        await c.until(lambda: c.phase("a") == "Waiting", limit=90)
        c.api.edit(PODS, NS, pod["metadata"]["name"], lambda obj: obj.update(status={"phase": "Failed"}))
        c.kubelet = True
        await runs(c, "a", limit=60)
        job = c.api.get(JOBS, NS, "a")
        assert job is not None
        affinity = job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        preferred = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
        assert [term["preference"]["matchFields"][0]["values"] for term in preferred] == [["n1"]]


@pytest.mark.parametrize(
    "foreign",
    [{"namespace": "other"}, {"about_namespace": "other"}, {"name": "a-0-other"}, {"uid": "another"}],
    ids=lambda foreign: next(iter(foreign)),
)
async def test_an_event_of_another_object_says_nothing_of_a_pod(foreign: dict[str, str]) -> None:
    async with harness() as c:
        pod = await mounting(c)
        c.event(pod, "FailedMount", NO_SECRET, **foreign)
        await c.pass_time(30)
        assert c.phase("a") == "Starting"
        assert [one["metadata"]["uid"] for one in c.pods("a")] == [pod["metadata"]["uid"]]


async def test_events_that_cannot_be_read_are_read_later() -> None:
    async with harness() as c:
        pod = await mounting(c)
        c.api.fail(500, times=3, methods={"GET"}, path="/events")
        for _ in range(2):
            c.event(pod, "FailedMount", NO_SECRET)
        await c.until(lambda: c.phase("a") == "Waiting", limit=240)


# --- edited by hand -----------------------------------------------------------------------------------------------


async def test_a_status_that_was_wiped_comes_back() -> None:
    async with harness() as c:
        for name in ("running", "done", "waiting"):
            c.submit(name, cpu="1" if name != "waiting" else "1000")
        await runs(c, "running")
        await runs(c, "done")
        c.succeed("done")
        await c.until(lambda: c.phase("done") == "Completed")
        places = {name: c.status(name)["queuedTimestamp"] for name in ("running", "done")}
        for name in ("running", "done", "waiting"):
            c.api.edit(SCAVENGERJOBS, NS, name, lambda o: o.update(status={}))
        wanted = {"running": "Running", "done": "Completed", "waiting": "Waiting"}
        await c.until(lambda: c.phases() == wanted)
        await c.pass_time(20)
        assert c.phases() == wanted
        assert {name: c.status(name)["queuedTimestamp"] for name in places} == places
        assert [c.jobs_ever(name) for name in ("running", "done", "waiting")] == [1, 1, 0]
        assert never_interrupted(c, "running")


async def test_a_running_job_that_was_declared_completed_runs_on() -> None:
    async with running_job("a") as c:
        c.api.edit(SCAVENGERJOBS, NS, "a", lambda o: o["status"].update(phase="Completed"))
        await c.until(lambda: c.phase("a") == "Completed")
        await runs(c, "a")
        assert c.jobs_ever("a") == 1
        assert never_interrupted(c, "a")


async def test_a_condition_of_another_controller_on_its_job_is_no_end() -> None:
    async with running_job("a") as c:

        def note(job: Object) -> None:
            noted = {"type": "example.com/Billed", "status": "True", "lastTransitionTime": c.stamp()}
            job.setdefault("status", {}).setdefault("conditions", []).append(noted)

        c.api.edit(JOBS, NS, "a", note)
        c.api.edit(SCAVENGERJOBS, NS, "a", lambda job: job["status"].update(phase="Completed"))
        await c.until(lambda: c.phase("a") == "Completed")
        await runs(c, "a")
        assert c.jobs_ever("a") == 1


async def test_a_waiting_job_that_was_declared_running_starts_all_the_same() -> None:
    async with harness() as c:
        c.submit("a", status={"phase": "Running", "queuedTimestamp": "2026-01-05T07:00:00.000000Z"})
        await c.until(lambda: c.jobs_ever("a") == 1)
        await runs(c, "a")
        assert c.most_at_once("a") == 1


# --- a machine that goes down -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("boot", "phase", "after"), [("second", "Interrupted", 5), ("first", "Failed", 120)])
async def test_the_end_by_a_signal_waits_for_the_fate_of_its_node(boot: str, phase: str, after: float) -> None:
    async with empty_harness() as c:
        machine = node_dict("n1", cpu="100", memory="400Gi")
        machine["status"]["nodeInfo"] = {"bootID": "first"}
        c.api.put(NODES, machine)
        c.admitter()
        c.submit("a")
        await runs(c, "a")
        await c.pass_time(5)
        c.end(c.pods("a")[0], 143)
        await c.pass_time(4)
        assert c.phase("a") == "Running"
        machine["status"]["nodeInfo"] = {"bootID": boot}
        c.api.put(NODES, machine)
        took = await c.until(lambda: c.status("a")["interruptedCount"] or c.phase("a") == "Failed", limit=130)
        assert (c.phase("a") == "Failed") == (phase == "Failed")
        assert took == pytest.approx(after, abs=5)
