"""Every form of -o, --sort-by, --field-selector, --no-headers and -w, through the whole command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_cli import follow
from scavenger_cli.jsonpath import TemplateError
from scavenger_cli.sorting import order
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


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("list", "-o", "jsonpath={.items[*].metadata.name}"), "job-10 job-9"),
        (("list", "-o", 'jsonpath={range .items[*]}{.status.phase}{"\\n"}{end}'), "Running\nWaiting\n"),
        (("list", "-o", "jsonpath-as-json={.kind}"), '[\n    "List"\n]\n'),
        (("list", "-q", "default", "-o", "jsonpath={.items[*].metadata.managedFields}"), ""),
        (("get", "job-9", "-o", "jsonpath={.metadata.name}"), "job-9"),
        (("list", "-o", "custom-columns=N:.metadata.name,P:status.phase,X:.nothing"),
         "N        P         X\njob-10   Running   <none>\njob-9    Waiting   <none>\n"),
        (("list", "--no-headers", "-o", "custom-columns=N:.metadata.name"), "job-10\njob-9\n"),
        (("get", "job-9", "-o", "custom-columns=N:.metadata.name"), "N\njob-9\n"),
        (("list", "-o", "name", "--sort-by", ".metadata.name"),
         "scavengerjob.scavenger.dev/job-10\nscavengerjob.scavenger.dev/job-9\n"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_forms(jobs: Server, sj: Run, words: tuple[str, ...], text: str) -> None:
    assert sj(*words) == (0, text, "")


def test_templates_in_files(jobs: Server, sj: Run, tmp_path: Path) -> None:
    file = tmp_path / "template"
    file.write_text("NAME PHASE\n.metadata.name .status.phase\n")
    assert sj("get", "job-9", "-o", f"custom-columns-file={file}")[1] == "NAME    PHASE\njob-9   Waiting\n"
    file.write_text("{.metadata.name}")
    assert sj("get", "job-9", "-o", f"jsonpath-file={file}")[1] == "job-9"
    assert sj("get", "job-9", "-o", "jsonpath-file=/nowhere")[0] == 2


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("jsonpath", "write -o jsonpath='{.metadata.name}'"),
        ("custom-columns=", "write -o custom-columns=NAME:.metadata.name"),
        ("custom-columns=NAME", "write HEADER:.path.of.it"),
        ("jsonpath={.a", "a brace is not closed"),
        ("go-template={{.metadata.name}}", "kubectl get scavengerjobs -o go-template="),
        ("go-template-file=x", "kubectl get scavengerjobs -o go-template="),
        ("xml", "choose one of table, wide, json, yaml, name, jsonpath=…"),
        ("json=x", "has no output json=x"),
    ],
)
def test_what_is_no_form_is_said_before_anything_is_sent(server: Server, sj: Run, form: str, words: str) -> None:
    code, out, err = sj("list", "-o", form)
    assert (code, out, server.requests) == (2, "", [])
    assert words in err


def test_a_template_that_says_nothing_of_the_objects(jobs: Server, sj: Run) -> None:
    code, _, err = sj("list", "-o", "jsonpath={.items[9]}")
    assert (code, err) == (1, "error: -o jsonpath: there is no [9] in a list of 2\n")


def test_explanations_by_template(server: Server, sj: Run) -> None:
    server.on(f"{JOBS}/a", Answer(body=one("a", "Completed")))
    assert sj("why", "a", "-o", "jsonpath={.cause}") == (0, "Completed", "")
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
    by_name = sj("list", "--sort-by", "{.status.phase}")[1].splitlines()
    assert [line.split()[0] for line in by_name] == ["NAME", "job-10", "job-9"]
    code, _, err = sj("list", "--sort-by", ".spec.nothing")
    assert (code, err) == (2, "error: --sort-by: none of them has .spec.nothing\n")


@pytest.mark.parametrize(
    ("values", "places"),
    [
        ([3, 1, 2], [1, 2, 0]),
        (["1Gi", "500Mi", "2k"], [2, 1, 0]),
        (["2", "10", "1.5"], [2, 0, 1]),
        (["b", None, "a"], [1, 2, 0]),
        (["b", "a", "b"], [1, 0, 2]),
        (["a10", "a9", "a"], [2, 0, 1]),
        (["10", "x", "9"], [0, 2, 1]),
    ],
)
def test_order(values: list[Any], places: list[int]) -> None:
    items = [{"v": value} if value is not None else {} for value in values]
    assert order(items, ".v") == places
    assert order([], ".v") == []
    with pytest.raises(TemplateError, match="none of them"):
        order(items, ".w")


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
    code, out, err = sj("list", "-w", "--sort-by", ".metadata.name")
    assert code == 1
    assert "--sort-by has no effect with --watch" in err
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


def test_watching_in_columns_of_ones_own(watched: Server, sj: Run) -> None:
    out = sj("list", "-w", "-o", "custom-columns=N:.metadata.name")[1]
    assert out.split() == ["N", "b", "a", "b", "a-longer-name", "a"]


def test_queues_have_the_same(server: Server, sj: Run) -> None:
    heavy = {"metadata": {"name": "night", "uid": "1"}, "spec": {"weight": 3}}
    light = {"metadata": {"name": "day", "uid": "2"}, "spec": {"weight": 1}}
    server.on(QUEUES, listed(heavy, light))
    assert [line.split()[0] for line in sj("queue", "list", "--no-headers")[1].splitlines()] == ["day", "night"]
    assert sj("queue", "list", "-o", "jsonpath={.items[*].spec.weight}")[1] == "3 1"
    out = sj("queue", "list", "--sort-by", ".spec.weight", "-o", "custom-columns=N:.metadata.name")[1]
    assert out.split() == ["N", "day", "night"]
