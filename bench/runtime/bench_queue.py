"""What a cycle through the priority queue costs, and whether that depends on how much is in it.

A cycle is add + get + done of one item. Each size is measured several times in turn and the best run counts:
whatever else the machine does only ever adds.
"""

from __future__ import annotations

import asyncio
import time
from typing import TypedDict

from scavenger_runtime.queue import PriorityQueue

CYCLES = 100_000
ROUNDS = 5
SMALL, LARGE = 1_000, 100_000


class Figure(TypedDict):
    """One result. goal: what the value should reach, in the same unit; None for information."""

    name: str
    value: float
    unit: str
    goal: str | None


async def ready_cycle(waiting: int, cycles: int = CYCLES) -> float:
    """Seconds per cycle with that many items ready, two priorities mixed."""
    queue: PriorityQueue[int] = PriorityQueue()
    for item in range(waiting):
        queue.add(item, priority=item % 2 * -100)
    began = time.perf_counter()
    for item in range(waiting, waiting + cycles):
        queue.add(item, priority=item % 2 * -100)
        taken, _ = await queue.get()
        queue.done(taken)
    return (time.perf_counter() - began) / cycles


async def delayed_cycle(waiting: int, cycles: int = CYCLES) -> float:
    """Seconds per cycle with that many items delayed, each cycle adding one more whose wait ends within
    the run.
    """
    now = 0.0
    queue: PriorityQueue[int] = PriorityQueue(clock=lambda: now)
    for item in range(waiting):
        queue.add(item, after=1.0 + item)
    began = time.perf_counter()
    for item in range(waiting, waiting + cycles):
        now += 1.0
        queue.add(item, after=float(waiting))
        taken, _ = await queue.get()
        queue.done(taken)
    return (time.perf_counter() - began) / cycles


def run() -> list[Figure]:
    """Measure."""
    best: dict[tuple[str, int], float] = {}
    for _ in range(ROUNDS):
        for size in (SMALL, LARGE):
            for name, cycle in (("ready", ready_cycle), ("delayed", delayed_cycle)):
                taken = asyncio.run(cycle(size))
                best[name, size] = min(taken, best.get((name, size), taken))
    return [
        {
            "name": "queue.ops_per_second",
            "value": 1 / best["ready", LARGE],
            "unit": "cycles/s",
            "goal": ">= 100000",
        },
        {
            "name": "queue.cost_ratio_100k_to_1k",
            "value": best["ready", LARGE] / best["ready", SMALL],
            "unit": "ratio",
            "goal": "<= 2",
        },
        {
            "name": "queue.delayed_ops_per_second",
            "value": 1 / best["delayed", LARGE],
            "unit": "cycles/s",
            "goal": ">= 100000",
        },
        {
            "name": "queue.delayed_cost_ratio_100k_to_1k",
            "value": best["delayed", LARGE] / best["delayed", SMALL],
            "unit": "ratio",
            "goal": None,
        },
    ]


if __name__ == "__main__":
    for figure in run():
        print(f"{figure['name']:40} {figure['value']:14.4g} {figure['unit']:10} {figure['goal'] or ''}")
