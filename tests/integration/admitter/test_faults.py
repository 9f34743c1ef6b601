"""What breaks while the admitter works: processes, the API server, nodes, and the status under somebody's hand."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest
from scavenger_api import names
from scavenger_cluster import Cluster, ClusterError

from .conftest import SETTINGS, Place, Recorder, namespace, start_admitter
from .test_line import latecomers

pytestmark = pytest.mark.timeout(600)

ADMITTER = names.ADMITTER
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{names.SYSTEM_NAMESPACE}/leases/{ADMITTER}"

QUICK_LEASE = {
    "SCAVENGER_LEASE_DURATION": "12",  # less, and on a busy machine it is lost for want of an answer
    "SCAVENGER_RENEW_DEADLINE": "10",
    "SCAVENGER_RETRY_PERIOD": "1",
}
SLOW_STARTS = {"SCAVENGER_ADMISSION_INTERVAL": "0.5", "SCAVENGER_MAX_STARTS_PER_CYCLE": "12"}


# --- the leader is killed -------------------------------------------------------------------------------------------


@pytest.fixture
def pair(cluster: Cluster, recorder: Recorder) -> Iterator[Place]:
    """Two admitters that start a dozen jobs at a time, so that one can be killed in between."""
    settings = {**SETTINGS, **QUICK_LEASE, **SLOW_STARTS}
    cluster.service_stop("admitter")
    for instance in (1, 2):
        cluster.service_start("admitter", instance=instance, environment=settings, wait="readyz")
    with namespace(cluster, recorder) as made:
        yield made
    cluster.service_stop("admitter", instance=2)


def holder(cluster: Cluster) -> str:
    return str((cluster.client.find(LEASE) or {}).get("spec", {}).get("holderIdentity") or "")


def leader(cluster: Cluster) -> int:
    """The instance that leads; 0 while there is none."""
    for instance in (1, 2):
        try:
            pid = cluster.service("admitter", instance=instance).pid
        except ClusterError:
            continue
        if f"_{pid}_" in holder(cluster):
            return instance
    return 0


def test_the_leader_is_killed_in_the_middle_of_an_admission(
    cluster: Cluster, pair: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = [f"j{number:03}" for number in range(200)]
    pair.wait("somebody leads", lambda: leader(cluster))
    victim = leader(cluster)
    pair.submit(*jobs, cpu="100m")
    pair.wait("some, not all, have been started", lambda: pair.started() >= 40, timeout=180)
    cluster.service_kill("admitter", instance=victim)
    killed, at = len(pair.all("jobs")), time.monotonic()
    assert 0 < killed < len(jobs), "in the middle"
    pair.wait("another leads", lambda: leader(cluster) not in (0, victim), timeout=120)
    led = time.monotonic() - at
    pair.wait("it has gone on", lambda: len(pair.all("jobs")) > killed, timeout=120)
    resumed = time.monotonic() - at
    pair.wait("all run", lambda: pair.last_phases().count("Running") == len(jobs), timeout=300)
    with capsys.disabled():
        print(f"\nleader killed at {killed} of {len(jobs)} jobs: ", end="")  # noqa: T201
        print(f"the other leads after {led:.1f} s and starts the next after {resumed:.1f} s")  # noqa: T201
    assert len(pair.phases()) == len(jobs)
    assert [name for name in jobs if len(pair.created(name)) != 1] == []
    assert [name for name in jobs if pair.pods_ever(name) != 1] == []
    statuses = [job["status"] for job in pair.all("scavengerjobs")]
    assert {status["interruptedCount"] for status in statuses} == {0}
    assert latecomers(pair, "j", tolerance=1.0) == []


# --- the API server is away -----------------------------------------------------------------------------------------


def test_the_api_server_is_away_for_half_a_minute(cluster: Cluster, place: Place) -> None:
    pid = start_admitter(cluster)
    jobs = [f"j{number}" for number in range(6)]
    place.submit(*jobs)
    for name in jobs:
        place.wait_phase(name, "Running")
    pods = {name: place.pods(name)[0]["metadata"] for name in jobs}
    place.delete("pods", pods["j0"]["name"])
    cluster.component_stop("kube-apiserver")
    time.sleep(30)
    cluster.component_start("kube-apiserver")
    place.delete("pods", pods["j1"]["name"])
    place.submit("late")
    took = place.wait("a new job runs", lambda: place.phase("late") == "Running", timeout=240)
    print(f"a job submitted after the outage ran {took:.1f} s later")  # noqa: T201
    for name in ("j0", "j1"):
        place.wait_interrupted(name, timeout=180)
        place.wait_phase(name, "Running", timeout=180)
    time.sleep(3)
    assert cluster.service("admitter").pid == pid, "it recovered by itself"
    assert set(place.phases().values()) == {"Running"}
    assert [place.status(name)["interruptedCount"] for name in jobs] == [1, 1, 0, 0, 0, 0]
    for name in jobs[2:]:
        assert [pod["metadata"]["uid"] for pod in place.pods(name)] == [pods[name]["uid"]], "untouched"


# --- the status under somebody's hand -------------------------------------------------------------------------------


def test_a_status_edited_by_hand(place: Place) -> None:
    place.submit("declared", "wiped")
    for name in ("declared", "wiped"):
        place.wait_phase(name, "Running")
    before = {
        name: (place.status(name), place.pods(name)[0]["metadata"]["uid"], place.created(name))
        for name in ("declared", "wiped")
    }
    place.edit_status("declared", {"phase": "Completed"})
    place.edit_status("wiped", None)
    place.submit("dreamt", cpu="17")  # larger than any node: it never gets a Job of its own accord
    place.wait_phase("dreamt", "Waiting")
    place.edit_status("dreamt", {"phase": "Running"})
    for name in ("declared", "wiped"):
        place.wait_phase(name, "Running")
    place.wait("it is not running", lambda: place.phase("dreamt") in ("Waiting", "Interrupted"))
    time.sleep(2)
    for name, (status, pod, created) in before.items():
        assert place.phase(name) == "Running"
        assert place.status(name)["interruptedCount"] == 0
        assert place.status(name)["queuedTimestamp"] == status["queuedTimestamp"]
        assert [one["metadata"]["uid"] for one in place.pods(name)] == [pod]
        assert place.created(name) == created
    assert place.created("dreamt") == []


# --- uninstall ------------------------------------------------------------------------------------------------------


def test_uninstall_leaves_no_finalizer(cluster: Cluster, place: Place) -> None:
    jobs = [f"j{number}" for number in range(12)]
    place.submit(*jobs, parallelism=2)
    for name in jobs:
        place.wait_phase(name, "Running")
    assert len(place.held()) == 24
    cluster.service_stop("admitter")
    words = [sys.executable, "-m", "scavenger_admitter", "uninstall"]
    cluster.service_start("admitter", instance=2, command=words, wait=None)

    def ended() -> bool:
        try:
            cluster.service("admitter", instance=2)
        except ClusterError:
            return True
        return False

    place.wait("it has ended", ended)
    assert '"event":"uninstalled"' in cluster.service_logs("admitter", instance=2)
    assert place.held() == []
    assert place.all("jobs") == []
    place.wait("no pod is left", lambda: not place.all("pods"))
    assert len(place.phases()) == len(jobs), "data of the users: they go with the CRD"
    start_admitter(cluster)
    for name in jobs:
        place.wait_interrupted(name)  # it says Running until the admitter has looked at it
        place.wait_phase(name, "Running")
