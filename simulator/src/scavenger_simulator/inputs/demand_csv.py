"""Demand of one's own, as CSV: a line for each job, quantities and durations written as in Kubernetes.

A line with `tasks` is an array. Its tasks are jobs of one pod here, NAME[0], NAME[1] and so on, with one place in their
queue together (docs/designs/0025-who-passes-whom.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from scavenger_api.indexes import MAX_TASKS
from scavenger_api.quantity import QuantityError, millis, units
from scavenger_domain.gang import task_unit

from scavenger_simulator.inputs.distributions import parse_value
from scavenger_simulator.inputs.habits import LONGEST_INTERVAL, Habits
from scavenger_simulator.inputs.reading import Row, rows
from scavenger_simulator.scenario import ScavengerDemand

T = TypeVar("T")

DAY: Final = 86_400.0
MOST_PODS: Final = 10_000
"""Of a job."""

REQUIRED: Final = ("name", "submitted", "work", "cpu", "memory")
OF_A_RUN: Final = ("interruption_after", "checkpoint_every", "checkpoint_cost", "grace", "restart")
OPTIONAL: Final = ("queue", "pods", "tasks", "pool", *OF_A_RUN)


@dataclass(frozen=True, slots=True)
class Window:
    """What is taken of a trace: from `start` on, `length` seconds, which become 0 to `length` of the scenario."""

    start: float = 0.0
    length: float = DAY

    @property
    def end(self) -> float:
        """The first moment that is not part of it."""
        return self.start + self.length


def read_demand(
    path: Path, window: Window, *, seed: int = 0, habits: Habits | None = None
) -> tuple[ScavengerDemand, ...]:
    """The jobs submitted in the window. What a line leaves open is drawn. Raises InputError."""
    found: dict[str, ScavengerDemand] = {}
    for row in rows(path, REQUIRED, OPTIONAL):
        name = row.text("name")
        submitted = _of(row, "submitted", parse_value, "write seconds, or a duration such as 90m")
        job = _job(row, name, submitted - window.start, seed, habits or Habits())
        for one in _names(row, name):
            if one in found:
                raise row.error("name", f"{name!r} is there twice", "give each job a name of its own")
            if window.start <= submitted < window.end:
                found[one] = replace(job, name=one, array=name if one != name else "")
    return tuple(found.values())


def _names(row: Row, name: str) -> list[str]:
    """Of the jobs that a line is."""
    if not row.text("tasks", ""):
        return [name]
    if row.text("pods", "1") != "1":
        raise row.error("tasks", "a job of several pods has no tasks", "leave pods or tasks out")
    return [task_unit(name, str(task)) for task in range(round(row.number("tasks", least=1, most=MAX_TASKS)))]


def _job(row: Row, name: str, submitted: float, seed: int, habits: Habits) -> ScavengerDemand:
    duration = "write seconds, or a duration such as 90m"
    work = _of(row, "work", parse_value, duration)
    cpu = _of(row, "cpu", millis, "write cores, such as 2 or 500m")
    memory = _of(row, "memory", units, "write bytes, such as 512Mi or 4Gi")
    for field, value in (("work", work), ("cpu", cpu), ("memory", memory)):
        if value <= 0:
            raise row.error(field, f"{row.text(field)!r} is nothing", "write a value above 0")
    given = {field: _of(row, field, parse_value, duration) for field in OF_A_RUN if row.text(field, "")}
    for field in ("interruption_after", "checkpoint_every"):
        if field in given and not 1 <= given[field] <= LONGEST_INTERVAL:
            raise row.error(field, f"{row.text(field)!r} is out of range", "write a duration from 1s to 7d")
    return habits.job(
        seed,
        name,
        submitted,
        work,
        cpu_milli=cpu,
        memory_bytes=memory,
        queue=row.text("queue", "default"),
        pool=row.text("pool", ""),
        pods=round(row.number("pods", least=1, most=MOST_PODS, default=1)),
        interruption_after=given.get("interruption_after"),
        checkpoint_every=given.get("checkpoint_every"),
        checkpoint_cost=given.get("checkpoint_cost"),
        grace_seconds=given.get("grace"),
        restart_seconds=given.get("restart"),
    )


def _of(row: Row, field: str, parse: Callable[[str], T], remedy: str) -> T:
    text = row.text(field)
    try:
        return parse(text)
    except (ValueError, QuantityError) as error:
        raise row.error(field, str(error), remedy) from None
