"""What a pod template asks for of its node: what no scavenger job has, and what PodSecurity restricted forbids.

https://kubernetes.io/docs/concepts/security/pod-security-standards/. Of the first kind is what `baseline` forbids, and
all that changes how the node confines processes (SELinux, AppArmor, sysctls, Windows). The admission policies of the
chart scavenger-base say the same of the pods that the admitter makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from scavenger_api.names import BASELINE_CAPABILITIES, RESTRICTED_CAPABILITIES

Wrong: TypeAlias = tuple[str, str, str]
"""Path of a field below spec.template, what is wrong with it, and the remedy."""

VOLUMES: Final = frozenset(
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
"""Kinds of volumes that `restricted` allows."""

_HOST: Final = ("hostNetwork", "hostPID", "hostIPC")
_CONFINEMENT: Final = ("seLinuxOptions", "appArmorProfile", "windowsOptions", "sysctls")
_PROFILES: Final = ("RuntimeDefault", "Localhost")
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_LEAVE_OUT: Final = "leave it out"
_HANDLERS: Final = (
    *(
        (probe, how)
        for probe in ("livenessProbe", "readinessProbe", "startupProbe")
        for how in ("httpGet", "tcpSocket")
    ),
    *(("lifecycle", when, how) for when in ("postStart", "preStop") for how in ("httpGet", "tcpSocket")),
)


def never_allowed(template: Mapping[str, Any]) -> Iterator[Wrong]:
    """What no namespace's label lets a job have."""
    spec = _at(template, "spec")
    for name in _HOST:
        if spec.get(name):
            yield f"spec.{name}", "it is the node's", _LEAVE_OUT
    for key in _at(template, "metadata", "annotations"):
        if key.startswith(_APPARMOR):
            yield f"metadata.annotations[{key[:100]}]", "it changes how the node confines processes", _LEAVE_OUT
    for path, volume in _items(spec, "volumes"):
        if "hostPath" in volume:
            yield f"{path}.hostPath", "it is a folder of the node", "mount a claim or an emptyDir"
    for path, context in _contexts(spec):
        yield from _never_in_context(path, context)
    for path, container in _containers(spec):
        yield from _never_in_container(path, container)


def beyond_restricted(template: Mapping[str, Any]) -> Iterator[Wrong]:
    """What only the administrator's label on the namespace allows. What is left out, the admitter fills in."""
    spec = _at(template, "spec")
    for path, volume in _items(spec, "volumes"):
        for kind in sorted(volume.keys() - {"name", "hostPath"} - VOLUMES):
            yield f"{path}.{kind}", "this kind of volume is not allowed", "mount a claim"
    for path, context in _contexts(spec):
        if context.get("runAsUser") == 0:
            yield f"{path}.runAsUser", "0 is root", "write another id, such as 65532"
        if context.get("runAsNonRoot") is False:
            yield f"{path}.runAsNonRoot", "false lets processes run as root", _LEAVE_OUT
        if context.get("allowPrivilegeEscalation"):
            yield f"{path}.allowPrivilegeEscalation", "true lets a program gain rights", _LEAVE_OUT
        if more := sorted(_added(context) - RESTRICTED_CAPABILITIES):
            yield (
                f"{path}.capabilities.add",
                f"{', '.join(more)} are rights of root",
                "leave out all but NET_BIND_SERVICE",
            )


def _never_in_container(path: str, container: Mapping[str, Any]) -> Iterator[Wrong]:
    for port_path, port in _items(container, "ports", path):
        if port.get("hostPort"):
            yield f"{port_path}.hostPort", "it is a port of the node", _LEAVE_OUT
    for way in _HANDLERS:
        if _at(container, *way).get("host"):
            yield f"{path}.{'.'.join(way)}.host", "it makes the kubelet call another host", _LEAVE_OUT


def _never_in_context(path: str, context: Mapping[str, Any]) -> Iterator[Wrong]:
    if context.get("privileged"):
        yield f"{path}.privileged", "true has all rights of the node", _LEAVE_OUT
    if context.get("procMount") not in (None, "Default"):
        yield f"{path}.procMount", "it uncovers what the node hides", _LEAVE_OUT
    for name in _CONFINEMENT:
        if context.get(name):
            yield f"{path}.{name}", "it changes how the node confines processes", _LEAVE_OUT
    if (profile := _at(context, "seccompProfile").get("type")) is not None and profile not in _PROFILES:
        yield f"{path}.seccompProfile.type", f"{profile} confines nothing", "write RuntimeDefault"
    if more := sorted(_added(context) - BASELINE_CAPABILITIES):
        yield f"{path}.capabilities.add", f"{', '.join(more)} are rights over the node", _LEAVE_OUT


def _added(context: Mapping[str, Any]) -> frozenset[str]:
    added = _at(context, "capabilities").get("add")
    return frozenset(str(one) for one in added) if isinstance(added, list) else frozenset()


def _contexts(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The security contexts of the pod and of its containers, each with its path."""
    yield "spec.securityContext", _at(spec, "securityContext")
    for path, container in _containers(spec):
        yield f"{path}.securityContext", _at(container, "securityContext")


def _containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from _items(spec, "initContainers")
    yield from _items(spec, "containers")


def _items(value: Mapping[str, Any], field: str, path: str = "spec") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The entries of a list, each with its path."""
    found = value.get(field)
    for index, item in enumerate(found if isinstance(found, list) else ()):
        if isinstance(item, Mapping):
            yield f"{path}.{field}[{index}]", item


def _at(value: Any, *path: str) -> Mapping[str, Any]:
    """What stands there; nothing where it does not."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}
