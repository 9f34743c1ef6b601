"""The right to patch nodes/status, on a real API server: two resources under the regulator's account, and nothing else.

The role and the policy are those of the chart with `reclaimed.enabled`.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from scavenger_api.names import RESOURCE_RECLAIMED_CPU as CPU
from scavenger_api.names import RESOURCE_RECLAIMED_MEMORY as MEMORY
from scavenger_cluster.stack import reclaimed_rules
from scavenger_testing.place import MASTERS, Answer, Server, account, path_of
from scavenger_testing.waiting import wait

from tests.integration.conftest import REPOSITORY, Kubectl

SYSTEM = "scavenger-system"
REGULATOR: dict[str, Any] = {"user": account("regulator")}
OTHER: dict[str, Any] = {"user": account("admitter")}
PATCHES = {kind: f"application/{kind}-patch+json" for kind in ("merge", "json", "strategic-merge")}
NODE_INFO = (
    *("architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion", "kubeletVersion"),
    *("machineID", "operatingSystem", "osImage", "systemUUID"),
)
STATUS: dict[str, Any] = {
    "capacity": {"cpu": "8", "memory": "32Gi", "example.com/gpu": "1"},
    "allocatable": {"cpu": "7", "memory": "32Gi", "example.com/gpu": "1"},
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}],
    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
    "nodeInfo": dict.fromkeys(NODE_INFO, "x"),
    "images": [{"names": ["example.org/app:1"], "sizeBytes": 1}],
}
MORE: dict[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "more-than-the-regulator-has"},
    "rules": [
        {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["get", "create", "patch", "update"]}
    ],
}
"""Rather too much: the policy has to hold by itself."""
BOUND: dict[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": MORE["metadata"],
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": MORE["metadata"]["name"]},
    "subjects": [
        {"kind": "ServiceAccount", "name": f"scavenger-{name}", "namespace": SYSTEM}
        for name in ("regulator", "admitter")
    ],
}
OFFER = {CPU: "4500", MEMORY: "2048"}


@pytest.fixture(scope="module")
def rendered() -> str:
    """The chart's roles and policies."""
    text = reclaimed_rules(logging.getLogger(__name__).info)
    return "---\n".join([text, *(json.dumps(made) + "\n" for made in (MORE, BOUND))])


@pytest.fixture(scope="module")
def guarded(api_cluster: Kubectl, server: Server, rendered: str) -> Iterator[Server]:
    """The policy installed and in force."""
    api_cluster.ok("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=rendered)
    probe = f"probe-{uuid.uuid4().hex[:8]}"
    make_node(server, probe)
    try:
        # Rights and policy are not seen at one moment, and who has no right yet is refused as well.
        wait("the right", lambda: patch(server, probe, both(dict(OFFER))).allowed)
        wait("the policy", lambda: SPEC_OR_METADATA in patch(server, probe, relabelled()).message)
        yield server
    finally:
        server("DELETE", path_of("nodes", name=probe))
        api_cluster("delete", "--ignore-not-found", "-f", "-", stdin=rendered)


@pytest.fixture
def node(guarded: Server) -> Iterator[str]:
    """A node as a kubelet left it."""
    name = f"node-{uuid.uuid4().hex[:8]}"
    make_node(guarded, name)
    yield name
    assert guarded("DELETE", path_of("nodes", name=name)).allowed


def make_node(server: Server, name: str) -> None:
    create(server, {"name": name, "labels": {"zone": "a"}, "annotations": {"owner": "us"}})
    made = patch(server, name, {"status": STATUS}, user="")
    assert made.allowed, made


def create(server: Server, metadata: dict[str, Any], **who: Any) -> Answer:
    made = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
    return server("POST", path_of("nodes"), made, **who)


def patch(server: Server, node: str, change: Any, *, kind: str = "merge", sub: bool = True, **who: Any) -> Answer:
    """As the regulator, unless somebody else is said."""
    path = path_of("nodes", name=node, sub="status" if sub else "")
    return server("PATCH", path, change, content_type=PATCHES[kind], **(who or REGULATOR))


def get(server: Server, node: str) -> dict[str, Any]:
    answer = server("GET", path_of("nodes", name=node))
    assert answer.allowed, answer
    return answer.body


def relabelled() -> dict[str, Any]:
    """A change that a node has not seen before."""
    return {"metadata": {"labels": {"a": uuid.uuid4().hex}}}


def both(amounts: dict[str, str | None]) -> dict[str, Any]:
    return {"status": {"capacity": amounts, "allocatable": amounts}}


def test_its_two_resources_it_sets_changes_and_takes_away(guarded: Server, node: str) -> None:
    for amounts in (OFFER, {CPU: "0", MEMORY: "1"}):
        done = patch(guarded, node, both(dict(amounts)))
        assert done.allowed, done
        status = get(guarded, node)["status"]
        for kind in ("capacity", "allocatable"):
            assert {name: status[kind][name] for name in amounts} == amounts
            assert {name: status[kind][name] for name in STATUS[kind]} == STATUS[kind]
    done = patch(guarded, node, both({CPU: None, MEMORY: None}))
    assert done.allowed, done
    status = get(guarded, node)["status"]
    assert (status["capacity"], status["allocatable"]) == (STATUS["capacity"], STATUS["allocatable"])
    assert status["conditions"][0]["status"] == "False"


def test_a_node_without_any_status_can_offer(guarded: Server) -> None:
    name = f"bare-{uuid.uuid4().hex[:8]}"
    assert create(guarded, {"name": name}).allowed
    try:
        done = patch(guarded, name, both(dict(OFFER)))
        assert done.allowed, done
    finally:
        assert guarded("DELETE", path_of("nodes", name=name)).allowed


METADATA = ("labels", "finalizers", "ownerReferences")
"""What no controller writes on a node meanwhile."""
SPEC_OR_METADATA = "neither spec nor metadata"
STATUS_ONLY = "capacity and allocatable only"
CAPACITY = "of a node's capacity"
ALLOCATABLE = "of what a node can allocate"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, STATUS_ONLY),
        ({"status": {"conditions": None}}, STATUS_ONLY),
        ({"status": {"addresses": [{"type": "InternalIP", "address": "10.6.6.6"}]}}, STATUS_ONLY),
        ({"status": {"nodeInfo": {"kubeletVersion": "v9"}}}, STATUS_ONLY),
        ({"status": {"images": [{"names": ["evil.example/app:1"], "sizeBytes": 1}]}}, STATUS_ONLY),
        ({"status": {"images": None}}, STATUS_ONLY),
        ({"status": {"phase": "Terminated"}}, STATUS_ONLY),
        ({"status": {"volumesInUse": ["v"]}}, STATUS_ONLY),
        ({"status": {"volumesAttached": [{"name": "v", "devicePath": "d"}]}}, STATUS_ONLY),
        ({"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 6666}}}}, STATUS_ONLY),
        ({"status": {"runtimeHandlers": [{"name": "runc"}]}}, STATUS_ONLY),
        ({"status": {"capacity": {"cpu": "9"}}}, CAPACITY),
        ({"status": {"capacity": {"example.com/gpu": "2"}}}, CAPACITY),
        ({"status": {"capacity": {"example.com/gpu": None}}}, CAPACITY),
        ({"status": {"capacity": {"scavenger.dev/other": "2"}}}, CAPACITY),
        ({"status": {"capacity": None}}, CAPACITY),
        ({"status": {"allocatable": {"memory": "64Gi"}}}, ALLOCATABLE),
        ({"status": {"allocatable": {"cpu": None}}}, ALLOCATABLE),
        ({"status": {"allocatable": None}}, ALLOCATABLE),
        ({"metadata": {"labels": {"zone": "b"}}}, SPEC_OR_METADATA),
        ({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}, SPEC_OR_METADATA),
        ({"metadata": {"labels": None}}, SPEC_OR_METADATA),
        ({"metadata": {"annotations": {"owner": "them"}}}, SPEC_OR_METADATA),
        ({"metadata": {"annotations": None}}, SPEC_OR_METADATA),
        ({"metadata": {"finalizers": ["scavenger.dev/keep"]}}, SPEC_OR_METADATA),
        (
            {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}},
            SPEC_OR_METADATA,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value)[:60],
)
def test_everything_else_is_refused(guarded: Server, node: str, change: dict[str, Any], says: str) -> None:
    before = get(guarded, node)
    for with_offer in (False, True):
        merged = json.loads(json.dumps(change))
        if with_offer and isinstance(merged.setdefault("status", {}).setdefault("capacity", {}), dict):
            merged["status"]["capacity"].update(OFFER)
        done = patch(guarded, node, merged)
        assert not done.allowed, done
        assert says in done.message
    after = get(guarded, node)
    for kept in (set(STATUS) - {"conditions"}) | {"volumesInUse", "volumesAttached", "daemonEndpoints"}:
        assert after["status"].get(kept) == before["status"].get(kept)
    assert [after["metadata"].get(kept) for kept in METADATA] == [before["metadata"].get(kept) for kept in METADATA]


def test_json_and_strategic_patches_are_no_way_around(guarded: Server, node: str) -> None:
    taken = [{"op": "remove", "path": "/status/conditions/0"}]
    assert STATUS_ONLY in patch(guarded, node, taken, kind="json").message
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert STATUS_ONLY in patch(guarded, node, ready, kind="strategic-merge").message


def test_the_node_itself_is_not_its_to_change_make_or_delete(guarded: Server, node: str) -> None:
    for change in ({"spec": {"unschedulable": True}}, {"metadata": {"labels": {"zone": "b"}}}):
        assert "the status only" in patch(guarded, node, change, sub=False).message
    made = create(guarded, {"name": "made"}, **REGULATOR)
    assert "the status only" in made.message
    deleted = guarded("DELETE", path_of("nodes", name=node), **REGULATOR)
    assert "cannot delete resource" in deleted.message


def test_the_role_alone_gives_one_verb(rendered: str) -> None:
    roles = [one for one in yaml.safe_load_all(rendered) if one["kind"] == "ClusterRole"]
    (role,) = (one for one in roles if one["metadata"]["name"] == "scavenger-regulator")
    on_nodes = {rule["resources"][0]: rule["verbs"] for rule in role["rules"] if rule["apiGroups"] == [""]}
    assert (on_nodes["nodes"], on_nodes["nodes/status"]) == (["get", "list", "watch"], ["patch"])


def test_others_are_left_alone(guarded: Server, node: str) -> None:
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"cpu": "16"}, "phase": None}}
    for who in (OTHER, {"user": "admin", "groups": (MASTERS,)}):
        for change in (ready, {"metadata": {"labels": {"zone": uuid.uuid4().hex}}}):
            done = patch(guarded, node, change, **who)
            assert done.allowed, done


def test_without_the_feature_there_is_neither_the_right_nor_the_policy() -> None:
    text = (REPOSITORY / "manifests" / "regulator" / "rbac.yaml").read_text()
    assert "nodes/status" not in text
    assert "scavenger-regulator-nodes" not in text


@pytest.mark.usefixtures("guarded")
def test_the_type_checker_has_nothing_to_say(api_cluster: Kubectl) -> None:
    def checked() -> dict[str, Any] | None:
        policy = api_cluster.get("validatingadmissionpolicy", "scavenger-regulator-nodes")
        status: dict[str, Any] = policy.get("status", {})
        return status if "observedGeneration" in status else None

    status = wait("a word of the type checker", checked)
    assert status.get("typeChecking", {}).get("expressionWarnings", []) == []
