"""What a job costs the API server: every write of admitter and prioritizer, Events included, counted one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from scavenger_admitter.metrics import LOST_CPU_SECONDS, USEFUL_CPU_SECONDS
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_kube.resources import JOBS

from .harness import NS, Harness, Object, empty_harness, runs
from .test_controller import ALWAYS

pytestmark = pytest.mark.slow

KINDS = {"scavengerjobs": "status", "jobs": "Job", "pods": "pod", "events": "Event"}


def spoken(c: Harness, since: int = 0) -> list[str]:
    """Every write since then in words, such as `POST Job` or `PATCH status`."""
    return [f"{method} {_kind(path)}" for method, path in c.writes()[since:]]


def _kind(path: str) -> str:
    return next((word for plural, word in KINDS.items() if f"/{plural}" in path), path)


@asynccontextmanager
async def both(**settings: Any) -> AsyncIterator[Harness]:
    """One node with both services that write about a job, as they are by default."""
    async with empty_harness() as c:
        c.node()
        admitter = c.admitter(**{"explain_after": 5.0, **settings})
        c.prioritizer()
        await c.until(lambda: admitter.admitting)
        yield c


async def test_the_life_of_a_job_is_six_writes() -> None:
    async with both() as c:
        c.submit("a")
        await runs(c, "a")
        await c.pass_time(90)
        c.succeed("a")
        await c.until(lambda: c.phase("a") == "Completed")
        await c.pass_time(30)
        found = spoken(c)
        assert found[:4] == ["POST Job", "POST pod", "PATCH status", "PATCH status"]
        assert sorted(found[4:]) == ["PATCH Job", "PATCH pod"]
        assert c.status("a")["queuedTimestamp"] <= c.status("a")["runningTimestamps"][0]
        assert c.status("a")["starts"] == 1, "written with the status Running"


async def test_the_life_of_a_protected_job_is_eight_writes() -> None:
    async with both() as c:
        for name in "abc":
            c.submit(name)
        for name in "abc":
            await runs(c, name)
        await c.pass_time(90)
        for name in "abc":
            c.succeed(name)
        await c.until(lambda: set(c.phases().values()) == {"Completed"})
        await c.pass_time(30)
        # a third is preemptible, and a job that becomes so while others complete costs its label and its status again
        assert len([path for _, path in c.writes() if "poddisruptionbudgets" not in path]) <= 3 * 8
        assert c.events() == []


async def test_a_start_that_takes_long_is_spoken_of_after_five_seconds() -> None:
    async with both() as c:
        c.kubelet = False
        c.submit("a")
        took = await c.until(lambda: c.phase("a") == "Starting")
        assert 4.5 <= took <= 6
        assert c.status("a")["jobName"] == "a"
        c.kubelet = True
        await runs(c, "a")
        assert spoken(c) == ["POST Job", "POST pod", "PATCH status", "PATCH status"]


async def test_a_job_that_never_starts_is_told_so_in_one_write_and_an_event_after_five_seconds() -> None:
    async with both() as c:
        c.submit("a", cpu="1000")
        took = await c.until(lambda: c.phase("a") == "Waiting")
        assert 4.5 <= took <= 6
        assert "1000 cpu" in c.status("a")["message"]
        await c.pass_time(30)
        assert spoken(c) == ["PATCH status", "POST Event"]


async def test_a_job_that_somebody_deletes_again_and_again_is_started_after_growing_delays() -> None:
    async with both() as c:
        c.submit("a")
        for _ in range(60):
            await c.pass_time(1)
            if c.api.get(JOBS, NS, "a") is not None:
                c.api.remove(JOBS, NS, "a")
        assert 2 <= c.jobs_ever("a") <= 5
        assert "its Job was deleted" in c.status("a")["message"]


async def test_a_short_interval_between_checkpoints_is_no_write_a_second() -> None:
    async with both() as c:
        c.submit("a", interruptionAfter="1s")
        await runs(c, "a")
        before = len(c.writes())
        await c.pass_time(300)
        assert 4 <= spoken(c, before).count("PATCH status") <= 6


async def test_an_interruption_is_six_writes_and_one_event() -> None:
    async with both() as c:
        c.submit("a")
        await runs(c, "a")
        await c.pass_time(90)
        before = len(c.writes())
        c.stopping = 143
        c.delete_pod(c.pods("a")[0])
        await c.until(lambda: c.status("a")["interruptedCount"] == 1)
        await runs(c, "a")
        await c.pass_time(60)
        found = spoken(c, before)
        assert sorted(found) == [
            "DELETE Job",
            "PATCH pod",
            "PATCH status",
            "PATCH status",
            "POST Event",
            "POST Job",
            "POST pod",
        ]
        assert [event["reason"] for event in c.events()] == ["Interrupted"]


async def test_a_pod_is_let_go_once_though_its_watch_does_not_show_it() -> None:
    async with empty_harness() as c:
        c.node()
        first = c.admitter()
        c.submit("a")
        await runs(c, "a")
        await first.kill()
        c.succeed("a")
        c.api.hang(times=ALWAYS, methods={"GET"}, path="/api/v1/pods?watch")
        c.admitter()
        await c.until(lambda: c.phase("a") == "Completed" and not c.held())
        for number in range(3):
            labels = {"number": str(number)}
            c.api.edit(SCAVENGERJOBS, NS, "a", partial(_label, labels))
            await c.pass_time(3)
        assert spoken(c).count("PATCH pod") == 1


def _label(labels: dict[str, str], job: Object) -> None:
    job["metadata"]["labels"] = labels


async def interrupted(c: Harness, said: str) -> None:
    """A pod is deleted, takes a while to stop, and says something as it ends; the job runs again."""
    count = c.status("a")["interruptedCount"]
    c.stopping, c.last_words, c.kubelet = 143, said, False
    c.delete_pod(c.pods("a")[0])
    await c.until(lambda: c.status("a")["interruptedCount"] == count + 1)
    await c.pass_time(2)
    c.kubelet = True
    await runs(c, "a")


async def test_what_was_saved_after_all_is_one_write_more_and_no_loss_on_metrics() -> None:
    async with both() as c:
        useful, lost = (one.labels("default")._value for one in (USEFUL_CPU_SECONDS, LOST_CPU_SECONDS))
        c.submit("a", interruptionAfter="1h")
        await runs(c, "a")
        await c.pass_time(90)
        before, shown = len(c.writes()), (useful.get(), lost.get())
        await interrupted(c, "checkpoint={now}")
        status = c.status("a")
        assert status["lostCPUSeconds"] == 0
        assert status["usefulCPUSeconds"] > 80
        assert "endedTimestamp" not in status
        assert spoken(c, before).count("PATCH status") == 3
        assert useful.get() - shown[0] == status["usefulCPUSeconds"]
        assert lost.get() == shown[1], "a counter takes nothing back: it is told what is certain"


async def test_what_is_no_checkpoint_costs_no_write() -> None:
    async with both() as c:
        lost = LOST_CPU_SECONDS.labels("default")._value
        c.submit("a", interruptionAfter="1h")
        await runs(c, "a")
        await c.pass_time(90)
        before, shown = len(c.writes()), lost.get()
        await interrupted(c, "checkpoint=long ago")
        assert spoken(c, before).count("PATCH status") == 2
        assert lost.get() - shown == c.status("a")["lostCPUSeconds"] > 80
