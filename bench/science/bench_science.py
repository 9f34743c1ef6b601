"""GROMACS as a scavenger job, beside the bare program; interrupted; and asked for by the dozen through a tuner.

One cluster with one real node, on which nothing else runs. The bare program is `gmx mdrun` as a process of the machine,
without wrapper, container or limit, on the same run input, and with the same claim to CPUs that pods have. Job and
program take turns, and each pair begins with the other one: only their ratio means something elsewhere. How fast either
was, mdrun says itself; starting a pod is no part of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from scavenger_api import names
from scavenger_cluster import Cluster, MissingRequirementError, cgroups, stack
from scavenger_cluster.requirements import install, obstacles
from scavenger_cluster.shell import find_program
from scavenger_testing.interruptions import Interruptions
from scavenger_testing.laboratory import laboratory
from scavenger_testing.world import SETTINGS, World, shared_folder
from scavenger_tuner.core.trial import Configuration
from scavenger_tuner.database.reading import everything
from scavenger_tuner.database.store import ask

from bench import Skipped
from bench.figures import median_ratio, per_minute, performance, recomputed_percent

USER: Final = 65532
"""Whom the image runs as."""
MOLECULES: Final = 216
STEPS: Final = 10_000
"""Some ten seconds on a core of its own."""
PAIRS: Final = 8
LEAST_PAIRS: Final = 3
PAIRS_SECONDS: Final = 150.0
"""No further pair is begun after that."""
INTERRUPTED: Final = ("interrupted-1", "interrupted-2")
INTERRUPTIONS: Final = 3
MOMENTS: Final = (500, 5_000)
"""Between which steps a program is interrupted: enough are left then that it is not done before it is told to stop."""
CONFIGURATIONS: Final = 8
SHORT_STEPS: Final = 1_000
TIMEOUT: Final = 400.0

Figure = dict[str, Any]


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    if obstacles():
        raise Skipped(f"no real nodes here: {'; '.join(obstacles())}")
    try:
        install([] if find_program("gmx") else ["gromacs"], say, allowed=True)
    except MissingRequirementError as error:
        raise Skipped(f"the bare program cannot be had: {error}") from error
    cluster = Cluster("bench-science", report=say)
    with cgroups.cpu_claim(), tempfile.TemporaryDirectory(prefix="bench-science-") as folder:
        try:
            cluster.up("real:1")
            stack.install(cluster)
            stack.start(cluster, ["admitter"], SETTINGS)
            stack.build_gromacs_image(cluster)
            return [
                *gromacs_figures(cluster, Path(folder) / "gromacs"),
                *tuner_figures(cluster, Path(folder) / "tuner"),
            ]
        finally:
            cluster.down()


def gromacs_figures(cluster: Cluster, folder: Path) -> list[Figure]:
    """How fast a job is beside the bare program, and what interruptions have it make again."""
    cluster.kubectl("create", "namespace", "science-gromacs")
    folder.mkdir()
    world, work = World(cluster, "science-gromacs"), folder / "work"
    with shared_folder(world, work, "data"):
        ratio = ratio_figures(world, work)
        recomputed = recomputed_figure(world, work)
        world.clear()
    return [*ratio, recomputed]


# --- beside the bare program ----------------------------------------------------------------------------------------


def ratio_figures(world: World, work: Path) -> list[Figure]:
    """ns/day of a job over those of the bare program, in pairs."""
    finish(world, work, "first")  # makes the run input of all others, and warms what there is to be warmed
    prepared = work / "first" / "run"
    began = time.monotonic()
    pairs: list[tuple[float, float]] = []
    while len(pairs) < PAIRS and (len(pairs) < LEAST_PAIRS or time.monotonic() - began < PAIRS_SECONDS):
        job, alone = pair(world, work, prepared, len(pairs))
        pairs.append((job, alone))
        say(f"pair {len(pairs)}: {job:.1f} as a job, {alone:.1f} ns/day alone, ratio {job / alone:.3f}")
    ratios = [one / other for one, other in pairs]
    say(f"{len(pairs)} pairs, ratios from {min(ratios):.3f} to {max(ratios):.3f}")
    return [
        figure("gromacs.ns_per_day_ratio", median_ratio(pairs), "ratio", ">= 0.95"),
        figure("gromacs.ns_per_day_ratio_least", min(ratios), "ratio"),
        figure("gromacs.ns_per_day_ratio_most", max(ratios), "ratio"),
        figure("gromacs.ns_per_day", statistics.median(one for one, _ in pairs), "ns/day"),
    ]


def pair(world: World, work: Path, prepared: Path, number: int) -> tuple[float, float]:
    """ns/day of a job and of the bare program, which is first in each second pair."""
    if number % 2:
        alone = bare(work / f"bare-{number}", prepared)
        return finish(world, work, f"job-{number}", prepared), alone
    return finish(world, work, f"job-{number}", prepared), bare(work / f"bare-{number}", prepared)


def finish(world: World, work: Path, name: str, prepared: Path | None = None) -> float:
    """Run a job to its end, and take it away; ns/day."""
    begin(world, work, name, prepared)
    world.wait_phase(name, "Completed", TIMEOUT)
    world.kubectl("delete", "scavengerjob", name, "--wait=true")
    world.wait("its pod is gone", lambda: not world.pods(name))
    return performance((work / name / "run" / "md.log").read_text())


def begin(world: World, work: Path, name: str, prepared: Path | None = None) -> None:
    """Submit a job. `prepared`: a folder with run input that it is to use; without one it makes its own."""
    inner = work / name / "run"
    inner.mkdir(parents=True)
    (work / name / "configuration.json").write_text(json.dumps(configuration()))
    if prepared is not None:
        for file in ("topol.tpr", "configuration.json"):
            shutil.copy(prepared / file, inner)
    for path in (work / name, *(work / name).rglob("*")):
        os.chown(path, USER, USER)
    world.apply(scavenger_job(name))


def bare(folder: Path, prepared: Path) -> float:
    """Run `gmx mdrun` itself, to its end; ns/day."""
    folder.mkdir()
    shutil.copy(prepared / "topol.tpr", folder)
    words = ["gmx", "-quiet", "mdrun", "-s", "topol.tpr", "-g", "md.log", "-ntmpi", "1", "-ntomp", "1", "-pin", "off"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=TIMEOUT)
    return performance((folder / "md.log").read_text())


def configuration() -> dict[str, Any]:
    """Of one run, as demo-apps/gromacs reads it."""
    return {
        "model": "spce",
        "molecules": MOLECULES,
        "temperature": 298.15,
        "seed": 1,
        "time_step_fs": 2,
        "steps": STEPS,
        "output_interval": 100,
    }


def scavenger_job(name: str) -> dict[str, Any]:
    """One rank of one thread on a core; its folder on the claim has its own name."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ScavengerJob",
        "metadata": {"name": name},
        "spec": {
            "image": stack.GROMACS_IMAGE,
            "imagePullPolicy": "IfNotPresent",
            "resources": {"requests": {"cpu": "1", "memory": "256Mi"}},
            "fsGroup": USER,
            "persistentVolumeClaims": [{"name": "data", "mountPath": "/data", "subPath": name}],
            "interruptionAfter": "5m",  # checkpoints are written when it is told to end, and at no other time
            "terminationGracePeriodSeconds": 60,
            "checkpointExitCode": 85,
        },
    }


# --- interrupted ----------------------------------------------------------------------------------------------------


def recomputed_figure(world: World, work: Path) -> Figure:
    """Jobs whose pods are deleted or evicted at steps that were drawn beforehand."""
    interruptions = Interruptions(world, work, seed=18, between=MOMENTS, times=INTERRUPTIONS)
    for name in INTERRUPTED:
        begin(world, work, name)

    def over() -> bool:
        for name in INTERRUPTED:
            if interruptions.look(name, name):
                say(f"{name}: its pod has to leave ({interruptions.count} of {INTERRUPTIONS * len(INTERRUPTED)})")
        return all(world.status(name).get("phase") == "Completed" for name in INTERRUPTED)

    world.wait("the interrupted jobs are done", over, TIMEOUT)
    if interruptions.count != INTERRUPTIONS * len(INTERRUPTED):
        raise AssertionError(f"{interruptions.count} interruptions: a job was done before it was interrupted")
    results = [json.loads((work / name / "result.json").read_text()) for name in INTERRUPTED]
    percent = recomputed_percent([(found["steps"], found["recomputed_steps"]) for found in results])
    return figure("gromacs.recomputed_steps_percent", percent, "%", "<= 2")


# --- through a tuner ------------------------------------------------------------------------------------------------


def tuner_figures(cluster: Cluster, folder: Path) -> list[Figure]:
    """From asking for short configurations to the last result in the database; none without a PostgreSQL."""
    cluster.kubectl("create", "namespace", "science-tuner")
    folder.mkdir()
    world = World(cluster, "science-tuner")
    try:
        with laboratory(world, folder, {"image": stack.GROMACS_IMAGE, "max-cores": "1"}) as place:
            place.tuners.start("bench")
            world.wait("the tuner is at work", lambda: place.tuners.at_work("bench"))
            asked = [
                Configuration("spce", MOLECULES, 298.15, seed, SHORT_STEPS, 2.0)
                for seed in range(1, CONFIGURATIONS + 1)
            ]
            began = datetime.now(UTC)
            asyncio.run(ask(place.postgres.url, "bench", asked))
            ends: dict[int, datetime] = {}

            def over() -> bool:
                for row, _ in asyncio.run(everything(place.postgres.url)):
                    if row.finished_at is not None and row.id not in ends:
                        if row.state != "Completed":
                            raise AssertionError(f"a configuration was given up: {row.reason}")
                        ends[row.id] = row.finished_at
                        say(f"{len(ends)} of {CONFIGURATIONS} configurations are done")
                return len(ends) == CONFIGURATIONS

            world.wait("all configurations are done", over, TIMEOUT)
            world.clear()
    except MissingRequirementError as error:
        say(f"skipped: {error}")
        return []
    return [figure("tuner.configurations_per_minute", per_minute(began, list(ends.values())), "/min")]


# --- what all have in common ----------------------------------------------------------------------------------------


def say(line: str) -> None:
    """A line of progress."""
    print(f"  {line}", file=sys.stderr, flush=True)


def figure(name: str, value: float, unit: str, goal: str | None = None) -> Figure:
    return {"name": f"science.{name}", "value": value, "unit": unit, "goal": goal}
