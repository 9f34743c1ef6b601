"""Runs a program uninterrupted, then interrupted at random moments until it is done, and compares the results."""

from __future__ import annotations

import enum
import os
import random
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scavenger_checkpoint.comparison import Result, differences
from scavenger_checkpoint.contract import EXIT_SAVED, reported_checkpoint
from scavenger_checkpoint.lives import Life
from scavenger_checkpoint.verdict import Ending, Interruption, Judgement, Next, judge

Report = Callable[[str], None]
FOLDER: Final = "{folder}"
"""In the words of the command: the folder that the program works in."""
_FUTILE_ROUNDS: Final = 3
"""Rounds one after the other in which the program has finished before its interruption came."""
_FROM_OUTSIDE: Final = (
    "it has told of no checkpoint. If it writes none, spec.snapshot of its job saves its state from outside: "
    "docs/programs.md"
)


class Verdict(enum.IntEnum):
    """What came of a test; the exit code of the command."""

    PASSED = 0
    FAILED = 1
    INCONCLUSIVE = 3


@dataclass(frozen=True)
class Trial:
    """What is to be tested, and how."""

    command: Sequence[str]
    folder: Path
    """Where the folders of the runs and their logs go; empty or absent."""
    inputs: Path | None = None
    """A folder whose files every run begins with."""
    results: Sequence[Result] = ()
    seed: int = 0
    interruptions: int = 6
    grace: float = 30.0
    """Seconds between SIGTERM and SIGKILL."""
    limit: float = 3600.0
    """Seconds that one life may take."""
    lives: int = 100
    """Starts in one round, at most."""
    by_lines: bool = False
    """Moments are counted in lines of output, not in seconds: the same seed then interrupts at the same lines."""
    exit_saved: int = EXIT_SAVED
    environment: Mapping[str, str] | None = None


def shuffled_signals(source: random.Random, count: int) -> list[int]:
    """The signals of so many interruptions, in their order: half SIGTERM and half SIGKILL; of an odd one SIGTERM."""
    numbers: list[int] = [signal.SIGKILL if n % 2 else signal.SIGTERM for n in range(count)]
    source.shuffle(numbers)
    return numbers


def draw(source: random.Random, number: int, whole: Ending, by_lines: bool) -> Interruption:
    """An interruption by that signal, at a moment anywhere in the length of the uninterrupted run."""
    if by_lines:
        return Interruption(number, lines=source.randint(1, max(1, whole.lines)))
    return Interruption(number, seconds=source.uniform(0, whole.seconds))


class Examination:
    """One test of one program."""

    def __init__(self, trial: Trial, report: Report) -> None:
        """`report` is told each line of the report."""
        self.trial = trial
        self._say = report
        self._warnings: dict[str, str] = {}
        self._source = random.Random(trial.seed)
        self._signals = shuffled_signals(self._source, trial.interruptions)
        self._done = 0
        self._saves = False

    def run(self) -> Verdict:
        """Carry the test out. Raises OSError where the program cannot be started."""
        trial = self.trial
        expected = self._prepare("uninterrupted")
        ending, judgement = self._live(expected, 1, None)
        self._say(f"uninterrupted  {_told(ending)}, {ending.lines} lines")
        if judgement.next is not Next.FINISHED:
            why = judgement.why or f"it ended with {ending.exit_code}, and was not interrupted"
            return self._failed(f"the uninterrupted run did not finish: {why}", ending)
        round_number = futile = 0
        while self._done < trial.interruptions and futile < _FUTILE_ROUNDS:
            round_number, before = round_number + 1, self._done
            self._say(f"round {round_number}")
            problem = self._round(self._prepare(f"round-{round_number}"), expected, ending)
            if problem is not None:
                return self._failed(*problem)
            futile = futile + 1 if self._done == before else 0
        return self._conclude()

    def _round(self, folder: Path, expected: Path, whole: Ending) -> tuple[str, Ending | None] | None:
        """From a fresh folder to the end, interrupted again and again; what went wrong, if anything."""
        for life in range(1, self.trial.lives + 1):
            # A signal that came too late is still to come, at another moment.
            left = self._signals[self._done :]
            wanted = draw(self._source, left[0], whole, self.trial.by_lines) if left else None
            ending, judgement = self._live(folder, life, wanted)
            self._done += ending.interruption is not None
            self._saves |= ending.exit_code == self.trial.exit_saved or reported_checkpoint(ending.message) is not None
            self._say(f"  start {life}  {ending.interruption or 'by itself'}: {_told(ending)}, {judgement.next.value}")
            for warning in judgement.warnings:
                self._warnings.setdefault(warning, f"{folder.name}, start {life}")
            if judgement.next is Next.FAILED:
                return judgement.why, ending
            if judgement.next is Next.FINISHED:
                return self._compare(expected, folder)
        return f"it has not finished in {self.trial.lives} starts: does it get on at all?", None

    def _compare(self, expected: Path, folder: Path) -> tuple[str, None] | None:
        wrong = []
        for result in self.trial.results:
            found = differences(result, expected, folder)
            self._say(f"  {result.path}: {'different' if found else 'equal'}")
            for line in found:
                self._say(f"    {line}")
            wrong += [result.path] if found else []
        if not wrong:
            return None
        return f"results differ from those of the uninterrupted run: {', '.join(wrong)}", None

    def _live(self, folder: Path, life: int, interruption: Interruption | None) -> tuple[Ending, Judgement]:
        trial = self.trial
        environment = {**(os.environ if trial.environment is None else trial.environment)}
        environment.update(
            SCAVENGER_INDEX="0", SCAVENGER_PARALLELISM="1", SCAVENGER_PEERS="", SCAVENGER_RESTARTS=str(life - 1)
        )
        command = [word.replace(FOLDER, str(folder)) for word in trial.command]
        log = trial.folder / f"{folder.name}-{life}.log"
        ending = Life(command, folder, environment, log).watch(interruption, trial.grace, trial.limit)
        return ending, judge(ending, trial.grace, trial.exit_saved)

    def _prepare(self, name: str) -> Path:
        folder = self.trial.folder / name
        if self.trial.inputs is None:
            folder.mkdir(parents=True)
        else:
            shutil.copytree(self.trial.inputs, folder)
        return folder

    def _tell_warnings(self) -> None:
        for warning, where in self._warnings.items():
            self._say(f"warning: {warning} ({where})")
        if self._done and not self._saves:
            self._say(f"hint: {_FROM_OUTSIDE}")

    def _failed(self, why: str, ending: Ending | None = None) -> Verdict:
        if ending is not None and ending.tail:
            self._say("  the last of its output:")
            for line in ending.tail.splitlines()[-10:]:
                self._say(f"    {line}")
        self._tell_warnings()
        self._say(f"FAILED: {why}")
        return Verdict.FAILED

    def _conclude(self) -> Verdict:
        self._tell_warnings()
        if not self._done:
            self._say("INCONCLUSIVE: it has always finished before it could be interrupted; give it more to do")
            return Verdict.INCONCLUSIVE
        compared = ", ".join(result.path for result in self.trial.results)
        said = f"and came to the same {compared}" if compared else "; no result was named, so none was compared"
        self._say(f"PASSED: interrupted {self._done} times, it has finished {said}".replace(" ;", ";"))
        return Verdict.PASSED


def _told(ending: Ending) -> str:
    code = ending.exit_code
    how = f"ended with {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"
    return f"{how} after {ending.seconds:.2f} s"
