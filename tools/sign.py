"""Signatures of a release, by a key that it is given: what `cosign` and `openssl` verify.

| file in dist/ | what it signs | verified by |
|---|---|---|
| `SHA256SUMS.sig` | `SHA256SUMS`, and so every file | `cosign verify-blob`, `openssl dgst` |
| `charts/*.tgz.sig` | one chart | the same |
| `images/*.cosign.json`, `.cosign.sig` | the digest of one image | `cosign verify`, after `cosign attach signature` |

A signature is ECDSA over SHA-256, DER in base64, as cosign writes them.
"""

from __future__ import annotations

import base64
import json
import os
import tarfile
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

PASSWORD: Final = "SIGNING_PASSWORD"
REMEDY: Final = "make one: openssl ecparam -genkey -name prime256v1 -noout -out release.key"


def load(path: Path) -> ec.EllipticCurvePrivateKey:
    """The key in a file (PEM), with SIGNING_PASSWORD where that is set. Raises ValueError naming the remedy."""
    password = os.environ.get(PASSWORD)
    try:
        key = load_pem_private_key(path.read_bytes(), password.encode() if password else None)
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"--key {path}: {error}; {REMEDY}, and give its password as {PASSWORD}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError(f"--key {path}: not a key on the curve P-256; {REMEDY}")
    return key


def sign(key: ec.EllipticCurvePrivateKey, content: bytes) -> str:
    """The signature of this content."""
    return base64.b64encode(key.sign(content, ec.ECDSA(hashes.SHA256()))).decode()


def manifest_digest(archive: Path) -> str:
    """The digest by which a registry knows the image of an OCI archive. Raises ValueError where it holds not one."""
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        manifests = json.loads(index.read())["manifests"] if index is not None else []
    if len(manifests) != 1:
        raise ValueError(f"{archive.name} holds {len(manifests)} images")
    return str(manifests[0]["digest"])


def image_payload(digest: str) -> bytes:
    """What cosign signs of an image (containers/image, atomic container signature)."""
    image = {"docker-manifest-digest": digest}
    critical = {"identity": {"docker-reference": ""}, "image": image, "type": "cosign container image signature"}
    return json.dumps({"critical": critical, "optional": None}, separators=(",", ":")).encode()


def sign_release(key: ec.EllipticCurvePrivateKey, dist: Path) -> list[Path]:
    """Sign what is in dist/: the checksums, charts and images. Returns the files with signatures."""
    made = [dist / "SHA256SUMS.sig"]
    made[0].write_text(sign(key, (dist / "SHA256SUMS").read_bytes()))
    for chart in sorted(dist.glob("charts/*.tgz")):
        made.append(chart.with_name(f"{chart.name}.sig"))
        made[-1].write_text(sign(key, chart.read_bytes()))
    for archive in sorted(dist.glob("images/*.oci.tar")):
        payload = image_payload(manifest_digest(archive))
        made += [archive.with_name(f"{archive.name}.cosign.json"), archive.with_name(f"{archive.name}.cosign.sig")]
        made[-2].write_bytes(payload)
        made[-1].write_text(sign(key, payload))
    return made
