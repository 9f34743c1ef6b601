"""Memory cannot be given way in: an ordinary pod grows into what it requested, and jobs have to leave in time.

Round after round on one real kubelet, with real figures and all services: the node's memory in use passes the upper
level, the jobs with the least at risk leave, no more than needed; the ordinary pod is neither killed nor evicted. Then
it shrinks and the jobs come back.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Collection
from typing import Any, Final

from scavenger_cluster.requirements import obstacles

from bench import Skipped
from bench.reclaimed.harness import Ordinary, Place, start_services, up

ROUNDS = 10
JOBS: Final = ("one", "two", "three", "four")
JOB_MIB: Final = 280
FULL: Final = 92
"""Percent of the node's memory that would be in use once the ordinary pod has grown, if all jobs stayed: above the
upper level of 85, and below what makes the kubelet evict in its own order (100 MiB under the limit of all pods)."""
GROW_MIB_PER_SECOND: Final = 100
CODE: Final = f"""
import mmap, time
held = mmap.mmap(-1, {JOB_MIB} << 20)
for _ in range({JOB_MIB}):
    held.write(b"x" * (1 << 20))
while True:  # a twentieth of a core
    end = time.monotonic() + 0.005
    while time.monotonic() < end:
        pass
    time.sleep(0.095)
"""

Figure = dict[str, Any]


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    if obstacles():
        raise Skipped(f"no real nodes here: {'; '.join(obstacles())}")
    cluster = up("bench-reclaimed")
    try:
        with Place(cluster, "reclaimed-memory") as place:
            return memory_figures(place, ROUNDS)
    finally:
        cluster.down()


def memory_figures(place: Place, rounds: int) -> list[Figure]:
    """How many rounds went as they should, and how long the node stayed above its upper level."""
    web = Ordinary(place, "web", {"cpu": "1500m", "memory": "1800Mi"}, {"memory": "2500Mi"})
    place.wait_offer(cpu=100 * len(JOBS), memory=(JOB_MIB + 20) * len(JOBS))
    for name in JOBS:
        place.submit(name, cpu=100, memory=JOB_MIB + 20, code=CODE)
    took, good = [], 0
    for number in range(rounds):
        least = {JOBS[number % len(JOBS)], JOBS[(number + 1) % len(JOBS)]}
        if number:
            start_services(place.cluster)
        took.append(grow(place, web, least))
        good += web.untouched()
    return [
        {"name": "reclaimed.memory_rounds", "value": good / rounds, "unit": "ratio", "goal": ">= 1"},
        {"name": "reclaimed.memory_relief_seconds", "value": statistics.median(took), "unit": "s", "goal": None},
    ]


def grow(place: Place, web: Ordinary, least: Collection[str]) -> float:
    """One round. The jobs `least` have just written a checkpoint: they go before any other does, or the round is not as
    it should be (AssertionError).

    Returns the seconds from when the ordinary pod began to grow until nobody more had to go.
    """
    place.wait("all jobs run", lambda: all(place.phase(job) == "Running" for job in JOBS), 240)
    before = {job: place.interruptions(job) for job in JOBS}

    def shown() -> float:
        used = place.memory_use()
        return used if used >= len(JOBS) * JOB_MIB else 0

    # As the regulator may know nothing the next time it is asked, the figure is the one that was waited for.
    used = place.wait("their memory shows", shown, 90)
    for job in sorted(least):
        place.report_checkpoint(job)
    began = time.monotonic()
    target = place.allocatable()["memory"] * FULL / 100 - used
    web.ask("/hold", mib=round(target), rate=GROW_MIB_PER_SECOND)

    def left() -> set[str]:
        return {job for job in JOBS if place.interruptions(job) > before[job]}

    place.wait("somebody leaves", left, 90)
    place.wait("the node is under its upper level", lambda: place.memory_use() < place.upper_memory(), 90)
    took = time.monotonic() - began
    if not (left() <= set(least) or left() >= set(least)):
        raise AssertionError(f"{sorted(left())} left, though {sorted(least)} had least at risk\n{place.describe()}")
    web.ask("/hold", mib=1, rate=GROW_MIB_PER_SECOND)
    return took
