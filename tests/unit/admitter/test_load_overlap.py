"""Pods that the measured load may show and that are counted beside it as well: nobody goes because of them."""

from __future__ import annotations

import msgspec
import pytest
from scavenger_admitter.core.admission.cycle.plan import plan_admissions
from scavenger_admitter.core.admission.load import Level, LoadRule
from scavenger_admitter.core.admission.running import RunningJob
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, QueueView
from scavenger_admitter.core.admission.units import SECOND
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_api.names import ANNOTATION_RUN, LABEL_JOB, LABEL_QUEUE
from scavenger_kube.kinds import Node, Pod

SAMPLE = 1_800_000_000 * SECOND
"""2027-01-15T08:00:00Z"""
NOW = SAMPLE + 10 * SECOND
LONG_AGO = "2027-01-15T07:00:00Z"
GI = 1 << 30
JOB = Shape.of({"cpu": 6000, "memory": GI})
TWICE_AS_LARGE = Shape.of({"cpu": 12_000, "memory": GI})


def node() -> Node:
    ready = {"type": "Ready", "status": "True"}
    allocatable = {"cpu": "96", "memory": "960Gi", "pods": "110"}
    return msgspec.convert(
        {"metadata": {"name": "n"}, "status": {"allocatable": allocatable, "conditions": [ready]}}, Node
    )


def pod(name: str, started: str | None = LONG_AGO, created: str = LONG_AGO, **status: str) -> Pod:
    containers = [{"name": "c", "state": {"running": {"startedAt": started}}}] if started else []
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": name,
                "creationTimestamp": created,
                "labels": {LABEL_JOB: name, LABEL_QUEUE: name.partition("-")[0]},
                "annotations": {ANNOTATION_RUN: "1"},
            },
            "spec": {
                "nodeName": "n",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "6", "memory": "1Gi"}}}],
            },
            "status": {"phase": "Running" if started else "Pending", "containerStatuses": containers, **status},
        },
        Pod,
    )


def at(second: int) -> str:
    return f"2027-01-15T08:00:{second:02}Z" if second >= 0 else f"2027-01-15T07:59:{60 + second:02}Z"


def rule(load: float, now: int = NOW, averaged: int = 0) -> LoadRule:
    """The load as it was at 08:00:00, on average over so many seconds."""
    levels = {"cpu": Level(load, 80.0), "memory": Level(1.0, 80.0)}
    return LoadRule.published(
        levels, observed_at=SAMPLE, unseen_since=SAMPLE - averaged * SECOND, now=now, period_seconds=30
    )


def cluster(*last: Pod, waits: Shape = JOB) -> ClusterState:
    """Four jobs of ben's and six of ada's, who is to have three times as much, and these pods of hers, of 6 CPUs of 96
    each; the next one of hers is in line."""
    state = ClusterState()
    state.apply_node(node())
    state.apply_queue(QueueView("ada", 3))
    state.apply_queue(QueueView("ben", 1))
    for each in (*(pod(f"ben-{n}") for n in range(4)), *(pod(f"ada-{n}") for n in range(6)), *last):
        state.apply_pod(each)
        name = each.metadata.name
        if each.status.phase == "Running":
            state.running.apply(RunningJob(f"ns/{name}", name, name.partition("-")[0], since=SAMPLE))
    state.apply_candidate(Candidate("ns/ada-x", "ada-x", "ada", waits))
    return state


def victims(state: ClusterState, under: LoadRule) -> list[str]:
    return [one.key for one in plan_admissions(state.snapshot(now=NOW, rule=under)).preemptions]


SEVENTH = 100 * 66 / 96
"""Load, in percent, with her seventh job in it."""


def test_with_no_doubt_about_the_load_a_donor_gives_what_it_has_beyond_its_share() -> None:
    """An ordinary pod of 6 CPUs came: ben's share fell to 17.7 CPUs, and without one of his jobs he has 18."""
    (taken,) = victims(cluster(pod("ada-6")), rule(SEVENTH + 100 * 6 / 96))
    assert taken.startswith("ns/ben-")


def test_while_the_load_is_what_the_jobs_request_every_donor_keeps_its_share() -> None:
    """Ben's share is 19.2 CPUs, and without one of his four jobs he would have 18."""
    assert victims(cluster(pod("ada-6")), rule(SEVENTH)) == []


@pytest.mark.parametrize(
    ("last", "averaged"),
    [
        (pod("ada-6", started=at(0), created=at(-2)), 0),
        (pod("ada-6", started=at(3), created=at(-2)), 0),  # bound when it was looked at, and running later
        (pod("ada-6", started=None, created=at(0)), 0),
        (pod("ada-6", started=at(0), created=at(-2)), 60),
        (pod("ada-6", started=at(-30), created=at(-32)), 60),
    ],
    ids=["started-then", "created-before", "pulling", "started-then-averaged", "started-while-averaged"],
)
def test_no_donor_falls_below_its_share_because_a_pod_counts_twice(last: Pod, averaged: int) -> None:
    """The load shows the pod, and its time says that it may not: for whoever starts it counts beside the load as well,
    and with that ben would deserve 17.7 CPUs."""
    assert victims(cluster(last), rule(SEVENTH, averaged=averaged)) == []


@pytest.mark.parametrize("second", [-1, 0], ids=["before", "in-that-second"])
@pytest.mark.parametrize("started", [LONG_AGO, at(0), None], ids=["long-ago", "just-then", "never"])
def test_nor_because_one_that_is_gone_is_in_the_load(second: int, started: str | None) -> None:
    """Whoever measured saw it go later than we did."""
    state = cluster(pod("ada-6", started=started, created=at(-2)), waits=TWICE_AS_LARGE)
    when = SAMPLE + second * SECOND
    state.snapshot(now=when - SECOND, rule=rule(SEVENTH, now=when))
    state.delete_pod("ns/ada-6")
    state.snapshot(now=when, rule=rule(SEVENTH, now=when))
    assert victims(state, rule(SEVENTH)) == []


@pytest.mark.parametrize(
    ("last", "averaged"),
    [
        (pod("ada-6", started=at(5), created=at(4)), 0),
        (pod("ada-6", started=at(5), created=at(-2)), 60),  # what is measured is use: it began with the start
        (pod("ada-6", started=None, created=at(-2)), 60),
    ],
    ids=["started-later", "started-later-averaged", "pulling-averaged"],
)
def test_what_the_load_cannot_show_is_no_reason_to_doubt_it(last: Pod, averaged: int) -> None:
    """The load is that of an ordinary pod of 6 CPUs."""
    (taken,) = victims(cluster(last), rule(SEVENTH, averaged=averaged))
    assert taken.startswith("ns/ben-")


def test_nor_is_what_went_long_before() -> None:
    """Scavenging may use 69 CPUs, of which ben deserves 17.25."""
    state = cluster(pod("ada-6"), waits=TWICE_AS_LARGE)
    earlier = SAMPLE - 60 * SECOND
    state.snapshot(now=earlier, rule=rule(SEVENTH, now=earlier))
    state.delete_pod("ns/ada-6")
    state.snapshot(now=earlier + SECOND, rule=rule(SEVENTH, now=earlier))
    (taken,) = victims(state, rule(80 - 100 * 9 / 96))
    assert taken.startswith("ns/ben-")
