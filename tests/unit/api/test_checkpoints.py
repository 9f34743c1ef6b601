from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_api.checkpoints import COMPLETION_INDEX, completion_index, gang_checkpoint


@pytest.mark.parametrize(
    ("reports", "found"),
    [
        ([], None),
        ([(0, None), (1, None)], None),
        ([(0, 50), (1, 40)], 40),
        ([(0, 50), (1, None)], 50),
        ([(0, None), (1, 50)], None),
        ([(0, 50), (1, 101)], 50),
        ([(0, 101), (1, 101)], None),
        ([(None, 50), (None, 40)], 40),
        ([(0, 100)], 100),
    ],
)
def test_what_a_gang_of_two_can_restart_from(reports: list[tuple[int | None, int | None]], found: int | None) -> None:
    assert gang_checkpoint(reports, 2, 100) == found


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 200) | st.none()), max_size=6), st.integers(1, 6))
def test_never_newer_than_what_a_member_reports_and_never_from_the_future(
    reports: list[tuple[int, int | None]], parallelism: int
) -> None:
    found = gang_checkpoint(reports, parallelism, 100)
    if found is not None:
        assert found in [at for _, at in reports]
        assert found <= 100


def test_completion_index() -> None:
    assert completion_index({COMPLETION_INDEX: "3"}, {}) == 3
    assert completion_index({}, {COMPLETION_INDEX: "4"}) == 4
    for nonsense in ("", "-1", "x", "٣", "9" * 30):
        assert completion_index({COMPLETION_INDEX: nonsense}, {}) is None
