"""What is kept of a job where a service reads no more of its pods than their CPU and memory. Users choose how
large templates, labels and annotations are, and every service follows all jobs. Pure.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

from msgspec.structs import replace
from scavenger_api.names import ANNOTATION_LAST_CHECKPOINT
from scavenger_kube.kinds import ObjectMeta
from scavenger_kube.scavenger_kinds import (
    AdoptedJob,
    PodTemplate,
    ScavengerJob,
    TemplateContainer,
    TemplateResources,
    TemplateSpec,
    in_own_words,
)

J = TypeVar("J", bound=ScavengerJob)


def requests_alone(job: J, _known: J | None = None) -> J:
    """A job of whose template one container is left, with the CPU and memory that a pod requests, and of whose labels
    and annotations the last checkpoint."""
    meta, template = job.metadata, job.spec.template
    annotations = {name: meta.annotations[name] for name in (ANNOTATION_LAST_CHECKPOINT,) if name in meta.annotations}
    kept = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
        deletion_grace_period_seconds=meta.deletion_grace_period_seconds,
        annotations=annotations,
    )
    if template is None:
        return replace(job, metadata=kept)
    requests = job.spec.requests
    requesting = _requesting(requests.get("cpu", 0), requests.get("memory", 0))
    return replace(job, metadata=kept, spec=replace(job.spec, template=requesting))


def adopted_requests_alone(job: AdoptedJob, _known: AdoptedJob | None = None) -> AdoptedJob:
    """`requests_alone` of a Job, after its labels and annotations are read."""
    return requests_alone(in_own_words(job))


@lru_cache(maxsize=1024)
def _requesting(cpu: int, memory: int) -> PodTemplate:
    """A template that requests so many millicores and bytes."""
    resources = TemplateResources(requests={"cpu": f"{cpu}m", "memory": memory})
    return PodTemplate(spec=TemplateSpec(containers=(TemplateContainer(resources=resources),)))
