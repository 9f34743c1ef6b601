"""tools/load_images.py: which commands it takes, and that it runs them, with programs that write down what they get."""

from __future__ import annotations

import json
import platform
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools import load_images, release, sbom, version
from tools.load_images import (
    COMPONENTS,
    COUNTER,
    GO,
    MACHINES,
    NAMES,
    SCHEDULER,
    CannotLoadError,
    Nodes,
    builds,
    check,
    choose,
    image_of,
    loads,
)

ROOT = Path(__file__).resolve().parents[3]
HERE = MACHINES.get(platform.machine(), platform.machine())


NEWEST = f"v1.{load_images.scheduler_minor()}.2"


def node(
    provider: str = "", address: str = "10.0.0.1", machine: str = HERE, version: str = NEWEST, **labels: str
) -> dict[str, Any]:
    return {
        "metadata": {"labels": labels},
        "spec": {"providerID": provider},
        "status": {
            "addresses": [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": address}],
            "nodeInfo": {"architecture": machine, "kubeletVersion": version},
        },
    }


KIND = Nodes.of([node("kind://docker/lab/lab-control-plane"), node("kind://docker/lab/lab-worker")])
MINIKUBE = Nodes.of([node(**{"minikube.k8s.io/name": "mini"})])
OTHER = Nodes.of([node("aws:///eu/i-1", "10.0.0.1"), node("aws:///eu/i-2", "fd00::2")])


def test_nodes_say_what_they_are() -> None:
    assert (KIND.kind, KIND.minikube) == ("lab", "")
    assert (MINIKUBE.kind, MINIKUBE.minikube) == ("", "mini")
    assert (OTHER.kind, OTHER.minikube, OTHER.addresses) == ("", "", ("10.0.0.1", "fd00::2"))
    assert Nodes.of([]) == Nodes()


def test_each_kind_of_nodes_takes_an_archive_in_its_own_way() -> None:
    file = str(load_images.archive_of("board"))
    assert loads("board", KIND, "") == [("kind", "load", "image-archive", file, "--name", "lab")]
    assert loads("board", MINIKUBE, "") == [("minikube", "--profile", "mini", "image", "load", file)]
    over_ssh = [words[2] for words in loads("board", OTHER, "admin")]
    assert [text.partition(" <")[0] for text in over_ssh] == [
        "ssh admin@10.0.0.1 sudo ctr --namespace k8s.io images import -",
        "ssh admin@fd00::2 sudo ctr --namespace k8s.io images import -",
    ]
    with pytest.raises(CannotLoadError, match="SSH=USER"):
        loads("board", OTHER, "")


@pytest.mark.parametrize("builder", load_images.BUILDERS)
def test_every_builder_writes_the_archive_that_is_loaded(builder: str) -> None:
    for name in NAMES:
        *compile, build, save = builds(name, builder)
        assert [words[:2] for words in compile] == ([("env", "GOOS=linux")] if name in GO else [])
        assert image_of(name) in build
        assert any(str(load_images.archive_of(name)) in word for word in save)
        assert any(image_of(name) in word for word in save)


def test_nodes_of_another_architecture_are_told_before_anything_is_built() -> None:
    check(Nodes.of([node()]), platform.machine())
    with pytest.raises(CannotLoadError, match="nodes are s390x"):
        check(Nodes.of([node(), node(machine="s390x")]), platform.machine())


def test_the_images_are_all_that_the_chart_runs_by_default() -> None:
    assert set(COMPONENTS) == set(release.IN_PYTHON) - {"tuner"}
    about = yaml.safe_load((ROOT / "charts" / "scavenger" / "values.yaml").read_text())["components"]
    assert set(COMPONENTS) == {name for name, on in about.items() if on} - {"base", "crds"}
    assert image_of("board") == f"localhost/scavenger/board:{version.current()}"


def test_everything_that_a_release_has_is_loaded_but_the_tuner() -> None:
    images = {
        name.removeprefix("images/")
        for name in release.parts_of(release.Release(version.current(), 0))
        if name.startswith("images/")
    }
    assert set(NAMES) == images - {"tuner"}
    assert {name: ROOT / folder for name, folder in GO.items()} == sbom.IN_GO
    for folder in GO.values():
        assert (ROOT / folder / "build.sh").stat().st_mode & 0o111


def test_what_go_compiles_is_left_out_where_it_cannot_be_built_or_would_not_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    newest, older = Nodes.of([node()]), Nodes.of([node(), node(version="v1.33.13-gke.1")])
    assert choose([], newest) == list(NAMES)
    assert choose([], older) == [name for name in NAMES if name != SCHEDULER]
    assert "left out: scheduler. it needs Kubernetes" in capsys.readouterr().out
    with pytest.raises(CannotLoadError, match="scheduler: it needs Kubernetes"):
        choose([SCHEDULER], older)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert choose([], newest) == [*COMPONENTS, COUNTER]
    assert choose(["board"], newest) == ["board"], "nothing is said of images that nobody asked for"
    with pytest.raises(CannotLoadError, match="snapshot: Go is not installed"):
        choose(["snapshot"], newest)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """docker, kind and kubectl that write down their arguments. Returns the file."""
    said, nodes, folder = tmp_path / "said", tmp_path / "nodes.json", tmp_path / "bin"
    nodes.write_text(json.dumps({"items": [node("kind://docker/lab/lab-control-plane")]}))
    folder.mkdir()
    for name in ("docker", "kind", "kubectl"):
        script = folder / name
        script.write_text(f'#!/bin/sh\necho {name} "$@" >>{said}\n[ {name} != kubectl ] || cat {nodes}\n')
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(load_images, "ARCHIVES", tmp_path / "archives")
    return said


def test_builds_and_loads_into_the_cluster_of_the_context(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert load_images.main(["--context", "kind-lab", COUNTER]) == 0
    archive = load_images.archive_of(COUNTER)
    assert programs.read_text().splitlines() == [
        "kubectl --context kind-lab get nodes --output json",
        "docker build --tag localhost/scavenger/counter:demo --file demo-apps/counter/Containerfile demo-apps/counter",
        f"docker save --output {archive} localhost/scavenger/counter:demo",
        f"kind load image-archive {archive} --name lab",
    ]
    assert "next: kubectl apply" in capsys.readouterr().out


def test_a_program_that_fails_ends_it(
    programs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (programs.parent / "bin" / "docker").write_text("#!/bin/sh\nexit 3\n")
    assert load_images.main([COUNTER]) == 1
    assert "exit status 3" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        load_images.main(["no-such-image"])
    monkeypatch.setenv("PATH", str(programs.parent))
    assert load_images.main([COUNTER]) == 1
    assert "no docker, podman or buildah found" in capsys.readouterr().err


def test_the_readme_s_command_takes_the_images_that_are_loaded() -> None:
    (command,) = re.findall(r"helm install scavenger .*?registry=\S+", (ROOT / "README.md").read_text(), re.DOTALL)
    written = " ".join(command.replace("\\\n", " ").split())
    assert f"next: {written}" == load_images.hint(list(COMPONENTS)).replace("localhost", "registry.example.com")
    registry = image_of("board").partition("/")[0]
    assert load_images.hint(list(COMPONENTS)).endswith(f"registry={registry}")
    for name in COMPONENTS:  # what is in the node is not pulled
        values = yaml.safe_load((ROOT / "charts" / f"scavenger-{name}" / "values.yaml").read_text())
        assert values["image"]["pullPolicy"] == "IfNotPresent"
        assert image_of(name) == f"localhost/{values['image']['repository']}:{version.current()}"
