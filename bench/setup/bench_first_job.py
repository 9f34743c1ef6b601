"""How long an administrator waits: from `helm install` of the chart `scavenger` to the first ScavengerJob that runs.

On one real node with the stock scheduler, as the README has it. Images are on the node already, as they are where a
registry is near; pulling them is not part of the figure.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from scavenger_api import names
from scavenger_cluster import Cluster, requirements, service_images, stack
from scavenger_cluster.build import ensure_tools
from scavenger_testing.waiting import wait

from bench import Skipped

SERVICES: Final = ("admitter", "regulator", "prioritizer", "webhook", "board")
CHART: Final = Path(__file__).resolve().parents[2] / "charts" / "scavenger"
JOB: Final[dict[str, Any]] = {
    "apiVersion": names.API_VERSION,
    "kind": "ScavengerJob",
    "metadata": {"name": "first"},
    "spec": {
        "image": stack.COUNTER_IMAGE,
        "args": ["run", "--dir=/tmp", "--seconds=600", "--steps=100"],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
    },
}


def run() -> list[dict[str, Any]]:
    """The figure; brings up a cluster of its own and takes it down."""
    if reasons := requirements.obstacles():
        raise Skipped(f"it needs a real node: {'; '.join(reasons)}")
    cluster = Cluster("bench-first", report=lambda line: None)
    try:
        cluster.up("real:1", scheduler="stock", metrics=True)
        service_images.load(cluster, SERVICES)
        stack.build_images(cluster)
        seconds = _first_job(cluster)
    finally:
        cluster.down()
    return [{"name": "setup.first_job_seconds", "value": seconds, "unit": "s", "goal": "<= 60"}]


def _first_job(cluster: Cluster) -> float:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="scavenger-helm-") as home:
        environment = os.environ | {f"HELM_{name}_HOME": f"{home}/{name}" for name in ("CACHE", "CONFIG", "DATA")}
        helm = ensure_tools(["helm"], cluster.report)["helm"]
        place = (f"--kubeconfig={cluster.kubeconfig}", f"--namespace={names.SYSTEM_NAMESPACE}", "--create-namespace")
        words = ("install", "scavenger", str(CHART), "--wait", "--set=global.image.registry=localhost")
        subprocess.run([helm, *words, *place], env=environment, check=True, capture_output=True)
    cluster.kubectl("create", "-f", "-", input=json.dumps(JOB))
    wait("the job runs", lambda: _phase(cluster) == "Running")
    return time.monotonic() - began


def _phase(cluster: Cluster) -> str:
    return cluster.kubectl("get", "scavengerjob", "first", "-o", "jsonpath={.status.phase}")
