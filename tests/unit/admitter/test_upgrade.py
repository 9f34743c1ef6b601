"""An array that runs while the admitter is upgraded. What the API server had then was written by the version before
status.removing and before grants had numbers: nothing was left out of it, and nothing added."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_api.times import parse_time
from scavenger_kube.resources import JOBS, NODES, PODS

from .harness import NS, Harness, Object, empty_harness

pytestmark = pytest.mark.slow

WRITTEN = json.loads(Path(__file__).with_name("array_of_an_older_version.json").read_text())
"""Eight tasks of a core, of which five ran at a time. Task 0 has completed, 1 failed and runs again, 2 was interrupted
and runs again, 3 to 5 run. Then maxRunning was lowered to 4, and the pod of task 2 was told to go."""
GRACE = timedelta(seconds=30)
BOOKED = 121.0 + 242.0
"""Core-seconds of runs that had ended by then."""


def prune(where: Any, obj: Object) -> Object:
    """As an API server with the older CRD does."""
    if where.plural == "scavengerjobs":
        obj.get("status", {}).pop("removing", None)
    return obj


async def written_by_the_older_version(c: Harness) -> list[Object]:
    """Put there what it had written; returns the pods."""
    written = parse_time(WRITTEN["now"])
    assert written is not None
    await c.pass_time((written - c.clock.now()).total_seconds(), step=60)
    c.api.store.graceful_pods = True
    c.kubelet = False
    for kind in (SCAVENGERJOBS, JOBS, NODES, PODS):
        for obj in WRITTEN["objects"][kind.plural]:
            c.api.put(kind, json.loads(json.dumps(obj)))
    return c.pods("sweep")


def present(c: Harness) -> dict[str, tuple[str, bool]]:
    """The UID of each pod, and whether it was told to go."""
    return {
        pod["metadata"]["name"]: (pod["metadata"]["uid"], "deletionTimestamp" in pod["metadata"])
        for pod in c.pods("sweep")
    }


def computed(c: Harness) -> float:
    """Core-seconds of all runs that have ended since the older version stopped, until they ended or were told to."""
    spans: dict[str, float] = {}
    for entry in c.api.store.history:
        pod = entry.new if entry.kind.plural == "pods" else None
        if pod is None or pod["metadata"]["name"] == "sweep-0":
            continue
        for status in pod["status"].get("containerStatuses", ()):
            if ended := status["state"].get("terminated"):
                first, *ends = (parse_time(ended[name]) for name in ("startedAt", "finishedAt"))
                asked = (
                    parse_time(pod["metadata"].get("deletionTimestamp")) if pod["status"]["phase"] == "Failed" else None
                )
                last = min(at for at in (*ends, asked and asked - GRACE) if at is not None)
                assert first is not None
                spans.setdefault(pod["metadata"]["uid"], (last - first).total_seconds())
    return sum(spans.values())


def succeeded(c: Harness) -> list[str]:
    """The names of all pods that have ever succeeded."""
    ended = {
        entry.new["metadata"]["uid"]: str(entry.new["metadata"]["name"])
        for entry in c.api.store.history
        if entry.kind.plural == "pods" and entry.new is not None and entry.new["status"].get("phase") == "Succeeded"
    }
    return sorted(ended.values())


@pytest.mark.parametrize("crd", ["newer", "older"])
async def test_an_array_that_runs_across_the_upgrade_loses_nothing(crd: str) -> None:
    """The charts may come in any order: the admitter may meet the CRD without status.removing."""
    async with empty_harness() as c:
        await written_by_the_older_version(c)
        if crd == "older":
            c.api.store.prune = prune
        there, status = present(c), c.status("sweep")
        assert all(names.ANNOTATION_GRANT not in pod["metadata"]["annotations"] for pod in c.pods("sweep"))
        c.admitter(managed_jobs=True)
        await c.pass_time(60)
        assert present(c) == there, "no pod is told to go, and none is started"
        assert c.status("sweep")["array"] == status["array"]
        assert c.status("sweep")["interruptedCount"] == 1
        c.kubelet = True
        await c.until(lambda: c.status("sweep")["interruptedCount"] == 2)
        while c.phase("sweep") != "Completed":
            running = [pod for pod in c.pods("sweep") if pod["status"].get("phase") == "Running"]
            assert len(running) <= 4
            await c.pass_time(30)
            c.succeed("sweep")
            await c.pass_time(5)
        end = c.status("sweep")
        assert succeeded(c) == [f"sweep-{index}" for index in range(8)], "each task once"
        assert (end["array"]["completed"], end["array"]["retriesUsed"]) == (8, "1:1")
        assert end["interruptedCount"] == 2
        assert end["usefulCPUSeconds"] + end["lostCPUSeconds"] == pytest.approx(BOOKED + computed(c))
        assert "removing" not in end
        assert c.held() == []
        assert c.jobs_ever("sweep") == 1


async def test_tasks_that_were_being_started_without_a_number_hold_their_capacity() -> None:
    """Two pods of the last start had no node yet: of seven cores they leave two to others."""
    async with empty_harness() as c:
        for pod in await written_by_the_older_version(c):
            if pod["metadata"]["name"] in ("sweep-3", "sweep-4"):

                def unbound(obj: Object) -> None:
                    del obj["spec"]["nodeName"]
                    obj["status"] = {"phase": "Pending"}

                c.api.edit(PODS, NS, pod["metadata"]["name"], unbound)
        c.node("n1", cpu="10")  # room for 7: 70 %
        c.api.edit(SCAVENGERJOBS, NS, "sweep", lambda job: job["spec"]["array"].update(maxRunning=8))
        c.submit("other", cpu="1")
        c.admitter(managed_jobs=True)
        await c.until(lambda: len(c.pods("sweep")) > 6)
        await c.pass_time(20)
        started = sorted(pod["metadata"]["name"] for pod in c.pods("sweep"))
        assert started == [f"sweep-{index}" for index in range(len(started))]
        assert len(started) - 1 + len(c.pods("other")) <= 7, "without the one that has completed"
        c.kubelet = True
        await c.until(lambda: c.phase("other") == "Running")
        assert c.jobs_ever("sweep") == 1
