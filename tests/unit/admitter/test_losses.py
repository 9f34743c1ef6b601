"""What counts as lost on /metrics."""

from __future__ import annotations

from scavenger_admitter.losses import Losses
from scavenger_runtime.metrics import REGISTRY


def shown(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"scavenger_{name}_total", labels) or 0.0


def test_cpu_time_and_time_of_devices_are_counted_once_they_are_certain() -> None:
    losses = Losses()
    losses.book("losses", {"cpu": 100.0, "nvidia.com/gpu": 50.0})
    losses.book("losses", {"cpu": -40.0, "nvidia.com/gpu": -20.0})
    assert shown("lost_seconds", queue="losses", resource="nvidia.com/gpu") == 0

    losses.close()
    assert shown("lost_cpu_seconds", queue="losses") == 60
    assert shown("lost_seconds", queue="losses", resource="nvidia.com/gpu") == 30
    losses.close()
    assert shown("lost_cpu_seconds", queue="losses") == 60


def test_what_was_saved_after_all_takes_nothing_back() -> None:
    losses = Losses()
    losses.book("losses-b", {"cpu": 10.0, "nvidia.com/gpu": -5.0})
    losses.close()
    assert shown("lost_cpu_seconds", queue="losses-b") == 10
    assert shown("lost_seconds", queue="losses-b", resource="nvidia.com/gpu") == 0
