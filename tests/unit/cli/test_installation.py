"""`kubectl sj doctor --install`: each part of an installation, and whether it works."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from scavenger_api import names
from scavenger_api.rules.image import registry_of
from scavenger_cli.examination import Cluster
from scavenger_cli.gather import Deployment
from scavenger_cli.installation import (
    CHECKS,
    EndpointSlice,
    Installation,
    Row,
    State,
    WebhookConfiguration,
    check,
    lacking,
)
from scavenger_cli.lint.check import schema_of
from scavenger_kube.kinds import ObjectMeta
from scavenger_testing import builders

from .cases import NO_REGULATOR, NOW, levels
from .conftest import Answer, Run, Server, listed, status
from .test_doctor import BLIND, CLASSES, leases

PART_OF = {"app.kubernetes.io/part-of": "scavenger-jobs"}
SYSTEM = names.SYSTEM_NAMESPACE
ASKS_ABOUT_PODS = {"webhooks": [{"rules": [{"resources": ["pods"]}]}]}
SERVICE = {"service": {"name": "scavenger-webhook-admission", "namespace": SYSTEM}, "caBundle": "YQ=="}


def deployment_dict(name: str, ready: int = 1, tag: str = "1.0", **env: str) -> dict[str, Any]:
    container = {
        "image": f"r.example.com/{name}:{tag}",
        "env": [{"name": key, "value": value} for key, value in env.items()],
    }
    spec = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    return {"metadata": {"name": name}, "spec": spec, "status": {"readyReplicas": ready} if ready else {}}


def deployments(**changes: Any) -> list[Deployment]:
    found = {names.ADMITTER: 1, names.REGULATOR: 1, names.PRIORITIZER: 1} | changes.pop("ready", {})
    made = [deployment_dict(name, ready) for name, ready in found.items() if ready is not None]
    return msgspec.convert(made, list[Deployment])


def hooks(**config: Any) -> list[WebhookConfiguration]:
    body = {"webhooks": [{"clientConfig": SERVICE | config, "rules": [{"resources": ["scavengerjobs"]}]}]}
    return [msgspec.convert(body, WebhookConfiguration)]


def endpoints(*ready: bool | None) -> list[EndpointSlice]:
    body = {"endpoints": [{"conditions": {} if one is None else {"ready": one}} for one in ready]}
    return [msgspec.convert(body, EndpointSlice)]


def component_pod(**fields: Any) -> Any:
    return builders.pod("admitter-1", namespace=SYSTEM, labels=PART_OF, **{"phase": "Running", **fields})


METRICS = levels(source="metrics-api")
NODES = [builders.node("n1"), builders.node("n2")]
GOOD_CLUSTER: dict[str, Any] = {
    "leases": leases(),
    "budgets": ["lab"],
    "job_pods": [],
    "pods": [component_pod()],
    "nodes": NODES,
    "levels": METRICS,
    "namespaces": [ObjectMeta(name="lab")],
    "classes": CLASSES,
    "images": {names.ADMITTER: ["r.example.com/admitter:1.0"]},
    "default_class": "ordinary-workload",
    "deployments": deployments(),
}
GOOD: dict[str, Any] = {
    "version": "1.0",
    "mutating": [],
    "validating": hooks(),
    "ranking_policy": False,
    "endpoints": endpoints(True, None),
    "measured": ["n1", "n2"],
    "missing_fields": [],
    "settings": {"startupCostSeconds": "60"},
}


def rows(cluster: dict[str, Any] | None = None, **changes: Any) -> list[Row]:
    return check(Installation(Cluster(NOW, **(GOOD_CLUSTER | (cluster or {}))), **(GOOD | changes)))


def test_a_good_installation_is_ok_in_each_part() -> None:
    found = rows()
    assert [(row.check, row.state) for row in found] == [(name, State.OK) for name, *_ in CHECKS]
    assert all(row.text and not row.remedy for row in found)


def test_what_may_not_be_read_is_unknown_and_never_ok() -> None:
    found = check(Installation(Cluster(NOW)))
    assert {row.state for row in found} == {State.UNKNOWN}
    assert [row.check for row in found] == [name for name, *_ in CHECKS]


def taint(key: str) -> list[dict[str, str]]:
    return [{"key": key, "effect": "NoSchedule"}]


GPU = builders.node(
    "g1", taints=taint("pool"), allocatable={"cpu": "8", "nvidia.com/gpu": "4", "a.example.com/fpga": "0"}
)
PULL = builders.waiting("ImagePullBackOff", "Back-off pulling image: 401\nok")
INIT_PULL = builders.waiting("ErrImageNeverPull")


@pytest.mark.parametrize(
    ("cluster", "changes", "part", "state", "words"),
    [
        ({"deployments": []}, {}, "components", "mend", "no component in namespace scavenger-system"),
        ({"deployments": deployments(ready={names.ADMITTER: 0})}, {}, "components", "mend", "no pod of"),
        ({"deployments": deployments(ready={names.ADMITTER: None})}, {}, "components", "mend", "no job starts"),
        ({"deployments": deployments(ready={names.REGULATOR: None})}, {}, "components", "note", "fixed levels"),
        ({"leases": leases(regulator=90)}, {}, "components", "mend", "has not led"),
        ({"pods": [component_pod(container_statuses=[PULL])]}, {}, "images", "mend", "cannot pull example.org/app:1"),
        ({"pods": [component_pod(container_statuses=[INIT_PULL])]}, {}, "images", "mend", "ErrImageNeverPull"),
        ({"levels": levels(**BLIND)}, {}, "metrics", "mend", "the metrics API does not answer"),
        ({"levels": NO_REGULATOR}, {}, "metrics", "note", "fixed ones hold"),
        ({"levels": levels(source="requests")}, {}, "metrics", "note", "use is not measured"),
        ({}, {"measured": ["n1"]}, "metrics", "note", "1 of 2 nodes in the load have no metrics: n2"),
        ({}, {"measured": []}, "metrics", "mend", "2 of 2 nodes in the load"),
        ({}, {"measured": None}, "metrics", "unknown", "metrics of nodes"),
        ({"classes": {}}, {}, "classes", "mend", "there is no PriorityClass ordinary-workload"),
        ({"default_class": names.PRIORITY_CLASS_PREEMPTIBLE}, {}, "classes", "mend", "does not outrank"),
        ({"classes": CLASSES | {"batch": -2000}}, {}, "classes", "note", "pods of batch"),
        ({"pods": [builders.pod("p", scheduler=names.SCHEDULER)]}, {}, "scheduler", "note", "no Deployment here"),
        ({"leases": None}, {}, "components", "unknown", "Leases"),
        ({}, {"unreadable": ["the configuration of Kueue"]}, "neighbours", "unknown", "the configuration of Kueue"),
        ({"foreign_budgets": ["lab"]}, {}, "budgets", "mend", "are not the prioritizer's"),
        ({}, {"validating": []}, "webhook", "note", "not installed"),
        ({}, {"validating": hooks(caBundle="")}, "webhook", "mend", "no caBundle"),
        ({}, {"endpoints": endpoints(False)}, "webhook", "mend", "no ready pod"),
        ({}, {"endpoints": []}, "webhook", "mend", "no ready pod"),
        ({}, {"endpoints": None}, "webhook", "unknown", "EndpointSlices"),
        ({}, {"validating": hooks(service=None)}, "webhook", "note", "reached by a URL"),
        ({}, {"missing_fields": ["ScavengerJob.spec.array"]}, "versions", "mend", "ScavengerJob.spec.array"),
        ({}, {"missing_fields": ["a"], "version": "2.0"}, "versions", "note", "kubectl sj 2.0 knows: a"),
        ({"images": {"a": ["r/a:1.0"], "b": ["r/b:2.0"]}}, {}, "versions", "mend", "different versions"),
        ({"nodes": [*NODES, GPU]}, {}, "nodes", "note", "g1, with nvidia.com/gpu"),
        ({"nodes": [builders.node("n", allocatable={"x.y/z": 2})]}, {"measured": ["n"]}, "devices", "note", "x.y/z"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_part(
    cluster: dict[str, Any], changes: dict[str, Any], part: str, state: str, words: str
) -> None:
    found = [row for row in rows(cluster, **changes) if row.state != State.OK]
    assert [(row.check, row.state) for row in found] == [(part, state)]
    assert words in found[0].text


IPV4 = msgspec.convert([deployment_dict(names.ADMITTER, SCAVENGER_HEALTH_ADDRESS="0.0.0.0")], list[Deployment])
IPV6 = [msgspec.convert({"addressType": "IPv6", "endpoints": [{}]}, EndpointSlice)]


@pytest.mark.parametrize(
    ("deployed", "slices", "state", "words"),
    [
        (IPV4, IPV6, State.MEND, "scavenger-admitter listens on 0.0.0.0 alone"),
        (IPV4, endpoints(True), State.NOTE, "scavenger-admitter listens on 0.0.0.0 alone"),
        (deployments(), IPV6, State.OK, "IPv6 and IPv4"),
        (None, IPV6, State.UNKNOWN, "Deployments"),
    ],
)
def test_addresses_that_a_kubelet_of_an_ipv6_cluster_cannot_ask(
    deployed: list[Deployment] | None, slices: list[EndpointSlice], state: State, words: str
) -> None:
    (found,) = (row for row in rows({"deployments": deployed}, endpoints=slices) if row.check == "addresses")
    assert (found.state, words in found.text) == (state, True)
    assert bool(found.remedy) is (state is not State.OK)


@pytest.mark.parametrize(
    ("budgets", "words"),
    [
        ([], "no namespace has non-preemptible jobs"),
        (["lab"], "1 namespace with non-preemptible jobs has one"),
        (["lab", "shop"], "2 namespaces with non-preemptible jobs have one"),
    ],
)
def test_budgets_are_counted(budgets: list[str], words: str) -> None:
    (found,) = (row for row in rows({"budgets": budgets}) if row.check == "budgets")
    assert words in found.text
    assert ("docs/alerts.md" in found.text) is bool(budgets)


def test_one_node_is_told_as_one() -> None:
    found = {row.check: row.text for row in rows({"nodes": [NODES[0]]}, measured=["n1"])}
    assert found["nodes"] == "1 of 1 nodes are in the load"
    found = {row.check: row.text for row in rows({"nodes": [*NODES, GPU]})}
    assert found["nodes"].startswith("1 node with the taint pool is in no load")


def test_nodes_that_somebody_counts_are_not_named() -> None:
    control = builders.node("c", taints=taint("node-role.kubernetes.io/control-plane"))
    cordoned = builders.node("d", unschedulable=True, taints=taint("pool"))
    held = builders.pod("j", namespace="lab", node="g1", phase="Running")
    measured = ["n1", "n2", "c", "d", "g1"]
    assert all(row.state is State.OK for row in rows({"nodes": [*NODES, control, cordoned]}, measured=measured))
    assert all(row.state is State.OK for row in rows({"nodes": [*NODES, GPU], "job_pods": [held]}, measured=measured))
    tolerating = rows({"nodes": [*NODES, GPU]}, measured=measured, tolerated_taints=["pool"])
    assert all(row.state is State.OK for row in tolerating)


def test_deployments_that_may_not_be_read_are_not_missed() -> None:
    pods = [builders.pod("p", scheduler=names.SCHEDULER)]
    found = rows({"pods": pods, "deployments": None})
    assert [(row.check, row.state) for row in found if row.state is not State.OK] == [
        (check, State.UNKNOWN) for check in ("components", "addresses")
    ]


@pytest.mark.parametrize(
    ("mutating", "policy", "words"),
    [
        ([], False, "their PriorityClass"),
        ([], True, "a policy of the API server"),
        ([msgspec.convert(ASKS_ABOUT_PODS, WebhookConfiguration)], False, "the webhook gives"),
    ],
)
def test_who_ranks_pods(mutating: list[WebhookConfiguration], policy: bool, words: str) -> None:
    (found,) = [row for row in rows(mutating=mutating, ranking_policy=policy) if row.check == "who ranks pods"]
    assert words in found.text


def test_fields_that_a_schema_lacks() -> None:
    schema = schema_of("ScavengerJob")
    assert list(lacking(schema, schema)) == []
    served = json.loads(json.dumps(schema))
    del served["properties"]["spec"]["properties"]["array"]
    del served["properties"]["spec"]["properties"]["env"]["items"]["properties"]["valueFrom"]
    assert set(lacking(schema, served, "J")) == {"J.spec.array", "J.spec.env[].valueFrom"}
    assert "J.spec" in list(lacking(schema, {}, "J"))


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("busybox", "docker.io"),
        ("team/app:1", "docker.io"),
        ("r.example.com/team/app:1", "r.example.com"),
        ("r:5000/app@sha256:1", "r:5000"),
        ("localhost/app", "localhost"),
    ],
)
def test_the_registry_of_an_image(image: str, registry: str) -> None:
    assert registry_of(image) == registry


def _serve(server: Server) -> None:
    lease = {"spec": {"holderIdentity": "a", "renewTime": "2100-01-01T00:00:00.000000Z"}}
    found = [{**lease, "metadata": {"name": name}} for name in (names.ADMITTER, names.REGULATOR, names.PRIORITIZER)]
    server.on(f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases", listed(*found))
    of = [deployment_dict(name) for name in (names.ADMITTER, names.REGULATOR, names.PRIORITIZER)]
    server.on(f"/apis/apps/v1/namespaces/{SYSTEM}/deployments", listed(*of))
    server.on("/api/v1/nodes", listed(builders.node_dict("n1")))
    classes = [{"metadata": {"name": name}, "value": value} for name, value in names.PRIORITY_VALUES.items()]
    server.on("/apis/scheduling.k8s.io/v1/priorityclasses", listed(*classes))
    for path in (
        "/api/v1/pods",
        "/api/v1/namespaces",
        "/apis/policy/v1/poddisruptionbudgets",
        "/apis/scavenger.dev/v1alpha1/scavengerjobs",
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    ):
        server.on(path, listed())
    body = {"webhooks": [{"clientConfig": SERVICE, "rules": [{"resources": ["scavengerjobs"]}]}]}
    server.on("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", listed(body))
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{SYSTEM}/endpointslices"
    server.on(slices, listed({"endpoints": [{"conditions": {"ready": True}}]}))
    for kind in ("ScavengerJob", "ScavengerQueue"):
        version = {"name": names.VERSION, "schema": {"openAPIV3Schema": schema_of(kind)}}
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind.lower()}s.scavenger.dev"
        server.on(path, Answer(body={"spec": {"versions": [version]}}))
    for missing in (
        "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config",
        "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status",
        f"/api/v1/namespaces/{SYSTEM}/configmaps/scavenger-levels",
        f"/api/v1/namespaces/{SYSTEM}/configmaps/scavenger-settings",
        "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/scavenger-pods-rank",
        "/apis/metrics.k8s.io/v1beta1/nodes",
    ):
        server.on(missing, Answer(404, status(404, "NotFound", "none")))


def test_the_command_reads_and_changes_nothing(server: Server, sj: Run) -> None:
    _serve(server)
    code, out, err = sj("doctor", "--install")
    assert (code, err) == (0, ""), out
    assert out.splitlines()[0].startswith("components      ok       scavenger-admitter 1/1")
    assert {request.method for request in server.requests} == {"GET"}


def test_the_command_fails_where_a_part_has_to_be_mended(server: Server, sj: Run) -> None:
    _serve(server)
    server.on(f"/apis/apps/v1/namespaces/{SYSTEM}/deployments", listed())
    code, out, err = sj("doctor", "--install", "-o", "json")
    assert (code, err) == (6, "error: 1 problem to mend\n")
    found = {row["check"]: row for row in json.loads(out)["checks"]}
    assert found["components"]["state"] == "mend"
    assert "helm install" in found["components"]["remedy"]


def test_the_command_fails_where_a_part_could_not_be_looked_at(server: Server, sj: Run) -> None:
    _serve(server)
    server.on("/apis/scheduling.k8s.io/v1/priorityclasses", Answer(403, status(403, "Forbidden", "no")))
    code, out, err = sj("doctor", "--install")
    assert code == 1
    assert "classes         unknown" in out
    assert "not permitted to read priority classes\nerror: not looked at: classes" in err


# --- settings of all components ---


def settings_row(data: dict[str, str] | None, **changes: Any) -> list[Row]:
    return [row for row in rows(settings=data, **changes) if row.check == "settings"]


def test_the_settings_are_shown_as_the_components_read_them() -> None:
    (row,) = settings_row({"startupCostSeconds": "90", "resourceWeights": "nvidia.com/gpu=24"})
    assert row.text == (
        "startupCostSeconds 90, trustedIntervalSeconds 7200, startOverWindowSeconds 60, minimumRun false, "
        "resourceWeights nvidia.com/gpu=24"
    )
    (row,) = settings_row({})
    assert (row.state, row.text) == (State.OK, "no ConfigMap scavenger-settings: the defaults hold")


def test_a_setting_that_no_component_can_use_has_to_be_mended() -> None:
    (row,) = [row for row in settings_row({"startupCostSeconds": "1m"}) if row.state is not State.OK]
    assert (row.state, row.remedy) == (State.MEND, "startupCostSeconds of charts/scavenger-base")
    assert "'1m' is no number of seconds from 0 to 604800; the last good value stays" in row.text


def test_a_key_that_means_nothing_is_named() -> None:
    (row,) = [row for row in settings_row({"startupCost": "90"}) if row.state is not State.OK]
    assert (row.state, "has startupCost, which this version does not know" in row.text) == (State.NOTE, True)
    assert "startupCostSeconds" in row.remedy


def test_a_component_with_a_setting_of_its_own_is_named() -> None:
    own = deployment_dict(
        names.REGULATOR, SCAVENGER_STARTUP_COST="90", SCAVENGER_MINIMUM_RUN="true", SCAVENGER_PERIOD="9"
    )
    cluster = {"deployments": [*deployments(ready={names.REGULATOR: None}), msgspec.convert(own, Deployment)]}
    (row,) = [row for row in settings_row({}, cluster=cluster) if row.state is not State.OK]
    assert row.state is State.NOTE
    assert row.text == (
        "scavenger-regulator has startupCost, minimumRun of its own, which the next version does not have"
    )
    assert row.remedy == (
        "leave that out of its settings, and set startupCostSeconds, minimumRun of charts/scavenger-base"
    )
