"""Pools of nodes in a simulation: each has levels of its own, and nobody goes where they may not run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from scavenger_simulator.inputs.catalog import Sources, build, in_pools
from scavenger_simulator.inputs.nodes import parse_nodes
from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.policy import Policy
from scavenger_simulator.report.figures import Study
from scavenger_simulator.report.pictures import pictures
from scavenger_simulator.result import MomentKind, RunResult
from scavenger_simulator.scenario import ANY_POOL, NodeSpec, OrdinaryPod, ScavengerDemand
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

from tests.unit.simulator.builders import GIB, HOUR, job, ordinary, scenario

NODES = (NodeSpec("cpu", 20_000, 100 * GIB), NodeSpec("gpu", 10_000, 100 * GIB, "gpu"))


def played(jobs: Sequence[ScavengerDemand], pods: Sequence[OrdinaryPod], **more: Any) -> RunResult:
    settings = Settings.of(history_min_samples=10**9, **more)
    return simulate(scenario(nodes=NODES, jobs=jobs, ordinary=pods), settings, Policy.OURS, 1)


def started(result: RunResult) -> set[str]:
    return {one.name for one in result.jobs if one.started is not None}


def test_busy_cpus_keep_no_job_from_an_idle_gpu_pool() -> None:
    jobs = [job("on-cpu"), job("on-gpu", pool="gpu"), job("anywhere", pool=ANY_POOL)]
    result = played(jobs, [ordinary("web", cores=19)])
    assert started(result) == {"on-gpu", "anywhere"}
    point = result.points[10]
    assert (round(point.cpu.load), round(point.pools["gpu"].cpu.load)) == (95, 20)
    assert (point.state, point.pools["gpu"].state) == ("Evicting", "Filling")
    assert result.totals.periods_above_upper == result.totals.periods_above_upper_ordinary > 0


def test_a_job_is_evicted_from_the_pool_that_is_above_its_level() -> None:
    jobs = [job("on-cpu", work=HOUR), job("on-gpu", pool="gpu", work=HOUR, cores=3)]
    busy = ordinary("batch", arrives=600, leaves=1800, cores=1, used=9, pool="gpu")
    result = played(jobs, [busy])
    evicted = {(one.job, one.why) for one in result.moments if one.kind is MomentKind.EVICTED}
    assert {name for name, _ in evicted} == {"on-gpu"}
    assert all("pool/gpu-" in why for _, why in evicted)
    assert result.totals.victims_minimum == 1


def test_a_regular_pod_takes_no_place_in_another_pool() -> None:
    jobs = [job("on-cpu", work=HOUR, cores=10), job("on-gpu", pool="gpu", work=HOUR, cores=5)]
    result = played(jobs, [ordinary("web", arrives=300, cores=6, used=0, pool="gpu")])
    assert {one.job for one in result.moments if one.kind is MomentKind.PREEMPTED} == {"on-gpu"}
    result = played(jobs, [ordinary("web", arrives=300, cores=21, used=0)])
    assert result.totals.unscheduled == 1
    assert result.totals.victims == 0


def test_the_page_shows_each_pool() -> None:
    result = played([job("on-gpu", pool="gpu")], [])
    about = Study("pools", "made up", 1, 0.0, 2 * HOUR, 2, 30.0, 0, 1, 1.0, {}, 14_400.0, (result,))
    headings = [picture.heading for picture in pictures(about, result)]
    assert "CPU of pool gpu: load against levels" in headings


def test_nodes_of_a_pool_are_written_with_its_name() -> None:
    assert parse_nodes("1x16:64Gi,1x96:384Gi@gpu") == (
        NodeSpec("node-0000", 16_000, 64 * GIB),
        NodeSpec("node-0001", 96_000, 384 * GIB, "gpu"),
    )
    with pytest.raises(InputError, match="no group of nodes"):
        parse_nodes("1x16:64Gi@")


def test_what_no_record_says_is_drawn_by_the_cpu_of_the_pools() -> None:
    drawn = build(Sources("d", ("synthetic:diurnal",), nodes="10x16:64Gi,10x16:64Gi@gpu", length=HOUR, pods=400))
    for share in (
        sum(one.pool == "gpu" for one in drawn.jobs) / len(drawn.jobs),
        sum(one.pool == "gpu" for one in drawn.ordinary) / len(drawn.ordinary),
    ):
        assert 0.35 < share < 0.65
    services = {pod.name.rsplit("-", 1)[0]: pod.pool for pod in drawn.ordinary if pod.name.startswith("service-")}
    assert all(services[pod.name.rsplit("-", 1)[0]] == pod.pool for pod in drawn.ordinary if "service-" in pod.name)
    said = (job("a", pool=ANY_POOL), job("b", pool="gpu"))
    assert in_pools((), said, NODES, 1) == ((), said)
    assert in_pools((), (job("a"),), NODES[:1], 1)[1][0].pool == "", "one pool is drawn nowhere"


def test_a_job_of_a_pool_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="there are no nodes of pool 'tpu'"):
        in_pools((), (job("a", pool="tpu"),), NODES, 1)
