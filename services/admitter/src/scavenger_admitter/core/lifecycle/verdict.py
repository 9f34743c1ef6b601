"""What may have become of a run: a small closed set, which `judge` gives and the books of jobs and arrays record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from scavenger_domain.pod_ends import Exit, Removal

from scavenger_admitter.core.lifecycle.start_failures import Problem
from scavenger_admitter.core.lifecycle.success import Success


@dataclass(frozen=True, slots=True)
class Completed:
    """All pods succeeded by themselves."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Failed:
    """A container exited non-zero by itself."""

    exit: Exit
    problem: Problem | None = None
    """Why the start failed, of a run that had not begun."""

    @property
    def at(self) -> datetime:
        """When the container ended."""
        return self.exit.at


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """A container saved its state and ended by itself, with the code by which its job says so."""

    exit: Exit

    @property
    def at(self) -> datetime:
        """When the container ended."""
        return self.exit.at


@dataclass(frozen=True, slots=True)
class Removed:
    """A pod of the run was taken away from outside or by the admitter, or the Job was."""

    removal: Removal
    at: datetime
    """Until when the run computed: the first end of a member, which need not be the one that was taken away first."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """A run has ended, and the fate of a node may still show that the job is not at fault, or not done."""

    at: datetime
    """When the container ended: the run computes no longer."""
    until: datetime
    """When it is decided, if nothing more is known by then."""
    failed: bool = True
    """A container failed; else all of them ended with 0."""
    unproven: tuple[Success, ...] = ()
    """The successes of the run that nothing proves yet."""


Termination: TypeAlias = Completed | Failed | Checkpointed | Removed | Undecided
"""How a run ended."""


@dataclass(frozen=True, slots=True)
class StartFailed:
    """It has not begun, and is to be taken back."""

    problem: Problem


@dataclass(frozen=True, slots=True)
class Starts:
    """It has not begun, and may still.

    Attributes:
        found: where a member of a gang has ended, and it is not known yet how.
        due: seconds until time alone makes a problem of the start; None where it does not.
        unproven: successes that its end may depend on, and that nothing proves yet.
    """

    found: Undecided | None = None
    due: float | None = None
    unproven: tuple[Success, ...] = ()


@dataclass(frozen=True, slots=True)
class Hangs:
    """It runs, and has reported no checkpoint for longer than its job allows. since: the last one, or its start."""

    since: datetime


@dataclass(frozen=True, slots=True)
class Runs:
    """It goes on.

    Attributes:
        until: when time alone may end it; None where it does not.
        unproven: as of `Starts`.
    """

    until: datetime | None = None
    unproven: tuple[Success, ...] = ()


Verdict: TypeAlias = Termination | StartFailed | Starts | Hangs | Runs
