"""What to write in place of a field that the API does not know. Pure, and quick to import."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from typing import Final

_DEVICE: Final = re.compile(r"spec(\.resources)?\.(?P<device>[^\[]+/[^/]+)")
_RESTARTS: Final = "remove it; the admitter starts a job again after an interruption"
_MOUNTS: Final = "write mountPath in persistentVolumeClaims, configMaps or secrets, or template.spec.containers"
_OF_POD: Final = (
    "containers",
    "initContainers",
    "affinity",
    "topologySpreadConstraints",
    "runtimeClassName",
    "dnsPolicy",
    "dnsConfig",
    "hostAliases",
    "shareProcessNamespace",
)
_OF_CONTAINER: Final = ("workingDir", "ports", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
PLACES: Final[Mapping[str, str]] = {
    "spec.requests": "write resources.requests",
    "spec.limits": "write resources.limits",
    "spec.cpu": "write resources.requests.cpu",
    "spec.memory": "write resources.requests.memory",
    **{f"spec.{name}": "write resources.requests[nvidia.com/gpu], or the device's name" for name in ("gpu", "gpus")},
    "spec.resources.cpu": "write resources.requests.cpu",
    "spec.resources.memory": "write resources.requests.memory",
    **{f"spec.{name}": "write parallelism, or array.tasks" for name in ("replicas", "pods", "size")},
    **{f"spec.{name}": "write array.tasks, or parallelism for a gang" for name in ("completions", "completionMode")},
    "spec.restartPolicy": _RESTARTS,
    "spec.template.restartPolicy": _RESTARTS,
    "spec.priorityClassName": "write priority, a number from -10 to 10; the class is set for each job",
    "spec.schedulerName": "remove it; the administrator chooses the scheduler",
    "spec.schedule": "remove it; a CronJob can create ScavengerJobs",
    "spec.serviceAccount": "write serviceAccountName",
    "spec.volumes": "write persistentVolumeClaims, configMaps or secrets; other volumes stand in template.spec.volumes",
    "spec.volumeMounts": _MOUNTS,
    **{f"spec.{name}": f"write template.spec.{name}" for name in _OF_POD},
    **{
        f"spec.template.{name}": f"write template.spec.{name}"
        for name in (*_OF_POD, "volumes", "tolerations", "nodeSelector")
    },
    **{f"spec.{name}": f"write {name} in template.spec.containers" for name in _OF_CONTAINER},
}
"""Fields that are often written where a Job, a pod or a container has them: what to do instead. Paths in it
begin at the spec."""


def remedy_for(field: str, known: Collection[str], of_spec: Collection[str] = ()) -> str:
    """What to do about an unknown field.

    Args:
        field: its path, such as `spec.requests`.
        known: the fields that its parent has.
        of_spec: those of the spec, for a field that stands beside the spec.

    Returns:
        A clause without a full stop. Paths in it begin at the spec; for a field beside the spec, at the object.
    """
    if field in PLACES:
        return PLACES[field]
    if device := _DEVICE.fullmatch(field):
        return f"write resources.requests[{device['device']}]"
    if "." not in field and (field in of_spec or f"spec.{field}" in PLACES):
        moved = PLACES.get(f"spec.{field}", f"write {field}")
        return moved.replace("write ", "write spec.", 1)
    close = difflib.get_close_matches(field.rpartition(".")[2], list(known), n=1, cutoff=0.7)
    return f"did you mean {close[0]}?" if close else "remove it"
