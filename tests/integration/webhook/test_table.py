"""Good and bad objects against the real API server, each with what it says: webhook, guard and definitions together."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scavenger_api.names import API_VERSION, FINALIZER
from scavenger_cluster import Cluster
from scavenger_testing.place import MERGE_PATCH, Object, Place, Server, job, namespace, pod

from .conftest import low_classes
from .table import Case, judge
from .table_admitter import BY_ADMITTER, PODS_BY_ADMITTER
from .table_guard import CLASSES, PODS, PRIORITY_CLASSES, WORKLOADS, workload
from .table_jobs import JOBS
from .table_updates import UPDATES, finalized

TABLE = [*JOBS, *WORKLOADS, *BY_ADMITTER, *PODS_BY_ADMITTER, *PODS, *CLASSES, *UPDATES]


@pytest.fixture(scope="module")
def world(cluster: Cluster, server: Server) -> Iterator[Place]:
    """Queues and classes of every kind, and an ordinary and a scavenger pod and Job to change."""
    with namespace(cluster, server) as place, low_classes(cluster, place, PRIORITY_CLASSES):
        _cluster_wide(place)
        _objects(place)
        yield place
        assert place.patch("pods", _member(place), {"metadata": {"finalizers": [FINALIZER]}}).allowed
        server(
            "PATCH",
            place.path("scavengerqueues", "going"),
            {"metadata": {"finalizers": None}},
            content_type="application/merge-patch+json",
        )
        for queue in ("open", "closed", "small", "going"):
            place.delete("scavengerqueues", queue)


def _cluster_wide(place: Place) -> None:
    queues: dict[str, Object] = {
        "open": {},
        "small": {"quota": {"cpu": "2", "memory": "1Gi"}},
        "closed": {},
        "going": {},
    }
    for name, spec in queues.items():
        meta = {"name": name, "finalizers": ["example.com/hold"]} if name == "going" else {"name": name}
        assert place.create(
            "scavengerqueues", {"apiVersion": API_VERSION, "kind": "ScavengerQueue", "metadata": meta, "spec": spec}
        ).allowed


def _objects(place: Place) -> None:
    """`scavenger` is a job that the admitter has started, with a pod that somebody else holds too; `ordinary` are a
    user's."""
    assert place.create("scavengerjobs", job("scavenger")).allowed
    for name, queue in (("moving", "default"), ("stranded", "closed")):
        answer = place.create("scavengerjobs", job(name, queue=queue, suspend=True))
        assert answer.allowed, answer
    place.patch("scavengerqueues", "closed", {"spec": {"closed": True}})
    place.delete("scavengerqueues", "going")
    asleep = {"nodeSelector": {"nobody": "here"}}
    one = {"cpu": "1", "memory": "64Mi"}
    main = {"name": "main", "image": "none", "resources": {"requests": one, "limits": one}}
    assert place.create("pods", pod("ordinary", **asleep, containers=[main])).allowed
    ordinary = workload("Job", **asleep)
    assert place.create("jobs", {**ordinary, "metadata": {"name": "ordinary"}}).allowed
    _accounts(place)
    place.wait("closed and going queues seen", lambda: _seen(place))
    place.wait("the scavenger job runs", lambda: _phase(place) == "Running")
    assert place.patch("pods", _member(place), finalized("example.com/hold")).allowed


def _accounts(place: Place) -> None:
    """Service accounts: one that the namespace names for its jobs, and others."""
    for name in ("plain", "powerful", "unnamed"):
        assert place.create("serviceaccounts", {"metadata": {"name": name}}).allowed
    note = {"metadata": {"annotations": {"scavenger.dev/service-accounts": "other, plain"}}}
    path = f"/api/v1/namespaces/{place.namespace}"
    assert place.server("PATCH", path, note, content_type=MERGE_PATCH).allowed


def _phase(place: Place) -> str:
    return str(place.get("scavengerjobs", "scavenger").get("status", {}).get("phase"))


def _name(place: Place, case: Case) -> str:
    return _member(place) if (case.kind, case.update) == ("pods", "scavenger") else case.update


def _member(place: Place) -> str:
    """The name of the job's pod, which follows from its run."""
    pods = place.items("pods")
    found = [
        p["metadata"]["name"] for p in pods if p["metadata"].get("labels", {}).get("scavenger.dev/job") == "scavenger"
    ]
    assert len(found) == 1
    return str(found[0])


def _seen(place: Place) -> bool:
    return all(not place.try_create("scavengerjobs", job(queue=queue)).allowed for queue in ("closed", "going"))


def test_the_table_is_long_enough() -> None:
    assert len(TABLE) >= 60
    assert len({case.name for case in TABLE}) == len(TABLE)


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.name)
def test_table(world: Place, case: Case) -> None:
    judge(world, case, _name(world, case) if case.update else "")


def test_policies_have_no_type_errors(world: Place) -> None:
    """The API server checks each expression against the kinds it is for; the regulator's is not ours to mend here."""

    def checked() -> list[Object]:
        found = [p for p in world.items("validatingadmissionpolicies") if "regulator" not in p["metadata"]["name"]]
        assert len(found) >= 10
        return [p for p in found if "typeChecking" not in (p.get("status") or {})]

    world.wait("all policies checked", lambda: not checked())
    for policy in world.items("validatingadmissionpolicies"):
        if "regulator" not in policy["metadata"]["name"]:
            assert policy["status"]["typeChecking"] == {}, policy["metadata"]["name"]
