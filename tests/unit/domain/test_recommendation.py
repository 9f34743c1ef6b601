"""How much a pod should request, by what was measured."""

from __future__ import annotations

import pytest
from scavenger_domain.recommendation import Kin, Measured, recommend
from scavenger_domain.usage import JobUsage, ResourceUsage

GIB = 2**30
HOUR = 3600


def used(hours: float, cores: float, gib: float, *, runs: int = 1, typical: float | None = None) -> JobUsage:
    """A job whose pods request 4 cores and 8 GiB."""

    def one(requested: int, most: float) -> ResourceUsage:
        usual = round(most if typical is None else typical * most)
        return ResourceUsage(requested, usual, usual, round(most), usual)

    return JobUsage(round(hours * HOUR), runs, {"cpu": one(4000, cores * 1000), "memory": one(8 * GIB, gib * GIB)})


@pytest.mark.parametrize(
    ("job", "kin", "cpu", "memory", "by_kin"),
    [
        # a job by itself: the most and a tenth after four hours, memory after three runs and what these leave open
        (Measured(used(4, 1, 2, runs=3)), [], 1100, 4028, ""),
        (Measured(used(3.9, 1, 2, runs=3)), [], None, 4028, ""),
        (Measured(used(4, 1, 2, runs=100)), [], 1100, 2704, ""),
        (Measured(used(40, 1, 2, runs=2)), [], 1100, None, ""),
        (Measured(None), [], None, None, ""),
        # it may need more than it requests
        (Measured(used(4, 5, 9, runs=3)), [], 5500, 18125, ""),
        # four hours of each pod of a gang
        (Measured(used(15, 1, 2), pods=4), [], None, None, ""),
        (Measured(used(16, 1, 2), pods=4), [], 1100, None, ""),
        # tasks of an array tell of each other from ten on, where they are alike
        (Measured(used(90, 1, 2, runs=9), array=True), [], None, None, ""),
        (Measured(used(1, 1, 2, runs=10), array=True), [], 1100, 3072, ""),
        (Measured(used(90, 1, 2, runs=40, typical=0.5), array=True), [], None, None, ""),
        # kin: ten runs together, the most of all, and only where these are alike
        (Measured(None), [used(1, 1, 2)] * 9, None, None, ""),
        (Measured(None), [used(1, 1, 2)] * 9 + [used(1, 1.2, 2)], 1320, 3072, "cpu memory"),
        (Measured(used(1, 1, 2)), [used(1, 1, 2)] * 9, 1100, 3072, "cpu memory"),
        (Measured(None), [used(1, 1, 2)] * 9 + [used(1, 3, 2)], None, 3072, "memory"),
        # what it has measured itself counts, whatever others did
        (Measured(used(9, 3, 2, runs=3)), [used(9, 1, 1, runs=20)], 3300, 4028, ""),
    ],
)
def test_a_recommendation(job: Measured, kin: list[JobUsage], cpu: int | None, memory: int | None, by_kin: str) -> None:
    """memory: mebibytes."""
    found = recommend(job, kin)
    assert found.amounts.get("cpu") == cpu
    assert found.amounts.get("memory") == (memory * 2**20 if memory is not None else None)
    assert found.by_kin == frozenset(by_kin.split())
    assert found.lacks.keys() == {"cpu", "memory"} - found.amounts.keys()
    assert all(found.lacks.values())


def test_kin_of_which_one_was_killed_for_memory_tell_nothing_of_memory() -> None:
    kin = [used(1, 1, 2)] * 10
    found = recommend(Measured(None), kin, killed=True)
    assert found.amounts.keys() == {"cpu"}
    assert recommend(Measured(used(4, 1, 2, runs=3)), kin, killed=True).amounts.keys() == {"cpu", "memory"}


def test_what_is_freed_is_never_less_than_nothing() -> None:
    found = recommend(Measured(used(4, 1, 20, runs=3)), [])
    assert found.freed("cpu", 4000, 3) == 3 * 2900
    assert found.freed("memory", 8 * GIB, 3) == 0
    assert found.freed("nvidia.com/gpu", 1, 3) == 0


def test_kin_have_all_of_it_in_common() -> None:
    requests = {"memory": GIB, "cpu": 4000}
    one = Kin.of("lab", "fold:1", ["fold"], requests)
    assert one == Kin.of("lab", "fold:1", ("fold",), dict(reversed(requests.items())))
    others = [
        Kin.of("other", "fold:1", ["fold"], requests),
        Kin.of("lab", "fold:2", ["fold"], requests),
        Kin.of("lab", "fold:1", [], requests),
        Kin.of("lab", "fold:1", ["fold"], requests | {"cpu": 2000}),
    ]
    assert one not in others
