"""The prioritizer: its own rounds over the running jobs, and what it writes on their pods.

The service looks every ten seconds, and a second after something has changed. Here a round is computed when somebody is
about to read what it writes, and a new one would be due by then: nobody could tell the difference but by how often the
figures of protected jobs are written anew.
"""

from __future__ import annotations

import sys
from typing import Final, Protocol

from scavenger_api.names import PREEMPTIBLE
from scavenger_api.weights import Weights
from scavenger_prioritizer.core.plan import ClassPlan, PodWrite, plan_classes
from scavenger_prioritizer.core.snapshot import Gang, JobFacts, PodFacts, Share, Snapshot

from scavenger_simulator.clock import stamp, ticks
from scavenger_simulator.jobs import NAMESPACE, Job, Stage
from scavenger_simulator.world import World

NEVER: Final = sys.maxsize


class ClassWatcher(Protocol):
    """Who is told of classes."""

    def on_class(self, job: Job) -> None:
        """Its pods say another class, or another figure, than before."""


class Classes:
    """Keeps the classes of running jobs.

    Args:
        world: everything.
        watcher: is told.
    """

    def __init__(self, world: World, watcher: ClassWatcher) -> None:
        self._world = world
        self._watcher = watcher
        self._at = world.start
        self._published = world.published
        self._gangs: dict[int, tuple[int, Gang]] = {}
        self._written_at: dict[str, int] = {}
        self._exposed_at: dict[str, int] = {}
        self._due = NEVER

    def update(self) -> None:
        """Have the classes as they are at this moment."""
        world = self._world
        due = world.now - self._at >= ticks(world.settings.prioritizer_period) or stamp(world.now) >= self._due
        if world.decider.since is not None or not (due or world.published is not self._published):
            return
        self._at, self._published = world.now, world.published
        view, cluster = world.view, world.cluster
        plan = plan_classes(
            Snapshot(
                now=stamp(world.now),
                share=Share.of(view),
                shares={name: Share.of(pool) for name, pool in view.pools.items()},
                pool_of={
                    name: pool for name, pool in zip(cluster.names, cluster.pools, strict=True) if pool in view.pools
                },
                gangs=self._current(),
                rules=world.settings.prioritizer,
                budgets={NAMESPACE: True},
                written_at=self._written_at,
                exposed_at=self._exposed_at,
            )
        )
        self._due = NEVER if plan.due is None else plan.due
        self._carry_out(plan)

    def _current(self) -> list[Gang]:
        """The running jobs; facts are made anew where something has changed."""
        now, weights = self._world.now, self._world.settings.prioritizer.weights
        gangs: dict[int, tuple[int, Gang]] = {}
        for number, job in self._world.holding.items():
            if job.stage is not Stage.RUNNING:
                continue
            if job.next_report <= now:
                job.note_report(now)
            known = self._gangs.get(number)
            if known is None or known[0] != job.changes:
                names = self._world.cluster.names
                known = (job.changes, _gang(job, job.reported(now), weights, [names[node] for node in job.nodes]))
            gangs[number] = known
        self._gangs = gangs
        self._written_at = {key: at for key, at in self._written_at.items() if self._world.by_key[key].holds_room}
        return [gang for _, gang in gangs.values()]

    def _carry_out(self, plan: ClassPlan) -> None:
        world = self._world
        for write in (*plan.protect, *plan.unprotect, *plan.refresh):
            self._write(write, plan.now)
        if plan.changes:
            world.changes += 1

    def _write(self, write: PodWrite, now: int) -> None:
        job = self._world.by_key[f"{NAMESPACE}/{write.pod.job}"]
        if write.class_ is not None:
            job.class_ = write.class_
            if write.class_ == PREEMPTIBLE:
                self._exposed_at[job.key] = now
        job.changes += 1
        if write.priority is not None:
            job.written = write.priority
            self._written_at[job.key] = now
        self._watcher.on_class(job)


def _gang(job: Job, reported: int | None, weights: Weights, nodes: list[str]) -> Gang:
    """What the prioritizer sees of a running job. nodes: of its pods."""
    demand, run = job.demand, f"{job.demand.name}-{job.admitted}"
    facts = JobFacts(
        namespace=NAMESPACE,
        name=demand.name,
        uid=job.uid,
        phase="Running",
        interval=max(1, ticks(demand.interruption_after)),
        run=run,
        parallelism=demand.pods,
        started=stamp(job.running_since),
        interruptions=job.known_places,
    )
    checkpoint = None if reported is None else stamp(reported)
    cost = weights.cost({"cpu": demand.cpu_milli, "memory": demand.memory_bytes})
    pods = tuple(
        PodFacts(
            namespace=NAMESPACE,
            name=key,
            uid=key,
            cost=cost,
            job=demand.name,
            run=run,
            node=node,
            started=stamp(job.running_since),
            index=index,
            checkpoint=checkpoint,
            class_=job.class_ or PREEMPTIBLE,
            written=job.written,
        )
        for index, (key, node) in enumerate(zip(job.pod_keys, nodes, strict=True))
    )
    return Gang(facts, pods)
