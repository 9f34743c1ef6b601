"""The ledger of an adopted Job: what it keeps, what it leaves out, and how long it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_admitter.core.adopted.ledger import (
    MAX_BYTES,
    MAX_COUNTED,
    write_ledger,
)
from scavenger_admitter.core.lifecycle import conditions
from scavenger_api.array import ArrayStatus
from scavenger_api.indexes import (
    MAX_COUNT,
    MAX_TASKS,
    format_counts,
    format_indexes,
    parse_counts,
    parse_indexes,
    set_of,
)
from scavenger_api.job import Phase, ScavengerJobStatus
from scavenger_api.ledger import LedgerError, read_ledger
from scavenger_api.names import CONDITION_LEDGER, MAX_DEVICES, MAX_RECENT_TIMESTAMPS
from scavenger_api.reasons import InterruptionReason, WaitReason
from scavenger_api.removing import MAX_REMOVING, RemovalReason, entry
from scavenger_api.usage import JobUsage
from scavenger_domain import job_states
from scavenger_domain import usage as measured
from scavenger_domain.adopted import Completions, status_in_own_words
from scavenger_domain.usage import ResourceUsage, usage_in_words

TASKS = Completions(MAX_TASKS, 1, indexed=True, work_queue=False, in_place=None)
TEXTS = st.text(max_size=4096)
MOMENTS = st.integers(0, 100 * 365 * 86_400).map(
    lambda seconds: datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
)
COUNTS = st.integers(0, 2**31 - 1)
SETS = st.lists(st.integers(0, MAX_TASKS - 1), max_size=300).map(lambda found: format_indexes(set_of(found)))
PODS = st.builds("{}-{}".format, st.integers(0, MAX_TASKS - 1), st.text("0123456789abcdef", min_size=8, max_size=8))
DEVICES = st.dictionaries(st.text("abcdefgh./-", min_size=1, max_size=300), st.floats(0, 1e15), max_size=MAX_DEVICES)
RESOURCE_USAGES = st.builds(ResourceUsage, *[st.integers(1, 2**40).map(lambda mebibytes: mebibytes * 2**20)] * 5)
USAGES = st.builds(lambda seconds, runs, one: used(seconds, runs, one), COUNTS, COUNTS, RESOURCE_USAGES)


def used(seconds: int, runs: int, one: ResourceUsage) -> JobUsage:
    """What a status says of as much CPU as memory."""
    found = measured.JobUsage(seconds, runs, dict.fromkeys(measured.RESOURCES, one))
    return JobUsage.model_validate(usage_in_words(found))


@st.composite
def statuses(draw: st.DrawFn) -> ScavengerJobStatus:
    """Any status of an array, as far as the ledger has to keep it."""
    phase = draw(st.sampled_from(Phase))
    reason, cause = draw(st.sampled_from(WaitReason)), draw(st.none() | st.sampled_from(InterruptionReason))
    message = draw(TEXTS)
    stated = job_states.states(phase, reason, message, interrupted=cause, stalled=None)
    now = draw(MOMENTS)
    return ScavengerJobStatus(
        phase=phase,
        message=message,
        conditions=conditions.written((), stated, generation=1, now=now),
        running_timestamps=tuple(sorted(draw(st.lists(MOMENTS, max_size=2)))),
        interrupted_count=draw(COUNTS),
        interrupted_timestamps=tuple(draw(st.lists(MOMENTS, max_size=MAX_RECENT_TIMESTAMPS))),
        ended_timestamp=draw(st.none() | MOMENTS),
        short_runs=draw(st.none() | st.integers(1, 2**31 - 1)),
        ignored_failures=draw(st.none() | st.integers(1, 2**31 - 1)),
        active_seconds=draw(st.none() | COUNTS),
        last_checkpoint_timestamp=draw(st.none() | MOMENTS),
        useful_cpu_seconds=draw(st.floats(0, 1e15)),
        lost_cpu_seconds=draw(st.floats(0, 1e15)),
        served_level=draw(st.none() | st.integers(0, 63)),
        useful_seconds=draw(st.none() | DEVICES),
        lost_seconds=draw(st.none() | DEVICES),
        usage=draw(st.none() | USAGES),
        removing=tuple(
            entry(pod, draw(st.sampled_from(RemovalReason)))
            for pod in draw(st.lists(PODS, max_size=MAX_REMOVING // 10, unique=True))
        )
        or None,
        array=ArrayStatus(
            failed_indexes=draw(SETS),
            interrupted_indexes=draw(SETS),
            counted=tuple(draw(st.lists(PODS, max_size=2 * MAX_COUNTED, unique=True))),
            active_since=draw(st.none() | MOMENTS),
        ),
    )


@given(statuses())
def test_a_ledger_is_never_longer_than_its_bound(status: ScavengerJobStatus) -> None:
    assert len(write_ledger(status).encode()) <= MAX_BYTES


def test_the_longest_ledger_is_within_its_bound() -> None:
    """All that has a length at its longest at once, which drawing rarely finds."""
    every_other = format_indexes(set_of(range(1, MAX_TASKS, 2)))
    pods = tuple(f"{MAX_TASKS - 1 - one}-{one:08x}" for one in range(MAX_REMOVING))
    status = ScavengerJobStatus(
        phase=Phase.RUNNING,
        message='\u2028"\\' * 1300,
        interrupted_count=2**31 - 1,
        useful_seconds={f"{'x' * 300}/{one}": 1e15 for one in range(MAX_DEVICES)},
        usage=used(2**53, 2**31 - 1, ResourceUsage(*[2**43 + 2**20] * 5)),
        removing=tuple(entry(pod, RemovalReason.QUEUE_RECLAIMED) for pod in pods),
        array=ArrayStatus(failed_indexes=every_other, interrupted_indexes=every_other, counted=pods[: 2 * MAX_COUNTED]),
    )
    assert len(write_ledger(status, parse_indexes(every_other)).encode()) <= MAX_BYTES
    assert status.array is not None
    retries = format_counts(dict.fromkeys(range(MAX_TASKS - 2000, MAX_TASKS, 2), MAX_COUNT))
    status = status.model_copy(update={"array": status.array.model_copy(update={"retries_used": retries})})
    told = write_ledger(status, parse_indexes(every_other), failed_told=True)
    assert len(told.encode()) <= MAX_BYTES


@pytest.mark.parametrize("count", [3, 900, 90_000])
def test_counts_of_retries_that_do_not_fit_are_those_of_the_highest_indexes_that_are_not_over(count: int) -> None:
    used = {index: 1 + index % MAX_COUNT for index in range(count)}
    array = ArrayStatus(completed_indexes="0", failed_indexes="2", retries_used=format_counts(used))
    kept = parse_counts(read_ledger(write_ledger(ScavengerJobStatus(array=array), failed_told=True)).retries)
    assert kept.items() <= used.items()
    assert list(kept) == [index for index in range(max(kept) + 1) if index not in (0, 2)]
    assert (len(kept) == count - 2) == (count == 3)


def test_counts_of_retries_of_interrupted_indexes_have_space_first() -> None:
    used = format_counts({index: 1 + index % 2 for index in range(1000)})
    array = ArrayStatus(interrupted_indexes="998", retries_used=used)
    kept = parse_counts(read_ledger(write_ledger(ScavengerJobStatus(array=array), failed_told=True)).retries)
    assert (kept[998], 997 in kept, 0 in kept) == (1, False, True)


@given(statuses())
def test_what_is_written_is_read_and_written_the_same(status: ScavengerJobStatus) -> None:
    once = read_ledger(write_ledger(status))
    said = {"type": CONDITION_LEDGER, "reason": "Running", "message": write_ledger(status)}
    fields = status_in_own_words({"name": "a"}, {"conditions": [said]}, TASKS)
    again = ScavengerJobStatus.model_validate(fields).model_copy(
        update={
            "phase": status.phase,
            "conditions": status.conditions,
            "array": ArrayStatus(
                failed_indexes=once.failed,
                interrupted_indexes=once.indexes,
                counted=tuple(once.counted.split(",")) if once.counted else (),
                active_since=status.array.active_since if status.array is not None else None,
            ),
        }
    )
    assert read_ledger(write_ledger(again)) == once


@given(statuses())
def test_no_pod_that_is_counted_and_no_sum_is_left_out(status: ScavengerJobStatus) -> None:
    found, array = read_ledger(write_ledger(status)), status.array
    assert array is not None
    assert found.counted == ",".join(array.counted)
    assert (found.interrupted, found.ignored) == (status.interrupted_count, status.ignored_failures or 0)
    assert found.active == (status.active_seconds or 0)


@given(statuses())
def test_what_is_left_out_is_left_out_at_the_end(status: ScavengerJobStatus) -> None:
    """The lowest indexes stay, and none is invented."""
    found, array = read_ledger(write_ledger(status)), status.array
    assert array is not None
    kept, all_of_them = parse_indexes(found.indexes), parse_indexes(array.interrupted_indexes)
    assert kept & ~all_of_them == 0
    assert all_of_them & ((1 << kept.bit_length()) - 1) == kept


@pytest.mark.parametrize("message", ["", "{", '{"v":2}', '{"v":"1"}', "{}", '{"v":1,"interrupted":"many"}'])
def test_a_ledger_that_cannot_be_read_says_so(message: str) -> None:
    with pytest.raises(LedgerError, match="the ledger of this Job"):
        read_ledger(message)
