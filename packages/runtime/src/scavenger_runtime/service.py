"""What every service runs in: settings in, exit code out.

`run_service` configures logging, connects, answers probes, keeps informers running, handles signals and election, and
ends the process when something in it has ended that should not have: a half-dead service is worse than a restarted one.

    async def main(context: ServiceContext[MySettings]) -> None:
        pods = context.add_informer(Informer(context.client, PODS))   # warm in standbys, too
        loop = ReconcileLoop("jobs", Reconciler(...).reconcile)
        await context.lead(loop.run)                                   # once synced, and elected

    sys.exit(run_service(MySettings.load(), main))
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Generic, TypeVar

import uvloop
from scavenger_kube.client import ApiClient
from scavenger_kube.decode import Cacheable
from scavenger_kube.errors import ApiError, Unauthorized, Unavailable

from scavenger_runtime import metrics
from scavenger_runtime.backoff import Backoff
from scavenger_runtime.clock import Clock, SystemClock
from scavenger_runtime.connections import raise_file_limit
from scavenger_runtime.election import Elector, LeadershipLost
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.informer import Informer
from scavenger_runtime.logging import configure_logging, get_logger
from scavenger_runtime.metrics_server import MetricsServer
from scavenger_runtime.observer import RequestMetrics
from scavenger_runtime.probes import ProbeServer
from scavenger_runtime.settings import ServiceSettings
from scavenger_runtime.tasks import log_failure, seen

EXIT_OK = 0
EXIT_FAILED = 1

STALL_SECONDS = 30.0
"""The event loop has not turned for that long: something blocks it."""

TICK_SECONDS = 0.1
"""How often it is looked whether the event loop turns: whatever holds it up for longer than that is seen."""

SWITCH_SECONDS = 0.001
"""A plan in a thread gives way to the event loop after so long at the most. By default it is five times as long, and an
event loop that reads twenty sockets, each of which lets go of the interpreter, waits that long twenty times."""

COLLECTIONS = (10_000, 20, 20)
"""By default every 700 new objects are looked through, and all there are after 100 times that: hundreds of thousands in
a large cluster. What services make is freed by counting references, almost all of it."""

MMAP_THRESHOLD = -3
"""M_MMAP_THRESHOLD of mallopt(3)."""

LARGE_BYTES = 128 * 1024
"""A buffer of more is handed back to the system when it is freed: a page of a list, an answer, a template as JSON."""

LINGER_SECONDS = 3.0
"""How long a cancelled task may take to end when the process does."""

LAG = metrics.histogram("event_loop_lag_seconds", "How late a timer of the event loop woke, ten times a second.")
INFO = metrics.gauge("build_info", "1, with the component and its version as labels.", ["component", "version"])

log = get_logger(__name__)

S = TypeVar("S", bound=ServiceSettings)
T = TypeVar("T", bound=Cacheable)


class ServiceContext(Generic[S]):
    """What a service's main function works with."""

    def __init__(
        self, name: str, settings: S, client: ApiClient, probes: ProbeServer, clock: Clock | None = None
    ) -> None:
        self.name = name
        self.settings = settings
        self.client = client
        self.probes = probes
        self.clock = clock or SystemClock()
        self.events = EventRecorder(client, name, instance=settings.identity, clock=self.clock)
        self.informers: list[Informer[Any]] = []
        self.elector: Elector | None = None
        self._tasks: dict[asyncio.Task[Any], str] = {}
        self._ended: asyncio.Queue[asyncio.Task[Any]] = asyncio.Queue()
        self.add_task("events", self.events.run())

    def add_informer(self, informer: Informer[T]) -> Informer[T]:
        """Run an informer from now on, leader or not, and have the probes watch it: ready once it is synced,
        alive while it can follow."""
        self.informers.append(informer)
        self.probes.add_readiness(f"informer-{informer.name}", lambda: informer.synced or "not synced yet")
        self.probes.add_liveness(f"informer-{informer.name}", lambda: _followed(informer))
        self.add_task(f"informer-{informer.name}", informer.run())
        return informer

    def add_task(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        """Run something beside main, leader or not. The process ends with a failure when it ends by itself."""
        task = asyncio.create_task(work, name=name)
        self._tasks[task] = name
        task.add_done_callback(self._ended.put_nowait)

    async def wait_synced(self) -> None:
        """Return once all informers added so far have their first list."""
        await asyncio.gather(*(informer.wait_synced() for informer in self.informers))

    async def lead(self, work: Callable[[], Awaitable[None]], *beside: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `work` once the informers are synced and, with leader election, this process is elected.

        When this is cancelled, `work` is cancelled and waited for. From then on the client writes only while this
        process leads: one that was stopped, as by SIGSTOP, would otherwise go on with what it had decided, before it
        notices that another one has its Lease. Raises LeadershipLost.

        Args:
            work: what a leader does.
            beside: what else it does until `work` ends; cancelled then, and when `work` is.
        """
        await self.wait_synced()
        settings = self.settings

        async def leading() -> None:
            tasks = [asyncio.create_task(one()) for one in beside]
            for task in tasks:
                task.add_done_callback(log_failure)
            try:
                await work()
            finally:
                if tasks:
                    await _cancel(*tasks)

        if not settings.leader_elect:
            await leading()
            return
        self.elector = elector = Elector(
            self.client,
            self.name,
            settings.namespace,
            settings.identity,
            lease_duration=settings.lease_duration,
            renew_deadline=settings.renew_deadline,
            retry_period=settings.retry_period,
            clock=self.clock,
        )

        async def fenced() -> None:
            self.client.fence(lambda: elector.is_leader)
            await leading()

        await elector.run(fenced)

    async def failed(self) -> str:
        """Wait until one of the tasks beside main has ended, and say which and why."""
        task = await self._ended.get()
        name = self._tasks.pop(task)
        if task.cancelled():
            return f"{name} was cancelled"
        error = task.exception()
        if error is not None:
            log.error("task failed", task=name, exc_info=error)
        return f"{name} ended" + (f": {error!r}" if error else "")

    async def close(self) -> None:
        """Cancel the tasks beside main and wait for them."""
        for task in self._tasks:
            task.remove_done_callback(self._ended.put_nowait)
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


Main = Callable[[ServiceContext[S]], Awaitable[None]]


def run_service(settings: S, main: Main[S], *, name: str | None = None) -> int:
    """Run a service until it is told to stop (0), or loses its leadership or fails (1). Returns the exit code.

    name: in logs, metrics, events and as the name of the Lease; by default from the package of the settings'
    class, `scavenger_admitter` → `scavenger-admitter`.
    """
    service = name or type(settings).__module__.split(".", maxsplit=1)[0].replace("_", "-")
    configure_logging(service, level=settings.log_level, format=settings.log_format)
    release = _version(service)
    INFO.labels(service, release).set(1)
    log.info("starting", version=release, settings=settings.shown())
    watchdog = _Watchdog()
    tune_interpreter()
    give_back_large_buffers()
    raise_file_limit()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(serve(service, settings, main, ended=watchdog.watch))
    except KeyboardInterrupt:
        code = EXIT_FAILED
    except Exception:  # no configuration, the port for probes taken, ...
        log.exception("cannot run")
        code = EXIT_FAILED
    finally:
        watchdog.rest()
    log.info("ended", exit_code=code)
    return code


def tune_interpreter() -> None:
    """Have the event loop held up less by what is not its own: plans in threads, and the garbage collector."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(*COLLECTIONS)


def give_back_large_buffers() -> None:
    """Have the C library hand every freed buffer of more than `LARGE_BYTES` back to the system.

    By itself it learns from the first large one to keep them, up to 32 MiB each. Large templates that are kept then lie
    between freed pages, and the space between them is lost.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, LARGE_BYTES)


async def serve(
    name: str,
    settings: S,
    main: Main[S],
    *,
    connect: Callable[[], Awaitable[ApiClient]] | None = None,
    clock: Clock | None = None,
    started: Callable[[ServiceContext[S]], None] | None = None,
    ended: Callable[[int], None] | None = None,
) -> int:
    """`run_service` inside a running event loop. connect: makes the client (default: from the settings).
    started: called with the context before main runs. ended: called with the exit code before anything is closed.
    Returns the exit code."""
    clock = clock or SystemClock()
    stop = _stop_on_signals()
    secured = MetricsServer(settings, clock) if settings.metrics_tls_folder else None
    probes = ProbeServer(settings.health_address, settings.health_port, metrics=secured is None)
    heartbeat = _Heartbeat(clock)
    probes.add_liveness("event-loop", heartbeat.check)
    connected = asyncio.Event()
    probes.add_readiness("api-server", lambda: connected.is_set() or "not reached yet")
    ticking = asyncio.create_task(heartbeat.run())
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(_cancel, ticking)
        await probes.start()
        stack.push_async_callback(probes.close)
        if secured is not None:
            stack.push_async_callback(secured.close)
            await secured.start()
        client = await _unless_stopped(stop, _connect(settings, name, connect, clock))
        if client is None:
            return EXIT_OK
        stack.push_async_callback(client.close)
        connected.set()
        if secured is not None:
            secured.reached(client)
        context = ServiceContext(name, settings, client, probes, clock)
        stack.push_async_callback(context.close)
        if started is not None:
            started(context)
        code = await _run_main(context, main, stop)
        if ended is not None:
            ended(code)
        return code


async def _run_main(context: ServiceContext[S], main: Main[S], stop: asyncio.Event) -> int:
    """Until main ends, something beside it ends, or a signal comes; then main has `shutdown_timeout` seconds to end."""
    running = asyncio.create_task(_call(main, context), name="main")
    failing = asyncio.create_task(context.failed())
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([running, failing, stopping], return_when=asyncio.FIRST_COMPLETED)
        if stopping.done() and not running.done():
            log.info("stopping", timeout=context.settings.shutdown_timeout)
            return await _drain(running, context.settings.shutdown_timeout)
        if failing.done() and not running.done():
            log.error("ending: the process is not whole any more", reason=failing.result())
            await _drain(running, context.settings.shutdown_timeout)
            return EXIT_FAILED
        return _outcome(running)
    finally:
        await _cancel(running, failing, stopping)


async def _drain(running: asyncio.Task[None], timeout: float) -> int:
    running.cancel()
    await asyncio.wait([running], timeout=timeout)
    if not running.done():
        log.error("not drained in time, cut off", timeout=timeout)
        return EXIT_FAILED
    return EXIT_OK if running.cancelled() else _outcome(running)


def _outcome(running: asyncio.Task[None]) -> int:
    """The exit code for how main ended."""
    if running.cancelled():
        return EXIT_FAILED
    error = running.exception()
    if error is None:
        return EXIT_OK
    if isinstance(error, LeadershipLost):
        log.error("leadership lost", reason=str(error))
    else:
        log.error("failed", exc_info=error)
    return EXIT_FAILED


async def _call(main: Main[S], context: ServiceContext[S]) -> None:
    await main(context)


async def _connect(
    settings: ServiceSettings, name: str, connect: Callable[[], Awaitable[ApiClient]] | None, clock: Clock
) -> ApiClient:
    """A client whose API server has answered, for as long as that takes."""
    if connect is not None:
        client = await connect()
    else:
        client = await ApiClient.connect(
            kubeconfig=settings.kubeconfig,
            context=settings.context,
            observer=RequestMetrics(),
            user_agent=f"{name}/{_version(name)}",
        )
    backoff = Backoff(0.5, 10.0)
    while True:
        try:
            await client.request("GET", "/version", timeout=10.0)
        except (Unavailable, Unauthorized) as error:
            wait = backoff.next()
            log.warning("API server not reached", error=str(error), wait=round(wait, 1))
            await clock.sleep(wait)
        except ApiError as error:
            log.info("API server answers", status=error.status)  # /version may be closed to us, the server is there
            return client
        else:
            return client


async def _unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, ApiClient]) -> ApiClient | None:
    """The result of `work`, or None when told to stop before it is there."""
    task = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        await _cancel(task, stopping)


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait for them, but not for ever: the process is about to end."""
    for task in tasks:
        task.add_done_callback(seen)
        task.cancel()
    _, pending = await asyncio.wait(tasks, timeout=LINGER_SECONDS)
    for task in pending:
        log.error("a task ignores its cancellation", task=task.get_name())


def _stop_on_signals() -> asyncio.Event:
    """Set by SIGTERM and SIGINT; a second one takes its usual effect, for users who do not wait."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread, not Unix
            loop.add_signal_handler(number, on_signal, number)
    return stop


def _followed(informer: Informer[Any]) -> str | None:
    return None if informer.healthy() else f"could not follow for {informer.age:.0f} s"


def _version(service: str) -> str:
    try:
        return version(service)
    except PackageNotFoundError:
        return "unknown"


class _Watchdog:
    """Sees to it that a process that has failed is gone soon, even if some task of it ignores its cancellation: after a
    lost leadership, such a task would go on writing beside the next leader's."""

    def __init__(self) -> None:
        self._timer = threading.Timer(2 * LINGER_SECONDS, os._exit, (EXIT_FAILED,))
        self._timer.daemon = True

    def watch(self, code: int) -> None:
        """Begin, where the exit code is not 0."""
        if code != EXIT_OK:
            self._timer.start()

    def rest(self) -> None:
        """The event loop has ended by itself."""
        self._timer.cancel()


class _Heartbeat:
    """Notices when the event loop is held up by work that should have been elsewhere."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = clock.monotonic()

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            before = self._clock.monotonic()
            await self._clock.sleep(TICK_SECONDS)
            self._at = self._clock.monotonic()
            LAG.observe(max(0.0, self._at - before - TICK_SECONDS))

    def check(self) -> str | None:
        """Why the event loop counts as stalled, or None."""
        silent = self._clock.monotonic() - self._at
        return None if silent <= STALL_SECONDS else f"the event loop has not turned for {silent:.0f} s"
