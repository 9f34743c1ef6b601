"""Whether a real cluster does what the simulator says: small scripts played on both, and what happened compared.

The cluster has its API server, controllers, the scheduler plugin and all services; its nodes are kwok's. Compared is
which jobs started, ended and were interrupted, and by whom, round by round.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from scavenger_cluster import Cluster

from bench.simulator.replay import replay_cluster, replaying
from bench.simulator.scripts import SCRIPTS, mismatches, simulated


def run() -> list[dict[str, Any]]:
    """The figures; brings up a cluster of its own and takes it down."""
    with replay_cluster("bench-replay") as cluster:
        return asyncio.run(_compare(cluster))


async def _compare(cluster: Cluster) -> list[dict[str, Any]]:
    different = events = 0
    async with replaying(cluster) as replay:
        for script in SCRIPTS:
            expected = simulated(script)
            found = mismatches(expected, await replay.play(script, expected))
            for line in found:
                print(f"  {script.name}: {line}", file=sys.stderr)
            different += len(found)
            events += sum(map(len, expected))
    return [
        {"name": "simulator.replay.mismatches", "value": different, "unit": "events", "goal": "<= 0"},
        {"name": "simulator.replay.compared", "value": events, "unit": "events", "goal": ""},
    ]
