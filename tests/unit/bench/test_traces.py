"""Files of the formats of the public traces, written here: the traces themselves are not part of the project."""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterable
from pathlib import Path

import pytest
from scavenger_simulator.inputs.demand_csv import Window
from scavenger_simulator.inputs.distributions import Constant
from scavenger_simulator.inputs.habits import Habits
from scavenger_simulator.inputs.nodes import GIB
from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.scenario import NodeSpec, OrdinaryPod, steady

from bench.traces.catalog import LCG, OPENB_DAY, OPENB_NODES, OPENB_PODS, TRACES, scenario_of
from bench.traces.openb import GPU, RealUse, read_openb_gpus, read_openb_nodes, read_openb_pods, sample_nodes
from bench.traces.planetlab import MachineSize, read_planetlab
from bench.traces.swf import read_swf

OPENB_HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
)
DAY = Window()


def written(path: Path, lines: Iterable[str]) -> Path:
    text = "".join(f"{line}\n" for line in lines)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def machine(*levels: int) -> str:
    """A day on which each level holds for as long as the others."""
    return ",".join(str(levels[i * len(levels) // 288]) for i in range(288))


def openb_pod(name: str, qos: str, created: float, deleted: float | str, cpu: int = 4000) -> str:
    return f"{name},{cpu},8192,1,460,,{qos},Running,{created},{deleted},{created}"


def test_of_openb_pods_with_whole_gpus_what_they_request(tmp_path: Path) -> None:
    rows = ["a,12000,16384,2,1000,,LS,Running,0,9,0", "shares,6000,8192,1,460,,LS,Running,0,9,0"]
    rows.append("none,6000,8192,0,0,,BE,Running,0,9,0")
    path = written(tmp_path / "pods.csv.gz", [OPENB_HEADER, *rows])
    assert read_openb_gpus(path) == ({"cpu": 12000, "memory": 16 * GIB, GPU: 2},)


def test_planetlab_machines_are_pods_that_request_a_percentile_of_their_use(tmp_path: Path) -> None:
    path = written(tmp_path / "day.csv.gz", [machine(10, 50), machine(0)])
    busy, idle = read_planetlab(path, MachineSize(cpu_milli=2000, memory_bytes=GIB, memory_use=0.25))
    assert busy.usage.at(0) == (200, GIB // 4)
    assert busy.usage.at(86_399) == (1000, GIB // 4)
    assert busy.cpu_request_milli == 1000
    assert idle.cpu_request_milli == 50, "the least there is"
    assert (busy.arrives, busy.leaves) == (0, math.inf)


@pytest.mark.parametrize(
    ("lines", "line", "field", "problem"),
    [
        ([machine(10), "1,2,3"], 2, "", "it has 3 fields"),
        ([machine(10).replace("10", "ten", 1)], 1, "1", "'ten' is no percentage"),
        ([machine(10), machine(10)[:-2] + "101"], 2, "288", "'101' is no percentage"),
        ([], 0, "", "it has no lines"),
    ],
)
def test_planetlab_errors_name_file_line_and_field(
    tmp_path: Path, lines: list[str], line: int, field: str, problem: str
) -> None:
    path = written(tmp_path / "day.csv", lines)
    with pytest.raises(InputError, match=problem) as caught:
        read_planetlab(path)
    assert (caught.value.source, caught.value.line, caught.value.field) == (str(path), line, field)
    assert "288" in caught.value.remedy or "0 to 100" in caught.value.remedy


def test_openb_pods_are_ordinary_or_best_effort(tmp_path: Path) -> None:
    path = written(
        tmp_path / "pods.csv.gz",
        [
            OPENB_HEADER,
            openb_pod("before", "LS", 0, 1000),
            openb_pod("across", "LS", 500, 2500),
            openb_pod("within", "Burstable", 1100, 1400),
            openb_pod("stays", "LS", 1500, ""),
            openb_pod("batch", "BE", 1200, 1500),
            openb_pod("batch-across", "BE", 900, 1500),
            openb_pod("after", "LS", 2000, 3000),
        ],
    )
    window = Window(1000, 1000)
    use = RealUse(Constant(0.5), Constant(0.25))
    ordinary, jobs = read_openb_pods(path, window, use=use, habits=Habits(grace=Constant(9)))
    assert {pod.name: (pod.arrives, pod.leaves) for pod in ordinary} == {
        "across": (0, math.inf),
        "within": (100, 400),
        "stays": (500, math.inf),
    }
    assert ordinary[0].cpu_request_milli == 4000
    assert ordinary[0].memory_request_bytes == 8 * GIB
    assert 0 < ordinary[0].usage.at(0)[0] < 4000
    assert ordinary[0].usage.at(0)[1] == 2 * GIB
    assert [(job.name, job.submitted, job.work_seconds, job.cpu_milli) for job in jobs] == [("batch", 200, 300, 4000)]
    assert jobs[0].grace_seconds == 9


@pytest.mark.parametrize(
    ("lines", "line", "field"),
    [
        (["name,cpu_milli"], 1, "memory_mib"),
        ([OPENB_HEADER, openb_pod("a", "LS", 0, 5), openb_pod("b", "XX", 0, 5)], 3, "qos"),
        ([OPENB_HEADER, openb_pod("a", "LS", 50, 5)], 2, "deletion_time"),
        ([OPENB_HEADER, openb_pod("a", "LS", 0, "later")], 2, "deletion_time"),
        ([OPENB_HEADER, openb_pod("a", "LS", -1, 5)], 2, "creation_time"),
        ([OPENB_HEADER, openb_pod("", "LS", 0, 5)], 2, "name"),
        ([OPENB_HEADER, "a,b"], 2, ""),
        ([], 0, ""),
    ],
)
def test_openb_errors_name_file_line_and_field(tmp_path: Path, lines: list[str], line: int, field: str) -> None:
    path = written(tmp_path / "pods.csv", lines)
    with pytest.raises(InputError) as caught:
        read_openb_pods(path, DAY)
    assert (caught.value.source, caught.value.line, caught.value.field) == (str(path), line, field)
    assert caught.value.remedy


def test_openb_nodes_have_sizes_of_their_own(tmp_path: Path) -> None:
    path = written(
        tmp_path / "nodes.csv", ["sn,cpu_milli,memory_mib,gpu,model", "n1,32000,262144,0,", "n2,96000,1024,8,T4"]
    )
    assert read_openb_nodes(path) == (
        NodeSpec("n1", 32_000, 256 * GIB),
        NodeSpec("n2", 96_000, GIB),
    )


def test_swf_reads_submission_run_time_and_processors(tmp_path: Path) -> None:
    lines = ["; Version: 2.2", "1 100 -1 50 1 -1", "2 200 -1 -1 1", "", "3 300 5 70 4 x x", "4 999 -1 10 -1"]
    path = written(tmp_path / "log.swf.gz", lines)
    jobs = read_swf(path, Window(100, 800))
    assert [(job.name, job.submitted, job.run_seconds, job.processors) for job in jobs] == [
        ("swf-1", 0, 50, 1),
        ("swf-3", 200, 70, 4),
    ]
    demand = jobs[1].demand(1, Habits(cpu=Constant(500)))
    assert (demand.pods, demand.cpu_milli, demand.work_seconds, demand.cores) == (4, 500, 70, 2.0)
    assert [job.processors for job in read_swf(path, Window(900, 100))] == [1], "an unknown number is one"


@pytest.mark.parametrize(
    ("line", "field"),
    [("1 2 3", ""), ("1 soon -1 50 1", "submit"), ("1 5 -1 nan 1", "run"), ("1 5 -1 9 99999", "processors")],
)
def test_swf_errors_name_file_line_and_field(tmp_path: Path, line: str, field: str) -> None:
    path = written(tmp_path / "log.swf", ["; header", line])
    with pytest.raises(InputError) as caught:
        read_swf(path, DAY)
    assert (caught.value.source, caught.value.line, caught.value.field) == (str(path), 2, field)


def test_nodes_are_drawn_until_the_pods_fit() -> None:
    big = OrdinaryPod("big", 0.0, math.inf, 40_000, GIB, steady(40_000, GIB))
    nodes = [NodeSpec(f"n{i}", 8_000 if i else 64_000, 64 * GIB) for i in range(50)]
    chosen = sample_nodes(nodes, [big], 0.5, seed=1)
    assert "n0" in {node.name for node in chosen}, "the only one the pod fits into"
    assert sum(node.cpu_milli for node in chosen) >= 80_000
    assert chosen == sample_nodes(list(reversed(nodes)), [big], 0.5, seed=1)
    assert chosen != sample_nodes(nodes, [big], 0.5, seed=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As that of the public traces, of a few lines each."""
    for trace in TRACES.values():
        if trace.machines:
            written(tmp_path / trace.machines, [machine(10, 16, 12)] * 60)
    pods = [
        openb_pod(f"pod-{i}", "BE" if i % 3 == 0 else "LS", created, created + 5000)
        for i in range(60)
        if (created := OPENB_DAY * DAY.length + 600 * i)
    ]
    written(tmp_path / OPENB_PODS, [OPENB_HEADER, *pods])
    nodes = [f"n{i},{(8000, 16000, 32000)[i % 3]},131072,0," for i in range(40)]
    written(tmp_path / OPENB_NODES, ["sn,cpu_milli,memory_mib,gpu,model", *nodes])
    written(tmp_path / LCG, ["; Version: 2.2", *(f"{i} {i * 900} -1 1800 1 -1" for i in range(700))])
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACES)
def test_every_trace_is_a_scenario_the_same_each_time(folder: Path, name: str) -> None:
    scenario = scenario_of(name, folder, demand_share=0.05)
    assert scenario == scenario_of(name, folder, demand_share=0.05)
    assert scenario != scenario_of(name, folder, demand_share=0.05, seed=2)
    assert (scenario.name, scenario.end) == (name, DAY.length)
    assert scenario.ordinary
    assert len({node.cpu_milli for node in scenario.nodes}) > 1, "of different sizes"
    assert all(0 <= job.submitted < DAY.length and job.work_seconds > 0 for job in scenario.jobs)
    assert all(0 <= pod.arrives < DAY.length and pod.leaves > pod.arrives for pod in scenario.ordinary)
    names = [*(pod.name for pod in scenario.ordinary), *(job.name for job in scenario.jobs)]
    assert len(set(names)) == len(names)
    assert "checkpoint intervals" in scenario.origin, "what is assumed is said"


@pytest.mark.slow
def test_more_demand_keeps_the_jobs_there_were(folder: Path) -> None:
    little, more = (scenario_of("planetlab-20110303", folder, demand_share=share) for share in (0.01, 0.02))
    assert set(little.jobs) < set(more.jobs)


def test_without_the_folder_the_error_says_where_to_give_it(tmp_path: Path) -> None:
    for folder in (None, tmp_path / "nowhere"):
        for name in TRACES:
            with pytest.raises(InputError, match="folder of traces") as caught:
                scenario_of(name, folder)
            assert "--traces" in caught.value.remedy
