"""What is kept of a ScavengerJob: of a large one what admission and lifecycle read, without what only its pods read.

Users choose how large a spec is, and thousands of jobs may wait. The whole spec is read again when the Job is created.
A template is kept as JSON unless it is small.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from pydantic_core import to_json
from scavenger_api.job import ScavengerJob, ScavengerJobSpec
from scavenger_api.names import MAX_SPEC_BYTES
from scavenger_api.rules.size import spec_bytes
from scavenger_api.template import PackedTemplate, PodTemplate, main_container
from scavenger_kube.decode import out_of_sight
from scavenger_runtime.kept_parts import bounded

from scavenger_admitter.core.adopted.work import AdoptedJob
from scavenger_admitter.core.recommended import NO_WORDS, as_asked, asks_for_it, sized

KEPT_BYTES: Final = 16 * 1024
"""A spec of up to so many bytes is kept as it is."""

DECODED_BYTES: Final = 4 * 1024
"""A template of up to so many bytes stays decoded. It then takes up to 150 KB."""

DECODED_VALUES: Final = 512
"""So does a longer one with up to so many values, of up to `KEPT_BYTES`: those of most users."""

_SPEC_BYTES: Final = "spec-bytes"
"""Annotation, in memory only, of a job of whose spec a part is kept. No annotation of the API is kept beside it."""

MOST_IMAGE: Final = 1024
"""Characters that are kept of the image of a job that does not start."""

J = TypeVar("J", bound=ScavengerJob)

_ENDLESS: Final = ("command", "args", "env", "env_from", "image_pull_secrets", "config_maps", "secrets")
"""Fields that may be large and that admission does not read."""


def slim(job: J, known: J | None = None) -> J:
    """What is kept of a job: no labels, no annotations, of a large spec a part, and the requests that its pods have.

    A spec that has not changed stays the object that it was, with all that was worked out from it.

    Args:
        job: as the API server has it.
        known: what was kept of it before, if anything was.
    """
    # A run keeps its requests, whatever its user asks of the next one.
    if not asks_for_it(job.spec) and job.status.recommended is None:
        return _slim(job, known)
    return sized(_slim(as_asked(job), as_asked(known) if known is not None else None))


def _slim(job: J, known: J | None) -> J:
    meta = job.metadata
    if known is not None and known.spec == job.spec:
        # The part that was kept, where the spec was not read again: its size is not that of the whole.
        return _with(job, known.spec, known.metadata.annotations if known.spec is job.spec else {}, known)
    size = spec_bytes(job.spec)
    spec, notes = job.spec, {}
    if size > KEPT_BYTES:
        spec, notes = _part_of(job.spec, size), {_SPEC_BYTES: str(size)}
    elif job.spec.template is not None and size > DECODED_BYTES and _packed(template := job.spec.template.to_json()):
        spec = job.spec.model_copy(update={"template": PackedTemplate.of(template)})
    elif not meta.labels and not meta.annotations:
        return job
    return _with(job, spec, notes, known)


def slim_adopted(job: AdoptedJob, known: AdoptedJob | None = None) -> AdoptedJob:
    """The same of an adopted Job, which is kept as a Job as well: a part of its labels and annotations.

    Args:
        job: as the API server has it.
        known: what was kept of it before, if anything was.
    """
    kept = slim(job, known)
    short = bounded(kept.batch)
    return kept if short is kept.batch else kept.model_copy(update={"batch": short})


def _with(job: J, spec: ScavengerJobSpec, notes: dict[str, str], known: J | None) -> J:
    """The job with this spec, or with the same that was kept before, and these annotations alone."""
    unchanged = known is not None and known.spec == spec
    update = {
        "metadata": job.metadata.model_copy(update={"labels": {}, "annotations": notes}),
        "spec": known.spec if known is not None and unchanged else spec,
    }
    kept = job.model_copy(update=update)
    out_of_sight(kept.metadata if unchanged else kept)
    return kept


def _packed(template: bytes) -> bool:
    """Whether a template is kept as this JSON. Values in it are no more than what begins or separates them."""
    if len(template) <= DECODED_BYTES:
        return False
    return len(template) > KEPT_BYTES or sum(map(template.count, (b"{", b"[", b","))) > DECODED_VALUES


def size_of(job: ScavengerJob) -> int | None:
    """How many bytes the spec has of which a part is kept; None of a job that is kept as it is."""
    noted = job.metadata.annotations.get(_SPEC_BYTES)
    return int(noted) if noted is not None else None


def _part_of(spec: ScavengerJobSpec, size: int) -> ScavengerJobSpec:
    changes: dict[str, Any] = {"command": NO_WORDS if spec.command else None, "args": None}
    changes["env"] = tuple(variable for variable in spec.env or () if variable.value_from is not None)
    if spec.template is not None:
        startable = size <= MAX_SPEC_BYTES
        part = _part_of_template(spec.template) if startable else _stub_of(spec, spec.template)
        template = to_json(part)
        read = PackedTemplate.of if _packed(template) else PodTemplate.model_validate_json
        changes["template"] = read(template)
    if size > MAX_SPEC_BYTES:  # it does not start
        changes |= {**dict.fromkeys(_ENDLESS), "persistent_volume_claims": None, "node_selector": None}
    return spec.model_copy(update=changes)


def _part_of_template(template: PodTemplate) -> dict[str, Any]:
    """All but what only the processes in the containers read."""
    written = template.model_dump(mode="json", by_alias=True)
    spec = dict(written["spec"])
    for kind in ("initContainers", "containers"):
        spec[kind] = [_part_of_container(one) for one in written["spec"].get(kind, ())]
    marks = written.get("metadata", {})  # labels: anti-affinity selects the pods themselves by them
    metadata = {kind: marks[kind] for kind in ("labels", "annotations") if kind in marks}
    return {"metadata": metadata, "spec": spec}


def _part_of_container(container: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in container.items() if name not in ("args", "command", "env")}
    if container.get("env"):
        kept["env"] = [one for one in container["env"] if one.get("valueFrom") is not None]
    if container.get("command"):
        kept["command"] = list(NO_WORDS)
    return kept


def _stub_of(spec: ScavengerJobSpec, template: PodTemplate) -> dict[str, Any]:
    """Of the template of a job that does not start: what its containers request, or only its program."""
    found = [
        {name: one[name] for name in ("name", "image", "resources") if name in one}
        for one in template.model_dump(mode="json", by_alias=True)["spec"]["containers"]
    ]
    if len(to_json(found)) > DECODED_BYTES:
        program = main_container(template.spec, spec.main_container)
        found = [{"name": program.name, "image": program.image[:MOST_IMAGE]}]
    return {"spec": {"containers": found}}
