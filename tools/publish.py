"""Push a release to a registry: python -m tools.publish REGISTRY [--dist FOLDER]

REGISTRY is a host, and a path where the registry wants one, such as registry.example.com/team. An image becomes
REGISTRY/scavenger/NAME:VERSION, for all architectures that the folder has it for, and a chart oci://REGISTRY/charts/NAME.
Signatures go where `cosign verify` looks for them. What is there already is pushed again, which changes nothing. Log in
first with `skopeo login`; a registry on this machine is spoken to without TLS. FOLDER/PUSHED has the digests and names,
as a file of checksums.

Exit code 1 when something could not be pushed; the rest is.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scavenger_cluster.shell import find_program

from tools import oci, sign
from tools.release import say

REGISTRY: Final = re.compile(r"[a-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)*")
PUSHED: Final = "PUSHED"
LOOPBACK: Final = re.compile(r"(localhost|127\.\d+\.\d+\.\d+)(:\d+)?(/|$)")


class PushError(Exception):
    """A file was not pushed."""


@dataclass(frozen=True)
class Push:
    """An artifact, and where it goes."""

    artifact: oci.Artifact
    target: str


def pushes(dist: Path, registry: str) -> list[Push]:
    """What is to be pushed: images, charts, and the signatures of both where the release is signed.

    Raises:
        ValueError: there is nothing to push, it is not one release, or it was signed for another registry.
    """
    found = oci.artifacts(dist)
    if not found:
        raise ValueError(f"{dist} has neither images nor charts; run `make release` first")
    if (dist / sign.PUBLIC).exists():
        found += [_signature(artifact, dist, registry) for artifact in found]
    return [Push(artifact, f"{registry}/{artifact.name}") for artifact in found]


def _signature(artifact: oci.Artifact, dist: Path, registry: str) -> oci.Artifact:
    text, signature = sign.files_of(artifact, dist)
    wanted = sign.payload(f"{registry}/{artifact.repository}", artifact.digest)
    if not (text.exists() and signature.exists()) or text.read_bytes() != wanted:
        raise ValueError(
            f"{text} is not what is signed of {registry}/{artifact.name}; run `make sign REGISTRY={registry}`"
        )
    return oci.signature(artifact, wanted, signature.read_text())


def run(push: Push, skopeo: str) -> None:
    """Carry it out. PushError: what the program says of a failure."""
    with tempfile.TemporaryDirectory() as folder:
        oci.write_layout(push.artifact, Path(folder))
        words = [skopeo, "copy", "--all", "--preserve-digests", "--quiet", *insecure(push.target, "dest-")]
        done = subprocess.run(
            [*words, f"oci:{folder}", f"docker://{push.target}"], capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        raise PushError(f"{done.stdout}{done.stderr}".strip() or f"exit code {done.returncode}")


def insecure(registry: str, prefix: str = "") -> list[str]:
    """The flag of skopeo for a registry on this machine, which is spoken to without TLS. prefix: of the flag."""
    return [f"--{prefix}tls-verify=false"] if LOOPBACK.match(registry) else []


def main(words: list[str] | None = None) -> int:
    """The command line; the exit code of the process."""
    parser = argparse.ArgumentParser(prog="python -m tools.publish", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("registry", help="a host, and a path where it wants one: registry.example.com/team")
    parser.add_argument("--dist", type=Path, default=sign.DIST, help="folder of the release (default: dist)")
    arguments = parser.parse_args(words)
    registry = arguments.registry.rstrip("/")
    try:
        if not REGISTRY.fullmatch(registry):
            raise ValueError(f"{registry!r} is no registry: use a host and a path, such as registry.example.com/team")
        skopeo = find_program("skopeo")
        if skopeo is None:
            raise ValueError("skopeo is not installed: apt-get install skopeo")
        found = pushes(arguments.dist, registry)
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sums = []
    for push in found:
        try:
            run(push, skopeo)
        except PushError as error:
            say(f"{push.target}: FAILED: {error}")
        else:
            say(push.target)
            sums.append(f"{push.artifact.digest.partition(':')[2]}  {push.target}\n")
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
