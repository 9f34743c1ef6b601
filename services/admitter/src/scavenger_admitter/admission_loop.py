"""The admission loop: takes a snapshot, has it planned, and hands out the plan.

One cycle at a time, at most one every `admission_interval`. It writes nothing and calls no other part:
`admission_feed.py` applies what follows from a plan. A grant takes the capacity and goes to the job's record. The job's
reconcile creates the Job (`writer.py`), waits for no other job's, and tells the lifecycle what the API server said.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import Final

from scavenger_api.job import Phase
from scavenger_api.levels import LevelsView
from scavenger_api.levels_text import DEFAULT_POOL
from scavenger_api.shared_settings import SharedSettings
from scavenger_api.times import micros
from scavenger_runtime.clock import Clock
from scavenger_runtime.write_budget import WriteBudget

from scavenger_admitter import metrics
from scavenger_admitter.core.admission.cycle.fair_share_preemption import PreemptionRules
from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, Measurement, Start, plan_admissions
from scavenger_admitter.core.admission.cycle.starvation import MeasuredJob, StarvationPlan, StarvationRules
from scavenger_admitter.core.admission.load import PPM, LoadRule
from scavenger_admitter.core.admission.shares import QueueShare
from scavenger_admitter.core.admission.snapshot import Candidate, Snapshot
from scavenger_admitter.core.admission.units import SECOND
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_admitter.core.waits import Wait
from scavenger_admitter.create_limiter import CreateLimiter
from scavenger_admitter.facts import run_of
from scavenger_admitter.informers import Informers
from scavenger_admitter.settings import AdmitterSettings
from scavenger_admitter.wakeups import Wakeups

IDLE_SHARE: Final = 4.0
"""Seconds without a cycle per second of one."""

LEAST_INTERVAL: Final = 0.05
"""Seconds between two looks whether starts have been answered."""


def load_rule(view: LevelsView, settings: AdmitterSettings, now: int) -> LoadRule:
    """The load rule of a cycle at `now` (microseconds) from what the regulator publishes, or from its absence."""
    return LoadRule.of(
        view,
        now,
        fallback_percent=settings.fallback_admission_percent,
        counted_with_candidate=settings.count_candidate,
    )


def preemption_rules(settings: AdmitterSettings, shared: SharedSettings) -> PreemptionRules:
    """How a cycle judges running jobs. shared: what all components read alike, at its beginning."""
    return PreemptionRules(
        period=round(settings.reclaim_period * SECOND),
        startup_cost=shared.startup_cost,
        trusted=shared.trusted_interval,
        weights=shared.resource_weights,
        minimum_run=shared.minimum_run,
        gangs=settings.reclaim_gangs,
    )


class AdmissionLoop:
    """Runs admission cycles whenever something changed that could let a job start.

    Args:
        state: the cluster as the informers have shown it.
        settings: of the admitter.
        clock: for `now` and the pace.
        informers: what the regulator publishes, what all components read alike, and the newest known version of each
            ScavengerJob.
        limiter: how many starts are in flight, and in which namespaces no job may start: jobs of others would queue
            behind creates that hang, and their own would pass each other when the API server answers again.
        budget: of writes; under pressure a cycle chooses no more than can be started in a second or so.
        wakeups: says when something changed that could let a job start.

    Attributes:
        held: why the last cycle left each waiting job waiting.
        shares: what each queue has and deserves, as of the last cycle.
        unserved: jobs within their queue's share wait for capacity; time alone may change which jobs are asked for it.
    """

    def __init__(
        self,
        *,
        state: ClusterState,
        settings: AdmitterSettings,
        clock: Clock,
        informers: Informers,
        limiter: CreateLimiter,
        budget: WriteBudget,
        wakeups: Wakeups,
    ) -> None:
        self._state = state
        self._settings = settings
        self._clock = clock
        self._informers = informers
        self._limiter = limiter
        self._budget = budget
        self._wakeups = wakeups
        self._starvation_rules = StarvationRules(
            share=settings.starved_share,
            after=round(settings.starved_after * SECOND),
            patience=settings.starved_patience,
        )
        self._measured_jobs: tuple[MeasuredJob, ...] | None = None
        self._starvation = StarvationPlan()
        self._moving: dict[str, tuple[str, Candidate]] = {}
        self.held: Mapping[str, Wait] = {}
        self.shares: Mapping[str, QueueShare] = {}
        self.unserved = False

    def record_usage(self, measured: Iterable[MeasuredJob]) -> None:
        """What running jobs on reclaimed capacity use was measured: the next cycle looks for starved ones."""
        self._measured_jobs = tuple(measured)
        self._wakeups.admit()

    async def plans(self) -> AsyncIterator[AdmissionPlan]:
        """Run cycles without end. Each plan is to be applied before the next one is asked for."""
        wake = self._wakeups.admission
        while True:
            await wake.wait()
            # Starts that are not answered yet are waited for, as long as they do not hang: the jobs that the cycle
            # before chose would be overtaken, and queued jobs find out sooner where there is capacity.
            self._limiter.skip_hanging()
            while self._affordable_starts() < 1:
                await self._clock.sleep(max(LEAST_INTERVAL, self._settings.admission_interval))
                self._limiter.skip_hanging()
            wake.clear()
            began = self._clock.monotonic()
            plan = await self.cycle()
            yield plan
            if plan.truncated:
                wake.set()
            # In a large cluster something happens all the time: cycles take a fifth of it at the most.
            took = self._clock.monotonic() - began
            await self._clock.sleep(max(self._settings.admission_interval, IDLE_SHARE * took))

    def _affordable_starts(self) -> int:
        """How many more jobs may be started now: a grant holds capacity until its turn to be written."""
        most = min(self._settings.max_starts_per_cycle, self._budget.affordable(1.0))
        return most - self._limiter.in_flight()

    async def cycle(self) -> AdmissionPlan:
        """One cycle: have a snapshot planned.

        The plan is computed in a thread, so that meanwhile the Lease is renewed, probes are answered and jobs
        reconciled: the snapshot shares nothing that changes. So the plan follows from what was true when the cycle
        began, which is safe, as no more is granted than still holds (`AdmissionFeed.apply`):
        - a job that is gone, changed, started or held back meanwhile is not queued as it was, and is left out;
        - where the regulator has closed admission meanwhile, no job starts;
        - capacity is taken from the state that the next cycle sees, so none is granted twice. Capacity that regular
          pods or a lost node took meanwhile is missing to starts of this one cycle. Their pods are not placed, displace
          no pod, as they preempt none, and are taken back after `unschedulable_after`.
        """
        started = self._clock.monotonic()
        now = self._clock.now()
        rule = load_rule(self._informers.levels_view(), self._settings, micros(now))
        snapshot = self._state.snapshot(now=micros(now), rule=rule, closed=self._limiter.saturated_namespaces())
        measurement = self._measurement()
        plan = await asyncio.to_thread(
            plan_admissions,
            snapshot,
            max_starts_per_cycle=max(1, self._affordable_starts()),
            rules=preemption_rules(self._settings, self._informers.shared.current),
            measurement=measurement,
            patience=round(self._settings.keep_turn_after * SECOND) or None,
            arrays_keep_place=self._settings.arrays_keep_place,
        )
        self.held, self.shares, self.unserved = plan.held, plan.shares, plan.unserved
        _show(snapshot, plan, self._clock.monotonic() - started)
        if plan.starvation is not None and measurement is not None:
            self._follow_starved(plan.starvation, measurement)
        return self._still_open(plan, snapshot) if plan.starts else plan

    def _still_open(self, plan: AdmissionPlan, snapshot: Snapshot) -> AdmissionPlan:
        """The plan without starts in pools of nodes that the regulator has shut meanwhile."""
        rule = load_rule(self._informers.levels_view(), self._settings, micros(self._clock.now()))
        shut = rule.shut_pools
        if not shut:
            return plan
        pools = rule.pools.keys()

        def stays(start: Start) -> bool:
            views = [view for node in start.nodes if (view := snapshot.nodes.get(node)) is not None]
            return not any((view.pool if view.pool in pools else "") in shut for view in views)

        return replace(plan, starts=tuple(start for start in plan.starts if stays(start)))

    def _follow_starved(self, starvation: StarvationPlan, measurement: Measurement) -> None:
        if self._measured_jobs is measurement.jobs:  # else there are newer figures, which the next cycle looks at
            self._measured_jobs = None
        self._starvation = starvation
        for starved in starvation.interrupt:
            job = self._informers.job(starved.key)
            if job is not None:
                self._moving[starved.key] = (run_of(job), starved.candidate)

    def _measurement(self) -> Measurement | None:
        if self._measured_jobs is None:
            return None
        for key, (run, candidate) in list(self._moving.items()):
            if not self._moves(key, run, candidate.uid):
                del self._moving[key]
        moving = tuple(candidate for _, candidate in self._moving.values())
        return Measurement(self._measured_jobs, self._starvation, self._starvation_rules, moving)

    def _moves(self, key: str, run: str, uid: str) -> bool:
        """Whether a job that was starved in that run is still on its way to another start."""
        job = self._informers.job(key)
        if job is None or job.metadata.uid != uid:
            return False
        return job.status.phase is Phase.INTERRUPTED or (job.status.phase is Phase.RUNNING and run_of(job) == run)


def _show(snapshot: Snapshot, plan: AdmissionPlan, seconds: float) -> None:
    """The figures of a cycle on /metrics."""
    metrics.CYCLE_SECONDS.observe(seconds)
    for gauge in (metrics.LOAD, metrics.LEVEL) if snapshot.limits else ():
        gauge.clear()  # pools come and go
    for limit in snapshot.limits:
        pool = limit.pool or DEFAULT_POOL
        metrics.LOAD.labels(limit.resource, pool).set(limit.ppm() / PPM)
        metrics.LEVEL.labels(limit.resource, pool).set(limit.admission_ppm / PPM)
    metrics.LINE.clear()
    for queue, line in snapshot.candidates.items():
        metrics.LINE.labels(metrics.queue_label(queue, snapshot.queues)).inc(len(line))
    metrics.ORDINARY_WAITING.set(len(snapshot.pending))
    metrics.HELD.clear()
    for reason, count in Counter(hold.reason for hold in plan.held.values()).items():
        metrics.HELD.labels(reason).set(count)
