"""The oracle: what somebody could do at most who knows the future. A bound, computed; nothing is simulated.

It cheats wherever that makes the bound safe. Ordinary pods are given what they request from the moment they arrive to
the moment they leave; all the CPU that is not requested then, cluster-wide, can be used, memory, nodes and gangs not
being in the way. Jobs are a fluid: cut, moved and stopped at will, with no start, no checkpoint and no loss. Each can
take its work and no more, nor more than its CPU from its submission to the end. What can be used then is, moment by
moment, the smaller of the room and of what is there to do, the work that was submitted and not done yet.

A policy keeps jobs running where the oracle does not only by keeping an ordinary pod waiting. So for every policy

    progress(policy) <= useful(oracle) + delayed_core_hours(policy)
"""

from __future__ import annotations

from collections.abc import Iterator

from scavenger_simulator.clock import seconds, ticks
from scavenger_simulator.cluster import Cluster, core_hours
from scavenger_simulator.policy import Policy
from scavenger_simulator.result import RunResult, Totals
from scavenger_simulator.scenario import Scenario
from scavenger_simulator.usage import mean_use


def foresee(scenario: Scenario, seed: int) -> RunResult:
    """The bound for a scenario; its `useful`, `progress` and `harvested` are one figure, and nothing is lost."""
    start, end = ticks(scenario.start), ticks(scenario.end)
    span = max(1, end - start)
    cluster = Cluster(scenario.nodes, start)
    work, used, count = 0, 0, 0
    arriving = _work(scenario, end)
    for since, until, requested in _rooms(scenario, start, end):
        room = max(0, cluster.cpu_milli - requested)
        count += 1
        while since < until:
            while arriving and arriving[-1][0] <= since:
                work += arriving.pop()[1]
            following = min(until, arriving[-1][0] if arriving else until)
            done = min(work, room * (following - since))
            work, used, since = work - done, used + done, following
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
        events=count,
    )
    return RunResult(scenario.name, Policy.ORACLE.value, seed, totals)


def _work(scenario: Scenario, end: int) -> list[tuple[int, int]]:
    """Work by the moment it is submitted, latest first, in millicore-microseconds; as much as there is time for."""
    found = []
    for demand in scenario.jobs:
        at = max(ticks(demand.submitted), ticks(scenario.start))
        if at < end:
            lasting = min(ticks(demand.work_seconds), end - at)
            found.append((at, lasting * demand.cpu_milli * demand.pods))
    return sorted(found, reverse=True)


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
