"""The harvest once more, on an API server: the real regulator process, fake nodes, a day of the trace in two minutes.

50 of kwok's nodes use what the virtual machines of the trace used (as in bench_harvest, `peak`, scaled to the node's
cores); a small server answers the regulator's queries as Prometheus would. A cell of the trace, five minutes, lasts a
second, and so does a period: the regulator sees a tenth as many samples as it would, and none of them is late by less
than a cell. Nobody takes the offers up; what counts is what the nodes' status shows while the load is what it is.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from aiohttp import web
from scavenger_api import names
from scavenger_api.levels import PublishedLevels
from scavenger_cluster import Cluster, stack
from scavenger_kube.client import ApiClient
from scavenger_kube.resources import NODES
from scavenger_regulator.facts import node_facts
from scavenger_runtime.configmaps import read_configmap
from scavenger_runtime.informer import Informer
from scavenger_testing.processes import cpu_seconds, peak_kb

from bench import Skipped, trace_folder
from bench.regulator.bench_harvest import TRACES, Harvest, Server, file_of, read, servers

NODE_COUNT: Final = 50
CELL_SECONDS: Final = 1.0
WARM_UP: Final = 20
"""Cells until the offers have grown to what they may be: ten minutes at the usual pace, too much of this short day."""
CELLS: Final = 140
MEMORY_SHARE: Final = 0.3
SETTINGS: Final = {
    "SCAVENGER_SOURCE": "prometheus",
    "SCAVENGER_PERIOD": str(CELL_SECONDS),
    "SCAVENGER_MAX_AGE": "10",
    "SCAVENGER_PROMETHEUS_NODE_CPU": "node-cpu",
    "SCAVENGER_PROMETHEUS_NODE_MEMORY": "node-memory",
    "SCAVENGER_PROMETHEUS_POD_CPU": "pod",
    "SCAVENGER_PROMETHEUS_POD_MEMORY": "pod",
    "SCAVENGER_PROMETHEUS_TAKEN": "taken",
    "SCAVENGER_PROMETHEUS_WINDOW": "0",
    "SCAVENGER_RECLAIMED": "true",
    "SCAVENGER_RECLAIMED_HALF_LIFE": "60",
}

Figure = dict[str, Any]


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    path = trace_folder() / file_of(TRACES[0])
    if not path.exists():
        raise Skipped(f"no {path}; BENCH_TRACE_DIR says where the PlanetLab traces are")
    cluster = Cluster("bench-harvest", report=lambda line: None)
    try:
        cluster.up(f"fake:{NODE_COUNT}")
        stack.install(cluster)
        stack.allow_reclaimed(cluster)
        return asyncio.run(_measure(cluster, servers(read(path), by_peak=True)))
    finally:
        cluster.down()


class Trace:
    """Answers the regulator's queries with the cell of the trace that is on."""

    def __init__(self, courses: dict[str, Server], room: dict[str, tuple[float, float]]) -> None:
        self.courses = courses
        self.room = room
        self.began = time.time()

    def cores(self, node: str) -> float:
        """What the virtual machines of a node use now."""
        server = self.courses[node]
        cell = min(len(server.course) - 1, int((time.time() - self.began) / CELL_SECONDS))
        return server.course[cell] / server.cores * self.room[node][0]

    async def answer(self, request: web.Request) -> web.Response:
        """An instant query."""
        query = (await request.post())["query"]
        values = {
            "node-cpu": lambda node: self.cores(node),
            "node-memory": lambda node: MEMORY_SHARE * self.room[node][1],
            "taken": lambda node: time.time(),
        }.get(str(query))
        rows = [
            {"metric": {"node": node}, "value": [time.time(), str(values(node))]}
            for node in (self.courses if values else ())
            if values is not None
        ]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": rows}})


async def _measure(cluster: Cluster, models: list[Server]) -> list[Figure]:
    async with await ApiClient.connect(kubeconfig=str(cluster.kubeconfig), user_agent="bench") as client:
        informer = Informer(client, NODES)
        following = asyncio.ensure_future(informer.run())
        await informer.wait_synced()
        room = {
            facts.name: (facts.allocatable["cpu"], facts.allocatable["memory"])
            for facts in (node_facts(node, ()) for node in informer.items())
        }
        trace = Trace(dict(zip(sorted(room), models, strict=False)), room)
        app = web.Application()
        app.router.add_post("/api/v1/query", trace.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            await asyncio.to_thread(stack.start, cluster, ["regulator"], {**SETTINGS, "SCAVENGER_PROMETHEUS_URL": url})
            trace.began = time.time()
            harvest, mismatched = await _watch(client, informer, trace)
        finally:
            following.cancel()
            await runner.cleanup()
    pid = cluster.service("regulator").pid
    return [
        {"name": "reclaimed.cluster.harvest_share", "value": harvest.share, "unit": "ratio", "goal": None},
        {"name": "reclaimed.cluster.over_upper_count", "value": harvest.over, "unit": "times", "goal": None},
        {"name": "reclaimed.cluster.over_upper_of", "value": harvest.periods, "unit": "times", "goal": None},
        {"name": "reclaimed.cluster.not_copied", "value": mismatched, "unit": "times", "goal": "<= 0"},
        {"name": "reclaimed.cluster.regulator_cpu_seconds", "value": cpu_seconds(pid), "unit": "s", "goal": None},
        {"name": "reclaimed.cluster.regulator_peak_rss_mb", "value": peak_kb(pid) / 1024, "unit": "MB", "goal": None},
    ]


async def _watch(client: ApiClient, informer: Informer[Any], trace: Trace) -> tuple[Harvest, int]:
    """Look at every node in the middle of every cell. The second figure: nodes that show another amount as allocatable
    than as capacity."""
    harvest, mismatched = Harvest(), 0
    for cell in range(CELLS):
        await asyncio.sleep(max(0.0, trace.began + (cell + 0.5) * CELL_SECONDS - time.time()))
        found = await read_configmap(client, names.SYSTEM_NAMESPACE, names.LEVELS_CONFIGMAP)
        levels = PublishedLevels.parse(found.data).resources.get("cpu") if found else None
        if levels is None or cell < WARM_UP:
            continue
        for facts in (node_facts(node, ()) for node in informer.items()):
            cores, ordinary = facts.allocatable["cpu"], trace.cores(facts.name)
            offered = facts.offered.get("cpu", 0) / 1000
            idle = max(0.0, cores * levels.admission / 100 - ordinary)
            harvest.idle += idle
            harvest.harvested += min(idle, offered)
            harvest.over += ordinary + offered > cores * levels.upper / 100
            harvest.periods += 1
            mismatched += not facts.copied
    return harvest, mismatched
