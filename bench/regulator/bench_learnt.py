"""Levels that are learnt and not pinned, on a real kubelet: half an hour of a moving load, and the hour they govern.

One node that offers 3 GiB. An ordinary pod holds memory that rises and falls by a course that is known beforehand, and
there are more jobs in line than fit. The regulator has a history of half an hour and its default settings for all else.
It begins with the levels of an installation (70, 80, 85); each measurement that it publishes is read.

- loop.learnt.level_error_points: the largest distance, in the second part, of a published level from what
  docs/levels.md makes of the deviation beside it. Levels move by a point in a period, so they may be behind by that.
- loop.learnt.stdev_error_points: the largest distance of the published deviation from that of the known course in the
  half hour before. The window moves by whole parts, and the node's own use moves a little, so it is not 0.
- loop.learnt.initial_share: of the second part, the time in which the levels were those of an installation.
- loop.learnt.above_upper_percent: of its periods, those with a load above the upper level; evictions are beside it.

It takes an hour and a half, so it is run only where that is asked for: BENCH_LEARNT_MINUTES=30,60 are the two parts.
"""

from __future__ import annotations

import math
import os
import random
import statistics
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from scavenger_api.names import LEVELS_CONFIGMAP, SYSTEM_NAMESPACE
from scavenger_api.times import parse_time
from scavenger_cluster import Cluster, stack
from scavenger_cluster.requirements import obstacles
from scavenger_testing.world import IMAGE, SETTINGS, World

from bench import Skipped

NODE_MIB: Final = 3072
NODE_CORES: Final = 1000
"""Millicores."""
RESERVE: Final = 20.0
MARGIN: Final = 5.0
PERIOD: Final = 30.0
MINUTES: Final = tuple(float(part) for part in os.environ.get("BENCH_LEARNT_MINUTES", "").split(",") if part)
JOBS: Final = 16
JOB_PERCENT: Final = 5.0
INTERPRETER_MIB: Final = 8
INITIAL: Final = (70.0, 80.0, 85.0)
CELL: Final = 30.0
"""Seconds between two changes of the ordinary pod."""
WAVE: Final = 900.0
"""Seconds from one crest of the course to the next."""

HOLD: Final = """
import mmap, sys, time
course, cell, held = [int(word) for word in sys.argv[2:]], float(sys.argv[1]), []
begin = time.monotonic()
for number, mib in enumerate(course):
    while len(held) < mib:
        block = mmap.mmap(-1, 1 << 20)
        block.write(b"x" * (1 << 20))
        held.append(block)
    while len(held) > mib:
        held.pop().close()
    time.sleep(max(0.0, begin + (number + 1) * cell - time.monotonic()))
while True:
    time.sleep(60)
"""
"""Holds so many MiB for one cell after another, and the last for ever."""

Figure = dict[str, Any]


def course(minutes: float, seed: int = 17) -> list[float]:
    """Percent of the node that the ordinary pod holds, by CELL: a wave of ten points around 25, and noise."""
    rng = random.Random(seed)
    cells = math.ceil(60 * minutes / CELL) + 1
    return [25 + 10 * math.sin(2 * math.pi * cell * CELL / WAVE) + rng.gauss(0, 1) for cell in range(cells)]


@dataclass(frozen=True, slots=True)
class Reading:
    """What was published: when its measurement was, of the memory; percent. state as docs/levels.md has it."""

    at: datetime
    load: float
    stdev: float
    levels: tuple[float, float, float]
    state: str
    running: int
    evicted: int

    @property
    def expected(self) -> tuple[float, float, float]:
        """Levels for this deviation."""
        lower = 100 - (RESERVE + self.stdev)
        upper = 100 - (RESERVE / 3 + self.stdev)
        return lower, min(lower + abs(RESERVE - self.stdev), upper - MARGIN), upper

    @property
    def error(self) -> float:
        """Points that the level furthest from its place is away from it."""
        return max(abs(level - expected) for level, expected in zip(self.levels, self.expected, strict=True))


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    if not MINUTES:
        raise Skipped("it takes an hour and a half: ask for it with BENCH_LEARNT_MINUTES=30,60")
    if obstacles():
        raise Skipped(f"no real nodes here: {'; '.join(obstacles())}")
    cluster = Cluster("bench-learnt", report=lambda line: print(line, flush=True))
    try:
        cluster.up("real:1", metrics=True, arguments={"kubelet": stack.offer(cpu=NODE_CORES, memory=NODE_MIB)})
        stack.install(cluster)
        stack.build_images(cluster)
        stack.start(cluster, settings={**SETTINGS, "SCAVENGER_HISTORY_WINDOW": str(60 * MINUTES[0])})
        cluster.kubectl("create", "namespace", "learnt")
        world = World(cluster, "learnt")
        planned = course(sum(MINUTES) + 5)
        began = fill(world, planned)
        readings = watch(world, began + timedelta(minutes=sum(MINUTES)))
        return figures_of(readings, planned, began)
    finally:
        cluster.down()


def fill(world: World, planned: list[float]) -> datetime:
    """Start the ordinary pod and submit the jobs; when the course began."""
    words = [str(round(NODE_MIB * percent / 100) - INTERPRETER_MIB) for percent in planned]
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["python3", "-c", HOLD, str(CELL), *words],
        "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}},
    }
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    world.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})

    def started() -> datetime | None:
        statuses = ((world.get("pod", "web") or {}).get("status") or {}).get("containerStatuses") or [{}]
        return parse_time(statuses[0].get("state", {}).get("running", {}).get("startedAt"))

    began: datetime = world.wait("the ordinary pod runs", started, 120)
    size = round(NODE_MIB * JOB_PERCENT / 100)
    for number in range(JOBS):
        resources = {"requests": {"cpu": "20m", "memory": f"{size + 16}Mi"}}
        command = ["python3", "-c", HOLD, "60", str(size - INTERPRETER_MIB)]
        job = {"image": IMAGE, "command": command, "resources": resources, "terminationGracePeriodSeconds": 1}
        world.apply(
            {
                "apiVersion": "scavenger.dev/v1alpha1",
                "kind": "ScavengerJob",
                "metadata": {"name": f"j{number}"},
                "spec": {**job, "interruptionAfter": "10m"},
            }
        )
    return began


def watch(world: World, until: datetime) -> list[Reading]:
    """Each measurement that is published until then."""
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps/{LEVELS_CONFIGMAP}"
    readings: list[Reading] = []
    seen = ""
    while datetime.now(UTC) < until:
        data = ((world.cluster.client.find(path) or {}).get("data")) or {}
        if data.get("observedAt", seen) != seen:
            seen = data["observedAt"]
            readings.append(_reading(data, world.objects("scavengerjobs")))
            print(readings[-1], flush=True)
        time.sleep(PERIOD / 6)
    return readings


def _reading(data: dict[str, str], jobs: list[dict[str, Any]]) -> Reading:
    def number(name: str) -> float:
        return float(data.get(f"{name}.memory", "nan"))

    statuses = [job.get("status", {}) for job in jobs]
    return Reading(
        parse_time(data["observedAt"]) or datetime.now(UTC),
        number("load"),
        number("stdev"),
        (number("lower"), number("admission"), number("upper")),
        data.get("state", ""),
        sum(status.get("phase") == "Running" for status in statuses),
        sum(status.get("interruptedCount", 0) for status in statuses),
    )


def figures_of(readings: list[Reading], planned: list[float], began: datetime) -> list[Figure]:
    """The figures of the second part, from what was read in both."""
    learnt = began + timedelta(minutes=MINUTES[0])
    governed = [reading for reading in readings if reading.at >= learnt + timedelta(seconds=10 * PERIOD)]
    if not governed:
        raise RuntimeError("nothing was published in the second part")
    known = [reading for reading in governed if not math.isnan(reading.load)]
    return [
        _figure("level_error_points", max(reading.error for reading in governed), "points", "<= 1.5"),
        _figure(
            "stdev_error_points",
            max(abs(reading.stdev - known_stdev(planned, began, reading.at)) for reading in governed),
            "points",
            "<= 1.5",
        ),
        _figure("initial_share", sum(r.levels == INITIAL for r in governed) / len(governed), "ratio", "<= 0"),
        _figure("above_upper_percent", 100 * sum(r.load > r.levels[2] for r in known) / len(governed), "%"),
        _figure("unknown_percent", 100 * (1 - len(known) / len(governed)), "%", "<= 0"),
        _figure("evictions", governed[-1].evicted - governed[0].evicted, "jobs"),
        _figure("mean_load", statistics.fmean(reading.load for reading in known), "%"),
        _figure("mean_ordinary", statistics.fmean(planned), "%"),
        _figure("mean_lower", statistics.fmean(reading.levels[0] for reading in governed), "%"),
        _figure("mean_upper", statistics.fmean(reading.levels[2] for reading in governed), "%"),
        _figure("mean_running", statistics.fmean(reading.running for reading in governed), "jobs"),
    ]


def known_stdev(planned: list[float], began: datetime, at: datetime) -> float:
    """Of the course, in the first part's length before a moment."""
    last = int((at - began).total_seconds() // CELL)
    return statistics.pstdev(planned[max(0, last + 1 - round(60 * MINUTES[0] / CELL)) : last + 1])


def _figure(name: str, value: float, unit: str, goal: str | None = None) -> Figure:
    return {"name": f"loop.learnt.{name}", "value": round(value, 3), "unit": unit, "goal": goal}
