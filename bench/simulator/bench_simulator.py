"""How long it takes to simulate a day, and how much memory: the scheduler's, the admitter's, the regulator's and the
prioritizer's decisions on 1,000 nodes, 10,000 ordinary pods and 20,000 jobs, on one core.

The day is made up, with a seed: six of ten ordinary pods stay, the others come and go; what they use follows the hour
and changes every five minutes; half of the jobs report checkpoints, a third are gangs. Admission cycles are at most one
every 15 s of virtual time, and rounds of the prioritizer every 30 s. Besides, half and a quarter of it, to see that the
cost grows with the number of events. Seconds are of processor time, and each size runs in a process of its own.
"""

from __future__ import annotations

import json
import math
import random
import resource
import subprocess
import sys
import time
from array import array
from typing import Any, Final

from scavenger_simulator.policy import Policy
from scavenger_simulator.scenario import FOREVER, NodeSpec, OrdinaryPod, ScavengerDemand, Scenario, UsageTrace
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

SIZES: Final = (250, 500, 1000)
DAY: Final = 86_400.0
GIB: Final = 1 << 30
STEPS: Final = 288


def make_day(nodes: int, seed: int = 16) -> Scenario:
    """A day of so many nodes, ten times as many ordinary pods, and twenty times as many jobs."""
    rng = random.Random(seed)
    return Scenario(
        name=f"{nodes} nodes",
        nodes=tuple(NodeSpec(f"node-{i:04d}", 12_000, 48 * GIB) for i in range(nodes)),
        ordinary=tuple(_ordinary(rng, i) for i in range(10 * nodes)),
        jobs=tuple(_job(rng, i) for i in range(20 * nodes)),
        end=DAY,
        seed=seed,
        origin="bench",
    )


def _ordinary(rng: random.Random, number: int) -> OrdinaryPod:
    request, memory = rng.choice([250, 500, 1000, 1000, 2000]), rng.choice([1, 2, 4]) * GIB
    stays = rng.random() < 0.6
    arrives = 0.0 if stays else rng.uniform(0, DAY)
    leaves = FOREVER if stays else arrives + rng.expovariate(1 / 7200)
    base, shift = rng.uniform(0.2, 0.6), rng.uniform(-0.5, 0.5)
    waves = (1 + 0.5 * math.sin(2 * math.pi * step / STEPS + shift) + rng.gauss(0, 0.1) for step in range(STEPS))
    cpu = array("I", [round(request * min(1.3, max(0.02, base * wave))) for wave in waves])
    usage = UsageTrace(0.0, DAY / STEPS, cpu, array("Q", [memory // 2]) * STEPS)
    return OrdinaryPod(f"web-{number}", arrives, leaves, request, memory, usage)


def _job(rng: random.Random, number: int) -> ScavengerDemand:
    return ScavengerDemand(
        name=f"job-{number}",
        queue="default",
        submitted=rng.uniform(0, 0.9 * DAY),
        pods=rng.choice([1, 1, 1, 1, 2, 4]),
        cpu_milli=rng.choice([1000, 2000, 4000]),
        memory_bytes=rng.choice([1, 2, 4]) * GIB,
        work_seconds=min(20_000.0, rng.lognormvariate(7.6, 1)),
        checkpoint_every=rng.choice([None, 600.0]),
    )


def run() -> list[dict[str, Any]]:
    """The figures."""
    found = []
    for nodes in SIZES:
        done = subprocess.run(
            [sys.executable, "-m", "bench.simulator.bench_simulator", str(nodes)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        figures = json.loads(done.stdout)
        largest = nodes == SIZES[-1]
        name = f"simulator.day_{nodes}_nodes"
        found += [
            _figure(f"{name}.seconds", figures["seconds"], "s", "<= 60" if largest else ""),
            _figure(f"{name}.rss_mb", figures["rss_mb"], "MB", "<= 1000" if largest else ""),
            _figure(f"{name}.us_per_event", 1e6 * figures["seconds"] / figures["events"], "us", ""),
        ]
    return found


def _figure(name: str, value: float, unit: str, goal: str) -> dict[str, Any]:
    return {"name": name, "value": round(value, 3), "unit": unit, "goal": goal}


def main(nodes: int) -> None:
    """Simulate one day, and say what it took."""
    scenario = make_day(nodes)
    began = time.process_time()
    result = simulate(scenario, Settings(admission_interval=15.0), Policy.OURS, 1)
    spent = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": spent, "rss_mb": peak, "events": result.totals.events}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
