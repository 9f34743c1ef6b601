"""The nodes of a cluster, real and fake: the API server and the machine brought to what `up` decided."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scavenger_kube.errors import ApiError
from scavenger_kube.resources import MERGE_PATCH

from scavenger_cluster import images, kwok, network, teardown
from scavenger_cluster.api import ApiClient, namespaced
from scavenger_cluster.control_plane import KWOK
from scavenger_cluster.errors import ClusterError, ComponentFailedError, WaitTimeoutError
from scavenger_cluster.node import RealNode
from scavenger_cluster.parts import Parts
from scavenger_cluster.waiting import READY_SECONDS, wait_for


class Nodes(Parts):
    """All nodes that the state of a cluster names."""

    def real(self) -> list[RealNode]:
        """Return the real nodes, in the order of their numbers."""
        return [self._node(number) for number in range(1, self.state.real + 1)]

    def find_real(self, name: str) -> RealNode | None:
        """Return the real node of this name; None if it is a fake one, ClusterError if there is none."""
        if name in self.state.nodes.real_names:
            return self._node(int(name.removeprefix("node")))
        if name not in self.state.nodes.fake_names:
            raise ClusterError(f"no node {name} in cluster {self.state.name}")
        return None

    def start_real(self, tools: Mapping[str, Path]) -> None:
        """Start whatever of the real nodes is not running; `tools` are programs by name, `pause` among them."""
        real = self.real()
        if real:
            network.ensure_network(self.state.name, self.state.subnets)
            pause = images.pause_archive(tools["pause"])
            for node in real:
                node.start(tools, pause)

    def remove_surplus(self) -> None:
        """Remove nodes of an earlier `up` that are not wanted any more."""
        wanted = {*self.state.nodes.real_names, *self.state.nodes.fake_names}
        folders = self.layout.root / "nodes"
        for folder in sorted(folders.iterdir()) if folders.is_dir() else []:
            if folder.name not in wanted:
                self._node(int(folder.name.removeprefix("node"))).remove()
                teardown.remove_folder(folder)
        surplus = [
            node["metadata"]["name"]
            for node in _nodes(self.client)
            if _is_fake(node) or node["metadata"]["name"].startswith("node")
        ]
        self.client.delete_all(f"/api/v1/nodes/{name}" for name in surplus if name not in wanted)

    def create_fake(self) -> None:
        """Create the fake nodes that are missing, and let those that were stopped live again."""
        release_fake(self.client, kwok.STOPPED)
        existing = {node["metadata"]["name"] for node in _nodes(self.client)}
        missing = [name for name in self.state.nodes.fake_names if name not in existing]
        if not missing:
            return
        self.report(f"creating {len(missing)} fake nodes")
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        state = self.state
        size: dict[str, Any] = {"cpu": state.fake_cpu, "memory": state.fake_memory, "pods": state.fake_pods}
        bodies = (kwok.fake_node(name, **size, taint=state.fake_taint, now=now) for name in missing)
        self.client.create_all("/api/v1/nodes", bodies)

    def wait_ready(self) -> None:
        """Wait until all nodes are Ready and pods can be created in the default namespace.

        ComponentFailedError if a part of a node ends, or it takes too long.
        """
        wanted = {*self.state.nodes.real_names, *self.state.nodes.fake_names}
        real = self.real()
        client = self.client

        def all_ready() -> bool:
            for node in real:
                node.check()
            return wanted <= ready_now(client) and (not wanted or _takes_pods(client))

        try:
            wait_for("all nodes to be Ready", all_ready, timeout=READY_SECONDS, interval=0.2)
        except WaitTimeoutError as error:
            late = sorted(wanted - ready_now(client))
            log = self.processes.log(f"{late[0]}/kubelet" if late and late[0].startswith("node") else KWOK)
            raise ComponentFailedError(", ".join(late[:5]), "did not become Ready", log) from error

    def _node(self, number: int) -> RealNode:
        return RealNode(self.state, self.layout, self.processes, self.report, number)


def silence_fake(client: ApiClient, name: str) -> None:
    """Have kwok play a node no longer, until `release_fake`."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    client.request("PATCH", f"{kwok.LEASES}/{name}", kwok.stop_lease(now), MERGE_PATCH)


def release_fake(client: ApiClient, holder: str | None = None) -> None:
    """Delete leases of fake nodes, all or those of one holder, so that kwok need not wait for their expiry."""
    fakes = {node["metadata"]["name"] for node in _nodes(client) if _is_fake(node)}
    leases = {
        lease["metadata"]["name"]
        for lease in client.get(kwok.LEASES)["items"]
        if holder is None or lease["spec"].get("holderIdentity") == holder
    }
    client.delete_all(f"{kwok.LEASES}/{name}" for name in sorted(fakes & leases))


def ready_names(client: ApiClient) -> set[str]:
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


def ready_now(client: ApiClient) -> set[str]:
    """Return what `ready_names` does; none where the API server does not answer now, for who is going to ask again."""
    try:
        return ready_names(client)
    except ApiError:
        return set()


def _takes_pods(client: ApiClient) -> bool:
    """Tell whether there is the service account of pods that name none: before that, none are taken."""
    try:
        return client.find(namespaced("serviceaccounts", "default", "default")) is not None
    except ApiError:
        return False


def _nodes(client: ApiClient) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = client.get("/api/v1/nodes?resourceVersion=0")["items"]
    return items


def _is_fake(node: dict[str, Any]) -> bool:
    return kwok.FAKE in node["metadata"].get("annotations", {})
