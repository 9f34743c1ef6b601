"""Push the images and charts of a release to a registry: python -m tools.publish REGISTRY [--dist FOLDER]

REGISTRY is a host, and a path where the registry wants one, such as registry.example.com/team. An image becomes
REGISTRY/scavenger/NAME:VERSION, with the digest that its archive has, and a chart oci://REGISTRY/charts/NAME. What is
there already is pushed again, which changes nothing. Log in first with `skopeo login` and `helm registry login`; a
registry on this machine is spoken to without TLS. FOLDER/PUSHED has the digests and names, as a file of checksums.

Exit code 1 when something could not be pushed; the rest is.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scavenger_cluster.build import ensure_tools
from scavenger_cluster.errors import ClusterError
from scavenger_cluster.shell import find_program

from tools.release import DIST, say

IMAGE: Final = re.compile(r"scavenger-(?P<name>[a-z]+)-(?P<version>\d.*)-linux-(?P<machine>[a-z0-9]+)\.oci\.tar")
REGISTRY: Final = re.compile(r"[a-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)*")
DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")
PUSHED: Final = "PUSHED"
LOOPBACK: Final = re.compile(r"(localhost|127\.\d+\.\d+\.\d+)(:\d+)?(/|$)")


class PushError(Exception):
    """A file was not pushed."""


@dataclass(frozen=True)
class Push:
    """A file, where it goes, and the command that takes it there."""

    file: Path
    target: str
    command: Sequence[str]


def pushes(dist: Path, registry: str, skopeo: str, helm: str) -> Iterator[Push]:
    """What is to be pushed, images first: a chart that is there has its images.

    Args:
        dist: the folder of the release.
        registry: where all of it goes.
        skopeo: the program that copies images.
        helm: the program that pushes charts.

    Raises:
        ValueError: there is nothing to push, or one image for several architectures.
    """
    images = sorted(dist.glob("images/*.oci.tar"))
    charts = sorted(dist.glob("charts/*.tgz"))
    if not images and not charts:
        raise ValueError(f"{dist} has neither images nor charts; run `make release` first")
    targets = [_image_target(file, registry) for file in images]
    if twice := sorted({target for target in targets if targets.count(target) > 1}):
        raise ValueError(f"{', '.join(twice)}: {dist}/images has it for several architectures; push one at a time")
    plain = LOOPBACK.match(registry) is not None
    copy = [skopeo, "copy", "--preserve-digests", "--digestfile=/dev/stderr"]
    copy += ["--dest-tls-verify=false"] if plain else []
    for file, target in zip(images, targets, strict=True):
        yield Push(file, target, [*copy, f"oci-archive:{file}", f"docker://{target}"])
    for file in charts:
        target = f"oci://{registry}/charts"
        yield Push(file, target, [helm, "push", str(file), target, *(["--plain-http"] if plain else [])])


def _image_target(file: Path, registry: str) -> str:
    found = IMAGE.fullmatch(file.name)
    if found is None:
        raise ValueError(f"{file} is not an image of `make release`; remove it from the folder")
    return f"{registry}/scavenger/{found['name']}:{found['version']}"


def run(push: Push) -> str:
    """Carry it out; the digest that the registry has it by. PushError: what the program says of a failure."""
    done = subprocess.run(push.command, capture_output=True, text=True, check=False)
    said = f"{done.stdout}{done.stderr}".strip()
    if done.returncode != 0:
        raise PushError(said or f"exit code {done.returncode}")
    found = DIGEST.findall(said)
    if not found:
        raise PushError(f"{push.command[0]} says no digest: {said}")
    return str(found[-1])


def main(words: list[str] | None = None) -> int:
    """The command line; the exit code of the process."""
    parser = argparse.ArgumentParser(prog="python -m tools.publish", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("registry", help="a host, and a path where it wants one: registry.example.com/team")
    parser.add_argument("--dist", type=Path, default=DIST, help="folder of the release (default: dist)")
    arguments = parser.parse_args(words)
    registry = arguments.registry.rstrip("/")
    try:
        if not REGISTRY.fullmatch(registry):
            raise ValueError(f"{registry!r} is no registry: use a host and a path, such as registry.example.com/team")
        skopeo = find_program("skopeo")
        if skopeo is None:
            raise ValueError("skopeo is not installed: apt-get install skopeo")
        helm = find_program("helm") or str(ensure_tools(["helm"], say)["helm"])
        found = list(pushes(arguments.dist, registry, skopeo, helm))
    except (ValueError, ClusterError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sums = []
    for push in found:
        try:
            digest = run(push)
        except PushError as error:
            say(f"{push.file.name}: FAILED: {error}")
        else:
            say(f"{push.file.name}: {push.target}")
            sums.append(f"{digest}  {push.target}{'/' + push.file.name if push.file.suffix == '.tgz' else ''}\n")
    (arguments.dist / PUSHED).write_text("".join(sums))
    failed = len(found) - len(sums)
    plain = " --plain-http" if LOOPBACK.match(registry) else ""
    say(f"{len(sums)} of {len(found)} pushed to {registry}")
    if not failed:
        say(f"  helm install scavenger oci://{registry}/charts/scavenger -n scavenger-system --create-namespace \\")
        say(f"    --set global.image.registry={registry}{plain}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
