"""Objects of the API as facts; what cannot be read counts as absent."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest
from scavenger_api import names
from scavenger_api.indexes import MAX_TASKS, all_of, parse_indexes
from scavenger_board.core.snapshot import ArrayFacts
from scavenger_board.facts import (
    MOST_CELLS,
    STATES,
    BoardEvent,
    Job,
    Queue,
    cells,
    event_facts,
    is_ours,
    job_facts,
    node_facts,
    pod_facts,
    queue_facts,
    renewed_at,
)
from scavenger_domain.nodes import PLAIN_POOL, pool_of
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import Lease
from scavenger_runtime.kept_pods import keeping
from scavenger_testing.builders import condition, node, pod, scavengerjob_dict

SYSTEM = "scavenger-system"


def job(**fields: Any) -> Job:
    return msgspec.convert(scavengerjob_dict("a", namespace="lab", **fields), Job)


def test_a_job_that_waits() -> None:
    status = {
        "conditions": [condition("Admitted", "False", "NoPlace", "no node has room")],
        "queuedTimestamp": "2026-01-05T07:00:00.000001Z",
        "interruptedCount": 3,
        "ownInterruptedCount": 1,
        "interruptedTimestamps": ["2026-01-05T06:00:00Z", "yesterday"],
        "lostCPUSeconds": 12.5,
        "message": "something else",
    }
    found = job_facts(job(phase="Waiting", status=status, cpu="500m", memory="1Gi", parallelism=2))

    assert (found.key, found.reason, found.message) == ("lab/a", "NoPlace", "no node has room")
    assert (found.cpu, found.memory, found.pods) == (500, 2**30, 2)
    assert (found.interrupted, found.earned, found.lost) == (3, 2, 12.5)
    assert [at.hour for at in found.interruptions] == [6]
    assert found.in_line
    assert job_facts(job(phase="Waiting", status={**status, "servedLevel": 7})).earned == -7
    smaller = job(phase="Waiting", status={"recommended": {"cpu": "250m"}}, cpu="500m", memory="1Gi")
    assert (job_facts(smaller).cpu, job_facts(smaller).memory) == (250, 2**30)


def test_what_an_admitted_job_says_is_its_message_and_no_reason_to_wait() -> None:
    status = {"conditions": [condition("Admitted", "True", "Started")], "message": "running", "preemption": {}}
    found = job_facts(job(phase="Running", status=status))

    assert (found.reason, found.message, found.preemption_class) == ("", "running", names.PREEMPTIBLE)


def test_the_cause_of_the_last_interruption_while_it_is_the_last_word() -> None:
    conditions = [condition("Interrupted", "True", "NodeLost")]
    assert job_facts(job(phase="Interrupted", status={"conditions": conditions})).cause == "NodeLost"
    conditions = [condition("Interrupted", "False", "Running")]
    assert job_facts(job(phase="Running", status={"conditions": conditions})).cause == ""


def test_a_job_that_nobody_has_seen_and_one_that_asks_for_nonsense() -> None:
    found = job_facts(job(cpu="lots"))

    assert (found.phase, found.in_line, found.cpu) == ("", True, 0)


def test_pods_of_jobs_of_services_and_ordinary_ones() -> None:
    labels = {names.LABEL_JOB: "a"}
    assert pod_facts(pod("p", namespace="lab", labels=labels, node="n"), SYSTEM).job == "lab/a"
    ours = {"app.kubernetes.io/name": "scavenger-webhook", "app.kubernetes.io/part-of": "scavenger-jobs"}
    found = pod_facts(pod("w", namespace=SYSTEM, labels=ours, node="n", conditions=[condition("Ready")]), SYSTEM)
    assert (found.service, found.ready, found.job) == ("scavenger-webhook", True, "")
    assert (
        pod_facts(pod("o", namespace=SYSTEM, labels={"app.kubernetes.io/name": "scavenger-webhook"}), SYSTEM).service
        == ""
    )
    assert pod_facts(pod("o", namespace="lab", labels=ours), SYSTEM).service == "", "labels are anybody's"
    assert pod_facts(pod("o"), SYSTEM).waits
    assert not pod_facts(pod("o", node="n"), SYSTEM).waits
    assert pod_facts(pod("o", cpu="much"), SYSTEM).requests == {}


OURS = {"app.kubernetes.io/name": "scavenger-webhook", "app.kubernetes.io/part-of": "scavenger-jobs"}


@pytest.mark.parametrize(
    "each",
    [
        pod("o", namespace="web", node="n", phase="Running", cpu="2", labels=OURS, conditions=[condition("Ready")]),
        pod("o", namespace="web", cpu="2"),
        pod("o", namespace="web", deleted="2026-01-05T08:00:00Z"),
        pod("p", namespace="lab", labels={names.LABEL_JOB: "a", names.LABEL_TASK: "3"}, node="n", phase="Running"),
        pod("w", namespace=SYSTEM, labels=OURS, node="n", conditions=[condition("Ready")]),
        pod("w", namespace=SYSTEM, labels=OURS),
    ],
)
def test_all_that_is_shown_of_a_pod_is_kept(each: Pod) -> None:
    kept = keeping(partial(is_ours, system=SYSTEM))(each, None)
    assert pod_facts(kept, SYSTEM) == pod_facts(each, SYSTEM)


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({}, ""),
        ({"ready": False}, "not ready"),
        ({"unschedulable": True}, "cordoned"),
        ({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, "taint gpu"),
        ({"taints": [{"key": "gpu", "effect": "PreferNoSchedule"}]}, ""),
        ({"deleted": "2026-01-05T08:00:00Z"}, "being deleted"),
    ],
)
def test_why_nothing_new_starts_on_a_node(fields: dict[str, Any], note: str) -> None:
    assert node_facts(node("n", **fields)).note == note


def test_what_sets_the_pool_of_a_node_apart() -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    made = node("n", allocatable={"cpu": "4", "nvidia.com/gpu": "1"}, taints=[taint])
    assert node_facts(made).marks.pool() == pool_of(made) != PLAIN_POOL
    assert node_facts(made).marks.pool({"nvidia.com/gpu"}) == PLAIN_POOL


def test_what_a_node_offers_of_reclaimed_capacity_counts_as_cpu_and_memory() -> None:
    allocatable = {
        "cpu": "4",
        "memory": "8Gi",
        names.RESOURCE_RECLAIMED_CPU: "1500",
        names.RESOURCE_RECLAIMED_MEMORY: "2",
    }
    found = node_facts(node("n", allocatable=allocatable))

    assert found.offered == {"cpu": 1500, "memory": 2 * 2**20}


def test_an_array_by_its_status() -> None:
    array = {"completed": 4, "failed": 1, "running": 2, "completedIndexes": "0-3", "failedIndexes": "5"}
    array |= {"runningIndexes": "6,7", "interruptedIndexes": "7,8"}
    found = job_facts(job(phase="Running", status={"array": array}, array={"tasks": 10})).array
    assert found == ArrayFacts(10, 4, 1, 2, "cccc.frri.")
    unreadable = job_facts(job(phase="Running", status={"array": {"completedIndexes": "soon"}}, array={"tasks": 10}))
    assert unreadable.array == ArrayFacts(10, 0, 0, 0, "")
    assert job_facts(job()).array is None
    given = job_facts(job(phase="Running", status={"array": array}, array={"indexes": "1-10"})).array
    assert given == ArrayFacts(10, 4, 1, 2, "cccc.frri.", "1-10")
    endless = job_facts(job(phase="Running", array={"indexes": "0-3999999"})).array
    assert endless is not None
    assert endless.indexes == "", "no page expands what no webhook has refused"


@pytest.mark.parametrize("tasks", [0, -1, MAX_TASKS + 1, 2**63])
def test_an_array_of_an_impossible_size_has_no_cells(tasks: int) -> None:
    """No schema let it in, and nothing is raised by what a board shows."""
    assert cells(tasks, dict.fromkeys("fric", 1)) == ""


@pytest.mark.parametrize("tasks", [1, 399, 400, 401, 1000, 99_999, 100_000])
def test_an_array_of_any_size_has_a_bounded_number_of_cells(tasks: int) -> None:
    sets = {name: parse_indexes("") for name in STATES}
    sets["c"], sets["f"] = all_of(tasks // 2), 1 << (tasks - 1)
    found = cells(tasks, sets)
    assert 0 < len(found) <= MOST_CELLS
    assert -(-tasks // len(found)) <= 2 * max(1, tasks // MOST_CELLS)
    assert found[-1] == "f"
    assert found.count("c") == tasks // 2 // -(-tasks // MOST_CELLS)


def test_a_task_has_its_index_its_start_and_its_checkpoint() -> None:
    labels = {names.LABEL_JOB: "a", names.LABEL_TASK: "7"}
    note = {names.ANNOTATION_LAST_CHECKPOINT: "1970-01-01T00:00:09Z"}
    made = pod("a-7", namespace="lab", labels=labels, annotations=note, phase="Running", started="1970-01-01T00:00:05Z")
    found = pod_facts(made, SYSTEM)
    assert (found.task, found.started, found.checkpoint) == (7, 5_000_000, 9_000_000)
    assert pod_facts(pod("o", labels={names.LABEL_TASK: "7"}), SYSTEM).task is None


def test_a_queue_as_it_is_asked_for_and_not_as_its_status_lags() -> None:
    raw = {
        "metadata": {"name": "q"},
        "spec": {"closed": True},
        "status": {"state": "Open", "deserved": {"cpu": "1500m"}},
    }
    found = queue_facts(msgspec.convert(raw, Queue))

    assert (found.state, found.deserved) == ("Closed", {"cpu": 1500})


@pytest.mark.parametrize(
    ("stamps", "hour"),
    [
        ({"lastTimestamp": "2026-01-05T09:00:00Z", "firstTimestamp": "2026-01-05T08:00:00Z"}, 9),
        ({"lastTimestamp": None, "eventTime": "2026-01-05T07:00:00.000001Z"}, 7),
        ({}, None),
    ],
)
def test_events_of_both_apis_have_a_time(stamps: dict[str, Any], hour: int | None) -> None:
    raw = {
        "metadata": {"name": "e", "namespace": "lab"},
        "involvedObject": {"kind": "Pod", "namespace": "lab", "name": "a-0-x"},
        "related": {"kind": "Pod", "namespace": "web", "name": "shop"},
        **stamps,
    }
    found = event_facts(msgspec.convert(raw, BoardEvent))

    assert (None if found is None else found.at.hour) == hour
    if found is not None:
        assert (found.about, found.related) == ("Pod lab/a-0-x", "Pod web/shop")


def test_an_event_from_another_namespace_is_none() -> None:
    raw = {
        "metadata": {"name": "e", "namespace": "mine", "creationTimestamp": "2026-01-05T07:00:00Z"},
        "involvedObject": {"kind": "ScavengerJob", "namespace": "lab", "name": "a", "uid": "uid-a"},
    }
    assert event_facts(msgspec.convert(raw, BoardEvent)) is None


def test_a_lease_that_was_given_back_is_nobody_s() -> None:
    spec = {"renewTime": "2026-01-05T07:00:00.000001Z", "holderIdentity": "a"}
    assert renewed_at(msgspec.convert({"spec": spec}, Lease)) is not None
    assert renewed_at(msgspec.convert({"spec": {**spec, "holderIdentity": ""}}, Lease)) is None
