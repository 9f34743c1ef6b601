"""Small scenarios, to be reckoned through by hand."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

from scavenger_simulator.scenario import NodeSpec, OrdinaryPod, ScavengerDemand, Scenario, UsageTrace, steady

GIB = 1 << 30
HOUR = 3600.0


def nodes(count: int = 1, cores: int = 10, memory: int = 100) -> tuple[NodeSpec, ...]:
    return tuple(NodeSpec(f"node-{i}", cores * 1000, memory * GIB) for i in range(count))


def job(name: str = "job", at: float = 0.0, cores: float = 1.0, work: float = 600.0, **more: Any) -> ScavengerDemand:
    return ScavengerDemand(
        **{
            "name": name,
            "queue": "default",
            "submitted": at,
            "pods": 1,
            "cpu_milli": round(cores * 1000),
            "memory_bytes": GIB,
            "work_seconds": work,
            **more,
        }
    )


def ordinary(
    name: str = "web",
    arrives: float = 0.0,
    leaves: float = math.inf,
    cores: float = 1.0,
    used: float | None = None,
    **more: Any,
) -> OrdinaryPod:
    use = steady(round(1000 * (cores if used is None else used)), GIB)
    values: dict[str, Any] = {"usage": use, **more}
    return OrdinaryPod(name, arrives, leaves, round(cores * 1000), GIB, **values)


def trace(cores: Sequence[float], period: float = 300.0, start: float = 0.0) -> UsageTrace:
    return UsageTrace(start, period, array("I", [round(1000 * c) for c in cores]), array("Q", [GIB] * len(cores)))


def scenario(
    *,
    nodes: tuple[NodeSpec, ...] = nodes(),
    ordinary: Sequence[OrdinaryPod] = (),
    jobs: Sequence[ScavengerDemand] = (),
    end: float = 2 * HOUR,
    **more: Any,
) -> Scenario:
    return Scenario("small", nodes, tuple(ordinary), tuple(jobs), end=end, **more)
