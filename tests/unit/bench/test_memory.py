"""The benchmark of the admitter's memory runs: its server answers what an informer asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.admitter import bench_memory

if TYPE_CHECKING:
    import pytest


async def test_an_informer_lists_every_pod_of_the_scripted_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_memory, "COUNT", 2 * bench_memory.PAGE)
    monkeypatch.setattr(bench_memory, "LONGEST_SECONDS", 10.0)
    found = await bench_memory.hold()  # it counts the pods itself
    assert found["peak"] >= found["full"] > 0  # the process may have given memory of other tests back meanwhile
    assert found["peak"] >= found["empty"] > 0
