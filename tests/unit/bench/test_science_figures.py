"""The figures of the benchmark on GROMACS, from what is written to what is printed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bench.figures import per_minute, performance, recomputed_percent

LOG = """\
               Core t (s)   Wall t (s)        (%)
       Time:       12.345       12.345      100.0
                 (ns/day)    (hour/ns)
Performance:      139.972        0.171
Finished mdrun on rank 0 Sun Nov 22 22:34:50 2026
"""


def test_how_fast_mdrun_was_is_what_it_said_last() -> None:
    assert performance(LOG) == 139.972
    assert performance(LOG + LOG.replace("139.972", "70.5")) == 70.5


def test_without_an_end_in_good_order_there_is_no_speed() -> None:
    with pytest.raises(ValueError, match="has not said how fast it was"):
        performance(LOG.partition("Performance")[0])


def test_steps_made_again_are_in_percent_of_those_that_count() -> None:
    assert recomputed_percent([(1000, 0), (3000, 60)]) == 1.5


def test_configurations_per_minute_last_until_the_last_of_them() -> None:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    ends = [began + timedelta(seconds=seconds) for seconds in (20, 90, 40)]
    assert per_minute(began, ends) == 2
