"""docker-compose.kind.yml: its form, and that it names what exists. It is not run anywhere in these tests."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_testing.manifests import documents

from . import renders

pytestmark = pytest.mark.timeout(900)  # helm may have to be built first

ROOT = Path(__file__).resolve().parents[2]
# Of the Compose specification, what this file uses: https://github.com/compose-spec/compose-spec
TOP = {"name": str, "services": dict}
SERVICE = {
    "build": dict,
    "init": bool,
    "working_dir": str,
    "entrypoint": list,
    "command": list,
    "environment": dict,
    "ports": list,
    "healthcheck": dict,
    "volumes": list,
}
BUILD = {"dockerfile_inline": str}
HEALTHCHECK = {"test": list, "interval": str, "retries": int}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "docker-compose.kind.yml").read_text()))


def conforms(node: dict[str, Any], form: Mapping[str, type]) -> None:
    assert set(node) <= set(form)
    for key, value in node.items():
        assert isinstance(value, form[key]), key


def test_form(compose: dict[str, Any]) -> None:
    conforms(compose, TOP)
    for service in compose["services"].values():
        conforms(service, SERVICE)
        conforms(service["build"], BUILD)
        conforms(service["healthcheck"], HEALTHCHECK)
        assert all(isinstance(word, str) for word in service["healthcheck"]["test"])


@pytest.fixture(scope="module")
def script(compose: dict[str, Any]) -> str:
    """What the container runs, as its shell sees it."""
    return str(compose["services"]["cluster"]["command"][0]).replace("$$", "$")


def test_script_is_shell(compose: dict[str, Any], script: str) -> None:
    written = compose["services"]["cluster"]["command"][0]
    assert not re.search(r"(?<!\$)\$(?!\$)", written.replace("$$", "")), "compose would fill in a variable of its own"

    subprocess.run(["sh", "-n"], input=script, text=True, check=True)


def test_names_what_exists(compose: dict[str, Any], script: str) -> None:
    cluster = compose["services"]["cluster"]
    mounted = {volume.split(":")[1]: ROOT / volume.split(":")[0] for volume in cluster["volumes"] if volume[0] == "."}
    assert mounted == {"/checkout": ROOT}
    head = (ROOT / "docker-compose.kind.yml").read_text().partition("\nname:")[0]
    for path in re.findall(r"/checkout/(\S+)", head):
        assert (ROOT / path).is_file(), path
    for path in re.findall(r"(?<![\w/])(?:services|demo-apps|charts)/[\w/.-]*\w", script):
        assert (ROOT / path).exists() or path == "charts/scavenger", path
    installed = re.findall(r"^install ([a-z]+)", script, re.MULTILINE)
    charts = {path.parent.name.removeprefix("scavenger-") for path in ROOT.glob("charts/*/Chart.yaml")}
    # Two are others together, or in all of them; a pod has to choose the scheduler; the board decides nothing.
    left_out = {"library", "scavenger", "scheduler", "board"}
    assert charts - set(installed) == left_out
    assert installed[:2] == ["crds", "base"]


def test_every_image_is_built_and_loaded_before_it_is_installed(script: str) -> None:
    (built,) = re.findall(r"for service in ([a-z ]+); do services/build-image\.sh", script)
    (loaded,) = re.findall(r"for image in (.+); do\n", script)
    services = built.split()
    assert loaded.split() == [*(f"{service}:$version" for service in services), "counter:demo"]
    for service in services:
        assert (ROOT / "services" / service / "Containerfile").is_file()
        assert script.index("kind load") < script.index(f"\ninstall {service} $here")
    # Docker looks for a Dockerfile, unless it is told: here, and in build-image.sh.
    for build in re.findall(r"^docker build .*$", script, re.MULTILINE):
        (file,) = re.findall(r"--file (\S+)", build)
        assert (ROOT / file).is_file()
    assert '--file "$context/Containerfile"' in (ROOT / "services" / "build-image.sh").read_text()
    (version,) = re.findall(r"version=\$\((sed .*)\)\n", script)
    found = subprocess.run(["sh", "-c", version], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert found == yaml.safe_load((ROOT / "charts/scavenger-admitter/Chart.yaml").read_text())["appVersion"] + "\n"


def test_the_images_are_built_from_all_that_this_takes_and_nothing_is_written_into_the_checkout(script: str) -> None:
    (copy,) = re.findall(r"^tar -C /checkout (.*) -cf - \. \|", script, re.MULTILINE)
    left_out = re.findall(r"--exclude='?\./?([^' ]+)", copy)
    for needed in ("packages", "services", "charts", "tools", "pyproject.toml", "uv.lock", "demo-apps", "cli"):
        assert needed not in left_out
    assert "/checkout" not in script.replace(f"tar -C /checkout {copy}", "")


def test_the_charts_take_the_values_that_they_are_given_here(script: str, helm: Path) -> None:
    """Dashboards, rules and ServiceMonitors, once there is an operator; images of the node alone."""
    (here,) = re.findall(r'^here="(.*)"$', script, re.MULTILINE)
    kinds: dict[str, list[dict[str, Any]]] = {}
    for chart, words in re.findall(r"^install ([a-z]+)(.*)$", script, re.MULTILINE):
        given = words.replace("$here", here).split()
        offline = ["--set=admission.caBundle=none"] if chart == "webhook" else []
        done = renders.run(helm, "template", chart, ROOT / "charts" / f"scavenger-{chart}", *given, *offline)
        assert done.returncode == 0, done.stderr
        for document in documents(done.stdout):
            kinds.setdefault(document["kind"], []).append(document)
    dashboards = [o for o in kinds["ConfigMap"] if o["metadata"]["labels"].get("grafana_dashboard") == "1"]
    files = {file.name for file in (ROOT / "charts/scavenger-base/files/dashboards").glob("*.json")}
    assert {name.removeprefix("scavenger-") for o in dashboards for name in o["data"]} == files
    assert len(files) == 3
    assert len(kinds["ServiceMonitor"]) == 4
    assert len(kinds["PrometheusRule"]) == 1
    containers = [c for o in kinds["Deployment"] for c in o["spec"]["template"]["spec"]["containers"]]
    assert {(c["image"].partition("/")[0], c["imagePullPolicy"]) for c in containers} == {("localhost", "Never")}
    assert script.index("kube-prometheus-stack") < script.index("\ninstall base"), "the operator's CRDs first"
