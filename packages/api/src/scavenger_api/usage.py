"""status.usage and status.recommended: what the pods of a job really use, and what they request for that.

`scavenger_domain.usage` says what the figures mean, `scavenger_domain.recommendation` what follows from them.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from scavenger_api.model import Model, Quantity
from scavenger_api.names import MAX_DEVICES
from scavenger_api.sizes import recommended_amounts


class ResourceUsage(Model):
    """What one pod uses of one resource, averaged over some seconds at a time."""

    requested: Quantity
    """What a pod requests."""
    p50: Quantity
    """What it used half of the time."""
    p95: Quantity
    """What it did not exceed in 95 % of the time."""
    max: Quantity
    """The most that was seen. Of memory it is coarse: there is a figure every 15 seconds or slower, and a shorter peak
    is missing."""
    typical: Quantity
    """The median over the runs of the most that was seen in each."""


class JobUsage(Model):
    """What the pods of a job use of their requests, over all its runs, as the metrics API says."""

    pod_seconds: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})]
    """For how long that was measured, summed over the pods."""
    runs: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})]
    """How many runs were measured; of an array, how many tasks."""
    cpu: ResourceUsage | None = None
    """In cores."""
    memory: ResourceUsage | None = None
    """In bytes."""
    devices: Annotated[dict[str, ResourceUsage] | None, Field(max_length=MAX_DEVICES)] = None
    """By name of an extended resource, in devices: 500m is half of one. Only where an administrator names a metric."""


class RecommendedRequests(Model):
    """What pods request in the place of spec.resources.requests, where spec.resourcesFrom is Recommended."""

    cpu: Quantity | None = None
    """In cores; without it the pods have the job's own request."""
    memory: Quantity | None = None
    """In bytes; without it the pods have the job's own request."""
    killed_for_memory: bool | None = None
    """A container was killed for memory under a recommendation. From the next start on, the job has its own
    requests."""

    @property
    def amounts(self) -> dict[str, str]:
        """What differs from the job's own requests."""
        return recommended_amounts({"cpu": self.cpu, "memory": self.memory})
