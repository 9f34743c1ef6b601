"""The chart of all components installs what the charts of the components do, and is one release."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_api.job import ScavengerJob
from scavenger_api.rules.job import problems_of_its_own
from scavenger_testing import pages
from scavenger_testing.manifests import documents

from . import renders
from .test_charts import AUTHORITY, ROOT, UMBRELLA, Chart
from .test_install_commands import PAGE, README, images, recorded

pytestmark = pytest.mark.timeout(900)  # helm may have to be built first

BY_DEFAULT = ("base", "admitter", "regulator", "prioritizer", "webhook", "board")
ALL = (*BY_DEFAULT, "scheduler")
REGISTRY = "registry.example.com"


def rendered(helm: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return renders.run(helm, "template", "scavenger", UMBRELLA, "--namespace=scavenger-system", *words)


def objects(helm: Path, *words: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    """What is rendered, by kind, namespace and name."""
    words = (
        f"--set=global.image.registry={REGISTRY}",
        f"--set=scavenger-webhook.admission.caBundle={AUTHORITY}",
        *words,
    )
    done = rendered(helm, *words)
    assert done.returncode == 0, done.stderr
    return keyed(documents(done.stdout))


def keyed(objects: Iterable[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    found = list(objects)
    names = [(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in found]
    assert len(set(names)) == len(names), "each object once"
    return dict(zip(names, found, strict=True))


def test_it_installs_what_the_charts_of_the_components_install(helm: Path) -> None:
    registry = {"image": {"registry": REGISTRY}}
    expected: dict[tuple[str, str, str], dict[str, Any]] = {}
    for name in BY_DEFAULT:
        values = {} if name == "base" else registry
        expected |= keyed(Chart(helm, name).objects(values, "scavenger-system").values())
    assert objects(helm) == expected


@pytest.mark.parametrize(
    ("values", "asked"),
    [
        ((), True),
        (("--set=scavenger-webhook.admission.quotas=true",), False),
        (("--set=components.webhook=false",), False),
    ],
)
def test_the_notes_ask_whether_resource_quotas_leave_scavenger_pods_out(
    helm: Path, values: tuple[str, ...], asked: bool
) -> None:
    given = (f"--set=global.image.registry={REGISTRY}", f"--set=scavenger-webhook.admission.caBundle={AUTHORITY}")
    done = renders.run(helm, "install", "scavenger", UMBRELLA, "--dry-run=client", *given, *values)
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:")[2]
    assert "The board: " in notes
    assert "kubectl sj doctor --install --system-namespace default   # " in notes
    assert not re.search(r"(charts|demo-apps)/", notes), "who installs from a registry has no checkout"
    first = ScavengerJob.model_validate(yaml.safe_load(notes.partition("<<END")[2].partition("END")[0]))
    assert not list(problems_of_its_own(first.spec))
    assert ("--set scavenger-webhook.admission.quotas=true" in notes) == asked


@pytest.mark.parametrize("off", BY_DEFAULT)
def test_a_component_can_be_left_out(helm: Path, off: str) -> None:
    without = objects(helm, f"--set=components.{off}=false")
    only = set(objects(helm)) - set(without)
    assert only
    assert (("Deployment", "scavenger-system", f"scavenger-{off}") in only) == (off != "base")


def test_it_has_the_definitions_of_the_chart_of_the_definitions(helm: Path) -> None:
    shown = renders.run(helm, "show", "crds", UMBRELLA)
    assert shown.returncode == 0, shown.stderr
    assert keyed(documents(shown.stdout)) == definitions()


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"components": {"admiter": True}}, "'admiter'"),
        ({"admitter": {"replicas": 1}}, "'admitter'"),
        ({"scavenger-admitter": {"replica": 1}}, "'replica'"),
        ({}, "--set global.image.registry=registry.example.com"),
    ],
)
def test_what_it_does_not_know_is_refused(helm: Path, values: dict[str, Any], named: str, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(json.dumps(values))
    done = rendered(helm, f"--values={tmp_path / 'values.yaml'}")
    assert done.returncode != 0
    assert named in done.stderr


def test_its_values_and_its_schema_name_every_component() -> None:
    values = yaml.safe_load((UMBRELLA / "values.yaml").read_text())
    schema = json.loads((UMBRELLA / "values.schema.json").read_text())
    dependencies = yaml.safe_load((UMBRELLA / "Chart.yaml").read_text())["dependencies"]
    assert {one["name"]: one["condition"] for one in dependencies} == {f"scavenger-{n}": f"components.{n}" for n in ALL}
    assert values["components"] == {name: name in BY_DEFAULT for name in ALL}
    assert set(schema["properties"]["components"]["properties"]) == set(ALL)
    assert set(schema["properties"]) == {"global", "components", *(f"scavenger-{name}" for name in ALL)}
    assert {path.name: path.readlink() for path in (UMBRELLA / "charts").iterdir()} == {
        f"scavenger-{name}": Path(os.pardir, os.pardir, f"scavenger-{name}") for name in ALL
    }


def test_lint(helm: Path) -> None:
    words = (f"--set=global.image.registry={REGISTRY}", f"--set=scavenger-webhook.admission.caBundle={AUTHORITY}")
    done = renders.run(helm, "lint", UMBRELLA, "--strict", *words)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("page", "heading"), [(README, "## Quickstart"), (PAGE, "## One release")])
def test_a_page_installs_it_into_one_namespace_and_takes_all_away(
    helm: Path, tmp_path: Path, page: Path, heading: str
) -> None:
    to_install, *_ = pages.blocks(page, heading)
    to_leave = (block for heading in ("### One release", "### The CRDs, too") for block in pages.blocks(PAGE, heading))
    install, leave, without, namespace = recorded((to_install, *to_leave), tmp_path)
    assert install[:4] == ["helm", "install", "scavenger", "charts/scavenger"]
    assert "--create-namespace" in install
    assert leave[:3] == ["helm", "uninstall", "scavenger"]
    words = [word for word in install[4:] if word not in ("--create-namespace", "--wait")]
    done = rendered(helm, *words, f"--set=scavenger-webhook.admission.caBundle={AUTHORITY}")
    assert done.returncode == 0, done.stderr
    pulled = {name.rpartition("/")[0] for name in images(documents(done.stdout))}
    assert pulled == {f"{REGISTRY}/scavenger"}
    where = install[install.index("--namespace") + 1]
    assert leave[leave.index("--namespace") + 1] == where
    assert without[:3] == ["kubectl", "delete", "crd"]
    assert set(without[3:]) == {name for _, _, name in definitions()}
    assert namespace == ["kubectl", "delete", "namespace", where]


def definitions() -> dict[tuple[str, str, str], dict[str, Any]]:
    files = (ROOT / "charts/scavenger-crds/files").glob("*.yaml")
    return keyed(document for file in files for document in documents(file.read_text()))
