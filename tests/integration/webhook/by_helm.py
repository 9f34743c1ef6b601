"""The webhook as helm installs it by default: its roles, and the certificate authority that the chart makes."""

from __future__ import annotations

from typing import Final

import yaml
from scavenger_cluster import Cluster, admission, stack

from .conftest import start_webhook

NAME: Final = "scavenger-webhook"
KINDS: Final = ("ClusterRole", "Role", "Secret", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def install(cluster: Cluster) -> None:
    """Put roles, authority and configurations of the chart in the place of those of the manifests."""
    options = (stack.NO_IMAGE, f"--kubeconfig={cluster.kubeconfig}", "--dry-run=server", "--is-upgrade")
    text = stack.rendered(NAME, cluster.report, *options, "--set=pods.defaulting=webhook")
    objects = [
        o for o in yaml.safe_load_all(text) if o and o["kind"] in KINDS and o["metadata"]["name"].startswith(NAME)
    ]
    assert {o["kind"] for o in objects} == set(KINDS)
    admission.apply(cluster, yaml.safe_dump_all([o for o in objects if "uninstall" not in o["metadata"]["name"]]))
    start_webhook(cluster, SCAVENGER_CERTIFICATES="authority")


def restore(cluster: Cluster) -> None:
    """What the manifests have, again."""
    manifests = stack.MANIFESTS / "webhook"
    admission.apply(cluster, (manifests / "rbac.yaml").read_text())
    start_webhook(cluster)
    admission.activate(cluster, manifests)
