"""The metrics API: metrics-server beside the control plane, registered by hand."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from scavenger_kube.errors import ApiError

from scavenger_cluster.api import ApiClient
from scavenger_cluster.control_plane import METRICS_SERVER
from scavenger_cluster.publish import PublishedPort, publish
from scavenger_cluster.state import ClusterState

GROUP_VERSION = "metrics.k8s.io/v1beta1"


def register(client: ApiClient, state: ClusterState, authority: Path) -> None:
    """Lead the aggregated API to the process: a Service without pods, its one endpoint, an APIService."""
    port = PublishedPort("https", 443, state.ports[METRICS_SERVER])
    publish(client, METRICS_SERVER, state.subnets.host, (port,))
    name = "v1beta1.metrics.k8s.io"
    client.apply(f"/apis/apiregistration.k8s.io/v1/apiservices/{name}", _api_service(name, authority))


def available(client: ApiClient, nodes: list[str]) -> bool:
    """Tell whether the metrics API has figures for every one of these nodes."""
    try:
        items = client.get(f"/apis/{GROUP_VERSION}/nodes")["items"]
    except ApiError:
        return False
    return set(nodes) <= {item["metadata"]["name"] for item in items}


def _api_service(name: str, authority: Path) -> dict[str, Any]:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"name": METRICS_SERVER, "namespace": "kube-system", "port": 443},
            "caBundle": base64.b64encode(authority.read_bytes()).decode(),
        },
    }
