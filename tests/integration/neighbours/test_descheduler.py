"""The descheduler evicts scavenger pods as the eviction API allows, and no ordinary pod because of them.

Admitter, prioritizer and descheduler are real, under their own accounts, on a real control plane with fake nodes. Each
test runs the descheduler once, with one policy.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from scavenger_api import names
from scavenger_api.times import parse_time
from scavenger_cluster import Cluster, kubeconfig, neighbours, stack
from scavenger_cluster.shell import run
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.waiting import wait

pytestmark = [pytest.mark.timeout(1800), pytest.mark.long]  # the first time the descheduler has to be built

NODES: Final = 3
CPUS: Final = 8
ACCOUNT: Final = "/api/v1/namespaces/kube-system/serviceaccounts/descheduler-sa/token"
PRIORITIZER: Final = {
    "SCAVENGER_PERIOD": "2s",
    "SCAVENGER_DEBOUNCE": "200ms",
    "SCAVENGER_START_OVER_WINDOW": "0",
    "SCAVENGER_FALLBACK_PREEMPTIBLE_PERCENT": "50",
}

Object = dict[str, Any]
Descheduler = Callable[[Object], str]


class Lab:
    """A namespace with jobs and ordinary pods."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def job(self, name: str, node: str | None = None, **spec: Any) -> None:
        where = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
        body = {
            "apiVersion": names.API_VERSION,
            "kind": "ScavengerJob",
            "metadata": {"name": name},
            "spec": {
                "image": "none",
                "terminationGracePeriodSeconds": 1,
                "resources": {"requests": {"cpu": "1", "memory": "16Mi"}},
                **where,
                **spec,
            },
        }
        self.cluster.client.request("POST", self.path("scavengerjobs"), body)

    def ordinary(self, name: str, node: str, replicas: int) -> None:
        """A ReplicaSet on one node: the descheduler leaves pods without an owner alone."""
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "16Mi"}}}
        labels = {"app": name}
        body = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "containers": [container],
                        "terminationGracePeriodSeconds": 1,
                        "nodeSelector": {"kubernetes.io/hostname": node},
                    },
                },
            },
        }
        self.cluster.client.request("POST", self.path("replicasets"), body)
        wait(f"{replicas} pods of {name}", lambda: len(self.running(f"app={name}")) == replicas, describe=self.seen)

    def path(self, kind: str) -> str:
        group = {"scavengerjobs": "/apis/scavenger.dev/v1alpha1", "replicasets": "/apis/apps/v1"}.get(kind, "/api/v1")
        return f"{group}/namespaces/{self.namespace}/{kind}"

    def running(self, selector: str) -> dict[str, str]:
        """UIDs of running pods that nobody has deleted, and the node of each."""
        found = self.cluster.client.get(f"{self.path('pods')}?labelSelector={selector}")["items"]
        return {
            pod["metadata"]["uid"]: pod["spec"]["nodeName"]
            for pod in found
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        }

    def youngest(self) -> float:
        """Seconds since the last of the pods was created."""
        pods = self.cluster.client.get(self.path("pods"))["items"]
        created = (parse_time(pod["metadata"]["creationTimestamp"]) for pod in pods)
        return min((datetime.now(UTC) - at).total_seconds() for at in created if at is not None)

    def status(self, job: str) -> Object:
        found: Object = self.cluster.client.get(f"{self.path('scavengerjobs')}/{job}").get("status") or {}
        return found

    def interruptions(self, *jobs: str) -> dict[str, int]:
        return {job: self.status(job).get("interruptedCount", 0) for job in jobs}

    def wait_running(self, *jobs: str) -> None:
        wait(f"{jobs} Running", lambda: all(self.status(job).get("phase") == "Running" for job in jobs), 60, self.seen)

    def protected(self) -> set[str]:
        """The jobs with non-preemptible pods."""
        selector = f"{names.LABEL_PREEMPTION_CLASS}={names.NON_PREEMPTIBLE}"
        found = self.cluster.client.get(f"{self.path('pods')}?labelSelector={selector}")["items"]
        return {pod["metadata"]["labels"][names.LABEL_JOB] for pod in found}

    def wait_protected(self, count: int) -> set[str]:
        """Until so many jobs are non-preemptible, and the budget that covers them is counted."""
        budget = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets/{names.DISRUPTION_BUDGET}"

        def counted() -> bool:
            found = self.cluster.client.find(budget)
            return found is not None and found.get("status", {}).get("currentHealthy") == count

        wait(f"{count} protected jobs", lambda: len(self.protected()) == count and counted(), 60, self.seen)
        return self.protected()

    def seen(self) -> str:
        return self.cluster.kubectl("-n", self.namespace, "get", "sj,pods,pdb", "-o", "wide", "--show-labels")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    found = Cluster(cluster_name("it-near"), report=lambda line: None)
    try:
        found.up(f"fake:{NODES}", fake_cpu=str(CPUS), fake_memory="64Gi", scheduler="stock")
        stack.install(found)
        stack.start(found, ["admitter"])
        stack.start(found, ["prioritizer"], settings=PRIORITIZER)
        yield found
    finally:
        found.down()


@pytest.fixture
def lab(cluster: Cluster) -> Iterator[Lab]:
    name = f"it-{uuid.uuid4().hex[:8]}"
    cluster.client.request(
        "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait("its service account", lambda: cluster.client.find(account))
    made = Lab(cluster, name)
    yield made
    cluster.client.delete_all(f"{made.path('replicasets')}/{one}" for one in _names(cluster, made.path("replicasets")))
    jobs = made.path("scavengerjobs")
    cluster.client.delete_all(f"{jobs}/{one}" for one in _names(cluster, jobs))
    wait("no pod is left", lambda: not _names(cluster, made.path("pods")), describe=made.seen)


@pytest.fixture(scope="module")
def descheduler(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Descheduler:
    """Runs the descheduler once over a profile, with the rights of its own manifests; returns its log."""
    program, source = (f(neighbours.DESCHEDULER) for f in (_built, neighbours.source))
    cluster.kubectl("apply", f"--filename={source / 'kubernetes' / 'base' / 'rbac.yaml'}", "--namespace=kube-system")
    folder = tmp_path_factory.mktemp("descheduler")
    token = cluster.client.request("POST", ACCOUNT, {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"})
    config, policy = folder / "kubeconfig", folder / "policy.yaml"
    user = {"token": token["status"]["token"]}
    authority = cluster.layout.pki / "ca.crt"
    kubeconfig.write_private(config, kubeconfig.render("it-near", cluster.state.server, authority, user))

    def once(profile: Object) -> str:
        body = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile]}
        policy.write_text(yaml.safe_dump(body))
        options = (f"--kubeconfig={config}", f"--policy-config-file={policy}", "--secure-port=0", "--v=3")
        return run(["sh", "-c", 'exec "$0" "$@" 2>&1', program, *options], timeout=120)

    return once


def test_old_pods_are_interrupted_and_come_back(lab: Lab, descheduler: Descheduler) -> None:
    jobs = ["a", "b", "c", "d"]
    for job in jobs:
        lab.job(job)
    lab.wait_running(*jobs)
    protected = lab.wait_protected(2)
    before = lab.running(names.LABEL_JOB)
    wait("the pods to be older", lambda: lab.youngest() > 2, describe=lab.seen)
    log = descheduler(_profile("PodLifeTime", "deschedule", {"maxPodLifeTimeSeconds": 1, **_only(lab)}))
    evicted = {job: 0 if job in protected else 1 for job in jobs}
    wait("the others to be counted", lambda: lab.interruptions(*jobs) == evicted, 60, lambda: f"{lab.seen()}\n{log}")
    lab.wait_running(*jobs)
    assert len(before.keys() & lab.running(names.LABEL_JOB).keys()) == len(protected)
    assert lab.interruptions(*jobs) == evicted


@pytest.mark.parametrize("policy", ["LowNodeUtilization", "HighNodeUtilization"])
def test_ordinary_pods_stay_where_preemptible_jobs_are_enough(lab: Lab, descheduler: Descheduler, policy: str) -> None:
    """Both policies evict by ascending priority: until the node is less full, or as long as others take more."""
    first, second, _ = _nodes(lab.cluster)
    lab.ordinary("app", first, 2)
    if policy == "HighNodeUtilization":
        lab.ordinary("full", second, 6)
    jobs = ["a", "b", "c"]
    for job in jobs:
        lab.job(job, first)
    lab.wait_running(*jobs)
    before = lab.running("app=app")
    log = descheduler(_profile(policy, "balance", _thresholds(policy)))
    assert lab.running("app=app") == before, log
    wait("a job to be interrupted", lambda: any(lab.interruptions(*jobs).values()), 60, lambda: f"{lab.seen()}\n{log}")


def _built(neighbour: neighbours.Neighbour) -> Path:
    return neighbours.build(neighbour, print)


def _thresholds(policy: str) -> Object:
    """Five of eight CPUs are too many for one policy, and too few for the other."""
    if policy == "LowNodeUtilization":
        return {"thresholds": {"cpu": 10}, "targetThresholds": {"cpu": 50}}
    return {"thresholds": {"cpu": 70}}


def _profile(plugin: str, kind: str, args: Object) -> Object:
    return {
        "name": "one",
        "pluginConfig": [{"name": plugin, "args": args}, {"name": "DefaultEvictor", "args": {"minPodAge": "0s"}}],
        "plugins": {kind: {"enabled": [plugin]}},
    }


def _only(lab: Lab) -> Object:
    return {"namespaces": {"include": [lab.namespace]}}


def _nodes(cluster: Cluster) -> list[str]:
    return sorted(_names(cluster, "/api/v1/nodes"))


def _names(cluster: Cluster, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in cluster.client.get(path)["items"]]
