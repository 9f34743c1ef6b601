"""What scavenging adds to days of clusters: beside no scavenging, Jobs of a low priority, and youngest-first.

    python -m bench.simulator.proof --traces DIR FILE                writes what docs/pictures.py draws
    python -m bench.simulator.proof --traces DIR FILE --day openb    measures one day of it anew

The same ordinary pods and the same line of jobs under each policy, in the simulator; docs/simulator.md says what that
is and what is assumed. The file is written after every run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from scavenger_simulator.policy import Policy
from scavenger_simulator.report.figures import figures, percentile
from scavenger_simulator.result import Point, RunResult
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

from bench.traces.catalog import DAYS, OTHER_DAYS, scenario_of

SHOWN_DAY: Final = "openb"
"""In the picture."""
MEASURED: Final = (SHOWN_DAY, *(f"openb-{day}" for day in OTHER_DAYS), "planetlab-20110303", "planetlab-20110322")
DEMAND_SHARE: Final = 1.0
"""Of all CPU time, how much work is asked for: from the afternoon on, more than there is capacity for."""
SETTINGS: Final = Settings().changed(admission_interval=30.0)
"""The defaults, but for fewer admission cycles: a run takes three quarters of the time."""
SHORT_RUNS: Final = "short-runs"
LEAST_SERVED: Final = "least-served"
WAYS: Final = {
    Policy.NONE.value: (Policy.NONE, SETTINGS),
    Policy.PLAIN.value: (Policy.PLAIN, SETTINGS),
    Policy.YOUNGEST.value: (Policy.YOUNGEST, SETTINGS),
    Policy.OURS.value: (Policy.OURS, SETTINGS),
    SHORT_RUNS: (Policy.OURS, SETTINGS.changed(interrupted_first=SHORT_RUNS)),
    LEAST_SERVED: (Policy.OURS, SETTINGS.changed(interrupted_first=LEAST_SERVED)),
}
"""The policies, and ours with other orders of interrupted jobs. Kueue's order, by admission, is that of youngest-first
here: every job runs as long after its admission as the others."""
SEED: Final = 1
LONG: Final = 60.0
"""Seconds that an ordinary pod does not wait for the grace period of a job alone."""
BIN_SECONDS: Final = 900.0
"""Of a point in the picture."""
KEPT: Final = (
    "utilisation", "harvested", "useful", "lost", "progress", "completed", "starved", "preemptions", "evictions",
    "yields", "delayed", "delay_p50", "delay_p99", "above_upper_nodes",
)  # fmt: skip
"""Of the figures of a run."""

Run = dict[str, Any]


def measure(
    traces: Path, days: Sequence[str] = MEASURED, ways: Collection[str] = tuple(WAYS)
) -> Iterator[tuple[dict[str, Any], Run, RunResult]]:
    """Every way on every day: what the day is, the figures of the run, and its result.

    Raises InputError where a trace is missing.
    """
    for name in days:
        scenario = scenario_of(name, traces, seed=SEED, demand_share=DEMAND_SHARE)
        about = {
            "origin": scenario.origin,
            "nodes": len(scenario.nodes),
            "cores": sum(node.cpu_milli for node in scenario.nodes) / 1000,
            "ordinaryPods": len(scenario.ordinary),
            "jobs": len(scenario.jobs),
        }
        for way in ways:
            policy, settings = WAYS[way]
            result = simulate(scenario, settings, policy, SEED)
            yield about, {"day": name, "policy": way, **kept(result)}, result


def kept(result: RunResult) -> Run:
    """The figures that are kept of a run, rounded to what they are good for: KEPT, how many ordinary pods waited for
    longer than LONG (`delayed_long`), and the seconds that 99 % of all of them waited at most (`wait_p99`)."""
    found = figures(result)
    values = {name: None if (value := getattr(found, name)) is None else round(value, 3) for name in KEPT}
    delays = result.totals.delays
    waits = [0.0] * (result.totals.ordinary_pods - len(delays)) + list(delays)
    wait = round(percentile(waits, 0.99) or 0.0, 3)
    return {**values, "delayed_long": sum(delay > LONG for delay in delays), "wait_p99": wait}


def binned(points: Sequence[Point], of: Callable[[Point], float]) -> list[float]:
    """Means over each BIN_SECONDS of the day, of periods that are equally long."""
    bins: dict[int, list[float]] = {}
    for point in points:
        bins.setdefault(int(point.at // BIN_SECONDS), []).append(of(point))
    return [round(sum(values) / len(values), 2) for _, values in sorted(bins.items())]


def updated(data: dict[str, Any], about: dict[str, Any], run: Run, result: RunResult) -> dict[str, Any]:
    """What was measured before, with one more run, in the order of MEASURED and WAYS."""
    ways = list(WAYS)
    runs = {(one["day"], one["policy"]): one for one in [*data.get("runs", ()), run]}
    order = sorted(runs, key=lambda key: (MEASURED.index(key[0]), ways.index(key[1])))
    days = {**data.get("days", {}), run["day"]: about}
    course = dict(data.get("course", {}))
    if run["day"] == SHOWN_DAY:
        course[run["policy"]] = binned(result.points, lambda point: point.cpu.load)
        course["ordinary"] = binned(result.points, lambda point: point.cpu.ordinary)
    return {
        "every": BIN_SECONDS,
        "days": {name: days[name] for name in MEASURED if name in days},
        "course": course,
        "runs": [runs[key] for key in order],
    }


def main(words: list[str]) -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.simulator.proof", description="What scavenging adds to days."
    )
    parser.add_argument("--traces", type=Path, required=True, help="folder of the public traces")
    parser.add_argument("--day", action="append", choices=sorted(DAYS), help="only this one; may be repeated")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="only this one; may be repeated")
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args(words)
    data = json.loads(arguments.file.read_text()) if arguments.day or arguments.way else {}
    for about, run, result in measure(arguments.traces, arguments.day or MEASURED, arguments.way or tuple(WAYS)):
        data = updated(data, about, run, result)
        arguments.file.write_text(json.dumps(data, indent=1) + "\n")
        print(f"{run['day']}: {run['policy']}", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
