"""`pytest --forks N`: collect once, then run the tests in that many forked processes.

A worker of pytest-xdist imports and collects all tests by itself: 5 s of CPU time for the unit tests, and as much again
for what it tells the others. A fork has the tests from its parent. It asks for the next file before it runs the last
test of one, so no process waits for another until the files run out. The parent reports, as if it had run them all.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, Final

import pytest

from tests import results

FORK: Final = multiprocessing.get_context("fork")
PART: Final = 50
"""Tests of a file that a worker takes at a time, at most: other workers would wait for one with a very large file."""
GRACE_SECONDS: Final = 60.0
"""For workers to take their fixtures down when the run is interrupted."""
MORE: Final = "more"
"""What a worker says when it needs more tests. All else that it says are the reports of a test."""

Numbers = list[int]
"""Places of tests among the collected ones: what processes call them by."""


@dataclass
class Worker:
    """A process that runs tests, as its parent sees it. left: the tests that it has and has not reported the end of."""

    process: ForkProcess
    connection: Connection
    left: deque[int] = field(default_factory=deque)


class Forks:
    """The plugin that runs tests in forks of this process."""

    def __init__(self, number: int) -> None:
        self.number = number

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run all tests. Leave it to pytest when collection failed, nothing is to run, or only a part of one file."""
        parts = deque(_parts(session.items))
        if session.testsfailed or session.config.option.collectonly or len(parts) < 2:
            return None
        Run(session, parts).finish(min(self.number, len(parts)))
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True


def _parts(items: Sequence[pytest.Item]) -> Iterator[Numbers]:
    """The tests of each file, in lists of up to PART."""
    for _, numbers in groupby(range(len(items)), key=lambda number: items[number].path):
        tests = list(numbers)
        yield from (tests[start : start + PART] for start in range(0, len(tests), PART))


class Run:
    """The tests of one session, on their way through the workers."""

    def __init__(self, session: pytest.Session, parts: deque[Numbers]) -> None:
        self.session = session
        self.parts = parts
        self.started = 0
        self.workers: dict[Connection, Worker] = {}

    def finish(self, number: int) -> None:
        """Run what there is, in so many processes at a time."""
        try:
            for _ in range(number):
                self._start()
            while self.workers:
                for connection in wait(list(self.workers)):
                    assert isinstance(connection, Connection)
                    self._hear(self.workers[connection])
        finally:
            for worker in self.workers.values():
                worker.connection.close()  # it takes its fixtures down then, as it does after Ctrl-C
                worker.process.join(GRACE_SECONDS)
                worker.process.terminate()
                worker.process.join()

    def _start(self) -> None:
        here, there = FORK.Pipe()
        folder = self.session.config._tmp_path_factory.mktemp(f"fork{self.started}", numbered=False)  # type: ignore[attr-defined]
        process = FORK.Process(target=_work, args=(self.session, here, there, folder))
        process.start()
        there.close()
        self.started += 1
        self.workers[here] = Worker(process, here)

    def _hear(self, worker: Worker) -> None:
        try:
            said = worker.connection.recv()
        except (EOFError, ConnectionResetError):
            self._end(worker)
            return
        if said == MORE:
            self._hand_out(worker)
            return
        item = self.session.items[worker.left.popleft()]
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for data in said:
            report = item.config.hook.pytest_report_from_serializable(config=item.config, data=data)
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _stopped(self) -> bool:
        """Whether there were so many failures that the rest is left out (-x)."""
        return bool(self.session.shouldfail or self.session.shouldstop)

    def _hand_out(self, worker: Worker) -> None:
        """Give a worker the next tests, or none, which ends it."""
        tests = self.parts.popleft() if self.parts and not self._stopped() else []
        worker.left.extend(tests)
        with contextlib.suppress(BrokenPipeError):  # it has crashed meanwhile, which the next look at it shows
            worker.connection.send(tests)

    def _end(self, worker: Worker) -> None:
        """Forget a worker. One that has tests left has crashed: the first of them fails, a new worker runs the rest."""
        worker.process.join()
        worker.connection.close()
        del self.workers[worker.connection]
        if not worker.left or self._stopped():
            return
        item = self.session.items[worker.left.popleft()]
        said = f"the process that ran this test ended with exit code {worker.process.exitcode}"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", said, "call")
        item.ihook.pytest_runtest_logreport(report=report)
        if worker.left:
            self.parts.appendleft(list(worker.left))
        if self.parts:
            self._start()


class Reporter:
    """The plugin of a worker that sends the reports of a test to the parent when the test is over."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self.config = config
        self.connection = connection
        self.reports: list[Any] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep it until the test is over."""
        self.reports.append(self.config.hook.pytest_report_to_serializable(config=self.config, report=report))

    def pytest_runtest_logfinish(self) -> None:
        """Send what there is."""
        self.connection.send(self.reports)
        self.reports = []


def _work(session: pytest.Session, theirs: Connection, ours: Connection, folder: Any) -> None:
    """Run tests until there are none; the whole life of a worker."""
    theirs.close()
    config = session.config
    for name in ("terminalreporter", "terminalprogress", results.PLUGIN):
        config.pluginmanager.unregister(name=name)
    config.pluginmanager.register(Reporter(config, ours))
    config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        # What tests print is captured in a file, and forks would write to the parent's.
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError, EOFError):
        for item, following in _pairs(session.items, ours):
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail or session.shouldstop:
                break
    session._setupstate.teardown_exact(None)
    ours.close()


def _pairs(items: Sequence[pytest.Item], parent: Connection) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Each test with the one behind it, for which fixtures are kept; asks for more before the last one."""

    def more() -> Iterator[pytest.Item]:
        while True:
            parent.send(MORE)
            numbers = parent.recv()
            if not numbers:
                return
            yield from (items[number] for number in numbers)

    coming = more()
    item = next(coming, None)
    while item is not None:
        following = next(coming, None)
        yield item, following
        item = following
