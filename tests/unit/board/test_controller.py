"""The view against the API server in memory: what caches hold becomes a picture, and nothing is ever written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from scavenger_api import names
from scavenger_api.ledger import Ledger
from scavenger_board.controller import BoardView
from scavenger_board.core.recorded import MOMENT
from scavenger_board.facts import BATCH_JOBS, EVENTS, JOBS, QUEUES
from scavenger_board.prometheus import MAX_ANSWER
from scavenger_board.settings import BoardSettings
from scavenger_kube.resources import CONFIGMAPS, LEASES, NODES, PODDISRUPTIONBUDGETS, PODS, Resource
from scavenger_runtime.clock import SystemClock
from scavenger_testing import FakeApi, adopted_job_dict, eventually
from scavenger_testing.answers import Request
from scavenger_testing.builders import configmap_dict, node_dict, pod_dict, scavengerjob_dict

pytestmark = pytest.mark.slow

NODE_METRICS = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False, dict)
SYSTEM = names.SYSTEM_NAMESPACE
ROOT = Path(__file__).resolve().parents[3]


@asynccontextmanager
async def following(api: FakeApi, **settings: Any) -> AsyncIterator[BoardView]:
    view = BoardView(api.client(), BoardSettings(**settings), SystemClock())
    tasks = [asyncio.create_task(informer.run()) for informer in view.informers]
    tasks.append(asyncio.create_task(view.poll_usage()))
    await asyncio.gather(*(informer.wait_synced() for informer in view.informers))
    try:
        yield view
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await view.close()


async def test_what_is_in_the_cluster_is_in_the_picture_and_what_goes_leaves_it(api: FakeApi) -> None:
    api.put(NODES, node_dict("n1"))
    api.put(JOBS, scavengerjob_dict("a", namespace="lab", queue="lab", phase="Running"))
    api.put(PODS, pod_dict("a-0-x", namespace="lab", node="n1", phase="Running", labels={names.LABEL_JOB: "a"}))
    api.put(PODS, pod_dict("ended", namespace="lab", node="n1", phase="Succeeded"))
    api.put(QUEUES, {"metadata": {"name": "lab"}, "spec": {"weight": 2}})
    api.put(LEASES, {"metadata": {"name": names.ADMITTER, "namespace": SYSTEM}, "spec": {}})
    api.put(CONFIGMAPS, configmap_dict("another", namespace=SYSTEM))
    async with following(api) as view:
        picture = await view.picture()
        assert [(row.name, row.pods, row.jobs) for row in picture.nodes] == [("n1", 1, ["lab/a"])]
        assert [(row.key, row.nodes) for row in picture.jobs] == [("lab/a", ["n1"])]
        assert [(row.name, row.weight) for row in picture.queues] == [("lab", 2)]
        assert picture.levels.visibility == "Absent"

        api.remove(JOBS, "lab", "a")
        api.remove(PODS, "lab", "a-0-x")
        api.put(
            CONFIGMAPS, configmap_dict(names.LEVELS_CONFIGMAP, {"state": "Blind", "admit": "false"}, namespace=SYSTEM)
        )
        await eventually(lambda: not view.snapshot().jobs and not view.snapshot().pods and bool(view.snapshot().levels))
        picture = await view.picture()
        assert (picture.jobs, [row.pods for row in picture.nodes]) == ([], [0])
        assert picture.levels.visibility == "Blind"


async def test_adopted_jobs_are_jobs(api: FakeApi) -> None:
    """Beside a ScavengerJob of the same name; the pods of each are its own."""
    ledger = Ledger(runs=("2026-03-01T12:00:00Z",), interrupted=2, useful=7200, say="returned after 41 s")
    said = {"type": names.CONDITION_LEDGER, "status": "False", "reason": "Running", "message": ledger.text}
    adopted = adopted_job_dict("a", namespace="lab", queue="lab", completions=4, parallelism=2)
    adopted["metadata"]["labels"][names.LABEL_QUEUE] = "lab"
    adopted["status"] = {"active": 1, "ready": 1, "succeeded": 1, "conditions": [said]}
    regular = adopted_job_dict("b", namespace="lab", queue="lab")
    del regular["spec"]["managedBy"]
    later = adopted_job_dict("c", namespace="lab", queue="lab")
    later["status"] = {"conditions": [said | {"message": '{"v":2}'}]}
    gang = adopted_job_dict("g", namespace="lab", queue="lab", completions=3, parallelism=3, completionMode="Indexed")
    gang["metadata"]["annotations"] = {names.ANNOTATION_GANG: "true"}
    gang["status"] = {"active": 3, "ready": 3, "conditions": [said]}
    for job in (adopted, regular, later, gang):
        api.put(BATCH_JOBS, job)
    api.put(JOBS, scavengerjob_dict("a", namespace="lab", queue="lab", phase="Waiting"))
    labels = {names.LABEL_JOB: "a", names.LABEL_KIND: names.KIND_JOB, names.LABEL_TASK: "1"}
    began = {"name": "main", "state": {"running": {"startedAt": "2026-03-01T12:00:00Z"}}}
    api.put(
        PODS, pod_dict("a-x", namespace="lab", node="n1", phase="Running", labels=labels, container_statuses=[began])
    )
    async with following(api, adopt=True) as view:
        rows = {row.key: row for row in (await view.picture()).jobs}
    assert rows.keys() == {"lab/a", "lab/job.batch/a", "lab/job.batch/c", "lab/job.batch/g"}
    whole = rows["lab/job.batch/g"]
    assert (whole.phase, whole.interrupted, whole.pods, whole.array) == ("Running", 2, 3, None)
    found = rows["lab/job.batch/a"]
    assert (found.queue, found.phase, found.interrupted, found.useful) == ("lab", "Running", 2, 7200)
    assert (found.nodes, found.says) == (["n1"], "returned after 41 s")
    assert found.array is not None
    assert (found.array.tasks, found.array.completed, found.array.cells) == (4, 1, "cr..")
    assert (rows["lab/a"].nodes, rows["lab/job.batch/c"].phase) == ([], "Waiting")
    async with following(api) as view:
        assert [row.key for row in (await view.picture()).jobs] == ["lab/a"]


async def test_budgets_and_finalizers_that_nobody_takes_off(api: FakeApi) -> None:
    for name in (names.DISRUPTION_BUDGET, "of-somebody-else"):
        labels = {names.LABEL_MANAGED_BY: names.PRIORITIZER}
        api.put(PODDISRUPTIONBUDGETS, {"metadata": {"name": name, "namespace": "lab", "labels": labels}})
    api.put(PODDISRUPTIONBUDGETS, {"metadata": {"name": names.DISRUPTION_BUDGET, "namespace": "theirs"}})
    deleted: dict[str, Any] = {"deleted": "2026-01-05T07:00:00Z", "finalizers": [names.FINALIZER], "namespace": "lab"}
    api.put(PODS, pod_dict("ended", phase="Failed", labels={names.LABEL_JOB: "a"}, **deleted))
    api.put(PODS, pod_dict("running", phase="Running", labels={names.LABEL_JOB: "b"}, **deleted))
    api.put(PODS, pod_dict("ordinary", phase="Succeeded", **deleted))
    async with following(api) as view:
        found = (await view.picture()).findings
        assert [(one.name, "lab/ended" in one.text) for one in found] == [
            ("StaleBudgets", False),
            ("BudgetNameTaken", False),
            ("StaleFinalizers", True),
        ]
        assert "theirs" not in found[0].text
        assert "in theirs are not" in found[1].text
        assert "running" not in found[2].text
        for namespace in ("lab", "theirs"):
            api.remove(PODDISRUPTIONBUDGETS, namespace, names.DISRUPTION_BUDGET)
        api.remove(PODS, "lab", "ended")
        await eventually(lambda: not view.snapshot().budgets and not view.snapshot().held)
        assert (await view.picture()).findings == []


async def test_a_change_is_told_and_a_renewed_lease_is_none(api: FakeApi) -> None:
    api.put(LEASES, {"metadata": {"name": names.ADMITTER, "namespace": SYSTEM}, "spec": {"holderIdentity": "a"}})
    async with following(api) as view:
        told: list[int] = []
        view.on_change(lambda: told.append(1))
        renewed = {"holderIdentity": "a", "renewTime": "2026-01-05T08:00:00.000000Z"}
        api.put(LEASES, {"metadata": {"name": names.ADMITTER, "namespace": SYSTEM}, "spec": renewed})
        await eventually(lambda: view.snapshot().leases[names.ADMITTER] is not None)
        assert told == []
        api.put(NODES, node_dict("n1"))
        await eventually(lambda: len(told) == 1)


async def test_only_events_that_tell_of_interruptions_and_levels_are_followed(api: FakeApi) -> None:
    def event(name: str, kind: str, about: str, reason: str) -> None:
        meta = {"name": name, "namespace": "lab", "creationTimestamp": "2026-01-05T08:00:00Z"}
        api.put(EVENTS, {"metadata": meta, "involvedObject": {"kind": kind, "name": about}, "reason": reason})

    event("a", "ScavengerJob", "a", "Interrupted")
    event("b", "Pod", "a-0-x", "PreemptedBy")
    event("c", "Pod", "a-0-x", "Preempted")
    event("d", "ConfigMap", names.LEVELS_CONFIGMAP, "Filling")
    event("e", "Pod", "a-0-x", "Scheduled")
    event("f", "ConfigMap", "another", "Filling")
    async with following(api) as view:
        assert sorted(one.key for one in view.snapshot().events) == ["lab/a", "lab/b", "lab/c", "lab/d"]


async def test_what_nodes_use_where_somebody_measures(api: FakeApi) -> None:
    async with following(api, usage_period=0.05) as view:
        assert view.snapshot().used is None
        api.put(NODE_METRICS, {"metadata": {"name": "n1"}, "usage": {"cpu": "250m", "memory": "bad"}})
        await eventually(lambda: view.snapshot().used == {"n1": {"cpu": 250}})
        api.fail(503, times=1000, methods={"GET"}, path="metrics.k8s.io")
        await eventually(lambda: view.snapshot().used is None)


async def test_nothing_is_ever_written(api: FakeApi) -> None:
    api.put(JOBS, scavengerjob_dict("a", namespace="lab", phase="Waiting"))
    async with following(api) as view:
        await view.picture()
        await view.picture_at(SystemClock().now() - timedelta(hours=1))
    assert {seen.method for seen in api.requests} == {"GET"}


async def test_levels_that_were_seen_are_remembered(api: FakeApi) -> None:
    now = SystemClock().now()
    data = {"state": "Blind", "admit": "false", "message": "no figures"}
    api.put(CONFIGMAPS, configmap_dict(names.LEVELS_CONFIGMAP, data, namespace=SYSTEM))
    async with following(api) as view:
        assert view.history.since is not None
        assert (await view.load(now, timedelta(hours=1))).problem == ""


async def test_the_roles_of_the_chart_allow_what_is_asked_and_nothing_more(api: FakeApi) -> None:
    async with following(api):
        await eventually(lambda: api.watches == len(api_informers(api)))
    asked = {needed(seen) for seen in api.requests}
    documents = yaml.safe_load_all((ROOT / "manifests" / "board" / "rbac.yaml").read_text())
    roles = [document for document in documents if document["kind"] in ("Role", "ClusterRole")]
    granted = {
        (role["kind"], group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }

    assert asked <= granted
    unused = {(kind, group, resource) for kind, group, resource, _ in granted}
    assert unused == {(kind, group, resource) for kind, group, resource, _ in asked}


def needed(seen: Request) -> tuple[str, str, str, str]:
    """The kind of role, the group, the resource and the verb of a request; of one object of a kind in a namespace, it
    names that, as the role does."""
    parts = seen.path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespaced = rest[0] == "namespaces"
    resource = rest[2] if namespaced else rest[0]
    if resource == "configmaps":
        one = (f"metadata.name={name}" for name in (names.LEVELS_CONFIGMAP, names.NODES_CONFIGMAP))
        assert seen.query["fieldSelector"] in one
    return "Role" if namespaced else "ClusterRole", group, resource, "watch" if "watch" in seen.query else "list"


def api_informers(api: FakeApi) -> set[tuple[str, str]]:
    """What was listed, of which a watch follows: all but the figures of the metrics API."""
    listed = ((seen.path, seen.query.get("fieldSelector", "")) for seen in api.requests)
    return {one for one in listed if "metrics.k8s.io" not in one[0]}


# --- Prometheus ---


@asynccontextmanager
async def answering(status: int, body: str) -> AsyncIterator[tuple[str, list[dict[str, str]]]]:
    forms: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        forms.append({str(name): str(value) for name, value in (await request.post()).items()})
        return web.Response(status=status, text=body)

    app = web.Application()
    app.router.add_post("/api/v1/{what}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}", forms
    await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (200, '{"status":"success","data":{"result":[]}}', ""),
        (200, f'{{"status":"success",{" " * 2**21}"data":{{"result":[]}}}}', ""),  # comes in many pieces
        (200, " " * (MAX_ANSWER + 1), "its answer is longer than 16 MiB"),
        (400, '{"status":"error","error":"bad query"}', "it says bad query"),
        (502, "<html>", "it answered with status 502"),
        (200, "<html>", "its answer is not from Prometheus"),
    ],
    ids=["good", "long", "too long", "refused", "of a proxy", "no JSON"],
)
async def test_prometheus_is_asked_of_that_moment_and_its_failure_is_said(
    api: FakeApi, status: int, body: str, problem: str
) -> None:
    async with answering(status, body) as (url, forms), following(api, prometheus_url=url) as view:
        then = SystemClock().now() - timedelta(hours=1)
        picture = await view.picture_at(then)
        assert {form["time"] for form in forms} == {f"{then.timestamp():.3f}"}
        assert MOMENT["load"] in {form["query"] for form in forms}
        said = [one for one in picture.unknown if one.startswith("Prometheus does not answer")]
        assert [problem in one for one in said] == [True] * bool(problem)
        load = await view.load(then, timedelta(hours=1))
        assert bool(load.problem) == bool(problem)


async def test_a_prometheus_that_is_not_there(api: FakeApi) -> None:
    async with following(api, prometheus_url="http://127.0.0.1:9") as view:
        picture = await view.picture_at(SystemClock().now() - timedelta(hours=1))
        assert any("it cannot be reached" in one for one in picture.unknown)
