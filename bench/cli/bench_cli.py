"""How long `kubectl sj` takes: to start, and to list 1,000 jobs beside `kubectl get sj -A`.

Whole processes are timed, in turns with what they are compared with, and the median of each is taken, as another load
on the machine then falls on both. kubectl has its discovery cache from the turn before the first.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import Any

from scavenger_api.names import API_VERSION
from scavenger_cluster import Cluster, stack
from scavenger_kube.resources import MERGE_PATCH

Figure = dict[str, Any]

JOBS = 1000
NAMESPACES = 10
TURNS = 9
SJ = [sys.executable, "-m", "scavenger_cli"]


def run() -> list[Figure]:
    """The figures of this benchmark; a goal that is missed is shown, not raised."""
    return [*_start(), *_list()]


def _start() -> list[Figure]:
    sj, python = _turns([[*SJ, "--help"], [sys.executable, "-c", "pass"]], dict(os.environ))
    return [
        {"name": "cli.start.ms", "value": 1000 * sj, "unit": "ms", "goal": None},
        {"name": "cli.start.ratio_to_python", "value": sj / python, "unit": "x", "goal": None},
    ]


def _list() -> list[Figure]:
    cluster = Cluster("bench-cli", report=lambda line: None)
    try:
        cluster.up("none")
        stack.install(cluster)
        stack.lift_guard(cluster, "statuses")
        _fill(cluster)
        environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
        sj, kubectl = _turns(
            [[*SJ, "list", "-A"], [*cluster.kubectl_command, "get", "scavengerjobs", "-A"]], environment, lines=JOBS + 1
        )
    finally:
        cluster.down()
    return [
        {"name": "cli.list_1000.seconds", "value": sj, "unit": "s", "goal": "<= 1.0"},
        {"name": "cli.list_1000.ratio_to_kubectl", "value": sj / kubectl, "unit": "x", "goal": "<= 3"},
    ]


def _fill(cluster: Cluster) -> None:
    """Jobs as they are: with a status, as an admitter would have written it."""
    for n in range(NAMESPACES):
        name = f"team-{n}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        cluster.client.request("POST", "/api/v1/namespaces", body)
        path = f"/apis/{API_VERSION}/namespaces/{name}/scavengerjobs"
        names = [f"simulation-{i:04}" for i in range(n, JOBS, NAMESPACES)]
        cluster.client.create_all(path, (_job(one) for one in names))
        for one in names:
            cluster.client.request("PATCH", f"{path}/{one}/status", {"status": _STATUS}, MERGE_PATCH)


_STATUS = {
    "phase": "Waiting",
    "queuedTimestamp": "2026-01-05T08:00:00.000000Z",
    "message": "cpu load would be 87.5 %; it has to stay under the admission level of 70 %",
    "conditions": [
        {
            "type": kind,
            "status": "False",
            "reason": "Queued",
            "message": "",
            "lastTransitionTime": "2026-01-05T08:00:00Z",
        }
        for kind in ("Admitted", "Running", "Interrupted", "Succeeded")
    ],
}


def _job(name: str) -> dict[str, Any]:
    spec = {"image": "example.org/simulation:1", "resources": {"requests": {"cpu": "2", "memory": "4Gi"}}}
    return {"apiVersion": API_VERSION, "kind": "ScavengerJob", "metadata": {"name": name}, "spec": spec}


def _turns(commands: list[list[str]], environment: dict[str, str], lines: int | None = None) -> list[float]:
    """Median seconds of each command, run by turns; the first turn warms caches and is not counted."""
    seconds: list[list[float]] = [[] for _ in commands]
    for turn in range(TURNS + 1):
        for taken, command in zip(seconds, commands, strict=True):
            began = time.perf_counter()
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            if turn:
                taken.append(time.perf_counter() - began)
            if lines is not None and len(done.stdout.splitlines()) != lines:
                raise RuntimeError(f"{command[0]} printed {len(done.stdout.splitlines())} lines, not {lines}")
    return [statistics.median(taken) for taken in seconds]
