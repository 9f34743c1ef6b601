"""Objects that only know each other, and when Python frees them.

An error has the frames it went through. A frame with a name for the error keeps both, and all that its other names
have, until Python looks through all objects. In a service that takes tens of minutes.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
        kept = [one for one in _of_kind(kind) if not any(one is other for other in before)]
        assert not kept, kept


def _of_kind(kind: type[BaseException]) -> list[BaseException]:
    return [one for one in gc.get_objects() if isinstance(one, kind)]
