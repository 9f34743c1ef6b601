"""Who starts, in which order, on a real control plane: many jobs, scarce room, places in line that last."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

import pytest
from scavenger_cluster import Cluster
from scavenger_testing.processes import cpu_seconds, peak_kb

from .conftest import Place, bring_up, start_admitter
from .order import overtaken

pytestmark = pytest.mark.timeout(900)

NODE = "fake-001"
SILENT_SECONDS = 4.0
"""Longer than creates may take before they count as hanging, shorter than their timeout."""


def seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def latecomers(place: Place, prefix: str, tolerance: float) -> dict[str, float]:
    """Jobs that were started more than `tolerance` seconds after one that was behind them in line, with the seconds.

    The place in line is the one they were started from: the run that their Job is of.
    """
    found = [(created.run, seconds(created.at), name) for name in place.phases() for created in place.created(name)]
    line = sorted(one for one in found if one[2].startswith(prefix))
    late, earliest_behind = {}, float("inf")
    for _, at, name in reversed(line):
        if at > earliest_behind + tolerance:
            late[name] = at - earliest_behind
        earliest_behind = min(earliest_behind, at)
    return late


@pytest.fixture
def without_a_node(cluster: Cluster, other_place: Place) -> Iterator[None]:
    """Two gangs lose a node object while the test goes on; afterwards they have been interrupted once.

    The pod garbage collector takes a minute to be sure that a node is gone, too long to stand by.
    """
    place = other_place
    place.submit("a", "b", cpu="8", parallelism=2)
    for name in ("a", "b"):
        place.wait_phase(name, "Running")
    node = place.pods("a")[0]["spec"]["nodeName"]
    on = {name: {pod["spec"]["nodeName"] for pod in place.pods(name)} for name in ("a", "b")}
    cluster.client.delete(f"/api/v1/nodes/{node}")
    try:
        yield
        for name in ("a", "b"):
            if node in on[name]:
                place.wait_interrupted(name, timeout=120)
            place.wait_phase(name, "Running")
        place.wait("no pod is left there", lambda: node not in str(place.all("pods")))
        hit = {name: int(node in nodes) for name, nodes in on.items()}
        assert {name: place.status(name)["interruptedCount"] for name in hit} == hit
        place.wait_created({name: 1 + count for name, count in hit.items()})
    finally:
        bring_up(cluster)


@pytest.mark.cpu
@pytest.mark.usefixtures("without_a_node")
@pytest.mark.long
def test_hundreds_of_jobs_at_once(cluster: Cluster, place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """None of them is interrupted or forgotten, none is overtaken, and nothing is left on their pods. There is room for
    a third of them at a time. While starts are under way the API server is silent twice, which on a busy machine
    happens unasked."""
    pid = start_admitter(cluster)
    before = cpu_seconds(pid)
    place.recorder.run_seconds[place.namespace] = "1"
    jobs = [f"j{number:03}" for number in range(240)]
    began = time.monotonic()
    place.submit(*jobs, cpu="1")
    submitted = time.monotonic() - began
    for share in (0.3, 0.6):
        least = round(share * len(jobs))
        place.wait(f"{least} to be started", lambda least=least: place.started() >= least, timeout=300)  # type: ignore[misc]
        cluster.component_silence("kube-apiserver", SILENT_SECONDS)
    place.wait("all completed", lambda: place.last_phases().count("Completed") == len(jobs), timeout=900)
    took = time.monotonic() - began
    place.wait("no finalizer left", lambda: not place.held())
    place.wait_created(dict.fromkeys(jobs, 1))
    peak, cpu = peak_kb(pid) / 1024, cpu_seconds(pid)
    unanswered = place.unanswered()
    with capsys.disabled():
        print(f"\n{len(jobs)} jobs: submitted in {submitted:.1f} s, completed in {took:.1f} s; ", end="")  # noqa: T201
        print(f"admitter {peak:.0f} MB peak, {cpu - before:.1f} s CPU, {len(unanswered)} unanswered")  # noqa: T201
    statuses = {job["metadata"]["name"]: job["status"] for job in place.all("scavengerjobs")}
    assert {status["interruptedCount"] for status in statuses.values()} == {0}
    assert {len(status["runningTimestamps"]) for status in statuses.values()} == {1}
    assert all(len(place.created(name)) == 1 for name in jobs)
    assert all(place.pods_ever(name) == 1 for name in jobs)
    # In seconds, as what is promised in places (docs/queues.md) says less here: one cycle may start all there is room
    # for, and jobs get in line while others start. A start that was not answered in time is tried again later, and
    # nobody waits for that: one moment in which the API server is silent may concern all that are being created.
    late = latecomers(place, "j", tolerance=SILENT_SECONDS + max(2.0, 0.05 * took))
    passed = {name: by for name, by in late.items() if name not in unanswered}
    assert len(passed) <= 1, f"{passed}; the admitter says:\n{place.logs_of(passed)}"
    assert len(unanswered) < len(jobs) / 4, "or what was left out is not the exception"


@pytest.mark.long
def test_the_line_when_room_is_scarce_and_places_that_survive_a_restart(cluster: Cluster, place: Place) -> None:
    """Two jobs fill a node, four wait for it; the admitter is restarted; an interrupted one goes before them all."""
    place.submit("r1", cpu="8", node=NODE)
    place.submit("r2", cpu="8", node=NODE)
    for name in ("r1", "r2"):
        place.wait_phase(name, "Running")
    waiting = ["w1", "w2", "w3", "w4"]
    for name in waiting:
        place.submit(name, cpu="8", node=NODE)
        place.wait_phase(name, "Waiting")
    places = {name: place.status(name)["queuedTimestamp"] for name in waiting}
    assert list(places.values()) == sorted(places.values())
    cluster.service_stop("admitter")
    start_admitter(cluster)
    place.wait("told why", lambda: place.status("w4")["message"].startswith("needs 8 cpu"))
    assert {name: place.status(name)["queuedTimestamp"] for name in waiting} == places
    assert [place.phase(name) for name in ("r1", "r2")] == ["Running", "Running"]
    cluster.kubectl("cordon", NODE)
    try:
        # Nodes and pods reach the admitter by watches of their own.
        place.wait("the cordon is seen", lambda: "cordoned" in place.status("w4").get("message", ""))
        place.delete("pods", place.pods("r2")[0]["metadata"]["name"])
        status = place.wait_phase("r2", "Interrupted")
        assert status["interruptedCount"] == 1
        assert status["queuedTimestamp"] > places["w4"], "at the end of the line, but for its count"
        place.wait("its pod is gone", lambda: not [p for p in place.pods("r2") if p["status"]["phase"] == "Running"])
    finally:
        cluster.kubectl("uncordon", NODE)
    place.wait_phase("r2", "Running")
    assert [place.phase(name) for name in waiting] == ["Waiting"] * 4
    place.recorder.run_seconds[place.namespace] = "1"
    for name in ("r1", "r2"):
        place.delete("scavengerjobs", name)
    place.wait("all done", lambda: all(place.phase(name) == "Completed" for name in waiting))
    place.wait_created(dict.fromkeys(waiting, 1))
    # Two have room at a time, and of those that start in one cycle either may come first.
    answered = [name for name in waiting if name not in place.unanswered()]
    terms = [[name for name in term if name in answered] for term in place.terms()]
    assert overtaken(answered, terms, batch=2) == []


def test_a_request_larger_than_any_node_waits_and_says_what_helps(place: Place) -> None:
    place.submit("giant", cpu="17")
    place.wait_phase("giant", "Waiting")
    place.submit("behind")
    place.wait_phase("behind", "Running")
    place.wait("told", lambda: place.status("giant")["message"] != "queued for admission")
    status = place.status("giant")
    assert status["phase"] == "Waiting"
    assert "17 cpu" in status["message"]
    assert "largest" in status["message"]
    admitted = next(c for c in status["conditions"] if c["type"] == "Admitted")
    assert admitted["status"] == "False"
    print(status["message"])  # noqa: T201
    assert place.created("giant") == []


def test_the_room_of_a_pending_ordinary_pod_is_not_given_to_a_job(place: Place) -> None:
    place.submit("victim", cpu="16", node=NODE, terminationGracePeriodSeconds=4)
    place.wait_phase("victim", "Running")
    place.submit("small", cpu="4", node=NODE)
    place.wait_phase("small", "Waiting")
    place.create_pod("ordinary", cpu="14", node=NODE)
    place.wait("the ordinary pod runs", lambda: place.get("pods", "ordinary")["status"].get("phase") == "Running")
    ordinary = place.get("pods", "ordinary")
    scheduled = next(c for c in ordinary["status"]["conditions"] if c["type"] == "PodScheduled")
    waited = seconds(scheduled["lastTransitionTime"]) - seconds(ordinary["metadata"]["creationTimestamp"])
    assert waited >= 4, "it had to wait for its room: as long as the victim takes to stop"
    status = place.wait_phase("victim", "Interrupted")
    assert status["interruptedCount"] == 1
    assert next(c["reason"] for c in status["conditions"] if c["type"] == "Interrupted") == "Preempted"
    time.sleep(2)
    assert [place.phase(name) for name in ("victim", "small")] == ["Interrupted", "Waiting"]
    assert place.created("small") == []
    place.wait_created({"victim": 1})
    place.delete("pods", "ordinary")
    # A pod of its own namespace displaced the victim, which gives it no place before others.
    place.wait_phase("small", "Running")
    assert place.status("victim")["ownInterruptedCount"] == 1
    assert place.phase("victim") == "Interrupted"
    place.wait_created({"small": 1, "victim": 1})
