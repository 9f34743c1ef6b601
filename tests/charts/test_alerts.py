"""The silence of docs/alerts.md takes the alerts about the prioritizer's budgets, and no other."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from scavenger_api import names
from scavenger_testing import debian

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "alerts.md").read_text()
ABOUT_BUDGETS = ("KubePdbNotEnoughHealthyPods", "PodDisruptionBudgetLimit")


@pytest.fixture(scope="module")
def amtool() -> Path:
    found = debian.program("prometheus-alertmanager", "amtool")
    if found is None:
        pytest.skip("no amtool here, and no Debian package `prometheus-alertmanager` to take it from")
    return found


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    file = tmp_path / "alertmanager.yaml"
    file.write_text(re.findall(r"```yaml\n(route:.*?)```", PAGE, re.DOTALL)[0])
    return file


def receiver(amtool: Path, configuration: Path, **labels: str) -> str:
    asked = [f"{name}={value}" for name, value in labels.items()]
    command = [str(amtool), "config", "routes", "test", f"--config.file={configuration}", *asked]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("alert", ABOUT_BUDGETS)
def test_alerts_about_the_budget_of_the_prioritizer_are_silent(amtool: Path, configuration: Path, alert: str) -> None:
    labels = {"alertname": alert, "namespace": "lab"}
    assert receiver(amtool, configuration, **labels, poddisruptionbudget=names.DISRUPTION_BUDGET) == "quiet"
    assert receiver(amtool, configuration, **labels, poddisruptionbudget="web") == "pager"


def test_other_alerts_are_told(amtool: Path, configuration: Path) -> None:
    labels = {"namespace": "lab", "poddisruptionbudget": names.DISRUPTION_BUDGET}
    assert receiver(amtool, configuration, alertname="KubeJobFailed", namespace="lab") == "pager"
    assert receiver(amtool, configuration, alertname="PodDisruptionBudgetAtLimit", **labels) == "pager"


def test_amtool_finds_nothing_wrong(amtool: Path, configuration: Path) -> None:
    done = subprocess.run([amtool, "check-config", configuration], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_silence_for_an_evening_matches_the_same() -> None:
    command = re.search(r"amtool silence add(.*?)\n\n", PAGE, re.DOTALL)
    assert command is not None
    assert f"poddisruptionbudget={names.DISRUPTION_BUDGET}" in command[1]
    assert f'alertname=~"{"|".join(ABOUT_BUDGETS)}"' in command[1]
