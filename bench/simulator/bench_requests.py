"""Smaller requests by what was measured: what they free, and what work they hold back.

Days of PlanetLab: 1,000 machines and more a day, whose use is a percentage of one machine. Each stands for a pod that
requests a whole machine. A recommendation (`scavenger_domain.recommendation`) begins after four hours and is renewed
every six. What a machine uses beyond it is held back. The trace has an average for each five minutes, so peaks are
flatter than those that the metrics API sees, and it has no memory.

- sizes.WAY.freed_percent: of the requested CPU time.
- sizes.WAY.held_percent: of the CPU time that the machines used.
- sizes.WAY.slack_percent: of what is recommended, what is not used.
- sizes.memory.SPREAD.killed_percent: of starts with a recommended request, those whose program needs more. There is no
  trace of memory by run, so peaks are drawn: log-normal, of this spread from run to run.
- sizes.memory.SPREAD.freed_percent: of a request of four times the median peak, from the fourth run of a job on.

WAY is `maximum`, the rule that is built, or a percentile of the past and a margin, which is not. `window` is the moving
window of Autopilot (Rzadca et al., EuroSys 2020, 3.2): weights halve every 12 hours. The paper has 23 % slack for jobs
of Autopilot, and 46 % for jobs whose users set the requests.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from scavenger_domain.recommendation import LEAST_SECONDS, Measured, recommend
from scavenger_domain.usage import Histogram, JobUsage, ResourceUsage

from bench.simulator.bench_sizes import DAYS, Figure
from bench.traces.catalog import TRACES, traces
from bench.traces.planetlab import STEP_SECONDS, STEPS, read_planetlab

SPREADS: Final = (0.15, 0.3)
JOBS: Final = 2000
RUNS: Final = 10
MEBI: Final = 2**20
TYPICAL: Final = 2048 * MEBI
"""Bytes: the median peak of what is drawn."""
OWN: Final = 4 * TYPICAL
"""What such a job requests itself."""
RENEWED_SECONDS: Final = 6 * 3600
HALF_LIFE_SECONDS: Final = 12 * 3600.0
WHOLE: Final = 1000
"""Millicores that a machine has and requests."""

Rule = Callable[[list[int]], int]
"""What a machine is to request, in millicores, by what it has used so far in each step."""


def built(past: list[int]) -> int:
    """The rule that is built."""
    most = max(past)
    used = ResourceUsage(WHOLE, most, most, most, most)
    found = recommend(Measured(JobUsage(round(len(past) * STEP_SECONDS), 1, {"cpu": used})), ())
    return found.amounts["cpu"]


def percentile(share: float, margin: float, half_life: float = math.inf) -> Rule:
    """A percentile of the past, and a margin. half_life: seconds in which the weight of a sample halves."""

    def rule(past: list[int]) -> int:
        seen = Histogram(1.0)
        for steps_ago, used in enumerate(reversed(past)):
            seen.add(used, math.pow(2, -steps_ago * STEP_SECONDS / half_life))
        return round(seen.quantile(share) * margin)

    return rule


WAYS: Final[dict[str, Rule]] = {
    "maximum": built,
    "p98": percentile(0.98, 1.15),
    "p95": percentile(0.95, 1.15),
    "window": percentile(0.95, 1.15, HALF_LIFE_SECONDS),
}


def run() -> list[Figure]:
    """The figures, of all days together and of each."""
    folder = traces()
    machines = {day: used_by(folder / TRACES[day].machines) for day in DAYS}
    found = []
    for way, rule in WAYS.items():
        for day, used in (("", [one for each in machines.values() for one in each]), *machines.items()):
            freed, held, slack = play(used, rule)
            name = ".".join(part for part in ("sizes", way, day.rpartition("-")[2]) if part)
            goals = (">= 50", "<= 1") if way == "maximum" else (None, None)
            found.append(_figure(f"{name}.freed_percent", freed, goals[0]))
            found.append(_figure(f"{name}.held_percent", held, goals[1]))
            found.append(_figure(f"{name}.slack_percent", slack, None))
    for spread in SPREADS:
        freed, killed = draw(spread)
        found.append(_figure(f"sizes.memory.{spread}.freed_percent", freed, None))
        found.append(_figure(f"sizes.memory.{spread}.killed_percent", killed, "<= 1"))
    return found


def draw(spread: float) -> tuple[float, float]:
    """What the rule for memory frees, and how often it kills, in percent. After a kill a job has its own request."""
    drawn = random.Random(1)
    freed = killed = starts = later = 0
    for _ in range(JOBS):
        past: list[int] = []
        for run in range(RUNS):
            peak = round(TYPICAL * drawn.lognormvariate(0, spread))
            most, typical = max(past, default=0), statistics.median_low(past or [0])
            used = ResourceUsage(OWN, most, most, most, typical)
            size = recommend(Measured(JobUsage(3600 * run, run, {"memory": used})), ()).amounts.get("memory")
            later += size is not None
            if size is not None and size < OWN:
                starts, freed = starts + 1, freed + OWN - size
                if peak > size:
                    killed += 1
                    break
            past.append(peak)
    return 100 * freed / (later * OWN), 100 * killed / starts


def used_by(path: Path) -> list[list[int]]:
    """What each machine used in each step, in millicores."""
    return [list(pod.usage.cpu_milli) for pod in read_planetlab(path)]


def play(machines: Iterable[list[int]], rule: Rule) -> tuple[float, float, float]:
    """What a rule frees, what it holds back, and what is not used of its recommendations; in percent."""
    first, each = round(LEAST_SECONDS / STEP_SECONDS), round(RENEWED_SECONDS / STEP_SECONDS)
    freed = held = requested = work = recommended = unused = 0
    for used in machines:
        size = WHOLE
        for step, now in enumerate(used):
            if step >= first and (step - first) % each == 0:
                size = min(WHOLE, rule(used[:step]))
            freed += WHOLE - size
            held += max(0, now - size)
            if step >= first:
                recommended, unused = recommended + size, unused + max(0, size - now)
        requested += WHOLE * STEPS
        work += sum(used)
    return 100 * freed / requested, 100 * held / work, 100 * unused / recommended


def _figure(name: str, value: float, goal: str | None) -> Figure:
    return {"name": name, "value": round(value, 2), "unit": "%", "goal": goal}
