"""Jobs whose pods the admitter creates: docs/designs/0020-the-admitter-makes-the-pods.md."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from scavenger_admitter.core.manifest import job_manifest
from scavenger_admitter.core.pods_of_job import pod_of_task, pods_of_job
from scavenger_api import names
from scavenger_api.times import format_micro_time
from scavenger_domain.gang import moment
from scavenger_kube.resources import JOBS, PODS
from scavenger_testing import running, terminated
from scavenger_testing.answers import Request
from scavenger_testing.faults import Fault

from . import builders as b
from .harness import INDEX, NS, Harness, Instance, Object, empty_harness, harness, runs
from .test_controller import ALWAYS, QUOTA, never_interrupted, status_body
from .test_starts import admitted
from .test_writes import spoken

pytestmark = pytest.mark.slow

NO_ACCOUNT = (
    'pods "a-0-x" is forbidden: error looking up service account lab/default: serviceaccount "default" not found'
)
TERMINATING = 'pods "a" is forbidden: unable to create new content in namespace lab because it is being terminated'


OF_EACH_KIND: dict[str, dict[str, Any]] = {
    "job": {},
    "gang": {"parallelism": 8},
    "array": {"array": {"tasks": 8}},
}


def managed(c: Harness, **settings: Any) -> Instance:
    return c.admitter(**settings)


def conditions(c: Harness, name: str) -> list[str]:
    job = c.api.get(JOBS, NS, name)
    assert job is not None
    return [one["type"] for one in job.get("status", {}).get("conditions", ()) if one["status"] == "True"]


def posts(c: Harness) -> int:
    return c.api.count("POST", "/pods")


@dataclass(slots=True)
class AllBut(Fault):
    """It leaves the first requests that it would fit alone."""

    spared: int = 0

    def fits(self, request: Request) -> bool:
        if not Fault.fits(self, request):
            return False
        self.spared -= 1
        return self.spared < 0


@dataclass(slots=True)
class FromIndex(Fault):
    """It is for the pods of a gang from this index on."""

    first: int = 0

    def fits(self, request: Request) -> bool:
        return (
            Fault.fits(self, request) and int(json.loads(request.body)["metadata"]["annotations"][INDEX]) >= self.first
        )


def pods_stop(c: Harness, spared: int, action: Literal["fail", "hang"], **how: Any) -> None:
    """Of the pods to come, only the first are created until `heal`."""
    c.api.faults.add(AllBut(action, ALWAYS, frozenset({"POST"}), "/pods", spared=spared, **how))


def indexes(pods: list[Object]) -> list[str]:
    return sorted(pod["metadata"]["annotations"][INDEX] for pod in pods)


# --- what is created ------------------------------------------------------------------------------------------------


def as_answered(parallelism: int, *, run: str = b.stamp(1)) -> Object:
    """A Job as the API server answers: with its uid, and labels of its own in the template."""
    spec = b.gang(parallelism) if parallelism > 1 else {}
    made = job_manifest(b.job(spec=spec), restarts=0, run=run, max_grace_seconds=300)
    made["metadata"]["uid"] = "uid-of-the-job"
    made["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] = "uid-of-the-job"
    return made


def test_the_pod_of_one_is_its_template_and_a_name_of_the_run() -> None:
    batch = as_answered(1)
    assert "completionMode" not in batch["spec"]
    assert "podReplacementPolicy" not in batch["spec"]
    template = batch["spec"]["template"]
    (pod,) = pods_of_job(batch)
    meta = pod["metadata"]
    assert meta["name"].startswith("job-0-")
    assert meta["labels"] == template["metadata"]["labels"]
    assert meta["annotations"] == {**template["metadata"]["annotations"], INDEX: "0"}
    assert meta["finalizers"] == [names.FINALIZER]
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Job", "uid-of-the-job", True)
    assert pod["spec"] == {**template["spec"], "hostname": "job-0"}
    assert {"name": "SCAVENGER_INDEX", "value": "0"} in pod["spec"]["containers"][0]["env"]


def test_the_pods_of_a_gang_have_their_indexes_as_the_job_controller_gives_them() -> None:
    batch = as_answered(3)
    assert (batch["spec"]["completionMode"], batch["spec"]["completions"]) == ("Indexed", 3)
    pods = pods_of_job(batch)
    assert [pod["metadata"]["annotations"][INDEX] for pod in pods] == ["0", "1", "2"]
    assert [pod["metadata"]["labels"][INDEX] for pod in pods] == ["0", "1", "2"]
    assert [pod["spec"]["hostname"] for pod in pods] == ["job-0", "job-1", "job-2"]
    assert [pod["spec"]["containers"][0]["env"][0]["value"] for pod in pods] == ["0", "1", "2"]


def test_the_template_names_the_pods() -> None:
    batch = as_answered(3)
    suffix = batch["spec"]["template"]["metadata"]["annotations"][names.ANNOTATION_POD_SUFFIX]
    assert [pod["metadata"]["name"] for pod in pods_of_job(batch)] == [f"job-{index}-{suffix}" for index in range(3)]


@pytest.mark.parametrize("text", ["xbcdf", "12345", "wbcdf"])
@pytest.mark.parametrize("found", [None, "", "x2345", "0", "abcdef", "../..", "-"])
def test_pods_of_a_template_that_does_not_name_them_are_called_as_before(text: str, found: str | None) -> None:
    """An older admitter may have created half of a gang: no member of that half gets a second pod."""
    batch = as_answered(2, run=format_micro_time(moment(36**8 + int(text, 36))))
    annotations = batch["spec"]["template"]["metadata"]["annotations"]
    del annotations[names.ANNOTATION_POD_SUFFIX]
    if found is not None:
        annotations[names.ANNOTATION_POD_SUFFIX] = found
    assert [pod["metadata"]["name"] for pod in pods_of_job(batch)] == [f"job-0-{text}", f"job-1-{text}"]


@pytest.mark.parametrize("found", [None, "", "abcde", "xa234", "../.."])
def test_pods_of_tasks_whose_template_does_not_name_them_are_called_as_before(found: str | None) -> None:
    batch = job_manifest(b.job(spec={"array": {"tasks": 8}}), restarts=0, run=b.stamp(1), max_grace_seconds=300)
    batch["metadata"]["uid"] = "uid-of-the-job"
    annotations = batch["spec"]["template"]["metadata"]["annotations"]
    suffix = annotations.pop(names.ANNOTATION_POD_SUFFIX)
    if found is not None:
        annotations[names.ANNOTATION_POD_SUFFIX] = found
    pod = pod_of_task(batch, 7, queue="q", affinity={})
    assert (pod["metadata"]["name"], pod["spec"]["hostname"]) == ("job-7", "job-7")
    annotations[names.ANNOTATION_POD_SUFFIX] = suffix
    pod = pod_of_task(batch, 7, queue="q", affinity={})
    assert (pod["metadata"]["name"], pod["spec"]["hostname"]) == (f"job-7-{suffix}", "job-7")
    env = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
    assert env[names.ENV_PEERS] == "job-7"


def test_a_name_belongs_to_one_run() -> None:
    found = {pods_of_job(as_answered(1, run=run))[0]["metadata"]["name"] for run in (b.stamp(1), b.stamp(2))}
    assert len(found) == 2
    assert pods_of_job(as_answered(1)) == pods_of_job(as_answered(1))


# --- lives ----------------------------------------------------------------------------------------------------------


async def test_the_life_of_a_job() -> None:
    async with empty_harness() as c:
        c.node()
        managed(c, explain_after=5.0)
        c.submit("a")
        await runs(c, "a")
        await c.pass_time(30)
        c.succeed("a")
        await c.until(lambda: c.phase("a") == "Completed")
        await c.pass_time(30)
        writes = spoken(c)
        assert sorted(writes) == ["PATCH Job", "PATCH pod", "PATCH status", "PATCH status", "POST Job", "POST pod"]
        assert writes[:2] == ["POST Job", "POST pod"]
        job = c.api.get(JOBS, NS, "a")
        assert job is not None
        assert conditions(c, "a") == ["SuccessCriteriaMet", "Complete"]
        assert job["status"]["succeeded"] == 1
        assert job["status"]["startTime"] <= job["status"]["completionTime"]
        assert c.held() == []


async def test_the_job_of_a_job_that_failed_says_so() -> None:
    async with empty_harness() as c:
        c.node()
        managed(c)
        c.submit("a")
        await runs(c, "a")
        c.end(c.pods("a")[0], 3)
        await c.until(lambda: c.phase("a") == "Failed")
        await c.until(lambda: conditions(c, "a") == ["FailureTarget", "Failed"])
        job = c.api.get(JOBS, NS, "a")
        assert job is not None
        assert job["status"]["failed"] == 1
        assert "completionTime" not in job["status"]
        assert "exited with code 3" in job["status"]["conditions"][1]["message"]


async def test_where_a_member_fails_the_others_stop_and_the_job_fails() -> None:
    async with empty_harness() as c:
        c.node()
        managed(c)
        c.submit("a", parallelism=3)
        await runs(c, "a")
        await c.pass_time(5)
        c.stopping = 143
        before = len(c.writes())
        c.end(c.pods("a")[0], 3)
        await c.until(lambda: c.phase("a") == "Failed", limit=200)
        await c.until(lambda: conditions(c, "a") == ["FailureTarget", "Failed"])
        writes = spoken(c, before)
        assert writes[:4] == ["PATCH status", "PATCH Job", "DELETE pod", "DELETE pod"], "what says why comes first"
        assert c.status("a").get("interruptedCount", 0) == 0
        await c.until(lambda: c.held() == [])


async def test_members_of_a_failed_gang_stop_at_once() -> None:
    """Long before it is certain that no lost node was the cause."""
    async with empty_harness() as c:
        c.node()
        managed(c)
        c.submit("a", parallelism=2)
        await runs(c, "a")
        c.end(c.pods("a")[0], 1)
        await c.until(lambda: all("deletionTimestamp" in p["metadata"] for p in c.pods("a")[1:]), limit=3)
        assert c.phase("a") == "Running"


@pytest.mark.parametrize("parallelism", [1, 3])
async def test_a_job_deleted_by_hand_is_interrupted_and_starts_again(parallelism: int) -> None:
    async with empty_harness() as c:
        c.node()
        managed(c)
        c.submit("a", parallelism=parallelism)
        await runs(c, "a")
        first = {pod["metadata"]["name"] for pod in c.pods("a")}
        c.api.remove(JOBS, NS, "a")
        for pod in c.pods("a"):
            c.delete_pod(pod)
        await c.until(lambda: c.status("a").get("interruptedCount") == 1)
        await runs(c, "a")
        assert len(c.pods("a")) == parallelism
        assert not first & {pod["metadata"]["name"] for pod in c.pods("a")}
        assert c.most_at_once("a") == parallelism


async def test_an_eviction_interrupts_the_whole_gang() -> None:
    async with empty_harness() as c:
        c.node()
        managed(c)
        c.submit("a", parallelism=2)
        await runs(c, "a")
        c.delete_pod(c.pods("a")[0])
        await c.until(lambda: c.status("a").get("interruptedCount") == 1)
        await runs(c, "a")
        assert c.jobs_ever("a") == 2
        assert c.most_at_once("a") == 2


# --- takeover -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [False, True])
async def test_half_a_gang_is_completed_by_who_takes_over(told: bool) -> None:
    """told: the status says Starting by then."""
    async with empty_harness() as c:
        c.node()
        first = managed(c, explain_after=1.0)
        c.submit("a", parallelism=5)
        pods_stop(c, 2, "hang")
        await c.until(lambda: len(c.pods("a")) == 2)
        if told:
            await c.pass_time(3, step=0.2)
        assert len(c.pods("a")) == 2
        await first.kill()
        c.api.heal()
        managed(c)
        await runs(c, "a")
        assert indexes(c.pods("a")) == ["0", "1", "2", "3", "4"]
        assert c.jobs_ever("a") == 1
        assert never_interrupted(c, "a")


async def test_a_pod_whose_answer_is_lost_is_there_once() -> None:
    async with empty_harness() as c:
        c.node()
        managed(c)
        c.api.drop(methods={"POST"}, path="/pods", after_write=True)
        c.submit("a", parallelism=3)
        await runs(c, "a")
        assert indexes(c.pods("a")) == ["0", "1", "2"]
        assert c.jobs_ever("a") == 1


async def test_what_was_created_and_is_gone_is_not_created_again() -> None:
    async with empty_harness() as c:
        c.node()
        c.kubelet = False
        managed(c)
        c.submit("a", parallelism=2)
        await c.until(lambda: len(c.pods("a")) == 2)
        await c.pass_time(3)
        c.api.remove(PODS, NS, c.pods("a")[0]["metadata"]["name"])
        before = posts(c)
        await c.pass_time(30)
        assert posts(c) == before


async def test_of_a_half_made_gang_only_what_is_missing_is_sent_again_and_ever_more_rarely() -> None:
    async with empty_harness() as c:
        c.node(cpu="1000", memory="4000Gi", pods="300")
        managed(c, start_timeout=600.0)
        c.api.faults.add(FromIndex("fail", ALWAYS, frozenset({"POST"}), "/pods", status=500, first=180))
        c.submit("a", parallelism=200)
        await c.pass_time(30)
        assert 170 < len(c.pods("a")) <= 180
        assert posts(c) < 180 + 60
        c.api.heal()
        await runs(c, "a")
        assert posts(c) < 200 + 60
        assert (len(c.pods("a")), c.jobs_ever("a")) == (200, 1)
        assert never_interrupted(c, "a")


async def test_where_pods_are_refused_now_and_then_a_gang_is_complete_in_seconds() -> None:
    """A try that makes some pods is followed by the next one soon."""
    async with empty_harness() as c:
        c.node(cpu="1000", memory="4000Gi", pods="300")
        managed(c)
        for spared in (10, 40, 90, 150):
            c.api.faults.add(AllBut("fail", 1, frozenset({"POST"}), "/pods", spared=spared, status=500))
        c.submit("a", parallelism=200)
        await runs(c, "a", limit=20)
        assert posts(c) <= 200 + 4


async def test_who_takes_over_half_a_gang_sends_the_other_half() -> None:
    async with empty_harness() as c:
        c.node()
        first = managed(c)
        pods_stop(c, 7, "fail", status=500)
        c.submit("a", parallelism=14)
        await c.until(lambda: len(c.pods("a")) == 7)
        await first.kill()
        c.api.heal()
        before = posts(c)
        managed(c)
        await runs(c, "a")
        assert posts(c) - before == 7


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 2])
async def test_a_refused_pod_takes_the_whole_run_back(first: int) -> None:
    """first: pods of the gang that the API server takes before it refuses one."""
    async with empty_harness() as c:
        c.node()
        managed(c, start_backoff=30.0)
        pods_stop(c, first, "fail", status=403, body=status_body(403, "Forbidden", QUOTA))
        c.submit("a", parallelism=4)
        await c.until(lambda: admitted(c, "a") == ("False", "QuotaExceeded"))
        await c.until(lambda: c.api.get(JOBS, NS, "a") is None)
        await c.until(lambda: c.pods("a") == [], limit=10)
        c.api.heal()
        await runs(c, "a", limit=60)
        assert len(c.pods("a")) == 4
        assert never_interrupted(c, "a")


@pytest.mark.parametrize("body", [(403, "Forbidden", NO_ACCOUNT), (500, "InternalError", "etcd"), (429, "TooMany", "")])
async def test_what_passes_is_tried_again_for_the_same_run(body: tuple[int, str, str]) -> None:
    async with empty_harness() as c:
        c.node()
        managed(c)
        c.api.fail(body[0], methods={"POST"}, path="/pods", times=3, body=status_body(*body))
        c.submit("a")
        await runs(c, "a", limit=15)
        assert c.jobs_ever("a") == 1
        assert c.events("StartFailed") == []


async def test_in_a_namespace_that_is_being_deleted_the_run_is_taken_back() -> None:
    async with empty_harness() as c:
        c.node()
        managed(c)
        c.api.fail(403, methods={"POST"}, path="/pods", times=ALWAYS, body=status_body(403, "Forbidden", TERMINATING))
        c.submit("a")
        await c.until(lambda: admitted(c, "a") == ("False", "CreationRefused"))
        await c.until(lambda: c.api.get(JOBS, NS, "a") is None)


@pytest.mark.parametrize("kind", OF_EACH_KIND)
async def test_where_the_api_server_drops_managed_by_the_job_says_what_to_switch_on(kind: str) -> None:
    """The feature gate JobManagedBy is off, as it may be before Kubernetes 1.35."""

    def drop(body: Object) -> None:
        if body["kind"] == "Job":
            del body["spec"]["managedBy"]

    async with empty_harness() as c:
        c.node()
        c.admission = drop
        managed(c)
        c.submit("a", **OF_EACH_KIND[kind])
        await c.until(lambda: admitted(c, "a") == ("False", "InstallationIncomplete"))
        assert "switch on its feature gate JobManagedBy" in c.status("a")["message"]
        await c.until(lambda: c.api.get(JOBS, NS, "a") is None)
        await c.pass_time(900, step=5)
        assert posts(c) == 0
        assert c.jobs_ever("a") <= 5, "the next try is late"
        c.admission = lambda body: None
        await runs(c, "a", limit=700)


# --- Jobs of an earlier version -------------------------------------------------------------------------------------


async def left_to_the_job_controller(c: Harness, *jobs: str) -> None:
    """The Jobs of these are such as an earlier version has created, and nobody leads."""
    for admitter in c._admitters:
        await admitter.kill()
    for name in jobs:
        c.api.edit(JOBS, NS, name, lambda job: job["spec"].pop("managedBy"))


async def test_a_run_of_an_earlier_version_is_interrupted_once_and_goes_on() -> None:
    async with empty_harness() as c:
        c.node()
        managed(c)
        c.submit("a")
        c.submit("b", parallelism=2)
        for name in "ab":
            await runs(c, name)
        await left_to_the_job_controller(c, "a", "b")
        await c.pass_time(90)
        c.stopping = 143
        managed(c)
        await c.until(lambda: all(c.status(name).get("interruptedCount") == 1 for name in "ab"))
        for name in "ab":
            await runs(c, name)
            job = c.api.get(JOBS, NS, name)
            assert job is not None
            assert job["spec"]["managedBy"] == names.MANAGED_BY
        assert [c.jobs_ever(name) for name in "ab"] == [2, 2]
        assert [c.most_at_once(name) for name in "ab"] == [1, 2]
        assert all("an earlier version" in event["message"] for event in c.events("Interrupted"))
        await c.pass_time(90)
        for name in "ab":
            c.succeed(name)
        await c.until(lambda: c.phases() == {"a": "Completed", "b": "Completed"})
        assert [c.status(name)["interruptedCount"] for name in "ab"] == [1, 1]
        assert c.held() == []


async def test_a_run_of_an_earlier_version_that_ended_while_nobody_led_is_over() -> None:
    async with empty_harness() as c:
        c.node()
        managed(c)
        c.submit("a")
        c.submit("b")
        for name in "ab":
            await runs(c, name)
        await left_to_the_job_controller(c, "a", "b")
        c.end(c.pods("a")[0])
        c.end(c.pods("b")[0], 1)
        managed(c)
        await c.until(lambda: c.phases() == {"a": "Completed", "b": "Failed"})
        assert all(never_interrupted(c, name) for name in "ab")
        assert [conditions(c, name) for name in "ab"] == [[], []], "those are the Job controller's"
        await c.until(lambda: c.held() == [])


async def test_a_start_of_an_earlier_version_is_taken_back_and_keeps_its_place() -> None:
    async with empty_harness() as c:
        c.node()
        c.kubelet = False
        managed(c, explain_after=0.0)
        c.submit("a")
        await c.until(lambda: c.phase("a") == "Starting")
        place = c.status("a")["queuedTimestamp"]
        await left_to_the_job_controller(c, "a")
        managed(c)
        await c.until(lambda: admitted(c, "a") == ("False", "CreationRefused"))
        assert c.status("a")["queuedTimestamp"][:19] == place[:19]
        c.kubelet = True
        await runs(c, "a")
        assert never_interrupted(c, "a")
        assert (c.jobs_ever("a"), c.most_at_once("a")) == (2, 1)


async def test_a_pod_of_a_half_made_gang_that_is_deleted_is_made_again_with_the_others() -> None:
    async with empty_harness() as c:
        c.node()
        c.kubelet = False
        managed(c)
        c.api.faults.add(FromIndex("fail", ALWAYS, frozenset({"POST"}), "/pods", status=500, first=2))
        c.submit("a", parallelism=4)
        await c.until(lambda: len(c.pods("a")) == 2)
        await c.pass_time(2)
        c.api.remove(PODS, NS, c.pods("a")[0]["metadata"]["name"])
        c.api.heal()
        c.kubelet = True
        await runs(c, "a", limit=120)
        assert len(c.pods("a")) == 4
        assert c.most_at_once("a") <= 4


@pytest.mark.parametrize("kind", OF_EACH_KIND)
@pytest.mark.parametrize("first", [0, 2], ids=["none", "some"])
async def test_pods_that_the_api_server_does_not_take_are_sent_less_and_less_often(kind: str, first: int) -> None:
    """first: so many are taken before. One that is there is never sent again."""
    async with empty_harness() as c:
        c.node()
        managed(c)
        c.api.faults.add(FromIndex("fail", ALWAYS, frozenset({"POST"}), "/pods", status=500, first=first))
        c.submit("a", **OF_EACH_KIND[kind])
        sent = []
        for _ in range(4):
            before = c.api.count("POST", "/pods")
            await c.pass_time(60)
            sent.append(c.api.count("POST", "/pods") - before)
        assert sent[0] <= 10, sent
        assert max(sent[1:]) <= 3, sent
        c.api.heal()
        await runs(c, "a", limit=330)


# --- a container beside the program ---------------------------------------------------------------------------------

MESH = {"name": "mesh", "image": "mesh:1"}


class Kubelet:
    """Pods of two containers: the mesh runs on when main has ended, until the pod is deleted.

    Args:
        c: the cluster, whose own kubelet rests.
        observes: whether it writes observedGeneration, as since Kubernetes 1.34.
    """

    def __init__(self, c: Harness, *, observes: bool) -> None:
        self.c, self.observes = c, observes
        c.kubelet, c.injected = False, {"containers": [MESH]}

    def play(self, job: str) -> None:
        """Pods start, and those that are deleted end."""
        for pod in self.c.pods(job):
            if pod["status"].get("phase") == "Pending":
                self._write(
                    pod, "Running", running(started=self.c.stamp()), running(started=self.c.stamp(), name="mesh")
                )
            elif pod["status"].get("phase") == "Running" and "deletionTimestamp" in pod["metadata"]:
                main = next(one for one in pod["status"]["containerStatuses"] if one["name"] == "main")
                over = "terminated" in main["state"]
                stopped = terminated(143, finished=self.c.stamp(), name="mesh")
                self._write(pod, "Failed", main if over else terminated(143, finished=self.c.stamp()), stopped)

    def fail(self, pod: Object, code: int, reason: str = "") -> None:
        """Main fails, and the mesh runs on."""
        ended = terminated(code, finished=self.c.stamp(), reason=reason)
        ended["state"]["terminated"]["startedAt"] = pod["status"]["startTime"]
        self._write(pod, "Running", ended, running(started=pod["status"]["startTime"], name="mesh"))

    def _write(self, pod: Object, phase: str, *containers: Object) -> None:
        def edit(obj: Object) -> None:
            obj["spec"]["nodeName"] = "n1"
            start = obj["status"].get("startTime", self.c.stamp())
            obj["status"] = {"phase": phase, "startTime": start, "containerStatuses": list(containers)}
            if self.observes:
                obj["status"]["observedGeneration"] = obj["metadata"].get("generation", 1)

        self.c.api.edit(PODS, NS, pod["metadata"]["name"], edit)


@pytest.mark.parametrize("observes", [False, True], ids=["1.33", "1.34"])
@pytest.mark.parametrize(
    ("parallelism", "code", "reason"),
    [(2, 1, ""), (2, 137, ""), (1, 137, "OOMKilled"), (1, 143, ""), (1, 1, "")],
    ids=["gang", "gang-killed", "memory", "signal", "one"],
)
async def test_a_failure_beside_which_a_mesh_runs_on_is_a_failure(
    parallelism: int, code: int, reason: str, *, observes: bool
) -> None:
    """The admitter deletes the pods of a run that failed. It is not to read that as what ended the run."""
    async with harness() as c:
        kubelet = Kubelet(c, observes=observes)
        c.submit("a", parallelism=parallelism, backoffLimit=0)
        for _ in range(600):
            kubelet.play("a")
            there = [pod for pod in c.pods("a") if pod["status"].get("phase") == "Running"]
            whole = len(there) == parallelism and not any("deletionTimestamp" in pod["metadata"] for pod in there)
            fresh = all("running" in one["state"] for pod in there for one in pod["status"]["containerStatuses"])
            if c.phase("a") == "Running" and whole and fresh:
                kubelet.fail(there[0], code, reason)
            if c.phase("a") == "Failed":
                break
            await c.pass_time(1, step=0.2)
        assert (c.phase("a"), c.status("a").get("interruptedCount", 0)) == ("Failed", 0)
        assert c.jobs_ever("a") == 1
