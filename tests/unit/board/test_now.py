"""The picture of this moment: levels, admission, services, nodes, queues and jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scavenger_api import names
from scavenger_api.levels import LevelsState
from scavenger_api.times import micros
from scavenger_board.core.jobs import MOST_TASKS
from scavenger_board.core.nodes import fullness
from scavenger_board.core.picture import AdmissionRow
from scavenger_board.core.snapshot import SERVICES, ArrayFacts, NodeFacts, QueueFacts
from scavenger_domain.nodes import Marks

from .builders import NOW, ago, job, pod, published, shown

ALIVE = dict.fromkeys(SERVICES, NOW)
"""Leases of services that lead."""


# --- levels and admission ---


@pytest.mark.parametrize(
    ("levels", "visibility", "above", "admits", "words"),
    [
        (None, "Absent", None, True, "requests are below 70 %"),
        (published(50.0), "Fresh", [], True, "cpu 50.0 % of 80.0 %"),
        (published(82.0), "Fresh", [], False, "cpu at or above the admission threshold"),
        (published(79.0, ramping=2.0), "Fresh", [], False, "cpu 81.0 % of 80.0 %"),
        (published(82.0, gives_way=5.0), "Fresh", [], True, "cpu 77.0 % of 80.0 %"),
        (published(85.0, admit=False), "Fresh", ["cpu"], False, "lets no job start"),
        (published(60.0, admit=False, message="not yet"), "Fresh", [], False, "No: not yet."),
        (
            published(60.0, admit=False, until=ago(seconds=-90)),
            "Fresh",
            [],
            False,
            "cool-down after interruptions until",
        ),
        (
            published(86.0, admit=False, state=LevelsState.EVICTING),
            "Fresh",
            ["cpu"],
            False,
            "No: jobs are being evicted",
        ),
        (published(60.0, age=31.0), "Stale", None, False, "stale"),
        (published(60.0, state=LevelsState.BLIND, message="no figures"), "Blind", None, False, "no figures"),
        ({"state": "nonsense"}, "Blind", None, False, "unreadable"),
    ],
)
def test_levels_and_whether_anything_starts(
    levels: dict[str, str] | None, visibility: str, above: list[str] | None, admits: bool, words: str
) -> None:
    picture = shown(levels=levels, leases=ALIVE)

    assert (picture.levels.visibility, picture.levels.above) == (visibility, above)
    assert picture.admission.admits is admits
    assert words in picture.admission.says


def test_nothing_starts_without_an_admitter_whatever_the_load() -> None:
    picture = shown(levels=published(10.0))

    assert picture.admission.admits is False
    assert "without an admitter" in picture.admission.says


def test_no_sentence_has_an_age_which_would_be_another_one_each_second() -> None:
    fresh, stale = (shown(levels=published(10.0, age=age), leases=ALIVE) for age in (1.0, 40.0))

    assert fresh.levels.observed_at != stale.levels.observed_at
    assert "40" not in stale.levels.says


# --- services ---


@pytest.mark.parametrize(
    ("leases", "answers", "words"),
    [
        ({}, None, "not installed"),
        ({names.REGULATOR: ago(seconds=59)}, True, "answers"),
        ({names.REGULATOR: ago(seconds=61)}, False, "silent"),
        ({names.REGULATOR: None}, False, "no replica leads"),
    ],
)
def test_a_service_answers_while_its_leader_renews(leases: dict[str, Any], answers: bool | None, words: str) -> None:
    found = next(one for one in shown(leases=leases).services if one.name == names.REGULATOR)

    assert found.answers is answers
    assert words in found.says


def test_a_service_with_pods_that_never_led_does_not_answer() -> None:
    found = shown(pods=[pod("r", service=names.REGULATOR, ready=True)]).services

    assert [(one.name, one.answers, one.ready, one.replicas) for one in found if one.replicas] == [
        (names.REGULATOR, False, 1, 1)
    ]


@pytest.mark.parametrize(("ready", "answers"), [([], None), ([False, False], False), ([False, True], True)])
def test_the_webhook_answers_while_a_replica_is_ready(ready: list[bool], answers: bool | None) -> None:
    pods = [pod(f"w{number}", service=names.WEBHOOK, ready=one) for number, one in enumerate(ready)]
    found = next(one for one in shown(pods=pods).services if one.name == names.WEBHOOK)

    assert found.answers is answers


# --- nodes ---

NODE = NodeFacts("n", {"cpu": 8000, "memory": 1000}, {"cpu": 2000, "memory": 0})


def test_a_tile_has_what_ordinary_and_scavenger_pods_request_and_what_is_used() -> None:
    pods = [
        pod("o", requests={"cpu": 3000, "memory": 400}),
        pod("s", job="a", requests={"cpu": 2000, "memory": 100}),
        pod("r", job="b", requests={"cpu": 0, names.RESOURCE_RECLAIMED_CPU: 1500}),
        pod("elsewhere", node="m", requests={"cpu": 8000}),
        pod("nowhere", node="", requests={"cpu": 8000}, waits=True),
    ]
    (row,) = shown(nodes=[NODE], pods=pods, used={"n": {"cpu": 6000}}).nodes

    assert (row.cpu.ordinary, row.cpu.scavenger, row.cpu.reclaimed, row.cpu.used) == (3000, 2000, 1500, 6000)
    assert (row.cpu.load, row.memory.load) == (75.0, 50.0)
    assert (row.pods, row.jobs) == (3, ["lab/a", "lab/b"])


def test_the_fullest_node_comes_first_by_what_it_has_least_of() -> None:
    nodes = [NodeFacts(name, {"cpu": 1000, "memory": 1000}) for name in "abc"]
    used = {"a": {"cpu": 500, "memory": 100}, "b": {"cpu": 100, "memory": 900}, "c": {"cpu": 700, "memory": 700}}
    rows = shown(nodes=nodes, used=used).nodes

    assert [(row.name, fullness(row)) for row in rows] == [("b", 90.0), ("c", 70.0), ("a", 50.0)]


def test_who_measures_nothing_is_said() -> None:
    assert any("metrics API" in one for one in shown(nodes=[NODE]).unknown)
    assert shown(nodes=[NODE], used={}).unknown == []


def test_what_can_no_longer_be_followed_is_said() -> None:
    assert any("cannot watch pods" in one for one in shown(used={}, unfollowed=frozenset({"pods"})).unknown)


# --- queues and jobs ---


def test_a_priority_counts_inside_a_namespace() -> None:
    jobs = [job("first", queued=1), job("other", queued=2, key="x/other"), job("last", queued=3, priority=5)]
    picture = shown(jobs=jobs)
    (queue,) = picture.queues
    assert queue.line == ["lab/last", "x/other", "lab/first"]
    waiting = sorted((row for row in picture.jobs if row.rank), key=lambda row: row.rank or (0, 0, ""))
    assert [row.key for row in waiting] == queue.line, "the rows say the same"


def test_a_line_is_in_order_of_interruptions_and_arrival() -> None:
    jobs = [
        job("late", queued=2),
        job("early", queued=1),
        job("hurt", "Interrupted", queued=3, earned=1),
        job("runs", "Running"),
        job("goes", queued=0, deleting=True),
        job("unseen", ""),
    ]
    picture = shown(jobs=jobs)

    (queue,) = picture.queues
    assert (queue.name, queue.line, queue.in_line) == ("lab", ["lab/hurt", "lab/early", "lab/late", "lab/unseen"], 4)
    ranks = {row.key: row.rank for row in picture.jobs if row.rank is not None}
    assert sorted(ranks, key=lambda key: ranks[key]) == queue.line, "the page puts them in the same order"


def test_the_line_of_a_queue_whose_namespaces_take_turns() -> None:
    jobs = [job(f"flood{n}", queued=n) for n in range(3)]
    jobs += [job("hurt", queued=8, key="x/hurt", earned=1), job("late", queued=7, key="x/late")]
    picture = shown(jobs=jobs, queues=[QueueFacts("lab", "Open", turns=True)])
    (queue,) = picture.queues
    assert queue.line == ["lab/flood0", "x/hurt", "lab/flood1", "x/late", "lab/flood2"]
    waiting = sorted((row for row in picture.jobs if row.rank), key=lambda row: row.rank or (0, 0, ""))
    assert [row.key for row in waiting] == queue.line, "the rows say the same"


def test_who_has_more_than_the_share() -> None:
    queues = [
        QueueFacts("lab", "Open", 1, {"running": 2}, {"cpu": 9000, "memory": 1}, {"cpu": 8000, "memory": 2}),
        QueueFacts("guest", "Open", 1, {}, {"cpu": 1}, {"cpu": 1}),
    ]

    assert [(row.name, row.over) for row in shown(queues=queues).queues] == [("guest", []), ("lab", ["cpu"])]


def test_a_queue_that_does_not_exist_and_the_one_that_always_does() -> None:
    rows = shown(jobs=[job("a", queue="missing"), job("b", queue="default")]).queues

    assert [(row.name, row.state, row.weight) for row in rows] == [("default", "Open", 1), ("missing", "", None)]


def test_why_a_job_waits_is_what_the_admitter_says_and_what_its_word_stands_for() -> None:
    waits = job("a", reason="AdmissionLevel", message="cpu would be 81 %", since=ago(minutes=9))
    picture = shown(jobs=[waits])
    (row,) = picture.jobs

    assert (row.why, row.says) == ("AdmissionLevel", "cpu would be 81 %")
    assert picture.meanings[row.why].startswith("With it, the load would reach")
    assert row.since == "2026-01-05T07:51:00Z"


def test_what_a_running_job_has_and_would_lose() -> None:
    runs = job("a", "Running", runs=(ago(hours=1),), cpu=2000, memory=10, pods=3, at_risk=70.0, lost=5.0)
    pods = [pod("a-0", "n1", "a"), pod("a-1", "n2", "a"), pod("a-2", "n1", "a")]
    (row,) = shown(jobs=[runs], pods=pods).jobs

    assert (row.cpu, row.memory, row.nodes, row.at_risk, row.lost) == (6000, 30, ["n1", "n2"], 70.0, 5.0)
    assert (row.since, row.why) == ("2026-01-05T07:00:00Z", "")


def test_ordinary_pods_that_wait_are_counted() -> None:
    assert shown(pods=[pod("a", "", waits=True), pod("b")]).waiting_pods == 1


def test_an_array_and_its_tasks() -> None:
    tasks = ArrayFacts(1000, 400, 3, 150, "c" * 160 + "." * 240)
    sweep = job("sweep", "Running", array=tasks, cpu=2000, interval=3600 * 10**6, runs=(ago(hours=2),))
    at = micros(NOW)
    pods = [
        pod(f"sweep-{index}", f"n{index % 3}", "sweep", task=index, started=at - 600 * 10**6) for index in range(150)
    ]
    pods[0] = replace(pods[0], checkpoint=at - 300 * 10**6)
    (row,) = shown(jobs=[sweep], pods=pods).jobs

    assert row.array is not None
    assert (row.array.completed, row.array.failed, row.array.pods, row.array.cells) == (400, 3, 150, tasks.cells)
    assert len(row.array.shown) == MOST_TASKS
    assert row.array.shown[:2] == [(0, "n0"), (1, "n1")]
    assert (row.pods, row.cpu, row.nodes) == (150, 300_000, ["n0", "n1", "n2"])
    assert row.safe_until == at // 10**6 - 598, "150 of them ten minutes each, but for one that saved five of them"
    waiting = job("sweep", "Waiting", array=tasks)
    assert shown(jobs=[waiting]).jobs[0].safe_until is None


# --- pools of nodes ---

OF_GPUS = Marks((("nvidia.com/gpu=present:NoSchedule", "nvidia.com/gpu"),), ("nvidia.com/gpu",))
GPUS = OF_GPUS.pool()
OTHERS = Marks(devices=("example.com/fpga",))


def by_pool(default: dict[str, str], gpus: dict[str, str]) -> dict[str, str]:
    return {**default, **{f"pool.{GPUS}.{key}": text for key, text in gpus.items()}}


def test_each_pool_of_nodes_has_its_row() -> None:
    full, idle = published(90.0, admit=False, state=LevelsState.EVICTING), published(5.0)
    gpu = NodeFacts("g", {"cpu": 8000}, marks=OF_GPUS)
    nodes = [NODE, gpu, NodeFacts("f", {"cpu": 2000}, marks=OTHERS)]
    pods = [pod("s", "g", job="a", requests={"cpu": 200}), pod("t", "n", job="b", requests={"cpu": 5000})]
    picture = shown(levels=by_pool(full, idle), leases=ALIVE, nodes=nodes, pods=pods)
    default, gpus = picture.pools

    assert (default.name, default.nodes, gpus.name, gpus.nodes) == ("default", 2, GPUS, 1)
    assert default.levels == picture.levels, "the tile is of the default pool"
    assert default.levels.resources["cpu"].regular == 40.0, "of 90 %, 5 of 10 cores are of jobs"
    assert gpus.levels.resources["cpu"].regular == 2.5
    assert (default.levels.above, gpus.levels.above) == (["cpu"], [])
    assert (default.admission.admits, gpus.admission.admits) == (False, True)
    assert gpus.admission.says.startswith("Yes: below the admission threshold")
    assert picture.admission.admits
    assert picture.admission.says == f"Yes, in 1 of 2 pools of nodes: {GPUS}."
    assert {row.name: row.levels for row in picture.nodes} == {"n": "default", "g": GPUS, "f": "default"}


def test_no_pool_starts_anything() -> None:
    shut = published(90.0, admit=False)
    picture = shown(levels=by_pool(shut, published(state=LevelsState.BLIND, message="no figures")), leases=ALIVE)
    assert picture.admission == AdmissionRow(False, "No, in none of the 2 pools of nodes.")
    assert picture.pools[1].levels.visibility == "Blind"
    assert "no figures" in picture.pools[1].levels.says


def test_one_pool_has_no_row_of_its_own() -> None:
    picture = shown(levels=published(5.0), leases=ALIVE, nodes=[NODE, NodeFacts("g", {"cpu": 8000}, marks=OF_GPUS)])
    assert picture.pools == []
    assert {row.levels for row in picture.nodes} == {""}


def test_what_tells_no_pools_apart_is_as_the_regulator_says() -> None:
    levels = {**by_pool(published(5.0), published(5.0)), "poolIgnores": "nvidia.com/gpu"}
    picture = shown(levels=levels, leases=ALIVE, nodes=[NodeFacts("g", {"cpu": 8000}, marks=OF_GPUS)])
    assert [(one.name, one.nodes) for one in picture.pools] == [("default", 1), (GPUS, 0)]


# --- how old it is ---


@pytest.mark.parametrize(
    ("lease", "words"),
    [
        ({names.ADMITTER: ago(seconds=30)}, ""),
        ({names.ADMITTER: ago(seconds=61)}, "the admitter has not looked since"),
        ({names.ADMITTER: None}, "Jobs are as the admitter left them"),
        ({}, "Jobs are as the admitter left them"),
    ],
)
def test_jobs_of_an_admitter_that_does_not_look(lease: dict[str, Any], words: str) -> None:
    picture = shown(jobs=[job()], leases=lease)
    assert [words in one for one in picture.unknown if "admitter" in one] == ([True] if words else [])
    assert not any("admitter" in one for one in shown(leases=lease).unknown), "there is nothing to be old"
