"""Jobs of users whose pods are a gang: they start together, are interrupted together, and count once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from scavenger_admitter import uninstall
from scavenger_api import names
from scavenger_api.checkpoints import COMPLETION_INDEX
from scavenger_domain.release import End
from scavenger_kube.resources import JOBS, PODS

from .harness import NS, Harness, Object, empty_harness
from .test_adopted_jobs import (
    adopting,
    ask_release,
    at_work,
    held_true,
    interruptions,
    living,
    on_exit,
    report,
    state,
    status,
    suspend,
    until,
    written,
)
from .test_release import is_regular, step_by_step, target

COUNTS = ("active", "ready", "terminating", "succeeded", "completedIndexes")


def gang(size: int = 3, **more: Any) -> dict[str, Any]:
    """What makes a Job a gang."""
    marks = {names.ANNOTATION_GANG: "true", **more.pop("annotations", {})}
    return {"completions": size, "parallelism": size, "completionMode": "Indexed", "annotations": marks, **more}


@asynccontextmanager
async def running_gang(size: int = 3, **more: Any) -> AsyncIterator[Harness]:
    """A harness in which a gang runs."""
    async with adopting() as c:
        c.submit_job("a", **gang(size, **more))
        await until(c, "Running")
        assert len(at_work(c)) == size
        yield c


def member(c: Harness, index: int) -> Object:
    """The pod of an index that runs."""
    (pod,) = [one for one in at_work(c) if one["metadata"]["labels"][COMPLETION_INDEX] == str(index)]
    return pod


async def ends(c: Harness, size: int = 3) -> None:
    """All members end with 0, and the Job is complete: each index once, and no failure but those told before."""
    for pod in at_work(c):
        c.end(pod)
    await c.until(lambda: c.job_condition("a", "Complete"))
    found = status(c)
    assert (found["succeeded"], found["completedIndexes"], found["active"]) == (size, f"0-{size - 1}", 0)
    assert held_true(c) == ["SuccessCriteriaMet", "Complete"]
    await c.pass_time(30)
    assert (c.held(), len(c.pods("a")), c.most_at_once("a")) == ([], size, size)


async def test_a_gang_starts_in_two_writes_beside_its_pods_and_is_one_unit() -> None:
    async with running_gang() as c:
        assert written(c, 0) == ["POST pod"] * 3 + ["PATCH job"]
        for index, pod in enumerate(sorted(c.pods("a"), key=lambda one: one["metadata"]["name"])):
            labels = pod["metadata"]["labels"]
            assert names.LABEL_TASK not in labels, "no unit by itself"
            assert labels[names.LABEL_KIND] == names.KIND_JOB
            assert labels[COMPLETION_INDEX] == str(index)
            assert pod["spec"]["hostname"] == f"a-{index}"
        found = status(c)
        assert (found["active"], found.get("succeeded"), held_true(c)) == (3, None, [])
        await ends(c)


async def test_all_of_a_gang_start_or_none() -> None:
    async with empty_harness() as c:
        c.node(cpu="2")
        c.admitter(adopt=True)
        c.submit_job("a", **gang())
        await until(c, "Waiting")
        await c.pass_time(60)
        assert (c.pods("a"), status(c).get("startTime")) == ([], None)
        c.node("n2", cpu="100")
        await until(c, "Running")
        assert len(at_work(c)) == 3


@pytest.mark.parametrize("code", [0, 1, 143])
async def test_an_interruption_of_one_member_interrupts_all_and_counts_nothing(code: int) -> None:
    async with running_gang(backoffLimit=0) as c:
        began, c.stopping = status(c)["startTime"], code
        for count in (1, 2):
            before = {pod["metadata"]["uid"] for pod in c.pods("a")}
            c.delete_pod(at_work(c)[count])
            await interruptions(c, count)
            await until(c, "Running", limit=120)
            assert not before & {pod["metadata"]["uid"] for pod in c.pods("a")}, "all of them are new"
            found = status(c)
            assert (found["active"], found.get("failed"), found.get("succeeded")) == (3, None, None)
            assert (found["startTime"], held_true(c)) == (began, [])
        await ends(c)
        assert status(c).get("failed") is None


async def test_a_member_that_is_done_waits_for_the_others_and_runs_again_with_them() -> None:
    async with running_gang(backoffLimit=0) as c:
        c.end(member(c, 0))
        await c.pass_time(30)
        assert (status(c).get("succeeded"), status(c)["active"], state(c)) == (None, 2, "Running")
        c.delete_pod(member(c, 1))
        await interruptions(c, 1)
        await until(c, "Running", limit=120)
        assert len(at_work(c)) == 3
        assert (status(c).get("succeeded"), status(c).get("completedIndexes")) == (None, None)
        await ends(c)


async def test_interrupted_members_lose_the_labels_that_clients_select_by() -> None:
    async with running_gang() as c:
        c.kubelet, c.renews = False, True
        c.delete_pod(at_work(c)[0])
        await c.until(lambda: not any(set(names.JOB_LABELS) & pod["metadata"]["labels"].keys() for pod in c.pods("a")))
        assert len(c.pods("a")) == 3
        assert state(c) == "Interrupted"


async def test_a_failure_of_one_member_is_one_failure_of_the_gang() -> None:
    async with running_gang(backoffLimit=1) as c:
        c.end(member(c, 1), 3)
        await c.until(lambda: status(c).get("failed") == 1)
        assert held_true(c) == []
        await until(c, "Running", limit=120)
        assert (len(at_work(c)), c.ledger_of("a").get("interrupted", 0)) == (3, 0)
        c.end(member(c, 2), 3)
        await c.until(lambda: c.job_condition("a", "Failed"), limit=120)
        found = c.job_condition("a", "Failed")
        assert (found["reason"], held_true(c)) == ("BackoffLimitExceeded", ["FailureTarget", "Failed"])
        await c.pass_time(60)
        assert (status(c)["failed"], status(c)["active"], status(c).get("succeeded")) == (2, 0, None)
        assert (c.held(), living(c)) == ([], [])


async def test_a_rule_of_the_failure_policy_fails_a_gang() -> None:
    async with running_gang(podFailurePolicy=on_exit("FailJob", 3)) as c:
        c.end(member(c, 1), 3)
        await c.until(lambda: c.job_condition("a", "Failed"), limit=120)
        assert c.job_condition("a", "Failed")["reason"] == "PodFailurePolicy"
        await c.pass_time(30)
        assert (status(c)["failed"], living(c), c.held()) == (1, [], [])


async def test_a_suspended_gang_stops_and_a_resumed_one_starts_again() -> None:
    async with running_gang(backoffLimit=0) as c:
        suspend(c)
        await c.until(lambda: c.job_condition("a", "Suspended"))
        await c.until(lambda: not c.pods("a"))
        await c.until(lambda: status(c)["terminating"] == 0)
        found = status(c)
        assert (found.get("failed"), found.get("startTime"), c.ledger_of("a").get("interrupted", 0)) == (None, None, 0)
        suspend(c, wanted=False)
        await until(c, "Running")
        assert c.job_condition("a", "Suspended")["status"] == "False"
        await ends(c)


async def test_the_deadline_counts_the_time_in_which_a_gang_runs() -> None:
    async with running_gang(activeDeadlineSeconds=100) as c:
        await c.pass_time(60)
        c.delete_pod(at_work(c)[0])
        await interruptions(c, 1)
        await until(c, "Running", limit=120)
        await c.until(lambda: c.job_condition("a", "Failed"), limit=120)
        assert c.job_condition("a", "Failed")["reason"] == "DeadlineExceeded"
        await c.pass_time(30)
        assert (status(c).get("failed"), living(c)) == (None, [])


async def test_a_new_leader_creates_the_members_that_a_start_lacks_where_the_others_may_go() -> None:
    async with adopting() as c:
        c.kubelet = False
        c.submit_job("a", **gang())
        await c.until(lambda: len(c.pods("a")) == 3)
        await c._admitters[0].kill()
        first, gone, last = c.pods("a")
        there: Object = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
        for one in (first, last):
            c.api.edit(PODS, NS, one["metadata"]["name"], lambda pod: pod["spec"].update(affinity=there))
        c.api.edit(PODS, NS, gone["metadata"]["name"], lambda pod: pod["metadata"].update(finalizers=[]))
        c.api.delete(PODS, NS, gone["metadata"]["name"])
        c.admitter(adopt=True)
        await c.until(lambda: len(c.pods("a")) == 3)
        made = next(one for one in c.pods("a") if one["metadata"]["name"] == gone["metadata"]["name"])
        assert made["spec"]["affinity"] == there
        c.kubelet = True
        await until(c, "Running")
        await ends(c)


async def test_a_start_of_which_an_earlier_leader_left_nothing_is_granted_again() -> None:
    async with adopting() as c:
        c.kubelet = False
        c.submit_job("a", **gang())
        await until(c, "Starting")
        place = c.ledger_of("a")["place"]
        await c._admitters[0].kill()
        for one in c.pods("a"):
            c.api.edit(PODS, NS, one["metadata"]["name"], lambda pod: pod["metadata"].update(finalizers=[]))
            c.api.delete(PODS, NS, one["metadata"]["name"])
        c.kubelet = True
        c.admitter(adopt=True)
        await until(c, "Running", limit=120)
        assert c.ledger_of("a")["place"] > place, "no pod said on which nodes the first start was to run"
        await ends(c)


async def test_a_new_leader_goes_on_from_the_ledger_of_a_gang() -> None:
    async with running_gang(annotations={names.ANNOTATION_INTERRUPTION_AFTER: "5m"}) as c:
        await c.pass_time(700, step=50)
        c.delete_pod(at_work(c)[0])
        await interruptions(c, 1)
        booked = c.ledger_of("a")
        await c._admitters[0].kill()
        c.admitter(adopt=True)
        await until(c, "Running", limit=120)
        after = c.ledger_of("a")
        assert (after["interrupted"], after["useful"], after["lost"]) == (1, booked["useful"], booked["lost"])
        await ends(c)


async def test_a_released_gang_is_interrupted_when_all_members_have_saved() -> None:
    async with running_gang(backoffLimit=0) as c:
        ask_release(c)
        await c.until(lambda: c.ledger_of("a").get("asked"))
        await c.pass_time(20)
        for index in range(3):
            assert len(at_work(c)) == 3, "not before all have"
            report(c, member(c, index)["metadata"]["name"])
            await c.pass_time(5)
        await until(c, names.LEDGER_RELEASING)
        found = status(c)
        assert (found["active"], found["terminating"], found.get("failed"), held_true(c)) == (0, 0, None, [])
        before = len(c.writes())
        await c.pass_time(120, step=5)
        assert (written(c, before), c.pods("a"), c.held()) == ([], [], [])


@pytest.mark.parametrize(("done", "ends_as"), [(1, ("Running", None)), (3, ("Ended", 3))])
async def test_an_uninstallation_completes_or_interrupts_a_gang(done: int, ends_as: tuple[str, int | None]) -> None:
    async with running_gang(backoffLimit=0) as c:
        await c._admitters[0].kill()
        for index in range(done):
            c.end(member(c, index))
        c.renew_leases()
        await c.run_to_end(uninstall.clean(c.user(), c.clock))
        assert (c.held(), living(c), status(c).get("failed")) == ([], [], None)
        c.admitter(adopt=True)
        await until(c, ends_as[0], limit=120)
        assert (status(c).get("succeeded"), len(at_work(c))) == (ends_as[1], 0 if done == 3 else 3)


async def test_a_gang_that_no_admitter_releases_starts_from_the_beginning() -> None:
    """Its members need each other, so none of them may be left out because it ended before."""
    async with running_gang() as c:
        await c._admitters[0].kill()
        c.end(member(c, 0))
        c.renew_leases()
        assert await step_by_step(c, target(c), led=False) is End.RELEASED
        found = c.batch("a")
        assert (found["status"].get("succeeded"), found["status"].get("completedIndexes")) == (None, None)
        assert (is_regular(found), living(c)) == (True, [])


async def test_deleting_a_gang_ends_it() -> None:
    async with running_gang() as c:
        c.api.delete(JOBS, NS, "a")
        await c.until(lambda: not c.pods("a"))
        assert c.held() == []


# --- what admission refuses, where its policies are off ---


@pytest.mark.parametrize("when", ["they run", "one is interrupted", "one has ended"])
async def test_what_was_a_gang_stays_one(when: str) -> None:
    async with running_gang() as c:
        if when == "one is interrupted":
            c.kubelet = False
            c.delete_pod(at_work(c)[0])
        elif when == "one has ended":
            c.end(member(c, 0))
        await c.pass_time(3)
        c.api.edit(JOBS, NS, "a", lambda job: job["metadata"]["annotations"].pop(names.ANNOTATION_GANG))
        c.kubelet = True
        await c.pass_time(60)
        assert state(c) == "Running"
        await ends(c)


async def test_what_becomes_a_gang_while_it_runs_completes() -> None:
    async with running_gang(annotations={names.ANNOTATION_GANG: "false"}) as c:
        c.end(member(c, 0))
        await c.pass_time(20)
        marks = {names.ANNOTATION_GANG: "true"}
        c.api.edit(JOBS, NS, "a", lambda job: job["metadata"]["annotations"].update(marks))
        await c.pass_time(20)
        for pod in at_work(c):
            c.end(pod)
        await c.until(lambda: c.job_condition("a", "Complete"), limit=120)
        assert (status(c)["succeeded"], status(c)["completedIndexes"]) == (3, "0-2")


@pytest.mark.parametrize(
    "more",
    [
        {"backoffLimitPerIndex": 1},
        {"successPolicy": {"rules": [{"succeededCount": 1}]}},
        {"pod": {"restartPolicy": "OnFailure"}},
        {"parallelism": 0},
        {"podFailurePolicy": on_exit("FailIndex", 3), "backoffLimitPerIndex": 1},
    ],
    ids=str,
)
async def test_the_annotation_is_stronger_than_what_a_gang_cannot_have(more: dict[str, Any]) -> None:
    """It ends as a gang does."""
    async with running_gang(**more) as c:
        c.delete_pod(at_work(c)[0])
        await interruptions(c, 1)
        await until(c, "Running", limit=120)
        await ends(c)


@pytest.mark.parametrize("more", [{"completionMode": "NonIndexed"}, {"completions": 1, "parallelism": 1}], ids=str)
async def test_the_annotation_alone_makes_no_gang(more: dict[str, Any]) -> None:
    async with adopting() as c:
        c.submit_job("a", **gang(**more))
        await until(c, "Running")
        assert all(names.LABEL_TASK in pod["metadata"]["labels"] for pod in c.pods("a"))


@pytest.mark.parametrize("size", [2, 5])
async def test_a_gang_of_another_size_completes_all_the_same(size: int) -> None:
    async with running_gang() as c:
        c.api.edit(JOBS, NS, "a", lambda job: job["spec"].update(completions=size, parallelism=size))
        await c.pass_time(60)
        for pod in at_work(c):
            c.end(pod)
        await c.until(lambda: c.job_condition("a", "Complete"), limit=120)
        assert status(c)["succeeded"] == size


# --- ends ---


async def test_a_gang_that_never_fits_says_so_once() -> None:
    async with empty_harness() as c:
        c.node(cpu="2")
        c.admitter(adopt=True)
        c.submit_job("a", **gang(cpu="100"))
        await c.pass_time(60)
        assert (c.ledger_of("a")["why"], c.pods("a")) == ("LargerThanAnyNode", [])
        before = len(c.writes())
        await c.pass_time(600, step=20)
        assert written(c, before) == []


async def test_an_ignored_failure_starts_the_gang_again_and_uses_up_no_retry() -> None:
    async with running_gang(backoffLimit=0, podFailurePolicy=on_exit("Ignore", 3)) as c:
        c.end(member(c, 1), 3)
        await c.until(lambda: c.ledger_of("a").get("ignored") == 1)
        await until(c, "Running", limit=120)
        assert (status(c).get("failed"), len(at_work(c))) == (None, 3)
        await ends(c)


@pytest.mark.parametrize(
    ("more", "code"),
    [({}, 0), ({"backoffLimit": 0}, 3), ({"podFailurePolicy": on_exit("FailJob", 3)}, 3)],
    ids=["completes", "fails", "fails by a rule"],
)
async def test_what_nothing_interrupts_ends_as_a_job_that_is_no_gang(more: dict[str, Any], code: int) -> None:
    """That one is held to the Job controller. A gang differs in what is said while it runs, in messages, and in that a
    run which fails is one failure, whatever becomes of the other pods."""
    ended, failed = [], []
    for wanted in ("true", "false"):
        async with running_gang(annotations={names.ANNOTATION_GANG: wanted}, **more) as c:
            for pod in [member(c, 0)] if code else at_work(c):
                c.end(pod, code)
            await c.until(lambda: c.job_condition("a", "Failed" if code else "Complete"), limit=120)
            await c.pass_time(60)
            found = status(c)
            stated = [(one["type"], one["status"], one["reason"]) for one in found["conditions"]]
            failed.append(found.get("failed"))
            counts = {key: found.get(key) for key in COUNTS}
            ended.append((stated, counts, "completionTime" in found, c.held(), living(c)))
    assert ended[0] == ended[1]
    assert failed == ([1, 3] if code else [None, None])
