"""A part of a study of water: from a database through a tuner and jobs that are interrupted again and again, to a plot.

    make demo-science
    python demo-apps/science.py [--seeds N] [--steps N] [--data FILE] [--name NAME]

Brings up an embedded cluster with two real nodes, a PostgreSQL and a tuner, asks for self-diffusion and density of
water by two models, ends the pods of every job at random steps, and prints what was found beside what water is. Then
regular pods leave no node with two free cores, and the tuner gives up a job that asks for two, for one of one core.
`--data` keeps it for docs/pictures.py. Exit code 0 means that all of it came about.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from demo_stage import DemoError, Object, Stage, console, programs_on, say, until
from scavenger_cluster import Cluster, cgroups, stack
from scavenger_cluster.errors import ClusterError
from scavenger_cluster.requirements import obstacles
from scavenger_kube.errors import ApiError
from scavenger_testing.interruptions import Interruptions
from scavenger_testing.laboratory import Laboratory, laboratory
from scavenger_testing.world import World
from scavenger_tuner.core.objects import job_name
from scavenger_tuner.database.reading import everything
from scavenger_tuner.database.store import ask
from scavenger_tuner.database.tables import AttemptRow, ConfigurationRow
from scavenger_tuner.report import as_table, found
from scavenger_tuner.study import Study
from science_figures import Run, recomputed_percent, run_of, table

NAMESPACE: Final = "science"
SEED: Final = 18
TIMEOUT: Final = 1200.0
CORES: Final = 2
"""Of a job that finds no capacity."""
GIVE_UP_SECONDS: Final = 20
"""For so long it waits for capacity: `--give-up-after`, which is two hours by default."""
FEW_STEPS: Final = 3_000

Rows = Sequence[tuple[ConfigurationRow, Sequence[AttemptRow]]]


def rows_of(place: Laboratory) -> Rows:
    """All configurations with their attempts."""
    return asyncio.run(everything(place.postgres.url))


def follow(place: Laboratory, interruptions: Interruptions) -> Rows:
    """Interrupt what is due until all is finished, and say what happens."""
    said: set[int] = set()

    def finished() -> bool:
        rows = rows_of(place)
        for row, attempts in rows:
            name = f"{row.model} at {row.temperature:g} K, seed {row.seed}"
            if row.finished_at is not None and row.id not in said:
                said.add(row.id)
                say(f"{name}: {row.state} {row.reason}", "green" if row.state == "Completed" else "red")
            elif attempts and attempts[-1].ended_at is None:
                job = job_name("tuner", row.id, row.key.hex, attempts[-1].number)
                if interruptions.look(name, job):
                    say(f"{name}: its pod has to leave", "yellow")
        return len(said) == len(rows)

    until("all is finished", finished, timeout=TIMEOUT)
    return rows_of(place)


def runs(rows: Rows) -> list[Run]:
    """What was found. Raises DemoError where something was not."""
    lines = [found(row, attempts) for row, attempts in rows]
    if None in lines:
        raise DemoError("; ".join(row.reason for row, _ in rows if row.reason))
    return [run_of(line) for line in lines]


def beside(free: Mapping[str, float]) -> dict[str, int]:
    """What regular pods request of each node, in millicores, so that a job of one core fits and none of CORES does.

    Args:
        free: millicores of each node that nobody requests.
    """
    left = 1000 * CORES - 500
    return {node: round(amount - left) for node, amount in free.items() if amount > left}


def regular_pod(node: str, millicores: int) -> Object:
    """A pod that holds so much of a node, and does nothing."""
    container = {
        "name": "regular",
        "image": stack.GROMACS_IMAGE,
        "command": ["sleep", "infinity"],
        "resources": {"requests": {"cpu": f"{millicores}m"}},
    }
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"regular-{node}"}, "spec": spec}


def give_up(place: Laboratory, stage: Stage, study: Study) -> None:
    """Show that the tuner withdraws a job that finds no capacity, and computes the same in a smaller one.

    All runs before had one core, so the tuner tries two for the next configuration. DemoError where it does not.
    """
    place.tuners.stop()
    pods = [regular_pod(node, millicores) for node, millicores in beside(stage.free()).items()]
    if pods:
        place.world.apply(*pods)
    say(f"regular pods leave no node with {CORES} free cores; one more configuration is asked for")
    last = study.configurations()[-1]
    asyncio.run(ask(place.postgres.url, "smaller", [replace(last, seed=last.seed + 1, steps=FEW_STEPS)]))
    place.tuners.start("smaller", {"max-cores": str(CORES), "give-up-after": f"{GIVE_UP_SECONDS}s"})

    def finished() -> Sequence[AttemptRow]:
        row, attempts = rows_of(place)[-1]
        return attempts if row.finished_at is not None else ()

    attempts = until("the smaller one has a result", finished, timeout=TIMEOUT)
    for attempt in attempts:
        cores, why = attempt.ranks * attempt.threads, f"{attempt.reason}: {attempt.message}" if attempt.reason else ""
        say(f"attempt {attempt.number} with {cores} cores: {attempt.state} {why}", "yellow" if why else "green")
    if [(one.ranks * one.threads, one.reason) for one in attempts] != [(CORES, "TooLarge"), (1, "")]:
        raise DemoError("the tuner has not computed it in a smaller job")


def perform(cluster: Cluster, study: Study, times: int, data: Path | None) -> None:
    """Tell the story, print the table, and keep what it is made from."""
    cluster.up("real:2")
    stack.install(cluster)
    stack.start(cluster, ["admitter"])
    say("an image with GROMACS; the first time Debian's packages are installed into it")
    stack.build_gromacs_image(cluster)
    cluster.kubectl("create", "namespace", NAMESPACE)
    settings = {"image": stack.GROMACS_IMAGE, "max-cores": "1"}
    with (
        tempfile.TemporaryDirectory(prefix="scavenger-science-") as folder,
        laboratory(World(cluster, NAMESPACE), Path(folder), settings) as place,
    ):
        place.tuners.start("science")
        count = asyncio.run(ask(place.postgres.url, study.study, study.configurations()))
        say(f"{count} configurations are asked for: {study.molecules} molecules, {study.steps} steps each")
        between = (study.steps // 20, study.steps * 3 // 4)
        interruptions = Interruptions(place.world, place.work, seed=SEED, between=between, times=times)
        results = runs(follow(place, interruptions))
        environment = programs_on(Path(folder), {}, cluster.kubeconfig)
        stage = Stage(environment, real=True, measured=False, unit=0.0, image=stack.GROMACS_IMAGE)
        give_up(place, stage, study)
    columns, rows = table(results)
    console.print(as_table({name: [row[place] for row in rows] for place, name in enumerate(columns)}), markup=False)
    say(
        f"{sum(run.interruptions for run in results)} interruptions of {count} runs; "
        f"{recomputed_percent(results):.2f} % of all steps were made more than once",
        "green",
    )
    if data is not None:
        what = {"molecules": study.molecules, "picoseconds": study.steps * study.time_step / 1000}
        text = json.dumps({**what, "runs": [asdict(run) for run in results]}, indent=1)
        data.parent.mkdir(parents=True, exist_ok=True)
        data.write_text(text + "\n")


def main() -> int:
    """Run the demo; 0 when all of it came about."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="science", help="name of the embedded cluster (default: science)")
    parser.add_argument("--models", nargs="+", default=["spce", "tip3p"])
    parser.add_argument("--temperatures", nargs="+", type=float, default=[288.15, 308.15], help="kelvin")
    parser.add_argument("--seeds", type=int, default=2, help="of each model at each temperature (default: 2)")
    parser.add_argument("--steps", type=int, default=30_000, help="of 2 fs, in each run (default: 30000)")
    parser.add_argument("--interruptions", type=int, default=3, help="of each run (default: 3)")
    parser.add_argument("--data", type=Path, help="keep what was found here")
    given = parser.parse_args()
    if reasons := obstacles():
        say(f"this demo needs real nodes: {'; '.join(reasons)}", "red")
        return 1
    study = Study(
        study="water",
        models=tuple(given.models),
        molecules=256,
        temperatures=tuple(given.temperatures),
        seeds=tuple(range(1, given.seeds + 1)),
        steps=given.steps,
    )
    cluster = Cluster(given.name, report=lambda line: say(line, "dim"))
    try:
        cluster.down()
        try:
            with cgroups.cpu_claim():
                perform(cluster, study, given.interruptions, given.data)
        finally:
            cluster.down()
    except (DemoError, ClusterError, ApiError) as error:
        say(f"the demo failed: {error}", "red")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
