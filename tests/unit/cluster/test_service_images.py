"""Images of the services: built once for the same sources, and from all that goes into them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from scavenger_cluster import images, requirements, service_images

ROOT = service_images.ROOT


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The images that were built, in a checkout with the files of the admitter alone and an empty cache."""
    made: list[str] = []

    def buildah(*words: str) -> str:
        if words[0] == "push":
            made.append(words[1])
            Path(words[2].split(":")[1]).write_text("archive")
        return ""

    checkout = tmp_path / "checkout"
    for path in service_images.sources_of("admitter"):
        copy = checkout / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.mkdir() if path.is_dir() else copy.write_bytes(path.read_bytes())
    folder = checkout / "services" / "admitter"
    (folder / "Containerfile").write_text("FROM x")
    (folder / "src" / "main.py").write_text("1")
    (checkout / "packages" / "kube" / "src" / "client.py").write_text("1")
    monkeypatch.setenv("SCAVENGER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(service_images, "ROOT", checkout)
    monkeypatch.setattr(service_images, "_prepare", lambda service: made.append(f"prepared {service}"))
    monkeypatch.setattr(requirements, "check_image_building", lambda: None)
    monkeypatch.setattr(images, "_buildah", buildah)
    monkeypatch.setattr(images, "_base_image", lambda report: "base")
    return made


def test_an_image_is_prepared_and_built_when_a_source_has_changed_and_not_again(built: list[str]) -> None:
    name = service_images.name_of("admitter")
    first = service_images.archive("admitter", lambda line: None)
    assert built == ["prepared admitter", name]
    assert service_images.archive("admitter", lambda line: None) == first
    assert built == ["prepared admitter", name], "nothing was prepared either"
    for changed in ("packages/kube/src/client.py", "services/admitter/src/main.py", "services/admitter/Containerfile"):
        (service_images.ROOT / changed).write_text("2")
        built.clear()
        second = service_images.archive("admitter", lambda line: None)
        assert built == ["prepared admitter", name]
        assert (first.exists(), second.exists()) == (False, True), "the outdated one is gone"
        first = second


def test_the_sources_are_all_that_the_script_takes() -> None:
    script = (ROOT / "services" / "build-image.sh").read_text()
    (ours,) = re.findall(r'^for name in ([a-z ]+) "\$service"; do ours', script, re.MULTILINE)
    assert ours.split() == list(service_images.PACKAGES)
    needed = subprocess.run(
        [ROOT / "tools" / "uv", "export", "--quiet", "--frozen", "--no-dev", "--package=scavenger-board"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    packages = set(re.findall(r"^(?:-e )?\./packages/(\w+)", needed, re.MULTILINE))
    assert packages
    assert packages <= set(service_images.PACKAGES)


def test_the_names_are_those_that_the_charts_ask_for() -> None:
    for service in service_images.ALL:
        chart = yaml.safe_load((ROOT / f"charts/scavenger-{service}/Chart.yaml").read_text())
        assert service_images.name_of(service, "r") == f"r/scavenger/{service}:{chart['appVersion']}"
