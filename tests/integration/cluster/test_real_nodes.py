"""Real kubelets and real containers: needs root, containerd and runc."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scavenger_cluster import Cluster, MissingRequirementError, requirements, wait_for

from .traces import traces, untouched

pytestmark = [
    pytest.mark.real,
    pytest.mark.long,
    pytest.mark.timeout(900),
]

CONTAINERFILE = """
ARG BASE=docker.io/library/python:3.12-slim
FROM ${BASE}
COPY *.py /
USER 65532
"""
ASK_API = """
import json, os, ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
token = open(folder + "/token").read()
context = ssl.create_default_context(cafile=folder + "/ca.crt")
host = os.environ["KUBERNETES_SERVICE_HOST"]
review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
request = urllib.request.Request(
    f"https://{host}/apis/authentication.k8s.io/v1/selfsubjectreviews",
    json.dumps(review).encode(),
    {"Authorization": "Bearer " + token, "Content-Type": "application/json"},
)
print(host, json.load(urllib.request.urlopen(request, context=context))["status"]["userInfo"]["username"])
"""
SERVE = """
import http.server
http.server.HTTPServer(("", 8000), http.server.SimpleHTTPRequestHandler).serve_forever()
"""
SERVE_ONE = """
import http.server
http.server.HTTPServer(("", 8000), http.server.SimpleHTTPRequestHandler).handle_request()
"""
FETCH = """
import sys, time, urllib.request

def status(url):
    # Until it works, within two minutes: the other side may not listen yet, nor every node know of its address or name.
    end = time.monotonic() + 120
    while True:
        try:
            return urllib.request.urlopen(url, timeout=30).status
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)

for url in sys.argv[1:]:
    print(status(url))
"""
IMAGE = "scavenger/it-python:dev"


@pytest.fixture(scope="module")
def reals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    before = untouched()
    cluster = Cluster("it-reals", tmp_path_factory.mktemp("cluster") / "reals")
    try:
        cluster.up("real:2,fake:2")
        yield cluster
    finally:
        cluster.down()
    assert not any(traces(cluster).values())
    assert untouched() == before


@pytest.fixture(scope="module")
def image(reals: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    context = tmp_path_factory.mktemp("context")
    programs = {"ask.py": ASK_API, "serve.py": SERVE, "serve_one.py": SERVE_ONE, "fetch.py": FETCH}
    for name, text in {"Containerfile": CONTAINERFILE, **programs}.items():
        (context / name).write_text(text)
    name = reals.build_image(IMAGE, context, install=False)
    assert reals.build_image(IMAGE, context, install=False) == name
    return name


def pod(name: str, image: str, *command: str, node: str = "", restart: str = "Never") -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "restartPolicy": restart,
                "terminationGracePeriodSeconds": 1,
                "nodeName": node,
                "containers": [
                    {
                        "name": "main",
                        "image": image,
                        "imagePullPolicy": "IfNotPresent",
                        "command": list(command),
                        "resources": {"limits": {"cpu": "200m", "memory": "64Mi"}},
                    }
                ],
            },
        }
    )


def get(cluster: Cluster, kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cluster.kubectl("get", kind, name, "-o", "json"))
    return found


def wait_until(cluster: Cluster, condition: str, *objects: str) -> None:
    cluster.kubectl("wait", f"--for={condition}", *objects, "--timeout=180s", timeout=200)


def output(cluster: Cluster, name: str) -> str:
    """Wait until a pod has ended well, and return what it printed."""
    wait_until(cluster, "jsonpath={.status.phase}=Succeeded", f"pod/{name}")
    return cluster.kubectl("logs", name)


def test_fake_nodes_beside_real_ones_are_tainted(reals: Cluster) -> None:
    assert get(reals, "node", "fake-001")["spec"]["taints"][0]["effect"] == "NoSchedule"
    assert not get(reals, "node", "node1")["spec"].get("taints")
    assert get(reals, "node", "node2")["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd")


def test_a_pod_reaches_the_api_through_its_service_with_its_own_token(reals: Cluster, image: str) -> None:
    reals.apply(pod("asks", image, "python3", "/ask.py"))
    host, who = output(reals, "asks").split()
    assert host == reals.state.subnets.api_service
    assert who == "system:serviceaccount:default:default"


def test_pods_reach_each_other_across_nodes_and_through_services(reals: Cluster, image: str) -> None:
    reals.apply(pod("serves", image, "python3", "/serve.py", node="node1"))
    reals.kubectl("expose", "pod", "serves", "--port=80", "--target-port=8000")
    wait_until(reals, "condition=Ready", "pod/serves")
    address = get(reals, "pod", "serves")["status"]["podIP"]
    service = get(reals, "service", "serves")["spec"]["clusterIP"]
    urls = (f"http://{address}:8000/", f"http://{service}/", "http://serves/")
    reals.apply(pod("near", image, "python3", "/fetch.py", *urls, node="node1"))
    reals.apply(pod("far", image, "python3", "/fetch.py", *urls, node="node2"))
    assert output(reals, "near").split() == ["200", "200", "200"]
    assert output(reals, "far").split() == ["200", "200", "200"]


def test_the_pods_of_an_indexed_job_know_each_other_by_name(reals: Cluster, image: str) -> None:
    """The first pod serves until the second one has fetched from it under the name a gang gives it."""
    fetch = "python3 /fetch.py http://gang-0.gang:8000/"
    script = f'if [ "$JOB_COMPLETION_INDEX" = 0 ]; then python3 /serve_one.py; else {fetch}; fi'
    template = json.loads(pod("unused", image, "sh", "-c", script))["spec"] | {"subdomain": "gang"}
    del template["nodeName"]
    spec = {
        "completionMode": "Indexed",
        "completions": 2,
        "parallelism": 2,
        "backoffLimit": 0,
        "template": {"metadata": {"labels": {"gang": "gang"}}, "spec": template},
    }
    service = {"clusterIP": "None", "selector": {"gang": "gang"}, "publishNotReadyAddresses": True}
    for kind, version, body in (("Service", "v1", service), ("Job", "batch/v1", spec)):
        reals.apply(json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": "gang"}, "spec": body}))
    wait_until(reals, "condition=Complete", "job/gang")


def test_the_machine_reaches_pods_and_commands_run_in_them(reals: Cluster, image: str) -> None:
    reals.apply(pod("sleeps", image, "sleep", "600", node="node2", restart="Always"))
    wait_until(reals, "condition=Ready", "pod/sleeps")
    assert reals.kubectl("exec", "sleeps", "--", "id", "-u").strip() == "65532"


def test_up_again_keeps_what_runs(reals: Cluster) -> None:
    before = {part.name: part.pid for part in reals.status()}
    reals.up()
    assert {part.name: part.pid for part in reals.status()} == before


def test_a_killed_kubelet_comes_back(reals: Cluster) -> None:
    reals.node_stop("node2")
    assert next(part for part in reals.status() if part.name == "node2/kubelet").state == "dead"
    reals.node_start("node2")
    assert next(part for part in reals.status() if part.name == "node2/kubelet").state == "running"


def test_up_after_a_crash_of_everything_that_can_crash(reals: Cluster, image: str) -> None:
    """The containers of node1 survive the loss of kubelet, containerd and API server; those of node2 start anew."""
    reals.apply(pod("stays", image, "sleep", "600", node="node1", restart="Always"))
    wait_until(reals, "condition=Ready", "pod/stays", "pod/sleeps")
    kept = get(reals, "pod", "stays")["status"]["containerStatuses"][0]["containerID"]
    for part in ("kube-apiserver", "etcd", "node1/kubelet", "node1/containerd", "node1/kube-proxy", "node2/holder"):
        reals.component_kill(part)
    reals.up()
    assert {part.state for part in reals.status()} == {"running"}
    assert get(reals, "pod", "stays")["status"]["containerStatuses"][0]["containerID"] == kept

    def started_anew() -> bool:
        status = get(reals, "pod", "sleeps")["status"]["containerStatuses"][0]
        return bool(status["restartCount"] > 0 and status["ready"])

    wait_for("the pod on node2 to start anew", started_anew, timeout=180)


def test_down_after_a_crash_leaves_nothing(tmp_path: Path) -> None:
    before = untouched()
    cluster = Cluster("it-realcrash", tmp_path / "crash")
    try:
        cluster.up("real")
        cluster.apply(pod("orphan", "localhost/scavenger/pause:1", "/pause", node="node1"))
        wait_until(cluster, "condition=Ready", "pod/orphan")
        for part in ("node1/kubelet", "node1/containerd", "kube-apiserver", "etcd"):
            cluster.component_kill(part)
        found = traces(cluster)
        assert found["namespaces"]
        assert found["cgroups"]
    finally:
        cluster.down()
    assert not any(traces(cluster).values())
    assert untouched() == before


def test_real_nodes_without_root_are_refused_and_auto_falls_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "obstacles", lambda: ["not root"])
    said: list[str] = []
    cluster = Cluster("it-auto", tmp_path / "auto", report=said.append)
    with pytest.raises(MissingRequirementError, match="not root"):
        cluster.up("real")
    try:
        cluster.up("auto")
        assert cluster.state.fake == 3
        assert [line for line in said if line.startswith("warning: fake nodes only (not root)")]
    finally:
        cluster.down()
