"""What the board shows on /metrics, beside what the runtime shows of informers and requests."""

from __future__ import annotations

from typing import Final

from scavenger_runtime.metrics import counter, gauge, histogram

LISTENERS: Final = gauge("board_listeners", "Pages that follow the picture.")
PICTURE_SECONDS: Final = histogram("board_picture_seconds", "Making one picture.")
REQUESTS: Final = counter("board_requests", "Requests by HTTP status.", ("code",))
PROMETHEUS: Final = counter("board_prometheus_queries", "Questions to Prometheus by outcome.", ("outcome",))
