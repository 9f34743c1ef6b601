"""GROMACS itself, as demo-apps/gromacs runs it: killed at chosen steps, it still makes each step that counts once."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import scavenger_checkpoint
from scavenger_checkpoint import EXIT_SAVED, reported_checkpoint
from scavenger_checkpoint.contract import ENV_MESSAGE_PATH
from scavenger_cluster import requirements
from scavenger_cluster.errors import MissingRequirementError
from scavenger_cluster.shell import find_program

APPLICATION = Path(__file__).resolve().parents[3] / "demo-apps" / "gromacs"
CONFIGURATION = {
    "model": "spce",
    "molecules": 216,
    "temperature": 298.15,
    "seed": 7,
    "time_step_fs": 2,
    "steps": 6000,  # so many that it is never done before it is killed, whatever else the machine does
    "output_interval": 50,
}


@pytest.fixture(scope="module", autouse=True)
def _gromacs() -> None:
    """`gmx`, from the Debian package."""
    if find_program("gmx") is None:
        try:
            requirements.install(["gromacs"], print, allowed=True)
        except MissingRequirementError as error:
            pytest.skip(str(error))


class Folder:
    """A work folder, and what runs in it."""

    def __init__(self, path: Path, **changes: object) -> None:
        self.path = path
        self.message = path / "message"
        self.message.touch()
        (path / "configuration.json").write_text(json.dumps({**CONFIGURATION, **changes}))

    def start(self) -> subprocess.Popen[str]:
        sources = [Path(scavenger_checkpoint.__file__).parents[1], APPLICATION]
        return subprocess.Popen(
            [sys.executable, "-S", "-m", "scavenger_gromacs", f"--dir={self.path}", "--checkpoint-minutes=15"],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": os.pathsep.join(map(str, sources)),
                ENV_MESSAGE_PATH: str(self.message),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def finish(self) -> tuple[int, str]:
        process = self.start()
        output = process.communicate(timeout=300)[0]
        return process.returncode, output

    def kill(self, number: int, *, start: int, beyond: int) -> tuple[int, str]:
        """Let it make `beyond` steps in its start of that number, and send it a signal; its exit code and output."""
        process = self.start()
        while not self._is_at(start, beyond):
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.005)
        if number == signal.SIGKILL:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        output = process.communicate(timeout=60)[0]
        return process.returncode, output

    def mark(self) -> dict[str, Any]:
        """How far the last start was."""
        found: dict[str, Any] = json.loads((self.path / "run" / "mark.json").read_text())
        return found

    def _is_at(self, start: int, beyond: int) -> bool:
        try:
            mark = self.mark()
        except (FileNotFoundError, ValueError):
            return False
        return bool(mark["start"] == start and mark["reached"] >= mark["first"] + beyond)

    def cut(self, name: str) -> None:
        """Leave half of a checkpoint, as a volume that is full would."""
        file = self.path / "run" / name
        os.truncate(file, file.stat().st_size // 2)

    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / "result.json").read_text())
        return found


def test_it_is_killed_three_times_and_makes_all_its_steps(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
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
    result = folder.result()
    assert folder.mark()["reached"] == result["steps"] == 6000
    assert (result["starts"], result["ranks"], result["threads"]) == (4, 1, 1)
    assert result["recomputed_steps"] == (ends[1] - ends[0]) + lost
    assert 900 < result["density"]["value"] < 1100  # SPC/E at room temperature: 998 kg/m^3, in a very short run
    assert math.isfinite(result["diffusion"]["value"])
    assert result["ns_per_day"] > 0
    # Who is started again has nothing left to do.
    code, output = folder.finish()
    assert code == 0
    assert output.endswith("finished already\n")


def test_without_a_whole_checkpoint_it_begins_anew(tmp_path: Path) -> None:
    folder = Folder(tmp_path, steps=2500)
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
    assert folder.result()["recomputed_steps"] == reached


def test_a_time_step_that_is_too_long_is_told_from_other_failures(tmp_path: Path) -> None:
    folder = Folder(tmp_path, time_step_fs=10, steps=2000)
    code, output = folder.finish()
    assert code == 1, output
    failure = json.loads((tmp_path / "failure.json").read_text())
    assert failure["reason"] == "Unstable"
    assert "can not be settled" in failure["message"]
    assert not (tmp_path / "result.json").exists()


def test_files_of_another_run_are_not_gone_on_with(tmp_path: Path) -> None:
    """A trajectory that was replaced behind its back: mdrun refuses the checkpoint, and it begins anew."""
    folder = Folder(tmp_path, steps=1500)
    code, output = folder.kill(signal.SIGTERM, start=1, beyond=200)
    assert code == EXIT_SAVED, output
    (tmp_path / "run" / "ener.edr").write_bytes(b"something else")
    code, output = folder.finish()
    assert code == 0, output
    assert "Cannot do appending" in output
    assert folder.result()["steps"] == 1500
    assert folder.result()["recomputed_steps"] >= 200
