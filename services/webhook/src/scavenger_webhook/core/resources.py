"""Quantities: those nobody can have meant, those no queue allows, those no node has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Final

from scavenger_api.job import Capacity, ScavengerJobSpec
from scavenger_api.quantity import MAX_UNITS, QuantityError, amount, format_amount, parse_quantity
from scavenger_api.reclaimed import RECLAIMED

from scavenger_webhook.core.references import resource_name_problem
from scavenger_webhook.core.snapshot import Facts, NodeFacts, QueueFacts
from scavenger_webhook.core.verdict import FORBIDDEN, Problem, shown, warning

FIELD: Final = "spec.resources"
HUGEPAGES: Final = "hugepages-"
LEAST_MEMORY: Final = 2**20
"""Bytes: with less, not even an empty container starts; who writes it has forgotten the suffix."""

MOST_MILLICORES: Final = 10**9
"""A million cores: more than any machine, so a suffix too many."""

_BYTES: Final = ("memory", "ephemeral-storage")
_SIZE: Final = re.compile(r"[1-9][0-9]*[KMGTPE]i", re.ASCII)


def quantity_problems(spec: ScavengerJobSpec) -> Iterator[Problem]:
    """Quantities and names that the API server would refuse in the pod, or that are a slip of the pen."""
    for side in ("requests", "limits"):
        for resource, text in (getattr(spec.resources, side) or {}).items():
            if side == "requests" and _sets_nothing_aside(spec, resource, text):
                continue
            field = f"{FIELD}.{side}[{resource}]"
            problem = resource_name_problem(resource) or _quantity_problem(resource, text)
            if problem:
                yield Problem(field, problem)


def _sets_nothing_aside(spec: ScavengerJobSpec, resource: str, text: str) -> bool:
    """A request of 0, beside a limit, on reclaimed capacity: less than a container needs, and meant."""
    if spec.capacity is not Capacity.RECLAIMED or resource not in RECLAIMED:
        return False
    try:
        return resource in (spec.resources.limits or {}) and parse_quantity(text) == 0
    except QuantityError:
        return False


def _quantity_problem(resource: str, text: str) -> str | None:
    try:
        value = parse_quantity(text)
    except QuantityError as error:
        return str(error)
    if value > MAX_UNITS:
        return f"{text} is more than Kubernetes can count; check the suffix"
    if resource == "cpu":
        return _cpu_problem(text, value)
    if resource in _BYTES:
        return _bytes_problem(resource, text, value)
    if resource.startswith(HUGEPAGES):
        return _hugepages_problem(resource, text, value)
    return None


def _cpu_problem(text: str, value: Decimal) -> str | None:
    millicores = value * 1000
    if millicores != millicores.to_integral_value():
        return f"{text} is finer than a thousandth of a core; write whole millicores, as 1m"
    if millicores > MOST_MILLICORES:
        return f"{text} is more than a million cores; cpu counts cores, without a suffix or in thousandths, as 500m"
    return None


def _bytes_problem(resource: str, text: str, value: Decimal) -> str | None:
    if value != value.to_integral_value():
        return f"{text} is a fraction of a byte (m means thousandths); write Mi or Gi, as 512Mi"
    if resource == "memory" and value < LEAST_MEMORY:
        return f"{text} is {int(value)} bytes, with which no container starts; write Mi or Gi, as 512Mi"
    return None


def _hugepages_problem(resource: str, text: str, value: Decimal) -> str | None:
    size = resource.removeprefix(HUGEPAGES)
    if not _SIZE.fullmatch(size):
        return f"{shown(size)} is not the size of a page; write hugepages-2Mi or hugepages-1Gi"
    if value % parse_quantity(size):
        return f"{text} is not a multiple of the page size {size}; round it up"
    return None


def quota_problems(spec: ScavengerJobSpec, queue: QueueFacts) -> Iterator[Problem]:
    """Resources of which the whole gang asks for more than its queue may ever use."""
    for resource, each in requested(spec).items():
        most = queue.quota.get(resource)
        wanted = each * spec.parallelism
        if most is not None and wanted > most:
            pods = f"{spec.parallelism} pods ask" if spec.parallelism > 1 else "the pod asks"
            text = (
                f"{pods} for {format_amount(resource, wanted)} of {resource}, and queue {queue.name} may use "
                f"{format_amount(resource, most)}: the job could never start; lower resources or parallelism, "
                "or choose another queue"
            )
            yield Problem(FIELD, text, FORBIDDEN)


def node_warnings(spec: ScavengerJobSpec, facts: Facts) -> Iterator[str]:
    """Why no node of the cluster, were it empty, has room for one pod. Nothing where there are no nodes yet."""
    if not facts.nodes:
        return
    selected = [node for node in facts.nodes if _selects(spec.node_selector or {}, node)]
    if not selected:
        text = ", ".join(f"{key}={value}" for key, value in sorted((spec.node_selector or {}).items()))
        yield warning(f"spec.nodeSelector: no node has {text}: the job waits until there is one")
        return
    requests = requested(spec)
    if any(_fits(requests, node) for node in selected):
        return
    short = [_shortage(resource, each, selected) for resource, each in requests.items()]
    reasons = [reason for reason in short if reason] or ["no node has all of it together"]
    where = "no node with those labels" if spec.node_selector else "no node"
    yield warning(f"{FIELD}: {where} has room for one pod, even empty: {'; '.join(reasons)}")


def reclaimed_warnings(spec: ScavengerJobSpec, facts: Facts) -> Iterator[str]:
    """Why a job on reclaimed capacity will wait: nobody offers any, or no node so much. Nothing where no node is large
    enough even when empty, which `node_warnings` says.
    """
    if spec.capacity is not Capacity.RECLAIMED or not facts.nodes:
        return
    offers = {node.name: _offered(node) for node in facts.nodes}
    if not any(offer.allocatable[resource] for offer in offers.values() for resource in RECLAIMED):
        text = "no node offers reclaimed capacity: the regulator publishes it when started with --reclaimed"
        yield warning(f"spec.capacity: {text}")
        return
    requests = requested(spec)
    large_enough = [n for n in facts.nodes if _selects(spec.node_selector or {}, n) and _fits(requests, n)]
    offered = [offers[node.name] for node in large_enough]
    if not offered or any(_fits(requests, offer) for offer in offered):
        return
    short = [_shortage(resource, requests[resource], offered) for resource in RECLAIMED if resource in requests]
    reasons = "; ".join(reason for reason in short if reason) or "no node offers both together"
    where = "node with those labels" if spec.node_selector else "node"
    yield warning(f"{FIELD}: no {where} now offers reclaimed capacity for one pod, so the job waits: {reasons}")


def _offered(node: NodeFacts) -> NodeFacts:
    """The node as it is to a pod on reclaimed capacity: what it offers of that, in place of its cpu and memory."""
    offer = {name: node.allocatable.get(extended, 0) * unit for name, (extended, unit) in RECLAIMED.items()}
    return NodeFacts(node.name, node.labels, {**node.allocatable, **offer})


def requested(spec: ScavengerJobSpec) -> dict[str, int]:
    """What one pod asks for, without what is not a quantity: that is a problem of its own, and keeps nothing else from
    being said.
    """
    found: dict[str, int] = {}
    for resource, text in spec.resources.effective().items():
        with suppress(QuantityError):
            found[resource] = amount(resource, text)
    return found


def _selects(selector: Mapping[str, str], node: NodeFacts) -> bool:
    return all(node.labels.get(key) == value for key, value in selector.items())


def _fits(requests: Mapping[str, int], node: NodeFacts) -> bool:
    return all(node.allocatable.get(resource, 0) >= each for resource, each in requests.items())


def _shortage(resource: str, each: int, nodes: list[NodeFacts]) -> str | None:
    most = max(node.allocatable.get(resource, 0) for node in nodes)
    if most >= each:
        return None
    return f"it asks for {format_amount(resource, each)} of {resource}, the largest has {format_amount(resource, most)}"
