"""A namespace of a real cluster, and what an end-to-end test does and sees in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml
from scavenger_api.names import ANNOTATION_LAST_CHECKPOINT
from scavenger_api.times import format_time
from scavenger_cluster import Cluster, stack
from scavenger_cluster.api import namespaced
from scavenger_cluster.errors import CommandError
from scavenger_kube.errors import ApiError
from scavenger_kube.resources import MERGE_PATCH

from scavenger_testing.waiting import TIMEOUT, wait

IMAGE = stack.COUNTER_IMAGE
SETTINGS = {
    "SCAVENGER_UNSCHEDULABLE_AFTER": "5",
    "SCAVENGER_START_BACKOFF": "2",
    "SCAVENGER_EXPLAIN_AFTER": "1",
    "SCAVENGER_SUCCESS_EVIDENCE_AFTER": "0",  # kubelets renew their Leases every 10 s
    "SCAVENGER_SNAPSHOT_IMAGE": stack.SNAPSHOT_IMAGE,
}
"""Of every admitter that a test starts: shorter waits than the defaults, so that a test of them takes seconds."""


class World:
    """A namespace of the cluster, and what a test does and sees in it."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def kubectl(self, *words: str, input: str | None = None) -> str:
        """Run kubectl in the test's namespace."""
        return self.cluster.kubectl("-n", self.namespace, *words, input=input)

    def apply(self, *objects: dict[str, Any]) -> None:
        """Create or change objects in the namespace."""
        self.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """An object, None when it is not there."""
        found = self.cluster.client.find(namespaced(kind, self.namespace, name))
        return dict(found) if found is not None else None

    def objects(self, kind: str, selector: str = "") -> list[dict[str, Any]]:
        """All objects of a kind in the namespace."""
        path = namespaced(kind, self.namespace)
        return list(self.cluster.client.get(f"{path}?labelSelector={quote(selector)}")["items"])

    def pods(self, job: str) -> list[dict[str, Any]]:
        """The pods of a ScavengerJob, by name."""
        found = self.objects("pods", f"scavenger.dev/job={job}")
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    def staying(self, job: str) -> list[dict[str, Any]]:
        """Its pods that were not deleted: a kubelet removes what has ended in its own time."""
        return [pod for pod in self.pods(job) if "deletionTimestamp" not in pod["metadata"]]

    def said(self, job: str, words: str) -> bool:
        """Whether every pod of its present run, which runs, has written that to its log.

        The logs of all its pods together cannot be had while one that was deleted goes.
        """
        pods = [pod["metadata"]["name"] for pod in self.staying(job)]
        return bool(pods) and all(words in self.log(pod) for pod in pods)

    def log(self, pod: str) -> str:
        """The log of a pod; empty while it has none, as its container is only being made, or none any more."""
        try:
            return self.kubectl("logs", pod, "--tail=-1")
        except CommandError:
            return ""

    def status(self, job: str) -> dict[str, Any]:
        """status of a ScavengerJob; empty before there is one."""
        found = self.get("scavengerjob", job)
        return dict((found or {}).get("status") or {})

    def wait(self, what: str, condition: Callable[[], Any], timeout: float = TIMEOUT) -> Any:
        """Poll until the condition holds, and return what it returned."""
        return wait(what, condition, timeout, self.describe)

    def wait_phase(self, job: str, phase: str, timeout: float = TIMEOUT) -> dict[str, Any]:
        """Wait for a phase; returns the status that has it, as a moment later it may have another one."""

        def reached() -> dict[str, Any] | None:
            found = self.status(job)
            return found if found.get("phase") == phase else None

        return dict(self.wait(f"{job} {phase}", reached, timeout))

    def report_checkpoint(self, job: str) -> None:
        """What an application does that writes checkpoints of its own accord; one that leaves right now writes none."""
        note = {"metadata": {"annotations": {ANNOTATION_LAST_CHECKPOINT: format_time(datetime.now(UTC))}}}
        for pod in self.staying(job):
            path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
            try:
                self.cluster.client.request("PATCH", path, note, MERGE_PATCH)
            except ApiError as error:
                if error.status != 404:
                    raise

    def clear(self) -> None:
        """Leave nothing for the next test; raises when something stays."""
        self.kubectl("delete", "scavengerjobs", "--all", "--wait=true", "--timeout=110s")
        self.kubectl("delete", "pods", "--all", "--wait=true", "--timeout=110s")

    def describe(self) -> str:
        """What there is, for the message of a failed test."""
        seen = self.kubectl("get", "scavengerjobs,jobs,pods", "-o", "wide")
        events = self.kubectl("get", "events", "--sort-by=.lastTimestamp")
        return f"{seen}\n{events}\n{self._last_words()}\n{self.cluster.service_logs('admitter')[-4000:]}"

    def _last_words(self) -> str:
        """What pods that have failed wrote last."""
        listed = "-o=jsonpath={.items[*].metadata.name}"
        failed = self.kubectl("get", "pods", "--field-selector=status.phase=Failed", listed).split()
        return "\n".join(f"{name} wrote:\n{self.log(name)[-2000:]}" for name in failed)


@contextmanager
def shared_folder(world: World, folder: Path, claim: str, node: str = "") -> Iterator[None]:
    """A PersistentVolumeClaim on a new folder of this machine, which pods of every node can write to.

    That the folders above it may be closed to their users is no matter: in a container it is mounted without them.

    Args:
        world: the namespace of the claim.
        folder: made here.
        claim: its name.
        node: the only node that can use it, as a local volume; empty: every node can.
    """
    folder.mkdir()
    folder.chmod(0o777)
    volume = f"{world.namespace}-{claim}"
    spec = {"storageClassName": volume, "accessModes": ["ReadWriteMany"]}
    on_node = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]
    local = {
        "local": {"path": str(folder)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": on_node}]}},
    }
    world.cluster.apply(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": volume},
                "spec": {
                    **spec,
                    "capacity": {"storage": "1Gi"},
                    **(local if node else {"hostPath": {"path": str(folder), "type": "Directory"}}),
                    "claimRef": {"namespace": world.namespace, "name": claim},
                },
            }
        )
    )
    world.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim},
            "spec": {**spec, "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}},
        }
    )
    try:
        yield
    finally:
        world.cluster.kubectl("delete", "pv", volume, "--wait=false")


def scavenger_job(name: str, *arguments: str, cpu: str = "200m", **spec: Any) -> dict[str, Any]:
    """A ScavengerJob that runs the counter demo with these arguments."""
    return {
        "apiVersion": "scavenger.dev/v1alpha1",
        "kind": "ScavengerJob",
        "metadata": {"name": name},
        "spec": {
            "image": IMAGE,
            "args": list(arguments),
            "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
            "terminationGracePeriodSeconds": 2,
            **spec,
        },
    }


def ordinary_pod(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    """A pod that outranks every scavenger job."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "command": [
                        "python3",
                        "-c",
                        "import signal, time; signal.signal(15, lambda *a: exit(0)); time.sleep(3600)",
                    ],
                    "resources": {"requests": {"cpu": cpu, "memory": "32Mi"}},
                }
            ],
            **spec,
        },
    }
