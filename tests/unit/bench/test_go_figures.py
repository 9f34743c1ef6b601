"""What is read of the output of Go benchmarks."""

from __future__ import annotations

import pytest

from bench.__main__ import BENCHMARKS, wanted
from bench.scheduler.go_figures import parse


def test_metrics_by_part() -> None:
    output = """\
goos: linux
BenchmarkLossOverOptimum-2   \t       1\t13700000000 ns/op\t         1.000 mean-ratio\t         1.050 worst-ratio
BenchmarkBurst/ScavengerPreemption         \t       1\t63964532978 ns/op\t        41.75 p50-cpu-ms
BenchmarkBurst/two-words
--- BENCH: BenchmarkBurst/ScavengerPreemption
PASS
ok  \tscavenger.dev/scheduler/pkg/preemption\t1.2s
"""
    assert parse(output) == {
        "LossOverOptimum": {"ns/op": 13700000000, "mean-ratio": 1.0, "worst-ratio": 1.05},
        "Burst/ScavengerPreemption": {"ns/op": 63964532978, "p50-cpu-ms": 41.75},
    }


def test_figures_without_a_cluster_start_none() -> None:
    assert wanted(["scheduler.loss"]) == ["bench.scheduler.bench_choice"]


@pytest.mark.parametrize(
    ("only", "module"),
    [
        ("loop.class_writes_per_hour.steady", "bench.simulator.bench_classes"),
        ("loop.gpu_hours", "bench.simulator.bench_gpus"),
        ("loop.starved", "bench.simulator.bench_starved"),
        ("loop.stale_percent", "bench.simulator.bench_loop"),
    ],
)
def test_a_figure_with_a_benchmark_of_its_own_starts_no_other(only: str, module: str) -> None:
    assert wanted([only]) == [module]


def test_a_name_that_several_benchmarks_begin_with_starts_them_all() -> None:
    assert {"bench.simulator.bench_classes", "bench.simulator.bench_gpus", "bench.simulator.bench_loop"} < set(
        wanted(["loop"])
    )
    assert wanted([]) == list(BENCHMARKS)
    assert wanted(["nothing"]) == []
