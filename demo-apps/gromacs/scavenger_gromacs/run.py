"""One start of the program: from what the folder holds to the end, or as far as it may run."""

from __future__ import annotations

import json
import signal
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from scavenger_checkpoint import EXIT_SAVED, EXIT_STOPPED, StopRequest, report_checkpoint, write_atomically

from scavenger_gromacs import outcome
from scavenger_gromacs.analysis import analyse, write_result
from scavenger_gromacs.configuration import Configuration, ConfigurationError, read_configuration
from scavenger_gromacs.gmx import Gmx, StoppedError, ToolError
from scavenger_gromacs.outcome import End, Outcome, Reason
from scavenger_gromacs.prepare import prepare
from scavenger_gromacs.record import Record

EXIT_FAILED: Final = 1
EXIT_CONFIGURATION: Final = 2
_GROWN: Final = ("md.log", "ener.edr", "traj.xtc", "confout.gro")
"""Files that mdrun goes on with; with the checkpoints they go when it begins anew."""


class FailedError(Exception):
    """The configuration cannot be computed as it is."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass
class Run:
    """One start in a folder that nobody else works in."""

    folder: Path
    configuration: Path
    """Where configuration.json is."""
    ranks: int
    threads: int
    checkpoint_minutes: float
    stop: StopRequest
    held: int
    """Descriptor of the lock on the folder."""
    _reported: float = field(default_factory=time.time, init=False)
    """When the checkpoint was written that was reported last, or looked at first; seconds since the epoch."""

    def __post_init__(self) -> None:
        """Use `run` in the folder for what is GROMACS's own."""
        self._inner = self.folder / "run"
        self._inner.mkdir(exist_ok=True)
        self._gmx = Gmx(self._inner, self.stop, self.held)

    def execute(self) -> int:
        """Go as far as may be; the exit code."""
        (self.folder / "failure.json").unlink(missing_ok=True)
        try:
            configuration = self._configuration()
            if (self.folder / "result.json").exists():
                say("finished already")
                return 0
            return self._work(configuration)
        except FailedError as error:
            say("failed", reason=error.reason.value, message=str(error))
            failure = {"reason": error.reason.value, "message": str(error)}
            write_atomically(self.folder / "failure.json", json.dumps(failure, indent=1) + "\n")
            configured = error.reason in (Reason.INVALID_CONFIGURATION, Reason.OTHER_CONFIGURATION)
            return EXIT_CONFIGURATION if configured else EXIT_FAILED

    def _work(self, configuration: Configuration) -> int:
        try:
            prepare(self._inner, configuration, self._gmx, self.threads)
        except StoppedError:
            say("stopped while preparing")
            return EXIT_STOPPED
        except ToolError as error:
            raise _failed(error, Reason.PREPARATION) from error
        record = Record(self._inner)
        finished = self._simulate(configuration, record)
        if not finished:
            return EXIT_SAVED if self._report() else EXIT_STOPPED
        simulated = datetime.now(UTC)
        try:
            quantities = analyse(configuration, self._gmx, self._inner)
        except StoppedError:
            report_checkpoint(simulated)
            return EXIT_SAVED
        except outcome.NotFiniteError as error:
            raise FailedError(Reason.UNSTABLE, f"not finite: {error}") from error
        except ToolError as error:
            raise _failed(error, Reason.ERROR) from error
        except ValueError as error:
            raise FailedError(Reason.ERROR, str(error)) from error
        write_result(self.folder / "result.json", quantities, configuration, record, self.ranks, self.threads)
        say("finished", steps=configuration.steps)
        return 0

    def _configuration(self) -> Configuration:
        """The configuration, which must be that of the run input where there is one."""
        try:
            configuration = read_configuration(self.configuration.read_text())
        except FileNotFoundError as error:
            raise FailedError(Reason.INVALID_CONFIGURATION, f"there is no {self.configuration}") from error
        except (ConfigurationError, UnicodeDecodeError) as error:
            raise FailedError(Reason.INVALID_CONFIGURATION, str(error)) from error
        begun = self._inner / "configuration.json"
        if not begun.exists():
            write_atomically(begun, configuration.to_json())
        elif begun.read_text() != configuration.to_json():
            text = "configuration.json is not that with which the work in this folder was begun; use another folder"
            raise FailedError(Reason.OTHER_CONFIGURATION, text)
        return configuration

    def _simulate(self, configuration: Configuration, record: Record) -> bool:
        """Run mdrun from the newest checkpoint that it accepts; whether all steps are made."""
        while True:
            step = self._resume()
            if step >= configuration.steps:
                return True
            if self.stop:
                return False
            ended = self._mdrun(configuration, record, step)
            if ended.end is End.FAILED:
                assert ended.reason is not None
                raise FailedError(ended.reason, ended.message)
            if ended.end is not End.REFUSED:
                return ended.end is End.FINISHED
            say("fallback", why=ended.message)
            _set_aside(self._state)

    @property
    def _state(self) -> Path:
        return self._inner / "state.cpt"

    def _resume(self) -> int:
        """The step to go on from; the checkpoint of it is state.cpt. One that is cut short gives way to the one before
        it, and if there is none all begins anew.
        """
        for file in (self._state, self._inner / "state_prev.cpt"):
            if not file.exists():
                continue
            step = self._step_of(file)
            if step is not None:
                file.replace(self._state)
                return step
            say("fallback", why=f"{file.name} is cut short or damaged")
            # Where it is, mdrun would keep it as the checkpoint before, in the place of one that is whole.
            _set_aside(file)
        for name in _GROWN:
            (self._inner / name).unlink(missing_ok=True)
        return 0

    def _step_of(self, file: Path) -> int | None:
        """The step of a checkpoint; None where it is not whole.

        Raises FailedError where it was not read: a checkpoint is not given up for want of memory.
        """
        try:
            return outcome.checkpoint_step(self._gmx("dump", "-cp", file.name, heed=False))
        except ToolError as error:
            if error.code is not None and error.code > 0:
                return None
            raise _failed(error, Reason.ERROR) from error

    def _mdrun(self, configuration: Configuration, record: Record, began: int) -> Outcome:
        left = None
        if configuration.wall_seconds is not None:
            left = configuration.wall_seconds - sum(start.seconds for start in record.starts)
            if left <= 0:
                text = f"step {began} of {configuration.steps} when its time was over"
                raise FailedError(Reason.WALL_TIME, text)
        record.begin(began)
        say("started" if len(record.starts) == 1 else "resumed", step=began, of=configuration.steps)
        try:
            code, output = self._gmx.run(self._words(configuration, left), lambda text: self._tick(text, record))
        except ToolError as error:
            raise FailedError(Reason.ERROR, str(error)) from error
        step = self._step_of(self._state) if self._state.exists() else None
        record.end(step)
        say("mdrun ended", code=code, step=step, of=configuration.steps)
        return outcome.judge(
            code,
            output,
            step=step,
            steps=configuration.steps,
            began=began,
            stopped=bool(self.stop),
            out_of_time=left is not None,
        )

    def _words(self, configuration: Configuration, left: float | None) -> list[str]:
        words = ["mdrun", "-s", "topol.tpr", "-cpo", "state.cpt", "-cpt", f"{self.checkpoint_minutes:g}"]
        words += ["-g", "md.log", "-e", "ener.edr", "-x", "traj.xtc", "-c", "confout.gro"]
        words += ["-ntmpi", str(self.ranks), "-ntomp", str(self.threads), "-pin", "off"]
        words += ["-v", "-stepout", str(min(configuration.output_interval, 100))]
        if self._state.exists():
            words += ["-cpi", "state.cpt"]
        if left is not None:
            words += ["-maxh", f"{left / 3600:.9f}"]
        return words

    def _tick(self, said: str, record: Record) -> None:
        """mdrun is at work: note how far it is, and report the checkpoints that it writes."""
        steps = outcome.steps_seen(said)
        if steps:
            record.seen(steps[-1], time.monotonic())
        try:
            written = self._state.stat().st_mtime
        except FileNotFoundError:  # there is none between two renames
            return
        if written > self._reported:
            self._reported = written
            report_checkpoint(datetime.fromtimestamp(written, UTC))

    def _report(self) -> bool:
        """Report what is saved as the program ends; False where nothing is.

        Without a newer checkpoint nothing was computed since that which it found: all is saved that there was then.
        """
        if not self._state.exists():
            return False
        moment = max(self._reported, self._state.stat().st_mtime)
        report_checkpoint(datetime.fromtimestamp(moment, UTC))
        return True


def _failed(error: ToolError, otherwise: Reason) -> FailedError:
    """Nobody but the kernel, for want of memory, kills a program that the wrapper has started."""
    return FailedError(Reason.OUT_OF_MEMORY if error.code == -signal.SIGKILL else otherwise, str(error))


def _set_aside(file: Path) -> None:
    """Keep a file that is not to be used, for whoever wants to know why."""
    file.replace(file.with_name(f"{file.name}.damaged"))


def say(event: str, **details: object) -> None:
    """One line of the log."""
    more = "".join(f" {key}={json.dumps(value)}" for key, value in details.items())
    sys.stdout.write(f"{datetime.now(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')} {event}{more}\n")
    sys.stdout.flush()
