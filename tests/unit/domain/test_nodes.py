"""Which nodes new pods may come to, and which the levels are about."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_domain.nodes import available, cordoned, counts, schedulable
from scavenger_testing import builders

DELETED = "2026-01-02T12:00:00Z"
CASES: list[tuple[dict[str, Any], bool, bool]] = [
    # what is set, schedulable, counts
    ({}, True, True),
    ({"ready": False}, False, False),
    ({"unschedulable": True}, False, False),
    ({"deleted": DELETED}, False, False),
    ({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, True, False),
    ({"taints": [{"key": "gone", "effect": "NoExecute"}]}, True, False),
    ({"taints": [{"key": "soft", "effect": "PreferNoSchedule"}]}, True, True),
    ({"taints": [{"key": "ours", "effect": "NoSchedule"}]}, True, True),
    # full: it is part of the load, and takes nobody
    ({"taints": [{"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}]}, False, True),
    ({"taints": [{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]}, False, True),
    ({"taints": [{"key": "node.kubernetes.io/pid-pressure", "effect": "NoSchedule"}]}, False, True),
    # its end is announced, or hinted at: the load of what is there stays load, and nothing new comes
    ({"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}, False, False),
    ({"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}]}, False, False),
    ({"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "PreferNoSchedule"}]}, False, True),
    # Ready again, and the taint that said it was not is still there for a moment
    ({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}, False, False),
]


@pytest.mark.parametrize(("changes", "takes_pods", "counted"), CASES)
def test_nodes(changes: dict[str, Any], takes_pods: bool, counted: bool) -> None:
    node = builders.node(**changes)
    assert schedulable(node) is takes_pods
    assert counts(node, ("ours",)) is counted
    assert not counts(node) or counted
    assert counts(node, holds=True) is available(node), "whatever taint the pods on it tolerate"


def test_a_node_being_deleted_is_as_good_as_cordoned() -> None:
    assert cordoned(builders.node(unschedulable=True))
    assert cordoned(builders.node(deleted=DELETED))
    assert not cordoned(builders.node(ready=False)), "that passes by itself"
    assert not available(builders.node(ready=False))
