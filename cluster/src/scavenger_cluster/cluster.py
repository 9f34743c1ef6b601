"""A local cluster: bring it up, change it, look at it, take it down."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import logging
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scavenger_kube.resources import MERGE_PATCH

from scavenger_cluster import (
    cgroups,
    dns,
    images,
    kubeconfig,
    kwok,
    metrics,
    network,
    ownership,
    ports,
    requirements,
    scheduler,
    services,
    teardown,
)
from scavenger_cluster.api import ApiClient
from scavenger_cluster.build import ensure_tools
from scavenger_cluster.certificates import control_plane_certificates, ensure_certificates
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
    full_name,
    probe,
    program,
    tool_of,
)
from scavenger_cluster.errors import ClusterError, ComponentFailedError, WaitTimeoutError
from scavenger_cluster.layout import Layout, cache_dir, state_dir
from scavenger_cluster.locking import locked
from scavenger_cluster.node import RealNode
from scavenger_cluster.options import UpOptions, choose_nodes, data_dir_of, decide
from scavenger_cluster.plan import NodePlan, check_name
from scavenger_cluster.process import ProcessTable
from scavenger_cluster.shell import run
from scavenger_cluster.state import ClusterState, Registry, load_state
from scavenger_cluster.waiting import wait_for

READY_SECONDS = 90.0
PORTS_OF = {ETCD: ("etcd", "etcd-peer"), COREDNS: ("coredns", "coredns-ready")}
_log = logging.getLogger(__name__)


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


class Cluster:
    """One local cluster, known by its name; all methods may be called again and do what is still missing."""

    def __init__(
        self,
        name: str = "scavenger",
        data_dir: Path | str | None = None,
        *,
        report: Callable[[str], None] = _log.info,
    ) -> None:
        """Name a cluster; nothing is started. `report` gets a line of text for every step."""
        self.name = check_name(name)
        self.registry = Registry(state_dir() / "clusters.json")
        given = Path(data_dir) if data_dir is not None else None
        self.layout = Layout(data_dir_of(name, given, self.registry, state_dir() / name))
        self.data_dir = self.layout.root
        self.processes = ProcessTable(self.layout.run, self.layout.logs)
        self.report = report

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.layout.kubeconfig

    @property
    def state(self) -> ClusterState:
        """What `up` decided; ClusterError if there is no such cluster."""
        state = load_state(self.layout.state)
        if state is None:
            raise ClusterError(
                f"there is no cluster {self.name}; start it with: scavenger-cluster --name {self.name} up"
            )
        return state

    @property
    def client(self) -> ApiClient:
        """A client with the administrator's rights."""
        return ApiClient(self.state.server, self.layout.pki)

    def up(self, nodes: str | None = None, **options: Any) -> None:
        """Bring the cluster up, or complete it: what runs as it should is kept, the rest is started.

        `nodes` is `auto`, `none`, `real[:N]`, `fake[:N]`, or both joined by a comma; the further options are
        the fields of UpOptions. Returns once the API server and all nodes are ready.
        """
        requirements.check_platform()
        wanted = UpOptions(nodes=nodes, **options)
        with self._locked():
            ownership.claim(self.layout, self.name)
            plan = choose_nodes(wanted, load_state(self.layout.state), self.report)
            self._check_namesakes(plan)
            state = self._decide(wanted, plan)
            tools = ensure_tools(_tools_for(state), self.report)
            self._prepare(state)
            self._start_servers(state, tools)
            real = self._real_nodes(state)
            if real:
                network.ensure_network(self.name, state.subnets)
                pause = images.pause_archive(tools["pause"])
                for node in real:
                    node.start(tools, pause)
            self._wait_ready(API_SERVER, state)
            self._start_rest(state, tools)
            self._remove_surplus_nodes(state)
            self._create_fake_nodes(state)
            self._wait_for_nodes(state)
            if state.metrics:
                self._start_metrics(state, tools)
            self.report(f"ready: {state.nodes} at {state.server}")

    def down(self, *, keep_data: bool = False) -> None:
        """Take the cluster down and leave nothing behind.

        `keep_data` keeps database, keys, addresses, ports and imported images for the next `up`.
        Works on whatever is left of a cluster, and does nothing where there is none. ClusterError if the data folder
        holds anything that is not this cluster's: then nothing is deleted, and nothing ended.
        """
        if not requirements.is_linux() and not self.data_dir.exists():
            return  # nothing can ever have run here
        requirements.check_platform()
        with self._locked():
            self.report(f"stopping {self.name}")
            # Who loses all its data anyway need not take leave at length.
            teardown.stop_everything(self.name, self.layout, self.processes, grace=8 if keep_data else 2)
            teardown.remove_traces(self.name, self.layout, keep_data=keep_data)
            if not keep_data:
                with locked(cache_dir() / "clusters.lock"):
                    self.registry.remove(self.name)
                with contextlib.suppress(OSError):
                    self.registry.path.parent.rmdir()
        self.report(f"{self.name} is down")

    def status(self) -> list[ComponentStatus]:
        """Describe every component that was started, running or dead."""
        state = self.state
        return [self._status(name, state) for name in self.processes.names()]

    def component_stop(self, name: str) -> None:
        """Stop one component of the control plane."""
        self.processes.stop(self._component(name), grace=5)

    def component_kill(self, name: str) -> None:
        """Kill one component (any name that `status` shows) without warning, as a crash would."""
        self.processes.kill(full_name(name))

    def component_start(self, name: str) -> None:
        """Start one component of the control plane again and wait until it is ready."""
        component, state = self._component(name), self.state
        tools = ensure_tools([tool_of(component, state)], self.report)
        self._ensure_running(component, state, tools)
        self._wait_ready(component, state)

    def use_scheduler(self, kind: str, arguments: Mapping[str, Any] | None = None) -> None:
        """Run another scheduler: `plugin` or `stock`. `arguments` are the plugin's; None: those it had."""
        with self._locked():
            state = self.state
            state.scheduler = scheduler.check_scheduler(kind)
            if arguments is not None:
                state.scheduler_args = dict(arguments)
            state.save(self.layout.state)
            self._configure_scheduler(state)
            self.component_start(SCHEDULER)

    def node_stop(self, name: str) -> None:
        """Let a node die as in a power cut: its kubelet is killed, or its fake kubelet falls silent."""
        node = self._real_node(name)
        if node is not None:
            node.kill()
        else:
            self.client.request("PATCH", f"{kwok.LEASES}/{name}", kwok.STOP_LEASE, MERGE_PATCH)

    def node_start(self, name: str) -> None:
        """Bring a stopped node back and wait until it is Ready."""
        node = self._real_node(name)
        if node is not None:
            node.start_kubelet(ensure_tools(["kubelet"], self.report))
        else:
            self.client.delete(f"{kwok.LEASES}/{name}")
        wait_for(f"{name} to be Ready", lambda: name in _ready_nodes(self.client), timeout=READY_SECONDS)

    def service_start(
        self,
        name: str,
        *,
        instance: int = 1,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] | None = None,
        wait: str | None = "healthz",
        timeout: float = 60,
        restart: bool = True,
    ) -> services.Service:
        """Start `python -m scavenger_<name>` (or `command`) under its own ServiceAccount.

        That is `scavenger-<name>` in the system namespace, which must exist. `wait` is the probe that has to
        answer 200 before this returns: `healthz`, `readyz` or None. A service that runs just so is kept.
        When it ends later it is started again, as often as it takes; `restart=False` is for what is meant to end.
        """
        with self._locked():
            return services.start(
                name,
                state=self.state,
                layout=self.layout,
                processes=self.processes,
                client=self.client,
                instance=instance,
                environment=environment,
                command=command,
                wait=wait,
                timeout=timeout,
                restart=restart,
            )

    def service(self, name: str, *, instance: int = 1) -> services.Service:
        """Describe a running service; ClusterError if it does not run at this moment."""
        return services.running(name, state=self.state, processes=self.processes, instance=instance)

    def service_stop(self, name: str, *, instance: int = 1, grace: float = 15) -> None:
        """Stop a service as Kubernetes would: SIGTERM, SIGKILL after `grace` seconds (0: at once). It stays away."""
        self.processes.stop(services.process_name(name, instance), grace=grace)

    def service_kill(self, name: str, *, instance: int = 1) -> None:
        """Kill a service without warning, as a crash would: it is started again a second later, or longer."""
        self.processes.kill(services.process_name(name, instance))

    def service_logs(self, name: str, *, instance: int = 1) -> str:
        """Return what a service has logged, since the cluster came up."""
        log = self.processes.log(services.process_name(name, instance))
        if not log.exists():
            raise ClusterError(f"{name} has no log: {log}")
        return log.read_text(errors="replace")

    def kubectl(self, *words: str, input: str | None = None, timeout: float = 120) -> str:
        """Run kubectl as administrator and return its output; CommandError with what it said if it fails."""
        return run([*self.kubectl_command, *words], stdin=input, timeout=timeout)

    @functools.cached_property
    def kubectl_command(self) -> list[str]:
        """The command that runs kubectl as administrator, its cache kept with the cluster."""
        tool = ensure_tools(["kubectl"], self.report)["kubectl"]
        return [str(tool), f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.layout.kubectl_cache}"]

    def apply(self, manifests: str) -> str:
        """Apply manifests given as YAML text."""
        return self.kubectl("apply", "--filename=-", input=manifests)

    def load_image(self, archive: Path | str) -> list[str]:
        """Import an image archive (OCI or Docker) into every real node; returns the names pods can use."""
        path = Path(archive).absolute()
        names = images.archive_names(path)
        for node in self._real_nodes(self.state):
            node.import_image(names[0], path)
        return names

    def build_image(
        self,
        name: str,
        context: Path | str,
        *,
        containerfile: Path | str | None = None,
        arguments: Mapping[str, str] | None = None,
        buildah_options: Sequence[str] = (),
        install: bool = True,
    ) -> str:
        """Build a Containerfile on the local Python base, load it into every real node, return its name."""
        requirements.check_image_building()
        requirements.install(requirements.missing_image_packages(), self.report, allowed=install)
        archive = images.build_image(
            name,
            Path(context).absolute(),
            self.report,
            containerfile=Path(containerfile).absolute() if containerfile else None,
            arguments=arguments,
            buildah_options=tuple(buildah_options),
        )
        return self.load_image(archive)[0]

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the cluster, which is in its folder; a folder that is not its own never gets one."""
        ownership.check(self.layout, self.name)
        made = ownership.made_by_locking(self.layout)
        with locked(self.layout.lock, lambda: self.report("waiting for another command on this cluster")):
            ownership.check(self.layout, self.name)  # whoever had the lock may have made it another cluster's
            try:
                yield
            finally:
                ownership.tidy(self.layout, made)

    def _check_namesakes(self, plan: NodePlan) -> None:
        """Refuse real nodes whose control groups and networks, by their names, are another folder's cluster's."""
        if plan.real and (folders := teardown.real_nodes_elsewhere(self.name, self.layout)):
            raise ClusterError(
                f"--name {self.name}: a cluster of this name with real nodes runs already, "
                f"with its data in {folders[0]}; choose another name"
            )

    def _decide(self, options: UpOptions, plan: Any) -> ClusterState:
        with locked(cache_dir() / "clusters.lock"):
            state = decide(self.name, options, plan, self.layout, self.registry)
            for component in _components_of(state):
                if self.processes.running(component) is None:
                    needed = {part: state.ports[part] for part in PORTS_OF.get(component, (component,))}
                    ports.check_free(needed, option="--port-base")
            state.save(self.layout.state)
            self.registry.add(self.name, self.data_dir, state.slot)
        return state

    def _prepare(self, state: ClusterState) -> None:
        """Write certificates, kubeconfigs and configuration files."""
        pki = self.layout.pki
        ensure_certificates(pki, control_plane_certificates(state))
        inside = f"https://{state.subnets.host}:{state.ports[API_SERVER]}"
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
        kubeconfig.write_private(self.layout.config / "kwok.yaml", kwok.configuration())
        self._configure_scheduler(state)
        names = dns.corefile(state, self.layout.component_kubeconfig(COREDNS))
        kubeconfig.write_private(self.layout.config / "coredns.conf", names)

    def _configure_scheduler(self, state: ClusterState) -> None:
        text = scheduler.configuration(self.layout.component_kubeconfig(SCHEDULER), state.scheduler_args)
        kubeconfig.write_private(self.layout.config / f"{SCHEDULER}.yaml", text)

    def _start_servers(self, state: ClusterState, tools: Mapping[str, Path]) -> None:
        if state.real:
            network.ensure_network(self.name, state.subnets)
        for component in (ETCD, API_SERVER):
            self._ensure_running(component, state, tools)

    def _start_rest(self, state: ClusterState, tools: Mapping[str, Path]) -> None:
        optional = {KWOK: state.fake > 0, COREDNS: state.has_dns}
        scheduler.grant(self.client)
        clients = [CONTROLLER_MANAGER, SCHEDULER, *(name for name, wanted in optional.items() if wanted)]
        for component in clients:
            self._ensure_running(component, state, tools)
        for component in optional.keys() - set(clients):
            self.processes.stop(component)
        if state.has_dns:
            dns.register(self.client, state)
        for component in clients:
            self._wait_ready(component, state)

    def _ensure_running(self, component: str, state: ClusterState, tools: Mapping[str, Path]) -> None:
        wanted = program(component, state, self.layout, tools)
        wanted = dataclasses.replace(wanted, argv=cgroups.with_cpu_claim(wanted.argv))
        if self.processes.runs_as(wanted):
            return
        self.report(f"starting {component}")
        self.processes.stop(component, grace=3)
        if component == KWOK:
            self._release_fake_nodes()
        self.processes.start(wanted)

    def _release_fake_nodes(self, holder: str | None = None) -> None:
        """Delete leases of fake nodes, all or those of one holder, so that kwok need not wait for their expiry."""
        fakes = {node["metadata"]["name"] for node in _nodes(self.client) if _is_fake(node)}
        leases = {
            lease["metadata"]["name"]
            for lease in self.client.get(kwok.LEASES)["items"]
            if holder is None or lease["spec"].get("holderIdentity") == holder
        }
        self.client.delete_all(f"{kwok.LEASES}/{name}" for name in sorted(fakes & leases))

    def _wait_ready(self, component: str, state: ClusterState) -> None:
        target = probe(component, state, self.layout)

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

    def _remove_surplus_nodes(self, state: ClusterState) -> None:
        """Remove nodes of an earlier `up` that are not wanted any more."""
        wanted = {*state.nodes.real_names, *state.nodes.fake_names}
        folders = self.layout.root / "nodes"
        for folder in sorted(folders.iterdir()) if folders.is_dir() else []:
            if folder.name not in wanted:
                self._node(state, int(folder.name.removeprefix("node"))).remove()
                teardown.remove_folder(folder)
        surplus = [
            node["metadata"]["name"]
            for node in _nodes(self.client)
            if _is_fake(node) or node["metadata"]["name"].startswith("node")
        ]
        self.client.delete_all(f"/api/v1/nodes/{name}" for name in surplus if name not in wanted)

    def _create_fake_nodes(self, state: ClusterState) -> None:
        self._release_fake_nodes(kwok.STOPPED)
        existing = {node["metadata"]["name"] for node in _nodes(self.client)}
        missing = [name for name in state.nodes.fake_names if name not in existing]
        if not missing:
            return
        self.report(f"creating {len(missing)} fake nodes")
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        size: dict[str, Any] = {"cpu": state.fake_cpu, "memory": state.fake_memory, "pods": state.fake_pods}
        bodies = (kwok.fake_node(name, **size, taint=state.fake_taint, now=now) for name in missing)
        self.client.create_all("/api/v1/nodes", bodies)

    def _wait_for_nodes(self, state: ClusterState) -> None:
        wanted = {*state.nodes.real_names, *state.nodes.fake_names}
        real = self._real_nodes(state)
        client = self.client

        def all_ready() -> bool:
            for node in real:
                node.check()
            return wanted <= _ready_nodes(client)

        try:
            wait_for("all nodes to be Ready", all_ready, timeout=READY_SECONDS, interval=0.2)
        except WaitTimeoutError as error:
            late = sorted(wanted - _ready_nodes(client))
            log = self.processes.log(f"{late[0]}/kubelet" if late and late[0].startswith("node") else KWOK)
            raise ComponentFailedError(", ".join(late[:5]), "did not become Ready", log) from error

    def _start_metrics(self, state: ClusterState, tools: Mapping[str, Path]) -> None:
        self._ensure_running(METRICS_SERVER, state, tools)
        metrics.register(self.client, state, self.layout.pki / "ca.crt")
        try:
            names, client = state.nodes.real_names, self.client
            wait_for(
                "the metrics API",
                lambda: metrics.available(client, names),
                timeout=READY_SECONDS,
                interval=0.5,
            )
        except WaitTimeoutError as error:
            raise ComponentFailedError(METRICS_SERVER, str(error), self.processes.log(METRICS_SERVER)) from error
        self.report("the metrics API has figures")

    def _component(self, name: str) -> str:
        component = full_name(name)
        if component not in COMPONENTS:
            raise ClusterError(f"no component {name}; there are: {', '.join(COMPONENTS)}")
        return component

    def _node(self, state: ClusterState, number: int) -> RealNode:
        return RealNode(state, self.layout, self.processes, self.report, number)

    def _real_nodes(self, state: ClusterState) -> list[RealNode]:
        return [self._node(state, number) for number in range(1, state.real + 1)]

    def _real_node(self, name: str) -> RealNode | None:
        state = self.state
        if name in state.nodes.real_names:
            return self._node(state, int(name.removeprefix("node")))
        if name not in state.nodes.fake_names:
            raise ClusterError(f"no node {name} in cluster {self.name}")
        return None

    def _status(self, name: str, state: ClusterState) -> ComponentStatus:
        identity = self.processes.running(name)
        pid, uptime = (identity.pid, identity.uptime()) if identity else (None, 0.0)
        url = ""
        if name in COMPONENTS:
            url = probe(name, state, self.layout).url
        elif name in state.service_ports:
            url = f"http://127.0.0.1:{state.service_ports[name]}"
        supervision = self.processes.supervision(name)
        restarts = supervision.restarts if supervision else None
        return ComponentStatus(name, pid, uptime, url, self.processes.log(name), restarts)


def _components_of(state: ClusterState) -> list[str]:
    optional = {KWOK: state.fake > 0, METRICS_SERVER: state.metrics, COREDNS: state.has_dns}
    return [*CONTROL_PLANE, *(name for name, wanted in optional.items() if wanted)]


def _tools_for(state: ClusterState) -> list[str]:
    nodes = ["pause", "kubelet", "kube-proxy"] if state.real else []
    return [*(tool_of(component, state) for component in _components_of(state)), "kubectl", *nodes]


def _answers(target: Probe) -> bool:
    if target.url.startswith("tcp:"):
        host, _, port = target.url.removeprefix("tcp://").rpartition(":")
        return not ports.is_free(host, int(port))
    context = ssl.create_default_context(cafile=str(target.authority)) if target.authority else None
    try:
        with urllib.request.urlopen(target.url, timeout=5, context=context) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _nodes(client: ApiClient) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = client.get("/api/v1/nodes?resourceVersion=0")["items"]
    return items


def _is_fake(node: dict[str, Any]) -> bool:
    return kwok.FAKE in node["metadata"].get("annotations", {})


def _ready_nodes(client: ApiClient) -> set[str]:
    """Return the names of the nodes that are Ready and already freed of the taint a new node gets."""
    found = set()
    for node in _nodes(client):
        conditions = {entry["type"]: entry["status"] for entry in node["status"].get("conditions", [])}
        taints = {taint["key"] for taint in node["spec"].get("taints", [])}
        if conditions.get("Ready") == "True" and not taints & {
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
        }:
            found.add(node["metadata"]["name"])
    return found
