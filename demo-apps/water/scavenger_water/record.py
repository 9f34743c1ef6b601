"""What has been computed in all starts, and how fast: a small log that survives every kill."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from scavenger_checkpoint import write_atomically


@dataclass(frozen=True)
class Start:
    """One start of the simulation."""

    first: int
    """The step of the checkpoint that it went on from."""
    reached: int
    """The last step that it is known to have made."""
    timed_steps: int = 0
    """Steps between its first and its last sign of life,"""
    seconds: float = 0.0
    """and the time between these two."""


def computed(starts: Sequence[Start]) -> int:
    """Steps that were made, those made more than once as often as they were."""
    return sum(start.reached - start.first for start in starts)


def ns_per_day(starts: Sequence[Start], time_step_fs: float) -> float | None:
    """Speed over all starts while they computed; None where nothing was timed."""
    seconds = sum(start.seconds for start in starts)
    steps = sum(start.timed_steps for start in starts)
    return steps * time_step_fs * 1e-6 / seconds * 86400 if seconds and steps else None


class Record:
    """The log of starts, in one file; and a mark of how far the present one is, in another.

    The mark is not flushed to the disk: it survives a killed container, which is all that counting takes.
    """

    def __init__(self, folder: Path) -> None:
        """Read what is there; a start that was killed ends where its mark is."""
        self._log = folder / "starts.jsonl"
        self._mark = folder / "mark.json"
        self._began: tuple[int, float] | None = None
        self.starts = _read_log(self._log)
        if self.starts:
            self.starts[-1] = _read_mark(self._mark, len(self.starts)) or self.starts[-1]

    def begin(self, first: int) -> None:
        """It is started, from this step."""
        self.starts.append(Start(first, first))
        write_atomically(self._log, "".join(json.dumps(asdict(start)) + "\n" for start in self.starts))
        self._began = None
        self._write_mark()

    def seen(self, step: int, clock: float) -> None:
        """It is at this step. `clock`: monotonic, in seconds."""
        if self._began is None:
            self._began = (step, clock)
        step_then, then = self._began
        # Not behind what it went on from: after a signal mdrun repeats its last step.
        self.starts[-1] = replace(
            self.starts[-1],
            reached=max(self.starts[-1].reached, step),
            timed_steps=max(0, step - step_then),
            seconds=clock - then,
        )
        self._write_mark()

    def end(self, step: int | None) -> None:
        """It has ended, with a checkpoint of this step, if any."""
        if step is not None:
            self.starts[-1] = replace(self.starts[-1], reached=max(self.starts[-1].reached, step))
        self._write_mark()

    def _write_mark(self) -> None:
        text = json.dumps({"start": len(self.starts), **asdict(self.starts[-1])})
        descriptor = os.open(self._mark, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            os.pwrite(descriptor, f"{text:<200}\n".encode(), 0)
        finally:
            os.close(descriptor)


def _read_log(file: Path) -> list[Start]:
    starts = []
    try:
        for line in file.read_text().splitlines():
            starts.append(Start(**json.loads(line)))
    except FileNotFoundError:
        pass
    except (ValueError, TypeError):  # cut short: what is before it holds
        pass
    return starts


def _read_mark(file: Path, start: int) -> Start | None:
    """The mark, if it is one of that start."""
    try:
        found = json.loads(file.read_text())
        return Start(**found) if found.pop("start") == start else None
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
