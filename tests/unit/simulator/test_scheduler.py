"""Whom kube-scheduler takes by itself, where all pods that may go have one priority."""

from __future__ import annotations

import pytest
from scavenger_simulator.scheduler import NodeOutlook, choose_node, choose_node_by_pods
from scavenger_simulator.victims import Share


def share(name: str, cores: int, started: float, *, pods: int = 1, lost: bool = False) -> Share:
    """With much to lose the older it is, which nobody looks at."""
    mine = [((cores, 0, 1), f"{name}-{i}") for i in range(pods)]
    return Share(name, 1e6 - started, lost, False, mine, 0 if lost else pods, started)


def outlook(index: int, missing: int, *shares: Share) -> NodeOutlook:
    return NodeOutlook(index, shares, (missing, 0, 0), (-missing, 0, 0))


@pytest.mark.parametrize(
    ("outlooks", "index", "pods"),
    [
        ([outlook(0, 2, share("old", 2, 10), share("young", 2, 20))], 0, ["young-0"]),
        # The oldest keeps its place, then what fits beside it: the largest is not looked for.
        ([outlook(0, 3, share("old", 1, 10), share("middle", 3, 20), share("young", 1, 30))], 0, ["middle-0"]),
        ([outlook(0, 2, share("a", 1, 10), share("b", 1, 20)), outlook(1, 2, share("c", 2, 5))], 1, ["c-0"]),
        ([outlook(0, 1, share("a", 1, 10)), outlook(1, 1, share("b", 1, 20))], 1, ["b-0"]),
        ([outlook(0, 1, share("a", 1, 10)), outlook(1, 1, share("b", 1, 10))], 0, ["a-0"]),
        ([outlook(0, 2, share("small", 1, 10)), outlook(1, 1, share("a", 1, 5), share("b", 1, 9))], 1, ["b-0"]),
        ([outlook(0, 2, share("gang", 1, 10, pods=3))], 0, ["gang-1", "gang-2"]),
    ],
)
def test_who_started_last_goes_where_fewest_have_to(outlooks: list[NodeOutlook], index: int, pods: list[str]) -> None:
    found = choose_node_by_pods(outlooks)
    assert found is not None
    assert (found.index, sorted(found.pods)) == (index, pods)


def test_nobody_goes_where_all_of_them_were_not_enough() -> None:
    assert choose_node_by_pods([outlook(0, 3, share("a", 1, 10), share("b", 1, 20))]) is None
    assert choose_node_by_pods([]) is None


def test_pods_that_are_leaving_are_taken_as_others_are_and_lose_nothing() -> None:
    found = choose_node_by_pods([outlook(0, 2, share("old", 1, 10), share("leaving", 1, 20, lost=True))])
    assert found is not None
    assert [share.key for share in found.newly_broken] == ["old"]


def protected(name: str, cores: int, seconds: float, pods: int = 1) -> Share:
    return Share(
        name,
        seconds,
        lost=False,
        protected=True,
        pods=[((cores, 0, 1), f"{name}-{i}") for i in range(pods)],
        staying=pods,
        started=1.0,
    )


def test_of_protected_jobs_those_go_that_lose_least_however_many_pods_they_have() -> None:
    """On one node, between nodes, and none of them where others are enough."""
    costly, cheap = protected("costly", 2, 9000.0), protected("cheap", 1, 10.0, pods=2)
    for outlooks in ([outlook(0, 2, costly, cheap)], [outlook(0, 2, costly), outlook(1, 2, cheap)]):
        found = choose_node(outlooks)
        assert found is not None
        assert sorted(found.pods) == ["cheap-0", "cheap-1"]
    found = choose_node([outlook(0, 2, cheap), outlook(1, 2, share("costly", 2, 10))])
    assert found is not None
    assert found.pods == ("costly-0",)
