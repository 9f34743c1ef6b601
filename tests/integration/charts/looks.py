"""What the pages of docs/ have one look at, and commands of theirs that change little: run where all of it is there.

The tutorial is gone through by a test of its own. What installs, upgrades and uninstalls is run in the order of the
README; what is beyond one cluster of this machine, such as a registry or an operator of Prometheus, is not run.
"""

from __future__ import annotations

from pathlib import Path

from scavenger_testing import pages

from .conftest import ROOT
from .shell import Shell

FIRST = "troubleshooting.md"
"""It makes the queue that others look at."""
PAGES = sorted((ROOT / "docs").glob("*.md"), key=lambda page: (page.name != FIRST, page.name))
BEGIN = (
    "kubectl get ",
    "kubectl -n scavenger-system get ",
    "kubectl -n scavenger-system logs ",
    *(
        f"kubectl sj {verb} "
        for verb in ("describe", "lint", "list", "logs", "queue", "resubmit", "submit", "top", "why")
    ),
    "kubectl sj levels",
)
BEYOND = {
    "kubectl sj submit simulation.yaml --dry-run": "the job is there; tests/integration/cli submits one that is not",
    "kubectl get pdb scavenger-non-preemptible": "there is one where a job is protected; tests/e2e looks at it",
    "kubectl sj why 'sweep[57]'": "there is no array; tests/unit/cli explains tasks of one",
    "kubectl -n scavenger-system get servicemonitor,networkpolicy": "needs the operator of Prometheus",
    "kubectl -n scavenger-system logs deploy/scavenger-admitter --since 10m | grep": "finds nothing where all is well",
}
"""Commands that begin so, and why they are not run here."""


def every_page_is_right(shell: Shell, folder: Path) -> None:
    """Run all of them, in a namespace with a job `simulation`, from a folder with the file that it was made from."""
    chosen = [
        block
        for page in PAGES
        if page.name != "tutorial.md"
        for block in pages.commands(page, ("kubectl",))
        if block.script.startswith(BEGIN)
    ]
    left_out = {beyond for beyond in BEYOND for block in chosen if block.script.startswith(beyond)}
    assert left_out == set(BEYOND), "a row that no page needs is to go"
    wrong = []
    for block in chosen:
        if not block.script.startswith(tuple(BEYOND)):
            try:
                shell.paste(block.script, folder=folder)
            except AssertionError as error:  # the others may be as well
                wrong.append(f"{block}: {error}")
    assert not wrong, "\n".join(wrong)
    assert len(chosen) > 30, "or the pages are read otherwise than they were meant"
