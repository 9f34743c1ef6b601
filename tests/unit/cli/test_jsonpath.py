"""kubectl's JSONPath; tests/integration/cli puts the same templates to kubectl itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scavenger_cli.jsonpath import TemplateError, parse, parse_relaxed

JOBS: dict[str, Any] = {
    "items": [
        {
            "metadata": {"name": "a", "labels": {"example.com/team": "red"}},
            "spec": {"parallelism": 1, "env": [{"name": "X", "value": "1"}, {"name": "Y"}], "suspend": False},
            "status": {"phase": "Waiting", "usefulCPUSeconds": 1.5},
        },
        {"metadata": {"name": "b"}, "spec": {"parallelism": 3, "suspend": True}, "status": {"phase": "Running"}},
        {"metadata": {"name": "c"}, "spec": {"parallelism": 2}},
    ]
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("names: {.items[*].metadata.name}!", "names: a b c!"),
        ("{$.items[0].metadata['name']}", "a"),
        ('{.items[0].metadata["name"]}', "a"),
        (r"{.items[0].metadata.labels.example\.com/team}", "red"),
        (r"{.items[0].metadata.labels['example\.com/team']}", "red"),
        ("{.items[-1].metadata.name} {.items[-1:].metadata.name}", "c c"),
        ("{.items[0:2].metadata.name}|{.items[::2].metadata.name}|{.items[1:].metadata.name}", "a b|a c|b c"),
        ("{.items[0,2].metadata.name}", "a c"),
        ("{.items[*]['metadata.name', 'status.phase']}", ""),
        ("{.items[*].metadata['name','labels']}", 'a b c {"example.com/team":"red"}'),
        ("{..name}", "a X Y b c"),
        ("{.items[0].spec.env[*].*}", "X 1 Y"),
        ("{.items[*].spec.*}", '[{"name":"X","value":"1"},{"name":"Y"}] 1 false 3 true 2'),
        ('{.items[?(@.status.phase=="Running")].metadata.name}', "b"),
        ("{.items[?(@.status.phase != 'Running')].metadata.name}", "a"),
        ("{.items[?(@.spec.parallelism >= 2)].metadata.name}", "b c"),
        ("{.items[?(@.spec.suspend==true)].metadata.name}", "b"),
        ("{.items[?(@.status)].metadata.name}", "a b"),
        ('{.items[?(@.metadata.name==")]")].metadata.name}', ""),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.status.phase}{"\\n"}{end}.', "a\tWaiting\nb\tRunning\nc\t\n."),
        ("{range .items[*]}{range .spec.env[*]}<{.name}>{end};{end}", "<X><Y>;;;"),
        ("{range .nothing[*]}x{end}y", "y"),
        ("{range .items[*]}{.metadata.name}", "abc"),
        ("{.nothing.at.all}", ""),
        ("{.items[0].spec}", '{"env":[{"name":"X","value":"1"},{"name":"Y"}],"parallelism":1,"suspend":false}'),
        ("{.items[0].status.usefulCPUSeconds} {'its'} {\"\\u00e9\"} {1} {-2.5} {true}", "1.5 its é 1 -2.5 true"),
        ("no braces", "no braces"),
    ],
)
def test_what_a_template_comes_to(template: str, text: str) -> None:
    assert parse(template).text(JOBS) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (12345.678, "12345.678"),
        (2.0, "2"),
        (0.1, "0.1"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1e-7, "1e-07"),
    ],
)
def test_numbers_are_written_as_go_writes_them(number: float, text: str) -> None:
    assert parse("{.n}").text({"n": number}) == text


def test_a_whole_object() -> None:
    assert json.loads(parse("{}").text(JOBS)) == json.loads(parse("{@}").text(JOBS)) == JOBS
    assert json.loads(parse("{.}").text(JOBS)) == JOBS
    assert json.loads(parse("{.items[*].metadata.name}").as_json(JOBS)) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{.items", "a brace is not closed"),
        ("{.items[0}", "a bracket is not closed"),
        ("{.items[?(@.a==1}", "a filter is not closed"),
        ("{.items[x]}", "neither an index"),
        ("{.items[]}", "neither an index"),
        ("{.items[::0]}", "greater than zero"),
        ('{"open}', "a quote is not closed"),
        ("{items}", "write .items"),
        ("{end}", "without a {range}"),
        ("{.items[?(@.a =~ 'x')]}", "=~ is not a comparison"),
        ("{(.a)}", "means nothing here"),
        ("{1.2.3}", "not a number"),
    ],
)
def test_what_cannot_be_read_is_said(template: str, words: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse(template)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{.items[7]}", "there is no [7] in a list of 3"),
        ("{.items[0].metadata[0]}", "of lists only"),
        ('{.items[?(@.spec.parallelism=="1")]}', "of another type"),
        ("{.items[?(@.spec.* == 1)]}", "compares single values"),
        ("{.items[?(@.metadata < @.metadata)]}", "has no order"),
    ],
)
def test_what_says_nothing_of_the_object(template: str, words: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse(template).text(JOBS)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "path", [".metadata.name", "metadata.name", "{.metadata.name}", "{metadata.name}", "$.metadata.name"]
)
def test_paths_of_columns(path: str) -> None:
    assert parse_relaxed(path).find(JOBS["items"][1]) == ["b"]


@pytest.mark.parametrize("path", ["", "{}", "{.a}{.b}", "{.a"])
def test_paths_that_are_none(path: str) -> None:
    with pytest.raises(TemplateError, match="is not a path"):
        parse_relaxed(path)
