"""Jobs that start after others, by the admitter as a whole: docs/designs/0033-jobs-after-jobs.md."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_admitter.core.lifecycle import other_jobs
from scavenger_admitter.core.lifecycle.other_jobs import MAX_LOOKED, OtherJob, find_circle
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api.after import FollowedJob
from scavenger_api.job import Phase
from scavenger_kube.resources import JOBS
from scavenger_testing.builders import scavengerjob_dict

from . import builders as b
from .harness import NS, Harness, empty_harness, harness, runs

COMPLETED = [{"job": "first", "when": "Completed"}]
ENDED = [{"job": "first", "when": "Ended"}]
NEVER = "DependencyNeverSatisfied"


def reason(c: Harness, name: str) -> str:
    found = (one["reason"] for one in c.status(name).get("conditions", ()) if one["type"] == "Admitted")
    return next(found, "")


def uid(c: Harness, name: str) -> str:
    job = c.api.get(SCAVENGERJOBS, NS, name)
    assert job is not None
    return str(job["metadata"]["uid"])


def delete(c: Harness, name: str) -> None:
    c.api.delete(SCAVENGERJOBS, NS, name)


async def completes(c: Harness, name: str) -> None:
    c.succeed(name)
    await c.until(lambda: c.phase(name) == "Completed", limit=200)


async def fails(c: Harness, name: str) -> None:
    for pod in c.pods(name):
        c.end(pod, 1)
    await c.until(lambda: c.phase(name) == "Failed")


# --- the plain course ---


@pytest.mark.parametrize("array", [None, {"tasks": 2}], ids=["job", "array"])
async def test_a_job_starts_when_the_other_one_has_completed(array: dict[str, Any] | None) -> None:
    more = {} if array is None else {"array": array}
    async with harness() as c:
        c.submit("first", **more)
        c.submit("second", after=COMPLETED, **more)
        await runs(c, "first")
        await c.pass_time(20)
        assert c.phase("second") == "Waiting"
        assert reason(c, "second") == "Dependency"
        assert c.status("second")["message"] == "by spec.after it waits for job first to complete"
        assert c.status("second")["after"] == [{"job": "first", "uid": uid(c, "first")}]
        await completes(c, "first")
        await runs(c, "second")
        assert c.status("second")["after"] == [{"job": "first", "uid": uid(c, "first"), "ended": "Completed"}]


async def test_the_end_of_an_adopted_job_of_that_name_says_nothing() -> None:
    """A Job of batch/v1 is another object, which nobody can name there."""
    async with harness(adopt=True) as c:
        c.submit_job("first")
        c.submit("second", after=COMPLETED)
        await c.until(lambda: c.pods("first") and c.pods("first")[0]["status"].get("phase") == "Running")
        c.end(c.pods("first")[0])
        await c.until(lambda: c.job_condition("first", "Complete"))
        c.api.delete(JOBS, NS, "first")
        await c.pass_time(30)
        assert c.status("second").get("after", [{}])[0].get("ended") is None
        assert c.pods("second") == []


@pytest.mark.parametrize("array", [None, {"tasks": 2}], ids=["job", "array"])
async def test_what_held_it_back_is_not_said_any_more_when_it_waits_for_capacity(array: dict[str, Any] | None) -> None:
    more = {} if array is None else {"array": array}
    async with harness() as c:
        c.submit("first")
        c.submit("second", after=COMPLETED, queue="missing", **more)
        await runs(c, "first")
        await c.until(lambda: reason(c, "second") == "Dependency")
        await completes(c, "first")
        await c.until(lambda: reason(c, "second") == "QueueMissing")


async def test_a_failure_is_an_end_for_those_that_wait_for_an_end_alone() -> None:
    async with harness() as c:
        c.submit("first")
        c.submit("either", after=ENDED)
        c.submit("strict", after=COMPLETED)
        await runs(c, "first")
        await c.until(lambda: reason(c, "strict") == "Dependency")
        await fails(c, "first")
        await runs(c, "either")
        await c.until(lambda: reason(c, "strict") == NEVER)
        said = "cannot start as things are: job first failed, and spec.after wants it to complete"
        assert c.status("strict")["message"].startswith(said)
        assert len(c.events("CannotStart")) == 1
        assert c.jobs_ever("strict") == 0


async def test_it_waits_for_all_of_them() -> None:
    async with harness() as c:
        for name in ("first", "other"):
            c.submit(name)
            await runs(c, name)
        c.submit("last", after=[*COMPLETED, {"job": "other", "when": "Ended"}])
        await c.until(lambda: "; 1 more are to end" in c.status("last").get("message", ""))
        await completes(c, "first")
        await c.until(lambda: "for job other to complete or fail" in c.status("last")["message"])
        await c.pass_time(5)
        assert c.jobs_ever("last") == 0
        await fails(c, "other")
        await runs(c, "last")


async def test_an_array_that_failed_and_goes_on_may_complete() -> None:
    async with harness() as c:
        c.submit("first", array={"tasks": 1})
        c.submit("second", after=COMPLETED)
        await runs(c, "first")
        await c.until(lambda: reason(c, "second") == "Dependency")
        await fails(c, "first")
        await c.until(lambda: reason(c, "second") == NEVER)

        def retry(obj: dict[str, Any]) -> None:
            obj["spec"]["array"]["retry"] = 1

        c.api.edit(SCAVENGERJOBS, NS, "first", retry)
        await c.until(lambda: reason(c, "second") == "Dependency")
        await runs(c, "first")
        await completes(c, "first")
        await runs(c, "second")


async def test_it_keeps_no_place_while_it_waits_for_others() -> None:
    async with empty_harness() as c:
        c.node(cpu="2")
        c.admitter()
        c.submit("first")
        await runs(c, "first")
        c.submit("second", after=COMPLETED)
        await c.until(lambda: reason(c, "second") == "Dependency")
        await c.pass_time(5)
        c.submit("third")
        await c.until(lambda: c.phase("third") == "Waiting")
        await completes(c, "first")
        await runs(c, "third")
        assert c.phase("second") == "Waiting"


async def test_it_waits_no_more_when_it_is_interrupted_after_the_others_are_gone() -> None:
    async with harness() as c:
        c.submit("first")
        c.submit("second", after=COMPLETED)
        await runs(c, "first")
        await completes(c, "first")
        await runs(c, "second")
        delete(c, "first")
        c.delete_pod(c.pods("second")[0])
        await c.until(lambda: c.status("second").get("interruptedCount") == 1)
        await runs(c, "second")


async def test_a_suspended_job_sees_the_end_of_the_others() -> None:
    async with harness() as c:
        c.submit("first")
        c.submit("second", after=COMPLETED, suspend=True)
        await runs(c, "first")
        await completes(c, "first")
        await c.until(lambda: "ended" in (c.status("second").get("after") or [{}])[0])
        delete(c, "first")

        def resume(obj: dict[str, Any]) -> None:
            obj["spec"]["suspend"] = False

        c.api.edit(SCAVENGERJOBS, NS, "second", resume)
        await runs(c, "second")


# --- names ---


async def test_a_job_that_is_named_may_come_later() -> None:
    async with harness() as c:
        c.submit("second", after=COMPLETED)
        await c.until(lambda: reason(c, "second") == "Dependency")
        said = "by spec.after it waits for job first, which does not exist yet, to complete"
        assert c.status("second")["message"] == said
        c.submit("first")
        await runs(c, "first")
        await completes(c, "first")
        await runs(c, "second")


async def test_one_that_completes_and_goes_at_once_is_not_missed() -> None:
    async with harness() as c:
        for number in range(20):
            c.submit(f"second-{number}", after=COMPLETED)
        c.submit("first", ttlSecondsAfterFinished=0)
        await runs(c, "first")
        c.succeed("first")
        await c.until(lambda: c.api.get(SCAVENGERJOBS, NS, "first") is None, limit=200)
        for number in range(20):
            await runs(c, f"second-{number}")


async def test_one_that_goes_before_its_end_lets_nobody_start() -> None:
    async with harness() as c:
        c.submit("first")
        c.submit("second", after=ENDED)
        await runs(c, "first")
        await c.until(lambda: c.status("second").get("after"))
        delete(c, "first")
        await c.until(lambda: reason(c, "second") == NEVER)
        assert "job first of spec.after was deleted before its end was seen" in c.status("second")["message"]


async def test_another_job_of_its_name_lets_nobody_start() -> None:
    async with harness() as c:
        c.submit("first")
        c.submit("second", after=COMPLETED)
        await runs(c, "first")
        await c.until(lambda: c.status("second").get("after"))
        before = c.status("second")["after"]
        delete(c, "first")
        await c.until(lambda: c.api.get(SCAVENGERJOBS, NS, "first") is None)
        c.submit("first")
        await runs(c, "first")
        await completes(c, "first")
        await c.pass_time(10)
        assert reason(c, "second") == NEVER
        assert c.status("second")["after"] == before
        assert c.jobs_ever("second") == 0


async def test_a_job_of_that_name_in_another_namespace_is_not_it() -> None:
    async with harness() as c:
        c.submit("second", after=COMPLETED)
        ended = scavengerjob_dict("first", namespace="other", created=c.stamp())
        c.api.put(SCAVENGERJOBS, {**ended, "status": {"phase": "Completed"}})
        await c.pass_time(10)
        assert "which does not exist yet" in c.status("second")["message"]
        assert c.jobs_ever("second") == 0


async def test_a_successor_knows_of_an_end_that_was_seen() -> None:
    async with empty_harness() as c:
        before = c.admitter()
        c.submit("second", after=COMPLETED)  # there is no node
        c.api.put(SCAVENGERJOBS, {**scavengerjob_dict("first", namespace=NS), "status": {"phase": "Completed"}})
        await c.until(lambda: "ended" in (c.status("second").get("after") or [{}])[0])
        await before.kill()
        delete(c, "first")
        c.node()
        c.admitter()
        await runs(c, "second")


# --- circles ---


async def test_jobs_that_wait_for_each_other_say_so() -> None:
    async with harness() as c:
        c.submit("a", after=[{"job": "b"}])
        await c.until(lambda: reason(c, "a") == "Dependency")
        c.submit("b", after=[{"job": "a"}])
        for name, way in (("a", "a → b → a"), ("b", "b → a → b")):
            await c.until(lambda name=name: reason(c, name) == NEVER)  # type: ignore[misc]
            assert f"it waits for itself by spec.after: {way}: delete one of these jobs" in c.status(name)["message"]
        delete(c, "b")
        await c.until(lambda: "deleted before its end" in c.status("a")["message"])


@pytest.mark.parametrize("length", [2, 3, 50])
def test_a_circle_is_found_from_each_of_its_jobs(length: int) -> None:
    for first in range(length):
        found = find_circle(str(first), lambda name: [str((int(name) + 1) % length)])
        assert found == (*(str((first + step) % length) for step in range(length)), str(first))


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 9), max_size=4), max_size=10))
def test_a_way_is_found_exactly_where_there_is_one(edges: dict[int, list[int]]) -> None:
    def named(name: str) -> list[str]:
        return [str(one) for one in edges.get(int(name), ())]

    reachable: set[str] = set()
    line = ["0"]
    while line:
        new = set(named(line.pop())) - reachable
        reachable |= new
        line += new
    found = find_circle("0", named)
    assert bool(found) == ("0" in reachable)
    if found:
        assert found[0] == found[-1] == "0"
        assert all(to in named(at) for at, to in pairwise(found))


def test_a_search_for_a_circle_is_bounded() -> None:
    asked = []

    def named(name: str) -> list[str]:
        asked.append(name)
        return [f"{name}{one}" for one in "ab"]

    assert find_circle("x", named) == ()
    assert len(asked) <= MAX_LOOKED


# --- what it costs ---


@pytest.mark.parametrize("jobs", [100, pytest.param(1000, marks=pytest.mark.long)])
async def test_many_jobs_that_wait_for_one_start_when_it_ends(jobs: int) -> None:
    async with empty_harness() as c:
        c.node(cpu="10000", memory="10000Gi")
        c.admitter(write_rate=10000.0)
        c.submit("first")
        await runs(c, "first")
        for number in range(jobs):
            c.submit(f"second-{number:03d}", after=COMPLETED)
        await c.until(lambda: all("after" in c.status(f"second-{n:03d}") for n in range(jobs)), limit=120)
        before = len(c.writes())
        await c.pass_time(10)
        assert len(c.writes()) - before < 20  # those that wait cost nothing
        assert c.status_writes("second-050") == 1
        await completes(c, "first")
        await c.until(lambda: all("ended" in c.status(f"second-{n:03d}")["after"][0] for n in range(jobs)), limit=120)
        assert c.status_writes("second-050") <= 3
        await runs(c, "second-000", limit=200)


def test_what_is_seen_of_another_job_costs_a_write_at_once() -> None:
    known = b.job(Phase.WAITING, spec={"after": COMPLETED})
    found = b.decide(b.seen(known, 100, others=[OtherJob("first", "u1", None)]))
    assert found.changed
    assert found.quiet_until is None
    assert found.status.after == (FollowedJob(job="first", uid="u1"),)
    assert not found.candidate


def test_a_job_that_has_run_waits_for_nobody() -> None:
    job = b.job(Phase.INTERRUPTED, running=[1], spec={"after": COMPLETED})
    assert other_jobs.waits_for(job) == ()


def test_a_message_of_a_long_circle_is_short() -> None:
    known = b.job(Phase.WAITING, spec={"after": COMPLETED})
    way = [f"job-{number}" for number in range(900)]
    others = [OtherJob("first", "u1", None)]
    found = b.decide(b.seen(known, 100, others=others, circle=[*way, "job-0"]))
    assert len(found.status.message or "") < 250
    assert "job-5 → job-6 → … → job-0" in (found.status.message or "")
