"""A real node: a network namespace, a mount namespace, containerd, kubelet and kube-proxy."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from scavenger_cluster import cgroups, kubeconfig, network
from scavenger_cluster.certificates import ensure_certificates, node_certificate
from scavenger_cluster.control_plane import base_environment
from scavenger_cluster.errors import CommandError, ComponentFailedError, WaitTimeoutError
from scavenger_cluster.layout import Layout
from scavenger_cluster.node_config import (
    CONTAINERD_SOCKET,
    HOLDER_SCRIPT,
    PAUSE_IMAGE,
    cni_config,
    containerd_config,
    kube_proxy_config,
    kubelet_config,
    registry_hosts,
)
from scavenger_cluster.plan import namespace
from scavenger_cluster.process import Identity, ProcessTable, Program, find_marked, terminate
from scavenger_cluster.requirements import cni_plugin_dir, may_lower_oom_scores
from scavenger_cluster.shell import find_program
from scavenger_cluster.state import ClusterState, read_json, write_json
from scavenger_cluster.waiting import READY_SECONDS, wait_for

PARTS = ("containerd", "kubelet", "kube-proxy")
REGISTRIES = "registries"
"""Where containerd finds from what address it pulls the images of a registry."""
CRI_SERVES = "Start streaming server"
"""The last that containerd logs before it answers kubelets; until then it looks at the containers that it finds."""


class RealNode:
    """One real node of a cluster, by its number (from 1)."""

    def __init__(
        self,
        state: ClusterState,
        layout: Layout,
        processes: ProcessTable,
        report: Callable[[str], None],
        number: int,
    ) -> None:
        """Describe the node; nothing is started."""
        self.report = report
        self.state = state
        self.layout = layout
        self.processes = processes
        self.number = number
        self.name = f"node{number}"
        self.address = state.subnets.node(number)
        self.folder = layout.node(self.name)

    def start(self, tools: Mapping[str, Path], pause_image: Path) -> None:
        """Start whatever of the node is not running, and restart what runs with other arguments."""
        network.ensure_node_network(self.state.name, self.state.subnets, self.number, self.state.real)
        self._create_groups()
        self._write_configuration()
        self._ensure_holder()
        self._ensure_containerd()
        self.import_image(PAUSE_IMAGE, pause_image)
        self._ensure_running(self._kube_proxy(tools))
        self.start_kubelet(tools)

    def start_kubelet(self, tools: Mapping[str, Path]) -> None:
        """Start the kubelet, unless it runs."""
        self._ensure_running(self._kubelet(tools))

    def stop(self) -> None:
        """Stop the node and everything it ever started, in whatever condition it is."""
        for part in ("kubelet", "kube-proxy"):
            self.processes.stop(self._part(part), grace=5)
        group = cgroups.node_group(self.state.name, self.name)
        cgroups.kill(group)
        self.processes.stop(self._part("containerd"), grace=5)
        terminate(find_marked(self.state.name, self.layout.root, component=self._is_ours), grace=0)
        self.processes.stop(self._part("holder"), grace=0)
        cgroups.kill(group)
        cgroups.remove(group)

    def remove(self) -> None:
        """Stop the node and take its namespace away."""
        self.stop()
        network.remove_node_network(self.state.name, self.state.subnets, self.number)

    def kill(self) -> None:
        """Kill the kubelet, as a power cut would: the node stops reporting, its containers are not told."""
        self.processes.kill(self._part("kubelet"))

    def import_image(self, name: str, archive: Path) -> bool:
        """Import an image archive into containerd; False if this very file was imported before."""
        record = self.folder / "images.json"
        known = read_json(record)
        stamp = [str(archive), archive.stat().st_mtime_ns, archive.stat().st_size]
        if known.get(name) == stamp and name in self.images():
            return False
        with archive.open("rb") as stdin:
            self._ctr("images", "import", "-", stdin=stdin)
        write_json(record, known | {name: stamp})
        return True

    def images(self) -> set[str]:
        """List the names of the images containerd has."""
        return set(self._ctr("images", "list", "--quiet").split())

    def pull_from(self, registry: str, address: str) -> None:
        """Pull images of a registry, from now on, from an address (HOST:PORT) without TLS."""
        kubeconfig.write_private(self.folder / REGISTRIES / registry / "hosts.toml", registry_hosts(address))

    def check(self) -> None:
        """Raise ComponentFailedError if a part of the node has ended."""
        for part in PARTS:
            self._dead(self._part(part))

    def _create_groups(self) -> None:
        group = cgroups.daemons_group(self.state.name, self.name)
        cgroups.create(group)
        cgroups.claim(group, cgroups.SYSTEM_SHARES)

    def _part(self, name: str) -> str:
        return f"{self.name}/{name}"

    def _is_ours(self, component: str) -> bool:
        return component.startswith(f"{self.name}/")

    def _ctr(self, *words: str, stdin: object = subprocess.DEVNULL) -> str:
        argv = [*self._enter(), "ctr", f"--address={CONTAINERD_SOCKET}", "--namespace=k8s.io", *words]
        done = subprocess.run(argv, stdin=stdin, capture_output=True, text=True, check=False, timeout=600)  # type: ignore[call-overload]
        if done.returncode:
            raise CommandError(argv, done.returncode, str(done.stderr))
        return str(done.stdout)

    def _write_configuration(self) -> None:
        ensure_certificates(self.layout.pki, [node_certificate(self.name, self.address)])
        containerd = containerd_config(
            cni_config=str(self.folder / "cni"),
            cni_plugins=cni_plugin_dir() or "/opt/cni/bin",
            registries=str(self.folder / REGISTRIES),
            restrict_oom=not may_lower_oom_scores(),
        )
        user = kubeconfig.certificate_user(self.layout.pki, f"kubelet-{self.name}")
        authority = self.layout.pki / "ca.crt"
        server = self.state.inner_server
        for file, text in {
            "containerd.toml": containerd,
            "cni/10-scavenger.conflist": cni_config(self.state.subnets.node_pods(self.number)),
            "kubelet.yaml": kubelet_config(self.state, self.layout, self.name),
            "kube-proxy.yaml": kube_proxy_config(self.state, self.layout, self.name),
            "kubelet.kubeconfig": kubeconfig.render(self.state.name, server, authority, user),
        }.items():
            kubeconfig.write_private(self.folder / file, text)

    def _ensure_holder(self) -> None:
        """Make sure the process holding the mount namespace lives; without it all the rest starts anew."""
        name = self._part("holder")
        if self.processes.running(name) is not None:
            return
        self.report(f"starting {self.name}")
        self.stop()
        self._create_groups()
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        group = cgroups.node_group(self.state.name, self.name)
        script = ("sh", "-c", HOLDER_SCRIPT, "holder", str(self.layout.root), str(self.folder), str(ready), group)
        enter = (str(find_program("nsenter")), f"--net={self._netns()}")
        unshare = ("unshare", "--mount", "--propagation", "private", "--cgroup")
        program = cgroups.joining(group, (*enter, *unshare, *script))
        self.processes.start(Program(name, program, self._environment("holder")))
        try:
            what = f"the namespaces of {self.name}"
            wait_for(what, lambda: ready.exists() or self._dead(name), timeout=READY_SECONDS)
        except WaitTimeoutError as error:
            raise ComponentFailedError(name, "did not get ready", self.processes.log(name)) from error

    def _dead(self, name: str) -> bool:
        if self.processes.running(name) is None:
            raise ComponentFailedError(name, "ended", self.processes.log(name))
        return False

    def _holder(self) -> Identity:
        holder = self.processes.running(self._part("holder"))
        if holder is None:
            raise ComponentFailedError(self.name, "is not running", self.processes.log(self._part("holder")))
        return holder

    def _enter(self) -> list[str]:
        return [
            str(find_program("nsenter")),
            f"--mount=/proc/{self._holder().pid}/ns/mnt",
            f"--cgroup=/proc/{self._holder().pid}/ns/cgroup",
            f"--net={self._netns()}",
        ]

    def _netns(self) -> Path:
        return network.NETNS_DIR / namespace(self.state.name, self.name)

    def _environment(self, part: str) -> dict[str, str]:
        return base_environment(self.state, self.layout, self._part(part))

    def _program(self, part: str, *argv: str) -> Program:
        extra = self.state.arguments.get(part, [])
        read = [*self.folder.glob(f"{part}.*"), self.layout.component_kubeconfig(part)]
        inputs = tuple(sorted(path for path in read if path.is_file()))
        group = cgroups.daemons_group(self.state.name, self.name)
        program = cgroups.joining(group, (*self._enter(), *argv, *extra))
        return Program(self._part(part), program, self._environment(part), inputs=inputs)

    def _ensure_running(self, program: Program) -> None:
        if not self.processes.runs_as(program):
            self.report(f"starting {program.name}")
            self.processes.stop(program.name, grace=3)
            self.processes.start(program)

    def _containerd(self) -> Program:
        containerd = str(find_program("containerd"))
        return self._program("containerd", containerd, "--config", str(self.folder / "containerd.toml"))

    def _kubelet(self, tools: Mapping[str, Path]) -> Program:
        return self._program(
            "kubelet",
            str(tools["kubelet"]),
            f"--config={self.folder / 'kubelet.yaml'}",
            f"--kubeconfig={self.folder / 'kubelet.kubeconfig'}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
        )

    def _kube_proxy(self, tools: Mapping[str, Path]) -> Program:
        return self._program("kube-proxy", str(tools["kube-proxy"]), f"--config={self.folder / 'kube-proxy.yaml'}")

    def _ensure_containerd(self) -> None:
        """Start containerd, unless it runs, and wait until it answers kubelets too: one that asks earlier ends."""
        program = self._containerd()
        started = not self.processes.runs_as(program)
        log = self.processes.log(program.name)
        before = log.stat().st_size if log.exists() else 0
        self._ensure_running(program)

        def answers() -> bool:
            if self._dead(program.name) or (started and CRI_SERVES not in _text_from(log, before)):
                return False
            try:
                self._ctr("version")
            except CommandError:
                return False
            return True

        try:
            wait_for(f"containerd of {self.name}", answers, timeout=READY_SECONDS)
        except WaitTimeoutError as error:
            raise ComponentFailedError(program.name, "did not answer", log) from error


def _text_from(file: Path, position: int) -> str:
    with file.open(errors="replace") as opened:
        opened.seek(position)
        return opened.read()
