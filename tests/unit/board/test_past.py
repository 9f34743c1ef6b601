"""A moment that is over: what is known of it, and what is said not to be."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from scavenger_api.levels import PublishedLevels
from scavenger_board.core.history import MOST_POINTS, History
from scavenger_board.core.past import Recorded, phase_at, picture_at
from scavenger_board.core.picture import Picture
from scavenger_board.core.recorded import MOMENT, AnswerError, load_row, read_matrix, read_vector, recorded
from scavenger_board.core.snapshot import EventFacts, Snapshot

from .builders import LEVELS_ABOUT, NOW, ago, job, published, told

THEN = ago(hours=1)


def then(*, seen: Any = None, known: Recorded | None = None, **fields: Any) -> Picture:
    return picture_at(Snapshot(NOW, **fields), THEN, levels_about=LEVELS_ABOUT, seen=seen, recorded=known)


@pytest.mark.parametrize(
    ("fields", "phase", "since"),
    [
        ({"created": ago(minutes=30)}, None, None),
        ({}, "Waiting", ago(hours=5)),
        ({"runs": (ago(hours=2),)}, "Running", ago(hours=2)),
        ({"runs": (ago(minutes=30),)}, "Waiting", ago(hours=5)),
        ({"runs": (ago(hours=3),), "interruptions": (ago(hours=2),)}, "Interrupted", ago(hours=2)),
        ({"runs": (ago(hours=4), ago(hours=2)), "interruptions": (ago(hours=3),)}, "Running", ago(hours=2)),
        ({"runs": (ago(hours=3),), "finished": ago(hours=2)}, "Completed", ago(hours=2)),
        ({"runs": (ago(hours=3),), "finished": ago(minutes=2)}, "Running", ago(hours=3)),
        ({"runs": tuple(ago(minutes=m) for m in range(20, 0, -1))}, "Unknown", None),
    ],
)
def test_the_phase_of_a_job_then(fields: dict[str, Any], phase: str | None, since: datetime | None) -> None:
    found = phase_at(job("a", "Completed", **fields), THEN)

    assert found == (None if phase is None else (phase, since))


def test_jobs_queues_and_who_had_left_by_then() -> None:
    jobs = [
        job("a", "Running", runs=(ago(hours=2),)),
        job("b", "Interrupted", interruptions=(ago(minutes=90), ago(minutes=5))),
    ]
    picture = then(jobs=jobs, events=[told("b", ago(minutes=5)), told("b", ago(minutes=90), lost=9.0)])

    assert picture.past
    assert [(row.key, row.phase, row.interrupted) for row in picture.jobs] == [
        ("lab/a", "Running", 0),
        ("lab/b", "Interrupted", 1),
    ]
    assert [(row.name, row.jobs, row.in_line) for row in picture.queues] == [
        ("lab", {"running": 1, "interrupted": 1}, 1)
    ]
    assert [(row.job, row.lost) for row in picture.timeline] == [("lab/b", 9.0)]
    assert all(row.lost is None and not row.why for row in picture.jobs), "nobody keeps these"


def test_without_anybody_who_remembers_the_load_is_not_known_and_said_so() -> None:
    picture = then()

    assert picture.levels.above is None
    assert picture.admission.admits is None
    said = " ".join(picture.unknown)
    assert "There are no Events" in said
    assert "No Prometheus is configured" in said
    assert "The load is not known" in said


def test_events_say_in_which_state_the_regulator_was() -> None:
    events = [
        EventFacts("a", ago(hours=3), LEVELS_ABOUT, "", "Evicting", ""),
        EventFacts("b", ago(hours=2), LEVELS_ABOUT, "", "Filling", ""),
        EventFacts("c", ago(minutes=70), LEVELS_ABOUT, "", "ClassesKept", "of the prioritizer"),
        EventFacts("d", ago(minutes=5), LEVELS_ABOUT, "", "Speculative", ""),
    ]
    assert then(events=events).levels.state == "Filling"


def test_the_oldest_event_says_how_far_back_they_go() -> None:
    assert "The oldest Event is of 2026-01-05T07:55:00Z" in " ".join(then(events=[told("a", ago(minutes=5))]).unknown)


# --- what the board has seen ---


def history(*ages: float, limit: int = 100) -> History:
    made = History(limit)
    for age in ages:
        made.add(PublishedLevels.parse(published(age / 10, age=age)), NOW, {"cpu": 4.0})
    return made


def test_levels_seen_are_those_of_the_last_observation_while_it_was_fresh() -> None:
    seen = history(60, 50, 20)

    assert [None if (one := seen.at(ago(seconds=age))) is None else one.at for age in (61, 60, 45, 21, 20, 0)] == [
        None,
        ago(seconds=60),
        ago(seconds=50),
        ago(seconds=50),
        ago(seconds=20),
        ago(seconds=20),
    ]
    assert history(60).at(ago(seconds=29)) is None, "three periods later nobody knows"


def test_the_load_that_the_board_has_seen_is_held_against_the_level_of_then() -> None:
    seen = History(10)
    seen.add(PublishedLevels.parse(published(90.0, age=3605.0)), NOW, {})
    levels = then(seen=seen.at(THEN)).levels

    assert levels.above == ["cpu"]
    assert levels.says == "Above the eviction threshold: cpu (cpu 90.0 % of upper 85.0 %), as the board has seen."


def test_the_load_that_the_board_has_seen_is_divided_by_what_jobs_request() -> None:
    row = history(300, 20).between(ago(hours=1), NOW)

    assert row.states == ["Filling", "Filling"]
    assert row.lines["cpu"]["load"] == [30.0, 2.0]
    assert row.lines["cpu"]["regular"] == [26.0, 0.0], "no less than nothing"


def test_an_observation_is_remembered_once_and_the_oldest_are_forgotten() -> None:
    seen = history(50, 50, 40, 45, 30, limit=2)

    assert seen.since == ago(seconds=40)
    assert seen.between(ago(seconds=60), NOW).times == [ago(seconds=age).timestamp() for age in (40, 30)]


def test_a_line_has_no_more_points_than_a_screen() -> None:
    seen = history(*range(MOST_POINTS + 100, 0, -1), limit=10_000)
    row = seen.between(ago(days=1), NOW)

    assert len(row.times) <= MOST_POINTS
    assert row.times[-1] == ago(seconds=1).timestamp()
    assert len(row.lines["cpu"]["load"]) == len(row.times)


def test_nothing_seen_is_no_source() -> None:
    assert history().between(ago(hours=1), NOW).source == ""


# --- what Prometheus has recorded ---


def vector(*series: tuple[dict[str, str], str]) -> bytes:
    result = [{"metric": labels, "value": [1.0, value]} for labels, value in series]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


def test_what_prometheus_recorded_is_shown_in_percent_and_millicores() -> None:
    answers = {name: read_vector(vector()) for name in MOMENT}
    answers["load"] = read_vector(vector(({"resource": "cpu"}, "0.9"), ({"resource": "memory"}, "NaN")))
    answers["levels"] = read_vector(vector(({"resource": "cpu", "level": "upper"}, "0.85")))
    answers["state"] = read_vector(vector(({"state": "Evicting"}, "1")))
    answers["admit"] = read_vector(vector(({}, "0")))
    answers["nodes"] = read_vector(vector(({"scope": "n1", "resource": "cpu"}, "0.5")))
    answers["allocated"] = read_vector(vector(({"queue": "lab", "resource": "cpu"}, "2.5")))
    answers["deserved"] = read_vector(vector(({"queue": "lab", "resource": "cpu"}, "2")))
    answers["waiting"] = read_vector(vector(({}, "3")))
    picture = then(known=recorded(answers, THEN))

    assert picture.levels.above == ["cpu"]
    assert (picture.levels.state, picture.admission.admits, picture.waiting_pods) == ("Evicting", False, 3)
    assert [(row.name, row.cpu.load, row.memory.load) for row in picture.nodes] == [("n1", 50.0, None)]
    assert [(row.name, row.allocated, row.over) for row in picture.queues] == [("lab", {"cpu": 2500}, ["cpu"])]


def test_what_prometheus_recorded_of_each_pool_of_nodes() -> None:
    def of_both(default: str, gpus: str, **labels: str) -> Any:
        return read_vector(vector(({"pool": "default", **labels}, default), ({"pool": "gpu-1", **labels}, gpus)))

    answers = {name: read_vector(vector()) for name in MOMENT}
    answers["load"] = of_both("0.9", "0.05", resource="cpu")
    answers["levels"] = of_both("0.85", "0.8", resource="cpu", level="upper")
    answers["state"] = read_vector(
        vector(({"pool": "default", "state": "Evicting"}, "1"), ({"pool": "gpu-1", "state": "Filling"}, "1"))
    )
    answers["admit"] = of_both("0", "1")
    picture = then(known=recorded(answers, THEN))

    assert (picture.levels.state, picture.levels.above, picture.admission.admits) == ("Evicting", ["cpu"], True)
    assert [
        (one.name, one.nodes, one.levels.state, one.levels.above, one.admission.admits) for one in picture.pools
    ] == [
        ("default", None, "Evicting", ["cpu"], False),
        ("gpu-1", None, "Filling", [], True),
    ]
    assert picture.pools[0].levels == picture.levels
    assert picture.pools[1].levels.resources["cpu"].upper == 80.0
    assert then(known=Recorded()).pools == []


def test_an_error_of_prometheus_is_said_and_the_rest_is_shown() -> None:
    picture = then(known=Recorded(problem="it cannot be reached"), jobs=[job("a")])

    assert "Prometheus does not answer: it cannot be reached." in picture.unknown
    assert [row.key for row in picture.jobs] == ["lab/a"]


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"status":"error","error":"bad query"}', b'{"status":7}'])
def test_what_is_no_answer_is_refused(body: bytes) -> None:
    with pytest.raises(AnswerError):
        read_vector(body)
    with pytest.raises(AnswerError):
        read_matrix(body)


def test_lines_over_time_have_gaps_where_there_is_no_value() -> None:
    load = [({"resource": "cpu"}, {1.0: 0.5, 3.0: 0.7})]
    levels = [({"resource": "cpu", "level": "upper"}, {1.0: 0.85, 2.0: 0.85})]
    regular = [({"resource": "cpu"}, {1.0: 0.4})]
    states = [({"state": "Filling"}, {1.0: 1.0}), ({"state": "Evicting"}, {3.0: 1.0})]
    row = load_row([load, regular, levels, states], NOW - timedelta(hours=1), NOW)

    assert row.times == [1.0, 2.0, 3.0]
    assert row.lines["cpu"]["load"] == [50.0, None, 70.0]
    assert row.lines["cpu"]["upper"] == [85.0, 85.0, None]
    assert row.lines["cpu"]["lower"] == [None, None, None]
    assert row.lines["cpu"]["regular"] == [40.0, None, None]
    assert row.states == ["Filling", "", "Evicting"]
