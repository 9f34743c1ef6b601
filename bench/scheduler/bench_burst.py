"""How long a decision takes when 200 pods come at once to 5,000 full nodes; no cluster is needed.

All of them are decided about before the first victim is gone. The benchmark is in Go, `BenchmarkBurst` in
services/scheduler/pkg/preemption: the plugin and DefaultPreemption, with the filters of a scheduler and without an API
server. On a busy machine the processor time says more than the clock.
"""

from __future__ import annotations

from typing import Any

from bench.scheduler import go_figures


def run() -> list[dict[str, Any]]:
    """The figures."""
    parts = go_figures.measure("Burst")
    plugin, stock = parts["Burst/ScavengerPreemption"], parts["Burst/DefaultPreemption"]
    beginning = "scheduler.decision_5000_nodes"
    return [
        {"name": f"{beginning}_p99_ms", "value": plugin["p99-ms"], "unit": "ms", "goal": "<= 50"},
        {"name": f"{beginning}_p50_ms", "value": plugin["p50-ms"], "unit": "ms", "goal": None},
        {"name": f"{beginning}_cpu_p50_ms", "value": plugin["p50-cpu-ms"], "unit": "CPU-ms", "goal": None},
        {"name": f"{beginning}_cpu_p50_ms.stock", "value": stock["p50-cpu-ms"], "unit": "CPU-ms", "goal": None},
    ]
