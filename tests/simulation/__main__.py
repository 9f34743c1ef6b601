"""`python -m tests.simulation --seed N` repeats one history exactly; `--seeds 200` plays as many from there on.

Of each that fails the steps are printed without which it would not. `--table` prints at the end what happened to jobs
in which phases. `--until 900` begins no history after so many seconds. `--table FILE` keeps the table for the next
slice: it goes on where the last one ended, and adds to the table. With `--seed` it begins anew.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import orjson
from scavenger_api.states import Phase

from tests.simulation.mutations import BUGS, found_by, found_in
from tests.simulation.system.adopting import Adopting
from tests.simulation.system.history import AIMED, FAILURES, History, simulate
from tests.simulation.system.world import World

MOST_SAID = 300
"""Letters of what a history says."""
PHASES: Final = ("", *map(str, Phase))
"""A job without a status is new."""
ACT_WIDTH: Final = 24


@dataclass
class Record:
    """What the slices so far came to.

    Attributes:
        first: the first seed.
        following: the seed that comes next.
        failed: those that failed.
        met: how often what happened to jobs in which phase.
    """

    first: int
    following: int
    failed: list[int] = field(default_factory=list)
    met: dict[str, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def begun(cls, file: Path | None, seed: int | None) -> Self:
        """That of a file, or a new one from this seed on."""
        if file is not None and file.exists() and seed is None:
            return cls(**orjson.loads(file.read_bytes()))
        return cls(seed or 0, seed or 0)

    def add(self, met: Mapping[tuple[str, str], int]) -> None:
        """Count what was met in one more history."""
        for (act, phase), times in met.items():
            row = self.met.setdefault(act, {})
            row[phase] = row.get(phase, 0) + times

    def keep(self, file: Path | None) -> None:
        """Write it down after each history, so that a slice may end at any moment."""
        if file is not None:
            file.write_bytes(orjson.dumps(asdict(self)))


def shrink(seed: int, kind: type[History]) -> list[int]:
    """The steps that are left when as many as possible are left out, and the history still fails."""
    left, size = list(range(kind.steps)), kind.steps // 2
    while size:
        for start in range(0, len(left), size):
            fewer = [step for step in left if step not in left[start : start + size]]
            if fails(seed, kind, set(range(kind.steps)).difference(fewer)):
                left = fewer
                break
        else:
            size //= 2
    return left


def fails(seed: int, kind: type[History], skip: set[int]) -> BaseException | None:
    """Why the history fails without some of its steps; None where it does not."""
    try:
        simulate(seed, kind, skip)
    except FAILURES as error:
        return error
    return None


def tell(seed: int, kind: type[History]) -> None:
    """Print the shortest form of a history that fails."""
    left = shrink(seed, kind)
    names = [kind.name_of(seed, step) for step in left]
    skipped = set(range(kind.steps)).difference(left)
    why = fails(seed, kind, skipped)
    print(f"  of {kind.steps} steps it takes {list(zip(left, names, strict=True))}: {why!r}", flush=True)


def table(met: Mapping[str, Mapping[str, int]], acts: Iterable[str]) -> str:
    """How often what happened to jobs in which phases; "-" where it cannot. Below, what has not happened yet."""
    rows = [" " * ACT_WIDTH + "".join(f"{phase or 'new':>12}" for phase in PHASES)]
    missed = []
    for act in sorted(set(acts)):
        row = met.get(act, {})
        cells = [row.get(phase, 0) or ("-" if phase in AIMED.get(act, ()) else 0) for phase in PHASES]
        rows.append(f"{act:{ACT_WIDTH}}" + "".join(f"{cell:>12}" for cell in cells))
        missed += [f"{act} of {phase or 'new'} jobs" for phase, cell in zip(PHASES, cells, strict=True) if cell == 0]
    return "\n".join([*rows, f"has not happened: {', '.join(missed) or 'nothing'}"])


def tell_bugs(seeds: range) -> int:
    """Print what its situation says of each bug that is put in on purpose, and which random history finds it. Returns
    how many bugs show in no situation."""
    missed = 0
    for bug in BUGS:
        shown = found_in(bug)
        missed += shown is None
        print(f"{bug.name}: {bug.shows.__name__}: {'NOT FOUND' if shown is None else shown[:MOST_SAID]}", flush=True)
        if seeds:
            found = found_by(bug, seeds)
            print(f"  at random: {'not found' if found is None else found[:MOST_SAID]}", flush=True)
    print(f"{len(BUGS)} bugs, {missed} not found")
    return missed


def chosen(words: Sequence[str]) -> argparse.Namespace:
    """What a command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="the first history: 0, or the one after those of FILE")
    parser.add_argument("--seeds", type=int, default=1, help="how many, those of FILE among them")
    parser.add_argument("--until", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--admitter", action="store_true", help="the admitter alone")
    parser.add_argument("--adopting", action="store_true", help="beside ScavengerJobs, Jobs of users are adopted")
    parser.add_argument("--bugs", action="store_true", help="put bugs in, and say which history finds each")
    parser.add_argument("--table", nargs="?", const="", metavar="FILE", help="print the table, and keep it in FILE")
    return parser.parse_args(words)


@dataclass(frozen=True)
class Outcome:
    """What a history came to.

    Attributes:
        met: how often what happened to jobs in which phase.
        said: its digest, or why it failed.
        failed: whether it did.
        seconds: of processor time.
    """

    met: Mapping[tuple[str, str], int]
    said: str
    failed: bool
    seconds: float


def outcome(seed: int, kind: type[History]) -> Outcome:
    """Play one history."""
    began = time.process_time()
    try:
        history = simulate(seed, kind)
    except FAILURES as error:
        return Outcome({}, repr(error), failed=True, seconds=time.process_time() - began)
    return Outcome(history.met, history.digest, failed=False, seconds=time.process_time() - began)


def outcomes(seeds: Iterable[int], kind: type[History], until: float) -> Iterator[tuple[int, Outcome]]:
    """What each history comes to, in the order of the seeds. All processors play, and begin none after `until`, on the
    monotonic clock."""
    left, under_way = iter(seeds), deque[tuple[int, Future[Outcome]]]()
    workers = os.cpu_count() or 1
    with ProcessPoolExecutor(workers, initializer=signal.signal, initargs=(signal.SIGTERM, signal.SIG_DFL)) as pool:
        while True:
            while len(under_way) < 2 * workers and time.monotonic() < until and (seed := next(left, None)) is not None:
                under_way.append((seed, pool.submit(outcome, seed, kind)))
            if not under_way:
                return
            seed, future = under_way.popleft()
            yield seed, future.result()


def play(said: argparse.Namespace) -> int:
    """Play histories, and print what each came to. Returns the exit code: 1 where one failed."""
    kind = History if said.admitter else Adopting if said.adopting else World
    file = Path(said.table) if said.table else None
    record = Record.begun(file, said.seed)
    before, began, cpu = len(record.failed), time.monotonic(), 0.0
    seeds = range(record.following, record.first + said.seeds)
    for seed, came in outcomes(seeds, kind, began + said.until):
        cpu += came.seconds
        record.add(came.met)
        print(f"seed {seed}{' FAILED' * came.failed}: {came.said}", flush=True)
        if came.failed:
            record.failed.append(seed)
            tell(seed, kind)
        record.following = seed + 1
        record.keep(file)
    if said.table is not None:
        blank: Any = kind.__new__(kind)
        print(table(record.met, (act.__name__ for act in kind.acts(blank))))
    played, failed = record.following - seeds.start, len(record.failed) - before
    seconds, computed = (time.monotonic() - began) / max(1, played), cpu / max(1, played)
    print(f"{played} histories, {failed} failed, {seconds:.2f} s a seed ({computed:.2f} s of processor time)")
    print(f"seeds {record.first} to {record.following - 1} in all, failed: {record.failed or 'none'}", end="; ")
    print("done" if record.following == seeds.stop else f"the next is {record.following} of {seeds.stop}")
    return 1 if failed else 0


def _end_at_once(*_: object) -> None:
    """End the processes that play, and this one: neither they nor their pool listen to SystemExit before the histories
    are over that are under way."""
    for one in multiprocessing.active_children():
        one.terminate()
    os._exit(1)


def main() -> int:
    """Do what the command line says. Returns the exit code."""
    said = chosen(sys.argv[1:])
    if os.environ.get("PYTHONHASHSEED") != "0":  # or the order of sets would differ from run to run
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # what is left of processes that were killed
    signal.signal(signal.SIGTERM, _end_at_once)
    if said.bugs:
        first = said.seed or 0
        return 1 if tell_bugs(range(first, first + said.seeds)) else 0
    return play(said)


if __name__ == "__main__":
    sys.exit(main())
