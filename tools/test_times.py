"""What each test, file and fixture cost in the last run, the dearest first.

python -m tools.test_times [LANE...] [--most 30]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tools.test_results import FOLDER, Cost, Result, by_file, by_fixture, read

MOST: Final = 30


def main(words: Sequence[str]) -> int:
    """Print the tables; 1 where no test has been run."""
    parser = argparse.ArgumentParser(prog="python -m tools.test_times", description=__doc__)
    parser.add_argument("lanes", nargs="*", metavar="LANE", help="of dist/tests; all without")
    parser.add_argument("--most", type=int, default=MOST, help="rows of a table")
    chosen = parser.parse_args(words)
    results = [one for lane in read() if not chosen.lanes or lane.name in chosen.lanes for one in lane.results]
    if not results:
        sys.stderr.write(f"no results in {FOLDER}: run some tests first\n")
        return 1
    sys.stdout.write("\n".join(tables(results, chosen.most)) + "\n")
    return 0


def tables(results: Sequence[Result], most: int) -> list[str]:
    """Lanes, files, tests and fixtures, each with its seconds."""
    lanes: dict[str, Cost] = {}
    for one in results:
        lanes.setdefault(one.lane, Cost()).add(one.total, one.lane)
    tests = {one.test: cost_of(one) for one in results}
    return [
        *table("lane", lanes, most),
        *table("file", by_file(results), most),
        *table("test", tests, most),
        *table("fixture (scope)", by_fixture(results), most),
    ]


def cost_of(one: Result) -> Cost:
    """That of a single test."""
    cost = Cost()
    cost.add(one.total, one.lane)
    return cost


def table(title: str, costs: Mapping[str, Cost], most: int) -> Iterable[str]:
    """A heading and the rows that cost most."""
    ordered = sorted(costs.items(), key=lambda row: (-row[1].seconds, row[0]))
    yield f"{'seconds':>9} {'number':>7} {'longest':>8}  {title}"
    for name, cost in ordered[:most]:
        yield f"{cost.seconds:9.1f} {cost.times:7} {cost.most:8.1f}  {name}"
    rest = ordered[most:]
    if rest:
        yield f"{sum(cost.seconds for _, cost in rest):9.1f} {len(rest):7} {'':8}  others"
    yield ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
