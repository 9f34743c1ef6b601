"""Twenty real programs as one array, restricted, killed at random together with the services that have them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from scavenger_api import names
from scavenger_cluster import Cluster
from scavenger_cluster.api import namespaced
from scavenger_kube.errors import ApiError
from scavenger_testing.lives import assert_books, lives_of
from scavenger_testing.pod_security import violations
from scavenger_testing.world import IMAGE, World, scavenger_job

from tests.e2e.test_restricted import label
from tests.e2e.test_snapshots import processes
from tests.unit.counter.test_counter import counter

pytestmark = [pytest.mark.real, pytest.mark.timeout(400), pytest.mark.long]

TASKS = 20
AT_ONCE = 10
STEPS = 80
INTERRUPTIONS = 8
CORES = 0.1
PROGRAM = f"""
import os, pathlib, sys
sys.path.insert(0, "/app")
import counter
folder = pathlib.Path("/data") / os.environ["SCAVENGER_TASK"]
file = counter.checkpoint_file(folder, 0)
def step():
    return counter.read_checkpoint(file)[1].step if file.exists() else 0
before = step()
code = counter.main(["run", f"--dir={{folder}}", "--steps={STEPS}", "--seconds=8", "--checkpoint-every=1"])
with open(folder / "account", "a") as account:
    print(before, step(), code, file=account)
sys.exit(code)
"""


@pytest.fixture
def prioritizer(cluster: Cluster) -> Iterator[None]:
    cluster.service_start("prioritizer", wait="readyz")
    yield
    cluster.service_stop("prioritizer")


@pytest.mark.usefixtures("prioritizer")
def test_whatever_is_killed_each_task_is_done_once_and_the_books_are_true(
    world: World, shared: str, tmp_path: Path
) -> None:
    """Programs are evicted, deleted, or killed before they can save anything more; so are admitter and prioritizer."""
    label(world, names.LABEL_POD_SECURITY_ENFORCE, "restricted")
    volume, chosen = tmp_path / "volume", random.Random(43)
    asked: Counter[str] = Counter()
    killed = dict(zip(chosen.sample(range(2, INTERRUPTIONS), 2), ("admitter", "prioritizer"), strict=True))
    with lives_of(world.cluster.client, world.namespace, "sweep") as lives:
        world.apply(_sweep(shared))

        def play() -> bool:
            may_go = [pod for pod in world.staying("sweep") if _computes(volume, pod, asked)]
            if may_go and asked.total() < INTERRUPTIONS and chosen.random() < 0.5:
                pod = chosen.choice(may_go)
                asked[pod["metadata"]["labels"][names.LABEL_TASK]] += 1
                remove(world, pod, chosen.choice(("evict", "delete", "kill")))
                if service := killed.get(asked.total()):
                    world.cluster.service_kill(service)
            return world.status("sweep").get("phase") == "Completed"

        world.wait("all of them", play, timeout=300)
        assert asked.total() == INTERRUPTIONS
        world.wait("no finalizer", lambda: not any(_is_held(pod) for pod in world.pods("sweep")))
        world.wait("their ends to be shown", lambda: sum(life.done for life in lives.ended) >= TASKS)

    status = world.status("sweep")
    assert status["array"]["completedIndexes"] == f"0-{TASKS - 1}"
    assert all(_is_right(volume / str(task)) for task in range(TASKS))
    ended = lives.ended
    assert Counter(int(life.task) for life in ended if life.done) == Counter(range(TASKS))
    assert sum(not life.done for life in ended) >= INTERRUPTIONS
    assert_books(status, ended, CORES)
    assert [found for pod in lives.pods for found in violations(pod["spec"])] == []


SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=squares
#SBATCH --array=1-20%8
#SBATCH --ntasks=1
#SBATCH --mem=64M
#SBATCH --time=00:10:00
#SBATCH --signal=B:TERM@2
#SBATCH --output=slurm-%A_%a.out

set -e
mkdir -p steps results
step=$(cat steps/$SLURM_ARRAY_TASK_ID 2>/dev/null || echo 0)
echo "task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT, restart $SLURM_RESTART_COUNT, step $step"
while [ "$step" -lt 12 ]; do
    sleep 0.5
    step=$((step + 1))
    echo $step > steps/$SLURM_ARRAY_TASK_ID.new
    mv steps/$SLURM_ARRAY_TASK_ID.new steps/$SLURM_ARRAY_TASK_ID
done
set -C  # what is there is not written again
echo $((SLURM_ARRAY_TASK_ID * SLURM_ARRAY_TASK_ID)) > results/$SLURM_ARRAY_TASK_ID.txt
"""
"""As it would stand on a cluster of Slurm."""
EVICTIONS = 5


def test_a_script_for_slurm_runs_unchanged_and_writes_each_file_once(world: World, shared: str, tmp_path: Path) -> None:
    """Twenty tasks from 1, evicted, deleted or killed before half of their steps."""
    label(world, names.LABEL_POD_SECURITY_ENFORCE, "restricted")
    file, volume, chosen = tmp_path / "squares.sh", tmp_path / "volume", random.Random(77)
    file.write_text(SCRIPT)
    number = submit(world, str(file), shared)
    job = f"squares-{number}"
    asked: Counter[int] = Counter()
    with lives_of(world.cluster.client, world.namespace, job) as lives:

        def play() -> bool:
            may_go = [pod for pod in world.staying(job) if _has_half_to_do(volume, pod, asked)]
            if may_go and asked.total() < EVICTIONS and chosen.random() < 0.5:
                pod = chosen.choice(may_go)
                asked[number_of(pod)] += 1
                remove(world, pod, chosen.choice(("evict", "delete", "kill")))
            return world.status(job).get("phase") in ("Completed", "Failed")

        world.wait("all tasks to end", play, timeout=300)
        world.wait("their ends to be shown", lambda: sum(life.done for life in lives.ended) >= TASKS)
    status = world.status(job)
    assert (status["phase"], status["array"]["progress"]) == ("Completed", f"{TASKS}/{TASKS}"), status["message"]
    assert (asked.total(), status["interruptedCount"]) == (EVICTIONS, EVICTIONS)
    results = {path.name: path.read_text() for path in (volume / "results").iterdir()}
    assert results == {f"{task}.txt": f"{task**2}\n" for task in range(1, TASKS + 1)}
    assert Counter(int(life.task) for life in lives.ended if life.done) == Counter(range(TASKS))
    for task in range(1, TASKS + 1):
        lines = (volume / f"slurm-{number}_{task}.out").read_text().splitlines()
        assert [line.rpartition(", step ")[0] for line in lines] == [
            f"task {task} of {TASKS}, restart {restart}" for restart in range(asked[task] + 1)
        ]
        steps = [int(line.rpartition(" ")[2]) for line in lines]
        assert steps[0] == 0
        assert all(step > 0 for step in steps[1:]), "it went on from where it was"


def submit(world: World, file: str, claim: str) -> str:
    """The number that `kubectl sj sbatch` gives to a script."""
    words = ["sbatch", f"--image={IMAGE}", f"--pvc={claim}:/work", f"--namespace={world.namespace}", "--parsable", file]
    done = subprocess.run(
        [sys.executable, "-m", "scavenger_cli", *words],
        env={**os.environ, "KUBECONFIG": str(world.cluster.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().rpartition("-")[2]


def number_of(pod: dict[str, Any]) -> int:
    """The index of a task as its user knows it."""
    return int(pod["metadata"]["annotations"][names.ANNOTATION_INDEX])


def _has_half_to_do(volume: Path, pod: dict[str, Any], asked: Counter[int]) -> bool:
    """Whether this life of a task has begun, has saved a step, and has much left to do."""
    task = number_of(pod)
    with suppress(FileNotFoundError, StopIteration, ValueError):
        lives = len(next(volume.glob(f"slurm-*_{task}.out")).read_text().splitlines())
        return lives > asked[task] and 0 < int((volume / "steps" / str(task)).read_text()) < 6
    return False


def _sweep(claim: str) -> dict[str, Any]:
    return scavenger_job(
        "sweep",
        cpu=f"{CORES * 1000:.0f}m",
        command=["python3", "-c", PROGRAM],
        array={"tasks": TASKS, "maxRunning": AT_ONCE},
        interruptionAfter="1h",
        persistentVolumeClaims=[{"name": claim, "mountPath": "/data"}],
    )


def _is_held(pod: dict[str, Any]) -> bool:
    return names.FINALIZER in pod["metadata"].get("finalizers", ())


def _computes(volume: Path, pod: dict[str, Any], asked: Counter[str]) -> bool:
    """Whether this life of a task has begun, and has much left to do."""
    task = pod["metadata"]["labels"][names.LABEL_TASK]
    with suppress(FileNotFoundError, ValueError):
        _, progress = counter.read_checkpoint(counter.checkpoint_file(volume / task, 0))
        return progress.runs > asked[task] and progress.step < STEPS / 2
    return False


def remove(world: World, pod: dict[str, Any], how: str) -> None:
    """Interrupt a program. One that is stopped does not hear SIGTERM, and SIGKILL ends it."""
    path = namespaced("pods", world.namespace, pod["metadata"]["name"])
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 2}
    if how == "kill":
        options["gracePeriodSeconds"] = 1
        for process in processes(pod["metadata"]["uid"]):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)
    if how == "evict":
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["metadata"]["name"]}}
        try:
            world.cluster.client.request("POST", f"{path}/eviction", eviction)
        except ApiError as error:
            if error.status != 429:
                raise
        else:
            return
    world.cluster.client.request("DELETE", path, options)


def _is_right(folder: Path) -> bool:
    """Whether the program of a task came to its end in one life, each went on where another had saved, and the result
    is that of every step once."""
    accounts = [tuple(map(int, line.split())) for line in (folder / "account").read_text().splitlines()]
    task, progress = counter.read_checkpoint(counter.checkpoint_file(folder, 0))
    ends = [step for account in accounts for step in account[:2]]
    done = [before for before, after, _ in accounts if before < STEPS == after]
    return (
        len(done) == 1
        and ends == sorted(ends)
        and {code for *_, code in accounts} == {0}
        and (progress.step, (progress.state, progress.sum)) == (STEPS, task.outcome())
    )
