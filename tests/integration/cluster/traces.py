"""What a cluster leaves on the machine: everything that carries its name, and what must not change at all."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from scavenger_cluster import Cluster, cgroups
from scavenger_cluster.plan import link_name
from scavenger_cluster.process import find_marked


def traces(cluster: Cluster) -> dict[str, list[str]]:
    """Return whatever of this cluster is on the machine, by kind; empty lists after `down`."""
    data = str(cluster.data_dir)
    groups = [hierarchy / cgroups.cluster_group(cluster.name).strip("/") for hierarchy in cgroups.hierarchies()]
    return {
        "processes": [str(process.pid) for process in find_marked(cluster.name, cluster.data_dir)]
        + [command for command in _commands() if data in command],
        "mounts": [line for line in Path("/proc/self/mounts").read_text().splitlines() if data in line],
        "namespaces": [path.name for path in _entries("/run/netns") if f"-{cluster.name}-" in path.name],
        "links": [path.name for path in _entries("/sys/class/net") if path.name == link_name(cluster.name)],
        "routes": [line for line in _run("ip", "route") if link_name(cluster.name) in line],
        "cgroups": [str(group) for group in groups if group.exists()],
        "files": [data] if cluster.data_dir.exists() else [],
        "registry": [cluster.name] if cluster.name in cluster.registry.clusters() else [],
    }


def untouched() -> dict[str, list[str]]:
    """Return what no cluster may ever change: the machine's firewall and kernel settings."""
    return {
        # Without what each chain has counted: packets of anybody.
        "iptables": [re.sub(r"\[\d+:\d+\]", "", s) for s in _run("iptables-save") if not s.startswith("#")],
        "sysctls": [
            f"{path}={path.read_text().strip()}"
            for name in ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")
            if (path := Path("/proc/sys") / name).exists()
        ],
        "forwarding": [Path("/proc/sys/net/ipv4/ip_forward").read_text()],
        "kubelet": [str(path) for path in (Path("/var/lib/kubelet"), Path("/var/lib/cni")) if path.exists()],
    }


def _commands() -> Iterator[str]:
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):  # others come and go meanwhile
                yield (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def _entries(folder: str) -> list[Path]:
    return list(Path(folder).iterdir()) if Path(folder).is_dir() else []


def _run(*words: str) -> list[str]:
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.splitlines()
    except FileNotFoundError:
        return []
