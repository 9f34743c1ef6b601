"""The figures of the benchmarks on all services, from what was seen to what is printed."""

from __future__ import annotations

import math

import pytest

from bench.figures import Arrival, Leaving, Lives, dispatched, grown, lags, percentile, ratio, stages, worst_lag
from bench.services.bench_giveway import Side, compared
from bench.services.bench_writes import Count, figures, per_job, schemas


def lives(*pods: tuple[str, str, float, float | None]) -> Lives:
    """Pods by uid and job, with the times at which they were seen to run and to leave."""
    seen = Lives()
    for uid, job, running, left in pods:
        seen.saw(uid, job, runs=False, at=running - 1)
        seen.saw(uid, job, runs=True, at=running)
        seen.saw(uid, job, runs=True, at=running + 0.5)
        if left is not None:
            seen.saw(uid, job, runs=False, at=left)
            seen.saw(uid, job, runs=False, at=left + 1)
    return seen


# --- pods ---


def test_what_is_lost_is_the_time_since_the_start_of_those_who_left_in_the_burst() -> None:
    seen = lives(("1", "a", 10, 40), ("2", "b", 20, 50), ("3", "c", 20, None), ("4", "d", 5, 90))

    assert seen.lost(30, 60) == 30 + 30
    assert seen.victims(30, 60) == 2
    assert seen.living() == 1


def test_the_least_that_could_have_been_lost_is_what_the_youngest_had() -> None:
    seen = lives(("1", "a", 10, 40), ("2", "b", 5, 50), ("3", "c", 20, None), ("4", "d", 15, 90), ("5", "e", 31, None))

    assert seen.lost(30, 60) == 30 + 45
    assert seen.lost_at_least(30, 60) == (40 - 20) + (50 - 15), "e was not there when it began"
    assert seen.lost_at_least(60, 70) == 0, "nobody left"


def test_a_job_is_displaced_while_none_of_its_pods_runs() -> None:
    seen = lives(("1", "a", 10, 40), ("2", "b", 10, 41), ("3", "b", 45, None))

    assert seen.displaced(30, 60) == {"a"}
    assert seen.displaced(30, 44) == {"a", "b"}


def test_a_job_is_back_when_its_first_pod_runs() -> None:
    seen = lives(("1", "a", 10, 40), ("2", "a", 62, 63), ("3", "a", 70, None), ("4", "b", 65, None))

    assert seen.back({"a", "b", "c"}, 60) == {"a": 2, "b": 5}


def test_a_pod_that_never_ran_has_lost_nothing() -> None:
    seen = Lives()
    seen.saw("1", "a", runs=False, at=1)
    seen.saw("1", "a", runs=False, at=2)

    assert (seen.lost(0, 10), seen.victims(0, 10), seen.living()) == (0, 0, 0)


def test_percentiles_of_few_values() -> None:
    assert percentile([3, 1, 2], 50) == 2
    assert percentile(range(50), 99) == 49
    with pytest.raises(IndexError):
        percentile([], 50)


def test_nothing_is_no_measure() -> None:
    assert ratio(3, 2) == 1.5
    with pytest.raises(ValueError, match="nothing to compare"):
        ratio(3, 0)


def test_both_sides_and_what_is_asked_of_us() -> None:
    plain = Side(fill=10, waits=[1, 1, 2], lost=2000, lost_at_least=1000, victims=200, back=[4, 5])
    ours = Side(fill=20, waits=[1, 2, 3], lost=1000, lost_at_least=1000, victims=220, back=[4, 5])
    found = {figure["name"]: figure for figure in compared(plain, ours)}

    assert found["giveway.plain.p50"]["value"] == 1
    assert found["giveway.scavenger.p50"]["value"] == 2
    asked = {name: (figure["value"], figure["goal"]) for name, figure in found.items() if "ratio" in name}
    assert asked == {
        "giveway.fill_ratio_to_plain": (2, None),
        "giveway.p50_ratio_to_plain": (2, "<= 1.2"),
        "giveway.p99_ratio_to_plain": (1.5, "<= 1.2"),
        "giveway.lost_ratio_to_plain": (0.5, "<= 1.0"),
        "giveway.lost_over_least_ratio_to_plain": (0.5, None),
        "giveway.victims_ratio_to_plain": (1.1, None),
        "giveway.back_ratio_to_plain": (1, "<= 1.4"),
    }


def test_the_stages_of_a_pod_that_others_give_way_to() -> None:
    leaving = [
        Leaving("a", told=12.0, ended=13.0, gone=14.0),
        Leaving("a", told=12.5, ended=13.5),
        Leaving("b", told=12.9, ended=13.9),
        Leaving("a", told=9.0, ended=13.8),
        Leaving("a", told=15.0, ended=16.0),
    ]

    whole = stages(Arrival(10.0, "a", bound=14.0, running=14.25), leaving)
    assert whole == {"decided": 2.5, "stopped": 1.0, "bound": 0.5, "started": 0.25}
    free = stages(Arrival(10.0, "c", bound=11.0, running=12.0), leaving)
    assert free == {"decided": 0.0, "stopped": 0.0, "bound": 1.0, "started": 1.0}, "nobody had to go"
    hurried = stages(Arrival(10.0, "a", bound=13.0, running=14.0), leaving)
    assert sum(hurried.values()) == 4.0
    assert hurried["stopped"] == 0.5, "it was bound before the last had ended"
    with pytest.raises(ValueError, match="did not run"):
        stages(Arrival(10.0), leaving)


# --- /metrics ---


def lag_exposition(**counts: int) -> str:
    name = "scavenger_event_loop_lag_seconds"
    lines = [f'{name}_bucket{{le="{bound}"}} {count}' for bound, count in counts.items()]
    return "\n".join((f"# TYPE {name} histogram", *lines, f"{name}_count 9"))


@pytest.mark.parametrize(
    ("before", "after", "worst"),
    [
        pytest.param({}, {}, None, id="a service that does not say"),
        pytest.param({}, {"0.01": 5, "0.1": 7, "+Inf": 7}, 0.1, id="the bound under which all are"),
        pytest.param({"0.01": 5, "0.1": 6, "+Inf": 7}, {"0.01": 7, "0.1": 8, "+Inf": 9}, 0.01, id="of what came since"),
        pytest.param({}, {"0.01": 5, "+Inf": 7}, math.inf, id="above all bounds"),
        pytest.param({"0.01": 5, "+Inf": 7}, {"0.01": 5, "+Inf": 7}, None, id="nothing came"),
    ],
)
def test_the_worst_lag_of_a_service(before: dict[str, int], after: dict[str, int], worst: float | None) -> None:
    assert worst_lag(lags(lag_exposition(**after)), lags(lag_exposition(**before))) == worst


def exposition(**counts: int) -> str:
    metric = "apiserver_flowcontrol_dispatched_requests_total"
    lines = [f'{metric}{{flow_schema="{name}",priority_level="p"}} {count}' for name, count in counts.items()]
    return "\n".join((f"# TYPE {metric} counter", *lines, 'apiserver_request_total{verb="PATCH"} 9'))


def test_requests_are_counted_by_the_flow_schema_they_match() -> None:
    assert dispatched(exposition(exempt=3, mine=4)) == {"exempt": 3, "mine": 4}
    assert grown({"mine-a": 5, "mine-b": 2, "theirs": 9}, {"mine-a": 1, "mine-b": 2}, ["mine-"]) == {"mine-a": 4}


def test_what_comes_without_any_job_is_taken_off() -> None:
    before, after = Count({"bench-a": 10, "bench-b": 0}, at=100), Count({"bench-a": 60, "bench-b": 1, "x": 7}, at=120)

    assert per_job(before, after, {"bench-a": 0.5, "bench-b": 0.5}, 10) == {"bench-a": 4, "bench-b": 0}


def test_the_sum_and_its_parts() -> None:
    found = {f["name"]: f["value"] for f in figures("per_job", {"bench-scavenger-admitter-status": 3, "x": 1}, "<= 6")}

    assert found == {"writes.per_job": 4, "writes.per_job.admitter-status": 3, "writes.per_job.x": 1}
    with pytest.raises(RuntimeError, match="FlowSchemas"):
        figures("per_job", {}, "<= 6")


def test_every_service_has_flow_schemas_of_its_own() -> None:
    made = list(schemas())

    assert len({schema["metadata"]["name"] for schema in made}) == len(made)
    for schema in made:
        (rule,) = schema["spec"]["rules"]
        assert [subject["kind"] for subject in rule["subjects"]] == ["ServiceAccount"]
        assert "get" not in rule["resourceRules"][0]["verbs"]
