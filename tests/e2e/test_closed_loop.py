"""The closed loop on a real kubelet: programs that use what they asked for, cAdvisor's figures, metrics-server, and
three services.

One node that offers 3 GiB of memory and half a core. Load moves in steps; levels, percentage and classes follow; above
the upper level exactly those leave that have least at risk; before that jobs slow down.
What counts jobs moves the memory, whose figures are the same on a busy machine; the CPU that containers get is not.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from scavenger_api.levels_text import AVERAGED_SINCE
from scavenger_api.names import LABEL_JOB, LABEL_PREEMPTION_CLASS, LEVELS_CONFIGMAP, SYSTEM_NAMESPACE
from scavenger_api.quantity import parse_quantity
from scavenger_api.times import parse_time
from scavenger_cluster import Cluster, stack
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.world import IMAGE, SETTINGS, World

pytestmark = [pytest.mark.real, pytest.mark.cpu, pytest.mark.timeout(600), pytest.mark.long]

BURN = ["python3", "-c", "while True: pass"]
HOLD = """
import sys, time
held = b"x" * (int(sys.argv[1]) << 20)
while True:
    sum(range(10_000))
    time.sleep(0.1)
"""
"""Holds so many MiB, and hardly uses the CPU."""
INTERPRETER = 8
"""MiB that Python itself holds."""
JOBS = 6
CORES = 500
"""Millicores that the node offers; what asks for a tenth can have them on a busy machine too."""
MEMORY = 3072
"""MiB that the node offers; the kubelet and the container runtime use a few percent of it."""
QUICK = {
    **SETTINGS,
    **stack.FIXED_LEVELS,
    "SCAVENGER_MAX_AGE": "60",  # metrics-server has new figures every ten seconds
    "SCAVENGER_COOLDOWN": "5",
    "SCAVENGER_CLASS_HOLD": "0",
}


def cores(share: float) -> str:
    """So much of what the node offers, in percent, as a quantity of CPU."""
    return f"{round(CORES * share / 100)}m"


def holder(share: float) -> dict[str, Any]:
    """What a container runs and asks for that holds so many percent of the memory."""
    size = round(MEMORY * share / 100)
    # A limit is the request where a job names none, so there is some room for what Python needs now and then.
    resources = {"requests": {"cpu": cores(10), "memory": f"{size + 16}Mi"}}
    return {"command": ["python3", "-c", HOLD, str(size - INTERPRETER)], "resources": resources}


def levels(lower: float, admission: float, upper: float) -> dict[str, str]:
    return {
        "SCAVENGER_INITIAL_LOWER": str(lower),
        "SCAVENGER_INITIAL_ADMISSION": str(admission),
        "SCAVENGER_INITIAL_UPPER": str(upper),
        "SCAVENGER_YIELD_AT_CHECKPOINT": "false",
    }


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One real node, with metrics."""
    found = Cluster(cluster_name("e2e-loop"), report=lambda line: print(line, flush=True))  # noqa: T201
    try:
        found.up("real:1", metrics=True, arguments={"kubelet": stack.offer(cpu=CORES, memory=MEMORY)})
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
        """NaN for what is not published: without a fresh measurement there are no loads."""
        return float(self.data.get(name, "nan"))


class Loop(World):
    """The world of this test, and the regulator's word on it."""

    def published(self) -> Published:
        seen = self.cluster.client.find(f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps/{LEVELS_CONFIGMAP}")
        return Published(dict((seen or {}).get("data") or {}))

    def wait_load(self, low: float, high: float, timeout: float = 120) -> Published:
        """What was published when the load in memory was between the two, in percent."""

        def seen() -> Published | None:
            now = self.published()
            return now if low <= now.number("load.memory") <= high else None

        found: Published = self.wait(f"a load of {low:.1f} to {high:.1f} %", seen, timeout)
        return found

    def settled(self, resource: str = "memory") -> float:
        """The load in percent, once two measurements that began after this call agree."""
        since, seen = datetime.now(UTC), dict[str, float]()

        def steady() -> float | None:
            data = self.published().data
            began = parse_time(data.get(AVERAGED_SINCE))
            if began is None or began < since or f"load.{resource}" not in data:
                return None
            seen[data["observedAt"]] = float(data[f"load.{resource}"])
            last = list(seen.values())[-2:]
            return sum(last) / 2 if len(last) == 2 and abs(last[0] - last[1]) < 1.5 else None

        return float(self.wait("a steady load", steady, 240))

    def submit(self, name: str, container: dict[str, Any]) -> None:
        """A job of this container."""
        spec = {"image": IMAGE, "terminationGracePeriodSeconds": 1, **container}
        self.apply(
            {"apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": {"name": name}, "spec": spec}
        )

    def ordinary(self, name: str, share: float) -> None:
        """An ordinary pod that holds so many percent of the memory."""
        container = {"name": "main", "image": IMAGE, **holder(share)}
        spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

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

    def preemptible(self) -> int:
        """How many jobs are preemptible."""
        return list(self.classes().values()).count("preemptible")

    def classes_follow(self) -> bool:
        """Whether as many jobs are preemptible as the published percentage says."""
        percentage = self.published().number("preemptiblePercentage")
        if math.isnan(percentage):
            return False
        return self.preemptible() == math.ceil(len(self.classes()) * percentage / 100)

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
    # With this floor one of six is preemptible below the lower level; see the window below for a second one.
    floor = {"SCAVENGER_FLOOR": "10"}
    stack.start(world.cluster, settings={**QUICK, **levels(80, 85, 97), **floor})
    world.wait("a first measurement", lambda: world.published().state == "Filling")
    jobs = [f"j{number}" for number in range(JOBS)]
    for name in jobs:
        world.submit(name, holder(10))
    world.submit("next", holder(30))
    world.wait("the cluster is filled", lambda: world.running() >= set(jobs))

    # Filling: 60 % of load from the jobs, and a little from the node itself; the floor is preemptible, and one more
    # would pass the admission level.
    full = world.settled()
    seen = world.wait_load(55, 75)
    assert seen.state == "Filling"
    assert seen.number("preemptiblePercentage") == pytest.approx(10)
    world.wait("one is preemptible", lambda: world.classes_follow() and world.preemptible() == 1)
    world.wait(
        "the next one is told why", lambda: "admission threshold" in world.status("next").get("message", ""), 240
    )
    assert world.phases()["next"] == "Waiting"

    # Speculative: an ordinary pod holds 20 % more; the percentage follows the curve up to a point of load behind, the
    # classes the percentage. The levels are drawn by what the node uses itself. Two are preemptible from 15.7 points
    # above `full` on.
    lower, upper = full + 1, full + 25
    stack.start(world.cluster, ["regulator"], {**QUICK, **levels(lower, full + 6, upper), **floor})
    world.ordinary("web", 20)
    seen = world.wait_load(full + 17, upper - 0.1)
    assert seen.state == "Speculative"
    assert (seen.number("lower.memory"), seen.number("upper.memory")) == pytest.approx((lower, upper), abs=0.01)
    most = math.exp(math.log(100) / (upper - lower) * (seen.number("load.memory") - lower))
    least = most / math.exp(math.log(100) / (upper - lower))
    assert max(10.0, 0.98 * least) <= seen.number("preemptiblePercentage") <= max(10.0, 1.02 * most)
    world.wait("more are preemptible", lambda: world.classes_follow() and world.preemptible() > 1)
    assert world.running() == set(jobs), "nobody has to go yet"

    # Evicting: 7.6 % more. Between 24 and 26.6 points have to go, however much of the burst is measured at first: more
    # than two jobs use, less than three. Three have just written a checkpoint, and one of those has a budget of its
    # owner's, which does not hold for a preemptible job: the three go at once, and nobody else. Only preemptible jobs
    # are evicted, and a load that jumps is met with the classes of the moment before: this floor keeps three of six
    # preemptible until then.
    patient = {**QUICK, **levels(lower, full + 6, upper), "SCAVENGER_COOLDOWN": "600"}
    stack.start(world.cluster, ["regulator"], {**patient, "SCAVENGER_FLOOR": "50"})
    saved = ("j1", "j3", "j0")
    for name in saved:
        world.report_checkpoint(name)
    world.wait(
        "those with a checkpoint are preemptible",
        lambda: all(world.classes().get(name) == "preemptible" for name in saved),
    )
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"scavenger.dev/job": "j0"}}}
    world.apply(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "mine"}, "spec": budget}
    )
    before = world.get("pod", "web")
    world.ordinary("burst", 7.6)
    world.wait("three have been interrupted", lambda: len(world.causes()) == 3, timeout=180)
    assert world.causes() == dict.fromkeys(saved, "AboveUpperLevel")
    world.wait_load(full - 15, lower)
    world.wait("it is over", lambda: world.published().state != "Evicting")
    time.sleep(15)  # another measurement and another plan, if there were one
    assert set(world.causes()) == set(saved), "not one more"
    assert {world.status(name)["interruptedCount"] for name in saved} == {1}
    told = world.kubectl("get", "events", "--field-selector=reason=BudgetOverridden", "-o", "name")
    assert told.strip(), "its owner is told that the budget did not hold"
    after = world.get("pod", "web")
    assert before is not None
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"], "ordinary pods are never touched"
    assert after["status"]["phase"] == "Running"

    # The load falls: those that were interrupted come back, before the one that has waited all along.
    stack.start(world.cluster, ["regulator"], {**patient, "SCAVENGER_COOLDOWN": "5"})
    world.kubectl("delete", "pod", "web", "burst", "--wait=false")
    world.wait("they are back", lambda: world.running() >= set(jobs), timeout=120)
    assert world.phases()["next"] == "Waiting"


def test_jobs_are_throttled_before_anybody_is_evicted(world: Loop) -> None:
    """Above the admission level some of the preemptible ones run with less CPU, as much as the load is too high; with
    room under it, all have theirs back."""
    burner = {"command": BURN, "resources": {"requests": {"cpu": cores(10), "memory": "32Mi"}}}
    stack.start(world.cluster, settings={**QUICK, **levels(80, 85, 97)})
    jobs = {f"j{number}" for number in range(JOBS)}
    for name in sorted(jobs):
        world.submit(name, burner)
    world.wait("the cluster is filled", lambda: world.running() == jobs, timeout=120)
    full = world.settled("cpu")
    world.cluster.service_stop("regulator")
    above = {**levels(full - 30, full - 14, full + 20), "SCAVENGER_YIELD_FROM": "0.25"}
    stack.start(world.cluster, ["regulator"], {**QUICK, **above, "SCAVENGER_THROTTLE": "true"})

    def limit(pod: dict[str, Any]) -> float:
        """In percent of the node; the real limit is a millicore more."""
        resources = pod["status"]["containerStatuses"][0]["resources"]
        return float(parse_quantity(resources["requests"]["cpu"])) * 1000 / CORES * 100

    def limits() -> dict[str, float]:
        return {pod["metadata"]["labels"][LABEL_JOB]: limit(pod) for pod in world.objects("pods", LABEL_JOB)}

    def slowed() -> set[str]:
        found = limits()
        assert all(4.9 <= left <= 10 for left in found.values()), "half is the least"
        # What is measured of a busy CPU goes up and down; a whole job more or less would be another matter.
        taken = sum(10 - left for left in found.values())
        return {name for name, left in found.items() if left < 10} if 7 <= taken < 22 else set()

    fewer = world.wait("the kubelet has taken CPU from some", slowed)
    assert len(fewer) < JOBS
    assert world.running() == jobs
    assert world.causes() == {}
    for name in sorted(jobs - fewer)[:2] + sorted(fewer)[:1]:
        world.kubectl("delete", "scavengerjob", name)
    world.wait("all are back at what they asked for", lambda: set(limits().values()) == {10.0}, timeout=180)
    assert world.causes() == {}


HOLD_FOR = """
import sys, time
held = b"x" * (int(sys.argv[1]) << 20)
end = time.monotonic() + int(sys.argv[2])
while time.monotonic() < end:
    sum(range(2_000))
    time.sleep(0.1)
"""
"""Holds so many MiB for so many seconds, and hardly uses the CPU."""


def test_what_tasks_use_is_measured_and_the_next_job_starts_smaller_and_recovers(world: Loop) -> None:
    """By figures of cAdvisor: ten tasks use a fraction of what they request. A job of the same program requests what
    they have used, is killed for memory by the kernel, as it holds more, and completes with its own request."""
    settings = {"SCAVENGER_FALLBACK_ADMISSION_PERCENT": "100", "SCAVENGER_USAGE_PERIOD": "5"}
    stack.start(world.cluster, ["admitter"], {**SETTINGS, **settings})
    program = {"command": ["python3", "-c", HOLD_FOR], "resources": {"requests": {"cpu": cores(8), "memory": "64Mi"}}}
    world.submit("small", {**program, "args": ["1", "100"], "array": {"tasks": 10}})
    world.wait_phase("small", "Completed", 300)
    usage = world.status("small")["usage"]
    assert usage["runs"] == 10
    assert 10 * 50 < usage["podSeconds"] <= 10 * 140
    assert usage["cpu"]["requested"] == cores(8)
    assert parse_quantity(usage["cpu"]["p50"]) < parse_quantity(cores(4))
    most = parse_quantity(usage["memory"]["max"])
    assert parse_quantity("4Mi") <= most < parse_quantity("40Mi")

    words = ["recommend", "small", "-n", world.namespace, "-o", "json"]
    environment = {**os.environ, "KUBECONFIG": str(world.cluster.kubeconfig)}
    said = subprocess.run(
        [sys.executable, "-m", "scavenger_cli", *words], env=environment, capture_output=True, text=True, check=True
    )
    (found,) = json.loads(said.stdout)
    assert most < parse_quantity(found["recommended"]["memory"]) < parse_quantity("60Mi")

    world.submit("large", {**program, "args": ["45", "5"], "resourcesFrom": "Recommended"})
    sized = world.wait("it is sized", lambda: world.status("large").get("recommended"), 60)
    assert most < parse_quantity(sized["memory"]) < parse_quantity("60Mi")
    world.wait("it is killed", lambda: world.status("large").get("recommended", {}).get("killedForMemory"), 120)
    done = world.wait_phase("large", "Completed", 180)
    assert done["recommended"] == {"killedForMemory": True}
    assert "retries" not in done
