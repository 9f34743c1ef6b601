"""The past of one's own cluster, from its Prometheus: nodes, requests and use of ordinary pods over a range.

It takes what kubelets (cAdvisor) and kube-state-metrics show. Pods are as they were seen, at steps of five minutes: one
that came and went between two steps is not there. Scavenger pods are left out, by their PriorityClass.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.scenario import FOREVER, NodeSpec, OrdinaryPod, UsageTrace

Ask = Callable[[str, Mapping[str, str]], bytes]
"""Sends a GET to a path under the address of Prometheus, with parameters, and returns the body. Raises InputError."""
Told = Callable[[str], None]
"""Is told in words how far it is."""

RANGE: Final = "/api/v1/query_range"
CHUNK_SECONDS: Final = 86_400.0
"""A range is asked for in pieces: Prometheus refuses more than 11,000 steps, and large answers time out."""

_ORDINARY: Final = 'unless on (namespace, pod) kube_pod_info{priority_class=~"scavenger-.*"}'
_ALIVE: Final = 'and on (namespace, pod) (kube_pod_status_phase{phase=~"Pending|Running"} == 1)'
NODE_CPU: Final = 'max by (node) (kube_node_status_allocatable{resource="cpu"})'
NODE_MEMORY: Final = 'max by (node) (kube_node_status_allocatable{resource="memory"})'
# max before sum, as two jobs that scrape the same target give each series twice.
POD_REQUEST: Final = (
    "sum by (namespace, pod) (max by (namespace, pod, container) "
    '(kube_pod_container_resource_requests{resource="%s"}))'
    f" {_ALIVE} {_ORDINARY}"
)
POD_CPU: Final = (
    "sum by (namespace, pod) (max by (namespace, pod, container, cpu) "
    '(rate(container_cpu_usage_seconds_total{pod!="",container!=""}[%ds])))'
    f" {_ORDINARY}"
)
POD_MEMORY: Final = (
    "sum by (namespace, pod) (max by (namespace, pod, container) "
    '(container_memory_working_set_bytes{pod!="",container!=""}))'
    f" {_ORDINARY}"
)

MOST_MILLI: Final = 2**32 - 1
"""What an array of usage holds: four million cores."""

Series = dict[str, dict[int, float]]
"""By name of the node, or NAMESPACE/POD: the values by number of the step."""


@dataclass(frozen=True, slots=True)
class Range:
    """What is asked for: Unix times from `start` to `end`, in steps of so many seconds."""

    start: float
    end: float
    step: float = 300.0

    def __post_init__(self) -> None:
        if not self.start < self.end or not self.step > 0:
            raise InputError("the range is empty", "its end must be after its start, and the step above 0")

    @property
    def steps(self) -> int:
        """How many steps it has."""
        return max(1, math.ceil((self.end - self.start) / self.step))

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Numbers of steps, from and up to, that are asked for at once."""
        size = max(1, min(10_000, int(CHUNK_SECONDS / self.step)))
        for first in range(0, self.steps, size):
            yield first, min(first + size, self.steps)


@dataclass(frozen=True, slots=True)
class History:
    """What Prometheus knows, with times from the start of the range on."""

    nodes: tuple[NodeSpec, ...]
    ordinary: tuple[OrdinaryPod, ...]


def read_prometheus(ask: Ask, wanted: Range, source: str, told: Told = lambda _: None) -> History:
    """Nodes and ordinary pods of the range. Raises InputError where Prometheus cannot be asked, or knows no nodes or no
    use of pods."""
    queries = {
        "nodes": NODE_CPU,
        "memory of nodes": NODE_MEMORY,
        "CPU requests": POD_REQUEST % "cpu",
        "memory requests": POD_REQUEST % "memory",
        "CPU use": POD_CPU % max(round(wanted.step), 60),
        "memory use": POD_MEMORY,
    }
    found: dict[str, Series] = {}
    for what, query in queries.items():
        told(f"asking Prometheus for {what}")
        found[what] = _ask_range(ask, query, wanted, source)
    nodes = _nodes(found["nodes"], found["memory of nodes"])
    if not nodes:
        remedy = "kube-state-metrics must be scraped: its kube_node_status_allocatable is looked for"
        raise InputError("it knows no nodes in this range", remedy, source=source)
    if not found["CPU use"]:
        remedy = "the kubelets' cAdvisor must be scraped: container_cpu_usage_seconds_total with namespace and pod"
        raise InputError("it knows no CPU use of pods in this range", remedy, source=source)
    return History(nodes, tuple(_pods(found, wanted)))


def _ask_range(ask: Ask, query: str, wanted: Range, source: str) -> Series:
    found: Series = {}
    for first, end in wanted.chunks():
        params = {
            "query": query,
            "start": f"{wanted.start + first * wanted.step:.3f}",
            "end": f"{wanted.start + (end - 1) * wanted.step:.3f}",
            "step": f"{wanted.step:g}",
        }
        for labels, values in parse_matrix(ask(RANGE, params), source):
            name = labels.get("node") or f"{labels.get('namespace', '')}/{labels.get('pod', '')}"
            series = found.setdefault(name, {})
            for at, value in values:
                series[round((at - wanted.start) / wanted.step)] = value
    return found


def parse_matrix(body: bytes, source: str) -> list[tuple[dict[str, str], list[tuple[float, float]]]]:
    """Labels of each series of a range query, and its times and values but for NaN and infinite ones.

    Raises InputError where Prometheus reports an error, or the answer is something else.
    """
    try:
        answer: dict[str, Any] = json.loads(body)
        if answer["status"] != "success":
            remedy = "ask for a shorter range, or see the log of Prometheus"
            raise InputError(f"Prometheus: {answer.get('error', 'no reason given')}", remedy, source=source)
        data = answer["data"]
        if data["resultType"] != "matrix":
            raise TypeError(f"a {data['resultType']}")
        return [
            (row["metric"], [(float(at), value) for at, text in row["values"] if math.isfinite(value := float(text))])
            for row in data["result"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        remedy = "check the address: it must be that of Prometheus, without /api"
        raise InputError(f"not an answer of Prometheus ({error})", remedy, source=source) from error


def _nodes(cpu: Series, memory: Series) -> tuple[NodeSpec, ...]:
    """Those of the last step that any is known of: a cluster of one size is simulated, the one it has now."""
    last = max((max(values) for values in cpu.values() if values), default=0)
    return tuple(
        NodeSpec(name, round(1000 * values[last]), round(memory[name][last]))
        for name, values in sorted(cpu.items())
        if values.get(last, 0) > 0 and memory.get(name, {}).get(last, 0) > 0
    )


def _pods(found: Mapping[str, Series], wanted: Range) -> Iterator[OrdinaryPod]:
    requests = found["CPU requests"], found["memory requests"]
    use = found["CPU use"], found["memory use"]
    for name in sorted({name for series in (*requests, *use) for name in series}):
        seen = [step for series in (*requests, *use) for step in series.get(name, ())]
        if not seen:
            continue
        first, last = min(seen), max(seen)
        span = range(first, last + 1)
        cpu = array("I", [min(round(1000 * value), MOST_MILLI) for value in _filled(use[0].get(name, {}), span)])
        memory = array("Q", [round(value) for value in _filled(use[1].get(name, {}), span)])
        yield OrdinaryPod(
            name=name,
            arrives=first * wanted.step,
            leaves=FOREVER if last >= wanted.steps - 1 else (last + 1) * wanted.step,
            cpu_request_milli=round(1000 * max(requests[0].get(name, {}).values(), default=0.0)),
            memory_request_bytes=round(max(requests[1].get(name, {}).values(), default=0.0)),
            usage=UsageTrace(first * wanted.step, wanted.step, cpu, memory),
        )


def _filled(values: Mapping[int, float], span: range) -> list[float]:
    """A value for each step: where there is none the one before, at the beginning the first there is, else nothing."""
    found: list[float] = []
    current = values[min(values)] if values else 0.0
    for step in span:
        current = max(0.0, values.get(step, current))
        found.append(current)
    return found
