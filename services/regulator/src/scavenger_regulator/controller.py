"""The regulator's loop: measures, decides, publishes, evicts; one period after the other. It decides nothing itself.

The order within a period matters. The levels are published before jobs are evicted, so that freed capacity is not given
away in the meantime. Where publishing fails, no job is evicted, as the API server does not answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from scavenger_api import names
from scavenger_domain.gang import job_of
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError
from scavenger_kube.kinds import Node, Pod
from scavenger_kube.resources import NODES, PODS
from scavenger_kube.scavenger_kinds import ScavengerJob
from scavenger_runtime.clock import Clock
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.informer import Informer
from scavenger_runtime.jobs_seen import jobs_to_rank
from scavenger_runtime.kept_pods import without_details
from scavenger_runtime.prometheus import PrometheusClient
from scavenger_runtime.service import ServiceContext
from scavenger_runtime.shared_settings import FollowedSettings
from scavenger_runtime.stale_marks import stale_budgets, stale_finalizers
from scavenger_runtime.threads import in_thread

from scavenger_regulator import metrics
from scavenger_regulator.core.plan import Decision, regulate
from scavenger_regulator.core.scope import ScopeDecision, Victim, after_evictions
from scavenger_regulator.core.snapshot import CLUSTER, Measurement, RecentTermination, Snapshot
from scavenger_regulator.facts import SeenPods, gangs, node_facts, regular_requests
from scavenger_regulator.measurements import Measurements
from scavenger_regulator.report import log_decision, log_node_memory
from scavenger_regulator.set_aside import SetAside
from scavenger_regulator.settings import RegulatorSettings
from scavenger_regulator.sources import Source
from scavenger_regulator.sources.added import AddedSource
from scavenger_regulator.sources.metrics_api import MetricsApiSource
from scavenger_regulator.sources.prometheus import PrometheusSource
from scavenger_regulator.sources.requests import RequestsSource
from scavenger_regulator.store import Store
from scavenger_regulator.writer import Writer


async def main(context: ServiceContext[RegulatorSettings]) -> None:
    """The service: caches in every replica, decisions in the one that leads."""
    regulator = Regulator(context.client, context.settings, context.clock, context.events)
    for informer in regulator.informers:
        context.add_informer(informer)
    try:
        namespace = context.settings.namespace
        finalizers = stale_finalizers(
            context.client, context.clock, namespace, regulator.pods.items, by=names.REGULATOR
        )
        budgets = stale_budgets(context.client, context.clock, namespace)
        await context.lead(regulator.run, finalizers.run, budgets.run)
    finally:
        await regulator.source.close()


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the caches hold at one moment; shares nothing that later changes."""

    now: datetime
    jobs: Sequence[ScavengerJob]
    pods: Sequence[Pod]
    nodes: Sequence[Node]
    measurement: Measurement
    recent_terminations: tuple[RecentTermination, ...]


class Regulator:
    """Holds the caches. `run` works until cancelled, once the informers are synced."""

    def __init__(self, client: ApiClient, settings: RegulatorSettings, clock: Clock, events: EventRecorder) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self.shared = FollowedSettings(client, settings, clock)
        self._rules = settings.rules(self.shared.current)
        selector = None if settings.source == "requests" or self._rules.kept_room else names.LABEL_JOB
        self.jobs = jobs_to_rank(client, clock, adopt=settings.adopt)
        self.pods = Informer(client, PODS, label_selector=selector, clock=clock, transform=without_details)
        self.nodes = Informer(client, NODES, clock=clock)
        self.source = self._make_source()
        self.measurements = Measurements(self.source, clock)
        self.store = Store(client, settings, self.source.name)
        self.writer = Writer(client, settings, clock, events)
        self.pods.add_handler(self.measurements.on_pod)

        self._started = self._looked_at = clock.now()
        self._set_aside = SetAside(settings.refused_for)
        self._last: Mapping[str, ScopeDecision] = {}
        self._seen = SeenPods()

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """The caches a decision looks at."""
        return (*self.jobs.informers, self.pods, self.nodes, self.shared.informer)

    def _make_source(self) -> Source:
        settings, source = self._settings, self._make_main_source()
        if not settings.added:
            return source
        return AddedSource(source, self._make_prometheus(), settings.added, settings.queries())

    def _make_prometheus(self) -> PrometheusSource:
        settings = self._settings
        client = PrometheusClient(
            settings.prometheus_url,
            timeout=settings.source_timeout,
            token_file=settings.prometheus_token_file,
            ca_file=settings.prometheus_ca_file,
        )
        return PrometheusSource(client, settings.queries())

    def _make_main_source(self) -> Source:
        settings = self._settings
        if settings.source == "prometheus":
            return self._make_prometheus()
        if settings.source == "requests":
            return RequestsSource(self.nodes.items, self.pods.items, self._clock.now)
        return MetricsApiSource(self._client, timeout=settings.source_timeout)

    # --- periods ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """One period after the other until cancelled; then what was learned is saved."""
        await self.restore()
        try:
            while True:
                began = self._clock.monotonic()
                with metrics.PERIOD_SECONDS.time():
                    await self.period()
                await self._clock.sleep(self._settings.period - (self._clock.monotonic() - began))
        finally:
            with suppress(ApiError):  # the store has logged it
                await self.store.save(self._clock.now())

    async def restore(self) -> None:
        """Take up what a predecessor left, and begin: from now on, only what is measured after this moment counts.

        Raises ApiError where the API server cannot be read; beginning without what was remembered would be worse.
        """
        metrics.begin()
        now = self._clock.now()
        published = await self.writer.read_published()
        await self.store.restore(published, self._node_names(), now)
        self.measurements.forget_terminations()
        self._started = self._looked_at = now

    async def period(self) -> Decision:
        """Measure, decide, publish, act, remember."""
        measurement = await self.measurements.measure()
        await self.measurements.ask_history()
        _, decision = await self.decide(measurement)
        now = self._clock.now()
        if await self.writer.publish(decision.published):
            await self._act(decision)
        await in_thread(self.store.learn, decision, self._node_names(), now)
        await self.store.save_if_due(now)
        return decision

    # --- deciding -----------------------------------------------------------------------------------------

    async def decide(self, measurement: Measurement) -> tuple[Snapshot, Decision]:
        """Look at the caches, decide, and say what was decided.

        In a thread, as that takes a second at five thousand nodes with a level each, and meanwhile the Lease is renewed
        and probes are answered. No other task reads what it changes during a period.
        """
        return await in_thread(self._decide, self._look(measurement))

    def _decide(self, seen: _Seen) -> tuple[Snapshot, Decision]:
        snapshot = self._snapshot(seen)
        if self._rules.offers.enabled:
            self.measurements.add_cpu_time(snapshot)
        self.store.observe(snapshot)
        decision = regulate(snapshot, self.store.states, self._rules, self.store.reclaimed)
        for scope in self.store.states.keys() - decision.scopes.keys():
            metrics.forget_scope(scope, self.store.states[scope].levels)
        self.store.states = decision.states
        metrics.show(decision)
        metrics.show_use(snapshot, self._queue_of)
        if self.store.reclaimed is not None:
            metrics.show_offers(decision.offers.values(), self.store.reclaimed.uses.values())
        log_decision(decision, self._last)
        self._last = decision.pools
        return snapshot, decision

    def _look(self, measurement: Measurement) -> _Seen:
        self._rules = self._settings.rules(self.shared.current)  # of this period, to its end
        now = self._clock.now()
        if now < self._looked_at:
            self._set_back(self._looked_at - now, now)
        self._looked_at = now
        return _Seen(
            now=now,
            jobs=self.jobs.items(),
            pods=self.pods.items(),
            nodes=self.nodes.items(),
            measurement=measurement,
            recent_terminations=self.measurements.recent_terminations(now),
        )

    def _set_back(self, by: timedelta, now: datetime) -> None:
        """Go on as if no time had passed since the last look: the wall clock was set back. Else no job would be evicted
        until it is past the moment at which this process began."""
        self._started -= by
        self._set_aside.set_back(by)
        self.store.set_back(by, now)

    def _snapshot(self, seen: _Seen) -> Snapshot:
        now = seen.now
        found = gangs(seen.jobs, seen.pods, self._seen)
        tolerated, held = self._settings.tolerated_taints, {pod.node for gang in found for pod in gang.pods}
        policies, ignored = self._settings.policies, self._settings.pool_ignores
        self._set_aside.keep({gang.uid for gang in found})
        history = self.store.history()
        if self.measurements.history is not None:
            history[CLUSTER] = {**history.get(CLUSTER, {}), **self.measurements.history}
        return Snapshot(
            now=now,
            started=self._started,
            nodes={
                (name := node.metadata.name): node_facts(
                    node, tolerated, holds=name in held, policies=policies, pool_ignores=ignored
                )
                for node in seen.nodes
            },
            gangs=found,
            measurement=self.measurements.with_last_figures(seen.measurement, found),
            recent_terminations=seen.recent_terminations,
            refused=self._set_aside.refused(now),
            failed=self._set_aside.failed(now),
            history=history,
            regular=regular_requests(seen.pods) if self._rules.kept_room else None,
            rises=self.store.rises(now),
            cpu_time=self.measurements.cpu_time,
        )

    def _queue_of(self, key: str) -> str | None:
        job = self.jobs.get(job_of(key))
        return job.spec.queue if job is not None else None

    def _node_names(self) -> set[str]:
        return {node.metadata.name for node in self.nodes.items()}

    # --- acting -------------------------------------------------------------------------------------------

    async def _act(self, decision: Decision) -> None:
        """Carry out what was decided, once the levels are published."""
        newly_short = self.writer.record_node_memory(decision.node_memory, self.nodes.get)
        for plan in decision.node_memory:
            log_node_memory(plan, newly_short=plan.node in newly_short)
        await self.writer.shorten(decision.prolonged)
        await self._evict(decision.victims)
        await self.writer.resize(decision.resizes)
        await self.writer.offer(decision.changed_offers)
        await self.writer.withdraw(decision.withdrawals)

    async def _evict(self, victims: Sequence[Victim]) -> None:
        """Evict, and remember what really went, and who was refused."""
        outcomes = await self.writer.evict(victims, lambda unit: self.jobs.get(job_of(unit)))
        now = self._clock.now()
        done = []
        for victim, outcome in zip(victims, outcomes, strict=True):
            self._set_aside.note(victim.candidate.gang.uid, outcome, now)
            if outcome.interrupted:
                done.append(victim)
        self.store.states = after_evictions(self.store.states, done, now, self._rules)
