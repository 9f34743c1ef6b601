"""Which nodes new pods may come to, and which the levels are about."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from scavenger_domain.nodes import PLAIN_POOL, available, cordoned, counts, keeping_out, pool_of, schedulable
from scavenger_kube.kinds import Node
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


# --- pools ---


def of_gpus(*taints: dict[str, str], devices: tuple[str, ...] = ("nvidia.com/gpu",)) -> Node:
    allocatable = {"cpu": "8", "hugepages-2Mi": "0", "scavenger.dev/reclaimed-cpu": "1"} | dict.fromkeys(devices, "0")
    return msgspec.convert(
        {"metadata": {"name": "n"}, "spec": {"taints": list(taints)}, "status": {"allocatable": allocatable}}, Node
    )


def tainted(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": key, "value": value, "effect": effect}


@pytest.mark.parametrize(
    "taint",
    [
        tainted("node.kubernetes.io/not-ready", effect="NoExecute"),
        tainted("node.kubernetes.io/unschedulable"),
        tainted("ToBeDeletedByClusterAutoscaler", "1700000000"),
        tainted("DeletionCandidateOfClusterAutoscaler", "1", "PreferNoSchedule"),
        tainted("karpenter.sh/unregistered", effect="NoExecute"),
        tainted("aws-node-termination-handler/spot-itn"),
        tainted("team", "a", "PreferNoSchedule"),
    ],
)
def test_taints_that_come_and_go_make_no_pool(taint: dict[str, str]) -> None:
    assert pool_of(of_gpus(taint, devices=())) == PLAIN_POOL
    assert pool_of(of_gpus(taint)) == pool_of(of_gpus())


def test_pools_differ_by_lasting_taints_and_devices() -> None:
    pools = {
        pool_of(of_gpus()),
        pool_of(of_gpus(devices=())),
        pool_of(of_gpus(devices=("amd.com/gpu",))),
        pool_of(of_gpus(tainted("nvidia.com/gpu", "present"))),
        pool_of(of_gpus(tainted("team", "a"))),
        pool_of(of_gpus(tainted("team", "b"))),
        pool_of(of_gpus(tainted("team", "b", "NoExecute"))),
    }
    assert len(pools) == 7
    assert all(re.fullmatch(r"[a-z0-9-]{1,41}", pool) for pool in pools), "a part of a key of a ConfigMap"
    assert pool_of(of_gpus(tainted("team", "a"), tainted("os", "x"))) == pool_of(
        of_gpus(tainted("os", "x"), tainted("team", "a"))
    )
    assert pool_of(of_gpus(tainted("team", "a")), ("team", "nvidia.com/gpu")) == PLAIN_POOL
    assert pool_of(of_gpus(devices=("x.dev/" + "Ünï.cöde_" * 20,))).startswith("n-c-de")


@pytest.mark.parametrize(
    ("taints", "kept"),
    [
        ([tainted("nvidia.com/gpu", "present")], ()),
        ([tainted("nvidia.com/gpu", "present", "NoExecute")], ("nvidia.com/gpu",)),
        ([tainted("amd.com/gpu", "present")], ("amd.com/gpu",)),
        ([tainted("nvidia.com/gpu"), tainted("team")], ("team",)),
    ],
)
def test_a_taint_named_like_a_device_of_the_node_keeps_it_in_the_load(
    taints: list[dict[str, str]], kept: tuple[str, ...]
) -> None:
    assert keeping_out(of_gpus(*taints)) == kept
    assert not keeping_out(of_gpus(*taints), kept)
