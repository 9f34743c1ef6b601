"""What PodSecurity `restricted` forbids in a pod, after the text of the standard.

https://kubernetes.io/docs/concepts/security/pod-security-standards/ and, where that leaves anything open,
k8s.io/pod-security-admission/policy of 1.37: one function here per check there. What the standard allows pods of
Windows and pods in a user namespace is left out, as no component uses either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

Spec: TypeAlias = Mapping[str, Any]

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_PROFILES: Final = (None, "RuntimeDefault", "Localhost")
_SELINUX_TYPES: Final = (None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_VOLUMES: Final = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
_SYSCTLS: Final = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_notsent_lowat",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_slow_start_after_idle",
        "net.ipv4.tcp_wmem",
    }
)
_HANDLERS: Final = (
    ("livenessProbe", "httpGet"),
    ("livenessProbe", "tcpSocket"),
    ("readinessProbe", "httpGet"),
    ("readinessProbe", "tcpSocket"),
    ("startupProbe", "httpGet"),
    ("startupProbe", "tcpSocket"),
    ("lifecycle", "postStart", "httpGet"),
    ("lifecycle", "postStart", "tcpSocket"),
    ("lifecycle", "preStop", "httpGet"),
    ("lifecycle", "preStop", "tcpSocket"),
)


def violations(spec: Spec) -> list[str]:
    """What `restricted` forbids in this pod spec: the path of each field, and what it would have to be."""
    return [*_baseline(spec), *_restricted(spec)]


def _baseline(spec: Spec) -> Iterator[str]:
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield f"{name}: must be false"
    for sysctl in _at(spec, "securityContext").get("sysctls") or ():
        if sysctl["name"] not in _SYSCTLS:
            yield f"securityContext.sysctls: {sysctl['name']} is not allowed"
    for path, context in _contexts(spec):
        yield from _baseline_context(path, context)
    for path, container in _containers(spec):
        yield from (f"{path}.ports: no hostPort" for port in container.get("ports") or () if port.get("hostPort"))
        yield from (f"{path}.{'.'.join(way)}.host: none" for way in _HANDLERS if _at(container, *way).get("host"))


def _baseline_context(path: str, context: Spec) -> Iterator[str]:
    if _at(context, "windowsOptions").get("hostProcess"):
        yield f"{path}.windowsOptions.hostProcess: must be false"
    if context.get("privileged"):
        yield f"{path}.privileged: must be false"
    if context.get("procMount") not in (None, "Default"):
        yield f"{path}.procMount: must be Default"
    if _at(context, "appArmorProfile").get("type") not in _PROFILES:
        yield f"{path}.appArmorProfile.type: must be RuntimeDefault or Localhost"
    selinux = _at(context, "seLinuxOptions")
    if selinux.get("type") not in _SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
        yield f"{path}.seLinuxOptions: no user, no role, and no other type than those of containers"
    if _at(context, "seccompProfile").get("type") not in _PROFILES:
        yield f"{path}.seccompProfile.type: must be RuntimeDefault or Localhost"


def _restricted(spec: Spec) -> Iterator[str]:
    for volume in spec.get("volumes") or ():
        kinds = sorted(volume.keys() - {"name"} - _VOLUMES)
        yield from (f"volumes[{volume['name']}].{kind}: not a kind that is allowed" for kind in kinds)
    for path, context in _contexts(spec):
        if context.get("runAsUser") == 0:
            yield f"{path}.runAsUser: must not be 0"
        if context.get("runAsNonRoot") is False:
            yield f"{path}.runAsNonRoot: must be true"
    for path, container in _containers(spec):
        context = {**_at(spec, "securityContext"), **_at(container, "securityContext")}
        yield from _restricted_container(f"{path}.securityContext", context)


def _restricted_container(path: str, context: Spec) -> Iterator[str]:
    """`context`: the container's own; what it leaves out is as the pod has it."""
    if not context.get("runAsNonRoot"):
        yield f"{path}.runAsNonRoot: must be true, here or for the pod"
    if not context.get("seccompProfile"):
        yield f"{path}.seccompProfile: must be given, here or for the pod"
    if context.get("allowPrivilegeEscalation") is not False:
        yield f"{path}.allowPrivilegeEscalation: must be false"
    capabilities = _at(context, "capabilities")
    if "ALL" not in (capabilities.get("drop") or ()):
        yield f"{path}.capabilities.drop: must have ALL"
    if set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}:
        yield f"{path}.capabilities.add: NET_BIND_SERVICE at most"


def _containers(spec: Spec) -> Iterator[tuple[str, Spec]]:
    for kind in _CONTAINERS:
        for container in spec.get(kind) or ():
            yield f"{kind}[{container['name']}]", container


def _contexts(spec: Spec) -> Iterator[tuple[str, Spec]]:
    """The security contexts of the pod and of its containers, each with its path."""
    yield "securityContext", _at(spec, "securityContext")
    for path, container in _containers(spec):
        yield f"{path}.securityContext", _at(container, "securityContext")


def _at(value: Spec, *path: str) -> Spec:
    """What stands there; nothing where it does not."""
    for name in path:
        value = value.get(name) or {}
    return value
