"""What of a release goes where in a registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import oci, publish, sign

from . import releases
from .releases import REGISTRY, VERSION


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    releases.make(tmp_path)
    return tmp_path


def test_images_go_before_charts_and_the_signatures_after_both(dist: Path) -> None:
    found = publish.pushes(dist, REGISTRY)
    names = [one.target.removeprefix(f"{REGISTRY}/") for one in found]
    assert names[:5] == [
        f"scavenger/admitter:{VERSION}",
        f"scavenger/board:{VERSION}",
        *(f"charts/{name}:{VERSION}" for name in ("scavenger", "scavenger-admitter", "scavenger-board")),
    ]
    of_what = [f"{one.artifact.repository}:{one.artifact.digest.replace(':', '-')}.sig" for one in found[:5]]
    assert names[5:] == of_what


def test_a_release_that_nobody_has_signed_is_pushed_without_signatures(dist: Path) -> None:
    sign.remove(dist)
    assert len(publish.pushes(dist, REGISTRY)) == 5


def test_a_release_that_was_signed_for_another_registry_is_not_pushed(dist: Path) -> None:
    with pytest.raises(ValueError, match=r"run `make sign REGISTRY=registry\.example\.com/others`"):
        publish.pushes(dist, "registry.example.com/others")
    (dist / "signatures" / f"charts-scavenger-{VERSION}.sig").unlink()
    with pytest.raises(ValueError, match="is not what is signed of"):
        publish.pushes(dist, REGISTRY)


@pytest.mark.parametrize(
    ("registry", "plain"),
    [("localhost:5000", True), ("127.0.0.1:5000/team", True), (REGISTRY, False), ("localhost.example.com", False)],
)
def test_only_a_registry_on_this_machine_is_spoken_to_without_tls(registry: str, plain: bool) -> None:
    assert publish.insecure(registry, "dest-") == (["--dest-tls-verify=false"] if plain else [])


def test_what_cannot_be_pushed_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="run `make release` first"):
        publish.pushes(tmp_path, REGISTRY)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "other.oci.tar").touch()
    with pytest.raises(ValueError, match="is not an image of `make release`"):
        publish.pushes(tmp_path, REGISTRY)


@pytest.mark.parametrize("registry", ["https://registry.example.com", "Registry.example.com", "a b"])
def test_what_is_no_registry_is_refused(registry: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert publish.main([registry]) == 1
    assert "is no registry" in capsys.readouterr().err


def pushing(folder: Path, code: int = 0) -> str:
    """A program that has pushed whatever it is told to, but for charts where it ends with a code."""
    program = folder / "pushing"
    program.write_text(f'#!/bin/sh\ncase "$*" in *charts/*) exit {code};; esac\n')
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(("registry", "flag"), [(REGISTRY, ""), ("127.0.0.1:5000", " --plain-http")])
def test_the_command_that_installs_what_was_pushed_is_told(
    registry: str, flag: str, dist: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sign.remove(dist)
    monkeypatch.setattr(publish, "find_program", lambda _: pushing(dist))
    assert publish.main([registry, f"--dist={dist}"]) == 0
    said = capsys.readouterr().out
    assert f"helm install scavenger oci://{registry}/charts/scavenger -n scavenger-system" in said
    assert said.endswith(f"--set global.image.registry={registry}{flag}\n")


def test_the_others_are_pushed_where_one_fails(
    dist: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sign.remove(dist)
    monkeypatch.setattr(publish, "find_program", lambda _: pushing(dist, 3))
    assert publish.main([REGISTRY, f"--dist={dist}"]) == 1
    said = capsys.readouterr().out
    assert f"charts/scavenger:{VERSION}: FAILED: exit code 3" in said
    assert f"2 of 5 pushed to {REGISTRY}" in said
    digests = {one.name: one.digest.removeprefix("sha256:") for one in oci.images(dist)}
    assert (dist / "PUSHED").read_text() == "".join(f"{d}  {REGISTRY}/{name}\n" for name, d in digests.items())
