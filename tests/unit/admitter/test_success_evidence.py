"""An exit with 0 is final when its node shows life after it, or when the program says that it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from scavenger_admitter import metrics
from scavenger_admitter.core.lifecycle import judge as judging
from scavenger_admitter.core.lifecycle.plan import plan_job
from scavenger_admitter.core.lifecycle.success import Evidence, Success
from scavenger_admitter.core.lifecycle.termination import find_termination
from scavenger_admitter.success_evidence import NAMESPACE
from scavenger_api import names
from scavenger_api.job import Phase
from scavenger_api.reasons import InterruptionReason as Cause
from scavenger_domain.checkpoints import says_finished, without_checkpoint
from scavenger_kube import kinds
from scavenger_kube.resources import LEASES, NODES

from . import builders as b
from .harness import Harness, harness, running_job, runs
from .test_array import array, see, task

DONE = b.pod(ended=100)
UID = DONE.metadata.uid


def decided(
    *pods: kinds.Pod,
    now: float = 101,
    proven: frozenset[str] = frozenset(),
    asked: float = 100,
    nodes: Mapping[str, kinds.Node | None] | None = None,
    **known: Any,
) -> Any:
    job = b.job(Phase.RUNNING, running=[10], spec=b.gang(len(pods)))
    looked = {pod.metadata.uid: b.at(asked) for pod in pods}
    evidence = Evidence(required=True, proven=proven, asked=looked)
    return b.decide(b.seen(job, now, b.batch(), *pods, nodes=nodes, evidence=evidence, **known))


# --- what is decided ---


def test_a_success_waits_for_a_sign_of_life_and_nothing_becomes_useful_meanwhile() -> None:
    outcome = decided(DONE, now=219)
    assert outcome.status.phase is Phase.RUNNING
    assert outcome.status.useful_cpu_seconds == 0
    assert [(one.uid, one.node, one.at) for one in outcome.unproven] == [(UID, "node-1", b.at(100))]
    assert outcome.requeue_after == 1
    assert not outcome.actions


def test_one_that_is_proven_is_completed_at_its_end() -> None:
    outcome = decided(DONE, now=300, proven=frozenset({UID}))
    assert outcome.status.phase is Phase.COMPLETED
    assert outcome.status.finished_timestamp == b.at(100)
    assert outcome.status.useful_cpu_seconds == 180
    assert not outcome.unproven


@pytest.mark.parametrize("message", ["finished", "best: 0.93\nfinished\n"])
def test_a_program_that_says_that_it_is_done_is_believed_at_once(message: str) -> None:
    assert decided(b.pod(ended=100, message=message)).status.phase is Phase.COMPLETED


def test_the_word_of_a_program_counts_as_its_last_line_and_only_for_an_exit_with_0() -> None:
    assert not says_finished("finished\nbut not yet")
    assert without_checkpoint("best: 0.93\nfinished") == "best: 0.93"
    failed = b.pod(ended=100, code=3, exit_reason="Error", message="finished")
    assert decided(failed).status.phase is Phase.FAILED


@pytest.mark.parametrize(
    ("nodes", "now", "reboots"),
    [
        ({"node-1": b.node()}, 220, {}),
        ({"node-1": b.node(ready=False, since=140)}, 220, {}),
        ({"node-1": None}, 110, {}),
        ({"node-1": b.node()}, 131, {"node-1": b.at(130)}),
    ],
    ids=["no sign in two minutes", "silent for two minutes", "gone", "rebooted"],
)
def test_without_a_sign_of_life_it_was_an_interruption(nodes: Any, now: float, reboots: Any) -> None:
    outcome = decided(DONE, now=now, nodes=nodes, reboots=reboots)
    assert outcome.status.phase is Phase.INTERRUPTED
    assert outcome.figures.interruption is Cause.NODE_LOST
    assert outcome.status.interrupted_count == 1
    assert outcome.status.lost_cpu_seconds == 180


def test_a_proven_success_is_final_whatever_becomes_of_its_node() -> None:
    outcome = decided(DONE, now=900, proven=frozenset({UID}), nodes={"node-1": None}, reboots={"node-1": b.at(130)})
    assert outcome.status.phase is Phase.COMPLETED


def test_who_comes_late_looks_for_two_minutes_as_well() -> None:
    assert decided(DONE, now=5000, asked=4990).status.phase is Phase.RUNNING
    assert decided(DONE, now=5110, asked=4990).status.phase is Phase.INTERRUPTED


def test_a_member_that_ended_with_0_as_its_node_went_down_ends_the_run() -> None:
    pods = b.pod(0, ended=100), b.pod(1, node="node-2")
    waits = decided(*pods, nodes={"node-1": b.node(), "node-2": b.node("node-2")}, now=150)
    assert (waits.status.phase, len(waits.unproven)) == (Phase.RUNNING, 1)
    outcome = decided(*pods, nodes={"node-1": None, "node-2": b.node("node-2")}, now=150)
    assert (outcome.status.phase, outcome.figures.interruption) == (Phase.INTERRUPTED, Cause.NODE_LOST)


def test_a_failure_after_a_success_on_a_lost_node_may_be_its_consequence() -> None:
    pods = b.pod(0, ended=100), b.pod(1, ended=102, code=1, exit_reason="Error", node="node-2")
    nodes = {"node-1": b.node(), "node-2": b.node("node-2")}
    assert decided(*pods, nodes=nodes, now=150).status.phase is Phase.RUNNING
    proven = frozenset({pods[0].metadata.uid})
    assert decided(*pods, nodes=nodes, now=150, proven=proven).status.phase is Phase.FAILED
    assert decided(*pods, nodes={**nodes, "node-1": None}, now=150).status.phase is Phase.INTERRUPTED


def test_who_suspends_a_job_that_is_done_gets_the_verdict() -> None:
    job = b.job(Phase.RUNNING, running=[10], spec={"suspend": True})
    evidence = Evidence(required=True, asked={UID: b.at(100)})
    waits = b.decide(b.seen(job, 110, b.batch(), DONE, evidence=evidence))
    assert (waits.status.phase, waits.status.lost_cpu_seconds) == (Phase.RUNNING, 0)
    proven = Evidence(required=True, proven=frozenset({UID}))
    assert b.decide(b.seen(job, 110, b.batch(), DONE, evidence=proven)).status.phase is Phase.COMPLETED


@pytest.mark.parametrize(
    ("now", "known", "open_still"),
    [
        (1010, {}, True),
        (1010, {"nodes": {"node-1": b.node()}}, True),
        (1010, {"nodes": {"node-1": None}}, False),
        (1010, {"reboots": {"node-1": b.at(1005)}}, False),
        (1010, {"reboots": {"node-1": b.at(900)}}, True),
        (1130, {}, False),
        (1010, {"proven": True}, False),
        (1010, {"version": "8"}, False),
    ],
    ids=["no news", "its node is there", "gone", "rebooted", "rebooted before", "overdue", "proven", "changed"],
)
def test_an_open_success_of_a_task_is_judged_again_when_there_is_news(
    now: float, known: dict[str, Any], *, open_still: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it comes to the same whether it is or not."""
    version, proven = known.pop("version", "7"), known.pop("proven", False)
    pod = _of_version(task(3, ended=1000), version)
    one = Success(pod.metadata.uid, "node-1", b.at(1000), "7")
    judged = list[int]()

    def decide(opened: Mapping[str, Success]) -> Any:
        asked, uids = {one.uid: b.at(1001)}, frozenset({one.uid} if proven else ())
        evidence = Evidence(required=True, proven=uids, asked=asked, open=opened)
        return plan_job(see(array(), pod, now=now, evidence=evidence, **known))

    anew = decide({})

    def judge(*said: Any) -> Any:
        judged.append(1)
        return find_termination(*said)

    monkeypatch.setattr(judging, "find_termination", judge)
    again = decide({one.uid: one})
    assert bool(judged) is not open_still
    assert (again.status, again.counted, again.requeue_after) == (anew.status, anew.counted, anew.requeue_after)
    assert [success.uid for success in again.unproven] == [success.uid for success in anew.unproven]


def test_no_time_is_booked_after_the_end_of_a_program_whose_job_another_controller_suspends() -> None:
    """Its kubelet has fallen silent before it said that the pod is over."""
    job = b.job(Phase.RUNNING, running=[10])
    held = msgspec.structs.replace(b.batch(), spec=kinds.JobSpec(managed_by=names.MANAGED_BY, suspend=True))
    silent = msgspec.structs.replace(DONE, status=msgspec.structs.replace(DONE.status, phase="Running"))
    outcome = b.decide(b.seen(job, 230, held, silent, evidence=Evidence(required=True)))
    assert (outcome.status.interrupted_count, outcome.status.lost_cpu_seconds) == (1, 180)


def _of_version(pod: kinds.Pod, version: str) -> kinds.Pod:
    meta = msgspec.structs.replace(pod.metadata, resource_version=version)
    return msgspec.structs.replace(pod, metadata=meta)


# --- what is found out ---


def silence(c: Harness) -> None:
    """The kubelet of the node writes nothing any more, and renews no Lease."""
    c.kubelet = False


def boot(c: Harness, identity: str) -> None:
    """The kubelet reports another boot, with the time of its report."""
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": c.stamp()}
    c.api.edit(NODES, None, "n1", lambda node: node["status"].update(nodeInfo={"bootID": identity}, conditions=[ready]))


def leases_read(c: Harness) -> int:
    return c.api.count("GET", f"/{NAMESPACE}/leases/")


async def test_a_job_is_completed_when_its_node_has_renewed_its_lease() -> None:
    async with running_job("a") as c:
        c.succeed("a")
        took = await c.until(lambda: c.phase("a") == "Completed")
        assert 5 <= took <= 17
        assert leases_read(c) <= 2


async def test_a_job_whose_node_falls_silent_after_an_exit_with_0_runs_again() -> None:
    """The operating system goes down: the program saves on SIGTERM and ends with 0, and the machine comes back."""
    async with running_job("a") as c:
        boot(c, "first")
        await c.pass_time(3)
        c.succeed("a")
        await c.pass_time(2)
        silence(c)
        await c.pass_time(60)
        assert c.phase("a") == "Running"
        boot(c, "second")
        c.kubelet = True
        await c.until(lambda: c.status("a").get("interruptedCount") == 1)
        await runs(c, "a")
        assert "has rebooted" in str(c.events("Interrupted"))


@pytest.mark.parametrize("skew", [-600, 600])
async def test_a_reboot_is_as_late_as_the_kubelet_says_and_not_by_the_clock_of_the_admitter(skew: float) -> None:
    async with harness(skew=skew) as c:
        boot(c, "first")
        for name in ("lost", "done"):
            c.submit(name)
            await runs(c, name)
        await c.pass_time(3)
        c.succeed("lost")
        silence(c)
        await c.pass_time(30)
        boot(c, "second")
        c.kubelet = True
        await c.pass_time(5)
        c.succeed("done")
        await c.until(lambda: c.status("lost").get("interruptedCount") == 1)
        await c.until(lambda: c.phase("done") == "Completed", limit=30)


async def test_an_admitter_that_comes_when_the_machine_is_back_completes_nothing() -> None:
    """Its Lease is renewed again, and that is of the next boot."""
    async with running_job("a") as c:
        boot(c, "first")
        c.succeed("a")
        await c._admitters[0].kill()
        silence(c)
        await c.pass_time(60)
        boot(c, "second")
        ready = [{"type": "Ready", "status": "True", "lastTransitionTime": c.stamp()}]
        c.api.edit(NODES, None, "n1", lambda node: node["status"].update(conditions=ready))
        c.kubelet = True
        c.admitter()
        await c.until(lambda: c.status("a").get("interruptedCount") == 1, limit=200)


KINDS: Mapping[str, Callable[[Harness], None]] = {
    "job": lambda c: c.submit("a"),
    "array": lambda c: c.submit("a", array={"tasks": 2}),
    "adopted": lambda c: c.submit_job("a"),
}
"""What a user submits."""


@pytest.mark.parametrize(("kind", "code"), [("job", 0), ("job", 143), ("array", 0), ("array", 143), ("adopted", 0)])
async def test_a_boot_that_nobody_noticed_while_no_admitter_was_there_is_known_by_the_boot_before(
    kind: str, code: int
) -> None:
    """The machine goes down and is back before its node is called not ready: that was never written anywhere."""
    async with harness(adopt=True) as c:
        boot(c, "first")
        KINDS[kind](c)
        await c.until(lambda: c.pods("a") and all(pod["status"]["phase"] == "Running" for pod in c.pods("a")))
        await c.pass_time(10)
        before = {pod["metadata"]["uid"] for pod in c.pods("a")}
        await c._admitters[0].kill()
        for pod in c.pods("a"):
            c.end(pod, code)
        silence(c)
        await c.pass_time(33)
        boot(c, "second")
        c.kubelet = True
        c.admitter(adopt=True)

        def again() -> bool:
            """Each task runs in another pod."""
            running = {pod["metadata"]["uid"] for pod in c.pods("a") if pod["status"]["phase"] == "Running"}
            return len(running - before) == len(before)

        await c.until(again, limit=200)
        assert c.phase("a") != "Completed"
        assert not c.job_condition("a", "Complete")


async def test_a_boot_that_an_admitter_saw_is_known_to_the_next_one() -> None:
    async with running_job("a") as c:
        boot(c, "first")
        await c.pass_time(10)
        c.submit("b")
        await runs(c, "b")
        silence(c)
        c.succeed("a")
        await c.pass_time(33)
        boot(c, "second")
        await c.pass_time(6)
        await c._admitters[0].kill()
        c.kubelet = True
        await c.pass_time(10)
        c.succeed("b")
        await c.pass_time(60)
        c.admitter()
        await c.until(lambda: c.status("a").get("interruptedCount") == 1, limit=200)
        await c.until(lambda: c.phase("b") == "Completed", limit=200)


async def test_an_admitter_that_comes_late_completes_what_was_done() -> None:
    async with running_job("a") as c:
        c.succeed("a")
        await c._admitters[0].kill()
        await c.pass_time(3600, step=60)
        c.admitter()
        assert await c.until(lambda: c.phase("a") == "Completed") <= 25


async def test_what_the_kubelet_writes_of_other_pods_is_enough() -> None:
    async with running_job("a", "b") as c:
        c._renewed["n1"] = c.clock.now() + timedelta(hours=1)  # no Lease is renewed
        c.succeed("a")
        await c.pass_time(6)
        c.succeed("b")
        await c.until(lambda: c.phase("a") == "Completed", limit=20)
        assert c.phase("b") == "Running"


@pytest.mark.parametrize("forbid", [False, True])
async def test_where_no_lease_can_be_read_a_node_that_stays_ready_is_believed(forbid: bool) -> None:
    async with running_job("a") as c:
        if forbid:
            c.api.fail(403, times=1000, methods={"GET"}, path="/leases/")
        else:
            c._renewed["n1"] = c.clock.now() + timedelta(hours=1)
            c.api.remove(LEASES, NAMESPACE, "n1")
        c.succeed("a")
        took = await c.until(lambda: c.phase("a") == "Completed", limit=200)
        assert 100 < took <= 121
        assert c.status("a").get("interruptedCount", 0) == 0


async def test_an_api_server_that_is_away_proves_nothing() -> None:
    async with running_job("a") as c:
        c.succeed("a")
        await c.pass_time(1)
        c.api.fail(503, times=100_000, methods={"GET", "PATCH"})
        await c.pass_time(300, step=5)
        c.api.heal()
        await c.until(lambda: c.phase("a") == "Completed")
        assert c.status("a").get("interruptedCount", 0) == 0


async def test_many_jobs_of_a_node_read_its_lease_together() -> None:
    names = [f"j{number}" for number in range(20)]
    async with running_job(*names) as c:
        open_before, proven_before = _open(), _proven()
        for name in names:
            c.succeed(name)
        await c.until(lambda: _open() == open_before + 20)
        await c.until(lambda: all(c.phase(name) == "Completed" for name in names))
        assert leases_read(c) <= 3
        assert (_open(), _proven()) == (open_before, proven_before + 20)


async def test_its_capacity_is_free_while_the_verdict_waits() -> None:
    async with harness() as c:
        c.api.remove(NODES, None, "n1")
        c.node(cpu="2")
        c.submit("a")
        await runs(c, "a")
        c.submit("b")
        c._renewed["n1"] = c.clock.now() + timedelta(hours=1)
        c.succeed("a")
        assert await runs(c, "b") < 5
        assert c.phase("a") == "Running"


async def test_0_is_off() -> None:
    async with running_job("a", success_evidence_after=0.0) as c:
        c.succeed("a")
        assert await c.until(lambda: c.phase("a") == "Completed") < 2
        assert leases_read(c) == 0


async def test_tasks_that_ended_free_their_places_and_are_completed_when_proven() -> None:
    async with harness() as c:
        c.submit("a", array={"tasks": 3, "maxRunning": 1})
        for number in range(3):
            await c.until(_one_runs(c))
            c.succeed("a")
            if number < 2:
                assert await c.until(_one_runs(c)) < 5
        assert c.status("a")["array"]["completed"] < 3
        await c.until(lambda: c.phase("a") == "Completed")
        assert c.status("a")["array"]["completed"] == 3
        assert c.jobs_ever("a") == 1


def _open() -> float:
    """What the metric says of all admitters of this process."""
    return next(one.value for family in metrics.UNPROVEN_SUCCESSES.collect() for one in family.samples)


def _proven() -> float:
    samples = (one for family in metrics.PROOF_SECONDS.collect() for one in family.samples)
    return next(one.value for one in samples if one.name.endswith("_count"))


def _one_runs(c: Harness) -> Callable[[], bool]:
    return lambda: any(pod["status"].get("phase") == "Running" for pod in c.pods("a"))
