"""describe, version, resubmit through the whole command line."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from scavenger_cli.manifests import next_name
from scavenger_testing.builders import pod_dict, scavengerjob_dict

from .conftest import Answer, Request, Run, Server, listed, status

JOBS = "/apis/scavenger.dev/v1alpha1/namespaces/lab/scavengerjobs"
PODS = "/api/v1/namespaces/lab/pods"
EVENTS = "/api/v1/namespaces/lab/events"
DEPLOYMENTS = "/apis/apps/v1/namespaces/scavenger-system/deployments"


def one(name: str, phase: str = "Completed", **fields: Any) -> dict[str, Any]:
    return scavengerjob_dict(name, namespace="lab", phase=phase, uid=f"uid-{name}", **fields)


CONDITION = {"type": "Admitted", "status": "False", "reason": "Queued", "message": "cpu load\nis high"}


def test_describing(server: Server, sj: Run) -> None:
    server.on(f"{JOBS}/a", Answer(body=one("a", "Running", status={"conditions": [CONDITION]})))
    server.on(PODS, listed(pod_dict("a-0", namespace="lab", node="n1", phase="Running")))
    first = {"type": "Normal", "reason": "Started", "message": "pods start", "lastTimestamp": "2026-01-05T12:00:00Z"}
    second = {**first, "reason": "Interrupted", "count": 3, "lastTimestamp": "2026-01-05T12:05:00Z"}
    server.on(EVENTS, listed(second, first))
    code, out, _ = sj("describe", "a")
    assert code == 0
    assert server.asked(EVENTS)[0].query == {"fieldSelector": "involvedObject.uid=uid-a"}
    head, _, rest = out.partition("\nConditions:\n")
    assert head.startswith("Job ")
    assert "Timeline:" in head
    lines = [line.split() for line in rest.splitlines()]
    assert ["Admitted", "False", "Queued", "cpu", "load", "is", "high"] in lines
    assert ["a-0", "Running", "n1"] in [line[:3] for line in lines]
    assert [line[3] for line in lines if "Normal" in line] == ["Started", "Interrupted"]


def test_describing_what_may_not_all_be_read(server: Server, sj: Run) -> None:
    for name in ("a", "b"):
        server.on(f"{JOBS}/{name}", Answer(body=one(name)))
    for path in (PODS, EVENTS):
        server.on(path, Answer(403, status(403, "Forbidden", "no")))
    code, out, _ = sj("describe", "a", "b")
    assert code == 0
    assert out.count("Events: none") == out.count("You may not list its Events.") == 2


def deployment(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"containers": [{"image": f"example.org/{name}:1.2"}]}}},
    }


def test_versions(server: Server, sj: Run) -> None:
    server.on("/version", Answer(body={"gitVersion": "v1.37.1"}))
    server.on(DEPLOYMENTS, listed(deployment("scavenger-admitter")))
    code, out, _ = sj("version")
    assert code == 0
    assert out.splitlines()[1:] == [
        "Server: v1.37.1",
        "Services:",
        "  NAME                 IMAGES",
        "  scavenger-admitter   example.org/scavenger-admitter:1.2",
    ]
    assert json.loads(sj("version", "-o", "json")[1])["services"] == {
        "scavenger-admitter": ["example.org/scavenger-admitter:1.2"]
    }
    assert yaml.safe_load(sj("version", "-o", "yaml")[1])["server"] == "v1.37.1"


def test_versions_where_deployments_may_be_read_in_one_namespace_or_none(server: Server, sj: Run) -> None:
    server.on("/version", Answer(body={"gitVersion": "v1.37.1"}))
    server.on("/apis/apps/v1/namespaces/batch/deployments", listed())
    assert sj("version", "--system-namespace", "batch")[1].endswith("Services: no Deployment found\n")
    server.on("/apis/apps/v1/namespaces/batch/deployments", Answer(403, status(403, "Forbidden", "no")))
    assert sj("version", "--system-namespace", "batch")[1].endswith("Services: you may not list Deployments\n")


def test_the_programs_own_version_asks_nobody(server: Server, sj: Run) -> None:
    code, out, _ = sj("version", "--client")
    assert (code, server.requests) == (0, [])
    assert out == f"Client: {sj('--version')[1]}"


def created(server: Server) -> None:
    def answer(request: Request) -> Answer:
        return Answer(201, {**request.body, "metadata": {**request.body["metadata"], "namespace": "lab"}})

    server.on(JOBS, answer, method="POST")


def test_once_more(server: Server, sj: Run) -> None:
    old = one("sim", "Failed")
    old["metadata"] |= {
        "labels": {"team": "red"},
        "annotations": {"scavenger.dev/last-checkpoint": "x", "note": "mine", "kubectl.kubernetes.io/last": "y"},
        "finalizers": ["f"],
    }
    old["spec"] = {
        "image": "app:1",
        "suspend": False,
        "queue": "default",
        "resources": {"requests": {"cpu": "0", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
    }
    server.on(f"{JOBS}/sim", Answer(body=old))
    server.on(JOBS, listed(old, one("sim-2")))
    created(server)
    assert sj("resubmit", "sim", "--cpu", "4") == (0, "scavengerjob.scavenger.dev/sim-3 created\n", "")
    assert server.asked(JOBS, "POST")[0].body == {
        "apiVersion": "scavenger.dev/v1alpha1",
        "kind": "ScavengerJob",
        "metadata": {"name": "sim-3", "labels": {"team": "red"}, "annotations": {"note": "mine"}},
        "spec": {
            "image": "app:1",
            "queue": "default",
            "resources": {"requests": {"cpu": "0", "memory": "1Gi"}, "limits": {"cpu": "4", "memory": "1Gi"}},
        },
    }
    words = ("--name", "other", "--image", "app:2", "--memory", "3Gi", "-q", "night", "--dry-run", "-o", "json")
    code, out, _ = sj("resubmit", "sim", *words)
    assert code == 0
    found = json.loads(out)
    assert (found["metadata"]["name"], found["spec"]["image"], found["spec"]["queue"]) == ("other", "app:2", "night")
    assert found["spec"]["resources"]["limits"] == {"cpu": "2", "memory": "3Gi"}


@pytest.mark.parametrize("phase", ["Running", "Waiting", "Starting", "Interrupted"])
def test_two_would_write_to_the_same_volumes(server: Server, sj: Run, phase: str) -> None:
    server.on(f"{JOBS}/sim", Answer(body=one("sim", phase)))
    code, _, err = sj("resubmit", "sim")
    assert code == 1
    assert f"sim is {phase}" in err
    assert server.asked(JOBS, "POST") == []


@pytest.mark.parametrize(
    ("name", "taken", "expected"),
    [
        ("sim", set(), "sim-2"),
        ("sim-2", set(), "sim-3"),
        ("sim", {"sim-2", "sim-3"}, "sim-4"),
        ("run-007", set(), "run-007-2"),
        ("run-20260105", set(), "run-20260105-2"),
        ("a" * 20, set(), "a" * 18 + "-2"),
        ("a" * 18 + "-9", set(), "a" * 17 + "-10"),
    ],
)
def test_names(name: str, taken: set[str], expected: str) -> None:
    assert next_name(name, taken, 20) == expected
