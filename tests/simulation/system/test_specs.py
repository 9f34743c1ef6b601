"""Users of histories write every field that the CRDs have, and nothing that the CRDs and the webhook refuse."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from scavenger_api.crd import job_crd, queue_crd
from scavenger_api.job import ScavengerJobSpec
from scavenger_api.queue import ScavengerQueueSpec
from scavenger_api.rules.job import problems_of_its_own
from scavenger_api.template import TemplateContainer, TemplateSpec
from scavenger_domain.pod_security import Level, breaches

from tests.simulation.system.specs import EXCLUDED, FIELDS, KNOWN, QUEUE_FIELDS, job_spec, queue_spec

Object = dict[str, Any]
DRAWN = 3000
KINDS = [
    pytest.param("scavengerjobs", job_crd, FIELDS, job_spec, id="ScavengerJob"),
    pytest.param("scavengerqueues", queue_crd, QUEUE_FIELDS, queue_spec, id="ScavengerQueue"),
]


def schema_of(crd: Callable[[], Object]) -> Object:
    found: Object = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def paths(schema: Object, at: str = "") -> Iterator[str]:
    """Of all values that the schema lets somebody write: `env[].value`, `resources.limits{}`, `template.spec`."""
    if "properties" in schema:
        for name, one in schema["properties"].items():
            yield from paths(one, f"{at}.{name}" if at else name)
    elif schema.get("type") == "array":
        yield from paths(schema["items"], f"{at}[]")
    elif isinstance(schema.get("additionalProperties"), dict):
        yield from paths(schema["additionalProperties"], at + "{}")
    else:
        yield at


def written(value: Any, schema: Object, at: str = "") -> Iterator[str]:
    """The same of the values that a spec has."""
    if "properties" in schema:
        for name, one in value.items():
            yield from written(one, schema["properties"][name], f"{at}.{name}" if at else name)
    elif schema.get("type") == "array":
        for one in value:
            yield from written(one, schema["items"], f"{at}[]")
    elif isinstance(schema.get("additionalProperties"), dict):
        for one in value.values():
            yield from written(one, schema["additionalProperties"], at + "{}")
    else:
        yield at


def drawn(make: Callable[[random.Random], Object]) -> list[Object]:
    return [make(random.Random(seed)) for seed in range(DRAWN)]


@pytest.mark.parametrize(("plural", "crd", "fields", "make"), KINDS)
def test_histories_play_every_field_of_a_spec(
    plural: str, crd: Callable[[], Object], fields: Mapping[str, Any], make: Callable[[random.Random], Object]
) -> None:
    schema = schema_of(crd)
    there = set(paths(schema))
    left_out = {path.partition(":")[2] for path in {**EXCLUDED, **KNOWN} if path.partition(":")[0] == plural}
    whole = {path.partition("[]")[0] for path in left_out} - set(fields)
    expected = set(schema["properties"]) - whole
    assert set(fields) == expected, "a field without a generator, or a generator of no field"
    played = {path for spec in drawn(make) for path in written(spec, schema)}
    assert left_out <= there, f"left out, and not in the CRD: {sorted(left_out - there)}"
    assert not left_out & played, f"left out, and played: {sorted(left_out & played)}"
    assert played | left_out == there, f"never played: {sorted(there - played - left_out)}"


def test_histories_play_every_field_of_a_template_that_components_read() -> None:
    templates = [spec["template"]["spec"] for spec in drawn(job_spec) if "template" in spec]
    containers = [one for spec in templates for kind in ("initContainers", "containers") for one in spec.get(kind, ())]
    for model, found, what in ((TemplateSpec, templates, "template"), (TemplateContainer, containers, "container")):
        wanted = {one.alias or name for name, one in model.model_fields.items()}
        left_out = {path.partition(":")[2] for path in {**EXCLUDED, **KNOWN} if path.startswith(f"{what}:")}
        assert left_out <= wanted
        assert {name for one in found for name in one} | left_out >= wanted, what


def test_the_specs_are_what_the_crds_and_the_webhook_let_in() -> None:
    for spec in drawn(job_spec):
        read = ScavengerJobSpec.model_validate(spec)
        assert not [*problems_of_its_own(read)], spec
        assert not [*breaches(read, Level.RESTRICTED)], spec
    for spec in drawn(queue_spec):
        ScavengerQueueSpec.model_validate(spec)
