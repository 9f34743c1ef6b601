"""What a registry will have of a release, as OCI layouts that are known before anything is pushed.

| artifact | made from |
|---|---|
| `scavenger/NAME:VERSION` | the archive of an image; of several architectures, an index over their archives |
| `charts/NAME:VERSION` | the chart, as `helm push` puts it, without the time of the push |
| `REPOSITORY:sha256-HEX.sig` | the signature of one of these, where `cosign verify` looks for it |

Digests follow from the content, so a release is signed before it is pushed, and by somebody else than pushes it.
https://github.com/opencontainers/image-spec, https://helm.sh/docs/topics/registries and
https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md have the formats.
"""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

IMAGE: Final = re.compile(r"scavenger-(?P<name>[a-z]+)-(?P<version>\d.*)-linux-(?P<machine>[a-z0-9]+)\.oci\.tar")
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
CHART_CONFIG: Final = "application/vnd.cncf.helm.config.v1+json"
CHART_LAYER: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
IMAGE_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
SIGNED: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGNATURE: Final = "dev.cosignproject.cosign/signature"
IMAGE_DIGEST: Final = "scavenger.dev/image-digest"
IMAGE_ARCHITECTURES: Final = "scavenger.dev/image-architectures"
"""Annotations of the charts of a release: the image that a chart is for, and what it can run on."""

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Artifact:
    """What is pushed under one name.

    Attributes:
        name: below the registry, with the version: `scavenger/admitter:0.2.0`.
        files: of the release that it is made from.
        digest: `sha256:HEX`, by which a registry will know it.
        architectures: of an image, as Go names them; none for a chart.
        manifest: what the digest is of, but for an image of one architecture, whose archive has it.
        blobs: what the manifest names and no archive has, by digest.
    """

    name: str
    files: tuple[Path, ...]
    digest: str
    architectures: tuple[str, ...] = ()
    manifest: bytes = b""
    blobs: tuple[bytes, ...] = ()

    @property
    def repository(self) -> str:
        """The name without the version."""
        return self.name.partition(":")[0]


def artifacts(dist: Path) -> list[Artifact]:
    """Everything that a registry gets of a release, images first: a chart that is there has its images.

    Raises:
        ValueError: a file is none that a release has, or an archive does not hold one image.
    """
    return [*images(dist), *charts(dist)]


def images(dist: Path) -> list[Artifact]:
    """The images of a release, by name. Raises ValueError as `artifacts`."""
    found: defaultdict[str, list[tuple[str, Path]]] = defaultdict(list)
    for file in sorted(dist.glob("images/*.oci.tar")):
        parts = IMAGE.fullmatch(file.name)
        if parts is None:
            raise ValueError(f"{file} is not an image of `make release`; remove it from the folder")
        found[f"scavenger/{parts['name']}:{parts['version']}"].append((parts["machine"], file))
    return [_image(name, by_machine) for name, by_machine in sorted(found.items())]


def _image(name: str, by_machine: Sequence[tuple[str, Path]]) -> Artifact:
    machines, files = tuple(zip(*by_machine, strict=True))
    inside = [_described(file) for file in files]
    if len(files) == 1:
        return Artifact(name, files, inside[0]["digest"], machines)
    listed = [
        {
            "mediaType": one.get("mediaType", MANIFEST),
            "digest": one["digest"],
            "size": one["size"],
            "platform": {"architecture": machine, "os": "linux"},
        }
        for one, machine in zip(inside, machines, strict=True)
    ]
    index = encoded({"schemaVersion": 2, "mediaType": INDEX, "manifests": listed})
    return Artifact(name, files, digest_of(index), machines, index)


def _described(archive: Path) -> Json:
    """The descriptor of the one image in an OCI archive. Raises ValueError where it holds not one."""
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        manifests = json.loads(index.read())["manifests"] if index is not None else []
    if len(manifests) != 1:
        raise ValueError(f"{archive.name} holds {len(manifests)} images")
    found: Json = manifests[0]
    return found


def charts(dist: Path) -> list[Artifact]:
    """The charts of a release, by name."""
    return [_chart(file) for file in sorted(dist.glob("charts/*.tgz"))]


def _chart(file: Path) -> Artifact:
    about = chart_of(file)
    config, content = encoded(about), file.read_bytes()
    layers = [_descriptor(CHART_LAYER, content)]
    notes = {
        "org.opencontainers.image.title": about["name"],
        "org.opencontainers.image.version": about["version"],
        "org.opencontainers.image.description": about.get("description", ""),
    }
    manifest = _manifest(_descriptor(CHART_CONFIG, config), layers, annotations=notes)
    name = f"charts/{about['name']}:{about['version']}"
    return Artifact(name, (file,), digest_of(manifest), manifest=manifest, blobs=(config, content))


def chart_of(file: Path) -> Json:
    """Chart.yaml of a packed chart. Raises ValueError where there is none."""
    with tarfile.open(file) as tar:
        inside = [one for one in tar.getnames() if one.count("/") == 1 and one.endswith("/Chart.yaml")]
        read = tar.extractfile(inside[0]) if len(inside) == 1 else None
        if read is None:
            raise ValueError(f"{file.name} is not a chart")
        found: Json = yaml.safe_load(read)
    return found


def signature(artifact: Artifact, payload: bytes, signed: str) -> Artifact:
    """The signature of an artifact as an artifact. payload, signed: as in `sign`."""
    config = encoded({"architecture": "", "os": "", "rootfs": {"type": "layers", "diff_ids": [digest_of(payload)]}})
    layers = [{**_descriptor(SIGNED, payload), "annotations": {SIGNATURE: signed}}]
    manifest = _manifest(_descriptor(IMAGE_CONFIG, config), layers)
    name = f"{artifact.repository}:{artifact.digest.replace(':', '-')}.sig"
    return Artifact(name, (), digest_of(manifest), manifest=manifest, blobs=(config, payload))


def write_layout(artifact: Artifact, folder: Path) -> None:
    """Write the artifact as an OCI layout into an empty folder, as `skopeo copy oci:FOLDER` reads it."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    descriptor: Json | None = None
    for archive in (file for file in artifact.files if IMAGE.fullmatch(file.name)):
        for digest, content in _blobs_in(archive):
            (blobs / digest).write_bytes(content)
        descriptor = _described(archive)
    if artifact.manifest:
        for content in (*artifact.blobs, artifact.manifest):
            (blobs / digest_of(content).partition(":")[2]).write_bytes(content)
        descriptor = _descriptor(json.loads(artifact.manifest)["mediaType"], artifact.manifest)
    (folder / "oci-layout").write_bytes(encoded({"imageLayoutVersion": "1.0.0"}))
    (folder / "index.json").write_bytes(encoded({"schemaVersion": 2, "manifests": [descriptor]}))


def _blobs_in(archive: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            content = tar.extractfile(member) if member.name.startswith("blobs/sha256/") else None
            if content is not None:
                yield member.name.rpartition("/")[2], content.read()


def digest_of(content: bytes) -> str:
    """`sha256:HEX`."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def encoded(value: Any) -> bytes:
    """JSON, the same for the same value."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _descriptor(kind: str, content: bytes) -> Json:
    return {"mediaType": kind, "digest": digest_of(content), "size": len(content)}


def _manifest(config: Json, layers: Sequence[Json], **more: Any) -> bytes:
    return encoded({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": list(layers), **more})
