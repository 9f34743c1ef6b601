"""Signatures of a release by a throw-away key, verified by openssl as by whoever installs it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from tools import oci, sign

from . import releases


def openssl(*words: str | Path) -> str:
    return subprocess.run(["openssl", *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "release.key"
    openssl("ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", path)
    openssl("ec", "-in", path, "-pubout", "-out", path.with_suffix(".pub"))
    return path


def verified(key: Path, content: Path, signature: Path) -> bool:
    """What docs/publish.md has users run."""
    raw = signature.with_suffix(".der")
    raw.write_bytes(base64.b64decode(signature.read_text()))
    words: list[str | Path] = ["dgst", "-sha256", "-verify", key.with_suffix(".pub"), "-signature", raw, content]
    return subprocess.run(["openssl", *words], check=False, capture_output=True).returncode == 0


def image(path: Path, *digests: str) -> None:
    """An OCI archive with an index alone."""
    index = json.dumps({"manifests": [{"digest": digest} for digest in digests]}).encode()
    with tarfile.open(path, "w") as tar:
        entry = tarfile.TarInfo("index.json")
        entry.size = len(index)
        tar.addfile(entry, io.BytesIO(index))


def test_all_of_a_release_is_signed_and_a_change_is_noticed(key: Path, tmp_path: Path) -> None:
    digest = f"sha256:{hashlib.sha256(b'manifest').hexdigest()}"
    for folder in ("charts", "images", "wheels"):
        (tmp_path / folder).mkdir()
    (tmp_path / "SHA256SUMS").write_text("0  charts/a.tgz\n")
    image(tmp_path / "images" / "scavenger-a-1.0-linux-amd64.oci.tar", digest)
    releases.chart(tmp_path, "a", {})
    chart = f"charts/a-{releases.VERSION}.tgz"

    made = sign.sign_release(sign.load(key), tmp_path, "registry.example.com/team")
    names = [file.relative_to(tmp_path).as_posix() for file in made]
    assert names == [
        "SHA256SUMS.sig",
        f"{chart}.sig",
        "signatures/scavenger-a-1.0.json",
        "signatures/scavenger-a-1.0.sig",
        f"signatures/charts-a-{releases.VERSION}.json",
        f"signatures/charts-a-{releases.VERSION}.sig",
    ]
    for content, signature in (("SHA256SUMS", made[0]), (chart, made[1]), (names[2], made[3])):
        assert verified(key, tmp_path / content, signature)
        (tmp_path / content).write_bytes((tmp_path / content).read_bytes() + b" ")
        assert not verified(key, tmp_path / content, signature)
    payload = json.loads(made[2].read_text())
    assert payload["critical"]["image"] == {"docker-manifest-digest": digest}
    assert payload["critical"]["identity"] == {"docker-reference": "registry.example.com/team/scavenger/a"}
    assert payload["critical"]["type"] == "cosign container image signature"


def test_an_archive_of_several_images_is_not_signed(key: Path, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    image(tmp_path / "images" / "scavenger-a-1.0-linux-amd64.oci.tar", "sha256:1", "sha256:2")
    with pytest.raises(ValueError, match="holds 2 images"):
        oci.artifacts(tmp_path)


def test_a_key_with_a_password_takes_it_from_the_environment(
    key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = tmp_path / "locked.key"
    openssl("pkcs8", "-topk8", "-in", key, "-out", locked, "-passout", "pass:secret")
    with pytest.raises(ValueError, match="SIGNING_PASSWORD"):
        sign.load(locked)
    monkeypatch.setenv("SIGNING_PASSWORD", "secret")
    sign.load(locked)


@pytest.mark.parametrize("made", ["secp384r1", ""])
def test_what_is_no_key_for_it_says_how_to_make_one(tmp_path: Path, made: str) -> None:
    path = tmp_path / "k"
    if made:
        openssl("ecparam", "-genkey", "-name", made, "-noout", "-out", path)
    with pytest.raises(ValueError, match="openssl ecparam"):
        sign.load(path)
