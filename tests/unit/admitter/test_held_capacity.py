"""For which ordinary pods capacity is held, and until when, on ten nodes of 8 CPUs of which 2 are in use."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, plan_admissions
from scavenger_admitter.core.admission.load import LoadRule
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import PODS
from scavenger_testing.builders import pod_dict

from .harness import NS, empty_harness
from .test_state import NOW, SECOND, candidate, node, pod, unschedulable

UNHELPFUL = "preemption: 0/10 nodes are available: 10 Preemption is not helpful for scheduling."
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
ROOM_NOW = "0/10 nodes are available: 10 Insufficient cpu. preemption: 0/10 nodes are available: 10 No victims."


def cluster(pending: Iterable[Pod] = (), jobs: int = 20, *, full: int = 0) -> ClusterState:
    """`full`: nodes without a free CPU."""
    state = ClusterState()
    for i in range(10):
        state.apply_node(node(f"n{i}"))
        state.apply_pod(pod(f"web-{i}", cpu=8 if i < full else 2, node=f"n{i}"))
    for each in pending:
        state.apply_pod(each)
    for i in range(jobs):
        state.apply_candidate(candidate(f"job-{i:02}"))
    return state


def waiting(message: str, count: int = 10, cpu: int = 6) -> list[Pod]:
    """A Deployment's pods that found no node."""
    return [pod(f"more-{i}", cpu=cpu, conditions=unschedulable(message)) for i in range(count)]


def cycle(state: ClusterState, seconds: int = 0) -> AdmissionPlan:
    """A cycle so many seconds later, whose result the view is told."""
    now = NOW + seconds * SECOND
    found = plan_admissions(state.snapshot(now=now, rule=LoadRule.fixed(100)))
    state.held.promised(found.promised, now)
    return found


@pytest.mark.parametrize(
    "reasons",
    [
        f"10 {ANTI_AFFINITY}",
        "10 node(s) didn't satisfy existing pods anti-affinity rules",
        "10 node(s) didn't have free ports for the requested pod ports",
        "10 node(s) didn't match pod topology spread constraints",
        "10 node(s) exceed max volume count",
        "10 node(s) had no available disk",
        f"7 {ANTI_AFFINITY}, 3 node(s) had untolerated taint {{a.b/c: d}}",
        "10 node(s) with a reason of tomorrow",
    ],
)
def test_capacity_that_no_node_would_give_the_pod_is_free(reasons: str) -> None:
    found = cycle(cluster(waiting(f"0/10 nodes are available: {reasons}. {UNHELPFUL}")))
    assert len(found.starts) == 20


def test_capacity_on_nodes_that_are_barred_is_free_though_others_are_short() -> None:
    said = f"0/10 nodes are available: 3 Insufficient cpu, 7 {ANTI_AFFINITY}."
    state = cluster(waiting(said), jobs=40, full=3)
    assert len(cycle(state).starts) == 40, "all that is free is on barred nodes"
    state = cluster(waiting(said), jobs=48, full=3)
    state.delete_pod("ns/web-0")  # one of the three is free now
    assert len(cycle(state).starts) == 44, "6 CPUs of 50 are held for one of the pods"


def test_a_new_node_is_held_for_the_pod_that_waits_for_one() -> None:
    state = cluster(waiting(f"0/10 nodes are available: 3 Insufficient cpu, 7 {ANTI_AFFINITY}."), jobs=50, full=3)
    state.apply_node(node("new"))
    assert len(cycle(state).starts) == 44


def test_a_pod_that_was_never_tried_holds_capacity_for_a_minute() -> None:
    state = cluster([pod(f"nobody-{i}", cpu=6) for i in range(10)])
    assert len(cycle(state, 59).starts) == 0
    assert len(cycle(state, 60).starts) == 20


@pytest.mark.parametrize("message", [ROOM_NOW, "another scheduler's words", ""])
def test_a_promise_ends_after_five_minutes_in_which_the_pod_did_not_take_it(message: str) -> None:
    state = cluster(waiting(message))
    assert [len(cycle(state, at).starts) for at in (0, 100, 299, 300, 1000)] == [0, 0, 0, 20, 20]
    changed = pod("more-0", cpu=6, conditions=unschedulable(message + "."))
    state.apply_pod(changed)
    assert len(cycle(state, 1001).starts) == 20, "it is the same pod"
    state.delete_pod("ns/more-0")
    cycle(state, 1002)
    state.apply_pod(changed)
    assert cycle(state, 1003).promised == ("ns/more-0",), "and this one is another"


def test_a_clock_that_is_set_back_makes_no_promise_longer() -> None:
    state = cluster(waiting(ROOM_NOW))
    assert [len(cycle(state, at).starts) for at in (3600, 0, 299, 300)] == [0, 0, 0, 20]


def test_a_promise_begins_when_there_is_something_to_hold() -> None:
    """A pod waits for an hour in a full cluster; what comes free then is for it."""
    state = cluster(waiting(ROOM_NOW, count=1), jobs=8, full=10)
    for at in (0, 1800, 3600):
        assert cycle(state, at).promised == ()
    state.delete_pod("ns/web-0")
    assert len(cycle(state, 3601).starts) == 2, "8 CPUs less the pod's 6"


def test_what_is_nominated_is_held_for_as_long_as_the_scheduler_says_so() -> None:
    state = cluster([pod("more", cpu=6, nominatedNodeName="n0")], jobs=60)
    for at in (0, 3600):
        assert len(cycle(state, at).starts) == 54


def test_the_message_names_the_pods_for_which_capacity_is_held() -> None:
    held = cycle(cluster(waiting(ROOM_NOW), jobs=1)).held["ns/job-00"]
    assert held.message == (
        "needs 1 cpu, 1Gi memory; the largest free place is 0 cpu, 30Gi memory, as more is held for pods that wait"
        " for a node: ns/more-0, ns/more-1, ns/more-2 and 7 more"
    )
    without = cycle(cluster(jobs=1, full=10)).held["ns/job-00"]
    assert "held" not in without.message


async def test_jobs_start_when_a_pod_of_nobodys_scheduler_is_a_minute_old() -> None:
    """Nothing happens in the cluster that would have the admitter look again."""
    async with empty_harness() as c:
        c.kubelet = False
        c.node(cpu="10")
        c.api.put(PODS, pod_dict("nobody", namespace=NS, cpu="8", scheduler="nobody", created=c.stamp()))
        c.admitter()
        c.submit("job", cpu="3")
        await c.until(lambda: c.phase("job") == "Waiting")
        assert c.status("job")["message"].endswith(f"as more is held for pods that wait for a node: {NS}/nobody")
        passed = await c.until(lambda: c.starts() == ["job"], limit=120)
        assert 50 < passed < 70
