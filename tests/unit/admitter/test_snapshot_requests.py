"""What a pod takes of its node, and which shapes are equal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from scavenger_admitter.shape import Shape, pod_requests, tolerates
from scavenger_kube.kinds import Pod, Taint, Toleration

GI = 1 << 30


def container(cpu: str | int | float | None = None, memory: str | None = None, **more: Any) -> dict[str, Any]:
    requests = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return {"name": "c", "resources": {"requests": requests}, **more}


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
    "devices": (
        {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "2"}}}]},
        {"nvidia.com/gpu": 2},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_requests(case: str) -> None:
    spec, expected = CASES[case]
    pod = msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod)
    assert dict(pod_requests(pod)) == {**expected, "pods": 1}


TOLERATION_CASES = [
    (Toleration(key="a", operator="Equal", value="1", effect="NoSchedule"), True),
    (Toleration(key="a", value="1"), True),
    (Toleration(key="a", operator="Exists"), True),
    (Toleration(operator="Exists"), True),
    (Toleration(key="a", operator="Exists", effect="NoExecute"), False),
    (Toleration(key="a", operator="Equal", value="2"), False),
    (Toleration(key="b", operator="Exists"), False),
    (Toleration(key="a", operator="Gt", value="0"), False),
]


@pytest.mark.parametrize(("toleration", "covered"), TOLERATION_CASES)
def test_tolerations(toleration: Toleration, covered: bool) -> None:
    taint = Taint(key="a", value="1", effect="NoSchedule")
    assert tolerates([toleration], taint) is covered
    assert tolerates([Toleration(key="other"), toleration], taint) is covered


def test_equal_shapes_are_equal_in_whatever_order_they_were_written() -> None:
    tolerations = (Toleration(key="a"), Toleration(key="b", toleration_seconds=300))
    one = Shape.of({"cpu": 1, "memory": 2, "gpu": 0}, {"x": "1", "y": "2"}, tolerations)
    other = Shape.of({"memory": 2, "cpu": 1}, {"y": "2", "x": "1"}, (Toleration(key="b"), Toleration(key="a")))
    assert one == other
    assert hash(one) == hash(other)
    assert one.request("cpu") == 1
    assert one.request("pods") == 1
    assert one.request("gpu") == 0
