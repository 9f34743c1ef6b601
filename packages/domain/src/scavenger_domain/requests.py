"""What a pod requests of its node, as kube-scheduler computes it (k8s.io/component-helpers resource.PodRequests).

Amounts are as in `scavenger_api.quantity`: millicores of cpu, bytes of memory, whole units of all else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from scavenger_api.pod_sums import pod_level, pod_total, running_total
from scavenger_api.quantity import QuantityError, amount
from scavenger_api.reclaimed import RECLAIMED, counted_as

RECLAIMED_RESOURCES: Final = frozenset(extended for extended, _ in RECLAIMED.values())
"""The extended resources that pods on reclaimed capacity are placed by."""

ABOVE: Final = 1.05
"""Times its request from which a pod uses more than that: a figure is a little above a limit that is equal at times."""


def above_request(used: float, requested: float) -> bool:
    """Whether a use is more than was requested of a resource; both in the same unit."""
    return used > ABOVE * requested > 0


_Quantities: TypeAlias = Mapping[str, str | int | float]


class _Resources(Protocol):
    @property
    def requests(self) -> _Quantities: ...


class _Container(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def resources(self) -> _Resources: ...
    @property
    def restart_policy(self) -> str | None: ...


class PodSpecLike(Protocol):
    """spec of a pod, as far as its requests are read."""

    @property
    def containers(self) -> Sequence[_Container]: ...  # noqa: D102
    @property
    def init_containers(self) -> Sequence[_Container]: ...  # noqa: D102
    @property
    def overhead(self) -> _Quantities: ...  # noqa: D102
    @property
    def resources(self) -> _Resources: ...  # noqa: D102


class _Resizable(Protocol):
    @property
    def cpu(self) -> str | int | float | None: ...
    @property
    def memory(self) -> str | int | float | None: ...


class _Actual(Protocol):
    @property
    def requests(self) -> _Resizable: ...


class _Resized(Protocol):
    @property
    def resources(self) -> _Actual | None: ...
    @property
    def allocated_resources(self) -> _Resizable: ...


class ContainerStatusLike(_Resized, Protocol):
    """A container, as far as it was resized."""

    @property
    def name(self) -> str: ...  # noqa: D102


class _Condition(Protocol):
    @property
    def type(self) -> str: ...
    @property
    def reason(self) -> str: ...


class PodStatusLike(_Resized, Protocol):
    """status of a pod, as far as its requests are read."""

    @property
    def conditions(self) -> Sequence[_Condition]: ...  # noqa: D102
    @property
    def container_statuses(self) -> Sequence[ContainerStatusLike]: ...  # noqa: D102
    @property
    def init_container_statuses(self) -> Sequence[ContainerStatusLike]: ...  # noqa: D102


class PodWithRequests(Protocol):
    """A pod, as far as its requests are read: any projection of core/v1 Pod."""

    @property
    def spec(self) -> PodSpecLike:
        """Its containers, and what it requests beside them."""
        ...

    @property
    def status(self) -> PodStatusLike:
        """What its containers have of that, where they have been resized."""
        ...


def pod_requests(pod: PodWithRequests) -> dict[str, int]:
    """What a pod takes of its node, by resource; zeros may be among it.

    Per resource the containers and the init containers that stay beside them (sidecars), or the largest moment of the
    init phase if that is more. Pod-level requests replace that for the resources they may name. The overhead of the
    runtime comes on top. Of a pod that is being resized the most counts of what it is to have, what it has and what its
    kubelet has set aside for it; what its node can never give does not.

    Raises:
        QuantityError: when a quantity is not one; the API server lets none such in.
    """
    containers, spec = _Containers(pod), pod.spec
    overhead = {name: amount(name, text) for name, text in spec.overhead.items()}
    return pod_total(containers.asked(), containers.init(), containers.whole(), overhead)


def running_requests(pod: PodWithRequests) -> dict[str, int]:
    """What the containers of a pod request while it runs: `pod_requests` without the init phase and the overhead.

    Time is counted by this: neither an init container that has ended nor the runtime computes anything.

    Raises:
        QuantityError: as `pod_requests` does.
    """
    containers = _Containers(pod)
    return running_total(containers.asked(), containers.init()) | containers.whole()


def program_cpu(pod: PodWithRequests, program: str) -> int | None:
    """What a container of a pod requests of CPU, in millicores, resized in place as far as that counts in
    `pod_requests`. None where that says nothing of the pod: it has no such container, its requests of CPU are those of
    the pod as a whole, or are unreadable, or it is on reclaimed capacity.
    """
    if on_reclaimed_capacity(pod) or "cpu" in pod.spec.resources.requests:
        return None
    try:
        return _Containers(pod).cpu_of(program)
    except QuantityError:
        return None


def computing_requests(pod: PodWithRequests) -> dict[str, int]:
    """The requests of a pod while it runs (`running_requests`), as what it computes with; nothing where they are
    unreadable.

    A pod on reclaimed capacity requests no CPU; what it asks for of the reclaimed stands in its place, until it is
    measured.
    """
    try:
        return counted_as(running_requests(pod).items())
    except QuantityError:
        return {}


def on_reclaimed_capacity(pod: PodWithRequests) -> bool:
    """Whether the pod is placed by what others requested and do not use."""
    return any(not RECLAIMED_RESOURCES.isdisjoint(container.resources.requests) for container in pod.spec.containers)


def counted_requests(pod: PodWithRequests) -> dict[str, int]:
    """What a pod counts as in shares, quotas and load: `pod_requests`, where a reclaimed CPU is a CPU.

    Raises:
        QuantityError: as `pod_requests` does.
    """
    return counted_as(pod_requests(pod).items())


class _Containers:
    """The containers of a pod, with what their statuses say."""

    def __init__(self, pod: PodWithRequests) -> None:
        self._spec, self._status = pod.spec, pod.status
        status = pod.status
        self._statuses = {one.name: one for one in (*status.container_statuses, *status.init_container_statuses)}
        pending = (condition.reason for condition in status.conditions if condition.type == "PodResizePending")
        self._infeasible = next(pending, "") == "Infeasible"

    def asked(self) -> list[dict[str, int]]:
        """What each container asks for."""
        return [self._asked(container) for container in self._spec.containers]

    def cpu_of(self, name: str) -> int | None:
        """Millicores that one of them asks for; None where there is none of that name."""
        return next((self._asked(one).get("cpu", 0) for one in self._spec.containers if one.name == name), None)

    def init(self) -> list[tuple[dict[str, int], bool]]:
        """What each init container asks for, and whether it is a sidecar, which alone can be resized."""
        sidecars = ((container, container.restart_policy == "Always") for container in self._spec.init_containers)
        return [(self._asked(container, resizable=stays), stays) for container, stays in sidecars]

    def whole(self) -> dict[str, int]:
        """What the pod asks for as a whole, in the place of the sums of its containers."""
        requests = self._spec.resources.requests
        named = [name for name in requests if pod_level(name)]
        asked = {name: amount(name, requests[name]) for name in named}
        if asked:
            _resize(asked, requests, self._status, self._infeasible)
        return {name: asked[name] for name in named}

    def _asked(self, container: _Container, *, resizable: bool = True) -> dict[str, int]:
        requests = container.resources.requests
        asked = {name: amount(name, text) for name, text in requests.items()}
        status = self._statuses.get(container.name) if resizable else None
        if status is not None:
            _resize(asked, requests, status, self._infeasible)
        return asked


def _resize(asked: dict[str, int], requests: _Quantities, status: _Resized, infeasible: bool) -> None:
    """Make of what a container, or a whole pod, asks for what counts of it (determineEffectiveRequests). Only cpu and
    memory can be resized; of all else nothing differs."""
    if status.resources is None:
        return
    actual, allocated = status.resources.requests, status.allocated_resources
    for name, has, held in (("cpu", actual.cpu, allocated.cpu), ("memory", actual.memory, allocated.memory)):
        if has == held == requests.get(name):
            continue  # nearly always; a quantity is not read for nothing
        known = [amount(name, text) for text in (has, held) if text is not None]
        if name in asked or known:
            asked[name] = max(known if infeasible else (asked.get(name, 0), *known), default=0)
