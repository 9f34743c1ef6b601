"""Who left, when, for whom, at what cost; and what is said where nothing says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from scavenger_api.reasons import InterruptionReason
from scavenger_api.times import format_time
from scavenger_board.core.picture import EntryRow
from scavenger_board.core.snapshot import EventFacts, JobFacts
from scavenger_board.core.timeline import MOST, timeline
from scavenger_domain.interruptions import PREEMPTED

from .builders import LEVELS_ABOUT, ago, job, told, victim


def entries(jobs: Sequence[JobFacts], events: Sequence[EventFacts]) -> list[EntryRow]:
    return timeline(jobs, events, levels_about=LEVELS_ABOUT)


def test_an_interruption_is_one_entry_of_status_and_event_and_the_scheduler_says_for_whom() -> None:
    at = ago(minutes=10)
    left = job("a", "Interrupted", interruptions=(at,), cause="Preempted")
    (entry,) = entries([left], [told("a", ago(minutes=9, seconds=58), lost=90.0), victim("a", at, "web/shop-1")])

    assert (entry.at, entry.job, entry.queue) == (format_time(at), "lab/a", "lab")
    assert (entry.cause, entry.pod, entry.whom) == ("Preempted", "a-0-abcde", "web/shop-1")
    assert (entry.lost, entry.at_most, entry.source) == (90.0, False, "event")
    assert entry.means == InterruptionReason.PREEMPTED.__doc__


def test_without_its_event_neither_cost_nor_older_causes_are_guessed() -> None:
    left = job("a", "Interrupted", interruptions=(ago(hours=3), ago(hours=2)), cause="NodeLost", lost=500.0)
    newest, oldest = entries([left], [])

    assert (newest.cause, newest.lost, newest.whom, newest.source) == ("NodeLost", None, None, "status")
    assert (oldest.cause, oldest.lost) == ("", None)


def test_each_event_goes_with_the_moment_it_follows() -> None:
    first, second = ago(minutes=50), ago(minutes=20)
    left = job("a", "Interrupted", interruptions=(first, second))
    events = [told("a", ago(minutes=19), lost=2.0), told("a", ago(minutes=49), lost=1.0)]

    assert [(one.at, one.lost) for one in entries([left], events)] == [
        (format_time(second), 2.0),
        (format_time(first), 1.0),
    ]


def test_an_event_may_come_late_as_after_an_admitter_that_was_down() -> None:
    first, second = ago(minutes=50), ago(minutes=20)
    left = job("a", "Interrupted", interruptions=(first, second))
    events = [told("a", ago(minutes=21), lost=1.0), told("a", ago(minutes=1), lost=2.0)]

    assert [(one.at, one.lost) for one in entries([left], events)] == [
        (format_time(second), 2.0),
        (format_time(first), 1.0),
    ]
    assert [one.lost for one in entries([left], [told("a", ago(minutes=19))])] == [60.0, None]


def test_a_job_that_is_gone_still_left() -> None:
    (entry,) = entries([], [told("a", ago(minutes=1), lost=7.0)])

    assert (entry.job, entry.queue, entry.lost) == ("lab/a", "", 7.0)


def test_a_job_of_the_same_name_has_not_left_what_the_one_before_it_did() -> None:
    again = job("a", "Running", uid="another")

    assert [(one.job, one.queue) for one in entries([again], [told("a", ago(minutes=1))])] == [("lab/a", "")]


def test_for_whom_by_the_pod_that_was_preempted_and_by_none_of_another_time_or_job() -> None:
    at = ago(minutes=30)
    left = job("a", "Interrupted", interruptions=(at,))
    far, other = victim("a", ago(minutes=5), "web/late"), victim("ab", at, "web/other")
    assert [one.whom for one in entries([left], [told("a", at), far, other])] == [None]

    near = victim("a", ago(minutes=31), "web/first", PREEMPTED)
    assert [one.whom for one in entries([left], [told("a", at), far, other, near])] == ["web/first"]


@pytest.mark.parametrize("cause", [cause for cause in InterruptionReason if cause is not InterruptionReason.PREEMPTED])
def test_only_a_preemption_has_a_preemptor(cause: InterruptionReason) -> None:
    at = ago(minutes=3)
    left = job("a", "Interrupted", interruptions=(at,))

    assert [one.whom for one in entries([left], [told("a", at, cause), victim("a", at, "web/shop")])] == [None]


def test_an_event_of_a_victim_explains_one_interruption() -> None:
    first, second = ago(minutes=9), ago(minutes=3)
    left = job("a", "Interrupted", interruptions=(first, second))
    events = [told("a", first), told("a", second), victim("a", first, "web/shop")]

    assert [one.whom for one in entries([left], events)] == [None, "web/shop"]


def test_the_plugin_s_event_goes_before_kube_scheduler_s_of_the_same_moment() -> None:
    at = ago(minutes=3)
    events = [told("a", at), victim("a", at, "web/uid", PREEMPTED), victim("a", at, "web/name")]

    assert [one.whom for one in entries([job("a", "Interrupted", interruptions=(at,))], events)] == ["web/name"]


def test_where_a_queue_took_its_share_back_the_admitter_says_for_whom() -> None:
    at, words = ago(minutes=3), "for lab/b of queue guest"
    event = told("a", at, InterruptionReason.QUEUE_RECLAIMED, pod="", detail=words)

    assert [one.whom for one in entries([job("a", "Interrupted", interruptions=(at,))], [event])] == [words]


def test_an_event_of_another_name_tells_nothing_of_a_job() -> None:
    at = ago(minutes=3)
    forged = replace(told("b", at, lost=9.0), uid="uid-a")
    found = {one.job: one.lost for one in entries([job("a", "Interrupted", interruptions=(at,))], [forged])}

    assert found == {"lab/a": None, "lab/b": 9.0}


def test_a_sentence_that_was_cut_off_is_shown_as_it_is() -> None:
    cut = EventFacts(
        "lab/a.1", ago(minutes=1), "ScavengerJob lab/a", "uid-a", "Interrupted", "interrupted: pod a-0-x w..."
    )
    (entry,) = entries([job("a", "Interrupted", interruptions=(ago(minutes=1),))], [cut])

    assert (entry.cause, entry.lost, entry.says) == ("", None, "interrupted: pod a-0-x w...")


def test_states_of_the_regulator_stand_between_newest_first() -> None:
    state = EventFacts("scavenger-system/l.1", ago(minutes=2), LEVELS_ABOUT, "", "Evicting", "cpu 91 %")
    found = entries([], [told("a", ago(minutes=3)), state, told("b", ago(minutes=1))])

    assert [(one.kind, one.job or one.cause) for one in found] == [
        ("left", "lab/b"),
        ("levels", "Evicting"),
        ("left", "lab/a"),
    ]


def test_the_newest_of_too_many() -> None:
    jobs = [job(f"j{n}", "Interrupted", interruptions=(ago(seconds=n),)) for n in range(MOST + 5)]
    found = entries(jobs, [])

    assert (len(found), found[0].job, found[-1].job) == (MOST, "lab/j0", f"lab/j{MOST - 1}")
