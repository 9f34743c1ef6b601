"""What a job costs the API server: every write of admitter and prioritizer, Events included, counted one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .harness import Harness, empty_harness
from .test_controller import runs

KINDS = {"scavengerjobs": "status", "jobs": "Job", "pods": "pod", "events": "Event"}


def spoken(c: Harness, since: int = 0) -> list[str]:
    """Every write since then in words, such as `POST Job` or `PATCH status`."""
    return [f"{method} {_kind(path)}" for method, path in c.writes()[since:]]


def _kind(path: str) -> str:
    return next((word for plural, word in KINDS.items() if f"/{plural}" in path), path)


@asynccontextmanager
async def both(**settings: object) -> AsyncIterator[Harness]:
    """One node with both services that write about a job, as they are by default."""
    async with empty_harness() as c:
        c.node()
        admitter = c.admitter(**{"explain_after": 5.0, **settings})
        c.prioritizer()
        await c.until(lambda: admitter.admitting)
        yield c


async def test_the_life_of_a_job_is_four_writes() -> None:
    async with both() as c:
        c.submit("a")
        await runs(c, "a")
        await c.pass_time(90)
        c.succeed("a")
        await c.until(lambda: c.phase("a") == "Completed")
        await c.pass_time(30)
        assert spoken(c) == ["POST Job", "PATCH status", "PATCH status", "PATCH pod"]
        assert c.status("a")["queuedTimestamp"] <= c.status("a")["runningTimestamps"][0]


async def test_an_interruption_is_five_writes_and_one_event() -> None:
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
        ]
        assert [event["reason"] for event in c.events()] == ["Interrupted"]
