"""Runs several commands at once, each line of theirs with a name in front, and says at the end how long each took.

    python tools/side_by_side.py NAME=COMMAND...

Tests against clusters wait most of the time: beside each other they take as long as the longest. Exit code 1 when any
command failed; what failed is printed once more at the end, where it can be found. Ending this process ends them all.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field

TAIL_LINES = 400
"""Of a command that failed, printed again at the end."""
GRACE_SECONDS = 60.0
"""For the commands to take their clusters down when this process is told to end."""


@dataclass
class Lane:
    """One command and what became of it."""

    name: str
    command: str
    process: subprocess.Popen[str] | None = None
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether it did not end well."""
        return self.process is None or self.process.returncode != 0

    def run(self) -> None:
        """Start the command and pass its lines on until it ends."""
        began = time.monotonic()
        with subprocess.Popen(
            ["sh", "-c", self.command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        ) as process:
            self.process = process
            assert process.stdout is not None
            for line in process.stdout:
                self.lines.append(line)
                sys.stdout.write(f"{self.name:>12} | {line}")
                sys.stdout.flush()
        self.seconds = time.monotonic() - began

    def interrupt(self) -> None:
        """Ask it to end as Ctrl-C would, which has tests take down what they brought up."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)


def parse(words: list[str]) -> list[Lane]:
    """NAME=COMMAND, each. Raises SystemExit with the usage."""
    lanes = [Lane(name, command) for word in words for name, _, command in [word.partition("=")]]
    if not lanes or not all(lane.name and lane.command for lane in lanes):
        raise SystemExit(__doc__)
    return lanes


def main(words: list[str]) -> int:
    """Run them all; 1 when any failed."""
    lanes = parse(words)
    threads = [threading.Thread(target=lane.run, name=lane.name) for lane in lanes]

    def end(number: int, _: object) -> None:
        for lane in lanes:
            lane.interrupt()
        deadline = time.monotonic() + GRACE_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        raise SystemExit(128 + number)

    # Before anything is started: who is run in the background ignores SIGINT, and so would all that it starts.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():  # a join without a limit would not let signals in
            thread.join(0.5)
    return report(lanes)


def report(lanes: list[Lane]) -> int:
    """What failed once more, then a line each."""
    for lane in lanes:
        if lane.failed:
            sys.stdout.write(f"\n=== {lane.name} failed: {lane.command}\n")
            sys.stdout.writelines(lane.lines)
    sys.stdout.write("\n")
    for lane in lanes:
        sys.stdout.write(f"{lane.name:>12}   {'FAILED' if lane.failed else 'passed'}   {lane.seconds:6.0f} s\n")
    sys.stdout.flush()
    return int(any(lane.failed for lane in lanes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
