"""kubectl's global flags, before and after the command."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scavenger_api import names
from scavenger_cli.connection import request_seconds
from scavenger_cli.exits import CliError
from scavenger_testing.builders import scavengerjob_dict

from .conftest import Answer, Run, Server, listed, status

NIGHT = "/apis/scavenger.dev/v1alpha1/namespaces/night/scavengerjobs"
QUEUES = "/apis/scavenger.dev/v1alpha1/scavengerqueues"
LEVELS = "/api/v1/namespaces/{}/configmaps/" + names.LEVELS_CONFIGMAP
ACCOUNTS = "/api/v1/serviceaccounts"


@pytest.mark.parametrize(
    "words",
    [("-n", "night", "list"), ("list", "-n", "night"), ("-n", "day", "list", "-n", "night"), ("-nnight", "list")],
    ids=" ".join,
)
def test_flags_before_and_after_the_command(server: Server, sj: Run, words: tuple[str, ...]) -> None:
    server.on(NIGHT, listed(scavengerjob_dict("a", namespace="night")))
    code, out, _ = sj(*words)
    assert code == 0
    assert out.splitlines()[1].startswith("a ")


def test_who_acts(server: Server, sj: Run) -> None:
    server.on(NIGHT, listed())
    sj("--as", "ada", "--as-group=a", "-n", "night", "--token", "secret", "list", "--as-uid", "7")
    sj("list", "-n", "night", "--as", "ada", "--as-group", "a", "--as-group", "b")
    first, second = server.asked(NIGHT)
    assert first.headers["authorization"] == "Bearer secret"
    assert [value for name, value in first.fields if name.startswith("impersonate-")] == ["ada", "7", "a"]
    assert [value for name, value in second.fields if name.startswith("impersonate-")] == ["ada", "a", "b"]


def test_flags_before_a_group_and_between(server: Server, sj: Run) -> None:
    server.on(QUEUES, listed())
    assert sj("--as", "ada", "queue", "list")[0] == sj("queue", "--as", "ada", "list")[0] == 0
    assert [one.headers["impersonate-user"] for one in server.asked(QUEUES)] == ["ada", "ada"]


def test_another_server(server: Server, sj: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    server.on(NIGHT, listed())
    assert sj("-s", server.url, "-n", "night", "list") == (0, "", "No jobs found in namespace night.\n")


def test_a_group_without_a_user_is_refused_before_anything_is_sent(server: Server, sj: Run) -> None:
    code, _, err = sj("--as-group", "a", "list")
    assert (code, server.requests) == (1, [])
    assert "add --as NAME" in err


@pytest.mark.parametrize(("text", "seconds"), [("0", None), ("0s", None), ("7", 7.0), ("1m30s", 90.0)])
def test_request_timeouts(text: str, seconds: float | None) -> None:
    assert request_seconds(text) == seconds


@pytest.mark.parametrize("text", ["soon", "-1", "1.5.5s", "9" * 400])
def test_request_timeouts_that_are_none(text: str) -> None:
    with pytest.raises(CliError, match="is not a duration"):
        request_seconds(text)


def test_an_answer_that_does_not_come_in_time(server: Server, sj: Run) -> None:
    import threading

    over = threading.Event()

    def never(request: Any) -> Answer:
        over.wait(30)
        return listed()

    server.on(NIGHT, never)
    try:
        code, _, err = sj("--request-timeout", "200ms", "-n", "night", "list")
    finally:
        over.set()
    assert code == 1
    assert "does not answer" in err


def test_the_simulator_acts_as_nobody_else(sj: Run) -> None:
    code, _, err = sj("--as", "ada", "simulate")
    assert code == 2
    assert "--context and --kubeconfig only" in err


def levels(where: str) -> Answer:
    return Answer(body={"metadata": {"name": names.LEVELS_CONFIGMAP, "namespace": where}, "data": {"state": where}})


@pytest.mark.parametrize("how", ["flag", "before", "environment", "usual"])
def test_where_the_services_run(server: Server, sj: Run, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    place = names.SYSTEM_NAMESPACE if how == "usual" else "batch"
    server.on(LEVELS.format(place), levels(place))
    if how == "environment":
        monkeypatch.setenv("SCAVENGER_SYSTEM_NAMESPACE", "batch")
    before = ("--system-namespace", "batch") if how == "before" else ()
    after = ("--system-namespace", "batch") if how == "flag" else ()
    assert sj(*before, "levels", *after, "-o", "json")[1].split() == ["{", '"state":', f'"{place}"', "}"]


def test_levels_of_a_tenant_with_the_labels_of_the_services_are_not_read(server: Server, sj: Run) -> None:
    server.on(ACCOUNTS, listed({"metadata": {"name": "scavenger-admitter", "namespace": "tenant"}}))
    server.on(LEVELS.format("tenant"), levels("tenant"))
    code, out, _ = sj("levels", "-o", "json")
    assert (code, json.loads(out)) == (0, {})


def test_who_may_not_read_the_levels(server: Server, sj: Run) -> None:
    server.on(LEVELS.format(names.SYSTEM_NAMESPACE), Answer(403, status(403, "Forbidden", "no")))
    code, _, err = sj("levels")
    assert (code, err) == (1, "error: refused: no\n")
