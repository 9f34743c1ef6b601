"""What the gate leaves out, in slices: the one that has waited longest runs first.

    python -m tools.test_all [--minutes 60] [--list] [SLICE...]

When each slice ran, how long it took and what came of it is kept outside the checkout. A slice that never ran comes
before all others.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from scavenger_cluster.layout import cache_dir

from tools.stamps import write_whole

ROOT: Final = Path(__file__).parents[1]
PYTEST: Final = f"{shlex.quote(sys.executable)} -m pytest -q -rs --durations=8"
PLAY: Final = f"{shlex.quote(sys.executable)} -m tests.simulation --seeds 1000000"
OLDER: Final = "v1.33.13"
"""The oldest Kubernetes that docs/versions.md promises."""
TABLE: Final = "simulation.json"
"""Where the histories go on, beside the file of this tool."""


@dataclass(frozen=True)
class Slice:
    """A part that fits into an hour.

    Attributes:
        name: one word.
        command: for a shell, in the root of the repository.
        minutes: what it takes, until it has run here once.
    """

    name: str
    command: str
    minutes: int


SLICES: Final = (
    Slice("e2e", f"{PYTEST} tests/e2e -m 'long and not cpu'", 20),
    Slice("e2e-cpu", f"{PYTEST} tests/e2e -m 'long and cpu'", 15),
    Slice("integration", f"{PYTEST} tests/integration -m 'long and not cpu'", 20),
    Slice("integration-cpu", f"{PYTEST} tests/integration -m 'long and cpu'", 15),
    Slice("upstream", "make test-upstream", 25),
    Slice("older", f"make test-older KUBERNETES={OLDER} TESTS='tests/integration/api tests/integration/webhook'", 25),
    Slice("matrix", "make scheduler-matrix", 30),
    Slice("race", "services/scheduler/verify.sh race && snapshot/verify.sh race", 30),
    Slice("snapshots", "make test-snapshots", 30),
    Slice("histories", f"{PLAY} --until 2400 --table $TABLE", 41),
    Slice("adopting", f"{PLAY} --adopting --until 1500 --table $TABLE.adopting", 26),
    Slice("bugs", "make simulate-bugs SEEDS=100", 30),
    Slice("fuzz", "make fuzz", 30),
    Slice("studies", f"{PYTEST} tests/simulation tests/unit -m long && make bench ONLY=scheduler.loss", 27),
)


@dataclass(frozen=True)
class Ran:
    """When a slice ran last. at: RFC 3339; commit: of the checkout."""

    at: str
    seconds: float
    passed: bool
    commit: str


def main(words: Sequence[str]) -> int:
    """Run slices; 1 where one does not pass, 2 for a name that none has."""
    parser = argparse.ArgumentParser(prog="python -m tools.test_all", description=__doc__)
    parser.add_argument("slices", nargs="*", metavar="SLICE", help="these, however long they take")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no slice that would end later")
    parser.add_argument("--list", action="store_true", help="print what ran when, and run nothing")
    chosen = parser.parse_args(words)
    file = cache_dir() / "test-all.json"
    ran = kept(file)
    known = {one.name: one for one in SLICES}
    if unknown := [name for name in chosen.slices if name not in known]:
        sys.stderr.write(f"no slice {', '.join(unknown)}; there are {', '.join(known)}\n")
        return 2
    if chosen.list:
        sys.stdout.write("\n".join(rows(ran)) + "\n")
        return 0
    todo = [known[name] for name in chosen.slices] or due(ran, chosen.minutes)
    passed = [run(one, file, execute) for one in todo]
    sys.stdout.write("\n".join(rows(kept(file))) + "\n")
    sys.stdout.write(f"slices: {passed.count(True)} passed, {passed.count(False)} failed\n")
    return int(not all(passed))


def kept(file: Path) -> dict[str, Ran]:
    """What the file says of each slice that has run."""
    return {name: Ran(**one) for name, one in json.loads(file.read_text()).items()} if file.exists() else {}


def due(ran: Mapping[str, Ran], minutes: float) -> list[Slice]:
    """The slices that have waited longest and end within so many minutes; one at least."""
    found: list[Slice] = []
    for one in sorted(SLICES, key=lambda one: ran[one.name].at if one.name in ran else ""):
        minutes -= expected_minutes(one, ran)
        if found and minutes < 0:
            break
        found.append(one)
    return found


def expected_minutes(one: Slice, ran: Mapping[str, Ran]) -> float:
    """As long as last time."""
    return ran[one.name].seconds / 60 if one.name in ran else one.minutes


def run(one: Slice, file: Path, execute: Callable[[Slice], int]) -> bool:
    """Run a slice, and write down what came of it. Returns whether it passed."""
    sys.stdout.write(f"\n=== {one.name}: {one.command}\n")
    sys.stdout.flush()
    began = time.monotonic()
    passed = execute(one) == 0
    now = Ran(datetime.now(UTC).isoformat(timespec="seconds"), round(time.monotonic() - began, 1), passed, _commit())
    entries = {name: asdict(was) for name, was in {**kept(file), one.name: now}.items()}
    write_whole(file, json.dumps(entries, indent=2) + "\n")
    return passed


def execute(one: Slice) -> int:
    """Its exit code."""
    environment = {**os.environ, "SCAVENGER_TEST_LANE": f"all-{one.name}", "TABLE": str(cache_dir() / TABLE)}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", one.command], cwd=ROOT, env=environment, check=False
    ).returncode


def _commit() -> str:
    asked = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def rows(ran: Mapping[str, Ran]) -> list[str]:
    """A table of all slices, as they are due."""
    found = [f"{'slice':16} {'minutes':>7}  {'last':25} {'':7} commit"]
    for one in due(ran, float("inf")):
        was = ran.get(one.name)
        said = f"{was.at:25} {'passed' if was.passed else 'FAILED':7} {was.commit}" if was else "never"
        found.append(f"{one.name:16} {expected_minutes(one, ran):7.0f}  {said}")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
