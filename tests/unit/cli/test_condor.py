"""Submit files of HTCondor as ScavengerJobs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_cli.condor import converted
from scavenger_cli.exits import CliError
from scavenger_cli.lint.check import check
from scavenger_cli.manifests import is_submit_file
from scavenger_domain.pod_security import Level

from .conftest import Run, expanded

BASE = "executable = /app/sim\nrequest_cpus = 4\nrequest_memory = 16GB\n"


def of(text: str) -> tuple[dict[str, Any], list[str]]:
    made, lines = converted(text, "sim:1", "sim")
    assert check(made, Level.RESTRICTED)[0] == []
    return made["spec"], lines


def test_one_job() -> None:
    text = (
        "# a comment\nUniverse = vanilla\n"
        + BASE
        + 'arguments = "--seed 7 --name \'two words\' ""quoted"""\nenvironment = "A=1 B=\'x y\'"\n'
        + "request_gpus = 1\nrequest_disk = 2GB\ncheckpoint_exit_code = 85\nmax_retries = 3\nqueue\n"
    )
    spec, lines = of(text)
    assert spec == {
        "image": "sim:1",
        "command": ["/app/sim", "--seed", "7", "--name", "two words", '"quoted"'],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "x y"}],
        "resources": {
            "requests": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1", "ephemeral-storage": "2Gi"},
        },
        "backoffLimit": 3,
        "checkpointExitCode": 85,
    }
    assert lines == []


def test_queue_of_many_is_an_array() -> None:
    text = BASE + "seed = 10$(Process)\narguments = --seed $(seed) --of $(Cluster).$(ProcId) \\\n  --x $(y:3)\n"
    spec, _ = of(text + "max_materialize = 5\nmax_retries = 99\ncheckpoint_exit_code = 85\nqueue 100\n")
    assert spec["array"] == {"tasks": 100, "maxRunning": 5}
    assert spec["backoffLimit"] == 15
    index = "$(SCAVENGER_TASK)"
    assert spec["command"] == ["/app/sim", "--seed", f"10{index}", "--of", f"sim.{index}", "--x", "3"]
    assert spec["checkpointExitCode"] == 85


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        ("queue name in (ada, bob eve)", ["<ada>", "<bob>", "<eve>"]),
        ("queue name,size from (\n  ada, 3 apples\n  it's, 4\n)", ["<ada 3 apples>", "<it's 4>"]),
        ("queue name in ($$ $(SCAVENGER_TASK))", ["<$$>", "<$(SCAVENGER_TASK)>"]),
        ("queue 2 name in (ada bob)", ["<ada>", "<ada>", "<bob>", "<bob>"]),
    ],
)
def test_each_task_has_its_item(queue: str, said: list[str]) -> None:
    second = " $(size)" if "size" in queue else ""
    text = f"executable = /bin/echo\nrequest_memory = 1GB\narguments = \"'<$(Name){second}>'\"\n{queue}\n"
    spec, _ = of(text)
    assert spec["array"] == {"tasks": len(said)}
    for task, line in enumerate(said):
        words = [expanded(word, {"SCAVENGER_TASK": str(task)}) for word in spec["command"]]
        done = subprocess.run(words, env={"SCAVENGER_TASK": str(task)}, capture_output=True, text=True, check=True)
        assert done.stdout == f"{line}\n"


def test_what_has_no_place_is_told() -> None:
    text = BASE + 'transfer_input_files = a.txt\nlog = sim.log\nrequirements = OpSys == "LINUX"\n+Own = 3\nqueue\n'
    assert [line.partition(":")[0] for line in of(text)[1]] == ["transfer_input_files", "log", "requirements", "+own"]
    lines = of("executable = /x\nrequest_memory = 1GB\narguments = $(Nothing)\nallowed_job_duration = 60\nqueue 2\n")[1]
    assert lines == [
        "$(Nothing): it has no value, and stands as it is",
        "allowed_job_duration: left out: tasks of an array have no deadline",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("executable = /x\nqueue\nqueue 3\n", "twice"),
        ("executable = /x\nuniverse = grid\nqueue\n", "grid"),
        ("universe = vanilla\nqueue\n", "executable is missing"),
        ("executable = /x\nqueue x from list.txt\n", "files that convert does not read"),
        ("executable = /x\nqueue files matching *.dat\n", "files that convert does not read"),
        ("executable = /x\nqueue 0\n", "1 to 100,000"),
        ("executable = /x\nqueue x,y from (\na\n)\n", "not every item"),
        ("executable = /x\nrequest_cpus = 2 * 3\nqueue\n", "not a number"),
        ("executable = /x\nrequest_memory = lots\nqueue\n", "no amount"),
        ("executable = /x\nif defined x\nqueue\n", "no command"),
    ],
)
def test_what_cannot_be_read(text: str, words: str) -> None:
    with pytest.raises(CliError) as refused:
        converted(text, "sim:1", "sim")
    assert words in f"{refused.value} {refused.value.remedy}"


def test_the_command(sj: Run, tmp_path: Path) -> None:
    path = tmp_path / "My sweep.sub"
    path.write_text(BASE + "queue 3\n")
    assert is_submit_file(path.read_text())
    assert "no image is named" in sj("convert", str(path))[2]
    code, out, _ = sj("convert", str(path), "--image", "sim:1")
    assert (code, yaml.safe_load(out)["metadata"]) == (0, {"name": "my-sweep"})
    path.write_text(BASE + "container_image = docker://sim:2\nqueue 3\n")
    assert yaml.safe_load(sj("convert", str(path))[1])["spec"]["image"] == "sim:2"
    assert "`kubectl sj convert` prints" in sj("submit", str(path))[2]


def test_other_text_is_no_submit_file() -> None:
    assert not is_submit_file("executable: x\nqueue: 3\n")
    assert not is_submit_file("a queue of words\n")
