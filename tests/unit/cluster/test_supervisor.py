"""Real services under real supervisors, with short delays."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from scavenger_cluster import cgroups, ports, services, supervisor, wait_for
from scavenger_cluster.api import ApiClient
from scavenger_cluster.errors import ClusterError, ComponentFailedError
from scavenger_cluster.layout import Layout
from scavenger_cluster.plan import ports_from
from scavenger_cluster.process import Identity, ProcessTable, Program
from scavenger_cluster.state import ClusterState

pytestmark = pytest.mark.slow

NAME = "service/tester"
MARK = f"UNIT_SUPERVISOR={os.getpid()}"
ENVIRONMENT = {"PATH": os.environ["PATH"], **dict([MARK.split("=")])}
NEVER = 600.0
"""A delay whose end no test waits for."""

LIVES = "exec sleep 60"
STUBBORN = f"trap '' TERM; echo up; {LIVES}"
POLITE = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.02; done"


@pytest.fixture
def table(tmp_path: Path) -> Iterator[ProcessTable]:
    """What ends is started again after 50 ms."""
    made = ProcessTable(tmp_path / "run", tmp_path / "logs", first_delay=0.05)
    yield made
    for name in made.names():
        made.stop(name, grace=0)
    assert left_over() == []


@pytest.fixture
def patient(table: ProcessTable) -> ProcessTable:
    """What ends stays so for the rest of the test, waiting for its next start."""
    table.first_delay = NEVER
    return table


def shell(script: str, *, restart: bool = True) -> Program:
    return Program(NAME, ("sh", "-c", script), ENVIRONMENT, restart=restart)


def left_over() -> list[str]:
    """Supervisors and services of these tests that still run, and whatever those have started."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # others come and go meanwhile
            if MARK.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_text())
    return found


def until(what: str, condition: Callable[[], bool]) -> None:
    wait_for(what, condition, timeout=10, interval=0.005)


def until_logged(table: ProcessTable, text: str) -> None:
    until(text, lambda: text in table.log(NAME).read_text())


def leader_and_service(table: ProcessTable) -> tuple[Identity, Identity]:
    leader, service = table.leader(NAME), table.running(NAME)
    assert leader is not None
    assert service is not None
    return leader, service


def restarts(table: ProcessTable) -> int:
    seen = table.supervision(NAME)
    assert seen is not None
    return seen.restarts


@contextlib.contextmanager
def delays(folder: Path, script: str, *, first: float, longest: float) -> Iterator[Callable[[], list[str]]]:
    """Run a script under a supervisor; yields what tells the delays it has named in the log so far."""
    log = folder / "log"
    words = supervisor.command(folder / "record", ("sh", "-c", script), first=first, longest=longest)
    with log.open("wb") as output:
        process = subprocess.Popen(words, env=ENVIRONMENT, cwd=folder, stdout=output, stderr=output)
    try:
        yield lambda: re.findall(r"supervisor: ended with exit code 3, starting again in (\S+) s", log.read_text())
    finally:
        process.terminate()
        assert process.wait(10) == 0


# --- started again --------------------------------------------------------------------------------------------------


def test_the_delay_doubles_up_to_the_longest(tmp_path: Path) -> None:
    began = time.monotonic()
    # A run that takes twice the longest delay counts as long: so much time a busy machine has for `exit`.
    with delays(tmp_path, "exit 3", first=0.25, longest=1.0) as named:
        until("four ends", lambda: len(named()) >= 4)
        assert time.monotonic() - began >= 0.25 + 0.5 + 1.0
        assert named()[:4] == ["0.25", "0.5", "1", "1"]


def test_who_has_run_for_long_waits_no_longer_than_the_first_time(tmp_path: Path) -> None:
    script = 'echo >> runs; [ "$(wc -l < runs)" -ne 3 ] || sleep 2.1; exit 3'
    with delays(tmp_path, script, first=0.05, longest=1.0) as named:
        until("four ends", lambda: len(named()) >= 4)
        assert named()[:4] == ["0.05", "0.1", "0.05", "0.1"], "the third run took twice the longest delay"


def test_a_killed_service_comes_back_as_another_process_and_is_counted(table: ProcessTable) -> None:
    table.start(shell(LIVES))
    leader, first = leader_and_service(table)
    assert first.pid != leader.pid
    assert restarts(table) == 0
    table.kill(NAME)
    assert not first.alive()
    until("it is back", lambda: table.running(NAME) is not None)
    again, second = leader_and_service(table)
    assert (again, os.getsid(second.pid), os.getpgid(second.pid)) == (leader, leader.pid, leader.pid)
    assert second != first
    seen = table.supervision(NAME)
    assert seen is not None
    assert (seen.identity, seen.restarts, seen.exit_code, seen.next_start) == (second, 1, -signal.SIGKILL, None)
    assert table.log(NAME).read_text() == "supervisor: ended by signal 9 (Killed), starting again in 0.05 s\n"


def test_a_program_that_cannot_be_started_is_tried_again(table: ProcessTable) -> None:
    table.start(Program(NAME, ("no-such-program",), ENVIRONMENT, restart=True))
    until("a second try", lambda: restarts(table) >= 1)
    lines = table.log(NAME).read_text().splitlines()
    assert lines[0].startswith("supervisor: cannot start no-such-program: [Errno 2]")
    assert lines[1] == "supervisor: ended with exit code 127, starting again in 0.05 s"


def test_one_that_is_meant_to_end_is_left_so(table: ProcessTable) -> None:
    program = shell("echo done", restart=False)
    assert program.digest() != shell("echo done").digest()
    ended = table.start(program)
    until("its end", lambda: not ended.alive())
    assert (table.running(NAME), table.leader(NAME), table.supervision(NAME)) == (None, None, None)
    assert table.log(NAME).read_text() == "done\n"


# --- what the service sees ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "expected"),
    [(("env",), MARK), (("pwd",), "/"), (("grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"), "SigIgn")],
    ids=["environment", "folder", "signals"],
)
def test_a_service_sees_what_it_would_see_without_a_supervisor(
    patient: ProcessTable, command: tuple[str, ...], expected: str
) -> None:
    seen = []
    for restart in (False, True):
        patient.start(Program(NAME, command, ENVIRONMENT, restart=restart))
        until("its end", lambda: patient.running(NAME) is None)
        patient.stop(NAME)
        seen.append([line for line in patient.log(NAME).read_text().splitlines() if "supervisor:" not in line])
        patient.log(NAME).unlink()
    assert expected in "\n".join(seen[0])
    assert seen[0] == seen[1]


def test_a_supervisor_is_small(table: ProcessTable) -> None:
    table.start(shell(LIVES))
    leader, _ = leader_and_service(table)
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{leader.pid}/status").read_text())
    assert found is not None
    assert int(found[1]) < 15_000


# --- stopped --------------------------------------------------------------------------------------------------------


def test_a_stopped_service_gets_sigterm_and_is_not_started_again(table: ProcessTable) -> None:
    table.start(shell(POLITE))
    until_logged(table, "up")
    table.stop(NAME)
    assert left_over() == []
    assert table.names() == []
    assert list(table.run_dir.iterdir()) == []
    assert table.log(NAME).read_text() == "up\nbye\n"


def test_one_that_ignores_sigterm_is_killed_after_the_grace_time_with_its_supervisor(table: ProcessTable) -> None:
    table.start(shell(STUBBORN))
    until_logged(table, "up")
    began = time.monotonic()
    table.stop(NAME, grace=0.2)
    assert time.monotonic() - began >= 0.2
    assert left_over() == []


def test_one_that_waits_for_its_next_start_is_stopped_at_once(patient: ProcessTable) -> None:
    patient.start(shell("exit 3"))
    until_logged(patient, "starting again in 600 s")
    patient.stop(NAME)
    assert left_over() == []
    assert patient.log(NAME).read_text().endswith("supervisor: stopped, not starting again\n")


def test_a_service_does_not_outlive_its_supervisor(table: ProcessTable) -> None:
    table.start(shell(STUBBORN))
    until_logged(table, "up")
    leader, service = leader_and_service(table)
    leader.send(signal.SIGKILL)
    until("the service has gone too", lambda: not service.alive())
    assert table.running(NAME) is None
    assert table.names() == [NAME], "known as dead"


@pytest.mark.parametrize("grace", [0, 2])
@pytest.mark.parametrize(
    "killed", [(), ("service",), ("leader",), ("service", "leader"), ("leader", "service")], ids="-then-".join
)
def test_whoever_was_killed_before_nothing_is_left(table: ProcessTable, killed: tuple[str, ...], grace: float) -> None:
    table.start(shell(LIVES))
    leader, service = leader_and_service(table)
    for who in killed:
        {"leader": leader, "service": service}[who].send(signal.SIGKILL)
    table.end([NAME, "service/nobody"], grace=grace)
    assert left_over() == []
    assert table.names() == [NAME]
    table.stop(NAME)
    assert table.names() == []


# --- as the cluster uses it -----------------------------------------------------------------------------------------


def state() -> ClusterState:
    return ClusterState("unit", slot=0, ports=ports_from(21000), bind_address="127.0.0.1", service_ports={NAME: 1})


def test_a_running_service_is_described_by_its_own_process(table: ProcessTable) -> None:
    table.start(shell(LIVES))
    _, first = leader_and_service(table)
    assert services.running("tester", state=state(), processes=table).pid == first.pid
    table.kill(NAME)
    until("it is back", lambda: table.running(NAME) is not None)
    described = services.running("tester", state=state(), processes=table)
    assert (described.pid, described.restarts) == (leader_and_service(table)[1].pid, 1)


def test_of_one_that_is_not_running_the_error_tells_why_and_for_how_long(patient: ProcessTable) -> None:
    patient.start(shell("exit 3"))
    until_logged(patient, "starting again")
    prospect = r"service/tester is not running: it ended with exit code 3 and is started again in \d{3}\.\d s; its log"
    with pytest.raises(ClusterError, match=prospect):
        services.running("tester", state=state(), processes=patient)
    patient.end([NAME], grace=0)
    with pytest.raises(ClusterError, match="service/tester is not running; its log"):
        services.running("tester", state=state(), processes=patient)


@pytest.mark.parametrize("delay", [0.01, NEVER], ids=["started-again", "waiting"])
def test_one_that_ends_before_its_first_answer_has_failed(table: ProcessTable, delay: float) -> None:
    table.first_delay = delay
    table.start(shell("echo out of cheese; exit 3"))
    url = f"http://127.0.0.1:{ports.any_free_port()}/healthz"
    with pytest.raises(ComponentFailedError, match=r"(?s)service/tester ended.*out of cheese"):
        services.wait_for_probe(NAME, url, table, timeout=10)
    assert left_over() == [], "nor is it started again"
    assert table.names() == [NAME]


def test_one_that_answers_has_come_up(table: ProcessTable) -> None:
    port = ports.any_free_port()
    words = (sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1")
    table.start(Program(NAME, words, ENVIRONMENT, restart=True))
    services.wait_for_probe(NAME, f"http://127.0.0.1:{port}/", table, timeout=10)
    assert restarts(table) == 0


class Tokens:
    """An API server that gives tokens to service accounts."""

    def request(self, method: str, path: str, body: object = None) -> dict[str, dict[str, str]]:
        return {"status": {"token": "secret"}}


class Late(ProcessTable):
    """Looks at what it has started after that has ended, as a test does that a busy machine has stopped."""

    def start(self, program: Program) -> Identity:
        identity = super().start(program)
        until("its end", lambda: not identity.alive())
        return identity


def test_of_one_that_is_meant_to_end_nobody_asks_whether_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "with_cpu_claim", tuple)
    layout = Layout(tmp_path)
    layout.pki.mkdir()
    (layout.pki / "ca.crt").write_text("authority")
    processes = Late(layout.run, layout.logs)
    command = ["sh", "-c", "echo done"]
    ended = services.start(
        "tester",
        state=state(),
        layout=layout,
        processes=processes,
        client=cast("ApiClient", Tokens()),
        environment=ENVIRONMENT,
        command=command,
        wait=None,
        restart=False,
    )
    assert ended.log.read_text() == "done\n"
    with pytest.raises(ClusterError, match="service/tester is not running"):
        services.running("tester", state=state(), processes=processes)
    processes.stop(NAME)
