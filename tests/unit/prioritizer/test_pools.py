"""The share of preemptible jobs by pool of nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_api.names import NON_PREEMPTIBLE, PREEMPTIBLE
from scavenger_prioritizer.core.plan import plan_classes, preemptible_count
from scavenger_prioritizer.core.snapshot import Gang, Share, Snapshot, Source

from tests.unit.prioritizer.builders import NO_STARTUP, ago, classes, gang, pod, preemptible, published, snapshot

POOLS = {"g1": "gpu", "g2": "gpu"}
RULES = replace(NO_STARTUP, window=0)


def on(name: str, *nodes: str, ran: float = 600, class_: str = PREEMPTIBLE) -> Gang:
    members = [pod(f"{name}-{i}", node=one, class_=class_, job=name, started=ago(ran)) for i, one in enumerate(nodes)]
    return gang(name, started=ran, pods=members, parallelism=len(nodes), class_=class_)


def taken(*gangs: Gang, default: float | None, gpu: float | None) -> Snapshot:
    share = Share(None, Source.KEPT, "stale") if gpu is None else published(gpu)
    return replace(snapshot(gangs, default, rules=RULES), shares={"gpu": share}, pool_of=POOLS)


FOUR = (on("a", "c1", ran=900), on("b", "c1", ran=800), on("c", "g1", ran=700), on("d", "g2", ran=600))


@pytest.mark.parametrize(
    ("default", "gpu", "expected"),
    [(50, 50, "bd"), (100, 0, "ab"), (0, 100, "cd"), (1, 1, "bd"), (100, 100, "abcd")],
)
def test_each_pool_has_its_share(default: float, gpu: float, expected: str) -> None:
    assert preemptible(plan_classes(taken(*FOUR, default=default, gpu=gpu))) == set(expected)


def test_a_gang_over_two_pools_takes_the_larger_share() -> None:
    wide = on("wide", "c1", "g1", ran=1200)
    assert preemptible(plan_classes(taken(wide, default=0, gpu=100))) == {"wide"}
    assert preemptible(plan_classes(taken(wide, default=100, gpu=0))) == {"wide"}
    assert preemptible(plan_classes(taken(wide, default=0, gpu=0))) == set()


@pytest.mark.parametrize(("default", "gpu", "kept"), [(None, 100, "ab"), (100, None, "cd")])
def test_classes_of_a_pool_that_nobody_sees_stay(default: float | None, gpu: float | None, kept: str) -> None:
    protected = tuple(on(one.job.name, *(pod.node for pod in one.pods), class_=NON_PREEMPTIBLE) for one in FOUR)
    found = classes(plan_classes(taken(*protected, default=default, gpu=gpu)))
    assert {name for name, class_ in found.items() if class_ == NON_PREEMPTIBLE} == set(kept)


@given(
    jobs=st.lists(st.tuples(st.sampled_from(["c1", "c2", "g1", "g2"]), st.integers(1, 5000)), max_size=12),
    shares=st.tuples(st.integers(0, 100), st.integers(0, 100)),
)
def test_a_pool_is_judged_as_a_cluster_of_its_jobs(jobs: list[tuple[str, int]], shares: tuple[int, int]) -> None:
    gangs = [on(f"{i}", node, ran=ran) for i, (node, ran) in enumerate(jobs)]
    both = preemptible(plan_classes(taken(*gangs, default=shares[0], gpu=shares[1])))
    alone: set[str] = set()
    for share, on_gpus in zip(shares, (False, True), strict=True):
        members = [one for one in gangs if (one.pods[0].node in POOLS) == on_gpus]
        alone |= preemptible(plan_classes(snapshot(members, share, rules=RULES)))
    assert both == alone


@given(
    jobs=st.lists(st.tuples(st.sampled_from(["c1", "c2", "g1"]), st.integers(1, 5000), st.booleans()), max_size=12),
    share=st.integers(0, 100),
    pool_of=st.sampled_from([{}, {"elsewhere": "gpu"}]),
)
def test_one_pool_is_judged_as_before_there_were_pools(
    jobs: list[tuple[str, int, bool]], share: int, pool_of: dict[str, str]
) -> None:
    """The formula of that time: the first of all jobs in their order are preemptible, by the share of the cluster."""
    kept = {True: NON_PREEMPTIBLE, False: PREEMPTIBLE}
    gangs = [on(f"{i}", node, ran=ran, class_=kept[safe]) for i, (node, ran, safe) in enumerate(jobs)]
    plan = plan_classes(replace(snapshot(gangs, share, rules=RULES), pool_of=pool_of))
    first = plan.verdicts[: preemptible_count(len(gangs), share)]
    assert [one.class_ for one in plan.verdicts] == [
        PREEMPTIBLE if one in first else NON_PREEMPTIBLE for one in plan.verdicts
    ]
