"""Waiting for a condition, with a deadline; the only place in this package that sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

from scavenger_cluster.errors import WaitTimeoutError

T = TypeVar("T")

KILL_SECONDS = 90.0
"""How long a killed process may take to disappear: one that waits for a busy disk does when that has answered."""

READY_SECONDS = 120.0
"""How long a component, a service, or all nodes together, may take until they are ready."""

ANSWER_SECONDS = 30.0
"""How long a probe may take to answer: an API server that starts on a busy machine needs seconds for its `/readyz`."""


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
    exception of the condition ends the wait at once. The last look is one that began after the deadline: we may have
    been stopped, or the condition may have taken long, while what is waited for came true.
    """
    deadline = clock() + timeout
    while True:
        over = clock() >= deadline
        value = condition()
        if value:
            return value
        if over:
            raise WaitTimeoutError(f"gave up waiting for {what} after {timeout:g} s")
        sleep(interval)


def wait_for_end(what: str, left: Callable[[], Collection[int]]) -> None:
    """Wait until no process is left of those that were killed. `left` gives the pids of those that are.

    Raises WaitTimeoutError after KILL_SECONDS, with what the kernel says that each of them does.
    """
    found: Collection[int] = ()

    def over() -> bool:
        nonlocal found
        found = left()
        return not found

    try:
        wait_for(what, over, timeout=KILL_SECONDS, interval=0.02)
    except WaitTimeoutError as error:
        raise WaitTimeoutError(f"{error}: {'; '.join(map(_doing, sorted(found)))}") from None


def _doing(pid: int) -> str:
    """A process by its name, and what the kernel says it does (`D` is waiting for a disk, or frozen)."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return f"{pid} (gone)"
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return f"{pid} ({status.get('Name', '?')}, {status.get('State', '?')})"
