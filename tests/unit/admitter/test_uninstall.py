"""What is left when the admitter has been removed for good: no finalizer of ours."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scavenger_admitter import __main__ as program
from scavenger_admitter import uninstall
from scavenger_admitter.informers import SCAVENGERQUEUES
from scavenger_admitter.settings import AdmitterSettings
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_kube.errors import Forbidden, NotFound
from scavenger_kube.resources import JOBS, PODS
from scavenger_testing import VirtualClock, job_dict, pod_dict

from .harness import NS, Harness, empty_harness

pytestmark = pytest.mark.slow


class Hasty(VirtualClock):
    """Nobody waits."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


async def installed(c: Harness) -> None:
    """Two jobs running, one of them a gang; one waiting; then the admitter is gone."""
    c.node(cpu="10")
    admitter = c.admitter()
    c.submit("a")
    c.submit("gang", parallelism=3)
    c.submit("waits", cpu="8")
    await c.until(lambda: c.phases() == {"a": "Running", "gang": "Running", "waits": "Waiting"})
    await admitter.kill()
    assert len(c.held()) == 4


async def test_all_pods_are_released_and_the_jobs_are_deleted() -> None:
    async with empty_harness() as c:
        await installed(c)
        assert await c.run_to_end(uninstall.clean(c.user(), c.clock)) == 4
        assert c.held() == []
        assert c.api.list(PODS) == []
        assert c.api.list(JOBS) == []
        assert len(c.api.list(SCAVENGERJOBS)) == 3, "data of the users: it goes with the CRD"
        assert await c.run_to_end(uninstall.clean(c.user(), c.clock)) == 0


@pytest.mark.parametrize("spec", [{}, {"array": {"tasks": 2}}], ids=["job", "array"])
async def test_pods_whose_job_somebody_holds_stop_too(spec: dict[str, Any]) -> None:
    """The garbage collector leaves them. Nothing would book what they compute."""
    async with empty_harness() as c:
        c.node(cpu="10")
        admitter = c.admitter()
        c.submit("a", **spec)
        await c.until(lambda: c.phase("a") == "Running")
        await admitter.kill()
        c.api.edit(JOBS, NS, "a", lambda job: job["metadata"].setdefault("finalizers", []).append("example.org/held"))
        await c.run_to_end(uninstall.clean(c.user(), c.clock))
        assert c.api.list(JOBS), "somebody holds it"
        await c.until(lambda: not c.pods("a"))


async def test_statuses_say_that_nothing_runs() -> None:
    async with empty_harness() as c:
        await installed(c)
        await c.pass_time(100)
        await c.run_to_end(uninstall.clean(c.user(), c.clock))
        assert c.phases() == {"a": "Interrupted", "gang": "Interrupted", "waits": "Waiting"}
        assert [c.status(name)["interruptedCount"] for name in ("a", "gang")] == [1, 1]
        assert "the admitter was uninstalled" in c.status("a")["message"]
        assert not c.status("a").get("jobName")


async def test_time_without_an_admitter_is_booked_to_no_run() -> None:
    async with empty_harness() as c:
        await installed(c)
        await c.pass_time(100)
        await c.run_to_end(uninstall.clean(c.user(), c.clock))
        booked = {name: c.status(name)["usefulCPUSeconds"] + c.status(name)["lostCPUSeconds"] for name in ("a", "gang")}
        await c.pass_time(7 * 86400, step=86400)
        c.admitter()
        await c.until(lambda: c.phases() == {"a": "Running", "gang": "Running", "waits": "Waiting"})
        assert booked == {"a": pytest.approx(100, abs=10), "gang": pytest.approx(300, abs=30)}  # a core each
        for name, before in booked.items():
            status = c.status(name)
            assert status["interruptedCount"] == 1
            assert status["usefulCPUSeconds"] + status["lostCPUSeconds"] == pytest.approx(before, abs=1)


async def test_work_that_was_done_is_completed() -> None:
    async with empty_harness() as c:
        await installed(c)
        c.succeed("a")
        await c.run_to_end(uninstall.clean(c.user(), c.clock))
        assert c.phase("a") == "Completed"


@pytest.mark.parametrize("spec", [{}, {"parallelism": 2}, {"array": {"tasks": 1}}], ids=["job", "gang", "array"])
async def test_what_ended_as_its_machine_went_down_is_not_completed(spec: dict[str, Any]) -> None:
    """Programs end with 0 then, and the node shows no life after that."""
    async with empty_harness() as c:
        c.node(cpu="10")
        admitter = c.admitter()
        c.submit("a", **spec)
        await c.until(lambda: c.phase("a") == "Running")
        await c.pass_time(10)
        await admitter.kill()
        c.succeed("a")
        c.kubelet = False
        await c.run_to_end(uninstall.clean(c.user(), c.clock))
        assert c.phase("a") != "Completed"
        assert c.status("a")["interruptedCount"] == 1
        assert not c.status("a").get("array", {}).get("completed")
        assert c.status("a")["usefulCPUSeconds"] == 0


async def test_without_proofs_an_exit_with_0_is_final() -> None:
    async with empty_harness() as c:
        await installed(c)
        c.succeed("a")
        c.kubelet = False
        assert await c.run_to_end(uninstall.clean(c.user(), c.clock, after=0.0))
        assert c.phase("a") == "Completed"


async def test_tasks_of_an_array_stop_and_the_array_goes_on_later() -> None:
    async with empty_harness() as c:
        c.node(cpu="10")
        admitter = c.admitter()
        c.submit("sweep", array={"tasks": 3})
        await c.until(lambda: c.status("sweep").get("array", {}).get("running") == 3)
        await admitter.kill()
        await c.run_to_end(uninstall.clean(c.user(), c.clock))
        assert c.phase("sweep") == "Suspended"
        assert c.status("sweep")["message"] == uninstall.GONE
        c.admitter()
        await c.until(lambda: c.phase("sweep") == "Running")
        assert not c.status("sweep").get("interruptedCount")


async def test_a_status_that_cannot_be_written_keeps_nothing_back() -> None:
    async with empty_harness() as c:
        await installed(c)
        c.api.fail(422, reason="Invalid", methods={"PATCH"}, path="/scavengerjobs/a/status")
        assert await c.run_to_end(uninstall.clean(c.user(), c.clock)) == 4
        assert c.phases() == {"a": "Running", "gang": "Interrupted", "waits": "Waiting"}


async def test_a_job_that_others_write_meanwhile_is_judged_again() -> None:
    async with empty_harness() as c:
        await installed(c)
        c.api.fail(409, reason="Conflict", methods={"PATCH"}, path="/scavengerjobs/a/status")
        await c.run_to_end(uninstall.clean(c.user(), c.clock))
        assert c.phase("a") == "Interrupted"


async def test_pods_that_stop_slowly_are_released_all_the_same() -> None:
    async with empty_harness() as c:
        c.api.store.graceful_pods = True
        await installed(c)
        assert await c.run_to_end(uninstall.clean(c.user(), c.clock)) == 4
        assert c.held() == []
        assert all("deletionTimestamp" in pod["metadata"] for pod in c.api.list(PODS))


async def test_queues_lose_our_finalizer_and_no_other() -> None:
    async with empty_harness() as c:
        for name, finalizers in (("a", [names.QUEUE_FINALIZER]), ("b", ["x/y", names.QUEUE_FINALIZER]), ("c", ["x/y"])):
            meta = {"name": name, "uid": name, "finalizers": finalizers}
            c.api.put(SCAVENGERQUEUES, {"apiVersion": names.API_VERSION, "kind": "ScavengerQueue", "metadata": meta})
        await c.run_to_end(uninstall.clean(c.user(), c.clock))
        left = [queue["metadata"].get("finalizers", []) for queue in c.api.list(SCAVENGERQUEUES)]
        assert left == [[], ["x/y"], ["x/y"]]
        assert c.api.count("PATCH", "/scavengerqueues/c") == 0


async def test_foreign_jobs_and_finalizers_stay() -> None:
    async with empty_harness() as c:
        await installed(c)
        c.api.put(JOBS, job_dict("theirs", namespace=NS, labels={names.LABEL_JOB: "theirs"}))
        both = ["example.org/keep", names.FINALIZER]
        labels = {names.LABEL_JOB: "a"}
        c.api.put(PODS, pod_dict("guest", namespace=NS, labels=labels, finalizers=both))
        c.api.put(PODS, pod_dict("stranger", namespace=NS, finalizers=["example.org/keep"]))
        await c.run_to_end(uninstall.clean(c.user(), c.clock))
        assert [job["metadata"]["name"] for job in c.api.list(JOBS)] == ["theirs"]
        kept = {pod["metadata"]["name"]: pod["metadata"]["finalizers"] for pod in c.api.list(PODS)}
        assert kept == {"guest": ["example.org/keep"], "stranger": ["example.org/keep"]}


async def test_more_than_a_page_of_pods() -> None:
    async with empty_harness() as c:
        labels = {names.LABEL_JOB: "a"}
        for number in range(510):
            pod = pod_dict(f"p{number}", namespace=NS, labels=labels, finalizers=[names.FINALIZER])
            c.api.put(PODS, pod)
        assert await uninstall.clean(c.user(), Hasty()) == 510
        assert c.held() == []


async def test_with_an_admitter_still_at_work_it_gives_up_and_says_so() -> None:
    async with empty_harness() as c:
        numbers = iter(range(1000))

        def again() -> None:
            pod = pod_dict(f"p{next(numbers)}", namespace=NS, labels={names.LABEL_JOB: "a"})
            pod["metadata"]["finalizers"] = [names.FINALIZER]
            c.api.put(PODS, pod)

        class Busy(VirtualClock):
            async def sleep(self, seconds: float) -> None:
                again()

        again()
        with pytest.raises(RuntimeError, match="scale the admitter to 0 first"):
            await uninstall.clean(c.user(), Busy())


async def test_conflicts_and_pods_that_go_meanwhile_are_no_failure() -> None:
    async with empty_harness() as c:
        await installed(c)
        c.api.fail(409, reason="Conflict", methods={"DELETE"})
        c.api.fail(404, reason="NotFound", methods={"PATCH"}, path="/pods/")
        assert await c.run_to_end(uninstall.clean(c.user(), c.clock)) >= 4
        assert c.held() == []
        assert c.api.list(JOBS) == []


async def test_a_refusal_is_told() -> None:
    async with empty_harness() as c:
        await installed(c)
        c.api.fail(403, reason="Forbidden", methods={"DELETE"})
        with pytest.raises(Forbidden):
            await c.run_to_end(uninstall.clean(c.user(), c.clock))
        with pytest.raises(NotFound):
            await c.user().get(JOBS, NS, "no-such-job")


def test_the_word_uninstall_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[AdmitterSettings] = []

    def recorded(settings: AdmitterSettings) -> int:
        asked.append(settings)
        return 7

    monkeypatch.setattr(program, "uninstall", recorded)
    assert program.main(["uninstall", "--kubeconfig=/nowhere"]) == 7
    assert asked[0].kubeconfig == "/nowhere"
