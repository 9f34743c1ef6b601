"""Files of the formats of the public traces, written here: the traces themselves are not part of the project."""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterable
from pathlib import Path

import pytest
from scavenger_simulator.inputs.demand_csv import read_demand
from scavenger_simulator.inputs.distributions import Constant
from scavenger_simulator.inputs.habits import Habits
from scavenger_simulator.inputs.nodes import GIB, fleet, parse_nodes, peak_requests, sample_nodes
from scavenger_simulator.inputs.openb import RealUse, Window, read_openb_nodes, read_openb_pods
from scavenger_simulator.inputs.planetlab import MachineSize, read_planetlab
from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.inputs.swf import read_swf
from scavenger_simulator.scenario import NodeSpec, OrdinaryPod, steady

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
    everybody, none = read_openb_pods(path, window, scavenge_best_effort=False)
    assert {pod.name for pod in everybody} == {"across", "within", "stays", "batch", "batch-across"}
    assert none == ()


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


def test_own_demand_is_written_as_in_kubernetes(tmp_path: Path) -> None:
    path = written(
        tmp_path / "jobs.csv",
        [
            "# our lab",
            "name,queue,submitted,work,cpu,memory,pods,interruption_after,checkpoint_every,grace",
            "fold,lab,1h,90m,1500m,4Gi,2,20m,5m,10",
            "dock,,3700,600,2,512Mi,,,,",
            "late,,2d,600,2,512Mi,,,,",
        ],
    )
    fold, dock = read_demand(path, Window(3600, 7200), habits=Habits(grace=Constant(3), reported=0.0))
    assert (fold.queue, fold.submitted, fold.work_seconds, fold.pods, fold.cpu_milli) == ("lab", 0, 5400, 2, 1500)
    assert (fold.memory_bytes, fold.interruption_after, fold.checkpoint_every, fold.grace_seconds) == (
        4 * GIB,
        1200,
        300,
        10,
    )
    assert (dock.queue, dock.submitted, dock.pods, dock.checkpoint_every, dock.grace_seconds) == (
        "default",
        100,
        1,
        None,
        3,
    )


@pytest.mark.parametrize(
    ("header", "line", "field"),
    [
        ("name,submitted,work,cpu", "", "memory"),
        ("name,submitted,work,cpu,memory,colour", "", "colour"),
        ("name,submitted,work,cpu,memory", "a,0,600,two,1Gi", "cpu"),
        ("name,submitted,work,cpu,memory", "a,0,600,0,1Gi", "cpu"),
        ("name,submitted,work,cpu,memory", "a,0,,1,1Gi", "work"),
        ("name,submitted,work,cpu,memory", "a,yesterday,60,1,1Gi", "submitted"),
        ("name,submitted,work,cpu,memory,pods", "a,0,60,1,1Gi,0", "pods"),
        ("name,submitted,work,cpu,memory,interruption_after", "a,0,60,1,1Gi,8d", "interruption_after"),
        ("name,submitted,work,cpu,memory", "a,0,600,1,1Gi\na,5,600,1,1Gi", "name"),
    ],
)
def test_errors_in_own_demand_name_the_field(tmp_path: Path, header: str, line: str, field: str) -> None:
    path = written(tmp_path / "jobs.csv", [header, *line.splitlines()])
    with pytest.raises(InputError) as caught:
        read_demand(path, DAY)
    assert (caught.value.source, caught.value.field) == (str(path), field)
    assert caught.value.remedy
    assert f"field {field}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("gone.csv", None, "no such file"),
        ("plain.csv.gz", b"1,2,3", "cannot be unpacked"),
        ("cut.csv.gz", gzip.compress(machine(10).encode() * 50, mtime=0)[:60], "cannot be unpacked"),
        ("packed.csv", gzip.compress(b"1,2,3", mtime=0), "not text"),
    ],
    ids=["gone", "not-packed", "cut", "packed"],
)
def test_files_that_cannot_be_read_are_named(tmp_path: Path, name: str, content: bytes | None, problem: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=problem) as caught:
        read_planetlab(path)
    assert caught.value.source == str(path)
    assert caught.value.remedy


def pod(name: str, cpu: int, memory: int = GIB, arrives: float = 0.0, leaves: float = math.inf) -> OrdinaryPod:
    return OrdinaryPod(name, arrives, leaves, cpu, memory, steady(cpu, memory))


def test_nodes_are_written_in_groups() -> None:
    nodes = parse_nodes("2x16:64Gi, 1x500m:1Gi")
    assert [(node.cpu_milli, node.memory_bytes) for node in nodes] == [(16_000, 64 * GIB)] * 2 + [(500, GIB)]
    assert len({node.name for node in nodes}) == 3
    for text in ("", "16:64Gi", "2x16", "2x-1:1Gi", "0x16:64Gi", "2x16:lots", "axb:c"):
        with pytest.raises(InputError) as caught:
            parse_nodes(text)
        assert caught.value.remedy


def test_a_fleet_has_room_for_what_is_requested_at_the_peak() -> None:
    pods = [pod(f"a{i}", 1000, leaves=50) for i in range(100)] + [pod(f"b{i}", 1000, arrives=50) for i in range(100)]
    assert peak_requests(pods) == (100_000, 100 * GIB, 100), "the second hundred comes when the first goes"
    nodes = fleet(pods, 0.5, [(8_000, 64 * GIB), (16_000, 64 * GIB)])
    room = sum(node.cpu_milli for node in nodes)
    assert 200_000 <= room < 200_000 + 16_000
    assert {node.cpu_milli for node in nodes} == {8_000, 16_000}
    assert max(node.cpu_milli for node in fleet([pod("big", 100_000)], 0.9)) == 100_000
    assert len(fleet([pod(f"tiny{i}", 1, 1) for i in range(660)], 0.5)) == 12, "a node takes 110 pods, of any size"


def test_nodes_are_drawn_until_the_pods_fit() -> None:
    nodes = [NodeSpec(f"n{i}", 8_000 if i else 64_000, 64 * GIB) for i in range(50)]
    chosen = sample_nodes(nodes, [pod("big", 40_000)], 0.5, seed=1)
    assert "n0" in {node.name for node in chosen}, "the only one the pod fits into"
    assert sum(node.cpu_milli for node in chosen) >= 80_000
    assert chosen == sample_nodes(list(reversed(nodes)), [pod("big", 40_000)], 0.5, seed=1)
    assert chosen != sample_nodes(nodes, [pod("big", 40_000)], 0.5, seed=2)
