"""What happens when the webhook, the API server or everything is gone, and comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scavenger_cluster import Cluster
from scavenger_testing.place import Object, Place, job, pod, pod_spec

from .conftest import start_webhook

pytestmark = pytest.mark.long

REFUSED = 'failed calling webhook "scavengerjobs.scavenger.dev"'
CLASS = "ordinary-workload"
ORDINARY = {"priorityClassName": CLASS, "priority": 0}


@pytest.fixture
def no_default_class(place: Place) -> Iterator[None]:
    """Without a default class it is the webhook that ranks pods, not the API server."""
    make_default(place, there=False)
    yield
    make_default(place, there=True)


def make_default(place: Place, *, there: bool) -> None:
    """Have `ordinary-workload` be the class of pods that name none, or not, for the API server too: what admits pods
    there hears of it later. It shows where nobody else ranks pods."""
    place.wait("it is let in", lambda: place.patch("priorityclasses", CLASS, {"globalDefault": there}).allowed)
    expected = ORDINARY if there else {"priority": 0}
    place.wait(
        "the API server knows", lambda: rank(place.try_create("pods", pod(), namespace="kube-system").body) == expected
    )


def rank(answer_body: Object) -> Object:
    """What a pod has of priority; nothing where the body is that of a refusal."""
    spec = answer_body.get("spec", {})
    return {key: spec[key] for key in ORDINARY if key in spec}


def ranks_of_deployment(place: Place, replicas: int) -> list[Object]:
    """The ranks of the pods of a Deployment `web`, when all of them run."""
    assert place.create("deployments", deployment("web", replicas)).allowed
    running_all = ["Running"] * replicas
    place.wait("its pods run", lambda: [p["status"].get("phase") for p in place.items("pods")] == running_all)
    return [rank(p) for p in place.items("pods")]


def deployment(name: str, replicas: int) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(terminationGracePeriodSeconds=0)}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


@pytest.mark.usefixtures("webhook", "no_default_class")
def test_a_deployment_s_pods_outrank_scavenger_jobs_and_kube_system_is_left_alone(place: Place) -> None:
    place.wait("the webhook ranks", lambda: rank(place.try_create("pods", pod()).body) == ORDINARY)
    assert ranks_of_deployment(place, 3) == [ORDINARY] * 3
    for system in ("kube-system", "scavenger-system"):
        assert rank(place.try_create("pods", confined(), namespace=system).body) == {"priority": 0}
    mirror = pod(meta={"annotations": {"kubernetes.io/config.mirror": "x"}}, nodeName="fake-001")
    assert rank(place.try_create("pods", mirror).body) == {"priority": 0}
    place.delete("deployments", "web", "Foreground")
    place.wait("foreground deletion ends", lambda: not place.items("deployments") and not place.items("pods"))


@pytest.mark.usefixtures("webhook", "no_default_class")
def test_the_webhook_killed(cluster: Cluster, place: Place) -> None:
    cluster.service_stop("webhook", grace=0)
    answer = place.try_create("pods", pod())
    assert answer.allowed
    assert rank(answer.body) == {"priority": 0}, "let in as it is, and still above every scavenger job"
    refused = place.try_create("scavengerjobs", job())
    assert (refused.code, REFUSED in refused.message) == (500, True), refused
    guarded = place.try_create("pods", pod(priorityClassName="scavenger-preemptible"))
    assert guarded.code == 403, "the guard is in the API server"

    start_webhook(cluster)
    place.wait("jobs are let in again", lambda: place.try_create("scavengerjobs", job()).allowed)
    place.wait("pods are ranked again", lambda: rank(place.try_create("pods", pod()).body) == ORDINARY)


@pytest.mark.usefixtures("webhook")
def test_a_job_lives_on_without_the_webhook(cluster: Cluster, place: Place) -> None:
    """Started, interrupted, suspended, deleted with all it owns: guard and failure policies let it all happen."""
    assert place.create("scavengerjobs", job("alone", parallelism=2)).allowed
    place.wait("it runs", lambda: phase(place, "alone") == "Running")
    cluster.service_stop("webhook", grace=0)
    place.delete("pods", members(place, "alone")[0])
    place.wait(
        "interrupted and back", lambda: interruptions(place, "alone") == 1 and phase(place, "alone") == "Running"
    )
    assert place.patch("scavengerjobs", "alone", {"spec": {"suspend": True}}).allowed
    place.wait(
        "suspended, and no pod left", lambda: phase(place, "alone") == "Suspended" and not members(place, "alone")
    )
    place.delete("scavengerjobs", "alone", "Foreground")
    place.wait("gone with all it owns", lambda: not place.items("scavengerjobs") and not place.items("jobs"))


def test_the_whole_cluster_restarts_and_nothing_waits_for_the_webhook(cluster: Cluster, place: Place) -> None:
    """Everything comes back while the webhook is down (the test before has left it so): pods first, as its own would
    be."""
    assert place.create("deployments", deployment("before", 1)).allowed
    cluster.service_stop("webhook", grace=0)
    for component in ("scheduler", "kcm", "apiserver", "etcd"):
        cluster.component_kill(component)
    for component in ("etcd", "apiserver", "kcm", "scheduler"):
        cluster.component_start(component)
    place.wait("the API server answers", lambda: cluster.client.ready(), timeout=180)
    assert place.create("deployments", deployment("after", 2)).allowed
    assert place.create("pods", confined("system"), namespace="scavenger-system").allowed, "as a replica of the webhook"
    place.wait("pods run", lambda: running(place) == 3, timeout=180)
    assert not place.try_create("scavengerjobs", job()).allowed
    start_webhook(cluster)
    place.wait("jobs are let in", lambda: place.create("scavengerjobs", job("revived")).allowed)
    place.wait("and run", lambda: phase(place, "revived") == "Running", timeout=180)
    place.server("DELETE", place.path("pods", "system", "scavenger-system"))


@pytest.mark.usefixtures("webhook")
def test_the_api_server_restarted_under_the_running_webhook(cluster: Cluster, place: Place) -> None:
    cluster.component_kill("apiserver")
    cluster.component_start("apiserver")
    place.wait("jobs are let in", lambda: place.try_create("scavengerjobs", job()).allowed)
    assert place.create("scavengerqueues", queue("fresh")).allowed
    created = place.try_create("scavengerjobs", job(queue="fresh"))
    assert created.allowed, "a queue of this very moment is asked for, the watch may still be on its way"
    place.delete("scavengerqueues", "fresh")
    place.wait("its end is seen", lambda: not place.try_create("scavengerjobs", job(queue="fresh")).allowed)


def confined(name: str = "p") -> Object:
    """A pod as the namespace of the system takes it (Pod Security, restricted)."""
    made = pod(name, securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}})
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsUser": 65532}
    made["spec"]["containers"][0]["securityContext"] = context
    return made


def members(place: Place, name: str) -> list[str]:
    found = [p["metadata"] for p in place.items("pods")]
    return [meta["name"] for meta in found if meta.get("labels", {}).get("scavenger.dev/job") == name]


def queue(name: str) -> Object:
    return {"apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerQueue", "metadata": {"name": name}, "spec": {}}


def phase(place: Place, name: str) -> str:
    return str(place.get("scavengerjobs", name).get("status", {}).get("phase"))


def interruptions(place: Place, name: str) -> int:
    return int(place.get("scavengerjobs", name).get("status", {}).get("interruptedCount", 0))


def running(place: Place) -> int:
    return sum(
        p["status"].get("phase") == "Running" and "deletionTimestamp" not in p["metadata"] for p in place.items("pods")
    )
