"""What nodes have done to pods: which are closed, to whom, for how long, and what a tenant cannot bring about."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_admitter.core.admission.shape import Requests
from scavenger_admitter.core.admission.units import SECOND
from scavenger_admitter.core.admission.view.node_trust import (
    ENOUGH,
    FIRST,
    FORGOTTEN_AFTER,
    MOST,
    MOST_NODES,
    MOST_TOLD,
    TESTED_FOR,
    WINDOW,
    Closed,
    NodeTrust,
    Scope,
)
from scavenger_api.shunned_nodes import CLOSED, shunned_nodes

CPU: Requests = (("cpu", 1000), ("memory", 1 << 30), ("pods", 1))
GPU: Requests = (("cpu", 1000), ("memory", 1 << 30), ("nvidia.com/gpu", 1), ("pods", 1))
EVERYONE = Closed(everyone=frozenset({"bad"}))


@dataclass
class Nodes:
    """Nodes `bad` and `good`, and the time in seconds."""

    trust: NodeTrust = field(default_factory=NodeTrust)
    now: float = 0.0

    @property
    def at(self) -> int:
        return round(self.now * SECOND)

    def refuse(self, *jobs: str, requests: Requests = CPU, runtime: bool = False, apart: float = 10.0) -> None:
        for job in jobs:
            self.now += apart
            self.trust.refused("bad", job, requests, f"no, {job}", self.at, admission=not runtime)

    def start(self, job: str, node: str = "good", requests: Requests = CPU) -> None:
        self.trust.started(node, job, requests)

    @property
    def closed(self) -> Closed:
        return self.trust.closed(self.at)

    def to(self, namespace: str, requests: Requests = CPU) -> bool:
        """Whether `bad` is closed to such pods."""
        return "bad" in self.closed.everyone or "bad" in self.closed.to(namespace, requests)

    def test(self) -> None:
        """Pass the time until the node is tested, and send a start there."""
        self.now += MOST / SECOND
        assert self.closed.tested == {"bad"}
        self.trust.sent(["bad"], self.at)
        assert self.closed.tested == frozenset()


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture
def shut(nodes: Nodes) -> Nodes:
    """The node is closed to everybody."""
    nodes.refuse("a/x", "b/y", "a/z")
    return nodes


# --- what proves what ---


def test_three_refusals_of_pods_of_two_namespaces_close_a_node(nodes: Nodes) -> None:
    nodes.refuse("a/x", "b/y")
    assert nodes.closed == Closed()
    nodes.refuse("a/x")
    assert nodes.closed == EVERYONE


def test_a_tenant_closes_no_node_to_others(nodes: Nodes) -> None:
    """Whatever their pods make a kubelet say, and wherever else they start."""
    for number in range(50):
        nodes.refuse(f"a/j{number}", runtime=number % 2 == 0, apart=1)
        nodes.start(f"a/j{number}")
        assert not nodes.to("b")
    assert nodes.to("a")


def test_one_tenant_does_not_keep_a_node_closed_that_was_at_fault(shut: Nodes) -> None:
    for _ in range(20):
        shut.now += MOST / SECOND
        shut.trust.sent(["bad"], shut.at)
        shut.refuse("a/x", apart=1)
        assert shut.to("a")
        assert not shut.to("b")


def test_a_broken_job_of_one_namespace_does_not_close_its_nodes_to_its_other_jobs(nodes: Nodes) -> None:
    """It starts nowhere, so nothing says that the node is at fault."""
    nodes.refuse(*["a/x"] * 10, runtime=True)
    assert not nodes.to("a")


def test_broken_jobs_of_two_namespaces_do_not_close_a_node_by_its_runtime(nodes: Nodes) -> None:
    nodes.refuse("a/x", "b/y", "a/x", "b/y", runtime=True)
    assert nodes.closed == Closed()


def test_a_runtime_that_fails_for_jobs_that_start_elsewhere_closes_its_node(nodes: Nodes) -> None:
    for job in ("a/x", "b/y", "c/z"):
        nodes.refuse(job, runtime=True)
        nodes.start(job)
    assert nodes.closed.everyone == {"bad"}


def test_jobs_of_one_namespace_that_start_elsewhere_close_a_node_to_that_namespace(nodes: Nodes) -> None:
    for job in ("a/x", "a/y", "a/z"):
        nodes.refuse(job)
        assert not nodes.to("a")
        nodes.start(job)
    assert nodes.closed.some == {Scope("a", ()): frozenset({"bad"})}
    assert nodes.closed.everyone == frozenset()


def test_a_start_on_the_same_node_is_not_elsewhere(nodes: Nodes) -> None:
    for job in ("a/x", "a/y", "a/z"):
        nodes.refuse(job)
        nodes.start(job, node="bad")
    assert nodes.closed == Closed()


def test_refusals_that_are_further_apart_prove_nothing(nodes: Nodes) -> None:
    nodes.refuse("a/x", "b/y", "a/z", apart=WINDOW / SECOND / 2)
    assert nodes.closed == Closed()


def test_a_pod_of_anybody_that_starts_there_contradicts_the_others(nodes: Nodes) -> None:
    nodes.refuse("a/x", "b/y")
    nodes.start("c/z", node="bad")
    nodes.refuse("a/x", "b/y")
    assert nodes.closed == Closed()


@pytest.mark.parametrize("times", [ENOUGH - 1, ENOUGH])
def test_a_node_that_reboots_again_and_again_is_closed_to_all(nodes: Nodes, times: int) -> None:
    for _ in range(times):
        nodes.now += 60
        nodes.trust.failed_by_itself("bad", "the node has rebooted", nodes.at)
    assert (nodes.closed.everyone == {"bad"}) is (times == ENOUGH)


# --- devices ---


def test_a_node_without_its_device_runs_pods_that_need_none(nodes: Nodes) -> None:
    for job in ("a/x", "b/y", "a/z"):
        nodes.start("c/plain", node="bad")
        nodes.refuse(job, requests=GPU)
    assert nodes.to("c", GPU)
    assert not nodes.to("c")
    nodes.start("c/plain", node="bad")
    assert nodes.to("c", GPU)


def test_a_node_that_starts_no_pods_starts_none_with_devices(shut: Nodes) -> None:
    assert shut.to("c", GPU)


# --- the test ---


def test_one_start_tests_a_node_when_its_time_is_over(shut: Nodes) -> None:
    shut.now += FIRST / SECOND - 1
    assert shut.closed == EVERYONE
    shut.now += 1
    assert shut.closed == Closed(tested=frozenset({"bad"}))
    shut.trust.sent(["good", "bad"], shut.at)
    assert shut.closed == EVERYONE
    shut.start("c/new", node="bad")
    assert shut.closed == Closed()
    assert not shut.trust


def test_a_test_of_which_nothing_is_heard_is_made_again(shut: Nodes) -> None:
    shut.test()
    shut.now += TESTED_FOR / SECOND
    assert shut.closed.tested == {"bad"}


def test_a_node_that_fails_its_tests_is_closed_for_longer_each_time_and_for_no_more_than_an_hour(shut: Nodes) -> None:
    lasted = []
    for _ in range(8):
        shut.now += MOST / SECOND
        shut.refuse("a/x", "b/y", apart=1)
        (closing,) = shut.trust.shunned().values()
        lasted.append((closing.until - shut.at) // SECOND)
    assert lasted == [600, 1200, 2400, *[MOST // SECOND] * 5]


def test_a_node_closed_to_a_namespace_is_opened_by_a_start_of_that_namespace(nodes: Nodes) -> None:
    for job in ("a/x", "a/y", "a/z"):
        nodes.refuse(job)
        nodes.start(job)
    nodes.start("b/other", node="bad")
    assert nodes.to("a")
    nodes.test()
    nodes.start("a/x", node="bad")
    assert not nodes.to("a")


def test_a_node_that_is_gone_or_that_nobody_tries_is_forgotten(shut: Nodes) -> None:
    shut.now += (FIRST + FORGOTTEN_AFTER) / SECOND + 1
    assert shut.closed == Closed()
    shut.refuse("a/x", "b/y", "a/z")
    shut.trust.deleted("bad")
    assert shut.closed == Closed()
    assert [change.until > 0 for change in shut.trust.changes()] == [True, True, False]


# --- what survives ---


def test_what_is_closed_survives_a_restart(shut: Nodes) -> None:
    kept, after = shut.trust.dump(10_000), NodeTrust()
    after.load(kept, shut.at)
    assert after.closed(shut.at) == EVERYONE
    assert after.dump(10_000) == kept
    assert after.closed(shut.at + FIRST).tested == {"bad"}


def test_others_read_what_is_kept(shut: Nodes) -> None:
    for job in ("a/p", "a/q", "a/r"):
        shut.refuse(job, requests=GPU)
        shut.start(job, requests=GPU)
    assert shunned_nodes({CLOSED: shut.trust.dump(10_000)}).keys() == shut.trust.shunned().keys() == {"bad"}
    assert [shunned_nodes({CLOSED: text}) for text in ("", "{}", "[1]", "null", '[{"node": ""}]')] == [{}] * 5


@pytest.mark.parametrize("most", [2, 200, 1000])
def test_what_is_kept_is_bounded(most: int) -> None:
    trust = NodeTrust()
    for number in range(MOST_NODES + 50):
        for job in ("a/x", "b/y", "a/z"):
            trust.refused(f"n{number}", job, CPU, "x" * 5000, number * 10 * SECOND, admission=True)
    assert len(trust.dump(most)) <= most
    assert len(trust.shunned()) == MOST_NODES
    assert "n0" not in trust.shunned()
    assert max(len(closing.said) for closing in trust.shunned().values()) == MOST_TOLD


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.sampled_from(["node", "namespace", "devices", "until", "times", "closedAt", "said"]), x)))  # fmt: skip # noqa: E501
def test_nothing_that_is_kept_stops_an_admitter(kept: object) -> None:
    trust = NodeTrust()
    trust.load(json.dumps([kept]), 0)
    trust.load(json.dumps(kept)[:-1], 0)
    assert len(trust.closed(0).everyone) <= 1


def test_a_clock_that_is_set_back_keeps_no_node_closed_for_longer_than_the_longest_time(shut: Nodes) -> None:
    assert shut.trust.closed(shut.at - 10 * MOST).everyone == {"bad"}
    assert shut.trust.closed(shut.at - 9 * MOST).tested == {"bad"}


def _steps() -> st.SearchStrategy[list[tuple[str, str, bool]]]:
    jobs, nodes = st.sampled_from(["x", "y", "z"]), st.sampled_from(["bad", "good", "refuse", "send", "wait"])
    return st.lists(st.tuples(nodes, jobs, st.booleans()), max_size=60)


@given(_steps())
def test_no_history_of_one_namespace_closes_a_node_to_another(steps: list[tuple[str, str, bool]]) -> None:
    nodes = Nodes()
    for what, job, runtime in steps:
        if what == "refuse":
            nodes.refuse(f"a/{job}", runtime=runtime, apart=1)
        elif what == "send":
            nodes.trust.sent(["bad"], nodes.at)
        elif what == "wait":
            nodes.now += 400
        else:
            nodes.start(f"a/{job}", node=what)
        assert not nodes.to("b")
        assert not nodes.to("b", GPU)


def test_pods_without_devices_are_witnesses_for_those_with_some_and_not_the_other_way_round(nodes: Nodes) -> None:
    nodes.refuse("a/x", "a/y", requests=GPU)
    nodes.refuse("b/z")
    assert nodes.to("c", GPU)
    assert not nodes.to("c")
