"""A small scenario on a real cluster and in the simulator: the same jobs start, and the same one gives way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scavenger_cluster import Cluster
from scavenger_testing.cluster_names import cluster_name

from bench.simulator.replay import replay_cluster, replaying
from bench.simulator.scripts import YIELD, mismatches, simulated

pytestmark = pytest.mark.long


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with replay_cluster(cluster_name("it-replay")) as made:
        yield made


async def test_a_job_yields_at_its_checkpoint_on_a_cluster_as_in_the_simulator(cluster: Cluster) -> None:
    expected = simulated(YIELD)
    async with replaying(cluster) as replay:
        found = await replay.play(YIELD, expected)
    assert mismatches(expected, found) == []
    assert found == expected
