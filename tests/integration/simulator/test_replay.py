"""A small scenario on a real cluster and in the simulator: the same jobs start, and the same ones have to go."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scavenger_cluster import Cluster
from scavenger_testing.cluster_names import cluster_name

from bench.simulator.replay import replay_cluster, replaying
from bench.simulator.scripts import PREEMPTION, mismatches, simulated


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with replay_cluster(cluster_name("it-replay")) as made:
        yield made


async def test_a_burst_takes_the_same_jobs_on_a_cluster_as_in_the_simulator(cluster: Cluster) -> None:
    expected = simulated(PREEMPTION)
    async with replaying(cluster) as replay:
        found = await replay.play(PREEMPTION, expected)
    assert mismatches(expected, found) == []
    assert found == expected
