"""Prometheus: any PromQL for the use of nodes and pods, and for the history of the regular load.

An instant query answers with the newest sample of the last five minutes and says of it only when it was asked, not when
it was taken. So the age is a query of its own (`timestamp(...)`): without it, a target that stopped answering would
look alive for five minutes.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson
from scavenger_runtime.threads import in_thread

from scavenger_regulator.core.history import Figures
from scavenger_regulator.core.metrics.metric import AVERAGED, RESOURCES
from scavenger_regulator.core.snapshot import Figure, Measurement
from scavenger_regulator.sources import SourceError

# irate, not rate: over a range that a young pod or node does not fill, rate() divides by the whole range all the same,
# so it would count with a fraction of what it uses, and a victim too many would go.
#
# max before sum: where two jobs scrape the same kubelet, each series is there twice. By `cpu`, as old kubelets have a
# series for each of a node's.
NODE_CPU: Final = 'sum by (node) (max by (node, cpu) (irate(container_cpu_usage_seconds_total{id="/"}[2m])))'
NODE_MEMORY: Final = 'max by (node) (container_memory_working_set_bytes{id="/"})'
#
# The UID of a pod is in the name of its control group. Series of a pod that has gone stay for minutes, and a task of an
# array runs again under the name of its pod.
_UID: Final = '"uid", "$1", "id", ".*pod([0-9a-f]{8}.[0-9a-f]{4}.[0-9a-f]{4}.[0-9a-f]{4}.[0-9a-f]{12}).*")'
POD_CPU: Final = (
    "sum by (namespace, pod, uid) (max by (namespace, pod, uid, container, cpu) "
    f'(label_replace(irate(container_cpu_usage_seconds_total{{pod!="",container!=""}}[2m]), {_UID}))'
)
POD_MEMORY: Final = (
    "sum by (namespace, pod, uid) (max by (namespace, pod, uid, container) "
    f'(label_replace(container_memory_working_set_bytes{{pod!="",container!=""}}, {_UID}))'
)
TAKEN: Final = 'min by (node) (timestamp(container_memory_working_set_bytes{id="/"}))'


@dataclass(frozen=True, slots=True)
class Queries:
    """PromQL. node: use of each node, or of the cluster where a result has no node label. pod: use of each scavenger
    pod, with its UID in the label `uid` where that is known; others are ignored. In cores and bytes. taken: Unix time
    of the samples, per node or for all. history: the regular load in percent, by resource; empty: the regulator keeps
    its own history.

    window: seconds over which the CPU queries average. history_window, history_step: seconds.
    """

    node: Mapping[str, str]
    pod: Mapping[str, str]
    taken: str = TAKEN
    history: Mapping[str, str] | None = None
    node_label: str = "node"
    namespace_label: str = "namespace"
    pod_label: str = "pod"
    window: float = 60.0
    history_window: float = 86_400.0
    history_step: float = 300.0


UID_LABEL: Final = "uid"

Vector = list[tuple[Mapping[str, str], float]]


def parse_vector(body: bytes) -> Vector:
    """Labels and value of each series of an instant query; NaN and infinite values are left out. A scalar is a series
    without labels. Raises SourceError where Prometheus reports an error or the answer is something else."""
    try:
        answer = orjson.loads(body)
        if answer["status"] != "success":
            raise SourceError(f"Prometheus: {answer.get('error', 'no reason given')}")
        data = answer["data"]
        rows: list[Any] = data["result"]
        if data["resultType"] == "scalar":
            rows = [{"metric": {}, "value": data["result"]}]
        elif data["resultType"] != "vector":
            raise SourceError(f"Prometheus answered with a {data['resultType']}: write a query that gives a vector")
        found = [(_labels(row["metric"]), float(row["value"][1])) for row in rows]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise SourceError(f"not an answer of Prometheus: {error!r}") from error
    return [(labels, value) for labels, value in found if math.isfinite(value)]


def _labels(metric: Any) -> Mapping[str, str]:
    if not isinstance(metric, dict) or not all(isinstance(value, str) for value in metric.values()):
        raise TypeError(f"labels are no text: {metric!r:.100}")
    return metric


def combine(node: Mapping[str, Vector], pod: Mapping[str, Vector], taken: Vector, queries: Queries) -> Measurement:
    """The answers as one measurement. What has no time has no figure. Raises SourceError where a time is none."""
    times = times_of(taken, queries)
    everywhere = times.get("")
    nodes: dict[str, dict[str, Figure]] = {}
    total: dict[str, Figure] = {}
    for resource, vector in node.items():
        for labels, value in vector:
            name = labels.get(queries.node_label, "")
            at = times.get(name, everywhere) if name else everywhere if everywhere is not None else _oldest(times)
            if at is not None:
                figure = figure_of(value, at, queries.window if resource in AVERAGED else 0.0)
                (nodes.setdefault(name, {}) if name else total)[resource] = figure
    newest = max(times.values(), default=None)
    pods: dict[str, dict[str, Figure]] = {}
    for resource, vector in pod.items() if newest is not None else ():
        for labels, value in vector:
            # A pod's figures are as old as its node's; a node whose figures are too old is not looked at.
            window = queries.window if resource in AVERAGED else 0.0
            pods.setdefault(pod_key(labels, queries), {})[resource] = figure_of(value, newest or 0.0, window)
    return Measurement(nodes=nodes, pods=pods, total=total)


def _oldest(times: Mapping[str, float]) -> float | None:
    return min(times.values(), default=None)


def times_of(taken: Vector, queries: Queries) -> dict[str, float]:
    """When samples were taken, by node; of all others under an empty name."""
    return {labels.get(queries.node_label, ""): value for labels, value in taken}


def pod_key(labels: Mapping[str, str], queries: Queries) -> str:
    """Of the pod that a series is of, its UID where the series has it (as a UID is written, or with underscores, as in
    the names of control groups), else `namespace/name`."""
    uid = labels.get(UID_LABEL)
    if uid:
        return uid.replace("_", "-")
    return f"{labels.get(queries.namespace_label, '')}/{labels.get(queries.pod_label, '')}"


def figure_of(value: float, at: float, window: float) -> Figure:
    """A value that was taken at a Unix time, as an average over `window` seconds. Raises SourceError for no time."""
    try:
        taken = datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise SourceError(f"the query `prometheus-taken` gave {at:g}: it must give a Unix time in seconds") from error
    return Figure(value, taken, window)


class PrometheusSource:
    """Asks Prometheus over HTTP.

    url: up to and without /api. token_file: bearer token, read again for each request, as it may rotate. ca_file: of
    its certificate. timeout: seconds for all queries of a measurement together.
    """

    name = "prometheus"

    def __init__(
        self,
        url: str,
        queries: Queries,
        *,
        timeout: float,
        token_file: str | None = None,
        ca_file: str | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._queries = queries
        self._timeout = timeout
        self._token_file = token_file
        self._ssl = ssl.create_default_context(cafile=ca_file) if ca_file else True
        self._session: aiohttp.ClientSession | None = None

    async def measure(self) -> Measurement:
        """All queries at once. Raises SourceError."""
        queries = self._queries
        asked = [*(queries.node[r] for r in RESOURCES), *(queries.pod[r] for r in RESOURCES), queries.taken]
        *use, taken = await self.ask_all(asked)
        count = len(RESOURCES)
        node = dict(zip(RESOURCES, use[:count], strict=True))
        pod = dict(zip(RESOURCES, use[count:], strict=True))
        return await in_thread(combine, node, pod, taken, queries)

    async def history(self) -> dict[str, Figures] | None:
        """Mean, deviation and number of samples over the window, as Prometheus computes them. Raises SourceError."""
        if not self._queries.history:
            return None
        found = {}
        span = f"[{self._queries.history_window:.0f}s:{self._queries.history_step:.0f}s]"
        for resource, query in self._queries.history.items():
            mean, stdev, count = await self.ask_all(
                [
                    f"{function}(({query}){span})"
                    for function in ("avg_over_time", "stddev_over_time", "count_over_time")
                ]
            )
            if mean and stdev and count:
                found[resource] = Figures(mean[0][1], stdev[0][1], int(count[0][1]))
        return found

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def ask_all(self, queries: list[str]) -> list[Vector]:
        """The answers to all queries at once, and to an empty one nothing. Raises SourceError."""
        try:
            async with asyncio.timeout(self._timeout):
                return list(await asyncio.gather(*(self._ask(query) for query in queries)))
        except TimeoutError as error:
            raise SourceError(f"Prometheus did not answer within {self._timeout:.0f} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise SourceError(f"Prometheus cannot be reached: {error}") from error

    async def _ask(self, query: str) -> Vector:
        if not query:
            return []
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._ssl))
        headers = {}
        if self._token_file:
            token = await asyncio.to_thread(Path(self._token_file).read_text)
            headers["Authorization"] = f"Bearer {token.strip()}"
        async with self._session.post(f"{self._url}/api/v1/query", data={"query": query}, headers=headers) as answer:
            body = await answer.read()
            if answer.status >= 400 and not body.startswith(b"{"):
                raise SourceError(f"Prometheus answered with status {answer.status}")
            return parse_vector(body)
