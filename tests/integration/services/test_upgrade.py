"""An upgrade with a job, a gang and an array running, the charts one by one: nothing is lost, and nothing counts twice.

What ran before is an earlier commit: its manifests, and its services as processes with the dependencies of this one.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from scavenger_api import names
from scavenger_api.times import parse_time
from scavenger_cluster import Cluster, stack
from scavenger_cluster.kwok import RUN_SECONDS
from scavenger_kube.resources import MERGE_PATCH
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.waiting import wait

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]

FROM: Final = "SCAVENGER_UPGRADE_FROM"
"""In the environment: the commit that ran before."""
SETTINGS: Final = {
    **stack.FIXED_LEVELS,
    "SCAVENGER_SOURCE": "requests",
    "PYTEST_CURRENT_TEST": "",  # or every test would have another environment, and a restart
}
ORDERS: Final = (
    ("crds", "base", "admitter", "regulator", "prioritizer", "webhook"),
    ("webhook", "prioritizer", "regulator", "admitter", "base", "crds"),
    ("prioritizer", "admitter", "crds", "webhook", "base", "regulator"),
)
"""As docs/install.md has it, the other way round, and components on both sides of what they share."""
TASKS: Final = 9
AT_ONCE: Final = 3
MEMBERS: Final = 3

Object = dict[str, Any]


def git(*words: str) -> str:
    """What git says of this checkout; empty where it does not know."""
    done = subprocess.run(["git", "-C", str(stack.ROOT), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def earlier_commit() -> str:
    """The commit asked for; else the last release; else the last commit that is a day older than the present one."""
    if given := os.environ.get(FROM):
        return given
    day_before = git("log", "-1", "--format=%ct")
    before = f"--before=@{int(day_before or 0) - 24 * 3600}"
    return git("describe", "--tags", "--abbrev=0", "HEAD^") or git("log", "-1", "--format=%H", before)


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout of what ran before."""
    commit, folder = earlier_commit(), tmp_path_factory.mktemp("earlier")
    if not commit:
        pytest.skip(f"this checkout has no earlier commit: fetch its history, or name one in {FROM}")
    archive = folder / "earlier.tar"
    subprocess.run(
        ["git", "-C", str(stack.ROOT), "archive", f"--output={archive}", commit, "packages", "services", "manifests"],
        check=True,
    )
    subprocess.run(["tar", "--extract", f"--file={archive}", f"--directory={folder}"], check=True)
    print(f"from {git('log', '-1', '--format=%h of %cs, %s', commit)}")  # noqa: T201
    return folder


class Upgrade:
    """A cluster with the earlier version, and a namespace with what runs on it."""

    def __init__(self, cluster: Cluster, earlier: Path) -> None:
        self.cluster = cluster
        self.namespace = f"it-{uuid.uuid4().hex[:8]}"
        self.ended: list[str] = []
        """The pods that have ended by themselves."""
        stack.install(cluster, earlier)
        stack.start(cluster, stack.SERVICES, SETTINGS, earlier)
        cluster.kubectl("create", "namespace", self.namespace)
        self.submit("job")
        self.submit("gang", parallelism=MEMBERS)
        self.submit("array", array={"tasks": TASKS, "maxRunning": AT_ONCE})
        self.until("all run", lambda: len(self.running()) == 1 + MEMBERS + AT_ONCE)
        for name in ("job", "gang", "array"):
            self.until_phase(name, "Running")

    def submit(self, name: str, **more: Any) -> None:
        spec = {
            "image": "none",
            "resources": {"requests": {"cpu": "1", "memory": "16Mi"}},
            "terminationGracePeriodSeconds": 1,
            **more,
        }
        body = {"apiVersion": names.API_VERSION, "kind": "ScavengerJob", "metadata": {"name": name}, "spec": spec}
        path = f"/apis/scavenger.dev/v1alpha1/namespaces/{self.namespace}/scavengerjobs"
        self.cluster.client.create_all(path, [body])

    # --- seeing ---

    def pods(self) -> list[Object]:
        found: list[Object] = self.cluster.client.get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return found

    def running(self, job: str = "") -> dict[str, Object]:
        """The pods that run and are not told to stop, by UID."""
        return {
            pod["metadata"]["uid"]: pod
            for pod in self.pods()
            if pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
            and job in ("", pod["metadata"]["labels"][names.LABEL_JOB])
        }

    def status(self, name: str) -> Object:
        path = f"/apis/scavenger.dev/v1alpha1/namespaces/{self.namespace}/scavengerjobs/{name}"
        return dict(self.cluster.client.get(path).get("status") or {})

    def completed(self) -> int:
        """Tasks that the status of the array counts."""
        return int(self.status("array").get("array", {}).get("completed", 0))

    def until(self, what: str, condition: Any) -> None:
        wait(what, condition, timeout=180, describe=self.seen)

    def until_phase(self, name: str, phase: str) -> None:
        self.until(f"{name} {phase}", lambda: self.status(name).get("phase") == phase)

    def seen(self) -> str:
        found = self.cluster.kubectl("-n", self.namespace, "get", "sj,jobs,pods", "-o", "wide")
        return f"{found}\n{self.cluster.service_logs('admitter')[-4000:]}"

    # --- doing ---

    def end(self, pod: Object) -> None:
        """A program ends by itself, with 0."""
        name = pod["metadata"]["name"]
        self.ended.append(pod["metadata"]["labels"].get(names.LABEL_TASK) or name)
        patch = {"metadata": {"annotations": {RUN_SECONDS: "0"}}}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        self.cluster.client.request("PATCH", path, patch, MERGE_PATCH)

    def delete(self, pod: Object) -> None:
        self.cluster.client.delete(f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}")

    def replace(self, part: str) -> None:
        """The present chart in the place of the earlier one. Between the two admitters a task ends by itself and a
        member of the gang is deleted; while any other part changes, a task ends."""
        task = min(self.running("array").values(), key=lambda pod: str(pod["metadata"]["name"]))
        gone = part == "admitter"
        if gone:
            self.cluster.service_stop(part)
            self.delete(min(self.running("gang").values(), key=lambda pod: str(pod["metadata"]["name"])))
        before = self.completed()
        self.end(task)
        stack.install_part(self.cluster, part)
        if part in stack.SERVICES:
            stack.start(self.cluster, [part], SETTINGS)
        self.until(f"a task counted beside the new {part}", lambda: self.completed() == before + 1)
        if gone:
            self.until("the gang counted", lambda: self.status("gang").get("interruptedCount") == 1)
        self.until("all run", lambda: len(self.running("gang")) == MEMBERS)
        most = min(AT_ONCE, TASKS - before - 1)
        self.until("the next tasks run", lambda: len(self.running("array")) == most)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    found = Cluster(cluster_name("it-upgrade"), report=lambda line: None)
    try:
        found.up("fake:2", fake_cpu="16", fake_memory="64Gi", scheduler="stock")
        yield found
    finally:
        found.down()


def seconds(status: Object) -> float:
    """How long the last run of a job took."""
    begun, ended = parse_time(status["runningTimestamps"][-1]), parse_time(status["finishedTimestamp"])
    assert begun is not None
    assert ended is not None
    return (ended - begun).total_seconds()


def booked(status: Object) -> float:
    return float(status.get("usefulCPUSeconds", 0) + status.get("lostCPUSeconds", 0))


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_charts_one_by_one_lose_nothing(cluster: Cluster, earlier: Path, order: tuple[str, ...]) -> None:
    made = Upgrade(cluster, earlier)
    [job] = made.running("job")
    gang = made.running("gang")
    for part in order:
        made.replace(part)
        assert list(made.running("job")) == [job], f"the upgrade of {part} ended a job that runs"
    assert not gang.keys() & made.running("gang").keys(), "a gang starts again as one"
    for pod in made.running().values():
        made.end(pod)
    for name in ("job", "gang"):
        made.until_phase(name, "Completed")
    made.until("the array over", partial(_all_ended, made))
    one, many, tasks = (made.status(name) for name in ("job", "gang", "array"))
    assert [found["interruptedCount"] for found in (one, many, tasks)] == [0, 1, 0]
    assert [len(found["runningTimestamps"]) for found in (one, many)] == [1, 2]
    assert booked(one) == pytest.approx(seconds(one)), "each second of the job is booked once"
    assert sorted(name for name in made.ended if name.isdecimal()) == [str(index) for index in range(TASKS)]
    assert (tasks["array"]["completed"], tasks["lostCPUSeconds"]) == (TASKS, 0)
    made.until("no finalizer left", lambda: not any(pod["metadata"].get("finalizers") for pod in made.pods()))
    for service in stack.SERVICES:
        assert made.cluster.service(service).restarts == 0


def _all_ended(made: Upgrade) -> bool:
    """Whether the array is over; tasks that still run end."""
    for pod in made.running("array").values():
        if pod["metadata"]["labels"][names.LABEL_TASK] not in made.ended:
            made.end(pod)
    return made.status("array").get("phase") == "Completed"
