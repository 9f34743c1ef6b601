"""What every part of a cluster is made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scavenger_cluster.api import ApiClient
from scavenger_cluster.layout import Layout
from scavenger_cluster.process import ProcessTable
from scavenger_cluster.state import ClusterState


@dataclass(frozen=True)
class Parts:
    """Some of what a cluster's state names, on this machine. Made, it has started nothing and asked nobody."""

    state: ClusterState
    layout: Layout
    processes: ProcessTable
    report: Callable[[str], None]
    """Gets a line of text for every step."""

    @property
    def client(self) -> ApiClient:
        """A client with the administrator's rights, whose certificates must have been written."""
        return ApiClient(self.state.server, self.layout.pki)
