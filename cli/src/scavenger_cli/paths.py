"""Where the objects live in the API, as URL paths."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from scavenger_api import names

ROOT: Final = f"/apis/{names.API_VERSION}"
NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
NODE_METRICS: Final = "/apis/metrics.k8s.io/v1beta1/nodes"
LEVELS: Final = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps/{names.LEVELS_CONFIGMAP}"
ADMITTER_LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{names.SYSTEM_NAMESPACE}/leases/{names.ADMITTER}"
QUEUES: Final = f"{ROOT}/scavengerqueues"


def jobs(namespace: str | None) -> str:
    """The ScavengerJobs of a namespace; of all without one."""
    return f"{ROOT}/namespaces/{quote(namespace)}/scavengerjobs" if namespace else f"{ROOT}/scavengerjobs"


def job(namespace: str, name: str) -> str:
    """One ScavengerJob."""
    return f"{jobs(namespace)}/{quote(name, safe='')}"


def queue(name: str) -> str:
    """One ScavengerQueue."""
    return f"{QUEUES}/{quote(name, safe='')}"


def pods(namespace: str) -> str:
    """The pods of a namespace."""
    return f"/api/v1/namespaces/{quote(namespace)}/pods"


def log(namespace: str, pod: str) -> str:
    """The log of a pod."""
    return f"{pods(namespace)}/{quote(pod, safe='')}/log"
