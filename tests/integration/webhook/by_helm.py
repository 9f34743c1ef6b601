"""The webhook as helm installs it by default: its roles, and the certificate authority that the chart makes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import yaml
from scavenger_cluster import Cluster, admission
from scavenger_cluster.build import ensure_tools

from .conftest import start_webhook

ROOT: Final = Path(__file__).resolve().parents[3]
NAME: Final = "scavenger-webhook"
SYSTEM: Final = "scavenger-system"
KINDS: Final = ("ClusterRole", "Role", "Secret", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def install(cluster: Cluster) -> None:
    """Put roles, authority and configurations of the chart in the place of those of the manifests."""
    helm = ensure_tools(["helm"], cluster.report)["helm"]
    command: list[str | Path] = [helm, "template", NAME, ROOT / "charts" / NAME, f"--namespace={SYSTEM}"]
    command += [f"--kubeconfig={cluster.kubeconfig}", "--dry-run=server", "--is-upgrade"]
    command += ["--set=image.registry=localhost", "--set=pods.defaulting=webhook"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    objects = [
        o for o in yaml.safe_load_all(text) if o and o["kind"] in KINDS and o["metadata"]["name"].startswith(NAME)
    ]
    assert {o["kind"] for o in objects} == set(KINDS)
    admission.apply(cluster, yaml.safe_dump_all([o for o in objects if "uninstall" not in o["metadata"]["name"]]))
    start_webhook(cluster, SCAVENGER_CERTIFICATES="authority")


def restore(cluster: Cluster) -> None:
    """What the manifests have, again."""
    manifests = ROOT / "manifests" / "webhook"
    admission.apply(cluster, (manifests / "rbac.yaml").read_text())
    start_webhook(cluster)
    admission.activate(cluster, manifests)
