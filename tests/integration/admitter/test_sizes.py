"""What a namespace, and a resize in place, make of the sizes of pods, on a real API server with its policies."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from scavenger_api import names
from scavenger_kube.resources import STRATEGIC_PATCH

from .conftest import Object, Place

pytestmark = pytest.mark.timeout(600)


def limit(place: Place, **of_containers: Any) -> None:
    """A LimitRange in its namespace."""
    spec = {"limits": [{"type": "Container", **of_containers}]}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "sizes"}, "spec": spec}
    place.cluster.client.request("POST", place.path("limitranges"), body)


def sizes(place: Place, name: str) -> list[tuple[str, str, str]]:
    """Of each pod of a job: QoS class, CPU request and limit."""
    found = []
    for pod in place.pods(name):
        resources = pod["spec"]["containers"][0]["resources"]
        found.append((pod["status"]["qosClass"], resources["requests"]["cpu"], resources["limits"]["cpu"]))
    return found


def _has_two(place: Place, name: str) -> bool:
    return len(place.pods(name)) == 2


@pytest.mark.parametrize(
    "rule", [{"max": {"cpu": "2"}}, {"maxLimitRequestRatio": {"cpu": "1"}}], ids=["maximum", "ratio"]
)
def test_the_millicore_gives_way_to_a_limit_range(place: Place, rule: Object) -> None:
    """It is refused for the first pod of a job, and the others are sent with equal limits at once."""
    limit(place, **rule)
    place.submit("gang", cpu="2", parallelism=2)
    place.submit("array", cpu="2", array={"tasks": 2})
    for name in ("gang", "array"):
        place.wait_phase(name, "Running")
        place.wait("both of its pods", partial(_has_two, place, name))
        assert sizes(place, name) == 2 * [("Guaranteed", "2", "2")]
        assert place.status(name).get("interruptedCount", 0) == 0


def test_without_a_limit_range_a_pod_is_burstable_by_a_millicore(place: Place) -> None:
    place.submit("one", cpu="2")
    place.wait_phase("one", "Running")
    assert sizes(place, "one") == [("Burstable", "2", "2001m")]


def test_a_job_beyond_the_limit_range_waits_and_says_why(place: Place) -> None:
    limit(place, max={"cpu": "2"})
    place.submit("large", cpu="3")
    said = "maximum cpu usage per Container is 2"
    place.wait("it to say why", lambda: said in place.status("large").get("message", ""))
    assert place.pods_ever("large") == 0


def test_a_resize_is_noted_on_the_pod(place: Place) -> None:
    """Fake kubelets resize nothing, so the test says what a container has."""
    place.submit("grows", cpu="1")
    place.wait_phase("grows", "Running")
    (pod,) = place.pods("grows")
    status = {**pod["status"]["containerStatuses"][0], "resources": {"requests": {"cpu": "4"}}}
    patch = {"status": {"containerStatuses": [status]}}
    path = f"{place.path('pods')}/{pod['metadata']['name']}"
    place.cluster.client.request("PATCH", f"{path}/status", patch, STRATEGIC_PATCH)

    def note() -> str:
        (now,) = place.pods("grows")
        return str(now["metadata"]["annotations"].get(names.ANNOTATION_REQUESTED_CPU, ""))

    place.wait("the note", note)
    created, then = note().split(",")
    assert (created, then.partition("=")[2]) == ("1000m", "4000m")
