"""What one tenant can take from another, against the real API server: queues, maxima, interactive pods."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from scavenger_api.names import API_VERSION
from scavenger_cluster import Cluster
from scavenger_testing.place import Object, Place, Server, job, namespace, pod

from .conftest import start_webhook

INTERACTIVE = {"annotations": {"scavenger.dev/latency": "interactive"}}


def phase(place: Place, name: str) -> str:
    return str(place.get("scavengerjobs", name).get("status", {}).get("phase"))


def admitted(place: Place, name: str) -> str:
    found = place.get("scavengerjobs", name).get("status", {}).get("conditions", [])
    return next((str(one["reason"]) for one in found if one["type"] == "Admitted"), "")


def label(place: Place, **labels: str | None) -> None:
    assert place.patch("namespaces", place.namespace, {"metadata": {"labels": labels}}).allowed


@pytest.fixture
def own_queue(place: Place) -> Iterator[str]:
    """A queue for one team, which the namespace is not of."""
    name = f"{place.namespace}-own"
    spec = {"namespaceSelector": {"matchLabels": {"team": "blue"}}}
    queue = {"apiVersion": API_VERSION, "kind": "ScavengerQueue", "metadata": {"name": name}, "spec": spec}
    assert place.create("scavengerqueues", queue).allowed
    yield name
    label(place, team=None)
    place.delete("scavengerqueues", name)


@pytest.mark.usefixtures("webhook")
def test_a_queue_is_for_the_namespaces_that_it_selects(place: Place, own_queue: str) -> None:
    def refused(answer_message: str) -> bool:
        return f"spec.queue: queue {own_queue} is not for jobs of this namespace" in answer_message

    place.wait("it is refused", lambda: refused(place.try_create("scavengerjobs", job(queue=own_queue)).message))
    assert place.create("scavengerjobs", job("asleep", suspend=True)).allowed
    move = {"spec": {"queue": own_queue}}
    assert refused(place.try_patch("scavengerjobs", "asleep", move).message)

    label(place, team="blue")
    place.wait("it is let in", lambda: place.try_create("scavengerjobs", job(queue=own_queue)).allowed)
    assert place.create("scavengerjobs", job("runs", queue=own_queue)).allowed
    place.wait("it runs", lambda: phase(place, "runs") == "Running")

    assert place.create("scavengerjobs", job("waits", queue=own_queue, suspend=True)).allowed
    label(place, team="red")
    place.wait("no more are let in", lambda: refused(place.try_create("scavengerjobs", job(queue=own_queue)).message))
    assert place.patch("scavengerjobs", "waits", {"spec": {"suspend": False}}).allowed, "it stays changeable"

    def waits() -> bool:
        """The admitter has a watch of its own, and may start the job once more before it has seen the label."""
        if phase(place, "waits") == "Running":
            assert place.patch("scavengerjobs", "waits", {"spec": {"suspend": True}}).allowed
            place.wait("it is stopped", lambda: phase(place, "waits") == "Suspended")
            assert place.patch("scavengerjobs", "waits", {"spec": {"suspend": False}}).allowed
        return admitted(place, "waits") == "NamespaceNotSelected"

    place.wait("it waits", waits)
    assert phase(place, "runs") == "Running"
    label(place, team="blue")
    place.wait("it starts", lambda: phase(place, "waits") == "Running")


@pytest.fixture
def alone(cluster: Cluster, server: Server) -> Iterator[Place]:
    """A namespace of the test."""
    with namespace(cluster, server) as made:
        yield made


JOBS = "count/scavengerjobs.scavenger.dev"


@pytest.mark.usefixtures("webhook")
def test_the_maxima_of_a_namespace_are_quotas_of_its_own(alone: Place) -> None:
    """What docs/tenants.md recommends: objects of any kind, and pods of a class."""
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["scavenger-preemptible"]}
    quotas: dict[str, Object] = {
        "jobs": {"hard": {JOBS: "50"}},
        "pods": {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [scope]}},
    }
    for name, spec in quotas.items():
        assert alone.create("resourcequotas", {"metadata": {"name": name}, "spec": spec}).allowed
    numbers = itertools.count(51)

    def used(name: str) -> Object:
        return dict(alone.get("resourcequotas", name).get("status", {}).get("used") or {})

    def counted() -> bool:
        """Definitions are found by the quota controller within half a minute, and a quota that was there before is
        counted when it changes."""
        assert alone.patch("resourcequotas", "jobs", {"spec": {"hard": {JOBS: str(next(numbers))}}}).allowed
        return bool(used("jobs") and used("pods"))

    alone.wait("the quotas count", counted)
    assert alone.create("scavengerjobs", job("gang", parallelism=3)).allowed
    alone.wait("the gang waits", lambda: admitted(alone, "gang") == "QuotaExceeded")
    assert alone.create("pods", pod("ordinary", nodeSelector={"nobody": "here"})).allowed, "another class"
    assert alone.patch("resourcequotas", "jobs", {"spec": {"hard": {JOBS: "1"}}}).allowed
    alone.wait("no more jobs", lambda: "exceeded quota: jobs" in alone.try_create("scavengerjobs", job("x")).message)


def test_maxima_of_the_webhook(cluster: Cluster, place: Place) -> None:
    start_webhook(cluster, SCAVENGER_MAX_INTERRUPTION_AFTER="1h", SCAVENGER_ALLOWED_TOLERATIONS="gpu,spot")
    try:
        tolerations = [{"operator": "Exists"}, {"key": "spot", "operator": "Exists"}]
        answer = place.try_create("scavengerjobs", job(interruptionAfter="168h", tolerations=tolerations))
        assert not answer.allowed
        assert sorted(answer.causes) == ["spec.interruptionAfter", "spec.tolerations[0].key"]
        assert "168h is more than the 1h that the administrator allows" in answer.message
        assert place.try_create("scavengerjobs", job(interruptionAfter="1h", tolerations=tolerations[1:])).allowed
    finally:
        start_webhook(cluster)


@pytest.mark.usefixtures("webhook")
def test_who_may_be_interactive(place: Place) -> None:
    asleep = {"nodeSelector": {"nobody": "here"}}
    wanted = pod("urgent", INTERACTIVE, **asleep)
    told = place.try_create("pods", wanted).message
    assert "metadata.annotations[scavenger.dev/latency]: pods of this namespace may not be interactive" in told
    assert "label the namespace scavenger.dev/interactive=allowed" in told
    assert place.create("pods", pod("plain", **asleep)).allowed
    assert not place.try_patch("pods", "plain", {"metadata": INTERACTIVE}).allowed, "nor afterwards"
    assert place.try_patch("pods", "plain", {"metadata": {"annotations": {"a": "b"}}}).allowed

    allow(place, "allowed")
    place.wait("it may", lambda: place.try_create("pods", wanted).allowed)
    assert place.create("pods", wanted).allowed
    allow(place, "no")
    place.wait("no more may", lambda: not place.try_create("pods", pod("another", INTERACTIVE, **asleep)).allowed)
    changed = {"metadata": {"annotations": {"a": "b"}}}
    assert place.try_patch("pods", "urgent", changed).allowed, "what is interactive stays changeable"
    allow(place, None)


def allow(place: Place, word: str | None) -> None:
    """Label the namespace."""
    assert place.patch(
        "namespaces", place.namespace, {"metadata": {"labels": {"scavenger.dev/interactive": word}}}
    ).allowed
