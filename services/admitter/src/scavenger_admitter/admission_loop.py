"""The admission loop: takes a snapshot, has it planned, starts what was chosen.

One cycle at a time, at most one every `admission_interval`. Starting a job is one write, the Job (two for a gang, whose
headless Service comes first); its phase follows when the reconcile sees that Job. The Job bears the name of the
ScavengerJob, so the API server itself sees to it that nothing is started twice, whoever tries.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from scavenger_api.job import Phase, ScavengerJob
from scavenger_api.levels import LevelsView, Visibility
from scavenger_api.names import LEVELS_RESOURCES
from scavenger_api.times import micros
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import AlreadyExists, ApiError, Forbidden, Invalid, NotFound
from scavenger_kube.resources import JOBS, SERVICES
from scavenger_runtime import Clock
from scavenger_runtime.logging import get_logger

from scavenger_admitter import metrics
from scavenger_admitter.core.admission.fair_share_preemption import SECOND, FairSharePreemption, PreemptionRules
from scavenger_admitter.core.admission.load import Level, LoadRule
from scavenger_admitter.core.admission.plan import AdmissionPlan, Measurement, Start, plan_admissions
from scavenger_admitter.core.admission.shares import QueueShare
from scavenger_admitter.core.admission.snapshot import Candidate, Snapshot
from scavenger_admitter.core.admission.starvation import MeasuredJob, StarvationRules, Starved
from scavenger_admitter.core.admission.state import ClusterState
from scavenger_admitter.core.lifecycle.start_failures import Refusal
from scavenger_admitter.core.manifest import job_manifest, service_manifest
from scavenger_admitter.core.waits import Wait
from scavenger_admitter.facts import run_of
from scavenger_admitter.settings import AdmitterSettings

IDLE_SHARE: Final = 4.0
"""Seconds without a cycle per second of one."""

log = get_logger(__name__)


def load_rule(view: LevelsView, settings: AdmitterSettings, now: int) -> LoadRule:
    """The load rule of a cycle at `now` (microseconds) from what the regulator publishes, or from its absence."""
    counted = settings.count_candidate
    if view.visibility is Visibility.ABSENT:
        return LoadRule.fixed(settings.fallback_admission_percent, counted_with_candidate=counted)
    if view.visibility is not Visibility.FRESH or view.levels is None or view.observed_at is None:
        return LoadRule.blind(view.reason)
    levels = {
        resource: Level(load=load, admission=admission, gives_way=view.gives_way(resource))
        for resource in LEVELS_RESOURCES
        if (load := view.load(resource)) is not None and (admission := view.admission(resource)) is not None
    }
    return LoadRule.published(
        levels,
        observed_at=micros(view.observed_at),
        unseen_since=micros(view.unseen_since or view.observed_at),
        now=now,
        period_seconds=view.levels.period_seconds,
        admit=view.admit,
        state=view.levels.state,
        closed_nodes=view.closed_nodes,
        crowded_nodes=view.crowded_nodes,
        counted_with_candidate=counted,
    )


class AdmissionLoop:
    """Runs admission cycles whenever something changed that could let a job start.

    Args:
        client: to create Jobs with.
        state: the cluster as the informers have shown it.
        settings: of the admitter.
        clock: for `now` and the pace.
        levels: what the regulator publishes at this moment.
        job: the newest known version of a ScavengerJob, None when it is gone.
        started: told key and run of each job whose Job was created, or was there already, or may have been created.
        refused: told key and run of each job whose Job the API server did not take, and why.
        preempted: told which running jobs are to be interrupted, before anything else happens.
        starved: told the same of those that get too little CPU.
    """

    def __init__(
        self,
        *,
        client: ApiClient,
        state: ClusterState,
        settings: AdmitterSettings,
        clock: Clock,
        levels: Callable[[], LevelsView],
        job: Callable[[str], ScavengerJob | None],
        started: Callable[[str, str], None],
        refused: Callable[[str, str, Refusal], None],
        preempted: Callable[[FairSharePreemption], None],
        starved: Callable[[Starved], None],
    ) -> None:
        self._client = client
        self._state = state
        self._settings = settings
        self._clock = clock
        self._levels = levels
        self._job = job
        self._started = started
        self._refused = refused
        self._preempted = preempted
        self._starved = starved
        self._rules = PreemptionRules(
            period=round(settings.reclaim_period * SECOND), startup_cost=round(settings.startup_cost * SECOND)
        )
        self._starvation_rules = StarvationRules(
            share=settings.starved_share,
            after=round(settings.starved_after * SECOND),
            patience=settings.starved_patience,
        )
        self._measured_jobs: tuple[MeasuredJob, ...] | None = None
        self._starved_since: Mapping[str, int] = {}
        self._moving: dict[str, tuple[str, Candidate]] = {}
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(settings.concurrent_starts)
        self._creating: set[str] = set()
        self.held: Mapping[str, Wait] = {}
        """Why the last cycle left each waiting job waiting."""
        self.shares: Mapping[str, QueueShare] = {}
        """What each queue has and deserves, as of the last cycle."""
        self.unserved = False
        """Jobs within their queue's share wait for room; time alone may change who is asked for it."""

    def wake(self) -> None:
        """Something changed that may let a job start; coalesced."""
        self._wake.set()

    def record_usage(self, measured: Iterable[MeasuredJob]) -> None:
        """What running jobs on reclaimed capacity use was measured: the next cycle looks for starved ones."""
        self._measured_jobs = tuple(measured)
        self.wake()

    def is_creating(self, key: str) -> bool:
        """Whether the Job of that job is being created at this moment."""
        return key in self._creating

    async def run(self) -> None:
        """Run cycles until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            began = self._clock.monotonic()
            plan = await self.cycle()
            if plan.truncated:
                self._wake.set()
            # In a large cluster something happens all the time: cycles take a fifth of it at the most.
            took = self._clock.monotonic() - began
            await self._clock.sleep(max(self._settings.admission_interval, IDLE_SHARE * took))

    async def cycle(self) -> AdmissionPlan:
        """One cycle: plan, then start what was chosen and wait until the API server has answered for all of it."""
        started = self._clock.monotonic()
        now = self._clock.now()
        rule = load_rule(self._levels(), self._settings, micros(now))
        snapshot = self._state.snapshot(now=micros(now), rule=rule)
        most = self._settings.max_starts_per_cycle
        plan = plan_admissions(snapshot, max_starts_per_cycle=most, rules=self._rules, measurement=self._measurement())
        self.held, self.shares, self.unserved = plan.held, plan.shares, plan.unserved
        _show(snapshot, plan, self._clock.monotonic() - started)
        metrics.RECLAIMED_CPU.set(self._state.reclaimed.get("cpu", 0) / 1000)
        for preemption in plan.preemptions:
            self._preempted(preemption)
        if plan.starvation is not None:
            self._measured_jobs, self._starved_since = None, plan.starvation.since
            metrics.STARVED.set(len(plan.starvation.since))
            for starved in plan.starvation.interrupt:
                job = self._job(starved.key)
                if job is not None:
                    self._moving[starved.key] = (run_of(job), starved.candidate)
                self._starved(starved)
        if plan.starts:
            # Room is taken before the first await: the next event must not find it free.
            work = [self._assume(start) for start in plan.starts]
            await asyncio.gather(*(self._start(start, job) for start, job in work if job is not None))
        return plan

    def _measurement(self) -> Measurement | None:
        if self._measured_jobs is None:
            return None
        for key, (run, candidate) in list(self._moving.items()):
            if not self._moves(key, run, candidate.uid):
                del self._moving[key]
        moving = tuple(candidate for _, candidate in self._moving.values())
        return Measurement(self._measured_jobs, self._starved_since, self._starvation_rules, moving)

    def _moves(self, key: str, run: str, uid: str) -> bool:
        """Whether a job that was starved in that run is still on its way to another start."""
        job = self._job(key)
        if job is None or job.metadata.uid != uid:
            return False
        return job.status.phase is Phase.INTERRUPTED or (job.status.phase is Phase.RUNNING and run_of(job) == run)

    def _assume(self, start: Start) -> tuple[Start, ScavengerJob | None]:
        candidate = start.candidate
        job = self._job(candidate.key)
        self._state.delete_candidate(candidate.key)
        if job is None or job.metadata.uid != candidate.uid:
            return start, None
        self._creating.add(candidate.key)
        self._state.assumed_starts.assume(
            candidate.key,
            run_of(job),
            candidate.shape,
            candidate.parallelism,
            queue=candidate.queue,
            nodes=start.nodes,
        )
        return start, job

    async def _start(self, start: Start, job: ScavengerJob) -> None:
        async with self._slots:
            try:
                await self._create(job)
            except AlreadyExists:
                # Ours from before a restart, or somebody else's: the reconcile looks and decides.
                self._started(start.key, run_of(job))
            except NotFound:
                self._state.assumed_starts.forget(start.key)  # the namespace is going away
            except ApiError as error:
                self._give_back(start, job, error)
            else:
                metrics.STARTS.labels(job.spec.queue).inc()
                log.info(
                    "started",
                    job=start.key,
                    queue=job.spec.queue,
                    pods=job.spec.parallelism,
                    interrupted=job.status.interrupted_count,
                    nodes=sorted(set(start.nodes)),
                    load_percent={name: ppm / 10_000 for name, ppm in start.load_ppm},
                )
                self._started(start.key, run_of(job))
            finally:
                self._creating.discard(start.key)

    async def _create(self, job: ScavengerJob) -> None:
        namespace = job.metadata.namespace
        service = service_manifest(job)
        if service is not None:
            with contextlib.suppress(AlreadyExists):  # from the run before; it stays as long as the ScavengerJob does
                await self._client.create(SERVICES, namespace, service)
        manifest = job_manifest(
            job,
            restarts=job.status.interrupted_count,
            run=run_of(job),
            max_grace_seconds=self._settings.max_termination_grace_period_seconds,
        )
        await self._client.create(JOBS, namespace, manifest)

    def _give_back(self, start: Start, job: ScavengerJob, error: ApiError) -> None:
        """The Job was refused, or may not have been created. What becomes of the job is decided by the reconcile."""
        log.warning("start refused", job=start.key, queue=job.spec.queue, reason=error.reason, error=str(error))
        if isinstance(error, Invalid | Forbidden):
            self._state.assumed_starts.forget(start.key)
            self._refused(start.key, run_of(job), Refusal(str(error), permanent=isinstance(error, Invalid)))
        else:
            # Unreachable or overloaded: says nothing about this job. The Job may have been created all the same, so
            # its room stays taken until its event shows it, or it is tried again and found there.
            self._started(start.key, run_of(job))


def _show(snapshot: Snapshot, plan: AdmissionPlan, seconds: float) -> None:
    """The figures of a cycle on /metrics."""
    metrics.CYCLES.inc()
    metrics.CYCLE_SECONDS.observe(seconds)
    for limit in snapshot.limits:
        metrics.LOAD.labels(limit.resource).set(limit.ppm() / 10_000)
        metrics.LEVEL.labels(limit.resource).set(limit.admission_ppm / 10_000)
    metrics.LINE.clear()
    for queue, line in snapshot.candidates.items():
        metrics.LINE.labels(queue).set(len(line))
    metrics.HELD.clear()
    for reason, count in Counter(hold.reason for hold in plan.held.values()).items():
        metrics.HELD.labels(reason).set(count)
