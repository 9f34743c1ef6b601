"""Jobs with resourcesFrom: Recommended: they start with what was measured, and with their own requests where that was
too little."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from scavenger_admitter.core.lifecycle.resized_runs import too_small
from scavenger_admitter.core.recommended import SizedJob, kin_of, next_requests
from scavenger_admitter.jobs_followed import INDICES
from scavenger_admitter.recommendations import Recommendations
from scavenger_admitter.slim_jobs import slim
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api.job import ScavengerJob
from scavenger_api.usage import RecommendedRequests
from scavenger_domain.pod_ends import Exit
from scavenger_domain.recommendation import Measured, Recommendation, recommend
from scavenger_domain.usage import JobUsage, ResourceUsage
from scavenger_kube.resources import PODS
from scavenger_runtime.cache import Cache
from scavenger_testing import scavengerjob_dict, terminated

from .harness import NS, Harness, empty_harness, runs

USAGE: dict[str, Any] = {
    "podSeconds": 40_000,
    "runs": 12,
    "cpu": {"requested": "2", "p50": "250m", "p95": "290m", "max": "300m", "typical": "290m"},
    "memory": {"requested": "1Gi", "p50": "90Mi", "p95": "100Mi", "max": "100Mi", "typical": "100Mi"},
}
OWN = {"cpu": "2", "memory": "1Gi"}
LESS = {"cpu": "330m", "memory": "147Mi"}


def kin(c: Harness) -> None:
    """A job of the same program that is over, and has told what it used."""
    job = scavengerjob_dict("kin", namespace=NS, cpu="2", phase="Completed", status={"usage": USAGE, "jobName": "kin"})
    c.api.put(SCAVENGERJOBS, job)


def submit(c: Harness, name: str) -> None:
    c.submit(name, cpu="2", resourcesFrom="Recommended")


def requests(c: Harness, name: str) -> dict[str, str]:
    (pod,) = c.pods(name)
    (container,) = pod["spec"]["containers"]
    return {kind: amount for kind, amount in container["resources"]["requests"].items() if kind in OWN}


def killed(c: Harness, name: str) -> None:
    """The kernel kills its program for memory."""
    (pod,) = c.pods(name)
    ended = terminated(137, reason="OOMKilled", finished=c.stamp())

    def edit(obj: dict[str, Any]) -> None:
        began = obj["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
        ended["state"]["terminated"]["startedAt"] = began
        obj["status"] = {**obj["status"], "phase": "Failed", "containerStatuses": [ended]}

    c.api.edit(PODS, NS, pod["metadata"]["name"], edit)


@pytest.mark.slow
async def test_it_starts_smaller_and_the_freed_room_is_used() -> None:
    async with empty_harness() as c:
        c.node("n1", cpu="4")
        c.admitter(recommended_least=0.1, fallback_admission_percent=100)
        kin(c)
        for number in range(6):
            submit(c, f"j{number}")
        c.submit("as-asked", cpu="2")
        await c.until(lambda: list(c.phases().values()).count("Running") == 7)
        assert requests(c, "j0") == LESS
        assert requests(c, "as-asked") == OWN
        assert c.status("j0")["recommended"] == LESS
        (event,) = [one for one in c.events("Recommended") if one["involvedObject"]["name"] == "j0"]
        assert event["message"] == "pods request 330m cpu in place of 2 and 147Mi memory in place of 1Gi"
        await c.pass_time(300, step=10)
        c.delete_pod(c.pods("j0")[0])
        await c.until(lambda: c.status("j0").get("interruptedCount") == 1)
        await runs(c, "j0")
        lost = c.status("j0")["lostCPUSeconds"]
        assert 0.33 * 280 <= lost <= 0.33 * 320, "what its pod requested is what it kept from others"
        assert len([one for one in c.events("Recommended") if one["involvedObject"]["name"] == "j0"]) == 1


@pytest.mark.slow
async def test_a_kill_for_memory_is_no_failure_and_it_has_its_own_requests_from_then_on() -> None:
    async with empty_harness() as c:
        c.node("n1", cpu="8")
        c.admitter(recommended_least=0.1)
        kin(c)
        submit(c, "a")
        await runs(c, "a")
        assert requests(c, "a") == LESS
        await c.pass_time(90, step=5)
        killed(c, "a")
        await c.until(lambda: c.status("a").get("recommended") == {"killedForMemory": True})
        await runs(c, "a")
        assert requests(c, "a") == OWN
        assert "retries" not in c.status("a")
        await c.pass_time(90, step=5)
        c.delete_pod(c.pods("a")[0])
        await c.until(lambda: c.status("a").get("interruptedCount") == 1)
        await runs(c, "a")
        assert requests(c, "a") == OWN
        await c.pass_time(90, step=5)
        c.api.edit(SCAVENGERJOBS, NS, "a", lambda obj: obj["status"].update(usage=USAGE))
        submit(c, "next")
        await runs(c, "next")
        assert requests(c, "next") == {"cpu": LESS["cpu"], "memory": OWN["memory"]}, "kin tell it nothing of memory"
        killed(c, "a")
        await c.until(lambda: c.phase("a") == "Failed")


@pytest.mark.slow
async def test_without_figures_or_with_a_bound_of_one_it_runs_as_it_asks() -> None:
    async with empty_harness() as c:
        c.node("n1", cpu="8")
        c.admitter(recommended_least=1)
        submit(c, "alone")
        await runs(c, "alone")
        kin(c)
        submit(c, "a")
        await runs(c, "a")
        assert requests(c, "alone") == requests(c, "a") == OWN
        assert "recommended" not in c.status("a")


@pytest.mark.parametrize("measured", [50, 0], ids=["of many kin", "before anything was measured"])
def test_a_kill_is_heard_by_kin(measured: int) -> None:
    """Most kills are early: of such a job there are no figures yet."""
    kin: Cache[ScavengerJob] = Cache(indices=INDICES)
    for number in range(60):
        kin.put(sized_job(f"done-{number}", {"usage": USAGE}))
    lost = {"recommended": {"cpu": LESS["cpu"], "memory": LESS["memory"], "killedForMemory": True}}
    kin.put(sized_job("z-killed", lost | ({"usage": USAGE} if measured else {})))
    seen: Any = SimpleNamespace(jobs=kin)
    found = Recommendations(seen, lambda _: None, 0.1).of(sized_job("next", {}))
    assert found == RecommendedRequests(cpu=LESS["cpu"])


@pytest.mark.parametrize(("known", "again"), [(None, False), (True, True)])
def test_a_kill_for_memory_is_forgiven_once(known: bool | None, again: bool) -> None:
    """Where a pod of an earlier run stays, the next run may still have the requests that were recommended."""
    told: dict[str, Any] = {}
    found = RecommendedRequests(memory="130Mi", killed_for_memory=known)
    draft: Any = SimpleNamespace(status=SimpleNamespace(recommended=found), set=lambda **more: told.update(more))
    assert too_small(draft, Exit(datetime(2026, 1, 5, tzinfo=UTC), "a-0", "main", 137, "OOMKilled", "")) is not again
    assert bool(told) is not again


def sized_job(name: str, status: dict[str, Any]) -> ScavengerJob:
    return slim(
        SizedJob.model_validate(
            scavengerjob_dict(
                name, namespace=NS, cpu="2", phase="Waiting", status=status, resourcesFrom="Recommended", uid=name
            )
        )
    )


def test_the_name_of_kin_is_short() -> None:
    """Each job with figures has one in memory."""
    long = scavengerjob_dict("a", namespace=NS, command=["python", "-c", "x" * 16_000])
    assert len(kin_of(ScavengerJob.model_validate(long))) < 100


KNOWN = RecommendedRequests(cpu="330m", memory="130Mi")
MEBI = 2**20


@pytest.mark.parametrize(
    ("known", "amounts", "expected"),
    [
        (None, {}, None),
        (None, {"cpu": 330}, RecommendedRequests(cpu="330m")),
        (None, {"cpu": 330, "memory": 130 * MEBI}, KNOWN),
        # never more than it asks for, and never less than its share of that
        (None, {"cpu": 3000}, None),
        (None, {"cpu": 10}, RecommendedRequests(cpu="200m")),
        # little that is new is worth no write
        (KNOWN, {"cpu": 340, "memory": 130 * MEBI}, KNOWN),
        (KNOWN, {"cpu": 300, "memory": 130 * MEBI}, KNOWN),
        (None, {"cpu": 1900}, None),
        (KNOWN, {"cpu": 400, "memory": 130 * MEBI}, RecommendedRequests(cpu="400m", memory="130Mi")),
        # a kill for memory holds for the rest of its life
        (
            KNOWN.model_copy(update={"killed_for_memory": True}),
            {"cpu": 330},
            RecommendedRequests(killed_for_memory=True),
        ),
        (RecommendedRequests(killed_for_memory=True), {"cpu": 330}, RecommendedRequests(killed_for_memory=True)),
    ],
)
def test_what_the_next_start_requests(
    known: RecommendedRequests | None, amounts: dict[str, int], expected: RecommendedRequests | None
) -> None:
    found = Recommendation(amounts, frozenset(), {})
    assert next_requests(known, found, {"cpu": 2000, "memory": 2**30}, 0.1) == expected


def test_a_job_that_now_asks_for_less_gets_no_more_than_that() -> None:
    found = Recommendation({"cpu": 1000}, frozenset(), {})
    own = {"cpu": 960, "memory": 2**30}
    assert next_requests(RecommendedRequests(cpu="1"), found, own, 0.1) is None


def test_a_program_that_uses_all_it_gets_is_given_more_with_each_start() -> None:
    """Its limit is its request, so nothing above that is measured."""
    known, own = RecommendedRequests(cpu="3300m"), {"cpu": 8000, "memory": 2**30}
    usage = JobUsage(40_000, 12, {"cpu": ResourceUsage(3300, 3300, 3300, 3300, 3300)})
    assert next_requests(known, recommend(Measured(usage), ()), own, 0.1) == RecommendedRequests(cpu="3630m")
