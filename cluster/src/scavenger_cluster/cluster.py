"""A local cluster: bring it up, change it, look at it, take it down."""

from __future__ import annotations

import contextlib
import functools
import logging
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scavenger_cluster import images, kwok, ownership, requirements, scheduler, services, teardown
from scavenger_cluster.api import ApiClient
from scavenger_cluster.build import ensure_tools
from scavenger_cluster.components import Components, ComponentStatus, check_component, tools_for
from scavenger_cluster.control_plane import API_SERVER, SCHEDULER, full_name, tool_of
from scavenger_cluster.errors import ClusterError
from scavenger_cluster.layout import Layout, cache_dir, state_dir
from scavenger_cluster.locking import locked
from scavenger_cluster.nodes import Nodes, ready_now, silence_fake
from scavenger_cluster.options import UpOptions, choose_nodes, data_dir_of, decide
from scavenger_cluster.plan import NodePlan, check_name
from scavenger_cluster.process import ProcessTable
from scavenger_cluster.shell import run
from scavenger_cluster.state import ClusterState, Registry, load_state
from scavenger_cluster.waiting import READY_SECONDS, wait_for

_log = logging.getLogger(__name__)


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
            tools = ensure_tools(tools_for(state), self.report)
            control_plane, all_nodes = self._components(state), self._nodes(state)
            control_plane.configure()
            control_plane.start_servers(tools)
            all_nodes.start_real(tools)
            control_plane.wait_ready(API_SERVER)
            control_plane.start_clients(tools)
            control_plane.start_storage()
            all_nodes.remove_surplus()
            all_nodes.create_fake()
            all_nodes.wait_ready()
            if state.metrics:
                control_plane.start_metrics(tools)
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
        control_plane = self._components(self.state)
        return [control_plane.status(name) for name in self.processes.names()]

    def component_stop(self, name: str) -> None:
        """Stop one component of the control plane."""
        self.processes.stop(check_component(name), grace=5)

    def component_kill(self, name: str) -> None:
        """Kill one component (any name that `status` shows) without warning, as a crash would."""
        self.processes.kill(full_name(name))

    def component_silence(self, name: str, seconds: float) -> None:
        """Have one component (any name that `status` shows) answer nobody for a while; it loses nothing by that.
        ClusterError if it does not run at this moment."""
        identity = self.processes.running(full_name(name))
        if identity is None:
            raise ClusterError(f"{name} does not run in {self.name}")
        identity.send(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            identity.send(signal.SIGCONT)

    def component_start(self, name: str) -> None:
        """Start one component of the control plane again and wait until it is ready."""
        component, state = check_component(name), self.state
        tools = ensure_tools([tool_of(component, state)], self.report)
        control_plane = self._components(state)
        control_plane.ensure_running(component, tools)
        control_plane.wait_ready(component)

    def use_scheduler(self, kind: str, arguments: Mapping[str, Any] | None = None) -> None:
        """Run another scheduler: `plugin` or `stock`. `arguments` are the plugin's; None: those it had."""
        with self._locked():
            state = self.state
            state.scheduler = scheduler.check_scheduler(kind)
            if arguments is not None:
                state.scheduler_args = dict(arguments)
            state.save(self.layout.state)
            self._components(state).configure_scheduler()
            self.component_start(SCHEDULER)

    def node_stop(self, name: str) -> None:
        """Let a node die as in a power cut: its kubelet is killed, or its fake kubelet falls silent."""
        node = self._nodes(self.state).find_real(name)
        if node is not None:
            node.kill()
        else:
            silence_fake(self.client, name)

    def node_start(self, name: str) -> None:
        """Bring a stopped node back and wait until it is Ready."""
        node = self._nodes(self.state).find_real(name)
        if node is not None:
            node.start_kubelet(ensure_tools(["kubelet"], self.report))
        else:
            self.client.delete(f"{kwok.LEASES}/{name}")
        wait_for(f"{name} to be Ready", lambda: name in ready_now(self.client), timeout=READY_SECONDS)

    def service_start(
        self,
        name: str,
        *,
        instance: int = 1,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] | None = None,
        wait: str | None = "healthz",
        timeout: float = READY_SECONDS,
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

    def service_kubeconfig(self, name: str) -> Path:
        """Write the kubeconfig of a service, which need not run, and return where it is: for who acts in its place."""
        with self._locked():
            return services.write_kubeconfig(name, state=self.state, layout=self.layout, client=self.client)

    def service(self, name: str, *, instance: int = 1) -> services.Service:
        """Describe a running service; ClusterError if it does not run at this moment."""
        return services.running(name, state=self.state, processes=self.processes, instance=instance)

    def service_stop(self, name: str, *, instance: int = 1, grace: float = services.STOP_SECONDS) -> None:
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
        for node in self._nodes(self.state).real():
            node.import_image(names[0], path)
        return names

    def pull_from(self, registry: str, address: str) -> None:
        """Have every real node pull the images of a registry from another address, without TLS.

        Args:
            registry: as names of images begin, such as registry.example.com; docker.io for those that name none.
            address: HOST:PORT that nodes reach; on this machine that is an address of their network.
        """
        for node in self._nodes(self.state).real():
            node.pull_from(registry, address)

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
            self._components(state).check_ports()
            state.save(self.layout.state)
            self.registry.add(self.name, self.data_dir, state.slot)
        return state

    def _components(self, state: ClusterState) -> Components:
        return Components(state, self.layout, self.processes, self.report)

    def _nodes(self, state: ClusterState) -> Nodes:
        return Nodes(state, self.layout, self.processes, self.report)
