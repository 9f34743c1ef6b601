"""What is kept of a ScavengerJob: of a large one what admission and lifecycle read, without what only its pods read.

Users choose how large a spec is, and thousands of jobs may wait. The whole spec is read again when the Job is created.
"""

from __future__ import annotations

from typing import Any, Final

from scavenger_api.job import ScavengerJob, ScavengerJobSpec
from scavenger_api.names import MAX_SPEC_BYTES
from scavenger_api.rules.size import spec_bytes
from scavenger_api.template import PodTemplate
from scavenger_kube.decode import out_of_sight

KEPT_BYTES: Final = 16 * 1024
"""A spec of up to so many bytes is kept as it is."""

_SPEC_BYTES: Final = "spec-bytes"
"""Annotation, in memory only, of a job of whose spec a part is kept. No annotation of the API is kept beside it."""

NO_WORDS: Final = ("",)
"""What is kept of a command: that there is one, which snapshots need."""

_ENDLESS: Final = ("command", "args", "env", "env_from", "image_pull_secrets", "config_maps", "secrets")
"""Fields that may be large and that admission does not read."""


def slim(job: ScavengerJob, known: ScavengerJob | None = None) -> ScavengerJob:
    """What is kept of a job: no labels, no annotations, and of a large spec a part.

    A spec that has not changed stays the object that it was, with all that was worked out from it.

    Args:
        job: as the API server has it.
        known: what was kept of it before, if anything was.
    """
    meta = job.metadata
    if known is not None and known.spec == job.spec:
        update = {"metadata": meta.model_copy(update={"labels": {}, "annotations": {}}), "spec": known.spec}
        kept = job.model_copy(update=update)
        out_of_sight(kept.metadata)
        return kept
    size = spec_bytes(job.spec)
    large = size > KEPT_BYTES
    if not large and not meta.labels and not meta.annotations:
        return job
    notes = {_SPEC_BYTES: str(size)} if large else {}
    kept = job.model_copy(
        update={
            "metadata": meta.model_copy(update={"labels": {}, "annotations": notes}),
            "spec": _part_of(job.spec, size) if large else job.spec,
        }
    )
    out_of_sight(kept)
    return kept


def size_of(job: ScavengerJob) -> int | None:
    """How many bytes the spec has of which a part is kept; None of a job that is kept as it is."""
    noted = job.metadata.annotations.get(_SPEC_BYTES)
    return int(noted) if noted is not None else None


def _part_of(spec: ScavengerJobSpec, size: int) -> ScavengerJobSpec:
    changes: dict[str, Any] = {"command": NO_WORDS if spec.command else None, "args": None}
    changes["env"] = tuple(variable for variable in spec.env or () if variable.value_from is not None)
    if spec.template is not None:
        changes["template"] = _part_of_template(spec.template, startable=size <= MAX_SPEC_BYTES)
    if size > MAX_SPEC_BYTES:  # it does not start
        changes |= {**dict.fromkeys(_ENDLESS), "persistent_volume_claims": None, "node_selector": None}
    return spec.model_copy(update=changes)


def _part_of_template(template: PodTemplate, *, startable: bool) -> PodTemplate:
    written = template.model_dump(mode="json", by_alias=True)
    spec = dict(written["spec"]) if startable else {}
    for kind in ("initContainers", "containers"):
        spec[kind] = [_part_of_container(one, startable) for one in written["spec"].get(kind, ())]
    marks = (
        written.get("metadata", {}) if startable else {}
    )  # labels: anti-affinity selects the pods themselves by them
    metadata = {kind: marks[kind] for kind in ("labels", "annotations") if kind in marks}
    return PodTemplate.model_validate({"metadata": metadata, "spec": spec})


def _part_of_container(container: dict[str, Any], startable: bool) -> dict[str, Any]:
    if not startable:
        return {name: container[name] for name in ("name", "image", "resources") if name in container}
    variables = [one for one in container.get("env", ()) if one.get("valueFrom") is not None]
    kept = {name: value for name, value in container.items() if name not in ("command", "args")}
    return {**kept, "env": variables, **({"command": list(NO_WORDS)} if container.get("command") else {})}
