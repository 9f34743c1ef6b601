"""What the demo applications need of the machine, and the gangs they run in."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from scavenger_checkpoint.contract import ENV_MESSAGE_PATH
from scavenger_checkpoint.tester import Examination, Trial, Verdict
from scavenger_cluster import requirements
from scavenger_cluster.layout import cache_dir
from scavenger_cluster.locking import locked
from scavenger_cluster.shell import find_program, succeeds

REPOSITORY = Path(__file__).resolve().parents[3]
PYTHON = "/usr/bin/python3"
"""Debian's own, which has the modules of Debian's packages."""
_LIMIT = 300.0


def needs(packages: Sequence[str], works: Callable[[], bool]) -> None:
    """Have Debian packages installed where something does not work yet. The test fails where that fails, and is skipped
    only where nothing can be installed at all."""
    if works():
        return
    if os.geteuid() != 0 or find_program("apt-get") is None:
        pytest.skip(f"needs root and apt-get, or the Debian packages {' '.join(packages)}")
    requirements.install(packages, print, allowed=True)
    assert works(), f"{packages} are installed, and it does not work"


def wheels(pinned: Path) -> Path:
    """A folder outside the checkout with what a requirements file with hashes names, fetched from PyPI the first time
    and for this Python. The test fails where that fails, and says what is missing."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    target = cache_dir() / "wheels" / f"{version}-{hashlib.sha256(pinned.read_bytes()).hexdigest()[:16]}"
    with locked(cache_dir() / "wheels.lock"):
        if not target.exists():
            new = target.with_name(f"{target.name}.new")
            shutil.rmtree(new, ignore_errors=True)
            options = ["--quiet", "--require-hashes", "--only-binary=:all:", f"--python={sys.executable}"]
            uv = str(REPOSITORY / "tools" / "uv")
            command = [uv, "pip", "install", *options, f"--target={new}", "-r", str(pinned)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT)
            assert done.returncode == 0, f"{pinned} cannot be fetched from PyPI, or a mirror of it:\n{done.stderr}"
            new.replace(target)
    return target


def has_modules(*names: str) -> bool:
    """Whether Debian's Python has these modules."""
    statement = f"import importlib.util as i, sys; sys.exit(not all(map(i.find_spec, {names!r})))"
    return find_program(PYTHON) is not None and succeeds([PYTHON, "-c", statement])


class Member:
    """One start of one pod of a gang, as a process."""

    started: ClassVar[list[Member]] = []

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], message: Path) -> None:
        self.message = message
        message.write_text("")
        self._process = subprocess.Popen(
            command,
            env={**environment, ENV_MESSAGE_PATH: str(message)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._said: list[str] = []
        self._ended = False
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.started.append(self)

    @classmethod
    def end_all(cls) -> None:
        """Leave nothing behind, whatever came of the test."""
        for member in list(cls.started):
            member.kill()
            member.end()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        with self._news:
            return "".join(self._said)

    def wait_for(self, words: str, *, times: int = 1) -> None:
        """Wait until it has said so, so many times."""
        with self._news:
            said = self._news.wait_for(lambda: "".join(self._said).count(words) >= times or self._ended, _LIMIT)
        assert said, f"it has not said {words!r}:\n{self.output}"
        assert self.output.count(words) >= times, f"it has ended without {words!r}:\n{self.output}"

    def stop(self) -> None:
        """SIGTERM to the first process, as a kubelet sends it."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to all of its session, as a container ends. Open MPI gives each rank a process group of its own."""
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(ValueError, ProcessLookupError):
                if os.getsid(process := int(entry.name)) == self._process.pid:
                    os.kill(process, signal.SIGKILL)

    def end(self) -> int:
        """Wait for its end; the exit code. What is left of its session ends with it."""
        code = self._process.wait(_LIMIT)
        self.kill()
        self._reader.join(_LIMIT)
        if self in self.started:
            self.started.remove(self)
        return code

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self._said.append(line)
                self._news.notify_all()
        self._process.stdout.close()
        with self._news:
            self._ended = True
            self._news.notify_all()


class WorkFolder:
    """A work folder of a program that measures water, and what runs in it."""

    def __init__(
        self, path: Path, command: Sequence[str], environment: Mapping[str, str], configuration: Mapping[str, object]
    ) -> None:
        """`command`: but for the folder. `configuration`: as configuration.json is to have it."""
        self.path = path
        self.message = path / "message"
        self._command = [*command, f"--dir={path}"]
        self._environment = environment
        path.mkdir(exist_ok=True)
        (path / "configuration.json").write_text(json.dumps(configuration))

    def start(self, *words: str) -> Member:
        return Member([*self._command, *words], self._environment, self.message)

    def finish(self, *words: str) -> tuple[int, str]:
        """Run it to its end; the exit code and the output."""
        program = self.start(*words)
        return program.end(), program.output

    def read(self, name: str) -> dict[str, Any]:
        """A JSON file of the folder."""
        found: dict[str, Any] = json.loads((self.path / name).read_text())
        return found

    def mark(self) -> dict[str, Any]:
        """How far the last start was."""
        return self.read("run/mark.json")

    def cut(self, name: str) -> None:
        """Leave half of a file, as a volume that is full would."""
        file = self.path / "run" / name
        os.truncate(file, file.stat().st_size // 2)


def passed(trial: Trial) -> str:
    """What the tester of programs says of one that passes."""
    lines: list[str] = []
    verdict = Examination(trial, lines.append).run()
    report = "\n".join(lines)
    assert verdict is Verdict.PASSED, report
    return report


def codes_of(members: Sequence[Member], *expected: int) -> None:
    """All of them end, with these exit codes."""
    assert [member.end() for member in members] == list(expected), [member.output for member in members]


def placed(index: int, peers: Sequence[str], start: int) -> dict[str, str]:
    """What a pod of a gang finds in its environment."""
    return {
        "SCAVENGER_INDEX": str(index),
        "SCAVENGER_PARALLELISM": str(len(peers)),
        "SCAVENGER_PEERS": ",".join(peers),
        "SCAVENGER_RESTARTS": str(start),
    }


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    Member.end_all()


def last_step(words: str, output: str) -> int:
    """The step that a log names last, behind these words."""
    return int(re.findall(rf"{words} step (\d+)", output)[-1])
