"""Whose loss is told of GPUs that are taken back."""

from __future__ import annotations

from scavenger_api.weights import DEFAULT_WEIGHTS, weights_of

from bench.simulator.bench_gpus import lost
from bench.traces.openb import GPU


def test_an_order_that_knows_gpus_loses_less_of_their_time_than_one_by_cores() -> None:
    pods = [{"cpu": 2_000, GPU: 1}, {"cpu": 15_000, GPU: 1}]
    by_gpus, by_weights, by_cores = (
        lost(pods, weights, draws=20)[0]
        for weights in (weights_of(f"cpu=0,{GPU}=1"), DEFAULT_WEIGHTS, weights_of(f"cpu=1,{GPU}=0"))
    )
    assert 0 < by_gpus == by_weights < by_cores


def test_where_all_pods_are_alike_the_order_is_one() -> None:
    pods = [{"cpu": 10_000, GPU: 1}]
    assert lost(pods, DEFAULT_WEIGHTS, draws=5) == lost(pods, weights_of(f"cpu=1,{GPU}=0"), draws=5)
