"""kube-state-metrics itself, with the file and the rights that the chart `scavenger-base` gives it, and no others."""

from __future__ import annotations

import contextlib
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scavenger_cluster import Cluster, kubeconfig
from scavenger_cluster.build import ensure_tools
from scavenger_cluster.ports import any_free_port
from scavenger_testing.waiting import TIMEOUT, wait

CHART: Final = Path(__file__).resolve().parents[3] / "charts" / "scavenger-base"
NAMESPACE: Final = "monitoring"
ACCOUNT: Final = "kube-state-metrics"


def installed(cluster: Cluster, folder: Path) -> Path:
    """Install what the chart has for it, and return the file that a pod would find in the ConfigMap."""
    for kind in ("namespace", "serviceaccount"):
        name = NAMESPACE if kind == "namespace" else ACCOUNT
        cluster.kubectl("create", kind, name, *([] if kind == "namespace" else ["-n", NAMESPACE]))
    helm = ensure_tools(["helm"], cluster.report)["helm"]
    values = f"--set=stateMetrics.enabled=true,stateMetrics.namespace={NAMESPACE}"
    words = [str(helm), "template", "base", str(CHART), values, "--show-only=templates/state-metrics.yaml"]
    cluster.kubectl("apply", "-f", "-", input=subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    path = "jsonpath={.data.scavenger\\.yaml}"
    file = folder / "scavenger.yaml"
    file.write_text(cluster.kubectl("get", "configmap", "scavenger-state-metrics", "-n", NAMESPACE, "-o", path))
    return file


@contextlib.contextmanager
def exporting(cluster: Cluster, folder: Path) -> Iterator[str]:
    """One that runs, under its own account: where its metrics are, as host and port."""
    program = ensure_tools([ACCOUNT], cluster.report)[ACCOUNT]
    configuration = installed(cluster, folder)
    token = cluster.kubectl("create", "token", ACCOUNT, "-n", NAMESPACE).strip()
    access = folder / "kubeconfig"
    authority = cluster.layout.pki / "ca.crt"
    kubeconfig.write_private(
        access, kubeconfig.render(cluster.state.name, cluster.state.server, authority, {"token": token})
    )
    address, log = f"127.0.0.1:{any_free_port()}", folder / "kube-state-metrics.log"
    host, _, port = address.partition(":")
    words = [
        str(program),
        f"--kubeconfig={access}",
        f"--host={host}",
        f"--port={port}",
        f"--telemetry-host={host}",
        f"--telemetry-port={any_free_port()}",
        "--custom-resource-state-only=true",
        f"--custom-resource-state-config-file={configuration}",
    ]

    def ready() -> bool:
        """It shows no metric before there is a job, so its log has to say that it knows the kind."""
        urllib.request.urlopen(f"http://{address}/metrics", timeout=TIMEOUT).close()
        return "Resource=scavengerjobs" in log.read_text()

    with log.open("w") as output, subprocess.Popen(words, stdout=output, stderr=output) as process:
        try:
            wait("kube-state-metrics to know ScavengerJobs", ready, describe=log.read_text)
            yield address
        finally:
            process.terminate()
