"""Informers, the view of the cluster that they keep current, and the start of all that serves. Decides nothing."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from importlib.metadata import version
from typing import Any, Final, TypeVar

from msgspec.structs import replace
from scavenger_api import names
from scavenger_api.job_keys import OF_USERS
from scavenger_api.levels import PublishedLevels
from scavenger_api.levels_text import DEFAULT_POOL
from scavenger_api.quantity import readable_amounts
from scavenger_api.shunned_nodes import shunned_nodes
from scavenger_domain import interruptions
from scavenger_kube.client import ApiClient
from scavenger_kube.decode import Cacheable
from scavenger_kube.errors import ApiError
from scavenger_kube.kinds import ConfigMap
from scavenger_kube.metrics_api import NODE_METRICS, decode_node_metrics
from scavenger_kube.resources import LEASES, LIVING, NODES, PODDISRUPTIONBUDGETS, PODS, Lease
from scavenger_runtime.certificates import Certificates
from scavenger_runtime.clock import Clock
from scavenger_runtime.http_server import HttpServer
from scavenger_runtime.informer import WATCH_READ_TIMEOUT, Change, Informer
from scavenger_runtime.kept_jobs import requests_alone
from scavenger_runtime.kept_parts import short_event
from scavenger_runtime.kept_pods import keeping
from scavenger_runtime.logging import get_logger
from scavenger_runtime.metrics_access import MetricsAccess
from scavenger_runtime.service import ServiceContext
from scavenger_runtime.shared_settings import configmap_informer
from scavenger_runtime.threads import in_thread
from starlette.types import ASGIApp

from scavenger_board.app import create_app
from scavenger_board.core.history import History, LoadRow
from scavenger_board.core.nodes import pools_of_nodes, scavenger_shares
from scavenger_board.core.now import picture_now
from scavenger_board.core.past import picture_at
from scavenger_board.core.picture import AboutRow, Picture
from scavenger_board.core.snapshot import Amounts, EventFacts, JobFacts, NodeFacts, PodFacts, QueueFacts, Snapshot
from scavenger_board.facts import (
    BATCH_JOBS,
    EVENTS,
    JOBS,
    QUEUES,
    BatchJob,
    adopted_facts,
    event_facts,
    held,
    is_ours,
    job_facts,
    node_facts,
    pod_facts,
    queue_facts,
    renewed_at,
    short_job,
)
from scavenger_board.guard import ACCESS_PATH, Guard
from scavenger_board.prometheus import Prometheus
from scavenger_board.settings import BoardSettings
from scavenger_board.stream import Hub

EVENT_SELECTORS: Final = {
    "events-jobs": "involvedObject.kind=ScavengerJob",
    "events-preempted-by": f"reason={interruptions.PREEMPTED_BY}",
    "events-preempted": f"reason={interruptions.PREEMPTED}",
    "events-levels": f"involvedObject.kind=ConfigMap,involvedObject.name={names.LEVELS_CONFIGMAP}",
}
"""Which Events are followed: a cluster may have a hundred times as many others."""

ENDED: Final = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
"""Field selector of pods that have ended."""

PER_PEER: Final = 256
"""Connections of one address, which may be a proxy of all users."""

GRACE_SECONDS: Final = 3
"""For requests that are under way when told to stop."""

USAGE_TIMEOUT: Final = 10.0
"""Seconds for an answer of the metrics API."""

log = get_logger(__name__)

T = TypeVar("T", bound=Cacheable)
F = TypeVar("F")


async def main(context: ServiceContext[BoardSettings]) -> None:
    """The service: every replica serves, and writes nothing."""
    settings = context.settings
    view = BoardView(context.client, settings, context.clock)
    hub = Hub(view.picture, context.clock, period=settings.period, check=settings.check, limit=settings.listeners)
    view.on_change(hub.changed)
    access = None
    if settings.access == "token":
        access = MetricsAccess(context.clock, ACCESS_PATH)
        access.client = context.client
    for informer in view.informers:
        context.add_informer(informer)
    context.add_task("usage", view.poll_usage())
    context.add_task("pictures", hub.run())
    certificates = (
        Certificates(settings.tls_folder, context.clock, flag="--tls-folder") if settings.tls_folder else None
    )
    if certificates is not None:
        certificates.load()
        context.add_task("certificate", certificates.keep())
    await context.wait_synced()
    app = Guard(create_app(view, hub, context.clock), access)
    tls = certificates.context if certificates is not None else None
    server = http_server(app, address=settings.address, port=settings.port, tls=tls)
    context.probes.add_readiness("server", lambda: server.serving or "not serving")
    server.listen()
    log.info("the page is served", address=settings.address, port=server.port, tls=tls is not None)

    async def end_streams() -> None:
        hub.close()  # they would not end by themselves

    try:
        await server.run(end_streams)
    finally:
        await view.close()


def http_server(app: ASGIApp, *, address: str, port: int, tls: ssl.SSLContext | None) -> HttpServer:
    """What serves the page."""
    return HttpServer(app, address=address, port=port, tls=tls, grace=GRACE_SECONDS, per_peer=PER_PEER)


class BoardView:
    """Holds the caches, and makes pictures of them."""

    def __init__(self, client: ApiClient, settings: BoardSettings, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._usage_period = settings.usage_period
        self._pod_facts = partial(pod_facts, system=settings.namespace)
        self._levels_key = f"{settings.namespace}/{names.LEVELS_CONFIGMAP}"
        self._about = AboutRow(version("scavenger-board"), settings.cluster_name, settings.docs_url.rstrip("/"))
        self._prometheus = Prometheus(settings) if settings.prometheus_url else None
        self._changed: Callable[[], None] = lambda: None
        self._jobs: dict[str, JobFacts] = {}
        self._adopted: dict[str, JobFacts] = {}
        self._pods: dict[str, PodFacts] = {}
        self._nodes: dict[str, NodeFacts] = {}
        self._queues: dict[str, QueueFacts] = {}
        self._events: dict[str, EventFacts] = {}
        self._leases: dict[str, datetime | None] = {}
        self._budgets: dict[str, tuple[str, bool]] = {}
        self._held: dict[str, str] = {}
        self._used: dict[str, Amounts] | None = None
        self.history = History(settings.history)
        self.levels = configmap_informer(client, settings.namespace, names.LEVELS_CONFIGMAP, clock)
        self.levels.add_handler(self._on_levels)
        self._refusing_key = f"{settings.namespace}/{names.NODES_CONFIGMAP}"
        self._refusing = configmap_informer(client, settings.namespace, names.NODES_CONFIGMAP, clock)
        self._refusing.add_handler(lambda _: self._changed())
        self.informers: Sequence[Informer[Any]] = (
            self.levels,
            self._refusing,
            self._follow(Informer(client, JOBS, clock=clock, transform=requests_alone), self._jobs, job_facts),
            *(self._adopted_jobs(client, clock) if settings.adopt else ()),
            self._follow(
                Informer(
                    client,
                    PODS,
                    field_selector=LIVING,
                    clock=clock,
                    transform=keeping(partial(is_ours, system=settings.namespace)),
                ),
                self._pods,
                self._pod_facts,
            ),
            self._follow(Informer(client, NODES, clock=clock), self._nodes, node_facts),
            self._follow(Informer(client, QUEUES, clock=clock), self._queues, queue_facts),
            self._lease_informer(client, settings.namespace, clock),
            self._follow(
                Informer(
                    client,
                    PODDISRUPTIONBUDGETS,
                    field_selector=f"metadata.name={names.DISRUPTION_BUDGET}",
                    clock=clock,
                ),
                self._budgets,
                lambda budget: (budget.metadata.namespace, budget.ours),
            ),
            self._follow(
                Informer(
                    client, PODS, label_selector=names.LABEL_JOB, field_selector=ENDED, name="ended-pods", clock=clock
                ),
                self._held,
                held,
            ),
            *(
                self._follow(
                    Informer(client, EVENTS, field_selector=selector, name=name, clock=clock, transform=short_event),
                    self._events,
                    event_facts,
                )
                for name, selector in EVENT_SELECTORS.items()
            ),
        )

    def on_change(self, changed: Callable[[], None]) -> None:
        """Have it called with every change of what pictures are made of."""
        self._changed = changed

    # --- following ---

    def _follow(self, informer: Informer[T], into: dict[str, F], facts: Callable[[T], F | None]) -> Informer[T]:
        """facts: None of what is not shown."""

        def handle(change: Change[T]) -> None:
            found = None if change.new is None else facts(change.new)
            if found is None:
                into.pop(change.key, None)
                self._changed()
            elif into.get(change.key) != found:
                into[change.key] = found
                self._changed()

        informer.add_handler(handle)
        return informer

    def _adopted_jobs(self, client: ApiClient, clock: Clock) -> tuple[Informer[BatchJob]]:
        jobs = Informer(
            client, BATCH_JOBS, label_selector=OF_USERS, name="adopted-jobs", clock=clock, transform=short_job
        )
        return (self._follow(jobs, self._adopted, adopted_facts),)

    def _lease_informer(self, client: ApiClient, namespace: str, clock: Clock) -> Informer[Lease]:
        """Leases are renewed every other second, which is no change of a picture as long as a leader does: how old they
        are is looked at with each one."""
        informer = Informer(client, LEASES, namespace=namespace, clock=clock)

        def handle(change: Change[Lease]) -> None:
            name = change.obj.metadata.name
            if change.new is None:
                self._leases.pop(name, None)
            else:
                self._leases[name] = renewed_at(change.new)

        informer.add_handler(handle)
        return informer

    def _on_levels(self, change: Change[ConfigMap]) -> None:
        if change.new is not None:
            levels = PublishedLevels.parse(change.new.data)
            pools = pools_of_nodes(self._nodes.values(), levels)
            shares = scavenger_shares(self._nodes.values(), self._pods.values(), pools)
            self.history.add(levels, self._clock.now(), shares.get(DEFAULT_POOL, {}))
        self._changed()

    async def poll_usage(self) -> None:
        """Ask the metrics API again and again what nodes use; where it gives no answer, nothing is measured."""
        while True:
            try:
                body = await self._client.request("GET", NODE_METRICS, timeout=USAGE_TIMEOUT)
                found = {one.metadata.name: readable_amounts(one.usage) for one in decode_node_metrics(body)}
            except (ApiError, ValueError) as error:
                if self._used is not None:
                    log.warning("the metrics API does not say what nodes use", error=str(error))
                self._used = None
            else:
                self._used = dict(found) or None
            self._changed()
            await self._clock.sleep(self._usage_period)

    async def close(self) -> None:
        """Close what is the view's own."""
        if self._prometheus is not None:
            await self._prometheus.close()

    # --- pictures ---

    def snapshot(self) -> Snapshot:
        """What the caches hold at this moment."""
        configmap, refusing = self.levels.get(self._levels_key), self._refusing.get(self._refusing_key)
        return Snapshot(
            now=self._clock.now(),
            jobs=[*self._jobs.values(), *self._adopted.values()],
            pods=list(self._pods.values()),
            nodes=list(self._nodes.values()),
            queues=list(self._queues.values()),
            events=list(self._events.values()),
            levels=None if configmap is None else configmap.data,
            leases=dict(self._leases),
            used=self._used,
            budgets=[namespace for namespace, ours in self._budgets.values() if ours],
            foreign_budgets=[namespace for namespace, ours in self._budgets.values() if not ours],
            held=list(self._held.values()),
            shunned={} if refusing is None else shunned_nodes(refusing.data),
            unfollowed=frozenset(one.name for one in self.informers if one.age > WATCH_READ_TIMEOUT),
        )

    async def picture(self) -> Picture:
        """Of this moment."""
        found = await in_thread(picture_now, self.snapshot(), levels_about=self._levels_about)
        return replace(found, about=self._about)

    async def picture_at(self, moment: datetime) -> Picture:
        """Of a moment that is over."""
        recorded = await self._prometheus.at(moment) if self._prometheus is not None else None
        snapshot, seen = self.snapshot(), self.history.at(moment)
        found = await in_thread(
            picture_at, snapshot, moment, levels_about=self._levels_about, seen=seen, recorded=recorded
        )
        return replace(found, about=self._about)

    async def load(self, end: datetime, span: timedelta) -> LoadRow:
        """Load and levels over a span: as Prometheus has them, or else as this process has seen them."""
        own = self.history.between(end - span, end)
        if self._prometheus is None:
            return own
        found = await self._prometheus.load(end - span, end)
        return found if found.times else replace(own, problem=found.problem)

    @property
    def _levels_about(self) -> str:
        return f"ConfigMap {self._levels_key}"
