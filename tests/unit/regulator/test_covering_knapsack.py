from __future__ import annotations

import random
import statistics
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_regulator.core.eviction.covering_knapsack import solve_covering_knapsack, solve_in_order

Case = tuple[list[float], list[tuple[float, ...]], list[float]]

amount = st.just(0.0) | st.floats(0.01, 20)
gap_size = st.just(0.0) | st.floats(-5, -0.1) | st.floats(0.1, 60)
cases = st.integers(1, 3).flatmap(
    lambda rows: st.tuples(
        st.lists(st.tuples(st.floats(0, 1e6), st.tuples(*[amount] * rows)), max_size=12),
        st.tuples(*[gap_size] * rows),
    )
)


def reaches(frees: list[tuple[float, ...]], chosen: tuple[int, ...], gaps: list[float]) -> bool:
    return all(sum(frees[i][k] for i in chosen) >= gap * (1 - 1e-6) for k, gap in enumerate(gaps) if gap > 0)


def smallest_loss(costs: list[float], frees: list[tuple[float, ...]], gaps: list[float]) -> float | None:
    """By looking at every subset."""
    best: float | None = None
    for size in range(len(costs) + 1):
        for subset in combinations(range(len(costs)), size):
            cost = sum(costs[i] for i in subset)
            if (best is None or cost < best) and reaches(frees, subset, gaps):
                best = cost
    return best


def random_case(rng: random.Random, jobs: int) -> Case:
    """Jobs of different shapes, some of them gangs, with up to half an hour at risk; one or two resources
    short."""
    costs: list[float] = []
    frees: list[tuple[float, ...]] = []
    for _ in range(jobs):
        pods = rng.choice([1, 1, 1, 2, 4, 8])
        cores, memory = rng.choice([0.5, 1, 2, 4]), rng.choice([0.5, 1, 2, 4, 8])
        costs.append(pods * cores * rng.uniform(0, 1800))
        frees.append((pods * cores * rng.uniform(0.2, 1), pods * memory * rng.uniform(0.3, 1)))
    shares = (rng.choice([0, 1, 1]) * rng.uniform(0.05, 0.7), rng.uniform(0.05, 0.7))
    return costs, frees, [share * sum(f[k] for f in frees) for k, share in enumerate(shares)]


def test_200_random_mixed_cases_against_exhaustive_search() -> None:
    rng = random.Random(4)
    ratios = []
    for _ in range(200):
        costs, frees, gaps = random_case(rng, rng.randint(4, 11))
        solution = solve_covering_knapsack(costs, frees, gaps)
        assert solution.feasible
        assert reaches(frees, solution.chosen, gaps)
        for left_out in solution.chosen:
            rest = tuple(i for i in solution.chosen if i != left_out)
            assert not reaches(frees, rest, [gap * (1 + 2e-6) for gap in gaps]), "a victim too many"
        best = smallest_loss(costs, frees, gaps)
        assert best is not None
        ratios.append(sum(costs[i] for i in solution.chosen) / best if best else 1.0)
    assert statistics.fmean(ratios) <= 1.1
    assert max(ratios) <= 1.001  # so few are all core: it is the optimum


@given(cases)
def test_closes_what_can_be_closed_with_nobody_too_many(
    case: tuple[list[tuple[float, tuple[float, ...]]], tuple[float, ...]],
) -> None:
    items, gap_tuple = case
    costs, frees, gaps = [c for c, _ in items], [f for _, f in items], list(gap_tuple)
    solution = solve_covering_knapsack(costs, frees, gaps)
    everybody = tuple(range(len(items)))
    assert solution.feasible == reaches(frees, everybody, gaps)
    assert len(set(solution.chosen)) == len(solution.chosen)
    reach = [min(gap, sum(f[k] for f in frees)) for k, gap in enumerate(gaps)]
    assert reaches(frees, solution.chosen, reach)
    for left_out in solution.chosen:
        rest = tuple(i for i in solution.chosen if i != left_out)
        assert not reaches(frees, rest, [r * (1 + 2e-6) for r in reach])
    if solution.feasible:
        best = smallest_loss(costs, frees, gaps) if len(items) <= 7 else None
        if best is not None:
            assert sum(costs[i] for i in solution.chosen) <= best * 1.001 + 1e-3 * (max(costs) if costs else 0)


@pytest.mark.parametrize(
    ("costs", "frees", "gaps", "chosen", "closed"),
    [
        ([], [], [], (), True),
        ([], [], [5.0], (), False),
        ([1], [(5.0,)], [0.0], (), True),
        ([1], [(5.0,)], [-3.0], (), True),
        ([1, 2, 3], [(5.0,)] * 3, [5.0], (0,), True),
        ([1, 2, 3], [(5.0,)] * 3, [5.1], (0, 1), True),
        ([1, 1, 1.5], [(3.0,), (3.0,), (6.0,)], [6.0], (2,), True),  # one for the price of two
        ([0, 0, 0], [(3.0,), (3.0,), (6.0,)], [6.0], (2,), True),  # equally cheap: the fewer
        ([9], [(0.0,)], [1.0], (), False),  # would not help: not taken
        ([1, 9], [(2.0, 0.0), (0.0, 2.0)], [1.0, 1.0], (0, 1), True),
        ([1, 9, 5], [(2.0, 0.0), (0.0, 2.0), (1.0, 1.0)], [1.0, 1.0], (2,), True),
        ([4, 4], [(2.0, 9.0), (2.0, 0.0)], [9.0, 1.0], (0, 1), False),  # as far as they can
    ],
)
def test_table(
    costs: list[float], frees: list[tuple[float, ...]], gaps: list[float], chosen: tuple[int, ...], closed: bool
) -> None:
    solution = solve_covering_knapsack(costs, frees, gaps)
    assert (solution.chosen, solution.feasible) == (chosen, closed)


def test_in_order_and_pruned() -> None:
    frees = [(1.0, 0.0), (0.0, 1.0), (9.0, 9.0), (9.0, 9.0)]
    assert solve_in_order(frees, [5.0, 0.5]).chosen == (2,)
    assert solve_in_order(frees, [1.0, 1.0]).chosen == (0, 1)
    assert solve_in_order(frees, [0.0, -1.0]).chosen == ()
    assert not solve_in_order(frees, [99.0, 1.0]).feasible
