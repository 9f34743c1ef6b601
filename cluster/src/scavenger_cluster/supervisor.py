"""Starts a service again whenever it ends, as a kubelet does with `restartPolicy: Always`.

One such process stands above every service, detached from whoever started it. It is run by its path and imports nothing
of this package, so that it is there at once and takes 11 MB instead of the 50 MB of all that the package stands on.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

FIRST_SECONDS = 1.0
"""The first delay. A kubelet waits 10 s; nobody who runs a test should."""

LONGEST_SECONDS = 60.0
"""The delay doubles up to this (5 min for a kubelet). A service that has run for twice as long is taken to be well, and
its next delay is the first one again: the rule of a kubelet, which forgets after 10 min."""

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_SIGNALS = (signal.SIGTERM, signal.SIGCHLD)
_LIBC = ctypes.CDLL(None, use_errno=True)


def command(
    record: Path, argv: Sequence[str], *, first: float = FIRST_SECONDS, longest: float = LONGEST_SECONDS
) -> tuple[str, ...]:
    """Return the arguments that run a program under a supervisor, which notes in the file `record` what it does.

    `first` and `longest`: seconds between an end and the next start. Isolated and without site-packages (-I, -S),
    Python starts in half the time, and neither its variables nor the files beside this one change what is imported.
    """
    return (sys.executable, "-I", "-S", __file__, str(record), str(first), str(longest), *argv)


def ending(code: int) -> str:
    """Say how a process ended; a negative exit code is a signal, as in `subprocess`."""
    return f"with exit code {code}" if code >= 0 else f"by signal {-code} ({signal.strsignal(-code)})"


class Supervisor:
    """Runs one program until SIGTERM, which the program gets too and ends with."""

    def __init__(self, record: Path, argv: list[str]) -> None:
        """Block the signals this waits for; the program gets the mask and the environment that were before."""
        self.record = record
        self.argv = argv
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        pairs = Path("/proc/self/environ").read_bytes().split(b"\0")  # Python itself may add LC_CTYPE to os.environ
        self.environment = dict(pair.split(b"=", 1) for pair in pairs if b"=" in pair)

    def run(self, first: float, longest: float) -> None:
        """Start the program, and again after each end: the first time in `first` seconds, at last in `longest`."""
        delay, restarts, code = first, 0, None
        while True:
            started = time.monotonic()
            code, stopped = self._wait(self._start(restarts, code))
            if stopped:
                return
            if time.monotonic() - started >= 2 * longest:
                delay = first
            self._note(restarts=restarts, exit_code=code, next_start=time.time() + delay)
            _say(f"ended {ending(code)}, starting again in {delay:g} s")
            if signal.sigtimedwait([signal.SIGTERM], delay) is not None:
                _say("stopped, not starting again")
                return
            delay = min(2 * delay, longest)
            restarts += 1

    def _start(self, restarts: int, code: int | None) -> int:
        """Start the program and return its pid.

        The new process itself notes who it is, before it becomes the program, and the kernel kills it as soon as its
        supervisor is no more: so nothing runs that is not noted, or that nobody watches, whoever is killed when.
        """
        supervisor = os.getpid()
        child = os.fork()
        if child:
            return child
        try:
            if _LIBC.prctl(_SET_DEATH_SIGNAL, int(signal.SIGKILL)) != 0:
                raise OSError(ctypes.get_errno(), "prctl")
            if os.getppid() == supervisor:  # else it died before that, and nobody would tell us
                self._note(pid=os.getpid(), start_ticks=_start_ticks(), restarts=restarts, exit_code=code)
                for number in (signal.SIGINT, signal.SIGPIPE):
                    signal.signal(number, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)
                os.execvpe(self.argv[0], self.argv, self.environment)
        except OSError as error:
            _say(f"cannot start {self.argv[0]}: {error}")
        finally:
            os._exit(127)

    def _wait(self, child: int) -> tuple[int, bool]:
        """Wait for the end of the program; returns its exit code, and whether it was told to end."""
        stopped = False
        while True:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status), stopped
            if signal.sigwait(_SIGNALS) == signal.SIGTERM:
                stopped = True
                os.kill(child, signal.SIGTERM)

    def _note(self, **fields: float | None) -> None:
        """Replace the record. Without its folder there is no cluster any more: the error then ends us."""
        temporary = self.record.with_name(f"{self.record.name}.new")
        temporary.write_text(json.dumps(fields))
        temporary.replace(self.record)


def _start_ticks() -> int:
    """Return when this process started, as `process.parse_stat` reads it."""
    text = Path("/proc/self/stat").read_text()
    return int(text[text.rindex(")") + 2 :].split()[19])


def _say(text: str) -> None:
    """Write a line into the log of the service."""
    with contextlib.suppress(OSError):
        os.write(2, f"supervisor: {text}\n".encode())


if __name__ == "__main__":
    Supervisor(Path(sys.argv[1]), sys.argv[4:]).run(float(sys.argv[2]), float(sys.argv[3]))
