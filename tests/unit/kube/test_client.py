"""The client: what each answer becomes, what is sent, and that nothing ever hangs."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import aiohttp
import orjson
import pytest
from scavenger_api import names
from scavenger_kube import transport
from scavenger_kube.client import ApiClient
from scavenger_kube.endpoint import Endpoint
from scavenger_kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from scavenger_kube.resources import CONFIGMAPS, JOBS, NODES, PODDISRUPTIONBUDGETS, PODS
from scavenger_testing import FakeApi, configmap_dict, eventually, job_dict, pod_dict
from scavenger_testing.cycles import freed_at_once


def test_paths() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("ns", "p", "eviction") == "/api/v1/namespaces/ns/pods/p/eviction"
    assert JOBS.path("ns") == "/apis/batch/v1/namespaces/ns/jobs"
    assert NODES.path(None, "n", "status") == "/api/v1/nodes/n/status"
    assert NODES.path("ignored", "n") == "/api/v1/nodes/n"
    with pytest.raises(ValueError, match="needs a namespace"):
        PODS.path(None, "p")


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (400, "BadRequest", Invalid),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (405, "MethodNotAllowed", ApiError),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", Unavailable),
    ],
)
async def test_statuses_become_errors(
    api: FakeApi, client: ApiClient, status: int, reason: str, expected: type[ApiError]
) -> None:
    api.fail(status, methods={"GET"}, reason=reason)
    with pytest.raises(ApiError) as caught:
        await client.get(PODS, "default", "a")
    assert type(caught.value) is expected
    assert (caught.value.status, caught.value.reason) == (status, reason)


@pytest.mark.parametrize("trouble", ["refuses", "drops"])
async def test_an_error_is_gone_with_whoever_handles_it(api: FakeApi, client: ApiClient, trouble: str) -> None:
    if trouble == "refuses":
        api.fail(404, methods={"GET"})
    else:
        api.drop(methods={"GET"})
    with freed_at_once(ApiError):
        with contextlib.suppress(ApiError):
            await client.get(PODS, "default", "a")
        for _ in range(5):  # the event loop forgets it
            await asyncio.sleep(0)


async def test_a_connection_is_gone_with_the_error_it_broke_with(api: FakeApi, client: ApiClient) -> None:
    async def follow() -> None:
        with contextlib.suppress(ApiError):
            async for _ in client.stream(PODS.path(), params={"watch": True}):
                pass

    with freed_at_once(aiohttp.ClientError):
        following = asyncio.create_task(follow())
        await eventually(lambda: api.watches > 0)
        api.drop_watches()
        await following


async def test_a_connection_that_is_refused_is_gone_with_its_error() -> None:
    async with ApiClient("http://127.0.0.1:1") as client:
        with freed_at_once(OSError):
            with contextlib.suppress(ApiError):
                await client.get(PODS, "default", "a")
            for _ in range(5):  # the event loop forgets it
                await asyncio.sleep(0)


async def test_an_answer_that_is_no_status_is_an_error_all_the_same(api: FakeApi, client: ApiClient) -> None:
    api.fail(502, methods={"GET"}, body=b"<html>Bad Gateway</html>")
    with pytest.raises(Unavailable, match="Bad Gateway") as caught:
        await client.get(PODS, "default", "a")
    assert caught.value.status == 502


async def test_connection_errors_and_timeouts_are_unavailable(api: FakeApi, client: ApiClient) -> None:
    api.drop(methods={"POST"})
    with pytest.raises(Unavailable):
        await client.create(CONFIGMAPS, "default", configmap_dict("a"))
    api.hang(methods={"GET"})
    with pytest.raises(Unavailable) as caught:
        await client.request("GET", CONFIGMAPS.path("default"), timeout=0.02)
    assert (caught.value.status, caught.value.reason) == (0, "Timeout")
    async with ApiClient("http://127.0.0.1:9") as nobody:
        with pytest.raises(Unavailable):
            await nobody.get(CONFIGMAPS, "default", "a")


async def test_too_many_requests_is_waited_for(api: FakeApi, client: ApiClient) -> None:
    api.put(CONFIGMAPS, configmap_dict("a"))
    api.fail(429, times=2, methods={"GET"}, retry_after=0.01)
    await client.get(CONFIGMAPS, "default", "a")
    assert api.count("GET") == 3
    api.fail(429, methods={"GET"}, retry_after=3600)
    with pytest.raises(TooManyRequests) as caught:
        await client.get(CONFIGMAPS, "default", "a")
    assert caught.value.retry_after == 3600


async def test_an_eviction_has_the_label_by_which_the_guard_looks_its_pod_up(
    client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []

    async def request(method: str, path: str, *, body: Any) -> bytes:
        sent.append((method, path, body["metadata"]))
        return b'{"kind": "Status", "status": "Success"}'

    monkeypatch.setattr(client, "request", request)
    assert await client.evict("default", "a")
    meta = {"name": "a", "namespace": "default", "labels": {names.LABEL_EVICTION: "checked"}}
    assert sent == [("POST", PODS.path("default", "a", "eviction"), meta)]


async def test_a_budget_refuses_an_eviction_and_is_not_waited_for(api: FakeApi, client: ApiClient) -> None:
    api.put(PODS, pod_dict("a", labels={"class": "x"}))
    api.put(PODS, pod_dict("b"))
    budget = {"selector": {"matchLabels": {"class": "x"}}, "minAvailable": 1_000_000}
    api.put(PODDISRUPTIONBUDGETS, {"metadata": {"name": "keep", "namespace": "default"}, "spec": budget})
    with pytest.raises(TooManyRequests) as caught:
        await client.evict("default", "a")
    assert "DisruptionBudget" in caught.value.causes()
    assert await client.evict("default", "b")
    assert not await client.evict("default", "b"), "gone already"
    assert [seen.path for seen in api.requests if seen.method == "POST"].count(
        PODS.path("default", "a", "eviction")
    ) == 1


async def test_delete(api: FakeApi, client: ApiClient) -> None:
    job = api.put(JOBS, job_dict("j"))
    api.put(PODS, pod_dict("p", owner=job))
    with pytest.raises(Conflict):
        await client.delete(JOBS, "default", "j", uid="another")
    with pytest.raises(Conflict):
        await client.delete(JOBS, "default", "j", resource_version="1")
    assert await client.delete(JOBS, "default", "j", uid=job["metadata"]["uid"])
    assert not await client.delete(JOBS, "default", "j")
    assert api.list(PODS) == [], "in the background, never orphaned"


async def test_patches_and_apply(api: FakeApi, client: ApiClient) -> None:
    api.put(PODS, pod_dict("p", labels={"a": "1"}, finalizers=["x/y", "z/z"]))
    await client.merge_patch(PODS, "default", "p", {"metadata": {"labels": {"a": None, "b": "2"}}})
    drop = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/y"]}}
    await client.strategic_patch(PODS, "default", "p", drop)
    await client.json_patch(PODS, "default", "p", [{"op": "add", "path": "/metadata/labels/c", "value": "3"}])
    with pytest.raises(Invalid):
        await client.json_patch(PODS, "default", "p", [{"op": "test", "path": "/metadata/labels/c", "value": "4"}])
    await client.merge_patch(PODS, "default", "p", {"status": {"phase": "Failed"}}, subresource="status")
    pod = api.get(PODS, "default", "p")
    assert pod is not None
    assert pod["metadata"]["labels"] == {"b": "2", "c": "3"}
    assert pod["metadata"]["finalizers"] == ["z/z"]
    assert pod["status"]["phase"] == "Failed"

    manifest: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    await client.apply(CONFIGMAPS, "default", "c", {**manifest, "data": {"a": "1", "b": "2"}}, field_manager="one")
    body = await client.apply(CONFIGMAPS, "default", "c", {**manifest, "data": {"a": "3"}}, field_manager="one")
    assert orjson.loads(body)["data"] == {"a": "3"}
    with pytest.raises(Conflict):
        await client.apply(
            CONFIGMAPS, "default", "c", {**manifest, "data": {"a": "4"}}, field_manager="two", force=False
        )


async def test_concurrency_is_bounded_but_not_for_what_is_urgent(api: FakeApi) -> None:
    client = api.client(max_concurrency=2)
    api.hang(times=2, methods={"GET"}, path="/pods")
    stuck = [asyncio.create_task(client.get(PODS, "default", "a")) for _ in range(2)]
    await eventually(lambda: api.count("GET", "/pods") == 2)
    waiting = asyncio.create_task(client.request("GET", "/version"))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    assert b"gitVersion" in await client.request("GET", "/version", urgent=True)
    api.heal()
    assert b"gitVersion" in await waiting
    await asyncio.gather(*stuck, return_exceptions=True)


async def test_refused_credentials_are_renewed_once(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MIN_RENEWAL_SECONDS", 0.0)
    renewed = 0

    async def load() -> Endpoint:
        nonlocal renewed
        renewed += 1
        return Endpoint(api.url, "Bearer new")

    async with ApiClient(Endpoint(api.url, "Bearer old"), load=load) as client:
        api.fail(401, methods={"GET"}, reason="Unauthorized")
        assert await client.request("GET", "/version")
        assert renewed == 1
        api.fail(401, times=2, methods={"GET"}, reason="Unauthorized")
        with pytest.raises(Unauthorized):
            await client.request("GET", "/version")


async def test_stream_joins_lines_across_chunks(api: FakeApi, client: ApiClient) -> None:
    lines: list[bytes] = []

    async def follow() -> None:
        async for line in client.stream(PODS.path(), params={"watch": True}):
            lines.append(line)

    following = asyncio.create_task(follow())
    await eventually(lambda: api.watches > 0)
    for piece in (b"one\ntw", b"o", b"\nthree", b"\n", b"x" * 3_000_000, b"\nend"):
        api.send_line(piece)
        await asyncio.sleep(0.002)
    api.close_watches()
    await following
    assert [line[:5] for line in lines] == [b"one", b"two", b"three", b"xxxxx", b"end"]
    assert len(lines[3]) == 3_000_000
