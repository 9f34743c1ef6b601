"""How fast the plugin's scheduler binds pods beside the stock one, with its processor time for each.

Both work in turn on the same control plane and the same 1,000 fake nodes.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any, Final

from scavenger_cluster import Cluster
from scavenger_cluster.scheduler import PLUGIN, STOCK
from scavenger_cluster.waiting import wait_for

from bench.scheduler import harness, turns

NODE_COUNT: Final = int(os.environ.get("BENCH_NODES", "1000"))
PODS: Final = int(os.environ.get("BENCH_PODS", "1200"))
PAIRS: Final = int(os.environ.get("BENCH_PAIRS", "12"))

Figure = dict[str, Any]


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down.

    Binding is all that is measured, so nobody else works on the pods: neither their kubelets nor any controller.
    """
    with turns.nodes("bench-sched", NODE_COUNT) as (cluster, _):
        idle = ("kcm", "kwok")
        for component in idle:
            cluster.component_stop(component)
        measured = turns.in_turn(cluster, _pods_per_second, PAIRS)
        for component in reversed(idle):  # the kubelets first: who watches them may not find them silent
            cluster.component_start(component)
        wait_for("the nodes", lambda: turns.untainted(cluster), timeout=120)
    rates = {kind: [rate for rate, _ in values] for kind, values in measured.items()}
    costs = {kind: [cost for _, cost in values] for kind, values in measured.items()}
    return [
        *(
            {"name": f"scheduler.throughput.{kind}", "value": statistics.median(values), "unit": "pods/s", "goal": None}
            for kind, values in rates.items()
        ),
        *turns.ratio("scheduler.throughput_ratio", rates[PLUGIN], rates[STOCK], ">= 0.95"),
        *turns.ratio("scheduler.cpu_per_pod_ratio", costs[PLUGIN], costs[STOCK], None),
    ]


def _pods_per_second(cluster: Cluster, start: Callable[[], None], turn: int) -> tuple[float, float]:
    """How fast a queue of waiting pods is bound, from the first to the last, and the scheduler's CPU time for each."""
    cluster.component_stop("scheduler")
    pods = harness.Pods(turns.POOL)
    cluster.client.create_all(harness.PODS, (pods.ordinary(f"p-{turn}-{i}", "1") for i in range(PODS)))
    start()
    first = last = 0.0
    done = already = 0
    deadline = time.monotonic() + 180
    while done < PODS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{done} of {PODS} pods bound after 180 s")
        figures = harness.figures(cluster, "scheduler_schedule_attempts_total")
        done = int(sum(v for k, v in figures.items() if 'result="scheduled"' in k))
        last = time.monotonic()
        if done and not first:
            first, already = last, done
        time.sleep(0.1)  # a scheduler that is asked all the time has less time to schedule
    cpu = harness.figures(cluster, "process_cpu_seconds_total")["process_cpu_seconds_total"]
    harness.clean(cluster, turns.POOL, ())
    return (PODS - already) / (last - first), cpu / PODS


if __name__ == "__main__":
    import json

    print(json.dumps(run(), indent=2))
