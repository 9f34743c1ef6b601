"""A cluster of the demo's own: the embedded one, with real containers where that is possible."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import demo_picture
from demo_install import OWN_SCHEDULER, Charts, Processes, Services
from demo_stage import Stage, console, programs_on, say
from scavenger_cluster import Cluster, cgroups, service_images, stack
from scavenger_cluster.build import CLUSTER_TOOLS, SNAPSHOT, ensure_tools, expected

CORES: Final = 1000
"""Millicores that the node offers, whatever the machine has: the others are the control plane's."""
TOOLS: Final = (*(tool.name for tool in CLUSTER_TOOLS if tool.name != "kwok"), "metrics-server", "helm", SNAPSHOT.name)
"""All that the demo takes, so that it is compiled at once."""
REGISTRY: Final = "localhost"


@contextmanager
def cluster(name: str, nodes: str, *, keep: bool) -> Iterator[tuple[Stage, Services]]:
    """A new cluster, until the context ends; or longer, where it is to be kept. Raises ClusterError, DemoError."""
    found = Cluster(name, report=lambda line: say(line, "dim"))
    quiet(found).down()  # what an earlier demo has left
    try:
        with cgroups.cpu_claim(), tempfile.TemporaryDirectory(prefix="scavenger-demo-") as folder:
            ahead = expected(TOOLS)
            say(f"bringing up a real Kubernetes on this machine{f'; {ahead}' if ahead else ''}")
            if not nodes.startswith("fake") and stack.images_possible(found.report):
                yield real(found, nodes, Path(folder))
            else:
                yield pretended(found, nodes, Path(folder))
    finally:
        if keep:
            console.print(f"\nThe cluster is still there:\n\n{stack.paste_line(found)}\n{stack.path_line(found)}\n")
        else:
            found.down()


def real(found: Cluster, nodes: str, folder: Path) -> tuple[Stage, Services]:
    """With a kubelet, and all images in its node. What can be done at the same time is."""
    with ThreadPoolExecutor(2) as pool:
        with stack.images_meanwhile(found.report, *service_images.ALL):
            pool.submit(demo_picture.browser, found.report, install=True)  # found again when the picture is taken
            tools = ensure_tools(TOOLS, found.report)
            found.up(nodes, dns=False, scheduler="stock", arguments={"kubelet": stack.offer(cpu=CORES)})
        found.report("starting metrics-server, and loading the images into the node")
        metrics = pool.submit(quiet(found).up, metrics=True)
        service_images.load(found)
        stack.build_images(found)
        stack.build_snapshot_image(found)
        metrics.result()
    environment = programs_on(folder, {name: tools[name] for name in ("kubectl", "helm")}, found.kubeconfig)
    stage = Stage(
        environment,
        real=True,
        measured=True,
        unit=CORES / 20,
        image=stack.COUNTER_IMAGE,
        snap=stack.SNAPSHOT_IMAGE,
        scheduler=OWN_SCHEDULER,
    )
    return stage, Charts(REGISTRY, pull="Never")


def quiet(found: Cluster) -> Cluster:
    """The same cluster, which tells nothing of its steps."""
    return Cluster(found.name, report=lambda line: None)


def pretended(found: Cluster, nodes: str, folder: Path) -> tuple[Stage, Services]:
    """With a node that is played by kwok, and the services as processes of this machine."""
    found.up(nodes, fake_cpu="1")
    say(
        "no real containers here: a fake node plays one. API server, scheduler, controllers and all of our services",
        "yellow",
    )
    say(
        "are real; no program runs, so there are no checkpoints, no measured load and no reclaimed capacity: what",
        "yellow",
    )
    say("pods request counts as used, the services are processes of this machine, and helm is not needed", "yellow")
    environment = programs_on(folder, ensure_tools(["kubectl"], found.report), found.kubeconfig)
    stage = Stage(environment, real=False, measured=False, unit=CORES / 20, image="example.org/counter:demo")
    return stage, Processes(found)
