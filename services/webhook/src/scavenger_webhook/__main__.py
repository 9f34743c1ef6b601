"""The webhook as a process: `python -m scavenger_webhook`."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from typing import Final

from scavenger_runtime.service import run_service

from scavenger_webhook.controller import main
from scavenger_webhook.settings import WebhookSettings

MMAP_THRESHOLD: Final = -3
"""M_MMAP_THRESHOLD of mallopt(3)."""


def give_back_large_buffers() -> None:
    """Have the C library hand every freed buffer over 128 KiB back to the system. By itself it learns from the first
    large request to keep them, up to 32 MiB each, and large requests leave tens of MiB behind."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 128 * 2**10)


if __name__ == "__main__":
    give_back_large_buffers()
    sys.exit(run_service(WebhookSettings.load(), main))
