"""Informers, the view of the cluster that they keep current, and the start of all that serves. Decides nothing."""

from __future__ import annotations

import asyncio
import gc
import re
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from scavenger_api import names
from scavenger_api.template import at
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, NotFound
from scavenger_kube.kinds import Node
from scavenger_kube.resources import NAMESPACES, NODES, PERSISTENTVOLUMECLAIMS
from scavenger_runtime import tls
from scavenger_runtime.clock import Clock
from scavenger_runtime.informer import Change, Informer
from scavenger_runtime.logging import get_logger
from scavenger_runtime.service import ServiceContext

from scavenger_webhook.app import Limits, create_app
from scavenger_webhook.authority_keeper import AuthorityKeeper
from scavenger_webhook.core.models import AdmissionRequest
from scavenger_webhook.core.snapshot import Facts, NodeFacts, QueueFacts, Rules
from scavenger_webhook.facts import (
    PRIORITYCLASSES,
    SCAVENGERQUEUES,
    decode_labels,
    decode_queue,
    node_facts,
    priority_class_facts,
    queue_facts,
)
from scavenger_webhook.folder_keeper import FolderKeeper
from scavenger_webhook.server import TlsServer
from scavenger_webhook.settings import WebhookSettings

QUEUE_TIMEOUT: Final = 2.0
"""Seconds for the question whether a queue has just been created, or what labels a namespace has."""

MISSING_SECONDS: Final = 1.0
"""For so long a queue that was not there is not asked for again."""

LABELS_SECONDS: Final = 1.0
"""For so long the labels of a namespace are not asked for again."""

WATCH_SECONDS: Final = 0.5
"""For so long a queue that is not known may still come by the watch."""

MAX_MISSING: Final = 1000

MAX_CLAIMS: Final = 16
"""So many claims of one job are looked for."""

_CLAIM: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)

_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)

log = get_logger(__name__)


async def main(context: ServiceContext[WebhookSettings]) -> None:
    """The service: every replica serves, with a certificate of its own."""
    settings = context.settings
    cluster = ClusterView(
        context.client, settings.rules(), context.clock, api_servers_only=bool(settings.client_authority)
    )
    tls_context = tls.server_context()
    if settings.client_authority:
        tls.require_client(tls_context, settings.client_authority)
    keeper = _keeper(context, settings, tls_context)
    for informer in (*cluster.informers, *keeper.informers):
        context.add_informer(informer)
    context.probes.add_readiness("certificate", lambda: keeper.ready.is_set() or keeper.problem)
    context.add_task("certificates", keeper.run())
    await context.wait_synced()
    await keeper.ready.wait()
    app = create_app(cluster.facts_for, Limits(settings.max_body, settings.body_timeout))
    gc.collect()
    gc.freeze()  # half a million objects of imported modules: going through them would hold a review up for 0.1 s
    server = TlsServer(app, tls_context, address=settings.address, port=settings.port)
    context.probes.add_readiness("server", lambda: server.serving or "not serving")
    # Not every API server knows yet that this replica is about to go.
    await server.run(lambda: context.clock.sleep(settings.shutdown_delay))


def _keeper(
    context: ServiceContext[WebhookSettings], settings: WebhookSettings, tls_context: ssl.SSLContext
) -> AuthorityKeeper | FolderKeeper:
    if settings.certificates == "mounted":
        return FolderKeeper(settings.certificate_folder, context.clock, tls_context)
    rules = settings.certificate_rules()
    return AuthorityKeeper(context.client, settings.namespace, rules, context.clock, tls_context)


def _keeps_its_queue(request: AdmissionRequest) -> bool:
    """Whether it is about a job that is not judged again: whatever becomes of its queue, it stays changeable."""
    specs = [obj.get("spec") for obj in (request.old_object, request.object) if obj is not None]
    queues = [spec.get("queue") for spec in specs if isinstance(spec, dict)]
    return len(queues) == 2 and queues[0] == queues[1]


class ClusterView:
    """What is known of the cluster, as facts that a review can be made on.

    Args:
        client: to ask with.
        rules: of the administrator.
        clock: for how long an answer is good.
        api_servers_only: whether only clients with a certificate can ask. Otherwise nothing is looked up for a request,
            and no fact tells a size, a quota or a label.
    """

    def __init__(self, client: ApiClient, rules: Rules, clock: Clock, *, api_servers_only: bool) -> None:
        self._client = client
        self._clock = clock
        self._rules = rules
        self._api_servers_only = api_servers_only
        self._nodes: dict[str, NodeFacts] = {}
        self._facts: Facts | None = None
        self._missing: dict[str, float] = {}
        self._queues_changed = asyncio.Event()
        self._labels: dict[str, tuple[float, Mapping[str, str]]] = {}
        self.queues = Informer(client, SCAVENGERQUEUES, clock=clock)
        self.nodes = Informer(client, NODES, clock=clock)
        self.priority_classes = Informer(client, PRIORITYCLASSES, clock=clock)
        self.nodes.add_handler(self._on_node)
        self.queues.add_handler(self._on_queue)
        self.priority_classes.add_handler(self._on_change)

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """The caches that facts are made of."""
        return (self.queues, self.priority_classes, *((self.nodes,) if self._api_servers_only else ()))

    async def facts_for(self, request: AdmissionRequest) -> Facts | None:
        """What is known for this request; None while not enough is.

        A queue that is not known is waited for, or asked for once more: `kubectl apply` creates a queue and its first
        job within the same millisecond. Labels of namespaces decide about few requests, and are asked for when they do.
        """
        if not all(informer.synced for informer in self.informers):
            return None
        if request.resource.group == "batch":
            return await self._with_adopt_queue(request, self.facts())
        name = _queue_of(request)
        if not self._api_servers_only:
            if name is not None and not _keeps_its_queue(request):
                await self._watched(name)
            return self.facts()
        return await self._looked_up(request, self.facts(), name)

    async def _with_adopt_queue(self, request: AdmissionRequest, facts: Facts) -> Facts:
        """The facts with the queue of a namespace, for a Job that names none."""
        if not self._api_servers_only or _names_a_queue(request):
            return facts
        labels = await self._labels_of(request.namespace)
        if labels is None:
            return facts
        return replace(facts, adopt_queue=labels.get(names.LABEL_ADOPT_QUEUE, names.DEFAULT_QUEUE))

    async def _looked_up(self, request: AdmissionRequest, facts: Facts, name: str | None) -> Facts | None:
        """The facts with what else an API server may be told; None where that cannot be had."""
        if claims := _claims_of(request):
            facts = replace(facts, absent_claims=await self._absent(request.namespace, claims))
        queue = None if name is None else facts.queue(name)
        if name is not None and queue is None and (queue := await self._look_up(name)) is not None:
            facts = replace(facts, queues={**facts.queues, name: queue})
        if (queue is None or queue.selector is None) and not _asks_for_rights(request):
            return facts
        labels = await self._labels_of(request.namespace)
        if labels is None and not _keeps_its_queue(request):
            return None
        return replace(facts, namespace_labels=labels or {})

    def facts(self) -> Facts:
        """What the caches hold at this moment."""
        if self._facts is None:
            facts = Facts(
                self._rules,
                {queue.metadata.name: queue_facts(queue) for queue in self.queues.items()},
                tuple(self._nodes.values()),
                {found.metadata.name: priority_class_facts(found) for found in self.priority_classes.items()},
            )
            self._facts = facts if self._api_servers_only else facts.for_anybody()
        return self._facts

    async def _watched(self, name: str) -> None:
        """Until the watch shows a queue of that name, for a short time: that costs the API server nothing."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WATCH_SECONDS):
                while self.facts().queue(name) is None:
                    await self._queues_changed.wait()

    async def _look_up(self, name: str) -> QueueFacts | None:
        now = self._clock.monotonic()
        if self._missing.get(name, 0.0) > now:
            return None
        try:
            body = await self._client.request("GET", SCAVENGERQUEUES.path(None, name), timeout=QUEUE_TIMEOUT)
            return queue_facts(decode_queue(body))
        except NotFound:
            if len(self._missing) >= MAX_MISSING:
                self._missing.clear()
            self._missing[name] = now + MISSING_SECONDS
        except (ApiError, ValueError) as error:
            log.warning("queue not looked up", queue=name, error=str(error))
        return None

    async def _absent(self, namespace: str, claims: Sequence[str]) -> tuple[str, ...]:
        """Those that the namespace does not have; what cannot be asked for is taken to be there."""

        async def there(name: str) -> bool:
            try:
                path = PERSISTENTVOLUMECLAIMS.path(namespace, name)
                await self._client.request("GET", path, timeout=QUEUE_TIMEOUT)
            except NotFound:
                return False
            except ApiError:
                return True
            return True

        found = await asyncio.gather(*map(there, claims))
        return tuple(name for name, exists in zip(claims, found, strict=True) if not exists)

    async def _labels_of(self, namespace: str) -> Mapping[str, str] | None:
        """The labels of a namespace, none for one that does not exist; None where they cannot be had."""
        now = self._clock.monotonic()
        until, labels = self._labels.get(namespace, (0.0, {}))
        if until > now or not _LABEL.fullmatch(namespace):
            return labels
        try:
            body = await self._client.request("GET", NAMESPACES.path(None, namespace), timeout=QUEUE_TIMEOUT)
            labels = decode_labels(body)
        except NotFound:
            labels = {}
        except (ApiError, ValueError) as error:
            log.warning("labels of a namespace not looked up", namespace=namespace, error=str(error))
            return None
        if len(self._labels) >= MAX_MISSING:
            self._labels.clear()
        self._labels[namespace] = (now + LABELS_SECONDS, labels)
        return labels

    def _on_node(self, change: Change[Node]) -> None:
        if change.new is None:
            self._nodes.pop(change.key, None)
        else:
            self._nodes[change.key] = node_facts(change.new)
        self._facts = None

    def _on_queue(self, change: Change[Any]) -> None:
        self._on_change(change)
        self._queues_changed.set()
        self._queues_changed = asyncio.Event()

    def _on_change(self, change: Change[Any]) -> None:
        self._facts = None


def _queue_of(request: AdmissionRequest) -> str | None:
    """The queue that a ScavengerJob names, if it can be the name of one."""
    name = _spec_of(request).get("queue")
    return name if isinstance(name, str) and _LABEL.fullmatch(name) else None


def _names_a_queue(request: AdmissionRequest) -> bool:
    """Whether a Job has a queue by its own label."""
    return at(request.object or {}, "metadata", "labels", names.LABEL_QUEUE) is not None


def _claims_of(request: AdmissionRequest) -> list[str]:
    """PersistentVolumeClaims that a new ScavengerJob mounts, as far as they can be names of any."""
    if request.operation != "CREATE" or not _LABEL.fullmatch(request.namespace):
        return []
    spec = _spec_of(request)
    mounts, volumes = spec.get("persistentVolumeClaims"), at(spec, "template", "spec", "volumes")
    names_of = [at(mount, "name") for mount in (mounts if isinstance(mounts, list) else ())]
    names_of += [
        at(volume, "persistentVolumeClaim", "claimName") for volume in (volumes if isinstance(volumes, list) else ())
    ]
    found = {name for name in names_of if isinstance(name, str) and _CLAIM.fullmatch(name)}
    return sorted(found)[:MAX_CLAIMS]


def _asks_for_rights(request: AdmissionRequest) -> bool:
    """Whether the labels of the namespace may decide about what a new ScavengerJob asks for."""
    spec = _spec_of(request)
    asks = spec.get("runAsUser") == 0 or bool(spec.get("securityContext")) or bool(spec.get("template"))
    return request.operation == "CREATE" and asks


def _spec_of(request: AdmissionRequest) -> Mapping[str, Any]:
    """The spec of a ScavengerJob, as it came; empty for anything else."""
    if request.resource.group != names.GROUP or request.object is None:
        return {}
    spec = request.object.get("spec")
    return spec if isinstance(spec, dict) else {}
