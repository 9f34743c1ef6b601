"""OpenMM itself, as demo-apps/openmm runs it: interrupted at any moment, it comes to the same bits."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from scavenger_checkpoint import EXIT_SAVED, reported_checkpoint
from scavenger_checkpoint.comparison import Result
from scavenger_checkpoint.tester import Trial
from scavenger_cluster import stack

from .conftest import REPOSITORY, WorkFolder, passed, wheels

pytestmark = [pytest.mark.cpu, pytest.mark.long]

CONFIGURATION = {
    "model": "spce",
    "molecules": 216,
    "temperature": 298.15,
    "seed": 7,
    "time_step_fs": 2,
    "steps": 300,
    "output_interval": 20,
}
COMMAND = [sys.executable, "-S", "-m", "scavenger_openmm", "--checkpoint-minutes=0"]
LIMIT = 600.0


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    installed = wheels(REPOSITORY / "demo-apps" / "openmm" / "requirements.txt")
    return {"PATH": os.environ["PATH"], "PYTHONPATH": f"{stack.python_path('openmm')}{os.pathsep}{installed}"}


class Folder(WorkFolder):
    """One in which a checkpoint is written, and said, after each frame."""

    def __init__(self, path: Path, environment: dict[str, str], **changes: object) -> None:
        super().__init__(path, COMMAND, environment, {**CONFIGURATION, **changes})

    def stop_after(self, checkpoints: int) -> str:
        """SIGTERM when it has said so many times that it has saved; what it has said."""
        program = self.start()
        program.wait_for(" saved ", times=checkpoints)
        program.stop()
        assert program.end() == EXIT_SAVED, program.output
        assert reported_checkpoint(self.message.read_text()) is not None
        return program.output


@pytest.fixture(scope="module")
def begun(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which all is prepared and no step was made that counts: most of the time is in that."""
    folder = Folder(tmp_path_factory.mktemp("openmm") / "begun", environment)
    folder.stop_after(1)
    for name in ("state.xml", "state.xml.previous", "frames.bin", "mark.json", "starts.jsonl"):
        (folder.path / "run" / name).unlink(missing_ok=True)
    return folder.path


@pytest.mark.timeout(LIMIT)
def test_interrupted_by_both_signals_it_comes_to_the_same_bits(
    begun: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """The tester of programs, at lines that the seed decides on."""
    told = frozenset({"ns_per_day", "recomputed_steps", "starts"})
    trial = Trial(
        [*COMMAND, "--dir={folder}"],
        tmp_path / "runs",
        inputs=begun,
        results=[Result("run/frames.bin"), Result("result.json", is_json=True, ignored=told)],
        seed=3,
        interruptions=4,
        by_lines=True,
        environment=environment,
    )
    passed(trial)
    result: dict[str, Any] = json.loads((trial.folder / "uninterrupted" / "result.json").read_text())
    assert (result["steps"], result["recomputed_steps"], result["starts"]) == (300, 0, 1)
    assert 850 < result["density"]["value"] < 1150  # it has made 0.6 ps
    assert result["diffusion"]["unit"] == "1e-5 cm^2/s"
    assert result["ns_per_day"] > 0


@pytest.mark.timeout(LIMIT)
def test_torn_checkpoints_give_way_to_the_one_before_and_to_none(
    begun: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    shutil.copytree(begun, tmp_path / "work")
    folder = Folder(tmp_path / "work", environment)
    folder.stop_after(2)
    reached = folder.mark()["reached"]
    folder.cut("state.xml")
    assert "fallback" in folder.stop_after(1)
    first = folder.mark()["first"]
    assert 0 < first < reached
    again = folder.mark()["reached"] - first
    folder.cut("frames.bin")  # a checkpoint that counts on frames that are not there
    code, output = folder.finish()
    assert code == 0, output
    assert "frames.bin is cut short" in output
    assert folder.mark()["first"] == 0
    assert folder.read("result.json")["recomputed_steps"] == reached + again
    assert folder.finish()[1].endswith("finished already\n")


@pytest.mark.timeout(LIMIT)
def test_what_cannot_be_computed_is_told_with_its_reason(
    begun: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    shutil.copytree(begun, tmp_path / "work")
    (tmp_path / "work" / "run" / "configuration.json").unlink()  # the same water, and another time step
    folder = Folder(tmp_path / "work", environment, time_step_fs=20)
    assert folder.finish("--ranks=2")[0] == 1
    assert folder.read("failure.json")["reason"] == "Decomposition"
    code, output = folder.finish()
    assert code == 1, output
    assert folder.read("failure.json")["reason"] == "Unstable"
    assert not (tmp_path / "work" / "result.json").exists()
    too_small = Folder(tmp_path / "small", environment, molecules=100)
    assert too_small.finish()[0] == 2
    assert "molecules: must be a whole number from 216" in too_small.read("failure.json")["message"]
