"""What a pod template may not have, at which level."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_domain.template_security import beyond_restricted, never_allowed


def pod(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "a"}], **fields}}


def one(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "a"}, {"name": "b", **fields}]}


def init(**fields: Any) -> dict[str, Any]:
    return {"initContainers": [{"name": "b", **fields}]}


UNCONFINED = {"seccompProfile": {"type": "Unconfined"}}
C1, I0 = "spec.containers[1]", "spec.initContainers[0]"
NEVER = [
    (pod(hostNetwork=True), "spec.hostNetwork"),
    (pod(hostPID=True), "spec.hostPID"),
    (pod(hostIPC=True), "spec.hostIPC"),
    (pod(volumes=[{"name": "v", "emptyDir": {}}, {"name": "h", "hostPath": {}}]), "spec.volumes[1].hostPath"),
    (pod(securityContext={"sysctls": [{"name": "a", "value": "b"}]}), "spec.securityContext.sysctls"),
    (pod(securityContext={"seLinuxOptions": {"type": "spc_t"}}), "spec.securityContext.seLinuxOptions"),
    (pod(securityContext={"seccompProfile": {"type": "Unconfined"}}), "spec.securityContext.seccompProfile.type"),
    (pod(securityContext={"windowsOptions": {"hostProcess": True}}), "spec.securityContext.windowsOptions"),
    (pod(securityContext={"appArmorProfile": {"type": "Unconfined"}}), "spec.securityContext.appArmorProfile"),
    (pod(**one(securityContext={"privileged": True})), f"{C1}.securityContext.privileged"),
    (pod(**init(securityContext={"privileged": True})), f"{I0}.securityContext.privileged"),
    (pod(**one(securityContext={"procMount": "Unmasked"})), f"{C1}.securityContext.procMount"),
    (pod(**init(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}})), f"{I0}.securityContext.capabilities.add"),
    (pod(**one(securityContext={"capabilities": {"add": ["NET_RAW"]}})), f"{C1}.securityContext.capabilities.add"),
    (pod(**one(securityContext=UNCONFINED)), f"{C1}.securityContext.seccompProfile.type"),
    (pod(**one(ports=[{"containerPort": 1}, {"hostPort": 2}])), f"{C1}.ports[1].hostPort"),
    (pod(**one(livenessProbe={"httpGet": {"host": "x"}})), f"{C1}.livenessProbe.httpGet.host"),
    (pod(**one(lifecycle={"preStop": {"tcpSocket": {"host": "x"}}})), f"{C1}.lifecycle.preStop.tcpSocket.host"),
    (
        {**pod(), "metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}}},
        "metadata.annotations[container.apparmor.security.beta.kubernetes.io/a]",
    ),
]  # fmt: skip
RESTRICTED = [
    (pod(volumes=[{"name": "v", "nfs": {"server": "s"}}]), "spec.volumes[0].nfs"),
    (pod(securityContext={"runAsUser": 0}), "spec.securityContext.runAsUser"),
    (pod(securityContext={"runAsNonRoot": False}), "spec.securityContext.runAsNonRoot"),
    (pod(**init(securityContext={"runAsUser": 0})), f"{I0}.securityContext.runAsUser"),
    (pod(**one(securityContext={"allowPrivilegeEscalation": True})), f"{C1}.securityContext.allowPrivilegeEscalation"),
    (pod(**one(securityContext={"capabilities": {"add": ["CHOWN"]}})), f"{C1}.securityContext.capabilities.add"),
]
GOOD = pod(
    securityContext={"runAsUser": 1000, "fsGroup": 1, "seccompProfile": {"type": "RuntimeDefault"}},
    volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "csi": {}}, {"name": "c", "ephemeral": {}}],
    **init(securityContext={"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}, "privileged": False}),
)


@pytest.mark.parametrize(("template", "field"), NEVER, ids=[field for _, field in NEVER])
def test_what_is_the_nodes_nobody_has(template: dict[str, Any], field: str) -> None:
    assert [found[0] for found in never_allowed(template)] == [field]


@pytest.mark.parametrize(("template", "field"), RESTRICTED, ids=[field for _, field in RESTRICTED])
def test_what_is_roots_needs_the_label(template: dict[str, Any], field: str) -> None:
    assert [found[0] for found in beyond_restricted(template)] == [field]
    assert list(never_allowed(template)) == []


def test_what_is_good_is_let_in() -> None:
    assert [*never_allowed(GOOD), *beyond_restricted(GOOD)] == []


@pytest.mark.parametrize(
    "template", [{}, {"spec": None}, {"spec": {"containers": "x", "volumes": [1], "securityContext": 3}}]
)
def test_what_nobody_can_read_is_left_to_the_api_server(template: dict[str, Any]) -> None:
    assert [*never_allowed(template), *beyond_restricted(template)] == []
