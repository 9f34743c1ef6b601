"""The benchmark of a takeover runs on the admitter as it is: its two jobs are made by one, and nothing is written."""

from __future__ import annotations

from bench.admitter.bench_takeover import take_over


async def test_a_takeover_of_twenty_jobs_writes_nothing() -> None:
    found = await take_over(20)
    assert found["writes"] == 0
    assert found["seconds"] > 0
