"""The control groups of real nodes, on cgroup v1, v2 and machines that have both."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from scavenger_cluster.waiting import wait_for

ROOT = Path("/sys/fs/cgroup")
PARENT = "scavenger"
NODE_SHARES = 16
"""A node has so many times the claim to CPU of any other busy process: it is to behave like a machine of its own, whose
containers get what they may use, while the control plane beside it still answers."""
V2_CONTROLLERS = "+cpu +cpuset +memory +pids"


def hierarchies(root: Path = ROOT) -> list[Path]:
    """Return the folders below which groups are made: one on cgroup v2, one per controller on v1."""
    if (root / "cgroup.controllers").exists():
        return [root]
    return sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.is_symlink())


def node_group(cluster: str, node: str) -> str:
    """Return the group of a node. It is the root of the node's own cgroup namespace, so that what the node reports as
    its use is the use of its own processes, however many nodes and other things there are on the machine."""
    return f"/{PARENT}/{cluster}/{node}"


def daemons_group(cluster: str, node: str) -> str:
    """Return the group of the node's containerd, kubelet and kube-proxy."""
    return f"{node_group(cluster, node)}/system"


# Moves itself into groups and goes on as the program; the arguments are cgroup.procs files, `--`, the program.
_JOIN_SCRIPT = 'while [ "$1" != -- ]; do echo 0 > "$1"; shift; done; shift; exec "$@"'


def joining(group: str, argv: Sequence[str], root: Path = ROOT) -> tuple[str, ...]:
    """Return the arguments that run a program inside a group."""
    files = [str(hierarchy / group.strip("/") / "cgroup.procs") for hierarchy in hierarchies(root)]
    return ("sh", "-c", _JOIN_SCRIPT, "join", *files, "--", *argv)


def create(group: str, root: Path = ROOT) -> None:
    """Make a group in every hierarchy; controllers (v2) or cpus and memory nodes (v1) are handed down."""
    for hierarchy in hierarchies(root):
        parent = hierarchy
        for name in group.strip("/").split("/"):
            child = parent / name
            child.mkdir(exist_ok=True)
            _hand_down(parent, child)
            parent = child


def prefer(group: str, root: Path = ROOT) -> None:
    """Give a group, and those it is in, NODE_SHARES times the usual share of CPU when there is not enough for all."""
    for hierarchy in hierarchies(root):
        folder = hierarchy
        for part in group.strip("/").split("/"):
            folder = folder / part
            for name, usual in (("cpu.shares", 1024), ("cpu.weight", 100)):
                if (folder / name).exists():
                    (folder / name).write_text(str(usual * NODE_SHARES))


def _hand_down(parent: Path, child: Path) -> None:
    if (parent / "cgroup.subtree_control").exists():
        with contextlib.suppress(OSError):
            (parent / "cgroup.subtree_control").write_text(V2_CONTROLLERS)
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = child / name
        if (parent / "cgroup.clone_children").exists() and file.exists() and not file.read_text().strip():
            file.write_text((parent / name).read_text())


def kill(group: str, root: Path = ROOT) -> None:
    """Kill everything in a group and below it."""

    def kill_all() -> bool:
        pids = list(_pids(group, root))
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not pids

    wait_for(f"processes in cgroup {group} to die", kill_all, timeout=20, interval=0.02)


def remove(group: str, root: Path = ROOT) -> None:
    """Remove a group and all below it, once its processes have left it."""

    def remove_all() -> bool:
        for folder in _groups(group, root):
            with contextlib.suppress(OSError):
                folder.rmdir()
        return not list(_groups(group, root))

    wait_for(f"cgroup {group} to empty", remove_all, timeout=20, interval=0.05)


def _groups(group: str, root: Path) -> Iterator[Path]:
    """Yield the folders of a group, deepest first."""
    for hierarchy in hierarchies(root):
        top = hierarchy / group.strip("/")
        for folder, _, _ in os.walk(top, topdown=False):
            yield Path(folder)


def _pids(group: str, root: Path) -> Iterator[int]:
    for folder in _groups(group, root):
        with contextlib.suppress(OSError):
            for line in (folder / "cgroup.procs").read_text().split():
                if int(line) > 0:
                    yield int(line)
