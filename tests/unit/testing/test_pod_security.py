"""The rules of PodSecurity `restricted` that manifests are held to: a pod that keeps them, and each rule broken."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from scavenger_testing.pod_security import violations

GOOD: dict[str, Any] = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "main",
            "image": "n",
            "ports": [{"containerPort": 80}],
            "livenessProbe": {"httpGet": {"port": 80}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
            },
        }
    ],
    "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "persistentVolumeClaim": {"claimName": "c"}}],
}
BAD: list[tuple[str, Any, str]] = [
    ("hostNetwork", True, "hostNetwork"),
    ("hostPID", True, "hostPID"),
    ("hostIPC", True, "hostIPC"),
    ("securityContext/sysctls", [{"name": "kernel.msgmax", "value": "1"}], "securityContext.sysctls"),
    ("securityContext/windowsOptions", {"hostProcess": True}, "securityContext.windowsOptions.hostProcess"),
    ("securityContext/runAsNonRoot", False, "securityContext.runAsNonRoot"),
    ("securityContext/runAsNonRoot", None, "containers[main].securityContext.runAsNonRoot"),
    ("securityContext/runAsUser", 0, "securityContext.runAsUser"),
    ("securityContext/seccompProfile", None, "containers[main].securityContext.seccompProfile"),
    ("securityContext/seccompProfile", {"type": "Unconfined"}, "securityContext.seccompProfile.type"),
    ("securityContext/appArmorProfile", {"type": "Unconfined"}, "securityContext.appArmorProfile.type"),
    ("securityContext/seLinuxOptions", {"type": "spc_t"}, "securityContext.seLinuxOptions"),
    ("securityContext/seLinuxOptions", {"user": "u"}, "securityContext.seLinuxOptions"),
    ("volumes", [{"name": "a", "hostPath": {"path": "/"}}], "volumes[a].hostPath"),
    ("volumes", [{"name": "a", "nfs": {"server": "s", "path": "/"}}], "volumes[a].nfs"),
    ("containers/0/ports", [{"containerPort": 80, "hostPort": 80}], "containers[main].ports"),
    ("containers/0/livenessProbe/httpGet/host", "h", "containers[main].livenessProbe.httpGet.host"),
    ("containers/0/lifecycle", {"preStop": {"httpGet": {"host": "h"}}}, "containers[main].lifecycle.preStop.httpGet"),
    ("containers/0/securityContext/privileged", True, "containers[main].securityContext.privileged"),
    ("containers/0/securityContext/procMount", "Unmasked", "containers[main].securityContext.procMount"),
    ("containers/0/securityContext/runAsUser", 0, "containers[main].securityContext.runAsUser"),
    ("containers/0/securityContext/runAsNonRoot", False, "containers[main].securityContext.runAsNonRoot"),
    ("containers/0/securityContext/seccompProfile", {"type": "Unconfined"}, "containers[main].securityContext.seccomp"),
    ("containers/0/securityContext/allowPrivilegeEscalation", None, "containers[main].securityContext.allowPriv"),
    ("containers/0/securityContext/allowPrivilegeEscalation", True, "containers[main].securityContext.allowPriv"),
    ("containers/0/securityContext/capabilities/drop", ["NET_RAW"], "containers[main].securityContext.capabilities"),
    ("containers/0/securityContext/capabilities/add", ["CHOWN"], "containers[main].securityContext.capabilities"),
    ("initContainers", [{"name": "first"}], "initContainers[first].securityContext.allowPrivilegeEscalation"),
]


def changed(path: str, value: Any) -> dict[str, Any]:
    """The good pod with another value there."""
    spec = copy.deepcopy(GOOD)
    *way, last = (int(part) if part.isdecimal() else part for part in path.split("/"))
    target: Any = spec
    for part in way:
        target = target[part]
    target[last] = value
    return spec


def test_a_pod_that_keeps_the_rules() -> None:
    assert violations(GOOD) == []


@pytest.mark.parametrize(("path", "value", "field"), BAD, ids=lambda case: str(case)[:60])
def test_each_rule_broken(path: str, value: Any, field: str) -> None:
    found = violations(changed(path, value))

    assert found
    assert found[0].startswith(field)


def test_an_empty_pod_lacks_all_that_must_be_said() -> None:
    assert [text.rpartition(".")[2].split(":")[0] for text in violations({"containers": [{"name": "main"}]})] == [
        "runAsNonRoot",
        "seccompProfile",
        "allowPrivilegeEscalation",
        "drop",
    ]
