"""What a load that trembles costs in writes of classes: the decisions of regulator and prioritizer in virtual time.

A hundred running jobs of one core in as many namespaces, with checkpoints every half hour, and a load of 90.5 % between
levels of 79 and 92 %, where a point of load is a quarter of the jobs. Nobody is evicted.

- class_writes_per_hour: labels written while the load is 90.5 ± 1 point from period to period, ÷ with a load of 90.5.
- class_writes_per_hour.steady: labels written an hour with a load of 90.5.
- class_writes_per_hour.by_three: as the first one, ± 3 points.
- budget_writes_per_hour: PodDisruptionBudgets written and deleted while the load is 90.5 ± 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from msgspec.structs import replace as alter
from scavenger_api.names import PREEMPTIBLE
from scavenger_api.times import micros
from scavenger_domain.gang import MICROSECONDS
from scavenger_prioritizer.core.plan import ClassPlan, plan_classes
from scavenger_prioritizer.core.snapshot import Gang, JobFacts, PodFacts, Share, Source
from scavenger_prioritizer.core.snapshot import Snapshot as Jobs
from scavenger_regulator.core.history import Figures as History
from scavenger_regulator.core.metrics.metric import RESOURCES
from scavenger_regulator.core.plan import regulate
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.snapshot import CLUSTER, Figure, Measurement, NodeFacts, Snapshot
from scavenger_regulator.core.state import ScopeState

BEGAN: Final = datetime(2026, 1, 2, tzinfo=UTC)
RULES: Final = Rules(yield_at_checkpoint=False, step=0.0)
CORES: Final = 1000.0
LOAD: Final = 90.5
JOBS: Final = 100
INTERVAL: Final = 1800
PASS_SECONDS: Final = 10
SECONDS: Final = 2 * 3600
"""Two hours, of which the first lets the classes settle."""


@dataclass
class Day:
    """The jobs as they are, and what was written of them in the last hour."""

    gangs: list[Gang]
    budgets: dict[str, bool] = field(default_factory=dict)
    exposed_at: dict[str, int] = field(default_factory=dict)
    idle_budgets: Mapping[str, int] = field(default_factory=dict)
    labels: int = 0
    budget_writes: int = 0

    def carry_out(self, plan: ClassPlan, *, counts: bool) -> None:
        """What the prioritizer writes, and remembers of it."""
        pods = {write.pod.uid: write for write in (*plan.protect, *plan.unprotect, *plan.refresh)}
        self.gangs = [Gang(gang.job, tuple(_written(pod, pods) for pod in gang.pods)) for gang in self.gangs]
        self.budgets |= dict.fromkeys(plan.budgets_needed, True)
        for namespace in plan.budgets_surplus:
            del self.budgets[namespace]
        self.exposed_at |= {f"{w.pod.namespace}/{w.pod.job}": plan.now for w in plan.unprotect}
        self.idle_budgets = plan.idle_budgets
        if counts:
            self.labels += len(plan.protect) + len(plan.unprotect)
            self.budget_writes += len(plan.budgets_needed) + len(plan.budgets_surplus)


def _written(pod: PodFacts, writes: dict[str, Any]) -> PodFacts:
    write = writes.get(pod.uid)
    if write is None:
        return pod
    return alter(
        pod,
        class_=pod.class_ if write.class_ is None else write.class_,
        written=pod.written if write.priority is None else write.priority,
    )


def _gangs() -> list[Gang]:
    random, found = Random(1), []
    for number in range(JOBS):
        name, namespace = f"job-{number}", f"team-{number}"
        started = micros(BEGAN) - random.randrange(100 * INTERVAL) * MICROSECONDS
        job = JobFacts(
            namespace, name, name, "Running", INTERVAL * MICROSECONDS, run=name, started=started, created=started
        )
        pod = PodFacts(
            namespace, f"{name}-0", f"{name}-0", 1000, name, name, "node", started=started, class_=PREEMPTIBLE
        )
        found.append(Gang(job, (pod,)))
    return found


def _measured(load: float, now: datetime) -> Snapshot:
    room = {"cpu": CORES, "memory": CORES}
    amounts = {"cpu": load / 100 * CORES, "memory": 0.1 * CORES}
    figures = {resource: Figure(amounts[resource], now) for resource in RESOURCES}
    history = dict.fromkeys(RESOURCES, History(50.0, 1.0, RULES.min_samples))
    return Snapshot(
        now=now,
        started=BEGAN,
        nodes={"node": NodeFacts("node", room, room, counts=True)},
        gangs=(),
        measurement=Measurement(nodes={"node": figures}),
        history={CLUSTER: history},
    )


def play(steps: Sequence[float]) -> Day:
    """Two hours with a load of LOAD plus these points, one after the other, period by period."""
    day, states = Day(_gangs()), dict[str, ScopeState]()
    percentage: float | None = None
    for second in range(0, SECONDS, PASS_SECONDS):
        now = BEGAN + timedelta(seconds=second)
        if second % RULES.period == 0:
            decision = regulate(_measured(LOAD + steps[int(second // RULES.period) % len(steps)], now), states, RULES)
            states, percentage = decision.states, decision.published.preemptible_percentage
        plan = plan_classes(
            Jobs(
                micros(now),
                Share(percentage, Source.PUBLISHED),
                day.gangs,
                budgets=day.budgets,
                exposed_at=day.exposed_at,
                idle_budgets=day.idle_budgets,
            )
        )
        day.carry_out(plan, counts=second >= SECONDS / 2)
    return day


def run() -> list[dict[str, Any]]:
    """The figures."""
    steady, one, three = play((0.0,)), play((1.0, -1.0)), play((3.0 - 1.5, -3.0))
    name = "loop.class_writes_per_hour"
    return [
        {"name": name, "value": one.labels / steady.labels, "unit": "ratio", "goal": "<= 1.5"},
        {"name": f"{name}.steady", "value": steady.labels, "unit": "writes", "goal": None},
        {"name": f"{name}.by_three", "value": three.labels / steady.labels, "unit": "ratio", "goal": None},
        {"name": "loop.budget_writes_per_hour", "value": one.budget_writes, "unit": "writes", "goal": None},
        {"name": "loop.budget_writes_per_hour.steady", "value": steady.budget_writes, "unit": "writes", "goal": None},
    ]
