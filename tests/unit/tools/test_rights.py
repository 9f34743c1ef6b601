"""What a release gains of rights, and whether the CHANGELOG says so."""

from __future__ import annotations

import pytest

from tools import rights

ROLE = """
kind: ClusterRole
metadata: {name: scavenger-x}
rules:
  - {apiGroups: ["", apps], resources: [pods], verbs: [get, list]}
---
kind: Role
metadata: {name: scavenger-x}
rules:
  - {apiGroups: [""], resources: [secrets], resourceNames: [mine, yours], verbs: [get]}
---
kind: Service
metadata: {name: scavenger-x}
"""
CHANGELOG = "# C\n\n## UNRELEASED\n\n- x: `scavenger-x: get pods`\n\n## 0.1.0\n\n- y: `scavenger-x: list pods`\n"


def test_each_verb_on_each_resource_of_each_name_is_one_right() -> None:
    assert rights.rights_of([ROLE]) == {
        "scavenger-x: get pods",
        "scavenger-x: get pods.apps",
        "scavenger-x: list pods",
        "scavenger-x: list pods.apps",
        "scavenger-x: get secrets mine in its own namespace",
        "scavenger-x: get secrets yours in its own namespace",
    }


def test_what_is_gained_stands_among_the_changes_that_are_not_released() -> None:
    gained = ["scavenger-x: list pods", "scavenger-x: get pods"]
    assert rights.untold(gained, CHANGELOG) == ["scavenger-x: list pods"]


@pytest.mark.slow
def test_a_gained_right_that_nobody_names_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rights.main(["--check"]) == 0
    monkeypatch.setattr(rights, "now", lambda: rights.rights_of([ROLE]))
    assert rights.main(["--check"]) == 1
    assert "`scavenger-x: get secrets mine in its own namespace`" in capsys.readouterr().err
