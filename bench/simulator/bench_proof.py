"""The claim itself: the same days and lines of jobs with plain Jobs and with ours; `proof.py` says more.

For each day, and with the sums over all days:

- loop.jobs_done_ratio_to_plain, loop.work_ratio_to_plain, loop.waited_4h_ratio_to_plain, loop.lost_ratio_to_plain:
  jobs completed, core-hours of work, jobs that waited longer than four hours in one piece, core-hours lost; ours ÷
  plain Jobs.
- loop.lost_ratio_to_youngest_first, loop.displaced_ratio_to_youngest_first: core-hours lost, and jobs displaced for
  ordinary pods or evicted, ours ÷ youngest-first, which is Kueue's order, too.
- loop.ordinary_waited_over_60s: ordinary pods that waited for longer than a minute, more than with plain Jobs.
- loop.ordinary_wait_p99: seconds that 99 % of the ordinary pods waited at most, more than with plain Jobs; of all days
  together, the mean.
- loop.node_periods_above_upper: of all nodes in all periods, those with a CPU above the upper level, in percent; of
  all days together, the mean.
- gain.badput: core-hours lost ÷ harvested.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.policy import Policy

from bench import Skipped, trace_folder
from bench.simulator.proof import LEAST_SERVED, SHORT_RUNS, Run, measure

RATIOS: Final = {
    "loop.jobs_done_ratio_to_plain": ("completed", ">= 1.0"),
    "loop.work_ratio_to_plain": ("progress", ">= 0.98"),
    "loop.waited_4h_ratio_to_plain": ("starved", "<= 1.5"),
    "loop.lost_ratio_to_plain": ("lost", "<= 0.16"),
}
"""The figure of a run, and the goal."""
Figure = dict[str, Any]


def run() -> list[Figure]:
    """The figures."""
    try:
        return figures_of([found for _, found, _ in measure(trace_folder())])
    except InputError as error:
        raise Skipped(f"{error}; BENCH_TRACE_DIR says where the public traces are") from None


def figures_of(runs: Iterable[Run]) -> list[Figure]:
    """The figures of all days together, then of each."""
    by_day: dict[str, dict[str, Run]] = {}
    for one in runs:
        by_day.setdefault(one["day"], {})[one["policy"]] = one
    groups = {"": list(by_day.values()), **{f".{day}": [policies] for day, policies in by_day.items()}}
    return [figure for suffix, days in groups.items() for figure in _compared(suffix, days)]


def _compared(suffix: str, days: list[dict[str, Run]]) -> Iterable[Figure]:
    def total(policy: str, what: str) -> float:
        return float(sum(day[policy][what] for day in days))

    for name, (what, goal) in RATIOS.items():
        if plain := total(Policy.PLAIN, what):
            yield _figure(f"{name}{suffix}", total(Policy.OURS, what) / plain, "ratio", goal)
            for order in (SHORT_RUNS, LEAST_SERVED):
                yield _figure(f"{name}{suffix}.{order}", total(order, what) / plain, "ratio", goal)
    for name, parts in {"lost": ("lost",), "displaced": ("preemptions", "evictions")}.items():
        if youngest := sum(total(Policy.YOUNGEST, part) for part in parts):
            ours = sum(total(Policy.OURS, part) for part in parts)
            yield _figure(f"loop.{name}_ratio_to_youngest_first{suffix}", ours / youngest, "ratio")
    more = total(Policy.OURS, "delayed_long") - total(Policy.PLAIN, "delayed_long")
    yield _figure(f"loop.ordinary_waited_over_60s{suffix}", more, "pods", "<= 0")
    later = (total(Policy.OURS, "wait_p99") - total(Policy.PLAIN, "wait_p99")) / len(days)
    yield _figure(f"loop.ordinary_wait_p99{suffix}", later, "s")
    above = total(Policy.OURS, "above_upper_nodes") / len(days)
    yield _figure(f"loop.node_periods_above_upper{suffix}", above, "%", "<= 0.5")
    yield _figure(
        f"gain.badput{suffix}", total(Policy.OURS, "lost") / total(Policy.OURS, "harvested"), "ratio", "<= 0.002"
    )


def _figure(name: str, value: float, unit: str, goal: str | None = None) -> Figure:
    return {"name": name, "value": round(value, 4), "unit": unit, "goal": goal}
