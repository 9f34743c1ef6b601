"""Which boot of its machine each node shows, in a form that outlives a process.

A node may boot again while no admitter is there, before Kubernetes calls it not ready. No object records that: its
kubelet reports another bootID, and the one before is gone. An admitter that comes later knows of such a boot only by
what its predecessor kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from scavenger_api.times import format_micro_time, parse_time
from scavenger_domain.pod_ends import moment
from scavenger_kube import kinds

LETTERS: Final = 12
"""Of a bootID: no two boots of a machine share so many."""


def reported_at(node: kinds.Node) -> datetime | None:
    """When the kubelet reported this version of its node, by the clock of the node: ends of containers are of the same
    clock. None where the node does not say it."""
    ready = kinds.condition(node.status.conditions, "Ready")
    return moment(ready.last_heartbeat_time) if ready is not None else None


def shown(nodes: Iterable[kinds.Node]) -> dict[str, str]:
    """The boot of each node that shows one, by name."""
    return {node.metadata.name: boot[:LETTERS] for node in nodes if (boot := node.status.node_info.boot_id)}


def dump(boots: Mapping[str, str], reboots: Mapping[str, datetime], most_bytes: int) -> str:
    """The boot of each node, as JSON of no more than so many bytes; empty where no node shows one.

    Args:
        boots: as nodes show them (`shown`).
        reboots: when nodes have rebooted last, of those seen to, by name.
        most_bytes: of the text. Nodes that do not fit are left out, the last ones by name.
    """
    rows, size = list[str](), 1
    for name in sorted(boots):
        since = [format_micro_time(reboots[name])] if name in reboots else []
        row = f"{json.dumps(name)}:{json.dumps([boots[name], *since], separators=(',', ':'))}"
        if (size := size + len(row) + 1) > most_bytes:
            break
        rows.append(row)
    return f"{{{','.join(rows)}}}" if rows else ""


def missed(kept: str, nodes: Iterable[kinds.Node], now: datetime) -> dict[str, datetime]:
    """When nodes have rebooted last, as far as `kept` tells: no later than that, by the clock of the node.

    Args:
        kept: what a predecessor has dumped. What cannot be read says nothing.
        nodes: as they are shown.
        now: for a node that does not say when its kubelet reported.
    """
    try:
        boots = json.loads(kept or "{}")
    except (ValueError, RecursionError):
        return {}
    there = {node.metadata.name: node for node in nodes} if isinstance(boots, dict) else {}
    found = ((name, _rebooted(boots[name], there[name], now)) for name in boots.keys() & there.keys())
    return {name: at for name, at in found if at is not None}


def _rebooted(row: Any, node: kinds.Node, now: datetime) -> datetime | None:
    """When a node has rebooted last, by its row; None where that says nothing of a boot."""
    known, *since = row if isinstance(row, list) and row else ("",)
    boot = node.status.node_info.boot_id[:LETTERS]
    if not boot or not isinstance(known, str) or not known:
        return None
    if boot != known:
        return reported_at(node) or now
    return parse_time(str(since[0])) if since else None
