from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_runtime.backoff import Backoff


def test_waits_double_up_to_the_cap_and_start_over() -> None:
    backoff = Backoff(0.5, 30.0, jitter=0.0)
    assert [backoff.next() for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert backoff.failures == 8
    backoff.reset()
    assert backoff.next() == 0.5


@given(seed=st.integers(), failures=st.integers(1, 2000))
def test_waits_are_scattered_within_bounds_for_ever(seed: int, failures: int) -> None:
    backoff = Backoff(0.5, 30.0, jitter=0.3, rng=random.Random(seed))
    for _ in range(failures):
        wait = backoff.next()
    assert 0.35 <= wait <= 39.0


def test_two_clients_do_not_wait_in_step() -> None:
    first, second = Backoff(rng=random.Random(1)), Backoff(rng=random.Random(2))
    assert first.next() != pytest.approx(second.next(), rel=1e-3)
