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


POLICY = """
kind: ValidatingAdmissionPolicy
metadata: {name: scavenger-guard-pods}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], operations: [UPDATE], resources: [pods]}]
  validations: [{expression: "request.userInfo.username != 'system:serviceaccount:s:scavenger-x'"}]
---
kind: ValidatingAdmissionPolicy
metadata: {name: scavenger-guard-of-others}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], operations: [DELETE], resources: [pods]}]
  matchConditions: [{name: n, expression: "request.userInfo.username != 'system:serviceaccount:s:scavenger-x'"}]
"""


def bounds(**rule: list[str]) -> list[tuple[str, list[str], str]]:
    found = rights.bounds("scavenger-x", {"apiGroups": [""], **rule}, rights.policies_of([ROLE, POLICY]))
    return [(write, list(names), accepted) for write, names, accepted in found]


def test_a_write_is_bound_by_the_policies_that_speak_of_its_account() -> None:
    assert bounds(resources=["pods"], verbs=["get", "patch", "update"]) == [
        ("patch pods", ["pods"], ""),
        ("update pods", ["pods"], ""),
    ]
    assert bounds(resources=["secrets"], resourceNames=["mine"], verbs=["patch"]) == [("patch secrets", [], "the name")]
    assert bounds(resources=["leases"], apiGroups=["coordination.k8s.io"], verbs=["create"])[0][2].startswith(
        "accepted"
    )


@pytest.mark.parametrize(("resource", "verb"), [("pods", "delete"), ("pods", "create"), ("pods/status", "patch")])
def test_a_write_that_nothing_bounds_is_an_error(resource: str, verb: str) -> None:
    """A policy that leaves the account out bounds nothing, and a subresource is a resource of its own."""
    with pytest.raises(ValueError, match=f"scavenger-x may {verb} {resource}, and no policy narrows it"):
        bounds(resources=[resource], verbs=[verb])


def test_what_is_accepted_is_a_right_of_a_component() -> None:
    held = {right.partition(": ")[2].removesuffix(" in its own namespace") for right in rights.now()}
    assert set(rights.ACCEPTED) - held == set()


@pytest.mark.slow
def test_a_gained_right_that_nobody_names_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rights.main(["--check"]) == 0
    monkeypatch.setattr(rights, "now", lambda: rights.rights_of([ROLE]))
    assert rights.main(["--check"]) == 1
    assert "`scavenger-x: get secrets mine in its own namespace`" in capsys.readouterr().err
