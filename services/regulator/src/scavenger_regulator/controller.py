"""The shell around `regulate`: measures, decides, publishes, evicts; one period after the other.

The order within a period matters. The levels are published before anybody is evicted, so that the room is not given
away while it is being made; and where publishing fails, nobody is evicted, as the API server is not there to do it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from scavenger_api import names
from scavenger_api.evictions import EvictionNote, EvictionReason
from scavenger_api.levels import LevelsState, PublishedLevels
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError
from scavenger_kube.kinds import ConfigMap, Pod
from scavenger_kube.resources import CONFIGMAPS, NODES, PODS
from scavenger_runtime.clock import Clock
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.informer import Change, Informer
from scavenger_runtime.logging import get_logger
from scavenger_runtime.service import ServiceContext

from scavenger_regulator import metrics
from scavenger_regulator.core.eviction.plan import Outcome
from scavenger_regulator.core.history import Figures, History, dump_histories, load_histories
from scavenger_regulator.core.plan import (
    OUTCOME_MESSAGES,
    Decision,
    ScopeDecision,
    Victim,
    after_evictions,
    regulate,
    worth_publishing,
)
from scavenger_regulator.core.snapshot import (
    CLUSTER,
    RESOURCES,
    Figure,
    Measurement,
    RecentTermination,
    ScopeState,
    Snapshot,
)
from scavenger_regulator.core.state import (
    KEY_HISTORY,
    KEY_MEMORY,
    KEY_SOURCE,
    MAX_BYTES,
    dump_states,
    load_states,
    states_from_published,
)
from scavenger_regulator.core.throttle import Resize, plan_resizes
from scavenger_regulator.facts import SCAVENGERJOBS, gangs, node_facts, on_reclaimed_capacity
from scavenger_regulator.reclaimed import SAVE_EVERY, ReclaimedCapacity
from scavenger_regulator.settings import RegulatorSettings
from scavenger_regulator.sources import Source, SourceError
from scavenger_regulator.sources.metrics_api import MetricsApiSource
from scavenger_regulator.sources.prometheus import PrometheusSource
from scavenger_regulator.sources.requests import RequestsSource
from scavenger_regulator.writer import (
    AT_ONCE,
    STATE_CONFIGMAP,
    EvictionOutcome,
    ResizeOutcome,
    apply_configmap,
    evict_gang,
    in_order,
    publish,
    read_configmap,
    resize,
)

ASK_HISTORY_EVERY: Final = timedelta(minutes=10)
NODE_BUCKETS: Final = 12
"""Parts of the window for the history of one node: there may be a thousand of them in one ConfigMap."""

WARNING_MESSAGES: Final = frozenset(
    OUTCOME_MESSAGES[outcome] for outcome in (Outcome.NOBODY_LEFT, Outcome.SHORT, Outcome.NO_FIGURES)
)
"""Messages of a regulator that cannot bring the load down."""

ONE_BY_ONE: Final = 16
"""Up to so many victims are evicted one after the other; more of them some at a time, begun in order."""

REMEMBER_TERMINATIONS: Final = timedelta(minutes=15)

log = get_logger(__name__)


async def main(context: ServiceContext[RegulatorSettings]) -> None:
    """The service: caches in every replica, decisions in the one that leads."""
    regulator = Regulator(context.client, context.settings, context.clock, context.events)
    for informer in regulator.informers:
        context.add_informer(informer)
    try:
        await context.lead(regulator.run)
    finally:
        await regulator.source.close()


class Regulator:
    """Holds the caches and what is remembered. `run` works until cancelled, once the informers are synced."""

    def __init__(self, client: ApiClient, settings: RegulatorSettings, clock: Clock, events: EventRecorder) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._events = events
        self._rules = settings.rules()
        self._throttle = settings.throttle_rules()
        selector = None if settings.source == "requests" else names.LABEL_JOB
        self.jobs = Informer(client, SCAVENGERJOBS, clock=clock)
        self.pods = Informer(client, PODS, label_selector=selector, clock=clock)
        self.nodes = Informer(client, NODES, clock=clock)
        self.pods.add_handler(self._on_pod)
        self.source = self._make_source()
        self._reclaimed = ReclaimedCapacity(client, settings, clock, events, self.nodes)

        self._started = clock.now()
        self._states: dict[str, ScopeState] = {}
        self._histories: dict[str, dict[str, History]] = {}
        self._asked: dict[str, Figures] | None = None
        self._asked_at: datetime | None = None
        self._refused: dict[str, datetime] = {}
        self._recent_terminations: list[RecentTermination] = []
        self._figures: dict[str, dict[str, Figure]] = {}
        self._published: PublishedLevels | None = None
        self._configmap: ConfigMap | None = None
        self._saved: tuple[str, datetime] | None = None
        self._last: ScopeDecision | None = None

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """The caches a decision looks at."""
        return (self.jobs, self.pods, self.nodes)

    def _make_source(self) -> Source:
        settings = self._settings
        if settings.source == "prometheus":
            return PrometheusSource(
                settings.prometheus_url,
                settings.queries(),
                timeout=settings.source_timeout,
                token_file=settings.prometheus_token_file,
                ca_file=settings.prometheus_ca_file,
            )
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
            with suppress(ApiError, asyncio.CancelledError):
                await asyncio.shield(self._save_all(self._clock.now()))

    async def period(self) -> Decision:
        """Measure, decide, publish, act, offer, remember."""
        measurement = await self._measure()
        await self._ask_history()
        snapshot, decision = self.decide(measurement)
        now = self._clock.now()
        if await self._publish(decision, now):
            await self._act((*decision.victims, *self._reclaimed.memory_victims(snapshot, decision)))
            await self._resize(decision)
            await self._reclaimed.offer()
        self._learn(decision)
        await self._save_if_due(now)
        return decision

    def decide(self, measurement: Measurement) -> tuple[Snapshot, Decision]:
        """Look at the caches, decide, and say what was decided."""
        with metrics.DECISION_SECONDS.time():
            snapshot = self.snapshot(measurement)
            self._reclaimed.watch(snapshot)
            decision = self._reclaimed.plan(snapshot, regulate(snapshot, self._states, self._rules))
        for scope in self._states.keys() - decision.scopes.keys():
            metrics.forget_scope(scope)
        self._states = decision.states
        metrics.show(decision, snapshot.history.get(CLUSTER, {}), snapshot.now)
        self._record_decision(decision)
        return snapshot, decision

    def snapshot(self, measurement: Measurement) -> Snapshot:
        """What the caches hold at this moment."""
        now = self._clock.now()
        self._refused = {uid: until for uid, until in self._refused.items() if until > now}
        self._recent_terminations = [t for t in self._recent_terminations if now - t.at <= REMEMBER_TERMINATIONS]
        return Snapshot(
            now=now,
            started=self._started,
            nodes={n.metadata.name: node_facts(n, self._settings.tolerated_taints) for n in self.nodes.items()},
            gangs=gangs(self.jobs.items(), self.pods.items()),
            measurement=self._with_last_figures(measurement),
            recent_terminations=tuple(self._recent_terminations),
            refused=frozenset(self._refused),
            history=self._history(),
            cpu_time=self._reclaimed.cpu_time,
        )

    # --- measuring ----------------------------------------------------------------------------------------

    async def _measure(self) -> Measurement:
        name = self.source.name
        try:
            with metrics.MEASURE_SECONDS.labels(name).time():
                measurement = await self.source.measure()
        except SourceError as error:
            metrics.MEASUREMENTS.labels(name, "failed").inc()
            return Measurement(failed=str(error))
        metrics.MEASUREMENTS.labels(name, "done").inc()
        return measurement

    def _with_last_figures(self, measurement: Measurement) -> Measurement:
        """A pod that is leaving may drop out of the metrics before it is gone, and its use is still in the load: its
        last figures stay until they are too old."""
        if measurement.failed:
            return measurement
        pods = dict(measurement.pods)
        for key, figures in self._figures.items():
            pod = self.pods.get(key)
            if key not in pods and pod is not None and pod.metadata.deletion_timestamp is not None:
                pods[key] = figures
        self._figures = {key: dict(figures) for key, figures in pods.items() if self.pods.get(key) is not None}
        return Measurement(measurement.nodes, pods, measurement.total)

    def _on_pod(self, change: Change[Pod]) -> None:
        """Note the termination of a scavenger pod: deleted, or ended."""
        old, new = change.old, change.new
        if old is None or old.ended or not (new is None or new.ended) or not old.spec.node_name:
            return
        figures = self._figures.pop(old.metadata.key, None)
        if figures and names.LABEL_JOB in old.metadata.labels:
            use = {resource: figure.value for resource, figure in figures.items()}
            gone = RecentTermination(old.spec.node_name, use, self._clock.now(), on_reclaimed_capacity(old))
            self._recent_terminations.append(gone)

    # --- history ------------------------------------------------------------------------------------------

    def _history(self) -> dict[str, dict[str, Figures]]:
        kept = {
            scope: {resource: figures for resource, history in one.items() if (figures := history.figures) is not None}
            for scope, one in self._histories.items()
        }
        if self._asked is not None:
            kept[CLUSTER] = self._asked
        return kept

    async def _ask_history(self) -> None:
        """From a source that keeps one itself, now and then; while it does not answer, the last answer holds."""
        now = self._clock.now()
        if self._asked_at is not None and now - self._asked_at < ASK_HISTORY_EVERY:
            return
        self._asked_at = now
        try:
            self._asked = await self.source.history()
        except SourceError as error:
            log.warning("no history", source=self.source.name, error=str(error))

    def _learn(self, decision: Decision) -> None:
        """Take the ordinary load into the histories."""
        for scope, decided in decision.scopes.items():
            reading = decided.reading
            if reading is None or reading.ordinary is None:
                continue
            histories = self._histories.setdefault(scope, {})
            buckets = self._settings.history_buckets if scope == CLUSTER else NODE_BUCKETS
            for resource in RESOURCES:
                if resource not in histories:
                    histories[resource] = History(self._settings.history_window, buckets)
                histories[resource].add(reading.observed_at, reading.ordinary[resource])
        for scope in self._histories.keys() - decision.scopes.keys():
            if self.nodes.get(scope) is None:
                del self._histories[scope]

    # --- publishing ---------------------------------------------------------------------------------------

    async def _publish(self, decision: Decision, now: datetime) -> bool:
        """Write the levels where that is due; False where it failed."""
        new = decision.published
        if not worth_publishing(self._published, new, now, self._settings.period):
            return True
        try:
            self._configmap = await publish(self._client, self._settings.namespace, new)
        except ApiError as error:
            metrics.PUBLISHED.labels("failed").inc()
            log.warning("levels not published", error=str(error))
            return False
        metrics.PUBLISHED.labels("written").inc()
        self._record_transition(self._published, new)
        self._published = new
        return True

    def _record_transition(self, old: PublishedLevels | None, new: PublishedLevels) -> None:
        if self._configmap is None or (old is not None and (old.state, old.message) == (new.state, new.message)):
            return
        text = f"{_loads(new)}; state {new.state.value}" + (f": {new.message}" if new.message else "")
        worrying = new.state is LevelsState.BLIND or new.message in WARNING_MESSAGES
        self._events.record(CONFIGMAPS, self._configmap, "Warning" if worrying else "Normal", new.state.value, text)

    # --- acting -------------------------------------------------------------------------------------------

    async def _act(self, victims: Sequence[Victim]) -> None:
        """Evict, and remember what really went."""
        one_by_one = len(victims) <= ONE_BY_ONE
        work = [partial(self._evict, victim) for victim in victims]
        outcomes = await in_order(work, 1 if one_by_one else AT_ONCE)
        now = self._clock.now()
        done = [v for v, outcome in zip(victims, outcomes, strict=True) if outcome is EvictionOutcome.EVICTED]
        for scope in {victim.scope for victim in done} & self._states.keys():
            mine = [victim for victim in done if victim.scope == scope]
            self._states[scope] = after_evictions(self._states[scope], mine, now, self._rules)

    async def _evict(self, victim: Victim) -> EvictionOutcome:
        gang, now = victim.candidate.gang, self._clock.now()
        if self._settings.dry_run:
            outcome = EvictionOutcome.DRY_RUN
        else:
            outcome = await evict_gang(self._client, gang.pods, EvictionNote(victim.reason, now))
        metrics.EVICTIONS.labels(victim.reason.value, outcome.value).inc()
        if outcome is EvictionOutcome.EVICTED:
            metrics.LOST.labels(victim.reason.value).inc(victim.candidate.loss)
        if outcome is EvictionOutcome.REFUSED:
            self._refused[gang.uid] = now + timedelta(seconds=self._settings.refused_for)
        log.info(
            "eviction",
            job=gang.key,
            reason=victim.reason.value,
            outcome=outcome.value,
            scope=victim.scope or "cluster",
            cpu_seconds_lost=round(victim.candidate.loss, 1),
            frees={r: round(points, 2) for r, points in victim.candidate.frees.items()},
        )
        self._record_victim(victim, outcome)
        return outcome

    def _record_victim(self, victim: Victim, outcome: EvictionOutcome) -> None:
        job = self.jobs.get(victim.candidate.gang.key)
        if job is None or outcome not in (EvictionOutcome.EVICTED, EvictionOutcome.DRY_RUN):
            return
        why = {
            EvictionReason.ABOVE_UPPER: "the load reached the upper level",
            EvictionReason.YIELD: "the load is at the admission level, and the job had just passed a checkpoint",
            EvictionReason.NODE_MEMORY: f"the memory of node {victim.scope} reaches its upper level",
        }[victim.reason]
        did = "Would be evicted" if outcome is EvictionOutcome.DRY_RUN else "Evicted"
        text = f"{did} because {why}; {victim.candidate.loss:.0f} CPU-seconds since the last checkpoint"
        self._events.normal(SCAVENGERJOBS, job, victim.reason.value, text)

    async def _resize(self, decision: Decision) -> None:
        """Throttle or give back, where that is switched on."""
        if not self._throttle.enabled or self._settings.dry_run:
            return
        decided = decision.scopes[CLUSTER]
        everybody = gangs(self.jobs.items(), self.pods.items())
        blocked = {pod.node for gang in everybody for pod in gang.pods if pod.refused_resize}
        wanted = plan_resizes(decided.state, everybody, blocked, self._throttle)
        outcomes = await in_order([partial(resize, self._client, one) for one in wanted])
        for one, outcome in zip(wanted, outcomes, strict=True):
            direction = "throttled" if one.cores < one.gang.cores else "restored"
            metrics.RESIZES.labels(direction, outcome.value).inc()
            if outcome is ResizeOutcome.DONE:
                self._record_resize(one, direction)

    def _record_resize(self, done: Resize, direction: str) -> None:
        log.info("resized", pod=done.pod.key, container=done.container, cores=done.cores, direction=direction)

    # --- what is kept -------------------------------------------------------------------------------------

    async def restore(self) -> None:
        """Take up what a predecessor left, and begin: from now on, only what is measured after this moment counts.

        Raises ApiError where the API server cannot be read; beginning without its memory would be worse.
        """
        namespace, now = self._settings.namespace, self._clock.now()
        state = await read_configmap(self._client, namespace, STATE_CONFIGMAP)
        self._configmap = await read_configmap(self._client, namespace, names.LEVELS_CONFIGMAP)
        levels = PublishedLevels.parse(self._configmap.data) if self._configmap else None
        data = state.data if state else {}
        cooldown = self._settings.cooldown
        self._states = load_states(data.get(KEY_MEMORY), now, cooldown) or states_from_published(levels, now, cooldown)
        # What was measured in another way has another mean and another deviation.
        same_source = data.get(KEY_SOURCE) == self.source.name
        self._histories = self._load_histories(data.get(KEY_HISTORY) if same_source else None, now)
        await self._reclaimed.restore(self.source.name, now)
        self._published = levels
        self._started = now
        self._recent_terminations.clear()
        samples = {r: h.samples for r, h in self._histories.get(CLUSTER, {}).items()}
        log.info("begins", source=self.source.name, samples=samples, memory=sorted(self._states))

    def _load_histories(self, text: str | None, now: datetime) -> dict[str, dict[str, History]]:
        window = self._settings.history_window
        cluster = load_histories(text, [CLUSTER], window, self._settings.history_buckets, now)
        if not self._settings.per_node:
            return cluster
        nodes = [node.metadata.name for node in self.nodes.items()]
        return {**load_histories(text, nodes, window, NODE_BUCKETS, now), **cluster}

    async def _save_if_due(self, now: datetime) -> None:
        """At once when the hysteresis changed, else now and then."""
        essence = _essence(self._states)
        with suppress(ApiError):
            if self._saved is None or self._saved[0] != essence or now - self._saved[1] >= SAVE_EVERY:
                await self._save(now)
            await self._reclaimed.save(self.source.name, now)

    async def _save_all(self, now: datetime) -> None:
        await self._save(now)
        await self._reclaimed.save(self.source.name, now, due=False)

    async def _save(self, now: datetime) -> None:
        memory = dump_states(self._states)
        history = dump_histories(self._histories, max(0, MAX_BYTES - len(memory)))
        data = {KEY_MEMORY: memory, KEY_HISTORY: history, KEY_SOURCE: self.source.name}
        try:
            await apply_configmap(self._client, self._settings.namespace, STATE_CONFIGMAP, data)
        except ApiError as error:
            metrics.SAVED.labels("failed").inc()
            log.warning("state not saved", error=str(error))
            raise
        metrics.SAVED.labels("written").inc()
        self._saved = (_essence(self._states), now)

    # --- saying what was decided --------------------------------------------------------------------------

    def _record_decision(self, decision: Decision) -> None:
        """One line for a decision that changes something, with the figures that led to it; the rest at debug."""
        cluster = decision.scopes[CLUSTER]
        changed = self._last is None or (self._last.state, self._last.admit) != (cluster.state, cluster.admit)
        self._last = cluster
        say: Callable[..., Any] = log.info if changed or decision.victims else log.debug
        reading, plan = cluster.reading, cluster.plan
        say(
            "decided",
            state=cluster.state.value,
            admit=cluster.admit,
            reason=cluster.reason or None,
            percentage=None if cluster.percentage is None else round(cluster.percentage, 1),
            load={r: round(v, 2) for r, v in reading.load.items()} if reading else None,
            levels={
                r: (round(w.lower, 2), round(w.admission, 2), round(w.upper, 2)) for r, w in cluster.levels.items()
            },
            observed_at=reading.observed_at.isoformat() if reading else None,
            wait=cluster.wait.value if cluster.wait else None,
            plan=plan.outcome.value if plan else None,
            gaps={r: round(v, 2) for r, v in plan.gaps.items()} if plan else None,
            pending_release={r: round(v, 2) for r, v in plan.pending_release.items()} if plan else None,
            short={r: round(v, 2) for r, v in plan.short.items()} if plan else None,
            held=len(plan.held) if plan else 0,
            victims=len(decision.victims),
        )


def _essence(states: dict[str, ScopeState]) -> str:
    """What must not be lost: everything but the levels, which drift by small steps."""
    return repr(
        sorted(
            (scope, sorted(m.evicting), m.closed, m.cooldown_until, sorted(m.yielding), m.yielded_at, m.waiting_since)
            for scope, m in states.items()
        )
    )


def _loads(levels: PublishedLevels) -> str:
    shown = [f"{r} {one.load:.1f} % of {one.lower:.1f} to {one.upper:.1f} %" for r, one in levels.resources.items()]
    return "load " + ", ".join(shown) if shown else "load unknown"
