"""Whether errors are freed with whoever handles them.

An error has the frames it went through. A frame with a name for the error keeps both, with all that its other names
have, until Python looks through all objects: in a service that takes tens of minutes.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def freed_at_once(kind: type[BaseException]) -> Iterator[None]:
    """Errors of this kind that are raised in the block are freed by its end. Raises AssertionError."""
    gc.collect()
    gc.disable()
    try:
        yield
        kept = [one for one in gc.get_objects() if isinstance(one, kind)]
        assert not kept, kept
    finally:
        gc.enable()
