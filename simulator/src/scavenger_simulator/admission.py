"""The admitter: its own view of the cluster, and its own cycles over it."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Protocol

from scavenger_admitter.core.admission.cycle.plan import plan_admissions
from scavenger_admitter.core.admission.load import LoadRule
from scavenger_admitter.core.admission.placement.inputs import PendingPod
from scavenger_admitter.core.admission.running import DEFAULT_INTERVAL, RunningJob
from scavenger_admitter.core.admission.snapshot import Candidate, QueueView
from scavenger_admitter.core.admission.view.object_facts import NOT_STARTED, PodFacts
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_api.levels import LevelsView, Visibility
from scavenger_api.names import DEFAULT_QUEUE, NON_PREEMPTIBLE
from scavenger_api.states import precedence
from scavenger_domain.gang import served_level

from scavenger_simulator.clock import SECOND, moment, stamp, ticks
from scavenger_simulator.jobs import NAMESPACE, Job, Stage
from scavenger_simulator.objects import node_object, shape_of
from scavenger_simulator.result import MomentKind
from scavenger_simulator.scenario import OrdinaryPod
from scavenger_simulator.world import World

_REQUESTS = LoadRule.fixed(100.0, counted_with_candidate=False)
"""Nothing holds a job back but that nodes have no room for what it requests."""


class _Array:
    """The tasks of an array that wait: one place in line, as admission has it.

    Args:
        key: namespace/name of the array.
        least_served: its place is by the CPU time that its tasks have had.
    """

    def __init__(self, key: str, *, least_served: bool) -> None:
        self.key = key
        self.place = 0
        self._least_served = least_served
        self._tasks: dict[int, Job] = {}
        self._waiting: list[tuple[bool, int, Job]] = []

    def wait(self, job: Job) -> None:
        """A task waits: it goes before others where it was interrupted, and then by its index."""
        self._tasks[job.number] = job
        heappush(self._waiting, (not job.places, job.number, job))

    def start(self, count: int, now: int) -> list[Job]:
        """So many tasks start. now: ticks; the next task has its place from then on."""
        self.place = now
        return [heappop(self._waiting)[-1] for _ in range(count)]

    def candidate(self) -> Candidate | None:
        """As a cycle sees it; None where no task waits. While interrupted tasks wait, only these start by its place."""
        if not self._waiting:
            return None
        first = self._waiting[0][-1]
        hit = sum(not calm for calm, _, _ in self._waiting)
        served = None
        if self._least_served:
            served = served_level(sum(job.useful for job in self._tasks.values()), len(self._tasks))
        return Candidate(
            key=self.key,
            uid=f"{first.number:08d}",
            queue=first.demand.queue,
            shape=first.shape,
            interrupted_count=precedence(int(hit > 0), served),
            queued_at=stamp(max(self.place, ticks(first.demand.submitted))),
            tasks=hit or len(self._waiting),
        )


class Admitted(Protocol):
    """Who carries out what a cycle decides."""

    def start(self, job: Job, nodes: tuple[int, ...]) -> None:
        """It starts on these nodes."""

    def reclaim(self, job: Job, why: str) -> None:
        """Its room is taken."""

    def update_classes(self) -> None:
        """A cycle may take room from jobs: their classes are brought up to date."""


class Admission:
    """Keeps the admitter's view of the cluster, and runs its cycles when something changed that may let a job start.

    Args:
        world: everything.
        others: carry out what a cycle decides.
    """

    def __init__(self, world: World, others: Admitted) -> None:
        self._world = world
        self._others = others
        self._state = ClusterState()
        self._numbers = {name: i for i, name in enumerate(world.cluster.names)}
        if len(self._numbers) != len(world.scenario.nodes):
            raise ValueError("two nodes of the scenario have one name")
        for spec in world.scenario.nodes:
            self._state.apply_node(node_object(spec))
        for name, weight in sorted(world.scenario.queues.items()):
            self._state.apply_queue(QueueView(name, weight=weight))
        self._arrays: dict[str, _Array] = {}
        self._view: LevelsView | None = None
        self._planned = False
        self._next = world.start

    # --- cycles ---

    def publish(self) -> None:
        """The regulator has published."""
        self._view = self._world.view
        self.wake()

    def wake(self) -> None:
        """Something changed that may let a job start; coalesced."""
        if self._planned or not self._world.waiting or not self._world.decider.scavenges:
            return
        self._planned = True
        self._world.events.add(self._next, self._cycle, None)

    def _cycle(self, _: None) -> None:
        world = self._world
        now = world.now
        self._planned = False
        rule = self._rule(now)
        if not world.waiting:
            return
        if rule.nothing_starts is not None:  # the levels wake it again
            self._state.turns = ()  # as in a cycle of the admitter, which has no turn kept then
            return
        self._next = now + max(1, ticks(world.settings.admission_interval))
        shared = len({*world.scenario.queues, DEFAULT_QUEUE}) > 1
        if shared:
            self._others.update_classes()
        snapshot = self._state.snapshot(now=stamp(now), rule=rule)
        full = {limit.pool for limit in snapshot.limits if not limit.under()}
        shut = full.issuperset(limit.pool for limit in snapshot.limits)
        if shut and not shared and not snapshot.turns:  # nobody starts, nobody is asked, and no turn ends
            return
        plan = plan_admissions(
            snapshot,
            max_starts_per_cycle=world.settings.max_starts_per_cycle,
            rules=world.settings.preemption,
            patience=None if world.decider.plain else ticks(world.settings.keep_turn_after) or None,
        )
        self._state.turns = plan.turns
        for preemption in plan.preemptions:
            self._others.reclaim(world.by_key[preemption.key], f"queue {preemption.queue} has less than it deserves")
        for start in plan.starts:
            nodes = tuple(self._numbers[name] for name in start.nodes)
            if (array := self._arrays.get(start.key)) is None:
                self._others.start(world.by_key[start.key], nodes)
                continue
            for job, node in zip(array.start(len(nodes), now), nodes, strict=True):
                self._others.start(job, (node,))
            self._line_up(array)
        if plan.truncated:
            self.wake()

    def _rule(self, now: int) -> LoadRule:
        if self._world.decider.plain:
            return _REQUESTS
        view = self._view
        if view is None:
            return LoadRule.blind("the regulator has published nothing yet")
        levels = view.levels
        if view.visibility is Visibility.FRESH and levels is not None and levels.stale(moment(now)):
            return LoadRule.blind("the levels are stale")
        return LoadRule.of(view, stamp(now), counted_with_candidate=self._world.settings.count_candidate)

    # --- jobs (lifecycle.Watcher) ---

    def on_waiting(self, job: Job) -> None:
        """In line, with or without pods that are leaving."""
        plain = self._world.decider.plain
        if job.demand.array and not plain:
            if job.stage is Stage.WAITING:  # else its pod is there
                self._wait_in_array(job)
            return
        self._state.apply_candidate(
            Candidate(
                key=job.key,
                uid=job.uid,
                queue=DEFAULT_QUEUE if plain else job.demand.queue,
                shape=job.shape,
                parallelism=job.demand.pods,
                interrupted_count=0 if plain else job.known_places,
                queued_at=stamp(job.queued_at),
            )
        )
        if job.stage is Stage.WAITING:
            self.wake()

    def _wait_in_array(self, job: Job) -> None:
        key = f"{NAMESPACE}/{job.demand.array}"
        array = self._arrays.get(key)
        if array is None:
            least_served = self._world.settings.interrupted_first == "least-served"
            array = self._arrays[key] = _Array(key, least_served=least_served)
        array.wait(job)
        self._line_up(array)
        self.wake()

    def _line_up(self, array: _Array) -> None:
        candidate = array.candidate()
        if candidate is None:
            self._state.delete_candidate(array.key)
        else:
            self._state.apply_candidate(candidate)

    def on_started(self, job: Job) -> None:
        """Its pods are bound."""
        self._state.delete_candidate(job.key)
        self._apply_pods(job, NOT_STARTED, 0)

    def on_running(self, job: Job) -> None:
        """Its pods run."""
        self._apply_pods(job, stamp(job.running_since) // SECOND, 0)
        self.on_class(job)

    def on_class(self, job: Job) -> None:
        """It runs, and the prioritizer has marked its pods."""
        since = self._world.decider.since
        started = job.running_since if since is None else since(job)
        interval = ticks(job.demand.interruption_after) if since is None else DEFAULT_INTERVAL << 20
        self._state.running.apply(
            RunningJob(
                key=job.key,
                uid=job.uid,
                queue=job.demand.queue,
                parallelism=job.demand.pods,
                preemptible=job.class_ != NON_PREEMPTIBLE,
                priority=None if job.written is None else float(job.written),
                since=stamp(started),
                started=stamp(started),
                interval=max(1, interval),
                interrupted_at=stamp(job.known_interruption) if job.interruptions else 0,
            )
        )

    def on_interrupted(self, job: Job, kind: MomentKind) -> None:
        """Its pods have been told to go."""
        self._apply_pods(job, NOT_STARTED, stamp(job.gone_at))
        if kind is MomentKind.RECLAIMED:
            self._state.running.interrupt(
                job.key,
                stamp(self._world.now),
                job.shape.counted,
                job.demand.pods,
            )
        else:
            self._state.running.delete(job.key)

    def on_gone(self, job: Job) -> None:
        """Its pods are taken off their nodes."""
        for key in job.pod_keys:
            self._state.delete_pod(key)
        if job.stage is not Stage.LEAVING:
            self._state.running.delete(job.key)
        elif job.demand.array and not self._world.decider.plain:
            self._wait_in_array(job)

    def _apply_pods(self, job: Job, started: int, leaves_by: int) -> None:
        names, run = self._world.cluster.names, str(job.admitted)
        requests = job.shape.requests
        for key, node in zip(job.pod_keys, job.nodes, strict=True):
            self._state.apply_pod_facts(
                PodFacts(
                    key=key,
                    uid=f"{key}/{run}",
                    node=names[node],
                    requests=requests,
                    ended=False,
                    job=job.key,
                    queue=job.demand.queue,
                    run=run,
                    leaves_by=leaves_by,
                    started=started,
                )
            )

    # --- ordinary pods ---

    def on_bound(self, pod: OrdinaryPod, node: int) -> None:
        """An ordinary pod has a node."""
        requests = shape_of(pod.cpu_request_milli, pod.memory_request_bytes).requests
        key = f"ordinary/{pod.name}"
        self._state.apply_pod_facts(PodFacts(key, key, self._world.cluster.names[node], requests, ended=False, job=""))

    def on_pending(self, pod: OrdinaryPod, nominated: int | None) -> None:
        """An ordinary pod waits for room; nominated: the node on which it is made."""
        shape = shape_of(pod.cpu_request_milli, pod.memory_request_bytes, pod.pool)
        key = f"ordinary/{pod.name}"
        waits = PendingPod(
            key=key,
            shape=shape,
            nominated="" if nominated is None else self._world.cluster.names[nominated],
            priority=pod.priority,
            created=moment(ticks(pod.arrives)).isoformat(),
        )
        self._state.apply_pod_facts(PodFacts(key, key, "", shape.requests, ended=False, job="", pending=waits))

    def on_left(self, pod: OrdinaryPod) -> None:
        """An ordinary pod is gone."""
        self._state.delete_pod(f"ordinary/{pod.name}")
