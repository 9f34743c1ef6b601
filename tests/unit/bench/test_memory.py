"""What services keep of the pods of all tenants, and the benchmark that measures it."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import TYPE_CHECKING, cast

import pytest

from bench.admitter import bench_memory
from bench.admitter.bench_memory import SERVICES, ScriptedServer

if TYPE_CHECKING:
    from scavenger_kube.client import ApiClient

PODS = 2 * bench_memory.PAGE


async def test_an_informer_lists_every_pod_of_the_scripted_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_memory, "COUNT", PODS)
    monkeypatch.setattr(bench_memory, "LONGEST_SECONDS", 10.0)
    found = await bench_memory.hold("admitter")  # it counts the pods itself
    assert found["peak"] >= found["full"] > 0  # the process may have given memory of other tests back meanwhile
    assert found["peak"] >= found["empty"] > 0


@pytest.mark.parametrize("service", SERVICES)
async def test_a_regular_pod_takes_less_than_two_and_a_half_kilobytes(
    service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_memory, "COUNT", PODS)
    pods = SERVICES[service](cast("ApiClient", ScriptedServer()))
    gc.collect()
    tracemalloc.start()
    try:
        following = asyncio.create_task(pods.run())
        async with asyncio.timeout(30.0):
            await pods.wait_synced()
        gc.collect()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    following.cancel()
    assert len(pods) == PODS
    assert used / PODS < 2_500
