"""Waiting for what a real cluster is to do."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from typing import Any, Final

from scavenger_cluster.errors import WaitTimeoutError
from scavenger_cluster.waiting import wait_for
from scavenger_kube.errors import ApiError

TIMEOUT = 120.0
"""Seconds for what comes within a few on a machine that has nothing else to do."""
TRY_AGAIN: Final = frozenset({0, 429, 500, 502, 503, 504})
"""With these a server says that it cannot answer now: it starts, has too much to do, or waits for another server. 0 is
that of no answer."""


def wait(
    what: str,
    condition: Callable[[], Any],
    timeout: float = TIMEOUT,
    describe: Callable[[], str] = str,
    interval: float = 0.2,
) -> Any:
    """Poll until the condition returns something true, and return it.

    A server that is not reached, or says that it is busy (429) or not up to it yet (5xx), is asked again; any other
    exception of the condition ends the wait. `timeout` and `interval` are seconds; `describe` says what there is
    instead, for the AssertionError after them.
    """
    trouble = ""

    def asked() -> Any:
        nonlocal trouble
        try:
            found = condition()
        except (OSError, http.client.HTTPException) as error:
            trouble = repr(error)
            return None
        except ApiError as error:
            if error.status not in TRY_AGAIN:
                raise
            trouble = str(error)
            return None
        trouble = ""
        return found

    try:
        return wait_for(what, asked, timeout=timeout, interval=interval)
    except WaitTimeoutError as error:
        raise AssertionError("\n".join(filter(None, (str(error), trouble, describe())))) from None
