"""What has become of an attempt, from its job, its folder and the time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from scavenger_kube.errors import Invalid
from scavenger_tuner.core.endings import (
    Complaint,
    Create,
    Ending,
    Failed,
    Figure,
    Follow,
    JobFacts,
    Left,
    Patience,
    Result,
    Succeeded,
    ending,
)
from scavenger_tuner.core.rules import Reason
from scavenger_tuner.facts import Job, job_facts, why_refused

NOW = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
PATIENCE = Patience(wall_time=3600, too_large=300)
FIGURE = Figure(value=1.0, error=0.1, unit="g/cm3")
RESULT = Result(density=FIGURE, diffusion=FIGURE, ns_per_day=1, steps=1, recomputed_steps=0, ranks=1, threads=1)
COMPLAINT = Complaint(reason="Unstable", message="LINCS")


def job(phase: str = "Running", age: float = 0, **facts: Any) -> JobFacts:
    return JobFacts(phase, NOW - timedelta(seconds=age), **facts)


@pytest.mark.parametrize(
    ("facts", "left", "expected"),
    [
        (None, Left(), Create()),
        (None, Left(result=RESULT), Succeeded(RESULT)),
        (None, Left(complaint=COMPLAINT), Failed(Reason.UNSTABLE, "LINCS")),
        (None, Left(unreadable="result.json: is a link"), Create()),
        (job(""), Left(), Follow()),
        (job("Running"), Left(result=RESULT), Follow()),
        (job("Interrupted"), Left(complaint=COMPLAINT), Follow()),
        (job("Completed"), Left(result=RESULT), Succeeded(RESULT)),
        (job("Completed"), Left(RESULT, COMPLAINT), Succeeded(RESULT)),
        (job("Completed"), Left(), Failed(Reason.UNKNOWN, "completed without a result")),
        (job("Completed"), Left(unreadable="result.json: no"), Failed(Reason.UNKNOWN, "result.json: no")),
        (job("Failed"), Left(complaint=COMPLAINT), Failed(Reason.UNSTABLE, "LINCS")),
        (job("Failed", message="exited with code 1"), Left(), Failed(Reason.UNKNOWN, "exited with code 1")),
        (job("Failed", message="why"), Left(result=RESULT), Failed(Reason.UNKNOWN, "why")),
        (
            job("Failed", message="container main of pod p exited with code 137 (OOMKilled)"),
            Left(),
            Failed(Reason.OUT_OF_MEMORY, "container main of pod p exited with code 137 (OOMKilled)"),
        ),
        (job("Failed", succeeded="NotFound", message="no claim"), Left(), Failed(Reason.INVALID, "no claim")),
        (job("Failed", succeeded="Failed"), Left(), Failed(Reason.UNKNOWN, "failed without a message")),
        (
            job("Running", ran=3601),
            Left(),
            Failed(Reason.WALL_TIME, "ran for 3601 s, more than the 3600 s that it may", cancel=True),
        ),
        (job("Running", ran=3600), Left(), Follow()),
        (job("Completed", ran=9999), Left(result=RESULT), Succeeded(RESULT)),
        (job("Waiting", age=299, admitted="LargerThanAnyNode", message="m"), Left(), Follow()),
        (
            job("Waiting", age=300, admitted="LargerThanAnyNode", message="m"),
            Left(),
            Failed(Reason.TOO_LARGE, "m", cancel=True),
        ),
        (
            job("Interrupted", age=300, admitted="LargerThanCluster"),
            Left(),
            Failed(Reason.TOO_LARGE, "LargerThanCluster", cancel=True),
        ),
        (job("Waiting", age=9999, admitted="NoPlace"), Left(), Follow()),
        (job("Starting", age=9999, admitted="LargerThanAnyNode"), Left(), Follow()),
    ],
)
def test_ending(facts: JobFacts | None, left: Left, expected: Ending) -> None:
    assert ending(facts, left, NOW, PATIENCE) == expected


@pytest.mark.parametrize("reason", ["NoPlace", "AdmissionLevel", "QueueQuota", "Unschedulable", "LargerThanCluster"])
def test_a_job_that_finds_no_room_for_long_is_too_large(reason: str) -> None:
    patience = Patience(wall_time=3600, too_large=9999, no_room=600)
    too_large = Failed(Reason.TOO_LARGE, "m", cancel=True)
    assert ending(job("Waiting", age=599, admitted=reason, message="m"), Left(), NOW, patience) == Follow()
    assert ending(job("Waiting", age=600, admitted=reason, message="m"), Left(), NOW, patience) == too_large
    assert ending(job("Interrupted", age=600, admitted=reason, ran=60), Left(), NOW, patience) == Follow()
    assert ending(job("Starting", age=600, admitted=reason), Left(), NOW, patience) == Follow()
    assert ending(job("Waiting", age=600, admitted="Queued"), Left(), NOW, patience) == Follow()


def scavenger_job(**status: Any) -> Job:
    return msgspec.convert(
        {
            "metadata": {"name": "a", "namespace": "n", "creationTimestamp": "2026-01-05T07:00:00Z"},
            "spec": {"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}},
            "status": status,
        },
        Job,
    )


def test_facts_of_a_job() -> None:
    found = job_facts(
        scavenger_job(
            phase="Waiting",
            message="waits",
            interruptedCount=3,
            usefulCPUSeconds=20.0,
            lostCPUSeconds=10.0,
            conditions=[
                {"type": "Admitted", "status": "False", "reason": "LargerThanAnyNode"},
                {"type": "Succeeded", "status": "Unknown", "reason": "Unfinished"},
            ],
        ),
        NOW,
    )

    assert found == JobFacts(
        phase="Waiting",
        created=NOW - timedelta(hours=1),
        admitted="LargerThanAnyNode",
        message="waits",
        ran=15.0,
        interruptions=3,
        useful=20.0,
        lost=10.0,
    )


@pytest.mark.parametrize(
    ("status", "ran"),
    [
        ({"phase": "Running", "runningTimestamps": ["2026-01-05T07:59:00Z"]}, 60),
        ({"phase": "Interrupted", "runningTimestamps": ["2026-01-05T07:59:00Z"], "lostCPUSeconds": 20.0}, 10),
        (
            {
                "phase": "Running",
                "runningTimestamps": ["2026-01-05T07:00:00Z"],
                "priorityStartOverTimestamp": "2026-01-05T07:30:00Z",
                "lastCheckpointTimestamp": "2026-01-05T07:50:00Z",
                "usefulCPUSeconds": 6000.0,
            },
            3000 + 600,
        ),
        ({"phase": "Running", "runningTimestamps": ["2026-01-05T08:00:09Z"]}, 0),
        ({}, 0),
    ],
)
def test_how_long_a_job_has_run(status: dict[str, Any], ran: float) -> None:
    assert job_facts(scavenger_job(**status), NOW).ran == ran


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (["spec.resources"], Reason.TOO_LARGE),
        (["spec.resources.requests", "spec.resources"], Reason.TOO_LARGE),
        (["spec.resources", "spec.image"], Reason.INVALID),
        ([], Reason.INVALID),
    ],
)
def test_why_a_job_was_refused(fields: list[str], reason: Reason) -> None:
    assert why_refused(Invalid(422, "Invalid", "", {"causes": [{"field": field} for field in fields]})) is reason
