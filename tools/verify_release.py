"""Verify a release by its public key: python -m tools.verify_release REGISTRY --key release.pub [--dist FOLDER]

Of the folder: the signature of the checksums, every file by its checksum, no file beside them, the signature of every
chart, of every image and of every chart in the registry, and that charts name the images of this release. Of the
registry, from the chart `scavenger` on: that chart, every image that it names, and their signatures. With
--from-registry VERSION there is no folder: this is what a user can do who has the public key alone.

Exit code 1 where anything is missing or differs; each line says what.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from scavenger_cluster.shell import find_program

from tools import oci, sign
from tools.publish import insecure
from tools.release import FOLDERS

PublicKey: TypeAlias = ec.EllipticCurvePublicKey
WHOLE: Final = "scavenger"
"""The chart of all components."""


def folder_problems(dist: Path, registry: str, key: PublicKey) -> Iterator[str]:
    """What is wrong with the files of a release."""
    sums = dist / sign.SUMS
    if not sums.exists():
        yield f"{sign.SUMS} is missing"
        return
    yield from _signed(key, sums, sums.with_name(f"{sign.SUMS}.sig"))
    lines = [line.partition("  ") for line in sums.read_text(errors="replace").splitlines()]
    yield from _sum_problems(dist, {name: digest for digest, _, name in lines})
    for chart in sorted(dist.glob("charts/*.tgz")):
        yield from _signed(key, chart, chart.with_name(f"{chart.name}.sig"))
    try:
        images, charts = oci.images(dist), oci.charts(dist)
    except (OSError, EOFError, LookupError, ValueError, zlib.error, tarfile.TarError, yaml.YAMLError) as error:
        yield f"an image or a chart cannot be read: {error}"
        return
    for artifact in (*images, *charts):
        text, signature = sign.files_of(artifact, dist)
        wanted = sign.payload(f"{registry}/{artifact.repository}", artifact.digest)
        if text.exists() and text.read_bytes() != wanted:
            yield f"{text.name} is not about {registry}/{artifact.repository}@{artifact.digest}"
        yield from _signed(key, text, signature)
    digests = {one.repository: one.digest for one in images}
    for packed in (one.files[0] for one in charts):
        for component, digest in named_images(packed).items():
            if digests.get(f"scavenger/{component}") != digest:
                yield f"{packed.name}: the image of {component} is {digest}, which the release does not have"


def _sum_problems(dist: Path, listed: Mapping[str, str]) -> Iterator[str]:
    there = {file.relative_to(dist).as_posix() for folder in FOLDERS for file in dist.glob(f"{folder}/**/*")}
    for name in sorted(there - listed.keys()):
        if not (name.endswith(".tgz.sig") or (dist / name).is_dir()):
            yield f"{name} is not in {sign.SUMS}"
    for name, wanted in listed.items():
        file = dist / name
        if not file.is_file():
            yield f"{name} is missing"
        elif hashlib.sha256(file.read_bytes()).hexdigest() != wanted:
            yield f"{name} differs from its checksum"


def _signed(key: PublicKey, content: Path, signature: Path) -> Iterator[str]:
    for file in (content, signature):
        if not file.exists():
            yield f"{file.name} is missing"
            return
    if not sign.holds(key, content.read_bytes(), signature.read_text()):
        yield f"{content.name} is not what {signature.name} signs"


def named_images(chart: Path) -> dict[str, str]:
    """The digests of the images that a packed chart installs, by component; none for those that it names by tag."""
    found = {}
    with tarfile.open(chart) as tar:
        for name in sorted(tar.getnames()):
            file = tar.extractfile(name) if name.endswith("/Chart.yaml") else None
            about = yaml.safe_load(file) if file is not None else {}
            notes = about.get("annotations") or {}
            if oci.IMAGE_DIGEST in notes:
                found[about["name"].removeprefix("scavenger-")] = str(notes[oci.IMAGE_DIGEST])
    return found


class Registry:
    """What a registry has, read by skopeo.

    Args:
        where: its host, and a path where it has one.
        skopeo: the program.
    """

    def __init__(self, where: str, skopeo: str) -> None:
        self._where = where
        self._skopeo = skopeo

    def manifest(self, name: str) -> bytes:
        """The manifest or index of this name, to the byte. ValueError where there is none."""
        words = [self._skopeo, "inspect", "--raw", *insecure(self._where), f"docker://{self._where}/{name}"]
        done = subprocess.run(words, capture_output=True, check=False)
        if done.returncode != 0:
            raise ValueError(f"{self._where}/{name}: {done.stderr.decode().strip()}")
        return done.stdout

    def layer(self, name: str) -> bytes:
        """The only layer of this artifact. ValueError where its content has another digest than its manifest says."""
        (described,) = json.loads(self.manifest(name))["layers"]
        with tempfile.TemporaryDirectory() as folder:
            words = [self._skopeo, "copy", "--quiet", *insecure(self._where, "src-")]
            source = f"docker://{self._where}/{name}"
            done = subprocess.run([*words, source, f"dir:{folder}"], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise ValueError(f"{self._where}/{name}: {done.stderr.strip()}")
            content = (Path(folder) / str(described["digest"]).partition(":")[2]).read_bytes()
        if oci.digest_of(content) != described["digest"]:
            raise ValueError(f"{self._where}/{name}: its content is not what its manifest says")
        return content

    def problems(self, key: PublicKey, repository: str, digest: str) -> Iterator[str]:
        """What is wrong with the signature of a digest, as `cosign verify` would say."""
        name = f"{repository}:{digest.replace(':', '-')}.sig"
        try:
            (described,) = json.loads(self.manifest(name))["layers"]
            text = self.layer(name)
        except ValueError as error:
            yield str(error)
            return
        if text != sign.payload(f"{self._where}/{repository}", digest):
            yield f"{self._where}/{name} is not about {self._where}/{repository}@{digest}"
        if not sign.holds(key, text, described.get("annotations", {}).get(oci.SIGNATURE, "")):
            yield f"{self._where}/{name} is not signed by the key"


def registry_problems(registry: Registry, key: PublicKey, version: str) -> Iterator[str]:
    """What is wrong with what a registry has of a version: from the chart of all components to every image."""
    chart = f"charts/{WHOLE}"
    try:
        digest = oci.digest_of(registry.manifest(f"{chart}:{version}"))
        content = registry.layer(f"{chart}@{digest}")
    except ValueError as error:
        yield str(error)
        return
    yield from registry.problems(key, chart, digest)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "chart.tgz"
        file.write_bytes(content)
        named = named_images(file)
    if not named:
        yield f"{chart}:{version} names no image by its digest"
    for component, wanted in named.items():
        repository = f"scavenger/{component}"
        try:
            found = oci.digest_of(registry.manifest(f"{repository}@{wanted}"))
        except ValueError as error:
            yield str(error)
            continue
        if found != wanted:
            yield f"{repository}@{wanted} is something else"
        yield from registry.problems(key, repository, wanted)


def main(words: list[str] | None = None) -> int:
    """The command line; the exit code of the process."""
    about = (__doc__ or "").partition(":")[0]
    parser = argparse.ArgumentParser(prog="python -m tools.verify_release", description=about)
    parser.add_argument("registry", help="where it was pushed, and what it was signed for: registry.example.com/team")
    parser.add_argument("--key", type=Path, required=True, help="the public key, which you have from elsewhere")
    parser.add_argument("--dist", type=Path, default=sign.DIST, help="folder of the release (default: dist)")
    parser.add_argument("--from-registry", metavar="VERSION", help="verify what the registry has of this version")
    arguments = parser.parse_args(words)
    registry = arguments.registry.rstrip("/")
    try:
        key = sign.load_public(arguments.key)
        if arguments.from_registry is None:
            problems = list(folder_problems(arguments.dist, registry, key))
        else:
            skopeo = find_program("skopeo")
            if skopeo is None:
                raise ValueError("skopeo is not installed: apt-get install skopeo")
            problems = list(registry_problems(Registry(registry, str(skopeo)), key, arguments.from_registry))
    except ValueError as error:
        problems = [str(error)]
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    sys.stdout.write("" if problems else "verified\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
