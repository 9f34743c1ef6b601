"""What breaks while the admitter works: processes, the API server, nodes, and the status under somebody's hand."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest
from scavenger_api import names
from scavenger_cluster import Cluster, ClusterError
from scavenger_kube.resources import MERGE_PATCH
from scavenger_testing.waiting import wait

from .conftest import SETTINGS, Place, namespace, start_admitter
from .order import left_out, overtaken
from .recorder import Recorder

pytestmark = pytest.mark.timeout(1200)

ADMITTER = names.ADMITTER
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{names.SYSTEM_NAMESPACE}/leases/{ADMITTER}"
QUEUES = "/apis/scavenger.dev/v1alpha1/scavengerqueues"

QUICK_LEASE = {
    "SCAVENGER_LEASE_DURATION": "12",  # less, and on a busy machine it is lost for want of an answer
    "SCAVENGER_RENEW_DEADLINE": "10",
    "SCAVENGER_RETRY_PERIOD": "1",
}
BATCH = 12
QUOTA = "6"
"""Cores: for half of the jobs. However late the leader is killed, there are jobs left to be started."""
SLOW_STARTS = {"SCAVENGER_ADMISSION_INTERVAL": "0.5", "SCAVENGER_MAX_STARTS_PER_CYCLE": str(BATCH)}


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


class Gate:
    """A queue that is closed: its jobs stand in line, and none of them starts before it is opened. Then only some do,
    as many as there is quota for, until it is opened wide."""

    def __init__(self, place: Place) -> None:
        self.name = place.namespace
        self._place = place
        self._client = place.cluster.client
        body = {"apiVersion": names.API_VERSION, "kind": "ScavengerQueue", "metadata": {"name": self.name}}
        self._client.request("POST", QUEUES, {**body, "spec": {"closed": True, "quota": {"cpu": QUOTA}}})

    def wait_in_line(self, count: int) -> None:
        """Until so many jobs have been told why they wait: an admission cycle has seen them in line."""
        word = f"queue {self.name} is closed"

        def told() -> int:
            found = self._place.all("scavengerjobs")
            return sum(word in (job.get("status") or {}).get("message", "") for job in found)

        self._place.wait("all stand in line", lambda: told() == count, timeout=120)

    def open(self) -> None:
        self._change(closed=False)

    def open_wide(self) -> None:
        self._change(quota=None)

    def _change(self, **spec: object) -> None:
        self._client.request("PATCH", f"{QUEUES}/{self.name}", {"spec": spec}, MERGE_PATCH)

    def remove(self) -> None:
        self._client.delete(f"{QUEUES}/{self.name}")
        self._place.wait("queue gone", lambda: self._client.find(f"{QUEUES}/{self.name}") is None, timeout=120)


@pytest.fixture
def gate(pair: Place) -> Iterator[Gate]:
    made = Gate(pair)
    yield made
    made.remove()


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
    cluster: Cluster, pair: Place, gate: Gate, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing starts twice, and the order is what docs/queues.md promises; the last jobs come while others start."""
    jobs = [f"j{number:03}" for number in range(120)]
    pair.submit(*jobs[:90], cpu="100m", queue=gate.name)
    gate.wait_in_line(90)
    gate.open()
    pair.submit(*jobs[90:], cpu="100m", queue=gate.name)
    pair.wait("some, not all, have been started", lambda: pair.started() >= 20, timeout=180)
    victim: int = wait("somebody leads", lambda: leader(cluster), describe=pair.describe)
    cluster.service_stop("admitter", instance=victim, grace=0)
    killed, at = len(pair.all("jobs")), time.monotonic()
    assert 0 < killed < len(jobs), "in the middle"
    gate.open_wide()
    pair.wait("another leads", lambda: leader(cluster) not in (0, victim), timeout=120)
    led = time.monotonic() - at
    pair.wait("it has gone on", lambda: len(pair.all("jobs")) > killed, timeout=120)
    resumed = time.monotonic() - at
    pair.wait("all run", lambda: pair.last_phases().count("Running") == len(jobs), timeout=300)
    pair.wait_created(dict.fromkeys(jobs, 1))
    unanswered = pair.unanswered()  # tried again later, and nobody waits for that
    line = [name for name in pair.line() if name not in unanswered]
    terms = [[name for name in term if name not in unanswered] for term in pair.terms()]
    with capsys.disabled():
        print(f"\nleader killed at {killed} of {len(jobs)} jobs, ", end="")  # noqa: T201
        print(f"{len(left_out(line, terms[0]))} passed over and {len(unanswered)} unanswered: ", end="")  # noqa: T201
        print(f"the other leads after {led:.1f} s and starts the next after {resumed:.1f} s")  # noqa: T201
    assert len(pair.phases()) == len(jobs)
    assert [name for name in jobs if len(pair.created(name)) != 1] == []
    assert [name for name in jobs if pair.pods_ever(name) != 1] == []
    statuses = [job["status"] for job in pair.all("scavengerjobs")]
    assert {status["interruptedCount"] for status in statuses} == {0}
    assert len(terms) > 1, "both have led"
    stood_in_line = set(jobs[:90])  # the others got in line one by one, while their neighbours were started
    assert [found for found in overtaken(line, terms, BATCH) if found[0] in stood_in_line] == []
    # One moment in which the API server is silent may concern a whole batch, and a busy machine has several.
    assert len(unanswered) < len(jobs) / 4, "or what was left out is not the exception"


# --- the API server is away -----------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_api_server_is_away_for_a_while(cluster: Cluster, place: Place) -> None:
    pid = start_admitter(cluster)
    jobs = [f"j{number}" for number in range(6)]
    place.submit(*jobs)
    for name in jobs:
        place.wait_phase(name, "Running")
    pods = {name: place.pods(name)[0]["metadata"] for name in jobs}
    place.delete("pods", pods["j0"]["name"])
    cluster.component_stop("kube-apiserver")
    time.sleep(10)
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
    place.wait("their Jobs to be shown", lambda: all(place.shows_job(name) for name in ("declared", "wiped")))
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
    start_admitter(cluster)
    jobs = [f"j{number}" for number in range(6)]
    place.submit(*jobs, parallelism=2)
    for name in jobs:
        place.wait_phase(name, "Running")
    assert len(place.held()) == 12
    cluster.service_stop("admitter")
    words = [sys.executable, "-m", "scavenger_admitter", "uninstall"]
    cluster.service_start("admitter", instance=2, command=words, wait=None, restart=False)

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
