"""Two schedulers in turn on one control plane: only their ratios mean something, and only over many pairs of turns."""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from scavenger_cluster import Cluster
from scavenger_cluster.scheduler import PLUGIN, STOCK
from scavenger_cluster.waiting import wait_for

from bench.scheduler import harness

POOL: Final = "bench"
CONFIDENCE: Final = 0.95

Figure = dict[str, Any]


@contextmanager
def nodes(name: str, count: int) -> Iterator[tuple[Cluster, list[str]]]:
    """A cluster of its own with so many fake nodes of four CPUs, taken down afterwards."""
    cluster = Cluster(name, report=lambda line: None)
    try:
        cluster.up("fake:1", fake_cpu="0")
        harness.install_base(cluster)
        names = [f"node-{i:04d}" for i in range(count)]
        cluster.client.create_all(harness.NODES, (harness.node(name, POOL, "4") for name in names))
        wait_for("the nodes", lambda: untainted(cluster), timeout=120)
        yield cluster, names
    finally:
        cluster.down()


def untainted(cluster: Cluster, pool: str = POOL) -> bool:
    """Whether pods may go to all nodes of the pool."""
    items = cluster.client.get(f"{harness.NODES}?labelSelector=pool%3D{pool}")["items"]
    return not any(item["spec"].get("taints") for item in items)


def in_turn(
    cluster: Cluster, measure: Callable[[Cluster, Callable[[], None], int], Any], pairs: int
) -> dict[str, list[Any]]:
    """Measures the schedulers in turn, A B B A and so on, so that what drifts falls on both.

    `measure` is given what starts the scheduler, and the number of the turn. That goes into the names of the pods: what
    a fake kubelet still writes about a pod of the last turn must not hit one of this.
    """
    measured: dict[str, list[Any]] = {PLUGIN: [], STOCK: []}
    for turn in range(2 * pairs):
        kind = (STOCK, PLUGIN, PLUGIN, STOCK)[turn % 4]
        began = time.monotonic()
        measured[kind].append(measure(cluster, lambda kind=kind: cluster.use_scheduler(kind), turn))  # type: ignore[misc]
        took = f"turn {turn + 1} of {2 * pairs} took {time.monotonic() - began:.0f} s"
        print(f"  {kind}, {took}", file=sys.stderr, flush=True)
    return measured


def ratio(name: str, plugin: Sequence[float], stock: Sequence[float], goal: str | None) -> list[Figure]:
    """The plugin's over the stock scheduler's: the median over pairs of neighbouring turns, and how certain that is.

    The interval is that of the sign test, which needs to know nothing of how the ratios are distributed.
    """
    ratios = sorted(ours / theirs for ours, theirs in zip(plugin, stock, strict=True))
    low, high = interval(ratios)
    print(f"  {name}: {', '.join(f'{r:.3f}' for r in ratios)}", file=sys.stderr, flush=True)
    return [
        {"name": name, "value": statistics.median(ratios), "unit": "ratio", "goal": goal},
        {"name": f"{name}.from", "value": low, "unit": "ratio", "goal": None},
        {"name": f"{name}.to", "value": high, "unit": "ratio", "goal": None},
    ]


def interval(ordered: Sequence[float]) -> tuple[float, float]:
    """Between which two of them the median lies, with CONFIDENCE at the least; all of them where there are too few."""
    count, outside = len(ordered), 0.0
    cut = 0
    while cut < count // 2:
        outside += 2 * math.comb(count, cut) / 2**count
        if outside > 1 - CONFIDENCE:
            break
        cut += 1
    cut = max(0, cut - 1)
    return ordered[cut], ordered[count - 1 - cut]
