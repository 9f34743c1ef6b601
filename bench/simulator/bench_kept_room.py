"""What capacity kept by the hour of the day changes, on days of openb with the week before each of them.

As much demand as CPU, three seeds. For both values of `keptRoom`, sums over the days and seeds:

- loop.kept_room.VALUE.displaced: jobs that the scheduler displaced for regular pods.
- loop.kept_room.VALUE.waited: regular pods that found no node at once.
- loop.kept_room.VALUE.work, .lost: core-hours of work done and safe, and thrown away.

    python -m bench.simulator.bench_kept_room openb-141 openb-147    prints every run of these days
    python -m bench.simulator.bench_kept_room --part 0/3 openb-141   of a third of its pods
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.policy import Policy
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

from bench import Skipped
from bench.simulator.proof import DEMAND_SHARE
from bench.traces.catalog import FURTHER_DAYS, OTHER_DAYS, scenario_of, traces

VALUES: Final = ("off", "byHour")
SEEDS: Final = (1, 2, 3)
DAYS: Final = tuple(f"openb-{day}" for day in (*OTHER_DAYS, *FURTHER_DAYS))

Figures = dict[str, float]


def play(day: str, seed: int, part: tuple[int, int]) -> Iterator[tuple[str, Figures]]:
    """The figures of a day for each value. part: of its pods, and of how many. Raises Skipped where the traces are
    missing, and InputError."""
    scenario = scenario_of(day, traces(), seed=seed, demand_share=DEMAND_SHARE, part=part, week_before=True)
    for value in VALUES:
        settings = Settings.of(kept_room=value).changed(admission_interval=30.0)
        totals = simulate(scenario, settings, Policy.OURS, seed).totals
        waited = sum(delay > 0 for delay in totals.delays)
        yield value, {"displaced": totals.victims, "waited": waited, "work": totals.progress, "lost": totals.lost}


def run() -> list[dict[str, Any]]:
    """The figures."""
    sums: Counter[str] = Counter()
    try:
        for day in DAYS:
            for seed in SEEDS:
                for value, found in play(day, seed, (0, 1)):
                    sums.update({f"loop.kept_room.{value}.{name}": amount for name, amount in found.items()})
    except InputError as error:
        raise Skipped(f"{error}; BENCH_TRACE_DIR says where the public traces are") from None
    return [{"name": name, "value": round(amount, 2), "unit": "", "goal": None} for name, amount in sums.items()]


def main(words: Sequence[str]) -> None:
    """Print each run."""
    parser = argparse.ArgumentParser(prog="python -m bench.simulator.bench_kept_room")
    parser.add_argument("--part", default="0/1", help="I/N: which part of a day's pods, of how many")
    parser.add_argument("--seed", type=int, action="append", help="only this one; may be repeated")
    parser.add_argument("day", nargs="+")
    arguments = parser.parse_args(words)
    first, _, parts = arguments.part.partition("/")
    for day in arguments.day:
        for seed in arguments.seed or SEEDS:
            for value, found in play(day, seed, (int(first), int(parts))):
                shown = ", ".join(f"{name} {amount:.1f}" for name, amount in found.items())
                print(f"{day} part {arguments.part}, seed {seed}, {value}: {shown}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
