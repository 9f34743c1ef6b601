"""Build all images of this checkout that an installation may take, and load them into the nodes of a cluster.

    python -m tools.load_images [--context NAME] [--ssh USER] [IMAGE …]

Nodes of kind and minikube are found by what they say of themselves. Into other nodes the images go by ssh, with
`ctr images import`, as a user who may use sudo. docker, podman or buildah builds. Go compiles the scheduler and `snap`;
without it, these two are left out.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools import version

ROOT: Final = Path(__file__).resolve().parents[1]
ARCHIVES: Final = ROOT / "dist" / "image"
COMPONENTS: Final = ("admitter", "regulator", "prioritizer", "webhook", "board")
COUNTER: Final = "counter"
SCHEDULER: Final = "scheduler"
GO: Final = {SCHEDULER: "services/scheduler", "snapshot": "snapshot"}
"""Folders of the programs in Go, which installations take if they are told to."""
NAMES: Final = (*COMPONENTS, COUNTER, *GO)
DEMO: Final = (COUNTER, "snapshot")
"""Images with the tag `demo`, as `make demo CLUSTER=current` has them."""
BUILDERS: Final = ("docker", "podman", "buildah")
MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}

Words = tuple[str, ...]


class CannotLoadError(Exception):
    """The images cannot go into these nodes; says what helps."""


@dataclass(frozen=True)
class Nodes:
    """Where the images go.

    kind, minikube: name of the cluster, or of the profile; empty where it is none of them. addresses: of all nodes.
    architectures: of all nodes, as Go calls them. minors: of the versions of the kubelets; no API server is older.
    """

    kind: str = ""
    minikube: str = ""
    addresses: Words = ()
    architectures: frozenset[str] = frozenset()
    minors: frozenset[int] = frozenset()

    @classmethod
    def of(cls, items: Sequence[Mapping[str, Any]]) -> Nodes:
        """What the nodes say of themselves. items: of the NodeList."""
        provided = [node.get("spec", {}).get("providerID", "") for node in items]
        kinds = {text.split("/")[3] for text in provided if text.startswith("kind://") and text.count("/") > 3}
        labels = [node["metadata"].get("labels", {}) for node in items]
        profiles = {found["minikube.k8s.io/name"] for found in labels if "minikube.k8s.io/name" in found}
        addresses = [a for node in items for a in node.get("status", {}).get("addresses", ())]
        about = [node["status"]["nodeInfo"] for node in items]
        return cls(
            kind=next(iter(kinds), ""),
            minikube=next(iter(profiles), ""),
            addresses=tuple(a["address"] for a in addresses if a["type"] == "InternalIP"),
            architectures=frozenset(node["architecture"] for node in about),
            minors=frozenset(int(node["kubeletVersion"].split(".")[1]) for node in about),
        )


def image_of(name: str) -> str:
    """The image's name in the nodes."""
    return f"localhost/scavenger/{name}:{'demo' if name in DEMO else version.current()}"


def builds(name: str, builder: str) -> list[Words]:
    """The commands that build an image and write it into a file."""
    image, file = image_of(name), str(archive_of(name))
    folder = GO.get(name, f"demo-apps/{name}")
    if name in COMPONENTS:
        build: list[Words] = [("env", f"BUILDER={builder}", "services/build-image.sh", name, image)]
    else:
        build = [(builder, "build", "--tag", image, "--file", f"{folder}/Containerfile", folder)]
    if name in GO:  # nodes run Linux, whatever runs here
        build.insert(0, ("env", "GOOS=linux", f"{folder}/build.sh", f"{folder}/scavenger-{name}"))
    if builder == "buildah":
        return [*build, ("buildah", "push", image, f"docker-archive:{file}:{image}")]
    return [*build, (builder, "save", "--output", file, image)]


def archive_of(name: str) -> Path:
    """The file that the image is written into."""
    return ARCHIVES / f"{name}.tar"


def loads(name: str, nodes: Nodes, ssh: str) -> list[Words]:
    """The commands that bring an image from its file into all nodes. Raises CannotLoadError."""
    file = str(archive_of(name))
    if nodes.kind:
        return [("kind", "load", "image-archive", file, "--name", nodes.kind)]
    if nodes.minikube:
        return [("minikube", "--profile", nodes.minikube, "image", "load", file)]
    if not ssh:
        raise CannotLoadError(
            "these nodes are neither of kind nor of minikube: name a user who may log in to them and use sudo "
            "(SSH=USER), or push the images to a registry (docs/install.md#images)"
        )
    script = f"sudo ctr --namespace k8s.io images import - <{shlex.quote(file)}"
    return [("bash", "-c", f"ssh {shlex.quote(f'{ssh}@{address}')} {script}") for address in nodes.addresses]


def left_out(nodes: Nodes) -> dict[str, str]:
    """The images that cannot be built here, or would not run there, and why."""
    if shutil.which("go") is None:
        return dict.fromkeys(GO, "Go is not installed")
    needed = scheduler_minor()
    if min(nodes.minors, default=needed) < needed:
        return {SCHEDULER: f"it needs Kubernetes 1.{needed}; docs/scheduler.md#versions builds it for an older one"}
    return {}


def scheduler_minor() -> int:
    """The minor version of Kubernetes whose scheduler is built here: no API server may be older."""
    found = re.search(r"^\tk8s\.io/kubernetes v1\.(\d+)\.", (ROOT / GO[SCHEDULER] / "go.mod").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def choose(asked: Sequence[str], nodes: Nodes) -> list[str]:
    """The images to load: those that were asked for, or all that can be. Raises CannotLoadError for one that cannot."""
    reasons = left_out(nodes)
    for name, why in reasons.items():
        if name in asked:
            raise CannotLoadError(f"{name}: {why}")
        if not asked:
            sys.stdout.write(f"left out: {name}. {why}\n")
    return list(asked) or [name for name in NAMES if name not in reasons]


def check(nodes: Nodes, machine: str) -> None:
    """Raises CannotLoadError where nodes are of another architecture than what is built here."""
    here = MACHINES.get(machine, machine)
    others = nodes.architectures - {here}
    if others:
        raise CannotLoadError(f"nodes are {', '.join(sorted(others))}, and images that are built here are {here}")


def run(words: Words) -> None:
    """Say the command, and run it in the checkout. Raises CalledProcessError."""
    sys.stdout.write(f"$ {shlex.join(words)}\n")
    sys.stdout.flush()
    subprocess.run(words, check=True, cwd=ROOT)


def nodes_of(context: str) -> Nodes:
    """The nodes of a cluster; context: "" is the current one."""
    words = ["kubectl", *(["--context", context] if context else []), "get", "nodes", "--output", "json"]
    return Nodes.of(json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)["items"])


def hint(names: Sequence[str]) -> str:
    """What to do next."""
    if names == [COUNTER]:
        return "next: kubectl apply --filename demo-apps/counter/job.yaml"
    return (
        "next: helm install scavenger charts/scavenger --namespace scavenger-system --create-namespace --wait "
        "--set global.image.registry=localhost"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.load_images", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("images", nargs="*", metavar="IMAGE", help=f"all by default: {', '.join(NAMES)}")
    parser.add_argument("--context", default="", help="of kubectl; the current one by default")
    parser.add_argument("--ssh", default="", metavar="USER", help="who may log in to the nodes and use sudo")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.images) - set(NAMES)):
        parser.error(f"there is no image {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    try:
        builder = next((found for found in BUILDERS if shutil.which(found)), None)
        if builder is None:
            raise CannotLoadError("no docker, podman or buildah found")
        nodes = nodes_of(options.context)
        check(nodes, platform.machine())
        chosen = choose(options.images, nodes)
        into_nodes = {name: loads(name, nodes, options.ssh) for name in chosen}  # what cannot be done is said first
        for name in chosen:
            archive_of(name).parent.mkdir(parents=True, exist_ok=True)
            archive_of(name).unlink(missing_ok=True)
            for words in (*builds(name, builder), *into_nodes[name]):
                run(words)
    except (CannotLoadError, OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{error}\n{getattr(error, 'stderr', None) or ''}")
        return 1
    sys.stdout.write(f"{hint(chosen)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
