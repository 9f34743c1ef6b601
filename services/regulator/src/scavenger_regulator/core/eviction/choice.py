"""Whom to take without a plan of its own: for the memory of a node, and who yields."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from scavenger_regulator.core.eviction.covering_knapsack import solve_covering_knapsack
from scavenger_regulator.core.eviction.plan import CLOSED, Candidate, by_at_risk, compose, costs_of, over_first


def least_lossy(
    candidates: Sequence[Candidate], gaps: Mapping[str, float], limit: int, overshoot_cost: float = 0.0
) -> tuple[Candidate, ...]:
    """The cheapest of these candidates that close the gaps as far as they can; at most `limit`, cheapest
    first. overshoot_cost: as in `plan.EvictionSnapshot`."""
    names = [name for name, gap in gaps.items() if gap > CLOSED]
    known = [c for c in candidates if all(name in c.frees for name in names)]
    if not names or not known:
        return ()
    known = over_first(known, names)
    costs = costs_of(known, names, overshoot_cost)
    solution = solve_covering_knapsack(costs, [[c.frees[n] for n in names] for c in known], [gaps[n] for n in names])
    chosen = sorted((known[i] for i in solution.chosen), key=compose(by_at_risk))
    return tuple(chosen[:limit])


def within(
    candidates: Iterable[Candidate], gaps: Mapping[str, float], limit: int, beyond: float
) -> tuple[Candidate, ...]:
    """Those of these candidates that free no more than the gaps and `beyond` points together, the cheapest first, until
    the gaps are closed or no candidate fits; at most `limit`."""
    names = [name for name, gap in gaps.items() if gap > CLOSED]
    left = {name: gaps[name] for name in names}
    chosen: list[Candidate] = []
    for candidate in sorted(candidates, key=compose(by_at_risk)):
        frees = [(name, candidate.frees.get(name, math.inf)) for name in names]
        helps = any(left[name] > CLOSED and points > 0 for name, points in frees)
        if len(chosen) < limit and helps and all(points <= left[name] + beyond + CLOSED for name, points in frees):
            chosen.append(candidate)
            left = {name: left[name] - points for name, points in frees}
    return tuple(chosen)
