"""Queues as their users and administrators ask for them."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Answer, Run, Server, listed, status

QUEUES = "/apis/scavenger.dev/v1alpha1/scavengerqueues"
NAMESPACE = "/api/v1/namespaces/lab"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name}, "spec": {"weight": 1, **spec}}


BLUE = {"namespaceSelector": {"matchLabels": {"team": "blue"}}}
RED = {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["red"]}]}}


@pytest.fixture
def cluster(server: Server) -> Server:
    server.on(QUEUES, listed(queue("open"), queue("blue", **BLUE), queue("red", **RED)))
    server.on(NAMESPACE, Answer(body={"metadata": {"name": "lab", "labels": {"team": "blue"}}}))
    server.on(REVIEWS, Answer(201, {"status": {"allowed": True}}), method="POST")
    return server


def names(out: str) -> list[str]:
    return [line.split()[0] for line in out.splitlines()]


def test_the_queues_of_the_namespace_are_listed_and_all_on_request(cluster: Server, sj: Run) -> None:
    assert names(sj("queue", "list", "--no-headers")[1]) == ["blue", "open"]
    assert names(sj("queue", "list", "--all", "--no-headers")[1]) == ["blue", "open", "red"]
    assert names(sj("queue", "list", "-o", "name")[1]) == [
        "scavengerqueue.scavenger.dev/open",
        "scavengerqueue.scavenger.dev/blue",
    ]


def test_who_may_create_no_jobs_there_has_no_queue(cluster: Server, sj: Run) -> None:
    cluster.on(REVIEWS, Answer(201, {"status": {"allowed": False}}), method="POST")
    code, out, said = sj("queue", "list")

    assert (code, out) == (0, "")
    assert "You may not create ScavengerJobs in namespace lab" in " ".join(said.split())
    assert "--all" in said


def test_a_namespace_that_cannot_be_read_hides_no_queue(cluster: Server, sj: Run) -> None:
    cluster.on(NAMESPACE, Answer(403, status(403, "Forbidden", "no")))
    code, out, said = sj("queue", "list", "--no-headers")

    assert (code, names(out)) == (0, ["blue", "open", "red"])
    assert "Namespace lab cannot be read" in said


@pytest.mark.parametrize(
    ("words", "spec"),
    [
        (("night",), {"weight": 1}),
        (("--name", "night", "--weight", "3"), {"weight": 3}),
        (
            ("night", "--namespace-selector", "team=blue,stage=test", "--namespace-selector", "site=north"),
            {"weight": 1, "namespaceSelector": {"matchLabels": {"team": "blue", "stage": "test", "site": "north"}}},
        ),
        (("night", "--per-namespace"), {"weight": 1, "perNamespace": {}}),
        (
            ("night", "--namespace-weight", "a=3,b=1", "--namespace-weight", "c=2"),
            {"weight": 1, "perNamespace": {"weights": {"a": 3, "b": 1, "c": 2}}},
        ),
        (("night", "--namespace-weight", "a=-"), {"weight": 1}),
    ],
)
def test_create(server: Server, sj: Run, words: tuple[str, ...], spec: dict[str, Any]) -> None:
    server.on(QUEUES, Answer(201, {}), method="POST")

    assert sj("queue", "create", *words)[:2] == (0, "scavengerqueue.scavenger.dev/night created\n")
    sent = server.requests[-1].body
    assert (sent["metadata"]["name"], sent["spec"]) == ("night", spec)


@pytest.mark.parametrize("words", [(), ("night", "--name", "day")])
def test_create_takes_one_name(sj: Run, words: tuple[str, ...]) -> None:
    code, _, said = sj("queue", "create", *words)

    assert code == 2
    assert said.startswith("error: say the name of the queue once")


@pytest.mark.parametrize(
    ("wanted", "patch"),
    [
        ("stage=test", {"matchLabels": {"team": None, "stage": "test"}, "matchExpressions": None}),
        ("team=red", {"matchLabels": {"team": "red"}, "matchExpressions": None}),
        ("-", None),
    ],
)
def test_set_leaves_the_given_labels_alone(server: Server, sj: Run, wanted: str, patch: Any) -> None:
    server.on(f"{QUEUES}/night", Answer(body=queue("night", **BLUE)))
    server.on(f"{QUEUES}/night", Answer(body={}), method="PATCH")

    assert sj("queue", "set", "night", "--namespace-selector", wanted)[0] == 0
    assert server.requests[-1].body["spec"] == {"namespaceSelector": patch}


@pytest.mark.parametrize(
    ("before", "words", "patch"),
    [
        ({}, ("--per-namespace",), {"perNamespace": {}}),
        ({}, ("--namespace-weight", "a=3"), {"perNamespace": {"weights": {"a": 3}}}),
        ({"perNamespace": {"weights": {"a": 3, "b": 2}}}, ("--per-namespace",), {"perNamespace": {}}),
        (
            {"perNamespace": {"weights": {"a": 3, "b": 2}}},
            ("--namespace-weight", "a=-,b=4"),
            {"perNamespace": {"weights": {"a": None, "b": 4}}},
        ),
        ({"perNamespace": {}}, ("--namespace-weight", "a=-"), {"perNamespace": {"weights": {"a": None}}}),
        ({"perNamespace": {"weights": {"a": 3}}}, ("--no-per-namespace",), {"perNamespace": None}),
        ({}, ("--weight", "2", "--namespace-weight", "a=-"), {"weight": 2}),
    ],
)
def test_set_changes_the_turns_of_namespaces(
    server: Server, sj: Run, before: dict[str, Any], words: tuple[str, ...], patch: dict[str, Any]
) -> None:
    """A weight that is taken away does not make namespaces take turns where they do not."""
    server.on(f"{QUEUES}/night", Answer(body=queue("night", **before)))
    server.on(f"{QUEUES}/night", Answer(body={}), method="PATCH")

    assert sj("queue", "set", "night", *words)[0] == 0
    assert server.requests[-1].body["spec"] == patch


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("create", "night", "--namespace-weight", "a=0"), "--namespace-weight a=0 is not a weight"),
        (("create", "night", "--namespace-weight", "a=1.5"), "--namespace-weight a=1.5 is not a weight"),
        (("create", "night", "--namespace-weight", "a=" + "9" * 5000), "is not a weight"),
        (("set", "night", "--namespace-weight", "a"), "--namespace-weight a is not an assignment"),
        (("set", "night", "--namespace-weight", "a=-"), "say what to change"),
        (("set", "night", "--no-per-namespace", "--namespace-weight", "a=1"), "--no-per-namespace has no weights"),
    ],
)
def test_weights_of_namespaces_that_are_refused(server: Server, sj: Run, words: tuple[str, ...], said: str) -> None:
    server.on(f"{QUEUES}/night", Answer(body=queue("night")))
    code, _, found = sj("queue", *words)

    assert code == 2
    assert said in " ".join(found.split())
    assert all(one.method == "GET" for one in server.requests)


def test_view_is_get(server: Server, sj: Run) -> None:
    night = queue("night")
    night["metadata"]["creationTimestamp"] = "2026-01-05T08:00:00Z"
    server.on(f"{QUEUES}/night", Answer(body=night))

    assert sj("queue", "view", "night") == sj("queue", "get", "night")
    assert "2026-01-05T08:00:00Z" in sj("queue", "view", "night")[1]
