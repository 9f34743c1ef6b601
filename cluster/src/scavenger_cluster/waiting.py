"""Waiting for a condition, with a deadline; the only place in this package that sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from scavenger_cluster.errors import WaitTimeoutError

T = TypeVar("T")

KILL_SECONDS = 90.0
"""How long a killed process may take to disappear: one that waits for a busy disk does when that has answered."""

READY_SECONDS = 90.0
"""How long a component, or all nodes together, may take until they are ready."""


def wait_for(
    what: str,
    condition: Callable[[], T | None],
    *,
    timeout: float,
    interval: float = 0.1,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Poll until the condition returns something true, and return it.

    `timeout` and `interval` are seconds. Raises WaitTimeoutError naming `what` after the deadline; an
    exception of the condition ends the wait at once.
    """
    deadline = clock() + timeout
    while True:
        value = condition()
        if value:
            return value
        if clock() >= deadline:
            raise WaitTimeoutError(f"gave up waiting for {what} after {timeout:g} s")
        sleep(interval)
