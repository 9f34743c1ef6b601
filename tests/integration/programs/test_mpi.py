"""Open MPI itself as a gang of two pods, processes on two loopback addresses: started without ssh, interrupted as one,
and the same to the last bit in the end."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from scavenger_checkpoint import EXIT_SAVED, reported_checkpoint
from scavenger_cluster import stack
from scavenger_cluster.ports import any_free_port
from scavenger_cluster.shell import find_program

from .conftest import PYTHON, REPOSITORY, Member, codes_of, has_modules, last_step, needs, placed

pytestmark = [pytest.mark.cpu, pytest.mark.long]

HEAT = (PYTHON, str(REPOSITORY / "demo-apps" / "mpi" / "heat.py"), "--grid=256")
ENDLESS = "--steps=1000000000"
"""Never done before it is interrupted, however late that is; how many it is to make is said when that is known."""
PEERS = ("127.0.0.1", "127.0.0.2")
SECRET = "the secret of this job"


@pytest.fixture(scope="module", autouse=True)
def _open_mpi() -> None:
    needs(
        ["openmpi-bin", "python3-mpi4py", "python3-numpy"],
        lambda: find_program("mpirun") is not None and has_modules("mpi4py", "numpy"),
    )


class Gang:
    """Two pods of a job, and their volume."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.data = folder / "data"
        self._key = folder / "key"
        self._key.write_text(SECRET)
        self._starts = itertools.count()

    def start(self, *program: str, size: int = 2, peers: Sequence[str] = PEERS) -> list[Member]:
        """Start all of them anew. peers: by what names they know each other."""
        start, port = next(self._starts), any_free_port("0.0.0.0")
        return [
            Member(
                [PYTHON, "-m", "scavenger_mpi", f"--bind={PEERS[index]}", "--", *program],
                {
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": stack.python_path("mpi"),
                    "OMPI_ALLOW_RUN_AS_ROOT": "1",
                    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                    "OMPI_MCA_btl_tcp_if_include": "lo",
                    "OMPI_MCA_oob_tcp_if_include": "lo",
                    "SCAVENGER_MPI_SECRET": str(self._key),
                    "SCAVENGER_MPI_PORT": str(port),
                    **placed(index, tuple(peers[:size]), start),
                },
                self.folder / f"message-{start}-{index}",
            )
            for index in range(size)
        ]

    def heat(self, *words: str, size: int = 2) -> list[Member]:
        return self.start(*HEAT, f"--dir={self.data}", *words, size=size)

    def finish(self, steps: int, size: int = 2) -> tuple[bytes, bytes]:
        """Start them until they are done; both results, byte for byte."""
        members = self.heat(f"--steps={steps}", size=size)
        codes_of(members, *[0] * size)
        return (self.data / "field").read_bytes(), (self.data / "result.json").read_bytes()


@pytest.fixture
def gang(tmp_path: Path) -> Gang:
    return Gang(tmp_path / "gang")


def test_a_gang_of_two_is_interrupted_as_one_and_comes_to_the_same_field(gang: Gang, tmp_path: Path) -> None:
    # Only the pod without the launcher is told to end: the ranks of both save at the same step.
    members = gang.heat(ENDLESS)
    members[0].wait_for("started at step 0, 2 ranks")
    members[1].stop()
    codes_of(members, EXIT_SAVED, EXIT_SAVED)
    first = last_step("saved", members[0].output)
    assert reported_checkpoint(members[0].message.read_text()) is not None
    assert members[1].message.read_text() == ""  # index 0 reports for all

    # A pod is gone without a word: the other goes as well, and it is no failure.
    members = gang.heat(ENDLESS, "--checkpoint-seconds=0.2")
    members[0].wait_for(f"resumed at step {first}, 2 ranks")
    members[0].wait_for("saved step")
    members[1].kill()
    members[1].end()
    assert members[0].end() == EXIT_SAVED, members[0].output
    assert "a member is gone" in members[0].output
    second = last_step("saved", members[0].output)
    assert second > first

    # The launcher is gone: its agent ends the ranks that it has started, and waits to be ended with its gang.
    members = gang.heat(ENDLESS)
    members[0].wait_for("resumed at step")
    members[0].kill()
    members[0].end()
    members[1].wait_for("orted ended with")
    members[1].stop()
    members[1].end()

    members = gang.heat(ENDLESS)
    members[0].wait_for("resumed at step")
    assert last_step("resumed at", members[0].output) >= second
    for member in members:
        member.stop()
    codes_of(members, EXIT_SAVED, EXIT_SAVED)

    steps = last_step("saved", members[0].output) + 25
    interrupted = gang.finish(steps)
    uninterrupted = Gang(tmp_path / "uninterrupted").finish(steps, size=1)  # one rank, on its own
    assert interrupted == uninterrupted
    result = json.loads(uninterrupted[1])
    assert result["steps"] == steps
    assert result["error"] < 1e-9  # beside the closed form


def test_the_launcher_needs_no_name_of_its_own_in_the_dns(gang: Gang) -> None:
    codes_of(gang.start(PYTHON, "-c", "from mpi4py import MPI", peers=("launcher.invalid", PEERS[1])), 0, 0)


def test_a_program_that_fails_has_all_pods_fail(gang: Gang) -> None:
    script = "import sys; from mpi4py import MPI; sys.exit(7 if MPI.COMM_WORLD.rank == 1 else 0)"
    members = gang.start(PYTHON, "-c", script)
    codes_of(members, 7, 7)
