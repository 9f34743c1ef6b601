"""The class of a running pod is honoured by schedulers as they are.

`spec.priority` of a running pod cannot change, so the class is a label, and a PodDisruptionBudget selects by it. Here:
that the unmodified kube-scheduler then takes the unprotected pod, 6 times of 6, whichever is older and whichever was
labelled first; that the eviction API obeys too; and that the prioritizer, running under its own service account, puts
label and budget where they belong.

Fake nodes: scheduler, API server, Job and disruption controllers are real, and no container has to run for this.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from scavenger_api import names
from scavenger_api.names import LABEL_JOB, LABEL_PREEMPTION_CLASS, NON_PREEMPTIBLE, PREEMPTIBLE
from scavenger_api.times import format_time
from scavenger_cluster import Cluster
from scavenger_cluster.api import ApiClient
from scavenger_cluster.stack import install, lift_guard
from scavenger_kube.errors import ApiError
from scavenger_kube.resources import MERGE_PATCH
from scavenger_prioritizer.facts import BUDGET_SPEC
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.waiting import wait

TIMES = 6
pytestmark = [pytest.mark.timeout(600), pytest.mark.long]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """As many fake nodes of two cores as there are trials, and nothing of ours running."""
    embedded = Cluster(cluster_name("budget"))
    try:
        embedded.up(f"fake:{TIMES}", fake_cpu="2", scheduler="stock")
        install(embedded)
        lift_guard(embedded)  # jobs and labels are made by hand here
        yield embedded
    finally:
        embedded.down()


@pytest.fixture
def lab(cluster: Cluster) -> Iterator[Lab]:
    """A namespace of the test's own; the nodes are empty again afterwards."""
    made = Lab(cluster.client, f"lab-{time.time_ns():x}")
    made.create("/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": made.namespace}})
    yield made
    for kind in ("batch/v1", "v1"):
        plural = "jobs" if kind == "batch/v1" else "pods"
        query = "?propagationPolicy=Background&gracePeriodSeconds=0"
        made.api.request("DELETE", made.path(kind, plural) + query)
    wait("empty nodes", lambda: not made.pods())
    made.api.delete(f"/api/v1/namespaces/{made.namespace}")


@dataclass(frozen=True)
class Lab:
    """What the tests do in a namespace."""

    api: ApiClient
    namespace: str

    def path(self, api_version: str, plural: str, name: str = "", subresource: str = "") -> str:
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        return "/".join(part for part in (root, "namespaces", self.namespace, plural, name, subresource) if part)

    def create(self, path: str, body: dict[str, Any]) -> Any:
        return self.api.request("POST", path, body)

    def pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api.get(self.path("v1", "pods"))["items"]
        return found

    def pod_of(self, job: str) -> dict[str, Any] | None:
        return next((p for p in self.pods() if p["metadata"].get("labels", {}).get(LABEL_JOB) == job), None)

    def patch(self, path: str, body: dict[str, Any]) -> None:
        self.api.request("PATCH", path, body, MERGE_PATCH)

    # --- scavenger pods ---

    def start(self, jobs: dict[str, str]) -> None:
        """Jobs by name, each with one pod of one core on the given node, as the admitter makes them; wait until all
        run. Finalizers are left out: nobody here would take them off."""
        for name, node in jobs.items():
            self.create(self.path("batch/v1", "jobs"), _job(name, node))
        wait("the jobs to run", lambda: self._running() >= jobs.keys())

    def _running(self) -> set[str]:
        return {
            p["metadata"]["labels"][LABEL_JOB]
            for p in self.pods()
            if p["status"].get("phase") == "Running" and LABEL_JOB in p["metadata"].get("labels", {})
        }

    def set_class(self, job: str, class_: str) -> None:
        pod = self.pod_of(job)
        assert pod is not None
        path = self.path("v1", "pods", pod["metadata"]["name"])
        self.patch(path, {"metadata": {"labels": {LABEL_PREEMPTION_CLASS: class_}}})

    def add_budget(self) -> None:
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": dict(BUDGET_SPEC)}
        self.create(
            self.path("policy/v1", "poddisruptionbudgets"), {**body, "metadata": {"name": names.DISRUPTION_BUDGET}}
        )
        path = self.path("policy/v1", "poddisruptionbudgets", names.DISRUPTION_BUDGET)
        # Pods and budgets are watched apart. What a controller has seen, the scheduler was sent as well.
        wait(
            "the budget to be seen",
            lambda: self.api.get(path).get("status", {}).get("observedGeneration"),
        )

    def evict(self, job: str) -> None:
        pod = self.pod_of(job)
        assert pod is not None
        meta = {"name": pod["metadata"]["name"], "namespace": self.namespace}
        path = self.path("v1", "pods", meta["name"], "eviction")
        self.create(path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta})

    # --- ordinary pods ---

    def let_scheduler_catch_up(self) -> None:
        """Wait until the scheduler has heard of the labels that pods have. It keeps what it has heard to itself, but it
        hears of pods in the order of their changes: it has by the time it places one that is created after them."""
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "marker-"}}
        spec = {"containers": [{"name": "main", "image": "none"}]}
        name = self.create(self.path("v1", "pods"), {**body, "spec": spec})["metadata"]["name"]
        path = self.path("v1", "pods", name)
        wait("the marker to be placed", lambda: self.api.get(path)["spec"].get("nodeName"))

    def displace(self, nodes: Sequence[str]) -> None:
        """One ordinary pod of one core for each node; wait until all run."""
        for node in nodes:
            self.create(self.path("v1", "pods"), _ordinary(node))
        wanted = {f"ordinary-{node}" for node in nodes}

        def running() -> bool:
            return wanted <= {p["metadata"]["name"] for p in self.pods() if p["status"].get("phase") == "Running"}

        wait("the ordinary pods to run", running)

    def displaced(self) -> set[str]:
        """The jobs that the scheduler took a pod from: by the condition it puts on its victims."""
        return {
            p["metadata"]["labels"][LABEL_JOB]
            for p in self.pods()
            for condition in p["status"].get("conditions", ())
            if condition["type"] == "DisruptionTarget" and condition["reason"] == "PreemptionByScheduler"
        } | ({job for job in self._jobs() if self.pod_of(job) is None})

    def _jobs(self) -> set[str]:
        return {j["metadata"]["name"] for j in self.api.get(self.path("batch/v1", "jobs"))["items"]}


def _job(name: str, node: str) -> dict[str, Any]:
    labels = {LABEL_JOB: name, "scavenger.dev/queue": "default", LABEL_PREEMPTION_CLASS: PREEMPTIBLE}
    size = {"cpu": "1", "memory": "64Mi"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "completionMode": "Indexed",
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
            },
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "restartPolicy": "Never",
                    "priorityClassName": "scavenger-preemptible",
                    "terminationGracePeriodSeconds": 1,
                    "nodeSelector": {"kubernetes.io/hostname": node},
                    "containers": [{"name": "main", "image": "none", "resources": {"requests": size, "limits": size}}],
                },
            },
        },
    }


def _ordinary(node: str) -> dict[str, Any]:
    size = {"cpu": "1", "memory": "64Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"ordinary-{node}"},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [{"name": "main", "image": "none", "resources": {"requests": size, "limits": size}}],
        },
    }


def _nodes(cluster: Cluster) -> list[str]:
    return sorted(node["metadata"]["name"] for node in cluster.client.get("/api/v1/nodes")["items"])


@pytest.mark.parametrize("flipped", [False, True], ids=["as labelled first", "labels flipped"])
def test_the_unprotected_job_is_the_victim_on_every_node(cluster: Cluster, lab: Lab, flipped: bool) -> None:
    """On each node an old and a young job of equal priority. On every other node the old one is protected: by itself
    the scheduler takes the younger of two equals, so there it has to be talked into the older."""
    nodes = _nodes(cluster)
    assert len(nodes) == TIMES
    lab.start({f"old-{node}": node for node in nodes})
    time.sleep(1.1)  # start times have whole seconds
    lab.start({f"young-{node}": node for node in nodes})
    lab.add_budget()
    protected, others = set(), set()
    for number, node in enumerate(nodes):
        pair = [f"old-{node}", f"young-{node}"]
        if number % 2:
            pair.reverse()
        protected.add(pair[0])
        others.add(pair[1])
    for job in protected:
        lab.set_class(job, NON_PREEMPTIBLE)
    if flipped:
        lab.let_scheduler_catch_up()
        protected, others = others, protected
        for job in protected:
            lab.set_class(job, NON_PREEMPTIBLE)
        for job in others:
            lab.set_class(job, PREEMPTIBLE)
    lab.let_scheduler_catch_up()
    lab.displace(nodes)
    assert lab.displaced() == others


def test_without_the_budget_the_younger_is_the_victim(cluster: Cluster, lab: Lab) -> None:
    """What the trick changes: labels alone mean nothing to the unmodified scheduler."""
    node = _nodes(cluster)[0]
    lab.start({"old": node})
    time.sleep(1.1)
    lab.start({"young": node})
    lab.set_class("young", NON_PREEMPTIBLE)
    lab.let_scheduler_catch_up()
    lab.displace([node])
    assert lab.displaced() == {"young"}


def test_the_eviction_api_refuses_the_protected_and_takes_the_other(cluster: Cluster, lab: Lab) -> None:
    node = _nodes(cluster)[0]
    lab.start({"protected": node, "other": node})
    lab.add_budget()
    lab.set_class("protected", NON_PREEMPTIBLE)
    path = lab.path("policy/v1", "poddisruptionbudgets", names.DISRUPTION_BUDGET)
    wait("the budget to be counted", lambda: lab.api.get(path)["status"].get("currentHealthy"))
    with pytest.raises(ApiError) as refused:
        lab.evict("protected")
    assert refused.value.status == 429
    lab.evict("other")
    wait("the other to go", lambda: lab.pod_of("other") is None)
    assert lab.pod_of("protected") is not None


# --- the prioritizer itself ---


@pytest.fixture
def prioritizer(cluster: Cluster) -> Iterator[str]:
    """The service under its own service account; the URL of its metrics."""
    settings = {"SCAVENGER_PERIOD": "2s", "SCAVENGER_DEBOUNCE": "200ms"}
    service = cluster.service_start("prioritizer", environment=settings, wait="readyz")
    yield f"{service.url}/metrics"
    cluster.service_stop("prioritizer")


def test_the_prioritizer_labels_and_the_scheduler_obeys(cluster: Cluster, lab: Lab, prioritizer: str) -> None:
    """Two jobs on a full node: the one with less at risk is preemptible, a checkpoint turns that round, and it is the
    one that goes."""
    node = _nodes(cluster)[0]
    lab.start({"much": node, "little": node})
    began = time.monotonic()
    for name, minutes in (("much", 20), ("little", 5)):
        _add_scavengerjob(lab, name, minutes)
    _wait_for_classes(lab, {"much": NON_PREEMPTIBLE, "little": PREEMPTIBLE})
    budget = lab.api.get(lab.path("policy/v1", "poddisruptionbudgets", names.DISRUPTION_BUDGET))
    assert budget["spec"]["minAvailable"] == BUDGET_SPEC["minAvailable"]
    # a core for twenty minutes and as long as the test has taken, and what a restart costs, as no checkpoint was
    # reported or due yet; the start is a whole second, and so is the figure
    risk = _status(lab, "much")["preemption"]["runningPriority"]
    assert 20 * 60 + 60 <= risk <= 20 * 60 + 60 + (time.monotonic() - began) + 2
    # what the admitter applied, and applies again, stays beside it
    _apply_status(lab, "much", 20, message="seen")
    assert _status(lab, "much")["message"] == "seen"
    assert _status(lab, "much")["preemption"]["class"] == NON_PREEMPTIBLE

    pod = lab.pod_of("much")
    assert pod is not None
    reported = {"scavenger.dev/last-checkpoint": format_time(datetime.now(UTC))}
    lab.patch(lab.path("v1", "pods", pod["metadata"]["name"]), {"metadata": {"annotations": reported}})
    _wait_for_classes(lab, {"much": PREEMPTIBLE, "little": NON_PREEMPTIBLE})
    lab.let_scheduler_catch_up()
    lab.displace([node])
    assert lab.displaced() == {"much"}

    _apply_status(lab, "little", 5, phase="Interrupted")
    wait("the class to go", lambda: "preemption" not in _status(lab, "little"))
    _apply_status(lab, "much", 20, phase="Interrupted")
    _apply_status(lab, "little", 5)
    # alone, it is the first third of the running jobs, and nothing is left to protect
    _wait_for_classes(lab, {"little": PREEMPTIBLE})
    path = lab.path("policy/v1", "poddisruptionbudgets", names.DISRUPTION_BUDGET)
    assert lab.api.find(path) is not None, "kept for an hour, as the next job may need it"

    def at_rest() -> bool:
        """Whether three passes go by without a write; the last one is counted only when it has been answered."""
        before = _requests(prioritizer)
        time.sleep(6)
        return _requests(prioritizer) == before

    wait("three passes without a write", at_rest)
    assert "write refused" not in cluster.service_logs("prioritizer")


@pytest.fixture
def consolidating(cluster: Cluster) -> Iterator[None]:
    """The prioritizer in a cluster with a node of Karpenter."""
    node, label = f"/api/v1/nodes/{_nodes(cluster)[0]}", "karpenter.sh/nodepool"
    cluster.client.request("PATCH", node, {"metadata": {"labels": {label: "default"}}}, MERGE_PATCH)
    settings = {"SCAVENGER_PERIOD": "2s", "SCAVENGER_DEBOUNCE": "200ms", "SCAVENGER_LONE_AFTER": "3s"}
    settings |= {"SCAVENGER_FALLBACK_PREEMPTIBLE_PERCENT": "0"}
    cluster.service_start("prioritizer", environment=settings, wait="readyz")
    yield
    cluster.service_stop("prioritizer")
    cluster.client.request("PATCH", node, {"metadata": {"labels": {label: None}}}, MERGE_PATCH)


def test_the_budget_covers_only_jobs_beside_ordinary_pods_where_karpenter_is(
    cluster: Cluster, lab: Lab, consolidating: None
) -> None:
    """Karpenter asks budgets before it removes a node: of a node without ordinary pods they refuse no eviction."""
    lone, shared = _nodes(cluster)[:2]
    lab.start({"alone": lone, "beside": shared})
    lab.displace([shared])
    for name in ("alone", "beside"):
        _add_scavengerjob(lab, name, 20)
    _wait_for_classes(lab, {"alone": NON_PREEMPTIBLE, "beside": NON_PREEMPTIBLE})

    def left_out(job: str) -> bool:
        pod = lab.pod_of(job)
        return pod is not None and pod["metadata"]["labels"].get("scavenger.dev/disruption-budget") == "none"

    wait("the budget to leave it out", lambda: left_out("alone"))
    lab.displace([lone])
    wait("the budget to cover it beside an ordinary pod", lambda: not left_out("alone"))
    lab.api.delete(lab.path("v1", "pods", f"ordinary-{lone}") + "?gracePeriodSeconds=0")
    wait("the budget to leave it out again", lambda: left_out("alone"))
    path = lab.path("policy/v1", "poddisruptionbudgets", names.DISRUPTION_BUDGET)
    wait("the budget to be counted", lambda: lab.api.get(path)["status"].get("currentHealthy"))
    with pytest.raises(ApiError) as refused:
        lab.evict("beside")
    assert refused.value.status == 429
    lab.evict("alone")
    wait("the lone job to go", lambda: lab.pod_of("alone") is None)


def _requests(url: str) -> float:
    """Writes so far, by the service's own count."""
    with urllib.request.urlopen(url, timeout=30) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("scavenger_preemption_writes_total"))


def _add_scavengerjob(lab: Lab, name: str, minutes: float) -> None:
    size = {"cpu": "1", "memory": "64Mi"}
    body = {"apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": {"name": name}}
    spec = {"image": "none", "resources": {"requests": size}}
    lab.create(lab.path("scavenger.dev/v1alpha1", "scavengerjobs"), {**body, "spec": spec})
    _apply_status(lab, name, minutes)


def _apply_status(lab: Lab, name: str, minutes: float, *, phase: str = "Running", message: str = "") -> None:
    """As the admitter does; the tests have none running."""
    started = format_time(datetime.now(UTC) - timedelta(minutes=minutes))
    status = {"phase": phase, "jobName": name, "runningTimestamps": [started], "message": message}
    body = {"apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": {"name": name}}
    path = lab.path("scavenger.dev/v1alpha1", "scavengerjobs", name, "status")
    query = "?fieldManager=scavenger-admitter&force=true"
    lab.api.request("PATCH", path + query, {**body, "status": status}, "application/apply-patch+yaml")


def _status(lab: Lab, name: str) -> dict[str, Any]:
    found: dict[str, Any] = lab.api.get(lab.path("scavenger.dev/v1alpha1", "scavengerjobs", name))["status"]
    return found


def _wait_for_classes(lab: Lab, wanted: dict[str, str]) -> None:
    def reached() -> bool:
        for job, class_ in wanted.items():
            pod = lab.pod_of(job)
            if pod is None or pod["metadata"]["labels"].get(LABEL_PREEMPTION_CLASS) != class_:
                return False
            if _status(lab, job).get("preemption", {}).get("class") != class_:
                return False
        return True

    wait(f"the classes {wanted}", reached)
