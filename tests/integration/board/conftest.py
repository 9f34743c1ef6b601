"""The board as a process, an API server and a Prometheus that it asks, and a browser that looks at it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from playwright.async_api import Browser, async_playwright
from scavenger_board.guard import ACCESS_PATH
from scavenger_cluster.ports import any_free_port
from scavenger_testing.browser import ARGUMENTS, PATIENCE
from scavenger_testing.browser import chromium as installed_chromium
from scavenger_testing.certificates import new_authority
from scavenger_testing.fake_api import FakeApi
from scavenger_webhook.certificate_issuer import new_serving
from scavenger_webhook.core.certificates import CertificateRules

from .incident import Incident, prometheus_answer, prometheus_range

READY_SECONDS = 120.0
BEAT_SECONDS = 2.0


@dataclass(frozen=True)
class Board:
    """A board at work."""

    url: str
    incident: Incident
    process: subprocess.Popen[bytes]


@pytest.fixture(scope="session")
def chromium() -> str:
    """The test is skipped only where no browser can be installed at all."""
    found = installed_chromium()
    if found is None:
        pytest.skip("needs root and apt-get, or the Debian package chromium")
    return found


@pytest.fixture
async def browser(chromium: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        made = await playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS, timeout=PATIENCE)
        yield made
        await made.close()


@contextlib.asynccontextmanager
async def prometheus(scene: type[Incident]) -> AsyncIterator[str]:
    """A Prometheus that knows the incident; its URL."""

    async def instant(request: web.Request) -> web.Response:
        form = await request.post()
        found = prometheus_answer(str(form["query"]), float(str(form["time"])))
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": found}})

    async def over_time(request: web.Request) -> web.Response:
        form = await request.post()
        start, end, step = (float(str(form[name])) for name in ("start", "end", "step"))
        found = prometheus_range(str(form["query"]), start, end, step, scene.cpu)
        return web.json_response({"status": "success", "data": {"resultType": "matrix", "result": found}})

    app = web.Application()
    app.router.add_post("/api/v1/query", instant)
    app.router.add_post("/api/v1/query_range", over_time)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@contextlib.contextmanager
def process(folder: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """`python -m scavenger_board`, ended by SIGTERM, which it must obey."""
    log = (folder / "board.log").open("wb")
    command = [sys.executable, "-m", "scavenger_board", *flags]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SCAVENGER_")}
    started = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    try:
        yield started
        started.send_signal(signal.SIGTERM)
        assert started.wait(60) == 0, (folder / "board.log").read_text()
    finally:
        started.kill()
        started.wait()
        log.close()


async def ready(url: str, board: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until its probe says so."""
    async with aiohttp.ClientSession() as session:
        for _ in range(int(READY_SECONDS / 0.1)):
            assert board.poll() is None, (folder / "board.log").read_text()
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(url) as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.1)
    raise AssertionError((folder / "board.log").read_text())


async def beating(incident: Incident) -> None:
    while True:
        incident.beat(datetime.now(UTC))
        await asyncio.sleep(BEAT_SECONDS)


@contextlib.asynccontextmanager
async def at_work(folder: Path, scene: type[Incident] = Incident, **more: Any) -> AsyncIterator[Board]:
    """A board with these settings, and the incident that it is to show."""
    async with FakeApi() as api, prometheus(scene) as url:
        incident = scene(api, datetime.now(UTC).replace(microsecond=0))
        beat = asyncio.create_task(beating(incident))
        port, health = any_free_port(), any_free_port()
        settings: dict[str, Any] = {
            "kubeconfig": api.write_kubeconfig(folder),
            "port": port,
            "health-port": health,
            "health-address": "127.0.0.1",
            "prometheus-url": url if scene.prometheus else "",
            **scene.settings,
            **more,
        }
        try:
            with process(folder, *(f"--{name}={value}" for name, value in settings.items())) as started:
                await ready(f"http://127.0.0.1:{health}/readyz", started, folder)
                scheme = "https" if "tls-folder" in more else "http"
                yield Board(f"{scheme}://localhost:{port}/", incident, started)
        finally:
            beat.cancel()


@pytest.fixture
async def board(tmp_path: Path) -> AsyncIterator[Board]:
    async with at_work(tmp_path) as found:
        yield found


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Board]:
    """For who shows a token: `good` is of somebody who may look, `other` of somebody who may not."""
    rules, now = CertificateRules(("localhost",)), datetime.now(UTC)
    made = new_serving(new_authority(now), now, rules)
    (tmp_path / "tls.crt").write_bytes(made.certificate)
    (tmp_path / "tls.key").write_bytes(made.key)
    async with at_work(tmp_path, Incident, **{"access": "token", "tls-folder": tmp_path}) as found:
        reviews = found.incident.api.reviews
        reviews.users |= {"good": {"username": "sre"}, "other": {"username": "eve"}}
        reviews.allowed.add(("sre", ACCESS_PATH, "get"))
        yield found
