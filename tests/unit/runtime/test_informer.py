"""The informer against a server that misbehaves in every way seen so far. Waits are 0 here, so that backoffs
cost nothing; how they grow is tested in test_backoff.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, MutableMapping
from typing import Any

import pytest
from msgspec import structs
from scavenger_kube.client import ApiClient
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import PODS
from scavenger_runtime import informer as informer_module
from scavenger_runtime.backoff import Backoff
from scavenger_runtime.cache import by_label, by_node, by_owner_uid
from scavenger_runtime.informer import (
    HANDLER_ERRORS,
    MALFORMED,
    RESUMABLE_SECONDS,
    UNREADABLE,
    WATCH_READ_TIMEOUT,
    Change,
    Informer,
)
from scavenger_runtime.paging import PAGE_BYTES
from scavenger_testing import PATIENCE, FakeApi, VirtualClock, eventually, job_dict, pod_dict

Logs = list[MutableMapping[str, Any]]
Start = Callable[..., "Running"]


class Running:
    """An informer at work, and what its handler was recorded."""

    def __init__(self, informer: Informer[Pod]) -> None:
        self.informer = informer
        self.recorded: list[tuple[str, str, bool]] = []
        informer.add_handler(self.note)
        self.task = asyncio.create_task(informer.run())

    def note(self, change: Change[Pod]) -> None:
        self.recorded.append((change.kind, change.key, change.initial))

    @property
    def names(self) -> set[str]:
        return {pod.metadata.name for pod in self.informer.items()}

    async def holds(self, *names: str) -> None:
        await eventually(lambda: self.names == set(names))


@pytest.fixture
async def start(api: FakeApi, client: ApiClient) -> AsyncIterator[Start]:
    started: list[Running] = []

    def start(**options: Any) -> Running:
        options.setdefault("backoff", Backoff(0.001, 0.001))
        running = Running(Informer(options.pop("client", client), PODS, **options))
        started.append(running)
        return running

    yield start
    for running in started:
        running.task.cancel()
    results = await asyncio.gather(*(running.task for running in started), return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results), results


def put(api: FakeApi, names: Iterable[str], **fields: Any) -> None:
    for name in names:
        api.put(PODS, pod_dict(name, **fields))


async def synced(running: Running, api: FakeApi) -> None:
    """Its first list is in and its watch open."""
    await asyncio.wait_for(running.informer.wait_synced(), PATIENCE)
    await eventually(lambda: api.watches > 0)


async def test_lists_in_pages_then_follows(api: FakeApi, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer_module, "PAGE_SIZE", 3)
    put(api, [f"p{n}" for n in range(7)])
    running = start()
    await synced(running, api)
    assert len(running.informer) == 7
    assert running.informer.synced
    assert [recorded[2] for recorded in running.recorded] == [True] * 7
    assert api.count("GET", "/pods", watch=False) == 3

    put(api, ["new"])
    api.edit(PODS, "default", "p0", lambda pod: pod["metadata"].update(labels={"x": "y"}))
    api.remove(PODS, "default", "p1")
    await running.holds("p0", "p2", "p3", "p4", "p5", "p6", "new")
    assert [recorded for recorded in running.recorded[7:] if recorded[1] != "default/p1"] == [
        ("added", "default/new", False),
        ("modified", "default/p0", False),
    ]
    assert running.recorded[-1] == ("deleted", "default/p1", False)


class Measured(ApiClient):
    """A client that remembers how long answers were."""

    longest = 0

    async def request(self, *words: Any, **options: Any) -> bytes:
        body = await super().request(*words, **options)
        self.longest = max(self.longest, len(body))
        return body


async def test_a_page_is_bounded_in_bytes_wherever_large_objects_are(
    api: FakeApi, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small ones first: what the size of a page has been says nothing of the next one."""
    monkeypatch.setattr(informer_module, "PAGE_SIZE", 20)
    put(api, [f"a{n}" for n in range(20)])
    put(api, [f"b{n}" for n in range(12)], annotations={"large": "x" * 1_000_000})
    put(api, ["c"], annotations={"larger": "x" * (PAGE_BYTES + 1)})
    async with Measured(api.url) as client:
        running = start(client=client)
        await synced(running, api)
        assert len(running.informer) == 33
        assert PAGE_BYTES < client.longest < PAGE_BYTES + 2_000  # the one that alone is larger
    assert running.informer.get("default/b11") is not None


async def test_a_deletion_tells_the_final_state(api: FakeApi, start: Start) -> None:
    put(api, ["a"], phase="Running")
    running = start()
    await synced(running, api)
    last: list[Change[Pod]] = []
    running.informer.add_handler(last.append)
    api.edit(PODS, "default", "a", lambda pod: pod["status"].update(phase="Failed"))
    api.remove(PODS, "default", "a")
    await running.holds()
    assert (last[-1].kind, last[-1].obj.status.phase, last[-1].new) == ("deleted", "Failed", None)


async def test_indices_follow_changes(api: FakeApi, start: Start) -> None:
    owner = job_dict("j", uid="job-uid")
    put(api, ["a", "b"], node="n1", labels={"team": "red"}, owner=owner)
    indices = {"node": by_node, "owner": by_owner_uid, "team": by_label("team")}
    running = start(indices=indices)
    await synced(running, api)
    pods = running.informer

    def found(index: str, value: str) -> set[str]:
        return {pod.metadata.name for pod in pods.by_index(index, value)}

    assert found("node", "n1") == found("owner", "job-uid") == found("team", "red") == {"a", "b"}
    api.edit(PODS, "default", "a", lambda pod: pod["spec"].update(nodeName="n2"))
    await eventually(lambda: found("node", "n2") == {"a"})
    assert found("node", "n1") == {"b"}
    api.remove(PODS, "default", "b")
    await eventually(lambda: found("team", "red") == {"a"})
    assert found("node", "n1") == set()
    with pytest.raises(KeyError):
        pods.by_index("nope", "")


async def test_410_lists_anew_and_works_out_what_was_missed(api: FakeApi, start: Start) -> None:
    put(api, ["stays", "goes", "changes", "replaced"])
    running = start()
    await synced(running, api)
    running.recorded.clear()

    api.drop_watches()
    api.hang(methods={"GET"}, path="watch=true")  # so that nothing of the following is seen
    api.remove(PODS, "default", "goes")
    api.remove(PODS, "default", "replaced")
    put(api, ["comes", "replaced"])
    api.edit(PODS, "default", "changes", lambda pod: pod["spec"].update(nodeName="n1"))
    api.compact()
    api.heal()
    await running.holds("stays", "comes", "changes", "replaced")
    await eventually(lambda: len(running.recorded) == 5)
    assert sorted(running.recorded) == [
        ("added", "default/comes", False),
        ("added", "default/replaced", False),
        ("deleted", "default/goes", False),
        ("deleted", "default/replaced", False),
        ("modified", "default/changes", False),
    ]
    kinds = [kind for kind, key, _ in running.recorded if key == "default/replaced"]
    assert kinds == ["deleted", "added"], "an object of the same name is another object"


async def test_410_as_an_error_event_is_the_same(api: FakeApi, start: Start) -> None:
    put(api, ["a"])
    running = start()
    await synced(running, api)
    api.expire_watches()
    await eventually(lambda: api.count("GET", "/pods", watch=False) == 2)
    put(api, ["b"])
    await running.holds("a", "b")


async def test_continue_token_expired_in_the_middle_of_a_list(
    api: FakeApi, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer_module, "PAGE_SIZE", 2)
    put(api, [f"p{n}" for n in range(5)])
    api.fail(410, methods={"GET"}, path="continue=", reason="Expired")
    running = start()
    await synced(running, api)
    assert len(running.informer) == 5
    assert "limit" not in api.requests[2].query, "in one piece the second time"


async def watch_again(api: FakeApi) -> None:
    """Drop the watch and wait for the next one, which may follow faster than anybody could see that there is none."""
    before = api.count("GET", "/pods", watch=True)
    api.drop_watches()
    await eventually(lambda: api.count("GET", "/pods", watch=True) > before)


async def test_resumes_where_it_was_after_a_dropped_connection(api: FakeApi, start: Start) -> None:
    put(api, ["a"])
    running = start()
    await synced(running, api)
    await watch_again(api)
    put(api, ["b"])
    await running.holds("a", "b")
    assert api.count("GET", "/pods", watch=False) == 1, "no list was needed"


async def test_disconnect_in_the_middle_of_a_line(api: FakeApi, start: Start) -> None:
    put(api, ["a"])
    running = start()
    await synced(running, api)
    api.send_line(b'{"type":"MODIFIED","object":{"metadata":{"name":"a","names')
    await watch_again(api)
    put(api, ["b"])
    await running.holds("a", "b")


@pytest.mark.parametrize("line", [b"<html>502 Bad Gateway</html>\n", b"[]\n", b'{"type":"ADDED"}\n', b"\xff\xfe\n"])
async def test_a_line_that_is_no_event_does_not_stop_it(api: FakeApi, start: Start, line: bytes) -> None:
    put(api, ["a"])
    running = start()
    await synced(running, api)
    api.send_line(line)
    await eventually(lambda: api.count("GET", watch=True) >= 2)
    put(api, ["b"])
    await running.holds("a", "b")


async def test_bookmarks_move_the_place_to_resume_from(api: FakeApi, start: Start) -> None:
    put(api, ["a"])
    running = start()
    await synced(running, api)
    api.store.version += 100  # other kinds were written to
    api.bookmark()
    api.close_watches()
    await eventually(lambda: api.count("GET", watch=True) == 2)
    assert api.requests[-1].query["resourceVersion"] == str(api.store.version)
    assert 300 <= int(api.requests[-1].query["timeoutSeconds"]) <= 600


async def test_without_bookmarks_an_idle_watch_ends_in_good_order(
    api: FakeApi, start: Start, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with Events, for which the API server has no watch cache."""
    monkeypatch.setattr(informer_module, "WATCH_READ_TIMEOUT", 2.0)
    running = start()
    await synced(running, api)
    await eventually(lambda: api.count("GET", watch=True) >= 3)
    assert [entry for entry in logs if entry["event"] == "cannot follow"] == []
    assert api.count("GET", "/pods", watch=False) == 1
    put(api, ["a"])
    await running.holds("a")


async def test_without_bookmarks_everything_is_listed_before_the_version_is_forgotten(
    api: FakeApi, client: ApiClient, logs: Logs
) -> None:
    clock = VirtualClock()
    informer = Informer(client, PODS, clock=clock)
    task = asyncio.create_task(informer.run())
    await asyncio.wait_for(informer.wait_synced(), PATIENCE)
    idle, lists = 0, 1
    for watches in range(1, 7):
        await eventually(lambda: api.watches > 0)
        seconds = int(api.requests[-1].query["timeoutSeconds"])
        assert seconds < WATCH_READ_TIMEOUT
        clock.jump(seconds)
        assert informer.healthy()
        idle += seconds
        api.close_watches()
        await eventually(lambda: api.count("GET", watch=True) > watches)  # noqa: B023 - at once
        if idle >= RESUMABLE_SECONDS:
            idle, lists = 0, lists + 1
        assert api.count("GET", "/pods", watch=False) == lists
    assert [entry for entry in logs if entry["event"] == "cannot follow"] == []
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_half_open_connection_is_given_up(api: FakeApi, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list never answers, then the watch falls silent; both are noticed without any sign from below."""
    put(api, ["a"])
    api.hang(methods={"GET"}, path="/pods")
    monkeypatch.setattr(informer_module, "WATCH_READ_TIMEOUT", 0.05)
    running = start(client=api.client(request_timeout=0.05))
    await synced(running, api)
    api.hang(methods={"GET"}, path="watch=true")
    await eventually(lambda: api.count("GET", watch=True) >= 3)
    put(api, ["b"])
    await running.holds("a", "b")


async def test_a_watch_that_brings_nothing_is_given_up_when_told_to_list_again(api: FakeApi, start: Start) -> None:
    running = start()
    await synced(running, api)
    api.hold_watches(PODS)
    put(api, ["late"])
    running.informer.list_again()
    running.informer.list_again()
    await running.holds("late")
    api.release_watches(PODS)
    put(api, ["later"])
    await running.holds("late", "later")


async def test_a_malformed_object_is_left_out_alone(api: FakeApi, start: Start, logs: Logs) -> None:
    put(api, ["a", "b"])
    bad = pod_dict("bad")
    bad["spec"]["containers"] = "none"
    api.put(PODS, bad)
    before = MALFORMED.labels("pods")._value.get()
    running = start()
    await synced(running, api)
    assert running.names == {"a", "b"}
    assert MALFORMED.labels("pods")._value.get() == before + 1
    assert [entry["key"] for entry in logs if "left out" in entry["event"]] == ["default/bad"]

    api.put(PODS, pod_dict("bad"))
    await running.holds("a", "b", "bad")


async def test_the_gauge_says_how_many_objects_cannot_be_read_now(api: FakeApi, start: Start) -> None:
    def bad(name: str) -> None:
        api.put(PODS, {**pod_dict(name), "spec": {"containers": "none"}})

    def unreadable() -> float:
        return float(UNREADABLE.labels("pods")._value.get())

    put(api, ["a"])
    bad("b")
    running = start()
    await synced(running, api)
    assert unreadable() == 1
    bad("a")
    bad("c")
    await eventually(lambda: unreadable() == 3)
    put(api, ["b"])
    await eventually(lambda: unreadable() == 2)
    api.remove(PODS, "default", "c")
    await eventually(lambda: unreadable() == 1)
    api.drop_watches()
    api.compact()
    put(api, ["a"])
    await eventually(lambda: unreadable() == 0)


async def test_an_object_that_becomes_malformed_keeps_its_last_readable_state(api: FakeApi, start: Start) -> None:
    put(api, ["a", "b"], phase="Running")
    running = start()
    await synced(running, api)
    api.edit(PODS, "default", "a", lambda pod: pod["spec"].update(containers="none"))
    put(api, ["c"])
    await running.holds("a", "b", "c")
    api.expire_watches()
    await eventually(lambda: api.count("GET", "/pods", watch=False) == 2)
    put(api, ["d"])
    await running.holds("a", "b", "c", "d")
    assert ("deleted", "default/a", False) not in running.recorded
    api.remove(PODS, "default", "a")
    await running.holds("b", "c", "d")


async def test_a_handler_that_raises_is_logged_and_counted(api: FakeApi, start: Start, logs: Logs) -> None:
    put(api, ["a"])
    running = start()
    before = HANDLER_ERRORS.labels("pods")._value.get()

    def broken(change: Change[Pod]) -> None:
        raise RuntimeError("broken handler")

    running.informer.add_handler(broken)
    seen: list[str] = []
    running.informer.add_handler(lambda change: seen.append(change.key))
    await synced(running, api)
    put(api, ["b"])
    await eventually(lambda: seen == ["default/a", "default/b"])
    assert HANDLER_ERRORS.labels("pods")._value.get() == before + 2
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["a handler failed"] * 2


async def test_a_late_handler_is_shown_what_is_there(api: FakeApi, start: Start) -> None:
    put(api, ["a"])
    running = start()
    await synced(running, api)
    seen: list[Change[Pod]] = []
    running.informer.add_handler(seen.append)
    assert [(change.key, change.initial) for change in seen] == [("default/a", True)]


@pytest.mark.parametrize("status", [500, 503, 403, 401, 429, 404])
async def test_goes_on_after_any_refusal(api: FakeApi, start: Start, status: int) -> None:
    put(api, ["a"])
    api.fail(status, times=3, methods={"GET"}, path="/pods")
    running = start()
    await running.holds("a")


async def test_gives_up_its_place_when_it_cannot_resume_there(api: FakeApi, start: Start) -> None:
    put(api, ["a"])
    running = start()
    await synced(running, api)
    lists = api.count("GET", "/pods", watch=False)
    api.fail(500, times=4, methods={"GET"}, path="watch=true")
    api.drop_watches()
    await eventually(lambda: api.count("GET", "/pods", watch=False) > lists)


async def test_a_server_that_ends_watches_at_once_is_not_stormed(api: FakeApi, client: ApiClient) -> None:
    clock = VirtualClock()
    informer = Informer(client, PODS, clock=clock)
    task = asyncio.create_task(informer.run())
    await asyncio.wait_for(informer.wait_synced(), PATIENCE)
    for _ in range(3):
        await eventually(lambda: api.watches > 0)
        requests = len(api.requests)
        api.close_watches()
        await eventually(lambda: clock.next_deadline is not None)
        assert len(api.requests) == requests, "it waits first"
        assert clock.next_deadline is not None
        clock.jump(clock.next_deadline - clock.monotonic())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_healthy_until_it_cannot_follow_for_too_long(
    api: FakeApi, client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer_module, "STALE_AFTER", 100)
    clock = VirtualClock()
    informer = Informer(client, PODS, clock=clock)
    task = asyncio.create_task(informer.run())
    await asyncio.wait_for(informer.wait_synced(), PATIENCE)
    await eventually(lambda: api.watches > 0)
    clock.jump(90)
    assert informer.healthy()
    api.bookmark()
    await eventually(lambda: informer.age < 1)
    clock.jump(101)
    assert not informer.healthy()
    api.bookmark()
    await eventually(informer.healthy)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_selectors_and_namespace_are_the_servers_work(api: FakeApi, start: Start) -> None:
    put(api, ["a"], labels={"team": "red"})
    put(api, ["b"], labels={"team": "blue"})
    put(api, ["c"], labels={"team": "red"}, namespace="other")
    running = start(namespace="default", label_selector="team=red")
    await synced(running, api)
    assert running.names == {"a"}
    api.edit(PODS, "default", "a", lambda pod: pod["metadata"]["labels"].update(team="blue"))
    await running.holds()
    assert running.recorded[-1][0] == "deleted", "it left the selection"


async def test_only_what_the_transform_leaves_is_kept(
    api: FakeApi, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer_module, "PAGE_SIZE", 1)
    put(api, ["a", "b"])
    seen: list[str] = []

    def without_labels(pod: Pod, known: Pod | None) -> Pod:
        assert known is None, "no pod changes here"
        seen.append(pod.metadata.name)
        if pod.metadata.name == "bad":
            raise ValueError("not that one")
        return structs.replace(pod, metadata=structs.replace(pod.metadata, labels={}))

    running = start(transform=without_labels)
    await synced(running, api)
    put(api, ["c", "bad"])
    await running.holds("a", "b", "c")
    await eventually(lambda: seen == ["a", "b", "c", "bad"])
    assert all(pod.metadata.labels == {} for pod in running.informer.items())
    api.expire_watches()
    await eventually(lambda: len(seen) > 4)
    await running.holds("a", "b", "c")
    assert set(seen[4:]) == {"bad"}, "what is known already is not looked at again"
