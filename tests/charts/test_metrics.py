"""/metrics over TLS, with tokens reviewed: one value each, and everything that belongs to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .test_charts import SERVICES, USERS_OF_THE_LIBRARY, Chart, container, environment

pytestmark = pytest.mark.timeout(900)  # helm may have to be built first

Object = dict[str, Any]

TLS: Object = {"metrics": {"tls": {"secretName": "metrics-certificate"}}, "serviceMonitor": {"enabled": True}}
TOKEN: Object = TLS | {"metrics": TLS["metrics"] | {"auth": "token", "port": 9444}}


def endpoint(objects: dict[str, Object]) -> Object:
    (found,) = objects["ServiceMonitor"]["spec"]["endpoints"]
    return dict(found)


def delegators(objects: dict[str, Object]) -> list[Object]:
    """The bindings of the cluster's role for whoever reviews tokens and rights."""
    bindings = [o for o in objects.values() if o["kind"] == "ClusterRoleBinding"]
    return [o for o in bindings if o["roleRef"]["name"] == "system:auth-delegator"]


@pytest.mark.parametrize("name", SERVICES)
def test_off_nothing_of_it_is_there(helm: Path, name: str) -> None:
    objects = Chart(helm, name).objects({"serviceMonitor": {"enabled": True}})

    assert [port["name"] for port in container(objects["Deployment"])["ports"]] == ["http"]
    assert "metrics-tls" not in json.dumps(objects)
    assert "METRICS" not in json.dumps(objects)
    assert objects["Service"]["spec"]["ports"] == [{"name": "http-metrics", "port": 8080, "targetPort": "http"}]
    assert endpoint(objects) == {"port": "http-metrics", "interval": "30s"}
    assert not delegators(objects)


@pytest.mark.parametrize("name", SERVICES)
def test_over_tls(helm: Path, name: str) -> None:
    objects = Chart(helm, name).objects({**TLS, "networkPolicy": {"metricsFrom": [{"podSelector": {}}]}})
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    main = container(objects["Deployment"])

    assert environment(objects["Deployment"]) == {
        "SCAVENGER_METRICS_TLS_FOLDER": "/etc/scavenger/metrics-tls",
        "SCAVENGER_METRICS_PORT": "8443",
        "SCAVENGER_METRICS_AUTH": "none",
    }
    assert {port["name"]: port["containerPort"] for port in main["ports"]} == {"http": 8080, "https": 8443}
    assert {main[probe]["httpGet"]["port"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")} == {"http"}
    assert main["volumeMounts"] == [
        {"name": "metrics-tls", "mountPath": "/etc/scavenger/metrics-tls", "readOnly": True}
    ]
    (volume,) = pod["volumes"]
    assert volume["secret"]["secretName"] == "metrics-certificate"
    assert [item["key"] for item in volume["secret"]["items"]] == ["tls.crt", "tls.key"]
    assert objects["Service"]["spec"]["ports"] == [{"name": "https-metrics", "port": 8080, "targetPort": "https"}]
    assert [port["port"] for port in objects["NetworkPolicy"]["spec"]["ingress"][0]["ports"]] == ["https"]
    assert endpoint(objects) == {
        "port": "https-metrics",
        "scheme": "https",
        "interval": "30s",
        "tlsConfig": {
            "ca": {"secret": {"name": "metrics-certificate", "key": "ca.crt"}},
            "serverName": f"scavenger-{name}.elsewhere.svc",
        },
    }
    assert not delegators(objects)


@pytest.mark.parametrize("name", SERVICES)
def test_with_tokens(helm: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = Chart(helm, name).objects(TOKEN)

    assert endpoint(objects)["bearerTokenFile"] == "/var/run/secrets/kubernetes.io/serviceaccount/token"
    (binding,) = delegators(objects)
    assert binding["metadata"]["name"] == f"scavenger-{name}:auth-delegator"
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": f"scavenger-{name}", "namespace": "elsewhere"},
    ]
    for variable, value in environment(objects["Deployment"]).items():
        monkeypatch.setenv(variable, value)
    read = SERVICES[name]()
    assert (read.metrics_tls_folder, read.metrics_auth) == ("/etc/scavenger/metrics-tls", "token")
    assert {port["name"]: port["containerPort"] for port in container(objects["Deployment"])["ports"]} == {
        "http": read.health_port,
        "https": read.metrics_port,
    }


def test_a_token_of_a_secret_in_the_place_of_a_file(helm: Path) -> None:
    found = endpoint(Chart(helm, "admitter").objects(TOKEN | {"metrics": TOKEN["metrics"] | {"tokenSecret": "reader"}}))

    assert found["authorization"] == {"credentials": {"name": "reader", "key": "token"}}
    assert "bearerTokenFile" not in found


@pytest.mark.parametrize("name", SERVICES)
def test_without_rbac_no_right_is_given(helm: Path, name: str) -> None:
    objects = Chart(helm, name).objects(TOKEN | {"rbac": {"create": False}})

    assert not delegators(objects)
    assert environment(objects["Deployment"])["SCAVENGER_METRICS_AUTH"] == "token"


def test_beside_the_mounted_certificates_of_the_webhook(helm: Path) -> None:
    objects = Chart(helm, "webhook").objects(TLS | {"settings": {"certificates": "mounted"}})
    main = container(objects["Deployment"])

    assert {mount["name"]: mount["mountPath"] for mount in main["volumeMounts"]} == {
        "tls": "/etc/scavenger/tls",
        "metrics-tls": "/etc/scavenger/metrics-tls",
    }
    volumes = objects["Deployment"]["spec"]["template"]["spec"]["volumes"]
    assert {volume["name"]: volume["secret"]["secretName"] for volume in volumes} == {
        "tls": "scavenger-webhook-tls",
        "metrics-tls": "metrics-certificate",
    }


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"metrics": {"auth": "token"}}, "metrics.auth=token needs metrics.tls.secretName"),
        ({"metrics": {"auth": "basic"}}, "/metrics/auth"),
        ({"metrics": {"tls": {"secret": "x"}}}, "'secret'"),
        ({"metrics": {"port": 0}}, "/metrics/port"),
        ({"settings": {"metricsPort": 9000}}, "'metricsPort'"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_what_contradicts_itself_is_refused(helm: Path, values: Object, said: str) -> None:
    assert said in Chart(helm, "admitter").refused(values)


@pytest.mark.parametrize("name", USERS_OF_THE_LIBRARY)
def test_values_of_a_release_from_before_are_enough(helm: Path, name: str) -> None:
    """`helm upgrade --reuse-values` brings none of the new ones."""
    without = Chart(helm, name).objects({"metrics": None} if name in SERVICES else {})

    assert without == Chart(helm, name).objects()
