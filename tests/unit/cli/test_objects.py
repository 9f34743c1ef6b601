"""The projections say what the contract says: every field, under the name it has on the wire."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel
from scavenger_api import job as contract
from scavenger_api import queue as queue_contract
from scavenger_api.shared_settings import SharedSettings
from scavenger_api.weights import weights_of
from scavenger_cli import objects
from scavenger_cli.objects import Job, decode, decode_items, place_in_line, position, raw_items
from scavenger_kube import scavenger_kinds

from .cases import NOW, ago, job, queue, queued

PAIRS = [
    (objects.JobSpec, contract.ScavengerJobSpec),
    (scavenger_kinds.ShownStatus, contract.ScavengerJobStatus),
    (scavenger_kinds.Preemption, contract.Preemption),
    (objects.QueueSpec, queue_contract.ScavengerQueueSpec),
    (objects.QueueStatus, queue_contract.ScavengerQueueStatus),
    (objects.QueueCounts, queue_contract.QueueCounts),
]


@pytest.mark.parametrize(("projection", "model"), PAIRS, ids=lambda kind: kind.__name__)
def test_fields_are_those_of_the_contract(projection: type[msgspec.Struct], model: type[BaseModel]) -> None:
    on_the_wire = {field.alias or name for name, field in model.model_fields.items()}
    assert {field.encode_name for field in msgspec.structs.fields(projection)} <= on_the_wire


def test_defaults_are_those_of_the_contract() -> None:
    spec = objects.JobSpec()
    for name in ("queue", "parallelism", "interruption_after", "suspend"):
        assert getattr(spec, name) == contract.ScavengerJobSpec.model_fields[name].default
    assert spec.capacity == contract.ScavengerJobSpec.model_fields["capacity"].default


def test_phases_are_those_of_the_contract() -> None:
    assert set(objects.PHASES) == set(contract.Phase)
    assert set(objects.QUEUED) == {phase for phase in contract.Phase if phase.queued}
    assert set(objects.FINISHED) == {phase for phase in contract.Phase if phase.finished}


def test_a_status_written_by_the_model_is_read_back() -> None:
    status = contract.ScavengerJobStatus.model_validate(
        {
            "phase": "Running",
            "usefulCPUSeconds": 12.5,
            "lostCPUSeconds": 1,
            "preemption": {"class": "preemptible", "runningPriority": 3.5},
            "runningTimestamps": [NOW],
        }
    )
    found = msgspec.convert(status.to_dict(), scavenger_kinds.ShownStatus)
    assert (found.useful_cpu_seconds, found.lost_cpu_seconds) == (12.5, 1.0)
    assert (found.preemption.class_, found.preemption.running_priority) == ("preemptible", 3.5)
    assert found.running_timestamps == ("2026-01-05T12:00:00Z",)


@pytest.mark.parametrize(
    ("status", "seconds"),
    [
        ({"runningTimestamps": [ago(100)]}, 160),  # the start-up cost until the first checkpoint
        ({"runningTimestamps": [ago(100)], "priorityStartOverTimestamp": ago(40)}, 40),
        ({"runningTimestamps": [ago(100)], "lastCheckpointTimestamp": ago(10)}, 10),
        # a checkpoint of the run before says nothing about this one, one in the future nothing at all
        ({"runningTimestamps": [ago(100)], "lastCheckpointTimestamp": ago(500)}, 160),
        ({"runningTimestamps": [ago(100)], "lastCheckpointTimestamp": ago(-500)}, 160),
        # a checkpoint was due, though the status does not say so yet
        ({"runningTimestamps": [ago(1900)], "priorityStartOverTimestamp": ago(1900)}, 100),
        ({}, 0),
    ],
)
def test_at_risk_counts_from_what_is_safe(status: dict[str, Any], seconds: float) -> None:
    assert (
        job(phase="Running", cpu="500m", parallelism=4, status=status).at_risk(NOW, SharedSettings()) == seconds * 2.0
    )


def test_at_risk_goes_by_the_settings_of_all_components() -> None:
    running = job(phase="Running", cpu="1", status={"runningTimestamps": [ago(100)]}, interruptionAfter="168h")
    assert running.at_risk(NOW, SharedSettings(startup_cost_seconds=500)) == 600
    assert running.at_risk(NOW, SharedSettings(trusted_interval_seconds=10)) == pytest.approx(61)
    assert running.at_risk(NOW, SharedSettings(resource_weights=weights_of("cpu=2"))) == 320


def test_at_risk_is_computed_now_and_only_on_reclaimed_capacity_the_prioritizers_figure() -> None:
    status = {"runningTimestamps": [ago(100)], "preemption": {"runningPriority": 77}}
    assert job(phase="Running", cpu="1", status=status).at_risk(NOW, SharedSettings()) == 160
    assert job(phase="Running", capacity="Reclaimed", status=status).at_risk(NOW, SharedSettings()) == 77
    assert job(phase="Running", status={**status, "runningTimestamps": []}).at_risk(NOW, SharedSettings()) == 77
    assert job(phase="Interrupted", status=status).at_risk(NOW, SharedSettings()) == 0


@pytest.mark.parametrize(
    ("phase", "preemption", "expected"),
    [
        ("Running", {"class": "non-preemptible"}, "non-preemptible"),
        ("Running", {}, "preemptible"),  # as its pods were born, and not worth a write
        ("Completed", {"class": "non-preemptible"}, ""),
        ("Waiting", {}, ""),
    ],
)
def test_the_class_of_a_job(phase: str, preemption: dict[str, Any], expected: str) -> None:
    assert job(phase=phase, status={"preemption": preemption}).preemption_class == expected


def test_the_line() -> None:
    jobs = [
        job("late", status={"queuedTimestamp": queued(10)}),
        job("early", status={"queuedTimestamp": queued(20)}),
        job("hit", phase="Interrupted", status={"queuedTimestamp": queued(1), "interruptedCount": 1}),
        job("elsewhere", queue="night", status={"queuedTimestamp": queued(99)}),
        job("running", phase="Running"),
    ]
    places = {one.name: place_in_line(one, jobs) for one in jobs}
    assert places == {"hit": (1, 3), "early": (2, 3), "late": (3, 3), "elsewhere": (1, 1), "running": None}


def test_a_priority_counts_inside_a_namespace() -> None:
    jobs = [
        job("first", status={"queuedTimestamp": queued(30)}, priority=-1),
        job("other", namespace="else", status={"queuedTimestamp": queued(20)}),
        job("last", status={"queuedTimestamp": queued(10)}, priority=5),
    ]
    places = {one.name: place_in_line(one, jobs) for one in jobs}
    assert places == {"last": (1, 3), "other": (2, 3), "first": (3, 3)}


def test_jobs_that_came_at_once_are_told_apart_by_uid_as_the_admitter_does() -> None:
    status = {"queuedTimestamp": queued(10)}
    jobs = [
        job("a", uid="2", status=status),
        job("b", uid="1", status=status),
        job("c", uid="0", status={"queuedTimestamp": None}),
    ]
    places = {one.name: place_in_line(one, jobs) for one in jobs}
    assert places == {"b": (1, 3), "a": (2, 3), "c": (3, 3)}, "one that no admitter has seen yet comes last"


def test_lists() -> None:
    body = msgspec.json.encode(
        {"metadata": {}, "items": [{"metadata": {"name": "a", "managedFields": [{"manager": "x"}]}, "new": 1}]}
    )
    assert [one.name for one in decode_items(body, Job)] == ["a"]
    assert list(raw_items(body)) == [{"metadata": {"name": "a"}, "new": 1}]
    assert decode_items(b'{"items": null}', Job) == []
    with pytest.raises(ValueError, match="Expected"):
        decode(b'{"spec": {"parallelism": "x"}}', Job)


def test_a_template_that_nobody_can_read_hides_no_job() -> None:
    """Where no webhook has refused it, any user may have written it."""
    spec, status = {"queue": "night", "template": {"spec": 5}}, {"phase": "Waiting", "message": "spec.template: …"}
    broken = {"metadata": {"name": "b"}, "spec": spec, "status": status}
    good, bad = decode_items(msgspec.json.encode({"items": [{"metadata": {"name": "a"}}, broken]}), Job)
    assert (good.name, bad.name, bad.spec.queue, bad.status.message) == ("a", "b", "night", "spec.template: …")
    assert bad.spec.requests == {}


def test_an_object_that_nobody_can_read_hides_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    broken = {"metadata": {"name": "b", "namespace": "lab"}, "spec": {"parallelism": "x"}}
    items = [broken, {"metadata": {"name": "a"}}, {"metadata": {"name": 5}}]
    assert [one.name for one in decode_items(msgspec.json.encode({"items": items}), Job)] == ["a"]
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("lab/b is left out, as it cannot be read: Expected `int`")
    assert said[1].startswith("an object is left out")


@pytest.mark.parametrize("capacity", ["Guaranteed", "Reclaimed"])
@pytest.mark.parametrize(
    "resources",
    [
        {"requests": {"cpu": "500m", "memory": "1Gi"}},
        {"limits": {"cpu": "2", "memory": "100M", "nvidia.com/gpu": "1"}},
        {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}},
        {"requests": {"cpu": "0", "memory": "0"}, "limits": {"cpu": "3", "memory": "1Mi"}},
        {"requests": {"cpu": "0"}, "limits": {"cpu": "1500m", "memory": "1"}},
    ],
)
def test_what_is_asked_for_is_as_the_contract_has_it(capacity: str, resources: dict[str, Any]) -> None:
    whole = {"image": "i", "resources": resources, "capacity": capacity}
    spec, model = msgspec.convert(whole, objects.JobSpec), contract.ScavengerJobSpec.model_validate(whole)
    assert spec.requests == dict(model.requests)
    assert spec.placed_by == dict(model.placed_by)


def test_the_checkpoint_interval() -> None:
    assert job(interruption_after="1h30m").spec.checkpoint_interval == timedelta(minutes=90)


STRUCT_OF_SLOW_ANNOTATIONS = """
import threading, time
import msgspec
from scavenger_cli.objects import decode, decode_items

def slow():
    time.sleep(0.05)
    return str

class Inner(msgspec.Struct):
    name: "slow()" = ""

class Outer(msgspec.Struct):
    inner: Inner

body = b'{"inner": {"name": "a"}}'
listed = b'{"items": [%s]}' % body
works = [lambda: decode(body, Outer), lambda: decode_items(listed, Outer), lambda: decode(body, Outer)]
found = []
threads = [threading.Thread(target=lambda work=work: found.append(work())) for work in works]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(found))
"""


def test_threads_may_decode_a_type_for_the_first_time_at_once() -> None:
    """`logs -f` follows a job and its pods in threads; it died without a word where both were quick."""
    command = [sys.executable, "-c", STRUCT_OF_SLOW_ANNOTATIONS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


def test_an_array_stands_where_its_last_task_started() -> None:
    sweep = {"queuedTimestamp": queued(90), "runningTimestamps": [queued(80), queued(20)]}
    array = job("array", phase="Waiting", status=sweep, array={"tasks": 9}, priority=1)
    jobs = [
        array,
        job("early", namespace="else", status={"queuedTimestamp": queued(30)}),
        job("late", namespace="else", status={"queuedTimestamp": queued(10)}),
        job("behind", status={"queuedTimestamp": queued(60)}),
    ]
    places = {one.name: place_in_line(one, jobs) for one in jobs}
    assert places == {"early": (1, 4), "array": (2, 4), "behind": (3, 4), "late": (4, 4)}
    hit = job("array", phase="Interrupted", status={**sweep, "interruptedCount": 9}, array={"tasks": 9})
    assert (hit.precedence, array.precedence) == (1, 0)
    assert job("array", phase="Running", status=sweep, array={"tasks": 9}).runs == (queued(80),)


def test_jobs_that_have_had_less_go_first_and_the_position_says_so() -> None:
    def had(name: str, minutes: int, level: int | None, **more: Any) -> Job:
        return job(name, status={"queuedTimestamp": queued(minutes), "servedLevel": level, **more})

    jobs = [had("much", 90, 14), had("new", 10, None), had("some", 50, 9, interruptedCount=3), had("none", 60, 0)]
    assert [place_in_line(one, jobs) for one in jobs] == [(4, 4), (2, 4), (3, 4), (1, 4)]
    said = [position(one, place_in_line(one, jobs)) for one in jobs[:2]]
    assert said == [
        "4th of 4 in queue default, as jobs that have had less CPU time go first",
        "2nd of 4 in queue default",
    ]
    sweep = job("sweep", phase="Interrupted", status={"servedLevel": 0}, array={"tasks": 9})
    assert sweep.precedence == 0, "an interrupted task gives it no place"


def test_where_namespaces_take_turns_a_place_is_among_those_of_its_namespace() -> None:
    jobs = [
        job("flood", namespace="else", status={"queuedTimestamp": queued(90)}),
        job("first", status={"queuedTimestamp": queued(50)}),
        job("mine", status={"queuedTimestamp": queued(10)}),
    ]
    turns = [queue("default", perNamespace={})]
    place = place_in_line(jobs[2], jobs, turns)
    assert (
        position(jobs[2], place, turns) == "2nd of 2 of namespace default in queue default, where namespaces take turns"
    )
    place = place_in_line(jobs[2], jobs, [queue("default"), queue("night", perNamespace={})])
    assert position(jobs[2], place) == "3rd of 3 in queue default"
