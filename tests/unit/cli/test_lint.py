"""lint: what is wrong with files, by the rules of the API and nobody else's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from scavenger_api.rules.problem import Problem
from scavenger_cli.lint.check import check, schema_of
from scavenger_cli.lint.unknown import PLACES
from scavenger_domain.pod_security import Level
from scavenger_testing import pages

from .conftest import Run

GOOD: dict[str, Any] = {"image": "app:1", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}


def job(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scavenger.dev/v1alpha1",
        "kind": "ScavengerJob",
        "metadata": {"name": "sim"},
        "spec": {key: value for key, value in {**GOOD, **spec}.items() if value is not ...},
    }


def found(manifest: dict[str, Any], level: Level = Level.RESTRICTED) -> list[Problem]:
    return check(manifest, level)[0]


def requests(**amounts: Any) -> dict[str, Any]:
    return {"requests": {"cpu": "1", "memory": "1Gi", **amounts}}


def mount(path: str) -> dict[str, str]:
    return {"name": "a", "mountPath": path}


FIELD = {"fieldRef": {"fieldPath": "spec.x"}}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"resources": {"limits": {"cpu": 1, "memory": "1Gi"}}},
        {"parallelism": 3, "queue": "night", "args": ["a"], "env": [{"name": "A", "value": "b"}]},
        {"capacity": "Reclaimed", "resources": {"requests": {"cpu": "0"}, "limits": {"cpu": "2", "memory": "1Gi"}}},
        {"interruptionAfter": "7d", "terminationGracePeriodSeconds": 0, "suspend": None},
        {"nodeSelector": {"disk": "ssd"}, "resources": requests(**{"nvidia.com/gpu": 1})},
    ],
)
def test_good_jobs(spec: dict[str, Any]) -> None:
    assert found(job(**spec)) == []


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"resourcesFrom": "Recommended", "array": {"tasks": 2}}, "spec.resourcesFrom", "leave it out of arrays"),
        ({"resourcesFrom": "Spec"}, "spec.resourcesFrom", "Recommended"),
        ({"image": ...}, "spec.image", "it is mandatory: name a container image"),
        ({"image": ""}, "spec.image", "must not be empty"),
        ({"image": "App:1"}, "spec.image", "is in lower case: write app"),
        ({"paralelism": 2}, "spec.paralelism", "did you mean parallelism?"),
        ({"whatever": 2}, "spec.whatever", "unknown field; remove it"),
        ({"requests": {"cpu": "1"}}, "spec.requests", "write resources.requests"),
        ({"limits": {"cpu": "1"}}, "spec.limits", "write resources.limits"),
        ({"cpu": "1"}, "spec.cpu", "write resources.requests.cpu"),
        ({"memory": "1Gi"}, "spec.memory", "write resources.requests.memory"),
        ({"gpu": 1}, "spec.gpu", "write resources.requests[nvidia.com/gpu]"),
        ({"amd.com/gpu": 1}, "spec.amd.com/gpu", "write resources.requests[amd.com/gpu]"),
        ({"resources": {**requests(), "cpu": "1"}}, "spec.resources.cpu", "write resources.requests.cpu"),
        ({"resources": {**requests(), "a.b/c": 1}}, "spec.resources.a.b/c", "write resources.requests[a.b/c]"),
        ({"replicas": 2}, "spec.replicas", "write parallelism"),
        ({"completions": 2}, "spec.completions", "write array.tasks"),
        ({"restartPolicy": "Never"}, "spec.restartPolicy", "remove it; the admitter starts a job again"),
        ({"containers": []}, "spec.containers", "write template.spec.containers"),
        ({"volumes": []}, "spec.volumes", "write persistentVolumeClaims, configMaps or secrets"),
        ({"affinity": {}}, "spec.affinity", "write template.spec.affinity"),
        ({"volumeMounts": []}, "spec.volumeMounts", "write mountPath"),
        ({"priorityClassName": "x"}, "spec.priorityClassName", "write priority"),
        ({"parallelism": "2"}, "spec.parallelism", "is not a whole number"),
        ({"parallelism": True}, "spec.parallelism", "is not a whole number"),
        ({"parallelism": 0}, "spec.parallelism", "from 1 to 10000"),
        ({"suspend": "yes"}, "spec.suspend", "true or false"),
        ({"args": "x"}, "spec.args", "is not a list"),
        ({"args": [1]}, "spec.args[0]", "put it in quotes"),
        ({"queue": "Night"}, "spec.queue", "lower case letters, digits and dashes"),
        ({"capacity": "reclaimed"}, "spec.capacity", "did you mean Reclaimed?"),
        ({"interruptionAfter": "8d"}, "spec.interruptionAfter", "from 1s to 7d"),
        ({"resources": {}}, "spec.resources", "memory is mandatory"),
        ({"resources": requests(cpu=0.5)}, "spec.resources.requests[cpu]", "put it in quotes"),
        ({"resources": requests(cpu="1 core")}, "spec.resources.requests[cpu]", "a quantity: a number"),
        ({"resources": requests(cpu="0")}, "spec.resources", "greater than zero"),
        ({"resources": requests(memory="16")}, "spec.resources.requests[memory]", "write Mi or Gi"),
        ({"resources": requests(gpu=1)}, "spec.resources", "a device with its domain"),
        ({"resources": {**requests(), "limits": {"cpu": "0.5"}}}, "spec.resources", "at most its limit"),
        ({"env": [{"name": "A"}, {"name": "A"}]}, "spec.env[1]", "name A already"),
        ({"env": [None, None]}, "spec.env[1]", "is not a mapping"),
        ({"env": [{"name": "SCAVENGER_INDEX", "value": "1"}]}, "spec.env[0].name", "set by the admitter"),
        ({"env": [{"name": "A", "value": "x", "valueFrom": FIELD}]}, "spec.env[0]", "not both"),
        ({"env": [{"name": "A", "valueFrom": FIELD}]}, "spec.env[0].valueFrom.fieldRef.fieldPath", "no field that"),
        ({"tolerations": [{"operator": "Equal"}]}, "spec.tolerations[0]", "needs operator: Exists"),
        ({"secrets": [mount("/x")], "configMaps": [mount("/x")]}, "spec", "share a path"),
        ({"secrets": [mount("/x")], "configMaps": [mount("/x/")]}, "spec.secrets[0].mountPath", "the same folder"),
        ({"nodeSelector": {"a b": "c"}}, "spec.nodeSelector[a b]", "begins and ends with a letter or digit"),
        ({"runAsUser": 0}, "spec.runAsUser", "root"),
        ({"securityContext": {"privileged": True}}, "spec.securityContext.privileged", "leave it out"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) and ... not in value.values() else None,
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_remedy(spec: dict[str, Any], field: str, words: str) -> None:
    problems = found(job(**spec))
    assert any(one.field == field and words in one.message for one in problems), problems


@pytest.mark.parametrize("field", PLACES)
def test_fields_with_a_place_elsewhere_are_unknown_and_the_place_is_known(field: str) -> None:
    *parents, name = field.split(".")[1:]
    spec = schema_of("ScavengerJob")["properties"]["spec"]["properties"]
    beside = spec
    for parent in parents:
        beside = beside[parent]["properties"]
    assert name not in beside
    remedy = PLACES[field]
    place = re.match(r"write (\w+)", remedy)
    if place is not None and " in template" not in remedy and place[1] != "mountPath":
        assert place[1] in spec


def test_fields_of_the_spec_beside_it_belong_into_it() -> None:
    problems = found({**job(), "parallelism": 2, "requests": {}})
    assert [(one.field, one.message) for one in problems] == [
        ("parallelism", "unknown field; write spec.parallelism"),
        ("requests", "unknown field; write spec.resources.requests"),
    ]


def test_everything_is_said_at_once() -> None:
    problems = found(job(image="", parallelism=0, queue="Night"))
    assert {one.field for one in problems} == {"spec.queue", "spec.image", "spec.parallelism"}


def test_a_namespace_may_allow_root() -> None:
    assert found(job(runAsUser=0), Level.BASELINE) == []


@pytest.mark.parametrize(
    ("metadata", "field", "words"),
    [
        ({"name": "Sim"}, "metadata.name", "lower case letters"),
        ({"name": "a" * 53}, "the object", "at most 52 characters"),
        ({"name": "a.b"}, "the object", "no dots"),
        ({"name": "a", "labels": {"team": 3}}, "metadata.labels[team]", "put it in quotes"),
        ({"name": "a", "labels": {"team!": "x"}}, "metadata.labels[team!]", "a name has up to 63"),
        ({"name": "a", "annotations": []}, "metadata.annotations", "not a mapping"),
    ],
)
def test_names_and_labels(metadata: dict[str, Any], field: str, words: str) -> None:
    problems = found({**job(), "metadata": metadata})
    assert any((one.field or "the object") == field and words in one.message for one in problems), problems


def test_queues() -> None:
    queue = {"apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerQueue", "metadata": {"name": "night"}}
    assert found({**queue, "spec": {"weight": 2, "quota": {"cpu": "10"}}}) == []
    problems = found({**queue, "spec": {"weight": 0, "quota": {"cpu": "-1"}}})
    assert any(one.field == "spec.weight" for one in problems)
    assert "zero or more" in found({**queue, "spec": {"quota": {"cpu": "-1"}}})[0].message


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(st.sampled_from(["name", "requests", "limits", "cpu", "env", "image", "key"]), inner)
        ),
        max_leaves=8,
    ),
    st.sampled_from(["resources", "env", "args", "tolerations", "secrets", "securityContext", "interruptionAfter"]),
)
def test_whatever_is_written_gets_an_answer(value: Any, field: str) -> None:
    assert isinstance(found(job(**{field: value})), list)


def test_the_command(sj: Run, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(json.dumps(job(secrets=[{"name": "a", "mountPath": "/etc"}])))
    bad.write_text(json.dumps(job(image="")) + "\n---\n" + json.dumps(job(runAsUser=0)))
    code, out, err = sj("lint", str(good))
    assert (code, out) == (0, f"{good}: ScavengerJob sim: ok\n")
    assert err.startswith(f"warning: {good}: ScavengerJob sim: spec.secrets[0].mountPath: /etc hides")
    assert f"warning: {good}: ScavengerJob sim: spec.persistentVolumeClaims: no volume outlives a pod" in err
    code, out, err = sj("lint", str(good), str(bad))
    assert code == 2
    assert f"{bad}: ScavengerJob sim: spec.image: it must not be empty" in out
    assert err.endswith("error: 2 problems\n")
    assert sj("lint", str(bad), "--pod-security", "baseline")[2].endswith("error: 1 problem\n")
    assert sj("lint", str(good), "--pod-security", "privileged")[0] == 2
    assert sj("lint", "/nowhere")[0] == 2


ROOT = Path(__file__).resolve().parents[3]
OURS = re.compile(r"^kind: Scavenger(Job|Queue)$", re.MULTILINE)
MANIFESTS = [
    path
    for folder in ("demo-apps", "docs", "manifests")
    for path in sorted((ROOT / folder).rglob("*.yaml"))
    if OURS.search(path.read_text())
]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_manifest_passes(sj: Run, path: Path) -> None:
    code, out, err = sj("lint", str(path))
    assert code == 0, err
    assert out.endswith(": ok\n")


def test_the_example_of_the_pages_is_whole(sj: Run, tmp_path: Path) -> None:
    (text,) = pages.blocks(ROOT / "docs" / "jobs.md", "## Write a job", "yaml")
    path = tmp_path / "simulation.yaml"
    path.write_text(text)
    assert sj("lint", str(path))[0] == 0
    claims = {one["metadata"]["name"] for one in yaml.safe_load_all(text) if one["kind"] == "PersistentVolumeClaim"}
    jobs = [one for one in yaml.safe_load_all(text) if one["kind"] == "ScavengerJob"]
    assert {mount["name"] for job in jobs for mount in job["spec"]["persistentVolumeClaims"]} == claims
