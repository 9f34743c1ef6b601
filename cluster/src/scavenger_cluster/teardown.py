"""Taking a cluster apart, whatever is left of it."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from scavenger_cluster import cgroups, network
from scavenger_cluster.control_plane import API_SERVER, ETCD
from scavenger_cluster.errors import CommandError
from scavenger_cluster.layout import Layout
from scavenger_cluster.process import ProcessTable, find_marked, terminate
from scavenger_cluster.shell import run

KEPT = ("state.json", "pki", "etcd", "nodes", "lock")


def stop_everything(name: str, processes: ProcessTable, *, grace: float) -> None:
    """Stop all processes of a cluster: clients first, then containers, API server, and the database last.

    Each group has `grace` seconds to end by itself.
    """
    servers = (API_SERVER, ETCD)
    clients = [component for component in processes.names() if component not in servers]
    terminate([who for part in clients if (who := processes.running(part))], grace=grace)
    group = f"/{cgroups.PARENT}/{name}"
    if os.geteuid() == 0 and cgroups.ROOT.is_dir():
        cgroups.kill(group)
    left = find_marked(name, component=lambda component: component not in servers)
    terminate(left, grace=0)
    for server in servers:
        processes.stop(server, grace=grace)
    terminate(find_marked(name), grace=grace)
    if os.geteuid() == 0 and cgroups.ROOT.is_dir():
        cgroups.kill(group)
        cgroups.remove(group)
        _remove_empty_parent()


def remove_traces(name: str, layout: Layout, *, keep_data: bool) -> None:
    """Remove namespaces, interfaces, mounts and files of a cluster whose processes are gone."""
    if os.geteuid() == 0:
        network.remove_network(name)
        unmount_below(layout.root)
    if not layout.root.exists():
        return
    if not keep_data:
        shutil.rmtree(layout.root)
        return
    for entry in layout.root.iterdir():
        if entry.name not in KEPT:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def unmount_below(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> None:
    """Unmount everything at or below a folder, innermost first."""
    for target in mounts_below(folder, mounts.read_text()):
        with contextlib.suppress(CommandError):
            run(["umount", "--lazy", target])


def mounts_below(folder: Path, table: str) -> list[Path]:
    """Return the mount points at or below a folder, innermost first, from the text of /proc/self/mounts."""
    found = []
    for line in table.splitlines():
        target = Path(line.split(" ")[1].encode().decode("unicode_escape"))
        if target.is_relative_to(folder):
            found.append(target)
    return sorted(found, key=lambda path: len(path.parts), reverse=True)


def _remove_empty_parent() -> None:
    for hierarchy in cgroups.hierarchies():
        with contextlib.suppress(OSError):
            (hierarchy / cgroups.PARENT).rmdir()


def remove_folder(folder: Path) -> None:
    """Delete a folder, after unmounting what is mounted in it."""
    unmount_below(folder)
    shutil.rmtree(folder, ignore_errors=True)
