"""The life of a job: submitted, started, running, interrupted, done. What is decided elsewhere is carried out here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from scavenger_domain.gang import served_level, short_run

from scavenger_simulator.accounts import settle_run
from scavenger_simulator.clock import ticks
from scavenger_simulator.jobs import NEVER, Job, Stage, whole_second
from scavenger_simulator.result import MomentKind
from scavenger_simulator.world import World


class Watcher(Protocol):
    """Who is told where jobs stand, as the informers of a service would show it."""

    def on_waiting(self, job: Job) -> None:
        """In line, with or without pods that are leaving."""

    def on_started(self, job: Job) -> None:
        """Its pods are bound."""

    def on_running(self, job: Job) -> None:
        """Its pods run."""

    def on_interrupted(self, job: Job, kind: MomentKind) -> None:
        """Its pods have been told to go."""

    def on_gone(self, job: Job) -> None:
        """Its pods are about to be taken off their nodes."""

    def on_freed(self, nodes: Iterable[int]) -> None:
        """Room came free on these nodes."""


class Lifecycle:
    """Moves jobs from stage to stage.

    Args:
        world: everything.
        watcher: is told.
    """

    def __init__(self, world: World, watcher: Watcher) -> None:
        self._world = world
        self._watcher = watcher

    def submit(self, job: Job) -> None:
        """A job is created."""
        job.stage = Stage.WAITING
        self._world.waiting += 1
        self._watcher.on_waiting(job)

    def start(self, job: Job, nodes: tuple[int, ...]) -> None:
        """A job is admitted: its pods are bound, and run a little later."""
        now = self._world.now
        job.starts(now, nodes)
        self._world.waiting -= 1
        self._world.place(job)
        self._watcher.on_started(job)
        at = whole_second(now + ticks(self._world.settings.start_seconds))
        self._world.events.add(at, self._run, (job, job.version))

    def _run(self, run: tuple[Job, int]) -> None:
        job, version = run
        if job.version != version or job.stage is not Stage.STARTING:
            return
        world, now = self._world, self._world.now
        job.runs_from(now)
        world.set_use(job, job.used(now))
        ramp = ticks(job.demand.ramp_up.seconds)
        if ramp > 0:
            world.events.add(now + ramp, self._ramped_up, run)
        world.events.add(job.done_at(), self._complete, run)
        self._watcher.on_running(job)
        world.recorder.note(now, MomentKind.STARTED, job)

    def _ramped_up(self, run: tuple[Job, int]) -> None:
        job, version = run
        if job.version == version and job.holds_room:
            self._world.set_use(job, job.used(self._world.now))

    def _complete(self, run: tuple[Job, int]) -> None:
        job, version = run
        if job.version != version or job.stage is not Stage.RUNNING:
            return
        now = self._world.now
        self._settle(job, kept=True)
        job.saved, job.finished = job.work, now
        self._world.recorder.note(now, MomentKind.COMPLETED, job)
        self._take_off(job)
        job.stage, job.next_report = Stage.DONE, NEVER

    def interrupt(self, job: Job, kind: MomentKind, why: str) -> bool:
        """A job has to go, all of it. False where it is not there to go: gone, or leaving already."""
        if job.stage not in (Stage.STARTING, Stage.RUNNING):
            return False
        world, now, ran = self._world, self._world.now, job.stage is Stage.RUNNING
        lost = 0.0
        if ran:
            lost = self._settle(job, kept=False)
            job.saved = job.safe_work(now)
            job.interruptions += 1
            interval, trusted = ticks(job.demand.interruption_after), world.settings.preemption.trusted
            had_turn = world.settings.interrupted_first == "short-runs" and not short_run(
                job.running_since, interval, now, trusted
            )
            job.places = 0 if had_turn else job.places + 1
            job.waits_since = now
        least_served = world.settings.interrupted_first == "least-served"
        if least_served:
            job.served = served_level(job.useful)
        # A place in line that it never had before, also where it is interrupted in the moment of its start.
        job.queued_at = job.queued_at + 1 if ran and least_served else max(now, job.queued_at + 1)
        job.gone_at = now + ticks(job.demand.grace_seconds)
        job.version += 1
        job.stage, job.next_report = Stage.LEAVING, NEVER
        job.changes += 1
        world.waiting += 1
        world.count_leaving(job, +1)
        world.recorder.note(now, kind, job, why, lost)
        self._watcher.on_interrupted(job, kind)
        self._watcher.on_waiting(job)
        world.events.add(job.gone_at, self._leave, (job, job.version))
        return True

    def _leave(self, run: tuple[Job, int]) -> None:
        job, version = run
        if job.version == version and job.stage is Stage.LEAVING:
            self._take_off(job)
            job.stage = Stage.WAITING

    def _take_off(self, job: Job) -> None:
        nodes = job.nodes
        self._watcher.on_gone(job)
        self._world.set_use(job, (0, 0))
        self._world.remove(job)
        self._watcher.on_freed(nodes)

    def _settle(self, job: Job, *, kept: bool) -> float:
        spent = settle_run(job, self._world.now, kept=kept)
        job.useful += spent.useful
        job.lost += spent.lost
        return spent.lost

    def close(self) -> None:
        """The simulation is over: what runs counts as kept, and who waits has waited until now."""
        now = self._world.now
        for job in self._world.jobs:
            if job.stage is Stage.RUNNING:
                self._settle(job, kept=True)
                job.saved = min(job.work, job.saved + job.computed(now))
            elif job.stage in (Stage.WAITING, Stage.STARTING, Stage.LEAVING):
                waited = now - job.waits_since
                job.waited += waited
                job.longest_wait = max(job.longest_wait, waited)
