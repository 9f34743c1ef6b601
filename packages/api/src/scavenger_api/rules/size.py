"""How large the spec of a job may be.

Every service reads every ScavengerJob, and the API server takes objects of up to 1.5 MB: without a bound, users who may
create jobs chooses how much memory the components need.
"""

from __future__ import annotations

from collections.abc import Iterator

from scavenger_api.job import ScavengerJobSpec
from scavenger_api.names import MAX_PODS_BYTES, MAX_SPEC_BYTES
from scavenger_api.rules.problem import Problem


def spec_bytes(spec: ScavengerJobSpec) -> int:
    """Bytes of the spec as JSON, without what is left to defaults."""
    return len(spec.__pydantic_serializer__.to_json(spec, by_alias=True, exclude_unset=True))


def size_problem(size: int, pods: int = 1) -> str | None:
    """What is wrong with a spec of so many bytes; None when nothing is.

    Args:
        size: of the spec.
        pods: how many have to run at once. Each has what the spec says in etcd.
    """
    if size > MAX_SPEC_BYTES:
        found = f"{size} bytes as JSON are more than the {MAX_SPEC_BYTES} that a spec may have"
    elif size * pods > MAX_PODS_BYTES:
        found = f"{pods} pods of {size} bytes as JSON are more than the {MAX_PODS_BYTES} that pods of a job may have"
    else:
        return None
    return f"{found}; put large values into a ConfigMap or Secret and mount it"


def size_problems(spec: ScavengerJobSpec) -> Iterator[Problem]:
    """That the spec is too large."""
    found = size_problem(spec_bytes(spec), spec.parallelism)
    if found is not None:
        yield Problem("spec", found)
