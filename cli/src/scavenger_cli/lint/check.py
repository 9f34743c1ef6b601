"""Everything that can be said of a manifest without a cluster. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, Final

from pydantic import ValidationError
from scavenger_api.crd import job_crd, queue_crd
from scavenger_api.job import ScavengerJob
from scavenger_api.rules.job import problems_of_its_own, warnings_of_its_own
from scavenger_api.rules.problem import FORBIDDEN, Problem, shown
from scavenger_api.rules.references import label_value_problem, qualified_name_problem
from scavenger_domain.pod_security import Level, breaches

from scavenger_cli.lint.schema import Schema, problems, with_defaults
from scavenger_cli.patterns import NAME

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


@functools.cache
def schema_of(kind: str) -> Schema:
    """The schema of ScavengerJob or ScavengerQueue, as the API server has it."""
    definition = {"ScavengerJob": job_crd, "ScavengerQueue": queue_crd}[kind]()
    schema: Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def check(manifest: dict[str, Any], level: Level) -> tuple[list[Problem], list[str]]:
    """What is wrong with a manifest of one of our kinds, and what is to be warned of.

    level: what the namespace's pods may be, which only the cluster knows.
    """
    schema = schema_of(manifest["kind"])
    whole = with_defaults(schema, manifest)
    found = [*_metadata_problems(manifest["metadata"]), *problems(schema, whole, "")]
    if found or manifest["kind"] != "ScavengerJob":
        return found, []
    try:
        spec = ScavengerJob.model_validate(whole).spec
    except ValidationError as error:
        return [Problem(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors()], []
    refused = (Problem(*one, FORBIDDEN) for one in breaches(spec, level))
    return [*problems_of_its_own(spec), *refused], list(warnings_of_its_own(spec))


def _metadata_problems(metadata: dict[str, Any]) -> Iterator[Problem]:
    name = metadata.get("name")
    if name is not None and (not isinstance(name, str) or not _NAME.fullmatch(name)):
        yield Problem("metadata.name", f"{shown(str(name))}: write {NAME}")
    for kind in ("labels", "annotations"):
        entries = {} if metadata.get(kind) is None else metadata[kind]
        if not isinstance(entries, dict):
            yield Problem(f"metadata.{kind}", "it is not a mapping")
            continue
        for key, value in entries.items():
            problem = qualified_name_problem(str(key))
            if problem is None and not isinstance(value, str):
                problem = f"{shown(str(value))} is not a text; put it in quotes"
            if problem is None and kind == "labels":
                problem = label_value_problem(value)
            if problem:
                yield Problem(f"metadata.{kind}[{key}]", problem)
