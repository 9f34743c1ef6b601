"""The admission loop by itself: what it makes of the levels, of the answers of the API server, and of its own pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from scavenger_admitter.admission_loop import AdmissionLoop, load_rule
from scavenger_admitter.core.admission.fair_share_preemption import FairSharePreemption
from scavenger_admitter.core.admission.load import LoadLimit
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate
from scavenger_admitter.core.admission.starvation import Starved
from scavenger_admitter.core.admission.state import ClusterState
from scavenger_admitter.core.lifecycle.start_failures import Refusal
from scavenger_admitter.facts import run_of
from scavenger_admitter.settings import AdmitterSettings
from scavenger_api.job import ScavengerJob
from scavenger_api.levels import LevelsView
from scavenger_api.reasons import WaitReason
from scavenger_api.times import format_micro_time, format_time, micros
from scavenger_kube.resources import JOBS, SERVICES
from scavenger_testing import FakeApi, VirtualClock, eventually, node, scavengerjob_dict
from scavenger_testing.clock import START

NOW = micros(START)
LEVELS = {
    "state": "Filling",
    "admit": "true",
    "preemptiblePercentage": "33",
    "observedAt": format_time(START),
    "periodSeconds": "15",
    **{f"{name}.{r}": v for r in ("cpu", "memory") for name, v in {"load": "40", "lower": "70"}.items()},
    **{f"{name}.{r}": v for r in ("cpu", "memory") for name, v in {"admission": "80", "upper": "85"}.items()},
}


# --- the levels -----------------------------------------------------------------------------------------------------


def rule(data: dict[str, str] | None, **settings: Any) -> Any:
    return load_rule(LevelsView.of(data, START), AdmitterSettings(**settings), NOW)


def test_without_a_regulator_the_level_is_fixed_on_requests() -> None:
    found = rule(None)
    assert found.shut is None
    assert found.load_ppm is None
    assert dict(found.admission_ppm) == {"cpu": 700_000, "memory": 700_000}
    assert dict(rule(None, fallback_admission_percent=55).admission_ppm) == {"cpu": 550_000, "memory": 550_000}


def test_published_levels_are_obeyed() -> None:
    found = rule(LEVELS, count_candidate=False)
    assert found.shut is None
    assert dict(found.load_ppm) == {"cpu": 400_000, "memory": 400_000}
    assert dict(found.admission_ppm) == {"cpu": 800_000, "memory": 800_000}
    assert found.observed_at == NOW
    assert not found.counted_with_candidate
    averaged = format_time(START - timedelta(seconds=10))
    assert rule({**LEVELS, "averagedSince": averaged}).observed_at == NOW - 10_000_000, "pods started since are unseen"


def test_cpu_that_gives_way_keeps_nobody_from_starting() -> None:
    found = rule({**LEVELS, "load.cpu": "80", "givesWay.cpu": "25"})
    assert (dict(found.load_ppm)["cpu"], dict(found.gives_way_ppm)) == (800_000, {"cpu": 250_000, "memory": 0})
    limit = LoadLimit("cpu", 100, 0, 800_000, 800_000, 250_000)
    assert (limit.under(24), limit.under(25), limit.ppm(24)) == (True, False, 790_000)
    assert limit.plus(20).under(4)
    assert not limit.plus(20).under(5)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"state": "Blind"}, WaitReason.BLIND),
        ({"state": "nonsense"}, WaitReason.BLIND),
        ({"observedAt": format_time(START - timedelta(minutes=5))}, WaitReason.BLIND),
        ({"load.cpu": "NaN"}, WaitReason.BLIND),
        ({"periodSeconds": "-1"}, WaitReason.BLIND),
        ({"admit": "false"}, WaitReason.ADMIT_FALSE),
    ],
)
def test_nothing_starts_without_sight_or_leave(change: dict[str, str], reason: WaitReason) -> None:
    found = rule({**LEVELS, **change})
    assert found.shut is not None
    assert found.shut.reason is reason


# --- the loop -------------------------------------------------------------------------------------------------------


class LoopHarness:
    """An admission loop before the API server in memory, and what it reported."""

    def __init__(self, api: FakeApi, clock: VirtualClock, **settings: Any) -> None:
        self.api = api
        self.clock = clock
        self.state = ClusterState()
        self.jobs: dict[str, ScavengerJob] = {}
        self.started: list[tuple[str, str]] = []
        self.refused: list[tuple[str, Refusal]] = []
        self.preempted: list[FairSharePreemption] = []
        self.starved: list[Starved] = []
        self.admission = AdmissionLoop(
            client=api.client(request_timeout=2.0),
            state=self.state,
            settings=AdmitterSettings(**settings),
            clock=clock,
            levels=lambda: LevelsView.of(None, clock.now()),
            job=self.jobs.get,
            started=lambda key, run: self.started.append((key, run)),
            refused=lambda key, run, refusal: self.refused.append((key, refusal)),
            preempted=self.preempted.append,
            starved=self.starved.append,
        )

    def room(self, cpu: int) -> None:
        """A node of which the admission level leaves that much."""
        self.state.apply_node(node("n1", cpu=f"{cpu + 1}000m", memory="1Ti", pods="5000"))

    def line_up(self, *names: str, parallelism: int = 1) -> None:
        for number, name in enumerate(names):
            queued = format_micro_time(START + timedelta(microseconds=number))
            status = {"phase": "Waiting", "queuedTimestamp": queued, "interruptedCount": 3}
            obj = scavengerjob_dict(name, namespace="ns", parallelism=parallelism, status=status)
            job = self.jobs[f"ns/{name}"] = ScavengerJob.model_validate(obj)
            shape = Shape.of(job.spec.requests, {}, ())
            candidate = Candidate(
                key=job.key,
                uid=job.metadata.uid,
                queue="default",
                shape=shape,
                parallelism=parallelism,
                queued_at=number,
            )
            self.state.apply_candidate(candidate)

    @property
    def created(self) -> list[str]:
        return [job["metadata"]["name"] for job in self.api.list(JOBS)]

    @property
    def taken(self) -> set[str]:
        """Jobs whose room is held."""
        return set(self.state.assumed_starts.runs)


@asynccontextmanager
async def loop_harness(**settings: Any) -> AsyncIterator[LoopHarness]:
    clock = VirtualClock()
    settings.setdefault("fallback_admission_percent", 100)
    async with FakeApi(clock) as api:
        yield LoopHarness(api, clock, **settings)


async def test_a_start_is_a_job_that_says_which_run_it_is() -> None:
    async with loop_harness() as d:
        d.room(8)
        d.line_up("a")
        await d.admission.cycle()
        job = d.api.get(JOBS, "ns", "a")
        assert job is not None
        run = run_of(d.jobs["ns/a"])
        assert job["metadata"]["annotations"] == {"scavenger.dev/run": run, "scavenger.dev/restarts": "3"}
        assert d.started == [("ns/a", run)]
        assert d.taken == {"ns/a"}
        assert not d.admission.is_creating("ns/a")


async def test_the_service_of_a_gang_comes_first_and_one_that_is_there_is_fine() -> None:
    async with loop_harness() as d:
        d.room(8)
        d.line_up("a", parallelism=2)
        d.api.put(SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "sj-a", "namespace": "ns"}})
        await d.admission.cycle()
        assert d.created == ["a"]
        order = [request.path.rpartition("/")[2] for request in d.api.requests if request.method == "POST"]
        assert order == ["services", "jobs"]


async def test_room_is_taken_before_anybody_is_waited_for() -> None:
    async with loop_harness() as d:
        d.room(2)
        d.line_up("a", "b", "c")
        d.api.hang(methods={"POST"})
        first = asyncio.create_task(d.admission.cycle())
        await eventually(lambda: d.api.count("POST") == 2)
        assert d.taken == {"ns/a", "ns/b"}
        assert d.admission.is_creating("ns/a")
        d.line_up("d")
        plan = await d.admission.cycle()
        assert not plan.starts
        assert plan.held["ns/d"].reason is WaitReason.ADMISSION_LEVEL
        d.api.heal()
        await first


@pytest.mark.parametrize(
    ("status", "reason", "permanent"), [(422, "Invalid", True), (400, "BadRequest", True), (403, "Forbidden", False)]
)
async def test_a_refusal_is_reported_with_its_words_and_frees_the_room(
    status: int, reason: str, permanent: bool
) -> None:
    async with loop_harness() as d:
        d.room(1)
        d.line_up("a")
        d.api.fail(status, reason=reason, methods={"POST"})
        await d.admission.cycle()
        assert [(key, refusal.permanent) for key, refusal in d.refused] == [("ns/a", permanent)]
        assert "injected" in d.refused[0][1].message
        assert d.started == []
        assert d.taken == set()
        d.line_up("b")
        await d.admission.cycle()
        assert d.created == ["b"]


@pytest.mark.parametrize("trouble", ["fail", "drop", "lost"])
async def test_an_answer_that_says_nothing_about_the_job_keeps_its_room(trouble: str) -> None:
    async with loop_harness() as d:
        d.room(1)
        d.line_up("a")
        if trouble == "fail":
            d.api.fail(503, methods={"POST"})
        else:
            d.api.drop(methods={"POST"}, after_write=trouble == "lost")
        await d.admission.cycle()
        assert [key for key, _ in d.started] == ["ns/a"]
        assert d.refused == []
        assert d.taken == {"ns/a"}
        assert d.created == (["a"] if trouble == "lost" else [])


async def test_a_namespace_that_is_gone_frees_the_room() -> None:
    async with loop_harness() as d:
        d.room(1)
        d.line_up("a")
        d.api.fail(404, reason="NotFound", methods={"POST"})
        await d.admission.cycle()
        assert (d.started, d.refused, d.taken) == ([], [], set())


async def test_a_job_that_was_replaced_meanwhile_is_not_started() -> None:
    async with loop_harness() as d:
        d.room(8)
        d.line_up("a", "b")
        job = d.jobs["ns/a"]
        d.jobs["ns/a"] = job.model_copy(update={"metadata": job.metadata.model_copy(update={"uid": "another"})})
        del d.jobs["ns/b"]
        await d.admission.cycle()
        assert d.created == []
        assert d.taken == set()


async def test_one_refusal_stops_nobody_else() -> None:
    async with loop_harness() as d:
        d.room(8)
        d.line_up("a", "b", "c")
        d.api.fail(422, reason="Invalid", methods={"POST"})
        await d.admission.cycle()
        assert len(d.created) == 2
        assert len(d.started) == 2
        assert len(d.refused) == 1


async def test_a_cycle_that_reached_its_limit_is_followed_by_the_next() -> None:
    async with loop_harness(max_starts_per_cycle=2, admission_interval=0.1) as d:
        d.room(8)
        d.line_up("a", "b", "c", "d", "e")
        running = asyncio.create_task(d.admission.run())
        d.admission.wake()
        await eventually(lambda: len(d.started) == 2)
        await d.clock.advance(0.1)
        await eventually(lambda: len(d.started) == 4)
        await d.clock.advance(0.1)
        await eventually(lambda: len(d.started) == 5)
        assert d.created == ["a", "b", "c", "d", "e"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_any_number_of_wakes_is_one_cycle() -> None:
    async with loop_harness(admission_interval=1.0) as d:
        running = asyncio.create_task(d.admission.run())
        d.admission.wake()
        await d.clock.advance(0)
        d.room(8)
        d.line_up("a")
        for _ in range(100):
            d.admission.wake()
        await d.clock.advance(0.9)
        assert d.started == []
        await d.clock.advance(0.2)
        await eventually(lambda: len(d.started) == 1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
