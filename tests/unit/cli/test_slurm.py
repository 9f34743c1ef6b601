"""Scripts for Slurm's sbatch as ScavengerJobs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from scavenger_cli.exits import CliError
from scavenger_cli.lint.check import check
from scavenger_cli.slurm import converted, is_script
from scavenger_domain.pod_security import Level

from .conftest import Run

BODY = "cd /work\nexec ./sim --resume"


def script(*options: str, body: str = BODY) -> str:
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {one}" for one in options), body])


def test_a_script_of_one_node() -> None:
    made, lines = converted(
        script("-J Fold_1", "-c 4", "--ntasks=2", "--mem=16G", "-t 1-12:30", "--gres=gpu:a100:2  # two of them"),
        "fold:1",
    )
    assert made["metadata"] == {"name": "fold-1"}
    assert made["spec"] == {
        "image": "fold:1",
        "command": ["bash", "-c", BODY],
        "resources": {"requests": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "2"}},
        "activeDeadlineSeconds": ((24 + 12) * 60 + 30) * 60,
    }
    assert (check(made, Level.RESTRICTED), lines) == (([], []), [])


def test_nodes_are_pods_of_a_gang() -> None:
    made, lines = converted(script("-N4", "-n", "--mem-per-cpu 500", "--gpus=8").replace("-n\n", "-n 16\n"), "a:1")
    assert made["spec"]["parallelism"] == 4
    assert made["spec"]["resources"]["requests"] == {"cpu": "4", "memory": "2000Mi", "nvidia.com/gpu": "2"}
    assert lines == [
        "--nodes: the script runs in each of the 4 pods; SCAVENGER_INDEX and SCAVENGER_PEERS tell them apart"
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 1800), ("0:30", 30), ("30:15", 1815), ("2:00:00", 7200), ("1-0", 86400), ("1-2:03:04", 93784)],
)
def test_times(text: str, seconds: int) -> None:
    assert converted(script(f"--time={text}"), "a:1")[0]["spec"]["activeDeadlineSeconds"] == seconds


@pytest.mark.parametrize(
    ("text", "array"),
    [("0-999%100", {"tasks": 1000, "maxRunning": 100}), ("0-9", {"tasks": 10}), ("0", {"tasks": 1})],
)
def test_arrays(text: str, array: dict[str, int]) -> None:
    made, lines = converted(script(f"--array={text}", "--mem=1G", "-t 30", body="work $SLURM_ARRAY_TASK_ID"), "a:1")
    assert made["spec"]["array"] == array
    assert check(made, Level.RESTRICTED)[0] == []
    assert lines == [
        "SLURM_ARRAY_TASK_ID: they are not set; SCAVENGER_TASK is the index of the task",
        "--time: left out: tasks of an array have no deadline",
    ]


def test_what_has_no_place_is_told() -> None:
    body = "module load gromacs; srun gmx mdrun -nt $SLURM_CPUS_PER_TASK"
    _, lines = converted(
        script("-p long", "--exclusive", "--requeue", "-o out.txt", "--signal=B:USR1@60", body=body), "a:1"
    )
    assert [line.partition(":")[0] for line in lines] == [
        "--partition",
        "--exclusive",
        "--output",
        "--signal",
        "srun",
        "module load",
        "SLURM_CPUS_PER_TASK",
    ]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--array=1-99", "numbered from 0"),
        ("--array=0,3", "numbered from 0"),
        ("--array=0-9 -N2", "one pod"),
        ("-c x", "not a number"),
        ("--mem=lots", "16G"),
        ("-t soon", "12:00:00"),
        ("-J 'x", "quotation"),
    ],
)
def test_what_cannot_be_read(option: str, words: str) -> None:
    with pytest.raises(CliError) as refused:
        converted(script(option), "a:1")
    assert words in f"{refused.value} {refused.value.remedy}"


def test_the_command(sj: Run, tmp_path: Path) -> None:
    path = tmp_path / "fold.sbatch"
    path.write_text(script("-J fold", "--mem=1G"))
    assert is_script(path.read_text())
    assert sj("convert", str(path))[2].startswith(f"error: {path} is a script and names no image")
    code, out, err = sj("convert", str(path), "--image", "fold:1")
    assert code == 0
    assert yaml.safe_load(out)["spec"]["image"] == "fold:1"
    assert "no volume outlives a pod" in err
