"""Requests to the API server, as metrics and log show them."""

from __future__ import annotations

from scavenger_kube.transport import Observer

from scavenger_runtime import metrics
from scavenger_runtime.logging import get_logger

REQUESTS = metrics.counter("api_requests", "Requests sent to the API server, by outcome.", ["method", "code"])
SECONDS = metrics.histogram("api_request_seconds", "Duration of requests to the API server.", ["method"])

log = get_logger(__name__)


class RequestMetrics(Observer):
    """Counts requests and logs the renewal of credentials."""

    def answered(self, method: str, status: int) -> None:
        """Count an answer."""
        REQUESTS.labels(method, str(status)).inc()

    def failed(self, reason: str) -> None:
        """Count a connection that broke."""
        REQUESTS.labels("any", reason).inc()

    def took(self, method: str, seconds: float) -> None:
        """Add to the durations."""
        SECONDS.labels(method).observe(seconds)

    def renewed(self, error: Exception | None) -> None:
        """One line about the credentials."""
        if error is not None:
            log.warning("credentials could not be renewed", error=str(error))
        else:
            log.info("credentials renewed")
