"""What the victims chosen on one node lose, over the smallest loss there is; no cluster is needed.

10,000 random nodes of up to 16 jobs with CPU and memory, each compared with an exhaustive search. The benchmark is in
Go: `BenchmarkLossOverOptimum` in services/scheduler/pkg/preemption.
"""

from __future__ import annotations

from typing import Any

from bench.scheduler import go_figures


def run() -> list[dict[str, Any]]:
    """The figures."""
    metrics = go_figures.measure("LossOverOptimum")["LossOverOptimum"]
    return [
        {
            "name": f"scheduler.loss_over_optimum.{which}",
            "value": metrics[f"{which}-ratio"],
            "unit": "ratio",
            "goal": goal,
        }
        for which, goal in (("mean", "<= 1.005"), ("worst", "<= 1.10"))
    ]
