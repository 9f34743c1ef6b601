"""/metrics over TLS, on a port of its own: the kubelet's probes stay in clear."""

from __future__ import annotations

import asyncio
import contextlib
from http import HTTPStatus

from aiohttp import web
from scavenger_kube.client import ApiClient

from scavenger_runtime.certificates import Certificates
from scavenger_runtime.clock import Clock
from scavenger_runtime.logging import get_logger
from scavenger_runtime.metrics_access import PATH, MetricsAccess
from scavenger_runtime.probes import Listener, answer_metrics, listen
from scavenger_runtime.settings import ServiceSettings

log = get_logger(__name__)


class MetricsServer:
    """Serves what the settings say. port: as there, and after `start` the one that was taken."""

    def __init__(self, settings: ServiceSettings, clock: Clock) -> None:
        self.port = settings.metrics_port
        self._host = settings.health_address
        folder = settings.metrics_tls_folder
        self._certificates = Certificates(folder, clock, flag="--metrics-tls-folder", about="metrics")
        self._access = MetricsAccess(clock) if settings.metrics_auth == "token" else None
        self._listener: Listener | None = None
        self._polling: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to answer. Raises OSError where the address is taken, ValueError without a usable certificate."""
        self._certificates.load()
        app = web.Application()
        app.router.add_get(PATH, self._metrics, allow_head=False)
        self._listener = await listen(app, self._host, self.port, self._certificates.context)
        self.port = self._listener.port
        self._polling = asyncio.create_task(self._certificates.keep(), name="metrics-certificate")
        log.info("metrics listen", address=self._host, port=self.port)

    def reached(self, client: ApiClient) -> None:
        """The API server answers: with this client it is asked who may read."""
        if self._access is not None:
            self._access.client = client

    async def close(self) -> None:
        """Stop to answer."""
        if self._polling is not None:
            self._polling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._polling
        if self._listener is not None:
            await self._listener.close()

    async def _metrics(self, request: web.Request) -> web.Response:
        verdict = HTTPStatus.OK
        if self._access is not None:
            verdict = await self._access.judge(request.headers.get("Authorization"))
        if verdict is HTTPStatus.OK:
            return await answer_metrics(request)
        headers = {"WWW-Authenticate": "Bearer"} if verdict is HTTPStatus.UNAUTHORIZED else {}
        return web.Response(status=verdict, text=f"{verdict.phrase}\n", headers=headers)
