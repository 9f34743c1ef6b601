"""Whose writes wait while ordinary pods need the API server, and in which order they come."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from scavenger_admitter.core.lifecycle.actions import (
    Action,
    DeleteJob,
    DeletePod,
    DeleteScavengerJob,
    ReleasePod,
)
from scavenger_admitter.core.lifecycle.observation import Outcome
from scavenger_admitter.facts import signals_pressure
from scavenger_admitter.write_turns import WriteTurns, urgency_of
from scavenger_api import names
from scavenger_api.job import Phase, ScavengerJob
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import PODS
from scavenger_runtime.write_budget import Urgency, WriteBudget
from scavenger_testing import VirtualClock, pod_dict, scavengerjob_dict
from scavenger_testing.clock import settle

from .builders import Woken
from .harness import NS, empty_harness, harness

EXPLAIN, START, COUNT, CANCEL = Urgency
DELETE, RELEASE = DeleteJob("u", "interrupted"), ReleasePod("p", "u")


def job(phase: str, parallelism: int = 1) -> ScavengerJob:
    return ScavengerJob.model_validate(scavengerjob_dict("a", parallelism=parallelism, status={"phase": phase}))


@pytest.mark.parametrize(
    ("before", "after", "actions", "alone", "in_a_gang"),
    [
        pytest.param("Running", "Interrupted", [DELETE], COUNT, CANCEL, id="an interruption"),
        pytest.param("Interrupted", "Interrupted", [DELETE], COUNT, CANCEL, id="an interruption that goes on"),
        pytest.param("Interrupted", "Interrupted", [RELEASE], COUNT, COUNT, id="its pods are let go"),
        pytest.param("Interrupted", "Interrupted", [], EXPLAIN, EXPLAIN, id="why it waits"),
        pytest.param("Waiting", "Waiting", [DeletePod("p", "u")], COUNT, CANCEL, id="a pod that is left over"),
        pytest.param("Waiting", "Starting", [], START, START, id="a start"),
        pytest.param("Suspended", "Waiting", [], START, START, id="it may run again"),
        pytest.param("Starting", "Running", [], START, START, id="all run"),
        pytest.param("Starting", "Running", [RELEASE], COUNT, COUNT, id="all run, and an earlier pod is let go"),
        pytest.param("Running", "Completed", [RELEASE], COUNT, COUNT, id="completed"),
        pytest.param("Running", "Running", [], EXPLAIN, EXPLAIN, id="a checkpoint"),
        pytest.param("Completed", "Completed", [DeleteScavengerJob("u")], EXPLAIN, EXPLAIN, id="its time is over"),
    ],
)
def test_how_urgent_an_outcome_is(
    before: str, after: str, actions: list[Action], alone: Urgency, in_a_gang: Urgency
) -> None:
    for parallelism, urgency in ((1, alone), (3, in_a_gang)):
        seen = job(before, parallelism)
        status = seen.status.model_copy(update={"phase": Phase(after)})
        assert urgency_of(seen, Outcome(status, changed=True, actions=tuple(actions))) is urgency


@pytest.mark.parametrize("phase", ["Waiting", "Interrupted"])
def test_a_job_that_is_in_line_again_once_that_is_written_does_not_wait_for_explanations(phase: str) -> None:
    """Its start failed, or it has another place: its reconcile goes no further before that is written."""
    seen = job(phase)
    failed = Outcome(seen.status.model_copy(update={"message": "the start failed"}), changed=True, start_failed=True)
    moved = Outcome(seen.status.model_copy(update={"queued_timestamp": VirtualClock().now()}), changed=True)
    assert [urgency_of(seen, outcome) for outcome in (failed, moved)] == [START, START]


@pytest.mark.parametrize(("before", "after"), [(None, "Waiting"), (None, "Starting"), ("Waiting", "Starting")])
def test_what_could_be_left_out_only_explains(before: str | None, after: str) -> None:
    seen = ScavengerJob.model_validate(scavengerjob_dict("a", status={"phase": before} if before else {}))
    status = seen.status.model_copy(update={"phase": Phase(after)})
    assert urgency_of(seen, Outcome(status, changed=True, quiet_until=VirtualClock().now())) is EXPLAIN


# --- turns ---


class Turns:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.budget = WriteBudget(self.clock, rate=1, pressed_rate=1)
        wakeups = Woken()
        self.woken = wakeups.keys
        self.turns = WriteTurns(self.budget, wakeups)
        assert self.budget.try_take(EXPLAIN), "nothing is left after this"


async def test_a_job_is_woken_when_its_turn_has_come_and_writes_then() -> None:
    t = Turns()
    assert not t.turns.take("a", COUNT, 1)
    assert not t.turns.take("a", COUNT, 1), "it waits once, however often it is looked at"
    await t.clock.advance(1)
    assert t.woken == ["a"]
    assert t.turns.take("a", COUNT, 1)
    assert not t.turns.take("a", COUNT, 1), "a turn is for once"


async def test_the_most_urgent_job_is_woken_first_and_may_become_it_while_it_waits() -> None:
    t = Turns()
    for key, urgency in (("a", EXPLAIN), ("b", START), ("c", START)):
        assert not t.turns.take(key, urgency, 1)
    await settle()
    assert not t.turns.take("a", COUNT, 1)
    assert not t.turns.take("c", EXPLAIN, 1), "what it waits for already is more urgent"
    await t.clock.advance(3)
    assert t.woken == ["a", "b", "c"]


async def test_a_gang_that_has_lost_a_member_does_not_wait() -> None:
    t = Turns()
    assert not t.turns.take("a", EXPLAIN, 1)
    assert t.turns.take("a", CANCEL, 9)
    assert t.turns.take("b", CANCEL, 9)
    assert not t.turns.take("c", COUNT, 1)


async def test_who_has_nothing_to_write_any_more_takes_nobody_s_turn() -> None:
    t = Turns()
    assert not t.turns.take("a", COUNT, 1)
    assert not t.turns.take("b", COUNT, 1)
    assert not t.turns.take("c", EXPLAIN, 1)
    await t.clock.advance(1)
    assert t.turns.take("a", COUNT, 0), "given back"
    assert t.turns.take("b", COUNT, 0), "not waited for any more"
    await t.clock.advance(1)
    assert t.woken[0] == "a"
    assert "c" in t.woken
    assert "b" not in t.woken


async def test_all_requests_of_a_job_are_accounted_for() -> None:
    t = Turns()
    await t.clock.advance(10)
    assert t.turns.take("a", COUNT, 2)
    assert not t.turns.take("b", COUNT, 1)
    await t.clock.advance(1)
    assert t.woken == []
    await t.clock.advance(1)
    assert t.woken == ["b"]


# --- for whom ---


def seen(obj: dict[str, Any], **status: Any) -> Pod:
    return msgspec.convert({**obj, "status": {**obj.get("status", {}), **status}}, Pod)


UNSCHEDULABLE = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]


def test_which_pods_need_the_api_server_more() -> None:
    new, bound = pod_dict("p", phase="Pending"), pod_dict("p", phase="Running", node="n1")
    victim = pod_dict("p", phase="Running", node="n1", labels={names.LABEL_JOB: "a"})
    gone = {**victim, "metadata": {**victim["metadata"], "deletionTimestamp": "2026-01-05T08:00:00Z"}}

    assert signals_pressure(seen(new, conditions=UNSCHEDULABLE))
    assert signals_pressure(seen(new, nominatedNodeName="n1"))
    assert signals_pressure(seen(gone))
    assert not signals_pressure(seen(new)), "the scheduler has yet to look at it"
    assert not signals_pressure(seen(new, conditions=[{**UNSCHEDULABLE[0], "reason": "SchedulingGated"}]))
    assert not signals_pressure(seen(bound))
    assert not signals_pressure(seen(victim))
    assert not signals_pressure(seen(gone, phase="Failed")), "it has left its node"
    assert not signals_pressure(seen({**new, "metadata": {**new["metadata"], "labels": {names.LABEL_JOB: "a"}}})), (
        "waits itself"
    )


# --- the whole admitter ---


async def test_under_pressure_a_gang_is_cancelled_before_the_victims_in_front_of_it_are_counted() -> None:
    async with harness(pressed_write_rate=2.0) as c:
        for number in range(20):
            c.submit(f"single-{number}")
        c.submit("gang", parallelism=3)
        await c.until(lambda: set(c.phases().values()) == {"Running"})
        await c.pass_time(5)
        c.kubelet = False
        for number in range(20):
            c.delete_pod(c.pods(f"single-{number}")[0])
        await c.turn()
        c.delete_pod(c.pods("gang")[1])
        took = await c.until(lambda: c.status("gang")["interruptedCount"] == 1, step=0.1)
        counted = [c.status(f"single-{number}")["interruptedCount"] for number in range(20)]
        assert took < 3
        assert sum(counted) < 10
        c.kubelet = True
        await c.until(lambda: set(c.phases().values()) == {"Running"}, limit=120)
        assert {c.status(name)["interruptedCount"] for name in c.phases()} == {1}
        await c.until(lambda: len(c.held()) == 23, limit=60)


@pytest.mark.parametrize("interrupted", [0, 30])
async def test_a_takeover_under_pressure_waits_for_no_write(interrupted: int) -> None:
    async with empty_harness() as c:
        c.node()
        first = c.admitter()
        for number in range(30):
            c.submit(f"j{number}", interruptionAfter="60s")
        await c.until(lambda: set(c.phases().values()) == {"Running"})
        await first.kill()
        await c.clock.advance(600)
        ordinary = pod_dict("ordinary", phase="Pending")
        c.api.put(PODS, {**ordinary, "status": {"phase": "Pending", "conditions": UNSCHEDULABLE}})
        c.kubelet = False
        for number in range(interrupted):
            c.delete_pod(c.pods(f"j{number}")[0])
        second = c.admitter(pressed_write_rate=1.0)
        assert await c.until(lambda: second.admitting, limit=120) < 5
        c.api.remove(PODS, ordinary["metadata"]["namespace"], "ordinary")
        c.kubelet = True
        await c.until(lambda: set(c.phases().values()) == {"Running"}, limit=120)
        assert {c.status(name)["interruptedCount"] for name in c.phases()} == {int(interrupted > 0)}


NO_ROOM = (
    "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found."
)
NO_MATCH = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."


@pytest.mark.parametrize(
    ("said", "cpu", "selector", "fits"),
    [
        pytest.param(NO_ROOM, "1", {}, True, id="a node may take it"),
        pytest.param(NO_ROOM, "1000", {}, False, id="larger than any node"),
        pytest.param(NO_ROOM, "1", {"pool": "none"}, False, id="no node has the label"),
        pytest.param(NO_MATCH, "1", {}, False, id="the scheduler says so"),
    ],
)
async def test_a_pod_that_no_node_takes_holds_nothing_up(
    said: str, cpu: str, selector: dict[str, str], fits: bool
) -> None:
    """Its owner makes it again every 25 s, and jobs of another namespace start meanwhile."""
    async with harness(write_rate=500.0) as c:
        await c.turn(1)  # nodes are known
        for number in range(40):
            c.submit(f"j{number}", cpu="500m", memory="1Gi")

        def make_again(number: int) -> None:
            if number:
                c.api.remove(PODS, "other", f"web-{number - 1}")
            pod = pod_dict(f"web-{number}", namespace="other", phase="Pending", cpu=cpu)
            pod["spec"]["nodeSelector"] = selector
            conditions = [{**UNSCHEDULABLE[0], "message": said}]
            c.api.put(PODS, {**pod, "status": {"phase": "Pending", "conditions": conditions}})

        c.kubelet, took = False, 60
        for second in range(60):
            if second % 25 == 0:
                make_again(second // 25)
            await c.turn(1)
            for pod in c.api.stored(PODS, NS):
                if pod["status"]["phase"] == "Pending":
                    c.run(pod)
            if set(c.phases().values()) == {"Running"}:
                took = min(took, second)
        assert took > 15 if fits else took < 6
