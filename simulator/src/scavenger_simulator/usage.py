"""What ordinary pods really use, as it changes. Pods whose traces change in the same moments are one event."""

from __future__ import annotations

import math

from scavenger_simulator.clock import SECOND, ticks
from scavenger_simulator.scenario import OrdinaryPod, Scenario, UsageTrace
from scavenger_simulator.world import World


class UsedPod:
    """An ordinary pod on its node, and what it uses at this moment."""

    __slots__ = ("cpu", "last", "memory", "node", "number", "start", "trace")

    def __init__(self, number: int, trace: UsageTrace, node: int) -> None:
        self.number, self.trace, self.node = number, trace, node
        self.cpu = self.memory = 0
        self.start, self.last = ticks(trace.start), len(trace.cpu_milli) - 1


class _Grid:
    """Pods whose use changes at the same moments."""

    __slots__ = ("period", "phase", "planned", "pods")

    def __init__(self, phase: int, period: int) -> None:
        self.phase, self.period = phase, period
        self.pods: dict[int, UsedPod] = {}
        self.planned = False

    def next(self, now: int) -> int:
        return self.phase + ((now - self.phase) // self.period + 1) * self.period


class OrdinaryUse:
    """Keeps the use of ordinary pods in the cluster up to date."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pods: dict[int, UsedPod] = {}
        self._grids: dict[tuple[int, int], _Grid] = {}

    def begin(self, number: int, pod: OrdinaryPod, node: int) -> None:
        """A pod has come to a node."""
        used = self._pods[number] = UsedPod(number, pod.usage, node)
        cpu, memory = pod.usage.at(self._world.now / SECOND)
        self._set(used, cpu, memory)
        if used.last and math.isfinite(pod.usage.period_seconds):
            period = max(1, ticks(pod.usage.period_seconds))
            key = (used.start % period, period)
            grid = self._grids.get(key)
            if grid is None:
                grid = self._grids[key] = _Grid(*key)
            grid.pods[number] = used
            self._plan(grid)

    def end(self, number: int) -> None:
        """A pod has left its node."""
        used = self._pods.pop(number)
        self._set(used, 0, 0)
        period = used.trace.period_seconds
        if used.last and math.isfinite(period):
            every = max(1, ticks(period))
            self._grids[used.start % every, every].pods.pop(number, None)

    def _set(self, used: UsedPod, cpu: int, memory: int) -> None:
        more, bytes_more, now = cpu - used.cpu, memory - used.memory, self._world.now
        used.cpu, used.memory = cpu, memory
        self._world.cluster.ordinary.add(now, more, bytes_more)
        self._world.cluster.by_node[used.node].add(now, more, bytes_more)

    def _plan(self, grid: _Grid) -> None:
        if not grid.planned and grid.pods:
            grid.planned = True
            self._world.events.add(grid.next(self._world.now), self._change, grid)

    def _change(self, grid: _Grid) -> None:
        """All pods of a grid go on to their next values."""
        now, by_node, period = self._world.now, self._world.cluster.by_node, grid.period
        total_cpu = total_memory = 0
        over = []
        for number, used in grid.pods.items():
            at = (now - used.start) // period
            if at < 0:
                continue
            if at >= used.last:
                over.append(number)
                at = used.last
            trace = used.trace
            cpu, memory = trace.cpu_milli[at], trace.memory_bytes[at]
            more, bytes_more = cpu - used.cpu, memory - used.memory
            if more or bytes_more:
                used.cpu, used.memory = cpu, memory
                total_cpu += more
                total_memory += bytes_more
                by_node[used.node].add(now, more, bytes_more)
        for number in over:
            del grid.pods[number]
        self._world.cluster.ordinary.add(now, total_cpu, total_memory)
        self._world.events.count += len(grid.pods)
        grid.planned = False
        self._plan(grid)


def mean_use(scenario: Scenario, start: int, end: int) -> tuple[float, float]:
    """Millicores and bytes that ordinary pods use on average, were each on a node from arrival on. Microseconds."""
    cpu_time = memory_time = 0
    for pod in scenario.ordinary:
        since, until = max(ticks(pod.arrives), start), min(end, ticks(min(pod.leaves, end / SECOND)))
        while since < until:
            cpu, memory = pod.usage.at(since / SECOND)
            change = pod.usage.next_change(since / SECOND)
            following = min(until, max(since + 1, ticks(change))) if math.isfinite(change) else until
            cpu_time += cpu * (following - since)
            memory_time += memory * (following - since)
            since = following
    span = max(1, end - start)
    return cpu_time / span, memory_time / span
