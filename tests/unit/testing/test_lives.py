"""What a test takes for what pods did."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scavenger_cluster.api import ApiClient
from scavenger_kube.errors import Unavailable
from scavenger_testing.lives import Life, Lives, assert_books

PATH = "/api/v1/namespaces/ns/pods"


def pod(version: str, *, asked: str | None = None, ended: str | None = None) -> dict[str, Any]:
    meta: dict[str, Any] = {"uid": "a", "resourceVersion": version, "labels": {"scavenger.dev/task": "7"}}
    if asked is not None:
        meta |= {"deletionTimestamp": f"2026-01-01T00:00:{asked}Z", "deletionGracePeriodSeconds": 5}
    state: dict[str, Any] = {"running": {"startedAt": "2026-01-01T00:00:01Z"}}
    if ended is not None:
        end = {"startedAt": "2026-01-01T00:00:01Z", "finishedAt": f"2026-01-01T00:00:{ended}Z", "exitCode": 0}
        state = {"terminated": {**end, "message": "checkpoint=2026-01-01T00:00:12.5Z\n"}}
    return {"metadata": meta, "status": {"containerStatuses": [{"state": state}]}}


class Watched(ApiClient):
    """Answers watches one after the other; the last one closes what follows them."""

    def __init__(self, *watches: list[dict[str, Any]]) -> None:
        self.lives = Lives()
        self.versions: list[str] = []
        self._watches = list(watches)

    def events(self, path: str, *, seconds: int, selector: str = "", version: str = "") -> Any:
        assert path == PATH
        self.versions.append(version)
        events = self._watches.pop(0)
        if not self._watches:
            self.lives.close()
        yield from events
        raise Unavailable(0, "Unavailable", "the connection broke")


def event(kind: str, found: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps({"type": kind, "object": found}))  # type: ignore[no-any-return]


def followed(*watches: list[dict[str, Any]]) -> tuple[list[Life], list[str]]:
    client = Watched(*watches)
    client.lives.follow(client, PATH, "")
    return client.lives.ended, client.versions


def test_a_watch_that_ends_is_begun_again_where_it_was() -> None:
    gone = {"metadata": {}, "code": 410}
    ended, versions = followed(
        [event("ADDED", pod("1")), event("MODIFIED", pod("2", asked="20"))],
        [event("MODIFIED", pod("3", asked="22", ended="18")), event("ERROR", gone)],
        [],
    )
    assert versions == ["", "2", ""]
    (life,) = ended
    assert (life.task, life.ended - life.started, life.asked and life.asked - life.started) == ("7", 17, 14)
    assert life.saved is not None
    assert life.saved - life.started == 11
    assert not life.done
    assert life.kept(life.ended) == 11


def test_one_that_was_deleted_after_its_end_is_done() -> None:
    ended, _ = followed([event("ADDED", pod("1", asked="30", ended="18"))], [])
    assert [life.done for life in ended] == [True]


def test_books_that_say_something_else() -> None:
    lives = [Life("0", 100, None, 110, None, 0), Life("1", 100, 120, 122, 115, 137)]
    true = {"interruptedCount": 1, "usefulCPUSeconds": 50.0, "lostCPUSeconds": 10.0}
    assert_books(true, lives, cores=2)
    for wrong in ({"interruptedCount": 2}, {"usefulCPUSeconds": 54.0}, {"lostCPUSeconds": 20.0}):
        with pytest.raises(AssertionError):
            assert_books({**true, **wrong}, lives, cores=2)
