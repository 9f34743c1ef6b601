"""How a program ends that does not finish: told to, or because it cannot. Pure."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Final

EXIT_FAILED: Final = 1
EXIT_CONFIGURATION: Final = 2
EXIT_ALREADY_RUNNING: Final = 75
"""EX_TEMPFAIL."""


class Reason(enum.Enum):
    """Why a configuration cannot be computed as it is: `reason` in failure.json."""

    INVALID_CONFIGURATION = "InvalidConfiguration"
    OTHER_CONFIGURATION = "OtherConfiguration"
    PREPARATION = "Preparation"
    UNSTABLE = "Unstable"
    OUT_OF_MEMORY = "OutOfMemory"
    WALL_TIME = "WallTime"
    DECOMPOSITION = "Decomposition"
    ERROR = "Error"

    @property
    def exit_code(self) -> int:
        """What the program ends with."""
        configured = self in (Reason.INVALID_CONFIGURATION, Reason.OTHER_CONFIGURATION)
        return EXIT_CONFIGURATION if configured else EXIT_FAILED


class FailedError(Exception):
    """The configuration cannot be computed as it is."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class StoppedError(Exception):
    """The program was told to end, and did so with work left."""

    def __init__(self, saved: datetime | None = None) -> None:
        """`saved`: when the state was taken that is on the disk; None where there is none."""
        super().__init__()
        self.saved = saved
