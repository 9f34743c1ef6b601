"""Jobs whose pods the admitter creates, on a real control plane: docs/designs/0020-the-admitter-makes-the-pods.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from scavenger_admitter.core.lifecycle.accounting import run_id
from scavenger_admitter.core.manifest import job_manifest
from scavenger_admitter.core.pods_of_job import pods_of_job
from scavenger_api import names
from scavenger_api.job import ScavengerJob
from scavenger_cluster import Cluster
from scavenger_kube.resources import MERGE_PATCH

from .conftest import Object, Place, namespace, start_admitter
from .recorder import Recorder

pytestmark = pytest.mark.timeout(600)

ACCOUNT = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:scavenger-admitter"


@pytest.fixture
def place(cluster: Cluster, recorder: Recorder) -> Iterator[Place]:
    """A namespace, and an admitter that creates the pods of its Jobs."""
    start_admitter(cluster)
    with namespace(cluster, recorder) as made:
        made.wait_account()
        yield made


def finish(place: Place, pod: Object, code: int = 0, said: str = "") -> Object:
    """What a kubelet reports when the program has ended; returns the pod with that. said: its termination message."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    begun = pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    ended = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": begun, "finishedAt": now}
    ended |= {"message": said} if said else {}
    main = {**pod["status"]["containerStatuses"][0], "ready": False, "state": {"terminated": ended}}
    status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [main]}
    path = f"{place.path('pods')}/{pod['metadata']['name']}/status"
    return dict(place.cluster.client.request("PATCH", path, {"status": status}, MERGE_PATCH))


def kubectl(place: Place, *words: str, stdin: str | None = None) -> str:
    return place.cluster.kubectl("-n", place.namespace, *words, input=stdin)


def job_of(place: Place, name: str) -> Object:
    return place.get("jobs", name)


def uids(place: Place, name: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in place.pods(name)}


def test_a_job_that_completes(place: Place) -> None:
    place.submit("one")
    place.wait_phase("one", "Running")
    (pod,) = place.pods("one")
    assert job_of(place, "one")["spec"]["managedBy"] == names.MANAGED_BY
    assert pod["metadata"]["finalizers"] == [names.FINALIZER], "no tracking by the Job controller"
    assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "one", "so that kubectl logs job/one finds it"
    finish(place, pod)
    place.wait_phase("one", "Completed")
    kubectl(place, "wait", "--for=condition=Complete", "job/one", "--timeout=30s")
    status = job_of(place, "one")["status"]
    assert status["succeeded"] == 1
    assert [one["type"] for one in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert "Complete" in kubectl(place, "get", "jobs")


def test_a_gang_of_which_one_fails(place: Place) -> None:
    place.submit("gang", parallelism=3)
    place.wait_phase("gang", "Running")
    finish(place, place.pods("gang")[1], 3)
    # Until no lost node can have been the cause; the others stop at once.
    place.wait("the others stop", lambda: all(map(stopped, place.pods("gang"))), timeout=30)
    place.wait_phase("gang", "Failed", timeout=200)
    kubectl(place, "wait", "--for=condition=Failed", "job/gang", "--timeout=30s")
    status = job_of(place, "gang")["status"]
    assert [one["type"] for one in status["conditions"]] == ["FailureTarget", "Failed"]
    assert status["failed"] == 3
    assert place.status("gang").get("interruptedCount", 0) == 0


def stopped(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"] or pod["status"]["phase"] in ("Failed", "Succeeded")


def test_half_a_gang_of_an_admitter_that_died(cluster: Cluster, place: Place) -> None:
    """Created here as that admitter would have, under its account."""
    cluster.service_stop("admitter")
    place.submit("gang", parallelism=4)
    job = ScavengerJob.model_validate(place.get("scavengerjobs", "gang"))
    run = run_id(datetime.now(UTC))
    body = job_manifest(job, restarts=0, run=run, max_grace_seconds=300)
    create = ("create", f"--as={ACCOUNT}", "-f", "-", "-o", "json")
    batch = json.loads(kubectl(place, *create, stdin=json.dumps(body)))
    for pod in pods_of_job(batch)[:2]:
        kubectl(place, *create, stdin=json.dumps(pod))
    half = uids(place, "gang")
    start_admitter(cluster)
    place.wait_phase("gang", "Running")
    assert job_of(place, "gang")["metadata"]["uid"] == batch["metadata"]["uid"]
    assert len(uids(place, "gang")) == 4
    assert half < uids(place, "gang")
    assert place.status("gang")["interruptedCount"] == 0


def test_a_job_deleted_by_hand(place: Place) -> None:
    place.submit("gang", parallelism=2)
    place.wait_phase("gang", "Running")
    first = uids(place, "gang")
    kubectl(place, "delete", "job", "gang")
    place.wait_interrupted("gang")
    place.wait_phase("gang", "Running")
    assert len(uids(place, "gang")) == 2
    assert not first & uids(place, "gang")


def test_a_drained_node(cluster: Cluster, place: Place) -> None:
    place.submit("gang", parallelism=2)
    place.wait_phase("gang", "Running")
    node = place.pods("gang")[0]["spec"]["nodeName"]
    cluster.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=90s")
    try:
        place.wait_interrupted("gang")
        place.wait_phase("gang", "Running")
        assert node not in {pod["spec"]["nodeName"] for pod in place.pods("gang")}
    finally:
        cluster.kubectl("uncordon", node)


def test_a_quota_takes_the_whole_run_back(place: Place) -> None:
    body = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}}
    place.cluster.client.request("POST", place.path("resourcequotas"), body)
    place.wait("it counts", lambda: "hard" in place.get("resourcequotas", "few").get("status", {}))
    place.submit("gang", parallelism=4)
    place.wait("it says so", lambda: "exceeded quota: few" in place.status("gang").get("message", ""))
    place.wait("nothing is left", lambda: not place.pods("gang"))
    assert place.phase("gang") == "Waiting"
    place.delete("resourcequotas", "few")
    place.wait_phase("gang", "Running", timeout=120)
    assert len(place.pods("gang")) == 4
    assert place.status("gang")["interruptedCount"] == 0


@pytest.mark.long
def test_a_namespace_that_is_deleted(cluster: Cluster, recorder: Recorder, place: Place) -> None:
    del place  # for the admitter
    with namespace(cluster, recorder) as doomed:
        doomed.submit("one", "gang", parallelism=2)
        for name in ("one", "gang"):
            doomed.wait_phase(name, "Running")
        path = f"/api/v1/namespaces/{doomed.namespace}"
        cluster.client.delete(path)
        doomed.wait("it is gone", lambda: cluster.client.find(path) is None, timeout=90)


def test_a_new_namespace_has_no_account_yet(cluster: Cluster, recorder: Recorder, place: Place) -> None:
    """A job that is submitted in the same moment starts, and says of no failed start."""
    del place
    with namespace(cluster, recorder) as fresh:
        fresh.submit("one")
        fresh.wait_phase("one", "Running")
        assert len(fresh.created("one")) == 1
        assert "StartFailed" not in kubectl(fresh, "get", "events")
