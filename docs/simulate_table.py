"""Writes the table of all policies on every public trace into docs/designs/0027, between its markers.

python -m docs.simulate_table --traces DIR                       all traces
python -m docs.simulate_table --traces DIR --processes 2         the same, two policies at a time
python -m docs.simulate_table --traces DIR --only openb          one of them; the others stay as they are
python -m docs.simulate_table --traces DIR --check --policy ours --policy none
                                                                 writes nothing: are these rows still what they say?

That page says how long it takes.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from scavenger_simulator.commands.comparison import compare
from scavenger_simulator.commands.progress import Progress
from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.policy import Policy
from scavenger_simulator.report.figures import Study
from scavenger_simulator.report.table import as_markdown
from scavenger_simulator.scenario import Scenario
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

from bench.traces.catalog import TRACES, scenario_of

PAGE = Path(__file__).parent / "designs" / "0027-policies-compared.md"


def markers(name: str) -> tuple[str, str]:
    """What stands before and after the table of a scenario."""
    return f"<!-- table of {name}: made by `make simulate-table`; do not edit -->\n", f"<!-- end of {name} -->\n"


def replaced(page: str, name: str, table: str) -> str:
    """The page with another table of a scenario. Raises ValueError where it has no place for one."""
    begin, end = markers(name)
    found, count = re.subn(
        f"(?<={re.escape(begin)}).*?(?={re.escape(end)})", lambda _: table, page, count=1, flags=re.DOTALL
    )
    if not count:
        raise ValueError(f"{PAGE} has no markers for {name}")
    return found


def differing(page: str, name: str, table: str) -> list[str]:
    """The lines of a table that the page does not have in the same scenario. Raises ValueError as `replaced` does."""
    replaced(page, name, table)
    begin, end = markers(name)
    there = set(page.partition(begin)[2].partition(end)[0].splitlines())
    return [line for line in table.splitlines() if line not in there]


def study_of(scenario: Scenario, policies: Sequence[Policy], processes: int, progress: Progress) -> Study:
    """A run for each policy with the default settings, so many at a time; the figures do not depend on that."""
    settings = Settings()
    if processes == 1:
        return compare(scenario, settings, policies, simulate, progress)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        runs = {policy: pool.submit(simulate, scenario, settings, policy, scenario.seed) for policy in policies}
        for done, _ in enumerate(as_completed(runs.values()), 1):
            progress.told(f"{scenario.name}: {done} of {len(runs)} policies are done")
        return compare(scenario, settings, policies, lambda _1, _2, policy, _3, _4: runs[policy].result(), progress)


def main(words: list[str]) -> int:
    """Write the tables, or check them; returns the exit code."""
    arguments = _parsed(words)
    progress = Progress(sys.stderr, time.monotonic)
    policies = [Policy(name) for name in arguments.policy] if arguments.policy else list(Policy)
    same = True
    try:
        for name in arguments.only or TRACES:
            began = time.monotonic()
            scenario = scenario_of(name, arguments.traces)
            table = as_markdown(study_of(scenario, policies, arguments.processes, progress))
            progress.clear()
            _say(f"{name}: {len(policies)} policies in {time.monotonic() - began:.0f} s")
            if not arguments.check:
                PAGE.write_text(replaced(PAGE.read_text(), name, table))
            elif others := differing(PAGE.read_text(), name, table):
                _say(f"not in {PAGE.name}:", *others)
                same = False
    except InputError as error:
        return progress.refused(error)
    return 0 if same else 1


def _say(*lines: str) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def _parsed(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Write the tables of docs/designs/0027-policies-compared.md, or check them."
    )
    parser.add_argument("--traces", type=Path, default=os.environ.get("BENCH_TRACE_DIR") or None)
    parser.add_argument("--only", action="append", choices=[*TRACES], help="leave the others as they are")
    parser.add_argument("--processes", type=int, default=1, help="so many policies at a time, 200 MB each")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where the figures are others")
    parser.add_argument("--policy", action="append", choices=[*Policy], help="with --check: only this one")
    arguments = parser.parse_args(words)
    if arguments.policy and not arguments.check:
        parser.error("a table is of all policies: --policy needs --check")
    if arguments.processes < 1:
        parser.error("--processes is 1 or more")
    return arguments


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
