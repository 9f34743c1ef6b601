"""What is kept of pods where a service follows those of all tenants: of regular pods what placing, load and pictures
read of them, and what many of them have in common only once. A cluster has a hundred thousand. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from sys import intern
from typing import Final

from scavenger_api.names import LABEL_JOB
from scavenger_domain.requests import pod_requests
from scavenger_kube.kinds import Container, ObjectMeta, Pod, PodSpec, PodStatus, Resources

Transform = Callable[[Pod, Pod | None], Pod]
"""As `Informer` takes it."""


def without_details(pod: Pod, _known: Pod | None = None) -> Pod:
    """What is kept of a pod: a scavenger pod as it is, of a regular pod what is read of it.

    One that has a node or has ended is not placed any more, so what placing reads goes as well. What it requests is
    kept as the requests of one container. Raises QuantityError.
    """
    if pod.metadata.labels.get(LABEL_JOB):
        return pod
    meta, spec, status = pod.metadata, pod.spec, pod.status
    placed = bool(spec.node_name) or pod.ended
    kept = ObjectMeta(
        name=meta.name,
        namespace=intern(meta.namespace),
        uid=meta.uid,
        resource_version=meta.resource_version,
        creation_timestamp=None if placed else meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
        labels=_NONE,
        annotations=_NONE,
    )
    requests = tuple(sorted((name, value) for name, value in pod_requests(pod).items() if value > 0))
    containers = _containers(requests)
    if placed:
        node = intern(spec.node_name)
        there = PodSpec(node_name=node, containers=containers, overhead=_NO_AMOUNTS, node_selector=_NONE)
        return Pod(kept, there, _status(status.phase))
    return Pod(
        kept,
        PodSpec(
            priority=spec.priority,
            containers=containers,
            node_selector=spec.node_selector,
            tolerations=spec.tolerations,
        ),
        PodStatus(phase=status.phase, conditions=status.conditions, nominated_node_name=status.nominated_node_name),
    )


def keeping(whole: Callable[[Pod], bool]) -> Transform:
    """`without_details`, but for pods of which a service reads more: those are kept as they are."""
    return lambda pod, known: pod if whole(pod) else without_details(pod, known)


_NONE: Final[dict[str, str]] = {}
_NO_AMOUNTS: Final[dict[str, str | int | float]] = {}


@lru_cache(maxsize=4096)
def _containers(requests: tuple[tuple[str, int], ...]) -> tuple[Container, ...]:
    """One container that requests as much as a whole pod."""
    spelled: dict[str, str | int | float] = {name: f"{value}m" if name == "cpu" else value for name, value in requests}
    return (Container(resources=Resources(requests=spelled)),)


@lru_cache(maxsize=64)
def _status(phase: str) -> PodStatus:
    return PodStatus(phase=phase)
