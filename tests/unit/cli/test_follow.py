from __future__ import annotations

import random
from itertools import islice

import pytest
from scavenger_cli.follow import Deadline, Follower
from scavenger_cli.objects import Job
from scavenger_kube.blocking import Client
from scavenger_kube.errors import NotFound
from scavenger_testing.builders import scavengerjob_dict

from .conftest import Answer, Server, event, listed, status

PATH = "/apis/scavenger.dev/v1alpha1/scavengerjobs"


def one(name: str, phase: str = "Waiting") -> dict[str, object]:
    return scavengerjob_dict(name, phase=phase, uid=f"uid-{name}")


def follow(client: Client, count: int) -> list[tuple[str, str]]:
    """The first changes: type, name and phase of each."""
    changes = Follower(client, PATH, Job, {"labelSelector": "x=y"}, sleep=lambda seconds: None).changes()
    return [(c.type, f"{c.obj.name} {c.obj.phase}" if c.obj is not None else "") for c in islice(changes, count)]


def test_a_list_then_what_changes(server: Server, client: Client) -> None:
    server.on(PATH, listed(one("a"), version="10"))
    lines = [
        event("MODIFIED", one("a", "Running"), "11"),
        event("BOOKMARK", {}, "12"),
        event("DELETED", one("a"), "13"),
    ]
    server.on(PATH, Answer(lines=lines), Answer(lines=[event("ADDED", one("b"), "14")]), watch=True)
    assert follow(client, 5) == [
        ("ADDED", "a Waiting"),
        ("SYNCED", ""),
        ("MODIFIED", "a Running"),
        ("DELETED", "a Waiting"),
        ("ADDED", "b Waiting"),
    ]
    watches = [r.query for r in server.asked(PATH) if "watch" in r.query]
    assert [q["resourceVersion"] for q in watches] == ["10", "13"]
    assert watches[0]["labelSelector"] == "x=y"


@pytest.mark.parametrize(
    "gone", [Answer(410, status(410, "Expired")), Answer(lines=[event("ERROR", status(410, "Expired"))])]
)
def test_an_expired_version_lists_again_and_misses_nothing(server: Server, client: Client, gone: Answer) -> None:
    server.on(PATH, listed(one("a"), one("b"), version="10"), listed(one("b", "Running"), one("c"), version="90"))
    server.on(PATH, gone, Answer(lines=[event("MODIFIED", one("c", "Running"), "91")]), watch=True)
    assert follow(client, 8) == [
        ("ADDED", "a Waiting"),
        ("ADDED", "b Waiting"),
        ("SYNCED", ""),
        ("DELETED", "a Waiting"),
        ("MODIFIED", "b Running"),
        ("ADDED", "c Waiting"),
        ("SYNCED", ""),
        ("MODIFIED", "c Running"),
    ]


def test_a_broken_watch_is_taken_up_where_it_broke(server: Server, client: Client) -> None:
    server.on(PATH, listed(version="10"))
    broken = Answer(lines=[event("ADDED", one("a"), "11")], cut=True)
    unwell = Answer(503, status(503, "ServiceUnavailable"))
    server.on(PATH, broken, unwell, Answer(lines=[event("ADDED", one("b"), "12")]), watch=True)
    assert follow(client, 3) == [("SYNCED", ""), ("ADDED", "a Waiting"), ("ADDED", "b Waiting")]
    watches = [r.query["resourceVersion"] for r in server.asked(PATH) if "watch" in r.query]
    assert watches == ["10", "11", "11"]


def delays(client: Client, count: int, spread: float = 1.0) -> list[float]:
    """How long was waited until so many changes had come."""
    waited: list[float] = []
    follower = Follower(client, PATH, Job, sleep=waited.append, spread=lambda: spread)
    list(islice(follower.changes(), count))
    return waited


NEWS = Answer(lines=[event("ADDED", one("a"), "11")])
LATER = Answer(lines=[event("ADDED", one("b"), "12")])
SILENT = Answer(lines=[])
UNWELL = Answer(503, status(503, "ServiceUnavailable"))
EXPIRED = Answer(410, status(410, "Expired"))


@pytest.mark.parametrize("answer", [SILENT, UNWELL], ids=["ends without a word", "unwell"])
def test_a_watch_that_brings_nothing_is_taken_up_ever_more_slowly(
    server: Server, client: Client, answer: Answer
) -> None:
    server.on(PATH, listed(version="10"))
    server.on(PATH, *[answer] * 8, NEWS, watch=True)
    assert delays(client, 2) == [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 30.0]


def test_news_make_it_quick_again(server: Server, client: Client) -> None:
    server.on(PATH, listed(version="10"))
    server.on(PATH, SILENT, SILENT, NEWS, SILENT, LATER, watch=True)
    assert delays(client, 3) == [0.2, 0.5, 0.2]


def test_versions_that_expire_one_after_another_do_not_list_without_end(server: Server, client: Client) -> None:
    server.on(PATH, listed(version="10"))
    server.on(PATH, EXPIRED, EXPIRED, EXPIRED, NEWS, watch=True)
    assert delays(client, 5) == [0.5, 1.0], "the first time there is nothing to wait for"
    assert len([one for one in server.asked(PATH) if "watch" not in one.query]) == 4


def test_a_server_that_names_a_time_is_given_it(server: Server, client: Client) -> None:
    server.on(PATH, listed(version="10"))
    busy = Answer(429, status(429, "TooManyRequests", details={"retryAfterSeconds": 7}))
    server.on(PATH, busy, NEWS, watch=True)
    assert delays(client, 2) == [7.0]


def test_many_that_lost_one_server_do_not_come_back_at_once(server: Server, client: Client) -> None:
    server.on(PATH, listed(version="10"))
    server.on(PATH, UNWELL, UNWELL, NEWS, watch=True)
    assert delays(client, 2, spread=0.0) == [0.1, 0.25]


def test_what_is_drawn_elsewhere_does_not_depend_on_it(server: Server, client: Client) -> None:
    server.on(PATH, listed(version="10"))
    server.on(PATH, UNWELL, UNWELL, NEWS, watch=True)
    before = random.getstate()
    list(islice(Follower(client, PATH, Job, sleep=lambda seconds: None).changes(), 2))
    assert random.getstate() == before


def test_nobody_waits_beyond_the_deadline(server: Server, client: Client) -> None:
    server.on(PATH, listed(version="10"))
    server.on(PATH, UNWELL, watch=True)
    waited: list[float] = []
    moments = [0.0]

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        moments.append(moments[-1] + seconds)

    deadline = Deadline(1.0, clock=lambda: moments[-1])
    follower = Follower(client, PATH, Job, deadline=deadline, sleep=sleep, spread=lambda: 1.0)
    assert [change.type for change in follower.changes()] == ["SYNCED"]
    assert sum(waited) == pytest.approx(1.0)


def test_what_cannot_be_listed_at_all_is_an_error(server: Server, client: Client) -> None:
    with pytest.raises(NotFound):
        follow(client, 1)


def test_a_deadline_ends_it() -> None:
    moments = iter((0.0, 4.0, 10.5))
    deadline = Deadline(10, clock=lambda: next(moments))
    assert deadline.left() == 6.0
    assert deadline.over
    assert not Deadline(None).over
