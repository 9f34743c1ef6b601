"""What weights by resource cost in GPU time: the prioritizer's own order, beside that by GPU time alone.

The pods of openb that have whole GPUs, as running jobs of one pod; checkpoints every 10, 30 or 60 minutes, at a moment
drawn for each. Then up to a tenth of the GPUs is taken back: the first in the order go, until enough of them are free.

- loop.gpu_hours_lost: GPU-hours lost in the order by the default weights ÷ by the time of GPUs alone.
- loop.gpu_hours_lost.cpu_hours: core-hours lost, the same.
- loop.gpu_hours_lost.by_cpu: GPU-hours lost in the order by CPU time alone ÷ by the time of GPUs alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from scavenger_api.weights import DEFAULT_WEIGHTS, Weights, weights_of
from scavenger_domain.gang import MICROSECONDS
from scavenger_prioritizer.core.plan import Ranked, rank
from scavenger_prioritizer.core.snapshot import Gang, JobFacts, PodFacts, Rules, Share, Snapshot, Source
from scavenger_simulator.inputs.reading import InputError

from bench import Skipped, trace_folder
from bench.traces.catalog import OPENB_PODS
from bench.traces.openb import GPU, read_openb_gpus

DRAWS: Final = 1000
JOBS: Final = 200
MOST_TAKEN: Final = 0.1
INTERVALS: Final = (600, 1800, 3600)
NOW: Final = 10**15
RULES: Final = Rules(startup_cost=0)

Requests = dict[str, int]


def run() -> list[dict[str, Any]]:
    """The figures: ratios of sums over the draws."""
    try:
        pods = read_openb_gpus(trace_folder() / OPENB_PODS)
    except InputError as error:
        raise Skipped(f"{error}; BENCH_TRACE_DIR says where the public traces are") from None
    gpus, cores = lost(pods, DEFAULT_WEIGHTS)
    least, cores_by_gpu = lost(pods, weights_of(f"cpu=0,{GPU}=1"))
    by_cpu, _ = lost(pods, weights_of(f"cpu=1,{GPU}=0"))
    name = "loop.gpu_hours_lost"
    return [
        {"name": name, "value": gpus / least, "unit": "ratio", "goal": "<= 1.02"},
        {"name": f"{name}.cpu_hours", "value": cores / cores_by_gpu, "unit": "ratio", "goal": None},
        {"name": f"{name}.by_cpu", "value": by_cpu / least, "unit": "ratio", "goal": None},
    ]


def lost(pods: Sequence[Requests], weights: Weights, draws: int = DRAWS) -> tuple[float, float]:
    """GPU-hours and core-hours lost over the draws, which are the same for all weights.

    Args:
        pods: requests to draw from.
        weights: of the order.
        draws: how often jobs are drawn and GPUs taken back.
    """
    gpus = cores = 0.0
    for seed in range(draws):
        random = Random(seed)
        drawn = [random.choice(pods) for _ in range(JOBS)]
        gangs = [_gang(number, requests, weights, random) for number, requests in enumerate(drawn)]
        wanted = random.uniform(0.0, MOST_TAKEN) * sum(requests[GPU] for requests in drawn)
        for ranked in rank(Snapshot(NOW, Share(100.0, Source.PUBLISHED), gangs, rules=RULES)):
            if wanted <= 0:
                break
            requests = drawn[int(ranked.gang.job.name)]
            hours = _seconds(ranked) / 3600
            gpus, cores = gpus + hours * requests[GPU], cores + hours * requests["cpu"] / 1000
            wanted -= requests[GPU]
    return gpus, cores


def _gang(number: int, requests: Requests, weights: Weights, random: Random) -> Gang:
    name, interval = f"{number}", random.choice(INTERVALS) * MICROSECONDS
    started = NOW - random.randrange(100 * interval)
    job = JobFacts("team", name, name, "Running", interval, run=name, started=started, created=started)
    cost = weights.cost(requests)
    return Gang(job, (PodFacts("team", name, name, cost, job=name, run=name, node="node", started=started),))


def _seconds(ranked: Ranked) -> float:
    return (NOW - ranked.since) / MICROSECONDS
