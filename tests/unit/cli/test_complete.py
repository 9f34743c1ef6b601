from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
import typer
from scavenger_cli.complete import FILES, NO_FILES, NO_SPACE, Lookup, candidates, cluster_names
from scavenger_cli.main import application, main

from .conftest import Run, Server, listed

ROOT = typer.main.get_command(application())
NAMES = {
    "job": ["gang", "simulation", "sine"],
    "queue": ["default", "night"],
    "namespace": ["lab", "prod"],
    "context": ["main"],
    "cluster": ["one"],
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
        (("list", "-o", "j"), ["json"]),
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
        (("--system-namespace", "p"), ["prod"]),
        (("list", "--cluster", ""), ["one"]),
        (("describe", "gang", "si"), ["simulation", "sine"]),
        (("resubmit", "si"), ["simulation", "sine"]),
        (("resubmit", "sine", "-q", ""), ["default", "night"]),
        (("lint", "--pod-security", "b"), ["baseline"]),
        (("--as-gr",), ["--as-group"]),
    ],
    ids=" ".join,
)
def test_candidates(words: tuple[str, ...], expected: list[str]) -> None:
    found, directive, _ = complete(*words)
    assert (found, directive) == (expected, NO_FILES)


def test_names_that_get_a_value_are_followed_by_no_space() -> None:
    assert complete("queue", "create", "night", "--namespace-weight", "l")[:2] == (["lab="], NO_SPACE)


@pytest.mark.parametrize(
    "words",
    [("submit", ""), ("lint", "a.yaml", ""), ("list", "--kubeconfig", ""), ("--certificate-authority", "")],
    ids=" ".join,
)
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


def test_what_a_kubeconfig_and_a_cluster_name(server: Server, sj: Run) -> None:
    server.on("/api/v1/namespaces", listed({"metadata": {"name": "prod"}}, {"metadata": {"name": "lab"}}))
    server.on("/apis/scavenger.dev/v1alpha1/scavengerqueues", listed({"metadata": {"name": "night"}}))
    assert list(cluster_names({}, "cluster")) == ["c"]
    assert list(cluster_names({}, "context")) == ["test"]
    assert list(cluster_names({"act_as": "ada"}, "namespace")) == ["lab", "prod"]
    assert server.requests[-1].headers["impersonate-user"] == "ada"
    assert list(cluster_names({}, "queue")) == ["night"]


def test_the_one_file_completes_under_its_other_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/kubectl_complete-sj", "queue", "cl"])
    main()
    assert capsys.readouterr().out == "close\tClose a queue.\n:4\n"


def test_a_cluster_that_is_not_there_completes_nothing() -> None:
    assert list(cluster_names({"kubeconfig": "/nowhere"}, "job")) == []
    assert list(cluster_names({"kubeconfig": "/nowhere"}, "context")) == []
