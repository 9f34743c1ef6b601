"""A release as `make release` makes it, of small archives: two images, one for two architectures, and charts."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from tools import oci, sign
from tools.release import write_sums

REGISTRY = "registry.example.com/team"
VERSION = "0.2.0-rc.1"


def packed(path: Path, files: Mapping[str, bytes]) -> Path:
    """A tar file, compressed where its name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def image(dist: Path, component: str, machine: str = "amd64") -> Path:
    """An image of one layer, as an OCI archive that skopeo can read."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(f"{component}-{machine}"))
    content = layer.getvalue()
    config = oci.encoded(
        {
            "architecture": machine,
            "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": [oci.digest_of(content)]},
        }
    )
    blobs = [config, content]
    kinds = (oci.IMAGE_CONFIG, "application/vnd.oci.image.layer.v1.tar")
    described = [
        {"mediaType": k, "digest": oci.digest_of(b), "size": len(b)} for k, b in zip(kinds, blobs, strict=True)
    ]
    manifest = oci.encoded(
        {"schemaVersion": 2, "mediaType": oci.MANIFEST, "config": described[0], "layers": described[1:]}
    )
    index = {
        "schemaVersion": 2,
        "manifests": [{"mediaType": oci.MANIFEST, "digest": oci.digest_of(manifest), "size": len(manifest)}],
    }
    files = {f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}": blob for blob in (*blobs, manifest)}
    layout = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps(index).encode()}
    return packed(dist / "images" / f"scavenger-{component}-{VERSION}-linux-{machine}.oci.tar", layout | files)


def chart(dist: Path, name: str, digests: Mapping[str, str], inside: Iterable[str] = ()) -> Path:
    """A chart that names the images of components by digest; `inside`: charts in it."""

    def about(one: str) -> bytes:
        digest = digests.get(one.removeprefix("scavenger-"))
        notes = {oci.IMAGE_DIGEST: digest, oci.IMAGE_ARCHITECTURES: "amd64"} if digest else {}
        return json.dumps({"name": one, "version": VERSION, "description": "d", "annotations": notes}).encode()

    files = {f"{name}/Chart.yaml": about(name), f"{name}/templates/a.yaml": b"kind: ConfigMap"}
    files |= {f"{name}/charts/{one}/Chart.yaml": about(one) for one in inside}
    return packed(dist / "charts" / f"{name}-{VERSION}.tgz", files)


def make(dist: Path, registry: str = REGISTRY) -> ec.EllipticCurvePrivateKey:
    """All of it, signed; returns the key."""
    made = [image(dist, "admitter"), image(dist, "board"), image(dist, "board", "arm64")]
    digests = {one.repository.partition("/")[2]: one.digest for one in oci.images(dist)}
    charts = ("scavenger-admitter", "scavenger-board")
    made += [chart(dist, name, digests) for name in charts]
    made.append(chart(dist, "scavenger", digests, charts))
    for name in ("wheels/a.whl", "cli/kubectl-sj", "sbom/a.cdx.json"):
        (dist / name).parent.mkdir(parents=True)
        (dist / name).write_bytes(name.encode())
        made.append(dist / name)
    write_sums(made, dist)
    key = ec.generate_private_key(ec.SECP256R1())
    sign.sign_release(key, dist, registry)
    return key
