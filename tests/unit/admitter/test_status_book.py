"""What the status of an adopted Job says of each event: the table of docs/designs/0032-adopted-jobs.md, row by row.

Every status here goes through the rules of the API server as well.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from scavenger_admitter.core.adopted.book import PodCounts, job_status, patch_of
from scavenger_admitter.core.adopted.work import AdoptedJob
from scavenger_admitter.core.lifecycle import conditions
from scavenger_api.array import ArrayStatus
from scavenger_api.job import Phase, ScavengerJobStatus
from scavenger_api.names import CONDITION_LEDGER
from scavenger_api.reasons import FailureReason
from scavenger_domain import job_states
from scavenger_testing import adopted_job_dict
from scavenger_testing.job_status_rules import refusals

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
STAMP = "2026-03-01T12:00:00Z"
EARLIER = "2026-03-01T11:00:00Z"
ONE_RUNS = PodCounts(active=1, ready=1, first=NOW - timedelta(hours=1))
NONE = PodCounts()

Object = dict[str, Any]


def job(status: Object | None = None, **spec: Any) -> AdoptedJob:
    return AdoptedJob.model_validate({**adopted_job_dict("a", created=EARLIER, **spec), "status": status or {}})


def found(phase: Phase, reason: str = "Started", **more: Any) -> ScavengerJobStatus:
    """What the lifecycle has found."""
    stated = job_states.states(phase, reason, "said", interrupted=None, stalled=None)
    written = conditions.written((), stated, generation=1, now=NOW)
    return ScavengerJobStatus(phase=phase, conditions=written, message="said", **more)


def write(
    status: ScavengerJobStatus, pods: PodCounts = NONE, before: Object | None = None, **spec: Any
) -> tuple[Object, list[str]]:
    """The new status, as far as the API server takes it, and its conditions in order: `Type=Status`."""
    whole = job(before, **spec)
    made = job_status(whole, status, pods, NOW)
    body = adopted_job_dict("a", created=EARLIER, **spec)
    assert refusals({**body, "status": before or {}}, {**body, "status": made}) == []
    patched = {"active": 0, **(before or {}), **patch_of(whole, made)}
    assert {name: value for name, value in patched.items() if value is not None} == made
    return made, [f"{one['type']}={one['status']}" for one in made["conditions"]]


LEDGER = f"{CONDITION_LEDGER}=False"
RUNNING = job_status(job(), found(Phase.RUNNING), ONE_RUNS, NOW - timedelta(minutes=5))


def test_a_job_that_waits_has_no_start() -> None:
    made, stated = write(found(Phase.WAITING))
    assert (made["active"], made["ready"], made["terminating"], made.get("startTime")) == (0, 0, 0, None)
    assert stated == [LEDGER]


def test_the_first_start_says_when_the_first_pod_was_created() -> None:
    made, stated = write(found(Phase.RUNNING), ONE_RUNS)
    assert (made["active"], made["ready"], made["startTime"]) == (1, 1, EARLIER)
    assert (stated, made["conditions"][-1]["reason"]) == ([LEDGER], "Running")


def test_an_interruption_leaves_counts_conditions_and_start_as_they_are() -> None:
    made, stated = write(found(Phase.INTERRUPTED, interrupted_count=1), NONE, RUNNING)
    assert (made["active"], made.get("failed"), made.get("succeeded")) == (0, None, None)
    assert (made["startTime"], stated) == (EARLIER, [LEDGER])


def test_a_failure_with_retries_left_is_counted_and_no_more() -> None:
    made, stated = write(found(Phase.WAITING, retries=1), NONE, RUNNING)
    assert (made["failed"], stated) == (1, [LEDGER])


def test_completed_indexes_are_plain_ranges_however_many() -> None:
    every_other = ",".join(map(str, range(0, 40_000, 2)))
    array = ArrayStatus(completed_indexes="bits:" + _bits(40_000))
    made, _ = write(
        found(Phase.RUNNING, array=array),
        ONE_RUNS,
        RUNNING,
        completions=40_000,
        completionMode="Indexed",
        parallelism=9,
    )
    assert made["completedIndexes"] == every_other
    assert made["succeeded"] == 20_000


def _bits(size: int) -> str:
    return base64.b64encode(b"\x55" * (size // 8)).decode()


def test_the_end_is_one_write() -> None:
    array = ArrayStatus(completed=1, completed_indexes="0")
    made, stated = write(found(Phase.COMPLETED, array=array, finished_timestamp=NOW), NONE, RUNNING)
    assert (made["succeeded"], made["active"], made["terminating"]) == (1, 0, 0)
    assert made["completionTime"] == STAMP
    assert stated == ["SuccessCriteriaMet=True", "Complete=True", LEDGER]
    assert made["conditions"][-1]["reason"] == "Ended"


def test_a_success_policy_tells_all_successes_at_once_and_by_which_rule() -> None:
    """Also where all have completed meanwhile: no client takes that for a failure which knows of the policy."""
    rules = [{"succeededIndexes": "1"}, {"succeededCount": 2}]
    spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "successPolicy": {"rules": rules}}
    status = found(Phase.COMPLETED, array=ArrayStatus(completed=1, completed_indexes="1"), finished_timestamp=NOW)
    made, stated = write(status, PodCounts(terminating=1), RUNNING, **spec)
    assert (made["succeeded"], stated) == (1, ["SuccessCriteriaMet=True", LEDGER])
    status = found(Phase.COMPLETED, array=ArrayStatus(completed=2, completed_indexes="0-1"), finished_timestamp=NOW)
    made, stated = write(status, NONE, made, **spec)
    assert (made["succeeded"], stated) == (2, ["SuccessCriteriaMet=True", "Complete=True", LEDGER])
    assert {(one["reason"], one["message"]) for one in made["conditions"][:2]} == {
        ("SuccessPolicy", "Matched rules at index 0")
    }


def test_while_pods_terminate_the_end_and_the_last_success_are_held_back() -> None:
    """Nextflow takes all successes without Complete for a failure."""
    array = ArrayStatus(completed=1, completed_indexes="0")
    status = found(Phase.COMPLETED, array=array, finished_timestamp=NOW)
    made, stated = write(status, PodCounts(terminating=1), RUNNING)
    assert (made.get("succeeded"), stated) == (None, ["SuccessCriteriaMet=True", LEDGER])
    made, stated = write(status, NONE, made)
    assert (made["succeeded"], stated) == (1, ["SuccessCriteriaMet=True", "Complete=True", LEDGER])


def test_a_job_that_ends_before_a_status_was_written_has_a_start() -> None:
    array = ArrayStatus(completed=1, completed_indexes="0")
    made, _ = write(found(Phase.COMPLETED, array=array, finished_timestamp=NOW - timedelta(hours=2)), NONE)
    assert made["startTime"] <= made["completionTime"]


def test_suspending_takes_the_start_away_before_pods_are_deleted() -> None:
    made, stated = write(found(Phase.SUSPENDED), ONE_RUNS, RUNNING, suspend=True)
    assert (made["active"], made["terminating"], made.get("startTime")) == (0, 1, None)
    assert stated == ["Suspended=True", LEDGER]


def test_resuming_starts_the_time_again() -> None:
    suspended = job_status(job(suspend=True), found(Phase.SUSPENDED), NONE, NOW - timedelta(hours=2))
    made, stated = write(found(Phase.RUNNING), ONE_RUNS, suspended)
    assert stated == ["Suspended=False", LEDGER]
    assert made["startTime"] == EARLIER


@pytest.mark.parametrize(
    ("reason", "wanted"),
    [
        (FailureReason.FAILED, ("BackoffLimitExceeded", "Job has reached the specified backoff limit")),
        (FailureReason.DEADLINE_EXCEEDED, ("DeadlineExceeded", "Job was active longer than specified deadline")),
        (FailureReason.TASKS_FAILED, ("FailedIndexes", "Job has failed indexes")),
        (FailureReason.POD_FAILURE_POLICY, ("PodFailurePolicy", "said")),
        (FailureReason.NOT_FOUND, ("NotFound", "said")),
    ],
)
def test_a_failure_has_the_words_of_the_controller(reason: FailureReason, wanted: tuple[str, str]) -> None:
    made, stated = write(found(Phase.FAILED, reason, retries=2), NONE, RUNNING)
    assert stated == ["FailureTarget=True", "Failed=True", LEDGER]
    assert {(one["reason"], one["message"]) for one in made["conditions"][:2]} == {wanted}
    assert made["failed"] == 2


def test_a_job_whose_pods_run_on_is_about_to_fail_first() -> None:
    status = found(Phase.FAILED, FailureReason.FAILED, retries=1)
    made, stated = write(status, ONE_RUNS, RUNNING)
    assert (stated, made.get("completionTime")) == (["FailureTarget=True", LEDGER], None)
    made, stated = write(found(Phase.FAILED, FailureReason.FAILED, retries=2), NONE, made)
    assert stated == ["FailureTarget=True", "Failed=True", LEDGER]
    assert made["failed"] == 2


def test_a_pod_that_has_ended_and_is_not_judged_holds_the_end_back() -> None:
    _, stated = write(found(Phase.FAILED, FailureReason.FAILED), PodCounts(uncounted=1), RUNNING)
    assert stated == ["FailureTarget=True", LEDGER]


def test_conditions_of_others_stay_where_they_are() -> None:
    other = {"type": "example.org/Seen", "status": "True", "reason": "Seen", "message": ""}
    before = {**RUNNING, "conditions": [other, *RUNNING["conditions"]]}
    _, stated = write(found(Phase.INTERRUPTED), NONE, before)
    assert stated == ["example.org/Seen=True", LEDGER]


def test_what_does_not_change_is_not_written() -> None:
    assert patch_of(job(RUNNING), job_status(job(RUNNING), found(Phase.RUNNING), ONE_RUNS, NOW)) == {}


def test_a_zero_that_the_api_server_leaves_out_is_not_written_again() -> None:
    made = job_status(job(RUNNING), found(Phase.INTERRUPTED), NONE, NOW)
    stored = {name: value for name, value in made.items() if name != "active"}
    assert patch_of(job(stored), job_status(job(stored), found(Phase.INTERRUPTED), NONE, NOW)) == {}


def test_no_end_is_ever_stated_as_false() -> None:
    """Argo CD judges by the type alone."""
    for phase in Phase:
        _, stated = write(found(phase, FailureReason.FAILED), NONE, RUNNING if phase is not Phase.SUSPENDED else None)
        ends = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")
        assert not [one for one in stated if one.removesuffix("=False") in ends]
