"""Claims on real nodes, with the manifests of the demo applications as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from scavenger_cluster import Cluster, stack
from scavenger_testing.world import World

pytestmark = pytest.mark.real

DEMOS = Path(__file__).resolve().parents[2] / "demo-apps"


@pytest.mark.parametrize(
    ("demo", "job", "build", "saved"),
    [
        ("counter", "counter", stack.build_images, "event=checkpoint"),
        pytest.param("gromacs", "water", stack.build_gromacs_image, " started ", marks=pytest.mark.long),
    ],
)
def test_a_demo_runs_as_it_is_and_goes_on_from_what_it_saved(
    world: World, cluster: Cluster, demo: str, job: str, build: Callable[[Cluster], str], saved: str
) -> None:
    build(cluster)
    world.apply(*yaml.safe_load_all((DEMOS / demo / "job.yaml").read_text()))
    world.wait_phase(job, "Running")
    world.wait("it is at work", lambda: world.said(job, saved))
    world.kubectl("delete", "pod", world.pods(job)[0]["metadata"]["name"], "--wait=false")
    world.wait("interrupted", lambda: world.status(job).get("interruptedCount") == 1)
    world.wait_phase(job, "Running")
    world.wait("it goes on", lambda: world.said(job, "resumed"))

    (claim,) = world.objects("persistentvolumeclaims")
    assert claim["status"]["phase"] == "Bound"
    volume = cluster.client.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
    folder = Path(volume["spec"]["local"]["path"])
    assert any(folder.iterdir())
    (pod,) = world.staying(job)
    assert folder.is_relative_to(cluster.data_dir / "nodes" / pod["spec"]["nodeName"])

    world.clear()
    world.kubectl("delete", "persistentvolumeclaims", "--all", "--wait=false")
    world.wait("the folder has gone with the claim", lambda: not folder.exists())
    path = f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}"
    world.wait("and the volume", lambda: cluster.client.find(path) is None)
