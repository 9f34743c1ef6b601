"""kube-scheduler as it comes takes the pods that the simulator says, where jobs are plain ones (policy `plain`)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from scavenger_cluster import Cluster
from scavenger_simulator.scheduler import NodeOutlook, choose_node_by_pods
from scavenger_simulator.victims import Share
from scavenger_testing.cluster_names import cluster_name

from bench.scheduler import harness

from .conftest import Pool
from .ranks import SCENARIOS, play

CASES = 20
NODES = 3
MILLICORES = 2000
WAVES = 4
"""Pods on each node, one after the other: starts are known to the second."""
APART_SECONDS = 1.1


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A control plane without anything of ours but the priority classes."""
    embedded = Cluster(cluster_name("sched-plain"))
    try:
        embedded.up("fake:1", fake_cpu="0", scheduler="stock")
        harness.install_base(embedded)
        yield embedded
    finally:
        embedded.down()


@dataclass(frozen=True)
class Case:
    """What the pods on each node request, in the order of their starts, and what an ordinary pod then does; in
    millicores."""

    nodes: tuple[tuple[int, ...], ...]
    wanted: int

    def outlooks(self) -> list[NodeOutlook]:
        """As the simulator sees them. Pods are called by the numbers of their node and of their start."""
        found = []
        for index, sizes in enumerate(self.nodes):
            shares = [
                Share(f"{index}-{wave}", 0.0, False, False, [((size, 0, 1), f"{index}-{wave}")], 1, float(wave))
                for wave, size in enumerate(sizes)
            ]
            free = MILLICORES - sum(sizes)
            found.append(NodeOutlook(index, shares, (self.wanted - free, 0, 0), (free - self.wanted, 0, 100)))
        return found

    def clear(self) -> bool:
        """Whether one node is better than all others: among equals kube-scheduler takes any."""
        scores = []
        for outlook in self.outlooks():
            found = choose_node_by_pods([outlook])
            if found is not None:
                scores.append((len(found.pods), -min(share.started for share in found.broken)))
        return len(scores) > 1 and scores.count(min(scores)) == 1


def cases(seed: int) -> list[Case]:
    """Nodes that are nearly full, and a pod that fits on none of them."""
    rng, found = random.Random(seed), list[Case]()
    while len(found) < CASES:
        nodes = tuple(tuple(rng.randrange(200, 550, 50) for _ in range(WAVES)) for _ in range(NODES))
        one = Case(nodes, rng.randrange(300, 1500, 50))
        full = all(sum(sizes) <= MILLICORES < sum(sizes) + one.wanted for sizes in nodes)
        if full and one.clear():
            found.append(one)
    return found


@pytest.mark.long
def test_it_takes_those_that_the_simulator_says(cluster: Cluster) -> None:
    chosen = cases(seed=7)
    pools = [Pool(cluster) for _ in chosen]
    try:
        nodes = [pool.with_nodes(NODES) for pool in pools]
        for wave in range(WAVES):
            for pool, names, case in zip(pools, nodes, chosen, strict=True):
                bodies = [
                    pool.pods.scavenger(f"{pool.name}-{index}-{wave}", node, 0, cpu=f"{case.nodes[index][wave]}m")
                    for index, node in enumerate(names)
                ]
                pool.run(*bodies)
            time.sleep(APART_SECONDS)
        before = [pool.living() for pool in pools]
        for pool, case in zip(pools, chosen, strict=True):
            pool.submit(pool.pods.ordinary(f"{pool.name}-web", cpu=f"{case.wanted}m"))
        for pool, case, there in zip(pools, chosen, before, strict=True):
            pool.wait_running(f"{pool.name}-web")
            expected = choose_node_by_pods(case.outlooks())
            assert expected is not None
            assert there - pool.living() == {f"{pool.name}-{name}" for name in expected.pods}, case
    finally:
        for pool in pools:
            harness.clean(cluster, pool.name, pool.nodes)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_nobody_is_displaced_by_who_installs(pool: Pool, scenario: Callable[[Pool], None]) -> None:
    play(pool, scenario)
