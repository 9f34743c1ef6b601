"""Who uninstalls the admitter by the real helm leaves regular Jobs in the place of adopted ones, and they go on."""

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
INDEX = "batch.kubernetes.io/job-completion-index"
ADOPTS = "--set=global.adopt.enabled=true"
HOOK_SECONDS = 60
"""What the hook may take. For half of that it lets pods run."""
PROGRAM = "import os, time; time.sleep(1 if os.environ['JOB_COMPLETION_INDEX'] == '0' else 3600)"
"""The second page outlasts the hook by far."""


def batch_job() -> dict[str, Any]:
    """Two pages, one after the other."""
    main = {
        "name": "main",
        "image": stack.COUNTER_IMAGE,
        "command": ["python3", "-c", PROGRAM],
        "resources": {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "100m", "memory": "32Mi"}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": JOB, "namespace": NAMESPACE, "labels": {names.LABEL_QUEUE: names.DEFAULT_QUEUE}},
        "spec": {
            "completions": 2,
            "parallelism": 1,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {
                "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [main]},
            },
        },
    }


def test_uninstalling_the_admitter_makes_regular_jobs_of_adopted_ones(cluster: Cluster, helm: Helm) -> None:
    service_images.load(cluster, ["admitter"])
    stack.build_images(cluster)
    for chart in ("crds", "base"):
        helm.install(chart, *([ADOPTS] if chart == "base" else []))
    hook = f"--set=uninstall.timeoutSeconds={HOOK_SECONDS}"
    helm.install("admitter", ADOPTS, hook, "--set=replicas=1", "--wait", "--timeout=300s")
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.kubectl("label", "namespace", NAMESPACE, f"{names.LABEL_ADOPT}={names.ADOPT_LABELLED}")
    cluster.kubectl("wait", "--for=create", "serviceaccount/default", "-n", NAMESPACE, "--timeout=110s")

    def job() -> dict[str, Any]:
        return get(cluster, "job", JOB, "-n", NAMESPACE)

    def running() -> list[dict[str, Any]]:
        """The pods that run and that nobody has asked to end."""
        found = get(cluster, "pods", "-n", NAMESPACE)["items"]
        return [one for one in found if one["status"].get("phase") == "Running" and not ended(one)]

    def ended(pod: dict[str, Any]) -> bool:
        return "deletionTimestamp" in pod["metadata"]

    def describe() -> str:
        return f"{yaml.safe_dump(job())}\n{helm.describe()}"

    def is_halfway() -> bool:
        return bool(job().get("status", {}).get("completedIndexes") == "0" and running())

    cluster.kubectl("create", "-f", "-", input=yaml.safe_dump(batch_job()))
    assert job()["spec"]["managedBy"] == names.MANAGED_BY_ADOPTER
    wait("the first page, and the second one to run", is_halfway, 120, describe)
    adopted, (interrupted,) = job(), running()

    helm.uninstall("admitter")
    regular = job()
    assert regular["metadata"]["uid"] != adopted["metadata"]["uid"], describe()
    assert "managedBy" not in regular["spec"]
    assert names.LABEL_QUEUE not in regular["metadata"]["labels"]
    assert regular["metadata"]["labels"][names.LABEL_ADOPT] == names.ADOPT_NEVER
    assert not regular["spec"].get("suspend")
    assert regular["status"].get("completedIndexes") == "0", "what was done stays done"

    (again,) = wait("the Job controller to run the second page", running, 60, describe)
    (owner,) = again["metadata"]["ownerReferences"]
    assert again["metadata"]["uid"] != interrupted["metadata"]["uid"]
    assert (owner["uid"], again["metadata"]["labels"][INDEX]) == (regular["metadata"]["uid"], "1")
    assert names.FINALIZER not in again["metadata"]["finalizers"]
    status = job()["status"]
    assert (status["succeeded"], status.get("failed", 0)) == (1, 0), "an uninstallation is no failure of the program"
    assert [one["metadata"]["name"] for one in get(cluster, "jobs", "-n", NAMESPACE)["items"]] == [JOB], "no copy left"
    cluster.kubectl("delete", "namespace", NAMESPACE, "--timeout=180s", timeout=200)
    for chart in ("base", "crds"):
        helm.uninstall(chart)
