"""The claim itself: the same day and the same line of jobs without scavenging, with plain Jobs, and with ours.

In the simulator, which is the services' own decisions in virtual time, with three seeds; `proof.py` says more.
"""

from __future__ import annotations

from statistics import fmean
from typing import Any, Final

from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.policy import Policy

from bench import Skipped, trace_folder
from bench.simulator.proof import POLICIES, SCENARIO, measure

SHOWN: Final = {
    "utilisation": "%",
    "useful": "core-h",
    "lost": "core-h",
    "progress": "core-h",
    "preemptions": "jobs",
    "yields": "jobs",
    "delayed": "pods",
    "delay_p50": "s",
}


def run() -> list[dict[str, Any]]:
    """The figures: means over the seeds."""
    try:
        data = measure(trace_folder())
    except InputError as error:
        raise Skipped(f"{error}; BENCH_TRACE_DIR says where the public traces are") from None
    return figures_of(data["runs"])


def figures_of(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means of each policy, and of ours ÷ plain Jobs with the same seed."""
    found: list[dict[str, Any]] = []
    for name, unit in SHOWN.items():
        for policy in POLICIES:
            values = [run[name] for run in runs if run["policy"] == policy and run[name] is not None]
            if values:
                figure = {"name": f"proof.{SCENARIO}.{policy}.{name}", "value": fmean(values), "unit": unit}
                found.append({**figure, "goal": None})
    by_seed = {(run["policy"], run["seed"]): run for run in runs}
    for name in ("progress", "lost"):
        ratios = [
            run[name] / by_seed[Policy.PLAIN, seed][name]
            for (policy, seed), run in by_seed.items()
            if policy == Policy.OURS and by_seed[Policy.PLAIN, seed][name]
        ]
        if ratios:
            figure = {"name": f"proof.{SCENARIO}.{name}_ratio_to_plain", "value": fmean(ratios), "unit": "ratio"}
            found.append({**figure, "goal": None})
    return found
