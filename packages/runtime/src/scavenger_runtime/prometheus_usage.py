"""What pods use, as Prometheus says: CPU and memory, and devices wherever these come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec
from scavenger_api.names import MAX_DEVICES

from scavenger_runtime.logging import get_logger
from scavenger_runtime.prometheus import PrometheusClient, PrometheusError, Vector, pod_uid
from scavenger_runtime.threads import in_turns
from scavenger_runtime.usage import AT_A_TIME, Sample, UsageError, UsageSource

MOST_BYTES: Final = 2.0**50
"""No pod uses more: such a figure is of another unit, or a user has made it up."""
MOST_UNITS: Final = 2.0**20
"""The same of cores and devices."""

log = get_logger(__name__)


def parse_devices(text: str) -> dict[str, str]:
    """PromQL by extended resource, of a JSON object, as the chart writes it; empty without text.

    Raises:
        ValueError: where it is something else.
    """
    try:
        found = msgspec.json.decode(text, type=dict[str, str]) if text else {}
    except msgspec.DecodeError as error:
        raise ValueError(f'write {{"nvidia.com/gpu": "PromQL"}}: {error}') from error
    if len(found) > MAX_DEVICES:
        raise ValueError(f"write at most {MAX_DEVICES} resources, and not {len(found)}")
    if wrong := sorted(name for name, query in found.items() if "/" not in name or not query):
        raise ValueError(f"{wrong[0]!r} is no extended resource with a query: write nvidia.com/gpu, or the like")
    return found


@dataclass(frozen=True, slots=True)
class UsageQueries:
    """PromQL, each of instant vectors.

    Attributes:
        cpu: cores that each pod uses, by `namespace`, `pod` and, where that is known, `uid`.
        memory: bytes, in the same way.
        taken: Unix time of the samples, by the label `node`, or of all.
        window: seconds over which `cpu` averages.
    """

    cpu: str
    memory: str
    taken: str
    window: float


class PrometheusUsage:
    """Asks Prometheus for CPU and memory.

    Args:
        client: to ask with.
        queries: what to ask.
        node_of: the node of a pod, by `namespace/name`; empty for a pod that is none of ours.
    """

    name: Final = "Prometheus"

    def __init__(self, client: PrometheusClient, queries: UsageQueries, node_of: Callable[[str], str]) -> None:
        self._client = client
        self._queries = queries
        self._node_of = node_of

    async def measure(self) -> list[Sample]:
        """As `UsageSource`. A pod on a node whose samples have no time has no figure, and what cannot be is none."""
        asked = [self._queries.cpu, self._queries.memory, self._queries.taken]
        try:
            cpu, memory, taken = await self._client.ask_all(asked)
        except PrometheusError as error:
            raise UsageError(f"Prometheus: {error}") from error
        times = {labels.get("node", ""): value for labels, value in taken}
        bytes_of = {_pod(labels): value for labels, value in memory if 0 <= value <= MOST_BYTES}
        found = []
        async for labels, cores in in_turns(cpu, AT_A_TIME):
            uid, pod = one = _pod(labels)
            node = self._node_of(pod)
            at = times.get(node, times.get("")) if node else None
            if at is not None and 0 <= cores <= MOST_UNITS:
                found.append(Sample(pod, cores, at, self._queries.window, bytes_of.get(one), uid=uid))
        return found


class DeviceUsage:
    """A source, and beside it Prometheus for the devices that pods use.

    Where Prometheus does not answer, CPU and memory are measured all the same, and that is logged once.

    Args:
        source: of CPU and memory.
        client: to ask Prometheus with.
        queries: PromQL by extended resource: how many each pod uses, by `namespace` and `pod`; 0.5 is half of one.
    """

    def __init__(self, source: UsageSource, client: PrometheusClient, queries: Mapping[str, str]) -> None:
        self.name: Final = source.name
        self._source = source
        self._client = client
        self._queries = dict(queries)
        self._failing = False

    async def measure(self) -> list[Sample]:
        """As `UsageSource`. A figure of a device counts as long as that of CPU of the same pod."""
        samples = await self._source.measure()
        devices: dict[str, dict[str, dict[str, float]]] = {}
        for resource, vector in zip(self._queries, await self._ask(), strict=False):
            for labels, value in vector:
                if not 0 <= value <= MOST_UNITS:
                    continue
                uid, pod = _pod(labels)
                devices.setdefault(pod, {}).setdefault(resource, {})[uid] = value
        found = []
        async for sample in in_turns(samples, AT_A_TIME):
            told = devices.get(sample.pod, {}).items()
            used = {name: one for name, lives in told if (one := _of_life(lives, sample.uid)) is not None}
            found.append(replace(sample, devices=used) if used else sample)
        return found

    async def _ask(self) -> list[Vector]:
        try:
            answers = await self._client.ask_all(list(self._queries.values()))
        except PrometheusError as error:
            if not self._failing:
                log.warning("use of devices not measured", error=str(error))
            self._failing = True
            return []
        self._failing = False
        return answers


def _of_life(lives: Mapping[str, float], uid: str) -> float | None:
    """The value of a pod among those of all its lives, by UID. Series of one that is over stay for minutes."""
    if uid:
        return lives.get(uid, lives.get(""))
    return next(iter(lives.values())) if len(lives) == 1 else lives.get("")


def _pod(labels: Mapping[str, str]) -> tuple[str, str]:
    """The UID, and `namespace/name`, of the pod that a series is of."""
    return pod_uid(labels), f"{labels.get('namespace', '')}/{labels.get('pod', '')}"
