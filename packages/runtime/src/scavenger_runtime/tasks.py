"""Tasks that fail when no caller waits for them any more: asyncio would log a traceback, when their memory is freed."""

from __future__ import annotations

import asyncio
from typing import Any

from scavenger_runtime.logging import get_logger

log = get_logger(__name__)


def seen(task: asyncio.Future[Any]) -> None:
    """To call when a task is done: what it failed with matters only to the caller that waits for it."""
    if not task.cancelled():
        task.exception()


def log_failure(task: asyncio.Task[Any]) -> None:
    """To call when a task is done: log what it failed with."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("task failed", task=task.get_name(), exc_info=error)
