"""PlanetLab: the CPU use of virtual machines over a day, as CloudSim distributes it.

A line is a virtual machine: 288 whole percentages, one for each five minutes. The trace has no names, requests, memory
or arrivals. So a machine becomes an ordinary pod that is there all day, whose use is `percent` of `cores`, which
requests what it uses at the 75th percentile and goes above it as its limit allows, and uses a constant share of the
memory it requests. All of this is stated in the scenario's origin.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scavenger_simulator.inputs.nodes import GIB
from scavenger_simulator.inputs.reading import InputError, lines
from scavenger_simulator.scenario import FOREVER, OrdinaryPod, UsageTrace

STEP_SECONDS: Final = 300.0
STEPS: Final = 288


@dataclass(frozen=True, slots=True)
class MachineSize:
    """What the trace leaves open. cpu_milli: that 100 percent is of. request_percentile: of its use, that a machine
    requests, at least `least_request_milli`. memory_bytes: it requests. memory_use: share of that it uses."""

    cpu_milli: int = 1000
    request_percentile: float = 75.0
    least_request_milli: int = 50
    memory_bytes: int = GIB // 2
    memory_use: float = 0.5


def read_planetlab(path: Path, size: MachineSize | None = None) -> tuple[OrdinaryPod, ...]:
    """Each machine as a pod that is there from 0 on. Raises InputError."""
    size = size or MachineSize()
    memory = array("Q", [round(size.memory_bytes * size.memory_use)] * STEPS)
    pods: list[OrdinaryPod] = []
    for number, line in lines(path):
        if not line.strip():
            continue
        percents = _percents(str(path), number, line)
        used = array("I", [round(percent * size.cpu_milli / 100) for percent in percents])
        rank = min(STEPS - 1, int(STEPS * size.request_percentile / 100))
        request = max(size.least_request_milli, sorted(used)[rank])
        pods.append(
            OrdinaryPod(
                name=f"vm-{len(pods):05d}",
                arrives=0.0,
                leaves=FOREVER,
                cpu_request_milli=request,
                memory_request_bytes=size.memory_bytes,
                usage=UsageTrace(0.0, STEP_SECONDS, used, memory),
            )
        )
    if not pods:
        raise InputError("it has no lines", f"a line is a machine: {STEPS} percentages", source=str(path))
    return tuple(pods)


def _percents(source: str, number: int, line: str) -> list[int]:
    cells = line.split(",")
    if len(cells) != STEPS:
        remedy = f"a line is a machine: {STEPS} whole percentages, one for each five minutes of a day"
        raise InputError(f"it has {len(cells)} fields", remedy, source=source, line=number)
    try:
        found = [int(cell) for cell in cells]
        if min(found) >= 0 and max(found) <= 100:
            return found
    except ValueError:
        pass
    place, cell = next((i, cell) for i, cell in enumerate(cells, 1) if not _is_percentage(cell))
    remedy = "write a whole number from 0 to 100"
    raise InputError(f"{cell!r} is no percentage", remedy, source=source, line=number, field=str(place))


def _is_percentage(cell: str) -> bool:
    try:
        return 0 <= int(cell) <= 100
    except ValueError:
        return False
