"""Sign what `make release` has made: python -m tools.sign REGISTRY [--dist FOLDER] [--key FILE]

REGISTRY is where it will be pushed; a signature names the image that it is of. The private key is in FILE, or in
SIGNING_KEY (PEM, on the curve P-256); SIGNING_PASSWORD is its password.

| file in dist/ | what it signs | verified by |
|---|---|---|
| `SHA256SUMS.sig` | `SHA256SUMS`, and so every file | `cosign verify-blob`, `openssl dgst` |
| `charts/*.tgz.sig` | one chart | the same |
| `signatures/NAME.json`, `NAME.sig` | digest and name of an image or chart | `cosign verify`, once pushed |
| `release.pub` | nothing: the public key | whoever has it from elsewhere |

A signature is ECDSA over SHA-256, DER in base64, as cosign writes them.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from tools import oci

DIST: Final = Path(__file__).resolve().parents[1] / "dist"
SUMS: Final = "SHA256SUMS"
PUBLIC: Final = "release.pub"
SIGNATURES: Final = "signatures"
KEY: Final = "SIGNING_KEY"
PASSWORD: Final = "SIGNING_PASSWORD"
REMEDY: Final = "make one: openssl ecparam -genkey -name prime256v1 -noout -out release.key"


def load(path: Path | None) -> ec.EllipticCurvePrivateKey:
    """The key in a file (PEM), or in SIGNING_KEY. Raises ValueError naming the remedy."""
    password = os.environ.get(PASSWORD)
    where = f"--key {path}" if path is not None else KEY
    try:
        content = path.read_bytes() if path is not None else os.environ.get(KEY, "").encode()
        key = load_pem_private_key(content, password.encode() if password else None)
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}; {REMEDY}, and give its password as {PASSWORD}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError(f"{where}: not a key on the curve P-256; {REMEDY}")
    return key


def load_public(path: Path) -> ec.EllipticCurvePublicKey:
    """The public key in a file (PEM). Raises ValueError where there is none."""
    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ValueError(f"{path}: not a public key on the curve P-256")
    return key


def sign(key: ec.EllipticCurvePrivateKey, content: bytes) -> str:
    """The signature of this content."""
    return base64.b64encode(key.sign(content, ec.ECDSA(hashes.SHA256()))).decode()


def holds(key: ec.EllipticCurvePublicKey, content: bytes, signed: str) -> bool:
    """Whether this is a signature of this content by the owner of the key."""
    try:
        key.verify(base64.b64decode(signed, validate=True), content, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError):
        return False
    return True


def payload(reference: str, digest: str) -> bytes:
    """What cosign signs of an image (containers/image, atomic container signature).

    Args:
        reference: its name in the registry, without a tag.
        digest: of its manifest or index.
    """
    image = {"docker-manifest-digest": digest}
    identity = {"docker-reference": reference}
    critical = {"identity": identity, "image": image, "type": "cosign container image signature"}
    return json.dumps({"critical": critical, "optional": None}, separators=(",", ":")).encode()


def files_of(artifact: oci.Artifact, dist: Path) -> tuple[Path, Path]:
    """The signed text of an artifact, and its signature."""
    name = artifact.name.replace("/", "-").replace(":", "-")
    return dist / SIGNATURES / f"{name}.json", dist / SIGNATURES / f"{name}.sig"


def sign_release(key: ec.EllipticCurvePrivateKey, dist: Path, registry: str) -> list[Path]:
    """Sign what is in dist/: the checksums, charts and images. Returns the files with signatures.

    Raises:
        ValueError: as `oci.artifacts`.
    """
    (dist / PUBLIC).write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    made = [dist / f"{SUMS}.sig"]
    made[0].write_text(sign(key, (dist / SUMS).read_bytes()))
    for chart in sorted(dist.glob("charts/*.tgz")):
        made.append(chart.with_name(f"{chart.name}.sig"))
        made[-1].write_text(sign(key, chart.read_bytes()))
    (dist / SIGNATURES).mkdir(exist_ok=True)
    for artifact in oci.artifacts(dist):
        text, signature = files_of(artifact, dist)
        text.write_bytes(payload(f"{registry}/{artifact.repository}", artifact.digest))
        signature.write_text(sign(key, text.read_bytes()))
        made += [text, signature]
    return made


def remove(dist: Path) -> None:
    """Remove the signatures of what was in dist/ before."""
    shutil.rmtree(dist / SIGNATURES, ignore_errors=True)
    for file in (dist / PUBLIC, dist / f"{SUMS}.sig", *dist.glob("charts/*.tgz.sig")):
        file.unlink(missing_ok=True)


def main(words: list[str] | None = None) -> int:
    """The command line; the exit code of the process."""
    parser = argparse.ArgumentParser(prog="python -m tools.sign", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("registry", help="where it will be pushed: registry.example.com/team")
    parser.add_argument("--dist", type=Path, default=DIST, help="folder of the release (default: dist)")
    parser.add_argument("--key", type=Path, help=f"private key (PEM, curve P-256; default: {KEY} in the environment)")
    arguments = parser.parse_args(words)
    try:
        made = sign_release(load(arguments.key), arguments.dist, arguments.registry.rstrip("/"))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"signed: {len(made)} files; the public key is {arguments.dist / PUBLIC}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
