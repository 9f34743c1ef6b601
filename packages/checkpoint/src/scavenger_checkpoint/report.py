"""Telling the job of a checkpoint, or that the program is done, without any right on the API."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from scavenger_checkpoint.contract import ENV_MESSAGE_PATH, FINISHED, MESSAGE_LIMIT, MESSAGE_PATH, checkpoint_line


def report_checkpoint(moment: datetime, message: str = "") -> bool:
    """Report that the state as it was at `moment` is saved: the last line of the termination message.

    It counts when the container has ended, however that comes about: so a program that reports each checkpoint as soon
    as it is on the disk has reported the last one when it is killed. `message`: what else is to be said, before that
    line; of what is too long the beginning is left out. Without a termination message, as outside a container, nothing
    is written, and False returned. Raises ValueError for a moment without a time zone.
    """
    return _write(checkpoint_line(moment), message)


def report_finished(message: str = "") -> bool:
    """Report that the program is done, right before it ends with 0: the last line of the termination message.

    Its job is Completed at once then, and does not wait for a sign of life of the node. A program that was told to stop
    and ends with 0 must not say so. `message`, and what is returned: as of `report_checkpoint`.
    """
    return _write(FINISHED, message)


def _write(line: str, message: str) -> bool:
    """Write a last line, and what comes before it."""
    last = f"{line}\n".encode()
    text = f"{message.rstrip()}\n".encode() if message.strip() else b""
    kept = text[-(MESSAGE_LIMIT - len(last)) :] if text else b""
    path = Path(os.environ.get(ENV_MESSAGE_PATH, MESSAGE_PATH))
    try:
        # It is mounted into the container, so it can be written and not replaced. One write: half of it is not seen.
        descriptor = os.open(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.pwrite(descriptor, kept + last, 0)
        os.ftruncate(descriptor, len(kept) + len(last))
    finally:
        os.close(descriptor)
    return True
