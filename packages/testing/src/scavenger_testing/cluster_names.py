"""Names of clusters that only one process of tests has at a time."""

from __future__ import annotations

import fcntl
import os
from itertools import count
from typing import Final

from scavenger_cluster import Cluster
from scavenger_cluster.layout import state_dir

_CLAIMED: Final[dict[str, tuple[str, int]]] = {}
"""What this process asked for, what it was given, and the file that holds the claim until the process ends."""


def cluster_name(name: str) -> str:
    """The name of a cluster that only this process of tests has: `name`, or `name-2`, … while another one has it.

    Tests of one file may be in both lanes of `make test-clusters`, and a developer may run one of them meanwhile.
    Two processes that bring up a cluster of the same name would be given the same one, with each other's jobs in it,
    and the first to end would take it down. For the same reason a cluster of this name that a killed process has left
    is taken down: what runs there would hold its resources for ever.
    """
    if name not in _CLAIMED:
        free, _ = _CLAIMED[name] = next(
            (free, lock)
            for free in (name if number == 1 else f"{name}-{number}" for number in count(1))
            if (lock := _claim(free)) is not None
        )
        left = Cluster(free, report=lambda line: None)
        if left.data_dir.exists():
            left.down()
    return _CLAIMED[name][0]


def _claim(name: str) -> int | None:
    """The locked file of a name; None while another process has it. The kernel gives it back when the process ends.

    The file is beside the clusters: a program that finds these finds it too, with any folder for temporary files.
    """
    folder = state_dir() / "test-names"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(folder / name, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file
