"""Pods as the API server keeps them, and as Argo Workflows and Nextflow make them, without what was added. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.manifests import Manifest

_FILLED_IN: Final = ("nodeName", "priority", "preemptionPolicy", "serviceAccount")
"""Fields that the API server and the scheduler write into every pod."""
_KEPT: Final = ("name", "generateName", "namespace", "labels", "annotations")
_TOKEN: Final = re.compile(r"kube-api-access-[a-z0-9]{5}")
_FOR_NODES: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

# argo-workflows workflow/common/common.go and workflow/controller/workflowpod.go.
_ARGO: Final = "workflows.argoproj.io/"
_ARGO_VOLUMES: Final = ("var-run-argo", "tmp-dir-argo", "argo-staging", "input-artifacts", "argo-workflow-template")
_ARGO_VARIABLE: Final = re.compile(r"ARGO_.*")
_NEXTFLOW: Final = "nextflow.io/"
_WAITS: Final = "does not see what becomes of a ScavengerJob: run it outside the workflow, or wait for it in a step"


def own_pod(pod: Manifest) -> tuple[Manifest, list[str]]:
    """metadata and spec of a pod as its author wrote it, and a line for what a workflow engine added.

    Raises:
        CliError: when it has no containers.
    """
    found = {name: deepcopy(pod.get(name) or {}) for name in ("metadata", "spec")}
    spec, marks = found["spec"], [*_marks(found["metadata"])]
    if not isinstance(spec.get("containers"), list) or not all(map(_named, _containers(spec))):
        raise CliError("spec.containers is missing, or no list of containers", code=ExitCode.USAGE)
    _forget_defaults(spec)
    found["metadata"] = {name: found["metadata"].get(name) for name in _KEPT}
    lines = []
    if any(mark.startswith(_ARGO) for mark in marks):
        lines.append(f"spec: {_without_argo(spec)} is left out; Argo Workflows {_WAITS}")
        _unmark(found["metadata"], _ARGO)
    if any(mark.startswith(_NEXTFLOW) for mark in marks):
        lines.append(f"metadata.labels: {_NEXTFLOW}* are left out; Nextflow {_WAITS}")
        _unmark(found["metadata"], _NEXTFLOW)
    return found, lines


def _named(container: Any) -> bool:
    return isinstance(container, dict) and isinstance(container.get("name"), str)


def _containers(spec: Manifest) -> list[Any]:
    return [one for kind in ("initContainers", "containers") for one in spec.get(kind) or ()]


def _marks(metadata: Manifest) -> Iterator[str]:
    for kind in ("labels", "annotations"):
        yield from metadata.get(kind) or ()


def _unmark(metadata: Manifest, prefix: str) -> None:
    for kind in ("labels", "annotations"):
        metadata[kind] = {key: text for key, text in (metadata.get(kind) or {}).items() if not key.startswith(prefix)}


def _forget_defaults(spec: Manifest) -> None:
    for name in _FILLED_IN:
        spec.pop(name, None)
    if spec.get("serviceAccountName") == "default":
        del spec["serviceAccountName"]
    _drop_volumes(spec, lambda name: bool(_TOKEN.fullmatch(name)))
    kept = [one for one in spec.get("tolerations") or () if one.get("key") not in _FOR_NODES]
    _put(spec, "tolerations", kept)


def _drop_volumes(spec: Manifest, dropped: Any) -> None:
    _put(spec, "volumes", [one for one in spec.get("volumes") or () if not dropped(one.get("name", ""))])
    for container in _containers(spec):
        mounts = [one for one in container.get("volumeMounts") or () if not dropped(one.get("name", ""))]
        _put(container, "volumeMounts", mounts)


def _put(of: Manifest, name: str, values: list[Any]) -> None:
    """A list, or nothing in the place of an empty one."""
    if values:
        of[name] = values
    else:
        of.pop(name, None)


def _without_argo(spec: Manifest) -> str:
    """Take the executor of Argo Workflows out of a pod; says what it was."""
    taken = [one["name"] for one in _containers(spec) if _executor(one)]
    for kind in ("initContainers", "containers"):
        _put(spec, kind, [one for one in spec.get(kind) or () if not _executor(one)])
    inputs = any(one.get("name") == "input-artifacts" for one in spec.get("volumes") or ())
    _drop_volumes(spec, lambda name: name in _ARGO_VOLUMES)
    for container in _containers(spec):
        command = container.get("command") or []
        if "emissary" in command[:2] and "--" in command:
            container["command"] = command[command.index("--") + 1 :]
        variables = [one for one in container.get("env") or () if not _ARGO_VARIABLE.fullmatch(one.get("name", ""))]
        _put(container, "env", variables)
    artifacts = ", with the artifacts that it fetches," if inputs else ""
    return f"the executor ({', '.join(taken) or 'no container of its own'}){artifacts}"


def _executor(container: Manifest) -> bool:
    """Whether it is a container of the executor beside the program."""
    command = container.get("command") or [""]
    return str(command[0]).rpartition("/")[2] == "argoexec" and "emissary" not in command[:2]
