"""The oracle: what somebody could do at most who knows the future. A bound, computed; nothing is simulated.

It cheats wherever that makes the bound safe. Ordinary pods are given what they request from the moment they arrive to
the moment they leave; all the CPU that is not requested then, cluster-wide, can be used, memory, nodes and gangs not
being in the way. Jobs are a fluid: cut, moved and stopped at will, with no start, no checkpoint and no loss. Each can
take its work and no more, and at no moment more than its CPU, from its submission to the end.

How much work that allows at most is a maximum flow: from jobs (their work) over moments (their CPU) to the room that
there is. It is bounded by every cut. A cut chooses moments that count as full:

    useful <= sum of the room in these + for each job the smaller of its work and what it can take in all the others

The least of them, over all choices, is the maximum; `_least_cut` finds it for moments that are not infinitely short.

A policy keeps jobs running where the oracle does not only by keeping an ordinary pod waiting. So for every policy

    progress(policy) <= useful(oracle) + delayed_core_hours(policy)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from scavenger_simulator.clock import seconds, ticks
from scavenger_simulator.cluster import Cluster, core_hours
from scavenger_simulator.policy import Policy
from scavenger_simulator.result import RunResult, Totals
from scavenger_simulator.scenario import Scenario
from scavenger_simulator.usage import mean_use

CELLS: Final = 1000
"""Parts of the time among which a cut chooses: a minute and a half of a day."""


def foresee(scenario: Scenario, seed: int) -> RunResult:
    """The bound for a scenario; its `useful`, `progress` and `harvested` are one figure, and nothing is lost."""
    start, end = ticks(scenario.start), ticks(scenario.end)
    span = max(1, end - start)
    cluster = Cluster(scenario.nodes, start)
    rooms = list(_rooms(scenario, start, end))
    free = [(since, until, max(0, cluster.cpu_milli - requested)) for since, until, requested in rooms]
    used = _least_cut(free, _work(scenario, start, end), start, end)
    useful = core_hours(used)
    cpu, memory = mean_use(scenario, start, end)
    without = 100.0 * cpu / max(1, cluster.cpu_milli)
    without_memory = 100.0 * memory / max(1, cluster.memory_bytes)
    totals = Totals(
        utilisation=without + 100.0 * used / span / max(1, cluster.cpu_milli),
        utilisation_without=without,
        memory_utilisation=without_memory,
        memory_utilisation_without=without_memory,
        harvested=useful,
        useful=useful,
        progress=useful,
        ordinary_pods=sum(1 for pod in scenario.ordinary if pod.leaves > max(pod.arrives, scenario.start)),
        events=len(rooms),
    )
    return RunResult(scenario.name, Policy.ORACLE.value, seed, totals)


def _work(scenario: Scenario, start: int, end: int) -> list[tuple[int, int, int]]:
    """When a job can begin, how long it computes at most, and its millicores."""
    found = []
    for demand in scenario.jobs:
        at = max(ticks(demand.submitted), start)
        if at < end:
            found.append((at, min(ticks(demand.work_seconds), end - at), demand.cpu_milli * demand.pods))
    return found


@dataclass(frozen=True, slots=True)
class _Cell:
    """A stretch of time. room: in it, millicore-microseconds. lasting: of the jobs submitted in it, ascending, how long
    they compute; work, millicores: of the first so many of these together."""

    room: int
    lasting: Sequence[int]
    work: Sequence[int]
    millicores: Sequence[int]

    def taken(self, time: int) -> int:
        """What its jobs can take in so much time: their work, or all of their CPU."""
        done = bisect_right(self.lasting, time)
        return self.work[done] + (self.millicores[-1] - self.millicores[done]) * time


def _least_cut(
    rooms: Sequence[tuple[int, int, int]], work: Sequence[tuple[int, int, int]], start: int, end: int
) -> int:
    """The least of all cuts, in millicore-microseconds, cells being full or not as a whole.

    What jobs can take depends only on how many cells from theirs on are not full. So from the last cell back to the
    first, the least for each such number is enough to know.
    """
    length, cells = _cells(rooms, work, start, end)
    least = [0]
    for cell in reversed(cells):
        full = [value + cell.room for value in least]
        either = [full[0], *map(min, full[1:], least), least[-1]]  # with a cell that is not full there is one more
        least = [value + cell.taken(count * length) for count, value in enumerate(either)]
    return min(least)


def _cells(
    rooms: Sequence[tuple[int, int, int]], work: Sequence[tuple[int, int, int]], start: int, end: int
) -> tuple[int, list[_Cell]]:
    """The length of a cell, and all of them. A job counts from the beginning of its cell on, and the last cell as long
    as the others: a little too long, so the bound holds."""
    length = max(1, -(-(end - start) // CELLS))
    count = -(-(end - start) // length)
    room = [0] * count
    for since, until, free in rooms:
        while since < until:
            cell = (since - start) // length
            following = min(until, start + (cell + 1) * length)
            room[cell] += free * (following - since)
            since = following
    jobs: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for at, lasting, millicores in work:
        jobs[(at - start) // length].append((lasting, millicores))
    cells = [
        _Cell(
            room=room[number],
            lasting=[lasting for lasting, _ in here],
            work=list(accumulate((lasting * millicores for lasting, millicores in here), initial=0)),
            millicores=list(accumulate((millicores for _, millicores in here), initial=0)),
        )
        for number, here in enumerate(map(sorted, jobs))
    ]
    return length, cells


def _rooms(scenario: Scenario, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Spans of time, and the millicores that ordinary pods request in them."""
    changes: list[tuple[int, int]] = []
    for pod in scenario.ordinary:
        came = max(ticks(pod.arrives), start)
        left = ticks(pod.leaves) if pod.leaves < seconds(end) else end
        if came < min(left, end):
            changes += [(came, pod.cpu_request_milli), (left, -pod.cpu_request_milli)]
    requested, since = 0, start
    for at, millicores in sorted(changes):
        if at > since:
            yield since, min(at, end), requested
            since = at
        requested += millicores
    if since < end:
        yield since, end, requested
