"""What placement and classes take from Cluster Autoscaler, beside its rules as a model.

The rules are those of kubernetes/autoscaler, in cluster-autoscaler/: core/utils/expendable.go (IsExpendablePod),
simulator/utilization/info.go (Calculate, CalculateUtilizationOfResource) and core/scaledown/eligibility/eligibility.go
(isNodeBelowUtilizationThreshold), with the default flags of main.go. A node is judged by requests, not by use.
"""

from __future__ import annotations

from typing import Final

import pytest
from scavenger_admitter.core.admission.placement.inputs import Amounts, NodeView
from scavenger_api import names

PRIORITY_CUTOFF: Final = -10
"""--expendable-pods-priority-cutoff"""
THRESHOLD: Final = 0.5
"""--scale-down-utilization-threshold, and --scale-down-gpu-utilization-threshold"""
GPU: Final = "nvidia.com/gpu"
NODE: Final = {"cpu": 8000, "memory": 32 << 30, "pods": 110}
GPU_NODE: Final = {**NODE, GPU: 4}


def expendable(priority: int | None) -> bool:
    """IsExpendablePod: such a pod causes no scale-up, and is in none of the reckonings of a scale-down."""
    return priority is not None and priority < PRIORITY_CUTOFF


def underutilized(allocatable: Amounts, pods: list[tuple[int, Amounts]]) -> bool:
    """Whether a node with pods of these priorities and requests is a candidate for removal."""
    kept = [requests for priority, requests in pods if not expendable(priority)]
    judged = [GPU] if GPU in allocatable else ["cpu", "memory"]
    shares = (sum(requests.get(name, 0) for requests in kept) / allocatable[name] for name in judged)
    return max(shares) < THRESHOLD


@pytest.mark.parametrize(
    ("name", "scavenger"),
    [
        (names.PRIORITY_CLASS_ORDINARY, False),
        (names.PRIORITY_CLASS_NON_PREEMPTIBLE, True),
        (names.PRIORITY_CLASS_PREEMPTIBLE, True),
    ],
)
def test_scavenger_classes_and_no_others_are_expendable(name: str, scavenger: bool) -> None:
    assert expendable(names.PRIORITY_VALUES[name]) == scavenger


@pytest.mark.parametrize(
    ("allocatable", "ordinary", "scavenging", "removable"),
    [
        pytest.param(NODE, {}, {}, True, id="empty"),
        pytest.param(NODE, {}, {"cpu": 8000}, True, id="full of scavenger pods"),
        pytest.param(NODE, {"cpu": 3999}, {"cpu": 4000}, True, id="just under half"),
        pytest.param(NODE, {"cpu": 4000}, {}, False, id="half"),
        pytest.param(NODE, {"cpu": 1000, "memory": 20 << 30}, {}, False, id="memory is the more used one"),
        pytest.param(GPU_NODE, {"cpu": 1000, GPU: 2}, {}, False, id="half of the GPUs, little CPU"),
        pytest.param(GPU_NODE, {"cpu": 7000}, {GPU: 4}, True, id="much CPU, no GPU"),
        pytest.param({**NODE, GPU: 0}, {"cpu": 7000}, {}, False, id="a node that has lost its GPUs"),
    ],
)
def test_jobs_fill_nodes_that_the_autoscaler_keeps_before_those_that_it_may_remove(
    allocatable: Amounts, ordinary: Amounts, scavenging: Amounts, removable: bool
) -> None:
    used = {name: ordinary.get(name, 0) + scavenging.get(name, 0) for name in allocatable}
    node = NodeView("n", allocatable, used=used, scavenger=scavenging)
    assert (node.ordinary_share < 1000 * THRESHOLD) == removable
    if allocatable.get(GPU) != 0:  # the autoscaler waits for devices that a node is to have
        pods = [(0, ordinary), (names.PRIORITY_VALUES[names.PRIORITY_CLASS_PREEMPTIBLE], scavenging)]
        assert underutilized(allocatable, pods) == removable
