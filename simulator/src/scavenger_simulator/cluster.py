"""The cluster as it really is: what is free on each node by requests, and what is really used.

All amounts are integers (millicores, bytes, pods), and integrals of use are exact, so that the same run gives the same
bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from scavenger_domain.nodes import pool_of

from scavenger_simulator.clock import SECOND
from scavenger_simulator.objects import PODS_PER_NODE, node_object
from scavenger_simulator.scenario import NodeSpec
from scavenger_simulator.victims import Amounts


class Use:
    """What is used of CPU and memory, and its integral over time.

    Attributes:
        cpu: millicores.
        memory: bytes.
        cpu_time: millicore-microseconds up to `at`.
        memory_time: byte-microseconds up to `at`.
    """

    __slots__ = ("at", "cpu", "cpu_time", "memory", "memory_time")

    def __init__(self, at: int) -> None:
        self.at, self.cpu, self.memory, self.cpu_time, self.memory_time = at, 0, 0, 0, 0

    def add(self, now: int, cpu: int, memory: int) -> None:
        """From now on so much more is used, or less."""
        passed = now - self.at
        if passed:
            self.cpu_time += self.cpu * passed
            self.memory_time += self.memory * passed
            self.at = now
        self.cpu += cpu
        self.memory += memory

    def spent(self, now: int) -> int:
        """The CPU time up to now, in millicore-microseconds."""
        return self.cpu_time + self.cpu * (now - self.at)


class Cluster:
    """Nodes by their number.

    Attributes:
        nodes: what they are.
        pools: of each node, the name of its pool as components find it.
        free: per node, what is not requested: millicores, bytes and pods, each a list.
        reserved: per node, what is promised to ordinary pods that wait for victims to leave, in the same way.
        regular: per node, what ordinary pods request: millicores and bytes, each a list.
        ordinary: what ordinary pods use.
        jobs: what scavenger pods use.
        by_node: what is used on each node; by both.
        shares: per node, the keys of the jobs with pods there, and how many.
    """

    def __init__(self, nodes: Sequence[NodeSpec], start: int) -> None:
        self.nodes = tuple(nodes)
        self.pools = tuple(pool_of(node_object(node)) for node in nodes)
        self.names = tuple(node.name for node in nodes)
        self.free = (
            [node.cpu_milli for node in nodes],
            [node.memory_bytes for node in nodes],
            [PODS_PER_NODE for _ in nodes],
        )
        self.reserved: tuple[list[int], list[int], list[int]] = tuple([0] * len(nodes) for _ in range(3))  # type: ignore[assignment]
        self.regular = ([0] * len(nodes), [0] * len(nodes))
        self.ordinary = Use(start)
        self.jobs = Use(start)
        self.by_node = [Use(start) for _ in nodes]
        self.cpu_milli = sum(node.cpu_milli for node in nodes)
        self.memory_bytes = sum(node.memory_bytes for node in nodes)

    @property
    def pooled(self) -> bool:
        """Whether there is more than one pool of nodes."""
        return len(set(self.pools)) > 1

    def take(self, node: int, amounts: Amounts, times: int = 1) -> None:
        """Requests of pods that come to a node (or, with -1, leave it)."""
        for free, amount in zip(self.free, amounts, strict=True):
            free[node] -= amount * times

    def take_regular(self, node: int, amounts: Amounts, times: int = 1) -> None:
        """The same of an ordinary pod."""
        self.take(node, amounts, times)
        for regular, amount in zip(self.regular, amounts[:2], strict=True):
            regular[node] += amount * times

    def reserve(self, node: int, amounts: Amounts, times: int = 1) -> None:
        """Promise room that is about to come free (or, with -1, take the promise back)."""
        for reserved, amount in zip(self.reserved, amounts, strict=True):
            reserved[node] += amount * times

    def spare(self, node: int, amounts: Amounts) -> Amounts:
        """What is free and promised to nobody, less these requests; negative where it is missing."""
        cpu, memory, pods = self.free
        cpu_kept, memory_kept, pods_kept = self.reserved
        return (
            cpu[node] - cpu_kept[node] - amounts[0],
            memory[node] - memory_kept[node] - amounts[1],
            pods[node] - pods_kept[node] - amounts[2],
        )

    def percent(self, use: Use | tuple[float, float]) -> tuple[float, float]:
        """Use of CPU and memory in percent of what can be allocated."""
        cpu, memory = (use.cpu, use.memory) if isinstance(use, Use) else use
        return 100.0 * cpu / self.cpu_milli, 100.0 * memory / self.memory_bytes

    def mean(self, use: Use, start: int, end: int) -> tuple[float, float]:
        """Average use in percent since `start`; at `end`."""
        use.add(end, 0, 0)
        span = max(1, end - start)
        return self.percent((use.cpu_time / span, use.memory_time / span))


def core_hours(millicore_microseconds: float) -> float:
    """CPU time in core-hours."""
    return millicore_microseconds / (1000 * SECOND * 3600)
