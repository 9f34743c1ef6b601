"""Our own services as processes of this machine, each under its own service account."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from scavenger_kube.errors import NotFound

from scavenger_cluster import cgroups, kubeconfig, ports
from scavenger_cluster.api import ApiClient
from scavenger_cluster.errors import ClusterError, ComponentFailedError, WaitTimeoutError
from scavenger_cluster.layout import Layout
from scavenger_cluster.process import ProcessTable, Program, mark
from scavenger_cluster.state import ClusterState
from scavenger_cluster.supervisor import ending
from scavenger_cluster.waiting import ANSWER_SECONDS, READY_SECONDS, wait_for

SYSTEM_NAMESPACE = "scavenger-system"
TOKEN_SECONDS = 7 * 24 * 3600
PREFIX = "service/"
STOP_SECONDS = 60.0
"""How long a service may take to stop. One that is killed gives no Lease back, and the next one waits for its end."""


@dataclasses.dataclass(frozen=True)
class Service:
    """A running service: where it is, where it answers, and how often it has been started again."""

    name: str
    instance: int
    pid: int
    port: int
    log: Path
    restarts: int = 0

    @property
    def url(self) -> str:
        """The base URL of its probes and metrics."""
        return f"http://127.0.0.1:{self.port}"


def process_name(name: str, instance: int = 1) -> str:
    """Return the name of a service among the cluster's processes."""
    return f"{PREFIX}{name}" if instance == 1 else f"{PREFIX}{name}-{instance}"


def command_of(name: str) -> list[str]:
    """Return how a Python service is run."""
    return [sys.executable, "-m", f"scavenger_{name.replace('-', '_')}"]


def start(
    name: str,
    *,
    state: ClusterState,
    layout: Layout,
    processes: ProcessTable,
    client: ApiClient,
    instance: int = 1,
    environment: Mapping[str, str] | None = None,
    command: Sequence[str] | None = None,
    wait: str | None = "healthz",
    timeout: float = READY_SECONDS,
    restart: bool = True,
) -> Service:
    """Start a service, unless it runs just so, and wait until its probe answers 200 (`wait=None`: do not).

    `restart`: whenever it ends later, it is started again.
    """
    process = process_name(name, instance)
    config = write_kubeconfig(name, state=state, layout=layout, client=client, instance=instance)
    port = _port(state, layout, processes, process)
    env = {
        **os.environ,
        "PYTHONUNBUFFERED": "1",
        "KUBECONFIG": str(config),
        "SCAVENGER_HEALTH_ADDRESS": "127.0.0.1",
        "SCAVENGER_HEALTH_PORT": str(port),
        **(environment or {}),
        **mark(state.name, layout.root, process),
    }
    argv = cgroups.with_cpu_claim(command or command_of(name))
    program = Program(process, argv, env, cwd=str(layout.root), restart=restart)
    if not processes.runs_as(program):
        processes.stop(process, grace=STOP_SECONDS)
        identity = processes.start(program)
        if wait is None and not restart:  # it is meant to end, and may have done so by now
            return Service(name, instance, identity.pid, port, processes.log(process))
    if wait is not None:
        wait_for_probe(process, f"http://127.0.0.1:{port}/{wait}", processes, timeout)
    return running(name, state=state, processes=processes, instance=instance)


def write_kubeconfig(name: str, *, state: ClusterState, layout: Layout, client: ApiClient, instance: int = 1) -> Path:
    """Write the kubeconfig of a service, with a new token of its own ServiceAccount, and return where it is."""
    config = layout.component_kubeconfig(process_name(name, instance).replace("/", "-"))
    token = service_account_token(client, f"scavenger-{name}")
    authority = layout.pki / "ca.crt"
    kubeconfig.write_private(config, kubeconfig.render(state.name, state.server, authority, {"token": token}))
    return config


def running(name: str, *, state: ClusterState, processes: ProcessTable, instance: int = 1) -> Service:
    """Describe a running service; ClusterError if it does not run."""
    process = process_name(name, instance)
    identity = processes.running(process)
    if identity is None:
        prospect = _prospect(processes, process)
        raise ClusterError(f"{process} is not running{prospect}; its log: {processes.log(process)}")
    supervision = processes.supervision(process)
    restarts = supervision.restarts if supervision else 0
    return Service(name, instance, identity.pid, state.service_ports[process], processes.log(process), restarts)


def _prospect(processes: ProcessTable, process: str) -> str:
    """Say how a service has ended that is started again, and when that is; nothing of any other."""
    seen = processes.supervision(process)
    if seen is None or seen.exit_code is None or seen.next_start is None or processes.leader(process) is None:
        return ""
    seconds = max(0.0, seen.next_start - time.time())
    return f": it ended {ending(seen.exit_code)} and is started again in {seconds:.1f} s"


def service_account_token(client: ApiClient, account: str) -> str:
    """Request a token for a service account in the system namespace."""
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts/{account}/token"
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    try:
        return str(client.request("POST", path, request)["status"]["token"])
    except NotFound as error:
        raise ClusterError(
            f"there is no ServiceAccount {SYSTEM_NAMESPACE}/{account}: apply its manifests first"
        ) from error


def _port(state: ClusterState, layout: Layout, processes: ProcessTable, process: str) -> int:
    """Return the service's probe port: the one it had, while that is its own or free."""
    port = state.service_ports.get(process)
    if port is None or (processes.running(process) is None and not ports.is_free("127.0.0.1", port)):
        port = state.service_ports[process] = ports.any_free_port()
        state.save(layout.state)
    return port


def wait_for_probe(process: str, url: str, processes: ProcessTable, timeout: float) -> None:
    """Wait until the probe of a service that has been started answers 200.

    Raises ComponentFailedError after `timeout` seconds, and as soon as the service ends: one that cannot come up is not
    started again.
    """
    identity = processes.running(process)

    def answers() -> bool:
        if identity is None or processes.running(process) != identity:
            processes.end([process], grace=3)
            raise ComponentFailedError(process, "ended", processes.log(process))
        return responds(url)

    try:
        wait_for(url, answers, timeout=timeout)
    except WaitTimeoutError as error:
        problem = f"did not answer 200 on {url} within {timeout:g} s"
        raise ComponentFailedError(process, problem, processes.log(process)) from error


def responds(url: str) -> bool:
    """Tell whether a plain HTTP URL answers 200."""
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
