"""Which level the scavenger jobs of a namespace keep, and what it forbids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from scavenger_api.podspec import SecurityContext as Model
from scavenger_domain.pod_security import Level, breaches, default_user, level_of

OURS = "scavenger.dev/pod-security"
ENFORCE = "pod-security.kubernetes.io/enforce"


@dataclass(frozen=True)
class Capabilities:
    add: Sequence[str] | None = None


@dataclass(frozen=True)
class SecurityContext:
    run_as_non_root: bool | None = None
    allow_privilege_escalation: bool | None = None
    capabilities: Capabilities | None = None


@dataclass(frozen=True)
class Spec:
    run_as_user: int | None = None
    security_context: SecurityContext | Model | None = None
    written_template: Mapping[str, Any] | None = None


@pytest.mark.parametrize(
    ("labels", "level"),
    [
        ({}, Level.RESTRICTED),
        ({OURS: "restricted"}, Level.RESTRICTED),
        ({OURS: "baseline"}, Level.BASELINE),
        ({OURS: "privileged"}, Level.RESTRICTED),
        ({OURS: "Baseline"}, Level.RESTRICTED),
        ({OURS: ""}, Level.RESTRICTED),
        ({ENFORCE: "privileged"}, Level.RESTRICTED),
        ({ENFORCE: "baseline"}, Level.RESTRICTED),
        ({OURS: "baseline", ENFORCE: "privileged"}, Level.BASELINE),
        ({OURS: "baseline", ENFORCE: "baseline"}, Level.BASELINE),
        ({OURS: "baseline", ENFORCE: "restricted"}, Level.RESTRICTED),
    ],
    ids=str,
)
def test_the_level_of_a_namespace(labels: dict[str, str], level: Level) -> None:
    assert level_of(labels) is level


@pytest.mark.parametrize(
    ("text", "user"),
    [
        ("65532", 65532),
        ("1000680000/10000", 1000680000),
        (" 7 ", 7),
        ("0", None),
        ("0/100", None),
        ("-1", None),
        ("root", None),
        ("", None),
        ("2147483647", 2147483647),
        ("2147483648", None),
        ("1" * 5000, None),
        ("\u0664", None),
    ],
)
def test_the_user_of_a_namespace(text: str, user: int | None) -> None:
    assert default_user({"scavenger.dev/run-as-user": text}) == user
    assert default_user({}) is None


FORBIDDEN = [
    (Spec(run_as_user=0), "spec.runAsUser", "another id, such as 65532"),
    (
        Spec(security_context=SecurityContext(run_as_non_root=False)),
        "spec.securityContext.runAsNonRoot",
        "leave it out",
    ),
    (
        Spec(security_context=SecurityContext(allow_privilege_escalation=True)),
        "spec.securityContext.allowPrivilegeEscalation",
        "leave it out",
    ),
    (
        Spec(security_context=SecurityContext(capabilities=Capabilities(["CHOWN", "NET_BIND_SERVICE", "AUDIT_WRITE"]))),
        "spec.securityContext.capabilities.add",
        "AUDIT_WRITE, CHOWN are rights of root",
    ),
]


@pytest.mark.parametrize(("spec", "field", "said"), FORBIDDEN)
def test_what_restricted_forbids_and_the_label_allows(spec: Spec, field: str, said: str) -> None:
    [breach] = breaches(spec, Level.RESTRICTED)

    assert breach.field == field
    assert said in breach.text
    assert str(breach).startswith(f"{field}: ")
    assert str(breach).endswith("or ask an administrator to label the namespace scavenger.dev/pod-security=baseline")
    assert not list(breaches(spec, Level.BASELINE))


@pytest.mark.parametrize(
    "spec",
    [
        Spec(),
        Spec(run_as_user=1),
        Spec(security_context=SecurityContext()),
        Spec(security_context=SecurityContext(True, False, Capabilities())),
        Spec(security_context=SecurityContext(capabilities=Capabilities(["NET_BIND_SERVICE"]))),
        Spec(security_context=Model(run_as_non_root=True, read_only_root_filesystem=True)),
    ],
)
def test_what_every_namespace_allows(spec: Spec) -> None:
    assert not list(breaches(spec, Level.RESTRICTED))


def test_all_that_is_wrong_is_said_at_once() -> None:
    whole = Spec(0, SecurityContext(False, True, Capabilities(["CHOWN"])))

    assert len(list(breaches(whole, Level.RESTRICTED))) == len(FORBIDDEN)
