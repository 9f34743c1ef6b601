"""Which addresses and ports a cluster uses: pure arithmetic on its slot number, and the choice of nodes."""

from __future__ import annotations

import dataclasses
import hashlib
import ipaddress
import re

from scavenger_cluster.errors import ClusterError

SLOTS = 16
DEFAULT_PORT_BASE = 21000
PORTS_PER_CLUSTER = 20
PORT_OFFSETS = {
    "kube-apiserver": 0,
    "etcd": 1,
    "etcd-peer": 2,
    "kube-controller-manager": 3,
    "kube-scheduler": 4,
    "kwok": 5,
    "metrics-server": 6,
    "coredns": 7,
    "coredns-ready": 8,
}
FAKE_BY_DEFAULT = 3
NAME_PATTERN = re.compile(r"[a-z][a-z0-9-]{0,29}")


@dataclasses.dataclass(frozen=True)
class Subnets:
    """The address ranges of the cluster in one slot; no two slots overlap.

    Attributes:
        slot: of the cluster.
        ipv6: whether all addresses of nodes, Services and pods are of IPv6; unique local ones (RFC 4193).
    """

    slot: int
    ipv6: bool = False

    @property
    def host(self) -> str:
        """The machine's own address in the node network; real nodes reach the API server there."""
        return self._v6(0, "1") if self.ipv6 else f"10.89.{self.slot}.1"

    @property
    def nodes(self) -> str:
        """The network that joins the machine and the real nodes."""
        return self._v6(0, "/64") if self.ipv6 else f"10.89.{self.slot}.0/24"

    @property
    def prefix(self) -> str:
        """The length of that network's prefix, as it follows an address."""
        return self.nodes[self.nodes.index("/") :]

    def node(self, number: int) -> str:
        """Return the address of real node `number` (from 1)."""
        return self._v6(0, f"{10 + number:x}") if self.ipv6 else f"10.89.{self.slot}.{10 + number}"

    @property
    def services(self) -> str:
        """The range of ClusterIPs. API servers take no larger one than a /108."""
        return self._v6(1, "/112") if self.ipv6 else f"10.{96 + self.slot}.0.0/16"

    @property
    def api_service(self) -> str:
        """The ClusterIP of the API server: the first address of the service range."""
        return self._v6(1, "1") if self.ipv6 else f"10.{96 + self.slot}.0.1"

    @property
    def dns_service(self) -> str:
        """The ClusterIP of the name server."""
        return self._v6(1, "a") if self.ipv6 else f"10.{96 + self.slot}.0.10"

    @property
    def pods(self) -> str:
        """The range all real pods are in."""
        return self._v6(2, "/64") if self.ipv6 else f"10.{112 + self.slot}.0.0/16"

    def node_pods(self, number: int) -> str:
        """Return the part of the pod range that belongs to real node `number`."""
        return self._v6(f"2:{number:x}", "/80") if self.ipv6 else f"10.{112 + self.slot}.{number}.0/24"

    @property
    def fake_pods(self) -> str:
        """The range fake pods get their (unreachable) addresses from."""
        return f"10.{128 + self.slot}.0.0/16"

    def _v6(self, network: int | str, rest: str) -> str:
        """An address, or a range, of one of the networks of the slot, as the API server writes it."""
        written = f"fd5c:a7e0:{self.slot:x}:{network}::{rest}"
        return str(ipaddress.IPv6Network(written) if "/" in rest else ipaddress.IPv6Address(written))


def in_url(address: str) -> str:
    """Return an address as it stands in a URL, or before a port."""
    return f"[{address}]" if ":" in address else address


def ports_from(base: int) -> dict[str, int]:
    """Return the port of each component, counted from a base port."""
    return {name: base + offset for name, offset in PORT_OFFSETS.items()}


@dataclasses.dataclass(frozen=True)
class NodePlan:
    """How many nodes of each kind a cluster has."""

    real: int = 0
    fake: int = 0

    @property
    def real_names(self) -> list[str]:
        """The names of the real nodes."""
        return [f"node{number}" for number in range(1, self.real + 1)]

    @property
    def fake_names(self) -> list[str]:
        """The names of the fake nodes."""
        return [f"fake-{number:03}" for number in range(1, self.fake + 1)]

    def __str__(self) -> str:
        parts = [f"{kind}:{count}" for kind, count in (("real", self.real), ("fake", self.fake)) if count]
        return ",".join(parts) or "none"


def is_auto(text: str) -> bool:
    """Whether `--nodes` leaves the kind of the nodes to what is possible."""
    return re.fullmatch(r"auto(:\d+)?", text) is not None


def parse_nodes(text: str, *, real_possible: bool) -> NodePlan:
    """Read `--nodes`: real, real:N, fake, fake:N, several of them joined by commas, auto, auto:N, or none.

    `auto` is one real node where that is possible, else fake ones; `auto:N` is N of the kind that is possible.
    """
    if text == "none":
        return NodePlan()
    if is_auto(text):
        number = text.partition(":")[2]
        if real_possible:
            return NodePlan(real=int(number or 1))
        return NodePlan(fake=int(number or FAKE_BY_DEFAULT))
    counts = {"real": 0, "fake": 0}
    for part in text.split(","):
        match = re.fullmatch(r"(real|fake)(?::(\d+))?", part.strip())
        if match is None:
            raise ClusterError(f"--nodes {text}: expected auto[:N], none, real[:N], fake[:N] or both joined by a comma")
        kind, number = match.groups()
        counts[kind] += int(number) if number else {"real": 1, "fake": FAKE_BY_DEFAULT}[kind]
    if counts["real"] > 200 or counts["fake"] > 5000:
        raise ClusterError(f"--nodes {text}: at most 200 real and 5000 fake nodes")
    return NodePlan(**counts)


def check_name(name: str) -> str:
    """Return a cluster name if it is usable in names of network namespaces and cgroups."""
    if not NAME_PATTERN.fullmatch(name):
        raise ClusterError(f"--name {name}: up to 30 of a-z, 0-9 and -, beginning with a letter")
    return name


def link_name(cluster: str) -> str:
    """Return the name of the cluster's one network interface on the machine (at most 15 characters)."""
    return "scav-" + hashlib.sha256(cluster.encode()).hexdigest()[:8]


def namespace(cluster: str, node: str) -> str:
    """Return the name of the network namespace of a node, or of the switch between them."""
    return f"scavenger-{cluster}-{node}"
