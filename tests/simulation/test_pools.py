"""A day with two pools of nodes is as two days with one pool each: no less is done, and no more is lost."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest
from scavenger_simulator.cluster import Cluster
from scavenger_simulator.inputs.catalog import Sources, build
from scavenger_simulator.policy import Policy
from scavenger_simulator.result import Totals
from scavenger_simulator.scenario import Scenario
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

SEEDS = (31, 32, 33)
"""Chosen before any of them was played."""
CHANCE = 0.01
"""Of the work. Regular pods of both pools look for a node in turn, so a few have another node than alone."""

SIZES = ((6, 64, ""), (5, 66, "@gpu"))
NODES = ",".join(f"1x16:{1024 * memory + i}Mi{pool}" for count, memory, pool in SIZES for i in range(count))
"""No node is as large as another: chance would decide among equals."""


def day(seed: int) -> Scenario:
    """Bursts of regular pods, and more jobs than there is capacity for."""
    return build(Sources("bursts", ("synthetic:bursts",), nodes=NODES, pods=150, demand_share=0.8, seed=seed))


def of_pool(whole: Scenario, pool: str) -> Scenario:
    """The nodes of one pool, with what runs there, as a cluster of its own."""
    return replace(
        whole,
        nodes=tuple(replace(node, pool="") for node in whole.nodes if node.pool == pool),
        ordinary=tuple(replace(pod, pool="") for pod in whole.ordinary if pod.pool == pool),
        jobs=tuple(replace(job, pool="") for job in whole.jobs if job.pool == pool),
    )


def played(scenario: Scenario) -> Totals:
    """All nodes are measured by themselves, in a cluster of one pool as well."""
    with mock.patch.object(Cluster, "pooled", True):
        return simulate(scenario, Settings(), Policy.OURS, 1).totals


def test_a_day_with_two_pools_is_as_two_clusters_of_one_pool_each() -> None:
    whole, parts = [], []
    for seed in SEEDS:
        scenario = day(seed)
        whole.append(played(scenario))
        parts += [played(of_pool(scenario, pool)) for pool in ("", "gpu")]
    work = sum(one.progress for one in parts)
    assert sum(one.progress for one in whole) >= (1 - CHANCE) * work
    # One eviction at another moment changes all that follow. It is a few jobs that lose, so the work is the measure.
    assert sum(one.lost for one in whole) <= sum(one.lost for one in parts) + 0.002 * work
