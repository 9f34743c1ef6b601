"""One start of the simulation: from what the folder holds to the end, or as far as it may run."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from scavenger_checkpoint import report_checkpoint
from scavenger_water.configuration import Configuration
from scavenger_water.ends import FailedError, Reason, StoppedError
from scavenger_water.quantities import NotFiniteError
from scavenger_water.record import Record
from scavenger_water.work import Measured, Work, say, seconds_left

from scavenger_gromacs import outcome
from scavenger_gromacs.analysis import analyse
from scavenger_gromacs.gmx import Gmx, ToolError
from scavenger_gromacs.outcome import End, Outcome
from scavenger_gromacs.prepare import prepare

_GROWN: Final = ("md.log", "ener.edr", "traj.xtc", "confout.gro")
"""Files that mdrun goes on with; with the checkpoints they go when it begins anew."""


def compute(work: Work, configuration: Configuration) -> Measured:
    """Simulate and measure. Raises what Work.execute knows."""
    run = Run(work)
    record = run.simulate(configuration)
    simulated = datetime.now(UTC)
    try:
        density, diffusion = analyse(configuration, run.gmx, work.inner)
    except StoppedError as error:
        raise StoppedError(simulated) from error
    except NotFiniteError:
        raise
    except ToolError as error:
        raise _failed(error, Reason.ERROR) from error
    except ValueError as error:
        raise FailedError(Reason.ERROR, str(error)) from error
    return Measured(density, diffusion, record.starts)


@dataclass
class Run:
    """One start of mdrun, or several where it does not accept a checkpoint."""

    work: Work
    _reported: float = field(default_factory=time.time, init=False)
    """When the checkpoint was written that was reported last, or looked at first; seconds since the epoch."""

    def __post_init__(self) -> None:
        """All of GROMACS is in the inner folder."""
        self._inner = self.work.inner
        self.gmx = Gmx(self._inner, self.work.stop, self.work.held)

    def simulate(self, configuration: Configuration) -> Record:
        """Make all steps; what was computed. Raises StoppedError and FailedError."""
        try:
            prepare(self._inner, configuration, self.gmx, self.work.threads)
        except StoppedError:
            say("stopped while preparing")
            raise
        except ToolError as error:
            raise _failed(error, Reason.PREPARATION) from error
        record = Record(self._inner)
        if not self._simulate(configuration, record):
            raise StoppedError(self._saved())
        return record

    def _simulate(self, configuration: Configuration, record: Record) -> bool:
        """Run mdrun from the newest checkpoint that it accepts; whether all steps are made."""
        while True:
            step = self._resume()
            if step >= configuration.steps:
                return True
            if self.work.stop:
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
            return outcome.checkpoint_step(self.gmx("dump", "-cp", file.name, heed=False))
        except ToolError as error:
            if error.code is not None and error.code > 0:
                return None
            raise _failed(error, Reason.ERROR) from error

    def _mdrun(self, configuration: Configuration, record: Record, began: int) -> Outcome:
        left = seconds_left(configuration, record.starts, began)
        record.begin(began)
        say("started" if len(record.starts) == 1 else "resumed", step=began, of=configuration.steps)
        try:
            code, output = self.gmx.run(self._words(configuration, left), lambda text: self._tick(text, record))
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
            stopped=bool(self.work.stop),
            out_of_time=left is not None,
        )

    def _words(self, configuration: Configuration, left: float | None) -> list[str]:
        words = ["mdrun", "-s", "topol.tpr", "-cpo", "state.cpt", "-cpt", f"{self.work.checkpoint_minutes:g}"]
        words += ["-g", "md.log", "-e", "ener.edr", "-x", "traj.xtc", "-c", "confout.gro"]
        words += ["-ntmpi", str(self.work.ranks), "-ntomp", str(self.work.threads), "-pin", "off"]
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

    def _saved(self) -> datetime | None:
        """When the state was taken that is saved as the program ends; None where nothing is.

        Without a newer checkpoint nothing was computed since that which it found: all is saved that there was then.
        """
        if not self._state.exists():
            return None
        moment = max(self._reported, self._state.stat().st_mtime)
        return datetime.fromtimestamp(moment, UTC)


def _failed(error: ToolError, otherwise: Reason) -> FailedError:
    """Nobody but the kernel, for want of memory, kills a program that the wrapper has started."""
    return FailedError(Reason.OUT_OF_MEMORY if error.code == -signal.SIGKILL else otherwise, str(error))


def _set_aside(file: Path) -> None:
    """Keep a file that is not to be used, for whoever wants to know why."""
    file.replace(file.with_name(f"{file.name}.damaged"))
