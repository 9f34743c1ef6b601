"""Whether anything that this repository depends on has a known vulnerability.

    python tools/audit.py

Python: all of uv.lock, by pip-audit, which asks PyPI. Go, by govulncheck, which asks vuln.go.dev: what the scheduler
and snapshots call, and the packages in the programs of the embedded cluster, which is for development. Exit code 1 when
there is something to do, 2 when one could not look: who could not look has not found nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
GOVULNCHECK: Final = "golang.org/x/vuln/cmd/govulncheck@v1.3.0"
VULNERABLE: Final = 3
"""Exit code of govulncheck."""

MODULES: Final[Mapping[str, Sequence[str]]] = {
    "services/scheduler": ["./..."],
    "snapshot": ["./..."],
    "cluster/go": ["-scan=package", "tool", "./..."],
    "cluster/go/tests": ["-scan=package", "tool"],
    "cluster/go/registry": ["-scan=package", "tool"],
}
"""Folders with a go.mod, and how each is looked at. Which functions are called in Kubernetes would take hours."""


@dataclass(frozen=True)
class Done:
    """How a program ended."""

    code: int
    output: str
    errors: str


@dataclass(frozen=True)
class Outcome:
    """What came of one audit. found: a line for each vulnerability. not_looked: why it could not look at all of it."""

    what: str
    found: tuple[str, ...] = ()
    not_looked: str = ""


Run = Callable[[Sequence[str], Path], Done]
"""Runs a command in a folder."""


def run(command: Sequence[str], folder: Path) -> Done:
    """Run a program of this machine; one that is not there counts as one that failed."""
    environment = os.environ | {"GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        return Done(127, "", str(error))
    return Done(done.returncode, done.stdout, done.stderr)


def python(run: Run = run) -> Outcome:
    """The packages of uv.lock, those of developers as well."""
    what = "uv.lock"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"
        words = ["export", "--quiet", "--frozen", "--all-packages", "--all-groups", "--no-emit-workspace"]
        exported = run([str(ROOT / "tools" / "uv"), *words, f"--output-file={file}"], ROOT)
        if exported.code:
            return Outcome(what, not_looked=_last(exported))
        asked = ["pip-audit", "--disable-pip", "--require-hashes", "--progress-spinner=off", "--format=json"]
        done = run([*asked, f"--requirement={file}"], ROOT)
    try:
        packages = json.loads(done.output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return Outcome(what, not_looked=_last(done))
    # pip-audit itself ends well when the index knows nothing of a package.
    skipped = [f"{package['name']}: {package['skip_reason']}" for package in packages if "skip_reason" in package]
    found = [
        f"{package['name']} {package['version']}: {one['id']}, mended in {', '.join(one['fix_versions']) or 'none'}"
        for package in packages
        for one in package.get("vulns", ())
    ]
    if not skipped and not found and done.code:
        return Outcome(what, not_looked=_last(done))
    some = f"{len(skipped)} of {len(packages)} packages, such as {skipped[0]}" if skipped else ""
    return Outcome(what, tuple(found), some)


def go(folder: str, run: Run = run) -> Outcome:
    """The module in a folder."""
    done = run(["go", "run", GOVULNCHECK, *MODULES[folder]], ROOT / folder)
    if done.code == 0:
        return Outcome(folder)
    # `go run` ends with 1 whatever the program's code was, and says that in its last line.
    if done.code == VULNERABLE or f"exit status {VULNERABLE}" in done.errors:
        found = tuple(line for line in done.output.splitlines() if line.startswith("Vulnerability #"))
        return Outcome(folder, found or (f"found something; see: go run {GOVULNCHECK} there",))
    return Outcome(folder, not_looked=_last(done))


def _last(done: Done) -> str:
    """The last two lines that a program had to say."""
    lines = [line.strip() for line in (done.errors or done.output).splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith("exit status")]
    return " ".join(said[-2:]) or f"exit code {done.code}"


def told(outcomes: Sequence[Outcome]) -> tuple[int, str]:
    """The exit code, and what is printed."""
    lines = []
    for outcome in outcomes:
        lines += [f"{outcome.what}: {one}" for one in outcome.found]
        if outcome.not_looked:
            lines.append(
                f"{outcome.what}: COULD NOT LOOK: {outcome.not_looked}\n"
                "  Nothing is known without the database: pypi.org, proxy.golang.org and vuln.go.dev must be reachable."
            )
        elif not outcome.found:
            lines.append(f"{outcome.what}: no known vulnerability")
    code = 1 if any(outcome.found for outcome in outcomes) else 2 if any(o.not_looked for o in outcomes) else 0
    return code, "\n".join(lines) + "\n"


def main() -> int:
    """Look at everything, then say what was found."""
    code, text = told([python(), *(go(folder) for folder in MODULES)])
    sys.stdout.write(text)
    return code


if __name__ == "__main__":
    sys.exit(main())
