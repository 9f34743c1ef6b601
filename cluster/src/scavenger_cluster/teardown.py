"""Taking a cluster apart, whatever is left of it."""

from __future__ import annotations

import contextlib
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scavenger_cluster import cgroups, network, ownership
from scavenger_cluster.control_plane import API_SERVER, ETCD
from scavenger_cluster.errors import ClusterError, CommandError
from scavenger_cluster.layout import Layout
from scavenger_cluster.process import ProcessTable, find_marked, namesakes, terminate
from scavenger_cluster.shell import run

KEPT = ("state.json", "pki", "etcd", "nodes")
MOUNTS = Path("/proc/self/mounts")
AT_ONCE = 16
"""Files that are deleted at once. A file system that is mounted with `discard` waits for the disk at each of them, and
the images of a node have ten thousand."""


def real_nodes_elsewhere(name: str, layout: Layout) -> list[Path]:
    """Return the data folders of this user's other clusters of this name with real nodes.

    Control groups, network namespaces and interfaces are named after the cluster alone: they are theirs then.
    """
    return namesakes(name, layout.root, component=lambda component: component.startswith("node"))


def stop_everything(name: str, layout: Layout, processes: ProcessTable, *, grace: float) -> None:
    """Stop all processes of a cluster: clients first, then containers, API server, and the database last.

    Each group has `grace` seconds to end by itself.
    """
    servers = (API_SERVER, ETCD)
    clients = [component for component in processes.names() if component not in servers]
    processes.end(clients, grace=grace)
    group = cgroups.cluster_group(name)
    has_groups = _may_have_real_nodes(name, layout) and cgroups.ROOT.is_dir()
    if has_groups:
        cgroups.kill(group)
    left = find_marked(name, layout.root, component=lambda component: component not in servers)
    terminate(left, grace=0)
    for server in servers:
        processes.stop(server, grace=grace)
    terminate(find_marked(name, layout.root), grace=grace)
    if has_groups:
        cgroups.kill(group)
        cgroups.remove(group)
        cgroups.remove_empty()


def remove_traces(name: str, layout: Layout, *, keep_data: bool) -> None:
    """Remove namespaces, interfaces, mounts and files of a cluster whose processes are gone.

    Files are deleted only where the marker says that they are the cluster's. It goes last: whoever is interrupted may
    call this again.
    """
    if _may_have_real_nodes(name, layout):
        network.remove_network(name)
    if ownership.owner(layout) != name:
        return
    unmount_below(layout.root)
    for entry in layout.root.iterdir():
        if entry not in (layout.marker, layout.lock) and not (keep_data and entry.name in KEPT):
            _delete(entry)
    if not keep_data:
        ownership.remove_ownership(layout)
        with contextlib.suppress(OSError):  # the next command waits in it for the lock, or a disk is mounted here
            layout.root.rmdir()


def _may_have_real_nodes(name: str, layout: Layout) -> bool:
    return os.geteuid() == 0 and not real_nodes_elsewhere(name, layout)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        _delete_files(path)
        shutil.rmtree(path)
    else:
        path.unlink()


def _delete_files(folder: Path) -> None:
    """Delete what is no folder, as far as it can be deleted."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for inner, _, files in os.walk(folder):
            for name in files:
                pool.submit(os.unlink, os.path.join(inner, name))  # noqa: PTH118 - of thousands


def unmount_below(folder: Path) -> None:
    """Unmount everything below a folder, innermost first, as far as we may; what is mounted at the folder itself stays.

    Raises ClusterError if something is left: deleting the folder would delete what is in there.
    """
    for target in _mounted_in(folder) if os.geteuid() == 0 else ():
        with contextlib.suppress(CommandError):
            run(["umount", "--lazy", target])
    if left := _mounted_in(folder):
        raise ClusterError(f"{left[0]} is mounted and cannot be unmounted; do so by hand and call this again")


def _mounted_in(folder: Path) -> list[Path]:
    return [target for target in mounts_below(folder, MOUNTS.read_text()) if target != folder]


def mounts_below(folder: Path, table: str) -> list[Path]:
    """Return the mount points at or below a folder, innermost first, from the text of /proc/self/mounts."""
    found = []
    for line in table.splitlines():
        target = Path(line.split(" ")[1].encode().decode("unicode_escape"))
        if target.is_relative_to(folder):
            found.append(target)
    return sorted(found, key=lambda path: len(path.parts), reverse=True)


def remove_folder(folder: Path) -> None:
    """Delete a folder, after unmounting what is mounted in it."""
    unmount_below(folder)
    _delete_files(folder)
    shutil.rmtree(folder, ignore_errors=True)
