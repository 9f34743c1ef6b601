"""Jobs and nodes of one's own, and files that cannot be read."""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from scavenger_simulator.inputs.demand_csv import Window, read_demand
from scavenger_simulator.inputs.distributions import Constant
from scavenger_simulator.inputs.habits import Habits
from scavenger_simulator.inputs.nodes import GIB, fleet, parse_nodes, peak_requests
from scavenger_simulator.inputs.reading import InputError, lines
from scavenger_simulator.scenario import OrdinaryPod, steady

DAY = Window()


def written(path: Path, lines: Iterable[str]) -> Path:
    text = "".join(f"{line}\n" for line in lines)
    path.write_text(text)
    return path


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


def test_an_array_is_as_many_jobs(tmp_path: Path) -> None:
    header = "name,submitted,work,cpu,memory,tasks"
    path = written(tmp_path / "jobs.csv", [header, "sweep,1h,90m,2,1Gi,3", "one,1h,90m,2,1Gi,", "late,2d,90m,2,1Gi,9"])
    found = read_demand(path, DAY)
    assert [job.name for job in found] == ["sweep[0]", "sweep[1]", "sweep[2]", "one"]
    assert {(job.submitted, job.work_seconds, job.pods, job.cpu_milli) for job in found} == {(3600, 5400, 1, 2000)}
    assert len({replace(job, name="") for job in found[:3]}) == 1, "what the line leaves open is drawn for all tasks"


@pytest.mark.parametrize(
    ("header", "line", "field"),
    [
        ("name,submitted,work,cpu,memory,tasks", "a,0,600,2,1Gi,0", "tasks"),
        ("name,submitted,work,cpu,memory,tasks", "a,0,600,2,1Gi,100001", "tasks"),
        ("name,submitted,work,cpu,memory,pods,tasks", "a,0,600,2,1Gi,2,3", "tasks"),
        ("name,submitted,work,cpu,memory,tasks", "a,0,600,2,1Gi,2\na[1],0,600,2,1Gi,", "name"),
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
        ("cut.csv.gz", gzip.compress(bytes(range(256)) * 50, mtime=0)[:60], "cannot be unpacked"),
        ("packed.csv", gzip.compress(b"1,2,3", mtime=0), "not text"),
    ],
    ids=["gone", "not-packed", "cut", "packed"],
)
def test_files_that_cannot_be_read_are_named(tmp_path: Path, name: str, content: bytes | None, problem: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=problem) as caught:
        list(lines(path))
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
