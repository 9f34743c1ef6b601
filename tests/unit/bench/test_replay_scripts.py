"""The scripts that a cluster and the simulator are both put through, and how what came of it is compared."""

from __future__ import annotations

import functools

import pytest

from bench.simulator.scripts import (
    EVICTION,
    FILL,
    GANG,
    PREEMPTION,
    QUEUES,
    SCRIPTS,
    YIELD,
    Event,
    PodScript,
    Rounds,
    Script,
    mismatches,
    simulated,
)

A: Event = ("started", "a")
B: Event = ("evicted", "b")


@functools.cache
def _played(number: int) -> Rounds:
    return simulated(SCRIPTS[number])


def played(script: Script) -> Rounds:
    """What the simulator makes of a script; once for all tests."""
    return _played(SCRIPTS.index(script))


@pytest.mark.parametrize(
    ("script", "round_", "events"),
    [
        (FILL, 3, {("started", "small")}),
        (FILL, 4, {("completed", "first"), ("started", "too-much")}),
        (FILL, 5, {("completed", "second"), ("started", "last")}),
        (PREEMPTION, 1, {("preempted", "small")}),
        (PREEMPTION, 2, {("preempted", "medium")}),
        (PREEMPTION, 3, {("started", "small"), ("started", "medium")}),
        (EVICTION, 3, {("evicted", "medium")}),
        (EVICTION, 4, {("started", "medium")}),
        (YIELD, 3, {("yielded", "checkpoints")}),
        (YIELD, 4, {("started", "checkpoints")}),
        (GANG, 4, set()),
        (GANG, 5, {("preempted", "gang")}),
        (GANG, 6, {("started", "gang")}),
        (QUEUES, 3, {("reclaimed", "a-third"), ("started", "b-first")}),
        (QUEUES, 4, {("completed", "b-first"), ("started", "a-third")}),
    ],
    ids=lambda value: value.name if isinstance(value, Script) else None,
)
def test_every_script_shows_what_it_is_there_for(script: Script, round_: int, events: set[Event]) -> None:
    assert set(played(script)[round_]) == events


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_jobs_that_start_together_are_of_different_sizes_so_that_their_risks_differ(script: Script) -> None:
    cores = {job.name: job.cpu * job.pods for job in script.jobs}
    first: dict[str, int] = {}
    for number, events in enumerate(played(script)):
        for kind, job in events:
            if kind == "started":
                first.setdefault(job, number)
    assert sorted(first) == sorted(cores)
    assert len({(number, cores[job]) for job, number in first.items()}) == len(first)


def test_use_of_an_ordinary_pod_lasts_until_it_changes() -> None:
    pod = PodScript("web", 0, 3_000, {1: 200, 3: 900})
    assert [pod.used(number) for number in range(5)] == [0, 200, 200, 900, 900]


@pytest.mark.parametrize(
    ("simulator", "cluster", "found"),
    [
        (((A,), (B,)), ((A,), (B,)), []),
        (((A, B),), ((B, A),), []),
        (
            ((A,), ()),
            ((), (A,)),
            ["round 0: a started only in the simulator", "round 1: a started only on the cluster"],
        ),
        (((A, A),), ((A,),), ["round 0: a started only in the simulator"]),
        (((A,),), ((A,), (B,)), ["round 1: b evicted only on the cluster"]),
    ],
)
def test_every_difference_counts(simulator: Rounds, cluster: Rounds, found: list[str]) -> None:
    assert mismatches(simulator, cluster) == found
