"""What scavenging adds to a day of a cluster: beside no scavenging, and beside Jobs of a low priority.

    python -m bench.simulator.proof --traces DIR FILE      writes what docs/draw_gain.py draws, and says how far it is

The same ordinary pods and the same line of jobs under each policy, in the simulator; docs/simulator.md says what that
is and what is assumed. What is drawn by lot (intervals between checkpoints, real use) is drawn anew with each seed, and
for all policies alike.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from scavenger_simulator.policy import Policy
from scavenger_simulator.report.figures import Figures, figures
from scavenger_simulator.result import Point
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

from bench.traces.catalog import scenario_of

SCENARIO: Final = "openb"
SEEDS: Final = (1, 2, 3)
POLICIES: Final = (Policy.NONE, Policy.PLAIN, Policy.OURS)
DEMAND_SHARE: Final = 1.0
"""Of all CPU time, how much work is asked for: from the afternoon on, more than there is room for."""
BIN_SECONDS: Final = 900.0
"""Of a point in the picture."""
KEPT: Final = (
    "utilisation", "useful", "lost", "progress", "completed", "preemptions", "evictions", "yields",
    "delayed", "delay_p50", "delay_p99",
)  # fmt: skip
"""Of the figures of a run."""

Told = Callable[[str], None]


def measure(traces: Path, seeds: Sequence[int] = SEEDS, told: Told = lambda line: None) -> dict[str, Any]:
    """Every policy with every seed.

    Returns:
        `runs`: `policy`, `seed` and KEPT of each; `course`: of the first seed, percent of all CPU that is used by
        policy, and by ordinary pods (`ordinary`), for each BIN_SECONDS (`every`) of the day; and the scenario.

    Raises InputError where a trace is missing.
    """
    runs: list[dict[str, Any]] = []
    course: dict[str, list[float]] = {}
    about: dict[str, Any] = {}
    for seed in seeds:
        scenario = scenario_of(SCENARIO, traces, seed=seed, demand_share=DEMAND_SHARE)
        about = about or {
            "scenario": scenario.name,
            "origin": scenario.origin,
            "nodes": len(scenario.nodes),
            "cores": sum(node.cpu_milli for node in scenario.nodes) / 1000,
            "ordinaryPods": len(scenario.ordinary),
            "jobs": len(scenario.jobs),
            "every": BIN_SECONDS,
        }
        for policy in POLICIES:
            told(f"{scenario.name}: {policy.value}, seed {seed}")
            result = simulate(scenario, Settings(), policy, seed)
            runs.append({"policy": policy.value, "seed": seed, **kept(figures(result))})
            if seed == seeds[0]:
                course[policy.value] = binned(result.points, lambda point: point.cpu.load)
                course["ordinary"] = binned(result.points, lambda point: point.cpu.ordinary)
    return {**about, "course": course, "runs": runs}


def kept(found: Figures) -> dict[str, Any]:
    """The figures that are kept of a run, rounded to what they are good for."""
    return {name: None if (value := getattr(found, name)) is None else round(value, 3) for name in KEPT}


def binned(points: Sequence[Point], of: Callable[[Point], float]) -> list[float]:
    """Means over each BIN_SECONDS of the day, of periods that are equally long."""
    bins: dict[int, list[float]] = {}
    for point in points:
        bins.setdefault(int(point.at // BIN_SECONDS), []).append(of(point))
    return [round(sum(values) / len(values), 2) for _, values in sorted(bins.items())]


def main(words: list[str]) -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.simulator.proof", description="What scavenging adds to a day."
    )
    parser.add_argument("--traces", type=Path, required=True, help="folder of the public traces")
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args(words)
    data = measure(arguments.traces, told=lambda line: print(line, file=sys.stderr, flush=True))
    arguments.file.write_text(json.dumps(data, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
