"""Fake nodes and their pods: what kwok makes of them, as data.

A pod runs at once and stays Running. A deleted pod first becomes Failed, when its grace time is over, and
only then goes, as with a kubelet; with kwok's own stages it would keep its place on the node for as long as
the Job controller holds its finalizer. Annotations on a pod say otherwise (moments are exact to the second):

- `kwok.scavenger.dev/run-seconds`: end by itself after that many seconds, with
- `kwok.scavenger.dev/exit-code` (default 0: phase Succeeded);
- `kwok.scavenger.dev/stop-seconds`: seconds to stop when deleted (default: the whole grace time), with
- `kwok.scavenger.dev/stop-exit-code` (default 137).
"""

from __future__ import annotations

from typing import Any

import yaml

FAKE = "kwok.x-k8s.io/node"
RUN_SECONDS = "kwok.scavenger.dev/run-seconds"
EXIT_CODE = "kwok.scavenger.dev/exit-code"
STOP_SECONDS = "kwok.scavenger.dev/stop-seconds"
STOP_EXIT_CODE = "kwok.scavenger.dev/stop-exit-code"
KILLED = "137"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
# kwok plays a node only while it holds the node's lease; who takes it away for ten years silences the node.
STOPPED = "scavenger-stopped"

_DELETED = ".metadata.deletionTimestamp"
_PHASE = ".status.phase"
_CONDITIONS = {
    "Ready": ("True", "KubeletReady"),
    "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID"),
    "NetworkUnavailable": ("False", "RouteCreated"),
}

_RUNNING = """
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
{{ with NodeIPWith .spec.nodeName }}
hostIP: {{ . | Quote }}
hostIPs: [{ip: {{ . | Quote }}}]
{{ end }}
{{ $host := or .spec.hostNetwork false }}
{{ with PodIPWith .spec.nodeName $host .metadata.uid .metadata.name .metadata.namespace }}
podIP: {{ . | Quote }}
podIPs: [{ip: {{ . | Quote }}}]
{{ end }}
conditions:
{{ range $type := list "Initialized" "PodReadyToStartContainers" "ContainersReady" "Ready" }}
- {type: {{ $type }}, status: "True", lastTransitionTime: {{ $now | Quote }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
{{ if .spec.initContainers }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  restartCount: 0
  state:
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{ $now | Quote }}
      finishedAt: {{ $now | Quote }}
{{ end }}
{{ end }}
"""

_ENDED = """
{{ $now := Now }}
{{ $start := or .status.startTime $now }}
{{ $annotations := or .metadata.annotations dict }}
{{ $code := or (index $annotations "%(annotation)s") "%(default)s" }}
phase: {{ if eq $code "0" }}Succeeded{{ else }}Failed{{ end }}
conditions:
{{ range $type := list "ContainersReady" "Ready" }}
- type: {{ $type }}
  status: "False"
  reason: {{ if eq $code "0" }}PodCompleted{{ else }}PodFailed{{ end }}
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: false
  started: false
  restartCount: 0
  state:
    terminated:
      exitCode: {{ $code }}
      reason: {{ if eq $code "0" }}Completed{{ else }}Error{{ end }}
      startedAt: {{ $start | Quote }}
      finishedAt: {{ $now | Quote }}
{{ end }}
"""


def configuration() -> str:
    """Return kwok's configuration file: its stages."""
    return yaml.safe_dump_all([*_node_stages(), *_pod_stages()], sort_keys=False)


def stop_lease(now: str) -> dict[str, Any]:
    """Return the patch that takes a lease away from kwok.

    It is renewed at that (`now`: RFC 3339 with microseconds). To the node lifecycle controller of 1.37 a lease that was
    changed and not renewed is one that it has not seen yet: it waits for that, and judges no node meanwhile
    (NodeControllerLeaseCircuitBreaker).
    """
    return {"spec": {"holderIdentity": STOPPED, "leaseDurationSeconds": 315_360_000, "renewTime": now}}


def fake_node(name: str, *, cpu: str, memory: str, pods: int, taint: bool, now: str) -> dict[str, Any]:
    """Return a fake node, ready from the start (`now`: RFC 3339); tainted, ordinary pods keep off it."""
    size = {"cpu": cpu, "memory": memory, "pods": str(pods), "ephemeral-storage": "1Ti"}
    taints = [{"key": FAKE, "value": "fake", "effect": "NoSchedule"}] if taint else []
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {FAKE: "fake"},
            "labels": {
                FAKE: "fake",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            },
        },
        "spec": {"taints": taints},
        "status": {
            "capacity": size,
            "allocatable": size,
            "phase": "Running",
            "addresses": [{"type": "Hostname", "address": name}],
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "reason": reason,
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now,
                }
                for kind, (status, reason) in _CONDITIONS.items()
            ],
        },
    }


def _stage(
    name: str, kind: str, conditions: list[tuple[str, str, list[str]]], *, delay: Any = None, **following: Any
) -> dict[str, Any]:
    expressions = [
        {"key": key, "operator": operator, **({"values": values} if values else {})}
        for key, operator, values in conditions
    ]
    spec = {
        "resourceRef": {"apiGroup": "v1", "kind": kind},
        "selector": {"matchExpressions": expressions},
        "next": following,
    }
    if delay is not None:
        spec["delay"] = delay
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}


def _node_stages() -> list[dict[str, Any]]:
    ready = '.status.conditions.[] | select( .type == "Ready" ) | .status'
    lines = ["{{ $now := Now }}", "phase: Running", "conditions:"]
    for kind, (status, reason) in _CONDITIONS.items():
        lines.append(
            f'- {{type: {kind}, status: "{status}", reason: {reason}, '
            "lastHeartbeatTime: {{ $now | Quote }}, "
            "lastTransitionTime: {{ or .metadata.creationTimestamp $now | Quote }}}"
        )
    template = "\n".join(lines)
    heartbeat = {"durationMilliseconds": 240_000, "jitterDurationMilliseconds": 300_000}
    return [
        _stage("node-ready", "Node", [(ready, "NotIn", ["True"])], statusTemplate=template),
        _stage("node-heartbeat", "Node", [(ready, "In", ["True"])], delay=heartbeat, statusTemplate=template),
    ]


def _pod_stages() -> list[dict[str, Any]]:
    run, stop = f'.metadata.annotations["{RUN_SECONDS}"]', f'.metadata.annotations["{STOP_SECONDS}"]'
    asked = f"({_DELETED} | fromdateiso8601) - (.metadata.deletionGracePeriodSeconds // 0)"
    # Moments, not durations: a duration would start over whenever somebody changes the pod.
    ends = f"((.status.startTime | fromdateiso8601) + ({run} | tonumber)) | todateiso8601"
    stops = f"if {stop} then ({asked} + ({stop} | tonumber)) | todateiso8601 else {_DELETED} end"
    over = ["Succeeded", "Failed"]
    return [
        _stage(
            "pod-run",
            "Pod",
            [(_DELETED, "DoesNotExist", []), (_PHASE, "In", ["Pending"])],
            statusTemplate=_RUNNING,
        ),
        _stage(
            "pod-end",
            "Pod",
            [(_DELETED, "DoesNotExist", []), (_PHASE, "In", ["Running"]), (run, "Exists", [])],
            delay={"durationFrom": {"expressionFrom": ends}},
            statusTemplate=_ENDED % {"annotation": EXIT_CODE, "default": "0"},
        ),
        _stage(
            "pod-stop",
            "Pod",
            [(_DELETED, "Exists", []), (_PHASE, "NotIn", over)],
            delay={"durationFrom": {"expressionFrom": stops}},
            statusTemplate=_ENDED % {"annotation": STOP_EXIT_CODE, "default": KILLED},
        ),
        _stage("pod-go", "Pod", [(_DELETED, "Exists", []), (_PHASE, "In", over)], delete=True),
    ]
