"""A place for tuners: rights in a namespace, a PostgreSQL with their tables, a folder to share with their jobs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from scavenger_testing.postgres import Postgres, serving
from scavenger_testing.tuners import MANIFESTS, Tuners, rights_in
from scavenger_testing.world import World, shared_folder


@dataclass(frozen=True)
class Laboratory:
    """`work`: the shared folder. `tuners`: none of them runs yet."""

    world: World
    postgres: Postgres
    work: Path
    tuners: Tuners


@contextmanager
def laboratory(world: World, folder: Path, settings: Mapping[str, str]) -> Iterator[Laboratory]:
    """One in a namespace of a cluster that everything is installed on; it goes afterwards, but for what is in the
    cluster. `folder`: for what is shared, and for logs. `settings`: of the tuners. MissingRequirementError where there
    can be no PostgreSQL."""
    with ExitStack() as stays:
        postgres = stays.enter_context(serving())
        command = [sys.executable, "-m", "scavenger_tuner", "migrate", f"--database-url={postgres.url}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        stays.enter_context(shared_folder(world, folder / "work", "tuner"))
        cluster = world.cluster
        cluster.apply(rights_in(cluster.kubectl("kustomize", str(MANIFESTS / "tuner")), world.namespace))
        tuners = Tuners(cluster.kubeconfig, world.namespace, folder, postgres.url, settings)
        stays.callback(tuners.close)
        yield Laboratory(world, postgres, folder / "work", tuners)
