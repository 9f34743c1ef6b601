"""SIGTERM as a request that a program looks at when it can."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Sequence
from types import FrameType


class StopRequest:
    """True as soon as the program has been asked to end.

    A program that is process 1 of its container does not get SIGTERM at all unless it has a handler: this is one. Made
    in the main thread, and once.
    """

    def __init__(self, signals: Sequence[int] = (signal.SIGTERM, signal.SIGINT)) -> None:
        """Take over these signals. Raises ValueError outside the main thread."""
        self._requested = False
        # A pipe and no threading.Event: setting that in a handler may wait for a lock that the same thread holds.
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        for number in signals:
            signal.signal(number, self._on_signal)

    def __bool__(self) -> bool:
        """Whether it has been asked to end."""
        return self._requested

    def fileno(self) -> int:
        """A descriptor that can be read from then on, for `select` and event loops; it must not be read."""
        return self._woken

    def wait(self, seconds: float | None = None) -> bool:
        """Sleep so long, or until asked to end, whichever is first; whether asked. None: for ever."""
        select.select([self._woken], [], [], seconds)
        return self._requested

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._requested:
            self._requested = True
            os.write(self._wake, b"!")
