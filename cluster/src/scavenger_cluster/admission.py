"""The webhook on the embedded cluster.

Its pods have no Service there: it is a process of this machine, as the API server is, so that the one reaches the other
under a URL. Its authority is made here, as the chart or an administrator makes it. Everything else is as the manifests
have it.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Final

import yaml

from scavenger_cluster import ports
from scavenger_cluster.certificates import ADMISSION_CLIENTS_CA, ensure_authority
from scavenger_cluster.cluster import Cluster
from scavenger_cluster.services import SYSTEM_NAMESPACE

ADDRESS: Final = "127.0.0.1"
PORT_NAME: Final = "webhook/admission"
CONFIGURATIONS: Final = "configurations.yaml"
"""What binds the API server to it."""

_AUTHORITY: Final = "scavenger-webhook-authority"
"""Its Secret, and its files among those of the cluster."""


def port(cluster: Cluster) -> int:
    """The port for admission requests: drawn once, as the API server goes on asking there."""
    state = cluster.state
    found = state.service_ports.get(PORT_NAME)
    if found is None:
        found = state.service_ports[PORT_NAME] = ports.any_free_port(ADDRESS)
        state.save(cluster.layout.state)
    return found


def environment(cluster: Cluster) -> dict[str, str]:
    """Where the webhook listens on this machine, the name its certificate must have for that, and which clients may ask
    it: the API server alone."""
    return {
        "SCAVENGER_ADDRESS": ADDRESS,
        "SCAVENGER_PORT": str(port(cluster)),
        "SCAVENGER_TLS_NAMES": ADDRESS,
        "SCAVENGER_SHUTDOWN_DELAY": "0",
        "SCAVENGER_CLIENT_AUTHORITY": str(cluster.layout.pki / f"{ADMISSION_CLIENTS_CA}.crt"),
    }


def make_authority(cluster: Cluster) -> None:
    """Make the authority that signs the webhook's certificates, unless there is one, and put it into its Secret."""
    certificate, key = ensure_authority(cluster.layout.pki, _AUTHORITY)
    data = {"ca.crt": base64.b64encode(certificate).decode(), "ca.key": base64.b64encode(key).decode()}
    metadata = {"name": _AUTHORITY, "namespace": SYSTEM_NAMESPACE}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", input=json.dumps(secret))


def activate(cluster: Cluster, manifests: Path) -> None:
    """Have the API server ask the webhook, which must be running."""
    apply(cluster, (manifests / CONFIGURATIONS).read_text())


def apply(cluster: Cluster, objects: str) -> None:
    """Create or change objects, YAML; the API server finds the webhook by URL, and trusts its authority."""
    certificate, _ = ensure_authority(cluster.layout.pki, _AUTHORITY)
    text = by_url(objects, f"https://{ADDRESS}:{port(cluster)}", certificate)
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", input=text)


def by_url(objects: str, url: str, authority: bytes) -> str:
    """Objects, YAML; in webhook configurations the Service is replaced by a URL, with its authority (PEM)."""
    documents = [document for document in yaml.safe_load_all(objects) if document]
    for document in documents:
        for webhook in document.get("webhooks", ()):
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": url + path, "caBundle": base64.b64encode(authority).decode()}
    return str(yaml.safe_dump_all(documents, sort_keys=False))
