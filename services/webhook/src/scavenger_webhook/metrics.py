"""What the webhook shows on /metrics, beside what the runtime shows of informers and requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scavenger_runtime.metrics import counter, gauge, histogram

REVIEW_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)

OUTCOMES: Final = ("allowed", "changed", "warned", "refused")

REVIEWS: Final = counter("webhook_reviews", "Admission requests by subject and outcome.", ("resource", "outcome"))
REVIEW_SECONDS: Final = histogram(
    "webhook_review_seconds", "From the whole request to the answer.", ("resource",), buckets=REVIEW_BUCKETS
)
REJECTED: Final = counter("webhook_rejected_requests", "What was no admission request, by HTTP status.", ("code",))
EXPIRY: Final = gauge(
    "webhook_certificate_expiry_timestamp_seconds", "Unix time at which the serving certificate expires."
)
AUTHORITY_EXPIRY: Final = gauge(
    "webhook_authority_expiry_timestamp_seconds", "Unix time at which the authority expires."
)
RELOADS: Final = counter("webhook_certificate_reloads", "Serving certificates taken into use.")


def begin(resources: Iterable[str]) -> None:
    """Show the reviews of these from 0 on: what is first seen at 1 has not risen, as Prometheus counts."""
    for resource in resources:
        REVIEW_SECONDS.labels(resource)
        for outcome in OUTCOMES:
            REVIEWS.labels(resource, outcome)
