"""What a kubelet reports of a pod: its containers one after the other, and how they end.

Sources are of Kubernetes 1.37: pkg/kubelet/{kubelet_pods,pod_workers}.go, lifecycle/predicate.go, eviction/helpers.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from scavenger_api import names
from scavenger_api.quantity import parse_quantity
from scavenger_api.times import format_time, parse_time
from scavenger_testing import running, terminated
from scavenger_testing.builders import waiting

Object = dict[str, Any]

INIT_SECONDS: Final = 2.0
"""For so long an init container runs."""
KILLED: Final = 137
NOT_STARTED: Final = 128
"""The exit code of a container that its runtime could not start."""
LOST: Final = 255
"""The exit code of a container that was gone when its kubelet came back."""
EPOCH: Final = "1970-01-01T00:00:00Z"
"""When a container started and ended of which the runtime does not know."""
OWN_LIMITS: Final = (
    "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
    'Usage of EmptyDir volume "scratch" exceeds the limit "1Gi". ',
    'Container main exceeded its local ephemeral storage limit "1Gi". ',
)
"""What it says of a pod that is over its own limits: no DisruptionTarget goes with it."""
LOW: Final = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 1Mi. "
"""What it says of a pod that it evicts for others."""
REFUSALS: Final[Mapping[str, str]] = {
    "OutOfcpu": "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 3500, capacity: 4000",
    "OutOfpods": "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 110, capacity: 110",
    "NodeAffinity": "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity",
    "UnexpectedAdmissionError": "Pod was rejected: Allocate failed due to no healthy devices present",
}
"""By the reason of the pod's status: why a kubelet does not admit a pod that was bound to its node."""
BAD_COMMAND: Final = 'exec: "/app": executable file not found in $PATH: unknown'
BAD_RUNTIME: Final = "failed to create shim task: context deadline exceeded: unknown"


def program(pod: Object) -> str:
    """The name of the container that does the work."""
    named = pod["metadata"].get("annotations", {}).get(names.ANNOTATION_DEFAULT_CONTAINER)
    there = [str(one["name"]) for one in pod["spec"]["containers"]]
    return named if named in there else names.MAIN_CONTAINER if names.MAIN_CONTAINER in there else there[0]


def main_status(pod: Object) -> Object | None:
    """The status of that container, if there is one."""
    name = program(pod)
    return next((one for one in pod["status"].get("containerStatuses", ()) if one["name"] == name), None)


def main_state(pod: Object) -> Object:
    """Its state; empty where there is none."""
    found = main_status(pod)
    return {} if found is None else dict(found["state"])


def requested(pod: Object, resource: str) -> float:
    """What a pod is placed by, in units: what it requests as a whole, or what its containers do together, or its limit
    as a whole. Init containers that end ask for no more than the others in histories."""
    spec = pod["spec"]
    whole = spec.get("resources") or {}
    if resource in whole.get("requests", {}):
        return float(parse_quantity(whole["requests"][resource]))
    stay = [one for one in spec.get("initContainers", ()) if one.get("restartPolicy") == "Always"]
    asked = [_asked(one)[resource] for one in (*spec["containers"], *stay) if resource in _asked(one)]
    return sum(float(parse_quantity(one)) for one in asked or [whole.get("limits", {}).get(resource, "0")])


def _asked(part: Object) -> Object:
    """The requests of a container. The API server fills them in from the limits."""
    resources: Object = part.get("resources") or {}
    return {**resources.get("limits", {}), **resources.get("requests", {})}


def progress(pod: Object, now: datetime) -> Object:
    """The status of a pod on a node that starts as far as it comes at this moment: init containers go first, each
    until it has ended, or runs where it stays."""
    stamp, known = format_time(now), {one["name"]: one for one in pod["status"].get("initContainerStatuses", ())}
    init, ready = list[Object](), True
    for container in pod["spec"].get("initContainers", ()):
        name = container["name"]
        found = known.get(name, {"state": {}}) if ready else {"state": {}}
        if not ready:
            init.append(waiting("PodInitializing", name=name))
            continue
        init.append(_next_of_init(container, found, now))
        ready = container.get("restartPolicy") == "Always" or "terminated" in init[-1]["state"]
    containers = [str(one["name"]) for one in pod["spec"]["containers"]]
    if ready:
        states = [running(started=stamp, name=name) for name in containers]
    else:
        states = [waiting("PodInitializing", name=name) for name in containers]
    begun = pod["status"].get("startTime", stamp)
    inits = {"initContainerStatuses": init} if init else {}
    return {"phase": "Running" if ready else "Pending", "startTime": begun, "containerStatuses": states, **inits}


def _next_of_init(container: Object, found: Object, now: datetime) -> Object:
    name, state = container["name"], found["state"]
    if "running" not in state:
        return found if "terminated" in state else running(started=format_time(now), name=name)
    since = parse_time(state["running"]["startedAt"])
    stays = container.get("restartPolicy") == "Always"
    if stays or since is None or (now - since).total_seconds() < INIT_SECONDS:
        return found
    return ended(found, 0, now)


def ended(container: Object, code: int, now: datetime, reason: str = "", message: str = "") -> Object:
    """The status of a container that ends at this moment, if it has not yet. One that waits has not begun."""
    if "running" not in container["state"]:
        return container
    found = terminated(code, reason=reason, finished=format_time(now), name=container["name"])
    found["state"]["terminated"]["startedAt"] = container["state"]["running"]["startedAt"]
    found |= {key: container[key] for key in ("restartCount", "lastState") if key in container}
    if message:
        found["state"]["terminated"]["message"] = message
    return found


def all_ended(pod: Object, code: int, now: datetime, reason: str = "", message: str = "") -> Object:
    """The status of a pod whose containers all end at this moment, its program with this code, as it is evicted or
    told to stop. Its phase is Failed where any container has failed."""
    main = program(pod)
    statuses = [
        ended(one, code, now, reason, message) if one["name"] == main else ended(one, 0, now)
        for one in pod["status"].get("containerStatuses", ())
    ]
    init = [ended(one, 0, now) for one in pod["status"].get("initContainerStatuses", ())]
    inits = {"initContainerStatuses": init} if init else {}
    return {"phase": phase_of(statuses), **({"containerStatuses": statuses} if statuses else {}), **inits}


def program_ended(pod: Object, code: int, now: datetime, reason: str = "", message: str = "") -> Object:
    """The status of a pod whose program ends by itself. What stays beside it in init containers stops when nothing
    else runs any more."""
    main = program(pod)
    statuses = [
        ended(one, code, now, reason, message) if one["name"] == main else one
        for one in pod["status"]["containerStatuses"]
    ]
    if any("running" in one["state"] for one in statuses):
        return {"containerStatuses": statuses}
    return all_ended({**pod, "status": {**pod["status"], "containerStatuses": statuses}}, code, now)


def unseen(pod: Object) -> Object:
    """The statuses of containers that were gone when their kubelet came back (containerd after a boot)."""
    state = {"exitCode": LOST, "reason": "Unknown", "startedAt": EPOCH, "finishedAt": EPOCH}
    gone = {"terminated": state}
    return {
        kind: [one if "terminated" in one["state"] else {**one, "state": gone} for one in pod["status"][kind]]
        for kind in ("containerStatuses", "initContainerStatuses")
        if kind in pod["status"]
    }


def starts_again(pod: Object, code: int, now: datetime, reason: str = "") -> list[Object]:
    """The statuses of containers where the program ends with this code, and its pod has it started again at once."""
    main, found = program(pod), list[Object]()
    for one in pod["status"]["containerStatuses"]:
        if one["name"] == main:
            last, count = ended(one, code, now, reason)["state"], one.get("restartCount", 0) + 1
            one = {**running(started=format_time(now), name=main), "restartCount": count, "lastState": last}
        found.append(one)
    return found


def started_again(pod: Object, now: datetime, before: Object | None) -> list[Object]:
    """The statuses of containers that a kubelet starts again in the same pod, as its machine has lost them. before: how
    they ended as it knows; None where it knows nothing."""
    last = {"terminated": before} if before is not None else {}
    again = {"restartCount": 1, "lastState": last}
    return [
        {**running(started=format_time(now), name=one["name"]), **again} if "running" in one["state"] else one
        for one in pod["status"]["containerStatuses"]
    ]


def not_found(pod: Object) -> list[Object]:
    """The statuses of containers that have ended and that a kubelet does not find after it was started again
    (kubelet_pods.go, convertToAPIContainerStatuses)."""
    said = {"exitCode": KILLED, "reason": "ContainerStatusUnknown", "startedAt": EPOCH, "finishedAt": EPOCH}
    gone = {"terminated": said}
    return [
        {**one, "state": gone} if "terminated" in one["state"] else one for one in pod["status"]["containerStatuses"]
    ]


def phase_of(statuses: list[Object]) -> str:
    """Of a pod whose containers never start again, and have all ended or never began."""
    codes = [one["state"]["terminated"]["exitCode"] if "terminated" in one["state"] else KILLED for one in statuses]
    return "Failed" if any(codes) or not codes else "Succeeded"


def not_started(pod: Object, message: str) -> list[Object]:
    """The statuses of the containers of a pod whose runtime could not start them (kuberuntime_container.go)."""
    state = {
        "exitCode": NOT_STARTED,
        "reason": "StartError",
        "message": message,
        "startedAt": EPOCH,
        "finishedAt": EPOCH,
    }
    return [{"name": one["name"], "state": {"terminated": state}} for one in pod["spec"]["containers"]]


def needs(pod: Object) -> Iterator[tuple[str, str, bool]]:
    """The objects that a pod does not start without: kind, name, and whether a volume needs it."""
    for volume in pod["spec"].get("volumes", ()):
        for field, kind, name in _VOLUMES:
            if field in volume and not volume[field].get("optional"):
                yield kind, volume[field][name], True
    for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
        sources = [one["valueFrom"] for one in container.get("env", ()) if "valueFrom" in one]
        for source in (*sources, *container.get("envFrom", ())):
            for field, kind in _SOURCES:
                if field in source and not source[field].get("optional"):
                    yield kind, source[field]["name"], False


_VOLUMES: Final = (
    ("persistentVolumeClaim", "persistentvolumeclaim", "claimName"),
    ("configMap", "configmap", "name"),
    ("secret", "secret", "secretName"),
)
_SOURCES: Final = (
    ("configMapKeyRef", "configmap"),
    ("configMapRef", "configmap"),
    ("secretKeyRef", "secret"),
    ("secretRef", "secret"),
)
