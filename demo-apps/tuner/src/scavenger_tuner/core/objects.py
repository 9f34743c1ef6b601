"""The objects of an attempt: their names, which follow from what is in the database, and what they ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from scavenger_api import names
from scavenger_checkpoint.contract import EXIT_SAVED

from scavenger_tuner.core.trial import Trial

Object = dict[str, Any]

MANAGED_BY: Final = "scavenger-tuner"
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
LABEL_INSTANCE: Final = "app.kubernetes.io/instance"
LABEL_CONFIGURATION: Final = "tuner.demo/configuration"
"""Not of scavenger.dev: labels of that group are marks that only the services may set."""

MAX_INSTANCE_LENGTH: Final = 20
"""With the numbers and the key behind it, the name of a job has no more characters than it may."""

WORK_FOLDER: Final = "/data"
"""Where the container finds configuration.json, and where it leaves checkpoints and result."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where and how jobs run: what all of one installation have in common.

    claim: the PersistentVolumeClaim of all of them. user: whom tuner and jobs run as, so that each can write what the
    other has made. ttl: seconds for which finished jobs stay to be looked at.
    """

    namespace: str
    instance: str
    image: str
    queue: str
    claim: str
    interruption_after: str
    grace_seconds: int
    ttl: int
    user: int = 65532


def job_name(instance: str, configuration: int, key: str, number: int) -> str:
    """The name of an attempt's job, and of its folder.

    key: random, from the row: a database that was set up anew counts from 1 again, and must not meet the jobs of the
    one before.
    """
    return f"{instance}-{configuration}-{key[:8]}-{number}"


def selector(site: Site) -> str:
    """The label selector of all jobs of this installation."""
    return f"{LABEL_MANAGED_BY}={MANAGED_BY},{LABEL_INSTANCE}={site.instance}"


def _labels(site: Site) -> dict[str, str]:
    return {LABEL_MANAGED_BY: MANAGED_BY, LABEL_INSTANCE: site.instance}


def scavenger_job(site: Site, name: str, configuration: int, trial: Trial) -> Object:
    """The ScavengerJob of an attempt; its folder on the claim has its own name. Cores and memory: as the trial says."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ScavengerJob",
        "metadata": {
            "name": name,
            "namespace": site.namespace,
            "labels": {**_labels(site), LABEL_CONFIGURATION: str(configuration)},
        },
        "spec": {
            "queue": site.queue,
            "image": site.image,
            "imagePullPolicy": "IfNotPresent",
            "args": [f"--ranks={trial.shape.ranks}", f"--threads={trial.shape.threads}"],
            "resources": {"requests": {"cpu": str(trial.shape.cores), "memory": f"{trial.memory_mib}Mi"}},
            "runAsUser": site.user,
            "runAsGroup": site.user,
            "fsGroup": site.user,
            "securityContext": {"runAsNonRoot": True},
            "persistentVolumeClaims": [{"name": site.claim, "mountPath": WORK_FOLDER, "subPath": name}],
            "interruptionAfter": site.interruption_after,
            "terminationGracePeriodSeconds": site.grace_seconds,
            "checkpointExitCode": EXIT_SAVED,
            "ttlSecondsAfterFinished": site.ttl,
        },
    }


def volume_claim(site: Site, size: str, access_mode: str, storage_class: str | None) -> Object:
    """The PersistentVolumeClaim of a study. storage_class: None for the cluster's default."""
    spec: Object = {"accessModes": [access_mode], "resources": {"requests": {"storage": size}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": site.claim, "namespace": site.namespace, "labels": _labels(site)},
        "spec": spec,
    }
