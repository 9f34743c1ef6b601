"""What a status says that jobs computed, beside what the kernel counted: on one real kubelet.

Jobs with a guarantee burn all of their CPU: one that is left alone, one that is interrupted half way, and a gang of
two. The status has request times duration for them. Two more do the same on reclaimed capacity, where it has the CPU
time that was measured. Useful and lost are added up, as neither is anything that the kernel knows.

The kernel's figures are read from the control groups of the pods, ten times a second, up to the last moment of each.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any, Final

from scavenger_api import names
from scavenger_cluster.requirements import obstacles

from bench import Skipped
from bench.reclaimed.groups import PodGroup
from bench.reclaimed.harness import Ordinary, Place, up

SECONDS: Final = 120
MILLICORES: Final = 100
MIB: Final = 64
CODE: Final = f"""
import time
end = time.monotonic() + {SECONDS}
while time.monotonic() < end:
    pass
"""
INTERRUPTED: Final = {"guaranteed": "kept-twice", "reclaimed": "idle-twice"}
JOBS: Final = {"guaranteed": ("kept", "kept-twice", "kept-gang"), "reclaimed": ("idle", "idle-twice")}

Figure = dict[str, Any]


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    if obstacles():
        raise Skipped(f"no real nodes here: {'; '.join(obstacles())}")
    cluster = up("bench-ledger")
    try:
        with Place(cluster, "ledger") as place, metered(place) as kernel:
            return ledger_figures(place, kernel)
    finally:
        cluster.down()


def ledger_figures(place: Place, kernel: dict[str, dict[str, float]]) -> list[Figure]:
    """Both sums, and how far they are apart. kernel: CPU seconds by job and pod, as far as they are known."""
    Ordinary(place, "web", {"cpu": "700m", "memory": "512Mi"})
    count = len(JOBS["reclaimed"])
    place.wait_offer(cpu=count * MILLICORES, memory=count * MIB)
    for name in JOBS["guaranteed"]:
        requests = {"cpu": f"{MILLICORES}m", "memory": f"{MIB}Mi"}
        place.compute(name, CODE, parallelism=2 if name.endswith("gang") else 1, resources={"requests": requests})
    for name in JOBS["reclaimed"]:
        place.submit(name, cpu=MILLICORES, memory=MIB, code=CODE)
    everybody = [*chain(*JOBS.values())]
    place.wait("all jobs run", lambda: place.running(everybody), 120)
    time.sleep(SECONDS / 2)
    for name in INTERRUPTED.values():
        [pod] = place.staying(name)
        place.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
    done = 4 * SECONDS
    place.wait("all are done", lambda: all(place.phase(name) == "Completed" for name in everybody), done)
    return [figure for kind, jobs in JOBS.items() for figure in compared(place, kind, jobs, kernel)]


def compared(place: Place, kind: str, jobs: Sequence[str], kernel: dict[str, dict[str, float]]) -> list[Figure]:
    """Of jobs of one kind. Raises RuntimeError where one was not interrupted as often as it should have been."""
    status = {name: place.status(name) for name in jobs}
    for name, found in status.items():
        if found["interruptedCount"] != (name == INTERRUPTED[kind]):
            raise RuntimeError(f"{name} was interrupted {found['interruptedCount']} times\n{place.describe()}")
    told = {name: found["usefulCPUSeconds"] + found["lostCPUSeconds"] for name, found in status.items()}
    counted = {name: sum(kernel[name].values()) for name in jobs}
    worst = max(abs(told[name] / counted[name] - 1) for name in jobs)
    total, truth = sum(told.values()), sum(counted.values())
    return [
        _figure(f"ledger.{kind}.error_percent", 100 * abs(total / truth - 1), "%", "<= 2"),
        _figure(f"ledger.{kind}.worst_job_percent", 100 * worst, "%"),
        _figure(f"ledger.{kind}.status", total, "CPU s"),
        _figure(f"ledger.{kind}.kernel", truth, "CPU s"),
    ]


@contextmanager
def metered(place: Place) -> Iterator[dict[str, dict[str, float]]]:
    """CPU seconds of each pod of a job, by job and uid, for the length of a block."""
    seen: dict[str, dict[str, float]] = defaultdict(dict)
    groups: dict[tuple[str, str], PodGroup] = {}
    over = threading.Event()

    def read() -> None:
        looked = 0.0
        while not over.is_set():
            if time.monotonic() > looked + 0.5:
                looked = time.monotonic()
                for pod in place.objects("pods", names.LABEL_JOB):
                    key = pod["metadata"]["labels"][names.LABEL_JOB], pod["metadata"]["uid"]
                    if key not in groups and pod["spec"].get("nodeName"):
                        with suppress(LookupError):
                            groups[key] = PodGroup(place.cluster.name, pod)
            for (job, uid), group in groups.items():
                with suppress(OSError):  # it has gone
                    seen[job][uid] = group.cpu_seconds()
            over.wait(0.1)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def _figure(name: str, value: float, unit: str, goal: str | None = None) -> Figure:
    return {"name": name, "value": round(value, 3), "unit": unit, "goal": goal}
