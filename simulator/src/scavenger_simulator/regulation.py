"""The regulator: its own periods, on figures as old and as averaged as the metrics API has them."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from datetime import datetime
from itertools import compress
from typing import Final, Protocol

from scavenger_api.evictions import EvictionReason
from scavenger_api.names import NON_PREEMPTIBLE
from scavenger_domain.nodes import PLAIN_POOL
from scavenger_regulator.core.history import History
from scavenger_regulator.core.learning import learn, learned
from scavenger_regulator.core.level_policies import levels_of
from scavenger_regulator.core.metrics.metric import RESOURCES
from scavenger_regulator.core.plan import Decision, regulate
from scavenger_regulator.core.rises import BUCKET, RisesByScope, learn_requests, likely
from scavenger_regulator.core.scope import ScopeDecision, after_evictions
from scavenger_regulator.core.snapshot import (
    CLUSTER,
    POOL,
    Figure,
    Figures,
    Gang,
    Measurement,
    NodeFacts,
    PodFacts,
    RecentTermination,
    Snapshot,
    of_pool,
)
from scavenger_regulator.core.state import ScopeState

from scavenger_simulator.clock import SECOND, moment, ticks
from scavenger_simulator.jobs import Job, Stage
from scavenger_simulator.objects import INSTANCE_TYPE, labels_of
from scavenger_simulator.result import MomentKind, Point, PoolPoint, ResourcePoint
from scavenger_simulator.scenario import Scenario
from scavenger_simulator.world import World

FULL: Final = 95.0
"""Percent of its CPU from which a node counts as full: what runs there gets less than it would use."""

_GUARD: Final = 0.1
"""Points by which figures may be off that were rounded."""

_KINDS: Final = {EvictionReason.ABOVE_UPPER: MomentKind.EVICTED, EvictionReason.YIELD: MomentKind.YIELDED}


class Regulated(Protocol):
    """Who carries out what a period decides."""

    def publish(self) -> None:
        """The levels are published."""

    def evict(self, job: Job, kind: MomentKind, why: str) -> bool:
        """It has to go; tells whether it does."""
        ...

    def update_classes(self) -> None:
        """Victims may be chosen: classes are brought up to date."""


class Regulation:
    """Measures, decides, publishes and has jobs evicted, period by period.

    Args:
        world: everything.
        others: carry out what a period decides.
    """

    def __init__(self, world: World, others: Regulated) -> None:
        self._world = world
        self._others = others
        self._rules = world.decider.rules
        self._period, self._window = ticks(self._rules.period), ticks(world.settings.metrics_period)
        nodes = world.scenario.nodes
        room = [{"cpu": node.cpu_milli / 1000, "memory": float(node.memory_bytes)} for node in nodes]
        self._nodes = {
            node.name: NodeFacts(
                node.name,
                amounts,
                amounts,
                counts=True,
                pool=pool,
                levels=levels_of(world.settings.level_policies, labels_of(node)),
            )
            for node, amounts, pool in zip(nodes, room, world.cluster.pools, strict=True)
        }
        self._sizes = [labels_of(node)[INSTANCE_TYPE] for node in nodes]
        self._cpu = [node.cpu_milli for node in nodes]
        self._full_from = [FULL * cpu for cpu in self._cpu]
        # The load of a pool is that of its nodes.
        self._by_node = self._rules.per_node or world.cluster.pooled
        self._states: dict[str, ScopeState] = {}
        self._histories: dict[str, dict[str, History]] = {}
        self._rises: RisesByScope = {}
        self._gangs: dict[int, tuple[int, Gang]] = {}
        self._gone: list[RecentTermination] = []
        self._begun: deque[tuple[int, list[int]]] = deque()
        self._taken: deque[tuple[int, int, Measurement]] = deque()
        self._measured = Measurement(failed="nothing has been measured yet")
        self._last: ScopeDecision | None = None
        if self._period <= 0 or self._window <= 0:
            raise ValueError("the periods of the regulator and of the metrics must be more than nothing")
        world.settings.check()
        if self._rules.kept_room and not world.cluster.pooled:
            learn_past(self._rises, world.scenario)
        self._age = ticks(world.settings.metrics_age)
        old = self._age + self._window
        first = max(1, math.ceil(old / self._period))
        world.events.add(world.start + first * self._period - old, self._begin_average, None)
        world.events.add(world.start + self._period, self._tick, None)

    # --- measuring ---

    def _begin_average(self, _: None) -> None:
        """Of a measurement that a period will look at. Another one may be under way, and not looked at yet."""
        now, events = self._world.now, self._world.events
        self._begun.append((now, self._spent()))
        events.add(now + self._window, self._scrape, None)
        events.add(now + self._period, self._begin_average, None)

    def _spent(self) -> list[int]:
        """CPU time up to now: of the cluster, or of each node where nodes or pools have levels of their own."""
        now, cluster = self._world.now, self._world.cluster
        if self._by_node:
            return [use.spent(now) for use in cluster.by_node]
        return [cluster.ordinary.spent(now) + cluster.jobs.spent(now)]

    def _scrape(self, _: None) -> None:
        """CPU as an average since the last time, memory as it is. A pod that has run for less has no figure yet."""
        now, cluster = self._world.now, self._world.cluster
        if not self._begun or self._begun[0][0] + self._window > now:
            return  # done by the period of the same moment
        since, before = self._begun.popleft()
        at, span = moment(now), self._window
        cores = [(spent - old) / span / 1000 for spent, old in zip(self._spent(), before, strict=True)]
        pods = self._pods(since, at, span)
        if self._by_node:
            nodes = {
                name: self._figures(cpu, use.memory, at, span)
                for name, cpu, use in zip(cluster.names, cores, cluster.by_node, strict=True)
            }
            measured = Measurement(nodes=nodes, pods=pods)
        else:
            total = self._figures(cores[0], cluster.ordinary.memory + cluster.jobs.memory, at, span)
            measured = Measurement(pods=pods, total=total)
        self._taken.append((now + self._age, since, measured))

    def _look(self) -> None:
        """At the measurement that is as old as figures are."""
        self._scrape(None)
        while self._taken and self._taken[0][0] <= self._world.now:
            _, since, self._measured = self._taken.popleft()
            self._gone = [gone for gone in self._gone if gone.at > moment(since)]

    def _figures(self, cores: float, memory: float, at: datetime, span: int) -> dict[str, Figure]:
        window = span / SECOND
        return {"cpu": Figure(cores, at, window), "memory": Figure(float(memory), at, window)}

    def _pods(self, since: int, at: datetime, span: int) -> dict[str, Figures]:
        found: dict[str, Figures] = {}
        alike: dict[tuple[int, int], Figures] = {}
        for job in self._world.holding.values():
            if job.runs and job.stage is not Stage.STARTING and job.running_since <= since:
                figures = alike.get(job.use)
                if figures is None:
                    figures = alike[job.use] = self._figures(job.use[0] / 1000, job.use[1], at, span)
                for uid in job.pod_uids:
                    found[uid] = figures
        return found

    def on_gone(self, job: Job) -> None:
        """The pods of a job are taken off their nodes; their use is in the figures for a while."""
        self._gangs.pop(job.number, None)
        if job.use == (0, 0):
            return
        names, at = self._world.cluster.names, moment(self._world.now)
        use = {"cpu": job.use[0] / 1000, "memory": float(job.use[1])}
        self._gone.extend(RecentTermination(names[node], use, at) for node in job.nodes)

    # --- deciding ---

    def _tick(self, _: None) -> None:
        world = self._world
        self._look()
        if self._may_evict():
            self._others.update_classes()
        snapshot = self._snapshot()
        decision = regulate(snapshot, self._states, self._rules)
        self._states = decision.states
        self._last = decision.scopes[CLUSTER]
        world.published = decision.published
        self._record(decision)
        learn(self._histories, decision.scopes, world.settings.history_window)
        learn_requests(self._rises, decision.regular, snapshot.now)
        self._others.publish()
        if not world.decider.plain:
            self._act(decision, snapshot)
        world.events.add(world.now + self._period, self._tick, None)

    def _may_evict(self) -> bool:
        """Whether classes may be looked at in this period: only where jobs are evicted, or yield at the admission
        level, which may have moved by a step."""
        last, measured = self._last, self._measured.total
        if last is None or last.next_state.evicting or last.next_state.yielding:
            return True
        if not measured or not self._rules.step > 0 or not last.levels:
            return True
        load = self._world.cluster.percent((1000 * measured["cpu"].value, measured["memory"].value))
        return any(
            load[i] >= last.levels[resource].admission - self._rules.step - _GUARD
            for i, resource in enumerate(RESOURCES)
        )

    def _snapshot(self) -> Snapshot:
        world = self._world
        return Snapshot(
            now=moment(world.now),
            started=moment(world.start),
            nodes=self._nodes,
            gangs=self._current(),
            measurement=self._measured,
            recent_terminations=tuple(self._gone),
            history=learned(self._histories),
            regular=self._regular() if self._rules.kept_room else None,
            rises=likely(self._rises, moment(world.now)),
        )

    def _regular(self) -> dict[str, dict[str, float]]:
        """What ordinary pods request on each node, in cores and bytes."""
        cluster = self._world.cluster
        amounts = zip(cluster.names, *cluster.regular, strict=True)
        return {name: {"cpu": cpu / 1000, "memory": float(memory)} for name, cpu, memory in amounts}

    def _current(self) -> tuple[Gang, ...]:
        """The jobs with pods on nodes; facts are made anew where something has changed."""
        now, gangs, found = self._world.now, self._gangs, []
        for number, job in self._world.holding.items():
            if job.next_report <= now:
                job.note_report(now)
            known = gangs.get(number)
            if known is None or known[0] != job.changes:
                known = gangs[number] = (job.changes, self._gang(job))
            found.append(known[1])
        return tuple(found)

    def _gang(self, job: Job) -> Gang:
        demand, names, since = job.demand, self._world.cluster.names, self._world.decider.since
        running = job.stage is Stage.RUNNING
        reported = job.reported(self._world.now) if running else None
        requests = {"cpu": demand.cpu_milli / 1000, "memory": float(demand.memory_bytes)}
        ran = job.stage is not Stage.STARTING and job.use != (0, 0)
        started = None
        if running:
            started = moment(job.running_since if since is None else min(job.running_since, since(job)))
        pods = tuple(
            PodFacts(
                key=key,
                uid=uid,
                node=names[node],
                requests=requests,
                preemptible=job.class_ != NON_PREEMPTIBLE,
                running_since=moment(job.running_since) if ran else None,
                started=moment(job.running_since) if ran else None,
                deletion_deadline=moment(job.gone_at) if job.stage is Stage.LEAVING else None,
                checkpoint=None if reported is None else moment(reported),
                index=index,
                grace=demand.grace_seconds,
            )
            for index, (key, uid, node) in enumerate(zip(job.pod_keys, job.pod_uids, job.nodes, strict=True))
        )
        return Gang(
            job.key,
            job.uid,
            pods,
            interval=demand.interruption_after,
            cores=demand.cpu_milli / 1000,
            running=running,
            started=started,
            interruptions=job.known_places,
            returned=job.interruptions > 0,
            parallelism=demand.pods,
        )

    # --- acting ---

    def _act(self, decision: Decision, snapshot: Snapshot) -> None:
        now, world = snapshot.now, self._world
        planned = {v.scope for v in decision.victims if v.reason is EvictionReason.ABOVE_UPPER and of_pool(v.scope)}
        for scope in planned:
            world.recorder.minimum += self._fewest(decision, scope)
        done = []
        for victim in decision.victims:
            job = world.by_key[victim.candidate.gang.key]
            where = f" on {victim.scope}" if victim.scope != CLUSTER else ""
            if self._others.evict(job, _KINDS[victim.reason], f"{victim.reason.value}{where}"):
                done.append(victim)
        self._states = after_evictions(self._states, done, now, self._rules)

    def _fewest(self, decision: Decision, scope: str) -> int:
        """The fewest jobs that would have closed the gaps of a pool, at the least: as many as it takes of those
        there that use most."""
        plan, cluster = decision.scopes[scope].plan, self._world.cluster
        if plan is None:
            return 0
        fewest = 0
        there = [decision.pool_of.get(name, CLUSTER) == scope for name in cluster.names]
        cores = sum(node.cpu_milli for node, here in zip(cluster.nodes, there, strict=True) if here)
        memory = sum(node.memory_bytes for node, here in zip(cluster.nodes, there, strict=True) if here)
        running = [job for job in self._world.holding.values() if job.stage is Stage.RUNNING]
        staying = [(job, count) for job in running if (count := sum(there[node] for node in job.nodes))]
        for i, resource in enumerate(RESOURCES):
            gap = plan.gaps.get(resource, 0.0) - plan.short.get(resource, 0.0)
            room = (cores, memory)[i]
            needed = 0
            for use in sorted((job.use[i] * count for job, count in staying), reverse=True):
                if gap <= 1e-6:
                    break
                gap -= 100.0 * use / room
                needed += 1
            fewest = max(fewest, needed)
        return fewest

    def _record(self, decision: Decision) -> None:
        world, decided = self._world, decision.scopes[CLUSTER]
        used = [100 * use.cpu for use in world.cluster.by_node]
        running = [job.millicores for job in world.holding.values() if job.stage is Stage.RUNNING]
        seen = self._seen(decision)
        default = seen.pop(CLUSTER)
        names = {}
        if seen:
            pools = (node.pool or PLAIN_POOL for node in world.cluster.nodes)
            names = dict(zip(world.cluster.pools, pools, strict=True))
        world.recorder.note_period(
            Point(
                at=world.now / SECOND,
                cpu=default.cpu,
                memory=default.memory,
                percentage=decided.percentage,
                state=decided.state.value,
                admit=decided.admit,
                running=len(running),
                waiting=world.waiting,
                running_cores=sum(running) / 1000,
                pools={names[scope.removeprefix(POOL)]: point for scope, point in sorted(seen.items())},
            ),
            self._nodes_above(decision, used),
            self._full(used),
        )

    def _seen(self, decision: Decision) -> dict[str, PoolPoint]:
        """What was seen and said of each pool, by its scope."""
        cluster = self._world.cluster
        if not cluster.pooled:
            with_jobs, ordinary = cluster.percent(cluster.jobs), cluster.percent(cluster.ordinary)
            loads = [(one + other, one) for one, other in zip(ordinary, with_jobs, strict=True)]
            return {CLUSTER: self._point(decision.scopes[CLUSTER], loads)}
        scope_of = [decision.pool_of.get(name, CLUSTER) for name in cluster.names]
        room, used, jobs = ({scope: [0, 0] for scope in decision.pools} for _ in range(3))
        for scope, node, use in zip(scope_of, cluster.nodes, cluster.by_node, strict=True):
            _add(room[scope], (node.cpu_milli, node.memory_bytes))
            _add(used[scope], (use.cpu, use.memory))
        for job in self._world.holding.values():
            for number in job.nodes:
                _add(jobs[scope_of[number]], job.use)
        found = {}
        for scope, decided in decision.pools.items():
            amounts = zip(used[scope], jobs[scope], room[scope], strict=True)
            loads = [(100.0 * all_ / most, 100.0 * (all_ - of_jobs) / most) for all_, of_jobs, most in amounts]
            found[scope] = self._point(decided, loads)
        return found

    def _point(self, decided: ScopeDecision, loads: Sequence[tuple[float, float]]) -> PoolPoint:
        """Of a pool. loads: of CPU and memory, with jobs and without."""
        points = []
        for (load, ordinary), resource in zip(loads, RESOURCES, strict=True):
            levels = decided.levels.get(resource, self._rules.initial)
            points.append(ResourcePoint(load, ordinary, levels.lower, levels.admission, levels.upper))
        return PoolPoint(points[0], points[1], decided.state.value, decided.admit)

    def _nodes_above(self, decision: Decision, used: Sequence[int]) -> int:
        """Nodes whose CPU is used up to an upper level: their own where they have one, else that of the cluster. used:
        hundredths of a millicore by node."""
        cluster, initial = self._world.cluster, self._rules.initial
        upper = {scope: decided.levels.get("cpu", initial).upper for scope, decided in decision.scopes.items()}
        if len(upper) == 1:
            most = upper[CLUSTER]
            return sum([cpu >= most * room for cpu, room in zip(used, self._cpu, strict=True)])
        pools = [upper[decision.pool_of.get(name, CLUSTER)] for name in cluster.names]
        limits = [upper.get(name, pool) for name, pool in zip(cluster.names, pools, strict=True)]
        nodes = zip(used, limits, self._cpu, strict=True)
        return sum([cpu >= most * room for cpu, most, room in nodes])

    def _full(self, used: Sequence[int]) -> Counter[str]:
        """Nodes without idle CPU, by their size. used: as above."""
        full = [cpu >= most for cpu, most in zip(used, self._full_from, strict=True)]
        return Counter(compress(self._sizes, full))


def learn_past(rises: RisesByScope, scenario: Scenario) -> None:
    """Take in what the ordinary pods requested that had left before the scenario starts: at each moment at which that
    changed, and at the beginning of each bucket."""
    changes: dict[float, list[int]] = {}
    for pod in scenario.past:
        for at, times in ((pod.arrives, 1), (pod.leaves, -1)):
            sums = changes.setdefault(at, [0, 0])
            _add(sums, (times * pod.cpu_request_milli, times * pod.memory_request_bytes))
    if not changes:
        return
    first, last = math.ceil(min(changes) / BUCKET), math.ceil(scenario.start / BUCKET)
    for number in range(first, last):
        changes.setdefault(number * BUCKET, [0, 0])
    requested = [0, 0]
    for at in sorted(at for at in changes if at < scenario.start):
        _add(requested, (changes[at][0], changes[at][1]))
        amounts = {"cpu": requested[0] / 1000, "memory": float(requested[1])}
        learn_requests(rises, {CLUSTER: amounts}, moment(ticks(at)))


def _add(sums: list[int], amounts: tuple[int, int]) -> None:
    sums[0] += amounts[0]
    sums[1] += amounts[1]
