"""Programs as real processes: started, interrupted as a cluster does it, and watched to their end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from scavenger_checkpoint.contract import ENV_MESSAGE_PATH
from scavenger_checkpoint.verdict import Ending, Interruption

_TAIL: Final = 4096
_POLL: Final = 0.02
"""Seconds between looks at a process that says nothing."""


class Life:
    """One start of a program. Its output goes to a file; its processes are a session of their own."""

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path) -> None:
        """Start it in `folder`. Raises OSError where it cannot be started."""
        self._message = log.with_suffix(".message")
        self._message.write_text("")
        self._log = log
        self._lines = 0
        self._tail = b""
        self._began = datetime.now(timezone.utc)
        self._clock = time.monotonic()
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, ENV_MESSAGE_PATH: str(self._message)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def watch(self, interruption: Interruption | None, grace: float, limit: float) -> Ending:
        """Wait for its end, and interrupt it when that is due; after `limit` seconds it is killed.

        SIGTERM goes to the first process alone, SIGKILL to all of them, as in a container.
        """
        sent, outstayed, hung = False, False, False
        kill_at = limit
        with self._log.open("wb") as log:
            while self._process.poll() is None:
                elapsed = time.monotonic() - self._clock
                if interruption and not sent and interruption.due(elapsed, self._lines):
                    sent = self._send(interruption.number)
                    kill_at = elapsed + grace
                elif elapsed >= kill_at:
                    outstayed, hung, kill_at = sent, not sent, elapsed + limit
                    self._send(signal.SIGKILL)
                self._read(log.fileno(), _POLL)
            self._send(signal.SIGKILL)  # what it leaves behind ends with its container
            while self._read(log.fileno(), 0):
                pass
        assert self._process.stdout is not None
        self._process.stdout.close()
        return Ending(
            exit_code=self._process.returncode,
            began=self._began,
            ended=datetime.now(timezone.utc),
            seconds=time.monotonic() - self._clock,
            lines=self._lines,
            interruption=interruption if sent else None,
            outstayed=outstayed,
            hung=hung,
            message=self._message.read_text(errors="replace"),
            tail=self._tail.decode(errors="replace"),
        )

    def _send(self, number: int) -> bool:
        """Whether it was still there to be told."""
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(self._process.pid, number)
                return True
            self._process.send_signal(number)
        return self._process.returncode is None

    def _read(self, log: int, seconds: float) -> bool:
        """Take over what it has written; False when there is nothing."""
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        if not select.select([pipe], [], [], seconds)[0]:
            return False
        chunk = os.read(pipe, 65536)
        if not chunk:
            time.sleep(seconds)  # it has closed its output
            return False
        os.write(log, chunk)
        self._lines += chunk.count(b"\n")
        self._tail = (self._tail + chunk)[-_TAIL:]
        return True
