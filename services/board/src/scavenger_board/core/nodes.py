"""Nodes as tiles: who has what of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scavenger_api.names import LEVELS_RESOURCES
from scavenger_api.reclaimed import RECLAIMED
from scavenger_domain.accounts import Account

from scavenger_board.core.picture import NodeRow, ShareRow
from scavenger_board.core.snapshot import Amounts, NodeFacts, PodFacts


@dataclass(slots=True)
class _Sums:
    ordinary: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    scavenger: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    jobs: set[str] = field(default_factory=set)
    pods: int = 0


def node_rows(
    nodes: Iterable[NodeFacts], pods: Iterable[PodFacts], used: Mapping[str, Amounts] | None
) -> list[NodeRow]:
    """All nodes, fullest first. used: what they really use; None where nobody measures."""
    sums: dict[str, _Sums] = defaultdict(_Sums)
    for pod in pods:
        if pod.node:
            _add(sums[pod.node], pod)
    nothing = _Sums()
    rows = [_row(node, sums.get(node.name, nothing), (used or {}).get(node.name, {})) for node in nodes]
    return fullest_first(rows)


def scavenger_share(nodes: Iterable[NodeFacts], pods: Iterable[PodFacts]) -> dict[str, float]:
    """Percent of each resource of all nodes that pods of jobs request."""
    held: dict[str, int] = defaultdict(int)
    for pod in pods:
        if pod.job and pod.node:
            for name, value in pod.requests.items():
                held[name] += value
    whole: dict[str, int] = defaultdict(int)
    for node in nodes:
        for resource, value in node.allocatable.items():
            whole[resource] += value
    return {
        resource: 100.0 * (held[resource] + held[RECLAIMED[resource][0]] * RECLAIMED[resource][1]) / value
        for resource, value in whole.items()
        if value
    }


def fullest_first(rows: Iterable[NodeRow]) -> list[NodeRow]:
    """By what each has least of left, then by name."""
    return sorted(rows, key=lambda row: (-fullness(row), row.name))


def fullness(row: NodeRow) -> float:
    """Percent of what it has least of left."""
    return max(row.cpu.load or 0.0, row.memory.load or 0.0)


def _add(sums: _Sums, pod: PodFacts) -> None:
    sums.pods += 1
    mine = sums.scavenger if pod.job else sums.ordinary
    for name, value in pod.requests.items():
        mine[name] += value
    if pod.job:
        sums.jobs.add(pod.job)


def _row(node: NodeFacts, sums: _Sums, used: Amounts) -> NodeRow:
    cpu, memory = (_share(resource, node, sums, used) for resource in LEVELS_RESOURCES)
    return NodeRow(node.name, node.note, cpu, memory, sums.pods, sorted(sums.jobs), node.zone, node.pool)


def _share(resource: str, node: NodeFacts, sums: _Sums, used: Amounts) -> ShareRow:
    extended, unit = RECLAIMED[resource]
    ordinary, scavenger = sums.ordinary.get(resource, 0), sums.scavenger.get(resource, 0)
    account = Account(
        allocatable=node.allocatable.get(resource, 0),
        reserved=ordinary + scavenger,
        used=used.get(resource),
        offered=node.offered.get(resource, 0),
        taken=sums.scavenger.get(extended, 0) * unit,
    )
    load = round(100.0 * account.load, 1)
    return ShareRow(account.allocatable, ordinary, scavenger, account.taken, account.used, load)
