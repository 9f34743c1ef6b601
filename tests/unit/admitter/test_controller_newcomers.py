"""A job without a status: its place in line, and the write that is saved when it is started at once."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_admitter.reconciler import Reconciler
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_kube.resources import JOBS
from scavenger_runtime.reconcile import Result

from .harness import NS, empty_harness, harness, runs


async def test_who_is_started_at_once_is_written_once_less() -> None:
    async with harness() as c:
        c.submit("a")
        await c.until(lambda: c.phase("a") == "Running")
        [job] = c.api.list(JOBS)
        assert c.status("a")["queuedTimestamp"] == job["metadata"]["annotations"][names.ANNOTATION_RUN]
        assert c.status_writes("a") == 1, "Running, and neither Waiting nor Starting before"


async def test_who_has_to_wait_is_told_its_place_a_moment_later() -> None:
    async with harness() as c:
        c.submit("huge", cpu="1000")
        took = await c.until(lambda: c.phase("huge") == "Waiting", limit=5)
        place = c.status("huge")["queuedTimestamp"]
        await c.pass_time(30)
        assert took <= 1.5
        assert c.status("huge")["queuedTimestamp"] == place


async def test_who_came_first_goes_first_whatever_becomes_of_the_first_writes() -> None:
    async with empty_harness() as c:
        c.node(cpu="2")  # one at a time
        admitter = c.admitter()
        await c.until(lambda: admitter.admitting)
        c.conflict_on_first_writes()
        arrivals = ["z", "y", "x", "w", "v"]
        for name in arrivals:
            c.submit(name)
        for name in arrivals:
            await runs(c, name)
            c.succeed(name)
        assert c.starts() == arrivals


async def test_who_was_never_written_is_lined_up_by_age_when_the_leader_changes() -> None:
    async with empty_harness() as c:
        c.node(cpu="2")  # one at a time
        arrivals = ["z", "y", "x", "w"]
        for name in arrivals:
            c.submit(name)
        admitter = c.admitter()
        await c.until(lambda: admitter.admitting)
        for name in arrivals:
            await runs(c, name)
            c.succeed(name)
        assert c.starts() == arrivals


async def test_a_leader_that_dies_between_the_job_and_the_first_status_starts_nothing_twice() -> None:
    async with empty_harness() as c:
        c.node()
        first = c.admitter()
        await c.until(lambda: first.admitting)
        c.api.fail(500, times=10**6, methods={"PATCH"}, path="/scavengerjobs/a/status")
        c.submit("a")
        await c.until(lambda: c.jobs_ever("a") == 1)
        [job] = c.api.list(JOBS)
        assert c.phase("a") == ""
        await first.kill()
        c.api.heal()
        c.admitter()
        await c.until(lambda: c.phase("a") == "Running")
        assert c.jobs_ever("a") == 1
        assert c.status("a")["queuedTimestamp"] == job["metadata"]["annotations"][names.ANNOTATION_RUN]


async def test_one_that_came_again_under_the_same_name_has_a_place_of_its_own() -> None:
    async with harness() as c:
        c.submit("a", cpu="1000")
        await c.until(lambda: c.phase("a") == "Waiting")
        place = c.status("a")["queuedTimestamp"]
        c.api.remove(SCAVENGERJOBS, NS, "a")
        c.submit("a", cpu="1000")
        await c.until(lambda: c.phase("a") == "Waiting")
        assert c.status("a")["queuedTimestamp"] > place


async def test_a_newcomer_on_its_way_out_costs_nothing() -> None:
    async with harness() as c:
        c.submit("a", cpu="1000")

        def terminating(job: dict[str, Any]) -> None:
            job["metadata"] |= {"deletionTimestamp": c.stamp(), "finalizers": ["somebody/else"]}

        c.api.edit(SCAVENGERJOBS, NS, "a", terminating)
        await c.pass_time(5)
        assert c.phase("a") == ""
        assert c.writes() == []


async def test_a_newcomer_goes_before_what_a_leader_looks_at_for_the_first_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with empty_harness() as c:
        looked_at: list[str] = []
        reconcile = Reconciler.reconcile

        async def noted(self: Reconciler, key: str) -> Result | None:
            looked_at.append(key)
            if len(looked_at) == 5:
                c.submit("late", cpu="1000")
                await c.clock.sleep(0.5)
            return await reconcile(self, key)

        monkeypatch.setattr(Reconciler, "reconcile", noted)
        for number in range(40):
            c.submit(f"old{number}", cpu="1000")
        admitter = c.admitter(workers=1)
        await c.until(lambda: admitter.admitting)
        assert looked_at.index(f"{NS}/late") == 5, "the next one"
