"""One start of the simulation: from what the folder holds to the end, or as far as it may run."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final

import openmm
from scavenger_checkpoint import Store, report_checkpoint
from scavenger_water.configuration import Configuration
from scavenger_water.ends import FailedError, Reason, StoppedError
from scavenger_water.record import Record
from scavenger_water.work import Measured, Work, say, seconds_left

from scavenger_openmm import analysis, decisions
from scavenger_openmm.frames import Frames
from scavenger_openmm.system import Prepared, Segment, energies, frame, prepared

_STATE: Final = "state.xml"


def simulate(work: Work, configuration: Configuration) -> Measured:
    """Simulate and measure. Raises what Work.execute knows."""
    if work.ranks > 1:
        raise FailedError(Reason.DECOMPOSITION, f"OpenMM has threads and no ranks: 1 rank, not {work.ranks}")
    try:
        made = prepared(work.inner, configuration, work.threads)
    except (openmm.OpenMMException, MemoryError, ValueError) as error:
        reason = decisions.reason_of(str(error) or "out of memory")
        raise FailedError(reason if reason is Reason.OUT_OF_MEMORY else Reason.PREPARATION, repr(error)) from error
    run = Run(work, configuration, made)
    try:
        run.go()
    except (openmm.OpenMMException, MemoryError) as error:
        text = str(error) or "out of memory"
        raise FailedError(decisions.reason_of(text), f"step {run.reached}: {text}") from error
    return run.measure()


class Run:
    """Makes steps, and saves what they have come to."""

    def __init__(self, work: Work, configuration: Configuration, made: Prepared) -> None:
        """Go on from the newest checkpoint that is whole, and has the frames that it counts on."""
        self._work = work
        self._configuration = configuration
        self._system = made.system
        self._store = Store(work.inner / _STATE)
        self._frames = Frames(work.inner / "frames.bin", configuration.molecules)
        self._state, self._saved = self._resume(made.start)
        self._taken = datetime.now(UTC)
        """When the state was as it is in `_state`: now, as nothing was computed since it was saved."""
        self.reached: int = self._state.getStepCount()
        self._record = Record(work.inner)

    def go(self) -> None:
        """Make all the steps that are left. Raises StoppedError, FailedError and OpenMMException."""
        steps = self._configuration.steps
        if self.reached >= steps:
            return
        seconds_left(self._configuration, self._record.starts, self.reached)
        self._record.begin(self.reached)
        say("started" if len(self._record.starts) == 1 else "resumed", step=self.reached, of=steps)
        due = time.monotonic() + 60 * self._work.checkpoint_minutes
        while self.reached < steps:
            if self._work.stop or not self._segment():
                raise StoppedError(self._leave())
            if self.reached >= steps or time.monotonic() >= due:
                self._save()
                due = time.monotonic() + 60 * self._work.checkpoint_minutes

    def measure(self) -> Measured:
        """What the frames say."""
        edges, positions = self._frames.read()
        first = analysis.analysed(self._configuration, len(edges))
        return Measured(
            analysis.density(edges[first:], self._configuration.molecules),
            analysis.diffusion(edges[first:], positions[first:], self._configuration.frame_ps),
            self._record.starts,
        )

    def _resume(self, start: openmm.State) -> tuple[openmm.State, bool]:
        """The state to go on from, and whether it is that of a checkpoint."""
        loaded = self._store.load()
        for problem in loaded.problems:
            say("fallback", why=problem)
        if loaded.content is not None:
            state = openmm.XmlSerializer.deserialize(loaded.content.decode())
            if self._frames.cut(state.getStepCount() // self._configuration.output_interval):
                return state, True
            say("fallback", why="frames.bin is cut short")
        self._frames.cut(0)
        return start, False

    def _segment(self) -> bool:
        """Simulate up to the next frame; False where the program is told to end and that would take too long."""
        end = decisions.next_end(self.reached, self._configuration)
        segment = Segment(self._system, self._state, self._configuration, self._work.threads)
        step = self.reached
        self._record.seen(step, began := time.monotonic())
        for block in decisions.blocks(step, end):
            made = step - self.reached
            pace = (time.monotonic() - began) / made if made else None
            if self._work.stop and not decisions.is_worth_finishing(end - step, pace):
                return False
            segment.make(block)
            step += block
            self._record.seen(step, time.monotonic())
            seconds_left(self._configuration, self._record.starts, step)
        state = segment.state()
        problem = decisions.why_unstable(*energies(state), self._configuration)
        if problem:
            raise FailedError(Reason.UNSTABLE, f"step {step}: {problem}")
        self._state, self._taken, self._saved, self.reached = state, datetime.now(UTC), False, step
        if step % self._configuration.output_interval == 0:
            self._frames.append(*frame(state, self._configuration.molecules))
        return True

    def _save(self) -> None:
        self._frames.flush()
        self._store.save(openmm.XmlSerializer.serialize(self._state).encode())
        self._saved = True
        say("saved", step=self.reached)
        report_checkpoint(self._taken)

    def _leave(self) -> datetime | None:
        """Save what there is, as the program ends; when it was taken, or None where nothing was computed."""
        if not self._saved and self.reached > 0:
            self._save()
        return self._taken if self._saved else None
