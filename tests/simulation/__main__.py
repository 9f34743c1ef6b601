"""`python -m tests.simulation --seed N` repeats one history exactly; `--seeds 200` plays as many from there on.

Of each that fails the steps are printed without which it would not. At the end there is a table of what happened to
jobs in which phases. `--until 900` begins no history after so many seconds, and says which comes next.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from scavenger_api.states import Phase

from tests.simulation.mutations import BUGS, found_by, found_in
from tests.simulation.system.history import AIMED, FAILURES, History, simulate
from tests.simulation.system.system import System

MOST_SAID = 300
"""Letters of what a history says."""
PHASES: Final = ("", *(str(phase) for phase in Phase if phase is not Phase.FAILED))
"""A job without a status is new. No job fails."""
ACT_WIDTH: Final = 24


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


def table(met: Mapping[tuple[str, str], int], acts: Iterable[str]) -> str:
    """How often what happened to jobs in which phases; "-" where it cannot. Below, what has not happened yet."""
    names = sorted(set(acts))
    rows = [" " * ACT_WIDTH + "".join(f"{phase or 'new':>12}" for phase in PHASES)]
    missed = []
    for act in names:
        cells = [met.get((act, phase), 0) or ("-" if phase in AIMED.get(act, ()) else 0) for phase in PHASES]
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


def main() -> int:
    """Play histories, and print what each came to. Returns the exit code: 1 where one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first history")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--until", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--admitter", action="store_true", help="the admitter alone")
    parser.add_argument("--bugs", action="store_true", help="put bugs in, and say which history finds each")
    parser.add_argument("--table", action="store_true", help="print the table")
    chosen = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # or the order of sets would differ from run to run
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # what is left of processes that were killed
    if chosen.bugs:
        return 1 if tell_bugs(range(chosen.seed, chosen.seed + chosen.seeds)) else 0
    kind = History if chosen.admitter else System
    met: Counter[tuple[str, str]] = Counter()
    failed, began, cpu, played = 0, time.monotonic(), time.process_time(), 0
    for seed in range(chosen.seed, chosen.seed + chosen.seeds):
        if time.monotonic() - began >= chosen.until:
            print(f"out of time: go on with FIRST_SEED={seed}")
            break
        played += 1
        try:
            history = simulate(seed, kind)
            met += history.met
            print(f"seed {seed}: {history.digest}", flush=True)
        except FAILURES as error:
            failed += 1
            print(f"seed {seed} FAILED: {error!r}", flush=True)
            tell(seed, kind)
    if chosen.table:
        print(table(met, (act.__name__ for act in kind.acts(kind.__new__(kind)))))
    seconds, computed = (time.monotonic() - began) / max(1, played), (time.process_time() - cpu) / max(1, played)
    print(f"{played} histories, {failed} failed, {seconds:.2f} s a seed ({computed:.2f} s of processor time)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
