from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from scavenger_api.times import format_time, parse_time
from scavenger_kube import kinds
from scavenger_kube.kinds import PodSpec
from scavenger_kube.scavenger_kinds import ScavengerJob
from scavenger_regulator.core.eviction.candidates import leaving
from scavenger_regulator.facts import ended_at, gangs, node_facts, pod_facts, pod_requests
from scavenger_regulator.sources import SourceError
from scavenger_regulator.sources import requests as requests_source
from scavenger_regulator.sources.metrics_api import parse
from scavenger_regulator.sources.prometheus import NODE_CPU, NODE_MEMORY, Queries, combine
from scavenger_runtime.kept_pods import without_details
from scavenger_runtime.prometheus import POD_CPU, POD_MEMORY, PrometheusError, Vector, parse_vector
from scavenger_testing.builders import (
    CREATED,
    condition,
    job_dict,
    node,
    node_dict,
    pod,
    running,
    scavengerjob_dict,
    terminated,
)

from .builders import GIB, NOW

T0 = "2026-01-02T12:00:00Z"


def as_node(**changes: Any) -> kinds.Node:
    made = node_dict("n", cpu="4", memory="16Gi")
    made["status"]["conditions"] = [condition("Ready", changes.pop("ready", "True"))]
    made["spec"] = {**made.get("spec", {}), **changes}
    return msgspec.convert(made, kinds.Node)


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({}, True),
        ({"ready": "False"}, False),
        ({"ready": "Unknown"}, False),
        ({"unschedulable": True}, False),
        ({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, False),
        ({"taints": [{"key": "gone", "effect": "NoExecute"}]}, False),
        ({"taints": [{"key": "soft", "effect": "PreferNoSchedule"}]}, True),
        ({"taints": [{"key": "ours", "effect": "NoSchedule"}]}, True),
    ],
)
def test_which_nodes_count(changes: dict[str, Any], counts: bool) -> None:
    facts = node_facts(as_node(**changes), ("ours",))
    assert facts.counts is counts
    assert facts.allocatable["cpu"] == 4
    assert facts.allocatable["memory"] == 16 * GIB


def test_a_node_being_deleted_does_not_count() -> None:
    """Its pods are leaving and nothing new comes: for the admitter it is no place either."""
    assert not node_facts(node("n", deleted=T0), ()).counts


def containers(*cpus: str, init: tuple[tuple[str, str], ...] = (), **spec: Any) -> kinds.Pod:
    def one(cpu: str, policy: str | None = None) -> dict[str, Any]:
        return {"name": "c", "restartPolicy": policy or None, "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}

    made = {
        "containers": [one(cpu) for cpu in cpus],
        "initContainers": [one(cpu, policy) for cpu, policy in init],
        **spec,
    }
    return msgspec.convert({"metadata": {"name": "p"}, "spec": made}, kinds.Pod)


@pytest.mark.parametrize(
    ("pod_", "cores"),
    [
        (containers("500m", "1"), 1.5),
        (containers("1", init=(("3", ""),)), 3),
        (containers("1", init=(("2", "Always"),)), 3),
        (containers("1", init=(("2", "Always"), ("4", ""))), 6),
        (containers("1", resources={"requests": {"cpu": "5"}}), 5),
        (containers("1", overhead={"cpu": "250m"}), 1.25),
        (containers("rubbish"), 0),
    ],
)
def test_requests_as_the_scheduler_counts_them(pod_: kinds.Pod, cores: float) -> None:
    assert pod_requests(pod_)["cpu"] == cores


def test_what_computes_is_neither_the_init_phase_nor_the_overhead() -> None:
    """As for prioritizer and scheduler plugin: init containers that have ended compute nothing."""
    facts = pod_facts(containers("1", init=(("9", ""), ("100m", "Always")), overhead={"cpu": "250m"}))
    assert facts.computes_with is not None
    assert facts.computes_with["cpu"] == 1100
    assert facts.requests["cpu"] == 9.25


def job_of(name: str = "job", run: str = "run", **status: Any) -> ScavengerJob:
    fields: dict[str, Any] = {"suspend": True} if status.pop("suspend", False) else {}
    made = scavengerjob_dict(
        name, namespace="lab", phase=status.pop("phase", "Running"), status={"jobName": run, **status}, **fields
    )
    return msgspec.convert(made, ScavengerJob)


def member(name: str, job: str = "job", run: str = "run", **fields: Any) -> kinds.Pod:
    values: dict[str, Any] = {"namespace": "lab", "node": "n", "phase": "Running", "labels": {"scavenger.dev/job": job}}
    return pod(name, owner=job_dict(run, namespace="lab"), **{**values, **fields})


def test_a_gang_is_the_pods_of_the_present_run_that_take_room() -> None:
    pods = [
        member("a"),
        member("b"),
        member("old", run="run-before"),
        member("ended", phase="Failed"),
        member("nowhere", node=None),
        member("other", job="other"),
        pod("borrowed", namespace="lab", node="n", labels={"scavenger.dev/job": "job"}),
    ]
    found = gangs([job_of(), job_of("none"), job_of("norun", run="")], pods)
    assert [(gang.key, [p.key for p in gang.pods]) for gang in found] == [("lab/job", ["lab/a", "lab/b"])]


@pytest.mark.parametrize("phase", ["", "Waiting", "Interrupted"])
def test_pods_of_a_start_that_no_status_speaks_of_yet_are_the_jobs(phase: str) -> None:
    pods = [member("a", run="job"), member("borrowed", run="other")]
    (gang,) = gangs([job_of(phase=phase, run="")], pods)
    assert [p.key for p in gang.pods] == ["lab/a"]
    assert not gang.running


def test_pods_of_a_job_that_is_deleted_or_runs_anew_are_there_until_they_have_stopped() -> None:
    going: dict[str, Any] = {"deleted": T0, "grace_seconds": 60}
    pods = [
        member("a"),
        member("old", run="run-before", **going),
        member("left", job="deleted", run="its-run", **going),
        member("left-too", job="deleted", run="its-run", **going),
        member("ended", job="deleted", run="its-run", phase="Failed", **going),
        member("stays", job="deleted", run="other-run"),
        pod("borrowed", namespace="lab", node="n", labels={"scavenger.dev/job": "job"}, deleted=T0),
    ]
    found = gangs([job_of()], pods)
    assert [(gang.key, [p.key for p in gang.pods]) for gang in found] == [
        ("lab/job", ["lab/a"]),
        ("lab/job", ["lab/old"]),
        ("lab/deleted", ["lab/left", "lab/left-too"]),
    ]
    assert len({gang.uid for gang in found}) == 3
    assert all(leaving(gang, NOW) and gang.stopping and not gang.running for gang in found[1:])


def task(index: int, **fields: Any) -> kinds.Pod:
    labels = {"scavenger.dev/job": "job", "scavenger.dev/task": str(index)}
    return member(f"job-{index}", run="job", **{"labels": labels, "started": CREATED, **fields})


def test_each_task_of_an_array_is_a_gang() -> None:
    pods = [
        task(0),
        task(1, phase="Succeeded"),
        task(2, deleted=T0, grace_seconds=60),
        task(11, phase="Pending", started=None),
        task(12, node=None),
    ]
    found = gangs([job_of(run="")], pods)
    assert [(gang.key, [p.key for p in gang.pods]) for gang in found] == [
        ("lab/job[0]", ["lab/job-0"]),
        ("lab/job[2]", ["lab/job-2"]),
        ("lab/job[11]", ["lab/job-11"]),
    ]
    assert len({gang.uid for gang in found}) == 3
    assert [leaving(gang, NOW) for gang in found] == [False, True, False]
    assert [gang.running for gang in found] == [True, True, False]
    assert all(gang.stopping for gang in gangs([job_of(run="", suspend=True)], pods))


def test_tasks_of_an_array_that_is_deleted_are_there_until_they_have_stopped() -> None:
    going: dict[str, Any] = {"deleted": T0, "grace_seconds": 60}
    found = gangs([], [task(0, **going), task(7, **going)])
    assert [(gang.key, [p.key for p in gang.pods]) for gang in found] == [
        ("lab/job[0]", ["lab/job-0"]),
        ("lab/job[7]", ["lab/job-7"]),
    ]
    assert len({gang.uid for gang in found}) == 2


def test_members_that_have_succeeded_are_known() -> None:
    beside = [terminated(0), terminated(1, name="mesh")]
    pods = [
        member("a"),
        member("b", phase="Succeeded"),
        member("c", phase="Failed", container_statuses=beside),
        member("d", phase="Failed", container_statuses=[terminated(1), terminated(0, name="mesh")]),
        member("old", run="run-before", phase="Succeeded"),
    ]
    (found,) = gangs([job_of()], pods)
    assert ([p.key for p in found.pods], [p.key for p in found.finished]) == (["lab/a"], ["lab/b", "lab/c"])
    assert gangs([job_of()], pods[1:]) == ()


def test_what_is_read_of_a_job() -> None:
    status: dict[str, Any] = {
        "runningTimestamps": ["2026-01-02T10:00:00Z", T0],
        "lastCheckpointTimestamp": T0,
        "interruptedCount": 2,
    }
    (gang,) = gangs([job_of(**status)], [member("a")])
    assert (gang.started, gang.checkpoint, gang.interruptions, gang.interval) == (NOW, NOW, 2, 1800)
    (gang,) = gangs([job_of(phase="Starting", **status)], [member("a")])
    assert gang.started is None, "that was the last run"
    assert not gang.running


def test_a_throttled_job_gets_back_what_its_pods_requested() -> None:
    """And not what the job asks for, where less is recommended: admission and shares count the one."""
    (own,) = gangs([job_of()], [member("a")])
    (gang,) = gangs([job_of(recommended={"cpu": "250m", "memory": "1Gi"})], [member("a")])
    assert gang.cores == 0.25 < own.cores


@pytest.mark.parametrize(
    ("asked", "deadline", "grace", "prolonged"),
    [
        (30, "2026-01-02T12:00:30Z", 30, False),
        (5, "2026-01-02T12:00:05Z", 5, False),
        (0, "2026-01-02T12:00:00Z", 0, False),
        (2592000, "2026-01-02T12:00:30Z", 30, True),
    ],
)
def test_a_pod_is_to_go_within_its_own_grace_period(asked: int, deadline: str, grace: float, prolonged: bool) -> None:
    made = member("a", grace_seconds=30, deleted=format_time(NOW + timedelta(seconds=asked)))
    facts = pod_facts(msgspec.structs.replace(made, metadata=_with_grace(made.metadata, asked)))
    assert (facts.deletion_deadline, facts.grace, facts.prolonged) == (parse_time(deadline), grace, prolonged)


def _with_grace(meta: kinds.ObjectMeta, asked: int) -> kinds.ObjectMeta:
    return msgspec.structs.replace(meta, deletion_grace_period_seconds=asked)


def test_what_is_read_of_a_pod() -> None:
    facts = pod_facts(
        member(
            "a",
            labels={"scavenger.dev/job": "job", "scavenger.dev/preemption-class": "non-preemptible"},
            annotations={"scavenger.dev/last-checkpoint": T0},
            container_statuses=[running(started="2026-01-02T11:59:00Z")],
            conditions=[{**condition("PodResizePending", "True", "Infeasible")}],
            grace_seconds=90,
        )
    )
    assert not facts.preemptible
    assert facts.checkpoint == NOW
    assert facts.running_since == parse_time("2026-01-02T11:59:00Z")
    assert facts.grace == 90
    assert facts.refused_resize
    assert facts.resizable == {"main": 1}
    assert pod_facts(member("b", labels={"scavenger.dev/job": "job"})).preemptible, "as it was born"


def test_a_pod_ended_when_the_last_of_its_containers_did() -> None:
    def ended(*finished: str | None) -> kinds.Pod:
        states = [{"terminated": {"finishedAt": at}} if at else {"running": {"startedAt": T0}} for at in finished]
        return member("a", container_statuses=[{"name": "c", "state": state} for state in states])

    assert ended_at(ended("2026-01-02T11:00:00Z", T0)) == NOW
    assert ended_at(ended(T0, None)) is None
    assert ended_at(ended()) is None
    assert ended_at(ended("1970-01-01T00:00:00Z")) is None, "the runtime does not know"


# --- sources ---


def test_metrics_api() -> None:
    nodes = b"""{"items":[
        {"metadata":{"name":"n1"},"timestamp":"2026-01-02T12:00:00Z","window":"15.204s","usage":{"cpu":"1500m","memory":"1Gi"}},
        {"metadata":{"name":"n2"},"timestamp":"nonsense","window":"","usage":{"cpu":"1"}},
        {"metadata":{"name":"n3"},"timestamp":"2026-01-02T12:00:00Z","usage":{"cpu":"2"}}]}"""
    pods = b"""{"items":[
        {"metadata":{"name":"p","namespace":"lab"},"timestamp":"2026-01-02T12:00:00Z","window":"10s","containers":[
            {"name":"a","usage":{"cpu":"250000000n","memory":"100Ki"}},{"name":"b","usage":{"cpu":"1","memory":"1Ki"}}]},
        {"metadata":{"name":"half","namespace":"lab"},"timestamp":"2026-01-02T12:00:00Z","window":"10s","containers":[
            {"name":"a","usage":{"memory":"1"}}]},
        {"metadata":{"name":"none","namespace":"lab"},"timestamp":"2026-01-02T12:00:00Z","containers":[]}]}"""
    measurement = parse(nodes, pods)
    cpu = measurement.nodes["n1"]["cpu"]
    assert (cpu.value, cpu.at, cpu.window) == (1.5, NOW, 15.204)
    assert measurement.nodes["n2"] == {}
    assert set(measurement.nodes["n3"]) == {"cpu"}
    assert measurement.pods["lab/p"]["cpu"].value == 1.25
    assert measurement.pods["lab/p"]["memory"].value == 101 * 1024
    assert set(measurement.pods["lab/half"]) == {"memory"}
    assert "lab/none" not in measurement.pods
    with pytest.raises(SourceError, match="something else"):
        parse(b"<html>", b"{}")


def vector(*rows: tuple[dict[str, str], float | str]) -> bytes:
    result = [{"metric": labels, "value": [1.0, str(value)]} for labels, value in rows]
    return msgspec.json.encode({"status": "success", "data": {"resultType": "vector", "result": result}})


def test_prometheus_answers() -> None:
    assert parse_vector(vector(({"node": "n"}, 2.5), ({"node": "m"}, "NaN"))) == [({"node": "n"}, 2.5)]
    scalar = b'{"status":"success","data":{"resultType":"scalar","result":[1,"7"]}}'
    assert parse_vector(scalar) == [({}, 7.0)]
    for body, says in (
        (b'{"status":"error","error":"parse error"}', "parse error"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[]}}', "gives a vector"),
        (b"{}", "not an answer"),
        (b"<html>", "not an answer"),
        (b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{}}]}}', "not an answer"),
    ):
        with pytest.raises(PrometheusError, match=says):
            parse_vector(body)


def test_prometheus_by_node_and_for_the_cluster() -> None:
    queries = Queries(node={}, pod={})
    seconds = NOW.timestamp()
    use: dict[str, Vector] = {
        "cpu": [({"node": "n"}, 2.0), ({"node": "silent"}, 1.0)],
        "memory": [({"node": "n"}, 5.0)],
    }
    pods: dict[str, Vector] = {
        "cpu": [({"namespace": "lab", "pod": "p"}, 0.5)],
        "memory": [({"namespace": "lab", "pod": "p"}, 9.0)],
    }
    found = combine(use, pods, [({"node": "n"}, seconds)], queries)
    assert set(found.nodes) == {"n"}, "what has no time has no figure"
    assert (found.nodes["n"]["cpu"].at, found.nodes["n"]["cpu"].window) == (NOW, 60)
    assert found.pods["lab/p"]["memory"].value == 9
    whole: dict[str, Vector] = {"cpu": [({}, 30.0)], "memory": [({}, 40.0)]}
    found = combine(whole, {}, [({"node": "n"}, seconds), ({"node": "m"}, seconds - 100)], queries)
    assert found.nodes == {}
    assert (NOW - found.total["cpu"].at).total_seconds() == 100
    assert combine(whole, pods, [], queries).total == {}
    assert combine(whole, pods, [], queries).pods == {}


def test_prometheus_tells_two_lives_of_a_pod_apart() -> None:
    """Series of a pod that has gone stay for minutes."""
    first, second = "0f3e0a52-3d64-4bd1-9f1b-000000000001", "0f3e0a52-3d64-4bd1-9f1b-000000000002"
    labels = {"namespace": "lab", "pod": "sweep-7"}
    pods: dict[str, Vector] = {
        "cpu": [({**labels, "uid": first.replace("-", "_")}, 4.0), ({**labels, "uid": second.replace("-", "_")}, 0.5)],
        "memory": [({**labels, "uid": second}, 9.0)],
    }
    found = combine({}, pods, [({"node": "n"}, NOW.timestamp())], Queries(node={}, pod={}))
    assert {uid: use["cpu"].value for uid, use in found.pods.items()} == {first: 4.0, second: 0.5}
    assert found.pods[second]["memory"].value == 9.0
    assert [query.count("(") - query.count(")") for query in (POD_CPU, POD_MEMORY)] == [0, 0]
    (group,) = re.findall(r'"id", "([^"]+)"', POD_CPU)
    for name in (
        f"/kubepods/burstable/pod{first}/0123",
        f"/kubepods.slice/kubepods-pod{first.replace('-', '_')}.slice/cri-0",
    ):
        match = re.fullmatch(group, name)
        assert match is not None
        assert match[1].replace("_", "-") == first


def aggregated(query: str, series: list[tuple[dict[str, str], float]]) -> list[tuple[dict[str, str], float]]:
    """What `sum by (…) (max by (…) (anything))` gives of these series."""
    for function, labels in reversed(re.findall(r"(sum|max) by \(([^)]*)\)", query)):
        groups: dict[tuple[str, ...], list[float]] = {}
        for found, value in series:
            groups.setdefault(tuple(found.get(name, "") for name in labels.split(", ")), []).append(value)
        series = [
            (dict(zip(labels.split(", "), key, strict=True)), sum(values) if function == "sum" else max(values))
            for key, values in groups.items()
        ]
    return series


@pytest.mark.parametrize(
    ("query", "labels", "expected"),
    [
        (NODE_CPU, {"node": "n", "cpu": "total"}, 2.0),
        (NODE_MEMORY, {"node": "n"}, 2.0),
        (POD_CPU, {"namespace": "lab", "pod": "p", "container": "c", "cpu": "total"}, 2.0),
        (POD_MEMORY, {"namespace": "lab", "pod": "p", "container": "c"}, 2.0),
    ],
)
def test_a_series_that_is_scraped_twice_counts_once(query: str, labels: dict[str, str], expected: float) -> None:
    twice = [({**labels, "job": job, "instance": "10.0.0.1:10250"}, 2.0) for job in ("kubelet", "cadvisor")]
    ((_, value),) = aggregated(query, twice)
    assert value == expected


def test_what_is_measured_in_parts_is_added_up() -> None:
    pods = [({"namespace": "lab", "pod": "p", "container": c, "node": "n"}, 2.0) for c in "ab"]
    assert aggregated(POD_CPU, pods) == [({"namespace": "lab", "pod": "p", "uid": ""}, 4.0)]
    assert aggregated(POD_MEMORY, pods) == [({"namespace": "lab", "pod": "p", "uid": ""}, 4.0)]
    assert aggregated(NODE_CPU, [({"node": "n", "cpu": f"cpu0{i}"}, 2.0) for i in range(2)]) == [({"node": "n"}, 4.0)]


def test_requests_in_place_of_use() -> None:
    nodes = [node("n"), node("idle")]
    pods = [
        member("a", cpu="500m"),
        pod("ordinary", namespace="web", node="n", phase="Running", cpu="2"),
        pod("ended", namespace="web", node="n", phase="Succeeded", cpu="8"),
        pod("pending", namespace="web", cpu="8"),
        pod("elsewhere", namespace="web", node="gone", phase="Running"),
    ]
    found = requests_source.measure(nodes, pods, NOW)
    assert {name: use["cpu"].value for name, use in found.nodes.items()} == {"n": 2.5, "idle": 0}
    assert {uid: use["cpu"].value for uid, use in found.pods.items()} == {pods[0].metadata.uid: 0.5}
    assert requests_source.measure(nodes, [without_details(each) for each in pods], NOW) == found


# --- reclaimed capacity -------------------------------------------------------------------------------------

ZERO = {"cpu": "0", "memory": "0"}
EXTENDED = {"scavenger.dev/reclaimed-cpu": "1500", "scavenger.dev/reclaimed-memory": "2048"}


def test_a_pod_on_reclaimed_capacity_counts_as_what_it_stands_for_and_is_not_resized() -> None:
    facts = pod_facts(pod("p", node="n", requests={**ZERO, **EXTENDED}))
    assert facts.reclaimed
    assert facts.requests == {"cpu": 1.5, "memory": 2 * GIB}
    assert facts.resizable == {}
    ordinary = pod_facts(pod("p", node="n"))
    assert not ordinary.reclaimed
    assert ordinary.resizable == {"main": 1.0}


@pytest.mark.parametrize("requests", [{}, {"cpu": "0", "memory": "0"}, {"cpu": "2", "memory": "1Gi"}])
def test_the_cores_of_a_job_are_its_limits(requests: dict[str, str]) -> None:
    made = scavengerjob_dict("j")
    made["spec"]["resources"] = {"requests": requests, "limits": {"cpu": "2", "memory": "1Gi"}}
    made["status"] = {"phase": "Running", "jobName": "run"}
    member = pod("p", node="n", labels={"scavenger.dev/job": "j"}, owner=job_dict("run"), namespace="lab")
    made["metadata"]["namespace"] = "lab"
    (found,) = gangs([msgspec.convert(made, ScavengerJob)], [member])
    assert found.cores == 2


@pytest.mark.parametrize(
    ("capacity", "allocatable", "offered", "copied"),
    [
        ({}, {}, {}, True),
        (EXTENDED, EXTENDED, {"cpu": 1500, "memory": 2048}, True),
        (EXTENDED, {}, {"cpu": 1500, "memory": 2048}, False),
        ({}, EXTENDED, {}, False),
        ({"scavenger.dev/reclaimed-cpu": "2k"}, {"scavenger.dev/reclaimed-cpu": "2k"}, {"cpu": 2000}, True),
        ({"scavenger.dev/reclaimed-cpu": "x"}, {"scavenger.dev/reclaimed-cpu": "x"}, {"cpu": 0}, True),
    ],
)
def test_what_a_node_offers(
    capacity: dict[str, str], allocatable: dict[str, str], offered: dict[str, int], copied: bool
) -> None:
    made = node_dict("n", cpu="4", memory="16Gi")
    made["status"]["capacity"].update(capacity)
    made["status"]["allocatable"].update(allocatable)
    facts = node_facts(msgspec.convert(made, kinds.Node), ())
    assert (facts.offered, facts.copied) == (offered, copied)


@pytest.mark.parametrize(("limit", "resized"), [("1", True), ("1001m", True), ("1002m", False), ("4", False)])
def test_a_pod_that_may_use_more_cpu_than_it_requests_is_not_throttled(limit: str, resized: bool) -> None:
    """Its use follows its limit: a smaller request would slow nobody down."""
    sides = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": limit, "memory": "1Gi"}}
    facts = pod_facts(msgspec.structs.replace(pod("p", node="n"), spec=_with(sides)))
    assert facts.resizable == ({"main": 1.0} if resized else {})


def _with(resources: dict[str, Any]) -> PodSpec:
    return msgspec.convert({"nodeName": "n", "containers": [{"name": "main", "resources": resources}]}, PodSpec)
