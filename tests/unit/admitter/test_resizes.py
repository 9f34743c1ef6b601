"""Pods that are resized in place: what they really requested is what is booked, through restarts of the admitter."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_api import names
from scavenger_domain.sizes import parse_sizes
from scavenger_kube.resources import PODS

from .harness import NS, Harness, Object, empty_harness, harness, running_job, runs

KEY = names.ANNOTATION_REQUESTED_CPU


def resize(c: Harness, pod: Object, cpu: str) -> None:
    """What the API server and the kubelet make of a resize that the node has capacity for."""

    def edit(obj: Object) -> None:
        for side in ("requests", "limits"):
            obj["spec"]["containers"][0]["resources"].setdefault(side, {})["cpu"] = cpu
        obj["metadata"]["generation"] = 2
        for status in obj["status"].get("containerStatuses", ()):
            status |= {"resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": cpu}}

    c.api.edit(PODS, NS, pod["metadata"]["name"], edit)


def note(c: Harness, name: str = "a") -> list[int]:
    """The amounts that are noted on the pod of a job, in millicores."""
    (pod,) = c.pods(name)
    return [cpu for _, cpu in parse_sizes(pod["metadata"].get("annotations", {}).get(KEY))]


def booked(c: Harness, name: str = "a") -> float:
    status = c.status(name)
    return float(status["usefulCPUSeconds"] + status["lostCPUSeconds"])


@pytest.mark.parametrize("spec", [{}, {"array": {"tasks": 1}}], ids=["job", "array"])
async def test_each_amount_is_booked_for_its_time(spec: dict[str, Any]) -> None:
    async with harness() as c:
        c.submit("a", cpu="1", interruptionAfter="2h", **spec)
        await runs(c, "a")
        await c.pass_time(600, step=5)
        resize(c, c.pods("a")[0], "4")
        await c.until(lambda: note(c) == [1000, 4000])
        await c.pass_time(600, step=5)
        c.delete_pod(c.pods("a")[0])
        await c.until(lambda: c.status("a").get("interruptedCount") == 1)
        assert booked(c) == pytest.approx(600 + 2400, abs=20)


async def test_what_was_given_back_is_booked_as_given_back() -> None:
    async with harness() as c:
        c.submit("a", cpu="4", interruptionAfter="2h")
        await runs(c, "a")
        for cpu, noted in (("2", [4000, 2000]), ("4", [4000, 2000, 4000])):
            await c.pass_time(300, step=5)
            resize(c, c.pods("a")[0], cpu)
            await c.until(lambda noted=noted: note(c) == noted)  # type: ignore[misc]
        await c.pass_time(300, step=5)
        c.succeed("a")
        await c.until(lambda: c.phase("a") == "Completed")
        assert booked(c) == pytest.approx(300 * (4 + 2 + 4), abs=30)


async def test_a_restart_of_the_admitter_loses_no_interval() -> None:
    async with empty_harness() as c:
        c.node()
        first = c.admitter()
        c.submit("a", cpu="1", interruptionAfter="2h")
        await runs(c, "a")
        await c.pass_time(300, step=5)
        resize(c, c.pods("a")[0], "4")
        await c.until(lambda: note(c) == [1000, 4000])
        await c.pass_time(300, step=5)
        await first.kill()
        resize(c, c.pods("a")[0], "2")
        c.admitter()
        await c.until(lambda: note(c) == [1000, 4000, 2000])
        await c.pass_time(300, step=5)
        c.delete_pod(c.pods("a")[0])
        await c.until(lambda: c.status("a").get("interruptedCount") == 1)
        assert booked(c) == pytest.approx(300 * (1 + 4 + 2), abs=30)


async def test_what_was_resized_while_no_admitter_ran_counts_from_when_one_does() -> None:
    async with empty_harness() as c:
        c.node()
        first = c.admitter()
        c.submit("a", cpu="1", interruptionAfter="2h")
        await runs(c, "a")
        await first.kill()
        resize(c, c.pods("a")[0], "4")
        await c.pass_time(300, step=5)
        c.admitter()
        await c.until(lambda: note(c) == [1000, 4000])
        await c.pass_time(300, step=5)
        c.delete_pod(c.pods("a")[0])
        await c.until(lambda: c.status("a").get("interruptedCount") == 1)
        assert booked(c) == pytest.approx(300 + 1200, abs=30)


async def test_a_note_that_could_not_be_written_is_written_later_with_its_time() -> None:
    async with running_job() as c:
        c.submit("a", cpu="1", interruptionAfter="2h")
        await runs(c, "a")
        c.api.fail(500, times=1000, methods={"PATCH"}, path=f"/pods/{c.pods('a')[0]['metadata']['name']}")
        resize(c, c.pods("a")[0], "4")
        await c.pass_time(100, step=5)
        assert note(c) == []
        resize(c, c.pods("a")[0], "2")
        await c.pass_time(100, step=5)
        c.api.heal()
        await c.until(lambda: note(c) == [1000, 4000, 2000])
        (_, (first, _), (second, _)) = parse_sizes(c.pods("a")[0]["metadata"]["annotations"][KEY])
        assert (second - first) / 1e6 == pytest.approx(100, abs=6)


async def test_pods_that_nobody_resizes_cost_no_write() -> None:
    async with running_job("a", "b") as c:
        await c.pass_time(60)
        assert all(KEY not in pod["metadata"].get("annotations", {}) for one in ("a", "b") for pod in c.pods(one))
        assert not [path for method, path in c.writes() if method == "PATCH" and "/pods/" in path]
