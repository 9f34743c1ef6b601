"""Servers that run on the machine, made known inside the cluster: a Service without pods and its one endpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from scavenger_cluster.api import ApiClient

NAMESPACE = "kube-system"


@dataclasses.dataclass(frozen=True)
class PublishedPort:
    """A port of the Service, and where it leads on the machine."""

    name: str
    port: int
    target: int
    protocol: str = "TCP"


def publish(
    client: ApiClient, name: str, address: str, ports: Sequence[PublishedPort], *, cluster_ip: str | None = None
) -> None:
    """Make a server known as a Service in kube-system, at a ClusterIP of its own choice or a given one."""
    metadata = {"name": name, "namespace": NAMESPACE}
    services = f"/api/v1/namespaces/{NAMESPACE}/services"
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
    spec: dict[str, object] = {
        "ports": [{"name": each.name, "port": each.port, "protocol": each.protocol} for each in ports]
    }
    if cluster_ip is not None:
        spec["clusterIP"] = cluster_ip
    client.apply(f"{services}/{name}", {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    labels = {
        "kubernetes.io/service-name": name,
        "endpointslice.kubernetes.io/managed-by": "scavenger-cluster",
    }
    client.apply(
        f"{slices}/{name}",
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": labels},
            "addressType": "IPv6" if ":" in address else "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [{"name": each.name, "port": each.target, "protocol": each.protocol} for each in ports],
        },
    )
