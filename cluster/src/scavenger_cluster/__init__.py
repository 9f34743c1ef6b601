"""The embedded local cluster: a real Kubernetes as plain processes on one machine."""

from scavenger_cluster.cluster import Cluster
from scavenger_cluster.components import ComponentStatus
from scavenger_cluster.errors import (
    ClusterError,
    CommandError,
    ComponentFailedError,
    MissingRequirementError,
    PortBusyError,
    WaitTimeoutError,
)
from scavenger_cluster.options import UpOptions
from scavenger_cluster.services import Service
from scavenger_cluster.waiting import wait_for

__all__ = [
    "Cluster",
    "ClusterError",
    "CommandError",
    "ComponentFailedError",
    "ComponentStatus",
    "MissingRequirementError",
    "PortBusyError",
    "Service",
    "UpOptions",
    "WaitTimeoutError",
    "wait_for",
]
