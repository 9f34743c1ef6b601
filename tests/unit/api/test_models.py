"""The models on the wire."""

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError
from scavenger_api.job import ConditionType, Phase, ScavengerJob, ScavengerJobSpec
from scavenger_api.queue import ScavengerQueue

WIRE: dict[str, Any] = {
    "apiVersion": "scavenger.dev/v1alpha1",
    "kind": "ScavengerJob",
    "metadata": {
        "name": "fold",
        "namespace": "lab",
        "uid": "u-1",
        "resourceVersion": "7",
        "generation": 2,
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"team": "blue"},
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {
        "queue": "default",
        "priority": 0,
        "image": "example/app:1",
        "command": ["run"],
        "env": [{"name": "A", "value": "1"}],
        "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "1"}},
        "parallelism": 2,
        "interruptionAfter": "1h30m",
        "terminationGracePeriodSeconds": 30,
        "checkpointExitCode": 85,
        "suspend": False,
        "capacity": "Guaranteed",
        "notYetKnown": True,
    },
    "status": {
        "phase": "Running",
        "conditions": [
            {
                "type": "Running",
                "status": "True",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
                "reason": "Running",
                "message": "",
            }
        ],
        "interruptedCount": 1,
        "ownInterruptedCount": 0,
        "queuedTimestamp": "2026-01-02T03:04:05.000006Z",
        "runningTimestamps": ["2026-01-02T03:04:05Z"],
        "interruptedTimestamps": [],
        "endedTimestamp": "2026-01-02T03:04:05Z",
        "usefulCPUSeconds": 2.5,
        "lostCPUSeconds": 0.0,
        "preemption": {"class": "non-preemptible", "runningPriority": 3.0},
    },
}


def test_names_on_the_wire_are_those_of_kubernetes_and_unset_fields_stay_away() -> None:
    written = ScavengerJob.model_validate(WIRE).to_dict()

    expected_spec = {key: value for key, value in WIRE["spec"].items() if key != "notYetKnown"}
    expected_spec["resources"] = {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"nvidia.com/gpu": "1"},
    }
    assert written["spec"] == expected_spec
    assert written["status"] == WIRE["status"]


def test_reading_and_writing_twice_changes_nothing() -> None:
    once = ScavengerJob.model_validate(WIRE)

    assert ScavengerJob.model_validate(once.to_dict()) == once


def test_what_a_decision_reads() -> None:
    job = ScavengerJob.model_validate(WIRE)

    assert job.key == "lab/fold"
    assert job.spec.requests == {"cpu": 1000, "memory": 2**30, "nvidia.com/gpu": 1}
    assert job.spec.checkpoint_interval.total_seconds() == 5400
    running = job.status.condition(ConditionType.RUNNING)
    assert running is not None
    assert running.status == "True"
    assert job.status.condition(ConditionType.SUCCEEDED) is None
    assert job.status.queued_timestamp == datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert job.owner_reference()["controller"] is True


def test_phases() -> None:
    assert {phase for phase in Phase if phase.finished} == {Phase.COMPLETED, Phase.FAILED}
    assert {phase for phase in Phase if phase.queued} == {Phase.WAITING, Phase.INTERRUPTED}
    assert {phase for phase in Phase if phase.active} == {Phase.STARTING, Phase.RUNNING}


def test_a_job_without_status_has_none() -> None:
    job = ScavengerJob.model_validate({key: WIRE[key] for key in ("metadata", "spec")})

    assert (job.status.phase, job.status.interrupted_count, job.status.preemption) == (None, 0, None)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_spans_are_finite_and_not_negative(value: float) -> None:
    with pytest.raises(ValidationError):
        ScavengerJob.model_validate({**WIRE, "status": {"lostCPUSeconds": value}})


def test_objects_are_immutable_in_memory() -> None:
    job = ScavengerJob.model_validate(WIRE)

    with pytest.raises(ValidationError):
        job.spec.queue = "other"  # type: ignore[misc]  # mypy says so too


def test_mutable_fields_exist() -> None:
    assert set(ScavengerJobSpec.model_json_schema()["properties"]) >= ScavengerJobSpec.MUTABLE


def test_queue() -> None:
    queue = ScavengerQueue.model_validate({"metadata": {"name": "night"}, "spec": {"quota": {"cpu": 4}}})

    assert (queue.spec.weight, queue.spec.quota, queue.spec.closed) == (1, {"cpu": "4"}, False)
    assert queue.metadata.key == "night"
    assert queue.spec.namespace_selector is None, "everybody"
    one = ScavengerQueue.model_validate({"spec": {"namespaceSelector": {"matchLabels": {"team": "blue"}}}})
    assert one.spec.to_dict()["namespaceSelector"]["matchLabels"] == {"team": "blue"}


@pytest.mark.parametrize("code", [0, -1, 256, "85x", 85.5])
def test_a_checkpoint_exit_code_is_one_that_a_process_can_end_with_and_no_success(code: object) -> None:
    spec = {**WIRE["spec"], "checkpointExitCode": code}
    with pytest.raises(ValidationError, match="checkpointExitCode"):
        ScavengerJobSpec.model_validate(spec)
    for allowed in (1, 85, 255):
        assert ScavengerJobSpec.model_validate({**spec, "checkpointExitCode": allowed}).checkpoint_exit_code == allowed
