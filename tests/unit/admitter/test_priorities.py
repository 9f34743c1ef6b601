"""spec.priority: who of a namespace starts first."""

from __future__ import annotations

from functools import partial

from scavenger_admitter.writer import SCAVENGERJOBS

from .harness import NS, Harness, empty_harness


def in_phase(c: Harness, name: str, phase: str) -> bool:
    return c.phase(name) == phase


async def test_the_highest_starts_first_and_a_priority_may_change_while_its_job_waits() -> None:
    async with empty_harness() as c:
        c.node(cpu="10")
        c.submit("running", cpu="6")
        c.admitter()
        await c.until(lambda: c.phase("running") == "Running")
        for name, priority in (("first", 0), ("low", -1), ("high", 5), ("raised", 0)):
            c.submit(name, cpu="6", priority=priority)
            await c.until(partial(in_phase, c, name, "Waiting"))
        c.api.edit(SCAVENGERJOBS, NS, "raised", lambda obj: obj["spec"].update(priority=7))
        await c.pass_time(2)
        for name in ("running", "raised", "high", "first"):
            c.succeed(name)
            await c.until(partial(in_phase, c, name, "Completed"))
            await c.until(lambda: "Running" in c.phases().values(), limit=120)
        assert c.starts() == ["running", "raised", "high", "first", "low"]
