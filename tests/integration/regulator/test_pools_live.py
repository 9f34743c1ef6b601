"""Levels by pool of nodes on a real control plane: idle GPUs beside a full CPU pool, on fake nodes with metrics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scavenger_api.levels import LevelsState
from scavenger_cluster import Cluster, stack
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.waiting import wait

from tests.integration.regulator.pools import GPU, Pools, prometheus, settings_of, two_pools

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]


@pytest.fixture(scope="module")
def pools() -> Iterator[Pools]:
    cluster = Cluster(cluster_name("it-pools"), report=lambda line: None)
    try:
        with prometheus() as (figures, url):
            found = two_pools(cluster, figures)
            stack.install(cluster)
            found.use(cpus=94, gpus=5)
            stack.start(cluster, ["admitter", "regulator"], settings_of(url))
            yield found
    finally:
        cluster.down()


def test_a_job_starts_on_an_idle_gpu_while_the_cpu_pool_is_shut_and_the_reverse(pools: Pools) -> None:
    pools.submit("cpus", cpu="1", memory="16Mi")
    pools.submit("gpus", cpu="1", memory="16Mi", **{GPU: "1"})
    wait("the job on GPUs", lambda: pools.status("gpus").get("phase") == "Running", describe=pools.seen)
    assert pools.nodes_of("gpus") == [pools.gpu]
    levels = pools.levels()
    (name,) = levels.pools
    assert name.startswith("gpu-")
    assert (levels.admit, levels.state, levels.pools[name].admit) == (False, LevelsState.EVICTING, True)
    assert levels.pools[name].state is LevelsState.FILLING
    assert levels.pools[name].load("cpu") == pytest.approx(5, abs=0.1), "of one node alone"
    assert pools.status("cpus").get("phase", "Waiting") == "Waiting"

    pools.use(cpus=5, gpus=99)
    wait("the job on CPUs", lambda: pools.status("cpus").get("phase") == "Running", describe=pools.seen)
    assert set(pools.nodes_of("cpus")) <= set(pools.cpus)
    wait("the GPU pool is shut", lambda: pools.gpu in pools.levels().closed_nodes, describe=pools.seen)
    levels = pools.levels()
    assert (levels.admit, levels.pools[name].admit) == (True, False)
    assert not levels.closed_nodes.intersection(pools.cpus)


def test_a_job_leaves_the_full_gpu_pool_and_that_on_the_idle_cpu_pool_stays(pools: Pools) -> None:
    """Both run, and the GPU pool is above its eviction threshold."""
    assert (pools.status("gpus").get("phase"), pools.status("cpus").get("phase")) == ("Running", "Running")
    pools.measure(gpus=4, cpus=4)
    wait("the job on GPUs has left", lambda: pools.status("gpus").get("interruptedCount") == 1, describe=pools.seen)
    (condition,) = (one for one in pools.status("gpus")["conditions"] if one["type"] == "Interrupted")
    assert condition["reason"] == "AboveUpperLevel"

    pools.use(cpus=5, gpus=5)
    pools.measure(cpus=4)
    wait("it runs again", lambda: pools.status("gpus").get("phase") == "Running", describe=pools.seen)
    assert pools.nodes_of("gpus") == [pools.gpu]
    assert not pools.status("cpus").get("interruptedCount")
    assert pools.status("cpus")["phase"] == "Running"
