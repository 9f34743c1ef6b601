"""Each attempt is refused with a reason, and what is honest beside it is let in, by the real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from scavenger_api.names import API_VERSION
from scavenger_cluster import Cluster
from scavenger_testing.place import Place, Server, job, namespace, pod
from scavenger_testing.waiting import wait

from .attempts import ATTEMPTS, Attempt, forged
from .conftest import Tenant, phase, pods_of

QUEUES = {"everybodys": {}, "theirs": {"namespaceSelector": {"matchLabels": {"team": "others"}}}}


@pytest.fixture(scope="module")
def neighbour(cluster: Cluster, server: Server) -> Iterator[Place]:
    """Somebody else's namespace, with a job that runs."""
    with namespace(cluster, server) as place:
        assert place.create("scavengerjobs", job("honest")).allowed
        wait("the neighbour's job runs", lambda: phase(place, "honest") == "Running")
        yield place


@pytest.fixture(scope="module")
def fill(tenant: Tenant, neighbour: Place) -> Iterator[dict[str, str]]:
    """What stands for the names in an attempt; `mine` runs, `asleep` is suspended, a Job and a pod are ordinary."""
    place = tenant.place
    for name, spec in QUEUES.items():
        queue = {"apiVersion": API_VERSION, "kind": "ScavengerQueue", "metadata": {"name": name}, "spec": spec}
        assert place.create("scavengerqueues", queue).allowed
    wait(
        "the queues are known",
        lambda: place.try_create("scavengerjobs", job("probe", queue="everybodys")).allowed,
    )
    tenant.ok("create", "-f", "-", stdin=job("mine"))
    tenant.ok("create", "-f", "-", stdin=job("asleep", suspend=True))
    ordinary = forged(name="ordinary")
    ordinary["spec"]["template"]["spec"]["nodeSelector"] = {"nobody": "here"}
    tenant.ok("create", "-f", "-", stdin=ordinary)
    tenant.ok("create", "-f", "-", stdin=pod("bare", nodeSelector={"nobody": "here"}))
    wait("the user's job runs", lambda: phase(place, "mine") == "Running")
    made = place.get("scavengerjobs", "mine")
    yield {
        "{ns}": place.namespace,
        "{other}": neighbour.namespace,
        "{pod}": pods_of(place, "mine")[0]["metadata"]["name"],
        "{uid}": made["metadata"]["uid"],
    }
    for name in QUEUES:
        place.delete("scavengerqueues", name)


def filled(value: Any, names: dict[str, str]) -> Any:
    """`value` with the names of this run."""
    text = json.dumps(value)
    for name, real in names.items():
        text = text.replace(name, real)
    return json.loads(text)


def test_there_are_enough() -> None:
    assert len([a for a in ATTEMPTS if a.refused]) >= 40
    for about in {a.about for a in ATTEMPTS}:
        assert any(not a.refused for a in ATTEMPTS if a.about == about), f"{about}: what is honest?"
    assert len({(a.about, a.name) for a in ATTEMPTS}) == len(ATTEMPTS)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: f"{attempt.about}: {attempt.name}")
def test_attempt(tenant: Tenant, fill: dict[str, str], attempt: Attempt) -> None:
    path, body = filled([attempt.path, attempt.body], fill)
    answer = tenant(attempt.method, path, body, patch=attempt.patch)
    assert answer.allowed == (not attempt.refused), answer
    for part in attempt.refused:
        assert part in answer.message, answer
