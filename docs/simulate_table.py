"""Writes the table of all policies on every public trace into docs/simulator.md, between its markers.

python docs/simulate_table.py --traces DIR                       all traces; minutes
python docs/simulate_table.py --traces DIR --only openb          one of them; the others stay as they are
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from pathlib import Path

from scavenger_simulator.commands.comparison import compare
from scavenger_simulator.commands.options import TRACES_VARIABLE
from scavenger_simulator.commands.progress import Progress
from scavenger_simulator.inputs.catalog import NAMED, ON_TRACES, SYNTHETIC, Traces, build
from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.policy import Policy
from scavenger_simulator.report.table import as_markdown
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

PAGE = Path(__file__).with_name("simulator.md")


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


def main(words: list[str]) -> int:
    """Write the tables; returns the exit code."""
    parser = argparse.ArgumentParser(description="Write the tables of docs/simulator.md.")
    parser.add_argument("--traces", type=Path, default=os.environ.get(TRACES_VARIABLE) or None)
    parser.add_argument(
        "--only", action="append", choices=[*ON_TRACES, *SYNTHETIC], help="leave the others as they are"
    )
    arguments = parser.parse_args(words)
    progress = Progress(sys.stderr, time.monotonic)
    traces = Traces(Path(arguments.traces) if arguments.traces else None)
    try:
        for name in arguments.only or ON_TRACES:
            study = compare(
                build(NAMED[name], traces, told=progress.told), Settings(), tuple(Policy), simulate, progress
            )
            PAGE.write_text(replaced(PAGE.read_text(), name, as_markdown(study)))
    except InputError as error:
        return progress.refused(error)
    progress.clear()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
