"""Builders for the tests: a cluster of equal nodes, jobs in one line each, times in seconds from one fixed
moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from scavenger_regulator.core.eviction.plan import (
    Candidate,
    EvictionPlan,
    EvictionRules,
    EvictionSnapshot,
    plan_evictions,
)
from scavenger_regulator.core.eviction.risk import Risk
from scavenger_regulator.core.snapshot import Figure, Gang, Measurement, NodeFacts, PodFacts, Snapshot

GIB = 2.0**30
NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
HALF_HOUR = 1800.0


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def node(name: str = "node-1", cores: float = 10.0, memory: float = 100 * GIB, **facts: Any) -> NodeFacts:
    room = {"cpu": cores, "memory": memory}
    return replace(NodeFacts(name, room, room, counts=True), **facts)


def pod(name: str, **facts: Any) -> PodFacts:
    values: dict[str, Any] = {
        "key": f"lab/{name}",
        "uid": f"pod-{name}",
        "node": "node-1",
        "requests": {"cpu": 1.0, "memory": GIB},
        "preemptible": True,
        "running_since": ago(600),
    }
    values["started"] = facts.get("running_since", values["running_since"])
    return PodFacts(**{**values, **facts})


def gang(name: str, started: float = 600, *, pods: int = 1, on: str = "node-1", **facts: Any) -> Gang:
    """A running job whose run began `started` seconds ago; facts of pods are given as `pod_...`."""
    pod_facts = {key[4:]: facts.pop(key) for key in list(facts) if key.startswith("pod_")}
    pod_facts.setdefault("running_since", ago(started))
    values: dict[str, Any] = {
        "key": f"lab/{name}",
        "uid": f"uid-{name}",
        "pods": tuple(pod(f"{name}-{i}", node=on, **pod_facts) for i in range(pods)),
        "interval": HALF_HOUR,
        "cores": 1.0,
        "running": True,
        "started": ago(started),
    }
    return Gang(**{**values, **facts})


def figures(
    cpu: float | None = None, memory: float | None = None, *, age: float = 10, window: float = 15
) -> dict[str, Figure]:
    """Cores and bytes, as metrics-server gives them: taken `age` seconds ago, an average over `window`."""
    given = {"cpu": cpu, "memory": memory}
    return {r: Figure(value, ago(age), window) for r, value in given.items() if value is not None}


def measured(
    nodes: Mapping[str, Mapping[str, Figure]],
    gangs: Iterable[Gang] = (),
    *,
    cpu: float | None = 1.0,
    memory: float | None = GIB,
    age: float = 10,
    without: Iterable[str] = (),
) -> Measurement:
    """Every pod of the gangs uses the same; those of the gangs named in `without` have no figures."""
    missing = {f"uid-{name}" for name in without}
    pods = {p.key: figures(cpu, memory, age=age) for g in gangs if g.uid not in missing for p in g.pods}
    return Measurement(nodes, pods)


def snapshot(
    gangs: Iterable[Gang] = (), *, cpu: float = 5.0, memory: float = 50 * GIB, age: float = 10, **facts: Any
) -> Snapshot:
    """One node of 10 cores and 100 GiB with that use; a core of it is 10 points, a GiB one."""
    gangs = tuple(gangs)
    values: dict[str, Any] = {
        "now": NOW,
        "started": ago(86_400),
        "nodes": {"node-1": node()},
        "gangs": gangs,
        "measurement": measured({"node-1": figures(cpu, memory, age=age)}, gangs, age=age),
    }
    return Snapshot(**{**values, **facts})


def candidate(
    name: str,
    loss: float = 0.0,
    cpu: float | None = 1.0,
    memory: float | None = 1.0,
    *,
    since: float = 60,
    **facts: Any,
) -> Candidate:
    """Frees that many points; wrote its last checkpoint `since` seconds ago."""
    marked = ago(since)
    risk = Risk(loss, marked, ago(3600), marked + timedelta(seconds=HALF_HOUR))
    frees = {r: v for r, v in (("cpu", cpu), ("memory", memory)) if v is not None}
    return replace(Candidate(gang(name), risk, frees), **facts)


def evict(
    candidates: Iterable[Candidate],
    *,
    cpu: float = 90,
    memory: float = 50,
    targets: Mapping[str, float] | None = None,
    rules: EvictionRules | None = None,
    **facts: Any,
) -> EvictionPlan:
    """The plan for this load; by default only CPU is too high, and has to come down to 70."""
    values: dict[str, Any] = {
        "now": NOW,
        "load": {"cpu": cpu, "memory": memory},
        "targets": {"cpu": 70.0} if targets is None else targets,
        "candidates": list(candidates),
        "rules": rules or EvictionRules(),
    }
    return plan_evictions(EvictionSnapshot(**{**values, **facts}))


def names(candidates: Iterable[Candidate]) -> list[str]:
    return [c.gang.key.removeprefix("lab/") for c in candidates]
