"""The programs of GROMACS as processes, which end when the wrapper is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from scavenger_checkpoint import StopRequest
from scavenger_water.ends import StoppedError

from scavenger_gromacs import outcome

_KEPT: Final = 64 * 1024
"""Characters of the output of mdrun that are looked at when it has ended: the last ones, and as many of the first."""
_ENVIRONMENT: Final = {"GMX_MAXBACKUP": "-1", "GMX_MAXCONSTRWARN": "50"}
"""No `#file.1#` of each restart; and an end when constraints cannot be satisfied again and again."""


class ToolError(Exception):
    """A program of GROMACS has failed; its last words are the message."""

    def __init__(self, message: str, code: int | None = None) -> None:
        """`code`: as of subprocess; None where it could not be started."""
        super().__init__(message)
        self.code = code


class Gmx:
    """Runs `gmx` in one folder."""

    def __init__(self, folder: Path, stop: StopRequest, held: int) -> None:
        """`held`: descriptor of the lock on the folder, which processes keep that outlive the wrapper."""
        self._folder = folder
        self._stop = stop
        self._held = held

    def __call__(self, *words: str, stdin: str = "", heed: bool = True) -> str:
        """All that a short program says. Raises ToolError, and with `heed` StoppedError when told to end meanwhile."""
        process = self._start(words)
        said: list[str] = []
        reader = threading.Thread(target=lambda: said.append(process.communicate(stdin)[0]))
        reader.start()
        while reader.is_alive():
            reader.join(0.02)
            if heed and self._stop:
                process.kill()
        if heed and self._stop:
            raise StoppedError
        if process.returncode != 0:
            error = outcome.fatal_error(said[0]) or " ".join(said[0].split())[-300:]
            raise ToolError(f"gmx {words[0]} ended with {process.returncode}: {error}", process.returncode)
        return said[0]

    def run(self, words: Sequence[str], tick: Callable[[str], None]) -> tuple[int, str]:
        """The exit code and output of a long program. `tick` is called with what it has said since, at least once a
        second. It is sent SIGTERM when the wrapper is told to end, and waited for. Raises ToolError where it cannot be
        started.
        """
        process = self._start(words)
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdin.close()
        output = _Output(process.stdout.fileno())
        told = False
        while process.poll() is None or not output.ended:
            if self._stop and not told:
                process.send_signal(signal.SIGTERM)
                told = True
            tick(output.take(0.2))
        tick(output.take(0))
        process.stdout.close()
        return process.returncode, output.text

    def _start(self, words: Sequence[str]) -> subprocess.Popen[str]:
        try:
            return subprocess.Popen(
                ["gmx", "-quiet", *words],
                cwd=self._folder,
                env={**os.environ, **_ENVIRONMENT},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                pass_fds=(self._held,),
            )
        except OSError as error:
            raise ToolError(f"gmx cannot be started ({error}); on Debian: apt-get install gromacs") from error


class _Output:
    """What a process says, read by a thread as it comes; of much, the middle is forgotten."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._new = ""
        self._head = ""
        self._tail = ""
        self._some = threading.Condition()
        self.ended = False
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def text(self) -> str:
        return self._head + self._tail

    def take(self, seconds: float) -> str:
        """What is new, waited for so long at most."""
        with self._some:
            if not self._new and not self.ended:
                self._some.wait(seconds)
            new, self._new = self._new, ""
            return new

    def _read(self) -> None:
        while chunk := os.read(self._descriptor, 65536):
            text = chunk.decode(errors="replace").replace("\r", "\n")
            with self._some:
                self._new += text
                room = _KEPT - len(self._head)
                self._head += text[:room]
                self._tail = (self._tail + text[room:])[-_KEPT:]
                self._some.notify()
        with self._some:
            self.ended = True
            self._some.notify()
