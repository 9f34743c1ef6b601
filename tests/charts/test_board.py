"""The board may read and nothing else, and nobody reaches it unless somebody says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .test_charts import Chart, container, environment

pytestmark = pytest.mark.timeout(900)  # helm may have to be built first

Object = dict[str, Any]

TOKEN: Object = {"settings": {"access": "token"}, "page": {"tls": {"secretName": "board-certificate"}}}
READING = {"get", "list", "watch"}


def rules(objects: dict[str, Object]) -> list[Object]:
    """Of all roles but those for `helm uninstall`."""
    roles = [o for o in objects.values() if o["kind"] in ("Role", "ClusterRole")]
    return [rule for role in roles if not role["metadata"]["name"].endswith("-uninstall") for rule in role["rules"]]


@pytest.mark.parametrize("values", [{}, TOKEN], ids=["loopback", "token"])
def test_it_may_read_and_nothing_else_and_no_secret(helm: Path, values: Object) -> None:
    found = rules(Chart(helm, "board").objects(values))

    assert found
    assert {verb for rule in found for verb in rule["verbs"]} <= READING
    assert "secrets" not in {resource for rule in found for resource in rule.get("resources", ())}


def test_by_default_nothing_leads_to_the_page_but_a_port_forward(helm: Path) -> None:
    objects = Chart(helm, "board").objects()

    assert [o["metadata"]["name"] for o in objects.values() if o["kind"] == "Service"] == ["scavenger-board"]
    assert [port["targetPort"] for port in objects["Service"]["spec"]["ports"]] == ["http"], "metrics"
    assert objects["NetworkPolicy"]["spec"]["ingress"] == []
    assert [o["roleRef"]["name"] for o in objects.values() if o["kind"] == "ClusterRoleBinding"] == ["scavenger-board"]
    assert objects["Deployment"]["spec"]["replicas"] == 1


def test_with_tokens_it_is_served_over_tls_and_may_ask_whose_they_are(helm: Path) -> None:
    objects = Chart(helm, "board").objects(TOKEN)
    pod = objects["Deployment"]["spec"]["template"]["spec"]

    assert environment(objects["Deployment"]) == {
        "SCAVENGER_ACCESS": "token",
        "SCAVENGER_TLS_FOLDER": "/etc/scavenger/board-tls",
    }
    assert pod["volumes"][0]["secret"]["secretName"] == "board-certificate"
    assert container(objects["Deployment"])["volumeMounts"] == [
        {"name": "tls", "mountPath": "/etc/scavenger/board-tls", "readOnly": True}
    ]
    services = {o["metadata"]["name"]: o for o in objects.values() if o["kind"] == "Service"}
    assert services["scavenger-board-page"]["spec"]["ports"] == [{"name": "https", "port": 443, "targetPort": 8090}]
    assert [port["port"] for port in objects["NetworkPolicy"]["spec"]["ingress"][0]["ports"]] == [8090]
    bound = [o["roleRef"]["name"] for o in objects.values() if o["kind"] == "ClusterRoleBinding"]
    assert sorted(bound) == ["scavenger-board", "system:auth-delegator"]
    assert {"nonResourceURLs": ["/scavenger/board"], "verbs": ["get"]} in rules(objects)


def test_one_binding_whoever_asks_whose_a_token_is(helm: Path) -> None:
    metrics = {"metrics": {"tls": {"secretName": "m"}, "auth": "token"}}
    for values in (metrics, TOKEN | metrics):
        objects = Chart(helm, "board").objects(values)
        bound = [o["roleRef"]["name"] for o in objects.values() if o["kind"] == "ClusterRoleBinding"]
        assert bound.count("system:auth-delegator") == 1


def test_no_token_is_sent_in_clear(helm: Path) -> None:
    assert "settings.access=token needs page.tls.secretName" in Chart(helm, "board").refused(
        {"settings": {"access": "token"}}
    )
    assert Chart(helm, "board").objects({"settings": {"access": "token", "tlsFolder": "/mine"}})["Deployment"]


@pytest.mark.parametrize(
    ("url", "reached"),
    [("http://prometheus.monitoring:9091/path", [9091, 9090]), ("https://prometheus.example", [443, 9090])],
)
def test_prometheus_is_reached_where_it_is_asked(helm: Path, url: str, reached: list[int]) -> None:
    spec = Chart(helm, "board").objects({"settings": {"prometheusUrl": url}})["NetworkPolicy"]["spec"]
    ports = [port["port"] for port in spec["egress"][1]["ports"]]

    assert set(reached) <= set(ports)
