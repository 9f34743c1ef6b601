"""Times, memory and arrays beside Debian's own Slurm: a controller on the loopback address says what it has understood.

Needs the packages slurm-client and slurmctld, and root, as whom the controller runs here.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest
from scavenger_api.task_numbers import numbers_of
from scavenger_cli.exits import CliError
from scavenger_cli.slurm_options import array, mebibytes, minutes

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("slurmctld") is None or os.getuid() != 0, reason="needs slurmctld, as root"),
]

OPTIONS: Final = 1000
SEED: Final = 77


@dataclass(frozen=True)
class Slurm:
    """A controller. environment: by which its programs find it."""

    environment: dict[str, str]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A program of Slurm."""
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False, timeout=60)

    def understood(self, option: str) -> dict[str, str] | None:
        """What the controller says of a job with this option; None where it is refused."""
        made = self.run("sbatch", "--hold", "--parsable", f"--{option}", "--wrap", "true")
        if made.returncode:
            return None
        number = made.stdout.strip()
        shown = self.run("scontrol", "show", "job", "-o", number).stdout
        self.run("scancel", number)
        return dict(word.split("=", 1) for word in shown.split() if "=" in word)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """A controller of one node that is never there."""
    folder = tmp_path_factory.mktemp("slurm")
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        ports = one.getsockname()[1], other.getsockname()[1]
    (folder / "state").mkdir()
    file = folder / "slurm.conf"
    file.write_text(
        "ClusterName=lab\nSlurmctldHost=localhost(127.0.0.1)\nSlurmUser=root\nAuthType=auth/none\nCredType=cred/none\n"
        f"SlurmctldPort={ports[0]}\nStateSaveLocation={folder}/state\nSlurmctldPidFile={folder}/pid\n"
        "ProctrackType=proctrack/linuxproc\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\n"
        "MaxArraySize=4000001\nMaxJobCount=100000\n"
        f"NodeName=n1 NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4096 RealMemory=640000000 State=UNKNOWN\n"
        "PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
    )
    made = Slurm({**os.environ, "SLURM_CONF": str(file), "SLURM_BITSTR_LEN": "0"})
    with (folder / "log").open("wb") as log:
        controller = subprocess.Popen(["slurmctld", "-D", "-f", file], stdout=log, stderr=log)
    try:
        for _ in range(100):
            if made.run("scontrol", "ping").stdout.find(" is UP") > 0:
                break
        yield made
    finally:
        controller.terminate()
        controller.wait(30)


def a_time(chance: random.Random) -> str:
    """A time limit, mostly one that there is."""
    days, small, large = chance.randrange(40), chance.randrange(60), chance.randrange(2000)
    return chance.choice((
        f"{large}", f"{large}:{small:02}", f"{small}:{small:02}:{small}", f"{days}-{small % 24}",
        f"{days}-{small % 24}:{small}", f"{days}-{small % 24}:{small}:{small}", f"{days}-",
        "0", "0:0", "UNLIMITED", "infinite", "-1", f"0:{small}", "1:2:3:4", "soon", f"{days}d", "1-", "1.5", "",
    ))  # fmt: skip


def an_amount(chance: random.Random) -> str:
    """An amount of memory."""
    return f"{chance.randrange(1, 600)}{chance.choice(('', 'K', 'k', 'M', 'G', 'g', 'MB', 'GB', 'X', '.5G', 'Mi'))}"


def some_indexes(chance: random.Random) -> str:
    """The indexes of an array."""
    parts = []
    for _ in range(chance.randint(1, 4)):
        first = chance.randrange(0, 200)
        last, step = first + chance.randrange(-2, 60), chance.randrange(0, 7)
        parts.append(chance.choice((f"{first}", f"{first}-{last}", f"{first}-{last}:{step}")))
    limit = chance.choice(("", "", f"%{chance.randrange(0, 9)}"))
    return ",".join(parts) + limit


def shown_minutes(text: str) -> int:
    """TimeLimit of scontrol, in minutes; 0 for none."""
    if text in ("UNLIMITED", "Partition_Limit"):
        return 0
    return minutes("shown", text)


def shown_mebibytes(text: str) -> float:
    """MinMemoryNode of scontrol, in MiB."""
    number, unit = re.fullmatch(r"([\d.]+)([KMGT]?)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}[unit]


def test_times_memory_and_arrays_agree(slurm: Slurm) -> None:
    chance, taken = random.Random(SEED), 0
    wrong: list[str] = []
    for number in range(OPTIONS):
        kind = ("time", "mem", "array")[number % 3]
        text = {"time": a_time, "mem": an_amount, "array": some_indexes}[kind](chance)
        theirs = slurm.understood(f"{kind}={text}")
        ours: object
        found: object
        try:
            if kind == "time":
                ours, found = minutes("--time", text), theirs and shown_minutes(theirs["TimeLimit"])
            elif kind == "mem":
                ours, found = mebibytes("--mem", text), theirs and shown_mebibytes(theirs["MinMemoryNode"])
            else:
                made = array(text)
                ours = [*numbers_of(made.get("tasks", 0), made.get("indexes", ""))], made.get("maxRunning")
                found = theirs and shown_array(theirs["ArrayTaskId"])
        except CliError:
            ours, found = None, theirs
        taken += theirs is not None
        if ours != found:
            wrong.append(f"{kind}={text}: here {ours}, there {found}")
    assert not wrong, "\n".join(wrong)
    assert taken > OPTIONS // 2, "most of them are taken"


def shown_array(text: str) -> tuple[list[int], int | None]:
    """ArrayTaskId of scontrol."""
    ranges, _, limit = text.partition("%")
    made = array(ranges)
    return [*numbers_of(made.get("tasks", 0), made.get("indexes", ""))], int(limit) if limit else None
