"""The cluster of the current kubectl context: what will happen to it is said, and asked for, before anything does."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from demo_install import DEFINITIONS, FIRST, OWN_SCHEDULER, SCHEDULER, SERVICES, Charts, Services
from demo_stage import NAMESPACES, DemoError, Object, Stage, console, millicores, programs_on, say
from scavenger_api.names import SYSTEM_NAMESPACE
from scavenger_cluster import service_images
from scavenger_cluster.build import KUBERNETES_VERSION, ensure_tools
from scavenger_kube.errors import ApiError

LOADED: Final = "localhost"
"""The registry of images that were loaded into the nodes."""
PATH_OF_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OWN_IMAGES: Final = ("counter", "snapshot")
"""Images of the demo itself: what counts, and what saves a program without checkpoints."""
EXAMPLE: Final = "registry.example.com"
LARGEST: Final = 64
"""Cores. The demo fills the cluster that it is played on."""

PLAN: Final = """
The demo would be played on {context}: {nodes} with {cores:g} CPUs, at {server}

It fills that cluster for about four minutes, up to its levels, and frees capacity for regular pods of its own. It is
meant for a cluster to play with, such as kind or minikube. It makes there, and removes again at its end:

  the namespaces {namespaces}
  the releases of helm {releases} in {system}, with their CRDs,
  roles, policies and PriorityClasses (one of which is the default class of new pods meanwhile)
"""
IMAGES: Final = """
It needs these images, which no public registry has:

{images}

{how}
"""
LOAD: Final = """\
`make load-images` builds them and loads them into the nodes (docs/install.md#images). If you have a registry instead,
push them there and name it: make demo CLUSTER=current REGISTRY={example}"""
PUSH: Final = """\
To build them, with docker, podman or buildah:

  for service in {services}; do
      services/build-image.sh $service {registry}/scavenger/$service:{version}
  done
  docker build --tag {registry}/scavenger/counter:demo --file demo-apps/counter/Containerfile demo-apps/counter
  snapshot/build.sh snapshot/scavenger-snapshot
  docker build --tag {registry}/scavenger/snapshot:demo --file snapshot/Containerfile snapshot
{scheduler}
Then `docker push` each."""
OF_THE_SCHEDULER: Final = """\
  services/scheduler/build.sh services/scheduler/scavenger-scheduler
  docker build --tag {image} --file services/scheduler/Containerfile services/scheduler
"""


class DeclinedError(Exception):
    """Whoever was asked does not want it."""


@contextmanager
def cluster(registry: str, *, yes: bool, keep: bool) -> Iterator[tuple[Stage, Services]]:
    """That cluster, once it is agreed to; what was made there is removed in the end. registry: "" where the images have
    been loaded into the nodes. Raises DeclinedError, DemoError."""
    with tempfile.TemporaryDirectory(prefix="scavenger-demo-") as folder:
        stage = found(Path(folder), registry or LOADED)
        services = Charts(registry or LOADED, pull="IfNotPresent" if registry else "Never")
        check(stage)
        explain(stage, registry)
        agree(yes)
        try:
            yield stage, services
        finally:
            if keep:
                say("left on the cluster as it is; docs/uninstall.md has the commands to uninstall it")
            else:
                services.uninstall(stage)


def found(folder: Path, registry: str) -> Stage:
    """The cluster, and how large the parts of the story are to be on it."""
    environment = programs_on(folder, {name: program(name) for name in ("kubectl", "helm")})
    counter, snap = (f"{registry}/scavenger/{name}:demo" for name in OWN_IMAGES)
    stage = Stage(environment, real=True, measured=True, unit=0, image=counter, snap=snap)
    offered = sum(millicores(node["status"]["allocatable"]["cpu"]) for node in stage.nodes().values())
    scheduler = OWN_SCHEDULER if minor_of(stage.get("/version")["gitVersion"]) == minor_of(KUBERNETES_VERSION) else None
    return replace(stage, measured=has_metrics(stage), unit=offered / 20, scheduler=scheduler)


def minor_of(version: str) -> str:
    """`v1.36` of `v1.36.3`."""
    return ".".join(version.split(".")[:2])


def program(name: str) -> Path:
    """kubectl or helm: the user's own, else the one that is built here."""
    own = shutil.which(name)
    return Path(own) if own else ensure_tools([name], lambda line: say(line, "dim"))[name]


def has_metrics(stage: Stage) -> bool:
    """Whether the metrics API has figures of nodes."""
    try:
        return bool(stage.items("/apis/metrics.k8s.io/v1beta1/nodes"))
    except ApiError:  # it is registered, and whoever is to answer does not
        return False


def check(stage: Stage) -> None:
    """Refuse what could not be undone, or would not work. DemoError says which."""
    paths = {f"namespace {name}": f"/api/v1/namespaces/{name}" for name in (SYSTEM_NAMESPACE, *NAMESPACES)}
    paths |= {name: f"{PATH_OF_DEFINITIONS}/{name}" for name in DEFINITIONS}
    there = [name for name, path in paths.items() if stage.get(path) is not None]
    if there:
        raise DemoError(
            f"this cluster has {' and '.join(there)} already: the demo would change what somebody else has made, and "
            "remove it in the end. Uninstall it first (docs/uninstall.md), or take another cluster"
        )
    if not stage.nodes():
        raise DemoError("this cluster has no node that takes pods")
    if stage.unit * 20 > 1000 * LARGEST:
        raise DemoError(f"this cluster has {stage.unit / 50:g} CPUs, and the demo fills it: take a smaller one")
    if not stage.measured:
        raise DemoError(
            "this cluster has no metrics API, and the demo is about what is really used: install metrics-server "
            "(`minikube addons enable metrics-server`; with kind, its chart with args={--kubelet-insecure-tls})"
        )


def explain(stage: Stage, registry: str) -> None:
    """Say what is going to happen, and what it takes."""
    nodes, services = stage.nodes(), (*SERVICES, *([SCHEDULER] if stage.scheduler else []))
    context = stage.run("kubectl", "config", "current-context").strip()
    told = PLAN.format(
        context=f"the cluster of context {context}",
        nodes=f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}",
        cores=stage.unit / 50,
        server=stage.client.endpoint.server,
        namespaces=", ".join(NAMESPACES),
        releases=", ".join(f"scavenger-{chart}" for chart in (*FIRST, *services)),
        system=SYSTEM_NAMESPACE,
    )
    console.print(told, markup=False)
    wanted = needed(services, registry or LOADED)
    how = PUSH if registry else LOAD
    scheduler = OF_THE_SCHEDULER.format(image=service_images.name_of(SCHEDULER, registry)) if stage.scheduler else ""
    how = how.format(
        services=" ".join(SERVICES),
        scheduler=scheduler,
        registry=registry,
        version=service_images.version(),
        example=EXAMPLE,
    )
    console.print(IMAGES.format(images="\n".join(f"  {name}" for name in wanted), how=how), markup=False)
    if not registry and (missing := not_loaded(wanted, nodes)):
        say(f"not reported by any node, as yet: {', '.join(missing)}", "yellow")
    if not stage.scheduler:
        say(f"the scheduler's chart is left out: it is for Kubernetes {minor_of(KUBERNETES_VERSION)}, and not needed")


def needed(services: Sequence[str], registry: str) -> list[str]:
    """The images that the story takes."""
    own = (f"{registry}/scavenger/{name}:demo" for name in OWN_IMAGES)
    return [*(service_images.name_of(service, registry) for service in services), *own]


def not_loaded(wanted: list[str], nodes: Mapping[str, Object]) -> list[str]:
    """Which of the images no node says that it has."""
    known = {name for node in nodes.values() for image in node["status"].get("images", ()) for name in image["names"]}
    return [name for name in wanted if name not in known]


def agree(yes: bool) -> None:
    """Ask, unless that was answered before. Raises DeclinedError; DemoError where nobody can be asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise DemoError("nobody can be asked here whether to go on: say YES=1 (or --yes) if you want that")
    if console.input("Go on? [y/N] ").strip().lower() not in ("y", "yes"):
        raise DeclinedError("nothing was done")
