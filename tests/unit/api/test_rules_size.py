"""How large a spec may be."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_api.job import ScavengerJobSpec
from scavenger_api.names import MAX_SPEC_BYTES
from scavenger_api.rules.job import problems_of_its_own
from scavenger_api.rules.size import spec_bytes


def spec(**fields: Any) -> ScavengerJobSpec:
    asked = {"requests": {"cpu": "1", "memory": "1Gi"}}
    return ScavengerJobSpec.model_validate({"image": "example.org/app:1", "resources": asked, **fields})


@pytest.mark.parametrize(("more", "problems"), [(0, 0), (1, 1)])
def test_bytes_are_counted_and_not_characters(more: int, problems: int) -> None:
    rest = spec_bytes(spec(args=[""]))
    one = spec(args=["ä" * ((MAX_SPEC_BYTES - rest) // 2) + "x" * ((MAX_SPEC_BYTES - rest) % 2) + "x" * more])
    found = list(problems_of_its_own(one))
    assert len(found) == problems
    assert all(problem.field == "spec" and str(MAX_SPEC_BYTES) in problem.message for problem in found)
