"""The processes that descend from this one, and which of them are ranks of an MPI program. Linux only."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

_RANK: Final = b"OMPI_COMM_WORLD_RANK="
"""What Open MPI puts into the environment of each rank."""
_PROC: Final = Path("/proc")


def descendants(parents: Mapping[int, int], root: int) -> list[int]:
    """All processes below `root`, parents before their children. `parents`: the parent of each process."""
    found = [root]
    for process in found:
        found += sorted(child for child, parent in parents.items() if parent == process)
    return found[1:]


def topmost(ranks: Collection[int], parents: Mapping[int, int]) -> list[int]:
    """Of processes with a rank's environment those that Open MPI has started; the others are children of these."""
    return sorted(process for process in ranks if parents.get(process) not in ranks)


def parents_now() -> dict[int, int]:
    """The parent of each process that is there."""
    found = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                # Its name, in parentheses, may have anything in it.
                found[int(entry.name)] = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
    return found


def ranks_below(root: int) -> list[int]:
    """The ranks that run below this process."""
    parents = parents_now()
    return topmost([process for process in descendants(parents, root) if _is_rank(process)], parents)


def signal_all(processes: Collection[int], number: int) -> None:
    """Send a signal to those that are still there."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


class Farewell:
    """SIGTERM to the ranks below a process, to each once: a program may take the second one for less patience."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._told: set[int] = set()

    def send(self) -> None:
        """To those that have not had it; again and again, as some may be about to begin."""
        ranks = set(ranks_below(self._root)) - self._told
        signal_all(ranks, signal.SIGTERM)
        self._told |= ranks


def kill_below(root: int) -> None:
    """Kill all that descends from this process."""
    signal_all(descendants(parents_now(), root), signal.SIGKILL)


def _is_rank(process: int) -> bool:
    try:
        environment = (_PROC / str(process) / "environ").read_bytes()
    except OSError:
        return False
    return any(variable.startswith(_RANK) for variable in environment.split(b"\0"))
