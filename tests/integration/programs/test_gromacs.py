"""GROMACS itself, as demo-apps/gromacs runs it: killed at chosen steps, it still makes each step that counts once."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from scavenger_checkpoint import EXIT_SAVED, reported_checkpoint
from scavenger_cluster import stack
from scavenger_cluster.shell import find_program

from .conftest import REPOSITORY, WorkFolder, needs

pytestmark = [pytest.mark.cpu, pytest.mark.long]

CONFIGURATION = {
    "model": "spce",
    "molecules": 216,
    "temperature": 298.15,
    "seed": 7,
    "time_step_fs": 2,
    "output_interval": 50,
}


class DoneTooSoonError(Exception):
    """The program made all its steps before it was killed: the test was held up meanwhile."""


def with_steps(fewest: int) -> Callable[[Callable[[Path, int], None]], Callable[[Path], None]]:
    """Tell a test how many steps its programs have to make: so many, and twice as many whenever they were too few.

    GROMACS makes some thousand steps in a second, for which the test may just have no CPU.
    """

    def decorate(test: Callable[[Path, int], None]) -> Callable[[Path], None]:
        def enough(tmp_path: Path) -> None:
            for steps in (fewest << doubled for doubled in range(8)):
                folder = tmp_path / str(steps)
                folder.mkdir()
                try:
                    return test(folder, steps)
                except DoneTooSoonError:
                    continue
            raise AssertionError(f"{steps} steps were too few")

        enough.__name__, enough.__doc__ = test.__name__, test.__doc__
        return enough

    return decorate


@pytest.fixture(scope="module", autouse=True)
def _gromacs() -> None:
    needs(["gromacs"], lambda: find_program("gmx") is not None)


class Folder(WorkFolder):
    """One in which GROMACS writes no checkpoint before it is told to end."""

    def __init__(self, path: Path, **changes: object) -> None:
        command = [sys.executable, "-S", "-m", "scavenger_gromacs", "--checkpoint-minutes=15"]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": stack.python_path("gromacs")}
        super().__init__(path, command, environment, {**CONFIGURATION, **changes})

    def kill(self, number: int, *, start: int, beyond: int) -> tuple[int, str]:
        """Let it make `beyond` steps in its start of that number, and send it a signal; its exit code and output.

        Raises DoneTooSoonError where it had come to its last step.
        """
        program = self.start()
        while program.running and not self._is_at(start, beyond):
            time.sleep(0.005)
        if number == signal.SIGKILL:
            program.kill()
        else:
            program.stop()
        code = program.end()
        steps = self.read("configuration.json")["steps"]
        if self._is_at(start, beyond) and self.mark()["reached"] >= steps:
            raise DoneTooSoonError
        return code, program.output

    def _is_at(self, start: int, beyond: int) -> bool:
        try:
            mark = self.mark()
        except (FileNotFoundError, ValueError):
            return False
        return bool(mark["start"] == start and mark["reached"] >= mark["first"] + beyond)


@with_steps(6000)
def test_it_is_killed_three_times_and_makes_all_its_steps(tmp_path: Path, steps: int) -> None:
    folder = Folder(tmp_path, steps=steps)
    ends: list[int] = []
    for start in (1, 2):
        code, output = folder.kill(signal.SIGTERM, start=start, beyond=100)
        assert code == EXIT_SAVED, output
        assert reported_checkpoint(folder.message.read_text()) is not None
        mark = folder.mark()
        assert mark["first"] == (ends[-1] if ends else 0)
        ends.append(mark["reached"])
    # The newest checkpoint is torn: the one before it holds, and the steps between the two are made again.
    folder.cut("state.cpt")
    code, output = folder.kill(signal.SIGKILL, start=3, beyond=100)
    assert code == -signal.SIGKILL
    assert "fallback" in output
    assert folder.mark()["first"] == ends[0]
    lost = folder.mark()["reached"] - ends[0]
    assert lost >= 100

    code, output = folder.finish()
    assert code == 0, output
    result = folder.read("result.json")
    assert folder.mark()["reached"] == result["steps"] == steps
    assert (result["starts"], result["ranks"], result["threads"]) == (4, 1, 1)
    assert result["recomputed_steps"] == (ends[1] - ends[0]) + lost
    assert 900 < result["density"]["value"] < 1100  # SPC/E at room temperature: 998 kg/m^3, in a very short run
    assert math.isfinite(result["diffusion"]["value"])
    assert result["ns_per_day"] > 0
    # Who is started again has nothing left to do.
    code, output = folder.finish()
    assert code == 0
    assert output.endswith("finished already\n")


@with_steps(2500)
def test_without_a_whole_checkpoint_it_begins_anew(tmp_path: Path, steps: int) -> None:
    folder = Folder(tmp_path, steps=steps)
    reached = 0
    for start in (1, 2):
        code, output = folder.kill(signal.SIGTERM, start=start, beyond=50)
        assert code == EXIT_SAVED, output
        reached = folder.mark()["reached"]
    folder.cut("state.cpt")
    folder.cut("state_prev.cpt")
    code, output = folder.finish()
    assert code == 0, output
    assert output.count("fallback") == 2
    assert folder.mark()["first"] == 0
    assert folder.read("result.json")["recomputed_steps"] == reached


def test_a_time_step_that_is_too_long_is_told_from_other_failures(tmp_path: Path) -> None:
    folder = Folder(tmp_path, time_step_fs=10, steps=2000)
    code, output = folder.finish()
    assert code == 1, output
    failure = folder.read("failure.json")
    assert failure["reason"] == "Unstable"
    # It depends on the rounding, and so on the processor, whether GROMACS finds that out or crashes.
    assert "can not be settled" in failure["message"] or "crashed (SIGSEGV) after step" in failure["message"]
    assert not (tmp_path / "result.json").exists()


def test_the_same_seeds_are_run_with_and_without_interruptions(tmp_path: Path) -> None:
    """demo-apps/science_compare.py, in little: whether so few steps come to the same result is a matter of chance."""
    data = tmp_path / "runs.json"
    words = ["--seeds=2", "--steps=800", "--interruptions=1", "--checkpoint-minutes=15", f"--data={data}"]
    command = [sys.executable, str(REPOSITORY / "demo-apps" / "science_compare.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert data.exists(), done.stdout + done.stderr
    runs = json.loads(data.read_text())
    assert {way: [run["seed"] for run in each] for way, each in runs.items()} == {
        "uninterrupted": [1, 2],
        "interrupted": [1, 2],
    }
    for run in (*runs["uninterrupted"], *runs["interrupted"]):
        assert (run["steps"], run["recomputed_steps"]) == (800, sum(run["lost"]))
    assert not any(run["signals"] for run in runs["uninterrupted"])


@with_steps(1500)
def test_files_of_another_run_are_not_gone_on_with(tmp_path: Path, steps: int) -> None:
    """A trajectory that was replaced behind its back: mdrun refuses the checkpoint, and it begins anew."""
    folder = Folder(tmp_path, steps=steps)
    code, output = folder.kill(signal.SIGTERM, start=1, beyond=200)
    assert code == EXIT_SAVED, output
    (tmp_path / "run" / "ener.edr").write_bytes(b"something else")
    code, output = folder.finish()
    assert code == 0, output
    assert "Cannot do appending" in output
    assert folder.read("result.json")["steps"] == steps
    assert folder.read("result.json")["recomputed_steps"] >= 200
