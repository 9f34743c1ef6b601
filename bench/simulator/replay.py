"""Plays scripts on an embedded cluster: its API server, controllers and scheduler plugin, all services, kwok's nodes.

Nothing runs on fake nodes, so that nothing can be measured there. A small server answers the regulator's queries as
Prometheus would: each running pod uses what its script says. Nothing waits for a span of time: a round is over when
what is expected has happened, every service has answered to it, and the regulator has looked once more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web
from scavenger_api import names
from scavenger_api.job import ConditionType, Phase, ScavengerJob
from scavenger_api.levels import LevelsState, PublishedLevels
from scavenger_api.reasons import InterruptionReason
from scavenger_api.times import format_time
from scavenger_cluster import Cluster, kwok, stack
from scavenger_kube.client import ApiClient
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import NODES, PODS, Resource, scavenger_jobs, scavenger_queues
from scavenger_prioritizer.core.plan import preemptible_count
from scavenger_runtime.cache import Change
from scavenger_runtime.configmaps import read_configmap
from scavenger_runtime.informer import Informer
from scavenger_simulator.result import MomentKind

from bench.services.harness import followed
from bench.simulator.scripts import (
    COMPLETED,
    GRACE_SECONDS,
    MEMORY,
    NODE_MEMORY,
    REGULATOR,
    STARTED,
    Event,
    JobScript,
    PodScript,
    Rounds,
    Script,
)

NAMESPACE: Final = "default"
PATIENCE: Final = 60.0
"""Seconds for what is expected of a round to happen, and for the services to come to rest."""
POLL_SECONDS: Final = 0.1

SCAVENGERJOBS: Final = scavenger_jobs(ScavengerJob)
SCAVENGERQUEUES: Final[Resource[Any]] = scavenger_queues(dict)

KINDS: Final[Mapping[str, MomentKind]] = {
    InterruptionReason.PREEMPTED: MomentKind.PREEMPTED,
    InterruptionReason.ABOVE_UPPER_LEVEL: MomentKind.EVICTED,
    InterruptionReason.YIELD_AT_CHECKPOINT: MomentKind.YIELDED,
    InterruptionReason.QUEUE_RECLAIMED: MomentKind.RECLAIMED,
}
"""What the simulator calls an interruption, by the reason in the status."""

QUERIES: Final = {
    "SCAVENGER_PROMETHEUS_NODE_CPU": "node-cpu",
    "SCAVENGER_PROMETHEUS_NODE_MEMORY": "node-memory",
    "SCAVENGER_PROMETHEUS_POD_CPU": "pod-cpu",
    "SCAVENGER_PROMETHEUS_POD_MEMORY": "pod-memory",
    "SCAVENGER_PROMETHEUS_TAKEN": "taken",
}

Object = dict[str, Any]


@contextmanager
def replay_cluster(name: str) -> Iterator[Cluster]:
    """Kubernetes with the scheduler plugin and without services, and one node, on which there is no room."""
    cluster = Cluster(name, report=lambda line: None)
    try:
        cluster.up("fake:1", fake_cpu="0", scheduler="plugin")
        stack.install(cluster)
        yield cluster
    finally:
        cluster.down()


class Stage:
    """What the watches show of the cluster, and what happens there, for the script that is on."""

    def __init__(self, client: ApiClient) -> None:
        self.client = client
        self.script = Script("", (), 0, ())
        self.round = 0
        self.happened: list[list[Event]] = []
        self.pods = Informer(client, PODS, namespace=NAMESPACE)
        self.jobs = Informer(client, SCAVENGERJOBS, namespace=NAMESPACE)
        self._known: dict[str, tuple[int, int, bool]] = {}

    # --- what happens to jobs ---

    def on_job(self, change: Change[ScavengerJob]) -> None:
        """Take note of what a status says that it did not say before."""
        if change.new is None:
            return
        status, uid, name = change.new.status, change.new.metadata.uid or "", change.new.metadata.name or ""
        runs, interruptions, completed = self._known.get(uid, (0, 0, False))
        new = (len(status.running_timestamps), status.interrupted_count, status.phase is Phase.COMPLETED)
        self._known[uid] = new
        condition = status.condition(ConditionType.INTERRUPTED)
        reason = condition.reason if condition is not None else ""
        events = [(STARTED, name)] * (new[0] - runs)
        events += [(str(KINDS.get(reason, reason)), name)] * (new[1] - interruptions)
        events += [(COMPLETED, name)] * (new[2] - completed)
        self.happened[-1].extend(events)

    def running(self) -> list[ScavengerJob]:
        """The jobs that run, as their status says."""
        return [job for job in self.jobs.items() if job.status.phase is Phase.RUNNING]

    # --- what the regulator is told ---

    def used(self, pod: Pod) -> float:
        """What a pod uses now, in cores."""
        if pod.status.phase != "Running":
            return 0.0
        job = pod.metadata.labels.get(names.LABEL_JOB)
        for one in self.script.jobs:
            if one.name == job:
                return one.cpu * one.use / 1000
        return sum(one.used(self.round) for one in self.script.pods if one.name == pod.metadata.name) / 1000

    async def answer(self, request: web.Request) -> web.Response:
        """An instant query."""
        query, now = str((await request.post())["query"]), time.time()
        rows = [{"metric": labels, "value": [now, str(value)]} for labels, value in self._series(query, now)]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": rows}})

    def _series(self, query: str, now: float) -> Iterator[tuple[dict[str, str], float]]:
        pods = [pod for pod in self.pods.items() if pod.status.phase == "Running"]
        if query.startswith("pod-"):
            for pod in pods:
                labels = {"namespace": pod.metadata.namespace, "pod": pod.metadata.name}
                yield labels, self.used(pod) if query == "pod-cpu" else MEMORY
            return
        for name in self.script.node_names():
            here = [pod for pod in pods if pod.spec.node_name == name]
            values = {"node-cpu": sum(map(self.used, here)), "node-memory": MEMORY * len(here), "taken": now}
            yield {"node": name}, float(values[query])

    # --- whether all has come to rest ---

    async def levels(self) -> PublishedLevels:
        """What the regulator has published last."""
        found = await read_configmap(self.client, names.SYSTEM_NAMESPACE, names.LEVELS_CONFIGMAP)
        return PublishedLevels.parse(found.data) if found else PublishedLevels(LevelsState.BLIND)

    def moving(self, percentage: float) -> str:
        """What is under way; nothing where every service has done its part."""
        leaving = [pod.metadata.name for pod in self.pods.items() if pod.metadata.deletion_timestamp]
        if leaving:
            return f"{leaving[0]} is leaving"
        starting = [job.metadata.name for job in self.jobs.items() if job.status.phase is Phase.STARTING]
        if starting:
            return f"{starting[0]} is starting"
        classes = [job.status.preemption.class_ if job.status.preemption else None for job in self.running()]
        protected = sum(class_ == names.NON_PREEMPTIBLE for class_ in classes)
        wanted = len(classes) - preemptible_count(len(classes), percentage)
        return "" if protected == wanted else f"{protected} of {wanted} jobs are protected"


class Replay:
    """Plays one script after the other on a cluster with all services."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._client = stage.client

    async def play(self, script: Script, expected: Rounds) -> Rounds:
        """What happens to the jobs of a script, round by round. expected: what is waited for, as long as there is
        patience; what else happens is seen, too."""
        stage = self._stage
        stage.script, stage.round, stage.happened = script, 0, [[]]
        await self._set_up(script)
        for number in range(script.rounds):
            stage.round = number
            if number:
                stage.happened.append([])
            await self._change(script, number)
            await self._settle(expected[number])
        found = tuple(tuple(sorted(events)) for events in stage.happened)
        await self._take_down(script)
        return found

    async def _set_up(self, script: Script) -> None:
        now = format_time(datetime.now(UTC))
        for name, cpu in zip(script.node_names(), script.nodes, strict=True):
            size = {"cpu": f"{cpu}m", "memory": str(NODE_MEMORY)}
            await self._client.create(NODES, None, kwok.fake_node(name, **size, pods=110, taint=False, now=now))
        for name, weight in script.queues.items():
            body = {"apiVersion": names.API_VERSION, "kind": "ScavengerQueue", "metadata": {"name": name}}
            await self._client.create(SCAVENGERQUEUES, None, {**body, "spec": {"weight": weight}})
        created = datetime.now(UTC)

        async def seen() -> bool:
            levels = await self._stage.levels()
            return levels.admit and levels.observed_at is not None and levels.observed_at > created

        await _until(seen, "the regulator to see the nodes, and to admit")

    async def _change(self, script: Script, number: int) -> None:
        for pod in script.pods:
            if pod.deleted == number:
                await self._client.delete(PODS, NAMESPACE, pod.name)
        for job in script.jobs:
            if job.ends == number:
                await self._end(job)
        for pod in script.pods:
            if pod.created == number:
                await self._client.create(PODS, NAMESPACE, _pod(pod))
        for job in script.jobs:
            if job.submitted == number:
                await self._client.create(SCAVENGERJOBS, NAMESPACE, _job(job))

    async def _end(self, job: JobScript) -> None:
        patch = {"metadata": {"annotations": {kwok.RUN_SECONDS: "0"}}}
        for pod in self._stage.pods.items():
            if pod.metadata.labels.get(names.LABEL_JOB) == job.name:
                await self._client.merge_patch(PODS, NAMESPACE, pod.metadata.name, patch)

    async def _settle(self, expected: tuple[Event, ...]) -> None:
        """Wait until what is expected has happened, and all has come to rest; no longer than there is patience."""
        happened, since = self._stage.happened[-1], datetime.now(UTC)

        async def settled() -> bool:
            nonlocal since
            levels = await self._stage.levels()
            missing = any(happened.count(event) < expected.count(event) for event in expected)
            if missing or self._stage.moving(levels.preemptible_percentage or 0.0):
                since = datetime.now(UTC)
            return levels.observed_at is not None and levels.observed_at > since

        try:
            await _until(settled, "a round to be over")
        except TimeoutError:
            return  # what was missing is found in the comparison

    async def _take_down(self, script: Script) -> None:
        for job in script.jobs:
            await self._client.delete(SCAVENGERJOBS, NAMESPACE, job.name)
        for pod in script.pods:
            if pod.deleted is None:
                await self._client.delete(PODS, NAMESPACE, pod.name)

        async def empty() -> bool:
            return not len(self._stage.pods) and not len(self._stage.jobs)

        await _until(empty, "jobs and pods to be gone")
        for name in script.node_names():
            await self._client.delete(NODES, None, name)
        for name in script.queues:
            await self._client.delete(SCAVENGERQUEUES, None, name)


@asynccontextmanager
async def replaying(cluster: Cluster) -> AsyncIterator[Replay]:
    """Start all services, measured by the scripts, and follow what happens, for the length of a block."""
    async with AsyncExitStack() as resources:
        connected = await ApiClient.connect(kubeconfig=str(cluster.kubeconfig), user_agent="replay")
        stage = Stage(await resources.enter_async_context(connected))
        stage.happened = [[]]
        await resources.enter_async_context(followed(stage.pods, lambda change: None))
        await resources.enter_async_context(followed(stage.jobs, stage.on_job))
        app = web.Application()
        app.router.add_post("/api/v1/query", stage.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        resources.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        await asyncio.to_thread(stack.start, cluster, None, _environment(runner.addresses[0][1]))
        yield Replay(stage)


def _environment(port: int) -> dict[str, str]:
    own = {f"SCAVENGER_{name.upper()}": str(value) for name, value in REGULATOR.items()}
    source = {"SCAVENGER_SOURCE": "prometheus", "SCAVENGER_PROMETHEUS_URL": f"http://127.0.0.1:{port}"}
    return {**QUERIES, **source, **own, "SCAVENGER_PROMETHEUS_WINDOW": "0"}


async def _until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            while not await condition():  # noqa: ASYNC110 - what informers show comes without an event of its own
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise TimeoutError(f"waited {PATIENCE:g} s for {what}") from None


def _job(job: JobScript) -> Object:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ScavengerJob",
        "metadata": {"name": job.name},
        "spec": {
            "image": "none",
            "queue": job.queue,
            "parallelism": job.pods,
            "interruptionAfter": f"{job.interruption_after}s",
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "resources": {"requests": {"cpu": f"{job.cpu}m", "memory": str(MEMORY)}},
        },
    }


def _pod(pod: PodScript) -> Object:
    resources = {"requests": {"cpu": f"{pod.cpu}m", "memory": str(MEMORY)}}
    latency = {names.ANNOTATION_LATENCY: names.LATENCY_INTERACTIVE} if pod.interactive else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod.name, "annotations": latency},
        "spec": {
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "none", "resources": resources}],
        },
    }
