"""The gate: each step that a change must pass, what it cost, and which tests passed only when they ran alone.

    python -m tools.gate [--record]

A step is a target of the Makefile. Where tests of a step fail, each of them runs once more alone. A test that passes
then is named and counted in a file outside the checkout. In three of ten runs it fails the gate: it is a bug that comes
before anything else. Tests of the simulation play fixed seeds, so they never run again.

The simulation plays in virtual time, so its verdict does not depend on its speed. It runs beside the step on clusters,
and gets the CPU that this one leaves.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from scavenger_cluster.layout import cache_dir

from tools.stamps import write_whole
from tools.test_results import FOLDER, Lane, Result, read

ROOT: Final = Path(__file__).parents[1]
RECORDED: Final = ROOT / "tests" / "gate.json"
"""The times of whole runs, which a test holds against `MOST_SECONDS`."""
MOST_SECONDS: Final = 20 * 60
"""What a warm run may take."""
COLD_SECONDS: Final = 60
"""Of the step that builds programs. One that took longer has built some."""
MOST_AGAIN: Final = 5
"""Tests that run once more alone. More at once have failed for a reason of their own."""
ENDED: Final = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
"""How pytest ends where nothing failed but tests."""
RUNS: Final = 10
MOST_ALONE: Final = 3
"""Of so many runs, in how many a test that passed only alone is a bug with a name."""


@dataclass(frozen=True)
class Step:
    """A part of the gate.

    Attributes:
        target: of the Makefile.
        again: whether a test of it that failed may run once more alone.
        beside: the lane of its tests, for a step that runs beside the next one at the lowest priority.
    """

    target: str
    again: bool = True
    beside: str = ""


STEPS: Final = (
    Step("lint"),
    Step("generated"),
    Step("programs"),
    Step("test-charts"),
    Step("test-go"),
    Step("test-unit"),
    Step("test-simulation", again=False, beside="simulation"),
    Step("test-clusters"),
)


@dataclass
class Done:
    """What became of a step. seconds: with what ran again; of one beside another, by how much it ended later. alone:
    tests that passed only alone."""

    step: Step
    passed: bool
    seconds: float
    results: list[Result] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)


@dataclass
class Run:
    """A run of the gate, as the file outside the checkout keeps it. seconds: by step."""

    at: str
    seconds: dict[str, float]
    alone: list[str]
    passed: bool

    @property
    def warm(self) -> bool:
        """Whether no program had to be built."""
        return self.seconds.get("programs", 0.0) <= COLD_SECONDS

    @property
    def total(self) -> float:
        """Seconds of all steps."""
        return sum(self.seconds.values())


class History:
    """The last runs on this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.runs: list[Run] = []
        if path.exists():
            self.runs = [Run(**one) for one in json.loads(path.read_text())]

    def add(self, run: Run) -> None:
        """Keep one more, and forget the oldest."""
        self.runs = [*self.runs, run][-RUNS:]
        write_whole(self._path, json.dumps([asdict(one) for one in self.runs]))

    def alone(self) -> Counter[str]:
        """In how many of them each test passed only alone."""
        return Counter(test for run in self.runs for test in set(run.alone))


def main(words: Sequence[str]) -> int:
    """Run all steps; 1 where one does not pass, or a test is flaky too often."""
    parser = argparse.ArgumentParser(prog="python -m tools.gate", description=__doc__)
    parser.add_argument("--record", action="store_true", help=f"add the times to {RECORDED.relative_to(ROOT)}")
    chosen = parser.parse_args(words)
    for file in FOLDER.glob("*.jsonl"):
        file.unlink()
    done = run_steps(STEPS, make, again, lambda since: read(since=since))
    run = run_of(done)
    history = History(cache_dir() / "gate.json")
    history.add(run)
    flaky = history.alone()
    sys.stdout.write("\n".join(summary(done, run, flaky)) + "\n")
    if chosen.record and run.passed:
        record(RECORDED, run)
    return int(not run.passed or any(times >= MOST_ALONE for times in flaky.values()))


def run_steps(
    steps: Sequence[Step],
    make: Callable[[Step], int],
    again: Callable[[str], bool],
    written_since: Callable[[float], list[Lane]],
) -> list[Done]:
    """Run steps until one does not pass.

    Args:
        steps: in this order.
        make: makes the target of a step and returns its exit code.
        again: runs one test alone and returns whether it passed.
        written_since: the lanes whose results were written after this time (seconds since the epoch).
    """
    found: list[Done] = []
    for together in _together(steps):
        wall, made = time.time(), _make_together(together, make)
        lanes, apart = written_since(wall), {one.beside for one in together}
        for one in reversed(together):  # what failed beside others runs again when all have ended
            own = [lane for lane in lanes if (lane.name == one.beside if one.beside else lane.name not in apart)]
            found.append(_judged(one, *made[one], own, again))
        if not all(one.passed for one in found):
            break
    return sorted(found, key=lambda one: steps.index(one.step))


def _make_together(steps: Sequence[Step], make: Callable[[Step], int]) -> dict[Step, tuple[int, float]]:
    """Make the last of these steps, with the others beside it. Returns exit codes and seconds: of the others, by how
    much they ended later."""
    *others, last = steps
    began = time.monotonic()
    with ThreadPoolExecutor(len(steps)) as pool:
        started = {one: pool.submit(make, one) for one in others}
        code = make(last)
        made = {last: (code, time.monotonic() - began)}
        for one, ended in started.items():
            began = time.monotonic()
            code = ended.result()
            made[one] = (code, time.monotonic() - began)
    return made


def _together(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Each step with those before it that run beside it."""
    together: list[Step] = []
    for step in steps:
        together.append(step)
        if not step.beside:
            yield together
            together = []


def _judged(step: Step, code: int, seconds: float, lanes: Sequence[Lane], again: Callable[[str], bool]) -> Done:
    """What became of a step that ended with this code, after its tests that failed have run once more."""
    began = time.monotonic()
    alone = [] if code == 0 else passed_alone(step, lanes, again)
    results = [one for lane in lanes for one in lane.results]
    return Done(step, code == 0 or bool(alone), seconds + time.monotonic() - began, results, alone)


def passed_alone(step: Step, lanes: Sequence[Lane], again: Callable[[str], bool]) -> list[str]:
    """The tests that failed in a step, if nothing else did and each of them passes alone; else none."""
    failed = [one for lane in lanes for one in lane.results if one.outcome == "failed"]
    ended = all(lane.exit in ENDED for lane in lanes) and all(one.collected for one in failed)
    if not step.again or not ended or not 0 < len(failed) <= MOST_AGAIN:
        return []
    names = [one.test for one in failed]
    return names if all(again(name) for name in names) else []


def make(step: Step) -> int:
    """Make the target of a step, with what it prints on the way; beside another one, when it is over."""
    command = ["make", "--no-print-directory", step.target, "EXAMPLES=thorough"]
    heading = f"\n=== make {step.target}\n"
    if step.beside:
        gentle = ["nice", "-n", "19", *command]
        done = subprocess.run(
            gentle, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        sys.stdout.write(heading + done.stdout)
        sys.stdout.flush()
        return done.returncode
    sys.stdout.write(heading)
    sys.stdout.flush()
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def again(test: str) -> bool:
    """Run one test alone."""
    sys.stdout.write(f"\n=== once more, alone: {test}\n")
    sys.stdout.flush()
    environment = {**os.environ, "SCAVENGER_TEST_LANE": "again"}
    command = [sys.executable, "-m", "pytest", test, "-q"]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def run_of(done: Sequence[Done]) -> Run:
    """What is kept of these steps."""
    return Run(
        datetime.now(UTC).isoformat(timespec="seconds"),
        {one.step.target: round(one.seconds, 1) for one in done},
        [test for one in done for test in one.alone],
        len(done) == len(STEPS) and all(one.passed for one in done),
    )


def record(path: Path, run: Run) -> None:
    """Add a run to the recorded ones, of which as many stay as are asked for: three warm ones and a cold one."""
    kept: dict[str, list[Any]] = json.loads(path.read_text()) if path.exists() else {"warm": [], "cold": []}
    kind, most = ("warm", 3) if run.warm else ("cold", 1)
    kept[kind] = [*kept[kind], {"at": run.at, "seconds": run.seconds}][-most:]
    path.write_text(json.dumps(kept, indent=2) + "\n")


def summary(done: Sequence[Done], run: Run, flaky: Counter[str]) -> list[str]:
    """What ran, what was skipped and why, and what passed only alone."""
    results = [one for step in done for one in step.results]
    alone = set(run.alone)
    counts = Counter("passed" if one.test in alone else one.outcome for one in results)
    skipped = Counter(one.why or "no reason given" for one in results if one.outcome == "skipped")
    lines = ["", "steps"]
    lines += [f"  {seconds:6.0f} s  {name}" for name, seconds in run.seconds.items()]
    lines += [f"  {run.total:6.0f} s  in all, {'warm' if run.warm else 'cold: programs were built'}"]
    if run.warm and run.total > MOST_SECONDS:
        lines.append(f"  more than {MOST_SECONDS // 60} minutes: `make test-times` lists where they go")
    lines += [f"skipped: {number} tests: {why}" for why, number in skipped.most_common()]
    lines += [
        f"passed only alone, in {flaky[test]} of the last {RUNS} runs: {test}"
        + (": mend it before anything else" if flaky[test] >= MOST_ALONE else "")
        for test in sorted(test for test in flaky if test in alone or flaky[test] >= MOST_ALONE)
    ]
    lines += [f"failed: make {one.step.target}" for one in done if not one.passed]
    lines += [f"not run: {step.target}" for step in STEPS[len(done) :]]
    lines.append(f"tests: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
