"""Adopted Jobs that become regular Jobs, step by step, on the API server in memory; the Job controller is played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from scavenger_admitter import uninstall
from scavenger_admitter.release import WEBHOOK_KIND, _send, carry_out, pod_of, release_all
from scavenger_api import names
from scavenger_api.times import format_micro_time
from scavenger_domain import release
from scavenger_domain.release import End, ReleaseError, Request, Target
from scavenger_kube.resources import JOBS, LEASES, PODS

from .harness import NS, Harness, Object, empty_harness
from .test_adopted_jobs import adopting, held_true, living, only_pod, report, running_job, state, status, until

pytestmark = pytest.mark.slow


def target(c: Harness, name: str = "a", **more: Any) -> Target:
    return Target(NS, name, pod_of=pod_of, now=c.clock.now, **more)


def play_controller(c: Harness) -> None:
    """The built-in Job controller, as far as suspended Jobs are concerned."""
    for job in c.api.list(JOBS):
        if job["spec"].get("managedBy") or "deletionTimestamp" in job["metadata"] or not job["spec"].get("suspend"):
            continue
        said = job.get("status", {}).get("conditions", ())
        if not any(one["type"] == "Suspended" and one["status"] == "True" for one in said):
            suspended = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}

            def edit(found: Object, said: Any = said, suspended: Object = suspended) -> None:
                found["status"] = {**found.get("status", {}), "conditions": [*said, suspended]}

            c.api.edit(JOBS, NS, job["metadata"]["name"], edit)


def collect(c: Harness) -> None:
    """The garbage collector."""
    there = {job["metadata"]["uid"] for job in c.api.list(JOBS)}
    for pod in c.api.list(PODS):
        owners = pod["metadata"].get("ownerReferences", ())
        if owners and owners[0]["uid"] not in there and "deletionTimestamp" not in pod["metadata"]:
            c.api.delete(PODS, NS, pod["metadata"]["name"], grace=0)


def lead(c: Harness) -> None:
    """An admitter renews its Lease."""
    spec = {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": format_micro_time(c.clock.now())}
    c.api.put(LEASES, {"metadata": {"name": names.ADMITTER, "namespace": names.SYSTEM_NAMESPACE}, "spec": spec})


async def step_by_step(
    c: Harness, wanted: Target, *, most: int = 10_000, lose: bool = False, led: bool = True, before: str = "-"
) -> End | None:
    """As `carry_out`, for at most so many requests. lose: the answers of writes do not arrive. led: by an admitter.
    before: up to a request for this."""
    steps, answer, client, sent = release.release(wanted), None, c.user(), 0
    while True:
        if led:
            lead(c)
        try:
            step = steps.send(answer)
        except StopIteration as end:
            return End(end.value)
        if isinstance(step, Request):
            if sent >= most or step.why.startswith(before):
                return None
            answer, sent = await _send(client, step), sent + 1
            if lose and step.method != "GET":
                answer = None
        else:
            answer = None
            await c.pass_time(step.seconds)
        play_controller(c)
        collect(c)
        await c.turn()


def jobs(c: Harness) -> list[str]:
    return [job["metadata"]["name"] for job in c.api.list(JOBS)]


def is_regular(job: Mapping[str, Any]) -> bool:
    meta = job["metadata"]
    ours = [key for key in (*meta.get("labels", {}), *meta.get("annotations", {})) if key.startswith(names.GROUP)]
    return not job["spec"].get("managedBy") and ours == [names.LABEL_ADOPT]


INDEXED: dict[str, Any] = {"completions": 4, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": 3}


async def one_done(c: Harness) -> None:
    """One task of four is done, and the next two run."""
    await c.until(lambda: len(living(c)) == 2)
    c.end(living(c)[0])
    await c.until(lambda: status(c).get("succeeded") == 1 and len(living(c)) == 2)


async def test_a_job_goes_on_as_a_regular_job_with_its_counts() -> None:
    async with running_job(**INDEXED) as c:
        await one_done(c)
        c.api.edit(JOBS, NS, "a", lambda job: job["metadata"]["labels"].update(team="x"))
        before = c.batch("a")
        done = asyncio.ensure_future(step_by_step(c, target(c)))
        await c.until(lambda: c.ledger_of("a").get("asked"))
        await c.pass_time(2)
        for pod in living(c):
            report(c, pod["metadata"]["name"])
        assert await c.run_to_end(done) is End.RELEASED  # type: ignore[arg-type]
        found = c.batch("a")
        assert jobs(c) == ["a"]
        assert is_regular(found)
        assert (found["metadata"]["labels"]["team"], found["spec"]["suspend"]) == ("x", False)
        assert found["spec"]["template"]["spec"] == before["spec"]["template"]["spec"]
        assert (found["status"]["succeeded"], found["status"]["completedIndexes"]) == (1, "0")
        assert c.held() == []


@pytest.mark.parametrize("lose", [pytest.param(False, marks=pytest.mark.long), True])
@pytest.mark.parametrize("now", [False, True])
async def test_whoever_dies_at_any_step_is_followed_by_one_who_ends_it(now: bool, lose: bool) -> None:
    for most in range(0, 60, 3):
        async with running_job(**INDEXED) as c:
            await one_done(c)
            if not now:
                c.api.edit(
                    JOBS,
                    NS,
                    "a",
                    lambda job: (
                        job["metadata"]
                        .setdefault("annotations", {})
                        .update({names.ANNOTATION_RELEASE: names.RELEASE_REQUESTED})
                    ),
                )
                await c.until(lambda: c.ledger_of("a").get("asked"))
                await c.pass_time(2)
                for pod in living(c):
                    report(c, pod["metadata"]["name"])
            wanted = target(c, patience=timedelta(0) if now else None)
            ended = await step_by_step(c, wanted, most=most, lose=lose)
            if ended is None:
                assert await step_by_step(c, wanted) is End.RELEASED
            found = c.batch("a")
            assert (jobs(c), is_regular(found), found["spec"]["suspend"]) == (["a"], True, False), most
            assert (found["status"]["succeeded"], found["status"]["completedIndexes"]) == (1, "0")
            if ended is not None:
                return
    raise AssertionError("it never ended by itself")


async def test_without_an_admitter_what_ended_by_itself_counts_and_what_is_deleted_does_not() -> None:
    async with empty_harness() as c:
        c.node()
        admitter = c.admitter(adopt=True)
        c.submit_job("a", **INDEXED)
        await until(c, "Running")
        await one_done(c)
        await admitter.kill()
        first, second = living(c)
        c.end(first)
        assert await step_by_step(c, target(c), led=False) is End.RELEASED
        found = c.batch("a")["status"]
        indexes = sorted([0, int(first["metadata"]["labels"][names.LABEL_TASK])])
        assert (found["succeeded"], found["completedIndexes"]) == (2, ",".join(map(str, indexes)))
        assert second["metadata"]["name"] not in [pod["metadata"]["name"] for pod in living(c)]


async def test_a_job_of_a_controller_is_waited_for_or_deleted_and_never_made_again() -> None:
    async with running_job() as c:
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "night", "uid": "u", "controller": True}
        c.api.edit(JOBS, NS, "a", lambda job: job["metadata"].update(ownerReferences=[owner]))
        assert await step_by_step(c, target(c, patience=timedelta(seconds=30))) is End.LEFT
        assert state(c) == "Running"
        assert await step_by_step(c, target(c, delete_owned=True)) is End.DELETED
        assert jobs(c) == []


async def test_a_finished_job_is_left_alone() -> None:
    async with running_job() as c:
        c.end(only_pod(c))
        await c.until(lambda: c.job_condition("a", "Complete"))
        before = c.batch("a")
        assert await step_by_step(c, target(c)) is End.FINISHED
        assert c.batch("a") == before


async def test_a_job_that_its_user_suspended_stays_suspended() -> None:
    async with adopting() as c:
        c.submit_job("a", suspend=True)
        await c.until(lambda: c.job_condition("a", "Suspended"))
        assert await step_by_step(c, target(c)) is End.RELEASED
        assert (jobs(c), c.batch("a")["spec"]["suspend"]) == (["a"], True)


async def test_a_job_that_somebody_else_creates_meanwhile_is_left_and_the_copy_stays() -> None:
    async with running_job() as c:
        wanted, body = target(c, patience=timedelta(0)), c.batch("a")
        assert await step_by_step(c, wanted, before="create the Job") is None
        assert jobs(c) == [release.copy_name("a", body["metadata"]["uid"])], "the copy alone"
        plain = {key: body["spec"][key] for key in ("template", "backoffLimit") if key in body["spec"]}
        c.api.put(JOBS, {"metadata": {"name": "a", "namespace": NS}, "spec": plain})
        with pytest.raises(ReleaseError, match="another client has created Job a"):
            await step_by_step(c, wanted)
        assert len(jobs(c)) == 2


async def test_what_only_looks_like_a_copy_is_none() -> None:
    async with running_job() as c:
        job = c.batch("a")
        other = release.copy_of(job)
        other["spec"]["template"] = {"spec": {"containers": [{"name": "x", "image": "other"}]}}
        c.api.put(JOBS, other)
        with pytest.raises(ReleaseError, match="is no copy of a"):
            await step_by_step(c, target(c, patience=timedelta(0)))
        assert c.batch("a")["metadata"]["uid"] == job["metadata"]["uid"]


async def test_the_name_of_a_copy_is_a_name() -> None:
    for name in ("a", "a" * 63, "a" * 56 + ".b.c", "x-" * 31):
        made = release.copy_name(name, "uid")
        assert len(made) <= 63
        assert "-r" in made
        assert not {".-", "--"} & {made[at : at + 2] for at in range(len(made))}


async def test_it_ends_on_a_clock_of_its_own() -> None:
    async with adopting() as c:
        c.submit_job("a", suspend=True)
        await c.until(lambda: c.job_condition("a", "Suspended"))
        c.api.edit(JOBS, NS, "a", lambda job: job["metadata"].update(labels={}))
        assert await c.run_to_end(carry_out(c.user(), c.clock, target(c, "missing"))) is End.MISSING


# --- uninstallation ---


async def world(c: Harness) -> None:
    """The Job controller, the garbage collector and an admitter that leads, until cancelled."""
    while True:
        lead(c)
        play_controller(c)
        collect(c)
        await c.clock.sleep(0.5)


@asynccontextmanager
async def played(c: Harness) -> AsyncIterator[None]:
    task = asyncio.ensure_future(world(c))
    yield
    task.cancel()


WEBHOOKS = [{"name": name} for name in ("pods.scavenger.dev", "labelled.jobs.scavenger.dev", "all.jobs.scavenger.dev")]


async def test_all_jobs_are_released_once_nothing_adopts_any_more() -> None:
    async with adopting() as c:
        for name in ("a", "b", "done"):
            c.submit_job(name)
            await until(c, "Running", name)
        c.end(only_pod(c, "done"))
        await c.until(lambda: c.job_condition("done", "Complete"))
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "night", "uid": "u", "controller": True}
        c.api.edit(JOBS, NS, "b", lambda job: job["metadata"].update(ownerReferences=[owner]))
        c.api.put(WEBHOOK_KIND, {"metadata": {"name": names.WEBHOOK}, "webhooks": WEBHOOKS})
        done = release_all(c.user(), c.clock, names.SYSTEM_NAMESPACE, timedelta(seconds=20))
        async with played(c):
            assert await c.run_to_end(done) == [f"{NS}/b"]
        assert jobs(c) == ["a", "b", "done"]
        assert is_regular(c.batch("a"))
        assert not is_regular(c.batch("b"))
        hook = c.api.get(WEBHOOK_KIND, None, names.WEBHOOK)
        assert hook is not None
        assert [one["name"] for one in hook["webhooks"]] == ["pods.scavenger.dev"]


async def test_what_no_admitter_runs_any_more_keeps_what_ended_and_says_so() -> None:
    async with empty_harness() as c:
        c.node()
        admitter = c.admitter(adopt=True)
        c.submit_job("a", **INDEXED)
        await until(c, "Running")
        await one_done(c)
        await admitter.kill()
        first, _ = living(c)
        c.end(first)
        c.renew_leases()
        await c.run_to_end(uninstall.clean(c.user(), c.clock, after=0))
        assert c.held() == []
        found = status(c)
        assert (found["succeeded"], found["active"], held_true(c)) == (2, 0, [])
        assert c.ledger_of("a")["say"] == uninstall.GONE
        assert found.get("failed") is None
