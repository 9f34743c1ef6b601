"""Charts are upgraded and rolled back one by one: an older admitter beside a newer regulator, and the other way round,
on an API server in memory. The levels are what the regulator decides of the same nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
import pytest
from scavenger_api import names
from scavenger_api.levels import LevelsView
from scavenger_domain.nodes import PLAIN_POOL
from scavenger_kube.kinds import Node
from scavenger_kube.resources import CONFIGMAPS
from scavenger_kube.resources import NODES as NODES_RESOURCE
from scavenger_regulator.core.plan import regulate
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.facts import node_facts
from scavenger_testing.builders import configmap_dict, node_dict, scavengerjob_dict

from tests.unit.admitter.harness import Harness, empty_harness
from tests.unit.regulator.builders import GIB, figures, measured, snapshot

pytestmark = pytest.mark.slow

GPU = "nvidia.com/gpu"
TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
AMOUNTS = {"cpu": "10", "memory": "100Gi", "pods": "110"}
NODES: Mapping[str, dict[str, Any]] = {
    "cpu-0": {"allocatable": AMOUNTS},
    "cpu-1": {"allocatable": AMOUNTS},
    "gpu-0": {"allocatable": {**AMOUNTS, GPU: "4"}, "taints": [TAINT]},
}


def published(c: Harness, *, cpus: float, gpus: float, older: bool) -> dict[str, str]:
    """What the regulator says where nodes use so many of their 10 cores. older: it knows no pools."""
    nodes = {n: msgspec.convert(node_dict(n, **more), Node) for n, more in NODES.items()}
    facts = {name: node_facts(node, ()) for name, node in nodes.items()}
    if older:
        facts = {name: replace(one, pool=PLAIN_POOL) for name, one in facts.items()}
    uses = {name: figures(gpus if name.startswith("gpu") else cpus, GIB) for name in facts}
    found = regulate(snapshot(nodes=facts, measurement=measured(uses)), {}, Rules(cpu_samples=1, period=3600))
    data = found.published.to_data()
    return data | {key: c.stamp() for key in data if key.endswith(names.LEVELS_OBSERVED_AT)}


def put(c: Harness, data: Mapping[str, str]) -> None:
    found = configmap_dict(names.LEVELS_CONFIGMAP, dict(data), namespace=names.SYSTEM_NAMESPACE)
    c.api.put(CONFIGMAPS, found)


def submit(c: Harness, name: str, *, gpu: bool) -> None:
    spec = scavengerjob_dict(cpu="1")["spec"]
    for amounts in spec["resources"].values() if gpu else ():
        amounts[GPU] = "1"
    c.submit(name, resources=spec["resources"])


async def started(c: Harness) -> set[str]:
    await c.pass_time(20)
    return {name for name in ("cpus", "gpus") if c.pods(name)}


def reads_no_pools(data: Mapping[str, str] | None, now: datetime) -> LevelsView:
    """As an admitter of an older version does."""
    return LevelsView.of(None if data is None else {k: v for k, v in data.items() if not k.startswith("pool.")}, now)


class _OlderView:
    of = staticmethod(reads_no_pools)


@pytest.mark.parametrize(
    ("cpus", "gpus", "older_regulator", "older_admitter", "expected"),
    [
        # The regulator is newer. What it closes is closed for both. An older admitter opens no pool.
        (1.0, 9.9, False, True, {"cpus"}),
        (1.0, 9.9, False, False, {"cpus"}),
        (9.9, 1.0, False, True, set()),
        (9.9, 1.0, False, False, {"gpus"}),
        # The admitter is newer, or the regulator was rolled back: one load of all nodes, as before.
        (1.0, 4.0, True, False, {"cpus", "gpus"}),
        (9.9, 9.9, True, False, set()),
    ],
)
async def test_nothing_starts_where_a_newer_regulator_shuts_and_all_as_before_by_an_older_one(
    monkeypatch: pytest.MonkeyPatch,
    cpus: float,
    gpus: float,
    older_regulator: bool,
    older_admitter: bool,
    expected: set[str],
) -> None:
    if older_admitter:
        monkeypatch.setattr("scavenger_admitter.informers.LevelsView", _OlderView)
    async with empty_harness() as c:
        for name, more in NODES.items():
            c.api.put(NODES_RESOURCE, node_dict(name, **more))
        put(c, published(c, cpus=cpus, gpus=gpus, older=older_regulator))
        c.kubelet = False
        c.admitter()
        submit(c, "cpus", gpu=False)
        submit(c, "gpus", gpu=True)
        assert await started(c) == expected


async def test_both_charts_are_upgraded_and_rolled_back_under_a_running_admitter() -> None:
    """The admitter stays; the regulator is upgraded, then rolled back: each time the newest ConfigMap holds."""
    async with empty_harness() as c:
        for name, more in NODES.items():
            c.api.put(NODES_RESOURCE, node_dict(name, **more))
        put(c, published(c, cpus=9.9, gpus=9.9, older=True))
        c.kubelet = False
        c.admitter()
        submit(c, "gpus", gpu=True)
        assert await started(c) == set()
        put(c, published(c, cpus=9.9, gpus=1.0, older=False))
        assert await started(c) == {"gpus"}
        put(c, published(c, cpus=9.9, gpus=9.9, older=True))
        submit(c, "cpus", gpu=False)
        assert await started(c) == {"gpus"}, "no key of a pool is left behind"
