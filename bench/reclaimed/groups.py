"""The control group of a pod, seen from the machine: what it used so far, and holding it still."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from scavenger_cluster import cgroups

_PARENT: Final = {"Guaranteed": "", "Burstable": "burstable/", "BestEffort": "besteffort/"}
_USED: Final = (("cpuacct.usage", 1e-9), ("cpu.stat", 1e-6))
"""File and seconds in a unit, on cgroup v1 and v2; the second is `usage_usec` in a list."""


class PodGroup:
    """The control group of one pod on a real node of the embedded cluster."""

    def __init__(self, cluster: str, pod: dict[str, Any]) -> None:
        """Finds it; LookupError when the pod has none (any more)."""
        node, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
        below = f"kubepods/{_PARENT[pod['status']['qosClass']]}pod{uid}"
        path = f"{cgroups.node_group(cluster, node)}/{below}".strip("/")
        self.folders = [folder for root in cgroups.hierarchies() if (folder := root / path).is_dir()]
        found = [(folder / name, unit) for name, unit in _USED for folder in self.folders if (folder / name).exists()]
        if not found:
            raise LookupError(f"pod {pod['metadata']['name']} has no control group {path}")
        self._usage, self._unit = found[0]

    def cpu_seconds(self) -> float:
        """CPU time of all its processes so far."""
        text = self._usage.read_text().split()
        return int(text[text.index("usage_usec") + 1] if "usage_usec" in text else text[0]) * self._unit

    def signal(self, number: int) -> None:
        """Send a signal to each of its processes."""
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _pids(self) -> set[int]:
        lists: list[Path] = [file for folder in self.folders for file in folder.rglob("cgroup.procs")]
        return {int(pid) for file in lists for pid in file.read_text().split() if int(pid) > 0}


@contextlib.contextmanager
def stopped(groups: Sequence[PodGroup]) -> Iterator[None]:
    """Pods that do not run for a while and know nothing of it: the same pods, the same memory, no CPU time."""
    try:
        for group in groups:
            group.signal(signal.SIGSTOP)
        yield
    finally:
        for group in groups:
            group.signal(signal.SIGCONT)


def watch(groups: Sequence[PodGroup], seconds: float, every: float) -> list[tuple[float, float]]:
    """(monotonic time, CPU seconds of all the groups together), read every so many seconds."""
    seen = []
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        seen.append((now, sum(group.cpu_seconds() for group in groups)))
        time.sleep(every)
    return seen
