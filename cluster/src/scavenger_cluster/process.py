"""Processes that outlive us: started detached, recognised by pid *and* start time, or by environment."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scavenger_cluster import supervisor
from scavenger_cluster.state import read_json
from scavenger_cluster.waiting import READY_SECONDS, wait_for, wait_for_end

CLUSTER_VARIABLE = "SCAVENGER_CLUSTER"
DATA_VARIABLE = "SCAVENGER_CLUSTER_DATA"
COMPONENT_VARIABLE = "SCAVENGER_CLUSTER_COMPONENT"
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True)
class Identity:
    """A process that cannot be mistaken for another one that got the same pid later."""

    pid: int
    start_ticks: int
    boot_id: str

    def alive(self) -> bool:
        """Tell whether exactly this process still runs; a zombie does not count."""
        return identify(self.pid) == self

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has gone or the pid belongs to somebody else now."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def uptime(self) -> float:
        """Seconds since this process started."""
        since_boot = float(Path("/proc/uptime").read_text().split()[0])
        return max(0.0, since_boot - self.start_ticks / _CLOCK_TICKS)


@dataclasses.dataclass(frozen=True)
class Program:
    """What to run: a name, the arguments, the environment, and the files it reads once, when it starts."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cwd: str = "/"
    inputs: tuple[Path, ...] = ()
    restart: bool = False
    """Whether it is started again when it ends (see `supervisor`)."""

    def digest(self) -> str:
        """Identify arguments and inputs, so that a process running with other ones is restarted."""
        text = json.dumps([list(self.argv), sorted(self.env.items()), *(["restart"] if self.restart else [])])
        digest = hashlib.sha256(text.encode())
        for path in self.inputs:
            digest.update(path.read_bytes())
        return digest.hexdigest()[:16]


@dataclasses.dataclass(frozen=True)
class Supervision:
    """What the supervisor of a component has noted last."""

    identity: Identity | None
    """The component's own process; None while it waits for its next start."""
    restarts: int
    exit_code: int | None
    """Of the last end; a negative one is a signal. None: it has not ended yet."""
    next_start: float | None
    """When it is started again, in seconds of the clock; None while it runs."""


def parse_stat(text: str) -> tuple[bool, int]:
    """Read from /proc/<pid>/stat whether the process lives, and when it started (ticks after boot).

    A killed process whose first thread is a zombie still holds its ports until its last thread is gone.
    """
    fields = text[text.rindex(")") + 2 :].split()  # the program's name before may hold blanks and brackets
    state, threads = fields[0], int(fields[17])
    return state not in "ZX" or threads > 1, int(fields[19])


def boot_id() -> str:
    """Return what tells this boot of the machine from any other."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def identify(pid: int) -> Identity | None:
    """Describe a running process; None if there is none or it is a zombie. Reaps our own children."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        lives, start = parse_stat(Path(f"/proc/{pid}/stat").read_text())
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # hidepid: what we may not see is not ours
        return None
    return Identity(pid, start, boot_id()) if lives else None


class ProcessTable:
    """The processes of one cluster, each with a pid file and a log file."""

    def __init__(self, run_dir: Path, log_dir: Path, *, first_delay: float = supervisor.FIRST_SECONDS) -> None:
        """Use one folder for pid files and one for logs. `first_delay`: seconds to the first restart of a program."""
        self.run_dir = run_dir
        self.log_dir = log_dir
        self.first_delay = first_delay

    def log(self, name: str) -> Path:
        """Return the log file of a component; a `/` in its name becomes a dash."""
        return self.log_dir / f"{name.replace('/', '-')}.log"

    def names(self) -> list[str]:
        """List every component that was started and not stopped, dead ones included."""
        return sorted(json.loads(file.read_text())["name"] for file in self.run_dir.glob("*.json"))

    def running(self, name: str) -> Identity | None:
        """Return the live process of a component: its own, not that of its supervisor."""
        supervision = self.supervision(name)
        if supervision is None:
            return self.leader(name)
        identity = supervision.identity
        return identity if identity is not None and identity.alive() else None

    def leader(self, name: str) -> Identity | None:
        """Return the live process that was started for a component: its supervisor, where it has one."""
        record = self._record(name)
        if record is None:
            return None
        identity = Identity(record["pid"], record["start_ticks"], record["boot_id"])
        return identity if identity.alive() else None

    def supervision(self, name: str) -> Supervision | None:
        """Return what is known of a component that is started again when it ends; None for any other."""
        record = self._record(name)
        if record is None or not record.get("supervised"):
            return None
        noted = read_json(self._child_file(name))
        runs = "pid" in noted
        identity = Identity(noted["pid"], noted["start_ticks"], record["boot_id"]) if runs else None
        return Supervision(identity, noted.get("restarts", 0), noted.get("exit_code"), noted.get("next_start"))

    def runs_as(self, program: Program) -> bool:
        """Tell whether the component runs, and with these very arguments."""
        record = self._record(program.name)
        return record is not None and record["digest"] == program.digest() and self.running(program.name) is not None

    def start(self, program: Program) -> Identity:
        """Start a program detached from us (own session, output to its log) and record who it is.

        One to be restarted gets a supervisor, which is then what is returned; the program itself has been started too.
        """
        self.run_dir.mkdir(parents=True, exist_ok=True)
        self.log_dir.mkdir(parents=True, exist_ok=True)
        child = self._child_file(program.name)
        child.unlink(missing_ok=True)
        argv = program.argv
        if program.restart:
            argv = supervisor.command(child, argv, first=self.first_delay)
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        log = str(self.log(program.name))
        pid = os.posix_spawn(
            "/usr/bin/env",
            ["env", f"--chdir={program.cwd}", *argv],
            dict(program.env),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, append, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigdef=[signal.SIGINT, signal.SIGPIPE],
        )
        _, start = parse_stat(Path(f"/proc/{pid}/stat").read_text())
        identity = Identity(pid, start, boot_id())
        known = {"name": program.name, "digest": program.digest(), "supervised": program.restart}
        record = {**known, **dataclasses.asdict(identity)}
        temporary = self._file(program.name).with_suffix(".new")
        temporary.write_text(json.dumps(record))
        temporary.replace(self._file(program.name))
        if program.restart:
            what = f"the supervisor of {program.name} to start it"
            wait_for(what, lambda: child.exists() or not identity.alive(), timeout=READY_SECONDS, interval=0.01)
        return identity

    def stop(self, name: str, *, grace: float = 10.0) -> None:
        """Stop a component: SIGTERM, SIGKILL after `grace` seconds, then forget it."""
        self.end([name], grace=grace)
        self._file(name).unlink(missing_ok=True)
        self._child_file(name).unlink(missing_ok=True)

    def end(self, names: Iterable[str], *, grace: float) -> None:
        """Stop components as `stop` does, but leave them known as dead; nobody starts them again."""
        ended = list(names)
        terminate([who for name in ended if (who := self.leader(name))], grace=grace)
        # A supervisor passes SIGTERM on and ends last. If it was killed, the kernel kills what it ran: see that gone.
        terminate([who for name in ended if (who := self.running(name))], grace=0)

    def kill(self, name: str) -> None:
        """Kill a component at once, as a crash would; it stays known as dead, until its supervisor starts it again."""
        identity = self.running(name)
        if identity is not None:
            terminate([identity], grace=0)

    def _file(self, name: str) -> Path:
        return self.run_dir / f"{name.replace('/', '-')}.json"

    def _child_file(self, name: str) -> Path:
        return self._file(name).with_suffix(".child")

    def _record(self, name: str) -> dict[str, Any] | None:
        return read_json(self._file(name)) or None


def terminate(identities: Iterable[Identity], *, grace: float) -> None:
    """Send SIGTERM, SIGKILL to those left after `grace` seconds (0: at once), wait until all are gone."""
    known = list(identities)

    def left() -> list[Identity]:
        return [identity for identity in known if identity.alive()]

    if grace > 0:
        for identity in left():
            identity.send(signal.SIGTERM)
        deadline = time.monotonic() + grace
        wait_for(
            "processes to stop",
            lambda: not left() or time.monotonic() > deadline,
            timeout=grace + 1,
            interval=0.02,
        )
    for identity in left():
        identity.send(signal.SIGKILL)
    wait_for_end("killed processes to disappear", lambda: [identity.pid for identity in left()])


def mark(cluster: str, data_dir: Path, component: str) -> dict[str, str]:
    """Return the environment that shows a process, and whatever it starts, to be part of a cluster."""
    return {CLUSTER_VARIABLE: cluster, DATA_VARIABLE: str(data_dir), COMPONENT_VARIABLE: component}


def find_marked(
    cluster: str,
    data_dir: Path,
    *,
    component: Callable[[str], bool] = lambda name: True,
    proc: Path = Path("/proc"),
) -> list[Identity]:
    """Find every process carrying the mark of a cluster, even when no pid file is left; never ourselves.

    The cluster is the one of this user with this name and data folder: another user may have one of the same name, and
    so may this one, in another state folder.
    """
    found = []
    for pid, variables in _marked(cluster, component, proc):
        identity = identify(pid) if variables.get(DATA_VARIABLE) == str(data_dir) else None
        if identity is not None:
            found.append(identity)
    return found


def namesakes(
    cluster: str,
    data_dir: Path,
    *,
    component: Callable[[str], bool] = lambda name: True,
    proc: Path = Path("/proc"),
) -> list[Path]:
    """Return the data folders of this user's other clusters of the same name of which such a component runs."""
    folders = {variables.get(DATA_VARIABLE) for _, variables in _marked(cluster, component, proc)}
    return sorted(Path(folder) for folder in folders if folder and folder != str(data_dir))


def _marked(cluster: str, component: Callable[[str], bool], proc: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield pid and environment of our user's processes that are components of a cluster of this name."""
    for entry in proc.iterdir():
        if not entry.name.isdigit() or int(entry.name) in _ourselves() or not _is_of_our_user(entry):
            continue
        variables = _environment(entry)
        if variables.get(CLUSTER_VARIABLE) == cluster and component(variables.get(COMPONENT_VARIABLE, "")):
            yield int(entry.name), variables


def _is_of_our_user(entry: Path) -> bool:
    """Tell whether a process has our effective user: it owns the process's folder in /proc."""
    try:
        return entry.stat().st_uid == os.geteuid()
    except OSError:  # gone meanwhile
        return False


def _environment(entry: Path) -> dict[str, str]:
    try:
        pairs = (entry / "environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return dict(pair.decode(errors="replace").split("=", 1) for pair in pairs if b"=" in pair)


def _ourselves() -> Sequence[int]:
    return os.getpid(), os.getppid()
