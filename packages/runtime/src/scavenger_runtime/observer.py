"""Requests to the API server, as metrics and log show them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from scavenger_kube.transport import Observer

from scavenger_runtime import metrics
from scavenger_runtime.logging import get_logger

REQUESTS = metrics.counter("api_requests", "Requests sent to the API server, by outcome.", ["method", "code"])
CUT = metrics.counter(
    "api_answers_cut", "Objects, lists and watch events with values that are nested too deeply, or are no text."
)
SECONDS = metrics.histogram("api_request_seconds", "Duration of requests to the API server.", ["method"])

log = get_logger(__name__)


RECENT: Final = 0.2
"""Weight of the last write in the average of how long one takes."""

LONGEST_COUNTED: Final = 1.0
"""Seconds that a write counts for in that average at the most: one that timed out must not be felt for minutes."""


class RequestMetrics(Observer):
    """Counts requests, knows how long a write takes at the moment, and logs the renewal of credentials."""

    def answered(self, method: str, status: int) -> None:
        """Count an answer."""
        REQUESTS.labels(method, str(status)).inc()
        if status == HTTPStatus.TOO_MANY_REQUESTS:  # it sheds load: as if a write took as long as one can
            self.write_seconds = LONGEST_COUNTED

    def failed(self, reason: str) -> None:
        """Count a connection that broke."""
        REQUESTS.labels("any", reason).inc()

    def took(self, method: str, seconds: float) -> None:
        """Add to the durations."""
        SECONDS.labels(method).observe(seconds)
        if method != "GET":
            self.write_seconds += RECENT * (min(LONGEST_COUNTED, seconds) - self.write_seconds)

    def cut(self) -> None:
        """Count an answer."""
        CUT.inc()

    def renewed(self, error: Exception | None) -> None:
        """One line about the credentials."""
        if error is not None:
            log.warning("credentials could not be renewed", error=str(error))
        else:
            log.info("credentials renewed")
