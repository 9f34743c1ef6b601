"""How far it is, on standard error: a line that changes on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TextIO

from scavenger_simulator.inputs.reading import InputError

QUIET_SECONDS: Final = 5.0
"""What ends sooner than this writes nothing where there is no terminal."""
EVERY_SECONDS: Final = 10.0
REFRESH_SECONDS: Final = 0.1
WIDTH: Final = 78
UNUSABLE: Final = 1
"""Exit code where an input cannot be used."""


class Progress:
    """Tells about one piece of work after another.

    clock: seconds. silent: nothing is written at all.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float], *, silent: bool = False) -> None:
        self._stream = stream
        self._clock = clock
        self._silent = silent
        self._terminal = stream.isatty()
        self._text = ""
        self._next = clock() + (0.0 if self._terminal else QUIET_SECONDS)
        self._drawn = False

    def told(self, text: str) -> None:
        """A piece begins."""
        self._text = text
        if self._terminal:
            self._next = self._clock()
        self.share(None)

    def share(self, done: float | None) -> None:
        """So much of it is done, 0 to 1; None where nobody knows."""
        now = self._clock()
        if self._silent or now < self._next:
            return
        line = self._text if done is None else f"{self._text}: {done:.0%}"
        if self._terminal:
            self._stream.write(f"\r{line[:WIDTH]:<{WIDTH}}")
            self._drawn = True
        else:
            self._stream.write(f"{line}\n")
        self._stream.flush()
        self._next = now + (REFRESH_SECONDS if self._terminal else EVERY_SECONDS)

    def refused(self, error: InputError) -> int:
        """An input cannot be used: say so, and what to do; the exit code."""
        self.clear()
        self._stream.write(f"error: {error}\n  {error.remedy}\n")
        return UNUSABLE

    def clear(self) -> None:
        """Take the line away again, before the answer is printed."""
        if self._drawn:
            self._stream.write(f"\r{'':<{WIDTH}}\r")
            self._stream.flush()
            self._drawn = False
