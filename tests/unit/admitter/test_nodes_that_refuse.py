"""Nodes that do not start pods: jobs run elsewhere, and the node is tried again. The admitter as a whole; the scheduler
here knows affinities, and takes the node with most room: the broken one."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from scavenger_admitter.core.admission.cycle.plan import plan_admissions
from scavenger_admitter.core.admission.snapshot import Snapshot
from scavenger_admitter.core.admission.view.node_trust import NodeTrust
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_admitter.core.lifecycle import boots
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_kube.resources import CONFIGMAPS, EVENTS, NODES, PODS
from scavenger_runtime.metrics import REGISTRY
from scavenger_testing import scavengerjob_dict
from scavenger_testing.builders import waiting

from tests.unit.admitter.test_before_pools import decided

from .harness import Harness, Object, empty_harness, runs

AFFINITY = "nodeAffinity"
REQUIRED, PREFERRED = (f"{when}DuringSchedulingIgnoredDuringExecution" for when in ("required", "preferred"))
NOT_ADMITTED = {
    "phase": "Failed",
    "reason": "UnexpectedAdmissionError",
    "message": "Pod was rejected: Allocate failed due to no healthy devices present",
}


class Cluster(Harness):
    """Two nodes; `bad` is the larger one.

    refusal: what becomes of pods on `bad`; None where it starts them. refused: names of such pods. nodes: their labels.
    """

    refusal: Object | None
    refused: list[str]
    nodes: dict[str, dict[str, str]]

    def run(self, pod: Object) -> None:
        if pod["status"].get("startTime"):  # it does not come up
            return
        node = self._choose(pod)
        self.binds_to = node
        if node == "bad" and self.refusal is not None:
            self.refused.append(pod["metadata"]["name"])

            def edit(obj: Object) -> None:
                obj["spec"]["nodeName"] = "bad"
                obj["status"] = {"startTime": self.stamp(), **(self.refusal or {})}

            self.api.edit(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], edit)
        else:
            super().run(pod)

    def _labels(self, name: str) -> dict[str, str]:
        return {"kubernetes.io/hostname": name, **self.nodes[name]}

    def _choose(self, pod: Object) -> str:
        nodes = [(name, labels) for name, labels in self.nodes.items() if self._may(pod, name)]
        return max(nodes, key=lambda one: (self._wishes(pod, *one), -list(self.nodes).index(one[0])))[0]

    def _may(self, pod: Object, name: str) -> bool:
        found = pod["spec"].get("affinity", {}).get(AFFINITY, {}).get(REQUIRED, {}).get("nodeSelectorTerms", [])
        return not found or any(all(_holds(one, name) for one in term["matchFields"]) for term in found)

    def _wishes(self, pod: Object, name: str, labels: Object) -> int:
        wishes = pod["spec"].get("affinity", {}).get(AFFINITY, {}).get(PREFERRED, [])
        return sum(_met(wish["preference"], name, labels) for wish in wishes)

    def submit_to(self, namespace: str, name: str, **spec: Any) -> None:
        self.api.put(SCAVENGERJOBS, scavengerjob_dict(name, namespace=namespace, created=self.stamp(), **spec))

    def running_on(self) -> dict[str, str]:
        """By pod of a job that runs, its node."""
        pods = (pod for pod in self.api.stored(PODS) if pod["status"].get("phase") == "Running")
        return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods}

    def told(self, reason: str) -> list[str]:
        return [event["message"] for event in self.api.list(EVENTS) if event["reason"] == reason]


def _holds(field: Object, name: str) -> bool:
    return bool((name in field["values"]) == (field["operator"] == "In"))


def _met(preference: Object, name: str, labels: Object) -> bool:
    fields = all(_holds(one, name) for one in preference.get("matchFields", ()))
    return fields and all(_holds(one, labels[one["key"]]) for one in preference.get("matchExpressions", ()))


CORES = {"bad": "100", "good": "50"}


@asynccontextmanager
async def cluster(
    refusal: Object | None = None, *, good: str = "amd64", bad: str = "amd64", made: type[Cluster] = Cluster
) -> AsyncIterator[Cluster]:
    async with empty_harness() as plain:
        c = made(plain.api, plain.clock)
        c.refusal, c.refused = refusal, []
        c.nodes = {"bad": {"kubernetes.io/arch": bad}, "good": {"kubernetes.io/arch": good}}
        for name, cpu in CORES.items():
            c.node(name, cpu=cpu, labels=c._labels(name))
        try:
            c.admitter()
            yield c
        finally:
            await c.close()


def jobs(*namespaces: str) -> Iterator[tuple[str, str]]:
    yield from ((namespace, f"{namespace}-{number}") for namespace in namespaces for number in range(5))


async def test_a_job_that_a_node_has_refused_starts_on_another_one() -> None:
    async with cluster(NOT_ADMITTED) as c:
        c.submit("a")
        await runs(c, "a", limit=60)
        assert len(c.refused) == 1
        assert [*c.running_on().values()] == ["good"]


@pytest.mark.parametrize("array", [False, True])
async def test_ten_jobs_of_two_namespaces_need_few_starts_to_know_the_node(array: bool) -> None:
    async with cluster(NOT_ADMITTED) as c:
        spec = {"array": {"tasks": 5}} if array else {}
        for namespace, name in list(jobs("lab", "shop"))[:: 5 if array else 1]:
            c.submit_to(namespace, name, **spec)
            await c.pass_time(2)
        await c.until(lambda: len(c.running_on()) == 10, limit=120)
        assert {*c.running_on().values()} == {"good"}
        assert len(c.refused) <= 10
        said = "no job starts here for 5 min, then one tests the node. It said last: Pod was rejected"
        assert [one for one in c.told("NodeShunned") if one.startswith(said)]
        await c.pass_time(6)
        assert REGISTRY.get_sample_value("scavenger_shunned_nodes") == 1
        before = len(c.refused)
        c.submit("late")
        await runs(c, "late", limit=5)
        assert len(c.refused) == before


async def test_one_start_tests_the_node_and_the_others_follow_when_it_works() -> None:
    async with cluster(NOT_ADMITTED) as c:
        for namespace, name in jobs("lab", "shop"):
            c.submit_to(namespace, name)
        await c.until(lambda: len(c.running_on()) == 10, limit=120)
        before = len(c.refused)
        await c.pass_time(290, step=5)
        for number in range(4):
            c.submit(f"next-{number}")
        await c.until(lambda: len(c.running_on()) == 14, limit=60)
        await c.pass_time(40, step=5)
        for number in range(4):
            c.submit(f"test-{number}")
        await c.until(lambda: len(c.running_on()) == 18, limit=60)
        assert len(c.refused) == before + 1
        c.refusal = None
        await c.pass_time(600, step=5)  # a cycle that lasts as long as a step is followed by a long pause
        await c.pass_time(30)
        for number in range(4):
            c.submit(f"again-{number}")
        await c.until(lambda: len(c.running_on()) == 22, limit=20)
        assert len(c.refused) == before + 1
        await c.until(lambda: c.told("NodeTrusted"), limit=20)
        c.submit("last")
        await runs(c, "last")
        assert [*c.running_on().values()].count("bad") >= 1


async def test_a_new_process_knows_the_node_that_is_closed() -> None:
    async with cluster(NOT_ADMITTED) as c:
        for namespace, name in jobs("lab", "shop"):
            c.submit_to(namespace, name)
        await c.until(lambda: len(c.running_on()) == 10, limit=120)
        await c.pass_time(10)
        kept = c.api.get(CONFIGMAPS, names.SYSTEM_NAMESPACE, names.NODES_CONFIGMAP)
        assert kept is not None
        assert {row["node"] for row in json.loads(kept["data"]["closed"])} == {"bad"}
        before = len(c.refused)
        await c.close()
        c.admitter()
        for number in range(4):
            c.submit(f"next-{number}")
        await c.until(lambda: len(c.running_on()) == 14, limit=60)
        assert len(c.refused) == before


async def test_nothing_is_written_where_no_node_refuses() -> None:
    async with cluster() as c:
        c.submit("a")
        await runs(c, "a")
        await c.pass_time(60)
        assert c.api.get(CONFIGMAPS, names.SYSTEM_NAMESPACE, names.NODES_CONFIGMAP) is None
        assert c.pods("a")[0]["spec"].get("affinity", {}).get(AFFINITY) is None


# --- nobody refuses ---


class Trouble(Cluster):
    """Programs fail, are deleted and cannot start, by no fault of a node. Nodes are cordoned, and let pods in again."""

    def begin(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.shut: set[str] = set()

    def run(self, pod: Object) -> None:
        self.refusal = ended_at_once(self.dice.choice(BY_ITS_OWN_FAULT)) if self.dice.random() < 0.3 else None
        super().run(pod)

    def act(self, number: int) -> None:
        """One thing that happens."""
        act = self.dice.choice(
            (self.submit_one, self.submit_one, self.end_one, self.end_one, self.delete_one, self.close_one)
        )
        act(number)

    def submit_one(self, number: int) -> None:
        spec = self.dice.choice(({}, {"parallelism": 2}, {"array": {"tasks": 4}}, {"backoffLimit": 2}))
        cpu = self.dice.choice(("1", "8", "30"))
        self.submit_to(self.dice.choice(("lab", "shop")), f"job-{number}", cpu=cpu, **spec)

    def end_one(self, number: int) -> None:
        if found := self._running():
            self.end(self.dice.choice(found), self.dice.choice((0, 0, 1, 137)))

    def delete_one(self, number: int) -> None:
        if found := self._running():
            self.delete_pod(self.dice.choice(found))

    def close_one(self, number: int) -> None:
        node = self.dice.choice((*self.nodes,))
        self.shut ^= {node}
        self.node(node, cpu=CORES[node], labels=self._labels(node), unschedulable=node in self.shut)

    def _running(self) -> list[Object]:
        found = [pod for pod in self.api.stored(PODS) if pod["status"].get("phase") == "Running"]
        return sorted(found, key=lambda pod: json.dumps([pod["metadata"]["labels"], pod["metadata"]["name"]]))


BY_ITS_OWN_FAULT = ('exec: "prg": executable file not found in $PATH', 'exec: "/prg": permission denied')


@pytest.mark.parametrize("seed", range(3))
async def test_where_no_node_refuses_pods_each_cycle_plans_as_if_nothing_were_known_of_nodes(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    taken, starts = ClusterState.snapshot, 0

    def compared(state: ClusterState, **given: Any) -> Snapshot:
        nonlocal starts
        seen = taken(state, **given)
        with monkeypatch.context() as patch:
            patch.setattr(state, "trust", NodeTrust())
            unknowing = taken(state, **given)
        plan = decided(plan_admissions(seen))
        assert plan == decided(plan_admissions(unknowing))
        starts += len(plan.starts)
        return seen

    monkeypatch.setattr(ClusterState, "snapshot", compared)
    async with cluster(made=Trouble) as c:
        assert isinstance(c, Trouble)
        c.begin(seed)
        for number in range(60):
            c.act(number)
            await c.pass_time(c.dice.choice((1, 2, 5, 15)))
        assert starts > 10
        assert len(c.refused) > 3, "programs that could not start"
        assert c.api.get(CONFIGMAPS, names.SYSTEM_NAMESPACE, names.NODES_CONFIGMAP) is None
        written = json.dumps(c.api.stored(PODS))
        assert "NotIn" not in written, "a pod keeps off a node"


# --- volumes and sidecars ---


async def test_boots_of_nodes_are_written_down_again_only_where_one_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[int] = []

    def counted(*words: Any) -> str:
        written.append(1)
        return dump(*words)

    dump = boots.dump
    monkeypatch.setattr(boots, "dump", counted)

    def kept() -> Any:
        found = c.api.get(CONFIGMAPS, names.SYSTEM_NAMESPACE, names.NODES_CONFIGMAP)
        return found and json.loads(found["data"]["boots"])

    async with cluster() as c:
        c.api.edit(NODES, None, "good", lambda node: node["status"].update(nodeInfo={"bootID": "one"}))
        await c.until(lambda: kept() == {"good": ["one"]}, limit=20)
        before = len(written)
        for _ in range(6):
            c.api.edit(NODES, None, "good", lambda node: node["metadata"].setdefault("labels", {}).update(a="b"))
            await c.pass_time(10)
        assert len(written) == before
        c.api.edit(NODES, None, "good", lambda node: node["status"].update(nodeInfo={"bootID": "two"}))
        await c.until(lambda: kept()["good"][0] == "two", limit=20)
        assert len(written) - before <= 2, "the boot, and when it was seen"


IN_USE = 'Waiting for detach for volume "pvc-1" Volume is already used by pod(s) web-0'


async def test_a_job_whose_volume_pods_of_another_node_use_goes_on_there() -> None:
    async with cluster({"phase": "Pending"}) as c:
        c.submit("a")
        await c.until(lambda: c.refused, limit=30)
        c.event(c.pods("a")[0], "FailedAttachVolume", IN_USE)
        await c.until(lambda: IN_USE in c.status("a").get("message", ""), limit=60)
        took = await c.until(lambda: c.phase("a") == "Waiting", limit=150)
        assert took >= 60, "a volume that is being detached comes"
        assert "is attached to another node" in c.status("a")["message"]
        await runs(c, "a", limit=60)
        assert [*c.running_on().values()] == ["good"]
        assert len(c.refused) == 1
        await c.pass_time(10)
        assert c.api.get(CONFIGMAPS, names.SYSTEM_NAMESPACE, names.NODES_CONFIGMAP) is None, "nothing is proved"


def crash_looping(reason: str, said: str, restarts: int) -> Object:
    ended = {"exitCode": 128 if reason == "StartError" else 1, "reason": reason, "message": said}
    sidecar = {
        "name": "proxy",
        "restartCount": restarts,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}},
        "lastState": {"terminated": ended},
    }
    return {
        "phase": "Pending",
        "conditions": [{"type": "PodReadyToStartContainers", "status": "True"}],
        "initContainerStatuses": [sidecar],
        "containerStatuses": [waiting("PodInitializing")],
    }


async def test_a_runtime_that_cannot_start_sidecars_is_the_fault_of_the_node() -> None:
    """No phase of such a pod ever says so: its kubelet tries again and again."""
    async with cluster(crash_looping("StartError", "cannot allocate the device", restarts=0)) as c:
        for namespace, name in jobs("lab", "shop"):
            c.submit_to(namespace, name)
        await c.until(lambda: len(c.running_on()) == 10, limit=120)
        assert {*c.running_on().values()} == {"good"}
        await c.until(lambda: c.told("NodeShunned"), limit=10)
        assert "cannot allocate the device" in c.told("NodeShunned")[0]


async def test_a_sidecar_that_ends_again_and_again_is_no_fault_of_a_node() -> None:
    async with cluster(crash_looping("Error", "no license", restarts=3)) as c:
        for namespace, name in jobs("lab", "shop"):
            c.submit_to(namespace, name)
        await c.until(lambda: len(c.refused) >= 20, limit=120)
        told = [job["status"]["message"] for job in c.api.stored(SCAVENGERJOBS)]
        assert any("the sidecar proxy of pod" in one and "ended 4 times" in one for one in told)
        assert not c.told("NodeShunned")


# --- architectures ---


def ended_at_once(message: str, reason: str = "StartError", code: int = 128) -> Object:
    epoch = "1970-01-01T00:00:00Z"
    state = {"exitCode": code, "reason": reason, "message": message, "startedAt": epoch, "finishedAt": epoch}
    return {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": state}}]}


RUNC = ended_at_once('exec: "/app": exec format error: unknown')
CRUN = ended_at_once("exec container process `/app`: Exec format error")
NO_PLATFORM = {
    "phase": "Pending",
    "containerStatuses": [
        waiting("ErrImagePull", "no match for platform in manifest sha256:1f: not found"),
    ],
    "conditions": [{"type": "PodReadyToStartContainers", "status": "True"}],
}


@pytest.mark.parametrize("refusal", [RUNC, CRUN, NO_PLATFORM], ids=["runc", "crun", "no match for platform"])
async def test_an_image_for_other_processors_starts_where_these_are(refusal: Object) -> None:
    async with cluster(refusal, bad="arm64") as c:
        c.submit("a")
        await runs(c, "a", limit=120)
        assert len(set(c.refused)) == 1
        assert [*c.running_on().values()] == ["good"]
        assert c.status("a").get("retries") is None


@pytest.mark.parametrize("refusal", [RUNC, CRUN], ids=["runc", "crun"])
async def test_where_there_are_no_others_the_job_fails(refusal: Object) -> None:
    async with cluster(refusal) as c:
        c.submit("a")
        await c.until(lambda: c.phase("a") == "Failed", limit=60)
        assert len(c.refused) == 1


CREATE = "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
LOG = "/run/containerd/state/io.containerd.runtime.v2.task/k8s.io/main/log.json"
NO_WORD = f"{CREATE}unable to retrieve OCI runtime error (open {LOG}: no such file or directory): "


@pytest.mark.parametrize(
    "said",
    [
        f"{NO_WORD}runc did not terminate successfully: exit status 1: unknown",
        f'{NO_WORD}exec: "nvidia-container-runtime": executable file not found in $PATH: unknown',
    ],
    ids=["a runtime that ends", "a runtime that is gone"],
)
async def test_a_runtime_that_leaves_no_word_of_its_own_is_the_fault_of_the_node(said: str) -> None:
    """As containerd tells it on a real node. The file that is missing is the runtime's."""
    async with cluster(ended_at_once(said)) as c:
        c.submit("a")
        await runs(c, "a", limit=120)
        assert [*c.running_on().values()] == ["good"]
        assert len(c.refused) == 1


async def test_a_command_cannot_say_that_the_runtime_left_no_word() -> None:
    words = f'{CREATE}runc create failed: exec: "/unable to retrieve OCI runtime error": no such file or directory'
    async with cluster(ended_at_once(words)) as c:
        c.submit("a")
        await c.until(lambda: c.phase("a") == "Failed", limit=60)
