"""What a container says of its checkpoints as it ends: in its termination message, and by its exit code.

A program in a container needs no right on the API for either. Both are written by a user's program, so neither is
believed beyond the life of that very container.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from scavenger_api.times import checkpoint_time

_LINE: Final = re.compile(r"checkpoint=(\S{1,40}(?: \S{1,20}){0,2})")
"""The longest RFC 3339 timestamp with nanoseconds and offset has 35 characters. Some programs write spaces in it."""

_EXITED: Final = ("", "Error")
"""What runtimes give as the reason of a container that ended with a non-zero code of its own. Others, such as OOMKilled
or StartError, say that the code is not the program's."""


FINISHED: Final = "finished"
"""The last line of a termination message by which a program says that it is done, and was not told to stop."""


def says_finished(message: str) -> bool:
    """Whether a program says that it is done. It is believed only where its exit code is 0."""
    return _last_line(message) == FINISHED


def stated_checkpoint(message: str) -> datetime | None:
    """The moment in the last line of a termination message, `checkpoint=<time>`; None when it is no such line.

    The time is one that `scavenger_api.times.checkpoint_time` can read.

    White space around the line does not matter, nor do the lines before it.
    """
    found = _LINE.fullmatch(_last_line(message))
    return checkpoint_time(found[1]) if found is not None else None


def unreadable_checkpoint(message: str) -> str:
    """What the last line of a termination message says for the time of a checkpoint and is no time; empty where it is
    one, or says none."""
    found = _LINE.fullmatch(_last_line(message))
    return found[1] if found is not None and checkpoint_time(found[1]) is None else ""


def without_checkpoint(message: str) -> str:
    """A termination message for people: without the line for the admitter."""
    text = message.strip()
    return (
        text
        if _LINE.fullmatch(_last_line(text)) is None and not says_finished(text)
        else text.rpartition("\n")[0].strip()
    )


def saved_its_state(exit_code: int, reason: str, checkpoint_exit_code: int | None) -> bool:
    """Whether a container ended with the code by which its job says that all is saved and more is to be done.

    Args:
        exit_code: of the container.
        reason: what its runtime says of its end.
        checkpoint_exit_code: `spec.checkpointExitCode` of the job, where it has one.
    """
    return checkpoint_exit_code is not None and exit_code == checkpoint_exit_code and reason in _EXITED


def checkpoint_at_end(message: str, *, saved: bool, started: datetime | None, finished: datetime) -> datetime | None:
    """The checkpoint that a container reports by the way it ended, in whole seconds; None when it reports none.

    Kubelets write moments in whole seconds, rounded down, and so is what the program says before it is compared. All
    three are of one clock, that of the node. A checkpoint from before the start of the container, or from after its
    end, is a wrong clock or a wrong claim, and counts for nothing.

    Args:
        message: its termination message.
        saved: its exit code says that all is saved (`saved_its_state`).
        started, finished: of the container; `started` is None where not known.
    """
    if saved:
        return finished
    stated = stated_checkpoint(message)
    if stated is None or started is None:
        return None
    stated = stated.replace(microsecond=0)
    return stated if started <= stated <= finished else None


def _last_line(message: str) -> str:
    return message.strip().rpartition("\n")[2].strip()
