"""The tuner's choice of ranks and threads beside a grid search, on speeds that GROMACS has on this machine.

Measured, by `gmx mdrun` alone: the speed of each model in each shape that the machine has cores for. The rest is
played with these figures, run by run: 27 configurations (three models at three temperatures, three times each), one
after the other.

- The tuner chooses as in a cluster (`scavenger_tuner.core.learning`).
- A grid search runs the first seed of each model and temperature in every shape, and the others in the best of them.
- Who knows all speeds beforehand runs every configuration in the best shape of its model.

- science.grid.core_hours_ratio: core-hours of the tuner ÷ of the grid search.
- science.grid.core_hours_over_best: core-hours of the tuner ÷ of who knows.
- science.grid.search_over_best: core-hours of the grid search ÷ of who knows.
- science.grid.best_shapes: models that the tuner ends with in their best shape.
- science.grid.spread: the largest speed per core of a model ÷ its smallest, so that the ratios say something.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from scavenger_cluster import MissingRequirementError, stack
from scavenger_cluster.requirements import install
from scavenger_cluster.shell import find_program
from scavenger_tuner.core.learning import Run, Seen, candidates, choose, mean_yields
from scavenger_tuner.core.trial import Configuration, Shape

from bench import Skipped
from bench.figures import performance
from bench.science.bench_science import say

MODELS: Final = ("spce", "tip3p", "tip4p")
TEMPERATURES: Final = (288.15, 298.15, 308.15)
SEEDS: Final = (1, 2, 3)
MOLECULES: Final = 500
TIME_STEP: Final = 2.0
MEASURED_STEPS: Final = 3_000
TIMEOUT: Final = 300.0

Figure = dict[str, Any]
Speeds = Mapping[tuple[str, Shape], float]
"""ns/day of a model in a shape."""


def run() -> list[Figure]:
    """The figures."""
    try:
        install([] if find_program("gmx") else ["gromacs"], say, allowed=True)
    except MissingRequirementError as error:
        raise Skipped(f"the program cannot be had: {error}") from error
    return figures_of(measured(os.cpu_count() or 1), os.cpu_count() or 1)


def measured(cores: int) -> Speeds:
    """The speed of every model in every shape within so many cores."""
    found = {}
    for model in MODELS:
        for shape in candidates(cores):
            found[model, shape] = speed(model, shape)
            say(f"{model} in {shape.ranks} x {shape.threads}: {found[model, shape]:.1f} ns/day")
    return found


def speed(model: str, shape: Shape) -> float:
    """ns/day of a short run, by the program of the demonstration as a process of this machine."""
    asked = Configuration(model, MOLECULES, TEMPERATURES[0], SEEDS[0], MEASURED_STEPS, TIME_STEP)
    with tempfile.TemporaryDirectory(prefix="bench-grid-") as folder:
        (Path(folder) / "configuration.json").write_text(json.dumps(asked.document(TIMEOUT)))
        words = ["--dir", folder, "--ranks", str(shape.ranks), "--threads", str(shape.threads)]
        told = {**os.environ, "PYTHONPATH": stack.python_path("gromacs")}
        program = [sys.executable, "-m", "scavenger_gromacs", *words]
        subprocess.run(program, env=told, check=True, capture_output=True, timeout=TIMEOUT)
        return performance((Path(folder) / "run" / "md.log").read_text())


def figures_of(speeds: Speeds, cores: int) -> list[Figure]:
    """What the tuner, a grid search, and who knows all speeds pay for the same configurations."""
    tuner, shapes = tuned(speeds, cores)
    grid, best = searched(speeds, cores), known(speeds, cores)
    right = sum(shapes[model] == fastest(speeds, model, cores) for model in MODELS)
    spread = max(
        max(per_core) / min(per_core)
        for model in MODELS
        for per_core in [[speeds[model, shape] / shape.cores for shape in candidates(cores)]]
    )
    return [
        _figure("core_hours_ratio", tuner / grid, "ratio", "<= 1"),
        _figure("core_hours_over_best", tuner / best, "ratio"),
        _figure("search_over_best", grid / best, "ratio"),
        _figure("best_shapes", right, "models"),
        _figure("spread", spread, "ratio"),
    ]


def tuned(speeds: Speeds, cores: int) -> tuple[float, dict[str, Shape]]:
    """What the tuner pays, and in which shape it would run each model next."""
    runs: dict[str, list[Run]] = defaultdict(list)
    paid = 0.0
    for model in MODELS:
        for _ in range(len(TEMPERATURES) * len(SEEDS)):
            shape = choose(MOLECULES, Seen(runs[model]), cores).shape
            runs[model].append(Run(MOLECULES, TIME_STEP, shape, speeds[model, shape]))
            paid += cost(speeds, model, shape)
    return paid, {model: choose(MOLECULES, Seen(runs[model]), cores).shape for model in MODELS}


def searched(speeds: Speeds, cores: int) -> float:
    """What a grid search pays: the first seed of each temperature in every shape, the others in the best one."""
    paid = 0.0
    for model in MODELS:
        first = sum(cost(speeds, model, shape) for shape in candidates(cores))
        paid += len(TEMPERATURES) * (first + (len(SEEDS) - 1) * cost(speeds, model, fastest(speeds, model, cores)))
    return paid


def known(speeds: Speeds, cores: int) -> float:
    """What it costs in the best shapes alone."""
    each = len(TEMPERATURES) * len(SEEDS)
    return each * sum(cost(speeds, model, fastest(speeds, model, cores)) for model in MODELS)


def fastest(speeds: Speeds, model: str, cores: int) -> Shape:
    """The shape in which a core does most."""
    seen = [Run(MOLECULES, TIME_STEP, shape, speeds[model, shape]) for shape in candidates(cores)]
    yields = mean_yields(MOLECULES, seen)
    return max(candidates(cores), key=lambda shape: yields[shape])


def cost(speeds: Speeds, model: str, shape: Shape) -> float:
    """Cores times time of one configuration."""
    return shape.cores / speeds[model, shape]


def _figure(name: str, value: float, unit: str, goal: str | None = None) -> Figure:
    return {"name": f"science.grid.{name}", "value": round(value, 4), "unit": unit, "goal": goal}
