"""The closed loop on a real kubelet: programs that burn CPU, cAdvisor's figures, metrics-server, and three services.

One node that offers one core, so that a busy machine can still give what the test burns. Load moves in steps; levels,
percentage and classes follow; above the upper level exactly those leave that have least at risk; at the admission level
jobs yield at their checkpoint.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from scavenger_api.names import ANNOTATION_LAST_CHECKPOINT, LABEL_PREEMPTION_CLASS, LEVELS_CONFIGMAP, SYSTEM_NAMESPACE
from scavenger_api.times import format_time
from scavenger_cluster import Cluster, stack
from scavenger_cluster.requirements import obstacles
from scavenger_testing.world import IMAGE, SETTINGS, World

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

BURN = ["python3", "-c", "while True: pass"]
JOBS = 6
QUICK = {
    **SETTINGS,
    "SCAVENGER_PERIOD": "5",
    "SCAVENGER_MAX_AGE": "60",  # metrics-server has new figures every ten seconds
    "SCAVENGER_COOLDOWN": "5",
    "SCAVENGER_LEVEL_STEP": "0",
    "SCAVENGER_HISTORY_MIN_SAMPLES": "100000",  # the levels stay the initial ones
}


def levels(lower: int, admission: int, upper: int, *, yields: bool) -> dict[str, str]:
    return {
        "SCAVENGER_INITIAL_LOWER": str(lower),
        "SCAVENGER_INITIAL_ADMISSION": str(admission),
        "SCAVENGER_INITIAL_UPPER": str(upper),
        "SCAVENGER_YIELD_AT_CHECKPOINT": str(yields).lower(),
    }


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One real node of one core, with metrics."""
    if obstacles():
        pytest.skip(f"no real nodes here: {'; '.join(obstacles())}")
    found = Cluster("e2e-loop", report=lambda line: print(line, flush=True))  # noqa: T201
    try:
        found.up("real:1", metrics=True, arguments={"kubelet": stack.one_core()})
        stack.install(found)
        stack.build_images(found)
        yield found
    finally:
        found.down()


@dataclass(frozen=True)
class Published:
    """What the regulator says at this moment."""

    data: dict[str, str]

    @property
    def state(self) -> str:
        return self.data.get("state", "")

    def number(self, name: str) -> float:
        return float(self.data[name])


class Loop(World):
    """The world of this test, and the regulator's word on it."""

    def published(self) -> Published:
        seen = self.cluster.client.find(f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps/{LEVELS_CONFIGMAP}")
        return Published(dict((seen or {}).get("data") or {}))

    def load(self) -> float:
        return float(self.published().data.get("load.cpu", "nan"))

    def wait_load(self, low: float, high: float, timeout: float = 90) -> Published:
        self.wait(f"a load of {low} to {high} %", lambda: low <= self.load() <= high, timeout)
        return self.published()

    def submit(self, name: str, cpu: str = "100m") -> None:
        resources = {"requests": {"cpu": cpu, "memory": "32Mi"}}
        spec = {"image": IMAGE, "command": BURN, "resources": resources, "terminationGracePeriodSeconds": 1}
        self.apply(
            {"apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": {"name": name}, "spec": spec}
        )

    def burn(self, name: str, cpu: str) -> None:
        """An ordinary pod that uses all it asked for."""
        resources = {"requests": {"cpu": cpu, "memory": "32Mi"}, "limits": {"cpu": cpu, "memory": "32Mi"}}
        container = {"name": "main", "image": IMAGE, "command": BURN, "resources": resources}
        spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    def report_checkpoint(self, job: str) -> None:
        """What an application does that writes checkpoints of its own accord."""
        [pod] = self.staying(job)
        note = f"{ANNOTATION_LAST_CHECKPOINT}={format_time(datetime.now(UTC))}"
        self.kubectl("annotate", "--overwrite", "pod", pod["metadata"]["name"], note)

    def phases(self) -> dict[str, str]:
        return {
            job["metadata"]["name"]: job.get("status", {}).get("phase", "") for job in self.objects("scavengerjobs")
        }

    def running(self) -> set[str]:
        return {name for name, phase in self.phases().items() if phase == "Running"}

    def classes(self) -> dict[str, str]:
        found = self.objects("pods", "scavenger.dev/job")
        return {
            pod["metadata"]["labels"]["scavenger.dev/job"]: pod["metadata"]["labels"][LABEL_PREEMPTION_CLASS]
            for pod in found
        }

    def classes_follow(self) -> bool:
        """Whether as many jobs are preemptible as the published percentage says."""
        classes = list(self.classes().values())
        wanted = math.ceil(len(classes) * self.published().number("preemptiblePercentage") / 100)
        return classes.count("preemptible") == wanted

    def causes(self) -> dict[str, str]:
        """Why each interrupted job was interrupted."""
        return {
            job["metadata"]["name"]: condition["reason"]
            for job in self.objects("scavengerjobs")
            for condition in job.get("status", {}).get("conditions", ())
            if condition["type"] == "Interrupted" and condition["status"] == "True"
        }

    def describe(self) -> str:
        logs = {name: self.cluster.service_logs(name)[-3000:] for name in ("regulator", "prioritizer")}
        return f"{self.published().data}\n{super().describe()}\n{logs}"


@pytest.fixture
def world(cluster: Cluster) -> Iterator[Loop]:
    """A fresh namespace and fresh services, ended afterwards."""
    namespace = f"loop-{time.time_ns():x}"
    cluster.kubectl("create", "namespace", namespace)
    place = Loop(cluster, namespace)
    yield place
    place.clear()
    for name in ("prioritizer", "regulator", "admitter"):
        cluster.service_stop(name)
    cluster.kubectl("-n", SYSTEM_NAMESPACE, "delete", "configmap", "--all")


def test_load_rises_in_steps_and_exactly_enough_gives_way(world: Loop) -> None:
    stack.start(world.cluster, settings={**QUICK, **levels(63, 66, 85, yields=False)})
    world.wait("a first measurement", lambda: world.published().state == "Filling")
    jobs = [f"j{number}" for number in range(JOBS)]
    for name in jobs:
        world.submit(name)
    world.submit("next", cpu="300m")
    world.wait("the cluster is filled", lambda: world.running() >= set(jobs))

    # Filling: 60 % of load from the jobs, the floor is preemptible, and one more would pass the admission level.
    seen = world.wait_load(55, 62.9, timeout=150)
    assert seen.state == "Filling"
    assert seen.number("preemptiblePercentage") == pytest.approx(33)
    world.wait("a third is preemptible", world.classes_follow)
    world.wait("the next one is told why", lambda: "admission level" in world.status("next").get("message", ""))
    assert world.phases()["next"] == "Waiting"

    # Speculative: an ordinary pod burns 20 % more; the percentage follows the curve, the classes the percentage.
    world.burn("web", "200m")
    seen = world.wait_load(77, 84.9)
    assert seen.state == "Speculative"
    load, lower, upper = (seen.number(f"{name}.cpu") for name in ("load", "lower", "upper"))
    assert (lower, upper) == (63, 85)
    curve = math.exp(math.log(100) / (upper - lower) * (load - lower))
    assert seen.number("preemptiblePercentage") == pytest.approx(max(33.0, curve), rel=0.02)
    world.wait(
        "more are preemptible",
        lambda: world.classes_follow() and list(world.classes().values()).count("preemptible") > 2,
    )
    assert world.running() == set(jobs), "nobody has to go yet"

    # Evicting: 10 % more: 28 points have to go. Four have just written a checkpoint, and one of those is
    # protected by a budget of its owner's: the other three go, and nobody else.
    for name in ("j1", "j3", "j5", "j0"):
        world.report_checkpoint(name)
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"scavenger.dev/job": "j0"}}}
    world.apply(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "mine"}, "spec": budget}
    )
    before = world.get("pod", "web")
    world.burn("burst", "100m")
    world.wait("three have been interrupted", lambda: len(world.causes()) == 3, timeout=180)
    assert world.causes() == dict.fromkeys(("j1", "j3", "j5"), "AboveUpperLevel")
    seen = world.wait_load(50, 63)
    world.wait("it is over", lambda: world.published().state != "Evicting")
    time.sleep(15)  # another measurement and another plan, if there were one
    assert set(world.causes()) == {"j1", "j3", "j5"}, "not one more"
    assert {world.status(name)["interruptedCount"] for name in ("j1", "j3", "j5")} == {1}
    after = world.get("pod", "web")
    assert before is not None
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"], "ordinary pods are never touched"
    assert after["status"]["phase"] == "Running"

    # The load falls: those that were interrupted come back, before the one that has waited all along.
    world.kubectl("delete", "pod", "web", "burst", "--wait=false")
    world.wait("they are back", lambda: world.running() >= set(jobs), timeout=120)
    assert world.phases()["next"] == "Waiting"


@pytest.fixture
def filled(world: Loop) -> set[str]:
    """Six jobs that burn a tenth of a core each; no regulator, but levels that let it have its way."""
    stack.start(world.cluster, settings={**QUICK, **levels(63, 66, 85, yields=False)})
    jobs = {f"j{number}" for number in range(JOBS)}
    for name in sorted(jobs):
        world.submit(name)
    world.wait("the cluster is filled", lambda: world.running() == jobs, timeout=120)
    world.cluster.service_stop("regulator")
    return jobs


def test_jobs_are_throttled_before_anybody_is_evicted(world: Loop, filled: set[str]) -> None:
    """Between the lower and the upper level the preemptible ones run at half their CPU; under it, in full again."""
    throttled = {**QUICK, **levels(45, 66, 85, yields=False), "SCAVENGER_THROTTLE": "true"}
    stack.start(world.cluster, ["regulator"], throttled)

    def limits() -> dict[str, str]:
        found = world.objects("pods", "scavenger.dev/job")
        return {
            pod["metadata"]["labels"]["scavenger.dev/job"]: pod["status"]["containerStatuses"][0]["resources"][
                "limits"
            ]["cpu"]
            for pod in found
        }

    preemptible = {name for name, kind in world.classes().items() if kind == "preemptible"}
    assert 0 < len(preemptible) < JOBS
    halved = {name: "50m" if name in preemptible else "100m" for name in filled}
    world.wait("the kubelet has halved them", lambda: limits() == halved, timeout=90)
    assert world.running() == filled
    assert world.causes() == {}
    for name in sorted(filled - preemptible)[:3]:
        world.kubectl("delete", "scavengerjob", name)
    world.wait("all are back at what they asked for", lambda: set(limits().values()) == {"100m"}, timeout=90)
    assert world.causes() == {}


def test_jobs_yield_at_their_checkpoint_until_there_is_room_again(world: Loop, filled: set[str]) -> None:
    # 60 % of load, 50 % is where nobody new fits, 45 % is where yielding ends: two have to go.
    stack.start(world.cluster, ["regulator"], {**QUICK, **levels(48, 50, 85, yields=True)})
    world.wait_load(57, 65)
    world.wait("classes", world.classes_follow)
    time.sleep(12)
    assert world.causes() == {}, "nobody has written a checkpoint"
    victims: set[str] = set()
    deadline = time.monotonic() + 120
    while len(victims) < 2:
        assert time.monotonic() < deadline, world.describe()
        for name in sorted(world.running()):
            world.report_checkpoint(name)
        time.sleep(5)
        victims = set(world.causes())
    world.wait_load(35, 50)
    assert set(world.causes().values()) == {"YieldAtCheckpoint"}
    assert world.running() == filled - set(world.causes())
    assert len(world.causes()) == 2
    lost = sum(world.status(name)["lostCPUSeconds"] for name in world.causes())
    assert lost <= 0.1 * 20 * len(victims), "a checkpoint is at most a few periods old"
