"""What a pod requests of its node, as kube-scheduler computes it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from scavenger_api.quantity import QuantityError
from scavenger_domain.requests import counted_requests, pod_requests, running_requests
from scavenger_kube.kinds import Pod

GI = 1 << 30


def container(cpu: str | int | float | None = None, memory: str | None = None, **more: Any) -> dict[str, Any]:
    requests = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return {"name": "c", "resources": {"requests": requests}, **more}


def as_pod(spec: dict[str, Any]) -> Pod:
    return msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod)


def sidecar(cpu: str) -> dict[str, Any]:
    return container(cpu, restartPolicy="Always")


CASES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "nothing asked": ({"containers": [container()]}, {}),
    "containers add up": (
        {"containers": [container("500m", "1Gi"), container("1", "1Gi")]},
        {"cpu": 1500, "memory": 2 * GI},
    ),
    "numbers as well as text": ({"containers": [container(2), container(0.5)]}, {"cpu": 2500}),
    "zero is absent": ({"containers": [container("0", "0")]}, {}),
    "a larger init container decides": (
        {"containers": [container("1", "4Gi")], "initContainers": [container("3"), container("2")]},
        {"cpu": 3000, "memory": 4 * GI},
    ),
    "a smaller init container does not": (
        {"containers": [container("1")], "initContainers": [container("500m")]},
        {"cpu": 1000},
    ),
    "a restartable init container runs beside the containers": (
        {"containers": [container("1")], "initContainers": [sidecar("200m")]},
        {"cpu": 1200},
    ),
    "init containers run beside the restartable ones before them": (
        {
            "containers": [container("1")],
            "initContainers": [sidecar("200m"), container("2"), sidecar("300m")],
        },
        {"cpu": 2200},
    ),
    "and not beside those after them": (
        {"containers": [container("100m")], "initContainers": [container("2"), sidecar("200m")]},
        {"cpu": 2000},
    ),
    "overhead comes on top": (
        {"containers": [container("1", "1Gi")], "overhead": {"cpu": "250m", "memory": "1Gi"}},
        {"cpu": 1250, "memory": 2 * GI},
    ),
    "pod-level requests replace": (
        {
            "containers": [container("1", "1Gi")],
            "resources": {"requests": {"cpu": "3"}},
            "overhead": {"cpu": "100m"},
        },
        {"cpu": 3100, "memory": GI},
    ),
    "pod-level requests may name huge pages, and no devices": (
        {
            "containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "2"}}}],
            "resources": {"requests": {"hugepages-2Mi": "4Mi", "nvidia.com/gpu": "8"}},
        },
        {"nvidia.com/gpu": 2, "hugepages-2Mi": 4 << 20},
    ),
    "the larger of init phase and containers, and the overhead": (
        {
            "containers": [container("1"), container("500m")],
            "initContainers": [sidecar("200m"), container("3")],
            "overhead": {"cpu": "100m"},
        },
        {"cpu": 3300},
    ),
    "sidecars, containers and overhead where the init phase is smaller": (
        {
            "containers": [container("1"), container("500m")],
            "initContainers": [sidecar("200m"), container("1")],
            "overhead": {"cpu": "100m"},
        },
        {"cpu": 1800},
    ),
    "devices": (
        {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "2"}}}]},
        {"nvidia.com/gpu": 2},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_requests(case: str) -> None:
    spec, expected = CASES[case]
    pod = as_pod(spec)
    assert {name: value for name, value in pod_requests(pod).items() if value} == expected


def resized(
    spec: str | None, actuated: str | None, allocated: str | None, *, init: bool = False, reason: str = ""
) -> Pod:
    """A pod with one container, or one sidecar, whose status says what it has and what was set aside for it."""
    status: dict[str, Any] = {"name": "c"}
    if actuated is not None:
        status["resources"] = {"requests": {"cpu": actuated}} if actuated else {}
    if allocated is not None:
        status["allocatedResources"] = {"cpu": allocated}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    one = container(spec, restartPolicy="Always") if init else container(spec)
    found = {"initContainerStatuses" if init else "containerStatuses": [status], "conditions": conditions}
    return msgspec.convert({"spec": {"initContainers" if init else "containers": [one]}, "status": found}, Pod)


@pytest.mark.parametrize("init", [False, True])
@pytest.mark.parametrize(
    ("spec", "actuated", "allocated", "reason", "expected"),
    [
        ("1", "1", "1", "", 1000),
        ("500m", "2", "500m", "", 2000),  # made smaller, and not there yet
        ("500m", "500m", "2", "", 2000),
        ("2", "500m", "500m", "", 2000),  # made larger: the room is promised to it
        ("2", "500m", "1", "Deferred", 2000),
        ("8", "500m", "1", "Infeasible", 1000),  # the node will never give that
        ("8", "", None, "Infeasible", 0),
        ("1", None, "3", "", 1000),  # without resources in its status, the status says nothing
        ("1", None, None, "", 1000),
    ],
)
def test_of_a_resized_pod_the_most_that_anybody_counts_on_is_taken(
    spec: str, actuated: str | None, allocated: str | None, reason: str, expected: int, init: bool
) -> None:
    pod = resized(spec, actuated, allocated, init=init, reason=reason)
    assert pod_requests(pod).get("cpu", 0) == expected
    assert running_requests(pod).get("cpu", 0) == expected


def test_an_init_container_is_not_resized() -> None:
    spec = {"containers": [container("100m")], "initContainers": [{**container("1"), "name": "init"}]}
    status = {"name": "init", "resources": {"requests": {"cpu": "2"}}}
    pod = msgspec.convert({"spec": spec, "status": {"initContainerStatuses": [status]}}, Pod)
    assert pod_requests(pod) == {"cpu": 1000}


def test_resources_that_cannot_be_resized_are_as_the_spec_says() -> None:
    asked = {"cpu": "1", "nvidia.com/gpu": "2"}
    status = {"name": "c", "resources": {"requests": {**asked, "cpu": "3"}}, "allocatedResources": asked}
    spec = {"containers": [{"name": "c", "resources": {"requests": asked}}]}
    pod = msgspec.convert({"spec": spec, "status": {"containerStatuses": [status]}}, Pod)
    assert pod_requests(pod) == {"cpu": 3000, "nvidia.com/gpu": 2}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, 2000),
        ({"allocatedResources": {"cpu": "4"}}, 2000),
        ({"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "1"}}, 3000),
        ({"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "4"}}, 4000),
        (
            {
                "resources": {"requests": {"cpu": "1"}},
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
            },
            1000,
        ),
    ],
)
def test_requests_of_a_whole_pod_are_resized_likewise(status: dict[str, Any], expected: int) -> None:
    spec = {"containers": [container("500m")], "resources": {"requests": {"cpu": "2"}}}
    assert pod_requests(msgspec.convert({"spec": spec, "status": status}, Pod)) == {"cpu": expected}


def test_what_runs_is_neither_the_init_phase_nor_the_overhead() -> None:
    spec = {
        "containers": [container("1")],
        "initContainers": [container("9"), sidecar("100m")],
        "overhead": {"cpu": "250m"},
    }
    assert running_requests(as_pod(spec)) == {"cpu": 1100}
    assert running_requests(as_pod({**spec, "resources": {"requests": {"cpu": "4"}}})) == {"cpu": 4000}


def test_reclaimed_capacity_counts_as_what_it_stands_for() -> None:
    asked = {"cpu": "0", "scavenger.dev/reclaimed-cpu": "1500", "scavenger.dev/reclaimed-memory": "2048"}
    pod = as_pod({"containers": [{"name": "c", "resources": {"requests": asked}}]})
    assert counted_requests(pod) == {"cpu": 1500, "memory": 2 * GI}


def test_what_is_not_a_quantity_is_an_error() -> None:
    with pytest.raises(QuantityError, match="banana"):
        pod_requests(as_pod({"containers": [container("banana")]}))
