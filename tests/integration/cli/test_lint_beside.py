"""lint beside the API server: each refuses what the other refuses, for the same fields."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from scavenger_cli.lint.check import check
from scavenger_domain.pod_security import Level
from scavenger_kube.blocking import Client
from scavenger_kube.errors import Invalid
from scavenger_kube.kubeconfig import load

from .conftest import Sj

AMOUNTS = {"cpu": "1", "memory": "1Gi"}
MOUNT = {"name": "a", "mountPath": "/x"}
FROM = {"fieldRef": {"fieldPath": "metadata.name"}}

GOOD: tuple[dict[str, Any], ...] = (
    {},
    {"interruptionAfter": "7d"},
    {"resources": {"limits": {"cpu": 1, "memory": "1Gi"}}},
    {"resources": {"requests": {"cpu": "1000m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1024Mi"}}},
    {"resources": {"requests": {**AMOUNTS, "nvidia.com/gpu": 1}}},
    {"resources": {"requests": AMOUNTS, "limits": {**AMOUNTS, "cpu": "2"}}},
    {"capacity": "Reclaimed", "resources": {"requests": {"cpu": "0"}, "limits": AMOUNTS}},
    {"suspend": None, "parallelism": 2, "secrets": [MOUNT], "configMaps": [{**MOUNT, "mountPath": "/y"}]},
    {"tolerations": [{"operator": "Exists"}, {"key": "a", "effect": "NoExecute", "tolerationSeconds": 3}]},
    {"env": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": FROM}], "envFrom": [{"secretRef": {"name": "a"}}]},
    {"securityContext": {"privileged": False, "seccompProfile": {"type": "Localhost", "localhostProfile": "a/b"}}},
)
BAD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("spec.image", {"image": None}),
    ("spec.image", {"image": ""}),
    ("spec.image", {"image": "a b"}),
    ("spec.queue", {"queue": "Night"}),
    ("spec.parallelism", {"parallelism": "2"}),
    ("spec.parallelism", {"parallelism": 10_001}),
    ("spec.parallelism", {"parallelism": 2**31}),
    ("spec.suspend", {"suspend": "yes"}),
    ("spec.capacity", {"capacity": "reclaimed"}),
    ("spec.args", {"args": "x"}),
    ("spec.args[0]", {"args": [1]}),
    ("spec.args[0]", {"args": [None]}),
    ("spec.interruptionAfter", {"interruptionAfter": "8d"}),
    ("spec.interruptionAfter", {"interruptionAfter": "0.5s"}),
    ("spec.interruptionAfter", {"interruptionAfter": "soon"}),
    ("spec.terminationGracePeriodSeconds", {"terminationGracePeriodSeconds": -1}),
    ("spec.resources", {"resources": {}}),
    ("spec.resources", {"resources": {"requests": {**AMOUNTS, "cpu": "0"}}}),
    ("spec.resources", {"resources": {"requests": {**AMOUNTS, "gpu": 1}}}),
    ("spec.resources", {"resources": {"requests": {**AMOUNTS, "nvidia.com/gpu": "500m"}}}),
    ("spec.resources", {"resources": {"requests": {**AMOUNTS, "scavenger.dev/x": 1}}}),
    ("spec.resources", {"resources": {"requests": AMOUNTS, "limits": {**AMOUNTS, "cpu": "500m"}}}),
    ("spec.resources.requests.cpu", {"resources": {"requests": {**AMOUNTS, "cpu": "1 core"}}}),
    ("spec.resources.requests.cpu", {"resources": {"requests": {**AMOUNTS, "cpu": 0.5}}}),
    ("spec.env[1]", {"env": [{"name": "A"}, {"name": "A"}]}),
    ("spec.env[0].name", {"env": [{"name": "SCAVENGER_INDEX", "value": "1"}]}),
    ("spec.env[0]", {"env": [{"name": "A", "value": "x", "valueFrom": FROM}]}),
    ("spec.env[0].valueFrom", {"env": [{"name": "A", "valueFrom": {}}]}),
    ("spec.envFrom[0]", {"envFrom": [{"prefix": "A"}]}),
    ("spec.tolerations[0]", {"tolerations": [{"operator": "Equal"}]}),
    ("spec.tolerations[0]", {"tolerations": [{"key": "a", "tolerationSeconds": 3}]}),
    ("spec.secrets[0].subPath", {"secrets": [{**MOUNT, "subPath": "../x"}]}),
    ("spec", {"secrets": [MOUNT], "configMaps": [MOUNT]}),
    ("spec.runAsUser", {"runAsUser": 0, "securityContext": {"runAsNonRoot": True}}),
    ("spec.runAsUser", {"runAsUser": -1}),
    ("spec.securityContext.privileged", {"securityContext": {"privileged": True}}),
    ("spec.securityContext.seccompProfile.localhostProfile",
     {"securityContext": {"seccompProfile": {"type": "Localhost"}}}),
)  # fmt: skip


def manifest(spec: dict[str, Any]) -> dict[str, Any]:
    whole = {"image": "none", "resources": {"requests": AMOUNTS}, **spec}
    whole = {key: value for key, value in whole.items() if key != "image" or value is not None}
    return {
        "apiVersion": "scavenger.dev/v1alpha1",
        "kind": "ScavengerJob",
        "metadata": {"name": "sim"},
        "spec": whole,
    }


def plain(field: str) -> str:
    """`requests[cpu]` as the API server writes it."""
    return field.replace("[cpu]", ".cpu") or "the object"


def test_lint_and_the_api_server_agree(sj: Sj) -> None:
    path, params = sj.path("scavengerjobs"), {"dryRun": "All", "fieldValidation": "Strict"}
    with Client(lambda: load(str(sj.cluster.kubeconfig))) as client:
        for spec in GOOD:
            assert check(manifest(spec), Level.BASELINE)[0] == [], spec
            client.request("POST", path, body=manifest(spec), params=params)
        for field, spec in BAD:
            ours = {plain(one.field) for one in check(manifest(spec), Level.BASELINE)[0]}
            with pytest.raises(Invalid) as refused:
                client.request("POST", path, body=manifest(spec), params=params)
            theirs = {one["field"] for one in refused.value.details["causes"]}
            assert field in ours, (field, ours)
            assert field in theirs, (field, theirs)


def test_unknown_fields_are_refused_by_both(sj: Sj) -> None:
    file = sj.folder / "job.yaml"
    file.write_text(json.dumps(manifest({"paralelism": 2})))
    assert (
        "spec.paralelism: unknown field; did you mean parallelism?" in sj.run("lint", str(file), namespace=False).stdout
    )
    assert any(
        "unknown field spec.paralelism: did you mean parallelism?" in line
        for line in sj.refused(1, "submit", str(file))
    )
    assert sj.run("lint", str(file), namespace=False).returncode == 2


def test_once_more_and_all_there_is_to_know(sj: Sj) -> None:
    sj("run", "sim", "--image", "none", "--cpu", "1", "--memory", "1Gi", "--grace", "1", "--suspended")
    sj("wait", "sim", "--for=suspended", "--timeout", "120s")
    again = yaml.safe_load(sj.run("resubmit", "sim", "--cpu", "2", "--dry-run", "-o", "yaml").stdout)
    assert again["spec"]["resources"]["requests"]["cpu"] == "2"
    assert sj("resubmit", "sim", "--cpu", "2") == ["scavengerjob.scavenger.dev/sim-2 created"]
    sj("wait", "sim-2", "--for=running", "--timeout", "120s")
    lines = sj("describe", "sim-2")
    for title in ("Timeline:", "Conditions:", "Pods:"):
        assert title in lines
    assert any(line.startswith("Events:") for line in lines)
    assert any(line.startswith("  sim-2-0-POD  Running  fake-00") for line in lines)
    assert sj.refused(1, "resubmit", "sim-2")[0] == "error: sim-2 is Running: two would write to the same volumes"


def test_versions(sj: Sj) -> None:
    found = json.loads(sj.run("version", "-o", "json", namespace=False).stdout)
    assert found["server"].startswith("v1.")
    assert found["services"] == {}
