"""Ordinary pods: they come, find a node or have room made for them, and leave. This is kube-scheduler's part."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import chain
from typing import Final, Protocol

from scavenger_api.names import NON_PREEMPTIBLE
from scavenger_domain.gang import estimated_time_at_risk

from scavenger_simulator.clock import SECOND, seconds, ticks
from scavenger_simulator.jobs import Job, Stage
from scavenger_simulator.scenario import OrdinaryPod
from scavenger_simulator.scheduler import (
    NodeOutlook,
    Preemption,
    choose_node,
    choose_node_by_pods,
    feasible_nodes,
    wait_for,
)
from scavenger_simulator.usage import OrdinaryUse
from scavenger_simulator.victims import Amounts, Share
from scavenger_simulator.world import World

SYSTEM_CRITICAL: Final = 2_000_000_000
"""Priorities from here on are those of Kubernetes' own classes."""

_NO_MORE: Final = 1 << 62
"""The plugin's own: it has no setting for it."""


class _Stage(Enum):
    FUTURE = 0
    PENDING = 1
    BOUND = 2
    GONE = 3


class _Pod:
    """An ordinary pod; order: as the scheduler takes those that wait, by priority, then age. failed: when it was first
    tried and found no capacity. again: when it is tried again, whatever happens until then."""

    __slots__ = (
        "again",
        "amounts",
        "arrived",
        "failed",
        "leaves",
        "node",
        "nominated",
        "number",
        "order",
        "spec",
        "stage",
    )

    def __init__(self, number: int, spec: OrdinaryPod, end: int) -> None:
        self.number, self.spec = number, spec
        self.amounts: Amounts = (spec.cpu_request_milli, spec.memory_request_bytes, 1)
        self.arrived = ticks(spec.arrives)
        self.leaves = ticks(spec.leaves) if spec.leaves < seconds(end) else _NO_MORE
        self.order = (-spec.priority, self.arrived, number)
        self.stage = _Stage.FUTURE
        self.node = -1
        self.nominated: int | None = None
        self.failed = self.again = _NO_MORE

    def __lt__(self, other: _Pod) -> bool:
        return self.order < other.order


class OrdinaryWatcher(Protocol):
    """Who is told of ordinary pods, as the informers of a service would show them."""

    def on_bound(self, pod: OrdinaryPod, node: int) -> None:
        """It has a node."""

    def on_pending(self, pod: OrdinaryPod, nominated: int | None) -> None:
        """It waits for room, which is being made on a node, or not."""

    def on_left(self, pod: OrdinaryPod) -> None:
        """It is gone."""


class MakesRoom(Protocol):
    """Who makes room for ordinary pods, and uses what they leave."""

    def on_room(self) -> None:
        """A pod has left its node."""

    def preempt(self, job: Job, why: str) -> None:
        """It has to go for a pod."""

    def update_classes(self) -> None:
        """Victims are about to be chosen: their classes are brought up to date."""


class OrdinaryPods:
    """Schedules ordinary pods.

    Args:
        world: everything.
        watcher: is told.
        others: make room.
    """

    def __init__(self, world: World, watcher: OrdinaryWatcher, others: MakesRoom) -> None:
        self._world = world
        self._watcher = watcher
        self._others = others
        self._use = OrdinaryUse(world)
        self._pending: list[_Pod] = []
        self._next_node = 0
        self._feasible = feasible_nodes(len(world.scenario.nodes))
        # Numbers of the nodes by their pool; empty where there is one.
        self._pools: dict[str, set[int]] = {}
        for node, node_spec in enumerate(world.scenario.nodes if world.cluster.pooled else ()):
            self._pools.setdefault(node_spec.pool, set()).add(node)
        self._ranked: tuple[int, int, list[tuple[float, int, Job]]] | None = None
        for number, spec in enumerate(world.scenario.ordinary):
            pod = _Pod(number, spec, world.end)
            if pod.leaves > max(pod.arrived, world.start):
                world.events.add(pod.arrived, self._arrive, pod)

    # --- coming and going ---

    def _arrive(self, pod: _Pod) -> None:
        self._world.recorder.ordinary_pods += 1
        if pod.leaves < _NO_MORE:
            self._world.events.add(pod.leaves, self._leave, pod)
        node = self._place(pod)
        if node is not None:
            self._bind(pod, node)
            return
        pod.stage, pod.failed = _Stage.PENDING, self._world.now
        insort(self._pending, pod)
        self._make_room(pod)
        entitled = pod.failed + ticks(self._world.settings.non_preemptible_wait)
        if pod.nominated is None and entitled > self._world.now:
            self._world.events.add(entitled, self._try_again, pod)

    def _try_again(self, pod: _Pod) -> None:
        pod.again = _NO_MORE
        if pod.stage is _Stage.PENDING and pod.nominated is None:
            self._make_room(pod)

    def _leave(self, pod: _Pod) -> None:
        if pod.stage is _Stage.PENDING:
            self._stop_waiting(pod)
            self._world.recorder.unscheduled += 1
            self._note_delay(pod)
        elif pod.stage is _Stage.BOUND:
            self._world.cluster.take_regular(pod.node, pod.amounts, -1)
            self._use.end(pod.number)
        bound, pod.stage = pod.stage is _Stage.BOUND, _Stage.GONE
        self._watcher.on_left(pod.spec)
        if bound:
            self.retry((pod.node,))
            self._others.on_room()

    def _bind(self, pod: _Pod, node: int) -> None:
        if pod.stage is _Stage.PENDING:
            self._stop_waiting(pod)
            self._note_delay(pod)
        pod.stage, pod.node = _Stage.BOUND, node
        self._world.cluster.take_regular(node, pod.amounts)
        self._use.begin(pod.number, pod.spec, node)
        self._watcher.on_bound(pod.spec, node)

    def _stop_waiting(self, pod: _Pod) -> None:
        self._pending.remove(pod)
        self._nominate(pod, None)

    def _nominate(self, pod: _Pod, node: int | None) -> None:
        if pod.nominated is not None:
            self._world.cluster.reserve(pod.nominated, pod.amounts, -1)
        pod.nominated = node
        if node is not None:
            self._world.cluster.reserve(node, pod.amounts)

    def _note_delay(self, pod: _Pod) -> None:
        self._world.recorder.delays.append((self._world.now - pod.arrived, pod.amounts[0]))

    def close(self) -> None:
        """The simulation is over: who waits has waited until now."""
        for pod in self._pending:
            self._world.recorder.unscheduled += 1
            self._note_delay(pod)

    # --- a place ---

    def _place(self, pod: _Pod) -> int | None:
        """The least allocated of the first nodes with room, beginning where the last search ended."""
        cluster, (cpu, memory, _) = self._world.cluster, pod.amounts
        free_cpu, free_memory, free_pods = cluster.free
        kept_cpu, kept_memory, kept_pods = cluster.reserved
        nodes, count, begin = cluster.nodes, len(cluster.nodes), self._next_node
        best, score, found, last = None, -1.0, 0, begin
        order: Iterable[int] = chain(range(begin, count), range(begin))
        if self._pools:
            order = filter(self._pools.get(pod.spec.pool, frozenset()).__contains__, order)
        for last in order:
            left, left_memory = free_cpu[last] - cpu, free_memory[last] - memory
            if left < kept_cpu[last] or left_memory < kept_memory[last] or free_pods[last] - 1 < kept_pods[last]:
                continue
            found += 1
            mine = left / nodes[last].cpu_milli + left_memory / nodes[last].memory_bytes
            if mine > score:
                best, score = last, mine
            if found >= self._feasible:
                break
        self._next_node = (last + 1) % count if count else 0
        return best

    def retry(self, nodes: Iterable[int]) -> None:
        """Room has come free on nodes: who waits for it takes it."""
        if not self._pending:
            return
        freed = dict.fromkeys(nodes)
        for pod in list(self._pending):
            wanted = (pod.nominated,) if pod.nominated is not None else freed
            for node in wanted:
                if node in freed and self._fits(pod, node):
                    self._bind(pod, node)
                    break

    def _fits(self, pod: _Pod, node: int) -> bool:
        if self._pools and node not in self._pools.get(pod.spec.pool, ()):
            return False
        spare = self._world.cluster.spare(node, pod.amounts)
        if pod.nominated == node:  # what is kept there is kept for itself
            spare = (spare[0] + pod.amounts[0], spare[1] + pod.amounts[1], spare[2] + pod.amounts[2])
        return min(spare) >= 0

    def look_again(self) -> None:
        """Classes may have changed: pods for which nobody had to go before are tried again."""
        failed: list[tuple[str, Amounts]] = []
        for pod in [pod for pod in self._pending if pod.nominated is None]:
            kind = pod.spec.pool
            amounts = [one for pool, one in failed if pool == kind]
            if any(all(mine >= other for mine, other in zip(pod.amounts, one, strict=True)) for one in amounts):
                continue
            if not self._make_room(pod):
                failed.append((kind, pod.amounts))

    # --- victims ---

    def _make_room(self, pod: _Pod) -> bool:
        """Have jobs go for a pod, if there are any whose end makes room for it."""
        found = None
        if self._world.holding:
            self._others.update_classes()
            found = self._victims(pod)
        if found is None:
            self._watcher.on_pending(pod.spec, None)
            return False
        self._nominate(pod, found.index)
        self._watcher.on_pending(pod.spec, found.index)
        broken = found.newly_broken
        self._world.recorder.minimum += self._fewest(found, pod) if broken else 0
        for share in broken:
            self._others.preempt(self._world.by_key[share.key], f"for pod {pod.spec.name}")
        return True

    def _victims(self, pod: _Pod) -> Preemption | None:
        """Whose end makes room at the least loss. Preemptible jobs first: no choice among them is as dear as one that
        takes another."""
        nodes = (node for node, there in enumerate(self._world.on_node) if there and not self._closed(pod, node))
        if self._world.decider.plain:
            return choose_node_by_pods(self._outlook(node, pod) for node in nodes)
        entitled = self._entitled(pod)
        leaving = [node for node in self._world.leaving if not self._closed(pod, node)]
        found = choose_node(self._outlook(node, pod, leaving_only=True) for node in leaving)
        if found is not None:
            return found
        found = choose_node(self._outlook(node, pod) for node in self._promising(pod))
        if found is not None or not (entitled or self._world.settings.full_wait_from):
            return found
        found = choose_node(self._outlook(node, pod, protected_too=True) for node in nodes)
        return found if entitled or (found is not None and self._has_waited(pod, found)) else None

    def _entitled(self, pod: _Pod) -> bool:
        """Whether it may take the place of non-preemptible jobs (waiting.go of the plugin)."""
        long_enough = self._world.now - pod.failed >= ticks(self._world.settings.non_preemptible_wait)
        return pod.spec.interactive or pod.spec.priority >= SYSTEM_CRITICAL or long_enough

    def _has_waited(self, pod: _Pod, found: Preemption) -> bool:
        """Whether it has waited for as long as the unsaved work is worth that is lost for it (bound.go of the plugin).
        Where it has not, it is tried again then."""
        settings, now = self._world.settings, self._world.now
        unsaved = sum(share.seconds for share in found.newly_broken)
        cores = settings.prioritizer.weights.cost({"cpu": pod.amounts[0], "memory": pod.amounts[1]}) / 1000
        wait = wait_for(unsaved, cores, settings.non_preemptible_wait, settings.full_wait_from)
        due = pod.failed + ticks(wait)
        if now >= due:
            return True
        due = max(due, now + SECOND)
        if due < pod.again:
            pod.again = due
            self._world.events.add(due, self._try_again, pod)
        return False

    def _closed(self, pod: _Pod, node: int) -> bool:
        """Whether the pod would not fit if the node were empty, or may not go there."""
        spec = self._world.cluster.nodes[node]
        if spec.pool != pod.spec.pool:
            return True
        return pod.amounts[0] > spec.cpu_milli or pod.amounts[1] > spec.memory_bytes

    def _promising(self, pod: _Pod) -> Iterator[int]:
        """Nodes that may be the cheapest. Jobs are taken by CPU time at risk, least first, until those of one node make
        room; a cheaper choice consists of jobs that have less at risk than these have together."""
        world, freed, limit = self._world, dict[int, list[int]](), float("inf")
        paid: dict[int, float] = {}
        enough: dict[int, None] = {}
        for node in world.leaving:
            for job, count in world.on_node[node].items():
                if job.stage is Stage.LEAVING:
                    _add(freed.setdefault(node, [0, 0, 0]), job.amounts, count)
        for risk, _, job in self._by_risk():
            if risk > limit:
                break
            for node in dict.fromkeys(job.nodes):
                sums = freed.setdefault(node, [0, 0, 0])
                _add(sums, job.amounts, world.on_node[node][job])
                paid[node] = paid.get(node, 0.0) + risk
                if node not in enough and not self._closed(pod, node):
                    spare = world.cluster.spare(node, pod.amounts)
                    if spare[0] + sums[0] < 0 or spare[1] + sums[1] < 0 or spare[2] + sums[2] < 0:
                        continue
                    enough[node] = None
                    limit = min(limit, paid[node] + 2e-3)
        return iter(enough)

    def _by_risk(self) -> list[tuple[float, int, Job]]:
        """The preemptible jobs that stay, by what they have at risk at this moment."""
        now, version = self._world.now, self._world.changes
        if self._ranked is None or self._ranked[:2] != (now, version):
            staying = (job for job in self._world.holding.values() if job.stage is not Stage.LEAVING)
            ranked = [(self._risk(job), job.number, job) for job in staying if job.class_ != NON_PREEMPTIBLE]
            ranked.sort(key=lambda entry: entry[:2])
            self._ranked = (now, version, ranked)
        return self._ranked[2]

    def _risk(self, job: Job) -> float:
        """What the plugin takes for the CPU time at risk of a whole job, in core-seconds: as the prioritizer wrote it,
        or as it estimates it by itself."""
        since, now = self._world.decider.since, self._world.now
        if since is not None:
            return (now - since(job)) / SECOND
        if job.written is not None:
            return float(job.written)
        if job.stage is not Stage.RUNNING:
            return 0.0
        reported = job.reported(now)
        startup_cost = self._world.settings.prioritizer.startup_cost
        return estimated_time_at_risk(job.running_since, reported, now, startup_cost) / SECOND * self._cost(job)

    def _cost(self, job: Job) -> float:
        """What the resources of a whole job count as, in cores."""
        each = {"cpu": job.demand.cpu_milli, "memory": job.demand.memory_bytes}
        return self._world.settings.prioritizer.weights.cost(each) * job.demand.pods / 1000

    def _outlook(self, node: int, pod: _Pod, *, leaving_only: bool = False, protected_too: bool = False) -> NodeOutlook:
        shares = []
        for job, count in self._world.on_node[node].items():
            lost, protected = job.stage is Stage.LEAVING, job.class_ == NON_PREEMPTIBLE
            if (leaving_only and not lost) or (protected and not lost and not protected_too):
                continue
            pods = [(job.amounts, f"{job.key}-{i}") for i in range(count)]
            risk = 0.0 if lost else self._risk(job)
            staying = 0 if lost else count
            shares.append(Share(job.key, risk, lost, protected, pods, staying, job.admitted / SECOND))
        spare = self._world.cluster.spare(node, pod.amounts)
        needed = (max(0, -spare[0]), max(0, -spare[1]), max(0, -spare[2]))
        return NodeOutlook(node, shares, needed, spare)

    def _fewest(self, found: Preemption, pod: _Pod) -> int:
        """The fewest jobs on any node whose end would have made room, at the least: as many as it takes of the largest,
        resource by resource."""
        if len(found.newly_broken) == 1:
            return 1
        best = len(found.newly_broken)
        for node, there in enumerate(self._world.on_node):
            if there and best > 1 and not self._closed(pod, node):
                spare = self._world.cluster.spare(node, pod.amounts)
                best = min(best, max(_largest(there, r, -spare[r]) for r in range(3)) or best)
        return best


def _largest(there: dict[Job, int], resource: int, short: int) -> int:
    """How many of these jobs it takes to end a shortage, the largest first."""
    taken = 0
    for amount in sorted((job.amounts[resource] * count for job, count in there.items()), reverse=True):
        if short <= 0:
            return taken
        short -= amount
        taken += 1
    return taken if short <= 0 else _NO_MORE


def _add(sums: list[int], amounts: Amounts, count: int) -> None:
    for r in range(3):
        sums[r] += amounts[r] * count
