"""Who may have an agent start anything, and what: real connections, and a daemon that only says that it was started."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest
import scavenger_checkpoint
from scavenger_cluster import stack
from scavenger_cluster.ports import any_free_port
from scavenger_mpi import agent as agents
from scavenger_mpi import channel, client, launcher, member, processes

pytestmark = pytest.mark.slow

SECRET = b"the secret of this job"
PEERS = "127.0.0.1,127.0.0.2"
GANG = f"{PEERS}\n1\n0"
HOST = "127.0.0.2"
RUN = {"verb": "daemon", "arguments": ["--some", "argument"]}


class Agent:
    """An agent as a process."""

    def __init__(self, folder: Path) -> None:
        self.started = folder / "started"
        (folder / "key").write_bytes(SECRET + b"\n")
        programs = folder / "bin"
        programs.mkdir()
        daemon = programs / "orted"
        daemon.write_text(f'#!/bin/sh\necho "$@" >> "{self.started}"\nexit 3\n')
        daemon.chmod(0o755)
        self.port = any_free_port("0.0.0.0")
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-m", "scavenger_mpi", f"--bind={HOST}", "--", "program"],
            env={
                "PATH": f"{programs}:/usr/bin:/bin",
                "PYTHONPATH": stack.python_path("mpi"),
                "SCAVENGER_INDEX": "1",
                "SCAVENGER_PARALLELISM": "2",
                "SCAVENGER_PEERS": PEERS,
                "SCAVENGER_MPI_PORT": str(self.port),
                "SCAVENGER_MPI_SECRET": str(folder / "key"),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert "waits for the launcher" in self.process.stdout.readline()

    def call(self, secret: bytes = SECRET, gang: str = GANG) -> channel.Channel:
        return channel.call(HOST, self.port, secret, gang, 30)

    def ask(self, request: dict[str, Any], secret: bytes = SECRET, gang: str = GANG) -> dict[str, Any]:
        with closing(self.call(secret, gang)) as asked:
            asked.send(request)
            return asked.receive()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    found = Agent(tmp_path)
    yield found
    found.process.kill()
    found.process.communicate()


def test_a_caller_with_the_secret_has_the_daemon_started_and_hears_of_its_end(agent: Agent) -> None:
    assert agent.ask({"verb": "ready"}) == {"stopping": False}
    with closing(agent.call()) as called:
        called.send(RUN)
        assert called.receive() == {}
        assert called.receive() == {"code": 3}
    assert agent.started.read_text() == "--some argument\n"
    assert agent.ask(RUN) == {"refused": "it was started before"}
    assert agent.ask({"verb": "end", "code": 85}) == {}
    assert agent.process.wait(30) == 85


@pytest.mark.parametrize(
    ("secret", "gang"),
    [
        (b"another secret of a job", GANG),
        (b"", GANG),
        (SECRET, f"{PEERS}\n0\n0"),  # meant for another member
        (SECRET, f"{PEERS}\n1\n1"),  # of another start of the job
        (SECRET, "127.0.0.1,127.0.0.3\n1\n0"),  # of another gang
    ],
)
def test_nobody_else_has_anything_started(agent: Agent, secret: bytes, gang: str) -> None:
    for request in (RUN, {"verb": "end", "code": 0}):
        with pytest.raises(channel.ChannelError):
            agent.ask(request, secret, gang)
    assert agent.ask({"verb": "ready"}) == {"stopping": False}
    assert not agent.started.exists()
    assert agent.process.poll() is None


def test_what_was_said_in_one_conversation_is_worth_nothing_in_another(agent: Agent) -> None:
    own = "ab" * 32

    def converse(line: bytes | None) -> bytes:
        """The line that asks for the daemon, with the code of this conversation, or another's; the answer to it."""
        with ExitStack() as held:
            connection = held.enter_context(socket.create_connection((HOST, agent.port), 30))
            file = held.enter_context(connection.makefile("rb"))
            other = file.readline().decode().strip()
            connection.sendall(f"{own}\n".encode())
            if line is None:
                ours = channel.Channel.__new__(channel.Channel)
                ours._secret, ours._conversation = SECRET, "\n".join((GANG, own, other))
                text = '{"verb": "ready"}'
                said.append(f"{ours._code(True, 0, text)} {text}\n".encode())
            connection.sendall(line or said[0])
            return file.readline()

    said: list[bytes] = []
    assert b'{"stopping": false}' in converse(None)
    assert converse(said[0]) == b""


def test_only_three_things_can_be_asked_for(agent: Agent) -> None:
    assert agent.ask({"verb": "sh", "arguments": ["-c", "true"]}) == {"refused": "'sh' is nothing that an agent does"}


def test_who_says_nothing_keeps_nobody_else_away(agent: Agent) -> None:
    with socket.create_connection((HOST, agent.port), 30):
        assert agent.ask({"verb": "ready"}) == {"stopping": False}


def test_who_is_slow_to_say_anything_keeps_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "_SILENCE", 0.5)
    (tmp_path / "key").write_bytes(SECRET)
    environment = {"SCAVENGER_INDEX": "1", "SCAVENGER_PARALLELISM": "2", "SCAVENGER_PEERS": PEERS}
    of = {
        **environment,
        "SCAVENGER_MPI_PORT": str(any_free_port("0.0.0.0")),
        "SCAVENGER_MPI_SECRET": str(tmp_path / "key"),
    }
    serving = agents.Agent(member.Member.read(of), HOST, scavenger_checkpoint.StopRequest(()))
    theirs, ours = socket.socketpair()
    with closing(serving._server), theirs:
        serving._callers.acquire()
        answering = threading.Thread(target=serving._answer, args=(ours,), daemon=True)
        answering.start()
        # A byte now and then, always sooner than such a wait for the next would end.
        while answering.is_alive():
            with suppress(OSError):
                theirs.send(b"a")
            answering.join(0.05)
        assert serving._callers._value == agents._CALLERS


def test_the_launcher_asks_all_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is slow to answer, or gone without a word, takes the time of the others from nobody's grace period."""
    monkeypatch.setattr(launcher, "_ANSWER", 20.0)
    peers, port = [f"127.0.0.{n}" for n in range(1, 5)], any_free_port("0.0.0.0")
    (tmp_path / "key").write_bytes(SECRET)
    environment = {"SCAVENGER_INDEX": "0", "SCAVENGER_PARALLELISM": "4", "SCAVENGER_PEERS": ",".join(peers)}
    of = {**environment, "SCAVENGER_MPI_PORT": str(port), "SCAVENGER_MPI_SECRET": str(tmp_path / "key")}
    first = member.Member.read(of)
    all_called = threading.Barrier(3)

    def answer(index: int) -> None:
        with servers[index - 1].accept()[0] as connection:
            all_called.wait()
            with closing(channel.Channel(connection, SECRET, first.gang(index), calling=False)) as asked:
                asked.send({"stopping": asked.receive() != {"verb": "ready"}})

    with ExitStack() as held:
        servers = [held.enter_context(socket.create_server((peer, port))) for peer in peers[1:]]
        for index in (1, 2, 3):
            threading.Thread(target=answer, args=(index,), daemon=True).start()
        assert launcher.Launcher(first, 1, 1.0, scavenger_checkpoint.StopRequest(()))._missing() == []


def test_told_to_end_before_anything_was_started(agent: Agent) -> None:
    agent.process.terminate()
    assert agent.process.wait(30) == scavenger_checkpoint.EXIT_STOPPED


# --- pure ---


def test_of_the_command_for_a_shell_only_the_daemon_is_taken() -> None:
    words = ["PATH=/usr/bin:$PATH ; export PATH ;", "/usr/bin/orted -mca ess", '"env"', "-mca", "x", '"a;b c"']
    assert client.daemon_arguments(words) == ["-mca", "ess", "env", "-mca", "x", "a;b c"]
    # What mpirun says where the user's shell is sh, as in an image: ssh would have that read a profile first.
    profile = ["(", "test", "!", "-r", "./.profile", "||", ".", "./.profile;"]
    assert client.daemon_arguments([*profile, *words, ")"]) == ["-mca", "ess", "env", "-mca", "x", "a;b c"]
    with pytest.raises(ValueError, match="only orted is started here, and not: rm -rf /"):
        client.daemon_arguments(["rm", "-rf", "/"])


def test_a_secret_must_be_there_and_long_enough(tmp_path: Path) -> None:
    key = tmp_path / "key"
    environment = {"SCAVENGER_PARALLELISM": "2", "SCAVENGER_PEERS": PEERS, "SCAVENGER_MPI_SECRET": str(key)}
    with pytest.raises(member.MemberError, match="no secret in"):
        member.Member.read(environment)
    key.write_text("short\n")
    with pytest.raises(member.MemberError, match="has 5 bytes; 16 are the least"):
        member.Member.read(environment)
    key.write_bytes(SECRET)
    with pytest.raises(member.MemberError, match="names 2 of 3 members"):
        member.Member.read({**environment, "SCAVENGER_PARALLELISM": "3"})
    assert member.Member.read(environment).port == member.DEFAULT_PORT
    assert member.Member.read({}).secret == b""  # alone


def test_hosts_are_the_peers_in_their_order() -> None:
    peers = tuple(f"md-{n}.sj-md.default.svc" for n in range(2))
    assert member.hostfile(peers, 4) == "md-0.sj-md.default.svc slots=4\nmd-1.sj-md.default.svc slots=4\n"


def test_ranks_are_signalled_and_their_children_are_not() -> None:
    parents = {2: 1, 3: 2, 4: 2, 5: 3, 6: 5, 9: 8}
    assert processes.descendants(parents, 2) == [3, 4, 5, 6]
    assert processes.topmost([3, 4, 5, 6], parents) == [3, 4]
    assert processes.topmost([5, 6, 9], parents) == [5, 9]
