"""A cluster of queues on a virtual clock: `plan_admissions` decides, and here it comes about. No I/O, no mocks.

Time is in seconds. Starts run at once; who is told to go leaves a grace period later and is in line again then.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from scavenger_admitter.core.admission.cycle.fair_share_preemption import PreemptionRules
from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, plan_admissions
from scavenger_admitter.core.admission.load import PPM, LoadLimit
from scavenger_admitter.core.admission.placement.inputs import NodeView
from scavenger_admitter.core.admission.running import Gang, RunningJob, TerminatingPod
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, QueueView, Snapshot, Turn
from scavenger_admitter.core.admission.units import SECOND

EPOCH = 1_800_000_000
"""Seconds; the clock starts here."""


@dataclass
class Run:
    """A job that runs, or is terminating."""

    job: Candidate
    gang: Gang
    ends: float
    leaves: float | None = None


@dataclass
class Simulation:
    """Nodes by name with their cores; weights of queues by name.

    Attributes:
        level: the admission level on requests, percent.
        grace: seconds between the order to go and the end of the pods.
        period: seconds between two preemptions of one job.
        keep_turn_after: seconds that a job waits before its turn is kept; 0: never.
        gangs: whether jobs of several pods are interrupted as well.
    """

    nodes: dict[str, int]
    weights: dict[str, int]
    level: int = 100
    grace: float = 30
    period: float = 600
    keep_turn_after: float = 0
    gangs: bool = False
    now: float = 0
    turns: tuple[Turn, ...] = ()
    waiting: dict[str, Candidate] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    pods: dict[str, int] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    preempted: dict[str, list[float]] = field(default_factory=dict)
    interrupted: dict[str, float] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)

    # --- what happens ---

    def submit(self, name: str, queue: str, cpu: int = 1, pods: int = 1, seconds: float = 10**9) -> None:
        shape = Shape.of({"cpu": cpu * 1000})
        self.waiting[name] = Candidate(name, name, queue, shape, pods, queued_at=self._micros())
        self.seconds[name] = seconds
        self.pods[name] = pods

    def step(self) -> AdmissionPlan:
        """One admission cycle, and what it decided."""
        rules = PreemptionRules(period=round(self.period * SECOND), gangs=self.gangs)
        plan = plan_admissions(self.snapshot(), rules=rules, patience=round(self.keep_turn_after * SECOND) or None)
        self.turns = plan.turns
        for start in plan.starts:
            job = self.waiting.pop(start.key)
            self.runs[start.key] = Run(job, self._gang(job, start.nodes), self.now + self.seconds[start.key])
        for preemption in plan.preemptions:
            self.runs[preemption.key].leaves = self.now + self.grace
            self.preempted.setdefault(preemption.key, []).append(self.now)
            self.interrupted[preemption.key] = self.now
        return plan

    def settle(self) -> AdmissionPlan:
        """Cycles until nothing more is decided at this moment: the last plan."""
        plan = self.step()
        while plan.starts or plan.preemptions:
            plan = self.step()
        return plan

    def pass_time(self, seconds: float) -> None:
        """Let jobs end and leave; a cycle follows each such moment."""
        until = self.now + seconds
        while (due := self._next()) <= until:
            self.now = due
            self._end()
            self.settle()
        self.now = until

    def _next(self) -> float:
        return min((run.ends if run.leaves is None else run.leaves for run in self.runs.values()), default=1e18)

    def _end(self) -> None:
        for name, run in list(self.runs.items()):
            if run.leaves is not None and run.leaves <= self.now:
                del self.runs[name]
                count = run.job.interrupted_count + 1
                self.waiting[name] = replace(run.job, interrupted_count=count, queued_at=self._micros())
            elif run.leaves is None and run.ends <= self.now:
                del self.runs[name]
                self.done[run.job.queue] += 1

    # --- what there is ---

    def _micros(self) -> int:
        return round((EPOCH + self.now) * SECOND)

    def cores(self, queue: str) -> int:
        """Cores of a queue's running jobs, without those that are terminating."""
        mine = (run for run in self.runs.values() if run.job.queue == queue and run.leaves is None)
        return sum(run.job.shape.request("cpu") * run.job.parallelism for run in mine) // 1000

    def snapshot(self) -> Snapshot:
        used: dict[str, int] = dict.fromkeys(self.nodes, 0)
        allocated: dict[str, int] = dict.fromkeys(self.weights, 0)
        for run in self.runs.values():
            cpu = run.gang.request("cpu")
            allocated[run.job.queue] += cpu * run.job.parallelism
            for node in run.gang.nodes:
                used[node] += cpu
        total, taken = sum(self.nodes.values()) * 1000, sum(used.values())
        line = sorted(self.waiting.values(), key=lambda job: job.order)
        return Snapshot(
            now=self._micros(),
            nodes={
                name: NodeView(name, {"cpu": cores * 1000, "pods": 110}, {"cpu": used[name]}, {"cpu": used[name]})
                for name, cores in self.nodes.items()
            },
            candidates={queue: tuple(j for j in line if j.queue == queue) for queue in self.weights},
            queues={
                name: QueueView(name, weight, allocated={"cpu": allocated[name]} if allocated[name] else {})
                for name, weight in self.weights.items()
            },
            capacity={"cpu": total},
            requested={"cpu": taken},
            scavenged={"cpu": taken},
            terminating=tuple(
                TerminatingPod(node, run.job.queue, run.job.shape.requests)
                for run in self.runs.values()
                if run.leaves is not None
                for node in run.gang.nodes
            ),
            gangs=tuple(run.gang for run in self.runs.values() if run.leaves is None),
            turns=tuple(replace(turn, candidate=self.waiting[turn.candidate.key]) for turn in self.turns),
            limits=(LoadLimit("cpu", total, taken, 0, self.level * PPM // 100 + 1),),  # up to the level itself
        )

    def _gang(self, job: Candidate, nodes: tuple[str, ...]) -> Gang:
        last = self.interrupted.get(job.key)
        running = RunningJob(
            key=job.key,
            uid=job.uid,
            queue=job.queue,
            parallelism=job.parallelism,
            since=self._micros(),
            started=self._micros(),
            interrupted_at=0 if last is None else round((EPOCH + last) * SECOND),
        )
        return Gang(running, job.shape.requests, nodes)
