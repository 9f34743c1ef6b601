"""Starts that do not come off, and what is missing for good."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from scavenger_cluster import Cluster
from scavenger_testing.world import SETTINGS, World, ordinary_pod, scavenger_job

FOREVER = ("run", "--dir=/tmp/c", "--seconds=3600", "--steps=100000", "--burn=10")


def told(world: World, job: str, words: str) -> dict[str, Any]:
    """Wait until the message of a job has these words; returns the status that says so: a moment later the job may be
    on its way again."""

    def status() -> dict[str, Any] | None:
        found = world.status(job)
        return found if words in found.get("message", "") else None

    return dict(world.wait(words, status))


@pytest.fixture
def impatient_admitter(cluster: Cluster) -> Iterator[None]:
    """The admitter with a start timeout of seconds."""
    cluster.service_start("admitter", environment={**SETTINGS, "SCAVENGER_START_TIMEOUT": "12s"}, wait="readyz")
    yield
    cluster.service_start("admitter", environment=SETTINGS, wait="readyz")


@pytest.mark.real
@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param(
            {"persistentVolumeClaims": [{"name": "absent", "mountPath": "/x"}]},
            'persistentvolumeclaim "absent" not found',
            marks=pytest.mark.long,
        ),
        ({"envFrom": [{"secretRef": {"name": "absent"}}]}, 'secret "absent" not found'),
        pytest.param(
            {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "absent", "key": "a"}}}]},
            'configmap "absent" not found',
            marks=pytest.mark.long,
        ),
        ({"image": "Not A Name"}, "image"),
    ],
    ids=["pvc", "envFrom", "env", "image"],
)
def test_what_is_missing_fails_the_job(world: World, spec: dict[str, Any], words: str) -> None:
    """A claim and a ConfigMap are waited for, 30 s each: so these are `long`."""
    job = scavenger_job("lacking", *FOREVER, **spec)
    if "image" in spec:
        job["spec"]["image"] = "registry.example/UPPER:case"
    world.apply(job)
    status = world.wait_phase("lacking", "Failed")
    assert words in status["message"]
    assert status["interruptedCount"] == 0
    world.wait("nothing hanging", lambda: not [p for p in world.pods("lacking") if p["status"]["phase"] == "Pending"])


@pytest.mark.real
@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        pytest.param("ConfigMap", {"configMaps": [{"name": "late", "mountPath": "/x"}]}, marks=pytest.mark.long),
        ("Secret", {"secrets": [{"name": "late", "mountPath": "/x"}]}),
        ("ServiceAccount", {"serviceAccountName": "late"}),
    ],
    ids=["configmap", "secret", "serviceaccount"],
)
def test_what_is_created_later_is_waited_for(world: World, kind: str, spec: dict[str, Any]) -> None:
    """The pod of a Secret waits for it; the others are looked for again by the next start."""
    world.apply(scavenger_job("lacking", *FOREVER, **spec))
    status = told(world, "lacking", f'{kind.lower()} "late" not found')
    phase = "Starting" if kind == "Secret" else "Waiting"
    assert (status["phase"], status["interruptedCount"]) == (phase, 0)
    world.apply({"apiVersion": "v1", "kind": kind, "metadata": {"name": "late"}})
    world.wait_phase("lacking", "Running")


@pytest.mark.real
@pytest.mark.long
def test_a_secret_that_does_not_exist_fails_the_job_after_two_starts(world: World, impatient_admitter: None) -> None:
    """No status of a pod names what is mounted: it shows that the pod has no sandbox, and Events for what it waits."""
    world.apply(scavenger_job("lacking", *FOREVER, secrets=[{"name": "absent", "mountPath": "/x"}]))
    waits = world.wait("a pod", lambda: [pod for pod in world.pods("lacking") if pod["status"].get("startTime")])[0]
    status = world.wait_phase("lacking", "Failed")
    assert status["message"] == 'secret "absent" not found: the pods of two starts in a row waited for it'
    assert status["interruptedCount"] == 0
    ready = [one for one in waits["status"]["conditions"] if one["type"] == "PodReadyToStartContainers"]
    assert [one["status"] for one in ready] == ["False"]
    world.wait("nothing hanging", lambda: not [p for p in world.pods("lacking") if p["status"]["phase"] == "Pending"])


@pytest.mark.real
def test_image_that_cannot_be_pulled_is_taken_back(world: World, impatient_admitter: None) -> None:
    world.apply(scavenger_job("unpullable", *FOREVER, image="127.0.0.1:9/nothing:1", imagePullPolicy="Always"))
    told(world, "unpullable", "could not be pulled")
    status = told(world, "unpullable", "the start failed")
    assert "Pull" in status["message"]
    assert status["phase"] in ("Waiting", "Starting")
    assert status["interruptedCount"] == 0


def test_quota_that_forbids_pods_sends_the_job_back(world: World) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    world.apply(quota)
    world.wait("quota counted", lambda: (world.get("resourcequota", "none") or {}).get("status", {}).get("hard"))
    world.apply(scavenger_job("barred", *FOREVER))
    status = told(world, "barred", "exceeded quota")
    assert status["phase"] == "Waiting"
    assert status["interruptedCount"] == 0
    world.kubectl("delete", "resourcequota", "none")
    world.wait_phase("barred", "Running")


@pytest.mark.real
def test_start_whose_room_was_taken_comes_back(world: World, cluster: Cluster) -> None:
    """The scheduler is held still until an ordinary pod stands before the job's pod."""
    node = cluster.kubectl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
    pinned = {"kubernetes.io/hostname": node}
    cluster.component_stop("kube-scheduler")
    try:
        world.apply(scavenger_job("late", *FOREVER, cpu="1", nodeSelector=pinned))
        world.wait("admitted", lambda: world.pods("late"))
        world.apply(ordinary_pod("first", "1500m", nodeSelector=pinned))
    finally:
        cluster.component_start("kube-scheduler")
    world.wait("ordinary runs", lambda: (world.get("pod", "first") or {})["status"].get("phase") == "Running")
    world.wait("taken back", lambda: world.status("late").get("phase") == "Waiting")
    assert world.status("late")["interruptedCount"] == 0
    world.wait("its pod is gone", lambda: not world.pods("late"))  # the status is written first
    world.kubectl("delete", "pod", "first")
    world.wait_phase("late", "Running")


@pytest.mark.real
def test_refused_by_the_kubelet_is_no_interruption(world: World, cluster: Cluster) -> None:
    """The kubelet is away while a pod is bound to it; when it is back, the label the pod asks for is not."""
    node = cluster.kubectl("get", "nodes", "-o", "jsonpath={.items[-1:].metadata.name}")
    cluster.kubectl("label", "node", node, "e2e/picky=yes", "--overwrite")
    time.sleep(1)
    cluster.node_stop(node)
    try:
        world.apply(scavenger_job("picky", *FOREVER, nodeSelector={"e2e/picky": "yes"}))
        world.wait("bound", lambda: [p for p in world.pods("picky") if p["spec"].get("nodeName") == node])
        cluster.kubectl("label", "node", node, "e2e/picky-")
    finally:
        cluster.node_start(node)
    status = told(world, "picky", "refused")
    assert status["phase"] == "Waiting"
    assert status["interruptedCount"] == 0
    cluster.kubectl("label", "node", node, "e2e/picky=yes", "--overwrite")
    world.wait_phase("picky", "Running")
    cluster.kubectl("label", "node", node, "e2e/picky-")


@pytest.mark.real
def test_pod_deleted_before_it_ran_is_no_interruption(world: World, cluster: Cluster) -> None:
    cluster.component_stop("kube-scheduler")
    try:
        world.apply(scavenger_job("early", *FOREVER))
        pod = world.wait("its pod", lambda: world.pods("early"))[0]
        world.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
        told(world, "early", "the start failed")
    finally:
        cluster.component_start("kube-scheduler")
    assert world.status("early")["interruptedCount"] == 0
    world.wait_phase("early", "Running")


@pytest.mark.long
def test_deleted_while_starting_leaves_nothing(world: World, cluster: Cluster) -> None:
    cluster.component_stop("kube-scheduler")
    try:
        world.apply(scavenger_job("brief", *FOREVER, parallelism=3))
        world.wait("its pods", lambda: len(world.pods("brief")) == 3)
        world.kubectl("delete", "scavengerjob", "brief", "--wait=true", "--timeout=110s")
        world.wait(
            "gone", lambda: not world.objects("pods") and not world.objects("jobs") and not world.objects("services")
        )
    finally:
        cluster.component_start("kube-scheduler")


@pytest.mark.real
@pytest.mark.long
def test_pod_stuck_on_a_dead_node_holds_the_job_back(world: World, cluster: Cluster) -> None:
    world.apply(scavenger_job("stuck", *FOREVER, terminationGracePeriodSeconds=1))
    world.wait_phase("stuck", "Running")
    pod = world.pods("stuck")[0]
    node = pod["spec"]["nodeName"]
    cluster.node_stop(node)
    try:
        world.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
        world.wait("counted", lambda: world.status("stuck").get("interruptedCount") == 1)
        status = told(world, "stuck", f"node {node}")
        assert status["phase"] == "Interrupted"
        assert pod["metadata"]["name"] in status["message"]
        assert len(world.pods("stuck")) == 1, "no second life beside the first"
    finally:
        cluster.node_start(node)
    status = world.wait_phase("stuck", "Running")
    assert status["interruptedCount"] == 1
