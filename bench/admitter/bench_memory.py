"""What the admitter keeps of a large cluster: 100,000 ordinary pods on 5,000 nodes.

A process of its own imports the whole admitter and lets its informer of pods list from a server that is scripted: the
same bytes that an API server sends, in pages of 500 pods of 3.5 KB, made while they are asked for. Decoding, transform,
cache, indices and the state of the cluster are the real ones; there is no network, no ScavengerJob, and no watch.

  * rss_100k_pods_mb: the resident set when the list is done.
  * rss_100k_pods_peak_mb: the largest it has been, which is what a memory limit is about.
  * rss_empty_mb: before the list.
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


async def hold() -> dict[str, float]:
    """List, and say what that took, in MB."""
    import scavenger_admitter.controller
    from scavenger_admitter.core.admission.view.state import ClusterState
    from scavenger_admitter.facts import without_details
    from scavenger_admitter.informers import pod_indices

    assert scavenger_admitter.controller
    state = ClusterState()
    client = cast("ApiClient", ScriptedServer())
    pods = Informer(client, PODS, indices=pod_indices(), transform=without_details)
    pods.add_handler(lambda change: state.apply_pod(change.obj))
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
    command = [sys.executable, "-m", "bench.admitter.bench_memory"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    return [
        {"name": "scale.rss_100k_pods_mb", "value": found["full"], "unit": "MB", "goal": "<= 400"},
        {"name": "scale.rss_100k_pods_peak_mb", "value": found["peak"], "unit": "MB", "goal": ""},
        {"name": "scale.rss_empty_mb", "value": found["empty"], "unit": "MB", "goal": ""},
    ]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(hold())))
