"""The admission loop: takes a snapshot, has it planned, grants room to whom the plan has chosen.

One cycle at a time, at most one every `admission_interval`. It writes nothing: a grant takes the room and goes to the
job's record, and the job's reconcile creates the Job (`writer.py`), waits for nobody else's, and tells the lifecycle
what the API server said.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from scavenger_api.job import Phase, ScavengerJob
from scavenger_api.levels import LevelsView
from scavenger_api.times import micros
from scavenger_api.weights import weights_of
from scavenger_runtime.clock import Clock
from scavenger_runtime.write_budget import WriteBudget

from scavenger_admitter import metrics
from scavenger_admitter.core.admission.cycle.fair_share_preemption import FairSharePreemption, PreemptionRules
from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, Measurement, Start, plan_admissions
from scavenger_admitter.core.admission.cycle.starvation import MeasuredJob, StarvationPlan, StarvationRules, Starved
from scavenger_admitter.core.admission.load import PPM, LoadRule
from scavenger_admitter.core.admission.shares import QueueShare
from scavenger_admitter.core.admission.snapshot import Candidate, Snapshot
from scavenger_admitter.core.admission.units import SECOND
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_admitter.core.waits import Wait
from scavenger_admitter.facts import run_of
from scavenger_admitter.settings import AdmitterSettings

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


class AdmissionLoop:
    """Runs admission cycles whenever something changed that could let a job start.

    Args:
        state: the cluster as the informers have shown it.
        settings: of the admitter.
        clock: for `now` and the pace.
        levels: what the regulator publishes at this moment.
        job: the newest known version of a ScavengerJob, None when it is gone.
        granted: told of each job that is to be started; takes its room at once.
        under_way: how many starts were granted lately and are not known to have come off or failed.
        closed: the namespaces of which nobody is granted anything, and since how many seconds the API server has not
            answered the creation of Jobs there. Others would stand in line behind them, and they themselves pass each
            other when it answers again.
        may_start: whether another job of this namespace may be granted its start.
        preempted: told which running jobs are to be interrupted, before anything else happens.
        starved: told the same of those that get too little CPU.
        budget: of writes; under pressure a cycle chooses no more than can be started in a second or so.
    """

    def __init__(
        self,
        *,
        state: ClusterState,
        settings: AdmitterSettings,
        clock: Clock,
        levels: Callable[[], LevelsView],
        job: Callable[[str], ScavengerJob | None],
        granted: Callable[[Start], None],
        under_way: Callable[[], int],
        closed: Callable[[], Mapping[str, float]],
        may_start: Callable[[str], bool],
        preempted: Callable[[FairSharePreemption], None],
        starved: Callable[[Starved], None],
        budget: WriteBudget,
    ) -> None:
        self._state = state
        self._settings = settings
        self._clock = clock
        self._levels = levels
        self._job = job
        self._granted = granted
        self._under_way = under_way
        self._closed = closed
        self._may_start = may_start
        self._preempted = preempted
        self._starved = starved
        self._budget = budget
        self._rules = PreemptionRules(
            period=round(settings.reclaim_period * SECOND),
            startup_cost=round(settings.startup_cost * SECOND),
            trusted=round(settings.trusted_interval * SECOND),
            weights=weights_of(settings.resource_weights),
        )
        self._starvation_rules = StarvationRules(
            share=settings.starved_share,
            after=round(settings.starved_after * SECOND),
            patience=settings.starved_patience,
        )
        self._measured_jobs: tuple[MeasuredJob, ...] | None = None
        self._starvation = StarvationPlan()
        self._moving: dict[str, tuple[str, Candidate]] = {}
        self._wake = asyncio.Event()
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

    async def run(self) -> None:
        """Run cycles until cancelled."""
        while True:
            await self._wake.wait()
            # Starts that are not answered yet are waited for, as long as they do not hang: who was chosen by the cycle
            # before would be overtaken, and those in line find out sooner where there is room.
            while self._affordable_starts() < 1:
                await self._clock.sleep(max(LEAST_INTERVAL, self._settings.admission_interval))
            self._wake.clear()
            began = self._clock.monotonic()
            plan = await self.cycle()
            if plan.truncated:
                self._wake.set()
            # In a large cluster something happens all the time: cycles take a fifth of it at the most.
            took = self._clock.monotonic() - began
            await self._clock.sleep(max(self._settings.admission_interval, IDLE_SHARE * took))

    def _affordable_starts(self) -> int:
        """How many more may be started now: what is granted holds room until there is a turn to write it."""
        most = min(self._settings.max_starts_per_cycle, self._budget.affordable(1.0))
        return most - self._under_way()

    async def cycle(self) -> AdmissionPlan:
        """One cycle: have a snapshot planned, and grant what still holds of the plan.

        The plan is computed in a thread, so that meanwhile the Lease is renewed, probes are answered and jobs
        reconciled: the snapshot shares nothing that changes. So what is granted was decided on what was true when the
        cycle began, which is safe:
        - a job that is gone, changed, started or held back meanwhile does not stand in line as it did, and is left out;
        - where the regulator has closed admission meanwhile, nobody starts;
        - room is taken from the state that the next cycle sees, so nobody gets room twice; room that ordinary pods or a
          lost node took meanwhile is missing to starts of this one cycle: their pods are not placed, keep nobody from
          anything, as they preempt nobody, and are taken back after `unschedulable_after`.
        """
        started = self._clock.monotonic()
        now = self._clock.now()
        rule = load_rule(self._levels(), self._settings, micros(now))
        snapshot = self._state.snapshot(now=micros(now), rule=rule, closed=self._closed())
        measurement = self._measurement()
        plan = await asyncio.to_thread(
            plan_admissions,
            snapshot,
            max_starts_per_cycle=max(1, self._affordable_starts()),
            rules=self._rules,
            measurement=measurement,
            patience=round(self._settings.keep_turn_after * SECOND) or None,
        )
        self._state.turn = plan.turn
        self._state.held.promised(plan.promised, micros(now))
        self.held, self.shares, self.unserved = plan.held, plan.shares, plan.unserved
        _show(snapshot, plan, self._clock.monotonic() - started)
        for key in {preemption.waiting for preemption in plan.preemptions}:
            self._state.futile.room_made(key, micros(now))
        for preemption in plan.preemptions:
            self._preempted(preemption)
        if plan.starvation is not None and measurement is not None:
            self._interrupt_starved(plan.starvation, measurement)
        if plan.starts and load_rule(self._levels(), self._settings, micros(self._clock.now())).shut is None:
            for start in plan.starts:
                candidate = start.candidate
                if self._state.candidate(start.key) == candidate and self._may_start(candidate.namespace):
                    self._granted(start)
        return plan

    def _interrupt_starved(self, starvation: StarvationPlan, measurement: Measurement) -> None:
        if self._measured_jobs is measurement.jobs:  # else there are newer figures, which the next cycle looks at
            self._measured_jobs = None
        self._starvation = starvation
        for starved in starvation.interrupt:
            job = self._job(starved.key)
            if job is not None:
                self._moving[starved.key] = (run_of(job), starved.candidate)
            self._starved(starved)

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
        job = self._job(key)
        if job is None or job.metadata.uid != uid:
            return False
        return job.status.phase is Phase.INTERRUPTED or (job.status.phase is Phase.RUNNING and run_of(job) == run)


def _show(snapshot: Snapshot, plan: AdmissionPlan, seconds: float) -> None:
    """The figures of a cycle on /metrics."""
    metrics.CYCLE_SECONDS.observe(seconds)
    for limit in snapshot.limits:
        metrics.LOAD.labels(limit.resource).set(limit.ppm() / PPM)
        metrics.LEVEL.labels(limit.resource).set(limit.admission_ppm / PPM)
    metrics.LINE.clear()
    for queue, line in snapshot.candidates.items():
        metrics.LINE.labels(metrics.queue_label(queue, snapshot.queues)).inc(len(line))
    metrics.ORDINARY_WAITING.set(len(snapshot.pending))
    metrics.HELD.clear()
    for reason, count in Counter(hold.reason for hold in plan.held.values()).items():
        metrics.HELD.labels(reason).set(count)
