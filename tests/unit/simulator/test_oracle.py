"""The bound of what anybody could do: never below what a schedule does, and close to it."""

from __future__ import annotations

from array import array
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_simulator import oracle
from scavenger_simulator.oracle import foresee
from scavenger_simulator.scenario import FOREVER, NodeSpec, OrdinaryPod, ScavengerDemand, Scenario, UsageTrace

GIB = 1 << 30
HOUR = 3600.0


def job(name: str, work_seconds: float, cores: int = 1, submitted: float = 0.0) -> ScavengerDemand:
    return ScavengerDemand(
        name=name,
        queue="default",
        submitted=submitted,
        pods=1,
        cpu_milli=1000 * cores,
        memory_bytes=GIB,
        work_seconds=work_seconds,
    )


def bound(jobs: list[ScavengerDemand], ordinary: tuple[OrdinaryPod, ...] = (), cores: int = 4, end: float = 0) -> float:
    """Core-hours, of one node."""
    node = NodeSpec("node", 1000 * cores, 64 * GIB)
    scenario = Scenario(
        name="day", nodes=(node,), ordinary=ordinary, jobs=tuple(jobs), end=end or 4 * HOUR, seed=1, origin="test"
    )
    return foresee(scenario, 1).totals.useful


def test_a_job_computes_no_faster_than_its_cpu_allows() -> None:
    assert bound([job("long", 10 * HOUR)]) == pytest.approx(4), "one core for four hours, though three more are free"
    assert bound([job("short", HOUR)]) == pytest.approx(1)


def test_all_jobs_together_have_no_more_than_the_room() -> None:
    assert bound([job(f"j{n}", 10 * HOUR) for n in range(9)]) == pytest.approx(16)


def test_room_that_nobody_could_fill_at_the_time_is_lost() -> None:
    # Two of four cores are idle for two hours, as there are two jobs; then eight more come than fit.
    early = [job(f"early{n}", 2 * HOUR) for n in range(2)]
    late = [job(f"late{n}", 2 * HOUR, submitted=2 * HOUR) for n in range(8)]
    assert bound(early + late) == pytest.approx(2 * 2 + 2 * 4)


def test_what_ordinary_pods_request_is_not_there() -> None:
    web = OrdinaryPod("web", HOUR, FOREVER, 3000, GIB, UsageTrace(0.0, 4 * HOUR, array("I", [100]), array("Q", [GIB])))
    assert bound([job(f"j{n}", 10 * HOUR) for n in range(9)], (web,)) == pytest.approx(4 + 3)


shares = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 8), st.integers(1, 3)), min_size=1, max_size=8)


@given(shares, st.lists(st.integers(0, 6), min_size=6, max_size=6))
def test_the_cut_is_the_least_there_is(jobs: list[tuple[int, int, int]], free: list[int]) -> None:
    """Of six moments. Jobs: when they come, how long they take, their cores. free: cores at each moment."""
    rooms = [(at, at + 1, cores) for at, cores in enumerate(free)]
    work = [(at, min(lasting, 6 - at), cores) for at, lasting, cores in jobs]
    found = oracle._least_cut(rooms, work, 0, 6)
    assert found == min(cut(work, free, full) for full in product((True, False), repeat=6))
    assert found >= schedule(work, free)


def cut(work: list[tuple[int, int, int]], free: list[int], full: tuple[bool, ...]) -> int:
    """What a choice of full moments comes to, by its definition."""
    room = sum(cores for cores, counts in zip(free, full, strict=True) if counts)
    return room + sum(cores * min(lasting, full[at:].count(False)) for at, lasting, cores in work)


def schedule(work: list[tuple[int, int, int]], free: list[int]) -> int:
    """What comes of running those first that have most left, a core of each counting for itself."""
    left = [[lasting, at] for at, lasting, cores in work for _ in range(cores)]
    done = 0
    for now, cores in enumerate(free):
        ready = sorted((one for one in left if one[0] > 0 and one[1] <= now), reverse=True)
        for one in ready[:cores]:
            one[0] -= 1
            done += 1
    return done
