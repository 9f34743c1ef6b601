"""How a command ends: its exit code, and the sentence for whoever started it."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of `kubectl sj`, as docs/cli.md documents them."""

    OK = 0
    ERROR = 1
    """The API server refused, or cannot be reached."""
    USAGE = 2
    """The command line is wrong; nothing was sent."""
    NOT_FOUND = 3
    """The job, queue or namespace does not exist."""
    JOB_FAILED = 4
    """The command did what it should; the job it waited for did not complete."""
    TIMED_OUT = 5
    """What was waited for has not come within the time given."""
    INTERRUPTED = 130
    """Ctrl-C, as the shell counts it."""


class CliError(Exception):
    """A command cannot go on.

    message: what is wrong, one sentence without a full stop. remedy: what to do about it. code: the exit code.
    """

    def __init__(self, message: str, remedy: str = "", code: ExitCode = ExitCode.ERROR) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.code = code


class Interrupted(BaseException):
    """Ctrl-C. Not a KeyboardInterrupt, which the command-line library would turn into exit code 1."""
