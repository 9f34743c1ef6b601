"""Who uninstalls the admitter by the real helm leaves regular Jobs in the place of adopted ones, and they complete."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from scavenger_api import names
from scavenger_cluster import Cluster, service_images, stack
from scavenger_testing.waiting import wait

from .conftest import Helm, get

pytestmark = [pytest.mark.long, pytest.mark.real, pytest.mark.cpu, pytest.mark.timeout(900)]

NAMESPACE = "research"
JOB = "pages"
ADOPTS = "--set=global.adopt.enabled=true"
PROGRAM = "import os, time; time.sleep(2 if os.environ['JOB_COMPLETION_INDEX'] == '0' else 40); print('page done')"


def batch_job() -> dict[str, Any]:
    """Two pages, one after the other, of which the second takes longer than an uninstallation lets it."""
    main = {
        "name": "main",
        "image": stack.COUNTER_IMAGE,
        "command": ["python3", "-c", PROGRAM],
        "resources": {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "100m", "memory": "32Mi"}},
    }
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [main]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": JOB, "namespace": NAMESPACE, "labels": {names.LABEL_QUEUE: names.DEFAULT_QUEUE}},
        "spec": {
            "completions": 2,
            "parallelism": 1,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {"spec": spec},
        },
    }


def test_uninstalling_the_admitter_makes_regular_jobs_of_adopted_ones(cluster: Cluster, helm: Helm) -> None:
    service_images.load(cluster, ["admitter"])
    stack.build_images(cluster)
    for chart in ("crds", "base"):
        helm.install(chart, *([ADOPTS] if chart == "base" else []))
    helm.install("admitter", ADOPTS, "--set=replicas=1", "--wait", "--timeout=300s")
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.kubectl("label", "namespace", NAMESPACE, f"{names.LABEL_ADOPT}={names.ADOPT_LABELLED}")
    cluster.kubectl("wait", "--for=create", "serviceaccount/default", "-n", NAMESPACE, "--timeout=110s")

    def job() -> dict[str, Any]:
        return get(cluster, "job", JOB, "-n", NAMESPACE)

    def describe() -> str:
        return f"{yaml.safe_dump(job())}\n{helm.describe()}"

    def is_halfway() -> bool:
        status = job().get("status", {})
        return bool(status.get("completedIndexes") == "0" and status.get("ready") == 1)

    cluster.kubectl("create", "-f", "-", input=yaml.safe_dump(batch_job()))
    assert job()["spec"]["managedBy"] == names.MANAGED_BY_ADOPTER
    wait("the first page, and the second one to run", is_halfway, 120, describe)
    adopted = job()

    helm.uninstall("admitter")
    regular = job()
    assert regular["metadata"]["uid"] != adopted["metadata"]["uid"]
    assert "managedBy" not in regular["spec"]
    assert names.LABEL_QUEUE not in regular["metadata"]["labels"]
    assert regular["metadata"]["labels"][names.LABEL_ADOPT] == names.ADOPT_NEVER
    assert regular["status"].get("completedIndexes") == "0", "what was done stays done"
    assert not regular["spec"].get("suspend")

    cluster.kubectl("wait", "--for=condition=Complete", f"job/{JOB}", "-n", NAMESPACE, "--timeout=110s", timeout=120)
    status = job()["status"]
    assert status["succeeded"] == 2
    assert status["completedIndexes"] == "0,1"
    assert not status.get("failed"), "an uninstallation is no failure of the program"
    assert [one["metadata"]["name"] for one in get(cluster, "jobs", "-n", NAMESPACE)["items"]] == [JOB]
    cluster.kubectl("delete", "namespace", NAMESPACE, "--timeout=180s", timeout=200)
    for chart in ("base", "crds"):
        helm.uninstall(chart)
