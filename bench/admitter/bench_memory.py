"""What each service keeps of a large cluster: 100,000 ordinary pods on 5,000 nodes.

A process of its own imports one whole service and lets its informer of pods list from a server that is scripted: the
same bytes that an API server sends, in pages of 500 pods of 3.5 KB, made while they are asked for. Decoding, transform,
cache, handlers and what they fill are the real ones; there is no network, no ScavengerJob, and no watch. The regulator
takes requests for use and the prioritizer knows of nodes of Karpenter: otherwise they list scavenger pods only.

  * rss_100k_pods_mb: the resident set when the list is done.
  * rss_100k_pods_peak_mb: the largest it has been, which is what a memory limit is about.
  * rss_empty_mb: before the list.

Names without a service are the admitter's.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, cast

from scavenger_kube.client import ApiClient
from scavenger_kube.resources import PODS
from scavenger_runtime.clock import SystemClock
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.informer import Informer

from bench.runtime.bench_informer import pod

COUNT: Final = 100_000
PAGE: Final = 500
NODES: Final = 5_000
LONGEST_SECONDS: Final = 300.0
"""An informer that cannot list tries again for ever."""


class ScriptedServer:
    """Lists ordinary pods, page by page."""

    def __init__(self) -> None:
        self._rng = random.Random(1)

    async def request(self, _method: str, _path: str, *, params: dict[str, Any], **_: Any) -> bytes:
        """One page."""
        start = int(params.get("continue") or 0)
        end = start + PAGE
        more = {"continue": str(end)} if end < COUNT else {}
        items = [self._pod(number) for number in range(start, end)]
        return json.dumps({"metadata": {"resourceVersion": "1", **more}, "items": items}).encode()

    async def stream(self, *_: Any, **__: Any) -> AsyncIterator[bytes]:
        """A watch in which nothing happens."""
        await asyncio.Event().wait()
        yield b""

    def _pod(self, number: int) -> dict[str, Any]:
        one = pod(number, self._rng)
        one["metadata"]["labels"] = {
            key.replace("scavenger.dev", "example.com"): value for key, value in one["metadata"]["labels"].items()
        }
        one["spec"]["nodeName"] = f"node-{number % NODES:05}"
        return one


def admitter(client: ApiClient) -> Informer[Any]:
    """The admitter's informer of pods, and the state of the cluster behind it."""
    import scavenger_admitter.controller
    from scavenger_admitter.core.admission.view.state import ClusterState
    from scavenger_admitter.informers import pod_informer

    assert scavenger_admitter.controller
    state = ClusterState()
    pods = pod_informer(client, SystemClock())
    pods.add_handler(lambda change: state.apply_pod(change.obj))
    return pods


def regulator(client: ApiClient) -> Informer[Any]:
    """The regulator's, where requests count as used."""
    from scavenger_regulator.controller import Regulator
    from scavenger_regulator.settings import RegulatorSettings

    made = Regulator(client, RegulatorSettings(source="requests"), SystemClock(), cast("EventRecorder", None))
    return made.pods


def prioritizer(client: ApiClient) -> Informer[Any]:
    """The prioritizer's of ordinary pods, which it follows beside nodes of Karpenter."""
    import scavenger_prioritizer.controller
    from scavenger_prioritizer.neighbours import Neighbours

    assert scavenger_prioritizer.controller
    return Neighbours(client, SystemClock(), wanted=True, after=0, came=lambda: None).pods


def board(client: ApiClient) -> Informer[Any]:
    """The board's, with the facts that pictures are made of."""
    from scavenger_board.controller import BoardView
    from scavenger_board.settings import BoardSettings

    view = BoardView(client, BoardSettings(), SystemClock())
    return next(one for one in view.informers if one.name == PODS.plural)


SERVICES: Final = {made.__name__: made for made in (admitter, regulator, prioritizer, board)}


async def hold(service: str) -> dict[str, float]:
    """List, and say what that took, in MB."""
    pods = SERVICES[service](cast("ApiClient", ScriptedServer()))
    gc.collect()
    empty = _memory("VmRSS")
    following = asyncio.create_task(pods.run())
    async with asyncio.timeout(LONGEST_SECONDS):
        await pods.wait_synced()
    gc.collect()
    assert len(pods) == COUNT
    found = {"empty": empty, "full": _memory("VmRSS"), "peak": _memory("VmHWM")}
    following.cancel()
    return found


def _memory(field: str) -> float:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1e3


def run() -> list[dict[str, Any]]:
    """The figures for bench.json."""
    return [figure for service in SERVICES for figure in _figures(service)]


def _figures(service: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "bench.admitter.bench_memory", service]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    whose = "" if service == "admitter" else f".{service}"
    return [
        {"name": f"scale.rss_100k_pods_mb{whose}", "value": found["full"], "unit": "MB", "goal": "<= 400"},
        {"name": f"scale.rss_100k_pods_peak_mb{whose}", "value": found["peak"], "unit": "MB", "goal": ""},
        {"name": f"scale.rss_empty_mb{whose}", "value": found["empty"], "unit": "MB", "goal": ""},
    ]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(hold(sys.argv[1]))))
