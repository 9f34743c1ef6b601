"""Jobs with a pod template by themselves: what they request, what is refused, what is warned of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError
from scavenger_api.job import ScavengerJobSpec
from scavenger_api.rules.job import problems_of_its_own
from scavenger_api.rules.quantities import size_warnings
from scavenger_api.rules.template import template_warnings

SOME = {"cpu": "1", "memory": "1Gi"}
GIB = 1 << 30


def container(name: str = "sim", resources: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "sim:1", "resources": resources or {"requests": SOME, "limits": SOME}, **fields}


def spec(
    pod: Mapping[str, Any] | None = None, metadata: Mapping[str, Any] | None = None, **more: Any
) -> ScavengerJobSpec:
    template = {"spec": {"containers": [container()], **(pod or {})}} | ({"metadata": metadata} if metadata else {})
    return ScavengerJobSpec.model_validate({"template": template, **more})


def asks(cpu: str, memory: str = "1Gi") -> dict[str, Any]:
    return {"requests": {"cpu": cpu, "memory": memory}}


# --- as it is written ---


def test_nothing_of_a_template_is_lost() -> None:
    written = {
        "metadata": {"labels": {"a": "b"}, "other": {"x": 1}},
        "spec": {
            "containers": [container(tty=True, envFrom=[{"prefix": "P_", "configMapRef": {"name": "c"}}])],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "someField": [{"deep": {"er": [1, None, 2.5]}}],
        },
    }
    read = ScavengerJobSpec.model_validate({"template": written})

    assert read.written_template == written
    assert ScavengerJobSpec.model_validate(read.model_dump(mode="json", by_alias=True)) == read


@pytest.mark.parametrize(
    ("pod", "where"),
    [
        ({"containers": []}, ("template", "spec", "containers")),
        ({"containers": [{"image": "x"}]}, ("template", "spec", "containers", 0, "name")),
        ({"nodeSelector": {"a": 1}}, ("template", "spec", "nodeSelector", "a")),
        ({"overhead": {"cpu": "much"}}, ("template", "spec", "overhead", "cpu")),
    ],
)
def test_a_template_that_nobody_can_read_is_no_job(pod: dict[str, Any], where: tuple[str | int, ...]) -> None:
    with pytest.raises(ValidationError) as refused:
        spec(pod)
    assert refused.value.errors()[0]["loc"] == where


# --- what it requests ---


@pytest.mark.parametrize(
    ("pod", "requests"),
    [
        ({}, {"cpu": 1000, "memory": GIB}),
        ({"containers": [container(), container("log", asks("250m"))]}, {"cpu": 1250, "memory": 2 * GIB}),
        ({"containers": [container("a", {"limits": SOME})]}, {"cpu": 1000, "memory": GIB}),
        ({"containers": [container("a", {**asks("500m"), "limits": {"cpu": "2"}})]}, {"cpu": 500, "memory": GIB}),
        ({"initContainers": [container("i", asks("4"))]}, {"cpu": 4000, "memory": GIB}),
        ({"initContainers": [container("i", asks("4")), container("j", asks("3"))]}, {"cpu": 4000, "memory": GIB}),
        ({"initContainers": [container("s", restartPolicy="Always")]}, {"cpu": 2000, "memory": 2 * GIB}),
        (
            {"initContainers": [container("s", restartPolicy="Always"), container("i", asks("4"))]},
            {"cpu": 5000, "memory": 2 * GIB},
        ),
        (
            {"initContainers": [container("i", asks("4")), container("s", restartPolicy="Always")]},
            {"cpu": 4000, "memory": 2 * GIB},
        ),
        ({"overhead": {"cpu": "100m"}}, {"cpu": 1100, "memory": GIB}),
        ({"resources": {"requests": {"cpu": "3"}}}, {"cpu": 3000, "memory": GIB}),
        ({"containers": [container("a", {"x": {}})], "resources": {"limits": SOME}}, {"cpu": 1000, "memory": GIB}),
        (
            {
                "containers": [container("a", {"x": {}})],
                "initContainers": [container("i", asks("500m"))],
                "resources": {"limits": {"cpu": "2", "memory": "2Gi"}},
            },
            {"cpu": 500, "memory": GIB},
        ),
    ],
)
def test_a_pod_requests_what_the_scheduler_counts(pod: dict[str, Any], requests: dict[str, int]) -> None:
    assert dict(spec(pod).requests) == requests


# --- what is refused ---


def problems(job: ScavengerJobSpec) -> dict[str, str]:
    return {one.field: one.message for one in problems_of_its_own(job)}


ON_GONE = {"rules": [{"action": "Count", "onExitCodes": {"containerName": "gone", "operator": "In", "values": [1]}}]}
SIDE: dict[str, Any] = {"containers": [container(env=[{"name": "SCAVENGER_INDEX", "value": "1"}])]}
CPU_ONLY: dict[str, Any] = {"containers": [container("a", {"requests": {"cpu": "1"}})]}
OURS: dict[str, Any] = {"containers": [container("a", {"limits": {**SOME, "scavenger.dev/reclaimed-cpu": "1"}})]}
UNEQUAL: dict[str, Any] = {"containers": [container("a", {"requests": {"cpu": "1"}, "limits": {**SOME, "cpu": "2"}})]}


@pytest.mark.parametrize(
    ("job", "field", "words"),
    [
        (spec(image="x"), "spec.template", "move spec.image to spec.template.spec.containers[0].image"),
        (spec(runAsUser=1), "spec.template", "move spec.runAsUser to spec.template.spec.securityContext.runAsUser"),
        (spec(mainContainer="gone"), "spec.mainContainer", "'gone' is no container of the template"),
        (spec(podFailurePolicy=ON_GONE), "spec.podFailurePolicy.rules[0].onExitCodes.containerName", "name one of sim"),
        (ScavengerJobSpec(main_container="a"), "spec.mainContainer", "leave it out"),
        (ScavengerJobSpec(), "spec.image", "it is mandatory"),
        (ScavengerJobSpec(), "spec.resources", "they are mandatory"),
        (spec({"nodeName": "n"}), "spec.template.spec.nodeName", "the scheduler chooses"),
        (spec({"activeDeadlineSeconds": 5}), "spec.template.spec.activeDeadlineSeconds", "spec.activeDeadlineSeconds"),
        (spec({"schedulingGates": [{"name": "a/b"}]}), "spec.template.spec.schedulingGates", "spec.suspend: true"),
        (spec({"resourceClaims": []}), "spec.template.spec.resourceClaims", "an extended resource"),
        (spec(metadata={"labels": {"scavenger.dev/x": ""}}), "spec.template.metadata.labels[scavenger.dev/x]", "leave"),
        (spec(SIDE), "spec.template.spec.containers[0].env[0].name", "set by the admitter"),
        (spec(CPU_ONLY), "spec.template.spec.containers[0].resources", "memory is mandatory"),
        (spec(OURS), "spec.template.spec.containers[0].resources.limits[scavenger.dev/reclaimed-cpu]", "Reclaimed"),
        (spec(UNEQUAL, capacity="Reclaimed"), "spec.template.spec.containers[0].resources.requests[cpu]", "aside"),
        (spec({"initContainers": [container(image="X")]}), "spec.template.spec.initContainers[0].image", "lower case"),
        (
            spec({"containers": [container("a", {"requests": {**SOME, "memory": "100m"}})]}),
            "spec.template.spec.containers[0].resources.requests[memory]",
            "thousandths",
        ),
        (
            spec({"terminationGracePeriodSeconds": 5}, terminationGracePeriodSeconds=60),
            "spec.terminationGracePeriodSeconds",
            "write it once",
        ),
        (
            spec({"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}),
            "spec.template.spec.serviceAccountName",
            "name the account",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_remedy(job: ScavengerJobSpec, field: str, words: str) -> None:
    assert words in problems(job).get(field, ""), problems(job)


def test_a_template_that_is_good_is_not_refused() -> None:
    assert problems(spec({"nodeSelector": {"a": "b"}}, mainContainer="sim", capacity="Reclaimed")) == {}


# --- what is warned of ---


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        ({}, []),
        ({"restartPolicy": "Never", "schedulerName": "default-scheduler"}, []),
        ({"restartPolicy": "OnFailure"}, ["restartPolicy: the admitter sets Never"]),
        ({"priorityClassName": "high"}, ["priorityClassName: the admitter sets scavenger-preemptible"]),
        ({"schedulerName": "volcano"}, ["schedulerName: the admitter leaves it out"]),
        (
            {"containers": [container("a", {"requests": SOME, "limits": {"cpu": "2"}})]},
            ["cpu and memory requests differ from limits: it may be throttled to its request, and be killed first"],
        ),
        (
            {"containers": [container("a", {"requests": SOME, "limits": {**SOME, "memory": "2Gi"}})]},
            ["container a: memory requests differ from limits: it may be killed first"],
        ),
    ],
)
def test_who_writes_what_becomes_something_else_is_warned(pod: dict[str, Any], words: list[str]) -> None:
    warnings = [*template_warnings(spec(pod)), *size_warnings(spec(pod))]

    assert len(warnings) == len(words)
    assert all(word in warning for word, warning in zip(words, warnings, strict=True))


def test_who_keeps_a_node_is_warned() -> None:
    keeps = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "a": "b"}
    kept = spec({}, metadata={"annotations": keeps})
    (said,) = template_warnings(kept)
    assert "annotations[cluster-autoscaler.kubernetes.io/safe-to-evict]: the admitter leaves it out" in said
    assert list(template_warnings(spec({}, metadata={"annotations": {**keeps, next(iter(keeps)): "true"}}))) == []
