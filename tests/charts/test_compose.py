"""docker-compose.kind.yml: its form, and that it names what exists. It is not run anywhere in these tests."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_cluster.build import HELM_VERSION, PINNED_KUBERNETES
from scavenger_testing.manifests import documents

from tools.test_all import OLDER

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


# --- played ---


RECORD = """#!/usr/bin/env python3
import json, os, sys
with open(os.environ["RECORD"], "a") as file:
    file.write(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]) + "\\n")
"""
"""A program that writes down what it is called with."""
ENGINE = ("docker", "kind", "kubectl", "helm", "tar", "build-image.sh")


@pytest.fixture(scope="module")
def played(script: str, tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """Every command of the script that needs Docker or a cluster, in order; the rest of the script has run."""
    folder = tmp_path_factory.mktemp("played")
    for name in ENGINE:
        (folder / name).write_text(RECORD)
        (folder / name).chmod(0o755)
    begins, _, ends = script.partition("touch /tmp/ready")
    assert "port-forward" in ends, "what goes on for ever"
    text = begins.replace("/tmp/ready", str(folder / "ready")).replace("services/build-image.sh", "build-image.sh")
    variables = {"PATH": f"{folder}:/usr/bin:/bin", "RECORD": str(folder / "record"), "HOSTNAME": "compose"}
    subprocess.run(["sh", "-euc", text], cwd=ROOT, env=variables, check=True)
    return [json.loads(line) for line in (folder / "record").read_text().splitlines()]


def of(played: list[list[str]], *words: str) -> list[list[str]]:
    return [command[len(words) :] for command in played if command[: len(words)] == list(words)]


def test_one_release_has_all_components_but_the_second_scheduler(played: list[list[str]]) -> None:
    (release,) = [words for words in of(played, "helm", "upgrade", "--install") if words[0].startswith("scavenger")]
    assert release[:2] == ["scavenger", "charts/scavenger"]
    crds, install = [], played.index(["helm", "upgrade", "--install", *release])
    for command in of(played, "kubectl", "apply"):
        crds += list((ROOT / command[command.index("--filename") + 1]).iterdir())
        assert played.index(["kubectl", "apply", *command]) < install
    assert {file.name for file in crds} == {file.name for file in ROOT.glob("charts/scavenger-crds/files/*.yaml")}


def test_every_image_that_the_release_needs_is_built_and_loaded_before(played: list[list[str]], helm: Path) -> None:
    version = yaml.safe_load((ROOT / "charts/scavenger-admitter/Chart.yaml").read_text())["appVersion"]
    services = [words[0] for words in of(played, "build-image.sh")]
    loaded = [words[0] for words in of(played, "kind", "load", "docker-image")]
    built = {f"localhost/scavenger/{name}:{version}" for name in services} | {"localhost/scavenger/counter:demo"}
    assert set(loaded) == built
    pods = [c for o in rendered(played, helm) if o["kind"] == "Deployment" for c in containers(o)]
    assert {c["image"] for c in pods} == built - {"localhost/scavenger/counter:demo"}
    assert {c["imagePullPolicy"] for c in pods} == {"Never"}
    order = [command[0] if command[0] != "helm" else command[3] for command in played]
    assert max(i for i, name in enumerate(order) if name == "kind") < order.index("scavenger")
    # Docker looks for a Dockerfile, unless it is told: here, and in build-image.sh.
    for words in of(played, "docker", "build"):
        assert (ROOT / words[words.index("--file") + 1]).is_file()
        assert (ROOT / words[-1]).is_dir()
    assert '--file "$context/Containerfile"' in (ROOT / "services" / "build-image.sh").read_text()


def rendered(played: list[list[str]], helm: Path) -> list[dict[str, Any]]:
    """What the release has, with the values of the script."""
    (words,) = [words for words in of(played, "helm", "upgrade", "--install") if words[0] == "scavenger"]
    given = [word for word in words[1:] if word not in ("--create-namespace", "--wait")]
    timeout = given.index("--timeout")
    offline = "--set=scavenger-webhook.admission.caBundle=none"
    done = renders.run(helm, "template", "scavenger", *given[:timeout], *given[timeout + 2 :], offline)
    assert done.returncode == 0, done.stderr
    return list(documents(done.stdout))


def containers(workload: dict[str, Any]) -> list[dict[str, Any]]:
    return list(workload["spec"]["template"]["spec"]["containers"])


def test_the_release_has_dashboards_rules_and_monitors_once_there_is_an_operator(
    played: list[list[str]], helm: Path
) -> None:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for document in rendered(played, helm):
        kinds.setdefault(document["kind"], []).append(document)
    dashboards = [o for o in kinds["ConfigMap"] if o["metadata"]["labels"].get("grafana_dashboard") == "1"]
    files = {file.name for file in (ROOT / "charts/scavenger-base/files/dashboards").glob("*.json")}
    assert {name.removeprefix("scavenger-") for o in dashboards for name in o["data"]} == files
    assert len(files) == 3
    assert len(kinds["ServiceMonitor"]) == len(kinds["Deployment"]) == 5
    assert len(kinds["PrometheusRule"]) == 1
    (namespace,) = {words[words.index("--namespace") + 1] for words in of(played, "helm") if "monitoring" in words[:3]}
    for policy in kinds["NetworkPolicy"]:
        allowed = json.dumps(policy["spec"]["ingress"])
        assert json.dumps({"matchLabels": {"kubernetes.io/metadata.name": namespace}}) in allowed
    releases = [words[0] for words in of(played, "helm", "upgrade", "--install")]
    assert releases == ["metrics-server", "monitoring", "scavenger"], "the operator's CRDs first"


def test_the_versions_are_those_of_the_docs_of_charts_and_of_the_embedded_cluster(
    compose: dict[str, Any], script: str, played: list[list[str]]
) -> None:
    page = (ROOT / "docs" / "versions.md").read_text()
    table = dict(re.findall(r"^\| ([\w -]+) \| (\S+) \|$", page, re.MULTILINE))
    inline = compose["services"]["cluster"]["build"]["dockerfile_inline"]
    assert re.findall(r"sigs\.k8s\.io/kind@(\S+)", inline) == [table["kind"]]
    assert re.findall(r"cmd/helm@(\S+)", inline) == [table["Helm"]] == [HELM_VERSION]
    assert set(re.findall(r"kindest/node:v[\d.]+", inline + script)) == {table["node image"]}
    asked = {words[1]: words[words.index("--version") + 1] for words in of(played, "helm", "upgrade", "--install")[:2]}
    assert asked == {name: table[f"chart {name}"] for name in ("metrics-server", "kube-prometheus-stack")}
    oldest, newest = re.findall(r"^\| Kubernetes \| 1\.(\d+) to 1\.(\d+) \|", page, re.MULTILINE)[0]
    assert PINNED_KUBERNETES.startswith(f"v1.{newest}.")
    assert table["node image"].startswith(f"kindest/node:v1.{newest}.")
    assert OLDER.startswith(f"v1.{oldest}.")
    assert f"Kubernetes 1.{oldest} to 1.{newest}" in (ROOT / "README.md").read_text()
    about = yaml.safe_load((ROOT / "charts" / "scavenger" / "Chart.yaml").read_text())
    assert about["kubeVersion"] == f">=1.{oldest}.0-0"
    scheduler = yaml.safe_load((ROOT / "charts" / "scavenger-scheduler" / "values.yaml").read_text())
    assert scheduler["kubernetesVersion"] == f"1.{newest}"


def test_the_images_are_built_from_all_that_this_takes_and_nothing_is_written_into_the_checkout(script: str) -> None:
    (copy,) = re.findall(r"^tar -C /checkout (.*) -cf - \. \|", script, re.MULTILINE)
    left_out = re.findall(r"--exclude='?\./?([^' ]+)", copy)
    for needed in ("packages", "services", "charts", "tools", "pyproject.toml", "uv.lock", "demo-apps", "cli"):
        assert needed not in left_out
    assert "/checkout" not in script.replace(f"tar -C /checkout {copy}", "")
