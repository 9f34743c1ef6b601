"""The webhook in a history: replicas that review what users write, as the API server asks them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from scavenger_api import names
from scavenger_webhook.app import create_app
from scavenger_webhook.controller import ClusterView
from scavenger_webhook.settings import WebhookSettings

from tests.unit.admitter.harness import Object, Process, _context
from tests.unit.webhook.builders import raw
from tests.unit.webhook.test_app import PATHS, call, dumped

if TYPE_CHECKING:
    from tests.simulation.system.system import System

TIMEOUT: Final = 5.0
"""Seconds that the API server waits for an answer, as `admission.timeoutSeconds` of the chart says."""


class Webhook(Process):
    """A replica: its view of the cluster, and the application that answers from it."""

    name = names.WEBHOOK

    def __init__(self, system: System, settings: WebhookSettings) -> None:
        self.context = _context(system, names.WEBHOOK, settings, system.clock)
        view = ClusterView(self.context.client, settings.rules(), system.clock, api_servers_only=True)
        for informer in view.informers:
            self.context.add_informer(informer)
        self._app = create_app(view.facts_for)
        self._loop = system.loop
        self._under_way: set[asyncio.Task[tuple[int, Any]]] = set()
        self.task = system.run_process(self._serve())

    async def _serve(self) -> None:
        await asyncio.Event().wait()

    async def kill(self) -> None:
        for one in self._under_way:
            one.cancel()
        await super().kill()

    @property
    def ready(self) -> bool:
        """Whether the API server is led here."""
        return all(informer.synced for informer in self.context.informers)

    async def review(self, resource: str, obj: Object, old: Object | None) -> Object | None:
        """The response to a write; None where there is none in time. The connection of a process that is killed is
        cut."""
        meta, operation = obj["metadata"], "CREATE" if old is None else "UPDATE"
        about = {"namespace": meta["namespace"], "name": meta["name"]}
        body = dumped(raw(resource, obj, old=old, operation=operation, **about))
        asked = self._loop.begin(
            self.context.settings.identity,
            lambda: asyncio.create_task(call(PATHS[resource], [body], app=self._app)),
        )
        self._under_way.add(asked)
        asked.add_done_callback(self._under_way.discard)
        await asyncio.wait({asked}, timeout=TIMEOUT)
        if not asked.done() or asked.cancelled():
            asked.cancel()
            return None
        status, answer = asked.result()
        assert status == 200, answer
        response: Object = answer["response"]
        return response
