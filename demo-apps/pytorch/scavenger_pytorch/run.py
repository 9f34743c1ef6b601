"""The command line: one start of a training, which is begun or gone on with."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import torch
from scavenger_checkpoint import (
    EXIT_SAVED,
    EXIT_STOPPED,
    Place,
    StopRequest,
    Store,
    report_checkpoint,
    write_atomically,
)

from scavenger_pytorch.gang import AbsentError, Gang, LostError, StoppedError, join
from scavenger_pytorch.model import Text
from scavenger_pytorch.training import OtherTrainingError, Parameters, Training, Wishes

EXIT_ABSENT = 1
EXIT_USAGE = 2
DEFAULT_INTERVAL = 300.0
BEREFT_SECONDS = 5.0


def _parser(place: Place) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scavenger_pytorch", description=__doc__)
    add = parser.add_argument
    add("--dir", type=Path, default=Path("/data"), help="where index 0 keeps checkpoint and result.json (/data)")
    add("--text", type=Path, default=Path("/app/text"), help="what to learn from, UTF-8 (/app/text)")
    add("--steps", type=_positive, default=2000, help="steps in all (2000)")
    add("--batch", type=_positive, default=32, help="windows of a step, of all members together (32)")
    add("--seed", type=int, default=1, help="of weights, dropout and the order of the data (1)")
    add("--threads", type=_positive, default=1, help="of each member (1)")
    add("--say", type=_positive, default=100, metavar="N", help="a line of the log each N steps (100)")
    interval = place.checkpoint_interval / 2 if place.checkpoint_interval else DEFAULT_INTERVAL
    add("--checkpoint-seconds", type=float, default=interval, help="(half of SCAVENGER_CHECKPOINT_INTERVAL, else 300)")
    add("--port", type=int, default=29500, help="of index 0, for the others (29500)")
    add("--patience", type=float, default=1800.0, metavar="S", help="seconds to wait for the others (1800)")
    return parser


class Run:
    """One start of one member."""

    def __init__(self, options: argparse.Namespace, gang: Gang, stop: StopRequest, text: str) -> None:
        """Begin the training; `execute` goes on from its checkpoint."""
        self._options = options
        self._gang = gang
        self._stop = stop
        self._store = Store(options.dir / "checkpoint")
        checksum = hashlib.sha256(text.encode()).hexdigest()
        parameters = Parameters(options.seed, options.batch, checksum, gang.size)
        self._training = Training(parameters, Text(text), gang)
        self._saved = time.monotonic()

    def execute(self) -> int:
        """Train until all steps are made, or as far as it may; the exit code. Raises LostError, OtherTrainingError."""
        self._resume()
        training, options = self._training, self._options
        while training.step < options.steps:
            due = self._gang.index == 0 and time.monotonic() - self._saved >= options.checkpoint_seconds
            wishes = training.advance(Wishes(stop=bool(self._stop), save=due))
            if training.step % options.say == 0:
                say(f"step {training.step} of {options.steps}, loss {training.losses[-1]:.4f}")
            if wishes.stop and training.step < options.steps:
                self._save()
                return EXIT_SAVED
            if wishes.save:
                self._save()
        self._finish()
        return 0

    def _resume(self) -> None:
        """Go on from what index 0 has. The volume of the others is not looked at, so it need not be the same."""
        content = b""
        if self._gang.index == 0:
            loaded = self._store.load()
            for problem in loaded.problems:
                say(f"fallback: {problem}")
            content = loaded.content or b""
        content = self._gang.from_first(content)
        if content:
            self._training.decode(content)
        if self._training.step > self._options.steps:
            raise OtherTrainingError(f"{self._training.step} steps are made already")
        say(f"{'resumed at' if content else 'started at'} step {self._training.step} of {self._options.steps}")
        if self._gang.index == 0:  # what was saved is all there is at this moment
            report_checkpoint(datetime.now(UTC))

    def _save(self) -> None:
        """Index 0 writes the state of all, and is the one to report it."""
        taken = datetime.now(UTC)
        content = self._training.encode()
        if self._gang.index == 0:
            self._store.save(content)
            report_checkpoint(taken)
            say(f"saved step {self._training.step} of {self._options.steps}")
        self._saved = time.monotonic()

    def _finish(self) -> None:
        file = self._options.dir / "result.json"
        self._save()
        if self._gang.index == 0:
            write_atomically(file, self._training.result())
        say(f"finished, loss {self._training.losses[-1]:.4f}")


def main(stop: StopRequest, words: Sequence[str] | None = None) -> int:
    """Train, or go on with it, until told to end; the exit code."""
    place = Place.read(os.environ)
    options = _parser(place).parse_args(words)
    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True)
    if place.index == 0:
        options.dir.mkdir(parents=True, exist_ok=True)
    try:
        gang = join(place, options.port, options.patience, stop, say)
    except StoppedError:
        say("told to end, and nothing was begun")
        return EXIT_STOPPED
    except AbsentError as error:
        say(f"error: {error}")
        return EXIT_ABSENT
    except LostError as error:
        return _bereft(error, stop)
    try:
        return Run(options, gang, stop, options.text.read_text(encoding="utf-8")).execute()
    except LostError as error:
        return _bereft(error, stop)
    except (OtherTrainingError, ValueError, OSError) as error:
        say(f"error: {error}")
        return EXIT_USAGE


def _bereft(error: LostError, stop: StopRequest) -> int:
    """End so that the gang goes on from the checkpoint that was reported: it is no failure of this member.

    Not at once: where the other has failed, its end is to be the first, and the job Failed.
    """
    say(f"a member is gone: {error}")
    stop.wait(BEREFT_SECONDS)
    return EXIT_SAVED


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def say(line: str) -> None:
    """One line of the log."""
    sys.stdout.write(f"{datetime.now(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')} {line}\n")
    sys.stdout.flush()
