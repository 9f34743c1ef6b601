"""A release verifies by its public key, and no longer when any byte of it differs or any file is missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tools import oci, release, sign, verify_release

from .releases import REGISTRY, VERSION, chart, image, make


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ec.EllipticCurvePrivateKey]:
    folder = tmp_path_factory.mktemp("release")
    return folder, make(folder)


@pytest.fixture
def dist(original: tuple[Path, ec.EllipticCurvePrivateKey], tmp_path: Path) -> Path:
    return Path(shutil.copytree(original[0], tmp_path / "dist"))


@pytest.fixture
def key(original: tuple[Path, ec.EllipticCurvePrivateKey]) -> ec.EllipticCurvePublicKey:
    return original[1].public_key()


def problems(dist: Path, key: ec.EllipticCurvePublicKey, registry: str = REGISTRY) -> list[str]:
    return list(verify_release.folder_problems(dist, registry, key))


def verifiable(dist: Path) -> list[Path]:
    """All files but the public key: who verifies has that from elsewhere."""
    return sorted(file for file in dist.rglob("*") if file.is_file() and file.name != sign.PUBLIC)


def test_a_release_verifies(dist: Path, key: ec.EllipticCurvePublicKey) -> None:
    assert problems(dist, key) == []
    kinds = {file.relative_to(dist).parts[0] for file in verifiable(dist)}
    assert kinds == {*release.FOLDERS, "signatures", "SHA256SUMS", "SHA256SUMS.sig"}
    assert len(list((dist / "signatures").glob("*.sig"))) == 5, "two images and three charts"


def test_any_byte_and_any_file_matters(dist: Path, key: ec.EllipticCurvePublicKey) -> None:
    for file in verifiable(dist):
        content = file.read_bytes()
        for place in {0, len(content) // 2, len(content) - 1}:
            file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            assert problems(dist, key), (file.name, place)
        file.unlink()
        assert problems(dist, key), file.name
        file.write_bytes(content)
    assert problems(dist, key) == []


def test_a_file_more_is_noticed(dist: Path, key: ec.EllipticCurvePublicKey) -> None:
    (dist / "cli" / "kubectl-other").touch()
    assert problems(dist, key) == ["cli/kubectl-other is not in SHA256SUMS"]


def test_another_key_and_another_registry_sign_something_else(dist: Path, key: ec.EllipticCurvePublicKey) -> None:
    other = ec.generate_private_key(ec.SECP256R1()).public_key()
    assert all("is not what" in line for line in problems(dist, other))
    said = problems(dist, key, "registry.example.com/others")
    assert said
    assert all("is not about registry.example.com/others/" in line for line in said)


def test_a_chart_that_is_for_another_image_is_noticed_although_it_is_signed(
    original: tuple[Path, ec.EllipticCurvePrivateKey], dist: Path
) -> None:
    chart(dist, "scavenger-board", {"board": "sha256:0"})
    release.write_sums(
        [file for name in release.FOLDERS for file in dist.glob(f"{name}/*") if file.suffix != ".sig"], dist
    )
    sign.sign_release(original[1], dist, REGISTRY)
    (said,) = problems(dist, original[1].public_key())
    assert said == f"scavenger-board-{VERSION}.tgz: the image of board is sha256:0, which the release does not have"


def test_the_command_line_says_what_is_wrong(
    original: tuple[Path, ec.EllipticCurvePrivateKey], dist: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [REGISTRY, f"--dist={dist}", f"--key={dist / sign.PUBLIC}"]
    assert verify_release.main(words) == 0
    assert capsys.readouterr().out == "verified\n"
    (dist / "cli" / "kubectl-sj").write_bytes(b"")
    assert verify_release.main(words) == 1
    assert capsys.readouterr().err == "cli/kubectl-sj differs from its checksum\n"
    assert verify_release.main([REGISTRY, f"--dist={dist}", f"--key={dist / 'none.pub'}"]) == 1
    assert "none.pub" in capsys.readouterr().err
    public = original[1].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert (dist / sign.PUBLIC).read_bytes() == public


# --- what a registry gets ---


def test_an_image_for_two_architectures_is_one_index(dist: Path, tmp_path: Path) -> None:
    board = next(one for one in oci.images(dist) if one.repository == "scavenger/board")
    assert board.architectures == ("amd64", "arm64")
    layout = tmp_path / "layout"
    oci.write_layout(board, layout)
    (described,) = json.loads((layout / "index.json").read_text())["manifests"]
    assert (described["digest"], described["mediaType"]) == (board.digest, oci.INDEX)
    index = json.loads(blob(layout, board.digest))
    assert [one["platform"]["architecture"] for one in index["manifests"]] == ["amd64", "arm64"]
    for one in index["manifests"]:
        manifest = json.loads(blob(layout, one["digest"]))
        for part in (manifest["config"], *manifest["layers"]):
            assert len(blob(layout, part["digest"])) == part["size"]


def blob(layout: Path, digest: str) -> bytes:
    content = (layout / "blobs" / "sha256" / digest.removeprefix("sha256:")).read_bytes()
    assert oci.digest_of(content) == digest
    return content


def test_the_digest_of_an_image_for_one_architecture_is_that_of_its_archive(tmp_path: Path) -> None:
    image(tmp_path, "admitter")
    (artifact,) = oci.images(tmp_path)
    oci.write_layout(artifact, tmp_path / "layout")
    assert json.loads((tmp_path / "layout" / "index.json").read_text())["manifests"][0]["digest"] == artifact.digest
    assert json.loads(blob(tmp_path / "layout", artifact.digest))["mediaType"] == oci.MANIFEST


def test_the_release_pins_a_chart_to_its_image(tmp_path: Path) -> None:
    about = tmp_path / "Chart.yaml"
    about.write_text("name: scavenger-board\nannotations:\n  a: b\ntype: application\n")
    release.pin(about, oci.Artifact("scavenger/board:1", (), "sha256:1", ("amd64", "arm64")))
    assert about.read_text() == (
        'name: scavenger-board\nannotations:\n  scavenger.dev/image-digest: "sha256:1"\n'
        '  scavenger.dev/image-architectures: "amd64,arm64"\n  a: b\ntype: application\n'
    )
