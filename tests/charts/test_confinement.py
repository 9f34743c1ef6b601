"""What pods of the services may do, whom they reach, who reaches them, and over what their replicas are spread."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from .test_charts import ROOT, SERVICES, USERS_OF_THE_LIBRARY, Chart, container

pytestmark = pytest.mark.timeout(900)  # helm may have to be built first

Object = dict[str, Any]

POD: Object = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER: Object = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
API_SERVER = [443, 6443, 8443, 16443]
DNS = {("UDP", 53), ("TCP", 53), ("UDP", 5353), ("TCP", 5353)}


def pods(objects: dict[str, Object]) -> list[Object]:
    """The specs of all pods that a chart makes: of the service, and of the hook that cleans up, where there is one."""
    return [o["spec"]["template"]["spec"] for o in objects.values() if o["kind"] in ("Deployment", "Job")]


def containers(spec: Object) -> list[Object]:
    return [*spec.get("initContainers", ()), *spec["containers"]]


def ports(rule: Object) -> list[Any]:
    assert {port["protocol"] for port in rule["ports"]} == {"TCP"}
    return [port["port"] for port in rule["ports"]]


# --- security contexts ---


@pytest.mark.parametrize("name", USERS_OF_THE_LIBRARY)
def test_every_pod_passes_where_pod_security_is_restricted(helm: Path, name: str) -> None:
    found = pods(Chart(helm, name).objects())

    assert len(found) == (1 if name == "scheduler" else 2)
    assert [spec["securityContext"] for spec in found] == [POD] * len(found)
    assert {json.dumps(c["securityContext"], sort_keys=True) for spec in found for c in containers(spec)} == {
        json.dumps(CONTAINER, sort_keys=True)
    }


@pytest.mark.parametrize("name", USERS_OF_THE_LIBRARY)
def test_single_fields_of_a_security_context_are_replaced_or_left_out(helm: Path, name: str) -> None:
    values = {
        "podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": 2000},
        "securityContext": {"readOnlyRootFilesystem": False, "seLinuxOptions": {"level": "s0"}},
    }
    pod = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}, "fsGroup": 2000}
    main = {**CONTAINER, "readOnlyRootFilesystem": False, "seLinuxOptions": {"level": "s0"}}

    for spec in pods(Chart(helm, name).objects(values)):
        assert spec["securityContext"] == pod
        assert all(c["securityContext"] == main for c in containers(spec))


@pytest.mark.parametrize("name", USERS_OF_THE_LIBRARY)
def test_a_security_context_of_nothing_is_none(helm: Path, name: str) -> None:
    values = {"podSecurityContext": dict.fromkeys(POD), "securityContext": dict.fromkeys(CONTAINER)}

    for spec in pods(Chart(helm, name).objects(values)):
        assert "securityContext" not in spec
        assert not any("securityContext" in c for c in containers(spec))


# --- the network ---


@pytest.mark.parametrize("name", USERS_OF_THE_LIBRARY)
def test_only_what_is_needed_comes_in_and_goes_out(helm: Path, name: str) -> None:
    objects = Chart(helm, name).objects()
    spec = objects["NetworkPolicy"]["spec"]
    (chosen,) = spec["podSelector"]["matchExpressions"]

    assert objects["NetworkPolicy"]["metadata"]["namespace"] == "elsewhere"
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert (chosen["key"], chosen["operator"]) == ("app.kubernetes.io/name", "In")
    for o in objects.values():
        if o["kind"] in ("Deployment", "Job"):
            labels = o["spec"]["template"]["metadata"]["labels"]
            assert labels["app.kubernetes.io/name"] in chosen["values"], "the hook has to reach the API server too"
    assert [ports(rule) for rule in spec["ingress"]] == ([[9443]] if name == "webhook" else [])
    dns, api = spec["egress"]
    assert {(port["protocol"], port["port"]) for port in dns["ports"]} == DNS
    assert ports(api) == API_SERVER
    assert not [rule for rule in spec["egress"] if "to" in rule], "addresses that nobody knows beforehand"


@pytest.mark.parametrize("name", USERS_OF_THE_LIBRARY)
def test_who_reads_metrics_and_what_else_is_reached_is_the_administrators(helm: Path, name: str) -> None:
    monitoring = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    extra = {"ports": [{"port": 3128, "protocol": "TCP"}]}
    network = {"metricsFrom": monitoring, "apiServerPorts": [7443], "extraIngress": [extra], "extraEgress": [extra]}
    objects = Chart(helm, name).objects({"networkPolicy": network})
    spec = objects["NetworkPolicy"]["spec"]

    assert [port["name"] for port in container(objects["Deployment"])["ports"]] == ports(spec["ingress"][0])
    assert spec["ingress"][0]["from"] == monitoring
    assert not [rule for rule in spec["ingress"][1:] if "from" in rule], "the API server still reaches the webhook"
    assert spec["ingress"][-1] == spec["egress"][-1] == extra
    assert ports(spec["egress"][1]) == [7443]


@pytest.mark.parametrize("name", USERS_OF_THE_LIBRARY)
def test_without_network_policies(helm: Path, name: str) -> None:
    assert "NetworkPolicy" not in Chart(helm, name).objects({"networkPolicy": {"enabled": False}})


def test_the_port_of_the_webhook_is_that_of_its_settings(helm: Path) -> None:
    spec = Chart(helm, "webhook").objects({"settings": {"port": 8443}})["NetworkPolicy"]["spec"]

    assert ports(spec["ingress"][0]) == [8443]


@pytest.mark.parametrize(
    ("url", "reached"),
    [
        ("http://prometheus.monitoring:9091/path", [9091, 9090]),
        ("http://prometheus.monitoring", [80, 9090]),
        ("https://prometheus.example.com", [9090]),
        ("http://prometheus:9090", [9090]),
        ("http://[2001:db8::1]:9095", [9095, 9090]),
        ("http://[2001:db8::1]", [80, 9090]),
    ],
)
def test_the_regulator_reaches_prometheus_where_it_asks_it(helm: Path, url: str, reached: list[int]) -> None:
    settings = {"source": "prometheus", "prometheusUrl": url}
    spec = Chart(helm, "regulator").objects({"settings": settings})["NetworkPolicy"]["spec"]

    assert ports(spec["egress"][1]) == [*API_SERVER, *reached]


# --- the spread ---


@pytest.mark.parametrize("name", USERS_OF_THE_LIBRARY)
@pytest.mark.parametrize(
    "spread",
    [
        {"topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"},
        {"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"},
    ],
    ids=["default", "zones"],
)
def test_replicas_are_spread(helm: Path, name: str, spread: dict[str, str]) -> None:
    values = {} if spread["whenUnsatisfiable"] == "ScheduleAnyway" else {"topologySpread": spread}
    deployment = Chart(helm, name).objects(values)["Deployment"]
    (constraint,) = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]

    chosen = constraint.pop("labelSelector")
    assert constraint == {"maxSkew": 1, **spread}
    assert chosen == deployment["spec"]["selector"]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"topologySpread": {"whenUnsatisfiable": "Never"}}, "/topologySpread/whenUnsatisfiable"),
        ({"topologySpread": {"topologyKey": ""}}, "/topologySpread/topologyKey"),
        ({"networkPolicy": {"enabled": "yes"}}, "/networkPolicy/enabled"),
        ({"networkPolicy": {"apiServerPorts": []}}, "/networkPolicy/apiServerPorts"),
        ({"networkPolicy": {"apiServerPorts": [0]}}, "/networkPolicy/apiServerPorts/0"),
        ({"networkPolicy": {"metricFrom": []}}, "'metricFrom'"),
        ({"securityContext": []}, "/securityContext"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("name", ["admitter", "scheduler"])
def test_typo_is_refused_by_name(helm: Path, name: str, values: dict[str, Any], named: str) -> None:
    assert named in Chart(helm, name).refused(values)


@pytest.mark.parametrize("name", SERVICES)
def test_the_manifests_have_the_network_policy(name: str) -> None:
    listed = yaml.safe_load((ROOT / "manifests" / name / "kustomization.yaml").read_text())["resources"]

    assert "networkpolicy.yaml" in listed
