"""Waiting for what a real cluster is to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scavenger_cluster.errors import WaitTimeoutError
from scavenger_cluster.waiting import wait_for

TIMEOUT = 120.0
"""Seconds for what comes within a few on a machine that has nothing else to do."""


def wait(
    what: str,
    condition: Callable[[], Any],
    timeout: float = TIMEOUT,
    describe: Callable[[], str] = str,
    interval: float = 0.2,
) -> Any:
    """Poll until the condition returns something true, and return it.

    `timeout` and `interval` are seconds; `describe` says what there is instead, for the AssertionError after them.
    """
    try:
        return wait_for(what, condition, timeout=timeout, interval=interval)
    except WaitTimeoutError as error:
        raise AssertionError(f"{error}\n{describe()}") from None
