"""The wrapper of GROMACS as a process, around a `gmx` that computes nothing: what it does at each kind of end."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from scavenger_checkpoint import reported_checkpoint
from scavenger_checkpoint.contract import ENV_MESSAGE_PATH
from scavenger_cluster import stack

LIMIT = 590.0
"""Each start is ten processes, one after the other: seconds by itself, a minute beside a load of 40."""
pytestmark = [pytest.mark.timeout(LIMIT + 10), pytest.mark.slow]
CONFIGURATION = {
    "model": "spce",
    "molecules": 216,
    "temperature": 298.15,
    "seed": 1,
    "time_step_fs": 2,
    "steps": 1000,
    "output_interval": 50,
}


class Folder:
    """A work folder with a plan of what mdrun does, and the wrapper in it."""

    def __init__(self, path: Path, *plan: tuple[int, str], **changes: object) -> None:
        self.path = path / "work"
        self.run = self.path / "run"
        self.run.mkdir(parents=True)
        self.message = path / "message"
        self.message.touch()
        (self.path / "plan.json").write_text(json.dumps(plan))
        (self.path / "configuration.json").write_text(json.dumps({**CONFIGURATION, **changes}))
        programs = path / "bin"
        programs.mkdir()
        gmx = programs / "gmx"
        stand_in = Path(__file__).with_name("gmx.py")
        gmx.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{stand_in}" "$@"\n')
        gmx.chmod(0o755)
        self.search = f"{programs}:/usr/bin:/bin"

    def start(self, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-S", "-m", "scavenger_gromacs", f"--dir={self.path}"],
            env={
                "PATH": self.search,
                "PYTHONPATH": stack.python_path("gromacs"),
                ENV_MESSAGE_PATH: str(self.message),
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, **environment: str) -> tuple[int, str]:
        process = self.start(**environment)
        output = process.communicate(timeout=LIMIT)[0]
        return process.returncode, output

    def stop_at(self, step: int) -> tuple[int, str]:
        """Send SIGTERM as soon as it knows that mdrun is there."""
        process = self.start()
        while self.mark().get("reached") != step:
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.01)
        process.terminate()
        output = process.communicate(timeout=LIMIT)[0]
        return process.returncode, output

    def mark(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.run / "mark.json").read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return found

    def written(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / name).read_text())
        return found

    def said(self, tool: str) -> list[list[str]]:
        """The words of each call of one program."""
        lines = (self.path / "said.jsonl").read_text().splitlines()
        return [words for words in map(json.loads, lines) if words[0] == tool]


def test_uninterrupted(tmp_path: Path) -> None:
    folder = Folder(tmp_path, (1000, "finish"))
    code, output = folder.finish()
    assert code == 0, output
    result = folder.written("result.json")
    assert result["density"] == {"value": 998.0, "error": 1.5, "unit": "kg/m^3"}
    assert result["diffusion"]["value"] == pytest.approx(2.5)  # 0.25 for frames that are 0.1 ps apart
    assert (result["steps"], result["recomputed_steps"], result["starts"]) == (1000, 0, 1)
    assert reported_checkpoint(folder.message.read_text()) is not None


def test_told_to_end_it_saves_and_goes_on_from_there(tmp_path: Path) -> None:
    folder = Folder(tmp_path, (400, "wait"), (1000, "finish"))
    code, output = folder.stop_at(400)
    assert code == 85, output
    assert reported_checkpoint(folder.message.read_text()) is not None
    assert not (folder.path / "result.json").exists()
    code, output = folder.finish()
    assert code == 0, output
    assert "-cpi" not in folder.said("mdrun")[1]  # the first is the minimisation
    assert "-cpi" in folder.said("mdrun")[2]
    assert folder.written("result.json")["recomputed_steps"] == 0
    assert len(folder.said("grompp")) == 2


def test_a_torn_checkpoint_gives_way_to_the_one_before(tmp_path: Path) -> None:
    folder = Folder(tmp_path, (1000, "finish"))
    (folder.run / "state.cpt").write_text("700")
    (folder.run / "state_prev.cpt").write_text("300.")
    code, output = folder.finish()
    assert code == 0, output
    assert folder.mark()["first"] == 300
    assert (folder.run / "state.cpt.damaged").read_text() == "700"


def test_a_checkpoint_is_not_given_up_for_want_of_memory(tmp_path: Path) -> None:
    folder = Folder(tmp_path, (1000, "finish"))
    (folder.run / "state.cpt").write_text("-9.")
    assert folder.finish()[0] == 1
    assert folder.written("failure.json")["reason"] == "OutOfMemory"
    assert (folder.run / "state.cpt").exists()


def test_a_checkpoint_that_mdrun_refuses_gives_way_too(tmp_path: Path) -> None:
    refusal = "Program: x\n\nInconsistency in user input:\nCannot do appending because\n\nFor more information"
    folder = Folder(tmp_path, (700, refusal), (300, refusal), (1000, "finish"))
    (folder.run / "state.cpt").write_text("700.")
    (folder.run / "state_prev.cpt").write_text("300.")
    (folder.run / "traj.xtc").write_text("of another run")
    code, output = folder.finish()
    assert code == 0, output
    assert output.count("fallback") == 2
    assert folder.mark()["first"] == 0
    assert not (folder.run / "traj.xtc").exists()


def test_all_steps_made_only_the_analysis_is_left(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    (folder.run / "state.cpt").write_text("1000.")
    code, output = folder.finish()
    assert code == 0, output
    assert len(folder.said("mdrun")) == 1  # the minimisation
    assert folder.finish()[1].endswith("finished already\n")


@pytest.mark.parametrize(
    ("then", "reason"),
    [
        ("step 160: One or more water molecules can not be settled.", "Unstable"),
        ("std::bad_alloc", "OutOfMemory"),
        ("kill", "OutOfMemory"),
        ("something else", "Error"),
    ],
)
def test_a_failure_says_why_and_a_new_start_tries_again(then: str, reason: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path, (300, then), (1000, "finish"))
    assert folder.finish()[0] == 1
    failure = folder.written("failure.json")
    assert failure["reason"] == reason
    assert failure["message"]
    assert folder.finish()[0] == 0
    assert not (folder.path / "failure.json").exists()
    assert folder.written("result.json")["recomputed_steps"] == 300


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"KILLED": "grompp"}, "OutOfMemory"),
        ({"BROKEN": "grompp"}, "Preparation"),
        ({"BROKEN": "solvate"}, "Preparation"),
        ({"KILLED": "msd"}, "OutOfMemory"),
        ({"BROKEN": "energy"}, "Error"),
    ],
)
def test_a_tool_that_fails_is_told(environment: dict[str, str], reason: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path, (1000, "finish"))
    assert folder.finish(**environment)[0] == 1
    failure = folder.written("failure.json")
    assert failure["reason"] == reason
    if "BROKEN" in environment:
        assert failure["message"] == f"gmx {environment['BROKEN']} ended with 1: it is broken"
    assert folder.finish()[0] == 0
    assert folder.written("result.json")["steps"] == 1000


def test_its_time_is_over(tmp_path: Path) -> None:
    folder = Folder(tmp_path, (300, "finish"), wall_seconds=60)
    assert folder.finish()[0] == 1
    assert folder.written("failure.json") == {
        "reason": "WallTime",
        "message": "step 300 of 1000 when its time was over",
    }
    assert "-maxh" in folder.said("mdrun")[-1]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "InvalidConfiguration"),
        ("{}", "InvalidConfiguration"),
        (json.dumps({**CONFIGURATION, "seed": 2}), "OtherConfiguration"),
    ],
)
def test_what_is_wrong_with_the_configuration_is_told(content: str | None, reason: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path, (1000, "finish"))
    assert folder.finish()[0] == 0
    (folder.path / "configuration.json").unlink()
    if content is not None:
        (folder.path / "configuration.json").write_text(content)
    code, output = folder.finish()
    assert code == 2, output
    assert folder.written("failure.json")["reason"] == reason


def test_without_gromacs_it_says_what_to_install(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.search = str(tmp_path / "nothing")
    assert folder.finish()[0] == 1
    assert "apt-get install gromacs" in folder.written("failure.json")["message"]


def test_two_do_not_work_in_one_folder(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with (folder.path / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        code, output = folder.finish()
    assert code == 75
    assert "another process works in" in output


def test_mdrun_that_outlives_the_wrapper_holds_the_folder(tmp_path: Path) -> None:
    folder = Folder(tmp_path, (400, "wait"), (1000, "finish"))
    process = folder.start()
    while folder.mark().get("reached") != 400:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.wait()
    try:
        assert folder.finish()[0] == 75
    finally:
        for child in children:
            os.kill(int(child), signal.SIGKILL)
    process.communicate()
    while _held(folder.path / "lock"):
        time.sleep(0.01)
    code, output = folder.finish()
    assert code == 0, output
    assert folder.written("result.json")["recomputed_steps"] == 400


def _held(lock: Path) -> bool:
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
