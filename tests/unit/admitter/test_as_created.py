"""What the API server adds to pods of jobs is planned with, from the first pod on that shows it."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_admitter.dry_runs import DryRuns
from scavenger_admitter.namespace_turns import NamespaceTurns
from scavenger_kube.resources import PODS
from scavenger_testing.answers import Request
from scavenger_testing.clock import VirtualClock

from .harness import NS, Harness, empty_harness, harness, runs
from .test_starts import admitted

SIDECAR: dict[str, Any] = {"name": "mesh", "image": "mesh:1", "resources": {"requests": {"cpu": "25"}}}
SET_APART = {"key": "example.org/pool", "value": "lab", "effect": "NoSchedule"}
BORNE = {"key": "example.org/pool", "operator": "Equal", "value": "lab", "effect": "NoSchedule"}
POOL = {"pool": "lab"}
EVERYBODYS = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}


@pytest.mark.slow
async def test_an_injected_container_takes_capacity_that_the_next_job_does_not_get() -> None:
    async with harness() as c:
        c.injected = {"containers": [SIDECAR]}
        c.submit("first", cpu="10")
        await runs(c, "first")
        c.submit("second", cpu="10")  # 35 of 60 are taken, and it takes as much
        await c.pass_time(30)
        assert c.phase("second") != "Running"
        c.succeed("first")
        await runs(c, "second")


@pytest.mark.slow
async def test_jobs_that_waited_before_the_first_pod_was_seen_ask_for_as_much() -> None:
    async with harness(admission_interval=5.0, max_starts_per_cycle=1) as c:
        c.injected = {"containers": [SIDECAR]}
        for name in ("first", "second"):
            c.submit(name, cpu="10")
        await runs(c, "first")
        await c.pass_time(30)
        assert c.phases()["second"] != "Running"
        assert c.jobs_ever("second") == 0


@pytest.mark.slow
async def test_an_injected_toleration_opens_the_nodes_that_it_is_for() -> None:
    async with empty_harness() as c:
        c.node("n1", pods="1")
        c.node("n2", taints=[SET_APART])
        c.admitter()
        c.injected = {"tolerations": [BORNE, EVERYBODYS]}
        c.submit("first")
        await runs(c, "first")
        c.binds_to = "n2"
        c.submit("second")
        await runs(c, "second")


@pytest.mark.slow
async def test_the_first_pod_of_a_kind_finds_the_node_that_an_injected_toleration_opens() -> None:
    """Nobody has seen a pod of this kind: the API server is asked by a dry run, once for all jobs of the kind."""
    async with empty_harness() as c:
        two_pools(c)
        c.injected = {"tolerations": [BORNE, EVERYBODYS]}
        for name in ("first", "second", "third"):
            c.submit(name, nodeSelector=POOL)
        c.admitter()
        for name in ("first", "second", "third"):
            await runs(c, name)
        assert len(dry_runs(c)) == 1
        c.submit("other", nodeSelector=POOL, image="example.org/other:1")
        await runs(c, "other")
        assert len(dry_runs(c)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("asks", [True, False])
async def test_where_admission_adds_nothing_it_is_asked_again_after_ten_minutes(asks: bool) -> None:
    async with empty_harness() as c:
        two_pools(c)
        for name in ("first", "second"):
            c.submit(name, nodeSelector=POOL)
        c.admitter(dry_runs=asks)
        await c.pass_time(300)
        assert admitted(c, "first")[1] == "TaintNotTolerated"
        assert len(dry_runs(c)) == asks
        c.injected = {"tolerations": [BORNE]}
        await c.pass_time(600)
        assert c.phases() == dict.fromkeys(("first", "second"), "Running" if asks else "Waiting")


@pytest.mark.slow
async def test_a_dry_run_that_is_refused_changes_nothing() -> None:
    async with empty_harness() as c:
        two_pools(c)
        c.api.fail(400, times=5, methods={"POST"}, path="/pods")
        c.submit("first", nodeSelector=POOL)
        c.admitter()
        await c.pass_time(60)
        assert admitted(c, "first")[1] == "TaintNotTolerated"


@pytest.mark.slow
async def test_an_array_finds_the_node_that_an_injected_toleration_opens() -> None:
    """Its Job is for no pods: they are created one by one."""
    async with empty_harness() as c:
        two_pools(c)
        c.injected = {"tolerations": [BORNE, EVERYBODYS]}
        c.submit("first", nodeSelector=POOL, array={"tasks": 2})
        c.admitter()
        await runs(c, "first")
        assert len(dry_runs(c)) == 1


def test_kinds_are_asked_about_in_turn_and_rarely() -> None:
    clock = VirtualClock()
    turns = DryRuns(clock)
    a, b, c = (("lab", kind) for kind in "abc")
    assert [turns.left(kind) for kind in (a, b, c, a)] == [0, 1, 2, 0]
    turns.asked(a)
    assert (turns.left(a), turns.left(b)) == (600, 1)


async def asked_at(kinds: list[tuple[str, int]], seconds: int, gone: int = 0) -> dict[tuple[str, int], float]:
    """When each kind is asked about, its job being looked at again when it was told to be. Before them come so many of
    another namespace whose jobs are deleted at once."""
    clock = VirtualClock()
    turns, due, asked = DryRuns(clock), dict.fromkeys(kinds, 0.0), dict[tuple[str, int], float]()
    for number in range(gone):
        turns.left(("gone", number))
    began = clock.monotonic()
    while (now := clock.monotonic() - began) < seconds:
        for kind in [kind for kind, at in due.items() if at <= now]:
            if (left := turns.left(kind)) <= 0:
                turns.asked(kind)
                asked.setdefault(kind, now)
                left = turns.left(kind)
            due[kind] = now + max(left, 0.1)
        await clock.advance(0.1)
    return asked


async def test_namespaces_take_turns_to_ask() -> None:
    """However many kinds one namespace has, the other one does not wait for them; it is one a second all the same."""
    few = [("few", 0), ("few", 1)]
    asked = await asked_at([*(("many", number) for number in range(200)), *few], 60)
    assert max(asked[kind] for kind in few) <= 5
    assert 50 <= len(asked) <= 61


async def test_turns_of_jobs_that_are_gone_are_not_waited_for_for_long() -> None:
    asked = await asked_at([("few", 0), ("few", 1)], 60, gone=1000)
    assert max(asked.values()) <= 8


async def test_those_that_wait_for_a_turn_are_rarely_looked_at() -> None:
    """Each turn is of 64 questions, which takes 3.2 s: most of them wait for many minutes."""
    clock = VirtualClock()
    turns, due, asked = NamespaceTurns(clock, 0.05), dict.fromkeys(range(1500), 0.0), dict[int, float]()
    looks, began = 0, clock.monotonic()
    while (now := clock.monotonic() - began) < 900:
        for job in [job for job, at in due.items() if at <= now]:
            looks += 1
            if (left := turns.left("many", job)) <= 0:
                turns.take("many", job, 64)
                asked[job], left = now, 10**6
            due[job] = now + max(left, 0.1)
        clock.jump(0.1)
    assert 250 <= len(asked) <= 282
    assert looks < 900 * 15


def two_pools(c: Harness) -> None:
    """A node for everybody, and one with a taint, where the jobs want to go."""
    c.node("n1")
    c.node("n2", labels=POOL, taints=[SET_APART])
    c.binds_to = "n2"


def dry_runs(c: Harness) -> list[Request]:
    return [request for request in c.api.requests if request.query.get("dryRun") == "All"]


@pytest.mark.slow
async def test_what_is_added_no_longer_is_forgotten_with_the_next_pod() -> None:
    async with harness() as c:
        c.injected = {"containers": [SIDECAR]}
        c.submit("first", cpu="10")
        await runs(c, "first")
        c.injected = {}
        c.succeed("first")
        for name in ("second", "third"):
            c.submit(name, cpu="10")
            await runs(c, name)


@pytest.mark.slow
async def test_another_admitter_learns_from_pods_that_run_and_another_kind_does_not() -> None:
    async with harness() as c:
        c.injected = {"containers": [SIDECAR]}
        c.submit("first", cpu="10")
        await runs(c, "first")
        await c._admitters.pop().kill()
        c.admitter()
        c.submit("second", cpu="10")
        c.submit("other", cpu="10", image="example.org/other:1")
        await runs(c, "other")
        await c.pass_time(10)
        assert c.phase("second") != "Running"
        assert admitted(c, "second")[1] == "AdmissionLevel"
        assert len(c.api.stored(PODS, NS)) == 2
