"""An upgrade with a job, a gang and an array running, the charts one by one: nothing is lost, and nothing counts twice.

What ran before is an earlier commit: its manifests, and its services as processes with the dependencies of this one.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from scavenger_api import names
from scavenger_api.times import parse_time
from scavenger_cluster import Cluster, stack
from scavenger_cluster.kwok import RUN_SECONDS
from scavenger_kube.resources import MERGE_PATCH
from scavenger_regulator.core.history import DEFAULT_BUCKETS, load_histories
from scavenger_regulator.core.snapshot import CLUSTER, POOL
from scavenger_regulator.store import KEY_HISTORY, STATE_CONFIGMAP
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.waiting import wait

from tests.integration.regulator.pools import GPU, Pools, prometheus, settings_of, two_pools

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
"""As docs/upgrade.md has it, the other way round, and components on both sides of what they share."""
TASKS: Final = 9
AT_ONCE: Final = 3
DAY: Final = 24 * 3600.0
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


def checkout(commit: str, folder: Path) -> Path:
    """What ran at a commit: its manifests and services, in this folder."""
    archive = folder / "earlier.tar"
    subprocess.run(
        ["git", "-C", str(stack.ROOT), "archive", f"--output={archive}", commit, "packages", "services", "manifests"],
        check=True,
    )
    subprocess.run(["tar", "--extract", f"--file={archive}", f"--directory={folder}"], check=True)
    print(f"from {git('log', '-1', '--format=%h of %cs, %s', commit)}")  # noqa: T201
    return folder


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout of what ran before."""
    commit = earlier_commit()
    if not commit:
        pytest.skip(f"this checkout has no earlier commit: fetch its history, or name one in {FROM}")
    return checkout(commit, tmp_path_factory.mktemp("earlier"))


@pytest.fixture
def before_pools(tmp_path: Path) -> Path:
    """The checkout of the last version that knew no pools of nodes."""
    added = git("log", "--reverse", "--format=%H", "-Sdef pool_of", "--", "packages/domain").split()
    if not added:
        pytest.skip("this checkout has no commit from before there were pools: fetch its history")
    return checkout(f"{added[0]}^", tmp_path)


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


# --- pools of nodes -----------------------------------------------------------------------------------------


def samples(pools: Pools) -> dict[str, int]:
    """What the regulator has kept: measurements of the CPU load by scope, that of the flat history without a name."""
    path = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps/{STATE_CONFIGMAP}"
    text = pools.cluster.client.get(path)["data"][KEY_HISTORY]
    found = load_histories(text, None, DAY, DEFAULT_BUCKETS, datetime.now(UTC))
    return {scope: histories["cpu"].samples for scope, histories in found.items()}


def handed_over(pools: Pools, settings: dict[str, str], root: Path) -> dict[str, int]:
    """Another version of the regulator takes the place of the one that runs. What that has left."""
    pools.cluster.service_stop("regulator")
    left = samples(pools)
    stack.start(pools.cluster, ["regulator"], settings, root)
    measured_twice(pools)
    return left


def measured_twice(pools: Pools) -> None:
    """Wait for two periods: what the first one measured is in the history then."""
    for _ in range(2):
        wait("levels", partial(_measured_since, pools, pools.levels().observed_at), describe=pools.seen)


def _measured_since(pools: Pools, before: datetime | None) -> bool:
    return pools.levels().observed_at not in (None, before)


def test_charts_one_by_one_and_back_with_pools_of_nodes(before_pools: Path) -> None:
    """The regulator first. Beside it an older admitter starts nothing in a pool that is shut, and the history of the
    cluster goes on as that of the default pool, forth and back."""
    cluster = Cluster(cluster_name("it-upgrade-pools"), report=lambda line: None)
    try:
        with prometheus() as (figures, url):
            pools, settings = two_pools(cluster, figures), settings_of(url)
            stack.install(cluster, before_pools)
            pools.use(cpus=5, gpus=99)
            stack.start(cluster, ["admitter", "regulator"], settings, before_pools)
            measured_twice(pools)

            left = handed_over(pools, settings, stack.ROOT)
            assert left[CLUSTER] > 0
            levels = pools.levels()
            [pool] = levels.pools
            assert (levels.admit, levels.pools[pool].admit, sorted(levels.closed_nodes)) == (True, False, [pools.gpu])
            pools.submit("gpus", cpu="1", memory="16Mi", **{GPU: "1"})
            pools.submit("cpus", cpu="1", memory="16Mi")
            wait("the job on CPUs", lambda: pools.status("cpus").get("phase") == "Running", describe=pools.seen)
            assert pools.status("gpus").get("phase", "Waiting") == "Waiting", "the older admitter obeys closedNodes"
            pools.use(cpus=5, gpus=5)
            wait("the job on GPUs", lambda: pools.status("gpus").get("phase") == "Running", describe=pools.seen)

            both = handed_over(pools, settings, before_pools)
            assert both[CLUSTER] > left[CLUSTER], "the default pool goes on with the history of the cluster"
            assert both[POOL + pool] < both[CLUSTER], "a pool begins one of its own"
            assert not pools.levels().pools, "no key of a newer version is left"

            back = handed_over(pools, settings, stack.ROOT)
            assert back[CLUSTER] > both[CLUSTER], "the cluster goes on with that of the default pool"
            stack.install(cluster)
            stack.start(cluster, ["admitter"], settings)
            pools.use(cpus=99, gpus=5)
            wait("the CPU pool is shut", lambda: not pools.levels().admit, describe=pools.seen)
            pools.submit("more", cpu="1", memory="16Mi", **{GPU: "1"})
            wait("one more on GPUs", lambda: pools.status("more").get("phase") == "Running", describe=pools.seen)
            assert pools.nodes_of("gpus") == pools.nodes_of("more") == [pools.gpu]
    finally:
        cluster.down()
