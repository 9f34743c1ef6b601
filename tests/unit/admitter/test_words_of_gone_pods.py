"""Pods that ended, and went, while the admitter was away: others took its finalizer off, and kept their last words."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import CONFIGMAPS, JOBS, PODS
from scavenger_runtime.last_words import LastWords
from scavenger_runtime.stale_marks import release_deleted

from .harness import NS, Harness, empty_harness

pytestmark = pytest.mark.slow
BY = names.REGULATOR
DAY = 86400.0


def empty(c: Harness) -> None:
    """The ConfigMaps as charts make them."""
    for name in names.LAST_WORDS.values():
        meta = {"name": name, "namespace": names.SYSTEM_NAMESPACE}
        c.api.put(CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})


def kept(c: Harness) -> dict[str, str]:
    """What is kept, by the UID of its pod."""
    found = [c.api.get(CONFIGMAPS, names.SYSTEM_NAMESPACE, name) for name in names.LAST_WORDS.values()]
    return {uid: text for one in found if one is not None for uid, text in (one.get("data") or {}).items()}


async def remove(c: Harness, by: str = BY, *, written: bool = True) -> None:
    """Pods are deleted, and a stand-in takes the finalizer of the admitter off."""
    await c.pass_time(30)
    for pod in c.api.list(PODS):
        if "deletionTimestamp" not in pod["metadata"]:
            c.delete_pod(pod)
    pods = [msgspec.convert(pod, Pod) for pod in c.api.list(PODS)]
    name = names.LAST_WORDS[by] if written else "nowhere"
    words = LastWords(c.user(), names.SYSTEM_NAMESPACE, name)
    await c.run_to_end(release_deleted(c.user(), pods, words))
    await c.until(lambda: not c.api.list(PODS))


@asynccontextmanager
async def away(**spec: Any) -> AsyncIterator[Harness]:
    """A job `a` runs for 100 s, and the admitter dies."""
    async with empty_harness() as c:
        c.node(cpu="10")
        empty(c)
        admitter = c.admitter()
        c.submit("a", **spec)
        await c.until(lambda: c.phase("a") == "Running")
        await c.pass_time(100)
        await admitter.kill()
        yield c


@pytest.mark.parametrize("spec", [{}, {"parallelism": 3}], ids=["job", "gang"])
@pytest.mark.parametrize("by", names.LAST_WORDS)
async def test_finished_work_is_completed(spec: dict[str, Any], by: str) -> None:
    async with away(**spec) as c:
        c.succeed("a")
        await remove(c, by)
        assert len(kept(c)) == spec.get("parallelism", 1)
        await c.pass_time(DAY, step=DAY)
        c.admitter()
        await c.until(lambda: c.phase("a") == "Completed")
        assert not c.status("a").get("interruptedCount")
        await c.until(lambda: kept(c) == {})


async def test_without_last_words_finished_work_runs_again() -> None:
    async with away() as c:
        c.succeed("a")
        await remove(c, written=False)
        c.admitter()
        await c.until(lambda: c.status("a").get("interruptedCount") == 1)


async def test_a_failure_of_its_own_is_one() -> None:
    async with away() as c:
        c.end(c.pods("a")[0], code=3)
        await remove(c)
        c.admitter()
        await c.until(lambda: c.phase("a") == "Failed")
        assert "code 3" in c.status("a")["message"]
        await c.until(lambda: kept(c) == {})


async def test_a_task_that_completed_does_not_run_again() -> None:
    async with away(array={"tasks": 2, "maxRunning": 1}) as c:
        c.end(c.pods("a")[0])
        await remove(c)
        c.admitter()
        await c.until(lambda: c.status("a")["array"].get("completed") == 1)
        await c.until(lambda: kept(c) == {})
        await c.until(lambda: bool(c.pods("a")))
        assert {pod["metadata"]["labels"][names.LABEL_TASK] for pod in c.pods("a")} == {"1"}
        assert not c.status("a").get("interruptedCount")


@pytest.mark.parametrize(("code", "counted"), [(0, {"succeeded": 1}), (3, {"failed": 1})])
async def test_the_end_of_a_pod_of_an_adopted_job_counts_as_it_was(code: int, counted: dict[str, int]) -> None:
    """Its Job has a key of its own, by which the words are found."""
    async with empty_harness() as c:
        c.node(cpu="10")
        empty(c)
        admitter = c.admitter(adopt=True)
        c.submit_job("a", completions=2, completionMode="Indexed")
        await c.until(lambda: c.ledger_of("a").get("runs"))
        await c.pass_time(30)
        await admitter.kill()
        c.end(c.pods("a")[0], code)
        await remove(c)
        assert len(kept(c)) == 1
        c.admitter(adopt=True)
        await c.until(lambda: any(c.batch("a")["status"].get(name) for name in ("succeeded", "failed")))
        status = c.batch("a")["status"]
        assert {name: status[name] for name in ("succeeded", "failed") if name in status} == counted
        assert c.ledger_of("a").get("interrupted", 0) == 0
        await c.until(lambda: kept(c) == {})


HELD = "example.org/held"


@pytest.mark.parametrize("spec", [{}, {"parallelism": 2}, {"array": {"tasks": 1}}], ids=["job", "gang", "array"])
async def test_a_pod_that_others_hold_counts_by_its_last_words(spec: dict[str, Any]) -> None:
    """It is still shown, without the finalizer of the admitter, and says nothing of whether it was counted."""
    async with away(**spec) as c:
        for pod in c.pods("a"):
            c.api.edit(PODS, NS, pod["metadata"]["name"], lambda pod: pod["metadata"]["finalizers"].append(HELD))
            c.delete_pod(pod)
        for pod in c.pods("a"):
            c.end(pod, code=143)
        pods = [msgspec.convert(pod, Pod) for pod in c.api.list(PODS)]
        words = LastWords(c.user(), names.SYSTEM_NAMESPACE, names.LAST_WORDS[BY])
        await c.run_to_end(release_deleted(c.user(), pods, words))
        assert {tuple(pod["metadata"]["finalizers"]) for pod in c.pods("a")} == {(HELD,)}
        c.admitter()
        await c.until(lambda: c.status("a").get("interruptedCount") == 1)
        await c.until(lambda: kept(c) == {})
        await c.pass_time(60, step=5)
        for pod in c.pods("a"):
            name = pod["metadata"]["name"]
            await c.run_to_end(c.user().merge_patch(PODS, NS, name, {"metadata": {"finalizers": None}}))
        await c.until(lambda: c.phase("a") == "Running", limit=300)
        assert c.status("a")["interruptedCount"] == 1


async def test_an_interrupted_pod_computed_until_its_end_and_no_longer() -> None:
    async with away() as c:
        pod = c.pods("a")[0]
        c.delete_pod(pod)
        c.end(c.pods("a")[0], code=143)
        await remove(c)
        await c.pass_time(DAY, step=DAY)
        c.admitter()
        await c.until(lambda: c.status("a").get("interruptedCount") == 1)
        status = c.status("a")
        assert status["usefulCPUSeconds"] + status["lostCPUSeconds"] < 200


async def test_words_of_a_job_that_is_gone_go() -> None:
    async with away() as c:
        c.succeed("a")
        await remove(c)
        c.api.remove(JOBS, NS, "a")
        c.api.remove(SCAVENGERJOBS, NS, "a")
        c.admitter()
        await c.until(lambda: kept(c) == {})


async def test_words_of_a_pod_that_is_still_there_change_nothing() -> None:
    """The component died between its two writes."""
    async with away() as c:
        c.succeed("a")
        pods = [msgspec.convert(pod, Pod) for pod in c.api.list(PODS)]
        await c.run_to_end(LastWords(c.user(), names.SYSTEM_NAMESPACE, names.LAST_WORDS[BY]).write(pods))
        c.admitter()
        await c.until(lambda: c.phase("a") == "Completed")
        await c.until(lambda: kept(c) == {})
        assert c.held() == []


def asked(c: Harness, since: int) -> Counter[str]:
    """The requests since then about pods and ConfigMaps but to list and watch them, such as `PATCH pods`."""
    found = Counter(
        f"{one.method} {kind}"
        for one in c.api.requests[since:]
        for kind in ("pods", "configmaps")
        if f"/{kind}/" in one.path
    )
    return found


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("pods", [1, 20])
async def test_last_words_cost_two_requests_a_look_and_one_for_each_pod(pods: int, written: bool) -> None:
    """The table in docs/designs/0002 says so."""
    async with empty_harness() as c:
        c.node(cpu="100")
        empty(c)
        admitter = c.admitter()
        c.submit("a", array={"tasks": pods})
        await c.until(lambda: c.status("a").get("array", {}).get("running") == pods)
        await admitter.kill()
        c.succeed("a")
        await c.pass_time(30)
        for pod in c.pods("a"):
            c.delete_pod(pod)
        gone = [msgspec.convert(pod, Pod) for pod in c.api.list(PODS)]
        before = len(c.api.requests)
        words = LastWords(c.user(), names.SYSTEM_NAMESPACE, names.LAST_WORDS[BY] if written else "nowhere")
        await c.run_to_end(release_deleted(c.user(), gone, words))
        stand_in = {"PATCH pods": pods, "GET configmaps": 1, "PATCH configmaps": 1}
        if not written:
            del stand_in["PATCH configmaps"]
        assert asked(c, before) == stand_in
        before = len(c.api.requests)
        c.admitter()
        if written:
            await c.until(lambda: c.phase("a") == "Completed")
        else:
            await c.until(lambda: c.status("a").get("interruptedCount") == pods)
        await c.until(lambda: kept(c) == {})
        await c.pass_time(30)
        assert asked(c, before)["PATCH configmaps"] == (pods if written else 0)
