"""Memory, in bytes. Short of it somebody is killed, so it is more urgent than CPU."""

from __future__ import annotations

from typing import Final

from scavenger_regulator.core.metrics.metric import Metric

MEMORY: Final = Metric(name="memory", priority=10)
