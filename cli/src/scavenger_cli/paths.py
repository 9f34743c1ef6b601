"""Where the objects live in the API, as URL paths."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from scavenger_api import names
from scavenger_kube import metrics_api, resources

from scavenger_cli.objects import Job, Queue

_JOBS: Final = resources.scavenger_jobs(Job)
_QUEUES: Final = resources.scavenger_queues(Queue)
NODES: Final = resources.NODES.path()
PODS: Final = resources.PODS.path()
NODE_METRICS: Final = metrics_api.NODE_METRICS
LEVELS: Final = resources.CONFIGMAPS.path(names.SYSTEM_NAMESPACE, names.LEVELS_CONFIGMAP)
ADMITTER_LEASE: Final = resources.LEASES.path(names.SYSTEM_NAMESPACE, names.ADMITTER)
QUEUES: Final = _QUEUES.path()


def jobs(namespace: str | None) -> str:
    """The ScavengerJobs of a namespace; of all without one."""
    return _JOBS.path(quote(namespace) if namespace else None)


def job(namespace: str, name: str) -> str:
    """One ScavengerJob."""
    return _JOBS.path(quote(namespace), quote(name, safe=""))


def queue(name: str) -> str:
    """One ScavengerQueue."""
    return _QUEUES.path(name=quote(name, safe=""))


def pods(namespace: str) -> str:
    """The pods of a namespace."""
    return resources.PODS.path(quote(namespace))


def log(namespace: str, pod: str) -> str:
    """The log of a pod."""
    return resources.PODS.path(quote(namespace), quote(pod, safe=""), "log")
