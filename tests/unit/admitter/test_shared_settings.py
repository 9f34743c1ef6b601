"""The admitter goes by the settings of all components as they are at each moment."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from scavenger_admitter.informers import SCAVENGERQUEUES
from scavenger_kube.resources import CONFIGMAPS, PODS
from scavenger_testing.builders import condition, settings_dict

from .harness import Harness, empty_harness, harness, runs

pytestmark = pytest.mark.slow


def write(c: Harness, **data: str) -> None:
    c.api.put(CONFIGMAPS, settings_dict(**data))


def queue(c: Harness, name: str) -> None:
    meta = {"name": name, "namespace": ""}
    body = {"apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerQueue", "metadata": meta}
    c.api.put(SCAVENGERQUEUES, {**body, "spec": {"weight": 1}})


def _mark(condition: dict[str, str], pod: dict[str, Any]) -> None:
    pod["status"]["conditions"] = [condition]


async def interrupted(c: Harness, name: str) -> None:
    """A scheduler gives its place to another pod, and it runs again."""
    before = c.status(name).get("interruptedCount", 0)
    for pod in c.pods(name):
        mark = {**condition("DisruptionTarget", reason="PreemptionByScheduler"), "lastTransitionTime": c.stamp()}
        c.api.edit(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], partial(_mark, mark))
        c.delete_pod(pod)
    await c.until(lambda: c.status(name).get("interruptedCount", 0) > before)
    await runs(c, name)


async def test_a_promised_run_ends_when_the_promise_is_withdrawn() -> None:
    """Fair share takes no job that came back within its interval, until `minimumRun` is false."""
    async with empty_harness() as c:
        c.node(cpu="11")
        for name in ("ours", "theirs"):
            queue(c, name)
        write(c, minimumRun="true")
        c.admitter(fallback_admission_percent=100, reclaim_period=1.0)
        for number in range(5):
            c.submit(f"ours-{number}", queue="ours", cpu="2", interruption_after="1h")
            await runs(c, f"ours-{number}")
        for number in range(5):
            await interrupted(c, f"ours-{number}")
        c.submit("theirs-0", queue="theirs", cpu="2")
        await c.pass_time(30)
        assert c.phase("theirs-0") == "Waiting"
        assert {c.phase(f"ours-{number}") for number in range(5)} == {"Running"}
        write(c, minimumRun="false")
        assert await runs(c, "theirs-0") < 30


def places(c: Harness) -> tuple[int, int]:
    """Interruptions of the job, and those that give it a better place."""
    count = c.status("a")["interruptedCount"]
    return count, count - c.status("a").get("ownInterruptedCount", 0)


@pytest.mark.parametrize(("trusted", "earned"), [("7200", 1), ("600", 0)])
async def test_an_ending_is_judged_by_the_settings_of_its_moment(trusted: str, earned: int) -> None:
    """A run that is shorter than its promised interval gives a better place, as far as the promise is trusted. What was
    decided before stands."""
    async with harness(interrupted_first="short-runs", reclaim_period=1.0) as c:
        c.submit("a", interruption_after="2h")
        await runs(c, "a")
        await c.pass_time(1200, step=60)
        write(c, trustedIntervalSeconds=trusted)
        await c.turn()
        await interrupted(c, "a")
        assert places(c) == (1, earned)
        write(c, trustedIntervalSeconds="1")
        await c.pass_time(5)
        assert places(c) == (1, earned)
