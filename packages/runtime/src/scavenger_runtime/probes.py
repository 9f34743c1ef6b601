"""The HTTP side door of a service: /healthz (liveness), /readyz (readiness) and /metrics."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass

import orjson
from aiohttp import web

from scavenger_runtime import listening, metrics
from scavenger_runtime.connections import HANDSHAKE_SECONDS, PER_PEER, Door, Peers
from scavenger_runtime.listening import EVERYWHERE
from scavenger_runtime.logging import get_logger

Check = Callable[[], bool | str | None]
"""True or None when all is well; False, or a sentence saying what is not."""

OPENMETRICS_TEXT = "text/plain; version=0.0.4; charset=utf-8"

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    check: Check

    def failure(self) -> str | None:
        """Why it fails, or None. A check that raises has failed."""
        try:
            verdict = self.check()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        if verdict is None or verdict is True:
            return None
        return verdict or "failed"


class ProbeServer:
    """Answers probes by named checks: 200 when all pass, 503 with a JSON body naming those that do not.

    `?verbose` lists the passing ones as well. port 0 takes a free one, see `port` after `start`. metrics: whether
    /metrics is here, for every client that reaches it.
    """

    def __init__(self, host: str = EVERYWHERE, port: int = 8080, *, metrics: bool = True) -> None:
        self.host = host
        self.port = port
        self._metrics = metrics
        self._live: list[_Named] = []
        self._ready: list[_Named] = []
        self._listener: Listener | None = None

    def add_liveness(self, name: str, check: Check) -> None:
        """A failing liveness check has the kubelet restart the process: only for what a restart mends."""
        self._live.append(_Named(name, check))

    def add_readiness(self, name: str, check: Check) -> None:
        """A failing readiness check takes the process out of Services and holds a rollout back."""
        self._ready.append(_Named(name, check))

    async def start(self) -> None:
        """Begin to answer. Raises OSError where the address is taken."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        if self._metrics:
            app.router.add_get("/metrics", answer_metrics)
        self._listener = await listen(app, self.host, self.port)
        self.port = self._listener.port
        log.info("probes listen", address=self.host, port=self.port)

    async def close(self) -> None:
        """Stop to answer."""
        if self._listener is not None:
            await self._listener.close()
            self._listener = None

    async def _healthz(self, request: web.Request) -> web.Response:
        return _answer(request, self._live)

    async def _readyz(self, request: web.Request) -> web.Response:
        return _answer(request, self._ready)


def _answer(request: web.Request, checks: list[_Named]) -> web.Response:
    verdicts = {named.name: named.failure() for named in checks}
    failing = {name: why for name, why in verdicts.items() if why is not None}
    body: dict[str, object] = {"status": "failing" if failing else "ok"}
    if failing:
        body["failing"] = failing
    if "verbose" in request.query:
        body["passing"] = sorted(verdicts.keys() - failing.keys())
    return web.Response(
        status=503 if failing else 200, body=orjson.dumps(body) + b"\n", content_type="application/json"
    )


class Listener:
    """An application that is being served. port: the one that was taken."""

    def __init__(self, runner: web.AppRunner, server: asyncio.Server) -> None:
        self._runner = runner
        self._server = server
        self.port: int = server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop to answer."""
        self._server.close()
        await self._runner.cleanup()


async def listen(app: web.Application, host: str, port: int, context: ssl.SSLContext | None = None) -> Listener:
    """Serve an application, one request per connection; with a context, over TLS. Raises OSError where the address is
    taken."""
    app.on_response_prepare.append(_last)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    server, peers = runner.server, Peers(PER_PEER)
    assert server is not None
    timeout = None if context is None else HANDSHAKE_SECONDS
    try:
        made = await asyncio.get_running_loop().create_server(
            lambda: Door(server, peers),
            sock=listening.listen(host, port),
            ssl=context,
            ssl_handshake_timeout=timeout,
        )
    except OSError:
        await runner.cleanup()
        raise
    return Listener(runner, made)


async def _last(_request: web.Request, response: web.StreamResponse) -> None:
    response.force_close()


async def answer_metrics(_request: web.Request) -> web.Response:
    """All metrics of the process, in Prometheus' text format."""
    return web.Response(body=metrics.exposition(), headers={"Content-Type": OPENMETRICS_TEXT})
