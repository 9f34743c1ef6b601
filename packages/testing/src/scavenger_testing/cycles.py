"""Objects that only know each other, and when Python frees them.

An error has the frames it went through. A frame with a name for the error keeps both, and all that its other names
have, until Python looks through all objects. In a service that takes tens of minutes.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

OTHERS_SECONDS: Final = 1.0
"""A thread that another test has left may be handling an error of its own. What a cycle keeps stays for longer."""


@contextmanager
def garbage_kept() -> Iterator[None]:
    """Cycles are collected after the block, and not within it."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def freed_at_once(kind: type[BaseException]) -> Iterator[None]:
    """Errors of this kind that are raised in the block are freed by its end. Raises AssertionError."""
    with garbage_kept():
        before = _of_kind(kind)
        yield
        deadline = time.monotonic() + OTHERS_SECONDS
        while (kept := _new(kind, before)) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not kept, kept


def _new(kind: type[BaseException], before: list[BaseException]) -> list[BaseException]:
    return [one for one in _of_kind(kind) if not any(one is other for other in before)]


def _of_kind(kind: type[BaseException]) -> list[BaseException]:
    return [one for one in gc.get_objects() if isinstance(one, kind)]
