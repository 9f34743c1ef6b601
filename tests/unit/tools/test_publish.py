"""What of a release goes where in a registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import publish

REGISTRY = "registry.example.com/team"
DIGEST = "a" * 64
ADMITTER = "images/scavenger-admitter-0.2.0-rc.1-linux-amd64.oci.tar"


def dist(folder: Path, *files: str) -> Path:
    for name in files:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    return folder


def pushed(folder: Path, registry: str = REGISTRY) -> list[publish.Push]:
    return list(publish.pushes(folder, registry, "skopeo", "helm"))


def test_images_go_before_charts_and_both_under_the_path_of_the_registry(tmp_path: Path) -> None:
    image, chart = pushed(dist(tmp_path, "charts/scavenger-0.2.0-rc.1.tgz", ADMITTER))
    assert image.target == f"{REGISTRY}/scavenger/admitter:0.2.0-rc.1"
    assert image.command[-1] == f"docker://{image.target}"
    assert chart.target == f"oci://{REGISTRY}/charts"
    assert not any("tls" in word or "plain" in word for one in (image, chart) for word in one.command)


@pytest.mark.parametrize("registry", ["localhost:5000", "127.0.0.1:5000/team"])
def test_only_a_registry_on_this_machine_is_spoken_to_without_tls(tmp_path: Path, registry: str) -> None:
    image, chart = pushed(dist(tmp_path, "charts/scavenger-0.2.0.tgz", ADMITTER), registry)
    assert "--dest-tls-verify=false" in image.command
    assert "--plain-http" in chart.command
    outside = pushed(tmp_path, "localhost.example.com")
    assert not any("tls" in word or "plain" in word for one in outside for word in one.command)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ((), "run `make release` first"),
        (("images/other.oci.tar",), "is not an image of `make release`"),
        ((ADMITTER, ADMITTER.replace("amd64", "arm64")), "several architectures"),
    ],
)
def test_what_cannot_be_pushed_is_said(tmp_path: Path, files: tuple[str, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        pushed(dist(tmp_path, *files))


@pytest.mark.parametrize("registry", ["https://registry.example.com", "Registry.example.com", "a b"])
def test_what_is_no_registry_is_refused(registry: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert publish.main([registry]) == 1
    assert "is no registry" in capsys.readouterr().err


def pushing(folder: Path) -> str:
    """A program that has pushed whatever it is told to."""
    program = folder / "pushing"
    program.write_text(f"#!/bin/sh\necho Digest: sha256:{DIGEST}\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(("registry", "flag"), [(REGISTRY, ""), ("127.0.0.1:5000", " --plain-http")])
def test_the_command_that_installs_what_was_pushed_is_told(
    registry: str, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dist(tmp_path, "charts/scavenger-0.2.0.tgz", ADMITTER)
    monkeypatch.setattr(publish, "find_program", lambda _: pushing(tmp_path))
    assert publish.main([registry, f"--dist={tmp_path}"]) == 0
    said = capsys.readouterr().out
    assert f"helm install scavenger oci://{registry}/charts/scavenger -n scavenger-system" in said
    assert said.endswith(f"--set global.image.registry={registry}{flag}\n")


def test_the_others_are_pushed_where_one_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dist(tmp_path, "charts/scavenger-0.2.0.tgz", ADMITTER)
    programs = {"skopeo": "false", "helm": pushing(tmp_path)}
    monkeypatch.setattr(publish, "find_program", programs.get)
    assert publish.main([REGISTRY, f"--dist={tmp_path}"]) == 1
    said = capsys.readouterr().out
    assert "FAILED: exit code 1" in said
    assert f"scavenger-0.2.0.tgz: oci://{REGISTRY}/charts" in said
    assert f"1 of 2 pushed to {REGISTRY}" in said
    assert (tmp_path / "PUSHED").read_text() == f"{DIGEST}  oci://{REGISTRY}/charts/scavenger-0.2.0.tgz\n"
