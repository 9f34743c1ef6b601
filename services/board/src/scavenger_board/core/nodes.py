"""Nodes as tiles: who has what of each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scavenger_api.levels import PublishedLevels
from scavenger_api.levels_text import DEFAULT_POOL
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


def pools_of_nodes(nodes: Iterable[NodeFacts], levels: PublishedLevels | None) -> dict[str, str]:
    """The pool by whose levels jobs start on each node; all are of the default pool where it is the only one."""
    if levels is None or not levels.pools:
        return {node.name: DEFAULT_POOL for node in nodes}
    known = ((node.name, node.marks.pool(levels.pool_ignores)) for node in nodes)
    return {name: pool if pool in levels.pools else DEFAULT_POOL for name, pool in known}


def node_rows(
    nodes: Iterable[NodeFacts],
    pods: Iterable[PodFacts],
    used: Mapping[str, Amounts] | None,
    pools: Mapping[str, str],
) -> list[NodeRow]:
    """All nodes, fullest first. used: what they really use, or None. pools: as of
    `pools_of_nodes`, which are shown where there are several."""
    sums: dict[str, _Sums] = defaultdict(_Sums)
    for pod in pods:
        if pod.node:
            _add(sums[pod.node], pod)
    nothing = _Sums()
    shown = pools if len(set(pools.values())) > 1 else {}
    rows = [
        _row(node, sums.get(node.name, nothing), (used or {}).get(node.name, {}), shown.get(node.name, ""))
        for node in nodes
    ]
    return fullest_first(rows)


def scavenger_shares(
    nodes: Iterable[NodeFacts], pods: Iterable[PodFacts], pools: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """Percent of each resource of the nodes of a pool that pods of jobs request, by pool. pools: as of
    `pools_of_nodes`."""
    held: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        if pod.job and pod.node in pools:
            held[pools[pod.node]].update(pod.requests)
    whole: dict[str, Counter[str]] = {}
    for node in nodes:
        whole.setdefault(pools[node.name], Counter()).update(node.allocatable)
    return {pool: _shares(held[pool], of_all) for pool, of_all in whole.items()}


def _shares(held: Mapping[str, int], whole: Mapping[str, int]) -> dict[str, float]:
    def requested(resource: str) -> int:
        extended, unit = RECLAIMED[resource]
        return held.get(resource, 0) + held.get(extended, 0) * unit

    return {resource: 100.0 * requested(resource) / value for resource, value in whole.items() if value}


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


def _row(node: NodeFacts, sums: _Sums, used: Amounts, pool: str) -> NodeRow:
    cpu, memory = (_share(resource, node, sums, used) for resource in LEVELS_RESOURCES)
    return NodeRow(node.name, node.note, cpu, memory, sums.pods, sorted(sums.jobs), node.zone, node.pool, pool)


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
