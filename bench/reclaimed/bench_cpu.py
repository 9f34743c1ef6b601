"""What jobs on reclaimed capacity take from the ordinary pods whose requests they run under: on a real kubelet.

Each comparison alternates within one run, on one node, between jobs that run and the same jobs held still (SIGSTOP), so
that whatever else the machine does falls on both sides alike. Only the ratios mean something elsewhere.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

from scavenger_cluster.requirements import obstacles

from bench import Skipped
from bench.figures import median_ratio, percentile, yielded_after
from bench.reclaimed.groups import PodGroup, stopped, watch
from bench.reclaimed.harness import BURN, Ordinary, Place, up, whole_node
from bench.reclaimed.program import SPIN_SECONDS

PAIRS = 10
BURST_SECONDS = 3.0
IDLE_SECONDS = 3.0
CLAIM_PAIRS = 4
HTTP_TURNS = 12
HTTP_SECONDS = 5.0
HTTP_LOAD = 0.3
READ_EVERY = 0.02
STILL_SPAN = 0.1
"""A job has given way when it uses less than QUIET_CORES on average over so many seconds."""
QUIET_CORES = 0.1
JOBS = ("one", "two")
JOB_CORES = 0.6
FREE_JOBS = ("three", "four")
"""Jobs whose requests are free on the node."""
FREE_JOB_MILLICORES = 200
RECLAIMED_BESIDE = 0.5
"""Cores of each job on reclaimed capacity beside them."""
ALONE, BESIDE, AGAIN, RECLAIMED = "alone", "beside jobs", "alone again", "beside jobs on reclaimed capacity"

Figure = dict[str, Any]


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    if obstacles():
        raise Skipped(f"no real nodes here: {'; '.join(obstacles())}")
    cluster = up("bench-reclaimed")
    try:
        figures: list[Figure] = []
        for name, measure in {"cpu": cpu_figures, "http": http_figures, "claim": claim_figures}.items():
            with Place(cluster, f"reclaimed-{name}") as place:
                figures += measure(place)
        return figures
    finally:
        cluster.down()


# --- throughput -----------------------------------------------------------------------------------------------------


def cpu_figures(place: Place) -> list[Figure]:
    """A Deployment that requested the whole node and idles begins to burn, again and again."""
    web = Ordinary(place, "web", whole_node())
    groups = start_jobs(place)
    lives = place.lives(JOBS)
    pairs, yields, harvested = [], [], 0.0
    for number in range(PAIRS):
        harvested += used_while_idle(groups)
        pair, gave_way = compare(web, groups, number)
        pairs.append(pair)
        yields.append(gave_way)
    require(web.untouched() and place.lives(JOBS) == lives, "nobody is restarted or evicted")
    require(used_while_idle(groups) > JOB_CORES * IDLE_SECONDS, "the jobs go on afterwards")
    return [
        figure("ordinary_ratio", median_ratio(pairs), "ratio", ">= 0.97"),
        figure("harvested_cpu_seconds", harvested, "s"),
        figure("harvested_cores", harvested / (PAIRS * IDLE_SECONDS), "cores"),
        figure("yield_ms", 1000 * statistics.median(yields), "ms"),
        figure("yield_max_ms", 1000 * max(yields), "ms"),
    ]


def start_jobs(place: Place, cores: float = JOB_CORES) -> list[PodGroup]:
    """Two jobs that want most of the node between them, so many cores each; returns when both run."""
    place.wait_offer(cpu=round(1000 * cores) * len(JOBS), memory=64 * len(JOBS))
    for name in JOBS:
        place.submit(name, cpu=round(1000 * cores), memory=64)
    place.wait("the jobs run", lambda: place.running(JOBS))
    return place.groups(JOBS)


def used_while_idle(groups: Sequence[PodGroup]) -> float:
    """CPU seconds that the jobs use while the ordinary pods do nothing for IDLE_SECONDS."""
    before = sum(group.cpu_seconds() for group in groups)
    time.sleep(IDLE_SECONDS)
    return sum(group.cpu_seconds() for group in groups) - before


def compare(web: Ordinary, groups: Sequence[PodGroup], number: int) -> tuple[tuple[float, float], float]:
    """Throughput beside the jobs and alone, in this order, and the seconds until the jobs had given way."""
    found = {}
    for alone in in_turn(number):
        with stopped(groups) if alone else nullcontext():
            found[alone] = burst(web, groups)
    return (found[False][0], found[True][0]), found[False][1]


def burst(web: Ordinary, groups: Sequence[PodGroup]) -> tuple[float, float]:
    """The ordinary throughput of one burst, and the seconds until the jobs had given way to it.

    They count from the moment the request was sent: that the burst itself has to begin is part of them.
    """
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch, groups, BURST_SECONDS, READ_EVERY)
        time.sleep(10 * READ_EVERY)
        began = time.monotonic()
        throughput = web.burn(BURST_SECONDS)
        return throughput, yielded_after(watching.result(), began, QUIET_CORES, STILL_SPAN)


# --- latency --------------------------------------------------------------------------------------------------------


def http_figures(place: Place) -> list[Figure]:
    """An HTTP server that is busy for HTTP_LOAD of the time, called from another regular pod of the node.

    In turn: the node alone, beside jobs on free capacity, alone again, beside jobs on reclaimed capacity. All sides of
    a turn get the same requests at the same moments. Two base runs say how much of a difference is the machine's own.
    """
    web = Ordinary(place, "web", {"cpu": "900m", "memory": "256Mi"})
    caller = Ordinary(place, "caller", {"cpu": "600m", "memory": "256Mi"})
    for name in FREE_JOBS:
        place.compute(name, BURN, resources={"requests": {"cpu": f"{FREE_JOB_MILLICORES}m", "memory": "64Mi"}})
    place.wait("the jobs on free capacity run", lambda: place.running(FREE_JOBS))
    sides = {
        ALONE: [],
        BESIDE: place.groups(FREE_JOBS),
        AGAIN: [],
        RECLAIMED: start_jobs(place, cores=RECLAIMED_BESIDE),
    }
    everyone = [group for groups in sides.values() for group in groups]
    lives = place.lives((*FREE_JOBS, *JOBS))
    latencies: dict[str, list[float]] = {side: [] for side in sides}
    used = dict.fromkeys(sides, 0.0)
    for number in range(HTTP_TURNS):
        for side in rotated(list(sides), number):
            groups = sides[side]
            used[side] -= sum(group.cpu_seconds() for group in groups)
            with stopped([group for group in everyone if group not in groups]):
                url, rate = f"{web.address}/spin", HTTP_LOAD / SPIN_SECONDS
                latencies[side] += caller.ask("/load", url=url, rate=rate, seconds=HTTP_SECONDS, seed=number)
            used[side] += sum(group.cpu_seconds() for group in groups)
    require(web.untouched() and caller.untouched(), "nobody is restarted or evicted")
    require(place.lives((*FREE_JOBS, *JOBS)) == lives, "the jobs are the same as in the beginning")
    base = [*latencies[ALONE], *latencies[AGAIN]]
    found = [figure("http_requests", len(latencies[RECLAIMED]), "requests")]
    for q in (50, 99):
        alone, again, most = percentile(latencies[ALONE], q), percentile(latencies[AGAIN], q), percentile(base, q)
        difference = 100 * abs(alone - again) / min(alone, again)
        goal = "<= 1.10" if q == 99 else None
        found += [
            figure(f"http_p{q}_ratio", percentile(latencies[RECLAIMED], q) / most, "ratio", goal),
            figure(f"http_free_p{q}_ratio", percentile(latencies[BESIDE], q) / most, "ratio", goal),
            figure(f"http_base_p{q}_ms", 1000 * most, "ms"),
            figure(f"http_base_p{q}_differs", difference, "%", "<= 3"),
        ]
    cores = HTTP_TURNS * HTTP_SECONDS
    return [
        *found,
        figure("http_harvested_cores", used[RECLAIMED] / cores, "cores"),
        figure("http_free_cores", used[BESIDE] / cores, "cores"),
    ]


# --- what has no claim ----------------------------------------------------------------------------------------------


def claim_figures(place: Place) -> list[Figure]:
    """Ordinary pods that requested no CPU, on a node that others requested: to the kernel they are the jobs' equals.

    Its weights follow requests. A pod that requests no CPU has the same least weight (2 shares) as one on reclaimed
    capacity, and as a BestEffort one has it outside of the Burstable pods, whose group, the jobs in it, weighs as much
    as all that they requested. No goal: it is what an administrator has to know.
    """
    Ordinary(place, "idle", whole_node("256Mi"))
    pods = {
        "no_cpu_request": Ordinary(place, "small", {"memory": "64Mi"}),
        "besteffort": Ordinary(place, "none", {}),
    }
    groups = start_jobs(place)
    found = []
    for name, pod in pods.items():
        pairs = [compare(pod, groups, number)[0] for number in range(CLAIM_PAIRS)]
        found.append(figure(f"{name}_ratio", median_ratio(pairs), "ratio"))
    return found


# --- what all have in common ----------------------------------------------------------------------------------------


def in_turn(number: int) -> tuple[bool, bool]:
    """Whether the ordinary pods are alone: first and then not, and the other way round the next time."""
    return (True, False) if number % 2 == 0 else (False, True)


def rotated(sides: list[str], number: int) -> list[str]:
    """The sides in another order each time, so that none always follows the same one."""
    return sides[number % len(sides) :] + sides[: number % len(sides)]


def require(holds: bool, what: str) -> None:
    """A figure is worth nothing when what it rests on is not so."""
    if not holds:
        raise AssertionError(f"it is not so that {what}")


def figure(name: str, value: float, unit: str, goal: str | None = None) -> Figure:
    return {"name": f"reclaimed.{name}", "value": value, "unit": unit, "goal": goal}
