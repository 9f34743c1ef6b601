"""Where the objects live in the API, as URL paths."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from scavenger_api import names
from scavenger_kube import metrics_api, resources

from scavenger_cli.objects import AdoptedJob, Job, Queue

_JOBS: Final[dict[type[Job], resources.Resource[Any]]] = {
    Job: resources.scavenger_jobs(Job),
    AdoptedJob: resources.Resource("batch", "v1", "jobs", names.KIND_JOB, True, AdoptedJob),
}
_QUEUES: Final = resources.scavenger_queues(Queue)
NODES: Final = resources.NODES.path()
PODS: Final = resources.PODS.path()
NODE_METRICS: Final = metrics_api.NODE_METRICS
PART_OF_US: Final = "app.kubernetes.io/part-of=scavenger-jobs"
"""The label that the charts give to all they install."""
QUEUES: Final = _QUEUES.path()


def jobs(namespace: str | None, kind: type[Job] = Job) -> str:
    """The ScavengerJobs, or the Jobs, of a namespace; of all without one."""
    return _JOBS[kind].path(quote(namespace) if namespace else None)


def job(namespace: str, name: str, kind: type[Job] = Job) -> str:
    """One ScavengerJob, or Job."""
    return _JOBS[kind].path(quote(namespace), quote(name, safe=""))


def pod_metrics(namespace: str) -> str:
    """What the pods of a namespace use."""
    return metrics_api.POD_METRICS.replace("/pods", f"/namespaces/{quote(namespace)}/pods")


def queue(name: str) -> str:
    """One ScavengerQueue."""
    return _QUEUES.path(name=quote(name, safe=""))


def levels(system_namespace: str) -> str:
    """The ConfigMap with the levels."""
    return resources.CONFIGMAPS.path(quote(system_namespace), names.LEVELS_CONFIGMAP)


def nodes(system_namespace: str) -> str:
    """The ConfigMap with the nodes that have refused pods."""
    return resources.CONFIGMAPS.path(quote(system_namespace), names.NODES_CONFIGMAP)


def settings(system_namespace: str) -> str:
    """The ConfigMap with the settings that all components share."""
    return resources.CONFIGMAPS.path(quote(system_namespace), names.SETTINGS_CONFIGMAP)


def admitter_lease(system_namespace: str) -> str:
    """The Lease of the admitter that leads."""
    return resources.LEASES.path(quote(system_namespace), names.ADMITTER)


def namespace(name: str) -> str:
    """One namespace."""
    return f"/api/v1/namespaces/{quote(name, safe='')}"


ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
"""Where the API server is asked what the current user may do."""


def pods(namespace: str) -> str:
    """The pods of a namespace."""
    return resources.PODS.path(quote(namespace))


def events(namespace: str | None) -> str:
    """The Events of a namespace; of all without one."""
    return resources.EVENTS.path(None if namespace is None else quote(namespace))


def api(version: str) -> str:
    """What is served of an API, by its version as `v1` or `apps/v1`."""
    return f"/api/{quote(version)}" if "/" not in version else f"/apis/{quote(version)}"


def deployments(namespace: str) -> str:
    """The Deployments of a namespace."""
    return f"/apis/apps/v1/namespaces/{quote(namespace)}/deployments"


def log(namespace: str, pod: str) -> str:
    """The log of a pod."""
    return resources.PODS.path(quote(namespace), quote(pod, safe=""), "log")
