"""Gangs of the demo applications in their images, as their manifests have them: interrupted as one, and right
in the end. tests/integration/programs compares them with runs that nobody interrupts, to the last bit.

How many steps a program is to make it reads, as it starts, from a file of its volume: so it is never done before it is
interrupted, and has little left to do afterwards, however fast the machine is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_api.checkpoints import COMPLETION_INDEX
from scavenger_checkpoint import Store, write_atomically
from scavenger_cluster import Cluster, stack
from scavenger_testing.world import World

pytestmark = [pytest.mark.real, pytest.mark.cpu, pytest.mark.long]

DEMOS = Path(__file__).resolve().parents[2] / "demo-apps"
ENDLESS = 1_000_000_000
HEAT = (
    "until [ -e /data/steps ]; do sleep 0.1; done; "
    "exec python3 /app/heat.py --grid=256 --dir=/data/{name} --steps=$(cat /data/steps)"
)


def index_of(pod: Mapping[str, Any]) -> int:
    """Its place in the gang."""
    return int(pod["metadata"]["annotations"][COMPLETION_INDEX])


def member(world: World, job: str, index: int) -> str:
    """The name of the pod of a gang in that place."""
    (found,) = [pod["metadata"]["name"] for pod in world.staying(job) if index_of(pod) == index]
    return str(found)


def heat(name: str) -> list[dict[str, Any]]:
    """What the manifest has, its job under a name of ours, with a program that waits to be told its steps."""
    claim, job = yaml.safe_load_all((DEMOS / "mpi" / "gang.yaml").read_text())
    job["metadata"]["name"] = name
    job["spec"]["args"] = ["--slots=1", "--", "sh", "-c", HEAT.format(name=name)]
    return [claim, job]


def folder_of(world: World, cluster: Cluster, claim: str) -> Path:
    """Where the volume of a claim is on this machine."""

    def volume() -> Any:
        return (world.get("persistentvolumeclaim", claim) or {"spec": {}})["spec"].get("volumeName")

    name = world.wait("the claim is bound", volume)
    return Path(cluster.client.get(f"/api/v1/persistentvolumes/{name}")["spec"]["local"]["path"])


def test_a_gang_of_mpi_comes_to_the_right_field(world: World, cluster: Cluster) -> None:
    stack.build_program_image(cluster, "mpi")
    world.kubectl("create", "secret", "generic", "heat", "--from-literal=key=the secret of this job")
    world.apply(*heat("interrupted"))
    volume = folder_of(world, cluster, "heat")
    steps, checkpoint = volume / "steps", Store(volume / "interrupted" / "checkpoint")
    write_atomically(steps, str(ENDLESS))
    world.wait_phase("interrupted", "Running")

    def said(words: str) -> bool:
        return words in world.log(member(world, "interrupted", 0))

    world.wait("both compute", lambda: said("started at step 0, 2 ranks"))
    steps.unlink()
    first = {pod["metadata"]["uid"] for pod in world.staying("interrupted")}
    world.kubectl("delete", "pod", member(world, "interrupted", 1), "--wait=false")

    def again() -> bool:
        found = {pod["metadata"]["uid"] for pod in world.staying("interrupted")}
        return len(found) == len(first) and not found & first

    world.wait("both are started again", again)
    content = checkpoint.load().content
    assert content is not None, "both have saved when one was told to go"
    saved = json.loads(content.partition(b"\n")[0])[1]
    assert saved > 0
    write_atomically(steps, str(saved + 500))
    status = world.wait_phase("interrupted", "Completed")
    assert status["interruptedCount"] == 1
    assert said(f"resumed at step {saved}, 2 ranks")
    result = json.loads((volume / "interrupted" / "result.json").read_text())
    assert result["steps"] == saved + 500
    assert result["error"] < 1e-9  # beside the closed form
