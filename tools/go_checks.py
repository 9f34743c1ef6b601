"""The checks of a Go module, each of which runs once for the same content: `verify.sh` of the module calls this.

    python -m tools.go_checks MODULE [gate|race|long] [--again]

MODULE is a folder with a go.mod. `gate` is what `make verify` runs. Its tests need the compiled packages that the
programs of the embedded cluster are made of, and few more. `race` compiles all packages a second time, for the race
detector, which needs a C compiler.

The content of a check is all files of the module, the command, and what its tools say of their versions. `--again`, or
AGAIN=1 in the environment, runs checks that have passed before as well.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from scavenger_cluster.build import GO_SETTINGS, Go
from scavenger_cluster.errors import MissingRequirementError

from tools.stamps import content_of, run_once

ROOT: Final = Path(__file__).resolve().parents[1]

Command = tuple[str, ...]

GO_VERSION: Final[Command] = ("go", "version")
"""It names the platform and GOEXPERIMENT as well."""
C_COMPILER: Final[Command] = ("cc", "--version")
MACHINE: Final[Sequence[Command]] = (("uname", "-srm"), ("id", "-u"), C_COMPILER)
"""What tests of snapshots find: they run programs on gVisor's kernel, and skip those that cannot be made here."""
MORE_PROGRAMS: Final[Sequence[Command]] = (
    ("/usr/bin/python3", "-c", "import sys, numpy; print(sys.version, numpy.__version__)"),
    ("javac", "-version"),
    ("sh", "-c", "gmx -version | grep version:"),
)
OWN_VARIABLES: Final = ("SCAVENGER_", "SNAPSHOT_")
"""What tests and the plugin read; a check sets its own, so that an environment changes no verdict that is kept."""


@dataclass(frozen=True)
class Check:
    """A command that passes or fails.

    Attributes:
        name: what people call it.
        command: what runs in the folder of the module.
        settings: variables of its environment, beyond those that the programs are built with.
        asks: commands whose answers count as content; one that is not there is an answer too.
        silent: whether it fails by printing something, as gofmt does.
    """

    name: str
    command: Command
    settings: tuple[tuple[str, str], ...] = ()
    asks: tuple[Command, ...] = (GO_VERSION,)
    silent: bool = False

    def content(self, folder: Path, environment: Mapping[str, str]) -> str:
        """A digest of what it reads."""
        answers = [_answer(command, folder, environment) for command in self.asks]
        return content_of(folder, self, sorted(GO_SETTINGS.items()), answers)

    def run(self, folder: Path, environment: Mapping[str, str]) -> int:
        """Run it; returns the exit code."""
        settings = {**environment, **dict(self.settings)}
        if not self.silent:
            return subprocess.run(self.command, cwd=folder, env=settings, check=False).returncode
        done = subprocess.run(self.command, cwd=folder, env=settings, check=False, stdout=subprocess.PIPE, text=True)
        sys.stderr.write(done.stdout)
        return done.returncode or int(bool(done.stdout))


FOR_ALL: Final = (
    Check("gofmt", ("gofmt", "-l", "."), silent=True),
    Check("tidy", ("go", "mod", "tidy", "-diff")),
    Check("vet", ("go", "vet", "-p=2", "./...")),
    # `go tool staticcheck` takes no flags of the compiler from GOFLAGS, and compiles the standard library once more.
    Check("staticcheck", ("go", "run", "honnef.co/go/tools/cmd/staticcheck", "./...")),
)
_TEST: Final[Command] = ("go", "test", "-p=2", "-vet=off")
_INSTRUMENTED: Final = (("CGO_ENABLED", "1"),)
_WITH_C: Final = (GO_VERSION, C_COMPILER)
_PROGRAMS: Final[Command] = ("go", "test", "-p=1", "-vet=off", "-count=1", "-timeout=60m", "./cmd/scavenger-snapshot")

PARTS: Final[Mapping[str, Mapping[str, Sequence[Check]]]] = {
    "services/scheduler": {
        "gate": (*FOR_ALL, Check("tests", (*_TEST, "-timeout=15m", "./..."))),
        "race": (Check("race", (*_TEST, "-race", "-timeout=15m", "./..."), _INSTRUMENTED, _WITH_C),),
    },
    "snapshot": {
        "gate": (
            *FOR_ALL,
            Check("tests", (*_TEST, "-timeout=10m", "./pkg/...")),
            Check("programs", _PROGRAMS, asks=(GO_VERSION, *MACHINE)),
        ),
        # Only what decides: the race detector cannot follow gVisor's kernel.
        "race": (
            Check(
                "race", (*_TEST, "-race", "-timeout=10m", "./pkg/generation", "./pkg/keeper"), _INSTRUMENTED, _WITH_C
            ),
        ),
        "long": (
            Check("long", _PROGRAMS, (("SNAPSHOT_INTERRUPTIONS", "20"),), asks=(GO_VERSION, *MACHINE, *MORE_PROGRAMS)),
        ),
    },
}
"""What runs of each module, in this order, up to the first that fails."""


def environment(go: Go) -> dict[str, str]:
    """The environment of all checks: that of the build, with the same Go in front for gofmt."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN_VARIABLES)}
    path = os.pathsep.join([str(Path(go.program).parent), os.environ.get("PATH", "")])
    return {**kept, **GO_SETTINGS, "PATH": path}


def verify(module: str, checks: Iterable[Check], *, again: bool, root: Path = ROOT) -> int:
    """Run checks of a module of the checkout at `root`; returns the exit code of the first that fails.

    MissingRequirementError where there is no Go that is new enough.
    """
    settings, folder = environment(Go.find()), root / module
    for check in checks:
        code = run_once(
            f"{module} {check.name}",
            partial(check.content, folder, settings),
            partial(check.run, folder, settings),
            again=again,
        )
        if code:
            sys.stderr.write(f"{module} {check.name}: failed\n")
            return code
    return 0


def _answer(command: Command, folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    try:
        done = subprocess.run(command, cwd=folder, env=dict(environment), capture_output=True, text=True, check=False)
    except OSError as error:
        return 127, type(error).__name__
    return done.returncode, done.stdout + done.stderr


def main(words: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", choices=sorted(PARTS))
    parser.add_argument("part", nargs="?", default="gate", choices=["gate", "race", "long"])
    parser.add_argument("--again", action="store_true", help="run what has passed before as well; or AGAIN=1")
    options = parser.parse_args(words)
    if options.part not in PARTS[options.module]:
        parser.error(f"{options.module} has no part {options.part}: {', '.join(PARTS[options.module])}")
    try:
        checks = PARTS[options.module][options.part]
        return verify(options.module, checks, again=options.again or bool(os.environ.get("AGAIN")))
    except MissingRequirementError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
