"""Control groups, on cgroup v1, v2 and machines that have both: who gets the CPU when there is not enough for all.

    /scavenger                         BUSY_SHARES times the claim of any other busy process of the machine
      control                          control planes, our services, kwok, and who runs the tests: half of it
      nodes/<cluster>/<node>           all pods of all real nodes together: the other half
        system                         containerd, kubelet, kube-proxy: SYSTEM_SHARES times the claim of a core of pods

So whatever burns in containers, an API server answers. The other way round it is worse: beside a control plane that
keeps every core busy with many threads, the kernel gives throttled pods less than their half, and the load that is
measured is too low. So tests that measure one are kept apart from those that saturate the machine (marker `cpu`).
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from scavenger_cluster.waiting import KILL_SECONDS, wait_for, wait_for_end

ROOT = Path("/sys/fs/cgroup")
PARENT = "scavenger"
CONTROL_GROUP = f"/{PARENT}/control"
NODES_GROUP = f"/{PARENT}/nodes"
BUSY_SHARES = 4
"""A machine that does something else as well is still to be a cluster: a burning process beside it costs it little."""
SYSTEM_SHARES = 4
"""A kubelet has little to do, but what waits for it waits for the node."""
V2_CONTROLLERS = "+cpu +cpuset +memory +pids"


def hierarchies(root: Path = ROOT) -> list[Path]:
    """Return the folders below which groups are made: one on cgroup v2, one per controller on v1."""
    if (root / "cgroup.controllers").exists():
        return [root]
    return sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.is_symlink())


def node_group(cluster: str, node: str) -> str:
    """Return the group of a node. It is the root of the node's own cgroup namespace, so that what the node reports as
    its use is the use of its own processes, however many nodes and other things there are on the machine."""
    return f"{cluster_group(cluster)}/{node}"


def cluster_group(cluster: str) -> str:
    """Return the group of all real nodes of a cluster."""
    return f"{NODES_GROUP}/{cluster}"


def daemons_group(cluster: str, node: str) -> str:
    """Return the group of the node's containerd, kubelet and kube-proxy."""
    return f"{node_group(cluster, node)}/system"


# Moves itself into groups and goes on as the program; the arguments are cgroup.procs files, `--`, the program.
_JOIN_SCRIPT = 'while [ "$1" != -- ]; do echo 0 > "$1"; shift; done; shift; exec "$@"'


def joining(group: str, argv: Sequence[str], folders: Sequence[Path] | None = None) -> tuple[str, ...]:
    """Return the arguments that run a program inside a group, in every hierarchy or those given."""
    hierarchies_ = hierarchies() if folders is None else folders
    files = [str(hierarchy / group.strip("/") / "cgroup.procs") for hierarchy in hierarchies_]
    return ("sh", "-c", _JOIN_SCRIPT, "join", *files, "--", *argv)


def with_cpu_claim(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments that run a program in the control group; unchanged where groups cannot be made."""
    folders = ensure_control_group()
    return joining(CONTROL_GROUP, argv, folders) if folders else tuple(argv)


def ensure_control_group(root: Path = ROOT) -> list[Path]:
    """Make the control group where CPU is shared out, and return those hierarchies; none without the right to."""
    folders = cpu_hierarchies(root)
    try:
        for hierarchy in folders:
            _create(hierarchy, CONTROL_GROUP)
        _share_out(root)
    except OSError:  # not root, or control groups that can only be read
        return []
    return folders


@contextlib.contextmanager
def cpu_claim(root: Path = ROOT) -> Iterator[None]:
    """Be in the control group, with all that is started meanwhile: for those who bring clusters up and watch them.

    Does nothing where groups cannot be made, or not be joined.
    """
    folders = ensure_control_group(root)
    before = {folder: own_group(folder, root) for folder in folders}
    try:
        for folder in folders:
            with contextlib.suppress(OSError):
                _move(os.getpid(), folder / CONTROL_GROUP.strip("/"))
        yield
    finally:
        for folder, group in before.items():
            with contextlib.suppress(OSError):
                _move(os.getpid(), folder / group.strip("/"))
        remove_empty(root)


def _move(pid: int, group: Path) -> None:
    (group / "cgroup.procs").write_text(str(pid))


def own_group(hierarchy: Path, root: Path, table: Path = Path("/proc/self/cgroup")) -> str:
    """Return the group that we are in, of the hierarchy in that folder."""
    for line in table.read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        if (hierarchy == root and not controllers) or "cpu" in controllers.split(","):
            return group
    return "/"


def cpu_hierarchies(root: Path = ROOT) -> list[Path]:
    """Return the hierarchies in which CPU is shared out: one, or none where groups cannot be seen."""
    if not root.is_dir():
        return []
    return [folder for folder in hierarchies(root) if folder == root or (folder / "cpu.shares").exists()]


def create(group: str, root: Path = ROOT) -> None:
    """Make a group in every hierarchy; controllers (v2) or cpus and memory nodes (v1) are handed down."""
    for hierarchy in hierarchies(root):
        _create(hierarchy, group)
    _share_out(root)


def _create(hierarchy: Path, group: str) -> None:
    parent = hierarchy
    for name in group.strip("/").split("/"):
        child = parent / name
        child.mkdir(exist_ok=True)
        _hand_down(parent, child)
        parent = child


def _share_out(root: Path) -> None:
    """Set the claims at the top: ours against the rest of the machine, and control planes as much as all pods."""
    claim(f"/{PARENT}", BUSY_SHARES, root)
    for group in (CONTROL_GROUP, NODES_GROUP):
        claim(group, 1, root)


def claim(group: str, times: int, root: Path = ROOT) -> None:
    """Give a group that exists so many times the usual claim to CPU, against those beside it."""
    for folder in cpu_hierarchies(root):
        for name, usual in (("cpu.shares", 1024), ("cpu.weight", 100)):
            file = folder / group.strip("/") / name
            if file.exists():
                file.write_text(str(usual * times))


def _hand_down(parent: Path, child: Path) -> None:
    if (parent / "cgroup.subtree_control").exists():
        with contextlib.suppress(OSError):
            (parent / "cgroup.subtree_control").write_text(V2_CONTROLLERS)
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = child / name
        if (parent / "cgroup.clone_children").exists() and file.exists() and not file.read_text().strip():
            file.write_text((parent / name).read_text())


def kill(group: str, root: Path = ROOT) -> None:
    """Kill everything in a group and below it. Raises WaitTimeoutError, naming what is left, when that takes long."""

    def kill_all() -> set[int]:
        pids = set(_pids(group, root))
        if pids:
            thaw(group, root)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return pids

    wait_for_end(f"processes in cgroup {group} to die", kill_all)


def thaw(group: str, root: Path = ROOT) -> None:
    """Let frozen groups run: on cgroup v1 a frozen process does not die, and a container is frozen while runc, which
    may be killed at that moment, ends it."""
    for folder in _groups(group, root):
        for name, thawed in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
            with contextlib.suppress(OSError):
                if (folder / name).exists():
                    (folder / name).write_text(thawed)


def remove(group: str, root: Path = ROOT) -> None:
    """Remove a group and all below it, once its processes have left it."""

    def remove_all() -> bool:
        for folder in _groups(group, root):
            with contextlib.suppress(OSError):
                folder.rmdir()
        return not list(_groups(group, root))

    wait_for(f"cgroup {group} to empty", remove_all, timeout=KILL_SECONDS, interval=0.05)


def remove_empty(root: Path = ROOT) -> None:
    """Remove the groups of this package that nobody is in any more; who still runs keeps its own."""
    for hierarchy in hierarchies(root) if root.is_dir() else []:
        for group in (CONTROL_GROUP, NODES_GROUP, f"/{PARENT}"):
            with contextlib.suppress(OSError):
                (hierarchy / group.strip("/")).rmdir()


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
