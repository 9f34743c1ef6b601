"""How large a spec may be."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_api.job import MAX_PARALLELISM, ScavengerJobSpec
from scavenger_api.names import MAX_PODS_BYTES, MAX_SPEC_BYTES
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


@pytest.mark.parametrize(("more", "problems"), [(0, 0), (1, 1)])
def test_the_pods_of_a_gang_have_so_many_bytes_together(more: int, problems: int) -> None:
    rest = spec_bytes(spec(args=[""], parallelism=MAX_PARALLELISM))
    words = "x" * (MAX_PODS_BYTES // MAX_PARALLELISM - rest + more)
    found = list(problems_of_its_own(spec(args=[words], parallelism=MAX_PARALLELISM)))
    assert len(found) == problems
    assert all(f"{MAX_PARALLELISM} pods of " in problem.message for problem in found)
    assert not list(problems_of_its_own(spec(args=[words], parallelism=MAX_PARALLELISM - 1)))


@pytest.mark.parametrize(("more", "problems"), [(0, 0), (1, 1)])
def test_references_of_all_kinds_are_counted_together(more: int, problems: int) -> None:
    env = [{"name": f"E{n}", "valueFrom": {"secretKeyRef": {"name": f"s{n}", "key": "k"}}} for n in range(4 + more)]
    optional = {"name": "O", "valueFrom": {"secretKeyRef": {"name": "o", "key": "k", "optional": True}}}
    claims = [{"name": f"c{n % 30}", "mountPath": f"/c/{n}"} for n in range(40)]
    maps = [{"name": f"m{n}", "mountPath": f"/m/{n}"} for n in range(30)]
    found = list(problems_of_its_own(spec(env=[*env, optional], persistentVolumeClaims=claims, configMaps=maps)))
    assert len(found) == problems
    assert all("need 65 claims, ConfigMaps and Secrets" in problem.message for problem in found)
