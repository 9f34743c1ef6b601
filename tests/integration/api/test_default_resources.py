"""cpu and memory that a template leaves out, by annotations of its namespace, as the API server fills them in."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from scavenger_cluster.stack import rendered
from scavenger_testing.waiting import wait

if TYPE_CHECKING:
    from tests.integration.conftest import Kubectl


DEFAULTS = {"default-cpu": "500m", "default-memory": "1Gi", "default-cpu-per-gpu": "4", "default-memory-per-gpu": "8Gi"}
GPUS = {"nvidia.com/gpu": "2"}


def template(*containers: dict[str, Any], **pod: Any) -> dict[str, Any]:
    named = [{"name": f"c{number}", "image": "i:1", **one} for number, one in enumerate(containers)]
    return {"spec": {"containers": named, **pod}}


@pytest.fixture(scope="module")
def kept(api_cluster: Kubectl, module_namespace: str) -> Callable[..., dict[str, Any]]:
    """The job as it is kept, in a namespace with defaults."""
    has = ("--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")
    policy = rendered("scavenger-base", print, *has, templates=("default-resources",))
    api_cluster.ok("apply", "-f", "-", stdin=policy)
    notes = [f"scavenger.dev/{name}={value}" for name, value in DEFAULTS.items()]
    api_cluster.ok("annotate", "namespace", module_namespace, *notes)
    kubectl = api_cluster.inside(module_namespace)

    def create(spec: dict[str, Any]) -> dict[str, Any]:
        job = {"apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": {"name": "j"}, "spec": spec}
        found = kubectl.ok("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(job))
        made: dict[str, Any] = json.loads(found)["spec"]
        return made

    def filled() -> bool:
        return "resources" in create({"template": template({})})["template"]["spec"]["containers"][0]

    wait("the policy to be in force", filled)
    return create


def both(cpu: str, memory: str) -> dict[str, Any]:
    asked = {"cpu": cpu, "memory": memory}
    return {"requests": asked, "limits": asked}


def test_what_nobody_names_is_filled_in(kept: Callable[..., dict[str, Any]]) -> None:
    (one,) = kept({"template": template({})})["template"]["spec"]["containers"]
    assert one["resources"] == both("500m", str(1 << 30))


def test_each_gpu_has_its_own(kept: Callable[..., dict[str, Any]]) -> None:
    (one,) = kept({"template": template({"resources": {"limits": GPUS}})})["template"]["spec"]["containers"]
    wanted = both("8000m", str(2 * (8 << 30)))
    assert one["resources"] == {"requests": wanted["requests"], "limits": wanted["limits"] | GPUS}


def test_the_main_container_has_what_is_missing_of_the_pod(kept: Callable[..., dict[str, Any]]) -> None:
    pod = template({"resources": {"requests": {"memory": "2Gi"}}}, {})
    first, second = kept({"template": pod, "mainContainer": "c1"})["template"]["spec"]["containers"]
    assert first["resources"] == {"requests": {"memory": "2Gi"}}
    assert second["resources"] == {"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}


def test_what_is_named_stays_and_so_does_the_short_form(kept: Callable[..., dict[str, Any]]) -> None:
    for pod in (
        template({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}),
        template({}, resources={"requests": {"cpu": "1", "memory": "1Gi"}}),
        template({}, initContainers=[{"name": "i", "image": "i", "resources": {"requests": {"cpu": 1, "memory": 5}}}]),
    ):
        assert kept({"template": pod})["template"] == pod
    short = {"image": "i:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    assert kept(short).items() >= short.items()
