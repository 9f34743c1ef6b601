"""How long `kubectl sj` takes: to start, to list 1,000 jobs beside `kubectl get sj -A`, and to write 20,000 as YAML.

Whole processes are timed, in turns with what they are compared with, and the median of each is taken, as another load
on the machine then falls on both. kubectl has its discovery cache from the turn before the first. CPU time is that of
the process alone: where the machine is busy, it says more of the program than the wall clock. The 20,000 come from a
server in this process that has its answer ready: their time is the program's, not an API server's.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from scavenger_api.names import API_VERSION
from scavenger_cluster import Cluster, stack
from scavenger_kube.errors import ApiError
from scavenger_kube.resources import MERGE_PATCH
from scavenger_testing.scripted import Answer, Server
from scavenger_testing.waiting import TIMEOUT, wait

Figure = dict[str, Any]

JOBS = 1000
NAMESPACES = 10
TURNS = 9
MANY = 20_000
FEW = 3
SJ = [sys.executable, "-m", "scavenger_cli"]


def run() -> list[Figure]:
    """The figures of this benchmark; a goal that is missed is shown, not raised."""
    return [*_start(), *_yaml(), *_list()]


def _start() -> list[Figure]:
    sj, python = _turns([[*SJ, "--help"], [sys.executable, "-c", "pass"]], dict(os.environ))
    return [
        {"name": "cli.start.ms", "value": 1000 * sj.seconds, "unit": "ms", "goal": None},
        {"name": "cli.start.cpu_ms", "value": 1000 * sj.cpu_seconds, "unit": "ms", "goal": None},
        {"name": "cli.start.ratio_to_python", "value": sj.seconds / python.seconds, "unit": "x", "goal": None},
    ]


def _yaml() -> list[Figure]:
    one = {**_job("simulation"), "status": _STATUS}
    metadata = {"resourceVersion": "123456", "creationTimestamp": "2026-01-05T08:00:00Z", "generation": 1}
    items = [
        {
            **one,
            "metadata": {**metadata, "name": f"simulation-{i:05}", "namespace": "team", "uid": str(uuid.UUID(int=i))},
        }
        for i in range(MANY)
    ]
    server = Server()
    try:
        server.on(
            f"/apis/{API_VERSION}/scavengerjobs", Answer(body=json.dumps({"metadata": {}, "items": items}).encode())
        )
        flags = ["--server", server.url, "--kubeconfig", os.devnull]
        (sj,) = _turns([[*SJ, *flags, "list", "-A", "-o", "yaml"]], dict(os.environ), turns=FEW)
    finally:
        server.close()
    return [
        {"name": "cli.yaml_20000.seconds", "value": sj.seconds, "unit": "s", "goal": "<= 10"},
        {"name": "cli.yaml_20000.cpu_seconds", "value": sj.cpu_seconds, "unit": "s", "goal": None},
        {"name": "cli.yaml_20000.rss_mb", "value": sj.megabytes, "unit": "MB", "goal": "<= 200"},
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
        {"name": "cli.list_1000.seconds", "value": sj.seconds, "unit": "s", "goal": "<= 0.6"},
        {"name": "cli.list_1000.cpu_seconds", "value": sj.cpu_seconds, "unit": "s", "goal": None},
        {"name": "cli.list_1000.ratio_to_kubectl", "value": sj.seconds / kubectl.seconds, "unit": "x", "goal": "<= 3"},
        {
            "name": "cli.list_1000.cpu_ratio_to_kubectl",
            "value": sj.cpu_seconds / kubectl.cpu_seconds,
            "unit": "x",
            "goal": None,
        },
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
            # The API server takes its time to see that the guard is gone.
            wait(f"the status of {one}", partial(_status_is_written, cluster, f"{path}/{one}/status"), TIMEOUT)


def _status_is_written(cluster: Cluster, path: str) -> bool:
    try:
        cluster.client.request("PATCH", path, {"status": _STATUS}, MERGE_PATCH)
    except ApiError as error:
        if error.status != 403:
            raise
        return False
    return True


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


@dataclass(frozen=True)
class Cost:
    """What a process took: wall and CPU time in seconds, memory at its largest in megabytes."""

    seconds: float
    cpu_seconds: float
    megabytes: float


def _turns(
    commands: list[list[str]], environment: dict[str, str], lines: int | None = None, turns: int = TURNS
) -> list[Cost]:
    """Medians of each command, run by turns; the first turn warms caches and is not counted."""
    costs: list[list[Cost]] = [[] for _ in commands]
    for turn in range(turns + 1):
        for taken, command in zip(costs, commands, strict=True):
            cost = _run(command, environment, lines)
            if turn:
                taken.append(cost)
    return [
        Cost(*(statistics.median(getattr(one, field.name) for one in taken) for field in fields(Cost)))
        for taken in costs
    ]


def _run(command: list[str], environment: dict[str, str], lines: int | None) -> Cost:
    """Run a command, its output to a file as to a pipe that is read at once. Raises RuntimeError where it fails."""
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        printed = sum(1 for _ in output)
    if process.returncode or (lines is not None and printed != lines):
        raise RuntimeError(f"{command[0]} ended with {process.returncode} after {printed} lines")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
