"""Builders of facts for the tests: a job is a line, times are seconds before or after one fixed moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec.structs import replace as alter
from scavenger_api.names import NON_PREEMPTIBLE, PREEMPTIBLE
from scavenger_domain.gang import MICROSECONDS
from scavenger_prioritizer.core.plan import ClassPlan
from scavenger_prioritizer.core.snapshot import (
    Gang,
    JobFacts,
    PodFacts,
    Rules,
    Share,
    Snapshot,
    Source,
)

NOW = 1_800_000_000 * MICROSECONDS
HALF_HOUR = 1800
NO_STARTUP = Rules(startup_cost=0)


def ago(seconds: float) -> int:
    """That many seconds before NOW; negative for the future."""
    return NOW - round(seconds * MICROSECONDS)


def published(percentage: float) -> Share:
    return Share(percentage, Source.PUBLISHED)


def pod(name: str = "pod", **facts: Any) -> PodFacts:
    values: dict[str, Any] = {"namespace": "lab", "name": name, "uid": f"uid-{name}", "cost": 1000}
    values |= {"node": "node-1", "class_": PREEMPTIBLE, "written": 0, "computes": facts.get("started") is not None}
    values |= facts
    return PodFacts(**values)


def job(name: str = "job", **facts: Any) -> JobFacts:
    values: dict[str, Any] = {"namespace": "lab", "name": name, "uid": f"uid-{name}", "phase": "Running"}
    values |= {"interval": HALF_HOUR * MICROSECONDS, "started": ago(600), **facts}
    return JobFacts(**values)


def gang(
    name: str = "job",
    *,
    started: float | None = 600,
    pods: Sequence[PodFacts] | None = None,
    cost: int = 1000,
    node: str = "node-1",
    class_: str = PREEMPTIBLE,
    **facts: Any,
) -> Gang:
    """A job started `started` seconds ago with one pod, or with these."""
    namespace = str(facts.get("namespace", "lab"))
    facts.setdefault("class_", "" if class_ == PREEMPTIBLE else class_)  # nothing is said of what they were born as
    owner = job(name, started=None if started is None else ago(started), **facts)
    members = pods
    if members is None:
        members = (pod(f"{name}-0", namespace=namespace, cost=cost, node=node, class_=class_, job=name),)
    return Gang(owner, tuple(members))


def snapshot(
    gangs: Iterable[Gang],
    percentage: float | None = 50,
    *,
    cordoned: Iterable[str] = (),
    budgets: Mapping[str, bool | None] | None = None,
    rules: Rules = NO_STARTUP,
    now: int = NOW,
) -> Snapshot:
    share = Share(None, Source.KEPT, "stale") if percentage is None else published(percentage)
    return Snapshot(now, share, tuple(gangs), frozenset(cordoned), dict(budgets or {}), rules)


def classes(plan: ClassPlan) -> dict[str, str]:
    return {verdict.gang.job.name: verdict.class_ for verdict in plan.verdicts}


def preemptible(plan: ClassPlan) -> set[str]:
    return {name for name, class_ in classes(plan).items() if class_ == PREEMPTIBLE}


def carried_out(plan: ClassPlan, before: Snapshot) -> Snapshot:
    """The snapshot after every write of the plan has come back from the API server."""
    pods = {}
    for write in (*plan.cover, *plan.protect, *plan.unprotect, *plan.refresh):
        assert write.pod.uid not in pods, "a pod is patched once"
        class_ = write.pod.class_ if write.class_ is None else write.class_
        written = write.pod.written if write.priority is None else write.priority
        exempt = write.pod.exempt if write.exempt is None else write.exempt
        pods[write.pod.uid] = alter(write.pod, class_=class_, written=written, exempt=exempt)
    gangs = tuple(Gang(g.job, tuple(pods.get(p.uid, p) for p in g.pods)) for g in before.gangs)
    budgets = {n: ok for n, ok in before.budgets.items() if n not in plan.budgets_surplus}
    budgets |= dict.fromkeys(plan.budgets_needed, True)
    return replace(before, gangs=gangs, budgets=budgets)


__all__ = [
    "HALF_HOUR",
    "NON_PREEMPTIBLE",
    "NOW",
    "NO_STARTUP",
    "PREEMPTIBLE",
    "ago",
    "carried_out",
    "classes",
    "gang",
    "job",
    "pod",
    "preemptible",
    "published",
    "snapshot",
]
