"""What a real API server stores of odd objects, read by all informers of all components and by the command line."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from scavenger_admitter.core.lifecycle.books.many import kept_pods
from scavenger_admitter.core.manifest import job_manifest
from scavenger_admitter.core.pods_of_job import pod_of_task
from scavenger_api import names
from scavenger_api.job import ScavengerJob
from scavenger_api.rules.size import spec_bytes
from scavenger_board.core.now import picture_now
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import AlreadyExists, ApiError
from scavenger_kube.resources import MERGE_PATCH, encode
from scavenger_testing.mutated import CLUSTER_SCOPED, SEEDS, mutated
from scavenger_testing.place import GROUPS
from scavenger_testing.readers import Readers, reading

if TYPE_CHECKING:
    from tests.integration.conftest import Kubectl

Manifest = dict[str, Any]
BATCH = 500
AT_ONCE = 8
NEVER = 0.05
"""Of the values that go in as bytes, so many are such as no API server stores."""
WEIGHTS = {
    "pods": 30,
    "scavengerjobs": 25,
    "events": 20,
    "jobs": 10,
    "nodes": 4,
    "scavengerqueues": 3,
    "leases": 3,
    "poddisruptionbudgets": 2,
    "configmaps": 2,
    "priorityclasses": 1,
}
"""How often each kind comes. A namespace more is of no use, and nobody but the chart writes the Secret that is read."""
WITH_STATUS = ("pods", "nodes")
"""Kinds whose status an administrator may write here, as a kubelet would."""
GOOD = "good"


@dataclass
class Storing:
    """Stores odd objects, and knows which.

    Attributes:
        client: to store with.
        namespace: where, but for Leases, which the board reads in the namespace of the components.
        chance: decides what is odd.
        stored: paths of the objects.
        refused: how many the API server did not take, by kind.
    """

    client: ApiClient
    namespace: str
    chance: random.Random
    stored: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    async def batch(self, size: int) -> None:
        """So many more are stored."""
        end = len(self.stored) + size
        while len(self.stored) < end:
            await asyncio.gather(*(self._one() for _ in range(min(AT_ONCE, end - len(self.stored)))))

    async def good(self) -> None:
        """One of each kind in which nothing is odd."""
        for plural in WEIGHTS:
            made = orjson.loads(orjson.dumps(SEEDS[plural](random.Random(0))))
            made["metadata"]["name"] = GOOD
            if plural == "events":
                made["involvedObject"]["namespace"] = self.namespace
            await self.client.request("POST", self._path(plural), body=orjson.dumps(made))
            self.stored.append(f"{self._path(plural)}/{GOOD}")

    def _path(self, plural: str) -> str:
        namespace = names.SYSTEM_NAMESPACE if plural == "leases" else self.namespace
        where = "" if plural in CLUSTER_SCOPED else f"/namespaces/{namespace}"
        return f"{GROUPS.get(plural, '/api/v1')}{where}/{plural}"

    async def _one(self) -> None:
        plural = self.chance.choices([*WEIGHTS], [*WEIGHTS.values()])[0]
        name, path = f"odd-{self.chance.getrandbits(48)}", self._path(plural)
        namespace = names.SYSTEM_NAMESPACE if plural == "leases" else self.namespace
        body = mutated(plural, name, namespace, self.chance, never=NEVER)
        try:
            await self.client.request("POST", path, body=body)
        except ApiError:
            self.refused[plural] += 1
            return
        self.stored.append(f"{path}/{name}")
        if plural in WITH_STATUS:
            await self._write_status(f"{path}/{name}/status", body)

    async def _write_status(self, path: str, body: bytes) -> None:
        try:
            status = {"status": orjson.loads(body).get("status")}
            await self.client.request("PATCH", path, body=encode(status), content_type=MERGE_PATCH)
        except (ValueError, RecursionError, ApiError):
            pass  # this test cannot write it, or the API server does not take it

    async def version(self) -> int:
        """Of everything that is stored."""
        body = await self.client.request("GET", f"/api/v1/namespaces/{self.namespace}/configmaps")
        return int(orjson.loads(body)["metadata"]["resourceVersion"])

    async def remove(self) -> None:
        """What does not go with the namespace."""
        inside = f"/namespaces/{self.namespace}/"
        for path in self.stored:
            if inside not in path:
                await self.client.request("DELETE", path)


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 400), pytest.param(time.time_ns(), 10_000, marks=pytest.mark.long, id="10000")]
)
def test_an_odd_object_costs_itself_only(api_cluster: Kubectl, namespace: str, seed: int, count: int) -> None:
    """As a list of all objects is read after each batch, and as watches bring one after the other."""
    asyncio.run(play(api_cluster, namespace, seed, count))


async def play(cluster: Kubectl, namespace: str, seed: int, count: int) -> None:
    async with await ApiClient.connect(kubeconfig=str(cluster.kubeconfig)) as client:
        await _account(client, namespace)
        storing = Storing(client, namespace, random.Random(seed))
        try:
            await storing.good()
            async with reading(client) as readers:
                await asyncio.wait_for(readers.synced(), 60)
                before = readers.handler_errors()
                while len(storing.stored) < count:
                    await storing.batch(min(BATCH, count // 2))
                    await asyncio.wait_for(_listed_again(readers, await storing.version()), 60)
                    picture_now(readers.board.snapshot(), levels_about="")
                    check(readers, storing, before, seed)
            for words in (("list", "-A"), ("list", "-A", "-o", "json"), ("doctor",)):
                said = _sj(cluster, *words)
                assert "Traceback" not in said.stderr, said.stderr
                assert words[0] == "doctor" or (said.returncode == 0 and GOOD in said.stdout), said.stderr
        finally:
            await storing.remove()


def check(readers: Readers, storing: Storing, before: float, seed: int) -> None:
    """All good objects are shown, nothing was raised, and no more is unreadable than the API server takes and the
    schema of a component does not: few of the ScavengerJobs, by their templates."""
    about = f"seed {seed}, {len(storing.stored)} stored"
    assert readers.handler_errors() == before, about
    unreadable = readers.unreadable()
    assert not [key for key in unreadable if key.endswith(f"/{GOOD}")], about
    assert not {key: said for key, said in unreadable.items() if not key.startswith("scavengerjobs/")}, about
    for informer in readers.informers:
        if informer.resource.plural in ("scavengerjobs", "jobs", "nodes", "scavengerqueues", "leases"):
            key = f"{storing.namespace}/{GOOD}"
            key = f"{names.SYSTEM_NAMESPACE}/{GOOD}" if informer.resource.plural == "leases" else key
            assert informer.get(GOOD if informer.resource.plural in CLUSTER_SCOPED else key) is not None, about
    assert len(storing.stored) > sum(storing.refused.values()) / 2, storing.refused


async def _listed_again(readers: Readers, version: int) -> None:
    for informer in readers.informers:
        informer.list_again()
    while any(int(informer.version or 0) < version for informer in readers.informers):  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def _account(client: ApiClient, namespace: str) -> None:
    """The controller manager makes it a moment later."""
    try:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        await client.request("POST", path, body=encode({"metadata": {"name": "default"}}))
    except AlreadyExists:
        pass


# --- what an array keeps ---

ASKED = {"requests": {"cpu": "1m", "memory": "1Mi"}}
MAIN: Manifest = {"name": "main", "image": "a", "resources": ASKED}
VOLUME = {"volumes": [{"name": "v", "emptyDir": {}}]}
WORST: dict[str, Manifest] = {
    "one long argument": {"containers": [MAIN | {"args": ["x" * 250_000]}]},
    "variables": {"containers": [MAIN | {"env": [{"name": f"A{n}", "value": "x"} for n in range(3000)]}]},
    "mounts": {
        "containers": [MAIN | {"volumeMounts": [{"name": "v", "mountPath": f"/{n}"} for n in range(3000)]}],
        **VOLUME,
    },
    "containers": {"containers": [MAIN, *({**MAIN, "name": f"c{n}"} for n in range(800))]},
    "nothing": {"containers": [MAIN]},
}
"""Templates of which the pods are as large as they get, and one of which they are small."""
ENDED = {"exitCode": 1, "reason": "Error", "message": "m" * 80, "containerID": f"containerd://{'f' * 64}"}


@pytest.mark.parametrize("worst", WORST)
def test_what_an_array_keeps_takes_at_most_16_mib_of_etcd(api_cluster: Kubectl, namespace: str, worst: str) -> None:
    """In protobuf, as etcd has it, once each container has ended."""
    asyncio.run(measure(api_cluster, namespace, WORST[worst]))


async def measure(cluster: Kubectl, namespace: str, template: Manifest) -> None:
    spec = {"array": {"tasks": 5}, "template": {"spec": template}}
    meta = {"name": "worst", "namespace": namespace, "uid": "u"}
    job = ScavengerJob.model_validate({"metadata": meta, "spec": spec})
    assert spec_bytes(job.spec) <= names.MAX_SPEC_BYTES
    batch = job_manifest(job, restarts=0, run="2026-11-29T12:00:00.000000Z", max_grace_seconds=30)
    batch["metadata"]["uid"] = "u"
    pod = pod_of_task(batch, 0, queue="default", affinity={})
    kept = ("name", "namespace")  # marks are the admitter's
    whole = {"metadata": {name: pod["metadata"][name] for name in kept}, "spec": pod["spec"]}
    path = f"/api/v1/namespaces/{namespace}/pods"
    async with await ApiClient.connect(kubeconfig=str(cluster.kubeconfig)) as client:
        await _account(client, namespace)
        whole["spec"]["priorityClassName"] = "ordinary-workload"
        answer = await client.request("POST", path, body=encode(whole))
        image = {
            "image": "a",
            "imageID": f"registry.example.com/a@sha256:{'f' * 64}",
            "ready": False,
            "restartCount": 0,
        }
        ends = [{"name": one["name"], **image, "state": {"terminated": ENDED}} for one in pod["spec"]["containers"]]
        status = {"status": {"phase": "Failed", "containerStatuses": ends}}
        name = f"{path}/{whole['metadata']['name']}"
        await client.request("PATCH", f"{name}/status", body=encode(status), content_type=MERGE_PATCH)
        stored = len(await client.request("GET", name, accept="application/vnd.kubernetes.protobuf"))
    count = kept_pods(len(answer))
    assert count * stored <= 16 * 2**20, (count, stored, len(answer))


def _sj(cluster: Kubectl, *words: str) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("kubectl-sj"))
    command = [program, *words, f"--kubeconfig={cluster.kubeconfig}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
