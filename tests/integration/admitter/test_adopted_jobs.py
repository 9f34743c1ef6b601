"""Jobs of users that the admitter runs, on a real control plane: docs/designs/0032-adopted-jobs.md."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from scavenger_api import names
from scavenger_api.times import parse_time
from scavenger_cluster import Cluster, stack
from scavenger_cluster.kwok import STOP_EXIT_CODE
from scavenger_kube.resources import JSON_PATCH
from scavenger_testing.job_clients import CLIENTS, Seen
from scavenger_testing.job_status_rules import refusals
from scavenger_testing.place import Server
from scavenger_testing.waiting import TIMEOUT

from .conftest import ADOPT, CPUS, Object, Place, bring_up, namespace, start_admitter
from .recorder import Recorder
from .test_managed_jobs import finish, kubectl

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def place(cluster: Cluster, recorder: Recorder, adopting: None) -> Iterator[Place]:
    """A namespace whose Jobs are adopted where they ask for it, and an admitter that runs them."""
    start_admitter(cluster, **ADOPT)
    with namespace(cluster, recorder) as made:
        cluster.kubectl("label", "namespace", made.namespace, f"{names.LABEL_ADOPT}={names.ADOPT_LABELLED}")
        made.wait_account()
        yield made
        for one in made.all("jobs"):
            kubectl(made, "delete", "job", one["metadata"]["name"], "--wait=false", "--cascade=background")


def body(name: str, **spec: Any) -> Object:
    """A Job as its user writes it."""
    asked = {"requests": {"cpu": "1", "memory": "16Mi"}}
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "work", "image": "none", "resources": asked}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {names.LABEL_QUEUE: names.DEFAULT_QUEUE}},
        "spec": {"template": {"spec": pod}, **spec},
    }


def submit(place: Place, name: str, **spec: Any) -> None:
    place.cluster.client.request("POST", place.path("jobs"), body(name, **spec))


def status(place: Place, name: str) -> Object:
    return dict(place.get("jobs", name).get("status") or {})


def stated(place: Place, name: str) -> list[str]:
    """The conditions that are True, in their order."""
    return [one["type"] for one in status(place, name).get("conditions", ()) if one["status"] == "True"]


def ledger(place: Place, name: str) -> Object:
    found = [one for one in status(place, name).get("conditions", ()) if one["type"] == names.CONDITION_LEDGER]
    return {"phase": found[0]["reason"], **json.loads(found[0]["message"])} if found else {}


def running(place: Place, name: str) -> list[Object]:
    return [
        pod
        for pod in place.pods(name)
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]


def wait_running(place: Place, name: str, count: int = 1) -> list[Object]:
    def reached() -> bool:
        return len(running(place, name)) == count and status(place, name).get("active") == count

    place.wait(f"{count} pods of {name}", reached)
    return running(place, name)


class Onlooker:
    """What each client takes a Job for, one after the other: docs/clients.md has their rules."""

    def __init__(self, place: Place, name: str) -> None:
        self.place, self.name = place, name
        self.seen: dict[str, list[Seen]] = {client.name: [] for client in CLIENTS}

    def look(self) -> None:
        """Ask as all of them do."""
        job, pods = self.place.get("jobs", self.name), self.place.all("pods")
        for client in CLIENTS:
            if self.seen[client.name][-1:] != [found := client.rule(job, pods)]:
                self.seen[client.name].append(found)

    def until(self, what: str, condition: Callable[[], Any]) -> None:
        """Look until this holds."""

        def looked() -> Any:
            self.look()
            return condition()

        self.place.wait(what, looked)


def test_a_job_of_one_pod_completes(place: Place) -> None:
    submit(place, "one")
    (pod,) = wait_running(place, "one")
    assert pod["spec"]["priorityClassName"] == names.PRIORITY_CLASS_PREEMPTIBLE
    assert kubectl(place, "get", "pods", "-l", "job-name=one", "-o", "name").split() == [
        f"pod/{pod['metadata']['name']}"
    ]
    finish(place, pod)
    kubectl(place, "wait", "--for=condition=Complete", "job/one", "--timeout=60s")
    found = status(place, "one")
    assert (found["succeeded"], found.get("failed"), found.get("active", 0)) == (1, None, 0)
    assert stated(place, "one") == ["SuccessCriteriaMet", "Complete"]
    place.wait("its pod let go", lambda: not place.held())
    assert place.pods_ever("one") == 1


@pytest.mark.parametrize("how", [pytest.param("deleted", marks=pytest.mark.long), "evicted"])
def test_an_interrupted_job_with_backoff_limit_0_comes_back(place: Place, how: str) -> None:
    """And no client sees more than a Job that took longer."""
    made, onlooker = body("two", backoffLimit=0), Onlooker(place, "two")
    made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 3  # until its exit, its pod has lost its labels
    place.cluster.client.request("POST", place.path("jobs"), made)
    (pod,) = wait_running(place, "two")
    onlooker.look()
    name = pod["metadata"]["name"]
    if how == "deleted":
        kubectl(place, "delete", "pod", name, "--wait=false")
    else:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        place.cluster.client.request("POST", f"{place.path('pods')}/{name}/eviction", eviction)
    onlooker.until("it counted", lambda: ledger(place, "two").get("interrupted") == 1)
    onlooker.until("it to come back", lambda: running(place, "two"))
    (back,) = wait_running(place, "two")
    assert back["metadata"]["uid"] != pod["metadata"]["uid"]
    assert (status(place, "two").get("failed"), stated(place, "two")) == (None, [])
    finish(place, back)
    kubectl(place, "wait", "--for=condition=Complete", "job/two", "--timeout=60s")
    onlooker.look()
    assert onlooker.seen == {client.name: [Seen.RUNS, Seen.DONE] for client in CLIENTS}


@pytest.mark.long
def test_a_program_that_ends_with_0_as_it_is_told_to_stop_is_not_done(place: Place) -> None:
    made = body("saves", backoffLimit=0)
    made["spec"]["template"]["metadata"] = {"annotations": {STOP_EXIT_CODE: "0"}}
    place.cluster.client.request("POST", place.path("jobs"), made)
    (pod,) = wait_running(place, "saves")
    kubectl(place, "delete", "pod", pod["metadata"]["name"], "--wait=false")
    place.wait("it counted", lambda: ledger(place, "saves").get("interrupted") == 1)
    (back,) = wait_running(place, "saves")
    assert (status(place, "saves").get("succeeded"), stated(place, "saves")) == (None, [])
    finish(place, back)
    kubectl(place, "wait", "--for=condition=Complete", "job/saves", "--timeout=60s")
    assert status(place, "saves")["succeeded"] == 1


@pytest.mark.long
def test_a_job_whose_node_is_gone_comes_back(cluster: Cluster, place: Place) -> None:
    """The pod garbage collector takes a minute to be sure of that."""
    submit(place, "lost", completions=2, parallelism=2, completionMode="Indexed", backoffLimit=0)
    first, _ = wait_running(place, "lost", 2)
    node = first["spec"]["nodeName"]
    on = [pod for pod in running(place, "lost") if pod["spec"]["nodeName"] == node]
    cluster.client.delete(f"/api/v1/nodes/{node}")
    try:
        place.wait("it counted", lambda: ledger(place, "lost").get("interrupted") == len(on), timeout=120)
        back = wait_running(place, "lost", 2)
        assert all(pod["spec"]["nodeName"] != node for pod in back)
        assert (status(place, "lost").get("failed"), stated(place, "lost")) == (None, [])
        work_off(place, "lost", but=[pod["metadata"]["uid"] for pod in on])
        found = status(place, "lost")
        assert (found["succeeded"], found["completedIndexes"], found.get("failed")) == (2, "0,1", None)
    finally:
        bring_up(cluster)


@pytest.mark.long
def test_indexed_4_of_2_with_an_interruption_has_each_index_once(place: Place) -> None:
    submit(place, "many", completions=4, parallelism=2, completionMode="Indexed", backoffLimit=0)
    first, second = wait_running(place, "many", 2)
    kubectl(place, "delete", "pod", first["metadata"]["name"], "--wait=false")
    finish(place, second)
    while not stated(place, "many"):
        for pod in running(place, "many"):
            if pod["metadata"]["uid"] not in (first["metadata"]["uid"], second["metadata"]["uid"]):
                finish(place, pod)
        place.wait("the next", lambda: running(place, "many") or stated(place, "many"))
    found = status(place, "many")
    assert (found["succeeded"], found["completedIndexes"], found.get("failed")) == (4, "0-3", None)


@pytest.mark.long
def test_a_gang_is_interrupted_and_comes_back_as_a_whole(place: Place) -> None:
    made = body("gang", completions=2, parallelism=2, completionMode="Indexed", backoffLimit=0)
    made["metadata"]["annotations"] = {names.ANNOTATION_GANG: "true"}
    place.cluster.client.request("POST", place.path("jobs"), made)
    before = wait_running(place, "gang", 2)
    kubectl(place, "delete", "pod", before[0]["metadata"]["name"], "--wait=false")
    place.wait("it counted", lambda: ledger(place, "gang").get("interrupted") == 1)
    back = wait_running(place, "gang", 2)
    assert not {pod["metadata"]["uid"] for pod in before} & {pod["metadata"]["uid"] for pod in back}
    found = status(place, "gang")
    assert (found.get("failed"), found.get("succeeded"), stated(place, "gang")) == (None, None, [])
    for pod in back:
        finish(place, pod)
    kubectl(place, "wait", "--for=condition=Complete", "job/gang", "--timeout=60s")
    found = status(place, "gang")
    assert (found["succeeded"], found["completedIndexes"], found.get("failed")) == (2, "0,1", None)
    assert ledger(place, "gang")["interrupted"] == 1
    place.wait("its pods let go", lambda: not place.held())


@pytest.mark.long
def test_a_job_fails_by_its_own_exit(place: Place) -> None:
    submit(place, "bad", backoffLimit=0)
    (pod,) = wait_running(place, "bad")
    finish(place, pod, 3)
    kubectl(place, "wait", "--for=condition=Failed", "job/bad", "--timeout=60s")
    found = [one for one in status(place, "bad")["conditions"] if one["type"] == "Failed"]
    assert (found[0]["reason"], status(place, "bad")["failed"]) == ("BackoffLimitExceeded", 1)


@pytest.mark.long
def test_a_job_that_its_user_suspends_goes_on_when_it_is_resumed(place: Place) -> None:
    submit(place, "three", backoffLimit=0)
    (pod,) = wait_running(place, "three")
    began = status(place, "three")["startTime"]
    kubectl(place, "patch", "job", "three", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    kubectl(place, "wait", "--for=condition=Suspended", "job/three", "--timeout=60s")
    place.wait("its pod gone", lambda: not place.pods("three"))
    found = status(place, "three")
    assert (found.get("active", 0), found.get("failed"), found.get("startTime")) == (0, None, None)
    place.wait("nothing left to end", lambda: not status(place, "three").get("terminating"))
    kubectl(place, "patch", "job", "three", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    (back,) = wait_running(place, "three")
    assert back["metadata"]["uid"] != pod["metadata"]["uid"]
    assert stated(place, "three") == []
    assert status(place, "three")["startTime"] >= began
    finish(place, back)
    kubectl(place, "wait", "--for=condition=Complete", "job/three", "--timeout=60s")
    assert (status(place, "three")["succeeded"], ledger(place, "three").get("interrupted", 0)) == (1, 0)


def work_off(place: Place, name: str, but: Collection[str] = ()) -> None:
    """End all pods of a Job with 0 until it is over, but those of these UIDs."""
    while not stated(place, name):
        for pod in running(place, name):
            if pod["metadata"]["uid"] not in but:
                finish(place, pod)
        place.wait("the next", lambda: running(place, name) or stated(place, name))


def test_a_job_that_a_regular_pod_preempts_comes_back(place: Place) -> None:
    submit(place, "low", backoffLimit=0)
    (pod,) = wait_running(place, "low")
    place.create_pod("high", f"{CPUS - 0.5}", pod["spec"]["nodeName"])
    place.wait("it counted", lambda: ledger(place, "low").get("interrupted") == 1)
    (back,) = wait_running(place, "low")
    assert back["spec"]["nodeName"] != pod["spec"]["nodeName"]
    assert (status(place, "low").get("failed"), stated(place, "low")) == (None, [])


def test_5_of_2_with_a_failure_of_its_own_and_then_it_expires(place: Place) -> None:
    submit(place, "five", completions=5, parallelism=2, backoffLimit=2, ttlSecondsAfterFinished=1)
    first, _ = wait_running(place, "five", 2)
    finish(place, first, 3)
    place.wait("it counted", lambda: status(place, "five").get("failed") == 1)
    seen: list[Object] = []

    def over() -> bool:
        for pod in running(place, "five"):
            finish(place, pod)
        found = [job for job in place.all("jobs") if job["metadata"]["name"] == "five"]
        seen.extend(job["status"] for job in found if job.get("status", {}).get("completionTime"))
        return not found

    place.wait("its time to be over", over)
    assert (seen[-1]["succeeded"], seen[-1]["failed"], seen[-1].get("completedIndexes")) == (5, 1, None)
    place.wait("its pods gone", lambda: not place.pods("five"))


def test_the_log_of_a_job_is_that_of_the_pod_that_runs(place: Place) -> None:
    """kubectl asks for pods by the selector of the Job."""
    submit(place, "logged")
    (pod,) = wait_running(place, "logged")
    selector = place.get("jobs", "logged")["spec"]["selector"]["matchLabels"]
    labels = ",".join(f"{key}={value}" for key, value in selector.items())

    def found() -> list[str]:
        return kubectl(place, "get", "pods", "-l", labels, "-o", "jsonpath={.items[*].metadata.uid}").split()

    assert found() == [pod["metadata"]["uid"]]
    kubectl(place, "delete", "pod", pod["metadata"]["name"], "--wait=false")
    place.wait("it counted", lambda: ledger(place, "logged").get("interrupted") == 1)
    (back,) = wait_running(place, "logged")
    assert found() == [back["metadata"]["uid"]]


def test_pods_of_a_job_that_is_deleted_as_python_clients_do_run_on(place: Place) -> None:
    """Without a propagation policy: the garbage collector orphans them, and the admitter lets go of them."""
    submit(place, "left")
    (pod,) = wait_running(place, "left")
    name = pod["metadata"]["name"]
    place.cluster.client.request("DELETE", f"{place.path('jobs')}/left")

    def free() -> bool:
        meta = place.get("pods", name)["metadata"]
        ours = [key for key in meta.get("labels", {}) if key.startswith(f"{names.GROUP}/")]
        return not (ours or meta.get("finalizers") or meta.get("ownerReferences"))

    place.wait("it is on its own", free)
    assert place.get("pods", name)["status"]["phase"] == "Running"


# --- CronJobs ---


def cron(place: Place, minute: datetime) -> None:
    """Have the CronJob start a Job for this minute, which is over. After another schedule its controller sleeps until
    the next moment of that; after any other change it looks at once."""
    schedule = f"{minute.minute} {minute.hour} {minute.day} {minute.month} *"
    for patch in ({"spec": {"schedule": schedule}}, {"metadata": {"annotations": {"schedule": schedule}}}):
        kubectl(place, "patch", "cronjob", "night", "--type=merge", "-p", json.dumps(patch))


def test_a_cron_job_waits_for_an_interrupted_job_and_keeps_its_history(place: Place) -> None:
    made, template = body("x"), {"metadata": {"labels": {names.LABEL_QUEUE: names.DEFAULT_QUEUE}}}
    spec = {
        "schedule": "0 0 29 2 *",
        "timeZone": "Etc/UTC",
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 1,
        "jobTemplate": {**template, "spec": {**made["spec"], "backoffLimit": 0}},
    }
    night = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "night"}, "spec": spec}
    kubectl(place, "create", "-f", "-", stdin=json.dumps(night))
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    ago = (now - timedelta(minutes=9)).strftime("%Y-%m-%dT%H:%M:%SZ")
    past = json.dumps({"status": {"lastScheduleTime": ago}})
    kubectl(place, "patch", "cronjob", "night", "--subresource=status", "--type=merge", "-p", past)

    def jobs() -> list[str]:
        return [job["metadata"]["name"] for job in place.all("jobs")]

    cron(place, now - timedelta(minutes=5))
    place.wait("its Job", lambda: len(jobs()) == 1)
    (first,) = jobs()
    assert place.get("jobs", first)["spec"]["managedBy"] == names.MANAGED_BY_ADOPTER
    (pod,) = wait_running(place, first)
    kubectl(place, "delete", "pod", pod["metadata"]["name"], "--wait=false")
    cron(place, now - timedelta(minutes=4))
    place.wait("it counted", lambda: ledger(place, first).get("interrupted") == 1)
    said = ["get", "events", "--field-selector=reason=JobAlreadyActive", "-o", "name"]
    place.wait("the next one is held back", lambda: kubectl(place, *said))
    assert jobs() == [first]
    work_off(place, first, but=[pod["metadata"]["uid"]])
    ended = status(place, first)["completionTime"]
    last = ("get", "cronjob", "night", "-o=jsonpath={.status.lastSuccessfulTime}")
    place.wait("its success", lambda: kubectl(place, *last) == ended)
    place.wait("the next one", lambda: len(jobs()) == 2)
    (second,) = set(jobs()) - {first}
    wait_running(place, second)
    work_off(place, second)
    place.wait("the first one gone", lambda: jobs() == [second])
    assert status(place, second)["succeeded"] == 1


# --- release ---


def sj(place: Place, *words: str) -> str:
    """`kubectl sj` as an administrator."""
    environment = {**os.environ, "KUBECONFIG": str(place.cluster.kubeconfig)}
    line = [sys.executable, "-m", "scavenger_cli", *words, "-n", place.namespace]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_a_released_job_goes_on_under_the_job_controller(place: Place) -> None:
    submit(place, "many", completions=4, parallelism=2, completionMode="Indexed", backoffLimit=0)
    first, _ = wait_running(place, "many", 2)
    done = int(first["metadata"]["labels"][names.LABEL_TASK])
    finish(place, first)
    place.wait("it counted", lambda: status(place, "many").get("succeeded") == 1)
    wait_running(place, "many", 2)
    before = place.get("jobs", "many")
    assert "job.batch/many released" in sj(place, "release", "many", "--now")
    found = place.get("jobs", "many")
    assert found["metadata"]["uid"] != before["metadata"]["uid"]
    assert ("managedBy" in found["spec"], found["metadata"]["labels"][names.LABEL_ADOPT]) == (False, names.ADOPT_NEVER)
    assert [job["metadata"]["name"] for job in place.all("jobs")] == ["many"]
    left: list[str] = []

    def over() -> bool:
        pods = [pod for pod in place.all("pods") if pod["metadata"]["labels"].get("job-name") == "many"]
        for pod in pods:
            if pod["status"].get("phase") == "Running" and pod["metadata"]["uid"] not in left:
                left.append(pod["metadata"]["uid"])
                finish(place, pod)
        return "Complete" in stated(place, "many")

    place.wait("the rest", over)
    found = status(place, "many")
    assert (found["succeeded"], found["completedIndexes"], found.get("failed"), len(left)) == (4, "0-3", None, 3)
    assert 0 <= done <= 3
    place.wait("nothing is held", lambda: not place.held())


def test_an_uninstallation_releases_all_jobs_while_the_admitter_runs(cluster: Cluster, place: Place) -> None:
    """With the rights that the hook of the chart has, and no others."""
    newer = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"
    words = (stack.NO_IMAGE, stack.ADOPT, "--api-versions", newer)
    made = yaml.safe_load_all(stack.rendered("scavenger-admitter", print, *words, templates=("release",)))
    rights = yaml.safe_dump_all(one for one in made if one["kind"] != "Job")
    submit(place, "waits", suspend=True)
    submit(place, "runs", backoffLimit=0)
    wait_running(place, "runs")
    place.wait("it is told", lambda: ledger(place, "waits"))
    cluster.kubectl("apply", "-f", "-", input=rights)
    try:
        kubeconfig = cluster.service_kubeconfig("admitter-release")
        line = [sys.executable, "-m", "scavenger_admitter", "release", "1", f"--kubeconfig={kubeconfig}"]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=TIMEOUT)
        assert (done.returncode, "left an adopted Job" in done.stdout + done.stderr) == (0, False), done.stderr
        bindings = cluster.kubectl("get", "mutatingadmissionpolicybindings", "-o", "name").split()
        assert not [name for name in bindings if "scavenger-adopt" in name]
        found = {job["metadata"]["name"]: job["spec"] for job in place.all("jobs")}
        assert {name: spec["suspend"] for name, spec in found.items()} == {"waits": True, "runs": False}
        assert not [name for name, spec in found.items() if "managedBy" in spec]
    finally:
        cluster.kubectl("delete", "-f", "-", input=rights)
        stack.adopt_jobs(cluster)


# --- protection ---


@pytest.fixture
def prioritizer(place: Place) -> Iterator[None]:
    """Beside the admitter, with the rights that its chart gives it where Jobs are adopted."""
    settings = {"SCAVENGER_ADOPT": "true", "SCAVENGER_START_OVER_WINDOW": "0", "SCAVENGER_CLASS_HOLD": "0"}
    place.cluster.service_start("prioritizer", environment=settings, wait="readyz")
    yield
    place.cluster.service_stop("prioritizer")


@pytest.mark.usefixtures("prioritizer")
def test_pods_of_jobs_are_protected_by_what_they_would_lose(place: Place) -> None:
    """Without levels a third of the running jobs is preemptible."""
    classes: dict[str, str] = {}

    def protected() -> bool:
        for name in ("old", "young"):
            (pod,) = place.pods(name)
            classes[name] = pod["metadata"]["labels"][names.LABEL_PREEMPTION_CLASS]
        return classes == {"old": names.NON_PREEMPTIBLE, "young": names.PREEMPTIBLE}

    submit(place, "old")
    wait_running(place, "old")
    place.wait("it to have more to lose", lambda: time.time() > started(place, "old") + 2)
    submit(place, "young")
    wait_running(place, "young")
    place.wait("the older one to be protected", protected)
    budgets = json.loads(kubectl(place, "get", "poddisruptionbudgets", "-o", "json"))["items"]
    assert [one["metadata"]["name"] for one in budgets] == [names.DISRUPTION_BUDGET]


def started(place: Place, name: str) -> float:
    """When the pod of a Job started, in seconds."""
    at = parse_time(status(place, name)["startTime"])
    assert at is not None
    return at.timestamp()


# --- the rules of the API server ---

MOMENT, LATER = "2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z"


def conditions(*kinds: str) -> list[Object]:
    times = {"lastTransitionTime": MOMENT, "lastProbeTime": MOMENT}
    return [{"type": kind, "status": "True", "reason": "Said", "message": "said", **times} for kind in kinds]


STATUSES: dict[str, Object] = {
    "nothing": {},
    "runs": {"startTime": MOMENT, "active": 2, "ready": 1},
    "runs, begun later": {"startTime": LATER, "active": 2},
    "more ready than active": {"startTime": MOMENT, "active": 1, "ready": 2},
    "suspended": {"conditions": conditions("Suspended"), "terminating": 1},
    "some done": {"startTime": MOMENT, "active": 1, "succeeded": 1, "completedIndexes": "0", "failed": 1},
    "indexes that are none": {"startTime": MOMENT, "succeeded": 2, "completedIndexes": "3,1"},
    "indexes beyond": {"startTime": MOMENT, "succeeded": 1, "completedIndexes": "9"},
    "some failed": {"startTime": MOMENT, "succeeded": 1, "completedIndexes": "0", "failedIndexes": "1-2"},
    "done and failed": {"startTime": MOMENT, "succeeded": 2, "completedIndexes": "0,2", "failedIndexes": "1-2"},
    "failed indexes beyond": {"startTime": MOMENT, "failedIndexes": "9"},
    "about to fail": {"startTime": MOMENT, "active": 1, "conditions": conditions("FailureTarget")},
    "failed": {"startTime": MOMENT, "failed": 1, "conditions": conditions("FailureTarget", "Failed")},
    "failed at once": {"startTime": MOMENT, "conditions": conditions("Failed")},
    "failed, pods run": {"startTime": MOMENT, "active": 1, "conditions": conditions("FailureTarget", "Failed")},
    "met": {"startTime": MOMENT, "terminating": 1, "conditions": conditions("SuccessCriteriaMet")},
    "complete": {
        "startTime": MOMENT,
        "completionTime": LATER,
        "succeeded": 4,
        "conditions": conditions("SuccessCriteriaMet", "Complete"),
    },
    "complete, no time": {"startTime": MOMENT, "conditions": conditions("SuccessCriteriaMet", "Complete")},
    "complete, no start": {"completionTime": LATER, "conditions": conditions("SuccessCriteriaMet", "Complete")},
    "complete before it began": {
        "startTime": LATER,
        "completionTime": MOMENT,
        "conditions": conditions("SuccessCriteriaMet", "Complete"),
    },
    "complete, pods terminate": {
        "startTime": MOMENT,
        "completionTime": LATER,
        "terminating": 1,
        "conditions": conditions("SuccessCriteriaMet", "Complete"),
    },
    "complete at once": {"startTime": MOMENT, "completionTime": LATER, "conditions": conditions("Complete")},
    "both": {
        "startTime": MOMENT,
        "completionTime": LATER,
        "conditions": conditions("SuccessCriteriaMet", "FailureTarget", "Failed", "Complete"),
    },
    "time without an end": {"startTime": MOMENT, "completionTime": LATER},
}


def test_the_copy_of_the_rules_says_what_the_api_server_says(place: Place) -> None:
    """Each of these statuses after each other one that a Job may have. The later ones are sent without effect."""
    policy = {"rules": [{"succeededCount": 1}]}
    own: Object = {"completionMode": "Indexed", "backoffLimitPerIndex": 1, "successPolicy": policy}
    modes: list[Object] = [{}, own]
    wrong: list[str] = []
    with closing(Server(place.cluster.kubeconfig)) as server:

        def takes(name: str, found: Object, query: str = "") -> bool:
            patch = [{"op": "replace", "path": "/status", "value": found}]
            path = f"{place.path('jobs')}/{name}/status{query}"
            answer = server("PATCH", path, patch, content_type=JSON_PATCH)
            assert answer.allowed or answer.code in (400, 422), answer
            return answer.allowed

        for number, (mode, (before, old)) in enumerate(itertools.product(modes, STATUSES.items())):
            spec = {"completions": 4, "parallelism": 2, **mode}
            fresh = {**body("x", **spec), "status": {}}
            if refusals(fresh, {**fresh, "status": old}):
                continue
            name = f"r{number}"
            other = body(name, managedBy="example.org/test", suspend=False, **spec)
            other["metadata"].pop("labels")
            assert server("POST", place.path("jobs"), other).allowed
            assert takes(name, old), before
            for after, new in STATUSES.items():
                said = refusals({**fresh, "status": old}, {**fresh, "status": new})
                if takes(name, new, "?dryRun=All") is bool(said):
                    wrong.append(f"{mode} {before} -> {after}: {said}")
    assert wrong == []
