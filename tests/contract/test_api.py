"""What the services rely on an API server to do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from scavenger_kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
    by_budget,
    error_for_status,
)
from scavenger_kube.kinds import ConfigMap
from scavenger_kube.resources import CONFIGMAPS, EVENTS, JOBS, LEASES, PODDISRUPTIONBUDGETS, PODS, Resource
from scavenger_runtime.election import Elector, LeadershipLost
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.informer import Informer
from scavenger_testing import eventually, job_dict, pod_dict

if TYPE_CHECKING:
    from tests.contract.conftest import Server

Object = dict[str, Any]


def configmap(name: str, data: dict[str, str] | None = None, **meta: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}, "data": data or {}}


def template() -> Object:
    spec = pod_dict("x")["spec"]
    return {"metadata": {"labels": {"app": "x"}}, "spec": {**spec, "schedulerName": "nobody"}}


def pod(name: str, **meta: Any) -> Object:
    """A pod that stays Pending: its scheduler does not exist."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": template()["spec"]}


def job(name: str) -> Object:
    manifest = job_dict(name, template=template(), suspend=True)
    manifest["metadata"] = {"name": name}
    del manifest["status"]
    return manifest


async def read(server: Server, resource: Resource[Any], name: str) -> Object:
    found: Object = orjson.loads(await server.client.get(resource, server.namespace, name))
    return found


async def create(server: Server, resource: Resource[Any], manifest: Object) -> Object:
    created: Object = orjson.loads(await server.client.create(resource, server.namespace, manifest))
    return created


@contextlib.asynccontextmanager
async def following(server: Server, **options: Any) -> AsyncIterator[Informer[ConfigMap]]:
    informer = Informer(server.client, CONFIGMAPS, namespace=server.namespace, **options)
    task = asyncio.create_task(informer.run())
    try:
        await asyncio.wait_for(informer.wait_synced(), 10)
        yield informer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def ours(informer: Informer[ConfigMap]) -> dict[str, str | None]:
    """Without what the cluster puts into every namespace."""
    return {found.metadata.name: found.data.get("a") for found in informer.items() if found.metadata.name[:4] != "kube"}


async def test_create_read_and_what_is_missing(server: Server) -> None:
    created = await create(server, CONFIGMAPS, configmap("a", {"a": "1"}))
    assert {"uid", "resourceVersion", "creationTimestamp"} <= created["metadata"].keys()
    assert (await read(server, CONFIGMAPS, "a"))["data"] == {"a": "1"}
    with pytest.raises(AlreadyExists):
        await create(server, CONFIGMAPS, configmap("a"))
    with pytest.raises(NotFound):
        await read(server, CONFIGMAPS, "b")
    with pytest.raises(NotFound):
        await server.client.merge_patch(CONFIGMAPS, server.namespace, "b", {"data": {}})
    with pytest.raises(Invalid):
        await create(server, CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})


async def test_metadata_comes_without_the_rest(server: Server) -> None:
    created = await create(server, CONFIGMAPS, configmap("a", {"a": "1"}))
    found = orjson.loads(await server.client.get_metadata(CONFIGMAPS, server.namespace, "a"))
    assert (found["kind"], found["metadata"]["uid"]) == ("PartialObjectMetadata", created["metadata"]["uid"])
    assert "data" not in found
    with pytest.raises(NotFound):
        await server.client.get_metadata(CONFIGMAPS, server.namespace, "b")


async def test_a_patch_is_answered_with_metadata_alone(server: Server) -> None:
    created = await create(server, CONFIGMAPS, configmap("a", {"a": "1"}))
    patch = {"data": {"b": "2"}}
    found = orjson.loads(await server.client.merge_patch(CONFIGMAPS, server.namespace, "a", patch))
    assert (found["kind"], found["metadata"]["uid"]) == ("PartialObjectMetadata", created["metadata"]["uid"])
    assert found["metadata"]["resourceVersion"] != created["metadata"]["resourceVersion"]
    assert "data" not in found
    whole = orjson.loads(await server.client.merge_patch(CONFIGMAPS, server.namespace, "a", patch, whole=True))
    assert whole["data"] == {"a": "1", "b": "2"}
    made = orjson.loads(
        await server.client.create(CONFIGMAPS, server.namespace, configmap("b", {"a": "1"}), whole=False)
    )
    assert (made["kind"], made["metadata"]["name"], "data" in made) == ("PartialObjectMetadata", "b", False)
    with pytest.raises(AlreadyExists):
        await server.client.create(CONFIGMAPS, server.namespace, configmap("b"), whole=False)
    stale = {"metadata": {"resourceVersion": "1"}}
    with pytest.raises(Conflict):
        await server.client.merge_patch(CONFIGMAPS, server.namespace, "a", stale)
    assert await server.client.delete(CONFIGMAPS, server.namespace, "a")
    assert not await server.client.delete(CONFIGMAPS, server.namespace, "a")


async def test_generated_names(server: Server) -> None:
    manifest = configmap("", generateName="made-")
    del manifest["metadata"]["name"]
    names = {(await create(server, CONFIGMAPS, manifest))["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("made-") for name in names)


async def test_lists_in_pages_of_one_version(server: Server) -> None:
    for number in range(5):
        await create(server, CONFIGMAPS, configmap(f"c{number}", labels={"of": "pages"}))
    names: list[str] = []
    versions: set[str] = set()
    token: str | None = None
    while True:
        params = {"limit": 2, "continue": token, "labelSelector": "of=pages"}
        body = await server.client.request("GET", CONFIGMAPS.path(server.namespace), params=params)
        page = orjson.loads(body)
        names += [item["metadata"]["name"] for item in page["items"]]
        assert len(page["items"]) <= 2
        versions.add(page["metadata"]["resourceVersion"])
        token = page["metadata"].get("continue")
        if not token:
            break
        await create(server, CONFIGMAPS, configmap(f"d{len(names)}", labels={"of": "pages"}))
    assert names == [f"c{number}" for number in range(5)], "what was created meanwhile is not in it"
    assert len(versions) == 1


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("team=red", {"a"}),
        ("team!=red", {"b", "c"}),
        ("team", {"a", "b"}),
        ("!team", {"c"}),
        ("team in (red,blue),tier", {"b"}),
        ("team notin (blue)", {"a", "c"}),
    ],
)
async def test_label_selectors(server: Server, selector: str, expected: set[str]) -> None:
    for name, labels in (("a", {"team": "red"}), ("b", {"team": "blue", "tier": "1"}), ("c", {})):
        await create(server, PODDISRUPTIONBUDGETS, budget(name, labels))
    path = PODDISRUPTIONBUDGETS.path(server.namespace)
    body = await server.client.request("GET", path, params={"labelSelector": selector})
    assert {item["metadata"]["name"] for item in orjson.loads(body)["items"]} == expected


def budget(name: str, labels: dict[str, str], selects: str = "x", least: int = 1) -> Object:
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": selects}}}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}


async def test_field_selectors(server: Server) -> None:
    await create(server, PODS, pod("a"))
    await create(server, PODS, pod("b"))
    for selector, expected in (
        ("metadata.name=a", {"a"}),
        ("status.phase!=Pending", set()),
        ("spec.nodeName=", {"a", "b"}),
    ):
        body = await server.client.request("GET", PODS.path(server.namespace), params={"fieldSelector": selector})
        assert {item["metadata"]["name"] for item in orjson.loads(body)["items"]} == expected


async def test_a_write_of_an_old_version_conflicts(server: Server) -> None:
    old = await create(server, CONFIGMAPS, configmap("a", {"a": "1"}))
    await server.client.merge_patch(CONFIGMAPS, server.namespace, "a", {"data": {"a": "2"}})
    with pytest.raises(Conflict):
        await server.client.replace(CONFIGMAPS, server.namespace, "a", {**old, "data": {"a": "3"}})
    stale = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"a": "3"}}
    with pytest.raises(Conflict):
        await server.client.merge_patch(CONFIGMAPS, server.namespace, "a", stale)
    assert (await read(server, CONFIGMAPS, "a"))["data"] == {"a": "2"}


async def test_a_write_that_changes_nothing_makes_no_version(server: Server) -> None:
    before = await create(server, CONFIGMAPS, configmap("a", {"a": "1"}))
    await server.client.merge_patch(CONFIGMAPS, server.namespace, "a", {"data": {"a": "1"}})
    after = await read(server, CONFIGMAPS, "a")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_apply_owns_its_fields(server: Server) -> None:
    async def apply(manager: str, data: dict[str, str], **options: Any) -> Object:
        body = await server.client.apply(
            CONFIGMAPS, server.namespace, "a", configmap("a", data), field_manager=manager, **options
        )
        applied: Object = orjson.loads(body)
        return applied

    assert (await apply("one", {"a": "1", "b": "1"}))["data"] == {"a": "1", "b": "1"}
    assert (await apply("two", {"c": "2"}))["data"] == {"a": "1", "b": "1", "c": "2"}
    assert (await apply("one", {"a": "1"}))["data"] == {"a": "1", "c": "2"}, "what it no longer applies goes"
    with pytest.raises(Conflict):
        await apply("two", {"a": "2", "c": "2"}, force=False)
    assert (await apply("two", {"a": "2", "c": "2"}))["data"] == {"a": "2", "c": "2"}


async def test_patches(server: Server) -> None:
    await create(server, PODS, pod("a", labels={"x": "1"}, finalizers=["scavenger.dev/one", "scavenger.dev/two"]))
    place = PODS, server.namespace, "a"
    await server.client.merge_patch(*place, {"metadata": {"labels": {"x": None, "y": "2"}}})
    drop = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["scavenger.dev/one"]}}
    await server.client.strategic_patch(*place, drop)
    operations = [
        {"op": "test", "path": "/metadata/labels/y", "value": "2"},
        {"op": "add", "path": "/metadata/labels/example.org~1z", "value": "3"},
    ]
    await server.client.json_patch(*place, operations)
    with pytest.raises(Invalid):
        await server.client.json_patch(*place, [{"op": "test", "path": "/metadata/labels/y", "value": "no"}])
    found = (await read(server, PODS, "a"))["metadata"]
    assert found["labels"] == {"y": "2", "example.org/z": "3"}
    assert found["finalizers"] == ["scavenger.dev/two"]
    await server.client.merge_patch(*place, {"metadata": {"finalizers": None}})


async def test_status_is_written_through_its_subresource_only(server: Server) -> None:
    await create(server, PODS, pod("a"))
    place = PODS, server.namespace, "a"
    await server.client.merge_patch(*place, {"status": {"message": "main"}})
    assert "message" not in (await read(server, PODS, "a"))["status"]
    patch = {"status": {"message": "status"}, "metadata": {"labels": {"ignored": "no"}}}
    await server.client.merge_patch(*place, patch, subresource="status")
    assert (await read(server, PODS, "a"))["status"]["message"] == "status"


async def test_finalizers_hold_an_object_until_they_are_gone(server: Server) -> None:
    created = await create(server, CONFIGMAPS, configmap("a", finalizers=["scavenger.dev/hold"]))
    assert created["metadata"].get("deletionTimestamp") is None
    assert await server.client.delete(CONFIGMAPS, server.namespace, "a")
    assert (await read(server, CONFIGMAPS, "a"))["metadata"]["deletionTimestamp"]
    assert await server.client.delete(CONFIGMAPS, server.namespace, "a"), "asking twice is allowed"
    await server.client.merge_patch(CONFIGMAPS, server.namespace, "a", {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        await read(server, CONFIGMAPS, "a")
    assert not await server.client.delete(CONFIGMAPS, server.namespace, "a")


async def test_the_generation_rises_with_the_spec_and_with_the_first_deletion(server: Server) -> None:
    async def generation() -> int:
        return int((await read(server, JOBS, "a"))["metadata"]["generation"])

    manifest = job("a")
    manifest["metadata"] |= {"finalizers": ["scavenger.dev/hold"], "generation": 7}
    await create(server, JOBS, manifest)
    place = JOBS, server.namespace, "a"
    assert await generation() == 1, "the server counts"
    await server.client.merge_patch(*place, {"metadata": {"labels": {"x": "1"}}})
    await server.client.merge_patch(*place, {"status": {"active": 1}}, subresource="status")
    await server.client.merge_patch(*place, {"spec": {"suspend": True}})
    assert await generation() == 1, "labels, status and a spec that says the same are no news"
    await server.client.merge_patch(*place, {"spec": {"backoffLimit": 3}})
    assert await generation() == 2
    for _ in range(2):
        await server.client.delete(JOBS, server.namespace, "a")
        assert await generation() == 3
    await server.client.merge_patch(*place, {"metadata": {"finalizers": None}})
    assert "generation" not in (await create(server, CONFIGMAPS, configmap("a")))["metadata"]


async def test_a_deletion_raises_the_generation_of_a_pod_and_its_last_one_moves_the_deadline(server: Server) -> None:
    manifest = pod("slow", finalizers=["scavenger.dev/hold"])
    manifest["spec"] = {**manifest["spec"], "nodeName": "nowhere", "terminationGracePeriodSeconds": 3600}
    asked = await create(server, PODS, manifest)
    place = PODS, server.namespace, "slow"
    await server.client.delete(*place)
    marked = (await read(server, PODS, "slow"))["metadata"]
    assert (asked["metadata"]["generation"], marked["generation"]) == (1, 2)
    assert marked["deletionGracePeriodSeconds"] == 3600, "as its spec says"
    await asyncio.sleep(1.1)
    await server.client.merge_patch(*place, {"status": {"phase": "Failed"}}, subresource="status")
    await server.client.delete(*place, grace_period=0)  # as a kubelet does when all containers have ended
    last = (await read(server, PODS, "slow"))["metadata"]
    assert (last["generation"], last["deletionGracePeriodSeconds"]) == (2, 0)
    began = datetime.fromisoformat(marked["deletionTimestamp"]) - timedelta(seconds=3600)
    assert datetime.fromisoformat(last["deletionTimestamp"]) > began, "never in the past"
    await server.client.merge_patch(*place, {"metadata": {"finalizers": None}})


async def test_a_pod_that_has_ended_or_has_no_node_is_deleted_without_grace(server: Server) -> None:
    for name, node in (("ended", "nowhere"), ("unplaced", "")):
        manifest = pod(name, finalizers=["scavenger.dev/hold"])
        manifest["spec"] = {**manifest["spec"], **({"nodeName": node} if node else {})}
        await create(server, PODS, manifest)
        place = PODS, server.namespace, name
        if node:
            await server.client.merge_patch(*place, {"status": {"phase": "Failed"}}, subresource="status")
        await server.client.delete(*place, grace_period=60)
        found = (await read(server, PODS, name))["metadata"]
        assert (found["generation"], found["deletionGracePeriodSeconds"]) == (2, 0)
        await server.client.merge_patch(*place, {"metadata": {"finalizers": None}})


async def test_delete_preconditions(server: Server) -> None:
    created = await create(server, CONFIGMAPS, configmap("a"))
    meta = created["metadata"]
    with pytest.raises(Conflict):
        await server.client.delete(CONFIGMAPS, server.namespace, "a", uid="00000000-0000-0000-0000-000000000000")
    with pytest.raises(Conflict):
        await server.client.delete(CONFIGMAPS, server.namespace, "a", resource_version="1")
    assert await server.client.delete(
        CONFIGMAPS, server.namespace, "a", uid=meta["uid"], resource_version=meta["resourceVersion"]
    )


async def test_what_is_owned_goes_with_its_owner(server: Server) -> None:
    owner = await create(server, JOBS, job("j"))
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": owner["metadata"]["uid"]}
    await create(server, CONFIGMAPS, configmap("owned", ownerReferences=[reference]))
    async with following(server) as informer:
        assert "owned" in ours(informer)
        await server.client.delete(JOBS, server.namespace, "j")
        await eventually(lambda: "owned" not in ours(informer), timeout=50)


async def test_what_is_owned_stays_while_a_finalizer_holds_its_owner(server: Server) -> None:
    manifest = job("held")
    manifest["metadata"]["finalizers"] = ["scavenger.dev/hold"]
    for body in (manifest, job("free")):
        owner = (await create(server, JOBS, body))["metadata"]
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner["name"], "uid": owner["uid"]}
        await create(server, CONFIGMAPS, configmap(f"of-{owner['name']}", ownerReferences=[reference]))
    async with following(server) as informer:
        await server.client.delete(JOBS, server.namespace, "held")
        await server.client.delete(JOBS, server.namespace, "free")
        await eventually(lambda: "of-free" not in ours(informer), timeout=50)
        assert "of-held" in ours(informer)
        await server.client.merge_patch(JOBS, server.namespace, "held", {"metadata": {"finalizers": None}})
        await eventually(lambda: "of-held" not in ours(informer), timeout=50)


async def test_evictions_ask_the_budget(server: Server) -> None:
    await create(server, PODS, pod("a", labels={"app": "covered"}))
    await create(server, PODS, pod("b"))
    await create(server, PODDISRUPTIONBUDGETS, budget("keep", {}, selects="covered", least=1_000_000))
    for name in ("a", "b"):  # a Pending pod may go whatever the budget says
        running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        await server.client.merge_patch(PODS, server.namespace, name, running, subresource="status")
    with pytest.raises(TooManyRequests) as caught:
        await server.client.evict(server.namespace, "a")
    assert "DisruptionBudget" in caught.value.causes()
    assert by_budget(caught.value)
    assert await server.client.evict(server.namespace, "b")


async def test_an_unready_pod_of_a_budget_that_is_met_is_evicted(server: Server) -> None:
    """Why the prioritizer's budgets are never met (docs/designs/0030-budgets-that-are-met.md)."""
    for least, name in ((1, "met"), (1_000_000, "never-met")):
        for pod_name, ready in ((f"{name}-ready", "True"), (f"{name}-unready", "False")):
            await create(server, PODS, pod(pod_name, labels={"app": name}))
            running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}}
            await server.client.merge_patch(PODS, server.namespace, pod_name, running, subresource="status")
        await create(server, PODDISRUPTIONBUDGETS, budget(name, {}, selects=name, least=least))
        await counted(server, name, healthy=1, desired=least)
    with pytest.raises(TooManyRequests):
        await server.client.evict(server.namespace, "never-met-unready")
    assert await server.client.evict(server.namespace, "met-unready")


async def counted(server: Server, name: str, *, healthy: int, desired: int) -> None:
    """Wait until the disruption controller has counted; the fake has none, and its status is written here."""
    status = {"currentHealthy": healthy, "desiredHealthy": desired}
    if server.fake is not None:
        body = {"status": {**status, "disruptionsAllowed": 0, "expectedPods": 2, "observedGeneration": 1}}
        await server.client.merge_patch(PODDISRUPTIONBUDGETS, server.namespace, name, body, subresource="status")
    async with asyncio.timeout(60):  # the server has to be asked
        while not status.items() <= (await read(server, PODDISRUPTIONBUDGETS, name)).get("status", {}).items():  # noqa: ASYNC110
            await asyncio.sleep(0.2)


async def test_a_pod_of_two_budgets_is_not_evicted_and_the_answer_says_created(server: Server) -> None:
    await create(server, PODS, pod("a", labels={"app": "covered"}))
    for name in ("one", "two"):
        await create(server, PODDISRUPTIONBUDGETS, budget(name, {}, selects="covered", least=0))
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await server.client.merge_patch(PODS, server.namespace, "a", running, subresource="status")
    with pytest.raises(ApiError) as caught:
        await server.client.evict(server.namespace, "a")
    assert caught.value.status == 500
    assert by_budget(caught.value)
    assert not by_budget(ApiError(500, message="something else"))
    assert "deletionTimestamp" not in (await read(server, PODS, "a"))["metadata"]


async def test_a_deletion_asks_no_budget_but_its_preconditions(server: Server) -> None:
    created = await create(server, PODS, pod("a", labels={"app": "covered"}))
    await create(server, PODDISRUPTIONBUDGETS, budget("keep", {}, selects="covered", least=1_000_000))
    uid, version = created["metadata"]["uid"], created["metadata"]["resourceVersion"]
    await server.client.merge_patch(PODS, server.namespace, "a", {"metadata": {"labels": {"changed": "since"}}})
    with pytest.raises(Conflict):
        await server.client.delete(PODS, server.namespace, "a", uid=uid, resource_version=version)
    version = (await read(server, PODS, "a"))["metadata"]["resourceVersion"]
    assert await server.client.delete(PODS, server.namespace, "a", uid=uid, resource_version=version)


async def test_evicting_what_is_leaving_shortens_its_grace_period_past_all_budgets(server: Server) -> None:
    manifest = pod("slow", labels={"app": "covered"}, finalizers=["scavenger.dev/hold"])
    manifest["spec"] = {**manifest["spec"], "nodeName": "nowhere"}  # what has no node goes without grace
    await create(server, PODS, manifest)
    await create(server, PODDISRUPTIONBUDGETS, budget("keep", {}, selects="covered", least=1_000_000))
    await server.client.delete(PODS, server.namespace, "slow", grace_period=3600)
    before = (await read(server, PODS, "slow"))["metadata"]
    assert before["deletionGracePeriodSeconds"] == 3600
    assert await server.client.evict(server.namespace, "slow", uid=before["uid"], grace_period=30)
    after = (await read(server, PODS, "slow"))["metadata"]
    assert after["deletionGracePeriodSeconds"] == 30
    gained = datetime.fromisoformat(before["deletionTimestamp"]) - datetime.fromisoformat(after["deletionTimestamp"])
    assert gained == timedelta(seconds=3570)
    await server.client.evict(server.namespace, "slow", grace_period=600)
    assert (await read(server, PODS, "slow"))["metadata"]["deletionGracePeriodSeconds"] == 30, "never longer again"
    await server.client.merge_patch(PODS, server.namespace, "slow", {"metadata": {"finalizers": None}})
    await server.client.delete(PODS, server.namespace, "slow", grace_period=0)


async def test_evicting_what_is_gone_is_success(server: Server) -> None:
    assert not await server.client.evict(server.namespace, "nobody")


async def test_an_informer_follows(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scavenger_runtime.informer.PAGE_SIZE", 2)
    for number in range(5):
        await create(server, CONFIGMAPS, configmap(f"c{number}", {"a": "0"}))
    async with following(server) as informer:
        assert ours(informer) == {f"c{number}": "0" for number in range(5)}
        await create(server, CONFIGMAPS, configmap("new", {"a": "1"}))
        await server.client.merge_patch(CONFIGMAPS, server.namespace, "c0", {"data": {"a": "2"}})
        await server.client.delete(CONFIGMAPS, server.namespace, "c1")
        expected = {"c0": "2", "c2": "0", "c3": "0", "c4": "0", "new": "1"}
        await eventually(lambda: ours(informer) == expected)


async def test_leaving_the_selection_is_a_deletion(server: Server) -> None:
    await create(server, CONFIGMAPS, configmap("a", labels={"team": "red"}))
    async with following(server, label_selector="team=red") as informer:
        assert set(ours(informer)) == {"a"}
        await server.client.merge_patch(CONFIGMAPS, server.namespace, "a", {"metadata": {"labels": {"team": "blue"}}})
        await eventually(lambda: not ours(informer))


async def test_a_watch_from_a_forgotten_version_is_gone(server: Server) -> None:
    """Refused, or accepted and ended with an ERROR event: both exist, and both must end up as Gone."""
    if server.fake is not None:
        await create(server, CONFIGMAPS, configmap("a"))
        server.fake.compact()
    with contextlib.suppress(Gone):
        event = await first_event(server, resourceVersion="1")
        if server.fake is None and event["type"] != "ERROR":
            pytest.skip("a real server forgets after five to ten minutes, and this one is younger")
        assert type(error_for_status(event["object"])) is Gone


async def first_event(server: Server, **params: Any) -> Object:
    async for line in server.client.stream(
        CONFIGMAPS.path("kube-system"), params={"watch": True, "timeoutSeconds": 30, **params}, read_timeout=50
    ):
        event: Object = orjson.loads(line)
        return event
    raise AssertionError("the watch ended with nothing said")


async def test_a_watch_ends_in_good_order_when_its_time_is_over(server: Server) -> None:
    params = {"watch": True, "timeoutSeconds": 1, "allowWatchBookmarks": True}
    lines = [line async for line in server.client.stream(CONFIGMAPS.path(server.namespace), params=params)]
    assert all(orjson.loads(line)["type"] in ("ADDED", "BOOKMARK") for line in lines)


async def test_strategic_patches_are_not_for_custom_kinds(server: Server) -> None:
    """Nor are they there without their CRD, on a real server: either way it is an error, not a surprise."""
    custom = Resource("scavenger.dev", "v1alpha1", "scavengerjobs", "ScavengerJob", True, ConfigMap)
    with pytest.raises(ApiError):
        await server.client.strategic_patch(custom, server.namespace, "a", {"spec": {}})


async def test_events_are_counted(server: Server) -> None:
    recorder = EventRecorder(server.client, "contract")
    task = asyncio.create_task(recorder.run())
    target = orjson.loads(await server.client.create(PODS, server.namespace, pod("a")))
    about = PODS.type(metadata=meta(target))
    for _ in range(2):
        recorder.warning(PODS, about, "Tested", "the contract holds")
        await recorder.flush()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    params = {"fieldSelector": f"involvedObject.uid={target['metadata']['uid']}"}
    body = await server.client.request("GET", EVENTS.path(server.namespace), params=params)
    assert [event["count"] for event in orjson.loads(body)["items"] if event["reason"] == "Tested"] == [2]


def meta(obj: Object) -> Any:
    from scavenger_kube.kinds import ObjectMeta

    found = obj["metadata"]
    return ObjectMeta(name=found["name"], namespace=found["namespace"], uid=found["uid"])


@pytest.mark.timeout(120)
async def test_one_leads_then_the_next(server: Server) -> None:
    """The Lease is released, and taken: nobody waits for it to expire, so that its times are long for free."""

    async def lead() -> None:
        await asyncio.Event().wait()

    made = partial(
        Elector, server.client, "lease", server.namespace, lease_duration=90.0, renew_deadline=60.0, retry_period=0.1
    )
    electors = {name: made(name) for name in ("a", "b")}
    tasks = {name: asyncio.create_task(one.run(lead)) for name, one in electors.items()}

    def leaders() -> list[str]:
        return [name for name, one in electors.items() if one.is_leader]

    await eventually(lambda: len(leaders()) == 1, timeout=50)
    (first,) = leaders()
    (second,) = electors.keys() - {first}
    tasks[first].cancel()
    await eventually(lambda: leaders() == [second], timeout=50)
    lease = await read(server, LEASES, "lease")
    assert lease["spec"]["holderIdentity"] == second
    assert lease["spec"]["leaseTransitions"] == 1
    await server.client.merge_patch(LEASES, server.namespace, "lease", {"spec": {"holderIdentity": "usurper"}})
    with pytest.raises(LeadershipLost):
        await asyncio.wait_for(tasks[second], 30)
    await asyncio.gather(*tasks.values(), return_exceptions=True)
