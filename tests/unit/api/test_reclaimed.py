"""What a pod on reclaimed capacity is placed by, and what it counts as."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from scavenger_api.job import ScavengerJob
from scavenger_api.reclaimed import MIB, counted_as, placed_by
from scavenger_testing import builders

GIB = 1 << 30


def test_millicores_and_whole_mib_stand_for_cpu_and_memory() -> None:
    placed = placed_by({"cpu": 1500, "memory": GIB + 1, "nvidia.com/gpu": 1})
    assert placed == {"scavenger.dev/reclaimed-cpu": 1500, "scavenger.dev/reclaimed-memory": 1025, "nvidia.com/gpu": 1}


def test_a_reclaimed_cpu_counts_as_a_cpu() -> None:
    amounts = {"cpu": 500, "scavenger.dev/reclaimed-cpu": 1500, "scavenger.dev/reclaimed-memory": 2, "pods": 1}
    assert counted_as(amounts.items()) == {"cpu": 2000, "memory": 2 * MIB, "pods": 1}


@given(st.integers(0, 10**6), st.integers(0, 2**50))
def test_nothing_counts_less_than_was_asked_for(cpu: int, memory: int) -> None:
    counted = counted_as(placed_by({"cpu": cpu, "memory": memory}).items())
    assert counted["cpu"] == cpu
    assert memory <= counted["memory"] < memory + MIB


def test_the_limits_say_what_a_job_on_reclaimed_capacity_asks_for() -> None:
    sides = {"requests": {"cpu": "0"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    job = ScavengerJob.model_validate(builders.scavengerjob_dict("a", capacity="Reclaimed", resources=sides))
    assert job.spec.requests == {"cpu": 2000, "memory": GIB}
    assert job.spec.placed_by == {"scavenger.dev/reclaimed-cpu": 2000, "scavenger.dev/reclaimed-memory": 1024}


def test_a_guaranteed_job_is_placed_by_its_requests() -> None:
    job = ScavengerJob.model_validate(builders.scavengerjob_dict("a"))
    assert job.spec.placed_by == job.spec.requests
