"""Names inside the cluster: CoreDNS beside the control plane, known to pods as the Service kube-dns."""

from __future__ import annotations

from pathlib import Path

from scavenger_cluster.api import ApiClient
from scavenger_cluster.publish import PublishedPort, publish
from scavenger_cluster.state import LOOPBACK, ClusterState


def corefile(state: ClusterState, kubeconfig: Path) -> str:
    """Return CoreDNS's configuration: the cluster's own names, and nothing of the world outside."""
    reverse = "ip6.arpa" if state.ipv6 else "in-addr.arpa"
    return f"""cluster.local:{state.ports["coredns"]} {reverse}:{state.ports["coredns"]} {{
  bind {state.subnets.host}
  errors
  ready {LOOPBACK}:{state.ports["coredns-ready"]}
  kubernetes cluster.local {reverse} {{
    kubeconfig {kubeconfig}
    ttl 1
  }}
}}
"""


def register(client: ApiClient, state: ClusterState) -> None:
    """Make CoreDNS known to the pods at the address their kubelets give them."""
    target = state.ports["coredns"]
    ports = (PublishedPort("dns", 53, target, "UDP"), PublishedPort("dns-tcp", 53, target))
    publish(client, "kube-dns", state.subnets.host, ports, cluster_ip=state.subnets.dns_service)
