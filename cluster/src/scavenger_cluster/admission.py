"""The webhook on the embedded cluster.

Its pods have no Service there: it is a process of this machine, as the API server is, so that the one reaches the other
under a URL. Everything else (roles, Secret, rules, caBundle) is as the manifests have it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from scavenger_cluster import ports
from scavenger_cluster.cluster import Cluster
from scavenger_cluster.waiting import wait_for

ADDRESS: Final = "127.0.0.1"
PORT_NAME: Final = "webhook/admission"
BEFORE: Final = ("rbac.yaml", "secret.yaml")
"""What the service needs to start."""

CONFIGURATIONS: Final = "configurations.yaml"
"""What binds the API server to it."""

_API: Final = "/apis/admissionregistration.k8s.io/v1"
_NAME: Final = "scavenger-webhook"


def port(cluster: Cluster) -> int:
    """The port for admission requests: drawn once, as the API server goes on asking there."""
    state = cluster.state
    found = state.service_ports.get(PORT_NAME)
    if found is None:
        found = state.service_ports[PORT_NAME] = ports.any_free_port(ADDRESS)
        state.save(cluster.layout.state)
    return found


def environment(cluster: Cluster) -> dict[str, str]:
    """Where the webhook listens on this machine, and the name its certificate must have for that."""
    return {
        "SCAVENGER_ADDRESS": ADDRESS,
        "SCAVENGER_PORT": str(port(cluster)),
        "SCAVENGER_TLS_NAMES": ADDRESS,
        "SCAVENGER_CERTIFICATES": "self-managed",  # as in the manifests: no helm here that makes an authority
        "SCAVENGER_SHUTDOWN_DELAY": "0",
    }


def activate(cluster: Cluster, manifests: Path, *, timeout: float = 60) -> None:
    """Have the API server ask the webhook, which must be running; returns once it has been told which authority to
    trust. Raises WaitTimeoutError.
    """
    apply(cluster, (manifests / CONFIGURATIONS).read_text())
    wait_for("the webhook's certificate authority", lambda: _trusted(cluster), timeout=timeout)


def apply(cluster: Cluster, objects: str) -> None:
    """Create or change objects, YAML; the API server finds the webhook by URL."""
    text = by_url(objects, f"https://{ADDRESS}:{port(cluster)}")
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", input=text)


def by_url(objects: str, url: str) -> str:
    """Objects, YAML; in webhook configurations the Service is replaced by a URL."""
    documents = [document for document in yaml.safe_load_all(objects) if document]
    for document in documents:
        for webhook in document.get("webhooks", ()):
            service = webhook["clientConfig"].pop("service")
            webhook["clientConfig"]["url"] = url + service["path"]
    return str(yaml.safe_dump_all(documents, sort_keys=False))


def _trusted(cluster: Cluster) -> bool:
    webhooks: list[dict[str, Any]] = []
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        webhooks += cluster.client.get(f"{_API}/{kind}/{_NAME}")["webhooks"]
    return all(webhook["clientConfig"].get("caBundle") for webhook in webhooks)
