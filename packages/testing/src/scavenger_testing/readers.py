"""All that components read lists and watches with: their informers, with the handlers and facts behind them.

Nothing is decided and nothing is written. So one process reads a cluster as all components read it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from scavenger_admitter.controller import Admitter
from scavenger_admitter.settings import AdmitterSettings
from scavenger_board.controller import BoardView
from scavenger_board.settings import BoardSettings
from scavenger_kube.client import ApiClient
from scavenger_prioritizer.controller import Prioritizer
from scavenger_prioritizer.settings import PrioritizerSettings
from scavenger_regulator.controller import Regulator
from scavenger_regulator.settings import RegulatorSettings
from scavenger_runtime import tls
from scavenger_runtime.clock import SystemClock
from scavenger_runtime.informer import HANDLER_ERRORS, Informer
from scavenger_runtime.probes import ProbeServer
from scavenger_runtime.service import ServiceContext
from scavenger_webhook.authority_keeper import AuthorityKeeper
from scavenger_webhook.controller import ClusterView
from scavenger_webhook.settings import WebhookSettings


@dataclass(frozen=True)
class Readers:
    """What all components follow.

    Attributes:
        board: which makes pictures of what it reads.
        regulator: which makes snapshots of it.
        prioritizer: as the regulator.
        informers: of all components.
    """

    board: BoardView
    regulator: Regulator
    prioritizer: Prioritizer
    informers: Sequence[Informer[Any]]

    async def synced(self) -> None:
        """All of them have their first list."""
        await asyncio.gather(*(informer.wait_synced() for informer in self.informers))

    def unreadable(self) -> dict[str, str]:
        """Objects that an informer could not read, as `PLURAL/KEY`, and why."""
        return {
            f"{informer.resource.plural}/{key}": one.error
            for informer in self.informers
            for key, one in informer.unreadable.items()
        }

    def handler_errors(self) -> float:
        """How often a handler has raised in this process, as far as these informers had it called."""
        return float(sum(HANDLER_ERRORS.labels(name)._value.get() for name in {one.name for one in self.informers}))


@asynccontextmanager
async def reading(client: ApiClient) -> AsyncIterator[Readers]:
    """All informers of all components at work, until the block ends."""
    clock = SystemClock()
    context = ServiceContext("readers", AdmitterSettings(), client, ProbeServer("127.0.0.1", 0), clock)
    Admitter(context)
    regulator = Regulator(client, RegulatorSettings(source="requests"), clock, context.events)
    prioritizer = Prioritizer(client, PrioritizerSettings(), clock, context.events)
    board = BoardView(client, BoardSettings(), clock)
    webhook = WebhookSettings()
    cluster = ClusterView(client, webhook.rules(), clock, api_servers_only=True)
    keeper = AuthorityKeeper(client, webhook.namespace, webhook.certificate_rules(), clock, tls.server_context())
    for informer in (
        *regulator.informers,
        *prioritizer.informers,
        prioritizer.neighbours.pods,
        *board.informers,
        *cluster.informers,
        *keeper.informers,
    ):
        context.add_informer(informer)
    try:
        yield Readers(board, regulator, prioritizer, tuple(context.informers))
    finally:
        await context.close()
        await board.close()
