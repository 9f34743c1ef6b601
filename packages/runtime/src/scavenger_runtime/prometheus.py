"""Prometheus, asked over HTTP for what is so now: the one reader for all services that ask it what pods use.

An instant query answers with the newest sample of the last five minutes and says of it only when it was asked, not when
it was taken. So the age is a query of its own (`TAKEN`): without it, a target that stopped answering would look alive
for five minutes.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp
import orjson

from scavenger_runtime.threads import in_thread

# irate, not rate: over a range that a young pod or node does not fill, rate() divides by the whole range all the same,
# so it would count with a fraction of what it uses, and a victim too many would go.
#
# max before sum: where two jobs scrape the same kubelet, each series is there twice. By `cpu`, as old kubelets have a
# series for each of a node's.
#
# The UID of a pod is in the name of its control group. Series of a pod that has gone stay for minutes, and a task of an
# array runs again under the name of its pod.
_UID: Final = '"uid", "$1", "id", ".*pod([0-9a-f]{8}.[0-9a-f]{4}.[0-9a-f]{4}.[0-9a-f]{4}.[0-9a-f]{12}).*")'
POD_CPU: Final = (
    "sum by (namespace, pod, uid) (max by (namespace, pod, uid, container, cpu) "
    f'(label_replace(irate(container_cpu_usage_seconds_total{{pod!="",container!=""}}[2m]), {_UID}))'
)
"""Cores that each pod uses."""
POD_MEMORY: Final = (
    "sum by (namespace, pod, uid) (max by (namespace, pod, uid, container) "
    f'(label_replace(container_memory_working_set_bytes{{pod!="",container!=""}}, {_UID}))'
)
"""Bytes that each pod uses."""
TAKEN: Final = 'min by (node) (timestamp(container_memory_working_set_bytes{id="/"}))'
"""Unix time of the samples, by node."""
UID_LABEL: Final = "uid"

T = TypeVar("T")
Vector = list[tuple[Mapping[str, str], float]]
"""Labels and value of each series."""


class PrometheusError(Exception):
    """Prometheus could not be asked, or its answer says nothing; the message says why, and calls it `it`."""


def parse_vector(body: bytes) -> Vector:
    """Labels and value of each series of an instant query; NaN and infinite values are left out. A scalar is a series
    without labels.

    Raises:
        PrometheusError: where Prometheus reports an error, or the answer is something else.
    """
    try:
        answer = orjson.loads(body)
        if answer["status"] != "success":
            raise PrometheusError(answer.get("error", "it gives no reason"))
        data = answer["data"]
        rows: list[Any] = data["result"]
        if data["resultType"] == "scalar":
            rows = [{"metric": {}, "value": data["result"]}]
        elif data["resultType"] != "vector":
            raise PrometheusError(f"it answered with a {data['resultType']}: write a query that gives a vector")
        found = [(_labels(row["metric"]), float(row["value"][1])) for row in rows]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise PrometheusError(f"not an answer of Prometheus: {error!r}") from error
    return [(labels, value) for labels, value in found if math.isfinite(value)]


def _labels(metric: Any) -> Mapping[str, str]:
    if not isinstance(metric, dict) or not all(isinstance(value, str) for value in metric.values()):
        raise TypeError(f"labels are no text: {metric!r:.100}")
    return metric


def pod_uid(labels: Mapping[str, str]) -> str:
    """The UID of the pod that a series is of: as a UID is written, or with underscores, as in the names of control
    groups. Empty where the series has none."""
    return labels.get(UID_LABEL, "").replace("_", "-")


class PrometheusClient:
    """Asks Prometheus.

    Args:
        url: up to and without /api.
        timeout: seconds for all queries that are asked together.
        token_file: bearer token.
        ca_file: of its certificate.
    """

    def __init__(self, url: str, *, timeout: float, token_file: str | None = None, ca_file: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._timeout = timeout
        self._token_file = token_file
        self._ssl = ssl.create_default_context(cafile=ca_file) if ca_file else True
        self._session: aiohttp.ClientSession | None = None

    async def ask_all(self, queries: list[str]) -> list[Vector]:
        """The answers to all instant queries at once, and to an empty one nothing. Raises PrometheusError."""
        return await self.together(*map(self._ask, queries))

    async def together(self, *asked: Coroutine[Any, Any, T]) -> list[T]:
        """What several requests return, in the time for all. Raises PrometheusError."""
        try:
            async with asyncio.timeout(self._timeout):
                return list(await asyncio.gather(*asked))
        except TimeoutError as error:
            raise PrometheusError(f"it did not answer within {self._timeout:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise PrometheusError(f"it cannot be reached: {error}") from error

    async def request(self, path: str, form: Mapping[str, str], most_bytes: float = math.inf) -> bytes:
        """One answer, as it came.

        Args:
            path: below /api/v1/.
            form: what is sent.
            most_bytes: of the answer.

        Raises:
            PrometheusError: for a longer answer, or one that is an error and not from Prometheus.
            aiohttp.ClientError, OSError: where it cannot be reached.
        """
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._ssl))
        headers = {}
        if self._token_file:  # read again each time, as it may rotate
            token = await asyncio.to_thread(Path(self._token_file).read_text)
            headers["Authorization"] = f"Bearer {token.strip()}"
        async with self._session.post(f"{self._url}/api/v1/{path}", data=form, headers=headers) as answer:
            body = bytearray()
            async for part in answer.content.iter_any():
                body += part
                if len(body) > most_bytes:
                    raise PrometheusError(f"its answer is longer than {most_bytes / 2**20:g} MiB")
            if answer.status >= 400 and not body.startswith(b"{"):
                raise PrometheusError(f"it answered with status {answer.status}")
        return bytes(body)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(self, query: str) -> Vector:
        if not query:
            return []
        body = await self.request("query", {"query": query})
        return await in_thread(parse_vector, body)  # tens of megabytes of a large cluster
