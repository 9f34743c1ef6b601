"""Nodes and pods of a scenario as the components see them."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from scavenger_admitter.core.admission.shape import Shape
from scavenger_kube.kinds import Condition, Node, NodeSpec, NodeStatus, ObjectMeta, Taint, Toleration

from scavenger_simulator import scenario

PODS_PER_NODE: Final = 110
"""What a kubelet takes unless told otherwise."""

POOL_LABEL: Final = "pool"
DEVICE: Final = "pool.scavenger.dev/"
"""Before the name of a pool: a device of its nodes, and their taint, as clouds name them alike."""

_READY: Final = (Condition(type="Ready", status="True"),)


def node_object(spec: scenario.NodeSpec) -> Node:
    """A node. Those of a named pool have its label, its device and its taint."""
    allocatable: dict[str, str | int | float] = {
        "cpu": f"{spec.cpu_milli}m",
        "memory": spec.memory_bytes,
        "pods": PODS_PER_NODE,
    }
    metadata = ObjectMeta(name=spec.name)
    taints: tuple[Taint, ...] = ()
    if spec.pool:
        device = DEVICE + spec.pool
        allocatable[device] = PODS_PER_NODE
        metadata = ObjectMeta(name=spec.name, labels={POOL_LABEL: spec.pool})
        taints = (Taint(key=device, value="present", effect="NoSchedule"),)
    return Node(
        metadata=metadata,
        spec=NodeSpec(taints=taints),
        status=NodeStatus(allocatable=allocatable, capacity=allocatable, conditions=_READY),
    )


@lru_cache(maxsize=4096)
def shape_of(cpu_milli: int, memory_bytes: int, pool: str = "") -> Shape:
    """A pod that runs on the nodes of a pool."""
    asked = {"cpu": cpu_milli, "memory": memory_bytes}
    if not pool:
        return Shape.of(asked)
    if pool == scenario.ANY_POOL:
        return Shape.of(asked, None, (Toleration(operator="Exists"),))
    return Shape.of(asked, {POOL_LABEL: pool}, (Toleration(key=DEVICE + pool, operator="Exists"),))
