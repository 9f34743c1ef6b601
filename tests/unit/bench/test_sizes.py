"""Figures of big and small nodes."""

from __future__ import annotations

from scavenger_simulator.inputs.nodes import SIZES
from scavenger_simulator.objects import INSTANCE_TYPE, labels_of
from scavenger_simulator.scenario import NodeSpec
from scavenger_simulator.settings import Settings

from bench.simulator.bench_sizes import KEPT_LOWER, SMALL, WAYS, Day, figures_of


def test_the_policy_selects_the_smallest_nodes_of_a_fleet() -> None:
    kinds = [labels_of(NodeSpec("node", *size))[INSTANCE_TYPE] for size in SIZES]
    assert kinds.count(SMALL) == 1
    (policy,) = Settings.of(**WAYS["policy"]).level_policies
    assert policy.selector == KEPT_LOWER[0]["nodeSelector"]


def test_shares_are_of_all_periods_of_such_nodes_and_ratios_of_sums() -> None:
    days = [
        Day("cluster", 100.0, 10.0, (30, 5), (100, 200)),
        Day("cluster", 300.0, 10.0, (10, 5), (100, 200)),
        Day("per_node", 200.0, 5.0, (4, 2), (200, 400)),
        Day("policy", 200.0, 5.0, (0, 2), (200, 400)),
    ]
    values = {figure["name"].removeprefix("loop.sizes."): figure["value"] for figure in figures_of(days)}
    assert values["cluster.full_small_percent"] == 20
    assert values["cluster.full_others_percent"] == 2.5
    assert values["per_node.full_small_percent"] == 2
    assert (values["cluster.work_ratio"], values["policy.work_ratio"], values["policy.lost_ratio"]) == (1, 0.5, 0.25)
