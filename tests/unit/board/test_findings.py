"""Problems of the cluster that the page shows, and how they reach it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from scavenger_api import names
from scavenger_api.levels import LevelsState
from scavenger_board.core.delta import delta
from scavenger_board.core.now import picture_now
from scavenger_board.core.snapshot import SERVICES, NodeFacts, PodFacts, Snapshot
from scavenger_board.facts import held, pod_facts
from scavenger_kube.kinds import Pod
from scavenger_testing import builders

from .builders import NOW, ago, published, shown

SYSTEM = names.SYSTEM_NAMESPACE


def leases(**silent: float) -> dict[str, datetime | None]:
    return {name: ago(seconds=silent.get(name.removeprefix("scavenger-"), 5)) for name in SERVICES}


def replica(service: str, image: str) -> PodFacts:
    return PodFacts(f"{SYSTEM}/{service}", "n", service=service, image=image)


def replicas(*versions: str) -> list[PodFacts]:
    return [replica(name, f"r/{name}:{tag}") for name, tag in zip(SERVICES, versions, strict=False)]


BLIND = published(state=LevelsState.BLIND, message="the metrics API does not answer")

CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("nothing", {}, []),
    ("budgets that are looked after", {"leases": leases(), "budgets": ["lab"]}, []),
    ("a prioritizer that is silent", {"leases": leases(prioritizer=90), "budgets": ["lab"]}, ["StaleBudgets"]),
    ("a prioritizer that was removed", {"budgets": ["lab"]}, ["StaleBudgets"]),
    ("a budget of somebody else", {"foreign_budgets": ["lab"]}, ["BudgetNameTaken"]),
    ("a silent prioritizer without budgets", {"leases": leases(prioritizer=90)}, []),
    ("a finalizer that is about to go", {"leases": leases(), "held": ["lab/p"]}, []),
    ("an admitter that is silent", {"leases": leases(admitter=90), "held": ["lab/p"]}, ["StaleFinalizers"]),
    ("fresh levels", {"levels": published()}, []),
    ("old levels", {"levels": published(age=600)}, ["NoMeasurement"]),
    ("no metrics", {"levels": BLIND}, ["NoMeasurement"]),
    ("a node that refuses pods", {"nodes": [NodeFacts("n1", {})], "shunned": {"n1": "no device"}}, ["NodesRefusePods"]),
    ("a node that is gone", {"shunned": {"n1": "no device"}}, []),
    ("one version", {"pods": replicas("0.2.0", "0.2.0")}, []),
    ("two versions", {"pods": replicas("0.2.0", "0.1.0")}, ["VersionsDiffer"]),
]


@pytest.mark.parametrize(("name", "seen", "expected"), CASES, ids=[case[0] for case in CASES])
def test_problems(name: str, seen: dict[str, Any], expected: list[str]) -> None:
    found = shown(**seen).findings
    assert [one.name for one in found] == expected
    assert all(one.text and one.remedy for one in found)


def test_no_problem_has_an_age_which_would_be_another_one_each_second() -> None:
    seen: dict[str, Any] = {"levels": published(age=600), "leases": leases(prioritizer=90), "budgets": ["lab"]}
    later = picture_now(Snapshot(NOW + timedelta(seconds=7), **seen), levels_about="")
    assert [one.name for one in later.findings] == ["StaleBudgets", "NoMeasurement"]
    assert later.findings == shown(**seen).findings


def test_a_page_is_sent_problems_that_come_and_go() -> None:
    before, after = shown(leases=leases(prioritizer=90)), shown(leases=leases(prioritizer=90), budgets=["lab"])
    for old, new in ((before, after), (after, before)):
        found = delta(old, new)
        assert found is not None
        assert found["changed"]["findings"] == new.findings


def test_pods_that_only_the_finalizer_keeps() -> None:
    stamp = "2026-01-05T07:00:00Z"
    assert held(builders.pod("p", namespace="lab", finalizers=[names.FINALIZER], deleted=stamp)) == "lab/p"
    assert held(builders.pod("p", namespace="lab", finalizers=[names.FINALIZER])) is None
    assert held(builders.pod("p", namespace="lab", finalizers=["another.example.com/f"], deleted=stamp)) is None


def test_the_image_of_a_service_is_that_of_its_own_container() -> None:
    labels = {"app.kubernetes.io/name": names.ADMITTER, "app.kubernetes.io/part-of": "scavenger-jobs"}
    found = builders.pod_dict("p", namespace=SYSTEM, labels=labels)
    images = {"proxy": "proxy:1", "admitter": "r/admitter:0.2.0"}
    found["spec"]["containers"] = [{"name": name, "image": image} for name, image in images.items()]
    pod = msgspec.convert(found, Pod)
    assert pod_facts(pod, SYSTEM).image == "r/admitter:0.2.0"
    assert pod_facts(pod, "another").image == ""
