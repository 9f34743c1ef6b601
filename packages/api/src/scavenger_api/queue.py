"""ScavengerQueue: a share of what scavenging may use."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from scavenger_api import names
from scavenger_api.model import Model, ObjectMeta, Quantity, cel, validations
from scavenger_api.requirements import ResourceMap
from scavenger_api.selectors import LabelSelector
from scavenger_api.states import QueueState as QueueState


class NamespaceTurns(Model):
    """Turns between the namespaces that use a queue."""

    weights: Annotated[
        dict[str, Annotated[int, Field(ge=1, le=1_000_000, json_schema_extra={"format": "int32"})]],
        Field(default_factory=dict, max_length=1000),
    ]
    """The weights of namespaces, by name; that of every other one is 1."""


class ScavengerQueueSpec(Model):
    """The queue's weight against the other queues, and its bounds."""

    weight: Annotated[int, Field(ge=1, le=1_000_000, json_schema_extra={"format": "int32"})] = 1
    """The queue's share is its weight over the sum of the weights of all queues with demand."""
    quota: ResourceMap | None = None
    """The most that jobs of this queue may use together, per resource."""
    closed: bool = False
    """Takes no new jobs; those that run go on."""
    namespace_selector: LabelSelector | None = None
    """The labels of the namespaces whose jobs may use the queue; by default, and when empty, every namespace."""
    per_namespace: NamespaceTurns | None = None
    """If set, even to {}, the namespaces of the queue take turns. The next job that starts is of the namespace with the
    least use for its weight. By default all jobs of the queue are in one order."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "!has(self.quota) || self.quota.all(k, !quantity(string(self.quota[k])).isLessThan(quantity('0')))",
                "every quantity must be zero or more",
                field_path=".quota",
            )
        )
    )


class QueueCounts(Model):
    """Jobs of the queue by phase."""

    waiting: int = 0
    """Jobs that never ran and wait."""
    starting: int = 0
    """Jobs whose pods are starting."""
    running: int = 0
    """Jobs with all pods running."""
    interrupted: int = 0
    """Interrupted jobs that wait to continue."""
    suspended: int = 0
    """Jobs taken off the cluster."""
    completed: int = 0
    """Jobs that completed."""
    failed: int = 0
    """Jobs that failed."""
    unknown: int = 0
    """Jobs that the admitter cannot read, so their state is not known."""


class ScavengerQueueStatus(Model):
    """What the queue holds and what it is entitled to."""

    state: QueueState | None = None
    jobs: QueueCounts | None = None
    allocated: dict[str, Quantity] | None = None
    """What the jobs of the queue use now, by resource."""
    deserved: dict[str, Quantity] | None = None
    """What the queue may use now by its share, by resource."""


class ScavengerQueue(Model):
    """A queue of ScavengerJobs with a weighted share of what scavenging may use."""

    api_version: str = names.API_VERSION
    kind: str = "ScavengerQueue"
    metadata: ObjectMeta = ObjectMeta()
    spec: ScavengerQueueSpec = ScavengerQueueSpec()
    status: ScavengerQueueStatus = ScavengerQueueStatus()

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "self.metadata.name.size() <= 63 && !self.metadata.name.contains('.')",
                "metadata.name: at most 63 characters and no dots, as it becomes a label value",
            )
        )
    )
