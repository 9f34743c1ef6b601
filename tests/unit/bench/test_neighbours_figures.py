"""The figures of the benchmark with Karpenter, from what it did to what is printed."""

from __future__ import annotations

from bench.services.bench_neighbours import Side, figures


def test_nodes_removed_are_those_of_a_cluster_without_jobs() -> None:
    found = {
        one["name"]: one["value"]
        for one in figures(
            plain=Side(peak=12, removed=8, bought=1),
            ours=Side(peak=12, removed=8, bought=1, running=24, interrupted=7),
            stock=Side(peak=12, removed=6, bought=3),
        )
    }
    assert found["neighbours.consolidated_ratio"] == 1
    assert found["neighbours.consolidated_ratio_stock"] == 0.75
    assert found["neighbours.bought_for_scavengers"] == 2, "beside the one that Karpenter buys without jobs as well"


def test_fewer_nodes_than_without_jobs_are_no_debt() -> None:
    found = figures(Side(12, 8, 2), Side(12, 8, 0), Side(12, 8, 1))
    assert next(one["value"] for one in found if one["name"] == "neighbours.bought_for_scavengers") == 0
