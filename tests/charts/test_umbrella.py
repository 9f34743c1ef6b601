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
from .test_install_commands import INSTALL, README, UNINSTALL, images, recorded

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
        if name == "webhook":  # by itself it does not see that scavenger-base is there
            values = {**registry, "pods": {"defaulting": "class"}}
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
    helm: Path, values: tuple[str, ...], asked: bool, tmp_path: Path
) -> None:
    given = (f"--set=global.image.registry={REGISTRY}", f"--set=scavenger-webhook.admission.caBundle={AUTHORITY}")
    done = renders.run(helm, "install", "scavenger", UMBRELLA, "--dry-run=client", *given, *values)
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:")[2]
    assert "The board: kubectl sj board --open --system-namespace default\n" in notes
    assert "kubectl sj doctor --install --system-namespace default   # " in notes
    assert not re.search(r"(charts|demo-apps)/", notes), "who installs from a registry has no checkout"
    first = ScavengerJob.model_validate(yaml.safe_load(created_by(notes, tmp_path)))
    assert not list(problems_of_its_own(first.spec))
    assert ("--set scavenger-webhook.admission.quotas=true" in notes) == asked


def created_by(notes: str, folder: Path) -> str:
    """What `kubectl create` reads when the commands are pasted as the terminal shows them."""
    commands, _, _ = notes.partition("The next commands:\n\n")[2].partition("\n\n")
    kubectl = folder / "kubectl"
    kubectl.write_text(f'#!/bin/sh\n[ "$1" != create ] || cat >{folder}/created\n')
    kubectl.chmod(0o755)
    subprocess.run(["bash", "-eu", "-c", commands], env={"PATH": f"{folder}:/usr/bin:/bin"}, check=True)
    return (folder / "created").read_text()


@pytest.mark.parametrize(
    ("values", "page"),
    [
        ((), False),
        (("components.board=false",), False),
        (("scavenger-board.settings.access=token", "scavenger-board.page.tls.secretName=board"), True),
    ],
)
def test_the_notes_name_a_service_only_where_it_is_made(helm: Path, values: tuple[str, ...], page: bool) -> None:
    given = (f"global.image.registry={REGISTRY}", f"scavenger-webhook.admission.caBundle={AUTHORITY}", *values)
    words = [f"--set={one}" for one in given]
    done = renders.run(helm, "install", "scavenger", UMBRELLA, "--dry-run=client", *words)
    assert done.returncode == 0, done.stderr
    made, _, notes = done.stdout.partition("NOTES:")
    assert ("name: scavenger-board-page\n" in made, "scavenger-board-page" in notes) == (page, page)
    assert ("kubectl sj board" in notes) == ("components.board=false" not in values)


POLICIES = "--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"


@pytest.mark.parametrize(
    ("values", "ranked_by"),
    [
        ((), "class"),
        ((POLICIES,), "class"),
        (("--set=components.base=false",), "webhook"),
        (("--set=components.base=false", POLICIES), "policy"),
        (("--set=scavenger-webhook.pods.defaulting=webhook",), "webhook"),
        (("--set=scavenger-webhook.pods.defaulting=webhook", "--set=scavenger-base.guard.enabled=false"), "webhook"),
    ],
)
def test_who_ranks_pods_follows_from_what_the_release_installs(
    helm: Path, values: tuple[str, ...], ranked_by: str
) -> None:
    """At the first install helm finds neither class nor policies in the cluster."""
    ways = {
        "class": ("ValidatingAdmissionPolicy", "", "scavenger-classes-warning"),
        "policy": ("MutatingAdmissionPolicy", "", "scavenger-pods-rank"),
        "webhook": ("MutatingWebhookConfiguration", "", "scavenger-webhook"),
    }
    made = objects(helm, *values)
    assert [way for way, key in ways.items() if key in made] == [ranked_by]


def test_without_the_policies_an_administrator_says_who_ranks_pods(helm: Path) -> None:
    given = (f"--set=global.image.registry={REGISTRY}", f"--set=scavenger-webhook.admission.caBundle={AUTHORITY}")
    done = rendered(helm, *given, "--set=scavenger-base.guard.enabled=false")
    assert done.returncode != 0
    assert "scavenger-webhook.pods.defaulting to webhook, policy or class" in done.stderr


def test_a_packaged_chart_prints_no_links_and_shows_the_values_of_each_component(helm: Path, tmp_path: Path) -> None:
    renders.run_again(helm, "package", UMBRELLA, f"--destination={tmp_path}").check_returncode()
    [package] = tmp_path.glob("*.tgz")
    done = renders.run_again(helm, "show", "values", package)
    assert (done.returncode, done.stderr) == (0, "")
    given = done.stdout.replace("\n# ", "\n").replace("\n#\n", "\n\n")
    given = given[given.index("\nscavenger-base:") :]
    shown = yaml.safe_load(given)
    for name in ALL:
        values = yaml.safe_load((ROOT / f"charts/scavenger-{name}/values.yaml").read_text())
        assert shown[f"scavenger-{name}"] == values


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


@pytest.mark.parametrize(
    ("admitter", "webhook", "refused"),
    [
        ({"allowedTolerations": ["gpu"]}, {"allowedTolerations": ["gpu"]}, False),
        ({}, {"allowedTolerations": []}, False),
        ({}, {"allowedTolerations": ["gpu"]}, True),
        ({"maxInterruptionAfter": "1h"}, {"maxInterruptionAfter": "2h"}, True),
    ],
)
def test_webhook_and_admitter_have_the_same_maxima(
    helm: Path, admitter: dict[str, Any], webhook: dict[str, Any], refused: bool
) -> None:
    given = (
        f"--set-json=scavenger-{name}.settings={json.dumps(settings)}"
        for name, settings in (("admitter", admitter), ("webhook", webhook))
    )
    registry = f"--set=global.image.registry={REGISTRY}"
    done = rendered(helm, *given, registry, f"--set=scavenger-webhook.admission.caBundle={AUTHORITY}")
    assert (done.returncode != 0) == refused, done.stderr
    assert ("of scavenger-admitter and scavenger-webhook differ" in done.stderr) == refused


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


@pytest.mark.parametrize(("page", "heading"), [(README, "## Quickstart"), (INSTALL, "## One release")])
def test_a_page_installs_it_into_one_namespace_and_takes_all_away(
    helm: Path, tmp_path: Path, page: Path, heading: str
) -> None:
    to_install, *_ = pages.blocks(page, heading)
    to_leave = (
        block for heading in ("## One release", "## The CRDs, too") for block in pages.blocks(UNINSTALL, heading)
    )
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


def test_the_notes_name_settings_that_have_moved(helm: Path) -> None:
    given = (f"global.image.registry={REGISTRY}", f"scavenger-webhook.admission.caBundle={AUTHORITY}")
    words = [f"--set={one}" for one in (*given, "scavenger-regulator.settings.minimumRun=true")]
    done = renders.run(helm, "install", "scavenger", UMBRELLA, "--dry-run=client", *words)
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:")[2]
    assert notes.count("is deprecated") == 1
    assert "settings.minimumRun of scavenger-regulator is deprecated" in notes
    assert "\nminimumRun of scavenger-base. All components read it there" in notes
