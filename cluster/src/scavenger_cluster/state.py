"""What is remembered of a cluster between two commands, and the list of clusters of this user."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scavenger_cluster.plan import SLOTS, NodePlan, Subnets, in_url, ports_from
from scavenger_cluster.scheduler import DEFAULT

LOOPBACK = "127.0.0.1"
ANY_ADDRESS = "0.0.0.0"


@dataclasses.dataclass
class ClusterState:
    """What `up` decided; kept in state.json."""

    name: str
    slot: int
    ports: dict[str, int]
    bind_address: str
    ipv6: bool = False
    real: int = 0
    fake: int = 0
    fake_cpu: str = "32"
    fake_memory: str = "128Gi"
    fake_pods: int = 110
    fake_taint: bool = False
    scheduler: str = DEFAULT
    scheduler_args: dict[str, Any] = dataclasses.field(default_factory=dict)
    metrics: bool = False
    dns: bool = True
    arguments: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    service_ports: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def subnets(self) -> Subnets:
        """The address ranges of the cluster."""
        return Subnets(self.slot, self.ipv6)

    @property
    def nodes(self) -> NodePlan:
        """How many nodes of each kind."""
        return NodePlan(self.real, self.fake)

    @property
    def has_dns(self) -> bool:
        """Whether there is a name server; nobody would ask one without real nodes."""
        return self.dns and self.real > 0

    @property
    def server(self) -> str:
        """The URL of the API server, as seen from the machine."""
        return f"https://{in_url(self.server_address)}:{self.ports['kube-apiserver']}"

    @property
    def server_address(self) -> str:
        """The address of the API server, as seen from the machine."""
        return LOOPBACK if self.bind_address == ANY_ADDRESS else self.bind_address

    @property
    def inner_server(self) -> str:
        """The URL of the API server, as seen from real nodes."""
        return f"https://{in_url(self.subnets.host)}:{self.ports['kube-apiserver']}"

    def save(self, path: Path) -> None:
        """Write the state atomically."""
        write_json(path, dataclasses.asdict(self))


def load_state(path: Path) -> ClusterState | None:
    """Read the state of a cluster; None if there is none or it cannot be read."""
    known = {field.name for field in dataclasses.fields(ClusterState)}
    try:
        state = ClusterState(**{key: value for key, value in read_json(path).items() if key in known})
    except TypeError:
        return None
    state.ports = ports_from(state.ports["kube-apiserver"]) | state.ports
    return state


@dataclasses.dataclass
class Registry:
    """Which clusters this user has, where, and in which slot."""

    path: Path

    def clusters(self) -> dict[str, dict[str, Any]]:
        """Return name → data folder and slot, of every cluster whose data folder still exists."""
        entries = read_json(self.path)
        return {name: entry for name, entry in entries.items() if Path(entry["data_dir"]).is_dir()}

    def data_dir(self, name: str) -> Path | None:
        """Return the data folder of a cluster."""
        entry = self.clusters().get(name)
        return Path(entry["data_dir"]) if entry else None

    def add(self, name: str, data_dir: Path, slot: int) -> None:
        """Remember a cluster."""
        write_json(self.path, self.clusters() | {name: {"data_dir": str(data_dir), "slot": slot}})

    def remove(self, name: str) -> None:
        """Forget a cluster; the last one takes the file with it."""
        left = {other: entry for other, entry in self.clusters().items() if other != name}
        if left:
            write_json(self.path, left)
        else:
            self.path.unlink(missing_ok=True)

    def free_slots(self, name: str, busy: Iterable[int] = ()) -> list[int]:
        """Return the slots no other cluster has, lowest first."""
        taken = {entry["slot"] for other, entry in self.clusters().items() if other != name} | set(busy)
        return [slot for slot in range(SLOTS) if slot not in taken]


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; an absent or broken file reads as an empty one."""
    try:
        value = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def write_json(path: Path, value: object) -> None:
    """Write JSON atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(value, indent=2) + "\n")
    temporary.replace(path)
