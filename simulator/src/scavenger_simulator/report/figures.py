"""The figures of a run that people compare, from its totals and from what became of each job."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scavenger_simulator.result import JobOutcome, RunResult

SIZES: Final = (("< 1", 1.0), ("1-8", 8.0), ("8-64", 64.0), (">= 64", math.inf))
"""Classes of jobs by their work in core-hours: a label, and what they have less of."""


@dataclass(frozen=True, slots=True)
class SizeFigures:
    """Jobs of about one size. waited: seconds in line all together, of every job; slowdown: time from submission to
    the end ÷ time it computes, of those that were done. None where there are none."""

    core_hours: str
    jobs: int
    completed: int
    starved: int
    waited_p50: float | None
    waited_p99: float | None
    slowdown_p50: float | None
    slowdown_p99: float | None


@dataclass(frozen=True, slots=True)
class Figures:
    """A policy on a scenario.

    Attributes:
        policy: its name.
        utilisation: CPU really used, in percent of allocatable, on average.
        utilisation_without: the same without jobs.
        harvested: core-hours that jobs held.
        useful: of these kept.
        lost: of these thrown away.
        progress: core-hours of work done and safe.
        completed: jobs.
        starved: jobs that waited too long in one piece.
        above_upper: periods in which the load was at or above an upper level.
        above_upper_ordinary: of these, in which it was without jobs, too.
        above_upper_nodes: of all nodes in all periods, the share at or above the upper level of their CPU, in percent.
        periods: of the regulator.
        evictions: by the regulator.
        yields: by the regulator, right after a checkpoint.
        preemptions: by the scheduler.
        reclaims: by the admitter, for another queue.
        victims_ratio: jobs evicted and preempted ÷ the fewest that would have made the room; None without any.
        delayed: ordinary pods that found no node at once.
        delay_p50: seconds that these waited; None without any.
        delay_p99: the same.
        unscheduled: ordinary pods that never found a node.
        admit_flips: how often admission was opened or closed.
        sizes: jobs by size.
    """

    policy: str
    utilisation: float
    utilisation_without: float
    harvested: float
    useful: float
    lost: float
    progress: float
    completed: int
    starved: int
    above_upper: int
    above_upper_ordinary: int
    above_upper_nodes: float
    periods: int
    evictions: int
    yields: int
    preemptions: int
    reclaims: int
    victims_ratio: float | None
    delayed: int
    delay_p50: float | None
    delay_p99: float | None
    unscheduled: int
    admit_flips: int
    sizes: tuple[SizeFigures, ...]


def percentile(ascending: Sequence[float], share: float) -> float | None:
    """The least value that at least this share (0 to 1) of all are not above (nearest rank); None of nothing."""
    if not ascending:
        return None
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)]


def figures(result: RunResult, starved_after: float = 14_400.0) -> Figures:
    """The figures of a run. starved_after: seconds in line in one piece, as in Settings."""
    totals = result.totals
    victims = totals.evictions + totals.victims
    return Figures(
        policy=result.policy,
        utilisation=totals.utilisation,
        utilisation_without=totals.utilisation_without,
        harvested=totals.harvested,
        useful=totals.useful,
        lost=totals.lost,
        progress=totals.progress,
        completed=totals.completed,
        starved=totals.starved,
        above_upper=totals.periods_above_upper,
        above_upper_ordinary=totals.periods_above_upper_ordinary,
        above_upper_nodes=100 * totals.nodes_above_upper / max(1, totals.nodes * totals.periods),
        periods=totals.periods,
        evictions=totals.evictions,
        yields=totals.yields,
        preemptions=totals.victims,
        reclaims=totals.reclaims,
        victims_ratio=victims / totals.victims_minimum if totals.victims_minimum else None,
        delayed=len(totals.delays),
        delay_p50=percentile(totals.delays, 0.5),
        delay_p99=percentile(totals.delays, 0.99),
        unscheduled=totals.unscheduled,
        admit_flips=totals.admit_flips,
        sizes=_by_size(result.jobs, starved_after),
    )


def _by_size(jobs: Sequence[JobOutcome], starved_after: float) -> tuple[SizeFigures, ...]:
    groups: dict[str, list[JobOutcome]] = {label: [] for label, _ in SIZES}
    for job in jobs:
        work = job.cores * job.work_seconds / 3600
        groups[next(label for label, below in SIZES if work < below)].append(job)
    return tuple(_of_size(label, group, starved_after) for label, group in groups.items() if group)


def _of_size(label: str, jobs: Sequence[JobOutcome], starved_after: float) -> SizeFigures:
    waited = sorted(job.waited for job in jobs)
    slowdown = sorted(job.slowdown for job in jobs if job.slowdown is not None)
    return SizeFigures(
        core_hours=label,
        jobs=len(jobs),
        completed=sum(job.finished is not None for job in jobs),
        starved=sum(job.longest_wait > starved_after for job in jobs),
        waited_p50=percentile(waited, 0.5),
        waited_p99=percentile(waited, 0.99),
        slowdown_p50=percentile(slowdown, 0.5),
        slowdown_p99=percentile(slowdown, 0.99),
    )


@dataclass(frozen=True, slots=True)
class Study:
    """Runs of one scenario under several policies. cores: allocatable. demand: core-hours of work asked for.
    settings: what was set otherwise than by default, as chart values."""

    scenario: str
    origin: str
    seed: int
    start: float
    end: float
    nodes: int
    cores: float
    ordinary_pods: int
    jobs: int
    demand: float
    settings: dict[str, object]
    starved_after: float
    runs: tuple[RunResult, ...]

    def figures(self) -> tuple[Figures, ...]:
        """Of each run."""
        return tuple(figures(run, self.starved_after) for run in self.runs)
