"""CPU time of jobs: request times time, or what was measured."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.observation import InterruptDecision
from scavenger_api.job import ConditionType, Phase, ScavengerJobSpec, ScavengerJobStatus
from scavenger_api.reasons import InterruptionReason
from scavenger_kube.kinds import Pod
from scavenger_runtime.usage import Sample, UsageMeter

from . import builders as b

RUNNING: dict[str, Any] = {"phase": Phase.RUNNING, "running": (10,)}
RECLAIMED: dict[str, Any] = {"capacity": "Reclaimed", "interruptionAfter": "60s"}


def spec(**more: Any) -> ScavengerJobSpec:
    return b.job(spec={**RECLAIMED, **more}).spec


MEMBER, OTHER = b.pod(), b.pod(1)


def meter(rates: list[float], pod: str = MEMBER.metadata.uid, window: float = 10) -> UsageMeter:
    """It watched a pod from second 10 on: so many cores in one window after the other."""
    made = UsageMeter()
    for i, cores in enumerate(rates):
        made.observe(Sample(pod, cores, b.at(10 + (i + 1) * window).timestamp(), window))
    return made


def usage(made: UsageMeter) -> accounting.Usage:
    return lambda pod, since, until: made.cpu_seconds(pod, since.timestamp(), until.timestamp())


@pytest.mark.parametrize(
    ("more", "pods", "expected"),
    [
        pytest.param({}, [MEMBER], 30 * 0.5, id="as measured"),
        pytest.param({"capacity": "Guaranteed"}, [MEMBER], 30 * 2.0, id="guaranteed: what it kept others from"),
        pytest.param({}, [OTHER], 30 * 2.0, id="nothing known of the pod: its limit"),
        pytest.param({}, [], 30 * 2.0, id="the pod is gone without a trace"),
        pytest.param({}, [b.pod(ended=30)], 10 * 0.5, id="the pod ended by itself"),
        pytest.param({}, [b.pod(ended=15)], 0.0, id="the pod ended before"),
        pytest.param({"parallelism": 3}, [MEMBER, OTHER], 30 * (0.5 + 2 * 2.0), id="a gang, one pod known"),
        pytest.param(
            {"capacity": "Guaranteed", "parallelism": 2},
            [b.pod(0, ended=30), b.pod(1)],
            (10 + 30) * 2.0,
            id="guaranteed: a member that ended keeps others from nothing",
        ),
        pytest.param(
            {"capacity": "Guaranteed", "parallelism": 2},
            [b.pod(0, ended=30), b.pod(0), b.pod(1)],
            60 * 2.0,
            id="guaranteed: another pod of that member computes",
        ),
    ],
)
def test_cpu_time_between_two_moments(more: dict[str, Any], pods: list[Pod], expected: float) -> None:
    used = accounting.taken(spec(**more), pods, usage(meter([0.5] * 12)))
    assert used.core_seconds(b.at(20), b.at(50)) == pytest.approx(expected)
    assert used.core_seconds(b.at(50), b.at(20)) == 0


def test_without_a_metrics_api_the_limit_stands_in() -> None:
    assert accounting.taken(spec(), [MEMBER]).core_seconds(b.at(20), b.at(50)) == 60


@given(
    rates=st.lists(st.floats(0, 2), min_size=1, max_size=40),
    looked=st.lists(st.integers(10, 410), max_size=5),
    end=st.integers(10, 410),
    kept=st.booleans(),
)
def test_useful_and_lost_are_together_what_was_used(
    rates: list[float], looked: list[int], end: int, *, kept: bool
) -> None:
    """Whenever somebody looked, and however the run ended; what was watched is exact."""
    made = meter([*rates, *[1.0] * (40 - len(rates))])
    job, spent = spec(), []
    used = accounting.taken(job, [MEMBER], usage(made))
    status = b.job(**RUNNING).status
    for moment in sorted(moment for moment in looked if moment <= end):
        due = accounting.start_over(b.at(10), timedelta(seconds=60), b.at(moment))
        after = status.model_copy(update={"priority_start_over_timestamp": due})
        spent.append(accounting.advance(status, after, b.at(10), used))
        status = after
    spent.append(accounting.settle(status, job, b.at(end), used, kept=kept))
    total = made.cpu_seconds(MEMBER.metadata.uid, b.at(10).timestamp(), b.at(end).timestamp())
    assert sum(one.useful + one.lost for one in spent) == pytest.approx(total, abs=1e-6)
    assert all(one.useful >= 0 and one.lost >= 0 for one in spent)
    assert not kept or not any(one.lost for one in spent)


# --- what the status says ---


def outcome(now: float, *pods: Any, spec: dict[str, Any] = RECLAIMED, **more: Any) -> ScavengerJobStatus:
    job = b.job(**RUNNING, spec=spec)
    return b.decide(b.seen(job, now, b.batch(), *(pods or (b.pod(),)), **more)).status


MEASURED = usage(meter([0.5] * 40))


@pytest.mark.parametrize(
    ("now", "pods", "useful", "lost", "phase"),
    [
        pytest.param(75, (b.pod(),), 30.0, 0.0, Phase.RUNNING, id="start-over"),
        pytest.param(200, (b.pod(ended=110),), 50.0, 0.0, Phase.COMPLETED, id="completed"),
        pytest.param(200, (b.pod(ended=110, code=1),), 30.0, 20.0, Phase.FAILED, id="failed"),
        pytest.param(200, (b.pod(deleted=110, ended=111, code=143),), 30.0, 20.0, Phase.INTERRUPTED, id="interrupted"),
    ],
)
def test_a_job_on_reclaimed_capacity_is_credited_what_it_used(
    now: float, pods: tuple[Any, ...], useful: float, lost: float, phase: Phase
) -> None:
    found = outcome(now, *pods, usage=MEASURED)
    assert found.phase is phase
    assert (found.useful_cpu_seconds, found.lost_cpu_seconds) == pytest.approx((useful, lost))
    other = outcome(now, *pods, usage=MEASURED, spec={**RECLAIMED, "capacity": "Guaranteed"})
    assert (other.useful_cpu_seconds, other.lost_cpu_seconds) == pytest.approx((4 * useful, 4 * lost))


def test_suspending_loses_what_was_used() -> None:
    found = outcome(40, usage=MEASURED, spec={**RECLAIMED, "suspend": True})
    assert found.phase is Phase.SUSPENDED
    assert found.lost_cpu_seconds == pytest.approx(15)


def test_who_is_starved_is_interrupted_with_the_figures() -> None:
    detail = "pod job-0 used 40m of 2 cpu over the last 600 s; there is capacity on node n2"
    found = outcome(40, usage=MEASURED, decision=InterruptDecision(InterruptionReason.STARVED, detail))
    assert found.phase is Phase.INTERRUPTED
    assert found.interrupted_count == 1
    assert (
        found.message == f"interrupted: it was starved ({detail}); at most 15 CPU-seconds lost; queued to start again"
    )
    interrupted = found.condition(ConditionType.INTERRUPTED)
    assert interrupted is not None
    assert interrupted.reason == "Starved"


def test_a_run_that_ended_otherwise_meanwhile_is_not_starved() -> None:
    found = outcome(200, b.pod(ended=110), usage=MEASURED, decision=InterruptDecision(InterruptionReason.STARVED, ""))
    assert found.phase is Phase.COMPLETED


def test_a_pod_that_is_gone_ran_until_the_job_controller_missed_it() -> None:
    """The finalizer was taken off while no admitter ran."""
    job, batch = b.job(**RUNNING), b.batch(conditions={"FailureTarget": 110, "Failed": 111})
    status = b.decide(b.seen(job, 20000, batch)).status
    assert (status.phase, status.interrupted_count) == (Phase.INTERRUPTED, 1)
    assert status.useful_cpu_seconds + status.lost_cpu_seconds == pytest.approx(100 * 2)


# --- devices ---


def gpus(count: int = 2, **more: Any) -> dict[str, Any]:
    amounts = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": str(count)}
    return {"resources": {"requests": amounts, "limits": amounts}, "interruptionAfter": "60s", **more}


@pytest.mark.parametrize(
    ("now", "pods", "useful", "lost"),
    [
        pytest.param(75, (b.pod(),), 120.0, 0.0, id="start-over"),
        pytest.param(200, (b.pod(ended=110),), 200.0, 0.0, id="completed"),
        pytest.param(200, (b.pod(ended=110, code=1),), 120.0, 80.0, id="failed"),
        pytest.param(200, (b.pod(deleted=110, ended=111, code=143),), 120.0, 80.0, id="interrupted"),
    ],
)
def test_time_of_devices_is_booked_beside_cpu_time(
    now: float, pods: tuple[Any, ...], useful: float, lost: float
) -> None:
    found = outcome(now, *pods, spec=gpus())
    assert (found.useful_seconds, found.lost_seconds) == ({"nvidia.com/gpu": useful}, {"nvidia.com/gpu": lost})
    assert found.useful_cpu_seconds == useful, "as many cores as GPUs"


def test_without_devices_nothing_is_said_of_them() -> None:
    found = outcome(200, b.pod(ended=110, code=1), spec={"interruptionAfter": "60s"})
    assert (found.useful_seconds, found.lost_seconds) == (None, None)


def test_nothing_is_written_of_devices_before_there_is_something_to_tell() -> None:
    found = outcome(40, spec=gpus())
    assert (found.useful_seconds, found.lost_seconds) == (None, None)


def test_what_had_been_saved_after_all_is_given_back_and_no_more_than_was_lost() -> None:
    status = b.job(**RUNNING, ended_timestamp=b.at(50), lost_cpu_seconds=80.0, lost_seconds={"nvidia.com/gpu": 30.0})
    found = accounting.saved_after_all(
        status.status, b.job(spec=gpus()).spec, b.at(40), accounting.Taken(lambda a, b_: 60.0)
    )
    assert found is not None
    booked = found.devices(status.status, b.job(spec=gpus()).spec)
    assert booked == {"useful_seconds": {"nvidia.com/gpu": 30.0}, "lost_seconds": {"nvidia.com/gpu": 0.0}}


def test_a_status_accounts_for_eight_devices_at_most() -> None:
    amounts = {"cpu": "2", "memory": "1Gi", **{f"example.com/r{i}": "1" for i in range(12)}}
    found = outcome(75, spec={"resources": {"requests": amounts, "limits": amounts}, "interruptionAfter": "60s"})
    assert found.useful_seconds == {f"example.com/r{i}": 60.0 for i in (0, 1, 10, 11, 2, 3, 4, 5)}
