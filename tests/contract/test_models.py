"""What the scheduler and quotas do: the real ones, and the models that histories are played with.

No kubelet runs on the real cluster: the tests write what one would report.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import orjson
import pytest
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, Forbidden
from scavenger_kube.resources import NAMESPACES, NODES, PODS, Resource
from scavenger_testing import FakeApi, node_dict, pod_dict
from scavenger_testing.clock import VirtualClock
from scavenger_webhook.facts import PRIORITYCLASSES

from tests.contract.conftest import Server
from tests.simulation.system.system import BY_SCHEDULER, CORES, SHOP, System
from tests.unit.admitter.harness import NS

Object = dict[str, Any]
QUOTAS: Resource[Any] = Resource("", "v1", "resourcequotas", "ResourceQuota", True, object)
PATIENCE = 30.0
WEAK = -1
PREFIX = "contract-"
"""Of the names of what is in no namespace."""
OWN = "contract.test/own"
"""Key of the taint of nodes that only pods of the test may go to."""


class Cluster:
    """An API server, and who places pods.

    Attributes:
        namespace: of scavenger pods.
        shop: the namespace of ordinary pods.
        absent: a node that does not exist: its pods are bound and never report anything. Each test has its own, as
            Kubernetes deletes the pods of an absent node that it has known of for 40 s.
    """

    def __init__(self, client: ApiClient, namespace: str, shop: str) -> None:
        self._client, self.namespace, self.shop = client, namespace, shop
        self.absent = f"{PREFIX}{uuid.uuid4().hex[:8]}"

    async def go_on(self) -> None:
        """Something happens, or a moment passes."""
        raise NotImplementedError

    async def allow(self, pods: int) -> None:
        """A ResourceQuota lets so many pods be in the namespace of jobs."""
        raise NotImplementedError

    async def set_up(self) -> None:
        """Create what tests need."""

    async def tear_down(self) -> None:
        """Leave nothing behind."""

    async def create(self, resource: Resource[Any], namespace: str | None, obj: Object) -> Object:
        """Create what a user writes of an object. Raises ApiError."""
        meta = {key: value for key, value in obj["metadata"].items() if key in ("name", "labels")}
        kept = {key: value for key, value in obj.items() if key != "status"}
        body = {**kept, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
        created: Object = orjson.loads(await self._client.create(resource, namespace, body))
        return created

    async def add_node(self) -> str:
        """A node with room for `CORES`. Returns its name.

        Pods of other tests that wait for any node would take its room: they do not tolerate `OWN`.
        """
        name = f"{PREFIX}{uuid.uuid4().hex[:8]}"
        node = node_dict(name, cpu=str(CORES), taints=[{"key": OWN, "effect": "NoSchedule"}])
        await self.create(NODES, None, node)
        await self._client.merge_patch(NODES, None, name, {"status": node["status"]}, subresource="status")
        return name

    async def add_class(self, value: int) -> str:
        """A PriorityClass. Returns its name."""
        name = f"{PREFIX}{uuid.uuid4().hex[:8]}"
        await self.create(PRIORITYCLASSES, None, {"metadata": {"name": name}, "value": value})
        return name

    async def until(self, holds: Callable[[list[Object]], bool]) -> None:
        """Until all pods are these. Raises TimeoutError."""

        async def holds_now() -> bool:
            return holds(await self.pods())

        await self.wait(holds_now)

    async def wait(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Let the cluster go on until something holds. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE):
            while not await holds():
                await self.go_on()

    async def pods(self) -> list[Object]:
        """Of both namespaces, by name."""
        found = [*await self.all_of(PODS, self.namespace), *await self.all_of(PODS, self.shop)]
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    async def report(self, pod: Object, phase: str) -> None:
        """The kubelet of a pod reports how it ended."""
        meta, status = pod["metadata"], {"status": {"phase": phase}}
        await self._client.merge_patch(PODS, meta["namespace"], meta["name"], status, subresource="status")

    async def delete(self, pod: Object, grace_period: int | None = None) -> None:
        """Delete a pod; grace_period: seconds."""
        meta = pod["metadata"]
        await self._client.delete(PODS, meta["namespace"], meta["name"], grace_period=grace_period)

    async def all_of(self, resource: Resource[Any], namespace: str | None) -> list[Object]:
        """All objects of a kind."""
        found: list[Object] = orjson.loads(await self._client.request("GET", resource.path(namespace)))["items"]
        return found


class RealCluster(Cluster):
    """The scheduler of Kubernetes, and its quotas."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.client, server.namespace, f"{server.namespace}-{SHOP}")

    async def go_on(self) -> None:
        await asyncio.sleep(0.1)

    async def allow(self, pods: int) -> None:
        async def counts() -> bool:
            return "hard" in (await self.all_of(QUOTAS, self.namespace))[0].get("status", {})

        await self.create(QUOTAS, self.namespace, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": str(pods)}}})
        await self.wait(counts)

    async def set_up(self) -> None:
        await self.create(NAMESPACES, None, {"metadata": {"name": self.shop}})

    async def tear_down(self) -> None:
        await self._client.delete(NAMESPACES, None, self.shop)
        for resource in (NODES, PRIORITYCLASSES):
            for one in await self.all_of(resource, None):
                if one["metadata"]["name"].startswith(PREFIX):
                    await self._client.delete(resource, None, one["metadata"]["name"])


class Models(Cluster):
    """Those that histories are played with."""

    def __init__(self, fake: FakeApi) -> None:
        self._system = System(fake, VirtualClock(), 0)  # type: ignore[arg-type]  # nothing waits in it
        super().__init__(self._system.client(), NS, SHOP)
        self._system.silent.add(self.absent)

    async def create(self, resource: Resource[Any], namespace: str | None, obj: Object) -> Object:
        created = await super().create(resource, namespace, obj)
        self._system.ends[created["metadata"]["uid"]] = math.inf
        return created

    async def go_on(self) -> None:
        self._system.tick()

    async def allow(self, pods: int) -> None:
        self._system.quota = {"spec": {"hard": {"pods": pods}}}

    async def tear_down(self) -> None:
        await self._system.close()
        await self._client.close()


@pytest.fixture
async def cluster(server: Server) -> AsyncIterator[Cluster]:
    made = RealCluster(server) if server.fake is None else Models(server.fake)
    await made.set_up()
    yield made
    await made.tear_down()


def named(pods: list[Object], name: str) -> Object:
    return next(pod for pod in pods if pod["metadata"]["name"] == name)


def told_to_stop(pods: list[Object]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" in pod["metadata"]}


# --- the scheduler ----------------------------------------------------------------------------------------------------


async def test_an_ordinary_pod_displaces_a_weaker_one_and_nobody_else_has_its_room(cluster: Cluster) -> None:
    node, weak = await cluster.add_node(), await cluster.add_class(WEAK)
    strong = await cluster.add_class(0)

    async def submit(name: str, cpu: str, of: str, priority: int) -> None:
        there, own = {"kubernetes.io/hostname": node}, [{"key": OWN, "operator": "Exists"}]
        pod = pod_dict(name, cpu=cpu, priority_class=of, priority=priority, node_selector=there, tolerations=own)
        await cluster.create(PODS, cluster.shop if of == strong else cluster.namespace, pod)

    async def until_bound(name: str) -> None:  # until the scheduler knows of the node, it has room for nobody
        await cluster.until(lambda pods: is_bound(named(pods, name)))

    def is_bound(pod: Object) -> bool:
        return bool(pod["spec"].get("nodeName") == node)

    def is_unschedulable(pod: Object) -> bool:
        return any(one.get("reason") == "Unschedulable" for one in pod["status"].get("conditions", ()))

    await submit("job", "3", weak, WEAK)
    await until_bound("job")
    await submit("peer", "1", strong, 0)
    await until_bound("peer")
    await submit("web", "3", strong, 0)
    await cluster.until(lambda pods: named(pods, "web")["status"].get("nominatedNodeName") == node)
    # A scheduler that preempts beside its cycles (SchedulerAsyncPreemption) nominates first.
    await cluster.until(lambda pods: bool(told_to_stop(pods)))
    pods = await cluster.pods()
    assert told_to_stop(pods) == {"job"}
    marks = [one for one in named(pods, "job")["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert [one["reason"] for one in marks] == [BY_SCHEDULER]
    await submit("late", "1", weak, WEAK)
    await cluster.until(lambda pods: is_unschedulable(named(pods, "late")))
    await cluster.delete(named(pods, "job"), grace_period=0)
    await until_bound("web")
    assert not is_bound(named(await cluster.pods(), "late")), "the room was promised"


# --- quotas -----------------------------------------------------------------------------------------------------------


async def test_a_quota_refuses_one_pod_more_until_one_has_ended(cluster: Cluster) -> None:
    await cluster.allow(pods=1)
    first = await cluster.create(PODS, cluster.namespace, pod_dict("first", node=cluster.absent))
    with pytest.raises(Forbidden, match="exceeded quota: few"):
        await cluster.create(PODS, cluster.namespace, pod_dict("second", node=cluster.absent))
    await cluster.report(first, "Succeeded")

    async def is_let_in() -> bool:
        try:
            await cluster.create(PODS, cluster.namespace, pod_dict("second", node=cluster.absent))
        except ApiError:
            return False
        return True

    await cluster.wait(is_let_in)
