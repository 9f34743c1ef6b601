"""How a command ends: its exit code, and the sentence for the user."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class ExitCode(IntEnum):
    """The exit codes of `kubectl sj`; `__doc__` of each is what docs/cli.md says of it."""

    def __new__(cls, code: int, meaning: str) -> Self:
        """A member: `code` is its value, `meaning` its docstring."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.__doc__ = meaning
        return member

    OK = 0, "done"
    ERROR = 1, "the API server refused, or cannot be reached"
    USAGE = 2, "the command line, or a file, is wrong; nothing was sent"
    NOT_FOUND = 3, "the job, queue or namespace does not exist"
    JOB_FAILED = 4, "a job that the command waited for, or followed, did not complete"
    TIMED_OUT = 5, "the timeout passed before the state that the command waited for"
    FOUND = 6, "`doctor` found something that an administrator must fix"
    INTERRUPTED = 130, "Ctrl-C"


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
