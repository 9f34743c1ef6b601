"""`python -m scavenger_webhook` serves; `… uninstall` takes back what it has added to ResourceQuotas."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from typing import Final

from scavenger_runtime.service import run_service

from scavenger_webhook.controller import main as serve
from scavenger_webhook.settings import WebhookSettings
from scavenger_webhook.uninstall import uninstall

MMAP_THRESHOLD: Final = -3
"""M_MMAP_THRESHOLD of mallopt(3)."""


def give_back_large_buffers() -> None:
    """Have the C library hand every freed buffer over 128 KiB back to the system. By itself it learns from the first
    large request to keep them, up to 32 MiB each, and large requests leave tens of MiB behind."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 128 * 2**10)


def main(words: list[str] | None = None) -> int:
    """Run the webhook until it is told to stop; returns the exit code."""
    arguments = sys.argv[1:] if words is None else words
    if arguments[:1] == ["uninstall"]:
        return uninstall(WebhookSettings.load(arguments[1:]))
    give_back_large_buffers()
    return run_service(WebhookSettings.load(arguments), serve)


if __name__ == "__main__":
    sys.exit(main())
