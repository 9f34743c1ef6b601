"""The admission loop by itself: what it makes of the levels, what it grants, and its own pace."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from scavenger_admitter.admission_feed import AdmissionFeed
from scavenger_admitter.admission_loop import AdmissionLoop, load_rule
from scavenger_admitter.attempt import Response
from scavenger_admitter.core.admission.cycle import plan
from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan
from scavenger_admitter.core.admission.load import LoadLimit
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, Snapshot
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_admitter.create_limiter import CreateLimiter
from scavenger_admitter.job_record import JobRecords
from scavenger_admitter.settings import AdmitterSettings
from scavenger_admitter.wakeups import Wakeups
from scavenger_api.job import ScavengerJob
from scavenger_api.levels import LevelsView
from scavenger_api.reasons import WaitReason
from scavenger_api.shared_settings import DEFAULT_SETTINGS
from scavenger_api.times import format_micro_time, format_time, micros
from scavenger_runtime.write_budget import WriteBudget
from scavenger_testing import VirtualClock, eventually, node, scavengerjob_dict
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


def test_where_nobody_measures_the_published_levels_are_held_against_requests() -> None:
    found = rule({**LEVELS, "source": "requests"})
    assert (found.shut, found.load_ppm, found.measured_since) == (None, None, None)
    assert dict(found.admission_ppm) == {"cpu": 800_000, "memory": 800_000}
    assert found.observed_at == NOW, "what is known of single nodes is of that time"
    assert rule({**LEVELS, "source": "prometheus"}) == rule(LEVELS)
    assert rule({**LEVELS, "source": "requests", "admit": "false"}).shut is not None
    stale = rule({**LEVELS, "source": "requests", "observedAt": format_time(START - timedelta(minutes=5))})
    assert stale.shut is not None, "the level may be another one by now"


def test_cpu_that_gives_way_keeps_nobody_from_starting() -> None:
    found = rule({**LEVELS, "load.cpu": "80", "givesWay.cpu": "25"})
    assert (dict(found.load_ppm)["cpu"], dict(found.gives_way_ppm)) == (800_000, {"cpu": 250_000, "memory": 0})
    limit = LoadLimit("cpu", 100, 0, 800_000, 800_000, 250_000)
    assert (limit.under(24), limit.under(25), limit.ppm(24)) == (True, False, 790_000)
    assert limit.plus(20).under(4)
    assert not limit.plus(20).under(5)


def test_what_pods_in_their_first_minutes_do_not_use_yet_is_taken() -> None:
    found = rule({**LEVELS, "load.cpu": "50", "ramping.cpu": "25"})
    assert dict(found.load_ppm or ())["cpu"] == 750_000


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


class Shown:
    """What informers show, as far as the admission loop looks at it."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.jobs: dict[str, ScavengerJob] = {}
        self.levels: dict[str, str] | None = None
        self.shared = SimpleNamespace(current=DEFAULT_SETTINGS)

    def levels_view(self) -> LevelsView:
        return LevelsView.of(self.levels, self._clock.now())

    def job(self, key: str) -> ScavengerJob | None:
        return self.jobs.get(key)


class Slots(CreateLimiter):
    """Slots of namespaces in which creates are said to hang."""

    hung: Mapping[str, float] = MappingProxyType({})

    def hanging(self) -> dict[str, float]:
        return dict(self.hung)


class LoopHarness:
    """An admission loop, and what is granted; a start is under way until it is answered."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("fallback_admission_percent", 100)
        made = AdmitterSettings(**settings)
        self.clock = VirtualClock()
        self.state = ClusterState()
        self.shown = Shown(self.clock)
        self.jobs = self.shown.jobs
        self.wakeups = Wakeups()
        self.limiter = Slots(self.clock, self.wakeups, each=100, most=100, window=500)
        informers: Any = self.shown
        self.records = JobRecords(self.clock)
        self._feed = AdmissionFeed(
            settings=made,
            clock=self.clock,
            state=self.state,
            informers=informers,
            records=self.records,
            usage=lambda *_: None,
            limiter=self.limiter,
            wakeups=self.wakeups,
        )
        self._admission = AdmissionLoop(
            state=self.state,
            settings=made,
            clock=self.clock,
            informers=informers,
            limiter=self.limiter,
            budget=WriteBudget(self.clock, rate=1000, pressed_rate=10),
            wakeups=self.wakeups,
        )

    async def cycle(self) -> AdmissionPlan:
        made = await self._admission.cycle()
        self._feed.apply(made)
        return made

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async def run() -> None:
            async for made in self._admission.plans():
                self._feed.apply(made)

        task = asyncio.create_task(run())
        self.wakeups.admit()
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def answer(self) -> None:
        """The API server answers to every create."""
        for key in self.jobs:
            self.records[key].attempt.on_response(Response(), None, self.clock.monotonic())
            self.limiter.release(key)

    @property
    def granted(self) -> list[str]:
        """Jobs whose room is held, in the order in which they were granted it."""
        return [key.partition("/")[2] for key in self.state.assumed_starts.runs]

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


async def test_room_is_taken_before_anybody_is_waited_for() -> None:
    d = LoopHarness()
    d.room(2)
    d.line_up("a", "b", "c")
    await d.cycle()
    assert d.granted == ["a", "b"]
    d.line_up("d")
    found = await d.cycle()
    assert not found.starts
    assert found.held["ns/d"].reason is WaitReason.ADMISSION_LEVEL


class Meanwhile:
    """Something that happens while a plan is being computed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, happens: Any) -> None:
        loop, real = asyncio.get_running_loop(), plan.plan_admissions
        self.thread: threading.Thread | None = None

        def planned(snapshot: Snapshot, **words: Any) -> AdmissionPlan:
            self.thread = threading.current_thread()
            found = real(snapshot, **words)
            done = threading.Event()
            loop.call_soon_threadsafe(happens)
            loop.call_soon_threadsafe(done.set)
            assert done.wait(10), "the event loop is free"
            return found

        monkeypatch.setattr("scavenger_admitter.admission_loop.plan_admissions", planned)


async def test_the_event_loop_is_free_while_a_plan_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    d = LoopHarness()
    d.room(8)
    d.line_up("a")
    seen = Meanwhile(monkeypatch, lambda: None)
    await d.cycle()
    assert seen.thread is not threading.main_thread()
    assert d.granted == ["a"]


async def test_what_was_planned_is_looked_at_again_before_it_is_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    d = LoopHarness()
    d.room(8)
    d.line_up("gone", "changed", "started", "stays")

    def happens() -> None:
        d.state.delete_candidate("ns/gone")
        changed = d.state.candidate("ns/changed")
        assert changed is not None
        d.state.apply_candidate(Candidate(changed.key, "another", changed.queue, changed.shape))
        d.state.delete_candidate("ns/started")

    Meanwhile(monkeypatch, happens)
    await d.cycle()
    assert d.granted == ["stays"]


async def test_nobody_starts_where_admission_was_closed_while_the_plan_was_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    d = LoopHarness()
    d.room(8)
    d.line_up("a")
    levels = d.shown.levels = {**LEVELS}
    Meanwhile(monkeypatch, lambda: levels.update(admit="false"))
    await d.cycle()
    assert d.granted == []


async def test_nobody_is_granted_anything_where_creates_began_to_hang_while_the_plan_was_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    d = LoopHarness()
    d.room(8)
    d.line_up("a")
    hung = d.limiter.hung = dict[str, float]()
    Meanwhile(monkeypatch, lambda: hung.update(ns=2.0))
    await d.cycle()
    monkeypatch.undo()
    for seconds, reason in ((3.0, WaitReason.NEXT_CYCLE), (30.0, WaitReason.CREATION_UNANSWERED)):
        hung["ns"] = seconds
        found = await d.cycle()
        assert found.held["ns/a"].reason is reason
    assert d.granted == []
    hung.clear()
    await d.cycle()
    assert d.granted == ["a"]


async def test_a_cycle_that_reached_its_limit_is_followed_by_the_next_when_it_is_answered() -> None:
    d = LoopHarness(max_starts_per_cycle=2, admission_interval=0.1)
    d.room(8)
    d.line_up("a", "b", "c", "d", "e")
    async with d.running():
        for many in (2, 4, 5):
            await eventually(lambda many=many: len(d.granted) == many)  # type: ignore[misc]
            await eventually(lambda: d.clock.next_deadline is not None)
            await d.clock.advance(1.0)
            assert len(d.granted) == many, "the API server has not answered yet"
            d.answer()
            await d.clock.advance(0.1)
        assert d.granted == ["a", "b", "c", "d", "e"]


async def test_any_number_of_wakes_is_one_cycle() -> None:
    d = LoopHarness(admission_interval=1.0)
    async with d.running():
        await eventually(lambda: d.clock.next_deadline is not None)
        d.room(8)
        d.line_up("a")
        for _ in range(100):
            d.wakeups.admit()
        await d.clock.advance(0.9)
        assert d.granted == []
        await d.clock.advance(0.2)
        await eventually(lambda: len(d.granted) == 1)
