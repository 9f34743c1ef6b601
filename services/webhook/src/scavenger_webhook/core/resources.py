"""Quantities of the whole: what no queue allows, what no node has.

Only API servers are told: facts for any client have no quotas and no nodes (`Facts.for_anybody`). Answers have no quota
and no size of a node. They name the command that shows them to users who may see them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scavenger_api.job import Capacity, ScavengerJobSpec
from scavenger_api.quantity import format_amount
from scavenger_api.reclaimed import RECLAIMED
from scavenger_api.rules.bounds import requested
from scavenger_api.rules.problem import FORBIDDEN, Problem, warning
from scavenger_api.rules.quantities import FIELD

from scavenger_webhook.core.snapshot import Facts, NodeFacts, QueueFacts


def quota_problems(spec: ScavengerJobSpec, queue: QueueFacts) -> Iterator[Problem]:
    """Resources of which the whole gang asks for more than its queue may ever use."""
    for resource, each in requested(spec).items():
        most = queue.quota.get(resource)
        wanted = each * spec.parallelism
        if most is not None and wanted > most:
            pods = f"{spec.parallelism} pods ask" if spec.parallelism > 1 else "the pod asks"
            text = (
                f"{pods} for {format_amount(resource, wanted)} of {resource}, more than queue {queue.name} may use: "
                "the job could never start; lower resources or parallelism, or choose another queue "
                "(`kubectl get scavengerqueues -o yaml` shows quotas)"
            )
            yield Problem(FIELD, text, FORBIDDEN)


def node_warnings(spec: ScavengerJobSpec, facts: Facts) -> Iterator[str]:
    """Why no node of the cluster, were it empty, has capacity for one pod. Nothing where there are no nodes yet."""
    if not facts.nodes:
        return
    selected = [node for node in facts.nodes if _selects(spec.selected_nodes, node)]
    if not selected:
        text = ", ".join(f"{key}={value}" for key, value in sorted((spec.selected_nodes).items()))
        yield warning(f"spec.nodeSelector: no node has {text}: the job waits until there is one")
        return
    requests = requested(spec)
    if any(_fits(requests, node) for node in selected):
        return
    short = [_shortage(resource, each, selected) for resource, each in requests.items()]
    reasons = [reason for reason in short if reason] or ["no node has all of it together"]
    where = "no node with those labels" if spec.selected_nodes else "no node"
    yield warning(f"{FIELD}: {where} has the capacity for one pod, even empty: {'; '.join(reasons)}")


def reclaimed_warnings(spec: ScavengerJobSpec, facts: Facts) -> Iterator[str]:
    """Why a job on reclaimed capacity will wait: no node offers any, or so much. Nothing where no node is large
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
    large_enough = [n for n in facts.nodes if _selects(spec.selected_nodes, n) and _fits(requests, n)]
    offered = [offers[node.name] for node in large_enough]
    if not offered or any(_fits(requests, offer) for offer in offered):
        return
    short = [_shortage(resource, requests[resource], offered) for resource in RECLAIMED if resource in requests]
    reasons = "; ".join(reason for reason in short if reason) or "no node offers both together"
    where = "node with those labels" if spec.selected_nodes else "node"
    yield warning(f"{FIELD}: no {where} now offers reclaimed capacity for one pod, so the job waits: {reasons}")


def _offered(node: NodeFacts) -> NodeFacts:
    """The node as it is to a pod on reclaimed capacity: what it offers of that, in place of its cpu and memory."""
    offer = {name: node.allocatable.get(extended, 0) * unit for name, (extended, unit) in RECLAIMED.items()}
    return NodeFacts(node.name, node.labels, {**node.allocatable, **offer})


def _selects(selector: Mapping[str, str], node: NodeFacts) -> bool:
    return all(node.labels.get(key) == value for key, value in selector.items())


def _fits(requests: Mapping[str, int], node: NodeFacts) -> bool:
    return all(node.allocatable.get(resource, 0) >= each for resource, each in requests.items())


def _shortage(resource: str, each: int, nodes: list[NodeFacts]) -> str | None:
    most = max(node.allocatable.get(resource, 0) for node in nodes)
    if most >= each:
        return None
    return f"it asks for {format_amount(resource, each)} of {resource}, and none has so much"
