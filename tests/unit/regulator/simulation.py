"""A small cluster in memory, for the regulator to be let loose on: real use, measured with a lag, and pods that take
their time to leave. Nothing here knows how the regulator decides."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from scavenger_admitter.admission_loop import load_rule
from scavenger_admitter.core.admission.load import LoadLimit
from scavenger_admitter.settings import AdmitterSettings
from scavenger_api.evictions import EvictionReason
from scavenger_api.levels import LevelsView, PublishedLevels
from scavenger_api.times import micros
from scavenger_regulator.core.plan import Decision, regulate
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.scope import Victim, after_evictions
from scavenger_regulator.core.snapshot import (
    CLUSTER,
    Figure,
    Gang,
    Measurement,
    NodeFacts,
    PodFacts,
    RecentTermination,
    Snapshot,
)
from scavenger_regulator.core.state import ScopeState, dump_states, load_states

from .builders import GIB, NOW

CORES = 100.0
MEMORY = 1000 * GIB


@dataclass
class Job:
    """Asks for `cpu` cores and `memory` bytes, all of its pods together, and uses them until it has gone; in the first
    `ramp` seconds a tenth of the cores."""

    name: str
    cpu: float
    memory: float
    pods: int = 1
    preemptible: bool = True
    measured: bool = True
    started: float = -600.0
    refused: bool = False
    leaving_at: float | None = None
    gone_at: float | None = None
    ramp: float = 0.0
    checkpoint: float | None = None
    interruptions: int = 0

    def use(self, at: float) -> tuple[float, float]:
        gone = self.gone_at is not None and at >= self.gone_at
        if gone or at < self.started:
            return 0.0, 0.0
        return self.cpu / 10 if at < self.started + self.ramp else self.cpu, self.memory


@dataclass
class World:
    """full: whether more CPU may be wanted than there is; jobs have what they ask for, and ordinary workloads the
    rest, as kubelets weigh them by their requests. lag: seconds between what is and what the metrics say. grace: how
    long an evicted pod goes on as before. labels: whether somebody makes jobs preemptible as published, those with the
    least at risk first. behind: seconds by which the regulator's clock is. ordinary: cores and bytes of ordinary
    workloads at a second."""

    jobs: list[Job]
    ordinary: Callable[[float], tuple[float, float]]
    rules: Rules = field(default_factory=Rules)
    lag: float = 15.0
    window: float = 15.0
    grace: float = 30.0
    metrics: Callable[[float], bool] = lambda _: True
    labels: bool = False
    behind: float = 0.0
    full: bool = False
    clock: float = 0.0
    started: float = -86_400.0
    states: dict[str, ScopeState] = field(default_factory=dict)
    refused: dict[str, float] = field(default_factory=dict)
    decisions: list[tuple[float, Decision]] = field(default_factory=list)
    evictions: list[tuple[float, Job, EvictionReason]] = field(default_factory=list)

    def time(self, seconds: float | None = None) -> datetime:
        return NOW + timedelta(seconds=self.clock if seconds is None else seconds)

    def own_time(self, seconds: float | None = None) -> datetime:
        """By the regulator's clock."""
        return self.time(seconds) - timedelta(seconds=self.behind)

    def load(self, at: float | None = None) -> tuple[float, float]:
        """What is wanted, in percent."""
        cpu, memory = self.use(self.clock if at is None else at, capped=False)
        return 100 * cpu / CORES, 100 * memory / MEMORY

    def use(self, at: float, *, capped: bool = True) -> tuple[float, float]:
        cpu, memory = self.ordinary(at)
        for job in self.jobs:
            more = job.use(at)
            cpu, memory = cpu + more[0], memory + more[1]
        return (min(CORES, cpu) if self.full and capped else cpu), memory

    # --- what the regulator is shown ---

    def snapshot(self) -> Snapshot:
        now = self.own_time()
        room = {"cpu": CORES, "memory": MEMORY}
        gone = [j for j in self.jobs if j.gone_at is not None and self.started <= j.gone_at <= self.clock]
        return Snapshot(
            now=now,
            started=self.own_time(self.started),
            nodes={"node-1": NodeFacts("node-1", room, room, counts=True)},
            gangs=tuple(self._gang(job) for job in self.jobs if job.gone_at is None or job.gone_at > self.clock),
            measurement=self._measurement(),
            recent_terminations=tuple(
                RecentTermination("node-1", {"cpu": j.cpu, "memory": j.memory}, self.own_time(j.gone_at)) for j in gone
            ),
            refused=frozenset(uid for uid, until in self.refused.items() if until > self.clock),
        )

    def _measurement(self) -> Measurement:
        if not self.metrics(self.clock):
            return Measurement(failed="no metrics")
        taken = self.clock - self.lag
        # an average over the window: half of it before, half after its middle is near enough
        early, late = self.use(taken - self.window), self.use(taken)
        average = {"cpu": (early[0] + late[0]) / 2, "memory": (early[1] + late[1]) / 2}
        pods = {}
        for job in self.jobs:
            use, before = job.use(taken), job.use(taken - self.window)
            if job.measured and use != (0.0, 0.0):
                use = (use[0] + before[0]) / 2, use[1]
                figures = {"cpu": use[0] / job.pods, "memory": use[1] / job.pods}
                for i in range(job.pods):
                    pods[f"lab/{job.name}-{i}"] = self._figures(figures, taken)
        return Measurement({"node-1": self._figures(average, taken)}, pods)

    def _figures(self, values: Mapping[str, float], taken: float) -> dict[str, Figure]:
        return {r: Figure(value, self.time(taken), self.window) for r, value in values.items()}

    def _gang(self, job: Job) -> Gang:
        leaving = None if job.leaving_at is None else self.time(job.leaving_at + self.grace)
        pods = tuple(
            PodFacts(
                key=f"lab/{job.name}-{i}",
                uid=f"pod-{job.name}-{i}",
                node="node-1",
                requests={"cpu": job.cpu / job.pods, "memory": job.memory / job.pods},
                preemptible=job.preemptible,
                running_since=self.time(job.started),
                deletion_deadline=leaving,
                grace=self.grace,
            )
            for i in range(job.pods)
        )
        return Gang(
            f"lab/{job.name}",
            f"uid-{job.name}",
            pods,
            1800.0,
            job.cpu,
            running=True,
            started=self.time(job.started),
            checkpoint=None if job.checkpoint is None else self.time(job.checkpoint),
            interruptions=job.interruptions,
            returned=job.interruptions > 0,
        )

    # --- what the regulator does ---

    def tick(self) -> Decision:
        """One period: decide, evict, remember; then time passes."""
        decision = regulate(self.snapshot(), self.states, self.rules)
        self.decisions.append((self.clock, decision))
        self.states = decision.states
        done = [victim for victim in decision.victims if self._evict(victim)]
        self.states = after_evictions(self.states, done, self.own_time(), self.rules)
        if self.labels:
            self._label(decision.published.preemptible_percentage)
        self.clock += self.rules.period
        return decision

    def admit(self, published: PublishedLevels, waiting: Job, lasts: float) -> None:
        """Jobs of this kind wait without end: start as many as the admitter's load rule lets in."""
        now = micros(self.time())
        rule = load_rule(LevelsView.of(published.to_data(), self.time()), AdmitterSettings(), now)
        if rule.shut is not None or rule.load_ppm is None or rule.observed_at is None:
            return
        unseen = sum(job.cpu for job in self.jobs if micros(self.time(job.started)) >= rule.observed_at)
        load, admission = dict(rule.load_ppm)["cpu"], dict(rule.admission_ppm)["cpu"]
        limit = LoadLimit("cpu", round(1000 * CORES), round(1000 * unseen), load, admission)
        while limit.under(round(1000 * waiting.cpu)):
            limit = limit.plus(round(1000 * waiting.cpu))
            name = f"{waiting.name}-{len(self.jobs)}"
            self.jobs.append(replace(waiting, name=name, started=self.clock, gone_at=self.clock + lasts))

    def _label(self, percentage: float | None) -> None:
        running = [job for job in self.jobs if job.leaving_at is None]
        running.sort(key=lambda job: job.cpu * ((self.clock - job.started) % 1800))
        for rank, job in enumerate(running):
            job.preemptible = percentage is None or rank < math.ceil(len(running) * percentage / 100)

    def _evict(self, victim: Victim) -> bool:
        job = next(j for j in self.jobs if f"uid-{j.name}" == victim.candidate.gang.uid)
        assert job.leaving_at is None, "evicted twice"
        if job.refused:
            self.refused[victim.candidate.gang.uid] = self.clock + 300
            return False
        job.leaving_at, job.gone_at = self.clock, self.clock + self.grace
        self.evictions.append((self.clock, job, victim.reason))
        return True

    def restart(self, *, forget: bool = False, down: float = 0.0) -> None:
        """The process ends and a new one starts `down` seconds later, with or without what was written down."""
        text = None if forget else dump_states(self.states)
        self.clock += down
        self.started = self.clock
        self.states = load_states(text, self.own_time(), self.rules.cooldown)
        self.refused = {}

    def run(self, ticks: int) -> None:
        for _ in range(ticks):
            self.tick()

    @property
    def state(self) -> str:
        return self.decisions[-1][1].scopes[CLUSTER].state.value


def steady(cpu: float, memory: float = 100 * GIB) -> Callable[[float], tuple[float, float]]:
    return lambda _: (cpu, memory)


def rising(to: float, at: float = 0.0, base: float = 20.0) -> Callable[[float], tuple[float, float]]:
    """Cores of ordinary load: `base`, then `to` from second `at` on."""
    return lambda t: (to if t >= at else base, 100 * GIB)


def random_jobs(rng: random.Random, total: float, *, pods: bool = True) -> list[Job]:
    """Jobs of different sizes that use `total` cores together."""
    jobs: list[Job] = []
    while (left := total - sum(job.cpu for job in jobs)) > 0:
        size = rng.choice([1, 1, 1, 2, 4]) if pods else 1
        cpu = min(rng.choice([0.5, 1.0, 2.0, 4.0]), left / size)
        jobs.append(Job(f"job-{len(jobs)}", cpu * size, rng.uniform(0, 4) * GIB, size, started=-rng.uniform(60, 1700)))
    return jobs


def without(rules: Rules, **changes: Any) -> Rules:
    return replace(rules, **changes)
