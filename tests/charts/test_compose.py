"""docker-compose.kind.yml: its form, and that it names what exists. It is not run anywhere in these tests."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
# Of the Compose specification, what this file uses: https://github.com/compose-spec/compose-spec
TOP = {"name": str, "services": dict}
SERVICE = {
    "build": dict,
    "init": bool,
    "working_dir": str,
    "entrypoint": list,
    "command": list,
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


def test_script_is_shell(compose: dict[str, Any]) -> None:
    script = compose["services"]["cluster"]["command"][0]
    assert not re.search(r"(?<!\$)\$(?!\$)", script), "compose would fill in a variable of its own"

    subprocess.run(["sh", "-n"], input=script.replace("$$", "$"), text=True, check=True)


def test_names_what_exists(compose: dict[str, Any]) -> None:
    cluster = compose["services"]["cluster"]
    for volume in cluster["volumes"]:
        source = volume.split(":")[0]
        assert not source.startswith("./") or (ROOT / source).is_dir(), volume
    script = cluster["command"][0]
    installed = re.findall(r"install ([a-z]+)\b(?! ?\()", script.replace("upgrade --install", ""))
    assert {(ROOT / "charts" / f"scavenger-{name}" / "Chart.yaml").is_file() for name in installed} == {True}
    charts = {path.parent.name.removeprefix("scavenger-") for path in ROOT.glob("charts/*/Chart.yaml")}
    left_out = {"library", "scheduler"}  # the one is in the others, the other has to be chosen by pods
    assert charts - set(installed) == left_out
    version = yaml.safe_load((ROOT / "charts" / "scavenger-admitter" / "Chart.yaml").read_text())["appVersion"]
    assert set(re.findall(r"load localhost/scavenger/(?!counter)[a-z]+:(\S+?);", script)) == {version}
