"""What a pod requests of its node, as kube-scheduler computes it (k8s.io/component-helpers resource.PodRequests).

Amounts are as in `scavenger_api.quantity`: millicores of cpu, bytes of memory, whole units of all else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from scavenger_api.quantity import amount
from scavenger_api.reclaimed import RECLAIMED, counted_as

RECLAIMED_RESOURCES: Final = frozenset(extended for extended, _ in RECLAIMED.values())
"""The extended resources that pods on reclaimed capacity are placed by."""

_POD_LEVEL: Final = ("cpu", "memory")
"""Resources, beside huge pages, that requests of a whole pod may name (IsSupportedPodLevelResource)."""


class _Resources(Protocol):
    @property
    def requests(self) -> Mapping[str, str | int | float]: ...


class _Container(Protocol):
    @property
    def resources(self) -> _Resources: ...
    @property
    def restart_policy(self) -> str | None: ...


class _PodSpec(Protocol):
    @property
    def containers(self) -> Sequence[_Container]: ...
    @property
    def init_containers(self) -> Sequence[_Container]: ...
    @property
    def overhead(self) -> Mapping[str, str | int | float]: ...
    @property
    def resources(self) -> _Resources: ...


class PodWithRequests(Protocol):
    """A pod, as far as its requests are read: any projection of core/v1 Pod."""

    @property
    def spec(self) -> _PodSpec:
        """Its containers, and what it requests beside them."""
        ...


def pod_requests(pod: PodWithRequests) -> dict[str, int]:
    """What a pod takes of its node, by resource; zeros may be among it.

    Per resource the containers and the init containers that stay beside them (sidecars), or the largest moment of the
    init phase if that is more. Pod-level requests replace that for the resources they may name. The overhead of the
    runtime comes on top.

    Raises:
        QuantityError: when a quantity is not one; the API server lets none such in.
    """
    spec = pod.spec
    taken = _running(spec)
    if spec.init_containers:
        for name, value in _init_peak(spec.init_containers).items():
            taken[name] = max(taken.get(name, 0), value)
    _apply_pod_level(taken, spec)
    for name, text in spec.overhead.items():
        taken[name] = taken.get(name, 0) + amount(name, text)
    return taken


def running_requests(pod: PodWithRequests) -> dict[str, int]:
    """What the containers of a pod request while it runs: `pod_requests` without the init phase and the overhead.

    This is what CPU time is counted by: neither an init container that has ended nor the runtime computes anything.

    Raises:
        QuantityError: as `pod_requests` does.
    """
    taken = _running(pod.spec)
    _apply_pod_level(taken, pod.spec)
    return taken


def counted_requests(pod: PodWithRequests) -> dict[str, int]:
    """What a pod counts as in shares, quotas and load: `pod_requests`, where a reclaimed CPU is a CPU.

    Raises:
        QuantityError: as `pod_requests` does.
    """
    return counted_as(pod_requests(pod).items())


def _running(spec: _PodSpec) -> dict[str, int]:
    sums: dict[str, int] = {}
    for container in spec.containers:
        _add(sums, container)
    for container in spec.init_containers:
        if _is_sidecar(container):
            _add(sums, container)
    return sums


def _init_peak(init_containers: Iterable[_Container]) -> dict[str, int]:
    """The most that the init phase needs at one moment: each init container runs beside the sidecars before it."""
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in init_containers:
        moment = sidecars if _is_sidecar(container) else dict(sidecars)
        _add(moment, container)
        for name, value in moment.items():
            peak[name] = max(peak.get(name, 0), value)
    return peak


def _apply_pod_level(sums: dict[str, int], spec: _PodSpec) -> None:
    for name, text in spec.resources.requests.items():
        if name in _POD_LEVEL or name.startswith("hugepages-"):
            sums[name] = amount(name, text)


def _is_sidecar(container: _Container) -> bool:
    return container.restart_policy == "Always"


def _add(sums: dict[str, int], container: _Container) -> None:
    for name, text in container.resources.requests.items():
        sums[name] = sums.get(name, 0) + amount(name, text)
