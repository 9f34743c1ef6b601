"""Nodes and pods of a scenario as the components see them."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from scavenger_admitter.core.admission.shape import Shape
from scavenger_kube.kinds import Node, NodeCondition, NodeSpec, NodeStatus, ObjectMeta, Taint, Toleration

from scavenger_simulator import scenario

PODS_PER_NODE: Final = 110
"""What a kubelet takes unless told otherwise."""

POOL_LABEL: Final = "pool"
DEVICE: Final = "pool.scavenger.dev/"
"""Before the name of a pool: a device of its nodes, and their taint, as clouds name them alike."""

INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
"""Label of each node: its size, such as `8x32Gi`, for cores and memory."""
GIB: Final = 1 << 30

_READY: Final = (NodeCondition(type="Ready", status="True"),)


def node_object(spec: scenario.NodeSpec) -> Node:
    """A node. Those of a named pool have its label, its device and its taint."""
    allocatable: dict[str, str | int | float] = {
        "cpu": f"{spec.cpu_milli}m",
        "memory": spec.memory_bytes,
        "pods": PODS_PER_NODE,
    }
    metadata = ObjectMeta(name=spec.name, labels=labels_of(spec))
    taints: tuple[Taint, ...] = ()
    if spec.pool:
        device = DEVICE + spec.pool
        allocatable[device] = PODS_PER_NODE
        taints = (Taint(key=device, value="present", effect="NoSchedule"),)
    return Node(
        metadata=metadata,
        spec=NodeSpec(taints=taints),
        status=NodeStatus(allocatable=allocatable, capacity=allocatable, conditions=_READY),
    )


def labels_of(spec: scenario.NodeSpec) -> dict[str, str]:
    """The labels of a node: its size, and its pool where that has a name."""
    size = {INSTANCE_TYPE: f"{spec.cpu_milli / 1000:g}x{spec.memory_bytes / GIB:g}Gi"}
    return {**size, POOL_LABEL: spec.pool} if spec.pool else size


@lru_cache(maxsize=4096)
def shape_of(cpu_milli: int, memory_bytes: int, pool: str = "") -> Shape:
    """A pod that runs on the nodes of a pool."""
    asked = {"cpu": cpu_milli, "memory": memory_bytes}
    if not pool:
        return Shape.of(asked)
    if pool == scenario.ANY_POOL:
        return Shape.of(asked, None, (Toleration(operator="Exists"),))
    return Shape.of(asked, {POOL_LABEL: pool}, (Toleration(key=DEVICE + pool, operator="Exists"),))
