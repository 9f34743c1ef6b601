"""The components of a control plane as processes: configured, started, waited for, and described."""

from __future__ import annotations

import dataclasses
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from scavenger_cluster import cgroups, dns, kubeconfig, kwok, metrics, network, nodes, ports, scheduler, storage
from scavenger_cluster.certificates import ADMISSION_CLIENT, control_plane_certificates, ensure_certificates
from scavenger_cluster.control_plane import (
    API_SERVER,
    COMPONENTS,
    CONTROL_PLANE,
    CONTROLLER_MANAGER,
    COREDNS,
    ETCD,
    KWOK,
    METRICS_SERVER,
    SCHEDULER,
    Probe,
    admission_configuration,
    base_environment,
    full_name,
    probe,
    program,
    tool_of,
)
from scavenger_cluster.errors import ClusterError, ComponentFailedError, WaitTimeoutError
from scavenger_cluster.parts import Parts
from scavenger_cluster.process import Program
from scavenger_cluster.state import ClusterState
from scavenger_cluster.storage import STORAGE
from scavenger_cluster.waiting import ANSWER_SECONDS, READY_SECONDS, wait_for

PORTS_OF = {ETCD: ("etcd", "etcd-peer"), COREDNS: ("coredns", "coredns-ready")}


@dataclasses.dataclass(frozen=True)
class ComponentStatus:
    """One line of `status`."""

    name: str
    pid: int | None
    uptime: float
    url: str
    log: Path
    restarts: int | None = None
    """How often it has been started again by itself; None for what nobody would start again."""

    @property
    def state(self) -> str:
        """`running` or `dead`; what has ended and waits for its next start is dead until then."""
        return "dead" if self.pid is None else "running"


class Components(Parts):
    """The components that the state of a cluster names."""

    def check_ports(self) -> None:
        """Raise PortBusyError if a component that does not run could not listen where it has to."""
        for component in _wanted(self.state):
            if self.processes.running(component) is None:
                needed = {part: self.state.ports[part] for part in PORTS_OF.get(component, (component,))}
                ports.check_free(needed, option="--port-base")

    def configure(self) -> None:
        """Write certificates, kubeconfigs and configuration files."""
        state, pki = self.state, self.layout.pki
        ensure_certificates(pki, control_plane_certificates(state))
        inside = state.inner_server
        for name, server, path in (
            ("admin", state.server, self.layout.kubeconfig),
            (CONTROLLER_MANAGER, state.server, self.layout.component_kubeconfig(CONTROLLER_MANAGER)),
            (SCHEDULER, state.server, self.layout.component_kubeconfig(SCHEDULER)),
            (KWOK, state.server, self.layout.component_kubeconfig(KWOK)),
            (COREDNS, state.server, self.layout.component_kubeconfig(COREDNS)),
            (METRICS_SERVER, state.server, self.layout.component_kubeconfig(METRICS_SERVER)),
            ("kube-proxy", inside, self.layout.component_kubeconfig("kube-proxy")),
        ):
            user = kubeconfig.certificate_user(pki, name)
            kubeconfig.write_private(path, kubeconfig.render(state.name, server, pki / "ca.crt", user))
        clients = self.layout.component_kubeconfig(f"{API_SERVER}.webhooks")
        kubeconfig.write_private(clients, kubeconfig.of_any_server(kubeconfig.certificate_user(pki, ADMISSION_CLIENT)))
        kubeconfig.write_private(self.layout.admission_configuration, admission_configuration(clients))
        kubeconfig.write_private(self.layout.config / "kwok.yaml", kwok.configuration())
        self.configure_scheduler()
        names = dns.corefile(state, self.layout.component_kubeconfig(COREDNS))
        kubeconfig.write_private(self.layout.config / "coredns.conf", names)

    def configure_scheduler(self) -> None:
        """Write the scheduler's configuration file, which it reads when it starts."""
        text = scheduler.configuration(self.layout.component_kubeconfig(SCHEDULER), self.state.scheduler_args)
        kubeconfig.write_private(self.layout.config / f"{SCHEDULER}.yaml", text)

    def start_servers(self, tools: Mapping[str, Path]) -> None:
        """Start the database and the API server, and before them the network on which real nodes reach it."""
        if self.state.real:
            network.ensure_network(self.state.name, self.state.subnets)
        for component in (ETCD, API_SERVER):
            self.ensure_running(component, tools)

    def start_clients(self, tools: Mapping[str, Path]) -> None:
        """Start the clients of the API server, which must be ready, and wait until they are; stop unwanted ones."""
        optional = {KWOK: self.state.fake > 0, COREDNS: self.state.has_dns}
        scheduler.grant(self.client)
        clients = [CONTROLLER_MANAGER, SCHEDULER, *(name for name, wanted in optional.items() if wanted)]
        for component in clients:
            self.ensure_running(component, tools)
        for component in optional.keys() - set(clients):
            self.processes.stop(component)
        if self.state.has_dns:
            dns.register(self.client, self.state)
        for component in clients:
            self.wait_ready(component)

    def start_storage(self) -> None:
        """Start the provisioner of volumes where there are real nodes, and make its StorageClass the default one."""
        if not self.state.real:
            self.processes.stop(STORAGE)
            self.client.delete(storage.CLASS)  # of an earlier `up`
            return
        argv = (sys.executable, "-m", "scavenger_cluster.provisioner", str(self.layout.root))
        environment = base_environment(self.state, self.layout, STORAGE)
        # Which nodes there are it reads once, as it starts.
        environment["SCAVENGER_CLUSTER_NODES"] = ",".join(self.state.nodes.real_names)
        wanted = Program(STORAGE, tuple(cgroups.with_cpu_claim(argv)), environment, restart=True)
        if not self.processes.runs_as(wanted):
            self.report(f"starting {STORAGE}")
            self.processes.stop(STORAGE)
            self.processes.start(wanted)
        storage.register(self.client)

    def start_metrics(self, tools: Mapping[str, Path]) -> None:
        """Start metrics-server and wait until it has figures for all real nodes, which must be Ready."""
        self.ensure_running(METRICS_SERVER, tools)
        metrics.register(self.client, self.state, self.layout.pki / "ca.crt")
        try:
            names, client = self.state.nodes.real_names, self.client
            wait_for(
                "the metrics API",
                lambda: metrics.available(client, names),
                timeout=READY_SECONDS,
                interval=0.5,
            )
        except WaitTimeoutError as error:
            raise ComponentFailedError(METRICS_SERVER, str(error), self.processes.log(METRICS_SERVER)) from error
        self.report("the metrics API has figures")

    def ensure_running(self, component: str, tools: Mapping[str, Path]) -> None:
        """Start a component, unless it runs just so; `tools` are programs by name."""
        wanted = program(component, self.state, self.layout, tools)
        wanted = dataclasses.replace(wanted, argv=cgroups.with_cpu_claim(wanted.argv))
        if self.processes.runs_as(wanted):
            return
        self.report(f"starting {component}")
        self.processes.stop(component, grace=3)
        if component == KWOK:
            nodes.release_fake(self.client)
        self.processes.start(wanted)

    def wait_ready(self, component: str) -> None:
        """Wait until a component is ready; ComponentFailedError if it ends or takes too long."""
        target = probe(component, self.state, self.layout)

        def ready() -> bool:
            if self.processes.running(component) is None:
                raise ComponentFailedError(component, "ended", self.processes.log(component))
            return _answers(target)

        try:
            wait_for(f"{component} to be ready", ready, timeout=READY_SECONDS, interval=0.1)
        except WaitTimeoutError as error:
            raise ComponentFailedError(
                component, f"was not ready in time: {error}", self.processes.log(component)
            ) from error
        self.report(f"{component} is ready")

    def status(self, name: str) -> ComponentStatus:
        """Describe one process of the cluster, a component or not."""
        identity = self.processes.running(name)
        pid, uptime = (identity.pid, identity.uptime()) if identity else (None, 0.0)
        url = ""
        if name in COMPONENTS:
            url = probe(name, self.state, self.layout).url
        elif name in self.state.service_ports:
            url = f"http://127.0.0.1:{self.state.service_ports[name]}"
        supervision = self.processes.supervision(name)
        restarts = supervision.restarts if supervision else None
        return ComponentStatus(name, pid, uptime, url, self.processes.log(name), restarts)


def check_component(name: str) -> str:
    """Return the full name of a component; ClusterError if there is none of this name."""
    component = full_name(name)
    if component not in COMPONENTS:
        raise ClusterError(f"no component {name}; there are: {', '.join(COMPONENTS)}")
    return component


def tools_for(state: ClusterState) -> list[str]:
    """Return the names of all programs that a cluster is made of."""
    of_nodes = ["pause", "kubelet", "kube-proxy"] if state.real else []
    return [*(tool_of(component, state) for component in _wanted(state)), "kubectl", *of_nodes]


def _wanted(state: ClusterState) -> list[str]:
    optional = {KWOK: state.fake > 0, METRICS_SERVER: state.metrics, COREDNS: state.has_dns}
    return [*CONTROL_PLANE, *(name for name, wanted in optional.items() if wanted)]


def _answers(target: Probe) -> bool:
    if target.url.startswith("tcp:"):
        host, _, port = target.url.removeprefix("tcp://").rpartition(":")
        return not ports.is_free(host, int(port))
    context = ssl.create_default_context(cafile=str(target.authority)) if target.authority else None
    try:
        with urllib.request.urlopen(target.url, timeout=ANSWER_SECONDS, context=context) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
