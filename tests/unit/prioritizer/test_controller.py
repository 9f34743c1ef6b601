"""The shell against the API server in memory: what is written, in which order, and what is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import structlog
from scavenger_api import names
from scavenger_api.names import NON_PREEMPTIBLE, PREEMPTIBLE
from scavenger_api.times import format_time
from scavenger_kube.errors import Unavailable
from scavenger_kube.resources import CONFIGMAPS, EVENTS, JOBS, NODES, PODDISRUPTIONBUDGETS, PODS, Resource
from scavenger_prioritizer.controller import Prioritizer
from scavenger_prioritizer.facts import BUDGET_SPEC
from scavenger_prioritizer.settings import PrioritizerSettings
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.jobs_seen import SCAVENGERJOBS
from scavenger_testing.builders import (
    adopted_job_dict,
    configmap_dict,
    job_dict,
    node_dict,
    pod_dict,
    scavengerjob_dict,
    settings_dict,
)
from scavenger_testing.clock import PATIENCE, VirtualClock, eventually
from scavenger_testing.fake_api import FakeApi

pytestmark = pytest.mark.slow

LABEL = "scavenger.dev/preemption-class"
FIGURE = "scavenger.dev/running-priority"
SYSTEM = "scavenger-system"
POD_METRICS: Resource[Any] = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", True, dict)


class Cluster:
    """A fake API server with a prioritizer looking at it."""

    def __init__(self, api: FakeApi, clock: VirtualClock, **settings: Any) -> None:
        self.api = api
        self.clock = clock
        client = api.client(request_timeout=5.0)
        self.events = EventRecorder(client, "scavenger-prioritizer", clock=clock)
        # Jobs of these tests run for seconds, and have something to lose all the same.
        self.settings = PrioritizerSettings(**{"startup_cost": 0.0, "start_over_window": 0.0, **settings})
        self.prioritizer = Prioritizer(client, self.settings, clock, self.events)

    def ago(self, seconds: float) -> str:
        return format_time(self.clock.now() - timedelta(seconds=seconds))

    def add_job(
        self,
        name: str,
        started: float,
        *,
        pods: int = 1,
        namespace: str = "lab",
        node: str = "n1",
        phase: str = "Running",
        class_: str = PREEMPTIBLE,
        status: Mapping[str, Any] | None = None,
        capacity: str = "Guaranteed",
    ) -> None:
        run = f"{name}-run"
        self.api.put(
            SCAVENGERJOBS,
            scavengerjob_dict(
                name,
                namespace=namespace,
                parallelism=pods,
                phase=phase,
                status={"jobName": run, "runningTimestamps": [self.ago(started)], **(status or {})},
                capacity=capacity,
            ),
        )
        owner = job_dict(run, namespace=namespace)
        labels = {"scavenger.dev/job": name, LABEL: class_}
        for index in range(pods):
            pod = pod_dict(
                f"{run}-{index}",
                namespace=namespace,
                node=node,
                phase="Running",
                owner=owner,
                labels=labels,
                created=self.ago(started),
            )
            self.api.put(PODS, pod)

    def add_adopted(self, name: str, started: float, **spec: Any) -> None:
        """A Job of a user, with the pod of its task."""
        job = adopted_job_dict(name, namespace="lab", **spec)
        self.api.put(JOBS, job)
        pod = pod_dict(
            f"{name}-run-0",
            namespace="lab",
            node="n1",
            phase="Running",
            started=self.ago(started),
            owner=job,
            labels={
                names.LABEL_JOB: name,
                names.LABEL_KIND: names.KIND_JOB,
                names.LABEL_TASK: "0",
                LABEL: PREEMPTIBLE,
            },
            created=self.ago(started),
        )
        self.api.put(PODS, pod)

    def measure(self, job: str, cores: str, namespace: str = "lab") -> None:
        """The metrics API says that each container of the job's first pod uses that much."""
        self.api.put(
            POD_METRICS,
            {
                "apiVersion": POD_METRICS.api_version,
                "kind": POD_METRICS.kind,
                "metadata": {
                    "name": f"{job}-run-0",
                    "namespace": namespace,
                    "labels": {"scavenger.dev/job": job},
                },
                "timestamp": self.ago(0),
                "window": "30s",
                "containers": [{"name": "main", "usage": {"cpu": cores, "memory": "1Mi"}}],
            },
        )

    def polls(self) -> int:
        return sum("metrics.k8s.io" in request.path for request in self.api.requests)

    def publish(self, percentage: float | str, **data: str) -> None:
        levels = {
            "state": "Filling",
            "admit": "true",
            "preemptiblePercentage": str(percentage),
            "observedAt": self.ago(0),
            "periodSeconds": "15",
            "load.cpu": "50",
            "lower.cpu": "70",
            "admission.cpu": "80",
            "upper.cpu": "85",
            **data,
        }
        self.api.put(CONFIGMAPS, configmap_dict("scavenger-levels", levels, namespace=SYSTEM))

    def label(self, job: str, index: int = 0, namespace: str = "lab") -> str | None:
        pod = self.api.get(PODS, namespace, f"{job}-run-{index}")
        return None if pod is None else pod["metadata"].get("labels", {}).get(LABEL)

    def figure(self, job: str, namespace: str = "lab") -> str | None:
        pod = self.api.get(PODS, namespace, f"{job}-run-0")
        return None if pod is None else pod["metadata"].get("annotations", {}).get(FIGURE)

    def status(self, job: str, namespace: str = "lab") -> dict[str, Any]:
        found = self.api.get(SCAVENGERJOBS, namespace, job)
        assert found is not None
        status: dict[str, Any] = found["status"]
        return status

    def budgets(self) -> set[str]:
        return {b["metadata"]["namespace"] for b in self.api.list(PODDISRUPTIONBUDGETS)}

    def writes(self) -> list[tuple[str, str]]:
        return [(r.method, r.path) for r in self.api.requests if r.method in ("POST", "PUT", "PATCH", "DELETE")]

    async def one_pass(self) -> int:
        """Look when the caches have caught up, plan, write; the requests it took."""
        await self.caught_up()
        before = len(self.writes())
        await self.prioritizer.writer.carry_out(await self.prioritizer.decide())
        return len(self.writes()) - before

    async def caught_up(self) -> None:
        for informer in self.prioritizer.informers:
            await informer.wait_synced()

            def same(informer: Any = informer) -> bool:
                stored = {
                    (o["metadata"].get("namespace", ""), o["metadata"]["name"]): o["metadata"]["resourceVersion"]
                    for o in self.api.list(informer.resource)
                    if informer.resource is not PODS or "scavenger.dev/job" in o["metadata"].get("labels", {})
                    if informer.resource is not CONFIGMAPS or o["metadata"]["name"] == f"scavenger-{informer.name}"
                    if informer.resource is not PODDISRUPTIONBUDGETS or o["metadata"]["name"] == names.DISRUPTION_BUDGET
                }
                cached = {
                    (o.metadata.namespace, o.metadata.name): o.metadata.resource_version for o in informer.items()
                }
                return stored == cached

            await eventually(same)


@asynccontextmanager
async def cluster(**settings: Any) -> AsyncIterator[Cluster]:
    clock = VirtualClock()
    async with FakeApi(clock, listens=False) as api:
        made = Cluster(api, clock, **settings)
        tasks = [asyncio.ensure_future(i.run()) for i in made.prioritizer.informers]
        tasks.append(asyncio.ensure_future(made.events.run()))
        try:
            yield made
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def passing(of: Cluster) -> AsyncIterator[None]:
    """With the loop running on the virtual clock."""
    await of.caught_up()
    task = asyncio.ensure_future(of.prioritizer.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(of: Cluster, condition: Callable[[], bool], step: float = 0.25) -> None:
    """Moves the clock in small steps, with real time in between for the sockets."""
    for _ in range(400):
        if condition():
            return
        await of.clock.advance(step)
        await asyncio.sleep(0.003)
    raise TimeoutError


async def test_a_pass_is_due_when_a_protected_job_starts_over() -> None:
    """Not at the end of a period: for a minute whoever needs its cores has them for nothing."""
    async with cluster(period=600, start_over_window=None) as c:
        c.publish(0, periodSeconds="1000")
        c.add_job("j", 1800 - 90)
        async with passing(c):
            await until(c, lambda: c.label("j") == NON_PREEMPTIBLE)
            began = c.clock.monotonic()
            await until(c, lambda: c.label("j") == PREEMPTIBLE)
            assert 85 <= c.clock.monotonic() - began <= 92


async def test_without_a_regulator_a_third_is_preemptible() -> None:
    async with cluster() as c:
        for n, started in enumerate([10, 20, 30]):
            c.add_job(f"j{n}", started)
        await c.one_pass()
        assert [c.label(f"j{n}") for n in range(3)] == [PREEMPTIBLE, NON_PREEMPTIBLE, NON_PREEMPTIBLE]
        assert [c.figure(f"j{n}") for n in range(3)] == [None] * 3, "what schedulers estimate is near enough"
        budget = c.api.get(PODDISRUPTIONBUDGETS, "lab", names.DISRUPTION_BUDGET)
        assert budget is not None
        assert budget["spec"] == BUDGET_SPEC


@pytest.mark.parametrize(("mode", "left_out"), [("auto", True), ("never", False)])
async def test_jobs_on_nodes_without_an_ordinary_pod_are_left_out_of_the_budget(mode: str, left_out: bool) -> None:
    """So that Karpenter removes such nodes; pods of DaemonSets go with their node."""
    async with cluster(keep_scale_down=mode, priority_step=10**6) as c:
        c.api.put(NODES, node_dict("n1", labels={"karpenter.sh/nodepool": "default"}))
        daemon = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "logs", "uid": "logs"}}
        c.api.put(PODS, pod_dict("logs-1", namespace="kube-system", node="n1", phase="Running", owner=daemon))
        c.publish(0, periodSeconds="80000")
        c.add_job("j", 10)

        def budget() -> str | None:
            pod = c.api.get(PODS, "lab", "j-run-0")
            assert pod is not None
            label: str | None = pod["metadata"]["labels"].get("scavenger.dev/disruption-budget")
            return label

        async with passing(c):
            await until(c, lambda: c.label("j") == NON_PREEMPTIBLE)
            assert budget() is None, "it may be that an ordinary pod has only just left"
            if not left_out:
                await until(c, lambda: c.clock.monotonic() > 150, step=5)
                assert budget() is None
                return
            await until(c, lambda: budget() == "none", step=2)
            c.api.put(PODS, pod_dict("web", namespace="shop", node="n1", phase="Running"))
            await until(c, lambda: budget() is None)
            began = c.clock.monotonic()
            c.api.remove(PODS, "shop", "web")
            await until(c, lambda: budget() == "none", step=2)
            assert 115 <= c.clock.monotonic() - began <= 140
        assert len([path for method, path in c.writes() if method == "PATCH" and "/pods/" in path]) == 4


async def test_ordinary_pods_are_not_followed_where_karpenter_is_not() -> None:
    async with cluster() as c:
        c.api.put(NODES, node_dict("n1"))
        c.publish(0)
        c.add_job("j", 10)
        async with passing(c):
            await until(c, lambda: c.label("j") == NON_PREEMPTIBLE)
        assert not [request for request in c.api.requests if "%21" in request.path or "!" in request.path]
        assert not c.prioritizer.neighbours.pods.synced


async def test_no_status_is_written() -> None:
    """The admitter says there what the labels say."""
    async with cluster() as c:
        c.publish(0)
        shown = {"preemption": {"class": PREEMPTIBLE, "runningPriority": 7}, "interruptedCount": 3}
        for name in "jk":
            c.add_job(name, 10, status=shown)
        before = [c.status(name) for name in "jk"]
        assert await c.one_pass() == 3, "a budget and two pods"
        c.api.edit(SCAVENGERJOBS, "lab", "k", lambda o: o["status"].update(phase="Interrupted"))
        await c.clock.advance(700)
        c.publish(100)
        assert await c.one_pass() == 1
        assert [c.status(name) for name in "jk"] == [before[0], {**before[1], "phase": "Interrupted"}]
        assert not [path for _, path in c.writes() if "scavengerjobs" in path]


async def test_pods_of_adopted_jobs_have_classes_figures_and_budgets_as_tasks_have() -> None:
    """Nothing of the Job itself is written: its status is the admitter's."""
    async with cluster(adopt=True, priority_step=0, priority_ratio=0) as c:
        c.publish(50)
        c.add_adopted("a", 300)
        c.add_adopted("b", 450, annotations={names.ANNOTATION_INTERRUPTION_AFTER: "200s"})
        c.add_adopted("other", 1000, managedBy="kubernetes.io/job-controller")
        assert await c.one_pass() == 3, "a budget, a class and a figure"
        assert [c.label(name) for name in ("a", "b", "other")] == [NON_PREEMPTIBLE, PREEMPTIBLE, PREEMPTIBLE]
        assert [c.figure(name) for name in ("a", "b", "other")] == [None, "50", None]
        assert c.budgets() == {"lab"}
        assert not [path for _, path in c.writes() if "/jobs" in path]
        c.api.edit(JOBS, "lab", "a", lambda o: o["spec"].update(suspend=True))
        await c.one_pass()
        assert c.label("b") == PREEMPTIBLE, "half of one job"


async def test_jobs_of_users_are_not_followed_unless_they_are_adopted() -> None:
    """The prioritizer has no right to read them there."""
    async with cluster() as c:
        c.publish(0)
        c.add_adopted("a", 300)
        assert await c.one_pass() == 0
        assert not [r for r in c.api.requests if "/jobs" in r.path]


async def test_a_second_pass_writes_nothing() -> None:
    async with cluster() as c:
        for n in range(6):
            c.add_job(f"j{n}", 10 * n + 1, pods=1 + n % 2)
        assert await c.one_pass() > 0
        assert await c.one_pass() == 0
        await c.clock.advance(20)
        assert await c.one_pass() == 0


async def test_a_figure_is_written_once_a_minute_and_a_class_at_once() -> None:
    async with cluster(priority_step=0, priority_ratio=0) as c:
        c.publish(0, periodSeconds="1000")
        c.add_job("j", 10)
        assert await c.one_pass() == 2, "its budget and its pod"
        for seconds, writes in ((30, 0), (29, 0), (1, 1), (59, 0)):
            await c.clock.advance(seconds)
            assert await c.one_pass() == writes
        c.publish(100, periodSeconds="1000")
        assert await c.one_pass() == 1
        assert c.label("j") == PREEMPTIBLE


async def test_nothing_is_written_twice_while_the_watch_lags() -> None:
    async with cluster() as c:
        c.publish(0)
        c.add_job("j", 10)
        await c.caught_up()
        await c.prioritizer.writer.carry_out(await c.prioritizer.decide())
        again = await c.prioritizer.decide()  # before the informers have had a turn of the loop to hear of it
        assert not [*again.protect, *again.unprotect, *again.refresh]


async def test_while_victims_leave_a_pass_writes_little_and_what_protects_first() -> None:
    async with cluster(pressed_write_rate=2.0) as c:
        c.publish(50)
        for n in range(20):
            c.add_job(f"j{n:02}", 10 * n + 60)
        c.add_job("victim", 10)
        gone = {"deletionTimestamp": c.ago(0), "finalizers": ["scavenger.dev/interruption-record"]}
        c.api.edit(PODS, "lab", "victim-run-0", lambda o: o["metadata"].update(gone))
        await c.caught_up()
        left = await c.clock.run(c.prioritizer.writer.carry_out(await c.prioritizer.decide()), limit=7)
        assert left > 0
        assert 10 <= len(c.writes()) <= 12
        assert NON_PREEMPTIBLE in {c.label(f"j{n:02}") for n in range(20)}
        assert all("scavengerjobs" not in path for _, path in c.writes()), "people can wait"
        c.api.edit(PODS, "lab", "victim-run-0", lambda o: o["status"].update(phase="Failed"))
        await c.caught_up()
        await c.clock.advance(1)
        assert await c.prioritizer.writer.carry_out(await c.prioritizer.decide()) == 0


def preempt(c: Cluster, *jobs: str) -> None:
    """A scheduler gives their room to ordinary pods."""
    why = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    gone = {"deletionTimestamp": c.ago(0), "finalizers": ["scavenger.dev/interruption-record"]}
    for job in jobs:

        def leaves(pod: dict[str, Any]) -> None:
            pod["metadata"].update(gone)
            pod["status"].setdefault("conditions", []).append(why)

        c.api.edit(PODS, "lab", f"{job}-run-0", leaves)


async def test_in_a_burst_the_share_of_those_left_is_preemptible_at_once() -> None:
    """Forty jobs, half of them preemptible, and ordinary pods take the room of all twenty: the next ones need more."""
    async with cluster(pressed_write_rate=2.0) as c:
        c.publish(50, periodSeconds="1000")
        for n in range(40):
            c.add_job(f"j{n:02}", 10 * n + 60, class_=PREEMPTIBLE if n < 20 else NON_PREEMPTIBLE)
        preempt(c, *(f"j{n:02}" for n in range(20)))
        await c.caught_up()
        began = c.clock.monotonic()
        plan = await c.prioritizer.decide()
        writing = asyncio.ensure_future(c.prioritizer.writer.carry_out(plan))
        await until(c, lambda: {c.label(f"j{n:02}") for n in range(20, 30)} == {PREEMPTIBLE}, step=0.01)
        assert c.clock.monotonic() - began < 1.0, "at two writes a second these ten would have taken five"
        assert {c.label(f"j{n:02}") for n in range(30, 40)} == {NON_PREEMPTIBLE}
        await until(c, writing.done)


async def test_what_nobody_waits_for_is_left_when_there_is_something_new_to_decide() -> None:
    async with cluster(concurrent_writes=1) as c:
        c.publish(0, periodSeconds="1000")
        for n in range(8):
            c.add_job(f"j{n}", 10 * n + 60)
        await c.caught_up()
        plan = await c.prioritizer.decide()
        assert await c.prioritizer.writer.carry_out(plan, lambda: True) == 7, "the budget, and one pod"
        assert await c.prioritizer.writer.carry_out(await c.prioritizer.decide(), lambda: False) == 0


async def test_a_pass_is_outdated_when_the_next_one_is_due() -> None:
    async with cluster(debounce=1.0) as c:
        c.add_job("j", 60)
        await c.caught_up()
        await c.clock.advance(2)
        assert c.prioritizer._outdated()
        await c.prioritizer._loop.queue.get()  # as the loop does before it has the next pass decided
        assert not c.prioritizer._outdated()
        c.add_job("k", 60)
        await c.caught_up()
        assert not c.prioritizer._outdated(), "what comes together is decided together"
        await c.clock.advance(1)
        assert c.prioritizer._outdated()


async def test_a_pass_that_takes_long_is_decided_anew_and_then_by_what_is_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async with cluster() as c:
        client = c.prioritizer.writer._client
        answered = client.request

        async def late(method: str, path: str, **options: Any) -> bytes:
            await c.clock.sleep(2.0 * (method != "GET"))
            return await answered(method, path, **options)

        monkeypatch.setattr(client, "request", late)
        c.publish(0, periodSeconds="1000")
        for n in range(10):
            c.add_job(f"j{n}", 10 * n + 60)

        async def slow_pass() -> int:
            await c.caught_up()
            work = asyncio.ensure_future(c.prioritizer.writer.carry_out(await c.prioritizer.decide()))
            await until(c, work.done)
            return work.result()

        left = await slow_pass()
        protected = [n for n in range(10) if c.label(f"j{n}") == NON_PREEMPTIBLE]
        assert protected == [8, 9], "the budget and two pods in five seconds: one at a time, as nobody waits for them"
        assert left == 8, "pods"
        c.publish(100, periodSeconds="1000")
        await slow_pass()
        assert {c.label(f"j{n}") for n in range(10)} == {PREEMPTIBLE}, "what somebody waits for is done at once"


async def test_a_swap_protects_first() -> None:
    async with cluster(concurrent_writes=1) as c:
        c.publish(50)
        c.add_job("old", 1000)
        c.add_job("young", 10)
        await c.one_pass()
        assert (c.label("old"), c.label("young")) == (NON_PREEMPTIBLE, PREEMPTIBLE)
        # the old one writes a checkpoint: it is the cheaper one now
        checkpoint = {"annotations": {"scavenger.dev/last-checkpoint": c.ago(0)}}
        c.api.edit(PODS, "lab", "old-run-0", lambda o: o["metadata"].update(checkpoint))
        before = len(c.writes())
        await c.one_pass()
        assert (c.label("old"), c.label("young")) == (PREEMPTIBLE, NON_PREEMPTIBLE)
        assert [path.rpartition("/")[2] for _, path in c.writes()[before:]][:2] == [
            "young-run-0",
            "old-run-0",
        ]


async def test_the_budget_comes_before_the_first_and_goes_an_hour_after_the_last() -> None:
    async with cluster(concurrent_writes=1) as c:
        c.publish(0, periodSeconds="10000")
        c.add_job("j", 10)
        await c.one_pass()
        assert [m for m, path in c.writes() if names.DISRUPTION_BUDGET in path] == ["PATCH"]
        assert names.DISRUPTION_BUDGET in c.writes()[0][1]
        c.publish(100, periodSeconds="10000")
        await c.one_pass()
        assert c.label("j") == PREEMPTIBLE
        assert c.budgets() == {"lab"}
        await c.clock.advance(3600)
        await c.one_pass()
        assert c.writes()[-1][0] == "DELETE"
        assert c.budgets() == set()


async def test_one_budget_per_namespace_put_right_and_removed() -> None:
    async with cluster() as c:
        c.publish(0)
        c.add_job("a", 10, namespace="team-a")
        c.add_job("b", 10, namespace="team-b")
        c.add_job("b2", 10, namespace="team-b")
        await c.one_pass()
        assert c.budgets() == {"team-a", "team-b"}
        c.api.edit(PODDISRUPTIONBUDGETS, "team-a", names.DISRUPTION_BUDGET, lambda o: o["spec"].update(minAvailable=1))
        c.api.edit(SCAVENGERJOBS, "team-b", "b", lambda o: o["status"].update(phase="Completed"))
        c.api.remove(PODS, "team-b", "b-run-0")
        await c.one_pass()
        found = c.api.get(PODDISRUPTIONBUDGETS, "team-a", names.DISRUPTION_BUDGET)
        assert found is not None
        assert found["spec"] == BUDGET_SPEC
        assert c.budgets() == {"team-a", "team-b"}
        c.api.edit(SCAVENGERJOBS, "team-b", "b2", lambda o: o["status"].update(phase="Interrupted"))
        c.api.remove(PODS, "team-b", "b2-run-0")
        await c.one_pass()
        assert c.budgets() == {"team-a", "team-b"}, "for an hour"
        c.api.edit(PODDISRUPTIONBUDGETS, "team-b", names.DISRUPTION_BUDGET, lambda o: o["spec"].update(minAvailable=1))
        await c.one_pass()
        assert c.budgets() == {"team-a"}


async def test_a_budget_of_somebody_else_is_left_alone() -> None:
    async with cluster() as c:
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"minAvailable": 1}}
        c.api.put(PODDISRUPTIONBUDGETS, {**body, "metadata": {"name": "theirs", "namespace": "lab"}})
        c.publish(100)
        c.add_job("j", 10)
        await c.one_pass()
        assert c.budgets() == {"lab"}


async def test_nor_is_one_touched_that_has_the_name_of_ours() -> None:
    async with cluster() as c:
        c.publish(0)
        c.add_job("j", 10)
        mine = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        meta = {"name": names.DISRUPTION_BUDGET, "namespace": "lab", "labels": {"app": "web"}}
        with structlog.testing.capture_logs() as logged:
            c.api.put(PODDISRUPTIONBUDGETS, {"metadata": meta, "spec": mine})
            await c.one_pass()
        assert [line["namespace"] for line in logged if "another owner" in line["event"]] == ["lab"]
        c.api.remove(PODS, "lab", "j-run-0")
        await c.one_pass()
        found = c.api.get(PODDISRUPTIONBUDGETS, "lab", names.DISRUPTION_BUDGET)
        assert found is not None
        assert (found["spec"], found["metadata"]["labels"]) == (mine, {"app": "web"})
        c.api.remove(PODDISRUPTIONBUDGETS, "lab", names.DISRUPTION_BUDGET)
        c.add_job("k", 10)
        await c.one_pass()
        found = c.api.get(PODDISRUPTIONBUDGETS, "lab", names.DISRUPTION_BUDGET)
        assert found is not None
        assert found["spec"] == BUDGET_SPEC


async def test_a_drain() -> None:
    async with cluster() as c:
        c.publish(0, periodSeconds="1000")
        c.api.put(NODES, node_dict("n1"))
        c.api.put(NODES, node_dict("n2"))
        c.add_job("j1", 10, node="n1")
        c.add_job("j2", 10, node="n2")
        await c.one_pass()
        c.api.edit(NODES, None, "n1", lambda o: o["spec"].update(unschedulable=True))
        await c.one_pass()
        assert (c.label("j1"), c.label("j2")) == (PREEMPTIBLE, NON_PREEMPTIBLE)
        c.api.edit(NODES, None, "n1", lambda o: o["spec"].update(unschedulable=False))
        await c.one_pass()
        assert c.label("j1") == PREEMPTIBLE, "for a minute"
        await c.clock.advance(60)
        await c.one_pass()
        assert c.label("j1") == NON_PREEMPTIBLE


@pytest.mark.parametrize(
    "trouble",
    [
        {"state": "Blind"},
        {"state": "Garbage"},
        {"preemptiblePercentage": "NaN"},
        {"preemptiblePercentage": "1000"},
        {"observedAt": "2026-01-05T07:00:00Z"},
        {"periodSeconds": "-1"},
    ],
)
async def test_without_fresh_levels_the_classes_stay(trouble: dict[str, str]) -> None:
    async with cluster() as c:
        c.publish(50)
        for n in range(4):
            c.add_job(f"j{n}", 10 * n + 1)
        await c.one_pass()
        c.publish(100, **trouble)
        checkpoint = {"annotations": {"scavenger.dev/last-checkpoint": c.ago(0)}}
        c.api.edit(PODS, "lab", "j3-run-0", lambda o: o["metadata"].update(checkpoint))
        c.add_job("new", 1000)
        await c.one_pass()
        assert [c.label(f"j{n}") for n in range(4)] == [PREEMPTIBLE] * 2 + [NON_PREEMPTIBLE] * 2
        assert c.label("new") == PREEMPTIBLE
        assert c.budgets() == {"lab"}
        await eventually(lambda: [e["reason"] for e in c.api.list(EVENTS)] == ["ClassesKept"])
        c.publish(100)
        await c.one_pass()
        assert {c.label(f"j{n}") for n in range(4)} == {PREEMPTIBLE}
        await eventually(lambda: {e["reason"] for e in c.api.list(EVENTS)} == {"ClassesKept", "ClassesFollow"})


async def test_levels_going_away_and_coming_back() -> None:
    async with cluster() as c:
        c.publish(100)
        for n in range(3):
            c.add_job(f"j{n}", 10 * n + 1)
        await c.one_pass()
        assert c.budgets() == set()
        c.api.remove(CONFIGMAPS, SYSTEM, "scavenger-levels")
        await c.one_pass()
        assert [c.label(f"j{n}") for n in range(3)] == [PREEMPTIBLE, NON_PREEMPTIBLE, NON_PREEMPTIBLE]


async def test_a_prioritizer_that_starts_anew_goes_on_where_the_last_one_was() -> None:
    async with cluster() as c:
        c.publish(50)
        for n in range(4):
            c.add_job(f"j{n}", 10 * n + 1)
        await c.one_pass()
        successor = Cluster(c.api, c.clock)
        tasks = [asyncio.ensure_future(i.run()) for i in successor.prioritizer.informers]
        try:
            assert await successor.one_pass() == 0
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_limit_of_writes_leaves_the_rest_to_the_next_pass() -> None:
    async with cluster(max_writes=5) as c:
        c.publish(0)
        for n in range(6):
            c.add_job(f"j{n}", 10 * n + 1)
        await c.caught_up()
        assert await c.prioritizer.writer.carry_out(await c.prioritizer.decide()) == 2  # 1 budget, 6 pods
        assert [c.label(f"j{n}") for n in range(6)] == [PREEMPTIBLE] * 2 + [NON_PREEMPTIBLE] * 4
        assert await c.one_pass() == 2
        assert await c.one_pass() == 0
        assert {c.label(f"j{n}") for n in range(6)} == {NON_PREEMPTIBLE}


@pytest.mark.parametrize(("status", "reason"), [(409, "Conflict"), (404, "NotFound"), (403, "Forbidden")])
async def test_a_refused_write_stops_no_other_and_is_tried_again(status: int, reason: str) -> None:
    async with cluster() as c:
        c.publish(0)
        for n in range(3):
            c.add_job(f"j{n}", 10 * n + 1)
        c.api.fail(status, reason=reason, methods={"PATCH"}, path="/pods/j1-run-0")
        await c.one_pass()
        assert [c.label(f"j{n}") for n in range(3)] == [NON_PREEMPTIBLE, PREEMPTIBLE, NON_PREEMPTIBLE]
        assert await c.one_pass() == 1
        assert c.label("j1") == NON_PREEMPTIBLE


async def test_a_budget_that_is_refused_does_not_stop_the_labels() -> None:
    async with cluster() as c:
        c.publish(0)
        c.add_job("j", 10)
        c.api.fail(403, reason="Forbidden", methods={"PATCH"}, path="poddisruptionbudgets")
        await c.one_pass()
        assert c.label("j") == NON_PREEMPTIBLE
        assert await c.one_pass() == 1
        assert c.budgets() == {"lab"}


async def test_an_absent_api_server_ends_the_pass() -> None:
    async with cluster() as c:
        c.publish(0)
        for n in range(40):
            c.add_job(f"j{n:02}", 10 * n + 1)
        await c.caught_up()
        c.api.fail(503, times=1000, methods={"PATCH"})
        before = len(c.writes())
        with pytest.raises(Unavailable):
            await c.prioritizer.writer.carry_out(await c.prioritizer.decide())
        assert len(c.writes()) - before <= 16
        c.api.heal()
        await c.one_pass()
        assert {c.label(f"j{n:02}") for n in range(40)} == {NON_PREEMPTIBLE}


async def test_a_write_that_took_effect_unseen_is_harmless() -> None:
    async with cluster() as c:
        c.publish(0)
        c.add_job("j", 10)
        c.api.drop(methods={"PATCH"}, path="/pods/", after_write=True)
        await c.caught_up()
        with pytest.raises(Unavailable):
            await c.prioritizer.writer.carry_out(await c.prioritizer.decide())
        assert c.label("j") == NON_PREEMPTIBLE
        await c.one_pass()
        assert await c.one_pass() == 0


# --- the loop ---


async def test_the_loop_answers_news_within_the_debounce_and_is_quiet_otherwise() -> None:
    async with cluster(period=10.0, debounce=1.0) as c:
        c.publish(100)
        c.add_job("j", 10)
        async with passing(c):
            await c.clock.advance(2)
            assert c.writes() == []
            began = c.clock.monotonic()
            c.publish(0)
            await until(c, lambda: c.label("j") == NON_PREEMPTIBLE)
            assert c.clock.monotonic() - began <= 2.0
            quiet = len(c.writes())
            for _ in range(40):  # its figure moves by less than a step
                await c.clock.advance(1)
                await asyncio.sleep(0.001)
            assert len(c.writes()) == quiet


async def test_the_loop_survives_an_outage() -> None:
    async with cluster(period=5.0, debounce=0.5) as c:
        c.publish(0)
        c.add_job("j", 10)
        c.api.fail(503, times=3, methods={"PATCH"})
        async with passing(c):
            await until(c, lambda: c.label("j") == NON_PREEMPTIBLE)


async def test_stale_levels_are_noticed_by_the_clock_alone() -> None:
    async with cluster(period=10.0) as c:
        c.publish(0)
        c.add_job("j", 10)
        async with passing(c):
            await until(c, lambda: c.label("j") == NON_PREEMPTIBLE)
            await until(c, lambda: bool(c.api.list(EVENTS)), step=2.0)
            assert c.api.list(EVENTS)[0]["reason"] == "ClassesKept"
            assert c.label("j") == NON_PREEMPTIBLE


# --- reclaimed capacity ---


async def test_on_reclaimed_capacity_the_figure_is_what_was_really_used() -> None:
    async with cluster() as c:
        c.add_job("idle", 600, capacity="Reclaimed")
        c.add_job("busy", 300)
        c.measure("idle", "250m")
        c.measure("busy", "250m")
        await c.one_pass()
        assert (c.figure("idle"), c.figure("busy")) == ("600", "300"), "an estimate as long as nobody has looked"
        await c.prioritizer.usage.poll()
        await c.clock.advance(60)
        await c.one_pass()
        assert (c.figure("idle"), c.figure("busy")) == ("165", "360")
        assert (c.label("idle"), c.label("busy")) == (PREEMPTIBLE, NON_PREEMPTIBLE)


async def test_the_metrics_api_is_asked_only_while_there_is_something_to_measure() -> None:
    async with cluster() as c, passing(c):
        c.publish(0)
        c.add_job("guaranteed", 600)
        await until(c, lambda: c.figure("guaranteed") is not None)
        began = c.clock.monotonic()
        await until(c, lambda: c.clock.monotonic() > began + 100, step=1)
        assert c.polls() == 0
        c.add_job("j", 600, capacity="Reclaimed")
        c.measure("j", "100m")
        await until(c, lambda: c.polls() >= 2, step=1)
        await until(c, lambda: int(c.figure("j") or "9999") < 100, step=1)
        c.api.edit(SCAVENGERJOBS, "lab", "j", lambda o: o["status"].update(phase="Completed"))
        before, ended = c.polls(), c.clock.monotonic()
        await until(c, lambda: c.clock.monotonic() > ended + 100, step=1)
        assert c.polls() - before <= 1


async def test_who_begins_to_lead_measures_before_it_decides() -> None:
    async with cluster() as c:
        c.add_job("j", 600, capacity="Reclaimed")
        c.measure("j", "250m")
        async with passing(c):
            await until(c, lambda: c.figure("j") not in (None, "0"))
            assert 149 <= int(c.figure("j") or 0) <= 152


@pytest.mark.parametrize("status", [403, 404, 500, 503])
async def test_without_a_metrics_api_the_estimate_remains_and_it_is_said_once(
    status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    async with cluster() as c:
        c.add_job("j", 600, capacity="Reclaimed")
        c.measure("j", "250m")
        await c.one_pass()
        c.api.fail(status, times=2, methods={"GET"}, path="metrics.k8s.io")
        await c.prioritizer.usage.poll()
        await c.prioritizer.usage.poll()
        assert capsys.readouterr().out.count("is estimated: no metrics") == 1
        assert await c.one_pass() == 0
        assert c.figure("j") == "600"
        await c.prioritizer.usage.poll()
        await c.clock.advance(60)
        await c.one_pass()
        assert c.figure("j") == "165"


@pytest.mark.parametrize("name", ["usage", "neighbours"])
async def test_it_ends_when_what_it_does_beside_its_passes_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails() -> None:
        raise ValueError("a bug")

    async with cluster() as c:
        await c.caught_up()
        monkeypatch.setattr(getattr(c.prioritizer, name), "run", fails)
        with pytest.raises(ExceptionGroup) as raised:
            await asyncio.wait_for(c.prioritizer.run(), PATIENCE)
        assert raised.group_contains(ValueError, match="a bug")


# --- settings of all components ---


def say(c: Cluster, **data: str) -> None:
    c.api.put(CONFIGMAPS, settings_dict(**data))


async def test_a_change_of_the_weights_acts_at_once_without_a_restart() -> None:
    async with cluster(period=600) as c:
        c.publish(50, periodSeconds="1000")
        for name, resources in (("gpu", {"cpu": "1", "nvidia.com/gpu": "1"}), ("cpu", {"cpu": "8"})):
            c.add_job(name, 600)
            c.api.edit(PODS, "lab", f"{name}-run-0", partial(_ask, resources))
        async with passing(c):
            await until(c, lambda: (c.label("gpu"), c.label("cpu")) == (NON_PREEMPTIBLE, PREEMPTIBLE))
            began = c.clock.monotonic()
            say(c, resourceWeights="nvidia.com/gpu=2")
            # A job that has lost its protection is not protected again for a minute.
            await until(c, lambda: (c.label("gpu"), c.label("cpu")) == (PREEMPTIBLE, NON_PREEMPTIBLE))
            assert c.clock.monotonic() - began < 5
            say(c, resourceWeights="nvidia.com/gpu=lots")
            await c.clock.advance(70)
            assert (c.label("gpu"), c.label("cpu")) == (PREEMPTIBLE, NON_PREEMPTIBLE), "the last good value stays"


def _ask(requests: Mapping[str, str], pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["resources"] = {"requests": dict(requests)}


async def test_the_start_over_window_is_followed() -> None:
    async with cluster(period=600, start_over_window=None) as c:
        c.publish(0, periodSeconds="1000")
        c.add_job("j", 1800 + 90)
        async with passing(c):
            await until(c, lambda: c.label("j") == NON_PREEMPTIBLE)
            say(c, startOverWindowSeconds="600")
            await until(c, lambda: c.label("j") == PREEMPTIBLE)
