"""Every form of -o, --field-selector, --no-headers and -w, through the whole command line."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from scavenger_cli import follow
from scavenger_testing.builders import scavengerjob_dict

from .conftest import Answer, Run, Server, event, listed, status

JOBS = "/apis/scavenger.dev/v1alpha1/namespaces/lab/scavengerjobs"
QUEUES = "/apis/scavenger.dev/v1alpha1/scavengerqueues"


def one(name: str, phase: str = "Waiting", **fields: Any) -> dict[str, Any]:
    made = scavengerjob_dict(name, namespace="lab", phase=phase, uid=f"uid-{name}", **fields)
    made["metadata"]["managedFields"] = [{"manager": "somebody"}]
    return made


@pytest.fixture
def jobs(server: Server) -> Server:
    server.on(JOBS, listed(one("job-10", "Running"), one("job-9")))
    server.on(f"{JOBS}/job-9", Answer(body=one("job-9")))
    return server


def test_names_in_the_order_of_the_server(jobs: Server, sj: Run) -> None:
    names = "scavengerjob.scavenger.dev/job-10\nscavengerjob.scavenger.dev/job-9\n"
    assert sj("list", "-o", "name") == (0, names, "")
    assert sj("list", "-q", "default", "-o", "name") == (0, names, "")
    assert sj("get", "job-9", "-o", "name") == (0, "scavengerjob.scavenger.dev/job-9\n", "")


def test_no_form_has_managed_fields(jobs: Server, sj: Run) -> None:
    for words in (("list",), ("list", "-q", "default"), ("get", "job-9")):
        for form in ("json", "yaml"):
            assert "managedFields" not in sj(*words, "-o", form)[1]


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("jsonpath={.items}", "kubectl get scavengerjobs -o …"),
        ("custom-columns=NAME:.metadata.name", "kubectl get scavengerjobs -o …"),
        ("go-template-file=x", "kubectl get scavengerjobs -o …"),
        ("xml", "choose one of table, wide, json, yaml, name"),
        ("json=x", "has no output json=x"),
    ],
)
def test_what_is_no_form_is_said_before_anything_is_sent(server: Server, sj: Run, form: str, words: str) -> None:
    code, out, err = sj("list", "-o", form)
    assert (code, out, server.requests) == (2, "", [])
    assert words in err


def test_explanations_as_data(server: Server, sj: Run) -> None:
    server.on(f"{JOBS}/a", Answer(body=one("a", "Completed")))
    assert json.loads(sj("why", "a", "-o", "json")[1])["cause"] == "Completed"
    assert sj("why", "a", "-o", "name")[0] == 2


def test_lists_as_yaml_and_json_are_whole_whatever_is_in_them(server: Server, sj: Run) -> None:
    for found in ([], [one("a")], [one("a"), one("b")]):
        server.on(JOBS, listed(*found))
        as_json = json.loads(sj("list", "-o", "json")[1])
        assert [item["metadata"]["name"] for item in as_json["items"]] == [item["metadata"]["name"] for item in found]
        assert yaml.safe_load(sj("list", "-o", "yaml")[1]) == as_json
        assert sorted(as_json) == ["apiVersion", "items", "kind", "metadata"]


def test_headers_and_order_of_the_table(jobs: Server, sj: Run) -> None:
    assert [line.split()[0] for line in sj("list", "--no-headers")[1].splitlines()] == ["job-10", "job-9"]


def test_selectors_are_the_servers(server: Server, sj: Run) -> None:
    server.on(JOBS, listed(one("a")))
    assert sj("list", "--field-selector", "status.phase=Waiting", "-l", "team=red")[0] == 0
    assert server.asked(JOBS)[0].query == {"fieldSelector": "status.phase=Waiting", "labelSelector": "team=red"}
    server.on(JOBS, Answer(400, status(400, "BadRequest", "field label not supported: spec.image")))
    code, _, err = sj("list", "--field-selector", "spec.image=x")
    assert code == 1
    assert "fieldSelector spec.image=x: field label not supported" in err
    assert "metadata.name, metadata.namespace, spec.queue, status.phase" in err
    assert sj("list", "-w", "--field-selector", "spec.image=x") == (code, "", err)


@pytest.fixture
def watched(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A list, three changes, and then nothing but a refusal that ends the command."""
    server.on(JOBS, listed(one("b"), one("a", "Running")))
    lines = [
        event("MODIFIED", one("b", "Running"), "11"),
        event("ADDED", one("a-longer-name"), "12"),
        event("DELETED", one("a", "Completed"), "13"),
    ]
    server.on(JOBS, Answer(lines=lines), Answer(403, status(403, "Forbidden", "no more")), watch=True)
    monkeypatch.setattr(follow, "RETRY_SECONDS", (0.0,))
    return server


def test_watching_in_a_table(watched: Server, sj: Run) -> None:
    code, out, _ = sj("list", "-w")
    assert code == 1
    assert [line.split()[:3] for line in out.splitlines()] == [
        ["NAME", "QUEUE", "STATUS"],
        ["a", "default", "Running"],
        ["b", "default", "Waiting"],
        ["b", "default", "Running"],
        ["a-longer-name", "default", "Waiting"],
        ["a", "default", "Completed"],
    ]
    lines = out.splitlines()
    assert lines[0].index("QUEUE") == lines[3].index("default")


def test_watching_in_other_forms(watched: Server, sj: Run) -> None:
    assert sj("list", "-w", "-o", "name", "--status", "running")[1].split() == [
        "scavengerjob.scavenger.dev/a",
        "scavengerjob.scavenger.dev/b",
    ]


def test_watching_as_documents(watched: Server, sj: Run) -> None:
    documents = list(yaml.safe_load_all(sj("list", "-w", "-o", "yaml")[1]))
    assert [one["metadata"]["name"] for one in documents] == ["b", "a", "b", "a-longer-name", "a"]


def test_queues_have_the_same(server: Server, sj: Run) -> None:
    heavy = {"metadata": {"name": "night", "uid": "1"}, "spec": {"weight": 3}}
    light = {"metadata": {"name": "day", "uid": "2"}, "spec": {"weight": 1}}
    server.on(QUEUES, listed(heavy, light))
    assert [line.split()[0] for line in sj("queue", "list", "--no-headers")[1].splitlines()] == ["day", "night"]
    assert [item["spec"]["weight"] for item in json.loads(sj("queue", "list", "-o", "json")[1])["items"]] == [3, 1]
