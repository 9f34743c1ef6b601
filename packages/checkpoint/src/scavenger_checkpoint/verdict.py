"""What the end of one life of a program says about it. Pure."""

from __future__ import annotations

import enum
import signal
from dataclasses import dataclass, field
from datetime import datetime

from scavenger_checkpoint.contract import reported_checkpoint


@dataclass(frozen=True)
class Interruption:
    """When a program is to be interrupted, and how."""

    number: int
    """SIGTERM or SIGKILL."""
    seconds: float | None = None
    """So long after it was started,"""
    lines: int | None = None
    """or when it has written so many lines."""

    def __str__(self) -> str:
        when = f"{self.lines} lines" if self.seconds is None else f"{self.seconds:.2f} s"
        return f"{signal.Signals(self.number).name} after {when}"

    def due(self, seconds: float, lines: int) -> bool:
        """Whether it is time."""
        return seconds >= self.seconds if self.seconds is not None else lines >= (self.lines or 0)


@dataclass(frozen=True)
class Ending:
    """One life of a program, from start to end, as it was seen."""

    exit_code: int
    """As of subprocess: the negative number of the signal that ended it."""
    began: datetime
    ended: datetime
    seconds: float
    lines: int
    """Of its output."""
    interruption: Interruption | None = None
    """The one it was sent; None when it ended by itself, be it before its interruption came."""
    outstayed: bool = False
    """It was killed at the end of its grace period."""
    hung: bool = False
    """It was killed because it ran for longer than it may."""
    message: str = ""
    """Its termination message."""
    tail: str = field(default="", compare=False)
    """The last of its output."""


class Next(enum.Enum):
    """What becomes of the job."""

    FINISHED = "finished"
    AGAIN = "started again"
    FAILED = "failed"


@dataclass(frozen=True)
class Judgement:
    """What becomes of the job, and what is to be said."""

    next: Next
    why: str = ""
    """Why it failed."""
    warnings: tuple[str, ...] = ()
    """What the program might do better, or what would be worse in a container."""


def judge(ending: Ending, grace: float, exit_saved: int) -> Judgement:
    """What a ScavengerJob with this `checkpointExitCode` would make of an ending."""
    if ending.hung:
        return Judgement(Next.FAILED, f"it had not ended by itself after {ending.seconds:.0f} s")
    if ending.interruption is None:
        return _by_itself(ending, exit_saved)
    if ending.interruption.number == signal.SIGKILL:
        return Judgement(Next.AGAIN)
    return Judgement(Next.AGAIN, warnings=tuple(_after_sigterm(ending, grace, exit_saved)))


def _by_itself(ending: Ending, exit_saved: int) -> Judgement:
    if ending.exit_code == 0:
        return Judgement(Next.FINISHED)
    if ending.exit_code == exit_saved:
        return Judgement(Next.AGAIN, warnings=tuple(_about_report(ending)))
    how = f"code {ending.exit_code}"
    if ending.exit_code < 0:
        how = signal.Signals(-ending.exit_code).name
    return Judgement(Next.FAILED, f"it ended by itself with {how}: its job would be Failed, and not be tried again")


def _after_sigterm(ending: Ending, grace: float, exit_saved: int) -> list[str]:
    if ending.outstayed:
        return [
            f"it did not end within its grace period of {grace:g} s: in a cluster it is killed then, and regular "
            "workloads wait for it all that time"
        ]
    if ending.exit_code == -signal.SIGTERM:
        return [
            "SIGTERM ended it, as it has no handler for it: as process 1 of a container it would not get the signal at "
            "all, and be killed at the end of its grace period"
        ]
    return _about_report(ending) if ending.exit_code == exit_saved else []


def _about_report(ending: Ending) -> list[str]:
    """An end that says that all is saved has to say since when."""
    reported = reported_checkpoint(ending.message)
    if reported is None:
        last = (ending.message.rstrip().splitlines() or [""])[-1]
        found = f"the last line of its termination message is {last!r}" if last else "it left no termination message"
        return [f"it ended with {ending.exit_code}, and reported no checkpoint: {found}"]
    if reported > ending.ended:
        return [f"it reported a checkpoint in the future, which does not count: {reported.isoformat()}"]
    if reported < ending.began:
        return [
            f"it ended with {ending.exit_code}, and the last checkpoint that it reported is of an earlier start: "
            f"{reported.isoformat()}"
        ]
    return []
