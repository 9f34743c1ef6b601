"""Which shape is next: explored at first, then the one that yielded most; the same runs, the same choice."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from scavenger_tuner.core.learning import Choice, Run, Seen, candidates, choose
from scavenger_tuner.core.trial import Shape

ALL = candidates(4)


def run(shape: Shape, ns_per_day: float, molecules: int = 500, time_step: float = 2.0) -> Run:
    return Run(molecules, time_step, shape, ns_per_day)


def test_candidates_in_order() -> None:
    assert (Shape(1, 1), Shape(1, 2), Shape(2, 1), Shape(1, 4), Shape(2, 2), Shape(4, 1)) == ALL
    assert candidates(1) == (Shape(1, 1),)
    assert {shape.cores for shape in candidates(7)} == {1, 2, 4}


def test_each_shape_is_explored_once_small_ones_first() -> None:
    runs: list[Run] = []
    chosen = []
    for _ in ALL:
        choice = choose(500, Seen(runs=runs), 4)
        chosen.append(choice)
        runs.append(run(choice.shape, 100.0 * choice.shape.cores))

    assert chosen == [Choice(shape) for shape in ALL]


def test_what_is_under_way_is_not_explored_again() -> None:
    assert choose(500, Seen(underway=ALL[:2]), 4) == Choice(ALL[2])
    assert choose(500, Seen(underway=[*ALL, ALL[0], ALL[1]]), 4) == Choice(ALL[2])


def test_then_the_one_that_yields_most_per_core() -> None:
    speeds = {Shape(1, 1): 50, Shape(1, 2): 130, Shape(2, 1): 90, Shape(1, 4): 200, Shape(2, 2): 210, Shape(4, 1): 100}
    choice = choose(500, Seen(runs=[run(shape, speed) for shape, speed in speeds.items()]), 4)

    assert choice == Choice(Shape(1, 2), 500 * 130 * 500_000 / 2)


def test_a_later_run_that_was_slow_counts_as_much_as_the_first() -> None:
    even = [run(shape, 50.0 * shape.cores) for shape in ALL]

    assert choose(500, Seen(runs=even), 4).shape == Shape(1, 1)
    assert choose(500, Seen(runs=[*even, run(Shape(1, 1), 40.0)]), 4).shape == Shape(1, 2)


def test_boxes_and_time_steps_are_compared_by_the_work_done() -> None:
    """Half the time step and the same ns/day is twice the work; so is twice the molecules."""
    runs = [run(shape, 50.0 * shape.cores) for shape in ALL]

    assert choose(500, Seen(runs=[*runs, run(Shape(2, 2), 200.0, time_step=1.0)]), 4).shape == Shape(2, 2)
    assert choose(500, Seen(runs=[*runs, run(Shape(2, 1), 100.0, molecules=1000)]), 4).shape == Shape(2, 1)


def test_boxes_of_another_size_teach_nothing() -> None:
    assert choose(500, Seen(runs=[run(shape, 100.0, molecules=1001) for shape in ALL]), 4) == Choice(ALL[0])
    assert choose(500, Seen(runs=[run(shape, 100.0, molecules=249) for shape in ALL]), 4) == Choice(ALL[0])


def test_what_could_not_be_cut_up_or_was_too_large_is_left_out() -> None:
    explored = Seen(runs=[run(Shape(1, 1), 10.0)], refused={(Shape(1, 2), 500)}, too_large=4)

    assert choose(500, explored, 4) == Choice(Shape(2, 1))
    assert choose(600, explored, 4) == Choice(Shape(1, 2))
    assert choose(500, Seen(too_large=1), 4) == Choice(Shape(1, 1))
    assert choose(500, Seen(refused={(Shape(1, 1), 500)}), 1) == Choice(Shape(1, 1))


@given(st.lists(st.tuples(st.sampled_from(ALL), st.floats(1, 1000)), max_size=20), st.randoms(use_true_random=False))
def test_the_order_of_the_runs_does_not_matter(runs: list[tuple[Shape, float]], rng: random.Random) -> None:
    seen = [run(shape, round(speed)) for shape, speed in runs]
    shuffled = list(seen)
    rng.shuffle(shuffled)

    one, other = choose(500, Seen(runs=seen), 4), choose(500, Seen(runs=shuffled), 4)

    assert one == other
    assert one.yielded is not None or one.shape not in {shape for shape, _ in runs}
