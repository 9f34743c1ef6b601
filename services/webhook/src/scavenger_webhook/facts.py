"""From the objects of the API to the facts that reviews are made on: plain values. Pure: no clock, no client."""

from __future__ import annotations

from typing import Final

import msgspec
from scavenger_api.quantity import readable_amounts
from scavenger_api.queue import ScavengerQueue
from scavenger_domain.queues import queue_state
from scavenger_kube.kinds import Node, ObjectMeta, Struct
from scavenger_kube.resources import Namespace, Resource, scavenger_queues

from scavenger_webhook.core.snapshot import NodeFacts, PriorityClassFacts, QueueFacts


class PriorityClass(Struct, frozen=True, gc=False, rename="camel"):
    """scheduling.k8s.io/v1 PriorityClass."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    preemption_policy: str = "PreemptLowerPriority"


class Secret(Struct, frozen=True, gc=False, rename="camel"):
    """core/v1 Secret; never logged."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it

    def __repr__(self) -> str:
        return f"Secret({self.metadata.key})"


SCAVENGERQUEUES: Final = scavenger_queues(ScavengerQueue)
PRIORITYCLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, PriorityClass)
SECRETS: Final = Resource("", "v1", "secrets", "Secret", True, Secret)


def queue_facts(queue: ScavengerQueue) -> QueueFacts:
    """A queue as a review sees it. A quota that is not a quantity, which the schema refuses, bounds
    nothing.
    """
    state = queue_state(deleting=queue.metadata.deletion_timestamp is not None, closed=queue.spec.closed)
    return QueueFacts(
        queue.metadata.name, state, readable_amounts(queue.spec.quota or {}), queue.spec.namespace_selector
    )


def node_facts(node: Node) -> NodeFacts:
    """A node as a review sees it. Whether it is ready now does not matter: a job waits longer than that lasts."""
    return NodeFacts(node.metadata.name, node.metadata.labels, readable_amounts(node.status.allocatable))


def priority_class_facts(found: PriorityClass) -> PriorityClassFacts:
    """A PriorityClass as a review sees it."""
    return PriorityClassFacts(found.metadata.name, found.value, found.preemption_policy)


def decode_queue(body: bytes) -> ScavengerQueue:
    """A queue as the API server sends it. Raises ValueError."""
    return ScavengerQueue.model_validate_json(body)


def decode_labels(body: bytes) -> dict[str, str]:
    """The labels of a namespace as the API server sends it. Raises ValueError."""
    return _namespace.decode(body).metadata.labels


_namespace: Final = msgspec.json.Decoder(Namespace)
