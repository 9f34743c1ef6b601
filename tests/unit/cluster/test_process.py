from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scavenger_cluster.process import (
    Identity,
    ProcessTable,
    Program,
    find_marked,
    identify,
    mark,
    parse_stat,
    terminate,
)

STAT = "4711 (odd) name (x) {state} 1 4711 4711 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 {threads} 0 98765 0 0"
SLEEP = ("sleep", "60")


@pytest.fixture
def table(tmp_path: Path) -> Iterator[ProcessTable]:
    table = ProcessTable(tmp_path / "run", tmp_path / "logs")
    yield table
    for name in table.names():
        table.stop(name, grace=0)


@pytest.mark.parametrize(
    ("state", "threads", "lives"),
    [("S", 1, True), ("R", 4, True), ("Z", 1, False), ("X", 1, False), ("Z", 3, True)],
)
def test_a_process_lives_until_its_last_thread_is_gone(state: str, threads: int, lives: bool) -> None:
    assert parse_stat(STAT.format(state=state, threads=threads)) == (lives, 98765)


def test_a_recycled_pid_is_somebody_else() -> None:
    mine = identify(os.getpid())
    assert mine is not None
    assert mine.alive()
    assert not Identity(mine.pid, mine.start_ticks - 1, mine.boot_id).alive()
    assert not Identity(mine.pid, mine.start_ticks, "another boot").alive()


def test_start_and_stop(table: ProcessTable) -> None:
    program = Program("node1/sleeper", SLEEP, {"PATH": os.environ["PATH"]})
    identity = table.start(program)
    assert table.running("node1/sleeper") == identity
    assert table.runs_as(program)
    assert not table.runs_as(Program("node1/sleeper", ("sleep", "61"), program.env))
    assert os.getsid(identity.pid) == identity.pid
    table.stop("node1/sleeper")
    assert not identity.alive()
    assert table.names() == []


def test_a_changed_input_file_is_a_changed_program(table: ProcessTable, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("a")
    program = Program("sleeper", SLEEP, {"PATH": os.environ["PATH"]}, inputs=(config,))
    table.start(program)
    assert table.runs_as(program)
    config.write_text("b")
    assert not table.runs_as(program)


def test_a_killed_process_stays_known_as_dead(table: ProcessTable) -> None:
    table.start(Program("sleeper", SLEEP, {"PATH": os.environ["PATH"]}))
    table.kill("sleeper")
    assert table.running("sleeper") is None
    assert table.names() == ["sleeper"]


def test_who_ignores_sigterm_is_killed_after_the_grace_time(table: ProcessTable) -> None:
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    )
    identity = table.start(Program("stubborn", (sys.executable, "-c", script), {}))
    deadline = time.monotonic() + 10
    while not table.log("stubborn").read_text() and time.monotonic() < deadline:
        os.sched_yield()
    started = time.monotonic()
    terminate([identity], grace=0.3)
    assert not identity.alive()
    assert time.monotonic() - started >= 0.3


def test_output_goes_to_the_log_and_is_appended(table: ProcessTable) -> None:
    for word in ("one", "two"):
        identity = table.start(Program("echo", ("sh", "-c", f"echo {word}"), {"PATH": os.environ["PATH"]}))
        deadline = time.monotonic() + 10
        while identity.alive() and time.monotonic() < deadline:
            os.sched_yield()
    assert table.log("echo").read_text() == "one\ntwo\n"


def test_marked_processes_are_found_without_a_pid_file_children_included(
    table: ProcessTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, data = f"unit-{os.getpid()}", tmp_path / "data"
    env = {"PATH": os.environ["PATH"], **mark(name, data, "node1/parent")}
    identity = table.start(Program("parent", ("sh", "-c", "sleep 60 & sleep 60; true"), env))
    deadline = time.monotonic() + 10
    while len(find_marked(name, data)) < 3 and time.monotonic() < deadline:
        os.sched_yield()
    found = find_marked(name, data)
    assert identity in found
    assert len(found) == 3
    assert find_marked(name, data, component=lambda component: component.startswith("node2/")) == []
    assert find_marked("unit-nobody", data) == []
    assert find_marked(name, tmp_path / "other") == [], "a cluster of this name in another state folder"
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert find_marked(name, data) == [], "another user's cluster of this name"
    terminate(found, grace=0)
    assert find_marked(name, data) == []


def test_a_process_we_may_not_see_is_none_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine whose /proc is mounted with hidepid=1."""

    def hidden(path: Path) -> str:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(Path, "read_text", hidden)
    assert identify(os.getpid()) is None


def test_a_signal_to_somebody_who_has_gone_is_nothing() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    Identity(child.pid, 1, "no boot").send(signal.SIGKILL)
