"""The cheapest set of victims that closes every gap: a covering knapsack with one row per resource.

Given what each item costs and what it frees of each resource, find a set of least cost whose sums reach all
the gaps. That is NP-hard, so: greedy in several orders (cheapest first; cheapest per share of the gaps
closed, under different weights of the resources), pruned; then branch and bound over the core, the items
around the margin where taking and leaving is nearly the same. Few items are all core, and the answer is then
the optimum unless the bound on nodes ends the search. Deterministic; O(n log n).

What it returns is always minimal: no item could be left out and the gaps still be closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import ge, mul, sub
from typing import Final

EPSILON: Final = 1e-9
"""A gap of this share of what it was is closed: sums of floats do not meet exactly."""

BISECTIONS: Final = 6
"""Weightings of two resources that are tried."""

CORE_TAKEN: Final = 12
"""Items of the greedy answer that branch and bound solves again, those worst in cost for what they give."""

CORE_LEFT: Final = 14
"""Items outside the greedy answer that it considers instead, the best ones."""

MAX_NODES: Final = 3_000
"""Nodes that one branch and bound may visit."""

FEW: Final = 100
"""Up to so many items, every greedy answer is improved; of more items only the best IMPROVED of them, as there
the margin is a small part of the whole."""

IMPROVED: Final = 1


@dataclass(frozen=True, slots=True)
class Solution:
    """chosen: indices in ascending order. feasible: whether they close all gaps."""

    chosen: tuple[int, ...]
    feasible: bool


def solve_covering_knapsack(
    costs: Sequence[float], frees: Sequence[Sequence[float]], gaps: Sequence[float]
) -> Solution:
    """The cheapest items that close the gaps together; where even all of them cannot, as far as they can.

    costs: of taking each item, not negative. frees: per item what it gives of each resource, not negative.
    gaps: what is needed of each; one that is not positive is closed. Of equally cheap sets one with fewer
    items is preferred.
    """
    problem = _Problem.of(costs, frees, gaps)
    return Solution(tuple(sorted(problem.solve())), problem.feasible)


def solve_in_order(frees: Sequence[Sequence[float]], gaps: Sequence[float]) -> Solution:
    """The first items, in the order given, that close the gaps, without those that turn out not to be needed.

    For orders that are not about cost. The last ones given are left out first.
    """
    problem = _Problem.of([float(rank) for rank in range(len(frees))], frees, gaps)
    return Solution(tuple(sorted(problem.prune(problem.greedy(problem.items)))), problem.feasible)


@dataclass(frozen=True, slots=True)
class _GreedySolution:
    """A greedy answer, and the order and weights it came from."""

    chosen: list[int]
    order: list[int]
    weights: tuple[float, ...]


class _Problem:
    """shares: per item, what it gives of each row. items: the useful ones. needs: of each row, attainable. feasible:
    whether all items together close every gap."""

    def __init__(
        self, costs: Sequence[float], shares: Sequence[tuple[float, ...]], items: list[int], totals: Sequence[float]
    ) -> None:
        # A hair per item, so that among equally cheap sets the smaller one wins.
        hair = 1e-7 * max((costs[i] for i in items), default=0.0) or 1.0
        self.costs = [cost + hair for cost in costs]
        self.shares = shares
        self.items = items
        self.needs = [min(1.0, total) - EPSILON for total in totals]
        self.feasible = all(total >= 1.0 - EPSILON for total in totals)

    @classmethod
    def of(cls, costs: Sequence[float], frees: Sequence[Sequence[float]], gaps: Sequence[float]) -> _Problem:
        """In shares of each open gap, at most one: more than the whole gap is worth no more than the whole."""
        rows_open = [r for r, gap in enumerate(gaps) if gap > 0]
        inverse = [1.0 / gaps[r] for r in rows_open]
        columns = [[min(1.0, free[r] * inv) for free in frees] for r, inv in zip(rows_open, inverse, strict=True)]
        shares = list(zip(*columns, strict=True))
        items = [i for i, row in enumerate(shares) if max(row) > EPSILON]
        return cls(costs, shares, items, [sum([column[i] for i in items]) for column in columns])

    def solve(self) -> list[int]:
        if not self.needs:
            return []
        best = self.prune(self.greedy(sorted(self.items, key=self.costs.__getitem__)))
        tries = sorted(self._greedy_solutions(), key=lambda one: self.cost(one.chosen))
        for one in tries if len(self.items) <= FEW else tries[:IMPROVED]:
            for found in (one.chosen, self.prune(self.improve(one))):
                best = min(best, found, key=self.cost)
        return best

    def _greedy_solutions(self) -> Iterable[_GreedySolution]:
        """Greedy answers, with the weights brought to where both rows close at the same item."""
        low, high = 0.0, 1.0
        for _ in range(BISECTIONS if len(self.needs) == 2 else 1):
            weight = (low + high) / 2
            weights = (weight, 1.0 - weight) if len(self.needs) == 2 else tuple(1.0 for _ in self.needs)
            order = self._by_density(weights)
            taken = self.greedy(order)
            yield _GreedySolution(self.prune(taken), order, weights)
            if self._closes_first_row_last(taken):
                low = weight
            else:
                high = weight

    def _closes_first_row_last(self, taken: list[int]) -> bool:
        """Whether the last item was taken for the sake of the first row: it then deserves more weight."""
        last = self.shares[taken[-1]][0] if taken else 0.0
        return sum(self.shares[i][0] for i in taken) - last < self.needs[0]

    def cost(self, chosen: Iterable[int]) -> float:
        return sum(self.costs[i] for i in chosen)

    def density(self, items: Iterable[int], weights: tuple[float, ...]) -> dict[int, float]:
        """Cost for each share of the gaps closed."""
        shares, costs = self.shares, self.costs
        if len(weights) == 2:  # the usual case, several times faster
            first, second = weights
            return {i: costs[i] / (first * shares[i][0] + second * shares[i][1]) for i in items}
        return {i: costs[i] / sum(map(mul, weights, shares[i])) for i in items}

    def _by_density(self, weights: tuple[float, ...]) -> list[int]:
        density = self.density(self.items, weights)
        return sorted(self.items, key=density.__getitem__)

    def greedy(self, order: Iterable[int]) -> list[int]:
        """Take what helps with a row that is still open, in that order, until none is."""
        residual = {k: need for k, need in enumerate(self.needs) if need > 0}
        chosen: list[int] = []
        for item in order:
            if not residual:
                break
            share = self.shares[item]
            left = {k: need - share[k] for k, need in residual.items()}
            if left != residual:
                chosen.append(item)
                residual = left if min(left.values()) > 0 else {k: need for k, need in left.items() if need > 0}
        return chosen

    def prune(self, chosen: list[int]) -> list[int]:
        """Leave out what is not needed, the dearest first. One pass is enough: leaving one out only makes the
        others more needed."""
        surplus = [sum([self.shares[i][k] for i in chosen]) - need for k, need in enumerate(self.needs)]
        kept: list[int] = []
        for item in sorted(chosen, key=self.costs.__getitem__, reverse=True):
            share = self.shares[item]
            if all(map(ge, surplus, share)):
                surplus = list(map(sub, surplus, share))
            else:
                kept.append(item)
        return kept

    def improve(self, one: _GreedySolution) -> list[int]:
        """The answer with its margin solved again: the worst items taken against the best ones left."""
        taken, order = set(one.chosen), one.order
        inside = [i for i in order if i in taken]
        outside: list[int] = []
        for item in order:
            if item not in taken:
                outside.append(item)
                if len(outside) == CORE_LEFT:
                    break
        core, fixed = inside[-CORE_TAKEN:] + outside, inside[:-CORE_TAKEN]
        rows = range(len(self.needs))
        residual = [self.needs[k] - sum(self.shares[i][k] for i in fixed) for k in rows]
        if all(r <= 0 for r in residual):
            return fixed
        incumbent = inside[-CORE_TAKEN:]
        return fixed + _BranchAndBound(self, core, residual, one.weights, incumbent).solve()


class _BranchAndBound:
    """Depth first over the core in order of density, taking before leaving.

    Bound: the rows added up with the weights (a surrogate constraint), filled fractionally in order of
    density, which is the optimum of that relaxation.
    """

    def __init__(
        self,
        problem: _Problem,
        core: list[int],
        residual: list[float],
        weights: tuple[float, ...],
        incumbent: list[int],
    ) -> None:
        density = problem.density(core, weights)
        self.core = sorted(core, key=density.__getitem__)
        self.costs = [problem.costs[i] for i in self.core]
        self.shares = [problem.shares[i] for i in self.core]
        self.weights = weights
        self.worth = [sum(w * s for w, s in zip(weights, share, strict=True)) for share in self.shares]
        self.rows = range(len(residual))
        self.residual = residual
        self.suffix = self._suffix_sums()
        self.best = list(incumbent)
        self.best_cost = problem.cost(incumbent)
        self.nodes = 0

    def _suffix_sums(self) -> list[list[float]]:
        sums = [[0.0 for _ in self.rows]]
        for share in reversed(self.shares):
            sums.append([total + share[k] for k, total in zip(self.rows, sums[-1], strict=True)])
        return sums[::-1]

    def solve(self) -> list[int]:
        self._visit(0, 0.0, self.residual, [])
        return self.best

    def _visit(self, depth: int, cost: float, residual: list[float], taken: list[int]) -> None:
        self.nodes += 1
        if all(r <= 0 for r in residual):
            if cost < self.best_cost:
                self.best_cost, self.best = cost, [self.core[d] for d in taken]
            return
        if self.nodes > MAX_NODES or not self._can_improve(depth, cost, residual):
            return
        share = self.shares[depth]
        if any(residual[k] > 0 and share[k] > 0 for k in self.rows):
            after = [residual[k] - share[k] for k in self.rows]
            self._visit(depth + 1, cost + self.costs[depth], after, [*taken, depth])
        self._visit(depth + 1, cost, residual, taken)

    def _can_improve(self, depth: int, cost: float, residual: list[float]) -> bool:
        suffix = self.suffix[depth]
        if any(suffix[k] < residual[k] for k in self.rows):
            return False
        need = sum(w * max(0.0, r) for w, r in zip(self.weights, residual, strict=True))
        bound = cost
        for d in range(depth, len(self.core)):
            if self.worth[d] >= need:
                return bound + self.costs[d] * need / self.worth[d] < self.best_cost
            bound += self.costs[d]
            if bound >= self.best_cost:
                return False
            need -= self.worth[d]
        return bound < self.best_cost
