"""The shell: probes, signals, election, and the exit codes."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import Unavailable
from scavenger_kube.resources import LEASES, PODS
from scavenger_runtime import informer, metrics
from scavenger_runtime.informer import Informer
from scavenger_runtime.logging import configure_logging, get_logger
from scavenger_runtime.probes import ProbeServer
from scavenger_runtime.reconcile import ReconcileLoop
from scavenger_runtime.service import ServiceContext, serve
from scavenger_runtime.service import _Heartbeat as Heartbeat
from scavenger_runtime.settings import ServiceSettings
from scavenger_testing import PATIENCE, FakeApi, VirtualClock, eventually, pod_dict

pytestmark = pytest.mark.slow

Context = ServiceContext[ServiceSettings]
Main = Callable[[Context], Awaitable[None]]


def settings(**fields: Any) -> ServiceSettings:
    defaults = {"health_address": "127.0.0.1", "health_port": 0, "shutdown_timeout": 0.5}
    return ServiceSettings(**{**defaults, **fields})


class Service:
    """`serve` at work."""

    def __init__(self, api: FakeApi, main: Main, **fields: Any) -> None:
        self.context: Context | None = None

        async def connect() -> ApiClient:
            return api.client(request_timeout=0.2)

        def started(context: Context) -> None:
            self.context = context

        self.task = asyncio.create_task(serve("test", settings(**fields), main, connect=connect, started=started))

    async def probe(self, path: str) -> tuple[int, Any]:
        assert self.context is not None
        url = f"http://127.0.0.1:{self.context.probes.port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return response.status, await response.json(content_type=None)

    async def ended(self) -> int:
        return await asyncio.wait_for(self.task, PATIENCE)


async def test_leads_reconciles_and_stops_gracefully(api: FakeApi) -> None:
    api.put(PODS, pod_dict("a"))
    reconciled: list[str] = []

    async def reconcile(key: str) -> None:
        reconciled.append(key)

    async def main(context: Context) -> None:
        pods = context.add_informer(Informer(context.client, PODS))
        loop = ReconcileLoop("test", reconcile)
        pods.add_handler(lambda change: loop.add(change.key))
        await context.lead(loop.run)

    service = Service(api, main)
    await eventually(lambda: reconciled == ["default/a"])
    assert await service.probe("/healthz") == (200, {"status": "ok"})
    status, body = await service.probe("/readyz?verbose")
    assert (status, body["passing"]) == (200, ["api-server", "informer-pods"])
    os.kill(os.getpid(), signal.SIGTERM)
    assert await service.ended() == 0
    lease = api.get(LEASES, "scavenger-system", "test")
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == "", "released"


async def test_a_standby_is_warm_and_ready_and_does_nothing(api: FakeApi) -> None:
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 15}
    api.put(LEASES, {"metadata": {"name": "test", "namespace": "scavenger-system"}, "spec": spec})
    api.put(PODS, pod_dict("a"))
    led: list[bool] = []

    async def main(context: Context) -> None:
        context.add_informer(Informer(context.client, PODS))

        async def work() -> None:
            led.append(True)

        await context.lead(work)

    service = Service(api, main)
    await eventually(lambda: service.context is not None and len(service.context.informers) == 1)
    assert service.context is not None
    await asyncio.wait_for(service.context.informers[0].wait_synced(), PATIENCE)
    assert (await service.probe("/readyz"))[0] == 200
    assert led == []
    os.kill(os.getpid(), signal.SIGINT)
    assert await service.ended() == 0
    lease = api.get(LEASES, "scavenger-system", "test")
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == "another"


async def test_not_ready_before_the_first_list(api: FakeApi) -> None:
    api.hang(methods={"GET"}, path="/pods", times=1000)

    async def main(context: Context) -> None:
        context.add_informer(Informer(context.client, PODS))
        await context.wait_synced()

    service = Service(api, main)
    await eventually(lambda: service.context is not None and bool(service.context.informers))
    status, body = await service.probe("/readyz")
    assert (status, body) == (503, {"status": "failing", "failing": {"informer-pods": "not synced yet"}})
    assert (await service.probe("/healthz"))[0] == 200
    os.kill(os.getpid(), signal.SIGTERM)
    assert await service.ended() == 0


async def test_a_stale_informer_fails_the_liveness_probe(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer, "STALE_AFTER", -1)

    async def main(context: Context) -> None:
        context.add_informer(Informer(context.client, PODS))
        await asyncio.Event().wait()

    service = Service(api, main)
    await eventually(lambda: service.context is not None and bool(service.context.informers))
    status, body = await service.probe("/healthz")
    assert status == 503
    assert list(body["failing"]) == ["informer-pods"]
    os.kill(os.getpid(), signal.SIGTERM)
    assert await service.ended() == 0


async def test_a_crash_is_an_exit_code(api: FakeApi) -> None:
    async def main(context: Context) -> None:
        raise ValueError("a bug")

    assert await Service(api, main).ended() == 1


async def test_a_task_that_ends_ends_the_process(api: FakeApi) -> None:
    async def main(context: Context) -> None:
        async def dies() -> None:
            raise ValueError("a bug")

        context.add_task("helper", dies())
        await asyncio.Event().wait()

    assert await Service(api, main).ended() == 1


async def test_losing_the_lease_ends_the_process(api: FakeApi) -> None:
    led = asyncio.Event()

    async def main(context: Context) -> None:
        async def work() -> None:
            led.set()
            await asyncio.Event().wait()

        await context.lead(work)

    service = Service(api, main, lease_duration=1.0, renew_deadline=0.5, retry_period=0.02)
    await asyncio.wait_for(led.wait(), PATIENCE)
    api.edit(LEASES, "scavenger-system", "test", lambda lease: lease["spec"].update(holderIdentity="another"))
    assert await service.ended() == 1


async def test_a_leader_that_was_stopped_for_longer_than_its_lease_writes_nothing(api: FakeApi) -> None:
    clock = VirtualClock()
    context = ServiceContext("test", settings(), api.client(), ProbeServer("127.0.0.1", 0), clock)

    async def work() -> None:
        await context.client.create(PODS, "default", pod_dict("in-time"))
        clock.jump(settings().renew_deadline)
        with pytest.raises(Unavailable, match="leads no more"):
            await context.client.create(PODS, "default", pod_dict("late"))

    try:
        await context.lead(work)
    finally:
        await context.close()
    assert [pod["metadata"]["name"] for pod in api.list(PODS)] == ["in-time"]


async def test_waits_for_an_api_server_that_is_not_there_yet(api: FakeApi) -> None:
    api.fail(503, methods={"GET"}, path="/version")

    async def main(context: Context) -> None:
        return None

    assert await Service(api, main).ended() == 0


async def test_without_election_it_leads_at_once(api: FakeApi) -> None:
    async def main(context: Context) -> None:
        async def work() -> None:
            return None

        await context.lead(work)

    assert await Service(api, main, leader_elect=False).ended() == 0
    assert api.list(LEASES) == []


@pytest.mark.parametrize("elect", [False, True])
async def test_what_a_leader_does_beside_ends_with_its_work(api: FakeApi, *, elect: bool) -> None:
    beside: list[str] = []
    began = asyncio.Event()

    async def watch() -> None:
        beside.append("began")
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            beside.append("ended")

    async def work() -> None:
        await began.wait()

    async def main(context: Context) -> None:
        await context.lead(work, watch)

    assert await Service(api, main, leader_elect=elect).ended() == 0
    assert beside == ["began", "ended"]


async def test_what_fails_beside_the_work_of_a_leader_is_logged_at_once(
    api: FakeApi, logs: list[MutableMapping[str, Any]]
) -> None:
    async def watch() -> None:
        raise ValueError("a bug")

    async def work() -> None:
        await eventually(lambda: any("a bug" in str(entry.get("exc_info")) for entry in logs))

    async def main(context: Context) -> None:
        await context.lead(work, watch)

    assert await Service(api, main, leader_elect=False).ended() == 0


async def test_what_does_not_drain_is_cut_off(api: FakeApi) -> None:
    began = asyncio.Event()

    async def main(context: Context) -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.Event().wait()

    service = Service(api, main, shutdown_timeout=0.05)
    await asyncio.wait_for(began.wait(), PATIENCE)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await service.ended() == 1


def test_logs_are_json_lines_whoever_writes_them() -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    structlog.reset_defaults()
    try:
        configure_logging("tester", stream=stream)
        get_logger("mine", job="ns/a").info("decided", free={"cpu": 1.5}, names={"b", "a"})
        logging.getLogger("theirs").warning("took %d s", 3)
        try:
            raise ValueError("a bug")
        except ValueError:
            get_logger("mine").exception("failed")
        get_logger("mine").debug("not shown")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.captureWarnings(False)
        structlog.reset_defaults()
    ours, theirs, failed = map(json.loads, stream.getvalue().splitlines())
    assert list(ours)[:5] == ["time", "level", "service", "logger", "event"]
    assert ours["time"].endswith("Z")
    assert (ours["level"], ours["service"], ours["event"], ours["job"]) == ("info", "tester", "decided", "ns/a")
    assert (ours["free"], ours["names"]) == ({"cpu": 1.5}, ["a", "b"])
    assert (theirs["level"], theirs["event"], theirs["logger"]) == ("warning", "took 3 s", "theirs")
    assert "ValueError: a bug" in failed["exception"]


def test_importing_the_package_is_light() -> None:
    heavy = {"aiohttp", "kubernetes_asyncio", "prometheus_client", "pydantic", "structlog"}
    code = f"import sys, scavenger_runtime; sys.exit(sorted({heavy!r} & sys.modules.keys()) or None)"
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).stderr == b""


STUBBORN = """
import asyncio, sys
from scavenger_runtime import service
from scavenger_runtime.settings import ServiceSettings

service.LINGER_SECONDS = 0.05

async def main(context):
    async def stubborn():
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass
    context.add_task("stubborn", stubborn())
    raise ValueError("a bug")

sys.exit(service.run_service(ServiceSettings.load(sys.argv[1:]), main, name="test"))
"""


@pytest.mark.timeout(120)
async def test_a_failed_process_is_gone_even_if_a_task_will_not_end(api: FakeApi, tmp_path: Path) -> None:
    """Run for real: kubeconfig, flags, logs on stderr, exit code."""
    path = api.write_kubeconfig(tmp_path)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", STUBBORN, f"--kubeconfig={path}", "--health-port=0", stderr=asyncio.subprocess.PIPE
    )
    try:
        _, errors = await asyncio.wait_for(process.communicate(), 100)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 1
    events = [json.loads(line)["event"] for line in errors.splitlines()]
    assert events[0] == "starting"
    assert "failed" in events


class LateClock(VirtualClock):
    """Time stands still but for sleeps, which take longer than they should."""

    def __init__(self, late: list[float]) -> None:
        super().__init__()
        self.late = late
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        if not self.late:
            raise asyncio.CancelledError
        self.slept.append(seconds)
        self.jump(seconds + self.late.pop(0))


def lags() -> dict[str, float]:
    """How many lags were seen so far, by upper bound in seconds."""
    text = metrics.exposition().decode()
    return {
        bound: float(count)
        for bound, count in re.findall(r'scavenger_event_loop_lag_seconds_bucket{le="(.+)"} (.+)', text)
    }


async def test_every_hold_up_of_the_event_loop_is_in_the_metrics() -> None:
    clock, before = LateClock([0.0, 0.3, 0.02, 7.0, 0.0]), lags()
    with pytest.raises(asyncio.CancelledError):
        await Heartbeat(clock).run()
    seen = {bound: count - before[bound] for bound, count in lags().items()}
    assert (seen["0.01"], seen["0.1"], seen["0.5"], seen["5.0"], seen["+Inf"]) == (2, 3, 4, 4, 5)
    assert max(clock.slept) <= 0.1, "or what is shorter may pass unseen between two ticks"


HALF_FREED = """
import sys
from pathlib import Path
from scavenger_runtime.service import LARGE_BYTES, give_back_large_buffers

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

if sys.argv[1:]:
    give_back_large_buffers()
page = b"p" * 2**23
del page
kept = [b"k" * (2 * LARGE_BYTES) for _ in range(200)]
before = resident()
del kept[::2]
print((before - resident()) / 2**20)
"""
"""Frees every second of 200 buffers of 256 KiB that came after a large one, and prints how many MiB the process has
given back."""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_large_buffers_are_given_back_one_by_one() -> None:
    """The C library by itself keeps them, which is why services tell it not to."""
    by_itself, told = (
        float(subprocess.run([sys.executable, "-c", HALF_FREED, *words], capture_output=True, check=True).stdout)
        for words in ((), ("told",))
    )
    assert by_itself < 5
    assert told > 20
