"""What the containers of a pod come to together, as kube-scheduler adds them up (k8s.io/component-helpers
resource.PodRequests), and what a pod template requests.

Amounts are as in `scavenger_api.quantity`: millicores of cpu, bytes of memory, whole units of all else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from scavenger_api.quantity import amounts

Amounts: TypeAlias = Mapping[str, int]
Quantities: TypeAlias = Mapping[str, str | int | float]


def running_total(containers: Iterable[Amounts], init: Iterable[tuple[Amounts, bool]]) -> dict[str, int]:
    """All that run beside each other once the init phase is over.

    Args:
        containers: what each asks for.
        init: of each init container what it asks for, and whether it stays (a sidecar).
    """
    sums: dict[str, int] = {}
    for asked in containers:
        _add(sums, asked)
    for asked, stays in init:
        if stays:
            _add(sums, asked)
    return sums


def pod_total(
    containers: Iterable[Amounts], init: Sequence[tuple[Amounts, bool]], whole: Amounts, overhead: Amounts
) -> dict[str, int]:
    """What a pod takes of its node, by resource; zeros may be among it.

    Args:
        containers: what each asks for.
        init: of each init container what it asks for, and whether it stays (a sidecar).
        whole: pod-level requests, which stand in the place of the sums.
        overhead: of the runtime, on top.
    """
    taken = running_total(containers, init)
    for name, value in _init_peak(init).items():
        taken[name] = max(taken.get(name, 0), value)
    taken.update(whole)
    _add(taken, overhead)
    return taken


def pod_level(name: str) -> bool:
    """Whether pod-level requests may name the resource (IsSupportedPodLevelResource)."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _init_peak(init: Iterable[tuple[Amounts, bool]]) -> dict[str, int]:
    """The most that the init phase needs at one moment: each init container runs beside the sidecars before it."""
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for asked, stays in init:
        moment = sidecars if stays else dict(sidecars)
        _add(moment, asked)
        for name, value in moment.items():
            peak[name] = max(peak.get(name, 0), value)
    return peak


def _add(sums: dict[str, int], asked: Amounts) -> None:
    for name, value in asked.items():
        sums[name] = sums.get(name, 0) + value


# --- templates ----------------------------------------------------------------------------------------------


class Resources(Protocol):
    """resources of a container, or of the whole pod; None is empty."""

    @property
    def requests(self) -> Quantities | None: ...  # noqa: D102
    @property
    def limits(self) -> Quantities | None: ...  # noqa: D102


class _Container(Protocol):
    @property
    def resources(self) -> Resources | None: ...
    @property
    def restart_policy(self) -> str | None: ...


class _Template(Protocol):
    """spec of a pod template, as far as it says what the pod requests; None is empty."""

    @property
    def containers(self) -> Sequence[_Container]: ...
    @property
    def init_containers(self) -> Sequence[_Container] | None: ...
    @property
    def overhead(self) -> Quantities | None: ...
    @property
    def resources(self) -> Resources | None: ...


def template_requests(pod: _Template, of_container: Callable[[Amounts], Amounts] = dict) -> dict[str, int]:
    """What a pod of this template takes of its node. The API server fills in requests from limits, and so does this.

    Args:
        pod: spec of the template.
        of_container: what becomes of the requests of a container before they are added up.

    Raises:
        QuantityError: when one of them is not a quantity.
    """
    containers = [of_container(_asked(one.resources)) for one in pod.containers]
    init = [(of_container(_asked(one.resources)), one.restart_policy == "Always") for one in pod.init_containers or ()]
    whole = _whole(pod.resources, running_total(containers, init).keys() | _init_peak(init).keys())
    return pod_total(containers, init, whole, amounts(pod.overhead or {}))


def sides(resources: Resources | None) -> tuple[Quantities, Quantities]:
    """The requests and the limits."""
    return (resources and resources.requests) or {}, (resources and resources.limits) or {}


def _asked(resources: Resources | None) -> dict[str, int]:
    requests, limits = sides(resources)
    return amounts({**limits, **requests})


def _whole(resources: Resources | None, requested: Collection[str]) -> dict[str, int]:
    """Pod-level requests. A limit is the request of what no container requests, init containers included
    (k8s.io/kubernetes/pkg/apis/core/v1 defaultPodRequests).

    Args:
        resources: of the pod as a whole.
        requested: by its containers.
    """
    requests, limits = sides(resources)
    limits = {name: text for name, text in limits.items() if name not in requested}
    return amounts({name: text for name, text in {**limits, **requests}.items() if pod_level(name)})
