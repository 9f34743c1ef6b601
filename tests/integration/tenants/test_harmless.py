"""What a user may do, and what comes of it: the user's own job goes when room is needed, and nobody else's instead."""

from __future__ import annotations

import time
from functools import partial

import pytest
from scavenger_testing.place import Object, Place, job, pod, pod_spec
from scavenger_testing.waiting import wait

from .conftest import Tenant, elsewhere, phase, pods_of

pytestmark = pytest.mark.long

GANG = 8
ORDINARY = 14


def budget(name: str) -> Object:
    """One that lets nobody be evicted."""
    spec = {"maxUnavailable": 0, "selector": {"matchExpressions": [{"key": "scavenger.dev/job", "operator": "Exists"}]}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}


def cpus(name: str, count: int) -> Object:
    """A ReplicaSet of ordinary pods of one core."""
    labels = {"app": name}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(containers=[container])}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {"replicas": count, "selector": {"matchLabels": labels}, "template": template},
    }


def interruptions(place: Place, name: str) -> int:
    """How often a ScavengerJob has been interrupted."""
    return int(place.get("scavengerjobs", name).get("status", {}).get("interruptedCount", 0))


def notes(place: Place, name: str) -> list[str]:
    """What Events say about a ScavengerJob."""
    return [event["message"] for event in place.items("events") if event["involvedObject"]["name"] == name]


def test_budgets_of_one_s_own_protect_nobody(tenant: Tenant) -> None:
    """Two of them over each pod, which no eviction survives. The user's job has least at risk, so it goes when ordinary
    pods push the load over the upper level."""
    mine, others = tenant.place, elsewhere(tenant, "default")
    assert others.create("scavengerjobs", job("steady", parallelism=GANG)).allowed
    wait("the neighbour's job runs", lambda: phase(others, "steady") == "Running")
    time.sleep(3)  # starts have whole seconds, and who has run longer has more at risk
    for name in ("first", "second"):
        tenant.ok("create", "-f", "-", stdin=budget(name))
    tenant.ok("create", "-f", "-", stdin=job("budgeted", parallelism=GANG))
    wait("the user's job runs", lambda: phase(mine, "budgeted") == "Running")
    assert others.create("replicasets", cpus("ordinary", ORDINARY)).allowed
    try:
        wait("the user's job gives way", lambda: interruptions(mine, "budgeted") == 1)
        wait("all its pods are gone", lambda: not pods_of(mine, "budgeted"))
        assert interruptions(others, "steady") == 0
        wait("the user is told", lambda: any("PodDisruptionBudget" in note for note in notes(mine, "budgeted")))
    finally:
        others.delete("replicasets", "ordinary")
        tenant.ok("delete", "sj", "budgeted")
        others.delete("scavengerjobs", "steady")
        tenant.ok("delete", "pdb", "first", "second")
        wait("nothing is left", lambda: not others.items("pods") and not mine.items("pods"))


def test_a_pod_of_one_s_own_gives_no_place_in_line(tenant: Tenant) -> None:
    """An ordinary pod takes the node of the user's own job, twice within seconds."""
    node = tenant.place.items("nodes")[0]["metadata"]["name"]
    where = {"kubernetes.io/hostname": node}
    tenant.ok(
        "create",
        "-f",
        "-",
        stdin=job("own", resources={"requests": {"cpu": "6", "memory": "64Mi"}}, nodeSelector=where),
    )
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "6"}}}
    displacer = pod("displacer", containers=[container], nodeSelector=where, terminationGracePeriodSeconds=0)

    def displaced(times: int) -> bool:
        return interruptions(tenant.place, "own") == times

    try:
        for times in range(1, 3):
            wait("the job runs", lambda: phase(tenant.place, "own") == "Running")
            tenant.ok("create", "-f", "-", stdin=displacer)
            wait("it is displaced", partial(displaced, times))
            tenant.ok("delete", "pod", "displacer", "--grace-period=0", "--force")
        status = tenant.place.get("scavengerjobs", "own")["status"]
        assert status["ownInterruptedCount"] == status["interruptedCount"]
    finally:
        tenant.ok("delete", "sj", "own")
        tenant.run("delete", "pod", "displacer", "--grace-period=0", "--force")
