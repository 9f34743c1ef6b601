"""The controller against the API server in memory: what is measured, published, evicted, remembered."""

from __future__ import annotations

import asyncio
import json
import math
import statistics
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError
from scavenger_admitter.admission_loop import load_rule
from scavenger_admitter.settings import AdmitterSettings
from scavenger_api import names
from scavenger_api.evictions import EvictionReason, read_eviction_note
from scavenger_api.levels import LevelsState, LevelsView, PublishedLevels, Visibility
from scavenger_api.names import ANNOTATION_LAST_CHECKPOINT
from scavenger_api.quantity import parse_quantity
from scavenger_api.shared_settings import SharedSettings
from scavenger_api.times import format_time, micros
from scavenger_kube.resources import CONFIGMAPS, EVENTS, JOBS, NODES, PODDISRUPTIONBUDGETS, PODS, Resource
from scavenger_regulator.controller import Regulator
from scavenger_regulator.core.history import Figures
from scavenger_regulator.core.plan import Decision, regulate
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.snapshot import CLUSTER, Measurement
from scavenger_regulator.core.state import ScopeState
from scavenger_regulator.settings import RegulatorSettings
from scavenger_regulator.sources.metrics_api import MetricsApiSource
from scavenger_regulator.store import STATE_CONFIGMAP
from scavenger_regulator.uninstall import restore
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.jobs_seen import SCAVENGERJOBS
from scavenger_runtime.metrics import REGISTRY
from scavenger_testing.builders import (
    adopted_job_dict,
    condition,
    configmap_dict,
    job_dict,
    node_dict,
    pod_dict,
    scavengerjob_dict,
    settings_dict,
)
from scavenger_testing.clock import VirtualClock, eventually
from scavenger_testing.fake_api import FakeApi

pytestmark = pytest.mark.slow

SYSTEM = "scavenger-system"
NODE_METRICS: Resource[Any] = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False, object)
POD_METRICS: Resource[Any] = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", True, object)
LABEL = "scavenger.dev/preemption-class"


class Cluster:
    """One node of 10 cores; `measure` says what is in use, ordinary pods included."""

    def __init__(self, api: FakeApi, clock: VirtualClock, **settings: Any) -> None:
        self.api = api
        self.clock = clock
        self.client = client = api.client(request_timeout=5.0)
        self.events = EventRecorder(client, "scavenger-regulator", clock=clock)
        self.settings = RegulatorSettings(
            **{"checkpoint_wait": 0, "yield_at_checkpoint": False, "cpu_samples": 1, **settings}
        )
        self.regulator = Regulator(client, self.settings, clock, self.events)
        self.idle_nodes: tuple[str, ...] = ()
        """Others, of which `measure` says that they use little."""
        node = node_dict("n1", cpu="10", memory="100Gi")
        node["status"]["conditions"] = [condition("Ready")]
        api.put(NODES, node)

    def ago(self, seconds: float) -> str:
        return format_time(self.clock.now() - timedelta(seconds=seconds))

    def add_job(self, name: str, started: float = 600, *, pods: int = 1, **labels: str) -> None:
        run = f"{name}-run"
        status = {"jobName": run, "runningTimestamps": [self.ago(started)]}
        job = scavengerjob_dict(name, namespace="lab", parallelism=pods, phase="Running", status=status)
        self.api.put(SCAVENGERJOBS, job)
        for index in range(pods):
            made = pod_dict(
                f"{run}-{index}",
                namespace="lab",
                node="n1",
                phase="Running",
                started=self.ago(started),
                owner=job_dict(run, namespace="lab"),
                labels={"scavenger.dev/job": name, **labels},
                finalizers=["scavenger.dev/interruption-record"],
                created=self.ago(started),
            )
            self.api.put(PODS, made)

    def add_adopted(self, name: str, started: float = 600) -> None:
        """A Job of a user, with the pod of its task."""
        job = adopted_job_dict(name, namespace="lab")
        self.api.put(JOBS, job)
        labels = {names.LABEL_JOB: name, names.LABEL_KIND: names.KIND_JOB, names.LABEL_TASK: "0"}
        made = pod_dict(
            f"{name}-run-0",
            namespace="lab",
            node="n1",
            phase="Running",
            started=self.ago(started),
            owner=job,
            labels=labels,
            finalizers=["scavenger.dev/interruption-record"],
            created=self.ago(started),
        )
        self.api.put(PODS, made)

    def measure(self, cpu: float, memory: float = 10, *, each: float = 1, age: float = 0) -> None:
        """Cores and GiB in use on the node; `each` core for every scavenger pod that is there."""
        taken = {"timestamp": self.ago(age), "window": "5s"}
        use = {"cpu": f"{cpu * 1000:.0f}m", "memory": f"{memory}Gi"}
        self.api.put(NODE_METRICS, {"metadata": {"name": "n1"}, **taken, "usage": use})
        for old in self.api.list(POD_METRICS):
            self.api.remove(POD_METRICS, old["metadata"]["namespace"], old["metadata"]["name"])
        for pod in self.api.list(PODS):
            if "labels" not in pod["metadata"]:
                continue
            meta = {key: pod["metadata"][key] for key in ("name", "namespace", "labels")}
            container = {"name": "main", "usage": {"cpu": f"{each * 1000:.0f}m", "memory": "1Gi"}}
            self.api.put(POD_METRICS, {"metadata": meta, **taken, "containers": [container]})
        for name in self.idle_nodes:
            taken = {"timestamp": self.ago(0), "window": "5s"}
            self.api.put(NODE_METRICS, {"metadata": {"name": name}, **taken, "usage": {"cpu": "1", "memory": "10Gi"}})

    async def period(self, seconds: float = 30) -> Decision:
        await self.caught_up()
        decision = await self.regulator.period()
        await self.events.flush()
        await self.clock.advance(seconds)
        return decision

    async def caught_up(self) -> None:
        for informer in self.regulator.informers:
            await informer.wait_synced()
            await eventually(partial(self._same, informer))

    def _same(self, informer: Any) -> bool:
        follows_all = self.settings.source == "requests" or self.settings.kept_room == "byHour"
        labelled = informer.resource is PODS and not follows_all
        stored = {
            o["metadata"]["uid"]: o["metadata"]["resourceVersion"]
            for o in self.api.list(informer.resource)
            if not labelled or "scavenger.dev/job" in o["metadata"].get("labels", {})
            if informer.resource is not CONFIGMAPS or o["metadata"]["name"] == f"scavenger-{informer.name}"
        }
        return stored == {o.metadata.uid: o.metadata.resource_version for o in informer.items()}

    async def succeed(self) -> None:
        """Another regulator takes the lead."""
        successor = Regulator(self.api.client(), self.settings, self.clock, self.events)
        before = self.regulator
        successor.jobs, successor.pods, successor.nodes = before.jobs, before.pods, before.nodes
        successor.shared = before.shared
        await successor.restore()
        self.regulator = successor

    async def delete_with_grace(self, pod: str, seconds: int) -> None:
        """As a user does who may delete pods; on a real API server, the deadline is when that time is over."""

        def edit(obj: dict[str, Any]) -> None:
            obj["metadata"]["deletionTimestamp"] = self.ago(-seconds)
            obj["metadata"]["deletionGracePeriodSeconds"] = seconds

        self.api.edit(PODS, "lab", pod, edit)
        await self.caught_up()

    def levels(self) -> PublishedLevels:
        found = self.api.get(CONFIGMAPS, SYSTEM, "scavenger-levels")
        assert found is not None
        return PublishedLevels.parse(found["data"])

    def pods(self) -> list[str]:
        """Those that nobody is deleting."""
        return [p["metadata"]["name"] for p in self.api.list(PODS) if "deletionTimestamp" not in p["metadata"]]

    def reasons(self) -> list[tuple[str, str]]:
        return [(e["involvedObject"]["name"], e["reason"]) for e in self.api.list(EVENTS)]

    def writes(self, path: str = "") -> int:
        return sum(r.method in ("POST", "PUT", "PATCH", "DELETE") and path in r.path for r in self.api.requests)


@asynccontextmanager
async def cluster(**settings: Any) -> AsyncIterator[Cluster]:
    clock = VirtualClock()
    async with FakeApi(clock, listens=False) as api:
        made = Cluster(api, clock, **settings)
        tasks = [asyncio.ensure_future(i.run()) for i in made.regulator.informers]
        tasks.append(asyncio.ensure_future(made.events.run()))
        try:
            await made.caught_up()
            await made.regulator.restore()
            await clock.advance(30)
            yield made
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_publishes_what_it_measures() -> None:
    async with cluster() as c:
        c.measure(5)
        await c.period(0)
        levels = c.levels()
        assert (levels.state, levels.load("cpu"), levels.admit, levels.preemptible_percentage) == (
            "Filling",
            50,
            True,
            33,
        )
        found = c.api.get(CONFIGMAPS, SYSTEM, "scavenger-levels")
        assert found is not None
        assert LevelsView.of(found["data"], c.clock.now()).visibility is Visibility.FRESH
        assert ("scavenger-levels", "Filling") in c.reasons()


@pytest.mark.parametrize(("there", "loads"), [(False, []), (True, [90])])
async def test_a_tainted_node_counts_while_a_scavenger_pod_is_on_it(there: bool, loads: list[float]) -> None:
    async with cluster() as c:
        idle = node_dict("n2", cpu="10", memory="100Gi")
        idle["status"]["conditions"] = [condition("Ready")]
        c.api.put(NODES, idle)
        c.idle_nodes = ("n2",)
        c.api.edit(NODES, None, "n1", lambda o: o["spec"].update(taints=[{"key": "team", "effect": "NoSchedule"}]))
        if there:
            c.add_job("a")
        c.measure(9)
        await c.period(0)
        assert c.levels().load("cpu") == 10
        assert [pool.load("cpu") for pool in c.levels().pools.values()] == loads, "it is a pool of its own"


async def test_writes_only_when_something_changed_or_the_heartbeat_is_due() -> None:
    async with cluster() as c:
        published = []
        for _ in range(8):
            c.measure(5)
            await c.period()
            published.append(c.writes("scavenger-levels"))
            found = c.api.get(CONFIGMAPS, SYSTEM, "scavenger-levels")
            assert found is not None
            assert LevelsView.of(found["data"], c.clock.now()).visibility is Visibility.FRESH, "never stale"
        assert published[0] == 1
        assert published[-1] <= 5
        assert c.writes(STATE_CONFIGMAP) == 1


async def test_evicts_in_order_with_the_reason_on_the_pod_and_no_more_than_needed() -> None:
    async with cluster() as c:
        for i in range(5):
            c.add_job(f"job-{i}", started=100 * (i + 1))
        c.api.put(PODS, pod_dict("ordinary", namespace="web", node="n1", phase="Running"))
        c.measure(9)
        await c.period()
        assert c.pods() == ["job-2-run-0", "job-3-run-0", "job-4-run-0", "ordinary"]
        gone = c.api.get(PODS, "lab", "job-0-run-0")
        assert gone is not None
        note = read_eviction_note(gone["metadata"]["annotations"])
        assert note is not None
        assert note.reason is EvictionReason.ABOVE_UPPER
        assert {("job-0", "AboveUpperLevel"), ("job-1", "AboveUpperLevel"), ("scavenger-levels", "Evicting")} <= set(
            c.reasons()
        )
        assert (c.levels().state, c.levels().admit) == ("Evicting", False)
        # the metrics still show it, and go on to show it for a while after the pods have gone
        c.measure(9)
        await c.period()
        for name in ("job-0-run-0", "job-1-run-0"):
            c.api.remove(PODS, "lab", name)
        c.measure(9, age=20)
        await c.period()
        assert len(c.pods()) == 4
        c.measure(6.5)
        await c.period()
        assert c.levels().state == "Filling"
        assert not c.levels().admit
        assert len(c.pods()) == 4


async def test_adopted_jobs_are_victims_as_tasks_are_and_their_clients_read_no_event_of_it() -> None:
    async with cluster(adopt=True) as c:
        c.add_adopted("cheap", started=100)
        for i in range(3):
            c.add_job(f"job-{i}", started=200 * (i + 1))
        c.add_adopted("dear", started=1000)
        c.measure(9)
        await c.period()
        assert c.pods() == ["dear-run-0", "job-1-run-0", "job-2-run-0"]
        gone = c.api.get(PODS, "lab", "cheap-run-0")
        assert gone is not None
        note = read_eviction_note(gone["metadata"]["annotations"])
        assert note is not None
        assert note.reason is EvictionReason.ABOVE_UPPER
        told = [name for name, reason in c.reasons() if reason == "AboveUpperLevel"]
        assert told == ["job-0"]
        assert not c.writes("/jobs")


async def test_a_regulator_that_follows_no_adopted_jobs_evicts_none() -> None:
    async with cluster() as c:
        c.add_adopted("cheap", started=100)
        c.add_job("job", started=900)
        c.measure(8.5)
        await c.period()
        assert c.pods() == ["cheap-run-0"]


async def test_who_has_just_written_a_checkpoint_yields_until_there_is_room_again() -> None:
    async with cluster(yield_at_checkpoint=True) as c:
        for i in range(3):
            c.add_job(f"job-{i}", started=900)

        def edit(pod: dict[str, Any]) -> None:
            pod["metadata"]["annotations"] = {ANNOTATION_LAST_CHECKPOINT: c.ago(1)}

        async def report(*numbers: int) -> None:
            for i in numbers:
                c.api.edit(PODS, "lab", f"job-{i}-run-0", edit)
            await c.caught_up()

        c.measure(8.3, each=0.2)
        await c.period()
        assert len(c.pods()) == 3, "nobody has written a checkpoint"
        await report(1, 2)
        c.measure(8.3, each=0.2)
        await c.period()
        assert c.pods() == ["job-0-run-0"]
        for name in ("job-1", "job-2"):
            gone = c.api.get(PODS, "lab", f"{name}-run-0")
            assert gone is not None
            note = read_eviction_note(gone["metadata"]["annotations"])
            assert note is not None
            assert note.reason is EvictionReason.YIELD
            assert (name, "YieldAtCheckpoint") in c.reasons()
            c.api.remove(PODS, "lab", f"{name}-run-0")
        await report(0)
        c.measure(7.9, each=0.2)
        await c.period()
        assert c.pods() == ["job-0-run-0"], "the load is below the admission threshold"


async def test_a_pod_of_an_adopted_job_yields_as_soon_as_it_has_written_a_checkpoint() -> None:
    async with cluster(adopt=True, yield_at_checkpoint=True) as c:
        c.add_adopted("saved", started=900)
        c.add_adopted("unsaved", started=1000)
        c.add_job("job", started=1000)
        mark = {ANNOTATION_LAST_CHECKPOINT: c.ago(1)}
        c.api.edit(PODS, "lab", "saved-run-0", lambda pod: pod["metadata"].update(annotations=mark))
        await c.caught_up()
        c.measure(8.3, each=0.2)
        await c.period()
        assert c.pods() == ["job-run-0", "unsaved-run-0"]
        gone = c.api.get(PODS, "lab", "saved-run-0")
        assert gone is not None
        note = read_eviction_note(gone["metadata"]["annotations"])
        assert note is not None
        assert note.reason is EvictionReason.YIELD
        assert not c.writes("/jobs")


async def test_a_gang_goes_whole() -> None:
    async with cluster() as c:
        c.add_job("gang", pods=3)
        c.add_job("single", started=1700)
        c.measure(9)
        await c.period()
        assert c.pods() == ["single-run-0"]


async def test_dry_run_evicts_nobody_and_says_whom() -> None:
    async with cluster(dry_run=True) as c:
        c.add_job("job")
        c.measure(9)
        await c.period()
        assert c.pods() == ["job-run-0"]
        assert c.writes("/pods/") == 0
        assert ("job", "AboveUpperLevel") in c.reasons()


async def test_a_refusal_is_not_a_success_and_another_one_goes() -> None:
    async with cluster() as c:
        for i in range(3):
            c.add_job(f"job-{i}", started=100 * (i + 1), team="a" if i == 0 else "b")
        budget = {
            "metadata": {"namespace": "lab", "name": "keep"},
            "spec": {"minAvailable": 5, "selector": {"matchLabels": {"team": "a"}}},
        }
        c.api.put(PODDISRUPTIONBUDGETS, budget)
        c.measure(8.5, each=2)
        decision = await c.period()
        assert len(decision.victims) == 1
        assert len(c.pods()) == 3 or "job-0-run-0" in c.pods()
        for _ in range(2):
            c.measure(8.5, each=2)
            await c.period()
        assert c.pods() == ["job-0-run-0", "job-2-run-0"] or c.pods() == ["job-0-run-0"]


async def test_who_deletes_a_pod_with_a_month_of_grace_keeps_nobody_else_from_going() -> None:
    """Counted as leaving it would close the gap for a month, though it goes on as before."""
    async with cluster() as c:
        for i in range(4):
            c.add_job(f"job-{i}", started=100 * (i + 1))
        await c.delete_with_grace("job-0-run-0", 30 * 86_400)
        await c.clock.advance(100)
        c.measure(9)
        await c.period()
        assert c.pods() == ["job-3-run-0"]
        gone = c.api.get(PODS, "lab", "job-0-run-0")
        assert gone is not None
        assert gone["metadata"]["deletionGracePeriodSeconds"] == 30
        assert gone["metadata"]["deletionTimestamp"] == c.ago(30), "the API server moves no deletion into the past"
        written = c.writes("/pods/job-0-run-0/eviction")
        c.measure(9)
        await c.period()
        assert c.writes("/pods/job-0-run-0/eviction") == written == 1


async def test_a_grace_period_that_could_not_be_shortened_is_shortened_the_next_time() -> None:
    async with cluster() as c:
        c.add_job("job")
        await c.delete_with_grace("job-run-0", 3600)
        c.api.fail(500, times=2, methods={"POST"}, path="/eviction")
        seen = []
        for _ in range(3):
            c.measure(5)
            await c.period()
            pod = c.api.get(PODS, "lab", "job-run-0")
            assert pod is not None
            seen.append(pod["metadata"]["deletionGracePeriodSeconds"])
        assert seen == [3600, 3600, 30] or seen == [3600, 30, 30]


async def test_an_eviction_that_keeps_failing_is_given_up_for_a_while_and_another_one_goes() -> None:
    async with cluster() as c:
        for i in range(3):
            c.add_job(f"job-{i}", started=100 * (i + 1))
        c.api.fail(500, times=1000, methods={"POST"}, path="/pods/job-0-run-0/eviction")
        tried = []
        for _ in range(4):
            before = c.writes("/pods/job-0-run-0/eviction")
            c.measure(8.5, each=2)
            await c.period()
            tried.append(c.writes("/pods/job-0-run-0/eviction") - before)
        assert tried == [1, 1, 0, 0]
        assert c.pods() == ["job-0-run-0", "job-2-run-0"]


async def test_without_metrics_it_is_blind_and_says_why() -> None:
    async with cluster() as c:
        c.add_job("job")
        c.api.fail(404, times=2, methods={"GET"}, path="metrics.k8s.io")
        decision = await c.period()
        assert (c.levels().state, decision.victims) == ("Blind", ())
        assert "install metrics-server" in c.levels().message
        assert ("scavenger-levels", "Blind") in c.reasons()
        c.measure(5)
        await c.period()
        assert c.levels().state == "Filling"


@pytest.mark.parametrize("change", ["deleted", "edited"])
async def test_levels_that_somebody_else_changed_are_written_again_while_blind(change: str) -> None:
    async with cluster() as c:
        c.measure(5, age=91)
        await c.period(5)
        before = c.api.get(CONFIGMAPS, SYSTEM, "scavenger-levels")
        assert before is not None
        if change == "deleted":
            c.api.remove(CONFIGMAPS, SYSTEM, "scavenger-levels")
        else:
            c.api.put(CONFIGMAPS, {**before, "data": {**before["data"], "state": "Filling", "admit": "true"}})
        c.measure(5, age=91)
        await c.period()
        after = c.api.get(CONFIGMAPS, SYSTEM, "scavenger-levels")
        assert after is not None
        assert after["data"]["state"] == before["data"]["state"]
        assert after["data"].get("admit") == before["data"].get("admit")


async def test_stale_metrics_are_none() -> None:
    async with cluster() as c:
        c.add_job("job")
        c.measure(9.5, age=91)
        await c.period()
        assert c.levels().state == "Blind"
        assert c.pods() == ["job-run-0"]


async def test_nobody_is_evicted_when_the_levels_cannot_be_published() -> None:
    async with cluster() as c:
        c.add_job("job")
        c.measure(9)
        c.api.fail(500, times=1, methods={"PATCH"}, path="scavenger-levels")
        await c.period()
        assert c.pods() == ["job-run-0"]
        c.measure(9)
        await c.period()
        assert c.pods() == []


async def test_a_restart_keeps_history_and_hysteresis_and_waits_for_new_figures() -> None:
    async with cluster() as c:
        for i in range(5):
            c.add_job(f"job-{i}", started=100 * (i + 1))
        for _ in range(3):
            c.measure(8)
            await c.period()
        c.measure(9)
        await c.period(1)
        assert len(c.pods()) == 3
        await c.succeed()
        c.measure(9, age=2)  # taken before it began
        decision = await c.period(10)
        assert decision.scopes[CLUSTER].state == "Evicting"
        assert decision.scopes[CLUSTER].wait == "Started"
        assert len(c.pods()) == 3
        c.measure(9)  # its predecessor's victims are still leaving
        decision = await c.period()
        assert len(c.pods()) == 3
        assert decision.published.mean("cpu") is not None


async def test_capacity_is_kept_by_what_regular_pods_requested_at_this_hour_yesterday() -> None:
    """Also by a successor, which knows it from the state that is saved. A job is no regular pod."""
    async with cluster(kept_room="byHour") as c:

        async def hour(begins: timedelta, *requested: str) -> PublishedLevels:
            await c.clock.advance((midnight + begins - c.clock.now()).total_seconds())
            for number, cpu in enumerate(requested):
                pod = pod_dict(f"web-{number}", namespace="lab", node="n1", phase="Running", requests={"cpu": cpu})
                c.api.put(PODS, pod)
                c.measure(2)
                await c.period()
            await c.regulator.store.save(c.clock.now())
            await c.succeed()
            c.measure(2)
            return (await c.period()).published

        now = c.clock.now()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        c.add_job("job")
        published = await hour(timedelta(hours=9, minutes=10), "1", "2", "500m")
        assert published.resources["cpu"].kept == 0, "before a day is known"
        assert (await hour(timedelta(hours=30))).resources["cpu"].kept == 0
        published = await hour(timedelta(hours=32, minutes=30))
        assert published.resources["cpu"].kept == pytest.approx(25)
        assert c.levels().resources["cpu"].kept == pytest.approx(25)
        kept = REGISTRY.get_sample_value("scavenger_regulator_kept_ratio", {"resource": "cpu", "pool": "default"})
        assert kept == pytest.approx(0.25)


async def test_a_clock_that_is_set_back_delays_no_eviction_and_prolongs_no_cooldown() -> None:
    """A machine that starts with its clock an hour ahead, which is set right soon after."""
    async with cluster() as c:
        for i in range(5):
            c.add_job(f"job-{i}", started=100 * (i + 1))
        c.measure(7)
        await c.period()
        c.clock.skew -= 3600
        c.measure(7)
        await c.period()
        c.measure(9)
        await c.period()
        assert len(c.pods()) == 3
        c.measure(5)
        assert not (await c.period()).published.admit
        c.clock.skew -= 3600
        admits = []
        for _ in range(11):
            c.measure(5)
            admits.append((await c.period()).published.admit)
        assert admits == [False] * 10 + [True], "five minutes after the clock was set back"


async def test_levels_learned_in_half_an_hour_govern_the_hour_after_it() -> None:
    """Nothing is pinned: an ordinary load that moves between 1 and 5 cores of ten, a window of half an hour, and all
    else as it is by default. Whoever takes the lead in between goes on with what was learned."""
    async with cluster(history_window=1800) as c:
        moving = [3 + 2 * math.sin(2 * math.pi * i / 20) for i in range(180)]
        lower, upper = (
            100 - (20 + 10 * statistics.pstdev(moving[:60])),
            100 - (20 / 3 + 10 * statistics.pstdev(moving[:60])),
        )
        seen = []
        for i, cpu in enumerate(moving):
            if i == 120:
                await c.regulator.store.save(c.clock.now())
                await c.succeed()
            c.measure(cpu)
            await c.period()
            seen.append(c.levels())
        assert [one.lower("cpu") for one in seen[:60]] == [70] * 60
        for one in seen[80:]:
            assert one.lower("cpu") == pytest.approx(lower, abs=1)
            assert one.upper("cpu") == pytest.approx(upper, abs=1)
            assert one.admission("cpu") == pytest.approx(lower + 20 - (80 - lower), abs=1)
            assert one.lower("memory") == 80, "memory does not move"
        view = LevelsView.of(seen[-1].to_data(), c.clock.now())
        rule = load_rule(view, AdmitterSettings(), micros(c.clock.now()))
        assert dict(rule.admission_ppm)["cpu"] == pytest.approx(10_000 * (2 * lower - 60), abs=10_000)
        for i in range(6):
            c.add_job(f"job-{i}", started=100 * (i + 1))
        c.measure(8)  # under the upper level that holds without a history
        await c.period()
        assert c.levels().state == "Evicting"
        assert len(c.pods()) == 4, "80 points come down to 66"


async def test_a_source_that_keeps_one_history_leaves_the_others_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    """With --prometheus-history-cpu alone, the deviation of memory is the regulator's own."""

    async def of_cpu(_: MetricsApiSource) -> dict[str, Figures]:
        return {"cpu": Figures(30.0, 10.0, 1000)}

    monkeypatch.setattr(MetricsApiSource, "history", of_cpu)
    async with cluster(history_window=1800) as c:
        for i in range(90):
            c.measure(3, memory=30 + 10 * (i % 2))
            await c.period()
        assert c.levels().lower("cpu") == pytest.approx(100 - (20 + 10), abs=1)
        assert c.levels().lower("memory") == pytest.approx(100 - (20 + 5), abs=1), "70 without a history"


async def test_a_history_measured_in_another_way_is_not_taken_up() -> None:
    async with cluster() as c:
        for _ in range(3):
            c.measure(5)
            await c.period()
        c.settings = RegulatorSettings(source="requests")
        c.regulator = Regulator(c.api.client(), c.settings, c.clock, c.events)
        await c.regulator.restore()
        snapshot, _ = await c.regulator.decide(Measurement())
        assert snapshot.history == {}


async def test_what_an_older_regulator_learned_of_all_nodes_is_taken_over_by_the_pools() -> None:
    """It kept one history and one state, without a name of a pool. This one tells a GPU node from the others."""
    gpu = "nvidia.com/gpu"
    async with cluster(history_window=3600, pool_ignores=(gpu,)) as c:
        c.idle_nodes = ("n2", "g1", "g2", "g3")
        for name in c.idle_nodes:
            amounts = {"cpu": "10", gpu: "1"} if name.startswith("g") else {"cpu": "50"}
            made = node_dict(name, allocatable={"memory": "100Gi", "pods": "110", **amounts})
            made["status"]["conditions"] = [condition("Ready")]
            c.api.put(NODES, made)
        for i in range(70):
            c.measure(2 + 6 * (i % 2))
            await c.period()
        before = c.levels()
        assert before.pools == {}
        assert before.stdev("cpu") == pytest.approx(100 * 3 / 90, abs=0.1)
        await c.regulator.store.save(c.clock.now())
        forget_the_names_of_pools(c)
        c.settings = c.settings.model_copy(update={"pool_ignores": ()})
        await c.succeed()
        c.measure(2)
        await c.period()
        after = c.levels()
        (name,) = after.pools
        assert name.startswith("gpu-")
        for pool in (after, after.pools[name]):
            assert pool.stdev("cpu") == pytest.approx(before.stdev("cpu") or 0, abs=0.1)
            assert pool.upper("cpu") == pytest.approx(before.upper("cpu"), abs=1)
        for _ in range(70):
            c.measure(2)
            await c.period()
        assert c.levels().pools[name].stdev("cpu") == pytest.approx(0, abs=0.1), "its own by now"


def forget_the_names_of_pools(c: Cluster) -> None:
    """As an older regulator has left its state."""

    def edit(obj: dict[str, Any]) -> None:
        states = json.loads(obj["data"]["memory"])
        histories = json.loads(obj["data"]["history"])
        assert (states.keys(), histories["scopes"].keys()) == ({CLUSTER}, {CLUSTER})
        assert states[CLUSTER].pop("pool")
        obj["data"]["memory"] = json.dumps(states)

    c.api.edit(CONFIGMAPS, SYSTEM, STATE_CONFIGMAP, edit)


async def test_published_levels_are_taken_up_where_the_state_is_lost() -> None:
    async with cluster() as c:
        data = {
            **PublishedLevels.parse({}).to_data(),
            "state": "Evicting",
            "admit": "false",
            "preemptiblePercentage": "100",
            "observedAt": c.ago(5),
            "periodSeconds": "30",
            **{f"{k}.{r}": v for r in ("cpu", "memory") for k, v in (("load", "90"), ("lower", "60"))},
            **{f"{k}.{r}": "75" for r in ("cpu", "memory") for k in ("admission", "upper")},
        }
        c.api.put(CONFIGMAPS, configmap_dict("scavenger-levels", data, namespace=SYSTEM))
        await c.regulator.restore()
        c.measure(5)
        await c.period()
        assert c.levels().lower("cpu") == 61, "a step toward the initial 70"
        assert not c.levels().admit


async def test_requests_need_no_metrics() -> None:
    async with cluster(source="requests") as c:
        for i in range(9):
            c.add_job(f"job-{i}", started=100 * (i + 1))
        await c.period()
        assert (c.levels().state, len(c.pods())) == ("Evicting", 7)
        assert c.levels().source == "requests"


@pytest.mark.parametrize("above", [0, 1], ids=["Guaranteed", "Burstable"])
async def test_throttles_above_the_admission_level_and_gives_back_below(above: int) -> None:
    """The QoS class of a pod stays what it is: the limit is as far above the request as before."""
    async with cluster(throttle=True, throttle_share=0.4) as c:
        c.add_job("job")
        limit = {"cpu": f"{1000 + above}m"}
        c.api.edit(PODS, "lab", "job-run-0", lambda o: o["spec"]["containers"][0]["resources"].update(limits=limit))
        await c.caught_up()
        c.measure(8.4)
        await c.period()

        def cpu() -> str:
            pod = c.api.get(PODS, "lab", "job-run-0")
            assert pod is not None
            resources = pod["spec"]["containers"][0]["resources"]
            request, limit = (str(resources[side]["cpu"]) for side in ("requests", "limits"))
            assert (parse_quantity(limit) - parse_quantity(request)) * 1000 == above
            return request

        assert cpu() == "600m"
        c.measure(7.8, each=0.6)
        await c.period()
        assert cpu() == "800m"
        c.measure(5, each=0.8)
        await c.period()
        assert cpu() == "800m", "what was given back has not shown yet"
        c.measure(5, each=0.8)
        await c.period()
        assert cpu() == "1000m"


def cpu_of(c: Cluster, name: str) -> str:
    pod = c.api.get(PODS, "lab", f"{name}-run-0")
    assert pod is not None
    return str(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


async def throttled(c: Cluster) -> None:
    """Two jobs, of which one has less CPU than it asks for."""
    c.add_job("job")
    c.add_job("other")
    less = {"requests": {"cpu": "400m"}, "limits": {"cpu": "400m"}}
    c.api.edit(PODS, "lab", "job-run-0", lambda o: o["spec"]["containers"][0].update(resources=less))
    await c.caught_up()


class Hasty(VirtualClock):
    """Nobody waits."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


async def test_switched_off_it_restores_what_was_throttled() -> None:
    async with cluster(throttle=False) as c:
        await throttled(c)
        c.measure(5)
        await c.period()
        assert (cpu_of(c, "job"), cpu_of(c, "other")) == ("1000m", "1")
        before = c.writes("resize")
        await c.period()
        assert c.writes("resize") == before == 1


async def test_an_uninstall_restores_what_was_throttled() -> None:
    async with cluster(throttle=True) as c:
        await throttled(c)
        c.api.fail(500, methods={"PATCH"}, path="resize")
        assert await restore(c.api.client(), Hasty()) == 1
        assert (cpu_of(c, "job"), cpu_of(c, "other")) == ("1000m", "1")
        assert await restore(c.api.client(), Hasty()) == 0


async def test_the_event_loop_turns_while_it_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """At five thousand nodes with a level each that takes a second."""
    turned = threading.Event()

    def slow(*words: Any) -> Decision:
        assert turned.wait(30), "the loop stood still"
        return regulate(*words)

    monkeypatch.setattr("scavenger_regulator.controller.regulate", slow)
    async with cluster() as c:
        c.measure(5)
        await c.caught_up()
        period = asyncio.ensure_future(c.regulator.period())
        asyncio.get_running_loop().call_later(0.01, turned.set)
        assert (await period).published.admit


async def test_what_goes_on_on_nodes_is_not_written_in_every_period() -> None:
    """On one of thousands something changes all the time, and all of them are one object."""
    async with cluster(per_node=True) as c:
        store, now = c.regulator.store, c.clock.now()
        full = ScopeState(evicting=frozenset({"cpu"}), closed=True)
        steps: list[tuple[int, dict[str, ScopeState], int]] = [
            (0, {CLUSTER: ScopeState()}, 1),
            (30, {CLUSTER: ScopeState(), "n1": full}, 1),
            (90, {CLUSTER: ScopeState(), "n2": full}, 1),
            (120, {CLUSTER: ScopeState(), "n2": full}, 2),
            (300, {CLUSTER: ScopeState(), "n2": full}, 2),
            (330, {CLUSTER: full, "n2": full}, 3),
            (930, {CLUSTER: full, "n2": full}, 4),
        ]
        for seconds, store.states, written in steps:
            await store.save_if_due(now + timedelta(seconds=seconds))
            assert c.writes(STATE_CONFIGMAP) == written, seconds
        hour = timedelta(hours=1)
        store.set_back(hour, now - hour)
        for seconds, written in ((1500, 4), (1530, 5)):
            await store.save_if_due(now - hour + timedelta(seconds=seconds))
            assert c.writes(STATE_CONFIGMAP) == written, "as if the clock had not been set back"


async def test_what_rises_are_known_of_a_future_that_was_taken_back_is_forgotten() -> None:
    async with cluster() as c:
        store, now = c.regulator.store, c.clock.now()
        decided = Decision(PublishedLevels(LevelsState.BLIND), (), regular={CLUSTER: {"cpu": 1.0, "memory": 0.0}})
        store.learn(decided, (), now)
        assert store._rises[CLUSTER]["cpu"]
        store.set_back(timedelta(days=1), now - timedelta(days=1))
        assert not store._rises[CLUSTER]["cpu"]


async def test_runs_period_after_period_and_saves_at_the_end() -> None:
    async with cluster() as c:
        c.measure(5)
        task = asyncio.ensure_future(c.regulator.run())
        for _ in range(100):
            await c.clock.advance(1)
            await asyncio.sleep(0.002)
            if c.writes(STATE_CONFIGMAP):  # the last write of a period
                break
        before = c.writes(STATE_CONFIGMAP)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert c.writes(STATE_CONFIGMAP) == before + 1


async def test_a_leader_that_is_none_any_more_saves_nothing(lost: Callable[[], list[str]]) -> None:
    async with cluster() as c:
        c.measure(5)
        task = asyncio.ensure_future(c.regulator.run())
        await eventually(lambda: c.writes(STATE_CONFIGMAP) > 0)
        others = asyncio.all_tasks() - {task}
        c.client.fence(lambda: False)
        for _ in range(2):  # as an elector does that has lost the Lease
            task.cancel()
            await asyncio.sleep(0)
        await asyncio.wait(asyncio.all_tasks() - others)
        assert c.writes(STATE_CONFIGMAP) == 1
    assert lost() == []


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"source": "prometheus"}, "needs --prometheus-url"),
        ({"order": "class,beauty"}, "no sorter 'beauty'"),
        ({"initial_lower": 90}, "initial-lower"),
        ({"period": 0}, "period"),
        ({"max_age": 20}, "max-age 20 cannot work.*30 s old.*at least 45"),
        (
            {"source": "prometheus", "prometheus_url": "http://p", "max_age": 50},
            "max-age 50 .*prometheus-window, the scrape interval, is 60 s.*at least 75",
        ),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        RegulatorSettings(**settings)


def test_settings_have_the_designs_defaults() -> None:
    rules = RegulatorSettings().rules(SharedSettings())
    assert (rules.reserve, rules.floor, rules.cooldown, rules.risk.startup_cost) == (20, 33, 300, 60)
    assert (rules.eviction.hard_ceiling, rules.eviction.checkpoint_wait, rules.trust.max_age) == (95, 300, 60)
    assert rules.yield_at_checkpoint
    assert not RegulatorSettings().throttle_rules().enabled


def test_the_rules_own_the_defaults_of_the_settings() -> None:
    assert RegulatorSettings().rules(SharedSettings()) == Rules()


# --- metrics ---


def shown(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"scavenger_regulator_{name}", labels)


async def test_loads_and_levels_are_shown_as_ratios_and_use_by_queue() -> None:
    async with cluster() as c:
        for number in range(2):
            c.add_job(f"job-{number}")
        c.measure(6.5, each=0.5)
        decision = await c.period()
    of_cpu = {"scope": "cluster", "resource": "cpu", "pool": "default"}
    scope = decision.scopes[""]
    assert scope.percentage is not None
    assert decision.published.observed_at is not None
    assert shown("load_ratio", **of_cpu) == pytest.approx(0.65)
    assert shown("ordinary_load_ratio", **of_cpu) == pytest.approx(0.55)
    assert shown("level_ratio", **of_cpu, level="upper") == pytest.approx(scope.levels["cpu"].upper / 100)
    assert shown("preemptible_ratio", pool="default") == pytest.approx(scope.percentage / 100)
    assert shown("observation_timestamp_seconds", pool="default") == pytest.approx(
        decision.published.observed_at.timestamp()
    )
    assert shown("queue_used", queue="default", resource="cpu", unit="core") == pytest.approx(1)
    assert shown("queue_requested", queue="default", resource="cpu", unit="core") == pytest.approx(2)


async def test_evictions_are_counted_from_0_on() -> None:
    async with cluster() as c:
        before = shown("evictions_total", reason="AboveUpperLevel", outcome="evicted")
        assert before is not None
        for number in range(5):
            c.add_job(f"job-{number}")
        c.measure(9)
        await c.period()
    assert shown("evictions_total", reason="AboveUpperLevel", outcome="evicted") == before + 2


# --- settings of all components ---


async def test_a_change_of_the_settings_acts_in_the_next_period() -> None:
    """Which of two jobs goes: the one with a GPU, or the one that has computed for longer."""
    async with cluster() as c:
        c.add_job("gpu", 300)
        c.add_job("long", 600)
        asked = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
        c.api.edit(
            PODS, "lab", "gpu-run-0", lambda pod: pod["spec"]["containers"][0].update(resources={"requests": asked})
        )

        async def victims() -> list[str]:
            await c.caught_up()
            c.measure(8.7, each=2)
            _, decision = await c.regulator.decide(await c.regulator.measurements.measure())
            return [victim.candidate.gang.key for victim in decision.victims]

        assert await victims() == ["lab/long"]
        c.api.put(CONFIGMAPS, settings_dict(resourceWeights="nvidia.com/gpu=1"))
        assert await victims() == ["lab/gpu"]
        c.api.put(CONFIGMAPS, settings_dict(resourceWeights="nvidia.com/gpu=many", startupCostSeconds="600"))
        assert await victims() == ["lab/gpu"], "the last good value stays"
        c.api.remove(CONFIGMAPS, SYSTEM, "scavenger-settings")
        assert await victims() == ["lab/long"]
