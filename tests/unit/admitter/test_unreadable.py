"""ScavengerJobs that the admitter cannot read: they are told so, left alone, and hold nobody up."""

from __future__ import annotations

import pytest
from scavenger_admitter.writer import SCAVENGERJOBS

from .harness import NS, Harness, harness, running_job, runs

pytestmark = pytest.mark.slow

SAYS = "the admitter cannot read it, and leaves it alone: spec.image: String should match pattern"


def told(c: Harness, name: str) -> bool:
    return str(c.status(name).get("message")).startswith(SAYS)


async def test_a_job_that_cannot_be_read_is_told_once_and_holds_up_no_takeover() -> None:
    async with harness() as c:
        c.submit("a", image="app\u00a0:1")
        c.submit("b")
        await runs(c, "b", limit=10)
        await c.until(lambda: told(c, "a"), limit=120)
        assert c.phase("a") == ""
        await c._admitters[0].kill()
        writes = c.status_writes("a")
        successor = c.admitter()
        assert await c.until(lambda: successor.admitting) < 2
        await c.pass_time(150, step=5)
        assert c.status_writes("a") == writes
        events = [(event["message"], event["count"]) for event in c.events("Unreadable")]
        assert events == [(c.status("a")["message"], 1)]


async def test_a_job_that_cannot_be_read_any_more_is_left_alone_until_it_can() -> None:
    async with running_job("a") as c:
        c.api.edit(SCAVENGERJOBS, NS, "a", lambda job: job["spec"].update(image="app\u00a0:1"))
        c.succeed("a")
        await c.until(lambda: told(c, "a"), limit=120)
        assert c.phase("a") == "Running"
        writes = c.status_writes("a")
        await c.pass_time(150, step=5)
        assert c.status_writes("a") == writes
        c.api.edit(SCAVENGERJOBS, NS, "a", lambda job: job["spec"].update(image="app:1"))
        await c.until(lambda: c.phase("a") == "Completed", limit=30)
