"""How large the spec of a job may be.

Every service reads every ScavengerJob, and the API server takes objects of up to 1.5 MB: without a bound, whoever may
create jobs chooses how much memory the services of everybody need.
"""

from __future__ import annotations

from collections.abc import Iterator

from scavenger_api.job import ScavengerJobSpec
from scavenger_api.names import MAX_SPEC_BYTES
from scavenger_api.rules.problem import Problem


def spec_bytes(spec: ScavengerJobSpec) -> int:
    """Bytes of the spec as JSON, without what is left to defaults."""
    return len(spec.__pydantic_serializer__.to_json(spec, by_alias=True, exclude_unset=True))


def size_problem(size: int) -> str | None:
    """What is wrong with a spec of so many bytes; None when nothing is."""
    if size <= MAX_SPEC_BYTES:
        return None
    return (
        f"{size} bytes as JSON are more than the {MAX_SPEC_BYTES} that a spec may have; put large values into a "
        "ConfigMap or Secret and mount it"
    )


def size_problems(spec: ScavengerJobSpec) -> Iterator[Problem]:
    """That the spec is too large."""
    found = size_problem(spec_bytes(spec))
    if found is not None:
        yield Problem("spec", found)
