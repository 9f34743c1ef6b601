"""What readers of statuses say where the admitter does not look."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from rich.console import Console
from scavenger_api.times import format_micro_time
from scavenger_cli import tasks, top
from scavenger_cli.access import Access
from scavenger_cli.explain import explain
from scavenger_cli.facts import Cause

from . import cases
from .conftest import Answer, Run, Server, event, listed, status
from .test_main import JOBS, one

LEASE = "/apis/coordination.k8s.io/v1/namespaces/scavenger-system/leases/scavenger-admitter"
GONE = "as of 10:04 UTC; the admitter has not looked since"


def renewed(server: Server, monkeypatch: pytest.MonkeyPatch, ago: float) -> None:
    """The admitter renewed its Lease so many seconds before 10:30 of a day, which it is."""
    now = datetime.fromisoformat("2026-07-01T10:30:00+00:00")
    monkeypatch.setattr(Access, "now", staticmethod(lambda: now))
    at = format_micro_time(now - timedelta(seconds=ago))
    server.on(LEASE, Answer(body={"spec": {"holderIdentity": "", "renewTime": at}}))


def test_a_list_says_as_of_when_it_holds(server: Server, sj: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    server.on(JOBS, listed(one("a", "Running")))
    server.on(f"{JOBS}/a", Answer(body=one("a", "Running")))
    renewed(server, monkeypatch, 26 * 60)
    for words in (("list",), ("get", "a")):
        code, out, err = sj(*words)
        assert (code, err) == (0, f"Statuses are {GONE}.\n")
        assert "Running" in out
    assert sj("list", "-o", "name") == (0, "scavengerjob.scavenger.dev/a\n", "")


def test_a_watch_says_so(server: Server, sj: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    server.on(JOBS, listed(one("a", "Running")))
    server.on(JOBS, Answer(lines=[event("ERROR", {"code": 403, "kind": "Status", "reason": "Forbidden"})]), watch=True)
    renewed(server, monkeypatch, 26 * 60)
    for words in (("watch",), ("list", "-w")):
        assert f"Statuses are {GONE}." in sj(*words)[2]


def test_nothing_is_said_while_the_admitter_looks_or_nobody_may_know(
    server: Server, sj: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on(JOBS, listed(one("a", "Running")))
    renewed(server, monkeypatch, 59)
    assert sj("list")[2] == ""
    for code in (403, 503):
        server.on(LEASE, Answer(code, status(code, "Forbidden" if code == 403 else "ServiceUnavailable")))
        assert sj("list")[2] == ""


def test_what_is_over_stays_as_it_is(server: Server, sj: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    server.on(f"{JOBS}/a", Answer(body=one("a", "Completed")))
    renewed(server, monkeypatch, 3600)
    assert sj("get", "a")[2] == ""


@pytest.mark.parametrize("phase", ["Starting", "Running", "Suspended"])
def test_why_says_what_to_do(phase: str) -> None:
    found = explain(cases.facts(cases.job(phase=phase), admitter_seen=cases.NOW - timedelta(minutes=26)))
    assert found.cause == Cause.ADMITTER_SILENT
    assert found.headline.endswith("the admitter has not looked since")
    assert any("logs deploy/scavenger-admitter" in one for one in found.remedies)
    assert explain(cases.facts(cases.job(phase=phase))).cause != Cause.ADMITTER_SILENT
    finished = explain(cases.facts(cases.job(phase="Completed"), admitter_seen=None))
    assert finished.cause == Cause.COMPLETED


def test_why_says_it_of_arrays_and_tasks() -> None:
    array = cases.job(phase="Running", array={"tasks": 3})
    facts = cases.facts(array, admitter_seen=cases.NOW - timedelta(days=3))
    for found in (tasks.explain_array(facts), tasks.explain_task(facts, 1)):
        assert found.cause == Cause.ADMITTER_SILENT
        assert "as of 20" in found.headline
    silent = tasks.explain_array(replace(facts, admitter_seen=None))
    assert "left them" in silent.headline


def screen(what: Any) -> str:
    console = Console(file=io.StringIO(), width=80)
    console.print(what)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_live_pictures_begin_with_it() -> None:
    text = f"Statuses are {GONE}."
    view = top.View(cases.NOW, as_of=text)
    assert screen(top.render(view, ("jobs",), 80)).startswith(text)
    assert screen(top.jobs_screen([], cases.NOW, 10, 80, namespaces=False, as_of=text)).startswith(text)
