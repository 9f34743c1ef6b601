"""The key that signs the snapshots of a job, by the admitter as a whole, which may create Secrets and not read them."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api.names import LABEL_JOB
from scavenger_kube.resources import JOBS, PERSISTENTVOLUMECLAIMS, SECRETS

from .harness import NS, Harness, harness, runs

pytestmark = pytest.mark.slow

IMAGE = "registry.example.com/scavenger/snapshot:1"
SPEC: dict[str, Any] = {
    "command": ["./simulate"],
    "persistentVolumeClaims": [{"name": "work", "mountPath": "/data"}],
    "snapshot": {"volume": "work"},
}
NAME = "a-snapshot-key"


@asynccontextmanager
async def snapshots(image: str = IMAGE) -> AsyncIterator[Harness]:
    """An admitter that has snapshots, and the claim for them."""
    async with harness(snapshot_image=image) as c:
        c.api.put(PERSISTENTVOLUMECLAIMS, {"metadata": {"name": "work", "namespace": NS}, "spec": {}})
        yield c


def secret(c: Harness) -> dict[str, Any]:
    found = c.api.get(SECRETS, NS, NAME)
    assert found is not None
    return found


def put(c: Harness, uid: str = "of-nobody") -> None:
    """A Secret that another one has made before."""
    owner = base64.b64encode(uid.encode()).decode()
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME, "namespace": NS}, "data": {"owner": owner}}
    c.api.put(SECRETS, body)


def owner(c: Harness) -> str:
    return base64.b64decode(secret(c)["data"]["owner"]).decode()


def uid_of(c: Harness) -> str:
    (batch,) = c.api.list(JOBS)
    found: str = batch["metadata"]["ownerReferences"][0]["uid"]
    return found


def reason(c: Harness) -> str:
    conditions = c.status("a").get("conditions", ())
    return next((one.get("reason", "") for one in conditions if one["type"] == "Admitted"), "")


async def test_the_key_is_there_before_the_first_pod_and_stays() -> None:
    async with snapshots() as c:
        c.submit("a", **SPEC)
        await runs(c, "a")
        posts = [path.rpartition("/")[2] for method, path in c.writes() if method == "POST"]
        assert posts.index("secrets") < posts.index("jobs") < posts.index("pods")
        first = secret(c)
        assert (owner(c), first["metadata"]["labels"]) == (uid_of(c), {LABEL_JOB: "a"})
        assert "adopt" not in first["data"]
        assert len(base64.b64decode(first["data"]["key"])) == 32
        c.delete_pod(c.pods("a")[0])
        await c.until(lambda: c.status("a").get("interruptedCount") == 1 and c.phase("a") == "Running")
        assert secret(c) == first
        assert c.api.count("GET", "/secrets") == 0


async def test_the_key_is_told_to_nobody() -> None:
    async with snapshots() as c:
        with structlog.testing.capture_logs() as logged:
            c.api.fail(403, methods={"POST"}, path="/secrets", reason="Forbidden")
            c.submit("a", **SPEC)
            await runs(c, "a")
        key = secret(c)["data"]["key"]
        told = json.dumps([c.status("a"), c.events(), c.pods("a"), c.api.list(JOBS)]) + repr(logged)
        assert key not in told
        assert repr(base64.b64decode(key))[2:-1] not in told


async def test_a_lost_answer_loses_no_job() -> None:
    async with snapshots() as c:
        c.api.drop(methods={"POST"}, path="/secrets", after_write=True)
        c.submit("a", **SPEC)
        await runs(c, "a")
        assert owner(c) == uid_of(c)


async def test_an_admitter_that_follows_another_knows_the_key_by_its_name() -> None:
    """The first one has ended between the key and the Job."""
    async with snapshots() as c:
        c.api.hang(methods={"POST"}, path="/jobs")
        c.submit("a", **SPEC)
        await c.until(lambda: c.api.get(SECRETS, NS, NAME) is not None)
        before = secret(c)
        await c._admitters[0].kill()
        c.api.heal()
        c.admitter(snapshot_image=IMAGE)
        await runs(c, "a", limit=600)
        assert secret(c) == before


async def test_the_secret_of_an_earlier_job_of_that_name_is_waited_for() -> None:
    async with snapshots() as c:
        put(c)
        c.submit("a", **SPEC)
        await c.until(lambda: reason(c) == "NameTaken")
        assert f"held back by Secret {NAME}, which has the name" in c.status("a")["message"]
        assert "delete any other, or create this job under another name" in c.status("a")["message"]
        assert c.pods("a") == []
        c.api.remove(SECRETS, NS, NAME)  # the garbage collector
        await runs(c, "a", limit=600)
        assert owner(c) == uid_of(c)


async def test_of_one_that_stays_the_pod_finds_out_whose_it_is() -> None:
    async with snapshots() as c:
        put(c)
        c.submit("a", **SPEC)
        await runs(c, "a", limit=600)
        c.last_words = f"snap: cannot keep snapshots: the Secret {NAME} does not belong to this job: delete it"
        c.end(c.pods("a")[0], 86)
        await c.until(lambda: c.jobs_ever("a") == 2, limit=600)
        assert [f"the Secret {NAME} does not belong" in one["message"] for one in c.events("SnapshotWarning")] == [True]
        assert owner(c) == "of-nobody"
        c.api.remove(SECRETS, NS, NAME)
        await runs(c, "a", limit=600)
        c.end(c.pods("a")[0], 86)
        await c.until(lambda: c.api.get(SECRETS, NS, NAME) is not None, limit=1200)
        assert owner(c) == uid_of(c)


async def test_a_job_that_ran_before_there_were_keys_is_told_to_take_its_folder_over() -> None:
    async with snapshots("") as c:  # of an earlier version
        c.submit("a")
        await runs(c, "a")
        await c._admitters[0].kill()
        c.api.edit(SCAVENGERJOBS, NS, "a", lambda job: job["spec"].update(SPEC))
        c.admitter(snapshot_image=IMAGE)
        c.delete_pod(c.pods("a")[0])
        await c.until(lambda: c.api.get(SECRETS, NS, NAME) is not None, limit=600)
        assert base64.b64decode(secret(c)["data"]["adopt"]) == b"true"


async def test_the_tasks_of_an_array_have_one_key_which_is_made_again() -> None:
    async with snapshots() as c:
        c.submit("a", array={"tasks": 2}, **SPEC)
        await c.until(lambda: len(c.pods("a")) == 2)
        posts = [path.rpartition("/")[2] for method, path in c.writes() if method == "POST"]
        assert posts.index("secrets") < posts.index("jobs") < posts.index("pods")
        assert (posts.count("secrets"), owner(c)) == (1, uid_of(c))
