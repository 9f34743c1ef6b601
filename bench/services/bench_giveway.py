"""How fast a full cluster gives way to a burst of ordinary pods, beside plain Kubernetes with low-priority Jobs.

640 one-core jobs fill 20 fake nodes; then come 50 ordinary pods of four cores, five a second; when these are gone,
who was displaced comes back. First plain: batch Jobs of a low PriorityClass and the stock scheduler. Then ours, on the
same control plane: ScavengerJobs, all services, the scheduler with the plugin. At last one array of as many tasks.
All are watched in the same way.

Ten more nodes that nobody may use count for the load, so that full nodes are 67 % of it, under the levels at which the
regulator interferes: what is measured is preemption and what follows it, not eviction.

Of each pod's time it is told where it went, as far as a watch shows, and how many requests the services sent meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api.names import LABEL_TASK
from scavenger_api.times import format_time
from scavenger_cluster import Cluster, kwok
from scavenger_domain.gang import task_unit
from scavenger_kube.client import ApiClient
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import JOBS, PODS, Resource
from scavenger_runtime.cache import Change
from scavenger_runtime.informer import Informer

from bench.figures import STAGES, Arrival, Leaving, Lives, dispatched, grown, percentile, ratio, stages
from bench.services.harness import (
    IN_FLIGHT,
    JOB_LABEL,
    TIMEOUT,
    Figure,
    LagWatch,
    Object,
    delete_all,
    each,
    followed,
    ordinary_pod,
    plain_cluster,
    plain_job,
    pod_runs,
    scavenger_job,
    start_ours,
)

NODES: Final = 20
SPARE_NODES: Final = 10
JOB_COUNT: Final = int(os.environ.get("BENCH_GIVEWAY_JOBS", "640"))
POD_COUNT: Final = int(os.environ.get("BENCH_GIVEWAY_PODS", "50"))
PER_SECOND: Final = 5.0
ONE_POOL: Final = {"SCAVENGER_TOLERATED_TAINTS": kwok.FAKE, "SCAVENGER_POOL_IGNORES": kwok.FAKE}
"""The taint of the spare nodes makes no pool of them, which would have levels of its own."""
SETTLE_SECONDS: Final = 20.0
"""Between full and burst, and between burst and room given back."""
OURS: Final = ("scavenger-room", "scavenger-writes")
"""FlowSchemas of what our services send, but for renewals of leases."""
SCHEDULER: Final = os.environ.get("BENCH_GIVEWAY_SCHEDULER", "plugin")
"""Of ours: `plugin`, or `stock`, which goes by the disruption budgets."""


@dataclass(frozen=True)
class Side:
    """What one of the two did."""

    fill: float
    """Seconds from the first job's creation until all ran."""
    waits: list[float]
    """Seconds from creation to Running, of each ordinary pod."""
    lost: float
    """CPU-seconds since their starts, of all pods that had to go."""
    lost_at_least: float
    """The same, had the youngest gone each time: where the nodes took longer to fill, the youngest are older."""
    victims: int
    back: list[float]
    """Seconds from the room given back until each displaced job ran again."""
    stages: list[dict[str, float]] = field(default_factory=list)
    """Of each ordinary pod, where its seconds went."""
    released: list[float] = field(default_factory=list)
    """Seconds from the end of each displaced pod until it was gone: it is counted, and its finalizers go."""
    requests: float = 0.0
    """Requests of our services that the API server began to serve from the first ordinary pod until all ran."""


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    with plain_cluster("bench-giveway", NODES) as cluster:
        cluster.client.create_all("/api/v1/nodes", (_spare_node(number) for number in range(SPARE_NODES)))
        return asyncio.run(_measure(cluster))


async def _measure(cluster: Cluster) -> list[Figure]:
    async with await ApiClient.connect(kubeconfig=str(cluster.kubeconfig), user_agent="bench") as client:
        plain = await _side(client, JOBS, "plain", lambda number: plain_job(number, gives_way=True))
        await asyncio.to_thread(start_ours, cluster, ONE_POOL, SCHEDULER)
        async with LagWatch(cluster) as lag:
            ours = await _side(client, SCAVENGERJOBS, "bench", scavenger_job)
            array = await _side(client, SCAVENGERJOBS, "array", _array, objects=1)
    return [
        *compared(plain, ours),
        *compared(plain, array, "array", prefix="array."),
        *lag.figures("giveway.event_loop_lag_ms"),
    ]


def _array(number: int) -> Object:
    made = scavenger_job(number, "array")
    made["spec"]["array"] = {"tasks": JOB_COUNT}
    return made


def compared(plain: Side, ours: Side, called: str = "scavenger", *, prefix: str = "") -> list[Figure]:
    """The figures of both sides, and ours over plain.

    Args:
        plain: of plain Kubernetes.
        ours: of ours.
        called: the name of ours.
        prefix: of ratios; with one, the figures of the plain side are left out.
    """
    figures: list[Figure] = []
    sides = {called: ours} if prefix else {"plain": plain, called: ours}

    def add(name: str, unit: str, value: Callable[[Side], float], goal: str | None) -> None:
        figures.extend(
            {"name": f"giveway.{which}.{name}", "value": value(side), "unit": unit, "goal": None}
            for which, side in sides.items()
        )
        relation = ratio(value(ours), value(plain))
        told = f"giveway.{prefix}{name}_ratio_to_plain"
        figures.append({"name": told, "value": relation, "unit": "ratio", "goal": goal})

    add("fill", "s", lambda side: side.fill, None)
    add("p50", "s", lambda side: percentile(side.waits, 50), "<= 1.2")
    add("p99", "s", lambda side: percentile(side.waits, 99), "<= 1.2")
    add("lost", "CPU s", lambda side: side.lost, "<= 1.0")
    add("lost_over_least", "ratio", lambda side: ratio(side.lost, side.lost_at_least), None)
    add("victims", "pods", lambda side: side.victims, None)
    add("back", "s", lambda side: percentile(side.back, 50), "<= 1.4")
    for which, side in sides.items():
        figures.extend(_passages(f"giveway.{which}", side))
    return figures


def _passages(name: str, side: Side) -> Iterator[Figure]:
    """Where the time of a side went: the median and the slowest percent of each stage."""
    times = {stage: [one[stage] for one in side.stages] for stage in STAGES} | {"released": side.released}
    for stage, seconds in times.items():
        for percent in (50, 99) if seconds else ():
            value = 1000 * percentile(seconds, percent)
            yield {"name": f"{name}.{stage}.p{percent}_ms", "value": value, "unit": "ms", "goal": None}
    yield {"name": f"{name}.requests_meanwhile", "value": side.requests, "unit": "requests", "goal": None}


# --- one side ---


async def _side(
    client: ApiClient, kind: Resource[Any], prefix: str, job: Callable[[int], Object], objects: int = JOB_COUNT
) -> Side:
    seen = _Seen()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(followed(Informer(client, PODS, label_selector=JOB_LABEL), seen.on_pod))
        ordinary = Informer(client, PODS, label_selector="bench=ordinary")
        await stack.enter_async_context(followed(ordinary, seen.on_ordinary))
        began = time.perf_counter()
        await each(objects, lambda number: client.create(kind, "default", job(number)))
        await _poll(lambda: seen.lives.living() >= JOB_COUNT, f"{prefix}: all jobs to run")
        fill = time.perf_counter() - began
        await asyncio.sleep(SETTLE_SECONDS)

        before, burst = await _dispatched(client), time.perf_counter()
        await _burst(client, seen)
        await _poll(lambda: len(seen.waits()) >= POD_COUNT, f"{prefix}: all ordinary pods to run")
        requests = sum(grown(await _dispatched(client), before, OURS).values())
        await asyncio.sleep(SETTLE_SECONDS)

        given_back = time.perf_counter()
        displaced = seen.lives.displaced(burst, given_back)
        await each(POD_COUNT, lambda number: client.delete(PODS, "default", f"ordinary-{number}"))
        await _poll(
            lambda: len(seen.lives.back(displaced, given_back)) >= len(displaced), f"{prefix}: all jobs to be back"
        )
    side = Side(
        fill=fill,
        waits=seen.waits(),
        lost=seen.lives.lost(burst, given_back),
        lost_at_least=seen.lives.lost_at_least(burst, given_back),
        victims=seen.lives.victims(burst, given_back),
        back=list(seen.lives.back(displaced, given_back).values()),
        stages=[stages(arrival, seen.leaving.values()) for arrival in seen.ordinary.values()],
        released=[one.gone - one.ended for one in seen.leaving.values() if one.gone and one.ended],
        requests=requests,
    )
    await delete_all(client, kind, prefix, objects)
    return side


class _Seen:
    """What a watch has shown, with the time at which it did."""

    def __init__(self) -> None:
        self.lives = Lives()
        self.ordinary: dict[str, Arrival] = {}
        """The ordinary pods, by name."""
        self.leaving: dict[str, Leaving] = {}
        """The pods of jobs that gave way, by uid."""

    def on_pod(self, change: Change[Pod]) -> None:
        pod, meta, now = change.obj, change.obj.metadata, time.perf_counter()
        runs = change.new is not None and pod_runs(change.new)
        unit = task_unit(meta.labels[JOB_LABEL], meta.labels.get(LABEL_TASK, ""))
        self.lives.saw(meta.uid, unit, runs=runs, at=now)
        if not self.ordinary or not meta.deletion_timestamp:
            return
        one = self.leaving.setdefault(meta.uid, Leaving(pod.spec.node_name, now))
        if one.ended is None and (pod.ended or change.new is None):
            one.ended = now
        if change.new is None:
            one.gone = now

    def on_ordinary(self, change: Change[Pod]) -> None:
        pod, now = change.new, time.perf_counter()
        arrival = self.ordinary.get(change.obj.metadata.name)
        if pod is None or arrival is None:
            return
        if pod.spec.node_name and arrival.bound is None:
            arrival.node, arrival.bound = pod.spec.node_name, now
        if pod_runs(pod) and arrival.running is None:
            arrival.running = now

    def waits(self) -> list[float]:
        """Seconds from creation to Running of each ordinary pod that runs."""
        return [one.running - one.sent for one in self.ordinary.values() if one.running is not None]


async def _dispatched(client: ApiClient) -> dict[str, float]:
    return dispatched((await client.request("GET", "/metrics")).decode())


async def _burst(client: ApiClient, seen: _Seen) -> None:
    """Create the ordinary pods, each at its time whether or not the ones before are through; `seen` has when each was
    sent."""
    began = time.perf_counter()

    async def one(number: int) -> None:
        await asyncio.sleep(max(0.0, began + number / PER_SECOND - time.perf_counter()))
        body = ordinary_pod(number)
        seen.ordinary[body["metadata"]["name"]] = Arrival(time.perf_counter())
        await client.create(PODS, "default", body)

    await each(POD_COUNT, one, in_flight=max(POD_COUNT, IN_FLIGHT))


async def _poll(condition: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(TIMEOUT):
            while not condition():  # noqa: ASYNC110 - what informers show comes without an event of its own
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise TimeoutError(f"waited {TIMEOUT:g} s for {what}") from None


def _spare_node(number: int) -> Object:
    """A node that counts and that no pod tolerates."""
    now = format_time(datetime.now(UTC))
    return kwok.fake_node(f"spare-{number:02}", cpu="32", memory="128Gi", pods=110, taint=True, now=now)
