"""docs/tutorial.md as a new user goes through it: every command of it in a shell, and what the page says it prints."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scavenger_testing import pages
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.printed import as_shown

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "tutorial.md"
REAL = "## With real containers"
"""What is below it needs root and a kubelet; tests/e2e/test_storage.py runs that job."""
PROGRAMS = ("make", "kubectl")

LOOKS = ("curl ", "kubectl get ", *(f"kubectl sj {verb}" for verb in ("get ", "levels", "list", "queue list", "why ")))
"""Commands that change nothing. Who does not yet see what the page shows looks again."""
READS = 0.3
"""Seconds a reader takes for what was printed, at the least."""
PATIENCE = 120.0
"""Seconds until a reader gives up. What takes longest is fair sharing: it takes jobs back one by one."""


class Terminal:
    """A shell in a clone of the repository. Raises AssertionError for a command that fails."""

    def __init__(self, cluster: str) -> None:
        # Without what `make test` tells the programs it starts: this is a `make` of its own.
        inherited = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
        self._environment = inherited | {
            "CLUSTER": cluster,
            "SCAVENGER_CLUSTER_NAME": cluster,
            "COLUMNS": "80",
            "TERM": "dumb",
        }
        self._pasted = ""

    def run(self, script: str) -> str:
        """What it prints."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"{self._pasted}{script}"],
            cwd=ROOT, env=self._environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\nexit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def paste(self, lines: str) -> None:
        """Lines for everything that is run from now on."""
        self._pasted += lines

    def follow(self, block: pages.Block) -> None:
        """Run what a page says, until it prints what the page shows."""
        until = time.monotonic() + PATIENCE
        while True:
            printed = self.run(block.script)
            if not block.printed or as_shown(printed, block.printed):
                return
            looks = block.script.startswith(LOOKS) and time.monotonic() < until
            assert looks, f"{block}: {block.script}\nprinted:\n{printed}\nand the page shows:\n{block.printed}"
            time.sleep(READS)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal(cluster_name("it-tutorial"))
    yield made
    made.run("make down")


@pytest.mark.cpu
@pytest.mark.timeout(1200)
def test_the_tutorial(terminal: Terminal) -> None:
    text = PAGE.read_text()
    end = text.count("\n", 0, text.index(REAL))
    begin, *rest = (block for block in pages.commands(PAGE, PROGRAMS) if block.line <= end)
    assert begin.script.startswith("make up")
    said = terminal.run(begin.script).splitlines()
    terminal.paste("".join(f"{line}\n" for line in said if line.startswith("export ")))
    for block in rest:
        time.sleep(READS)
        terminal.follow(block)
    assert len(rest) > 30, "or the page is read otherwise than it was meant"
