"""Records docs/dashboards.json: a day of two queues in the simulator, as panels of the dashboards show it.

python -m docs.record_day     simulates for a minute

Queue `lab` has jobs all day. Queue `guest` has twice the weight, and submits jobs between GUEST_FROM and GUEST_UNTIL.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from scavenger_simulator.inputs.catalog import build, named
from scavenger_simulator.policy import Policy
from scavenger_simulator.result import JobOutcome, MomentKind, Point, RunResult
from scavenger_simulator.scenario import Scenario
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

DATA: Final = Path(__file__).with_name("dashboards.json")
LAB, GUEST = "lab", "guest"
WEIGHTS: Final = {LAB: 1, GUEST: 2}
PODS: Final = 150
DEMAND_SHARE: Final = 1.2
HOUR: Final = 3600.0
GUEST_FROM, GUEST_UNTIL = 9.0, 15.0
"""Hours of the day between which jobs of the guest are submitted."""
EVERY: Final = 600.0
"""Seconds between two values."""
SEED: Final = 1
LEVELS: Final = ("admission", "lower", "upper")


def day() -> Scenario:
    """A made-up day: the busier half of the jobs at the time of the guest is the guest's."""
    made = build(replace(named("diurnal"), pods=PODS, demand_share=DEMAND_SHARE, seed=SEED))
    jobs = tuple(
        replace(job, queue=GUEST if GUEST_FROM <= job.submitted / HOUR < GUEST_UNTIL and number % 2 else LAB)
        for number, job in enumerate(made.jobs)
    )
    return replace(made, jobs=jobs, queues=WEIGHTS)


def states(result: RunResult, at: float) -> dict[str, str]:
    """The phase of each job that was submitted, at a moment."""
    found = {job.name: "Waiting" for job in result.jobs if job.submitted <= at}
    for moment in result.moments:
        if moment.at > at:
            break
        kinds = {MomentKind.STARTED: "Running", MomentKind.COMPLETED: "Completed"}
        found[moment.job] = kinds.get(moment.kind, "Interrupted")
    return found


def panels(scenario: Scenario, result: RunResult) -> list[dict[str, Any]]:
    """What four panels show, by their queries: a value of each series every EVERY seconds."""
    cores = sum(node.cpu_milli for node in scenario.nodes) / 1000
    points = result.points[:: round(EVERY / (result.points[1].at - result.points[0].at))]
    phases = [states(result, point.at) for point in points]

    def cpu(of: Callable[[Point], float]) -> list[float]:
        return [round(of(point) / 100, 4) for point in points]

    def held(queue: str) -> list[float]:
        return [round(sum(job.cores for job in _of(result.jobs, queue, now, "Running")), 1) for now in phases]

    def deserved(point: Point, now: dict[str, str]) -> float:
        """As docs/queues.md has it: by weight, of what jobs hold and of what may still start."""
        usable = point.running_cores + max(0.0, point.cpu.admission - point.cpu.load) / 100 * cores
        demanding = [queue for queue in WEIGHTS if queue == LAB or any(_of(result.jobs, queue, now))]
        return round(usable * WEIGHTS[LAB] / sum(WEIGHTS[queue] for queue in demanding), 1)

    def count(phase: str) -> list[float]:
        return [sum(1 for _ in _of(result.jobs, LAB, now, phase)) for now in phases]

    utilisation = {"with scavenging": cpu(lambda point: point.cpu.load)}
    utilisation["regular workloads alone"] = cpu(lambda point: point.cpu.ordinary)
    for level in LEVELS:
        utilisation[f"level: {level}"] = cpu(lambda point, level=level: getattr(point.cpu, level))  # type: ignore[misc]
    share = {"has": held(LAB), "deserves": [deserved(*both) for both in zip(points, phases, strict=True)]}
    return [
        _panel("administrator", "CPU: utilisation and levels", "percentunit", utilisation),
        _panel(
            "administrator", "Cores of scavenger jobs, by queue", "short", {q: held(q) for q in WEIGHTS}, stacked=True
        ),
        _panel(
            "researcher", "Jobs", "short", {p: count(p) for p in ("Running", "Interrupted", "Waiting")}, stacked=True
        ),
        _panel("researcher", "CPU share", "short", share),
    ]


def _of(jobs: Sequence[JobOutcome], queue: str, now: dict[str, str], phase: str = "") -> Iterable[JobOutcome]:
    """Jobs of a queue in a phase, or in any but Completed."""
    for job in jobs:
        is_in = now.get(job.name, "Completed")
        if job.queue == queue and (is_in == phase if phase else is_in != "Completed"):
            yield job


def _panel(
    board: str, title: str, unit: str, series: dict[str, list[float]], *, stacked: bool = False
) -> dict[str, Any]:
    found = [{"name": name, "values": values} for name, values in series.items()]
    return {"board": board, "title": title, "unit": unit, "stacked": stacked, "series": found}


def main() -> int:
    """Write the file."""
    scenario = day()
    result = simulate(scenario, Settings().changed(admission_interval=30.0), Policy.OURS, SEED)
    DATA.write_text(json.dumps({"every": EVERY, "panels": panels(scenario, result)}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
