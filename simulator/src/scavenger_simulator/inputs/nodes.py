"""Nodes: as listed, or as many of some sizes as hold what the ordinary pods request."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

from scavenger_api.quantity import QuantityError, millis, units

from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.scenario import NodeSpec, OrdinaryPod

GIB: Final = 1024**3
SIZES: Final = ((8_000, 32 * GIB), (16_000, 64 * GIB), (32_000, 128 * GIB))
"""Millicores and bytes of nodes where nothing says what nodes there are."""
PODS_PER_NODE: Final = 110
"""As a kubelet has it by default."""
_GROUP: Final = re.compile(r"(\d{1,6})x([^:@]+):([^@]+)(?:@([a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?))?")

Request = tuple[int, int]
"""Millicores and bytes."""


def parse_nodes(text: str) -> tuple[NodeSpec, ...]:
    """Nodes written as `20x16:64Gi,4x96:384Gi@gpu`: how many, with which CPU and memory, and of which pool. Raises
    InputError."""
    found: list[NodeSpec] = []
    for group in text.split(","):
        match = _GROUP.fullmatch(group.strip())
        try:
            if match is None:
                raise QuantityError(f"{group.strip()!r} is no group of nodes")
            count, cpu, memory = int(match[1]), millis(match[2]), units(match[3])
        except QuantityError as error:
            remedy = "write COUNTxCPU:MEMORY, such as 20x16:64Gi,10x32:128Gi, and @POOL behind nodes of another pool"
            raise InputError(str(error), remedy) from None
        if cpu <= 0 or memory <= 0:
            raise InputError(f"{group.strip()!r} has no room", "write a CPU and a memory above 0")
        found += [NodeSpec(f"node-{len(found) + i:04d}", cpu, memory, match[4] or "") for i in range(count)]
    if not found:
        raise InputError("there are no nodes", "write at least one, such as 1x16:64Gi")
    return tuple(found)


def peak_requests(pods: Iterable[OrdinaryPod]) -> tuple[int, int, int]:
    """The most that is requested at one time, of CPU and of memory, and the most pods there are."""
    changes = []
    for pod in pods:
        changes.append((pod.arrives, pod.cpu_request_milli, pod.memory_request_bytes, 1))
        changes.append((pod.leaves, -pod.cpu_request_milli, -pod.memory_request_bytes, -1))
    now, most = (0, 0, 0), (0, 0, 0)
    for _, *more in sorted(changes):  # who leaves at a moment goes before who comes then
        now = (now[0] + more[0], now[1] + more[1], now[2] + more[2])
        most = (max(most[0], now[0]), max(most[1], now[1]), max(most[2], now[2]))
    return most


def fleet(pods: Sequence[OrdinaryPod], requested: float, sizes: Sequence[Request] = SIZES) -> tuple[NodeSpec, ...]:
    """Nodes of the sizes in turn, until what `pods` request at their peak is at most `requested` (0 to 1) of the room,
    and they are at most that share of the pods that nodes take.

    Sizes that the largest pod does not fit into are made as large as it. At least one of each.
    """
    cpu, memory, count = peak_requests(pods)
    most = (
        max((pod.cpu_request_milli for pod in pods), default=0),
        max((pod.memory_request_bytes for pod in pods), default=0),
    )
    chosen: list[NodeSpec] = []
    room_cpu = room_memory = 0
    least = max(len(sizes), math.ceil(count / (PODS_PER_NODE * requested)))
    while len(chosen) < least or room_cpu * requested < cpu or room_memory * requested < memory:
        size = sizes[len(chosen) % len(sizes)]
        node = NodeSpec(f"node-{len(chosen):04d}", max(size[0], most[0]), max(size[1], most[1]))
        chosen.append(node)
        room_cpu, room_memory = room_cpu + node.cpu_milli, room_memory + node.memory_bytes
    return tuple(chosen)
