"""A training with PyTorch itself, alone and as a gang of two: interrupted again and again, it has the same losses."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from scavenger_checkpoint import EXIT_SAVED, reported_checkpoint
from scavenger_checkpoint.comparison import Result
from scavenger_checkpoint.tester import Trial
from scavenger_cluster import stack
from scavenger_cluster.ports import any_free_port

from .conftest import PYTHON, REPOSITORY, Member, codes_of, has_modules, last_step, needs, passed, placed

pytestmark = [pytest.mark.cpu, pytest.mark.long]

COMMAND = [PYTHON, "-m", "scavenger_pytorch", f"--text={REPOSITORY / 'LICENSE'}", "--batch=4", "--say=1"]
ENVIRONMENT = {"PATH": os.environ["PATH"], "PYTHONPATH": stack.python_path("pytorch")}
ENDLESS = "--steps=1000000"
"""Never done before it is interrupted, however late that is; how many it is to make is said when that is known."""


@pytest.fixture(scope="module", autouse=True)
def _pytorch() -> None:
    needs(["python3-torch"], lambda: has_modules("torch"))


class Gang:
    """The members of a training on loopback. Each has a volume of its own: only that of index 0 is used."""

    def __init__(self, folder: Path, size: int = 2) -> None:
        folder.mkdir()
        self.folder = folder
        self._size = size
        self._starts = itertools.count()

    def start(self, *words: str) -> list[Member]:
        """Start all of them anew."""
        start, port = next(self._starts), any_free_port("0.0.0.0")
        return [
            Member(
                [*COMMAND, f"--dir={self.folder / str(index)}", f"--port={port}", *words],
                {
                    **ENVIRONMENT,
                    "GLOO_SOCKET_IFNAME": "lo",
                    **placed(index, [f"127.0.0.{n + 1}" for n in range(self._size)], start),
                },
                self.folder / f"message-{start}-{index}",
            )
            for index in range(self._size)
        ]

    def finish(self, steps: int) -> bytes:
        """Start them until they are done; the result, byte for byte."""
        members = self.start(f"--steps={steps}")
        codes_of(members, *[0] * self._size)
        assert not (self.folder / "1").exists()
        return (self.folder / "0" / "result.json").read_bytes()


@pytest.fixture
def gang(tmp_path: Path) -> Gang:
    return Gang(tmp_path / "gang")


def test_alone_it_comes_to_the_same_losses_and_weights(tmp_path: Path) -> None:
    """The tester of programs, with signals of both kinds at lines that the seed decides on."""
    trial = Trial(
        [*COMMAND, "--dir={folder}", "--steps=60", "--checkpoint-seconds=0.2"],
        tmp_path / "runs",
        results=[Result("result.json")],
        seed=2,
        interruptions=4,
        by_lines=True,
        environment=ENVIRONMENT,
    )
    assert "warning" not in passed(trial)
    result: dict[str, Any] = json.loads((trial.folder / "uninterrupted" / "result.json").read_text())
    assert len(result["losses"]) == 60
    assert len(set(result["losses"])) > 50  # of real batches, and not of one
    assert sum(result["losses"][-10:]) < 0.9 * sum(result["losses"][:10])  # it learns


def test_a_gang_of_two_comes_to_the_same_losses_and_weights(gang: Gang, tmp_path: Path) -> None:
    # Only one of them is told to end: both save at the same step.
    members = gang.start(ENDLESS)
    members[1].wait_for("step 5 of")
    members[1].stop()
    codes_of(members, EXIT_SAVED, EXIT_SAVED)
    first = last_step("saved", members[0].output)
    assert first >= 5
    assert reported_checkpoint(members[0].message.read_text()) is not None
    assert members[1].message.read_text() == ""  # index 0 reports for all

    # One is killed after a checkpoint: the other goes as well, and it is no failure.
    members = gang.start(ENDLESS, "--checkpoint-seconds=0.2")
    members[1].wait_for(f"resumed at step {first} of")
    members[0].wait_for("saved step")
    members[1].kill()
    members[1].end()
    assert members[0].end() == EXIT_SAVED
    assert "a member is gone" in members[0].output
    second = last_step("saved", members[0].output)
    assert second > first

    # The newest checkpoint is torn: the one before it holds.
    checkpoint = gang.folder / "0" / "checkpoint"
    os.truncate(checkpoint, checkpoint.stat().st_size // 2)
    members = gang.start(ENDLESS)
    members[0].wait_for("resumed at step")
    assert "fallback: checkpoint: its checksum is wrong" in members[0].output
    assert first <= last_step("resumed at", members[0].output) <= second
    members[0].wait_for("loss", times=3)
    for member in members:
        member.stop()
    codes_of(members, EXIT_SAVED, EXIT_SAVED)

    steps = last_step("saved", members[0].output) + 5
    interrupted = gang.finish(steps)
    uninterrupted = Gang(tmp_path / "uninterrupted").finish(steps)
    assert json.loads(uninterrupted)["members"] == 2
    assert len(json.loads(uninterrupted)["losses"]) == steps
    assert interrupted == uninterrupted
    # Who is started again has nothing left to do.
    assert gang.finish(steps) == uninterrupted


def test_its_exit_code_does_not_depend_on_the_end_of_the_interpreter(tmp_path: Path) -> None:
    """In which threads of torch may abort the process; here it is certain that something does."""
    (tmp_path / "sitecustomize.py").write_text("import atexit, os\natexit.register(os.abort)\n")
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ENVIRONMENT['PYTHONPATH']}"}
    member = Member([*COMMAND, f"--dir={tmp_path / 'work'}", "--steps=2"], environment, tmp_path / "message")
    assert member.end() == 0, member.output
    assert member.output.splitlines()[-1].split(maxsplit=1)[1].startswith("finished, loss")


def test_another_training_is_not_gone_on_with(tmp_path: Path) -> None:
    def run(*words: str) -> tuple[int, str]:
        member = Member([*COMMAND, f"--dir={tmp_path / 'work'}", *words], ENVIRONMENT, tmp_path / "message")
        return member.end(), member.output

    code, output = run("--steps=3")
    assert code == 0, output
    code, output = run("--steps=4", "--seed=2")
    assert code == 2
    assert "error: begun with {'seed': 1," in output
    code, output = run("--steps=2")
    assert code == 2
    assert "error: 3 steps are made already" in output
