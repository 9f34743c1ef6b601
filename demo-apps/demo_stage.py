"""The cluster the demo's stories are told on, and the words they are told in."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from scavenger_cluster import Cluster
from scavenger_cluster.api import namespaced

NAMESPACE = "demo"
STEP_TIMEOUT = 90.0
console = Console(highlight=False, soft_wrap=True)
started = time.monotonic()


class DemoError(Exception):
    """Something the story promises did not happen."""


def say(text: str, style: str = "") -> None:
    """One line of the story, with the time since the demo began."""
    console.print(f"[dim]{time.monotonic() - started:6.1f} s[/dim]  [{style or 'default'}]{text}[/]")


def until(what: str, condition: Callable[[], Any], timeout: float = STEP_TIMEOUT) -> Any:
    """Poll until the condition holds; DemoError when it does not in time."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise DemoError(f"waited {timeout:.0f} s in vain: {what}")
        time.sleep(0.2)


class Stage:
    """The cluster the story is told on."""

    def __init__(self, cluster: Cluster, volume: Path) -> None:
        self.cluster = cluster
        self.volume = volume
        self.real = bool(cluster.state.real)

    def kubectl(self, *words: str, input: str | None = None) -> str:
        """Run kubectl in the demo's namespace."""
        return self.cluster.kubectl("-n", NAMESPACE, *words, input=input)

    def apply(self, *objects: dict[str, Any]) -> None:
        """Create objects."""
        self.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))

    def status(self, job: str) -> dict[str, Any]:
        """status of a ScavengerJob."""
        found = self.cluster.client.get(namespaced("scavengerjob", NAMESPACE, job))
        return dict(found.get("status") or {})

    def pods(self, job: str = "") -> list[dict[str, Any]]:
        """Pods of a ScavengerJob, or of all."""
        selector = f"?labelSelector=scavenger.dev/job={job}" if job else "?labelSelector=scavenger.dev/job"
        return list(self.cluster.client.get(namespaced("pods", NAMESPACE) + selector)["items"])

    def jobs(self) -> dict[str, dict[str, Any]]:
        """The status of every ScavengerJob, by name."""
        found = self.cluster.client.get(namespaced("scavengerjobs", NAMESPACE))["items"]
        return {job["metadata"]["name"]: dict(job.get("status") or {}) for job in found}

    def phase(self, job: str, phase: str) -> dict[str, Any]:
        """Wait until the job is in that phase, and say so."""
        until(f"{job} is {phase}", lambda: self.status(job).get("phase") == phase)
        return self.status(job)

    def prepare(self) -> None:
        """A namespace, and a volume that outlives the pods."""
        self.cluster.kubectl("create", "namespace", NAMESPACE)
        self.volume.mkdir(parents=True, exist_ok=True)
        self.volume.chmod(0o777)
        claim = {"storageClassName": "demo", "accessModes": ["ReadWriteMany"]}
        self.cluster.apply(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolume",
                    "metadata": {"name": "demo"},
                    "spec": {
                        **claim,
                        "capacity": {"storage": "1Gi"},
                        "hostPath": {"path": str(self.volume), "type": "Directory"},
                    },
                }
            )
        )
        self.apply(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "checkpoints"},
                "spec": {**claim, "resources": {"requests": {"storage": "1Gi"}}},
            }
        )
