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
