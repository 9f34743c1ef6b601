"""What measuring the use of pods, and recommending requests by it, costs the admitter: 5,000 nodes.

The answers of the metrics API are those of metrics-server, made beforehand. Reading them, the books of all jobs, the
cycle and the recommendations are the real ones. There is no network, and nothing is written.

  * cycle_overhead_ratio: CPU time of an admission cycle with 50,000 jobs that wait, its snapshot included, while 10,000
    pods of as many jobs are measured every 30 s, as by default ÷ the same without, in turns.
  * event_loop_block_ms: the longest that the event loop was held up by two rounds of 100,000 pods of 10,000 jobs, the
    recommendations for 500 starts between them.
  * round_10000_pods_ms, round_100000_pods_ms: CPU time of a round.
  * recommendation_ms: one recommendation by 50 other jobs. One is made for each start of a job that asks for it.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from contextlib import suppress
from typing import Any, Final, cast

from scavenger_admitter.core.admission.cycle.plan import plan_admissions
from scavenger_admitter.core.admission.load import LoadRule
from scavenger_admitter.informers import Informers
from scavenger_admitter.job_record import JobRecords
from scavenger_admitter.jobs_followed import INDICES
from scavenger_admitter.recommendations import MOST_KIN, Recommendations
from scavenger_admitter.usage import UsagePoller
from scavenger_api import names
from scavenger_api.job import ScavengerJob
from scavenger_api.times import format_time
from scavenger_kube.client import ApiClient
from scavenger_kube.kinds import Container, ObjectMeta, Pod, PodSpec, PodStatus, Resources
from scavenger_runtime.cache import Cache
from scavenger_runtime.clock import SystemClock
from scavenger_runtime.service import tune_interpreter
from scavenger_runtime.threads import in_thread
from scavenger_runtime.usage import MetricsApiUsage
from scavenger_testing import scavengerjob_dict

from bench.admitter.bench_scale import MOST_STARTS, NODES, NOW, held_up, prepared

CASE: Final = "plan_5000_nodes_50000_waiting"
JOBS: Final = 10_000
KIN: Final = 200
"""Of them have figures."""
GANG: Final = 10
"""Pods of each of them, where 100,000 are measured."""
NS: Final = "team"
PERIOD_SECONDS: Final = 30.0
TURNS: Final = 3
CREATED: Final = "2026-01-01T00:00:00Z"
USAGE: Final = {
    "podSeconds": 40_000,
    "runs": 12,
    "cpu": {"requested": "2", "p50": "250m", "p95": "290m", "max": "300m", "typical": "290m"},
    "memory": {"requested": "1Gi", "p50": "90Mi", "p95": "100Mi", "max": "100Mi", "typical": "100Mi"},
}

Figure = dict[str, Any]


class _MetricsServer:
    """Answers at once with figures of now."""

    def __init__(self, pods: list[Pod]) -> None:
        items = [
            f'{{"metadata":{{"name":"{pod.metadata.name}","namespace":"{NS}","labels":{{"{names.LABEL_JOB}":"x"}}}},'
            f'"timestamp":"@","window":"15.2s","containers":[{{"name":"main","usage":'
            f'{{"cpu":"{100_000_000 + 7919 * number}n","memory":"{100_000 + number}Ki"}}}}]}}'
            for number, pod in enumerate(pods)
        ]
        self._body = ('{"kind":"PodMetricsList","items":[' + ",".join(items) + "]}").encode()
        self.answers: list[bytes] = []

    def make(self, answers: int, every: float) -> None:
        """Have answers ready, each so many seconds after the one before."""
        begun = SystemClock().now().timestamp()
        stamps = [format_time(SystemClock().now().fromtimestamp(begun + every * one)) for one in range(answers)]
        self.answers = [self._body.replace(b'"@"', f'"{stamp}"'.encode()) for stamp in stamps]

    async def request(self, *_: Any, **__: Any) -> bytes:
        """The next one."""
        return self.answers.pop(0) if self.answers else b'{"items":[]}'


class _Shown:
    """What informers show of jobs that run, and the rounds of the admitter over it."""

    def __init__(self, pods_of_each: int) -> None:
        one = ScavengerJob.model_validate(
            scavengerjob_dict("x", namespace=NS, cpu="2", phase="Running", status={"usage": USAGE})
        )
        runs = one.status.model_copy(update={"usage": None})
        self.pods: Cache[Pod] = Cache({})
        self.jobs: Cache[ScavengerJob] = Cache(INDICES)
        for number in range(JOBS):
            name = f"job-{number:05}"
            meta = one.metadata.model_copy(update={"name": name, "uid": f"u-{name}"})
            status = one.status if number < KIN else runs
            self.jobs.put(one.model_copy(update={"metadata": meta, "status": status}))
            for index in range(pods_of_each):
                self.pods.put(_pod(name, index))
        informers = Informers.__new__(Informers)
        shown = {"pods": self.pods, "jobs": self.jobs, "queues": Cache({}), "_records": JobRecords(SystemClock())}
        for field, value in shown.items():
            setattr(informers, field, value)
        self.informers = informers
        self.server = _MetricsServer(list(self.pods))
        source = MetricsApiUsage(cast("ApiClient", self.server), 10.0)
        self.poller = UsagePoller(source, SystemClock(), informers, period=PERIOD_SECONDS)


def _pod(job: str, index: int) -> Pod:
    labels = {names.LABEL_JOB: job, names.LABEL_QUEUE: "queue-0"}
    meta = ObjectMeta(
        name=f"{job}-{index}",
        namespace=NS,
        uid=f"{job}-{index}",
        labels=labels,
        annotations={names.ANNOTATION_RUN: "r"},
        creation_timestamp=CREATED,
    )
    asked = Resources(requests={"cpu": "2", "memory": "1Gi"})
    node = f"node-{hash(job) % NODES:05}"
    return Pod(
        metadata=meta,
        spec=PodSpec(node_name=node, containers=(Container(resources=asked),)),
        status=PodStatus(phase="Running", start_time=CREATED),
    )


async def _rounds(shown: _Shown) -> None:
    async for _ in shown.poller.rounds():
        pass


async def cycle_seconds(shown: _Shown) -> tuple[float, float]:
    """CPU seconds of a cycle while pods are measured, and without; each over one period, with all that the process does
    meanwhile."""
    state = prepared(CASE)
    gc.collect()

    async def cycles() -> float:
        count, begun, until = 0, time.process_time(), time.perf_counter() + PERIOD_SECONDS
        while time.perf_counter() < until:
            snapshot = state.snapshot(now=NOW, rule=LoadRule.fixed(99))
            await in_thread(plan_admissions, snapshot, max_starts_per_cycle=MOST_STARTS)
            count += 1
        return (time.process_time() - begun) / count

    await cycles()
    with_, without = [], []
    for _ in range(TURNS):
        shown.server.make(2, PERIOD_SECONDS)
        rounds = asyncio.create_task(_rounds(shown))
        with_.append(await cycles())
        rounds.cancel()
        with suppress(asyncio.CancelledError):
            await rounds
        without.append(await cycles())
    return statistics.median(with_), statistics.median(without)


def _round_seconds(shown: _Shown) -> float:
    """CPU seconds of one round, after a first one."""
    shown.server.make(2, 30.0)
    found = []
    for _ in range(2):
        begun = time.process_time()
        asyncio.run(_once(shown))
        found.append(time.process_time() - begun)
    return found[1]


async def _once(shown: _Shown) -> None:
    await shown.poller._round()


def _recommend(shown: _Shown, times: int) -> float:
    """Seconds of one recommendation, for a job of which all others are kin."""
    wants = scavengerjob_dict("new", namespace=NS, cpu="2", phase="Waiting", resourcesFrom="Recommended", uid="new")
    recommendations = Recommendations(shown.informers, shown.poller.used, 0.1)
    job = ScavengerJob.model_validate(wants)
    begun = time.perf_counter()
    for _ in range(times):
        found = recommendations.of(job)
    if found is None or found.cpu is None:
        raise AssertionError(f"by {MOST_KIN} kin something is known")
    return (time.perf_counter() - begun) / times


def run() -> list[Figure]:
    """The figures for bench.json."""
    tune_interpreter()
    few = _Shown(1)
    with_, without = asyncio.run(cycle_seconds(few))
    of_few, advice = _round_seconds(few), _recommend(few, 100)
    del few
    many = _Shown(GANG)
    of_many = _round_seconds(many)
    many.server.make(2, 30.0)

    async def rounds() -> None:
        await _once(many)
        for _ in range(MOST_STARTS):  # each in a reconcile of its own
            _recommend(many, 1)
            await asyncio.sleep(0)
        await _once(many)

    worst = asyncio.run(held_up(rounds))
    return [
        _figure("cycle_overhead_ratio", round(with_ / without, 3), "ratio", "<= 1.1"),
        _figure("cycle_seconds", round(without, 3), "s", ""),
        _figure("event_loop_block_ms", round(1000 * worst), "ms", "<= 100"),
        _figure("round_10000_pods_ms", round(1000 * of_few), "ms", ""),
        _figure("round_100000_pods_ms", round(1000 * of_many), "ms", ""),
        _figure("recommendation_ms", round(1000 * advice, 2), "ms", ""),
    ]


def _figure(name: str, value: float, unit: str, goal: str) -> Figure:
    return {"name": f"sizes.{name}", "value": value, "unit": unit, "goal": goal}
