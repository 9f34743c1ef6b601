from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
import typer
from scavenger_cli.complete import FILES, NO_FILES, Lookup, candidates, cluster_names
from scavenger_cli.main import app

ROOT = typer.main.get_command(app)
NAMES = {
    "job": ["gang", "simulation", "sine"],
    "queue": ["default", "night"],
    "namespace": ["lab", "prod"],
    "context": ["main"],
}


def complete(*words: str) -> tuple[list[str], int, Mapping[str, Any]]:
    given: Mapping[str, Any] = {}

    def lookup(options: Mapping[str, Any]) -> Lookup:
        nonlocal given
        given = options

        def find(sort: str) -> Iterable[str]:
            return NAMES[sort]

        return find

    found, directive = candidates(ROOT, words, lookup)
    return [one.split("\t")[0] for one in found], directive, given


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("w",), ["watch", "wait", "why"]),
        (("why", "si"), ["simulation", "sine"]),
        (("why", "simulation", ""), []),
        (("cancel", "gang", "s"), ["simulation", "sine"]),
        (("queue", "cl"), ["close"]),
        (("queue", "close", ""), ["default", "night"]),
        (("queue", "create", ""), []),
        (("run", ""), []),
        (("list", "--queue", "n"), ["night"]),
        (("list", "-n", ""), ["lab", "prod"]),
        (("list", "--context", ""), ["main"]),
        (("list", "-o", "j"), ["json", "jsonpath=", "jsonpath-as-json="]),
        (("list", "--status", "s"), ["starting", "suspended"]),
        (("wait", "gang", "--for", "f"), ["finished"]),
        (("list", "--al"), ["--all-namespaces"]),
        (("list", "-A", "--no"), ["--no-headers"]),
        (("list", "-A", "--nothing"), []),
        (("top", "n"), ["nodes"]),
        (("submit", "--timeout", ""), []),
        (("-n", "lab", "why", "si"), ["simulation", "sine"]),
        (("--as", "ada", "queue", "-n", "lab", "cl"), ["close"]),
        (("-n", ""), ["lab", "prod"]),
        (("--as-gr",), ["--as-group"]),
    ],
    ids=" ".join,
)
def test_candidates(words: tuple[str, ...], expected: list[str]) -> None:
    found, directive, _ = complete(*words)
    assert (found, directive) == (expected, NO_FILES)


@pytest.mark.parametrize("words", [("submit", ""), ("list", "--kubeconfig", "")], ids=" ".join)
def test_files(words: tuple[str, ...]) -> None:
    assert complete(*words)[:2] == ([], FILES)


def test_names_are_looked_for_where_the_options_say() -> None:
    assert complete("why", "-n", "lab", "--context=other", "s")[2] == {"namespace": "lab", "context": "other"}
    assert complete("-n", "lab", "--token", "t", "why", "s")[2] == {"namespace": "lab", "token": "t"}
    several = {"act_as": "ada", "act_as_group": ("a", "b"), "insecure_skip_tls_verify": True}
    line = ("--as", "ada", "--as-group=a", "--as-group", "b", "--insecure-skip-tls-verify", "why", "s")
    assert complete(*line)[2] == several


def test_nothing_typed_yet() -> None:
    assert set(complete()[0]) >= {"submit", "why", "queue"}


def test_a_cluster_that_is_not_there_completes_nothing() -> None:
    assert list(cluster_names({"kubeconfig": "/nowhere"}, "job")) == []
    assert list(cluster_names({"kubeconfig": "/nowhere"}, "context")) == []
